"""Expansions of the terms of a target around a point, and which rows no quadratic replaces well."""
