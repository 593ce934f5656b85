"""Targets whose terms Python functions compute, a batch of rows at a time: models in NumPy, JAX and PyTorch."""
