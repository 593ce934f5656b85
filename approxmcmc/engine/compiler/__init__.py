"""The compiler: templates with their parts, kernels cached on disk by content, functions that kernels call."""
