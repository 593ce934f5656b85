"""Samplers that make whole chains: NUTS of nutpie and PyMC, and those of blackjax, numpyro and others, one file each.

A `WholeSampler` (`contracts.whole`) draws all chains of a run, and `runs` makes their trace, as of any other sampler.
`settings` holds `NUTS`, `run` what its two libraries share, `by_nutpie` and `by_pymc` the two of them. All others are
`ChainSampler`s: they take a target, a time limit, a number of draws, a seed and a start, and return one chain with the
seconds of each draw, of warm-up and of compilation. All but `LaplaceApproximation` use the target's PyMC model, either
directly (`twin`) or translated to JAX (`jax_chain.density_of`). The libraries are imported when a chain is drawn; if
one is missing, the error says how to install it.
"""

from approxmcmc.whole_chains.approximation import BlackjaxPathfinder, LaplaceApproximation
from approxmcmc.whole_chains.blackjax import (
    BlackjaxMCLMC,
    BlackjaxNUTS,
    BlackjaxSGHMC,
    BlackjaxSGLD,
)
from approxmcmc.whole_chains.chain_by_chain import ChainSampler
from approxmcmc.whole_chains.numpyro import NumPyroADVI, NumPyroHMCECS, NumPyroNUTS
from approxmcmc.whole_chains.pymc import PyMCADVI, PyMCPathfinder
from approxmcmc.whole_chains.settings import NUTS
from approxmcmc.whole_chains.trace import chain_trace

__all__ = [
    "NUTS",
    "BlackjaxMCLMC",
    "BlackjaxNUTS",
    "BlackjaxPathfinder",
    "BlackjaxSGHMC",
    "BlackjaxSGLD",
    "ChainSampler",
    "LaplaceApproximation",
    "NumPyroADVI",
    "NumPyroHMCECS",
    "NumPyroNUTS",
    "PyMCADVI",
    "PyMCPathfinder",
    "chain_trace",
]
