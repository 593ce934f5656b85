"""Gold standards by NUTS against the closed form of a conjugate model.

Linear regression with known noise and two coefficients: theta ~ N(m, S), y ~ N(X theta, I), so the posterior is normal
with precision P = S^-1 + X'X and mean P^-1 (S^-1 m + X'y). Prior and data weigh about the same, so losing either shows.

false_fail: a draw that passed the gates has an effective sample size of 10 000 or more for the mean, so its standard
error is at most .01 sd, and 5 of them are TOLERANCE = .05 sd: 5.7e-7 for each of 2 means and 2 second moments (whose
relative standard error sqrt(2 / ESS) is allowed 5 times with an ESS of 5000), 2.3e-6 in all.
false_pass: a mean that is off by .1 sd, or a variance off by a fifth, passes with probability below 1e-6.
"""

import numpy as np
import pytest

from approxmcmc.contracts import TwinnedTarget, content_hash
from approxmcmc.reference import GateReport, reference_posterior

TOLERANCE = 0.05
PRIOR_MEAN = np.array([1.0, -1.0])
PRIOR_PRECISION = np.array([[3.0, 1.0], [1.0, 2.0]])
X = np.array([[1.0, 0.5], [1.0, -0.5], [1.0, 1.5]])
Y = np.array([0.2, 1.0, -0.3])


def closed_form(prior_precision=PRIOR_PRECISION, X=X):
    covariance = np.linalg.inv(prior_precision + X.T @ X)
    return covariance @ (prior_precision @ PRIOR_MEAN + X.T @ Y[: len(X)]), covariance


class Conjugate(TwinnedTarget):
    def content_hash(self):
        return content_hash(PRIOR_MEAN, PRIOR_PRECISION, X, Y)

    def to_pymc(self):
        import pymc as pm

        with pm.Model(coords={"coef": ["intercept", "slope"]}) as model:
            theta = pm.MvNormal("theta", PRIOR_MEAN, tau=PRIOR_PRECISION, dims="coef")
            pm.Normal("y", X @ theta, np.array(1.0), observed=Y)
        return model


def test_a_lost_prior_or_a_lost_row_would_show():
    mean, covariance = closed_form()
    sd = np.sqrt(np.diag(covariance))
    for broken in (closed_form(prior_precision=1e-9 * np.eye(2)), closed_form(X=X[:2])):
        mean_shift = np.abs((broken[0] - mean) / sd).max()
        variance_ratio = np.diag(broken[1]) / np.diag(covariance)
        assert mean_shift > 2 * TOLERANCE
        assert variance_ratio.max() > 1.2


@pytest.mark.statistical
@pytest.mark.needs_jit
def test_nuts_agrees_with_the_closed_form(seed, tmp_path):
    reference = reference_posterior(Conjugate(), random_seed=seed, cache_dir=tmp_path, cores=1)
    report = GateReport.from_json(reference["posterior"].attrs["gates"])
    mean, covariance = closed_form()
    sd = np.sqrt(np.diag(covariance))
    moments = reference["reference_moments"]["theta"]
    assert report.passed
    assert (moments.sel(moment="mcse") <= 0.01 * moments.sel(moment="sd")).all()
    assert (np.abs(moments.sel(moment="mean") - mean) < TOLERANCE * sd).all()
    second_moment = ((reference["posterior"]["theta"] - mean) ** 2).mean(("chain", "draw"))
    assert (np.abs(second_moment / sd**2 - 1.0) < 5 * np.sqrt(2 / 5000)).all()
    assert list(moments.coords["coef"].to_numpy()) == ["intercept", "slope"]
