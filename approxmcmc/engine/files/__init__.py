"""Files: paths, atomic writes, ownership, and arrays in files."""
