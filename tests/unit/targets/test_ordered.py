"""Ordered regression: its density on matrices and tables, cutpoints in the trace, categories, and predictions."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from pytensor.compile.mode import Mode
from scipy import stats

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.sources import ParquetFolder
from tests.contracts.test_families_of_classes import cutpoints

N = 60
LEVELS = ["low", "mid", "high", "top"]
X = np.random.default_rng(3).normal(size=(N, 2))
TOWN = np.array(["Bern", "Oslo", "Rome"])[np.arange(N) % 3]
TABLE = pd.DataFrame({"x": X[:, 0], "town": TOWN, "z": X[:, 1]})
MATRIX = np.column_stack([X, TOWN == "Oslo", TOWN == "Rome"])  # in the order of the table's theta
OFFSET = np.cos(np.arange(N))
CODES = (np.arange(N) * 7) % 11 % 4
Y = pd.Series(pd.Categorical(np.array(LEVELS)[CODES], categories=LEVELS, ordered=True))
THETA = np.array([0.3, -0.5, 0.2, 0.8, -1.1, 0.4, -0.3])
STABLE = Mode(linker="py", optimizer="fast_compile").including("stabilize")


def log_density(theta, offset=OFFSET, scale=2.0, cutpoint_scale=3.0):
    """Return log p(y, theta) up to a constant: probabilities of intervals, normals, and the Jacobian."""
    cuts = cutpoints(theta[4:])
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    eta = MATRIX @ theta[:4] + offset
    terms = np.log(stats.logistic.cdf(edges[CODES + 1], eta) - stats.logistic.cdf(edges[CODES], eta))
    prior = stats.norm.logpdf(theta[:4], 0.0, scale).sum() + stats.norm.logpdf(cuts, 0.0, cutpoint_scale).sum()
    return terms.sum() + prior + theta[5:].sum()


def density_and_gradient(target, theta):
    """Return the log posterior and its gradient by the target's kernels."""
    compiled, slopes = target.compile(), target.compile_gradient()
    terms, gradient = np.empty(target.n_obs), np.zeros(len(theta))
    compiled.log_terms(theta, compiled.data, ALL_ROWS, 0, target.n_obs, terms)
    slopes.add_gradient(theta, slopes.data, ALL_ROWS, 0, target.n_obs, gradient)
    slopes.add_prior_gradient(theta, gradient)
    return terms.sum() + compiled.log_prior(theta), gradient


def of_kind(kind, **settings):
    """Return the same model of a matrix or of a table."""
    return amc.targets.OrderedRegression(MATRIX if kind == "matrix" else TABLE, Y, **settings)


