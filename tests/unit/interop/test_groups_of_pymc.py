"""Hierarchies as PyMC users write them, found in the graph and integrated out: densities, draws and names."""

import shutil

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.backends.arviz import find_constants

import approxmcmc as amc
from approxmcmc.diagnostics.latents import refuse_folder, with_folder, with_latents
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import InvalidInputError
from approxmcmc.interop.groups.target import NormalGroupsOfPyMC, integrated
from approxmcmc.interop.read import checked_latents
from approxmcmc.interop.walk import PYTHON

pytestmark = [
    pytest.mark.needs_jit,  # PyTensor's numba backend cannot do without the compiler
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),  # of PyMC's initial point of a covariance
]

G, N = 4, 24
rng = np.random.default_rng(5)
GROUP = np.array([0, 1, 3, 3, *rng.integers(G, size=N - 4)])
KIND, X = rng.integers(3, size=N), rng.normal(size=N)
W, E = rng.normal(size=G), rng.uniform(0.5, 2.0, N)
Y = 1.0 + 0.7 * rng.normal(size=G)[GROUP] + 0.5 * X + rng.normal(size=N)
COORDS = {"group": ["a", "b", "c", "d"], "effect": ["intercept", "slope"]}


def correlated():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    return chol


def centred(mu, s):
    return pm.Normal("b", mu, s, dims="group")[GROUP]


def slopes(mu, s):
    z, w = pm.Normal("z", dims="group"), pm.Normal("w", 0.3, pm.HalfNormal("sw"), dims="group")
    return mu + z[GROUP] * s + w[GROUP] * X


def correlated_slopes(mu, s):
    b = pm.Deterministic("b", (correlated() @ pm.Normal("z", dims=("effect", "group"))).T, dims=("group", "effect"))
    return mu + b[GROUP, 0] + b[GROUP, 1] * X * s


def correlated_rows(mu, s):
    b = pm.MvNormal("b", pt.stack([mu, s]), chol=correlated(), dims=("group", "effect"))
    return (b[GROUP] * np.column_stack([np.ones(N), X])).sum(axis=1)


def crossed(mu, s):
    kinds = pm.Normal("kinds", 0.0, pm.HalfNormal("s_kind"), shape=3)
    return mu + pm.Normal("z", dims="group")[GROUP] * s + kinds[KIND]


def nested(mu, s):
    outer = pm.Normal("outer", mu, pm.HalfNormal("s_outer"), shape=2)
    return pm.Normal("b", outer[[0, 0, 1, 1]], s, dims="group")[GROUP]


def scales_by_kind(mu, s):
    scales = pm.HalfNormal("scales", shape=2)
    return mu + s * (scales[[0, 1, 0, 1]] * pm.Normal("z", dims="group"))[GROUP]


