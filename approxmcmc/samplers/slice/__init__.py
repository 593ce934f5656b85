"""Slice sampling along lines: of a joint density inside Firefly, or of a posterior with an acceptance test."""

from approxmcmc.samplers.slice.line import Slice
from approxmcmc.samplers.slice.sampler import SliceSampler

__all__ = ["Slice", "SliceSampler"]