@pytest.mark.parametrize("kind", ["matrix", "table"])
def test_the_density_is_that_of_intervals_and_the_gradient_its_slopes(kind):
    target = of_kind(kind, prior_scale=2.0, cutpoint_scale=3.0, offset=OFFSET)
    value, gradient = density_and_gradient(target, THETA)
    other = np.zeros(7)
    expected = log_density(THETA) - log_density(other)
    assert value - density_and_gradient(target, other)[0] == pytest.approx(expected, rel=1e-12)
    steps = 1e-5 * np.eye(7)
    slopes = [(log_density(THETA + step) - log_density(THETA - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("scales", [(2.0, 3.0), (np.inf, np.inf)])
def test_the_twin_of_pymc_has_the_same_density(scales):
    target = of_kind("table", prior_scale=scales[0], cutpoint_scale=scales[1], offset=OFFSET)
    density = target.to_pymc().compile_logp(mode=STABLE, jacobian=True)
    values = [
        density_and_gradient(target, theta)[0]
        - density({"beta": theta[:2], "town": theta[2:4], "cutpoints_ordered__": theta[4:]})
        for theta in (THETA, np.zeros(7))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


@pytest.mark.recompiles
def test_the_mode_is_where_the_gradient_is_zero_and_its_curvature_that_of_the_density():
    target = of_kind("table", prior_scale=2.0, cutpoint_scale=3.0, offset=OFFSET)
    assert "concave in coefficients and cutpoints" in target.why_one_mode
    fit = amc.laplace(target)
    _, gradient = density_and_gradient(target, fit.mode)
    np.testing.assert_allclose(np.linalg.solve(fit.precision, gradient), 0.0, atol=1e-5)
    steps = 1e-4 * np.eye(7)
    bends = [
        density_and_gradient(target, fit.mode + h)[1] - density_and_gradient(target, fit.mode - h)[1] for h in steps
    ]
    np.testing.assert_allclose(fit.precision, -np.array(bends) / 2e-4, rtol=1e-4, atol=1e-3)


@pytest.mark.recompiles
def test_two_categories_are_a_logistic_regression():
    y = CODES > 1
    ordered = amc.targets.OrderedRegression(X, y, prior_scale=2.0, cutpoint_scale=2.0)
    logistic = amc.targets.LogisticRegression(X, y, prior_scale=2.0, intercept=True)
    values = [
        density_and_gradient(ordered, np.array([*beta, cut]))[0]
        - density_and_gradient(logistic, np.array([-cut, *beta]))[0]
        for beta, cut in (([0.3, -0.2], 0.7), ([0.0, 1.0], -0.1))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.recompiles
def test_equal_rows_are_merged():
    twice = np.tile(np.arange(12), 4)
    target = amc.targets.OrderedRegression(X[twice], CODES[twice])
    merged = amc.targets.compressed(target)
    assert merged.n_obs == 12
    theta = target.initial_point() + 0.1
    value, gradient = density_and_gradient(merged, theta)
    expected, slopes = density_and_gradient(target, theta)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-10)


def test_cutpoints_are_in_the_trace_and_their_steps_in_theta():
    target = of_kind("table")
    assert target.variables.labels()[-3:] == [
        "cutpoints[low|mid]",
        "log_step_cutpoints[mid|high]",
        "log_step_cutpoints[high|top]",
    ]
    values = target.variables.unpack(THETA)
    np.testing.assert_allclose(values["cutpoints"], cutpoints(THETA[4:]))
    np.testing.assert_allclose(target.variables.pack(values), THETA)
    draws = np.stack([THETA, THETA + 0.1])[None]
    packed = target.variables.pack_draws(target.variables.unpack(draws))
    np.testing.assert_allclose(packed, draws)
    with pytest.raises(InvalidInputError, match="cutpoints must increase"):
        target.variables.pack({**values, "cutpoints": np.array([0.0, 1.0, 1.0])})
    start = target.variables.unpack(target.initial_point())["cutpoints"]
    shares = (np.bincount(CODES) + 0.5) / (N + 2.0)
    np.testing.assert_allclose(stats.logistic.cdf(start), np.cumsum(shares)[:-1])


def test_categories_keep_their_order_and_their_labels():
    assert of_kind("table").categories == LEVELS
    assert of_kind("table").reference_levels == {"town": "Bern"}
    wine = amc.targets.OrderedRegression(X, CODES + 3)
    assert wine.categories == [3, 4, 5, 6]
    np.testing.assert_array_equal(wine.observed_data["y"], CODES)
    unused = amc.targets.OrderedRegression(X, Y.cat.add_categories(["best"]))
    assert unused.categories == [*LEVELS, "best"]
    assert np.isfinite(density_and_gradient(unused, unused.initial_point())[0])
    assert unused.setup_attrs["categories"] == "low, mid, high, top, best"


@pytest.mark.recompiles
def test_sources_give_the_same_target(tmp_path):
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": CODES, "text": Y.astype(str)}), tmp_path / "0.parquet")
    rows = ParquetFolder(tmp_path)
    target = amc.targets.OrderedRegression(rows[["a", "b"]], rows["y"])
    expected = amc.targets.OrderedRegression(X, CODES, coef_names=["a", "b"])
    assert target.content_hash() == expected.content_hash()
    assert density_and_gradient(target, THETA[2:])[0] == density_and_gradient(expected, THETA[2:])[0]
    part = target.with_rows(tuple(target.given), N)
    np.testing.assert_array_equal(part.initial_point(), target.initial_point())
    with pytest.raises(InvalidInputError, match="whose order is unknown"):
        amc.targets.OrderedRegression(rows[["a", "b"]], rows["text"])


def test_predictions_are_probabilities_of_categories(rng):
    target = of_kind("table", offset=OFFSET)
    thetas = THETA + 0.2 * rng.normal(size=(2, 400, 7))
    values = target.variables.unpack(thetas)
    axes = {name: ("chain", "draw", *target.variables.dims[name]) for name in values}
    coords = {**target.variables.coords, "chain": [0, 1], "draw": np.arange(400)}
    posterior = xr.Dataset({name: (axes[name], values[name]) for name in values}, coords)
    trace = xr.DataTree.from_dict({"posterior": posterior})
    new = TABLE.iloc[:4].assign(town=["Rome", "Bern", "Bern", "Oslo"])
    predictor = amc.predict(trace, target, new, kind="predictor", offset=OFFSET[:4])["predictions"]["y_predictor"]
    assert predictor.dims == ("chain", "draw", "y_dim_0")
    shares = amc.predict(trace, target, new, offset=OFFSET[:4])["predictions"]["y_mean"]
    assert shares.dims == ("chain", "draw", "y_dim_0", "category")
    assert shares["category"].values.tolist() == LEVELS
    below = stats.logistic.cdf(values["cutpoints"][:, :, None, :], predictor.to_numpy()[..., None])
    np.testing.assert_allclose(shares.cumsum("category").to_numpy()[..., :-1], below, atol=1e-12)
    np.testing.assert_allclose(shares.sum("category"), 1.0)
    drawn = amc.predict(trace, target, new, kind="response", offset=OFFSET[:4], random_seed=1)["predictions"]["y"]
    counts = np.stack([(drawn == k).mean(("chain", "draw")) for k in range(4)], axis=-1)
    expected = shares.mean(("chain", "draw")).to_numpy()
    error = np.sqrt(expected * (1.0 - expected) / 800)
    assert (np.abs(counts - expected) < 5.0 * error).all()  # false-fail rate below 1e-5


@pytest.mark.recompiles
def test_what_has_no_bound_says_so():
    target = of_kind("matrix")
    fit = amc.numerics.Laplace(target.initial_point(), np.eye(7))
    with pytest.raises(IncompatibleError, match="does not bound its terms"):
        target.compile_term_range()
    with pytest.raises(IncompatibleError, match="ZigZag adds a normal prior to its rates exactly"):
        amc.samplers.ZigZag(fit).build(target)
    walk = amc.RandomWalk(0.1)
    with pytest.raises(IncompatibleError, match="Firefly needs a lower bound of every likelihood term"):
        amc.Firefly(walk, bound="untuned").build(target)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: amc.targets.OrderedRegression(X, X[:, 0]), "y must hold categories, as integers"),
        (lambda: amc.targets.OrderedRegression(X, np.zeros(N)), "found 1: \\[0\\]"),
        (lambda: amc.targets.OrderedRegression(np.ones((200, 1)), np.arange(200)), "2 to 100 categories, found 200"),
        (lambda: amc.targets.OrderedRegression(X, Y.astype("category").cat.as_unordered()), "without an order"),
        (lambda: amc.targets.OrderedRegression(X, Y.where(CODES > 0)), "missing values, the first in row 0"),
        (lambda: amc.targets.OrderedRegression(X, TOWN), "y must"),
        (lambda: amc.targets.OrderedRegression(X, CODES, cutpoint_scale=0.0), "cutpoint_scale must be positive"),
        (lambda: amc.targets.OrderedRegression(X, CODES, offset=OFFSET[1:]), "offset must hold 60 numbers"),
        (lambda: amc.targets.OrderedRegression(TABLE.rename(columns={"town": "cutpoints"}), CODES), "rename"),
    ],
)
def test_responses_without_ordered_categories_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
