"""Check whether the stationary distribution of an approximate sampler is as close to the posterior as theory says.

``exact`` computes bounds from transition matrices, ``transition_matrix`` computes the matrix of a sampler,
``estimate_delta`` measures the one-step error of a real sampler, ``couplings`` how fast the exact chain forgets its
start, and ``check_bound`` combines them. Their bounds are labelled rigorous, given premises, heuristic, not applicable
or vacuous. Bounds that exist on R^d follow wrong decisions by coupled chains (``perturbation``), and measure how an
exact chain contracts a Wasserstein distance (``contraction``). ``over_time`` bounds the distributions after every
number of steps, ``long_run_risk`` shows which setting is best at a budget. The theory of Noisy Monte Carlo, with its
constants, is in ``noisy_exchange_errors``, ``uniform_exchange_bound``, ``first_difference``, ``noisy_langevin_errors``,
``hoeffding_langevin_bound`` and ``langevin_drift``.
"""

from approxmcmc.bounds.check import check_bound, check_table
from approxmcmc.bounds.coupling import coupling_bound, couplings
from approxmcmc.bounds.delta import estimate_delta
from approxmcmc.bounds.finite import transition_matrix
from approxmcmc.bounds.followed import perturbation
from approxmcmc.bounds.long_run import long_run_risk
from approxmcmc.bounds.noisy_exchange import noisy_exchange_errors, uniform_exchange_bound
from approxmcmc.bounds.noisy_langevin import (
    hoeffding_langevin_bound,
    langevin_drift,
    langevin_matrix,
    noisy_langevin_errors,
)
from approxmcmc.bounds.over_time import first_difference, over_time
from approxmcmc.bounds.statements import exact, mitrophanov_factor
from approxmcmc.bounds.wasserstein import contraction

__all__ = [
    "check_bound",
    "check_table",
    "contraction",
    "coupling_bound",
    "couplings",
    "estimate_delta",
    "exact",
    "first_difference",
    "hoeffding_langevin_bound",
    "langevin_drift",
    "langevin_matrix",
    "long_run_risk",
    "mitrophanov_factor",
    "noisy_exchange_errors",
    "noisy_langevin_errors",
    "over_time",
    "perturbation",
    "transition_matrix",
    "uniform_exchange_bound",
]
