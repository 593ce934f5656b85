"""Gold standards: gates on draws with one planted defect each, the cache, the hash of a model, the grid."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.contracts import NamedDraws, TwinnedTarget, Variables, content_hash
from approxmcmc.errors import GoldStandardError, IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.interop.model_hash import model_hash, twin_id
from approxmcmc.output.files import load, save
from approxmcmc.reference import (
    GateReport,
    Gates,
    attach_reference,
    check_gates,
    grid_reference,
    posterior,
    reference_posterior,
)
from approxmcmc.reference.cache import cached
from approxmcmc.targets import FunctionTarget
from approxmcmc.whole_chains.settings import NUTS
from tests.examples import TARGETS
from tests.models import logistic

CHAINS, DRAWS = 4, 1000
# Independent draws have ESS near 4000 and a relative MCSE near 1/sqrt(4000) = .016.
GATES = Gates(min_bulk_ess=2000, min_tail_ess=1500, max_relative_mcse=0.025)


def fabricated(draws=DRAWS, seed=7, chains=CHAINS):
    """Independent draws, which pass every gate: the smallest margin, the tail ESS, is some 10 of its own sd away."""
    rng = np.random.default_rng(seed)
    shape = (chains, draws)
    group = xr.Dataset(
        {
            "alpha": (("chain", "draw"), rng.normal(size=shape)),
            "beta": (("chain", "draw", "coef"), rng.normal(3.0, 2.0, size=(*shape, 3))),
        },
        coords={"chain": np.arange(chains), "draw": np.arange(draws), "coef": ["x0", "x1", "x2"]},
    )
    stats = xr.Dataset(
        {
            "diverging": (("chain", "draw"), np.zeros(shape, dtype=bool)),
            "energy": (("chain", "draw"), rng.normal(size=shape)),
        }
    )
    return xr.DataTree.from_dict({"posterior": group, "sample_stats": stats})


def failed(report):
    return {result.gate: result for result in report.failures}


def test_independent_draws_pass_every_gate():
    report = check_gates(fabricated(), GATES)
    assert report.passed, str(report)
    assert [result.gate for result in report.results] == [
        "r_hat",
        "divergences",
        "bulk_ess",
        "tail_ess",
        "bfmi",
        "relative_mcse",
    ]


def test_a_shifted_chain_fails_r_hat_at_its_coordinate():
    trace = fabricated()
    trace["posterior"]["beta"][2, :, 1] += 2.0
    result = failed(check_gates(trace, GATES))["r_hat"]
    assert result.where == "beta[x1]"
    assert result.value > 1.05


def test_one_divergence_fails_and_names_its_chain():
    trace = fabricated()
    trace["sample_stats"]["diverging"][3, 17] = True
    failures = failed(check_gates(trace, GATES))
    assert failures.keys() == {"divergences"}
    assert (failures["divergences"].value, failures["divergences"].where) == (1, "chain 3")


def test_slow_mixing_fails_ess_and_mcse_at_its_coordinate():
    trace = fabricated()
    slow = trace["posterior"]["beta"].to_numpy()[:, :, 2]
    for step in range(1, DRAWS):  # AR(1) with coefficient .9: ESS is a nineteenth of the draws
        slow[:, step] = 0.9 * slow[:, step - 1] + np.sqrt(1 - 0.9**2) * slow[:, step]
    failures = failed(check_gates(trace, GATES))
    assert {"bulk_ess", "tail_ess", "relative_mcse"} <= failures.keys()
    assert {failures[gate].where for gate in ("bulk_ess", "tail_ess", "relative_mcse")} == {"beta[x2]"}
    assert failures["relative_mcse"].value == pytest.approx(np.sqrt(19 / (CHAINS * DRAWS)), rel=0.3)


def test_low_bfmi_fails_and_names_its_chain():
    trace = fabricated()
    steps = np.random.default_rng(1).normal(size=DRAWS)
    trace["sample_stats"]["energy"][1] = np.cumsum(steps)  # a random walk: E-BFMI of order 1/draws
    failures = failed(check_gates(trace, GATES))
    assert failures.keys() == {"bfmi"}
    assert failures["bfmi"].where == "chain 1"


@pytest.mark.parametrize("value", [0.0, 0.6745])
def test_a_stuck_chain_at_a_typical_value_fails(value):
    # R-hat and ESS of ArviZ stay good when the chain stays at the quartile of a standard normal.
    trace = fabricated(chains=10)
    trace["posterior"]["alpha"][4] = value
    result = failed(check_gates(trace, GATES))["r_hat"]
    assert result.where == "alpha"
    assert np.isnan(result.value)


def test_a_parameter_that_never_moved_fails():
    trace = fabricated()
    trace["posterior"]["alpha"][:] = 0.1
    assert {"r_hat", "relative_mcse"} <= failed(check_gates(trace, GATES)).keys()


def test_draws_that_are_not_numbers_fail():
    trace = fabricated()
    trace["posterior"]["alpha"][0, 5] = np.nan
    assert {"r_hat", "bulk_ess", "relative_mcse"} <= failed(check_gates(trace, GATES)).keys()


def test_statistics_that_were_not_recorded_fail():
    trace = fabricated().drop_nodes("sample_stats")
    assert failed(check_gates(trace, GATES)).keys() == {"divergences", "bfmi"}


def test_estimands_replace_variables_for_ess_but_not_for_r_hat():
    trace = fabricated()
    trace["posterior"]["beta"][2, :, 1] += 2.0
    report = check_gates(trace, GATES, {"alpha_squared": lambda draws: draws["alpha"] ** 2})
    assert failed(report).keys() == {"r_hat"}
    assert {result.where for result in report.results if result.gate == "bulk_ess"} == {"alpha_squared"}


def test_a_constant_beside_the_estimands_is_no_stuck_chain():
    trace = fabricated()
    trace["posterior"]["alpha"][:] = 1.0
    assert check_gates(trace, GATES, {"first": lambda draws: draws["beta"][..., 0]}).passed


def test_an_estimand_that_averages_over_draws_is_refused():
    with pytest.raises(InvalidInputError, match="'mean' must return"):
        check_gates(fabricated(), GATES, {"mean": lambda draws: draws["alpha"].mean("draw")})


def test_report_as_table_and_through_json():
    trace = fabricated()
    trace["posterior"]["alpha"][0] = 0.0
    report = check_gates(trace, GATES)
    table = report.to_frame()
    assert list(table.columns) == ["value", "where", "limit", "passed"]
    assert json.loads(report.to_json())[0]["value"] is None
    assert str(GateReport.from_json(report.to_json())) == str(report)


def test_gates_refuse_limits_that_no_draws_keep():
    with pytest.raises(InvalidInputError, match="max_r_hat"):
        Gates(max_r_hat=0.99)
    with pytest.raises(InvalidInputError, match="min_bfmi"):
        Gates(min_bfmi=float("nan"))


class FakeTarget(TwinnedTarget):
    """A target whose twin is never built, because the sampler is replaced."""

    def __init__(self, data):
        self.data = np.asarray(data)

    def content_hash(self):
        return content_hash("fake", self.data)

    def to_pymc(self):
        return None


@pytest.fixture
def sampler(monkeypatch):
    """Replace NUTS by fabricated draws, and record the number of draws of every run."""
    runs = []

    def run(model, settings, *, cores, progressbar):
        runs.append(settings["draws"])
        return fabricated(settings["draws"], settings["random_seed"], settings["chains"])

    monkeypatch.setattr(posterior, "run_nuts", run)
    return runs


SETTINGS = {"draws": DRAWS, "chains": CHAINS, "gates": GATES, "random_seed": 3}


def test_an_interrupted_run_is_no_gold_standard(tmp_path):
    """A publication that was interrupted kept the first draws of a reference, and the next one took them for all."""
    stopped = fabricated()
    stopped["posterior"].attrs["stopped"] = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        cached("key", tmp_path, lambda: stopped)
    assert not list(tmp_path.iterdir())


def test_a_second_call_reads_equal_draws_without_sampling(sampler, tmp_path):
    first = reference_posterior(FakeTarget([1.0, 2.0]), cache_dir=tmp_path, **SETTINGS)
    second = reference_posterior(FakeTarget([1.0, 2.0]), cache_dir=tmp_path, **SETTINGS)
    assert sampler == [DRAWS]
    xr.testing.assert_identical(
        first["posterior"].to_dataset().drop_attrs(), second["posterior"].to_dataset().drop_attrs()
    )
    assert second["posterior"].attrs["content_hash"] == FakeTarget([1.0, 2.0]).content_hash()


@pytest.mark.thorough
@pytest.mark.parametrize("change", [{"draws": DRAWS + 1}, {"chains": 3}, {"random_seed": 4}, {"tune": 7}])
def test_other_settings_are_sampled_anew(sampler, tmp_path, change):
    reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, enforce=True, **SETTINGS)
    reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **(SETTINGS | change))
    assert len(sampler) == 2


@pytest.mark.thorough
def test_other_data_and_another_twin_are_sampled_anew(sampler, tmp_path):
    class Corrected(FakeTarget):
        def to_pymc(self):
            return "corrected"

    Corrected.__qualname__ = FakeTarget.__qualname__
    for target in (FakeTarget([1.0]), FakeTarget([1.5]), Corrected([1.0])):
        reference_posterior(target, cache_dir=tmp_path, **SETTINGS)
    assert len(sampler) == 3


def test_what_the_model_numbers_has_the_names_of_the_target(monkeypatch, tmp_path):
    """Else draws and gold standard would not be compared; axes that the model names itself stay."""
    draws = np.random.default_rng(0).normal(size=(2, 50, 3))

    def run(model, settings, *, cores, progressbar):
        tree = fabricated(50, 1, 2)
        numbered = {name: (("chain", "draw", f"{name}_dim_0"), draws, {"unit": "m"}) for name in ("a", "b")}
        tree["posterior"] = xr.DataTree(xr.Dataset({**numbered, "own": (("chain", "draw", "place"), draws)}))
        return tree

    class Named(FakeTarget, FunctionTarget):
        def __init__(self, data):
            super().__init__(data)
            axes = {"a": ("kind",), "b": ("b_dim_0",), "own": ("kind",)}
            labels = {"kind": ["x", "y", "z"], "b_dim_0": ["u", "v", "w"]}
            self.variables = Variables(dict.fromkeys("ab", (3,)) | {"own": (3,)}, axes, labels)

    monkeypatch.setattr(posterior, "run_nuts", run)
    settings = {**SETTINGS, "draws": 50, "chains": 2, "enforce": False, "cache_dir": tmp_path}
    with pytest.warns(SamplingWarning, match="fails"):
        found = reference_posterior(Named([1.0]), **settings)["posterior"]
    assert found["a"].sel(kind="z").equals(found["own"].isel(place=2).assign_coords(kind="z"))
    assert found["b"].coords["b_dim_0"].values.tolist() == ["u", "v", "w"] and found["own"].dims[2:] == ("place",)


def _twin(scale):
    return lambda: scale


def test_another_twin_of_the_users_is_sampled_anew(sampler, tmp_path):
    """The same model with a twin that was corrected: its function, or a number that it reads."""
    for scale in (1.0, 2.0, 1.0):
        target = FunctionTarget(
            lambda theta, data, i: -0.5 * theta[0] ** 2,
            lambda theta: 0.0,
            data=np.ones(3),
            n_obs=3,
            dim=1,
            pymc_model=_twin(scale),
        )
        reference_posterior(target, cache_dir=tmp_path, **SETTINGS)
    assert len(sampler) == 2


def test_a_twin_that_names_pymc_is_read():
    """Its graph functions are objects of PyTensor's, which have no code to hash."""
    import pymc as pm

    def twin(scale):
        def make():
            with pm.Model():
                pm.Bernoulli("y", pm.math.sigmoid(pm.Normal("mu", 0.0, scale)), observed=[1])

        return FunctionTarget(
            lambda theta, data, i: 0.0, lambda theta: 0.0, data=np.ones(1), n_obs=1, dim=1, pymc_model=make
        )

    assert twin_id(twin(1.0)) == twin_id(twin(1.0)) != twin_id(twin(2.0))
    assert twin_id(twin(1.0)) is not None


