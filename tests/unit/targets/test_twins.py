"""PyMC models of regressions whose rows are replaced: densities are those of the new rows, and PyMC predicts them."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc import targets
from approxmcmc.errors import InvalidInputError

N = 24
K = np.arange(N)
LARGEST_Z = 5.0  # of 4 means of 4000 draws each: a false fail in 4e5; a probability that is .05 off is z = 6


def table_of(rng, n):
    """Return a table with a column of text, of which the first is the reference level blue."""
    kinds = np.array(["red", "green", "blue"])[rng.permutation(np.arange(n) % 3)]
    return pd.DataFrame({"age": rng.normal(size=n), "kind": kinds, "dose": rng.uniform(size=n)})


CASES = {
    "binomial, weights": (targets.BinomialRegression, K % 3, {"trials": 2 + K % 3, "weights": 1.0 + K % 3}),
    "poisson, offset": (targets.PoissonRegression, K % 4, {"offset": 0.1 * K}),
    "normal, weights": (targets.LinearRegression, 0.3 * K, {"weights": 1.0 + K % 3}),
    "softmax": (targets.SoftmaxRegression, K % 3, {}),
    "ordered": (targets.OrderedRegression, K % 3, {}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(CASES))
def test_a_twin_with_new_rows_has_the_density_of_a_twin_of_these_rows(name, rng):
    pm = pytest.importorskip("pymc")
    kind, y, columns = CASES[name]
    intercept = {} if kind is targets.OrderedRegression else {"intercept": True}
    target = kind(table_of(rng, N), y, **intercept, **columns)
    chosen = rng.permutation(N)[:9]
    new = table_of(rng, 9)[["kind", "dose", "age"]]  # in another order
    some = {name: column[chosen] for name, column in columns.items()}
    own_weights = some if kind is targets.LinearRegression else {k: v for k, v in some.items() if k != "weights"}
    data = target.pymc_data(new, **own_weights)
    assert not data["y_data"].any()
    data["y_data"] = np.asarray(y)[chosen].astype(data["y_data"].dtype)
    data |= {"weights": some["weights"]} if "weights" in data else {}
    model = target.to_pymc()
    with model:
        pm.set_data(data)
    of_new_rows = target.rows_to_append(new, y[chosen], **some).to_pymc()
    point = {name: value + 0.1 for name, value in model.initial_point().items()}
    density, expected = (twin.compile_logp(mode="FAST_COMPILE")(point) for twin in (model, of_new_rows))
    assert density == pytest.approx(expected, rel=1e-12)


@pytest.mark.thorough
def test_pymc_predicts_new_rows_as_this_library(rng):
    pm = pytest.importorskip("pymc")
    target = targets.LogisticRegression(table_of(rng, N), K % 2, intercept=True)
    draws = np.repeat([[[0.4, -1.0, 0.8]]], 4000, axis=1)
    posterior = xr.Dataset(
        {"beta": (("chain", "draw", "coef"), draws), "kind": (("chain", "draw", "kind_dim"), draws[..., :2])},
        {"coef": ["intercept", "age", "dose"], "kind_dim": ["green", "red"], "chain": [0], "draw": np.arange(4000)},
    )
    trace = xr.DataTree.from_dict({"posterior": posterior})
    new = pd.DataFrame({"kind": ["blue", "red", "red", "green"], "age": [0.0, 1.0, -1.0, 3.0], "dose": 0.5})
    with target.to_pymc():
        pm.set_data(target.pymc_data(new))
        options = {
            "predictions": True,
            "random_seed": 1,
            "progressbar": False,
            "compile_kwargs": {"mode": "FAST_COMPILE"},
        }
        predicted = pm.sample_posterior_predictive(trace, **options).predictions["y"]
    probability = amc.predict(trace, target, new).predictions["y_mean"].values[0, 0]
    assert predicted.shape == (1, 4000, 4)
    errors = (predicted.values[0].mean(axis=0) - probability) / np.sqrt(probability * (1.0 - probability) / 4000)
    assert np.abs(errors).max() < LARGEST_Z


def test_data_of_new_rows_that_do_not_fit_are_refused_by_name(rng):
    target = targets.PoissonRegression(table_of(rng, N), K % 4, offset=0.1 * K)
    new = table_of(rng, 3)
    with pytest.raises(InvalidInputError, match=r"pymc_data: new rows need the further columns, such as an offset"):
        target.pymc_data(new)
    with pytest.raises(InvalidInputError, match="lack the columns \\['dose'\\]"):
        target.pymc_data(new[["age", "kind"]], offset=np.zeros(3))
    with pytest.raises(InvalidInputError, match="'grey' in row 0, which no row of the target had"):
        target.pymc_data(new.assign(kind="grey"), offset=np.zeros(3))


def test_a_column_with_the_name_of_a_container_keeps_its_name(rng):
    pytest.importorskip("pymc")
    table = pd.DataFrame({"codes": np.array(["a", "b"])[K % 2], "x": rng.normal(size=N)})
    target = targets.LogisticRegression(table, K % 3 % 2, intercept=True)
    assert sorted(target.pymc_data(table)) == ["X", "codes_data", "y_data"]
    assert "codes" in [variable.name for variable in target.to_pymc().free_RVs]
