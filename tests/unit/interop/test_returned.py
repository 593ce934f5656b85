"""A trace of a PyMC model has the variables, axes and labels that `pm.sample` returns, whatever the sampler."""

import datetime
import functools
import json
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.backends.arviz import find_constants, find_observations
from pytensor.scan.basic import scan

import approxmcmc as amc
from approxmcmc.contracts import SamplingResult
from approxmcmc.errors import InvalidInputError, LeftOutWarning, SamplingWarning
from approxmcmc.interop import returned
from approxmcmc.interop.attempts import RAISE_VARIABLE
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.plans import target_of
from approxmcmc.interop.pymc import from_pymc
from approxmcmc.interop.pymc_target import PyMCTarget
from approxmcmc.interop.returned import ReturnedByModel
from approxmcmc.interop.whole_model import WholeModel
from approxmcmc.output import returned as completion
from approxmcmc.output.datatree import build_trace, named_trace
from approxmcmc.runs import completing

N, G = 24, 4
ROWS = np.arange(N)
X = np.random.default_rng(0).normal(size=(N, 2))
GROUP = ROWS % G
CURVE = np.linspace(-1.0, 1.0, N)


def regression():
    """A logistic regression; one deterministic has as many entries as there are rows, but does not count them."""
    with pm.Model(coords={"x": ["dose", "age"], "row": ROWS + 100, "unused": [1, 2]}) as model:
        b = pm.Normal("b", 0.0, 1.0, dims="x")
        pm.Deterministic("odds_ratio", pm.math.exp(b), dims="x")
        pm.Deterministic("is_harmful", b > 0.0)
        pm.Deterministic("curve", b[0] + b[1] * CURVE)
        pm.Deterministic("constant", pt.as_tensor(np.ones((1, 3))))
        p = pm.Deterministic("p", pm.math.sigmoid(X @ b), dims="row")
        y = pm.Bernoulli("y", p, observed=ROWS % 3 == 0, dims="row")
        pm.Deterministic("residual", y - p, dims="row")
    return model


REGRESSION = {
    "odds_ratio": lambda d: np.exp(d["b"]),
    "is_harmful": lambda d: d["b"] > 0.0,
    "curve": lambda d: d["b"][..., :1] + d["b"][..., 1:] * CURVE,
    "constant": lambda d: np.ones((*d["b"].shape[:2], 1, 3)),
    "p": lambda d: 1.0 / (1.0 + np.exp(-d["b"] @ X.T)),
    "residual": lambda d: (ROWS % 3 == 0) - 1.0 / (1.0 + np.exp(-d["b"] @ X.T)),
}


def hierarchy(*, centred, named):
    """Groups of normal rows; a second outcome has as many rows as there are groups."""
    coords = {"group": list("wxyz")} if named else {}
    dims = {"dims": "group"} if named else {"shape": G}
    with pm.Model(coords=coords) as model:
        mu, s, sigma = pm.Normal("mu"), pm.HalfNormal("s"), pm.HalfNormal("sigma")
        effect = pm.Normal("u", mu, s, **dims) if centred else mu + s * pm.Normal("u", **dims)
        effect = pm.Deterministic("effect", effect, dims="group" if named else None)
        pm.Deterministic("icc", s**2 / (s**2 + sigma**2))
        pm.Deterministic("top", effect.max())
        pm.Deterministic("four", mu * np.arange(1.0, 1.0 + G))
        pm.Deterministic("mean", effect[GROUP] + X[:, 0])
        pm.Normal("y", effect[GROUP] + X[:, 0], sigma, observed=X[:, 1] + GROUP)
    return model


def hierarchy_by_numpy(*, centred):
    def effect(d):
        return d["u"] if centred else d["mu"][..., None] + d["s"][..., None] * d["u"]

    return {
        "effect": effect,
        "icc": lambda d: d["s"] ** 2 / (d["s"] ** 2 + d["sigma"] ** 2),
        "top": lambda d: effect(d).max(axis=-1),
        "four": lambda d: d["mu"][..., None] * np.arange(1.0, 1.0 + G),
        "mean": lambda d: effect(d)[..., GROUP] + X[:, 0],
    }


