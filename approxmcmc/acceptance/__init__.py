"""Above the threshold, after how many terms? One acceptance test per file, and the mathematics of their errors."""

from approxmcmc.acceptance.always import AlwaysAccept
from approxmcmc.acceptance.annealed import AnnealedEpsilon
from approxmcmc.acceptance.barker import MinibatchBarker
from approxmcmc.acceptance.bernstein import BernsteinTest
from approxmcmc.acceptance.exact import ExactTest
from approxmcmc.acceptance.sequential_t import SequentialTTest

__all__ = ["AlwaysAccept", "AnnealedEpsilon", "BernsteinTest", "ExactTest", "MinibatchBarker", "SequentialTTest"]
