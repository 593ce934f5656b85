"""Slice sampling along lines: of a joint density inside Firefly, or of a posterior with an acceptance test."""

from approxmcmc.samplers.slice.settings import Slice, SliceSampler

__all__ = ["Slice", "SliceSampler"]
