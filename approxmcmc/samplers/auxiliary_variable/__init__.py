"""Auxiliary-variable samplers: an acceptance ratio, or a drift, is estimated from random draws.

`Exchange` with one auxiliary draw and `PseudoMarginal` are exact; the noisy Monte Carlo family (several draws, stale or
inexact ones) is biased.
"""

from approxmcmc.samplers.auxiliary_variable.settings import (
    Exchange,
    MALAExchange,
    NoisyLangevin,
    NoisyMetropolisHastings,
    PseudoMarginal,
)

__all__ = ["Exchange", "MALAExchange", "NoisyLangevin", "NoisyMetropolisHastings", "PseudoMarginal"]
