"""Coupled chains of exact kernels, and the bias of a run estimated from them without a gold standard.

`meeting` is the loop of two chains until they meet; a sampler provides the step of both (`Sampler.coupling`), `finite`
that of a transition matrix. `bias` starts such chains from audited draws; `debias` subtracts the estimated bias.
"""

from approxmcmc.couplings.debiasing import debias
from approxmcmc.couplings.estimate import bias

__all__ = ["bias", "debias"]
