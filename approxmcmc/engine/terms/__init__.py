"""The terms of a likelihood: batches of them, their moments, the order in which they are read, passes over all."""
