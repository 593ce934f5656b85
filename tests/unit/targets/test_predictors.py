"""Likelihoods of several linear predictors: terms, derivatives, expansions and their design, against a full matrix."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.expansion.general import GeneralExpansion
from approxmcmc.expansion.linear import LinearExpansion
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.predictors import PredictorExpansion
from approxmcmc.numerics import find_mode
from approxmcmc.sources import Arrays

rng = np.random.default_rng(5)
N, GROUPS = 60, 4
X, U, GROUP = rng.normal(size=(N, 3)), rng.normal(size=N), rng.integers(GROUPS, size=N)
OFFSET, Y = rng.normal(size=N), rng.normal(size=N)
EVERY_KIND = {
    "mu": {"beta": X, "slope": U, "effect": GROUP, "tilt": (GROUP, U), "intercept": 2.0},
    "log_sigma": {"gamma": X, "log_sigma": 1.0, "effect": GROUP},
}


def normal(mu, log_sigma, y):
    return -log_sigma - 0.5 * ((y - mu) * math.exp(-log_sigma)) ** 2


def derivatives(mu, log_sigma, y):
    precision = math.exp(-2.0 * log_sigma)
    r = y - mu
    square = r * r * precision
    return r * precision, square - 1.0, -precision, -2.0 * r * precision, -2.0 * square


def every_kind(**settings):
    return amc.targets.PredictorTarget(
        normal, EVERY_KIND, Y, offsets={"mu": OFFSET}, derivatives=derivatives, prior_scale=2.0, **settings
    )


def log_bernoulli(eta, y):
    return y * eta - math.log1p(math.exp(eta))


TARGET = every_kind()
THETA = 0.4 * rng.normal(size=TARGET.variables.size)


def one_hot():
    """Return the design of both predictors as full matrices, in the order beta, slope, effect, tilt, ..."""
    hot = np.eye(GROUPS)[GROUP]
    ones, nothing = np.ones((N, 1)), np.zeros
    mu = [X, U[:, None], hot, hot * U[:, None], 2.0 * ones, nothing((N, 3)), nothing((N, 1))]
    log_sigma = [nothing((N, 3)), nothing((N, 1)), hot, nothing((N, GROUPS)), nothing((N, 1)), X, ones]
    return np.concatenate(mu, axis=1), np.concatenate(log_sigma, axis=1)


def terms(target, theta, rows=None):
    compiled = target.compile()
    if rows is None:
        return full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)
    out = np.empty(len(rows))
    compiled.log_terms(theta, compiled.data, rows, 0, len(rows), out)
    return out


def test_variables_are_those_that_are_named():
    shapes = {"beta": (3,), "slope": (), "effect": (4,), "tilt": (4,), "intercept": (), "gamma": (3,), "log_sigma": ()}
    assert TARGET.variables.shapes == shapes


SOIL = pd.Series(pd.Categorical.from_codes(GROUP % 3, ["clay", "peat", "sand", "never seen"]))
TABLE = pd.DataFrame(X[:, :2], columns=["slope", "height"])


@pytest.mark.parametrize(
    ("design", "labels"),
    [
        (SOIL, ("clay", "peat", "sand")),
        ((SOIL, U), ("clay", "peat", "sand")),
        (TABLE, ("slope", "height")),
        (Arrays(X[:, :2], columns=("slope", "height")), ("slope", "height")),
        (X, None),
        (U, None),
    ],
    ids=["categories", "weighted categories", "frame", "source", "array", "column"],
)
def test_entries_are_called_as_the_design_calls_them(design, labels):
    variables = amc.targets.PredictorTarget(log_bernoulli, {"eta": {"b": design}}, Y > 0).variables
    assert variables.coords == ({} if labels is None else {"b_dim_0": list(labels)})
    assert variables.dims == ({} if labels is None else {"b": ("b_dim_0",)})


def test_names_of_the_users_and_of_two_designs_at_odds():
    named = {"dims": {"b": ("kind",)}, "coords": {"kind": [7, 8, 9]}}
    assert amc.targets.PredictorTarget(log_bernoulli, {"eta": {"b": SOIL}}, Y > 0, **named).variables.coords == {
        "kind": [7, 8, 9]
    }
    other = TABLE.rename(columns={"slope": "width"})
    both = {"mu": {"b": TABLE}, "log_sigma": {"b": other}}
    assert amc.targets.PredictorTarget(normal, both, Y).variables.coords == {}


def test_codes_of_categories_are_those_of_pandas():
    labelled, plain = (
        amc.targets.PredictorTarget(log_bernoulli, {"eta": {"b": given}}, Y > 0)
        for given in (SOIL, np.asarray(GROUP % 3))
    )
    assert labelled.content_hash() == plain.content_hash()
    missing = SOIL.copy()
    missing[3] = None
    with pytest.raises(InvalidInputError, match="smallest -1"):
        amc.targets.PredictorTarget(log_bernoulli, {"eta": {"b": missing}}, Y > 0)


def test_terms_of_any_rows_are_those_of_a_full_design():
    mu, log_sigma = one_hot()
    expected = stats.norm.logpdf(Y, mu @ THETA + OFFSET, np.exp(log_sigma @ THETA)) + 0.5 * math.log(2.0 * math.pi)
    np.testing.assert_allclose(terms(TARGET, THETA), expected, rtol=1e-12, atol=1e-13)
    rows = rng.permutation(N)[:37]
    np.testing.assert_array_equal(terms(TARGET, THETA, rows), terms(TARGET, THETA)[rows])


def test_equal_columns_are_stored_once():
    """And an array that is the only one of a design is not copied."""
    shared = amc.targets.PredictorTarget(
        normal, {"mu": {"beta": X}, "log_sigma": {"gamma": X}}, Y, derivatives=derivatives
    )
    assert shared.design.X.shape == (N, 3) and np.shares_memory(shared.design.X, X)
    assert shared.design.arrays[1].shape == (N, 0)


def test_both_states_at_once_give_the_same_numbers():
    compiled, other = TARGET.compile(), THETA + 0.1
    found = np.empty(N), np.empty(N)
    compiled.compile_at_both()(THETA, other, compiled.data, 0, N, *found)
    np.testing.assert_array_equal(found[0], terms(TARGET, THETA))
    np.testing.assert_array_equal(found[1], terms(TARGET, other))


def test_gradients_are_those_of_a_full_design():
    mu, log_sigma = one_hot()
    eta = zip(mu @ THETA + OFFSET, log_sigma @ THETA, Y, strict=True)
    slopes = np.array([derivatives(m, s, y)[:2] for m, s, y in eta])
    expected = mu.T @ slopes[:, 0] + log_sigma.T @ slopes[:, 1]
    np.testing.assert_allclose(full_gradient(TARGET.compile_gradient(), THETA), expected, rtol=1e-11, atol=1e-11)


def test_an_expansion_takes_one_pass_and_is_that_of_differences():
    posterior, general = Posterior(TARGET), GeneralExpansion(TARGET, 2)
    assert isinstance(posterior.expansion, PredictorExpansion) and posterior.expansion.columns == 1 + 2 * 2 + 3
    here, there = posterior.expansion.at(THETA), general.at(THETA)
    assert posterior.expansion.passes == 1
    assert here.value == pytest.approx(there.value, rel=1e-12)
    np.testing.assert_allclose(here.gradient, there.gradient, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(here.hessian, there.hessian, rtol=1e-6, atol=1e-5)


def test_differences_do_for_derivatives():
    plain = amc.targets.PredictorTarget(normal, EVERY_KIND, Y, offsets={"mu": OFFSET}, prior_scale=2.0)
    here, there = Posterior(plain).expansion.at(THETA), Posterior(TARGET).expansion.at(THETA)
    np.testing.assert_allclose(here.gradient, there.gradient, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(here.hessian, there.hessian, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_control_variates_leave_the_posterior_and_small_terms(order):
    expanded = amc.ControlVariate(TARGET, at=THETA, order=order)
    compiled, plain = expanded.compile(), TARGET.compile()
    near = THETA + 0.01 * rng.normal(size=THETA.size)
    for theta in (THETA, near, np.zeros(THETA.size)):
        whole = full_terms(compiled.log_terms, theta, compiled.data, N).sum() + compiled.log_prior(theta)
        assert whole == pytest.approx(terms(TARGET, theta).sum() + plain.log_prior(theta), rel=1e-11)
    left = full_terms(compiled.log_terms, near, compiled.data, N)
    changed = terms(TARGET, near) - terms(TARGET, THETA)
    assert left.std() < (0.1 if order == 1 else 0.01) * changed.std()


def test_influential_rows_leave_the_posterior_and_its_gradient():
    fit = amc.laplace(TARGET)
    expanded = amc.ControlVariate(TARGET, always_read=np.arange(0, N, 7), at=fit)
    compiled, gradient = expanded.compile(), expanded.compile_gradient()
    for theta in (fit.mode, THETA):
        whole = full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs).sum() + compiled.log_prior(theta)
        expected = terms(TARGET, theta).sum() + TARGET.compile().log_prior(theta)
        assert whole == pytest.approx(expected, rel=1e-11)
        slope = full_gradient(gradient, theta)
        gradient.add_prior_gradient(theta, slope)
        plain = TARGET.compile_gradient()
        of_plain = full_gradient(plain, theta)
        plain.add_prior_gradient(theta, of_plain)
        np.testing.assert_allclose(slope, of_plain, rtol=1e-9, atol=1e-9)


def test_the_mode_takes_a_few_passes_and_is_one():
    found = find_mode(TARGET)
    assert found.passes < 15
    slope, gradient = np.zeros(THETA.size), TARGET.compile_gradient()
    gradient.add_prior_gradient(found.theta, slope)
    slope += full_gradient(gradient, found.theta)
    assert np.sqrt(slope @ np.linalg.solve(found.precision, slope)) < 1e-4


def test_one_dense_predictor_is_a_generalised_linear_model():
    """The same mode, expansion and residuals as the form for one predictor has."""

    def poisson(eta, y):
        return y * eta - math.exp(eta)

    def of_poisson(eta, y):
        return y - math.exp(eta), -math.exp(eta)

    counts = rng.poisson(1.0, N).astype(float)
    several = amc.targets.PredictorTarget(poisson, {"eta": {"beta": X}}, counts, derivatives=of_poisson)
    one = amc.targets.GLMTarget(poisson, X, counts, derivatives_eta=of_poisson)
    theta = 0.3 * np.ones(3)
    np.testing.assert_allclose(terms(several, theta), terms(one, theta), rtol=1e-13)
    expansions = PredictorExpansion(several), LinearExpansion(one)
    for mine, its in zip(expansions[0].at(theta), expansions[1].at(theta), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-12)
    ours, theirs = np.empty((N, 4)), np.empty((N, 2))
    ours_in_all, theirs_in_all = expansions[0].expand(theta, ours), expansions[1].expand(theta, theirs)
    np.testing.assert_allclose(ours_in_all.gradient, theirs_in_all.gradient, rtol=1e-12)
    eta, _, slope, bend = ours.T  # f + slope (x - eta) + bend (x - eta)^2, and without what is constant in x
    np.testing.assert_allclose(theirs, np.column_stack([slope - 2.0 * bend * eta, bend]), rtol=1e-12)


def test_leverages_are_those_of_a_full_design():
    mu, log_sigma = one_hot()
    cholesky = np.linalg.cholesky(np.eye(THETA.size) + 0.3)
    both = np.stack([mu @ cholesky, log_sigma @ cholesky], axis=1)
    found = TARGET.design.covariances(cholesky, slice(0, N))
    np.testing.assert_allclose(found, both @ both.transpose(0, 2, 1), rtol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"predictors": {}}, "a likelihood needs one"),
        ({"predictors": {"mu": X, "log_sigma": {"s": 1.0}}}, "must map each predictor"),
        ({"predictors": {"mu": {"b": X[:5]}, "log_sigma": {"s": 1.0}}}, "must have 60 rows"),
        ({"predictors": {"mu": {"b": GROUP - 1}, "log_sigma": {"s": 1.0}}}, "60 integers from 0.*smallest -1"),
        ({"predictors": {"mu": {"b": (U, U)}, "log_sigma": {"s": 1.0}}}, "60 integers from 0, found float64"),
        ({"predictors": {"mu": {"b": (GROUP, U[:3])}, "log_sigma": {"s": 1.0}}}, "weights of"),
        ({"predictors": {"mu": {"b": X}, "log_sigma": {"b": 1.0}}}, "'b' is a scalar in one predictor and a vector"),
        ({"predictors": {"mu": {"b": X}, "log_sigma": {"b": X[:, :2]}}}, r"'b' has 3 entries.*\[3, 2\]"),
        ({"predictors": {"mu": {"b": X}, "log_sigma": {"chain": 1.0}}}, "need different names"),
        ({"y": (Y, Y[:4])}, "y must be n numbers"),
        ({"offsets": {"eta": OFFSET}}, r"offsets name \['eta'\]"),
        ({"offsets": {"mu": OFFSET[:2]}}, r"must have shape \(60,\)"),
        ({"prior_scale": {"beta": 1.0}}, "a number above 1e-150 .* for each of"),
        ({"dims": {"delta": "x"}}, r"dims name \['delta'\]"),
        ({"dims": {"effect": "group"}, "coords": {"group": ["a"]}}, "'effect' has 1 entries"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, match):
    given = {"loglik": normal, "predictors": EVERY_KIND, "y": Y, **arguments}
    with pytest.raises(InvalidInputError, match=match):
        amc.targets.PredictorTarget(**given)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m, s, mm, ms, ss: (0.0, s, mm, ms, ss), "datum 0 disagrees with finite differences in 1 of 2"),
        (lambda m, s, mm, ms, ss: (m, s, mm, 0.0, ss), "row 1 of the second derivatives disagrees .* most in eta_2"),
        (lambda m, s, mm, ms, ss: (m, s, mm, ms, -ss), "row 2 of the second derivatives disagrees .* most in eta_2"),
        (lambda m, s, mm, ms, ss: (m, s), "must return a tuple of 2 slopes and 3 second derivatives, found shape"),
    ],
)
def test_wrong_derivatives_are_found_when_the_target_is_made(change, match):
    def wrong(mu, log_sigma, y):
        return change(*derivatives(mu, log_sigma, y))

    with pytest.raises(InvalidInputError, match=match):
        amc.targets.PredictorTarget(normal, EVERY_KIND, Y, derivatives=wrong)


def test_what_is_not_known_is_said():
    with pytest.raises(IncompatibleError, match="does not bound its terms"):
        TARGET.compile_difference_bound()
    with pytest.raises(IncompatibleError, match="has no PyMC twin"):
        TARGET.to_pymc()


class TestSoftmax:
    classes = rng.integers(4, size=N)
    target = amc.targets.SoftmaxRegression(X, classes, prior_scale=2.0)
    theta = 0.5 * rng.normal(size=12)

    def test_classes_are_predictors_that_share_their_columns(self):
        expansion = Posterior(self.target).expansion
        assert isinstance(expansion, PredictorExpansion) and expansion.columns == 1 + 2 * 4 + 10
        here, there = expansion.at(self.theta), GeneralExpansion(self.target, 2).at(self.theta)
        assert expansion.passes == 1 and here.value == pytest.approx(there.value, rel=1e-12)
        np.testing.assert_allclose(here.gradient, there.gradient, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(here.hessian, there.hessian, rtol=1e-6, atol=1e-6)

    def test_the_posterior_of_an_expansion_is_that_of_the_target(self):
        for expanded in (
            amc.ControlVariate(self.target),
            amc.ControlVariate(self.target, always_read=np.arange(5), at="mode"),
        ):
            compiled, plain = expanded.compile(), self.target.compile()
            left = full_terms(compiled.log_terms, self.theta, compiled.data, compiled.n_obs)
            expected = terms(self.target, self.theta).sum() + plain.log_prior(self.theta)
            assert left.sum() + compiled.log_prior(self.theta) == pytest.approx(expected, rel=1e-11)

    def test_a_large_model_is_expanded_in_little_memory(self):
        """60 000 rows, 10 classes of 50 coefficients: 76 numbers a row, where differences take 125 751."""
        large = amc.targets.SoftmaxRegression(np.ones((40, 50)), np.arange(40) % 10)
        assert Posterior(large).expansion.columns == 76
        assert GeneralExpansion(large, 2).columns == 125_751
