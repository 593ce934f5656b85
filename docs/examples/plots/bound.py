"""
Distance and its bounds
=======================

On a small model two numbers can be compared: the distance of an approximate Gibbs sampler's stationary distribution
from the posterior, and the upper bounds of the theorems. The interval of the distance must reach below every bound.
"""

import approxmcmc as amc

field = amc.targets.BinaryMRF.random_triples(6, scale=0.3, random_seed=0)
check = amc.check_bound(
    field,
    amc.Gibbs(amc.SequentialTTest(0.1, 5)),
    epsilons=[0.01, 0.03, 0.1, 0.3],
    draws=20_000,
    chains=2,
    random_seed=1,
    progressbar=False,
)

amc.plot_bound(check)
