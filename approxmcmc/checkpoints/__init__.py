"""Checkpoints: when a run is saved, the tables of its file, and the book that compares arguments with the file."""