def counts():
    """Poisson rows with effects of groups, for which no closed form exists."""
    with pm.Model(coords={"group": list("wxyz")}) as model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("s"), dims="group")
        pm.Deterministic("ratio", pm.math.exp(u), dims="group")
        pm.Poisson("y", pm.math.exp(u[GROUP]), observed=1 + GROUP)
    return model


def indicators():
    """Groups that are occupied or not, with what depends on their states."""
    with pm.Model(coords={"group": list("wxyz")}) as model:
        m = pm.Normal("m")
        z = pm.Bernoulli("z", 0.5, dims="group")
        pm.Deterministic("occupied", z.sum())
        pm.Deterministic("level", m * z, dims="group")
        pm.Deterministic("twice", 2.0 * m)
        pm.Normal("y", m * z[GROUP], 1.0, observed=X[:, 0])
    return model


def simplex():
    """Weights on a simplex, which have fewer coordinates than entries, and a loop that PyTensor does not vectorise."""
    with pm.Model() as model:
        w, m = pm.Dirichlet("w", np.ones(3)), pm.Normal("m", shape=3)
        pm.Deterministic("odds", w / (1.0 - w))
        with warnings.catch_warnings():  # the form of the result differs between versions of PyTensor
            warnings.simplefilter("ignore")
            powers = scan(lambda last, weight: last * weight, outputs_info=pt.ones(3), non_sequences=w, n_steps=4)
        pm.Deterministic("powers", powers[0] if isinstance(powers, (list, tuple)) else powers)
        pm.Normal("y", (w * m).sum() + m[0] * X[:, 0], 1.0, observed=X[:, 1])
    return model


def whole():
    """A potential that reads the data: no row is a term."""
    with pm.Model(coords={"g": ["a", "b"]}) as model:
        a = pm.Normal("a", dims="g")
        pm.Deterministic("sum", a.sum())
        pm.Potential("rows", -((X - a) ** 2).sum())
    return model


MODELS = {
    "regression": (regression, REGRESSION),
    "centred": (functools.partial(hierarchy, centred=True, named=True), hierarchy_by_numpy(centred=True)),
    "not centred": (functools.partial(hierarchy, centred=False, named=True), hierarchy_by_numpy(centred=False)),
    "without names": (functools.partial(hierarchy, centred=False, named=False), hierarchy_by_numpy(centred=False)),
    "counts": (counts, {"ratio": lambda d: np.exp(d["u"])}),
    "indicators": (
        indicators,
        {
            "occupied": lambda d: d["z"].sum(axis=-1),
            "level": lambda d: d["m"][..., None] * d["z"],
            "twice": lambda d: 2.0 * d["m"],
        },
    ),
    "simplex": (
        simplex,
        {
            "odds": lambda d: d["w"] / (1.0 - d["w"]),
            "powers": lambda d: np.cumprod(np.repeat(d["w"][..., None, :], 4, axis=-2), axis=-2),
        },
    ),
    "whole": (whole, {"sum": lambda d: d["a"].sum(axis=-1)}),
}
PLANS = {
    "by default": target_of,
    "rows compiled": lambda model: from_pymc(model, structure=False, integrate=False),
    "integrated": lambda model: from_pymc(model, integrate=True),
    "whole": lambda model: WholeModel(model, "by hand"),
}
PAIRS = [
    *((name, "by default") for name in MODELS),
    ("regression", "rows compiled"),
    ("regression", "whole"),
    ("not centred", "rows compiled"),
    ("not centred", "whole"),
    ("counts", "integrated"),
    ("simplex", "whole"),
]


@functools.cache
def built(name):
    return MODELS[name][0]()


