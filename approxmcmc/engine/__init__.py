"""The base of all rooms: files, the compiler, and the terms of a likelihood; also checks and messages."""