@pytest.mark.parametrize("name", [name for name in TARGETS if name.endswith("Regression")])
def test_a_twin_of_the_library_is_read(name):
    """A gold standard of a target whose twin cannot be read is made again in each call."""
    assert twin_id(TARGETS[name]()) is not None


def _garbage(path, tree):
    path.write_bytes(b"not netCDF")


def _truncate(path, tree):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _altered_draw(path, tree):
    tree["posterior"]["alpha"][0, 0] += 1e-9
    save(tree, path)


def _foreign(path, tree):
    tree["posterior"].attrs["cache_key"] = "another"
    save(tree, path)


@pytest.mark.thorough
@pytest.mark.parametrize("damage", [_garbage, _truncate, _altered_draw, _foreign])
def test_a_damaged_or_foreign_file_is_computed_again(sampler, tmp_path, damage):
    first = reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **SETTINGS)
    (path,) = tmp_path.iterdir()
    damage(path, load(path))
    with pytest.warns(SamplingWarning, match="computed again"):
        second = reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **SETTINGS)
    third = reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **SETTINGS)
    assert len(sampler) == 2
    assert np.array_equal(first["posterior"]["alpha"], second["posterior"]["alpha"])
    assert np.array_equal(first["posterior"]["alpha"], third["posterior"]["alpha"])