@functools.cache
def by_pymc(name):
    """Return the posterior of `pm.sample`, of a few draws."""
    how = {"progressbar": False, "compute_convergence_checks": False, "quiet": True}
    sampled = pm.sample(
        2,
        tune=2,
        chains=1,
        cores=1,
        model=built(name),
        step=[pm.Metropolis(model=built(name), compile_kwargs={"mode": "FAST_COMPILE"})],
        compile_kwargs={"mode": "FAST_COMPILE"},
        random_seed=1,
        **how,
    )
    return sampled["posterior"].to_dataset()


def drawn(target, n_draws=3):
    """Return the trace of a sampler at random draws, before it is completed."""
    about = {"variables": target.variables, "settings": {}}
    if isinstance(target, WholeModel):
        names = list(target.variables.shapes)
        how = {"var_names": names, "random_seed": 1, "compile_kwargs": {"mode": "FAST_COMPILE"}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # potentials are ignored, and any draws will do
            sampled = pm.sample_prior_predictive(2 * max(1, n_draws), model=target.to_pymc(), **how)
        prior = sampled["prior"].to_dataset()
        draws = {name: prior[name].to_numpy()[0][: 2 * n_draws] for name in names}
        draws = {name: value.reshape(2, n_draws, *value.shape[1:]) for name, value in draws.items()}
        return named_trace(draws, {}, tuning_totals={}, attrs={}, **about)
    rng = np.random.default_rng(1)
    thetas = target.initial_point() + 0.1 * rng.normal(size=(2, n_draws, target.variables.size))
    result = SamplingResult(thetas, {}, None, None, {}, {})
    return build_trace(result, observed_data={}, constant_data={}, keep_warmup=False, **about)


@pytest.fixture(params=PAIRS, ids=", ".join)
def case(request):
    name, plan = request.param
    model = built(name)
    return name, model, PLANS[plan](model)


def arrays_of(posterior):
    return {str(name): value.transpose("chain", "draw", ...).to_numpy() for name, value in posterior.data_vars.items()}


@pytest.mark.needs_jit  # PyTensor's numba backend compiles priors
class TestEachPlan:
    """Each model in each way in which its target can be made."""

    def test_variables_axes_and_labels_are_those_of_pymc(self, case):
        name, model, target = case
        found, expected = completing(model, target)(drawn(target))["posterior"].to_dataset(), by_pymc(name)
        assert set(found.data_vars) == set(expected.data_vars)
        for variable in expected.data_vars:
            assert found[variable].dims == expected[variable].dims, variable
            assert found[variable].dtype == expected[variable].dtype, variable
        assert set(found.coords) == set(expected.coords)
        for axis in set(expected.coords) - {"chain", "draw"}:
            np.testing.assert_array_equal(found[axis], expected[axis])
            assert found[axis].dtype == expected[axis].dtype

    def test_deterministics_are_those_of_numpy(self, case):
        name, model, target = case
        posterior = completing(model, target)(drawn(target))["posterior"].to_dataset()
        values = arrays_of(posterior)
        formulas = MODELS[name][1]
        assert set(formulas) == {one.name for one in model.deterministics}
        assert set(json.loads(posterior.attrs["deterministics"])) == set(formulas)
        for deterministic, formula in formulas.items():
            np.testing.assert_allclose(values[deterministic], formula(values), rtol=1e-12, err_msg=deterministic)

    def test_a_run_that_ended_before_its_first_draw_has_all_of_them_empty(self, case):
        name, model, target = case
        found, expected = completing(model, target)(drawn(target, 0))["posterior"].to_dataset(), by_pymc(name)
        shapes = {variable: found[variable].shape for variable in found.data_vars}
        assert shapes == {variable: (2, 0, *expected[variable].shape[2:]) for variable in expected.data_vars}
        for axis in set(expected.coords) - {"chain", "draw"}:
            np.testing.assert_array_equal(found[axis], expected[axis])


@pytest.mark.needs_jit
def test_the_table_has_all_plans():
    kinds = {name: type(PLANS[plan](built(name))).__mro__ for name, plan in PAIRS[: len(MODELS)]}
    assert IntegratedOfPyMC in kinds["centred"] and IntegratedOfPyMC in kinds["without names"]
    assert WholeModel in kinds["whole"]
    assert not any(IntegratedOfPyMC in kinds[name] for name in ("regression", "simplex"))
    assert isinstance(PLANS["integrated"](built("counts")), IntegratedOfPyMC)
    assert isinstance(PLANS["rows compiled"](built("regression")), PyMCTarget)
    assert target_of(built("indicators")).summed is not None


# --- what is not stored ---


@pytest.mark.thorough
def test_what_is_too_large_is_named_with_its_size_and_the_way_to_it(monkeypatch):
    """6 draws of 2 + 2 + 3 numbers and one of three deterministics with 24 fit into 6 * 44."""
    monkeypatch.setattr(completion, "MOST_NUMBERS", 6 * (N + 20))
    target = target_of(built("regression"))
    reason = r"p: 6 draws of 24 numbers are 1.4e\+02, .*; residual: 6 draws .*pm\.compute_deterministics\(.*'residual'"
    with pytest.warns(LeftOutWarning, match=reason):
        posterior = completing(built("regression"), target)(drawn(target))["posterior"].to_dataset()
    assert set(posterior.data_vars) == {"b", "odds_ratio", "is_harmful", "constant", "curve"}
    assert posterior.attrs["not_stored"].startswith("p: 6 draws of 24 numbers")


@pytest.mark.thorough
def test_named_deterministics_are_stored_whatever_their_size(monkeypatch):
    monkeypatch.setattr(completion, "MOST_NUMBERS", 1)
    model = built("regression")
    target = from_pymc(model, deterministics=["p"])
    posterior = completing(model, target)(drawn(target))["posterior"].to_dataset()
    assert set(posterior.data_vars) == {"b", "p"} and "not_stored" not in posterior.attrs
    target = from_pymc(model, deterministics=[])
    assert set(completing(model, target)(drawn(target))["posterior"].data_vars) == {"b"}
    with pytest.raises(InvalidInputError, match=r"needs names among .*odds_ratio.*found \['q'\]"):
        from_pymc(model, deterministics=["q"])
    with pytest.raises(InvalidInputError, match="needs a list of names, or None; found True"):
        from_pymc(model, deterministics=True)


@pytest.mark.thorough
def test_one_that_cannot_be_computed_loses_neither_the_draws_nor_the_others(monkeypatch):
    model = built("regression")
    target = target_of(model)
    right = ReturnedByModel.compute

    def compute(self, draws, names):
        if "curve" in names:
            raise ZeroDivisionError("no curve\nand more")
        return right(self, draws, names)

    monkeypatch.setattr(ReturnedByModel, "compute", compute)
    with pytest.warns(LeftOutWarning, match="curve: computing it raised ZeroDivisionError: no curve;"):
        posterior = completing(model, target)(drawn(target))["posterior"].to_dataset()
    assert set(posterior.data_vars) == {"b", *REGRESSION} - {"curve"}


@pytest.mark.needs_jit
def test_what_depends_on_effects_that_are_not_drawn_says_so():
    model = built("not centred")
    target = from_pymc(model, integrate=True, latents=["x"])
    trace = completing(model, target)(drawn(target))
    posterior = trace["posterior"].to_dataset()
    assert {"icc", "four"} < set(posterior.data_vars) and posterior["u"].isnull().all()
    for name in ("effect", "top", "mean"):
        assert name not in posterior and f"{name}: it depends on u, not drawn" in posterior.attrs["not_stored"]
    some = trace["latents"].to_dataset()
    assert set(some.data_vars) == {"u", "effect"} and some["group"].values.tolist() == ["x"]


def test_draws_are_computed_in_blocks(monkeypatch):
    model, rng = built("regression"), np.random.default_rng(2)
    computer, draws = ReturnedByModel(model), {"b": rng.normal(size=(7, 2))}
    at_once = computer.compute(draws, list(REGRESSION))
    monkeypatch.setattr(returned, "AT_ONCE", 2 * (3 * N + 9))
    in_blocks = computer.compute(draws, list(REGRESSION))
    one_by_one = returned._one_by_one(model.free_RVs, [computer._graphs[name] for name in REGRESSION])
    for name, alone in zip(REGRESSION, one_by_one(draws["b"]), strict=True):
        np.testing.assert_array_equal(in_blocks[name], at_once[name])
        np.testing.assert_allclose(at_once[name], alone, rtol=1e-14)


# --- labels and names ---

LABELS = {
    "tuples": pd.MultiIndex.from_product([["a", "b"], [1, 2]]),
    "tuples of other lengths": [("a",), ("a", 1), ("b",), ("b", 1)],
    "intervals": pd.interval_range(0, 4),
    "dates": [datetime.date(2020, 1, day) for day in range(1, 5)],
    "periods": pd.period_range("2020", periods=4, freq="Y"),
    "mixed": [1, "a", 2.5, "b"],
    "a missing one": ["a", "b", None, "c"],
    "dates of a time zone": pd.date_range("2020", periods=4, tz="UTC"),
}


def labelled(labels):
    with pm.Model(coords={"group": labels}) as model:
        u = pm.Normal("u", pm.Normal("mu"), pm.HalfNormal("s"), dims="group")
        pm.Deterministic("ratio", pm.math.exp(u), dims="group")
        pm.Normal("y", u[GROUP], 1.0, observed=X[:, 1] + GROUP)
    return model


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", LABELS)
def test_labels_that_pymc_takes_are_kept_and_saved_as_text(kind, tmp_path):
    model = labelled(LABELS[kind])
    target = from_pymc(model, integrate=True)
    trace = completing(model, target)(drawn(target))
    found = trace["posterior"]["group"].to_numpy()
    assert found.shape == (G,) and trace["posterior"]["ratio"].dims == ("chain", "draw", "group")
    if kind not in ("mixed", "a missing one"):
        assert found.tolist() == list(LABELS[kind])
    some = amc.latents(trace, target, groups=[target.group_labels[2]])
    assert some["u"].sizes["group"] == 1
    read = amc.load(amc.save(trace, tmp_path / "trace.nc"))
    np.testing.assert_array_equal(read["posterior"]["ratio"], trace["posterior"]["ratio"])
    texts = read["posterior"]["group"].to_numpy().tolist()
    assert [str(label) for label in texts][:2] == [str(label) for label in found.tolist()][:2]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [".", "", "<b>", "x" * 300, "a\n", "a ", "e\u0301", "a b", "1|site"])
