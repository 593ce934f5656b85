"""Proposals: each draws a new state, and returns the log q ratio of the move if a test needs it."""

from approxmcmc.proposals.adaptive_direction import AdaptiveDirection
from approxmcmc.proposals.crank_nicolson import Independence, PreconditionedCrankNicolson
from approxmcmc.proposals.fisher_scoring import StochasticGradientFisherScoring
from approxmcmc.proposals.hamiltonian import Hamiltonian
from approxmcmc.proposals.langevin import Langevin
from approxmcmc.proposals.mixture import Mixture
from approxmcmc.proposals.random_walk import RandomWalk
from approxmcmc.proposals.single_site import SingleSite
from approxmcmc.proposals.stochastic_gradient_hamiltonian import StochasticGradientHamiltonian
from approxmcmc.proposals.stochastic_gradient_langevin import DecreasingStep, StochasticGradientLangevin
from approxmcmc.proposals.stochastic_gradient_nose_hoover import StochasticGradientNoseHoover
from approxmcmc.proposals.stochastic_gradient_zigzag import StochasticGradientZigZag

__all__ = [
    "AdaptiveDirection",
    "DecreasingStep",
    "Hamiltonian",
    "Independence",
    "Langevin",
    "Mixture",
    "PreconditionedCrankNicolson",
    "RandomWalk",
    "SingleSite",
    "StochasticGradientFisherScoring",
    "StochasticGradientHamiltonian",
    "StochasticGradientLangevin",
    "StochasticGradientNoseHoover",
    "StochasticGradientZigZag",
]