def a_table(mu, s):
    b = pm.Normal("b", mu, s, shape=(G, 1))
    return b + X.reshape(G, N // G)


WRITTEN = {
    "centred": (centred, ["b"]),
    "scaled, then picked": (lambda mu, s: (mu + s * pm.Normal("z", dims="group"))[GROUP], ["z"]),
    "picked, then scaled": (lambda mu, s: mu + pm.Normal("z", dims="group")[GROUP] * s, ["z"]),
    "named": (
        lambda mu, s: pm.Deterministic("b", mu + s * pm.Normal("z", dims="group"), dims="group")[GROUP],
        ["z", "b"],
    ),
    "predictors of groups": (
        lambda mu, s: pm.Normal("b", mu + pm.Normal("gamma") * W, s, dims="group")[GROUP],
        ["b"],
    ),
    "without group d": (lambda mu, s: mu + s * pm.Normal("z", dims="group")[GROUP % 3], ["z"]),
    "rows without a group": (
        lambda mu, s: mu + s * pt.concatenate([pt.zeros(1), pm.Normal("z", dims="group")])[GROUP],
        ["z"],
    ),
    "slopes": (slopes, ["z", "w"]),
    "correlated slopes": (correlated_slopes, ["z", "b"]),
    "correlated rows": (correlated_rows, ["b"]),
    "crossed": (crossed, ["z"]),
    "nested": (nested, ["b"]),
    "scales by kind": (scales_by_kind, ["z"]),
    "a table": (a_table, ["b"]),
}
SCALES = {
    "uniform": lambda: pm.Uniform("s", 0.0, 5.0),
    "half-Cauchy": lambda: pm.HalfCauchy("s", 1.0),
    "inverse gamma": lambda: pm.InverseGamma("s", 3.0, 1.0),
    "a logarithm": lambda: pm.math.exp(pm.Normal("log_s")),
    "a precision": lambda: 1.0 / pm.math.sqrt(pm.Gamma("precision", 2.0, 1.0)),
}
NOISES = {
    "parameter": lambda: pm.HalfNormal("tau", 2.0),
    "known": lambda: E,
    "parameter times known": lambda: pm.Exponential("tau", 1.0) * E,
    "bounded": lambda: pm.Uniform("tau", 0.0, 3.0),
}


def hierarchy(written="named", scale="half-Cauchy", noise="parameter", observed=Y):
    with pm.Model(coords=COORDS) as model:
        mu, s = pm.Normal("mu", 0.5, 2.0), SCALES[scale]()
        mean = WRITTEN[written][0](mu, s)
        observed = observed.reshape(G, N // G) if written == "a table" else observed
        pm.Normal("y", mean, NOISES[noise](), observed=observed)
    return model


def schools(centred):
    y, error = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        if centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            theta = pm.Deterministic("theta", mu + tau * pm.Normal("z", shape=8))
        pm.Normal("y", theta, error, observed=y)
    return model


def by_the_model(model, target):
    """Return the log density of a model as a function of theta, normal effects integrated by its own gradients."""
    coordinates, start = target.coordinates, model.initial_point()
    effects = [model.rvs_to_values[v] for v in target.groups.axes]
    shapes = [np.shape(start[v.name]) for v in effects]
    stops = np.cumsum([int(np.prod(shape)) for shape in shapes])
    density = model.compile_fn([model.logp(), *pytensor.grad(model.logp(), effects)], mode=PYTHON)

    def at(a, point):
        pieces = np.split(a, stops[:-1])
        full = {v.name: piece.reshape(shape) for v, piece, shape in zip(effects, pieces, shapes, strict=True)}
        value, *slopes = density({**point, **full})
        return float(value), np.concatenate([np.ravel(slope) for slope in slopes])

    def integrated_density(theta):
        point, jacobian, constrained = {}, 0.0, target.variables.unpack(theta)
        for v in coordinates.free:
            value, s = theta[coordinates.places[v] :][: np.size(constrained[v.name])], constrained[v.name]
            if v in coordinates.signed:
                if "Uniform" in type(v.owner.op).__name__:  # s = b abs(tanh(t / 2)), in PyMC the logit of s / b
                    upper = 5.0
                    value = np.log(s) - np.log(upper - s)
                    jacobian += np.sum(np.log(s) + np.log1p(-s / upper))
                    jacobian -= np.sum(np.log(upper / 2.0) + np.log1p(-((s / upper) ** 2)))
                else:  # s = abs(t), in PyMC the logarithm
                    value = np.log(s)
                    jacobian += np.sum(np.log(s))
            name = model.rvs_to_values[v].name
            point[name] = np.reshape(value, start[name].shape)
        value, slope = at(np.zeros(stops[-1]), point)
        precision = np.array([slope - at(row, point)[1] for row in np.eye(stops[-1])])
        log_det = np.linalg.slogdet(precision / (2.0 * np.pi))[1]
        return value + 0.5 * slope @ np.linalg.solve(precision, slope) - 0.5 * log_det - jacobian

    return integrated_density


def log_density(target, theta):
    compiled = target.compile()
    return compiled.log_prior(theta) + full_terms(compiled.log_terms, theta, compiled.data, target.n_obs).sum()


def check(model, n_points=2):
    target = integrated(model)
    expected, points = by_the_model(model, target), np.random.default_rng(1)
    for _ in range(n_points):
        theta = target.initial_point() + points.normal(scale=0.5, size=target.variables.size)
        if target.coordinates.signed:  # either sign is the same
            turned = theta.copy()
            for v in target.coordinates.signed:
                turned[target.coordinates.places[v]] *= -1.0
            assert log_density(target, turned) == pytest.approx(log_density(target, theta), rel=1e-10)
        assert log_density(target, theta) == pytest.approx(expected(theta), rel=1e-7)
    return target


def left(cases, dear):
    """Return the cases; one that takes ten seconds to compile is left to the longer run."""
    return [pytest.param(case, marks=pytest.mark.recompiles if case == dear else ()) for case in cases]


@pytest.mark.parametrize("written", left(WRITTEN, "correlated slopes"))
def test_the_density_is_the_integral_of_the_models_own(written):
    target = check(hierarchy(written))
    names = [*target.name_latents(target.initial_point()[None], np.zeros((1, G, target.n_effects)), np.arange(G))]
    assert names == WRITTEN[written][1]


@pytest.mark.parametrize("scale", left(SCALES, "a precision"))
def test_scales_of_any_prior(scale):
    target = check(hierarchy(scale=scale))
    assert [v.name for v in target.coordinates.signed] == (["s"] if scale in ("uniform", "half-Cauchy") else [])
    assert target.keeps_kernels == (scale in ("uniform", "half-Cauchy", "inverse gamma"))


@pytest.mark.parametrize("noise", ["known", "parameter times known", "bounded"])
def test_noises(noise):
    assert check(hierarchy(noise=noise)).keeps_kernels


@pytest.mark.parametrize("centred", [True, False])
def test_eight_schools(centred):
    target = check(schools(centred))
    assert target.n_obs == 8 and target.variables.size == 2
    assert target.sentence.endswith(
        "of 8 groups integrated out in closed form; tau is sampled with either sign, and its absolute value is stored"
    )


@pytest.mark.parametrize("written", left(["slopes", "correlated slopes"], "correlated slopes"))
def test_gradients_are_those_of_the_density(written):
    target = integrated(hierarchy(written, "half-Cauchy" if written == "slopes" else "a logarithm"))
    theta = target.initial_point() + 0.1
    gradient = target.compile_gradient()
    found = full_gradient(gradient, theta)
    gradient.add_prior_gradient(theta, found)
    steps = 1e-5 * np.eye(len(theta))
    expected = [(log_density(target, theta + h) - log_density(target, theta - h)) / 2e-5 for h in steps]
    assert found == pytest.approx(np.array(expected), rel=1e-5, abs=1e-5)


def test_effects_come_back_with_the_law_that_the_model_gives_them():
    """Means and covariances of b given theta against the model's own joint density, which is normal in b."""
    model = hierarchy("correlated rows")
    target = integrated(model)
    theta = target.initial_point() + 0.3
    drawn = target.draw_latents(np.random.default_rng(0), np.tile(theta, (20_000, 1)), np.arange(G))
    dims, b = target.name_latents(np.tile(theta, (20_000, 1)), drawn, np.arange(G))["b"]
    assert dims == ("group", "effect")
    known = {v.name: target.variables.unpack(theta)[v.name] for v in target.coordinates.free}
    a = pt.dvector("a")
    rv = model["b"]
    replaced = {model.rvs_to_values[rv]: a.reshape((G, 2))}
    for v in target.coordinates.free:
        transform, value = model.rvs_to_transforms[v], known[v.name]
        value = value if transform is None else transform.forward(pt.as_tensor(value), *v.owner.inputs).eval()
        replaced[model.rvs_to_values[v]] = pt.as_tensor(value)
    [density] = pytensor.graph.replace.clone_replace([model.logp()], replaced, rebuild_strict=False)
    slope = pytensor.function([a], pytensor.grad(density, a), mode=PYTHON)
    precision = np.array([slope(np.zeros(8)) - slope(row) for row in np.eye(8)])
    cov = np.linalg.inv(precision)
    mean = cov @ slope(np.zeros(8))
    z = (b.reshape(-1, 8).mean(axis=0) - mean) / np.sqrt(np.diag(cov) / 20_000)
    assert np.abs(z).max() < 5.0  # false-fail rate 5e-6
    ratio = b.reshape(-1, 8).var(axis=0) / np.diag(cov)
    assert np.abs(ratio - 1.0).max() < 5.0 * np.sqrt(2.0 / 20_000)


@pytest.fixture(scope="module")
def run():
    """Return a model, its target, and a short run of it."""
    model = hierarchy("named")
    target = amc.from_pymc(model)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())
    settings = {"draws": 50, "tune": 20, "chains": 2, "random_seed": 1, "progressbar": False, "audit_every": None}
    return model, target, amc.sample(target, sampler, **settings)


def test_the_trace_has_the_models_names_and_predictions_use_them(run):
    model, target, trace = run
    assert isinstance(target, NormalGroupsOfPyMC)
    posterior = trace.posterior
    assert {name: posterior[name].dims[2:] for name in posterior.data_vars} == {
        "mu": (),
        "s": (),
        "tau": (),
        "z": ("group",),
        "b": ("group",),
    }
    assert posterior["group"].values.tolist() == COORDS["group"]
    np.testing.assert_allclose(posterior["b"], posterior["mu"] + posterior["s"] * posterior["z"])
    assert (posterior.attrs["n_obs"], posterior.attrs["n_rows"]) == (target.n_obs, target.source.y.size)
    assert posterior.attrs["integrated"] == target.sentence and posterior.attrs["latents"] == "all groups"
    with model:
        predicted = pm.sample_posterior_predictive(trace, random_seed=1, progressbar=False)
    residual = predicted.posterior_predictive["y"] - posterior["b"].values[..., GROUP]
    spread = (residual / posterior["tau"]).std(dim=("chain", "draw"))
    assert abs(float(spread.mean()) - 1.0) < 0.1  # z from the prior would make it larger by half


def test_some_groups_are_drawn_later_as_in_a_run(run):
    _, target, trace = run
    found = amc.latents(trace, target, groups=["d", "a"])
    assert found["group"].values.tolist() == ["d", "a"] and set(found.data_vars) == {"z", "b"}
    np.testing.assert_allclose(found["b"], trace.posterior["mu"] + trace.posterior["s"] * found["z"])
    with pytest.raises(InvalidInputError, match=r"needs labels of the 4 groups .*found \['e'\]"):
        amc.latents(trace, target, groups=["e"])


@pytest.mark.filterwarnings("ignore:The following trace variables were implicitly frozen")
def test_effects_that_are_left_out_are_refused_by_name_where_pymc_would_draw_them_from_the_prior(run):
    model, target, trace = run
    bare = trace.copy()
    bare["posterior"] = trace.posterior.to_dataset().drop_vars(["z", "b", "group"])
    target.latents_wanted = ["b"]
    try:
        some = with_latents(bare, target)
    finally:
        target.latents_wanted = "auto"
    assert some["latents"]["z"].shape == (2, 50, 1) and some.posterior["z"].isnull().all()
    with model, pytest.raises(TypeError, match='"z"'):
        pm.sample_posterior_predictive(some, random_seed=1, progressbar=False)


def test_explain_says_what_is_integrated_out():
    found, *plans = amc.explain(hierarchy()).splitlines()
    assert found == (
        "y, 24 rows: z of 4 groups integrated out in closed form; s is sampled with either sign, and its absolute "
        "value is stored; 4 terms, one per group, and 3 parameters remain"
    )
    assert "- effects of groups integrated out: under 0.1 s, taken" in plans


def test_a_folder_for_effects_is_checked_before_the_run(tmp_path):
    pytest.importorskip("zarr")
    assert amc.from_pymc(hierarchy(), latents=str(tmp_path / "new.zarr")).latents_wanted.endswith("new.zarr")
    for name, reason in {str(tmp_path): "or a .zarr path", "": "or a .zarr path"}.items():
        with pytest.raises(InvalidInputError, match=reason):
            checked_latents(name)


def test_a_script_may_be_repeated_but_replaces_no_other_folder(run, tmp_path):
    """A folder is replaced by a run of the same target only; a finished checkpoint uses it, or writes it again."""
    zarr = pytest.importorskip("zarr")
    _, target, trace = run
    path = tmp_path / "effects.zarr"
    bare = trace["posterior"].to_dataset()[list(target.variables.shapes)]
    target.latents_wanted = str(path)
    try:
        for _ in range(2):
            refuse_folder(target)
            with_latents(xr.DataTree.from_dict({"posterior": bare}), target)
        written = path / "zarr.json"
        before = written.stat().st_mtime_ns
        with_folder(trace, target)
        assert written.stat().st_mtime_ns == before
        shutil.rmtree(path)
        with_folder(trace, target)
        with xr.open_zarr(path, consolidated=False) as effects:
            assert effects["z"].shape == (2, 50, G)
        other = amc.from_pymc(hierarchy("slopes"), latents=str(path))
        with pytest.raises(InvalidInputError, match="holds the effects of another model, so it is not replaced"):
            amc.sample(other, progressbar=False)
        for foreign in ("of zarr", "of text"):
            shutil.rmtree(path)
            zarr.create_group(path) if foreign == "of zarr" else path.mkdir()
            with pytest.raises(InvalidInputError, match="was not written by a run of this library"):
                refuse_folder(target)
    finally:
        target.latents_wanted = "auto"


def test_changed_data_are_refused():
    with pm.Model() as model:
        group, y = pm.Data("group", GROUP), pm.Data("y_data", Y)
        b = pm.Normal("b", 0.0, pm.HalfNormal("s"), shape=G)
        pm.Normal("y", b[group], 1.0, observed=y)
    target = amc.from_pymc(model)
    assert set(target.constant_data) == set(find_constants(model)) == {"group", "y_data"}
    assert set(target.observed_data) == {"y"}
    with model:
        pm.set_data({"y_data": Y + 1.0})
    with pytest.raises(InvalidInputError, match="were changed"):
        target.compile()
