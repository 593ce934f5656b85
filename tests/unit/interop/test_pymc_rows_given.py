"""PyMC models of a handful of rows, with all rows handed over as sources."""

import copy
import tracemalloc

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import approxmcmc as amc
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.sources import Arrays
from approxmcmc.sources.parts import recipe_of

pytestmark = pytest.mark.needs_jit
N, FEW = 400, 8


def rows_of(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    return {"X": X, "group": rng.integers(3, size=n), "y": X[:, 0] + rng.normal(size=n)}


def model_of(rows):
    """Return a regression with groups; responses are observed as they are, or in a container."""
    with pm.Model() as model:
        X, group = pm.Data("X", rows["X"]), pm.Data("group", rows["group"])
        beta, effect = pm.Normal("beta", 0.0, 1.0, shape=2), pm.Normal("effect", 0.0, 1.0, shape=3)
        pm.Normal("y", (X * beta).sum(axis=1) + effect[group], pm.HalfNormal("sigma", 1.0), observed=rows["y"])
    return model


def mapped(rows, folder):
    """Return the same as sources of files; what a source leaves out of an array is laid out anew."""
    found = {}
    for name, array in rows.items():
        array.tofile(folder / name)
        found[name] = Arrays(np.memmap(folder / name, array.dtype, "r", shape=array.shape))
    return found


@pytest.fixture(scope="module")
def few():
    return model_of({name: array[:FEW] for name, array in rows_of().items()})


@pytest.fixture(scope="module")
def target(few, tmp_path_factory):
    return amc.from_pymc(few, data=mapped(rows_of(), tmp_path_factory.mktemp("rows")))


@pytest.mark.slow
def test_terms_are_those_of_the_model_that_holds_all_rows(target):
    whole = ModelOfPyMC(model_of(rows_of()), None, scale_effects=False)
    [terms] = whole.over_flat([whole.rows.all_terms()])
    outputs = terms, pt.grad(terms.sum(), whole.theta)
    expected, slope = pytensor.function([whole.theta], outputs, mode="FAST_COMPILE")(np.sin(1.0 + np.arange(6)))
    theta, compiled, gradient = np.sin(1.0 + np.arange(6)), target.compile(), target.compile_gradient()
    np.testing.assert_allclose(full_terms(compiled.log_terms, theta, compiled.data, N), expected, rtol=1e-12)
    np.testing.assert_allclose(full_gradient(gradient, theta), slope, rtol=1e-12)


def test_rows_are_mapped_in_the_precision_that_they_have(target):
    assert target.n_obs == N and all(is_mapped(array) for array in target.data)
    assert {array.dtype for array in target.data if array.ndim == 2} == {np.dtype(np.float32)}
    assert set(target.observed_data) == {"y"} and set(target.constant_data) == {"X", "group"}
    np.testing.assert_array_equal(target.constant_data["X"], rows_of()["X"])


def of_rows(target, rows):
    """Return the target of other rows, without compiling anything anew."""
    other = copy.copy(target)
    other.source = copy.copy(target.source)
    other.source.rows = copy.copy(target.source.rows)
    other.data = other.source.rows.data = tuple(rows[name] for name in target.source.rows.names)
    other.n_obs = len(rows["y"])
    return other


def test_other_rows_are_another_target(target):
    same, other = (of_rows(target, {**rows_of(), "y": rows_of()["y"] + shift}) for shift in (0.0, 1.0))
    assert same.content_hash() == target.content_hash() != other.content_hash()


def test_what_travels_to_workers_is_the_graph_without_rows(target):
    recipe = recipe_of(target)
    assert list(recipe.given) == target.source.rows.names
    travels = cloudpickle.dumps(recipe.target)
    some = {name: source.rows(10, 20) for name, source in recipe.given.items()}
    part = cloudpickle.loads(travels).with_rows(some, 10)
    assert len(travels) < 50_000 and part.n_obs == 10 and "function" not in vars(part.graph)
    for array, whole in zip(part.data, target.data, strict=True):
        np.testing.assert_array_equal(array, whole[10:20])


def test_the_twin_is_refused_since_it_holds_other_rows(target):
    with pytest.raises(IncompatibleError, match="holds 8 rows instead of the 400"):
        target.to_pymc()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": None}, r"'y' has 8 rows in the model, so data= needs its rows, too; found \['X', 'group'\]"),
        ({"X": np.zeros((N - 1, 2))}, "same number of rows, found .*'X': 399"),
        (
            {"X": np.zeros((N, 3))},
            r"data\['X'\] needs the type and shape of the model's rows, float64 of shape \(n, 2\)",
        ),
        ({"group": np.zeros(N)}, r"data\['group'\] needs the type and shape of the model's rows, int"),
        ({"z": np.zeros(N)}, r"data= needs arrays in which the model has rows.*found \['z'\]"),
        ({"y": np.where(np.arange(N) == 77, np.nan, 0.0)}, r"y has 1 NaN .* the first at index \(77,\)"),
    ],
)
def test_rows_that_do_not_fit_are_refused(changed, message, few):
    given = {name: array for name, array in {**rows_of(), **changed}.items() if array is not None}
    with pytest.raises(InvalidInputError, match=message):
        amc.from_pymc(few, data=given)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group": np.where(np.arange(N) == 300, 3, 0)}, "rows 0 to 399 of data cannot be evaluated; .*out of bounds"),
        ({"y": np.where(np.arange(N) == 250, 1e200, 0.0)}, "row 250 of the observed variable 'y' is impossible"),
    ],
)
def test_rows_that_cannot_be_evaluated_are_named(changed, message, target):
    with pytest.raises(InvalidInputError, match=message):
        of_rows(target, {**rows_of(), **changed})._check_given()


def test_a_coupling_of_rows_is_found_in_the_handful():
    with pm.Model() as model:
        x = pm.Data("x", np.arange(FEW) * 1.0)
        pm.Normal("y", pm.Normal("slope", 0.0, 1.0) * (x - x.mean()), 1.0, observed=np.ones(FEW))
    with pytest.raises(IncompatibleError, match="changes when other rows are left out"):
        amc.from_pymc(model, data={"x": np.arange(N) * 1.0, "y": np.ones(N)})


def test_checking_takes_a_part_of_the_memory_of_the_rows(target, tmp_path):
    rows = mapped(rows_of(1_000_000), tmp_path)
    large = of_rows(target, {name: np.asarray(source) for name, source in rows.items()})
    tracemalloc.start()
    large._check_given()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * sum(source.nbytes for source in rows.values())


def test_integrate_true_does_not_leave_out_data(few):
    with pytest.raises(InvalidInputError, match="integrate=True takes the rows of the model itself"):
        amc.from_pymc(few, integrate=True, data=rows_of())