def test_a_folder_that_cannot_be_written_costs_only_the_cache(sampler, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.warns(SamplingWarning, match="could not be stored"):
        tree = reference_posterior(FakeTarget([1.0]), cache_dir=blocked / "below", **SETTINGS)
    assert tree["posterior"].sizes["draw"] == DRAWS


def test_the_default_folder_follows_the_environment(sampler, tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    reference_posterior(FakeTarget([1.0]), **SETTINGS)
    assert len(list((tmp_path / "reference").glob("*.nc"))) == 1


def test_runs_that_are_only_too_short_are_extended(sampler, tmp_path):
    gates = Gates(min_bulk_ess=8000, min_tail_ess=1500, max_relative_mcse=0.025)
    tree = reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **(SETTINGS | {"gates": gates}))
    assert sampler == [DRAWS, 3000]  # 1.3 * 8000 / 4000 times as many, in steps of 500
    assert "draws=3000" in tree["posterior"].attrs["command"]
    assert tree["posterior"].attrs["gates_passed"] == 1


@pytest.mark.thorough
def test_a_longer_gold_standard_continues_a_shorter_one(sampler, tmp_path):
    how = {"draws": 1000, "chains": 4, "gates": GATES, "cache_dir": tmp_path}
    short = reference_posterior(logistic(), **how)
    runs_of_short = len(sampler)
    long = reference_posterior(logistic(), **how, total_draws=10_000)
    assert len(sampler) == runs_of_short + 2  # two further sets of 4000; the first one comes from the cache
    assert long["posterior"].sizes["chain"] == 12 and long["posterior"].attrs["sets_of_chains"] == 3
    np.testing.assert_array_equal(long["posterior"]["beta"][:4], short["posterior"]["beta"])
    assert len({float(chain[0, 0]) for chain in long["posterior"]["beta"].to_numpy()}) == 12
    mcse = [float(tree["reference_moments"]["beta"].sel(moment="mcse").mean()) for tree in (short, long)]
    assert mcse[1] == pytest.approx(mcse[0] / np.sqrt(3.0), rel=0.15)


def test_max_draws_bounds_the_extension_and_the_refusal_names_the_gate(sampler, tmp_path):
    gates = Gates(min_bulk_ess=80_000, min_tail_ess=1500, max_relative_mcse=0.025)
    with pytest.raises(GoldStandardError, match=r"bulk_ess = \d+.* needs >= 80000"):
        reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, max_draws=1500, **(SETTINGS | {"gates": gates}))
    assert sampler == [DRAWS, 1500]


