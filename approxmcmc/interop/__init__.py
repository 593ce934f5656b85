"""Models written elsewhere, as targets; `pymc` is imported only where it is needed."""
