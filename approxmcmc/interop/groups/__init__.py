"""Find the effects of groups in PyMC models and integrate them out, so that a term is a group."""
