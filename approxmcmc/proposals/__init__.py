"""Where to go, and with what log q-ratio? One proposal per file."""

from approxmcmc.proposals.random_walk import RandomWalk

__all__ = ["RandomWalk"]
