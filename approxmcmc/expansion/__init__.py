"""Second-order expansions of terms around a point, with the passes over all rows that they take; no public names."""
