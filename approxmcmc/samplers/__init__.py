"""How target, proposal and test make one step. One sampler per file; names from the literature in `presets`."""

from approxmcmc.samplers.gibbs import Gibbs
from approxmcmc.samplers.gibbs_replication import realised_conditional
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings

__all__ = ["Gibbs", "MetropolisHastings", "realised_conditional"]
