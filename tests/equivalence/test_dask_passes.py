"""Passes by the workers of a Dask cluster give what one process finds, to 1e-10, for every kind of target."""

import math

import cloudpickle
import dask.array as da
import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms import partitions
from approxmcmc.errors import ClusterWarning, IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.reference import stein
from approxmcmc.sources import Arrays, ParquetFolder, parts

pytestmark = pytest.mark.recompiles
N, PARTS = 180, 3


@pytest.fixture(scope="module")
def cluster():
    """Start two workers in this process: what travels is not pickled, see `test_what_travels_can_be_pickled`."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options, processes=False) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def small_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(partitions.spans, "__defaults__", (60,))


def rows(rng):
    """Return a design with a rare category, codes, and a predictor of responses."""
    rare = np.arange(N) % (N // 3) == 0
    X = np.column_stack([rng.normal(size=N), rare / rare.std()]).astype(np.float32)
    return X, rng.integers(3, size=N), 0.5 * X[:, 0]


def logistic(rng, folder):
    """Parquet files of float32, whose rows of the rare category are influential."""
    X, _, eta = rows(rng)
    y = (rng.random(N) < 1.0 / (1.0 + np.exp(-eta))) | (X[:, 1] > 1.0)
    (folder / "rows").mkdir()
    for k, here in enumerate(np.array_split(np.arange(N), 3)):
        table = pa.table({"a": X[here, 0], "b": X[here, 1], "y": y[here]})
        pq.write_table(table, folder / "rows" / f"{k}.parquet", row_group_size=35)
    source = ParquetFolder(folder / "rows")
    return amc.targets.LogisticRegression(source[["a", "b"]], source["y"], intercept=True)


def poisson(rng, folder):
    """A function of the user's, and lazy arrays."""
    X, _, eta = rows(rng)
    scale, y = 1.0, rng.poisson(np.exp(eta))

    def loglik(eta, y):
        return y * eta - scale * np.exp(eta)

    return amc.targets.GLMTarget(loglik, da.from_array(X, chunks=(60, 1)), da.from_array(y, chunks=70))


def student(rng, folder):
    X, _, eta = rows(rng)
    return amc.targets.RobustRegression(source_of(X), source_of(eta + 0.3 * rng.standard_t(4, N)))


def softmax(rng, folder):
    """Classes of which some parts hold but two."""
    X, code, _ = rows(rng)
    return amc.targets.SoftmaxRegression(source_of(X), source_of(np.where(np.arange(N) < 70, code % 2, code) + 5))


def negative_binomial(rng, folder):
    """Two predictors, codes of which some parts lack the last, an offset."""
    X, code, eta = rows(rng)
    code[:70] %= 2

    def loglik(eta, log_size, y):
        size = math.exp(log_size)
        known = math.lgamma(y + size) - math.lgamma(size) - math.lgamma(y + 1.0)
        return known + size * log_size + y * eta - (y + size) * math.log(size + math.exp(eta))

    predictors = {"eta": {"beta": source_of(X), "effect": source_of(code)}, "log_size": {"log_size": 1.0}}
    y = source_of(rng.negative_binomial(3, 3 / (3 + np.exp(eta))))
    return amc.targets.PredictorTarget(loglik, predictors, y, offsets={"eta": source_of(np.full(N, 0.1))})


def scale_mixture(rng, folder):
    """A general target, whose derivatives are differences; beside its rows an array that all of them read."""
    X, code, _ = rows(rng)
    weights = np.array([0.5, 1.0, 2.0])

    def loglik(theta, data, i):
        x, code, weights = data
        return -theta[1] - 0.5 * weights[code[i]] * ((x[i] - theta[0]) * np.exp(-theta[1])) ** 2

    def logprior(theta):
        return -0.5 * (theta[0] ** 2 + theta[1] ** 2)

    return amc.FunctionTarget(loglik, logprior, data=(source_of(X[:, 0]), source_of(code), weights), n_obs=N, dim=2)


