"""The compiler: templates bound to their parts, kernels named by their content and kept on disk, what kernels call."""
