"""Gibbs sampling of discrete targets: the sampler and its compiled sweep."""

from approxmcmc.samplers.gibbs.poisson_gibbs import PoissonGibbs
from approxmcmc.samplers.gibbs.settings import Gibbs

__all__ = ["Gibbs", "PoissonGibbs"]
