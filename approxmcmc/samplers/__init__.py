"""How target, proposal and test make one step. One sampler per file; names from the literature in `presets`."""

from approxmcmc.samplers.metropolis_hastings import MetropolisHastings

__all__ = ["MetropolisHastings"]
