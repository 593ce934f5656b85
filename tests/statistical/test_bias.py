"""`bias` on a posterior that is known: both forms find the bias of a long chain."""

import arviz as az
import numpy as np
import pytest

import approxmcmc as amc
from tests.models import normal_mean

pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")]
N = 200


def test_both_forms_find_the_bias():
    """Within 5 standard errors, false fail 4 x 6e-7; that of the square is over 10 of them, so that a sign error or
    a factor of two would show."""
    target = normal_mean(N)
    x = np.random.default_rng(0).normal(size=N)
    mean, variance = (4.0 + x.sum()) / (4.0 + N), 1.0 / (4.0 + N)
    test = amc.SequentialTTest(0.3, batch_size=20)
    sampler = amc.MetropolisHastings(amc.RandomWalk(2.4 * variance**0.5), test)
    run = amc.sample(
        target, sampler, draws=100_000, tune=100, chains=2, random_seed=1, progressbar=False, audit_every=None
    )
    square = (run["posterior"].dataset - float(run["posterior"]["mu"].mean())) ** 2
    noise = [float(az.mcse(each, method="mean")["mu"]) for each in (run["posterior"].dataset, square)]
    drawn = float(run["posterior"]["mu"].mean())
    truth = [drawn - mean, float(square["mu"].mean()) - (variance + (mean - drawn) ** 2)]
    for form, n_audits in (("audit", 4000), ("drift", 8000)):
        found = amc.bias(run, target, sampler, form=form, n_audits=n_audits, random_seed=1)
        for k in range(2):
            error = np.hypot(noise[k], float(found.bias_upper[k] - found.bias[k]) / 1.96)
            assert abs(float(found.bias[k]) - truth[k]) < 5.0 * error
        if form == "audit":
            assert abs(truth[1]) > 10.0 * error
        assert int(found.unmet) == 0
