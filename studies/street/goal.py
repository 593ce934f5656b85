"""The goal of the street: at most `TIMES` times nutpie's seconds plus `SECONDS`."""

TIMES = 1.2
SECONDS = 2.0
ENOUGH = 400.0  # effective draws, bulk and tail, of the worst parameter