def test_names_of_pymc_are_saved_and_read_again(name, tmp_path):
    with pm.Model(coords={f"{name}!": ["u", "v"]}) as model:
        pm.Normal(name, dims=f"{name}!")
        pm.Normal("y", model[name][0], 1.0, observed=X[:, 0])
    target = WholeModel(model, "by hand")
    trace = completing(model, target)(drawn(target))
    read = amc.load(amc.save(trace, tmp_path / "trace.nc"))
    xr.testing.assert_equal(read["posterior"].to_dataset(), trace["posterior"].to_dataset())
    assert set(read["posterior"].data_vars) == {name} and read["posterior"].attrs == trace["posterior"].attrs


def test_a_path_is_no_name():
    """PyMC refuses such a name of a variable, and loses the draws after sampling for such a dim."""
    with pm.Model(coords={"a/b": ["u", "v"]}) as model:
        m = pm.Normal("m", dims="a/b")
        pm.Normal("y", m[0], 1.0, observed=X[:, 0])
    with pytest.raises(InvalidInputError, match=r"a name with '/' is a path in a trace.*\['a/b'\]"):
        amc.sample(model, progressbar=False)
    with pytest.raises(InvalidInputError, match=r"a name with '/' is a path in a trace.*\['a/b'\]"):
        amc.FunctionTarget(lambda t, d, i: 0.0, lambda t: 0.0, data=ROWS, n_obs=N, dim=1, var_names=["a/b"])


