"""Piecewise deterministic Markov processes on few rows: straight flights, and events that read one row of the data."""

from approxmcmc.samplers.pdmp.settings import BouncyParticle, ZigZag

__all__ = ["BouncyParticle", "ZigZag"]
