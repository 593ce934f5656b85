"""Samplers of other libraries, one file for each library, as cells of a study.

Each takes a target, a time limit, a number of draws, a seed and a start, and returns one chain with the seconds of each
draw, of warm-up and of compilation (`approxmcmc.contracts.ForeignSampler`). All but `LaplaceApproximation` use the
target's PyMC model, either directly (`twin`) or translated to JAX (`jax_chain.density_of`). The libraries are imported
when a chain is drawn; if one is missing, the error says how to install it.
"""

from approxmcmc.contracts import ForeignSampler
from approxmcmc.whole_chains.approximation import BlackjaxPathfinder, LaplaceApproximation
from approxmcmc.whole_chains.blackjax import (
    BlackjaxMCLMC,
    BlackjaxNUTS,
    BlackjaxSGHMC,
    BlackjaxSGLD,
)
from approxmcmc.whole_chains.numpyro import NumPyroADVI, NumPyroHMCECS, NumPyroNUTS
from approxmcmc.whole_chains.pymc import NutpieNUTS, PyMCADVI, PyMCNUTS, PyMCPathfinder
from approxmcmc.whole_chains.settings import NUTS
from approxmcmc.whole_chains.trace import chain_trace

__all__ = [
    "NUTS",
    "BlackjaxMCLMC",
    "BlackjaxNUTS",
    "BlackjaxPathfinder",
    "BlackjaxSGHMC",
    "BlackjaxSGLD",
    "ForeignSampler",
    "LaplaceApproximation",
    "NumPyroADVI",
    "NumPyroHMCECS",
    "NumPyroNUTS",
    "NutpieNUTS",
    "PyMCADVI",
    "PyMCNUTS",
    "PyMCPathfinder",
    "chain_trace",
]
