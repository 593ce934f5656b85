"""
Distance beside its bounds
==========================

On a small model both can be had: how far the law of an approximate Gibbs sampler is from the posterior, and what
the theorems say it is at most. The interval of the distance must reach below every bound.
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
