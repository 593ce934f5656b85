"""Effects of groups found in PyMC models as written, so that they are integrated out: a term is a group."""
