"""Gibbs sampling of discrete targets: the sampler and its compiled sweep."""

from approxmcmc.samplers.gibbs.gibbs import Gibbs
from approxmcmc.samplers.gibbs.poisson_gibbs import PoissonGibbs

__all__ = ["Gibbs", "PoissonGibbs"]
