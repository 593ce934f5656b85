"""Regressions on tables with columns of text or categories: the model of the same indicators, to rounding."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import Arrays, DaskFrame, ParquetFolder
from approxmcmc.sources.parts import make_part, recipe_of, why_here
from approxmcmc.targets.predictors.target import PredictorTarget

N = 60


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


@pytest.fixture
def y():
    return (np.arange(N) % 5 < 2).astype(int)


def indicators(table):
    """Return the design by hand: intercept, x, flag, kind b and c, site 3 (its categories are in the order 20, 3)."""
    columns = [np.ones(N), table["x"], table["flag"], table["kind"] == "b", table["kind"] == "c", table["site"] == 3]
    return np.column_stack(columns).astype(float)


def terms_and_gradient(target, theta):
    compiled, slopes = target.compile(), target.compile_gradient()
    terms, gradient = np.empty(N), np.zeros(len(theta))
    compiled.log_terms(theta, compiled.data, ALL_ROWS, 0, N, terms)
    slopes.add_gradient(theta, slopes.data, ALL_ROWS, 0, N, gradient)
    return terms, gradient


def robust(X, y, **settings):
    return amc.targets.RobustRegression(X, y, 3.0, 0.5, **settings)


def softmax(X, y, **settings):
    return amc.targets.SoftmaxRegression(X, (np.arange(N) % 7) % 3, **settings)


def normal(X, y, **settings):
    weights = 1.0 + np.arange(N) % 2
    return amc.targets.LinearRegression(X, np.arange(N) % 7, weights=weights, **settings)


def two_outcomes(X, y, **settings):
    return amc.targets.LinearRegression(X, np.column_stack([y, np.arange(N) % 7]), sigma=0.7, **settings)


@pytest.mark.parametrize(("model", "shape"), [(softmax, (3, 6)), (normal, (6,)), (two_outcomes, (6, 2))])
def test_a_model_of_several_predictors_is_that_of_indicators(model, shape, table, y, rng):
    """The entries of each variable are together: by class for a softmax, by column for normal rows."""
    found, expected = model(table, y, intercept=True), model(indicators(table), y)
    n = expected.variables.size
    places = np.arange(np.prod(shape)).reshape(shape)
    parts = np.split(places, [3, 5], axis=shape.index(6))
    order = np.concatenate([*(part.ravel() for part in parts), np.arange(places.size, n)])
    theta = rng.normal(size=n)
    if model is not softmax:
        found, expected = found.plain, expected.plain
    terms, gradient = terms_and_gradient(found, theta[order])
    expected_terms, expected_gradient = terms_and_gradient(expected, theta)
    np.testing.assert_allclose(terms, expected_terms, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(gradient, expected_gradient[order], rtol=1e-10, atol=1e-10)


def test_statistics_of_a_table_are_those_of_its_rows(table, y, rng):
    target = normal(table, y, intercept=True)
    theta = 0.3 * rng.normal(size=target.variables.size)
    rows = terms_and_gradient(target.plain, theta)[0].sum()
    compiled, total = target.compile(), np.empty(1)
    compiled.log_terms(theta, compiled.data, ALL_ROWS, 0, 1, total)
    assert total[0] == pytest.approx(rows, rel=1e-10)
    assert target.reference_levels == {"kind": "a", "site": "20"}
    assert target.setup_attrs["reference_levels"] == "kind=a, site=20"
    assert "reference_levels" not in normal(indicators(table), y).setup_attrs
    with pytest.raises(InvalidInputError, match="'sigma' is the name of the scale"):
        normal(table.rename(columns={"kind": "sigma"}), y)


@pytest.mark.parametrize("model", [amc.targets.LogisticRegression, robust])
def test_terms_and_gradients_are_those_of_indicators(model, table, y, rng):
    theta = rng.normal(size=6)
    found = terms_and_gradient(model(table, y, intercept=True), theta)
    expected = terms_and_gradient(model(indicators(table), y), theta)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_mode_and_curvature_are_those_of_indicators(table, y):
    found = amc.laplace(amc.targets.LogisticRegression(table, y, intercept=True))
    expected = amc.laplace(amc.targets.LogisticRegression(indicators(table), y))
    np.testing.assert_allclose(found.mode, expected.mode, atol=1e-10)
    np.testing.assert_allclose(found.cov, expected.cov, atol=1e-10)


def test_variables_are_named_by_columns_and_levels_and_the_reference_is_named(table, y):
    target = amc.targets.LogisticRegression(table, y, intercept=True)
    assert target.variables.shapes == {"beta": (3,), "kind": (2,), "site": (1,)}
    assert target.variables.coords == {
        "coef": ["intercept", "x", "flag"],
        "kind_dim": ["b", "c"],
        "site_dim": ["3"],
    }
    assert target.reference_levels == {"kind": "a", "site": "20"}  # 7 has no row
    assert "kind=a" in repr(target)
    assert amc.ControlVariate(target).setup_attrs["reference_levels"] == "kind=a, site=20"


def test_without_an_intercept_the_first_column_has_all_its_levels(table, y):
    target = amc.targets.LogisticRegression(table[["kind", "site"]], y)
    assert target.variables.shapes == {"kind": (3,), "site": (1,)}
    assert target.reference_levels == {"site": "20"}


def test_a_glm_of_a_table_is_the_same_model(table, y, rng):
    def loglik(eta, y):
        return -0.5 * (y - eta) ** 2

    theta = rng.normal(size=6)
    found = terms_and_gradient(amc.targets.GLMTarget(loglik, table, y, intercept=True), theta)
    expected = terms_and_gradient(amc.targets.GLMTarget(loglik, indicators(table), y), theta)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
def test_tables_of_dask_are_read_as_those_of_pandas(table, y, rng):
    table = table.assign(site=table["site"].astype(str))
    frame = dd.from_pandas(table, npartitions=3)
    theta = rng.normal(size=6)
    found = terms_and_gradient(amc.targets.LogisticRegression(frame, y, intercept=True), theta)
    expected = terms_and_gradient(amc.targets.LogisticRegression(table, y, intercept=True), theta)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_tables_of_numbers_are_as_before(table, y):
    target = amc.targets.LogisticRegression(table[["x", "flag"]], y)
    assert isinstance(target, amc.targets.LogisticRegression)
    objects = table[["x"]].assign(count=pd.Series([1, 2] * (N // 2), dtype=object))
    assert isinstance(amc.targets.LogisticRegression(objects, y), amc.targets.LogisticRegression)


@pytest.mark.needs_jit
@pytest.mark.parametrize(  # the constant of PyMC's Student-t distribution is correct to 1e-8
    ("model", "error"), [(amc.targets.LogisticRegression, 1e-12), (robust, 1e-8), (softmax, 1e-12)]
)
def test_the_twin_of_pymc_has_the_same_density(model, error, table, y, rng):
    target = model(table, y, intercept=True)
    theta = rng.normal(size=target.variables.size)
    density = target.to_pymc().compile_logp(mode="FAST_COMPILE")
    point = {name: value[0] for name, value in target.variables.unpack(theta[None]).items()}
    expected = terms_and_gradient(target, theta)[0].sum() - 0.5 * theta @ theta - 0.5 * theta.size * np.log(2.0 * np.pi)
    assert density(point) == pytest.approx(expected, rel=error)


def test_rows_that_are_missing_and_columns_of_one_level_are_refused(table, y):
    holes = table.assign(kind=table["kind"].where(table.index != 7))
    with pytest.raises(InvalidInputError, match="column 'kind' has 1 missing value\\(s\\), the first in row 7"):
        amc.targets.LogisticRegression(holes, y)
    with pytest.raises(InvalidInputError, match="column 'kind' has one level, 'a'"):
        amc.targets.LogisticRegression(table.assign(kind="a"), y)
    with pytest.raises(InvalidInputError, match="coef_names is for arrays"):
        amc.targets.LogisticRegression(table, y, coef_names=["a", "b", "c", "d"])
    with pytest.raises(InvalidInputError, match="slope_bound"):
        amc.targets.GLMTarget(lambda eta, y: -((y - eta) ** 2), table, y, slope_bound=1.0)
    with pytest.raises(InvalidInputError, match="several columns called kind"):
        amc.targets.LogisticRegression(pd.concat([table, table[["kind"]]], axis=1), y)
    with pytest.raises(InvalidInputError, match="df must be positive"):
        amc.targets.RobustRegression(table, y, df=0.0)
    with pytest.raises(InvalidInputError, match="'beta' is the name of the slopes"):
        amc.targets.LogisticRegression(table.rename(columns={"kind": "beta"}), y)


def test_a_row_of_the_reference_level_adds_nothing_to_gradient_or_curvature():
    """Code `dim` means no entry of theta, for set-up by NumPy and for kernels."""
    codes = np.array([0, 1, 2, 0, 1, 2, 0, 0])

    def loglik(eta, y):
        return -0.5 * (y - eta) ** 2

    weights = np.linspace(1.0, 2.0, 8)
    predictors = {"mu": {"kind": amc.targets.Treatment((codes, weights))}}
    target = PredictorTarget(loglik, predictors, np.zeros(8))
    theta = np.array([1.0, -2.0])
    expected = weights * np.append(0.0, theta)[codes]
    np.testing.assert_allclose(target.design.eta(theta, slice(None))[0], expected)
    np.testing.assert_allclose(target.design.times(np.eye(2), slice(None))[0] @ theta, expected)
    compiled, terms = target.compile(), np.empty(8)
    compiled.log_terms(theta, compiled.data, ALL_ROWS, 0, 8, terms)
    np.testing.assert_allclose(terms, -0.5 * expected**2)


def normal_groups(X, y, groups, **settings):
    return amc.targets.NormalGroups(X, y, groups, **settings)


def counts_in_groups(X, y, groups, **settings):
    return amc.targets.GroupedTarget(X, np.round(np.abs(y)), groups, family="poisson", n_nodes=3, **settings)


@pytest.mark.parametrize("model", [normal_groups, pytest.param(counts_in_groups, marks=pytest.mark.recompiles)])
def test_a_table_in_groups_is_its_matrix_of_indicators(model, rng):
    n = 24
    kinds = np.array(["b", "a", "c", "a"])[np.arange(n) % 4]
    table = pd.DataFrame({"x": rng.normal(size=n), "kind": kinds, "flag": np.arange(n) % 3 == 0})
    y = rng.normal(size=n)
    groups = np.arange(n) % 5
    matrix = np.column_stack([np.ones(n), table["x"], table["flag"], kinds == "b", kinds == "c"]).astype(float)
    of_table = model(table, y, groups, intercept=True)
    of_matrix = model(matrix, y, groups)
    assert of_table.variables.coords["coef"] == ["intercept", "x", "flag", "kind[b]", "kind[c]"]
    assert of_table.setup_attrs["reference_levels"] == "kind=a"
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(of_table.data, of_matrix.data, strict=True))
    without_intercept = model(table[["kind", "x"]], y, groups).variables.coords["coef"]
    assert without_intercept == ["x", "kind[a]", "kind[b]", "kind[c]"]
    with pytest.raises(InvalidInputError, match="coef_names is for arrays"):
        model(table, y, groups, coef_names=["x"])


@pytest.mark.recompiles
@pytest.mark.parametrize("intercept", [True, False])
def test_categories_of_a_source_in_groups_are_columns_of_0_and_1(tmp_path, rng, intercept):
    n = 24
    kinds = pd.Categorical(np.array(["b", "a", "c", "a"])[np.arange(n) % 4])
    table = pd.DataFrame({"x": rng.normal(size=n), "kind": kinds, "k": np.arange(n) % 7})
    table.iloc[:10].to_parquet(tmp_path / "rows_0.parquet")
    table.iloc[10:].to_parquet(tmp_path / "rows_1.parquet")
    rows = ParquetFolder(tmp_path)
    groups = np.repeat(np.arange(4), 6)
    y = rng.normal(size=n)
    for columns in (["x", "kind", "k"], ["kind"]):
        of_source = normal_groups(rows[columns], y, groups, intercept=intercept)
        of_table = normal_groups(table[columns], y, groups, intercept=intercept)
        assert of_source.variables.coords == of_table.variables.coords
        assert of_source.setup_attrs.get("reference_levels") == of_table.setup_attrs.get("reference_levels")
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(of_source.data, of_table.data, strict=True))
    counts = Arrays(np.round(np.abs(y)))
    settings = {"family": "poisson", "n_nodes": 3, "intercept": intercept}
    whole = amc.targets.GroupedTarget(rows, counts, Arrays(groups), **settings)
    assert why_here(whole) == ""
    part = make_part(recipe_of(whole), 0, whole.n_obs).target
    np.testing.assert_array_equal(part.data[0], whole.data[0])


def test_a_category_that_is_missing_in_a_source_is_refused():
    kinds = pd.Categorical(["b", "a", None, "a"])
    table = pd.DataFrame({"x": np.ones(4), "kind": kinds})
    with pytest.raises(InvalidInputError, match="block 0 has missing values"):
        normal_groups(DaskFrame(dd.from_pandas(table, npartitions=1)), np.ones(4), np.arange(4))
