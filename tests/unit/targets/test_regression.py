"""A regression can do on a table what it can do on the matrix of indicators, and its bounds are the same numbers."""

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.expansion.bounds import bound_of_rows
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.samplers.pdmp.split import rows_of, split
from approxmcmc.surrogate.surrogate import lines_of, predict
from approxmcmc.targets.predictors.design import Design, Predictor
from tests import capabilities
from tests.unit.targets.test_tables import indicators

N = 60
OFFSET = np.sin(np.arange(N))
Y = (np.arange(N) % 5 < 2).astype(float)


@pytest.fixture
def table(rng):
    return pd.DataFrame(
        {
            "x": rng.normal(size=N),
            "kind": np.array(["b", "a", "c", "a"])[np.arange(N) % 4],
            "flag": np.arange(N) % 3 == 0,
            "site": pd.Categorical(np.array([20, 3])[np.arange(N) % 2], categories=[20, 3, 7]),
        }
    )


def logistic(X, **settings):
    return amc.targets.LogisticRegression(X, Y, **settings)


def robust(X, **settings):
    return amc.targets.RobustRegression(X, np.arange(N) % 7, 3.0, 0.5, **settings)


def softmax(X, **settings):
    return amc.targets.SoftmaxRegression(X, np.arange(N) % 3, **settings)


def poisson(X, **settings):
    def derivatives(eta, y):
        mean = np.exp(eta)
        return y - mean, -mean

    return amc.targets.GLMTarget(
        lambda eta, y: y * eta - np.exp(eta),
        X,
        np.arange(N) % 4,
        derivatives_eta=derivatives,
        third_derivative_bound=lambda eta, y, reach: np.exp(eta + reach),
        **settings,
    )


def both(model, table):
    """Return a model of the table, and of the matrix with the same columns in the same order."""
    return model(table, intercept=True), model(indicators(table))


def order_of_classes(target):
    """Return where the matrix of a softmax has the entries of the table: by class, not by variable."""
    entries = np.arange(target.variables.size).reshape(target.n_classes, -1)
    return np.concatenate([part.ravel() for part in np.split(entries, [3, 5], axis=1)])


@pytest.mark.parametrize("model", [logistic, robust, softmax, poisson])
def test_the_class_is_the_one_that_was_called(model, table):
    of_table, of_matrix = both(model, table)
    assert type(of_table) is type(of_matrix)
    assert not of_table.is_dense and of_matrix.is_dense is (model is not softmax)


CLASSES = {name: family for name, family in capabilities.FAMILIES.items() if isinstance(family.make, type)}


def designs_with_another_class(family):
    """Return the designs for which the class of a target is not the class that was called."""
    return [
        design for design in capabilities.DESIGNS if type(capabilities.Model(family, design).target) is not family.make
    ]


def test_a_logistic_regression_is_one_whatever_it_is_given():
    assert designs_with_another_class(CLASSES["Bernoulli, logit"]) == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", CLASSES)
def test_a_regression_is_of_its_class_whatever_it_is_given(name):
    assert designs_with_another_class(CLASSES[name]) == []


def test_a_constructor_that_returns_another_class_is_seen():
    class OfTables(amc.targets.LogisticRegression):
        pass

    class Called(type(OfTables)):
        def __call__(cls, X, *arguments, **settings):
            return OfTables(X, *arguments, **settings) if hasattr(X, "columns") else super().__call__(X, **settings)

    class Changing(amc.targets.LogisticRegression, metaclass=Called):
        pass

    changed = designs_with_another_class(capabilities.Family(Changing, capabilities.BINARY))
    assert changed == ["table with text", "source"]


