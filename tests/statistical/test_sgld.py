"""Compiled Langevin chains have the variances that theory gives them.

False alarms: every assertion is a 5-sigma one, 5.7e-7 each, 18 assertions, 1e-5 for the file. Power: standard errors
are below 1 % of a variance where the smallest bug must be seen (factor 1 - n/N of sampling without replacement
forgotten: 7 %), and below 2 % elsewhere, where bugs are a factor (drift alpha; noise 2 alpha; temperature): asserted.
"""

import numpy as np
import pytest

import approxmcmc as amc
from tests import langevin as book
from tests.models import logistic

pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit]
DRAWS, THIN, CHAINS = 40_000, 10, 4  # steps: 1.6 million


def variance(target, proposal, test, seed, *, draws=DRAWS):
    """Return the variance of the draws about their known mean and its standard error, coordinates pooled.

    The standard error is from the autocorrelation of an AR(1) process at the lag of one draw, measured.
    """
    trace = amc.sample(
        target, amc.MetropolisHastings(proposal, test), draws=draws, tune=2000, thin=THIN, chains=CHAINS,
        random_seed=seed, audit_every=None, progressbar=False,
    )  # fmt: skip
    x = trace.posterior["theta"].values
    x = x - target.data[0].sum(axis=0) / (target.n_obs + 0.01)
    found = (x**2).mean()
    lag = float((x[:, 1:] * x[:, :-1]).mean() / found)
    inflation = (1.0 + lag**2) / (1.0 - lag**2)
    return found, found * np.sqrt(2.0 * inflation / x.size)


N, A, V = 100, 100.01, 100.0**2 / 10 * (1 - 10 / 100)


@pytest.mark.parametrize(("alpha", "ratio"), [(0.01, 4.33348), (0.002, 1.52632)])
def test_stationary_variance_of_sgld(alpha, ratio, seed):
    found, error = variance(
        book.normal_means(N), amc.proposals.StochasticGradientLangevin(alpha, 10), amc.acceptance.AlwaysAccept(), seed
    )
    assert abs(A * found - ratio) < 5.0 * A * error
    assert A * error < 0.01 * ratio


@pytest.mark.parametrize("alpha", [0.01, 0.005])
def test_without_gradient_noise_the_bias_is_that_of_the_step(alpha, seed):
    target, exact = book.normal_means(N), 1.0 / (1.0 - alpha * A / 4.0)
    anchored = amc.proposals.StochasticGradientLangevin(
        alpha, 10, control_variate=[0.5]
    )  # gradients differ by one constant: V = 0
    for proposal in (amc.Langevin(alpha), anchored):
        found, error = variance(target, proposal, amc.acceptance.AlwaysAccept(), seed)
        assert abs(A * found - exact) < 5.0 * A * error


@pytest.mark.parametrize("dim", [1, 4, 20])
@pytest.mark.parametrize("kind", ["unadjusted", "MALA", "corrected SGLD"])
def test_standard_normal_at_any_dimension(dim, kind, seed):
    target, alpha = book.normal_means(N, dim), 0.2 / A
    proposal, test, expected = {
        "unadjusted": (amc.Langevin(alpha), amc.acceptance.AlwaysAccept(), 1.0 / (1.0 - alpha * A / 4.0)),
        "MALA": (amc.Langevin(4.0 * alpha), amc.ExactTest(), 1.0),
        "corrected SGLD": (amc.proposals.StochasticGradientLangevin(alpha, 50), amc.ExactTest(), 1.0),
    }[kind]
    found, error = variance(target, proposal, test, seed, draws=5000)
    # Rejections make the chain unlike an AR(1) process: twice the standard error.
    assert abs(A * found - expected) < 5.0 * A * error * (1.0 if kind == "unadjusted" else 2.0)
    assert A * error < 0.02


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_fisher_scoring_is_right_at_any_step(alpha, seed):
    found, error = variance(
        book.normal_means(N),
        amc.proposals.StochasticGradientFisherScoring(alpha, 10),
        amc.acceptance.AlwaysAccept(),
        seed,
    )
    assert abs(A * found - 1.0) < 5.0 * A * error + 2e-4  # the prior's 0.01 of 100.01 is not in the information


def test_control_variates_reduce_the_error_of_the_variance(seed):
    target, settings = logistic(2000), {"draws": 20_000, "tune": 2000, "thin": 5, "chains": 4, "progressbar": False}
    fit = amc.laplace(target)
    errors = {}
    for name, anchor in (("plain", None), ("control variate", fit)):
        proposal = amc.proposals.StochasticGradientLangevin(0.2, 100, preconditioner=fit, control_variate=anchor)
        trace = amc.sample(
            target, amc.MetropolisHastings(proposal, amc.acceptance.AlwaysAccept()), random_seed=seed, **settings
        )  # fmt: skip
        draws = trace.posterior["beta"].values.reshape(-1, 3)
        errors[name] = abs(draws.var(axis=0) / fit.sd**2 - 1.0).mean()
    # Theory: plain 1 + alpha V / 4 = 2 with N / n = 20; control variates 1 / (1 - alpha / 4) = 1.05.
    assert errors["plain"] > 0.5
    assert errors["control variate"] < 0.2