def test_a_divergence_is_refused_at_once_or_returned_with_its_report(monkeypatch, tmp_path):
    def diverging(model, settings, **how):
        tree = fabricated()
        tree["sample_stats"]["diverging"][0, 0] = True
        return tree

    monkeypatch.setattr(posterior, "run_nuts", diverging)
    with pytest.raises(GoldStandardError, match="divergences = 1 at chain 0, needs <= 0"):
        reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **SETTINGS)
    with pytest.warns(SamplingWarning, match="divergences = 1"):
        tree = reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, enforce=False, **SETTINGS)
    report = GateReport.from_json(tree["posterior"].attrs["gates"])
    assert [result.gate for result in report.failures] == ["divergences"]
    assert tree["posterior"].attrs["gates_passed"] == 0


def test_draws_that_are_not_enforced_are_not_extended(sampler, tmp_path):
    settings = SETTINGS | {"gates": Gates(min_bulk_ess=8000), "enforce": False}
    with pytest.warns(SamplingWarning, match="bulk_ess"):
        tree = reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **settings)
    assert sampler == [DRAWS]
    assert tree["posterior"].sizes["draw"] == DRAWS


def test_moments_of_variables_and_estimands(sampler, tmp_path):
    tree = reference_posterior(
        FakeTarget([1.0]), cache_dir=tmp_path, estimands={"square": lambda draws: draws["beta"] ** 2}, **SETTINGS
    )
    moments = tree["reference_moments"]
    draws = tree["posterior"]["beta"].stack(sample=("chain", "draw"))
    assert moments["beta"].dims == ("moment", "coef")
    np.testing.assert_allclose(moments["beta"].sel(moment="mean"), draws.mean("sample"))
    np.testing.assert_allclose(moments["beta"].sel(moment="sd"), draws.std("sample", ddof=1))
    np.testing.assert_allclose(moments["beta"].sel(moment="mcse"), 2 / np.sqrt(CHAINS * DRAWS), rtol=0.2)
    np.testing.assert_allclose(moments["square"].sel(moment="mean"), (draws**2).mean("sample"))
    assert moments.attrs["command"].endswith("draws=1000, tune=1000, chains=4, random_seed=3)")
    assert not moments.attrs["sample_dims"]


