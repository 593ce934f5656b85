"""Piecewise deterministic Markov processes on few rows: straight flights, and events that read one row of the data."""

from approxmcmc.samplers.pdmp.bouncy_particle import BouncyParticle
from approxmcmc.samplers.pdmp.zigzag import ZigZag

__all__ = ["BouncyParticle", "ZigZag"]
