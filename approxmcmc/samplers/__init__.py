"""How target, proposal and test make one step. One sampler per file; names from the literature in `presets`."""

from approxmcmc.samplers.exchange import Exchange
from approxmcmc.samplers.firefly import Firefly
from approxmcmc.samplers.firefly_slice import Slice
from approxmcmc.samplers.firefly_z import ExplicitZ, ImplicitZ
from approxmcmc.samplers.gibbs import Gibbs
from approxmcmc.samplers.gibbs_replication import realised_conditional
from approxmcmc.samplers.mala_exchange import MALAExchange
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings
from approxmcmc.samplers.noisy_langevin import NoisyLangevin
from approxmcmc.samplers.noisy_metropolis_hastings import NoisyMetropolisHastings
from approxmcmc.samplers.pseudo_marginal import PseudoMarginal
from approxmcmc.samplers.stochastic_approximation import robbins_monro

__all__ = [
    "Exchange",
    "ExplicitZ",
    "Firefly",
    "Gibbs",
    "ImplicitZ",
    "MALAExchange",
    "MetropolisHastings",
    "NoisyLangevin",
    "NoisyMetropolisHastings",
    "PseudoMarginal",
    "Slice",
    "realised_conditional",
    "robbins_monro",
]
