"""The gradient of Firefly's joint density, by differences of the density."""

import re

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.firefly.joint import Factors, JointDensity, log_joint_at, new_bright
from approxmcmc.samplers.firefly.settings import checked_bound
from approxmcmc.samplers.firefly.theta_update import JointTarget
from tests.models import logistic, normal_mean
from tests.planting import plain


@pytest.mark.parametrize("without", ["bound", "prior"])
def test_bound_and_prior_must_both_have_a_gradient(without):
    target = logistic(60)
    bound, _ = checked_bound(target, target.compile(), "untuned", None)
    if without == "bound":
        bound = bound._replace(add_gap_gradient=None)
    else:
        target = amc.targets.BoundedLikelihood(
            normal_mean(60), lambda theta, data, i: 0.0, lambda theta, sums: 0.0, np.zeros(1), np.zeros(60)
        )
    with pytest.raises(IncompatibleError, match=f"or the prior of {re.escape(repr(target))} has no gradient"):
        JointTarget(target, bound, new_bright(np.ones(60, dtype=bool), np.ones(60))).compile_gradient()


def test_the_joint_density_is_one_datum():
    with pytest.raises(IncompatibleError, match="a minibatch of 2 cannot be drawn from 1 data"):
        amc.Firefly(amc.proposals.StochasticGradientLangevin(0.01, 2), "untuned").build(logistic(60))


@pytest.mark.parametrize("touching", [None, np.array([0.5, -0.5, 0.2])], ids=["untuned", "tuned"])
def test_the_gradient_is_that_of_the_joint_density(touching):
    """Of prior, bound, and the odds of every second datum."""
    target = logistic(60, 3)
    compiled = target.compile()
    bound, _ = checked_bound(target, compiled, "untuned" if touching is None else "tuned", touching)
    bright = new_bright(np.arange(60) % 2 == 0, np.ones(60))
    joint = JointDensity(compiled.log_prior, bound.log_bound, bound.gaps, bound.data, bound.sums)
    factors, count = Factors(np.zeros(1), np.zeros(1), np.empty(60)), np.zeros(len(COUNT_NAMES), np.int64)

    def log_joint(theta):
        return plain(log_joint_at)(joint, theta, bright, factors, count)

    gradient = JointTarget(target, bound, bright).compile_gradient()
    theta, found = np.array([0.3, -0.4, 0.2]), np.zeros(3)
    gradient.add_prior_gradient(theta, found)
    gradient.add_gradient(theta, gradient.data, np.zeros(1, np.int64), 0, 1, found)
    steps = 1e-5 * np.eye(3)
    expected = [(log_joint(theta + step) - log_joint(theta - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # The density itself: B_i of all data, and (L_i - B_i) / B_i of the bright ones.
    log_likelihood, gaps = (
        full_terms(kernel, theta, data, 60)
        for kernel, data in ((compiled.log_terms, compiled.data), (bound.gaps, bound.data))
    )
    density = compiled.log_prior(theta) + (log_likelihood - gaps).sum() + np.log(np.expm1(gaps[::2])).sum()
    assert log_joint(theta) == pytest.approx(density)


def test_the_gradient_is_finite_where_the_bounds_touch():
    """A bright datum is never there, but rounding may say so."""
    target, theta, found = logistic(60, 3), np.array([0.3, -0.4, 0.2]), np.zeros(3)
    bound, _ = checked_bound(target, target.compile(), "tuned", theta)
    assert (full_terms(bound.gaps, theta, bound.data, 60) == 0.0).any()
    gradient = JointTarget(target, bound, new_bright(np.ones(60, dtype=bool), np.ones(60))).compile_gradient()
    gradient.add_gradient(theta, gradient.data, np.zeros(1, np.int64), 0, 1, found)
    assert np.isfinite(found).all()