def test_attached_reference_is_thinned_and_saved_with_the_trace(sampler, tmp_path):
    long = SETTINGS | {"draws": 2500}
    reference = reference_posterior(FakeTarget([1.0]), cache_dir=tmp_path, **long)
    trace = fabricated(50, seed=1)
    both = attach_reference(trace, reference)
    assert "reference_posterior" not in trace.children
    assert both["reference_posterior"].sizes["draw"] == 834  # every third of 2500
    again = load(save(both, tmp_path / "both.nc"))
    xr.testing.assert_equal(again["reference_moments"].to_dataset(), reference["reference_moments"].to_dataset())
    assert again["reference_posterior"].attrs["content_hash"] == reference["posterior"].attrs["content_hash"]


def test_a_reference_of_another_model_is_not_attached():
    reference = fabricated()
    trace = fabricated()
    trace["posterior"] = trace["posterior"].to_dataset().assign_coords(coef=["a", "b", "c"])
    with pytest.raises(GoldStandardError, match=r"'beta' with axes .*'a'"):
        attach_reference(trace, reference)
    trace["posterior"] = trace["posterior"].to_dataset().rename(alpha="gamma")
    with pytest.raises(GoldStandardError, match="'gamma'"):
        attach_reference(trace, reference)


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(IncompatibleError, match="to_pymc"):
        reference_posterior(object())
    with pytest.raises(InvalidInputError, match="random_seed"):
        reference_posterior(FakeTarget([1.0]), random_seed=None)
    with pytest.raises(InvalidInputError, match="chains must be a positive integer"):
        reference_posterior(FakeTarget([1.0]), chains=0)