@pytest.mark.parametrize("kind", ["tuned", "untuned", "taylor"])
@pytest.mark.parametrize("model", [logistic, robust, softmax])
def test_lower_bounds_are_those_of_indicators(model, kind, table, rng):
    of_table, of_matrix = both(model, table)
    if kind not in of_matrix.bound_kinds:
        assert kind not in of_table.bound_kinds
        return
    order = order_of_classes(of_table) if model is softmax else np.arange(of_table.variables.size)
    theta, at = rng.normal(size=(2, of_table.variables.size))
    weights = rng.random(N)
    numbers = []
    for target, shuffled in ((of_table, order), (of_matrix, slice(None))):
        bound = target.likelihood_bound(kind, at[shuffled])
        gaps, slope, total = np.empty(N), np.zeros(theta.size), np.zeros(theta.size)
        bound.gaps(theta[shuffled], bound.data, ALL_ROWS, 0, N, gaps)
        bound.add_gap_gradient(theta[shuffled], bound.data, ALL_ROWS, 0, N, weights, slope)
        bound.add_bound_gradient(theta[shuffled], bound.sums, total)
        numbers.append((gaps, bound.log_bound(theta[shuffled], bound.sums), slope, total))
    (gaps, value, slope, total), expected = numbers
    np.testing.assert_allclose(gaps, expected[0], rtol=1e-10, atol=1e-10)
    assert value == pytest.approx(expected[1], rel=1e-12)
    np.testing.assert_allclose(slope, expected[2][order], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(total, expected[3][order], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["tuned", "untuned", "taylor"])
@pytest.mark.parametrize("of", ["table", "matrix"])
def test_gaps_and_bounds_with_an_offset_add_up_to_the_likelihood(kind, of, table, rng):
    target = logistic(table if of == "table" else indicators(table), intercept=of == "table", offset=OFFSET)
    theta, at = rng.normal(size=(2, 6))
    bound, compiled = target.likelihood_bound(kind, at), target.compile()
    terms, gaps = np.empty((2, N))
    compiled.log_terms(theta, compiled.data, ALL_ROWS, 0, N, terms)
    bound.gaps(theta, bound.data, ALL_ROWS, 0, N, gaps)
    eta = indicators(table) @ theta + OFFSET
    np.testing.assert_allclose(terms, Y * eta - np.logaddexp(0.0, eta), rtol=1e-12)
    assert gaps.min() >= 0.0
    assert bound.log_bound(theta, bound.sums) + gaps.sum() == pytest.approx(terms.sum(), rel=1e-12)


@pytest.mark.parametrize("model", [logistic, robust])
def test_bounds_of_terms_are_those_of_indicators(model, table):
    of_table, of_matrix = both(model, table)
    np.testing.assert_allclose(of_table.row_norms(), np.linalg.norm(indicators(table), axis=1), rtol=1e-14)
    one, other = of_table.compile_difference_bound(), of_matrix.compile_difference_bound()
    np.testing.assert_allclose(one.rates, other.rates, rtol=1e-14)
    np.testing.assert_allclose(one.numbers, other.numbers)
    np.testing.assert_allclose(of_table.compile_term_range().numbers, of_matrix.compile_term_range().numbers)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("model", [logistic, robust, poisson])
def test_bounds_of_residuals_are_those_of_indicators(model, order, table, rng):
    """Of order 1 a Poisson regression has none, and says so."""
    fit = amc.numerics.Laplace(np.zeros(6), 0.04 * np.eye(6))
    draws = 0.2 * rng.normal(size=(16, 6))
    bounds = []
    for target in both(model, table):
        posterior = Posterior(target, order)
        numbers = np.empty((N, posterior.expansion.columns))
        posterior.expansion.expand(fit.mode, numbers)
        law = fit.mode, fit.cholesky, draws
        if model is poisson and order == 1:
            with pytest.raises(amc.errors.IncompatibleError, match="second_derivative_bound="):
                bound_of_rows(target, order, numbers, None, law)
        else:
            bounds.append(bound_of_rows(target, order, numbers, None, law)[0])
    if bounds:
        one, other = bounds
        np.testing.assert_allclose(one.rates, other.rates, rtol=1e-6)
        np.testing.assert_allclose(one.numbers, other.numbers, rtol=1e-10)


@pytest.mark.parametrize("model", [logistic, robust])
def test_a_process_on_a_table_is_that_on_indicators(model, table):
    fit = amc.numerics.Laplace(np.linspace(-0.5, 0.5, 6), 0.04 * np.eye(6))
    one, other = (split(rows_of(target, fit, 1)) for target in both(model, table))
    for name in ("force", "curvature", "totals"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-11, atol=1e-12, err_msg=name)
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_allclose(one.records, other.records, rtol=1e-10, atol=1e-13)


def test_a_process_sees_the_offset(table):
    fit = amc.numerics.Laplace(np.zeros(6), 0.04 * np.eye(6))
    flight = split(rows_of(logistic(table, intercept=True, offset=OFFSET), fit, 1))
    np.testing.assert_allclose(flight.records[np.argsort(flight.rows), 0], OFFSET, atol=1e-15)


def test_the_norm_of_a_row_adds_up_entries_that_occur_twice():
    """Entry 1 of theta is in a dense column, in a code and shared; entry 3 is the constant 1 of an offset."""
    X = np.array([[2.0, 0.5], [-1.0, 0.5]])
    predictor = Predictor((0, 2), (1, 3), (0, 1), (1, 0), (4.0, 3.0))
    design = Design(3, X, np.array([[1], [2]], dtype=np.int32), (-1,), [predictor])
    whole = design.matrix_of(predictor, slice(None))[:, :3]
    np.testing.assert_array_equal(whole, [[3.0, 7.0, 0.0], [3.0, 3.0, 1.0]])
    np.testing.assert_allclose(design.row_norms(), np.linalg.norm(whole, axis=1))
    apart = Design(3, X, np.array([[0], [3]], dtype=np.int32), (0,), [Predictor((0, 1), (1,), (0, 1))])
    np.testing.assert_allclose(apart.row_norms(), [np.sqrt(8.0), 1.0])


def test_an_offset_needs_a_number_for_each_row(table):
    with pytest.raises(amc.errors.InvalidInputError, match="offset must hold 60 numbers"):
        logistic(table, offset=np.zeros(N - 1))
    with pytest.raises(amc.errors.InvalidInputError, match="offset has 1 NaN"):
        logistic(table, offset=np.where(np.arange(N) == 3, np.nan, 0.0))


@pytest.mark.parametrize("model", [logistic, robust, poisson])
def test_averaged_coefficients_are_those_of_indicators(model, table):
    """No row is a wall: of walls the two expansions have different definitions."""
    fit = amc.numerics.Laplace(np.full(6, 0.1), 0.01 * np.eye(6))
    of_table, of_matrix = (amc.ControlVariate(one, at=fit, averaged=True) for one in both(model, table))
    eta, _, slope, half = of_table._numbers.T
    a, b = of_matrix._numbers.T
    np.testing.assert_allclose(slope, a + 2.0 * b * eta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(half, b, rtol=1e-9, atol=1e-12)
    by_taylor = amc.ControlVariate(both(model, table)[0], at=fit)._numbers
    assert np.abs(half - by_taylor[:, 3]).max() > 1e-5
    one, other = (each.compile_difference_bound() for each in (of_table, of_matrix))
    np.testing.assert_allclose(one.rates, other.rates, rtol=1e-5)


def test_influential_rows_of_a_table_have_the_lines_of_indicators(table):
    rows = np.array([1, 5, 40])
    term, lines, scale = lines_of(logistic(table, intercept=True, offset=OFFSET), rows)
    np.testing.assert_array_equal(lines.X, indicators(table)[rows])
    np.testing.assert_array_equal(lines.offset, OFFSET[rows])
    np.testing.assert_array_equal(lines.y, Y[rows])
    assert scale == 1.0 and term(0.3, 1.0) == pytest.approx(-np.log1p(np.exp(-0.3)))
    eta = np.empty(3)
    predict(np.arange(6.0), eta, lines)
    np.testing.assert_allclose(eta, indicators(table)[rows] @ np.arange(6.0) + OFFSET[rows])
    assert lines_of(softmax(table), rows)[0] is None


def test_weighted_rows_of_a_table_keep_their_bounds_and_lines(table):
    """The weight multiplies the bounds of a row, and is the imaginary part of its response."""
    copies = np.resize(np.arange(12), 48)
    single = amc.targets.LogisticRegression(table.iloc[copies].reset_index(drop=True), Y[copies], intercept=True)
    merged = amc.targets.compressed(single)
    assert merged.n_obs == 12 and not merged.is_dense
    plain = single.compile_difference_bound().rates[:12]
    np.testing.assert_allclose(merged.compile_difference_bound().rates, 4.0 * plain)
    eta = np.linspace(-2.0, 2.0, 12)[None]
    covariances = np.linspace(0.1, 0.4, 12)[:, None, None]
    for order in (2, 3):
        one, other = (target.forms_within(order, eta, slice(0, 12), covariances, 0.3) for target in (merged, single))
        np.testing.assert_allclose(one, 4.0 * other)
    term, lines, _ = lines_of(merged, np.array([0, 3]))
    np.testing.assert_array_equal(lines.y, Y[[0, 3]] + 4.0j)
    assert term(0.3, 1.0 + 4.0j) == pytest.approx(-4.0 * np.log1p(np.exp(-0.3)))
