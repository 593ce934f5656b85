"""Normal groups, integrated out in closed form: terms, gradients and names, against the law of all rows of a group."""

import math

import numpy as np
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets import NormalGroups
from approxmcmc.targets.groups import normal_kernels
from tests.planting import plain

rng = np.random.default_rng(3)
SIZES = [1, 1, 2, 3, 7, 30]
GROUPS = rng.permutation(np.repeat(["f", "b", "a", "d", "c", "e"], SIZES))
N = len(GROUPS)
X, Z, ERRORS = rng.normal(size=(N, 3)), rng.normal(size=(N, 2)), rng.uniform(0.5, 2.0, N)
Y = X @ [1.0, -1.0, 0.5] + rng.normal(size=N)
MODELS = {
    "intercepts": {},
    "slope": {"slopes": Z[:, 0]},
    "slopes": {"slopes": Z},
    "known errors": {"errors": ERRORS},
    "slope, known errors": {"slopes": Z[:, :1], "errors": ERRORS},
    "slope, weights": {"slopes": Z[:, :1], "weights": 1.0 / ERRORS**2},
}
EACH = [pytest.param(kind, marks=() if kind == "slopes" else pytest.mark.recompiles) for kind in MODELS]


def model(kind, y=Y, **settings):
    return NormalGroups(X, y, GROUPS, **MODELS[kind], **settings)


def by_covariance(target, theta, kind, y=Y):
    """Return the log densities of the groups' responses by their covariances, group by group."""
    slopes = MODELS[kind].get("slopes")
    errors = ERRORS if MODELS[kind].keys() & {"errors", "weights"} else np.ones(N)
    design = np.ones((N, 1)) if slopes is None else np.column_stack([np.ones(N), slopes])
    L = target.variables.cholesky(theta)
    tau = 1.0 if "errors" in MODELS[kind] else math.exp(theta[-1])
    found = []
    for label in np.unique(GROUPS):
        rows = label == GROUPS
        cov = design[rows] @ L @ L.T @ design[rows].T + np.diag((tau * errors[rows]) ** 2)
        found.append(stats.multivariate_normal(X[rows] @ theta[:3], cov).logpdf(y[rows]))
    return np.array(found)


def terms(target, theta):
    compiled = target.compile()
    return full_terms(compiled.log_terms, theta, compiled.data, target.n_obs)


@pytest.mark.parametrize("kind", EACH)
def test_terms_are_the_normal_law_of_each_group(kind):
    target = model(kind)
    for theta in np.random.default_rng(0).normal(size=(4, target.variables.size)):
        assert terms(target, theta) == pytest.approx(by_covariance(target, theta, kind), rel=1e-10)


@pytest.mark.parametrize("kind", EACH)
def test_gradients_are_those_of_the_terms(kind):
    target = model(kind)
    theta = np.random.default_rng(1).normal(size=target.variables.size)
    expected = [
        (terms(target, theta + step).sum() - terms(target, theta - step).sum()) / 2e-5
        for step in 1e-5 * np.eye(len(theta))
    ]
    assert full_gradient(target.compile_gradient(), theta) == pytest.approx(np.array(expected), rel=1e-6, abs=1e-6)


def test_nothing_cancels_where_responses_are_large_beside_the_noise():
    # sums of squares would lose all digits: 1e8^2 times 1e-16 is 1, beside a noise of 1e-3
    target = NormalGroups(np.ones((N, 1)), 1e8 + Y, GROUPS, prior_scale=1e9)
    theta = np.array([1e8, 1.0, math.log(1e-3)])
    found = terms(target, theta)
    for label, term in zip(np.unique(GROUPS), found, strict=True):
        r = (1e8 + Y[label == GROUPS]) - 1e8  # exact
        within = ((r - r.mean()) ** 2).sum()
        n, tau = len(r), 1e-3
        expected = (
            -0.5 * n * math.log(2 * math.pi)
            - (n - 1) * math.log(tau)
            - 0.5 * math.log(tau**2 + n)
            - 0.5 * within / tau**2
            - 0.5 * n * r.mean() ** 2 / (tau**2 + n)
        )
        assert term == pytest.approx(expected, rel=1e-4)


