"""Control variates of a gold standard: exact for a normal law, unbiased and honest about their error for others."""

import numpy as np
import pytest
import xarray as xr

from approxmcmc.diagnostics import control_variates
from approxmcmc.diagnostics.control_variates import controlled
from approxmcmc.diagnostics.estimands import Layout, evaluate_reference

CHAINS, DRAWS = 4, 600
ROOT = np.array([[2.0, 0.0], [0.6, 1.0]])  # of a covariance
MEAN = np.array([1.0, -2.0])


def normal(seed):
    """Draws of N(MEAN, ROOT ROOT'), and their scores."""
    theta = MEAN + np.random.default_rng(seed).standard_normal((CHAINS, DRAWS, 2)) @ ROOT.T
    return theta, -(theta - MEAN) @ np.linalg.inv(ROOT @ ROOT.T)


SHAPE = 9.0


def log_gamma(seed, draws=DRAWS):
    """Logs of gamma variables, a skew law whose moments are known, and their scores: log pi = a x - exp(x)."""
    theta = np.log(np.random.default_rng(seed).gamma(SHAPE, size=(CHAINS, draws, 1)))
    return theta, SHAPE - np.exp(theta)


def reference_of(theta, scores, at_draw, values=None):
    posterior = xr.Dataset({"x": (("chain", "draw", "k"), theta if values is None else values)})
    dims = ("chain", "at_draw", "parameter")
    found = {"theta": (dims, theta[:, at_draw]), "score": (dims, scores[:, at_draw])}
    return xr.DataTree.from_dict({"posterior": posterior, "scores": xr.Dataset(found, {"at_draw": at_draw})})


def evaluated(reference, function):
    count = reference["posterior/x"].sizes["k"]
    return evaluate_reference("f", function, reference, Layout(tuple(f"f[{k}]" for k in range(count)), ("k",)))


def test_means_and_second_moments_of_a_normal_law_have_no_error_left():
    theta, scores = normal(1)
    products = np.concatenate([theta, theta**2, theta[..., :1] * theta[..., 1:]], axis=2)
    covariance = ROOT @ ROOT.T
    second = covariance + np.outer(MEAN, MEAN)
    expected = [*MEAN, *np.diag(second), second[0, 1]]
    np.testing.assert_allclose(
        controlled(products, theta, scores), np.broadcast_to(expected, products.shape), atol=1e-9
    )


def test_a_wrong_score_is_not_hidden():
    theta, scores = normal(1)
    found = controlled(theta, theta, scores + 0.1)  # planted: E[score] is .1, not 0
    assert np.abs(found.mean(axis=(0, 1)) - MEAN).min() > 0.1


FIRST, SECOND = 2.1406414779556098, 2.1406414779556098**2 + 0.11751201469403141  # by psi(9) and psi'(9)


@pytest.mark.thorough
def test_errors_on_a_skew_law_are_small_and_honest():
    """400 repetitions. False fail 2e-4 (chi-squared); errors too small by a sixth are rejected with power .94."""
    z, gain = [], []
    for seed in range(400):
        theta, scores = log_gamma(seed, 1600)
        powers = np.concatenate([theta, theta**2], axis=2)
        found = evaluated(reference_of(theta, scores, np.arange(1600), powers), lambda posterior: posterior["x"])
        z.append((found.mean - [FIRST, SECOND]) / found.mcse)
        gain.append(found.mcse / (powers.std(axis=(0, 1)) / np.sqrt(theta.size)))
    np.testing.assert_allclose(np.mean(np.square(z), axis=0), 1.0, atol=0.28)
    assert np.abs(np.mean(z, axis=0)).max() < 4.0 / np.sqrt(400)
    assert np.median(gain, axis=0).max() < 0.03


def test_each_coordinate_has_the_smaller_error_of_both_means():
    theta, scores = log_gamma(3)
    few = reference_of(theta, scores, np.arange(0, DRAWS, 6))
    tail = evaluated(few, lambda posterior: (posterior["x"] > 2.5).astype(float))
    plain = evaluated(few.drop_nodes("scores"), lambda posterior: (posterior["x"] > 2.5).astype(float))
    assert tail.mcse == plain.mcse and tail.mean == plain.mean  # an indicator gains less than the other draws give
    mean = evaluated(few, lambda posterior: posterior["x"])
    assert mean.mcse < 0.5 * evaluated(few.drop_nodes("scores"), lambda posterior: posterior["x"]).mcse
    assert mean.sd == pytest.approx(theta[:, ::6].std())


def test_few_draws_leave_out_the_quadratic_functions_or_all(monkeypatch):
    theta, scores = normal(2)
    few = slice(0, 14)  # 42 draws in three chains: enough for 2 coefficients, not for 5
    squares = controlled(theta[:, few] ** 2, theta[:, few], scores[:, few])
    assert 0.01 < squares.std() < (theta[:, few] ** 2).std()
    assert np.ptp(controlled(theta[:, few], theta[:, few], scores[:, few]), axis=(0, 1)).max() < 1e-9
    np.testing.assert_array_equal(controlled(theta[:1], theta[:1], scores[:1]), theta[:1])  # one chain
    stuck, at = np.repeat(theta[:, :1], 300, axis=1), np.repeat(scores[:, :1], 300, axis=1)  # 3 points, 6 regressors
    assert np.isfinite(controlled(stuck**3, stuck, at)).all()
    np.testing.assert_array_equal(controlled(theta[:, :5], theta[:, :5], scores[:, :5]), theta[:, :5])
    monkeypatch.setattr(control_variates, "ENOUGH", 2)
    assert np.ptp(controlled(theta[:, few] ** 2, theta[:, few], scores[:, few]), axis=(0, 1)).max() < 1e-9


@pytest.mark.thorough
def test_a_chain_is_not_fitted_to_itself(monkeypatch):
    """300 repetitions of 80 draws and 27 functions: 1.5 was found, 6.0 if the regression has the chain's own draws."""
    monkeypatch.setattr(control_variates, "ENOUGH", 1)
    z = []
    for seed in range(300):
        theta = np.random.default_rng(seed).standard_normal((4, 20, 6))
        found = controlled(np.cos(2.0 * theta[..., :1]), theta, -theta)
        z.append((found.mean() - np.exp(-2.0)) / (found.std() / np.sqrt(found.size)))
    assert np.mean(np.square(z)) < 2.5
