"""Gradients of targets: against finite differences, at the batch boundary, and the message about a wrong one."""

import math

import numpy as np
import pytest

from approxmcmc.engine.terms.gradients import ALL_ROWS, full_gradient
from approxmcmc.errors import CompilationError, IncompatibleError, InvalidInputError
from approxmcmc.targets import FunctionTarget, GaussianMixture, GLMTarget
from tests.models import logistic, normal_loglik, normal_logprior


def grad_normal_loglik(theta, data, i, out):
    (x,) = data
    out[0] += x[i] - theta[0]


def grad_normal_logprior(theta, out):
    out[0] -= 4.0 * (theta[0] - 1.0)


def normal_mean(grad_loglik=grad_normal_loglik, grad_logprior=grad_normal_logprior):
    x = np.random.default_rng(0).normal(size=30)
    return FunctionTarget(
        normal_loglik, normal_logprior, data=x, n_obs=30, dim=1, var_names=("mu",),
        grad_loglik=grad_loglik, grad_logprior=grad_logprior,
    )  # fmt: skip


def poisson(derivatives_eta=None):
    rng = np.random.default_rng(1)
    X = 0.3 * rng.normal(size=(70, 2))
    return GLMTarget(
        lambda eta, y: y * eta - math.exp(eta), X, rng.poisson(1.0, size=70), derivatives_eta=derivatives_eta
    )


def skewed_prior(beta):
    return -0.5 * beta[0] ** 2 - 0.25 * beta[1] ** 4 - beta[0] * beta[2]


TARGETS = {
    "logistic": lambda: logistic(70),
    "logistic, own prior": lambda: logistic(70, prior=skewed_prior),
    "flat prior": lambda: logistic(70, prior_scale=math.inf),
    "GLM": lambda: poisson(lambda eta, y: (y - math.exp(eta), -math.exp(eta))),
    "GLM, differences": poisson,
    "user": normal_mean,
    "user, prior by differences": lambda: normal_mean(grad_logprior=None),
    "mixture": lambda: GaussianMixture.simulated(70, temperature=3.0),
}


def differences(value, theta, h=1e-5):
    steps = h * np.eye(theta.size)
    return np.array([(value(theta + step) - value(theta - step)) / (2 * h) for step in steps])


@pytest.mark.parametrize("name", TARGETS)
def test_gradients_equal_finite_differences(name, rng):
    target = TARGETS[name]()
    compiled, gradient = target.compile(), target.compile_gradient()
    theta, rows = rng.normal(size=target.variables.size), np.array([3, 17, 4, 28, 29])

    def log_likelihood(at):
        out = np.empty(3)
        compiled.log_terms(at, compiled.data, rows, 1, 4, out)
        return out.sum()

    out = np.full(theta.size, 7.0)
    gradient.add_gradient(theta, gradient.data, rows, 1, 4, out)
    np.testing.assert_allclose(out - 7.0, differences(log_likelihood, theta), rtol=1e-6, atol=1e-8)
    out = np.full(theta.size, 7.0)
    gradient.add_prior_gradient(theta, out)
    np.testing.assert_allclose(out - 7.0, differences(compiled.log_prior, theta), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["logistic", "user", "mixture"])
def test_an_empty_order_stands_for_the_rows(name, rng):
    gradient = TARGETS[name]().compile_gradient()
    theta = rng.normal(size=3 if name == "logistic" else 2 if name == "mixture" else 1)
    some, all_rows = np.zeros_like(theta), np.arange(gradient.n_obs)
    gradient.add_gradient(theta, gradient.data, ALL_ROWS, 2, 9, some)
    named = np.zeros_like(theta)
    gradient.add_gradient(theta, gradient.data, all_rows, 2, 9, named)
    # A user's function may be vectorised by the compiler, whose last rows of a loop then divide otherwise.
    np.testing.assert_allclose(some, named, rtol=1e-15 if name == "user" else 0.0)
    whole = np.zeros_like(theta)
    for lo in range(0, gradient.n_obs, 7):
        gradient.add_gradient(theta, gradient.data, all_rows[::-1].copy(), lo, min(lo + 7, gradient.n_obs), whole)
    np.testing.assert_allclose(whole, full_gradient(gradient, theta), rtol=1e-12)


def test_a_wrong_gradient_is_caught_and_its_worst_coordinate_named():
    X = np.random.default_rng(0).normal(size=(20, 3))

    def loglik(theta, data, i):
        (X,) = data
        return -0.5 * (X[i, 0] - theta[0]) ** 2 - 0.5 * (X[i, 1] - theta[1]) ** 2 - 0.5 * (X[i, 2] - theta[2]) ** 2

    def wrong_in_two(theta, data, i, out):
        (X,) = data
        for j in range(3):
            out[j] += (X[i, j] - theta[j]) * (2.0 if j == 1 else 1.001 if j == 2 else 1.0)

    target = FunctionTarget(
        loglik, lambda theta: 0.0, data=X, n_obs=20, dim=3, grad_loglik=wrong_in_two,
        var_names=("beta",), dims={"beta": ("coef",)}, coords={"coef": ["a", "b", "c"]},
    )  # fmt: skip
    with pytest.raises(InvalidInputError, match=r"grad_loglik of datum 0 .* 2 of 3 coordinates, most in beta\[b\]"):
        target.compile_gradient()


def set_not_added(theta, data, i, out):
    (x,) = data
    out[0] = x[i] - theta[0]


def wrong_prior(theta, out):
    out[0] += 4.0 * (theta[0] - 1.0)


def test_other_wrong_gradients_say_what_is_wrong():
    with pytest.raises(InvalidInputError, match="instead of setting it"):
        normal_mean(grad_loglik=set_not_added).compile_gradient()
    with pytest.raises(InvalidInputError, match="grad_logprior disagrees"):
        normal_mean(grad_logprior=wrong_prior).compile_gradient()
    with pytest.raises(InvalidInputError, match="first of derivatives_eta"):
        poisson(lambda eta, y: (y + math.exp(eta), -math.exp(eta))).compile_gradient()
    with pytest.raises(CompilationError, match=r"grad_loglik\(theta, data, i, out\)"):
        normal_mean(grad_loglik=lambda theta, data, i: 0.0).compile_gradient()
    with pytest.raises(IncompatibleError, match="pass grad_loglik="):
        normal_mean(grad_loglik=None).compile_gradient()


def half_line(theta):
    return -theta[0] if theta[0] >= 0.0 else -math.inf


@pytest.mark.parametrize(("at", "slope"), [(1.0, -1.0), (0.0, -1.0), (1e-9, -1.0), (-1.0, math.nan)])
def test_prior_differences_at_the_edge_of_the_support(at, slope):
    target = FunctionTarget(normal_loglik, half_line, data=np.zeros(3), n_obs=3, dim=1, grad_loglik=grad_normal_loglik)
    out = np.zeros(1)
    target.compile_gradient().add_prior_gradient(np.array([at]), out)
    np.testing.assert_allclose(out, slope, rtol=1e-6)


def test_labels_of_coordinates():
    assert logistic(5).variables.labels() == ["beta[x0]", "beta[x1]", "beta[x2]"]
    assert normal_mean().variables.labels() == ["mu"]
    assert GaussianMixture.simulated(5).variables.labels() == ["theta1", "theta2"]
