"""
Risk against time
=================

Risk is bias² + variance of an estimate after so many seconds. The line of an exact sampler falls without end; that
of a biased one levels off at its squared bias. On five thousand rows the biased sampler gains little time either: a
step that reads all rows is nearly as fast. Here an exact chain with independent proposals is the gold standard; for
your own data use :func:`approxmcmc.reference_posterior`.
"""

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
fit = amc.laplace(target)
gold = amc.sample(
    target,
    amc.MetropolisHastings(amc.proposals.Independence(fit), amc.ExactTest()),
    draws=4000,
    tune=50,
    random_seed=2,
    progressbar=False,
)
runs = {
    name: amc.sample(
        target,
        amc.MetropolisHastings(amc.RandomWalk(0.04), test),
        draws=8000,
        tune=300,
        chains=4,
        random_seed=1,
        progressbar=False,
    )
    for name, test in {
        "exact": amc.ExactTest(),
        "t-test, epsilon = 0.2": amc.SequentialTTest(epsilon=0.2, batch_size=300),
    }.items()
}

amc.plot_risk(
    {name: amc.risk(run, gold, n_bootstrap=200) for name, run in runs.items()},
    coords={"estimand": ["beta[x1]", "beta[x2]"]},
)
