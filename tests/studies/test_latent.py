"""The study of integrated effects: its estimates, its correction and its page."""

import math
import types

import numpy as np
import pytest
import xarray as xr

from approxmcmc.targets.groups.accuracy import terms_of
from approxmcmc.targets.groups.quadrature import gauss_hermite
from studies import latent
from studies.tools import group_integrals
from studies.tools.group_integrals import (
    by_draws,
    by_nodes,
    log_mean_likelihood,
    log_prior,
    logit_of_row,
    poisson_of_row,
    posterior,
)
from studies.tools.in_laplace_metric import laplace_of
from tests.planting import plain

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler

SIZES = [1, 2, 5, 9]


def target_of(*, counts=False, varying=("intercept",), copies=1):
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(len(SIZES) * copies), SIZES * copies)
    X = np.column_stack([np.ones(len(group)), rng.normal(size=len(group))])
    y = rng.poisson(1.5, size=len(group)) if counts else rng.integers(2, size=len(group))
    return posterior(group, X, y, varying, counts=counts)


@pytest.fixture(scope="module")
def logit():
    return target_of(copies=5)


@pytest.mark.parametrize(
    ("counts", "varying", "of_row"),
    [
        (False, ["intercept"], logit_of_row),
        (True, ["intercept"], poisson_of_row),
        (False, ["intercept", "x"], logit_of_row),
    ],
)
def test_the_estimate_is_unbiased_for_the_integrals(monkeypatch, counts, varying, of_row):
    """The mean over a law of draws, by a rule of quadrature, is the integral; each group in turn."""
    target = target_of(counts=counts, varying=varying)
    theta = np.array([0.4, -0.3, 0.8, 0.6][: target.variables.size])
    [rule] = gauss_hermite(120 if target.n_effects == 1 else 40, target.n_effects)
    u, weight = rule[:-1].T, np.exp(rule[-1] - 0.5 * (rule[:-1] ** 2).sum(axis=0)) / (2.0 * np.pi) ** (len(varying) / 2)
    W, y, spans, sizes, *table = by_draws(1)(target).build_estimator().data
    better = by_nodes(24)(target)
    better.set_rule(n_steps=30)
    exact = terms_of(better, theta[None], np.arange(target.n_obs))[0]
    monkeypatch.setattr(group_integrals, "exp", math.exp)  # the compiler's own functions do not run in plain Python
    monkeypatch.setattr(group_integrals, "softplus", lambda x: np.logaddexp(0.0, x))
    for g, span in enumerate(spans):
        data = (W, y, span[None].copy(), sizes, *table)
        values = []
        for node in u:
            rng = types.SimpleNamespace(standard_normal=iter(node).__next__)
            values.append(plain(log_mean_likelihood)(plain(of_row), rng, theta, data))
        assert np.log(weight @ np.exp(values)) == pytest.approx(exact[g], abs=1e-6)


def test_the_prior_is_that_of_the_model(logit):
    log_density, here, there = logit.compile().log_prior, np.array([0.3, -1.0, 2.0]), np.array([-0.2, 0.1, -0.5])
    assert log_density(there) - log_density(here) == pytest.approx(log_prior(there) - log_prior(here))


def test_the_correction_undoes_what_the_noise_of_minibatches_adds(logit):
    fit, gradient = laplace_of(logit), logit.compile_gradient()
    half = np.sign(fit.mode)[:, None] * fit.cholesky
    slopes = np.zeros((logit.n_obs, 3))
    for g, slope in enumerate(slopes):
        gradient.add_gradient(fit.mode, gradient.data, np.array([g]), 0, 1, slope)
    noise = (logit.n_obs / latent.BATCH) ** 2 * latent.BATCH * np.cov(slopes.T) * (1.0 - latent.BATCH / logit.n_obs)
    noise = fit.cholesky.T @ noise @ fit.cholesky
    a, cov = latent.STEP, np.eye(3)
    for _ in range(2000):  # the covariance of theta' = theta - (a / 2)(theta + noise) + N(0, a I), step by step
        cov = (1.0 - 0.5 * a) ** 2 * cov + a * np.eye(3) + 0.25 * a**2 * noise
    z = np.random.default_rng(0).normal(size=(500, 3))
    z = np.linalg.solve(np.linalg.cholesky(np.cov(z.T)), (z - z.mean(axis=0)).T)
    values, vectors = np.linalg.eigh(cov)
    found = latent.corrected(logit, (half @ (vectors * np.sqrt(values)) @ vectors.T @ z).T)
    np.testing.assert_allclose(np.cov(found.T), half @ half.T, rtol=1e-8)


def test_weights_move_the_mean_as_the_error_says():
    theta = np.array([[0.0], [1.0], [3.0]])
    shift, effective = latent.weighted_shift(theta, np.log([1.0, 2.0, 1.0]))
    assert shift == pytest.approx([0.25 * 0.0 + 0.5 * 1.0 + 0.25 * 3.0 - 4.0 / 3.0])
    assert effective == pytest.approx(1.0 / (3.0 * (0.25**2 + 0.5**2 + 0.25**2)))


def test_the_page_has_every_sampler_and_number_of_nodes(logit):
    rng, fit = np.random.default_rng(1), laplace_of(logit)

    def trace(shift):
        values = logit.variables.unpack(fit.mode + shift + rng.normal(size=(1, 300, 3)) @ fit.cholesky.T)
        data = {name: (("chain", "draw", *"x"[: value.ndim - 2]), value) for name, value in values.items()}
        return xr.DataTree.from_dict({"posterior": xr.Dataset(data)})

    labels = ["quadrature", "laplace", "gimh[n_draws=30]", "stochastic_gradients"]
    results = types.SimpleNamespace(
        study=latent.study,
        target=lambda name: logit,
        reference=lambda name: trace(0.0),
        traces=lambda: {("counts", label): [trace(0.0) for _ in range(5)] for label in labels},
    )
    _, table = latent.biases(results)
    assert list(table.data["sampler"]) == [*labels, latent.CORRECTED]
    assert table.data["sd of log p^"].notna().tolist() == [False, False, True, False, False]
    [found] = latent.nodes(results)
    assert found.data["nodes"].tolist() == sorted({*latent.NODES, logit.n_nodes})
    error = found.data["sd of the error (nats)"].to_numpy()
    assert (error[:3] > 5.0 * error[1:4]).all()
