"""Gibbs sampling of discrete targets: the samplers and their compiled sweep."""

from approxmcmc.samplers.gibbs.settings import Gibbs, PoissonGibbs

__all__ = ["Gibbs", "PoissonGibbs"]
