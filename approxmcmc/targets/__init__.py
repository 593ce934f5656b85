"""Posterior distributions. One model per file; a user's own model is `Target` or `GLMTarget`."""

from approxmcmc.targets.bayesian_network import BayesianNetwork, alarm_network
from approxmcmc.targets.binary_mrf import BinaryMRF
from approxmcmc.targets.linear import GLMTarget, LogisticRegression
from approxmcmc.targets.mixture import GaussianMixture
from approxmcmc.targets.user import Target

__all__ = [
    "BayesianNetwork",
    "BinaryMRF",
    "GLMTarget",
    "GaussianMixture",
    "LogisticRegression",
    "Target",
    "alarm_network",
]