MODEL_SOURCE = """
import numpy as np
import pymc as pm

def build(y=(1.0, 2.0, 4.0), scale=1.0, labels=("a", "b"), factor=2.0):
    with pm.Model(coords={"group": labels}) as model:
        tau = pm.HalfNormal("tau", np.array(scale))
        mu = pm.Normal("mu", np.array(0.0), tau, dims="group")
        pm.Deterministic("doubled", mu * np.array(factor))
        pm.Normal("y", mu.sum(), np.array(1.0), observed=np.array(y))
    return model
"""


@pytest.fixture(scope="module")
def build():
    scope: dict = {}
    exec(MODEL_SOURCE, scope)
    return scope["build"]


@pytest.mark.thorough
def test_model_hash_sees_data_priors_labels_and_deterministics(build):
    changed = [{"y": (1.0, 2.0, 5.0)}, {"scale": 2.0}, {"labels": ("a", "c")}, {"factor": 3.0}]
    hashes = [model_hash(build(**change)) for change in ({}, {}, *changed)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 5


def test_model_hash_sees_every_entry_of_long_arrays_and_shared_data():
    import pymc as pm

    def model(y, wrap):
        with pm.Model() as built:
            pm.Normal("y", pm.Normal("mu"), observed=pm.Data("data", y) if wrap else y)
        return built

    y = np.zeros(5000)
    other = y.copy()
    other[2500] = 1e-12
    for wrap in (False, True):
        assert model_hash(model(y, wrap)) != model_hash(model(other, wrap))


def test_a_black_box_has_no_hash_and_is_not_cached(sampler, tmp_path):
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    class BlackBox(Op):
        def make_node(self, mu):
            return Apply(self, [mu], [pt.dscalar()])

        def perform(self, node, inputs, outputs):
            raise NotImplementedError

    wrapped = pytensor.wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])(lambda mu: -(mu**2))
    for black_box in (BlackBox(), wrapped):
        with pm.Model() as model:
            pm.Potential("likelihood", black_box(pm.Normal("mu")))
        assert model_hash(model) is None
    for _ in range(2):
        reference_posterior(model, cache_dir=tmp_path, **SETTINGS)
    assert len(sampler) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.needs_jit
@pytest.mark.slow
def test_model_hash_is_the_same_in_another_process(build):
    code = f"{MODEL_SOURCE}\nfrom approxmcmc.interop.model_hash import model_hash\nprint(model_hash(build()))"
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == model_hash(build())


def test_discrete_parameters_are_refused(tmp_path):
    import pymc as pm

    with pm.Model() as model:
        pm.Bernoulli("switch", 0.5)
    with pytest.raises(IncompatibleError, match="switch"):
        reference_posterior(model, cache_dir=tmp_path, **SETTINGS)


def normal_density(theta):
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    shifted = theta - np.array([1.0, -2.0])
    return -0.5 * shifted @ precision @ shifted


