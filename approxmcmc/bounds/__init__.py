"""Whether the stationary law of an approximate sampler is as close to the posterior as the theory says.

``exact`` answers on transition matrices, ``transition_matrix`` builds those of our samplers, ``estimate_delta``
measures the one-step error of a real sampler, ``couplings`` how fast the exact chain forgets its start, and
``check_bound`` puts them together. Every number carries its label: rigorous, heuristic, not applicable, vacuous.
"""

from approxmcmc.bounds.check import check_bound, check_table
from approxmcmc.bounds.coupling import coupling_bound, couplings
from approxmcmc.bounds.delta import estimate_delta
from approxmcmc.bounds.statements import exact, mitrophanov_factor
from approxmcmc.bounds.transition import transition_matrix
from approxmcmc.design.annealing import plan_annealing
from approxmcmc.design.sequential_test import design_test

__all__ = [
    "check_bound",
    "check_table",
    "coupling_bound",
    "couplings",
    "design_test",
    "estimate_delta",
    "exact",
    "mitrophanov_factor",
    "plan_annealing",
    "transition_matrix",
]