def test_the_scale_is_even_and_has_no_edge_at_zero():
    target = model("intercepts")
    theta = np.array([0.3, 0.1, -0.2, 0.4, 0.1])
    mirrored, flat = theta * [1, 1, 1, -1, 1], theta * [1, 1, 1, 0, 1]
    assert terms(target, theta) == pytest.approx(terms(target, mirrored), rel=1e-14)
    assert terms(target, flat) == pytest.approx(by_covariance(target, flat, "intercepts"), rel=1e-12)
    assert full_gradient(target.compile_gradient(), flat)[3] == 0.0


@pytest.mark.parametrize("kind", MODELS)
def test_variables_go_there_and_back(kind):
    variables = model(kind).variables
    theta = np.abs(np.random.default_rng(2).normal(size=variables.size))
    assert variables.pack(variables.unpack(theta)) == pytest.approx(theta)
    assert len(variables.labels()) == variables.size
    assert {name: value.shape for name, value in variables.unpack(theta).items()} == dict(variables.shapes)


def test_the_order_of_rows_does_not_matter_and_labels_may_be_anything():
    order = np.random.default_rng(4).permutation(N)
    shuffled = NormalGroups(X[order], Y[order], GROUPS[order])
    numbered = NormalGroups(X, Y, np.unique(GROUPS, return_inverse=True)[1])
    theta = np.full(5, 0.3)
    assert terms(shuffled, theta) == pytest.approx(terms(numbered, theta), rel=1e-12)
    assert numbered.content_hash() == model("intercepts").content_hash()
    assert model("slope").content_hash() != model("intercepts").content_hash()


def no_determinant(M, inverse):
    plain(normal_kernels.invert)(M, inverse)
    return 0.0


def not_inverted(M, inverse):
    log_det = plain(normal_kernels.invert)(M.copy(), inverse)
    inverse[:] = np.eye(len(M))
    return log_det


@pytest.mark.parametrize("wrong", [None, no_determinant, not_inverted])
def test_planted_bugs_are_seen(wrong):
    target, theta, found = model("slope"), np.full(7, 0.4), np.empty(6)
    stand_ins = {normal_kernels.invert: wrong} if wrong else None
    kernel = plain(normal_kernels.make_log_terms(2, 2, False), stand_ins)
    kernel(np.array([0.4, 0.4, 0.4, 0.4, 0.0, 0.4, 0.4, 0.4]), target.data[:2], np.empty(0, np.int64), 0, 6, found)
    is_right = found == pytest.approx(by_covariance(target, theta, "slope"), rel=1e-10)
    assert is_right == (wrong is None)


def test_careless_input_is_refused_in_words():
    with pytest.raises(InvalidInputError, match=r"groups must hold the label of each row's group, shape \(44,\)"):
        NormalGroups(X, Y, GROUPS[:-1])
    with pytest.raises(InvalidInputError, match="errors must be 44 positive numbers"):
        NormalGroups(X, Y, GROUPS, errors=np.zeros(N))
    with pytest.raises(InvalidInputError, match="so weights have nothing to scale"):
        NormalGroups(X, Y, GROUPS, errors=ERRORS, weights=ERRORS)
    with pytest.raises(InvalidInputError, match="weights must be positive"):
        NormalGroups(X, Y, GROUPS, weights=np.zeros(N))
    with pytest.raises(InvalidInputError, match="slopes must have 44 rows"):
        NormalGroups(X, Y, GROUPS, slopes=Z[:-1])
    with pytest.raises(InvalidInputError, match="effect_scale must be positive"):
        NormalGroups(X, Y, GROUPS, effect_scale=0.0)


def test_the_mode_and_its_expansion_are_found():
    target = model("intercepts")
    expanded = amc.ControlVariate(target)
    assert expanded.distance_to_mode < 1e-2
    assert abs(full_gradient(target.compile_gradient(), expanded.center)).max() < 5.0
