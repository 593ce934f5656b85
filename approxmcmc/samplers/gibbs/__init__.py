"""Gibbs sampling of discrete targets: the sampler and its compiled sweep."""

from approxmcmc.samplers.gibbs.gibbs import Gibbs

__all__ = ["Gibbs"]
