"""Files: where they lie, whole or not at all, whose they are, and arrays in them."""
