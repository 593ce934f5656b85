"""From a compiled sampler to plain arrays: starting points, chunks, threads, time limits, progress."""
