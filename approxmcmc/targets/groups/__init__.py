"""Targets with one term for each group of rows, because the effects of each group are integrated out."""
