"""Checkpoints: when a run is saved, the tables of its file, and the file that compares its settings with arguments."""
