"""Where to go, and with what log q-ratio? One proposal per file."""

from approxmcmc.proposals.random_walk import RandomWalk
from approxmcmc.proposals.single_site import SingleSite

__all__ = ["RandomWalk", "SingleSite"]