@pytest.mark.thorough
def test_grid_moments_of_a_correlated_normal_are_exact():
    variables = Variables({"beta": (2,)}, dims={"beta": ("coef",)}, coords={"coef": ["a", "b"]})
    tree = grid_reference(normal_density, variables, [(-6, 8), (-12, 8)])
    moments = tree["reference_moments"]["beta"]
    covariance = np.linalg.inv([[2.0, 0.6], [0.6, 1.0]])
    np.testing.assert_allclose(moments.sel(moment="mean"), [1.0, -2.0], atol=1e-9)
    np.testing.assert_allclose(moments.sel(moment="sd"), np.sqrt(np.diag(covariance)), rtol=1e-9)
    assert not moments.sel(moment="mcse").any()
    draws = tree["posterior"]["beta"]
    assert draws.dims == ("chain", "draw", "coef")
    chain_means = draws.mean("draw")
    assert (abs(chain_means - chain_means.mean("chain")) < 5 * moments.sel(moment="sd") / np.sqrt(1000)).all()
    # Systematic resampling sorts along the first axis: its mean is off by less than a grid step over the draws.
    assert abs(draws.mean(("chain", "draw"))[0] - 1.0) < 1e-3


def test_grid_refuses_bounds_that_cut_and_points_that_are_too_few():
    variables = Variables({"x": ()})

    def normal(theta):
        return -0.5 * float(theta @ theta)

    with pytest.raises(GoldStandardError, match="Widen the bounds"):
        grid_reference(normal, variables, [(-2, 8)])
    with pytest.raises(GoldStandardError, match="Raise n_points"):
        grid_reference(normal, variables, [(-40, 40)], n_points=41)
    with pytest.raises(GoldStandardError, match=r"nan at theta = \[.*\]"):
        grid_reference(lambda theta: np.nan, variables, [(-8, 8)])
    with pytest.raises(InvalidInputError, match="one or two parameters"):
        grid_reference(normal, Variables({"x": (3,)}), [(-8, 8)] * 3)
    with pytest.raises(InvalidInputError, match="n_points"):
        grid_reference(normal, variables, [(-8, 8)], n_points=100)


@pytest.mark.slow
@pytest.mark.needs_jit
def test_a_real_run_is_silent_named_and_cached(tmp_path, caplog, capfd, monkeypatch):
    import logging

    level = logging.getLogger("pymc").level
    target = logistic(n=50, dim=1)
    settings = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "enforce": False, "cache_dir": tmp_path}
    with pytest.warns(SamplingWarning, match="bulk_ess"):
        first = reference_posterior(target, **settings)
    assert not caplog.records
    assert not any(capfd.readouterr())
    assert logging.getLogger("pymc").level == level
    attrs = first["posterior"].attrs
    again = eval(attrs["command"], {"amc": amc, "target": target})
    np.testing.assert_array_equal(first["posterior"]["beta"], again["posterior"]["beta"])
    assert attrs["content_hash"] == target.content_hash()
    assert 0 < attrs["sampling_time"] <= attrs["wall_seconds"]
    assert json.loads(attrs["versions"])["pymc"]
    assert {"diverging", "energy", "lp", "tree_depth"} <= set(first["sample_stats"].data_vars)
    assert first["posterior"]["beta"].dims == ("chain", "draw", "coef")

    monkeypatch.setattr(posterior, "run_nuts", None)  # a second run would fail
    with pytest.warns(SamplingWarning, match="bulk_ess"):
        second = reference_posterior(target, **settings)
    assert np.array_equal(first["posterior"]["beta"], second["posterior"]["beta"])


def test_an_interrupted_run_is_not_a_gold_standard(monkeypatch, tmp_path):
    """NUTS answers Ctrl-C with the draws made so far."""
    cut = NamedDraws(Variables({}), {}, {}, {}, {}, {}, np.zeros((2, 30, 2)), {"stopped": "interrupt"})
    monkeypatch.setattr(NUTS, "run", lambda self, target, asked: cut)
    with pytest.raises(KeyboardInterrupt, match="after 30 of 60 draws"):
        reference_posterior(logistic(n=50, dim=2), draws=60, tune=60, chains=2, cache_dir=tmp_path)
    assert not list(tmp_path.rglob("*.nc"))
