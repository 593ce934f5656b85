"""Expand the terms of a target around a point, and find the rows that no quadratic approximates well."""
