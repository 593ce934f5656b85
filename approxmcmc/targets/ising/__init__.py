"""The Ising model: the target, its exact normaliser, and exact and Markov chain simulators."""

from approxmcmc.targets.ising.ising import Ising

__all__ = ["Ising"]
