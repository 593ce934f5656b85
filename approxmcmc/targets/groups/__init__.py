"""Targets with groups of rows as terms: the effects of each group are integrated out."""
