"""Models written elsewhere, as targets; `pymc` is imported by who needs it."""
