"""The step and batch that `design_sgld` chooses give the error that was asked for, where it can be computed."""

import itertools

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.design import stochastic_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests import langevin as book
from tests.models import normal_mean
from tests.planting import plain

N = 8
X = np.random.default_rng(0).normal(size=(N, 2)) * [1.0, 3.0]
Y = X @ [0.5, -0.2] + np.random.default_rng(1).normal(size=N)


def loglik(theta, data, i):
    """Return a term of a linear regression."""
    X, y = data
    return -0.5 * (y[i] - X[i, 0] * theta[0] - X[i, 1] * theta[1]) ** 2


def grad_loglik(theta, data, i, out):
    """Add its gradient."""
    X, y = data
    residual = y[i] - X[i, 0] * theta[0] - X[i, 1] * theta[1]
    out[0] += X[i, 0] * residual
    out[1] += X[i, 1] * residual


def regression():
    """Return a linear regression, whose gradients differ between data by their slopes, too."""
    return amc.FunctionTarget(
        loglik, book.logprior, data=(X, Y), n_obs=N, dim=2, grad_loglik=grad_loglik, grad_logprior=book.grad_logprior
    )  # fmt: skip


def largest_error(target, proposal, fit):
    """Return the largest relative error of a stationary variance of SGLD, over all directions.

    theta' = F_b theta + s_b + G z with a random minibatch b: mean and second moments solve linear equations, whose
    coefficients are read off the kernel, averaged over all minibatches.
    """
    dim, part, count = 2, proposal.build_unadjusted(target), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    propose = plain(part.propose)

    def step(theta, batch, z):
        out = np.empty(dim)
        propose(book.Script(book.picks(batch, N), list(z)), part.make_state(), np.array(theta), out, count)
        return out - fit.mode

    nothing, units = np.zeros(dim), np.eye(dim)
    first, second, total = np.zeros((dim, dim)), np.zeros((dim**2, dim**2)), np.zeros((dim, dim))
    shift, cross = np.zeros(dim), np.zeros((dim**2, dim))
    batches = list(itertools.combinations(range(N), proposal.batch_size))
    for batch in batches:
        s = step(fit.mode, batch, nothing)
        F = np.array([step(fit.mode + u, batch, nothing) - s for u in units]).T
        G = np.array([step(fit.mode, batch, u) - s for u in units]).T
        first, shift = first + F / len(batches), shift + s / len(batches)
        second += np.kron(F, F) / len(batches)
        cross += (np.kron(F, s[:, None]) + np.kron(s[:, None], F)) / len(batches)
        total += (np.outer(s, s) + G @ G.T) / len(batches)
    mean = np.linalg.solve(np.eye(dim) - first, shift)
    moments = np.linalg.solve(np.eye(dim**2) - second, total.ravel() + cross @ mean).reshape(dim, dim)
    covariance = moments - np.outer(mean, mean)
    lower = np.linalg.cholesky(fit.cov)
    whitened = np.linalg.solve(lower, np.linalg.solve(lower, covariance).T)
    return np.linalg.eigvalsh(whitened)[-1] - 1.0


def errors(target, wanted, **settings):
    """Return the largest errors of the best plain SGLD, and of the best with control variates."""
    fit = amc.laplace(target)
    found = amc.design.design_sgld(target, covariance_error=wanted, at=fit, **settings)
    for row in found.table.itertuples():
        anchor = fit if row.control_variate else None
        proposal = amc.proposals.StochasticGradientLangevin(row.step_size, row.batch_size, fit, anchor)
        yield largest_error(target, proposal, fit)


SETTINGS = [{"overhead": 0.0}, {"overhead": 1e6}, {"batch_size": 1}, {"batch_size": 3}]


@pytest.mark.thorough
@pytest.mark.parametrize("wanted", [0.02, 0.3])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_error_is_what_was_wanted_where_the_noise_is_constant(wanted, settings):
    found = list(errors(book.normal_means(N, 2), wanted, **settings))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)  # the mode is known to that


@pytest.mark.thorough
@pytest.mark.parametrize("wanted", [0.02, 0.3])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_error_is_at_most_what_was_wanted_where_slopes_differ(wanted, settings):
    found = np.array(list(errors(regression(), wanted, **settings)))
    assert (found <= wanted * (1.0 + 1e-6)).all()
    assert (found >= 0.99 * wanted).all()


def measured_with(change):
    """Return `mean_covariance` of something else."""
    right = stochastic_gradient.mean_covariance
    return lambda minibatch, points: change(right, minibatch, points)


WRONG_NOISE = {
    "at the mode alone": lambda right, minibatch, points: right(minibatch, 0.0 * points + points.mean(axis=0)),
    "of three rows": lambda right, minibatch, points: right(minibatch._replace(batch_size=3), points),
}


@pytest.mark.parametrize("bug", WRONG_NOISE)
def test_noise_measured_elsewhere_misses_it(bug, monkeypatch):
    monkeypatch.setattr(stochastic_gradient, "mean_covariance", measured_with(WRONG_NOISE[bug]))
    found = np.array(list(errors(regression(), 0.3, batch_size=2)))
    assert (np.abs(found / 0.3 - 0.995) > 0.01).any()


def test_the_best_batch_is_that_of_the_closed_form():
    """Between the grid's sizes: n = sqrt(overhead Lambda / (per row (1 + e - Lambda / N))), where steps are short."""
    for noise, overhead in ((500.0, 50.0), (5000.0, 10.0)):
        sizes = stochastic_gradient.candidate_sizes(100_000, None)
        found = stochastic_gradient.best_batch(sizes, 100_000, noise, 0.05, 2.0, 0, overhead)
        assert found["batch_size"] == pytest.approx(np.sqrt(overhead * noise / 2.0), rel=0.15)
        n, alpha = found["batch_size"], found["step_size"]
        w = noise * (1.0 / n - 1e-5)
        assert (1.0 + alpha * w / 4.0) / (1.0 - alpha / 4.0) == pytest.approx(1.05, rel=1e-12)


def test_points_have_the_moments_that_are_named():
    z = stochastic_gradient.standard_points(np.random.default_rng(0), 8, 5)
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose(z.T @ z / 16, np.eye(5), atol=1e-12)


def test_what_is_out_of_range_is_refused():
    with pytest.raises(InvalidInputError, match="must lie between 0 and 1, found 1"):
        amc.design.design_sgld(regression(), covariance_error=1.5)
    with pytest.raises(InvalidInputError, match="a minibatch of 9 cannot be drawn from 8 data"):
        amc.design.design_sgld(regression(), batch_size=9)
    with pytest.raises(InvalidInputError, match="n_points"):
        amc.design.design_sgld(regression(), n_points=1)
    with pytest.raises(IncompatibleError, match="grad_loglik"):
        amc.design.design_sgld(normal_mean())
