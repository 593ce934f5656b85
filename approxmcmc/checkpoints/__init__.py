"""Checkpoints: when a run is written down, the tables of its file, and the book that knows what was asked for."""
