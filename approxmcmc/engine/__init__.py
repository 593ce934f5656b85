"""Compiled code: binding parts into templates, the disk cache, random streams, clock, numerics, moments, data order."""
