"""From plain arrays to traces: the schema of the per-step records, the DataTree, and its file."""

from approxmcmc.output.datatree import build_trace
from approxmcmc.output.saved import load, save
from approxmcmc.output.schema import SAMPLE_STATS, StatVariable

__all__ = ["SAMPLE_STATS", "StatVariable", "build_trace", "load", "save"]
