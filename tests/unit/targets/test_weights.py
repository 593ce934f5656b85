"""Known weights of rows: a row of weight w is w equal rows, in terms, derivatives, bounds, minorants and PyMC."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import ALL_ROWS, full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.expansion.bounds import bound_of_rows
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.interop.linear_predictor import PredictorsOfPyMC
from approxmcmc.samplers.pdmp.split import rows_of, split
from approxmcmc.targets import compressed
from approxmcmc.targets.predictors.closed_form import NormalLikelihood
from tests.capabilities import FAMILIES, OFFSET, TABLE, WEIGHTS, N, X

# Weights of a linear regression are precisions, see there.
NAMES = [name for name in FAMILIES if not name.startswith("normal")]
COPIES = np.repeat(np.arange(N), WEIGHTS.astype(int))
PAIRS = [(name, of) for name in NAMES for of in ("matrix", "table") if (name, of) != ("yours, two predictors", "table")]
FIRST = np.searchsorted(COPIES, np.arange(N))  # the first copy of each row


def both(name, *, of="matrix"):
    """Return the regression of weighted rows, and that of each row as often as its weight says."""
    family = FAMILIES[name]
    columns = TABLE if of == "table" else X
    given = {"y": family.y, "offset": family.offset if name == "softmax" else OFFSET, **family.sizes}
    repeated = {key: value[COPIES] for key, value in given.items()}
    copies = columns.iloc[COPIES].reset_index(drop=True) if of == "table" else columns[COPIES]
    return (
        family.make(X=columns, weights=WEIGHTS, **given, **family.settings),
        family.make(X=copies, **repeated, **family.settings),
    )


def terms_of(target, theta):
    compiled = target.compile()
    return full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)


@pytest.mark.parametrize(("name", "of"), PAIRS)
def test_a_row_of_weight_w_is_w_rows(name, of, rng):
    weighted, repeated = both(name, of=of)
    theta = 0.3 * rng.normal(size=weighted.variables.size)
    np.testing.assert_allclose(terms_of(weighted, theta), WEIGHTS * terms_of(repeated, theta)[FIRST], rtol=1e-12)
    slopes = [full_gradient(one.compile_gradient(), theta) for one in (weighted, repeated)]
    np.testing.assert_allclose(*slopes, rtol=1e-9, atol=1e-9)
    one, other = (Posterior(target).at(theta) for target in (weighted, repeated))
    np.testing.assert_allclose(one.hessian, other.hessian, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(weighted.observed_data["y"], repeated.observed_data["y"][FIRST])
    np.testing.assert_array_equal(weighted.constant_data["weights"], WEIGHTS)
    merged = compressed(weighted)  # each row occurs twice, with the same weight
    assert merged.n_obs == N // 2 and merged.weights.sum() == WEIGHTS.sum()
    assert math.fsum(terms_of(merged, theta)) == pytest.approx(math.fsum(terms_of(repeated, theta)), rel=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "of"), PAIRS)
def test_bounds_and_minorants_are_those_of_rows_times_weights(name, of, rng):
    weighted, repeated = both(name, of=of)
    dim = weighted.variables.size
    try:
        rates = repeated.compile_difference_bound().rates[FIRST]
    except IncompatibleError:
        with pytest.raises(IncompatibleError):
            weighted.compile_difference_bound()
    else:
        np.testing.assert_allclose(weighted.compile_difference_bound().rates, WEIGHTS * rates, rtol=1e-12)
    assert set(weighted.bound_kinds) == set(repeated.bound_kinds) - ({"taylor"} if name == "binomial" else set())
    theta, at = 0.5 * rng.normal(size=(2, dim))
    for kind in weighted.bound_kinds:
        bound = weighted.likelihood_bound(kind, at)
        gaps = np.empty(N)
        bound.gaps(theta, bound.data, ALL_ROWS, 0, N, gaps)
        assert gaps.min() >= -1e-12
        total = bound.log_bound(theta, bound.sums) + gaps.sum()
        assert total == pytest.approx(terms_of(weighted, theta).sum(), rel=1e-11)
        factors = rng.random(N)
        slope = np.zeros(dim)
        expected = np.zeros(dim)
        bound.add_gap_gradient(theta, bound.data, ALL_ROWS, 0, N, factors, slope)
        plain = repeated.likelihood_bound(kind, at)
        of_copies = np.zeros(len(COPIES))
        of_copies[FIRST] = factors * WEIGHTS
        plain.add_gap_gradient(theta, plain.data, ALL_ROWS, 0, len(COPIES), of_copies, expected)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("of", ["matrix", "table"])
@pytest.mark.parametrize("name", ["Bernoulli, logit", "binomial", "Student-t", "beta, known precision"])
def test_processes_and_residuals_of_weighted_rows_are_those_of_copies(name, of, rng):
    weighted, repeated = both(name, of=of)
    dim = weighted.variables.size
    fit = amc.numerics.Laplace(np.linspace(-0.5, 0.5, dim), 0.04 * np.eye(dim))
    one, other = (split(rows_of(target, fit, 1)) for target in (weighted, repeated))
    np.testing.assert_allclose(one.force, other.force, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(one.curvature, other.curvature, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(one.totals.sum(), other.totals.sum(), rtol=1e-10)
    law = fit.mode, fit.cholesky, fit.mode + 0.2 * rng.normal(size=(16, dim))
    for order in (1, 2):
        rates = []
        for target in (weighted, repeated):
            expansion = Posterior(target, order).expansion
            numbers = np.empty((target.n_obs, expansion.columns))
            expansion.expand(fit.mode, numbers)
            bound = bound_of_rows(target, order, numbers, None, law)[0]
            rates.append(bound.rates.sum(dtype=float) * bound.reach(law[2][0], law[2][1], bound.numbers))
        np.testing.assert_allclose(*rates, rtol=0.05)  # units come from rows drawn at random


def test_weights_must_be_positive_numbers_of_the_rows():
    with pytest.raises(InvalidInputError, match=r"PoissonRegression: weights must be positive, found 0 in row 1"):
        amc.targets.PoissonRegression(X, np.ones(N), weights=np.arange(N) - 1.0 + (np.arange(N) == 0) * 2.0)
    with pytest.raises(InvalidInputError, match="weights must hold 12 numbers"):
        amc.targets.SoftmaxRegression(X, np.arange(N) % 3, weights=WEIGHTS[1:])


def test_weighted_rows_predict_and_are_not_replicated():
    weighted, repeated = both("Poisson")
    thetas = np.array([[0.2, -0.1]])
    rows = weighted.rows_to_predict(None)
    expected = repeated.rows_to_predict(None).means(repeated.rows_to_predict(None).predictors(thetas, slice(None)), ...)
    np.testing.assert_allclose(rows.means(rows.predictors(thetas, slice(None)), slice(None)), expected[FIRST])
    with pytest.raises(IncompatibleError, match="cannot be replicated"):
        rows.responses(rows.predictors(thetas, slice(None)), slice(None), np.random.default_rng(0))
    new = weighted.rows_to_predict(X)
    assert new.responses(new.predictors(thetas, slice(None)), slice(None), np.random.default_rng(0)).shape == (N, 1)


@pytest.mark.parametrize("name", ["Bernoulli, logit", "binomial", "softmax"])
def test_a_target_with_weights_is_saved(name, tmp_path):
    weighted, _ = both(name, of="table")
    loaded = amc.load(amc.save(weighted, tmp_path / "target"))
    theta = np.linspace(-0.3, 0.2, weighted.variables.size)
    np.testing.assert_array_equal(terms_of(loaded, theta), terms_of(weighted, theta))
    np.testing.assert_array_equal(loaded.weights, WEIGHTS)


QUICK = ("gamma",)
TWINS = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
    for name in NAMES
    if not name.startswith("yours")
]


@pytest.mark.thorough
@pytest.mark.parametrize("name", TWINS)
def test_the_twin_of_pymc_is_recognised_with_its_weights(name):
    """So the twin has the density of the regression: recognition compares the terms with PyMC's."""
    family = FAMILIES[name]
    n = 40
    rows = np.resize(np.arange(N), n)
    X_of_rows = np.column_stack([np.ones(n), np.sin(np.arange(n))])
    sizes = {key: value[rows] for key, value in family.sizes.items()}
    for weights in (None, WEIGHTS[rows]):
        target = family.make(X_of_rows, family.y[rows], weights=weights, **sizes, **family.settings)
        found = amc.from_pymc(target.to_pymc())
        assert isinstance(found, PredictorsOfPyMC)
        assert type(found.likelihood.single) is type(target.likelihood.single)
        if weights is None:
            assert found.weights is None
        else:
            np.testing.assert_array_equal(found.weights, weights)


@pytest.mark.thorough
def test_normal_rows_of_pymc_with_weights_are_recognised(rng):
    """Their scale is a parameter, so a weight is no precision."""
    import pymc as pm

    y = rng.normal(size=40)
    weights = 1.0 + np.arange(40) % 3
    columns = rng.normal(size=(40, 2))

    def logp(value, mean, sigma):
        return weights * pm.logp(pm.Normal.dist(mean, sigma), value)

    def draw(mean, sigma, size):
        return pm.Normal.dist(mean, sigma, size=size)

    with pm.Model() as model:
        mean = columns @ pm.Normal("beta", shape=2)
        pm.CustomDist("y", mean, pm.HalfNormal("sigma"), logp=logp, dist=draw, observed=y)
    found = amc.from_pymc(model)
    assert isinstance(found.likelihood.single, NormalLikelihood)
    np.testing.assert_array_equal(found.weights, weights)
