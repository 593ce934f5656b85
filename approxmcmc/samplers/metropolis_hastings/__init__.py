"""Metropolis-Hastings: the sampler, its step and its program."""

from approxmcmc.samplers.metropolis_hastings.settings import MetropolisHastings

__all__ = ["MetropolisHastings"]
