"""The base of all other subpackages: files, the compiler, and the terms of a likelihood; also checks and messages."""