def with_gradient(rng, folder):
    """A general target that knows its gradient."""

    def loglik(theta, data, i):
        return theta[0] * data[0][i, 0] - np.cosh(theta[0] - data[0][i, 1])

    def grad_loglik(theta, data, i, out):
        out[0] += data[0][i, 0] - np.sinh(theta[0] - data[0][i, 1])

    def logprior(theta):
        return -0.5 * theta[0] ** 2

    table = source_of(rng.normal(size=(N, 2)))
    return amc.FunctionTarget(loglik, logprior, data=table, n_obs=N, dim=1, grad_loglik=grad_loglik)


def grouped(rng, folder):
    """Groups of different sizes, sorted, which the blocks of the sources split; a term is a group."""
    X, _, eta = rows(rng)
    label = np.sort(rng.integers(60, size=N))
    y = rng.random(N) < 1.0 / (1.0 + np.exp(-eta - rng.normal(size=60)[label]))
    return amc.targets.GroupedTarget(source_of(X), source_of(y), source_of(label), n_nodes=8)


EXACT = [logistic, student, softmax, with_gradient, grouped]  # derivatives are no differences
ROWS_ARE_TERMS = [logistic, poisson, student, softmax, negative_binomial, scale_mixture, with_gradient]
TARGETS = [*ROWS_ARE_TERMS, grouped]


def source_of(array):
    source = Arrays(array)
    source.offsets = np.append(np.arange(0, N, 30), N)
    return source


def found_by(target, fit):
    """Return what passes over all data find around a mode: curvature, numbers by row, rows, spreads, terms."""
    split = amc.ControlVariate(target, always_read="auto", at=fit)
    expansion = Posterior(target).expansion
    survey_rows, taylor_rows = np.empty((2, target.n_obs, expansion.columns))
    law = split.pilot.mode, split.pilot.cholesky, split.pilot.draws
    survey = expansion.survey(*law, survey_rows, averaged=True)
    total = expansion.expand(fit.mode, taylor_rows)
    numbers = {"law": split.laplace.cov, "spread": split.spread}
    sums = {
        "deviations": survey.deviations,
        "left": survey.left,
        "total": total.hessian,
        "survey": survey.total.hessian,
    }
    by_row = {"terms": expansion.terms_at(split.pilot.draws[:2]), "averaged": survey_rows, "taylor": taylor_rows}
    values = {**numbers, **sums, **by_row, "spreads": survey.spreads()}
    return values, {"influential": split.always_read, "walls": survey.walls}, expansion


