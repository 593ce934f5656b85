"""Acceptance tests, one per file, and the mathematics of their errors."""

from approxmcmc.acceptance.always import AlwaysAccept
from approxmcmc.acceptance.annealed import AnnealedEpsilon
from approxmcmc.acceptance.annealing_rule import annealing_schedule
from approxmcmc.acceptance.barker import MinibatchBarker
from approxmcmc.acceptance.bernstein import BernsteinTest
from approxmcmc.acceptance.delayed import DelayedAcceptance, FactorizedTest
from approxmcmc.acceptance.exact import ExactTest
from approxmcmc.acceptance.laws.barker_law import minibatch_barker_error_bound
from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error, sequential_test_error
from approxmcmc.acceptance.poisson import CheapestExactTest, PoissonTest, TunaTest
from approxmcmc.acceptance.sequential_t import SequentialTTest

__all__ = [
    "AlwaysAccept",
    "AnnealedEpsilon",
    "BernsteinTest",
    "CheapestExactTest",
    "DelayedAcceptance",
    "ExactTest",
    "FactorizedTest",
    "MinibatchBarker",
    "PoissonTest",
    "SequentialTTest",
    "TunaTest",
    "acceptance_probability_error",
    "annealing_schedule",
    "correction_distribution",
    "minibatch_barker_error_bound",
    "sequential_test_error",
]
