"""Samplers: each makes a step from a target and, for example, a proposal and a test."""

from approxmcmc.samplers.auxiliary_variable import (
    Exchange,
    MALAExchange,
    NoisyLangevin,
    NoisyMetropolisHastings,
    PseudoMarginal,
)
from approxmcmc.samplers.firefly import ExplicitResampling, Firefly, ImplicitResampling
from approxmcmc.samplers.gibbs import Gibbs, PoissonGibbs
from approxmcmc.samplers.gibbs.replication import realised_conditional
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings
from approxmcmc.samplers.pdmp import BouncyParticle, ZigZag
from approxmcmc.samplers.slice import Slice, SliceSampler

__all__ = [
    "BouncyParticle",
    "Exchange",
    "ExplicitResampling",
    "Firefly",
    "Gibbs",
    "ImplicitResampling",
    "MALAExchange",
    "MetropolisHastings",
    "NoisyLangevin",
    "NoisyMetropolisHastings",
    "PoissonGibbs",
    "PseudoMarginal",
    "Slice",
    "SliceSampler",
    "ZigZag",
    "realised_conditional",
]
