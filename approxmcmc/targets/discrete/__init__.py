"""Targets over discrete sites, and the tables that they are made of."""

from approxmcmc.targets.discrete.bayesian_network import BayesianNetwork, alarm_network
from approxmcmc.targets.discrete.binary_mrf import BinaryMRF, PseudoLikelihood

__all__ = ["BayesianNetwork", "BinaryMRF", "PseudoLikelihood", "alarm_network"]
