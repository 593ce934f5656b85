"""Targets whose terms are groups of rows: what is peculiar to a group has been integrated out."""
