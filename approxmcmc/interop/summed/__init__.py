"""Sum discrete variables with an entry for each row, or each group of rows, out of PyMC models."""
