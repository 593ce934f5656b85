"""The mathematics of the acceptance tests: looks, recursions, corrections and error bounds."""
