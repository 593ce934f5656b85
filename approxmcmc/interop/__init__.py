"""Make targets of models written in PyMC or Bambi; `pymc` is imported only when it is needed."""
