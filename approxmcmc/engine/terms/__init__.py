"""The terms of a likelihood: batches of them, their moments, the order of reading, passes over all."""