@pytest.mark.parametrize("make", TARGETS)
def test_passes_are_those_of_one_process(make, cluster, tmp_path, monkeypatch, rng):
    target = make(rng, tmp_path)
    fit = amc.laplace(target)
    alone, choices, expansion = found_by(target, fit)
    assert expansion.parts is None and (make is not logistic or len(choices["influential"]) >= 3)
    with distributed.Client(cluster):
        same_fit = amc.laplace(target)
        together, same_choices, there = found_by(target, fit)
        assert len(there.parts.where) == PARTS and there.passes == expansion.passes
        assert Posterior(target, order=1).expansion.parts is there.parts  # rows are read once
    # At states that differ by 1e-16 differences of terms give derivatives that differ by their own error.
    away = np.abs(same_fit.mode - fit.mode).max() / fit.sd.min()
    assert same_fit.passes == fit.passes and away < (1e-10 if make in EXACT else 1e-6)
    for name, values in choices.items():
        np.testing.assert_array_equal(same_choices[name], values, err_msg=name)
    # Steps of differences follow from sums; second derivatives of the scale of groups are differences.
    tolerance = {scale_mixture: 1e-7, grouped: 1e-8}.get(make, 1e-10)
    for name, values in alone.items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(together[name], values, rtol=tolerance, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("make", [logistic, negative_binomial, with_gradient])
def test_scores_are_those_of_one_process(make, cluster, tmp_path, monkeypatch, rng):
    monkeypatch.setattr(stein, "STATES", 3)  # the states of some rounds
    target = make(rng, tmp_path)
    states = rng.normal(size=(2, 4, target.variables.size))
    alone = stein.scores_of(target, states)
    with distributed.Client(cluster):
        together = stein.scores_of(target, states)
    assert parts._known[target][1].where  # made in parts
    np.testing.assert_allclose(together, alone, rtol=1e-10, atol=1e-10 * np.abs(alone).max())


@pytest.mark.parametrize("make", ROWS_ARE_TERMS)
def test_what_travels_can_be_pickled(make, tmp_path, rng):
    target = make(rng, tmp_path)
    part = parts.make_part(cloudpickle.loads(cloudpickle.dumps(parts.recipe_of(target))), 30, 90)
    theta, compiled = target.initial_point() + 0.1, target.compile()
    expected = np.empty(2)
    compiled.log_terms(theta, compiled.data, np.array([30, 89]), 0, 2, expected)
    np.testing.assert_array_equal(parts.terms_at_ends(part, theta), expected)
    again = cloudpickle.loads(cloudpickle.dumps(part))  # as it goes from one worker to another
    assert len(again) == 60 and again.first_row == 30
    np.testing.assert_array_equal(parts.terms_at_ends(again, theta), expected)


@pytest.mark.parametrize("make", [poisson, with_gradient])
def test_a_recipe_holds_no_rows(make, tmp_path, rng):
    target = make(rng, tmp_path)
    recipe = parts.recipe_of(target)
    assert not [name for name, value in vars(recipe.target).items() if np.ndim(value) and len(value) == N]
    assert vars(target).keys() >= {"data", "given"}


def test_an_error_of_a_part_names_the_datum(cluster):
    X = np.zeros((N, 1))
    X[100] = 800.0

    def overflows(eta, y):
        return math.sqrt(700.0 - eta) if eta < 700.0 else math.nan

    target = amc.targets.GLMTarget(overflows, source_of(X), source_of(np.zeros(N)))
    with distributed.Client(cluster), pytest.raises(NotFiniteError, match="datum 100 "):
        Posterior(target).at(np.ones(1))


@pytest.mark.parametrize("place", ["first", "neighbour"])
def test_terms_that_read_other_rows_are_refused(place, cluster):
    x = np.random.default_rng(0).normal(size=N)

    def loglik(theta, data, i):
        (x,) = data
        other = x[i - 1] if place == "neighbour" and i > 0 else (1.0 if i == 0 else 0.0)
        return -0.5 * (x[i] - theta[0] * other) ** 2

    target = amc.FunctionTarget(loglik, lambda theta: -0.5 * theta[0] ** 2, data=source_of(x), n_obs=N, dim=1)
    with distributed.Client(cluster), pytest.raises(IncompatibleError, match="more than its own row"):
        amc.laplace(target)


def test_arrays_stay_in_this_process_without_a_word(cluster):
    X = np.random.default_rng(0).normal(size=(100, 2))
    with distributed.Client(cluster):
        assert Posterior(amc.targets.LogisticRegression(X, X[:, 0] > 0)).expansion.parts is None


def test_mapped_data_that_stay_in_this_process_are_told(cluster, tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    X.tofile(tmp_path / "X")
    y, mapped = (X[:, 0] > 0).astype(float), np.memmap(tmp_path / "X", float, "r", shape=X.shape)
    half, none = (amc.targets.LogisticRegression(given, y) for given in (Arrays(mapped), mapped))
    with distributed.Client(cluster):
        with pytest.warns(ClusterWarning, match=r"some of its data are arrays; .*Arrays\(array\), too"):
            assert Posterior(half).expansion.parts is None
        with pytest.warns(ClusterWarning, match=r"did not come from sources; .*Arrays\(array\)"):
            assert Posterior(none).expansion.parts is None


def test_a_cluster_without_workers_is_refused(tmp_path, rng):
    target = logistic(rng, tmp_path)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as empty,
        distributed.Client(empty),
        pytest.raises(InvalidInputError, match="has no worker; start some"),
    ):
        amc.numerics.find_mode(target)