# --- whole runs ---


@pytest.mark.needs_jit
@pytest.mark.parametrize("sampler", [None, amc.NUTS(backend="pymc")], ids=["chosen", "NUTS of PyMC"])
def test_a_run_its_checkpoint_and_more_draws_have_the_same_variables(sampler, tmp_path):
    model, path = built("regression"), tmp_path / "run.nc"
    how = {"tune": 20, "chains": 2, "random_seed": 1, "progressbar": False, "checkpoint": path}
    trace = amc.sample(model, sampler, draws=20, discard_tuned_samples=False, **how)
    assert set(trace["posterior"].data_vars) == {"b", *REGRESSION} == set(trace["warmup_posterior"].data_vars)
    xr.testing.assert_identical(amc.load(path)["posterior"].to_dataset(), trace["posterior"].to_dataset())
    assert amc.sample(model, sampler, draws=20, discard_tuned_samples=False, **how).identical(trace)
    longer = amc.resume(path, model, draws=5, progressbar=False)["posterior"]
    assert longer.sizes["draw"] == 25 and set(longer.data_vars) == {"b", *REGRESSION}
    for name, formula in REGRESSION.items():
        np.testing.assert_allclose(longer[name], formula(arrays_of(longer.to_dataset())), rtol=1e-12)


@pytest.mark.needs_jit
def test_an_error_of_nutpie_is_not_hidden(monkeypatch):
    nutpie = pytest.importorskip("nutpie")

    def fail(*given, **how):
        raise RuntimeError("a chain cannot be made")

    monkeypatch.setattr(nutpie, "sample", fail)
    with pytest.raises(amc.errors.SamplingError, match="a chain cannot be made"):
        amc.sample(built("whole"), amc.NUTS(backend="nutpie"), draws=5, tune=5, chains=1, progressbar=False)


