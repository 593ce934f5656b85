"""What all stand on: files, then the compiler, then the terms of a likelihood; beside them checks and messages."""
