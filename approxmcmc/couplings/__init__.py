"""Coupled chains of exact kernels, and the bias of a run that they tell without a gold standard.

`meeting` is the loop of two chains until they meet; a sampler brings the step of both (`Sampler.coupling`), `finite`
that of a transition matrix. `bias` launches such chains from audited draws; `debias` takes off what they found.
"""

from approxmcmc.couplings.debiasing import debias
from approxmcmc.couplings.estimate import bias

__all__ = ["bias", "debias"]