@pytest.mark.parametrize("kind", ["rows", "whole", "groups"])
def test_data_of_a_trace_are_those_of_pm_sample(kind):
    """A container that is both observed and read elsewhere is constant data, too."""
    group = np.arange(30) % 5
    with pm.Model() as model:
        y = pm.Data("y_data", np.arange(30.0))
        pm.Data("unused", np.arange(3.0))
        pm.Data("only_observed", np.arange(30.0))
        effect = pm.Normal("effect", 0.0, pm.HalfNormal("scale"), shape=5)
        pm.Deterministic("rest", y - effect[group])
        pm.Normal("y", effect[group], 1.0, observed=y)
    whole = kind == "whole"
    target = WholeModel(model, "it is a test") if whole else amc.from_pymc(model, integrate=kind == "groups")
    for ours, theirs in ((target.observed_data, find_observations), (target.constant_data, find_constants)):
        assert list(ours) == list(theirs(model))
        for name, values in theirs(model).items():
            np.testing.assert_array_equal(ours[name], values)


def test_a_fault_is_not_taken_for_a_graph_that_cannot_be_vectorised(monkeypatch):
    """Planted: a function that takes no arguments, so a line of this library raises a TypeError when it calls it."""
    with pm.Model() as model:
        pm.Deterministic("twice", 2.0 * pm.Normal("x"))
    monkeypatch.setattr(returned, "_of_block", lambda: None)
    draws = {"x": np.arange(3.0)}
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        ReturnedByModel(model).compute(draws, ["twice"])
    monkeypatch.delenv(RAISE_VARIABLE)
    with pytest.warns(SamplingWarning, match="a fault of approxmcmc"):
        computed = ReturnedByModel(model).compute(draws, ["twice"])
    np.testing.assert_array_equal(computed["twice"], [0.0, 2.0, 4.0])
