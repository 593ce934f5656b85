"""The noisy Monte Carlo family: samplers with an acceptance ratio, or a drift, estimated from random draws."""

from approxmcmc.samplers.noisy.exchange import Exchange
from approxmcmc.samplers.noisy.langevin import MALAExchange, NoisyLangevin
from approxmcmc.samplers.noisy.pseudo_marginal import NoisyMetropolisHastings, PseudoMarginal

__all__ = ["Exchange", "MALAExchange", "NoisyLangevin", "NoisyMetropolisHastings", "PseudoMarginal"]
