"""Coupled chains of exact kernels, and the bias of a run estimated from them without a gold standard.

`meeting` runs two chains until they meet; `Sampler.coupling` gives the joint step of both chains. `bias` starts such
chains from audited draws; `debias` subtracts the estimated bias.
"""

from approxmcmc.couplings.estimate import bias
from approxmcmc.couplings.verdict import debias

__all__ = ["bias", "debias"]
