"""Acceptance tests, one per file, and the mathematics of their errors."""

from approxmcmc.acceptance.always import AlwaysAccept
from approxmcmc.acceptance.annealed import AnnealedEpsilon
from approxmcmc.acceptance.barker import MinibatchBarker
from approxmcmc.acceptance.bernstein import BernsteinTest
from approxmcmc.acceptance.cheapest import CheapestExactTest
from approxmcmc.acceptance.delayed import DelayedAcceptance
from approxmcmc.acceptance.exact import ExactTest
from approxmcmc.acceptance.factorized import FactorizedTest
from approxmcmc.acceptance.poisson import PoissonTest
from approxmcmc.acceptance.sequential_t import SequentialTTest
from approxmcmc.acceptance.tuna import TunaTest

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
]
