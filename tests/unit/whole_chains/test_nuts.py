"""NUTS: which models go to it, its records and goals, and a run by nutpie from settings to checkpoint."""

import dataclasses
import json
import sys

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.contracts import WholeRun
from approxmcmc.diagnostics.health import trajectories
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingError
from approxmcmc.interop.any_model import as_target
from approxmcmc.interop.whole_model import WholeModel
from approxmcmc.sampling.goals import FixedDraws, ThinnedDraws
from approxmcmc.whole_chains import by_nutpie, by_pymc, run, settings
from approxmcmc.whole_chains.nuts_draws import NUTSJob, RawDraws, thinned
from approxmcmc.whole_chains.run import why_no_start
from approxmcmc.whole_chains.starts import constrained, flat, mirrored_starts
from tests import pymc_zoo as zoo

QUIET = {"progressbar": False, "random_seed": 1}
CAREFUL = amc.NUTS(target_accept=0.9)  # named, so that failed checks of a short run lead to no further run
TREATMENT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
LEAPFROGS = 3.0  # of each draw of the fake library


def eight_schools():
    """Return Rubin's eight schools, not centred, with labels."""
    with pm.Model(coords={"school": list("abcdefgh")}) as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        z = pm.Normal("z", dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, pm.Data("error", ERROR), observed=TREATMENT, dims="school")
    return model


# --- which models go to NUTS ---


@pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler
@pytest.mark.parametrize("model", zoo.REFUSED_AT_SIGHT, ids=lambda model: model.__name__)
def test_what_from_pymc_refuses_goes_to_nuts_with_the_reason(model):
    built = zoo.build(model)
    target = as_target(built)
    assert isinstance(target, WholeModel) and target.to_pymc() is built
    choice = amc.choose_sampler(built)
    assert choice.sampler == amc.NUTS(target_accept=0.9) and choice.target.why_no_terms == target.why_no_terms
    chosen, *others = choice.table["verdict"]
    assert chosen == "chosen" and all(verdict.startswith("not possible") for verdict in others)
    with pytest.raises(IncompatibleError, match=r"can only be sampled by NUTS, amc.sample\(model\)"):
        target.compile()


def test_the_line_says_why():
    latent = amc.choose_sampler(zoo.build(zoo.latent_for_each_row))
    by = settings.preferred()
    assert latent.sentence.endswith(
        "latent variables with an entry for each of the 300 rows (u) leave nothing to subsample"
    )
    assert latent.sentence.startswith({"nutpie": "NUTS by nutpie", "pymc": "NUTS by PyMC"}[by])
    discrete = amc.choose_sampler(zoo.build(zoo.discrete_parameter))
    assert discrete.sentence.startswith(
        "NUTS and discrete steps by PyMC (exact): the free variables ['k'] are discrete"
    )
    assert discrete.tune == 1000


def test_a_model_without_free_variables_has_nothing_to_sample():
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=np.zeros(3))
    with pytest.raises(IncompatibleError, match="no free variable; there is nothing to sample"):
        amc.sample(model, **QUIET)


@pytest.mark.thorough
def test_a_whole_model_describes_itself():
    target = WholeModel(eight_schools(), "by hand")
    assert dict(target.variables.shapes) == {"mu": (), "tau": (), "z": (8,)} and target.n_obs == 8
    assert target.variables.dims["z"] == ("school",) and target.variables.coords["school"] == list("abcdefgh")
    np.testing.assert_array_equal(target.observed_data["y"], TREATMENT)
    np.testing.assert_array_equal(target.constant_data["error"], ERROR)
    assert target.content_hash() == WholeModel(eight_schools(), "again").content_hash()
    assert target.content_hash() != as_target(zoo.build(zoo.nothing_observed)).content_hash()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tune": -1}, "tune must be an integer >= 0"),
        ({"target_accept": 1.0}, "target_accept must lie between 0 and 1"),
        ({"backend": "stan"}, "backend must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, told):
    with pytest.raises(InvalidInputError, match=told):
        amc.NUTS(**wrong)


def test_nutpie_is_refused_where_parameters_are_discrete():
    target = as_target(zoo.build(zoo.discrete_parameter))
    assert amc.NUTS().library(target) == "pymc"
    with pytest.raises(IncompatibleError, match=r"the discrete \['k'\]; leave backend out"):
        amc.NUTS(backend="nutpie").library(target)


def test_a_target_without_a_model_is_refused():
    target = amc.FunctionTarget(
        lambda theta, data, i: -0.5 * theta[0] ** 2, lambda theta: 0.0, data=np.zeros(3), n_obs=3, dim=1
    )
    with pytest.raises(IncompatibleError, match="has no PyMC twin"):
        amc.sample(target, amc.NUTS(), **QUIET)


# --- what a run makes of what a library draws ---

DRAW_BY_PYMC = by_pymc.draw  # itself, which tests of this file replace
JOB = NUTSJob(None, {}, None, [1, 2], None, 5, lambda posterior, leapfrogs: 0, 5, 4, 0.8, 1, None, lambda steps: None)


def fake_draw(job, compiled=None):
    """Return draws 0, 1, 2, ... of each variable, in a run that checks whether to continue."""
    draws = job.draws
    shapes = {name: np.shape(value) for name, value in job.model.initial_point().items()}

    def group(n, first):
        places = np.arange(first, first + n, dtype=float)
        arrays = {
            name: (("chain", "draw", *(f"{name}_dim_{k}" for k in range(len(shape)))),
                   np.broadcast_to(places.reshape(1, n, *[1] * len(shape)), (len(job.seeds), n, *shape)))
            for name, shape in shapes.items()
        }  # fmt: skip
        return xr.Dataset(arrays, {"chain": np.arange(len(job.seeds)), "draw": np.arange(n)})

    while longer := job.more(group(draws, 0), LEAPFROGS):
        draws = longer
    stats, warmup = ({"n_steps": np.full((len(job.seeds), n), 3)} for n in (draws, job.tune))
    stats["diverging"] = np.arange(draws)[None] % 5 == 0
    stats["diverging"] = np.repeat(stats["diverging"], len(job.seeds), axis=0)
    seconds = [np.full((len(job.seeds), n), 0.5) for n in (draws, job.tune)]
    return RawDraws(group(draws, 0), stats, seconds[0], group(job.tune, 0), warmup, seconds[1], 2.0, 9.0, "a clock")


@pytest.fixture
def two_means(monkeypatch):
    """Return the target of a model that no row can be read of, sampled by `fake_draw`."""
    monkeypatch.setattr(by_nutpie, "draw", fake_draw)
    monkeypatch.setattr(by_nutpie, "compile_model", lambda model, names: None)
    monkeypatch.setattr(by_pymc, "draw", fake_draw)
    with pm.Model() as model:
        pm.Normal("m", shape=2)
        pm.Normal("s")
    return as_target(model)


def asked(goals, **changes):
    return WholeRun(**{"goals": goals, "tune": 4, "thin": 1, "seeds": [1, 2], "cores": 1, **changes})


def test_thinning_adds_up_what_dropped_draws_cost(two_means):
    drawn = amc.NUTS().run(two_means, asked(FixedDraws(5), thin=3))
    np.testing.assert_array_equal(drawn.posterior["s"][0], [2, 5, 8, 11, 14])
    assert drawn.posterior["m"].shape == (2, 5, 2)
    for name in ("gradient_evaluations", "likelihood_evaluations", "datapoints_touched"):
        np.testing.assert_array_equal(drawn.stats[name], np.full((2, 5), 9 * two_means.n_obs))
        np.testing.assert_array_equal(drawn.tuning_totals[name], [12, 12])
    np.testing.assert_array_equal(drawn.stats["perf_counter_diff"], np.full((2, 5), 1.5))
    np.testing.assert_array_equal(drawn.stats["diverging"][0], [True, True, False, True, False])
    np.testing.assert_array_equal(drawn.tuning_totals["perf_counter_diff"], [2.0, 2.0])
    assert drawn.attrs["thin"] == 3 and drawn.flat.shape == (2, 5, 3)


def test_trajectories_that_are_far_longer_than_expected_limit_the_thinning(two_means, monkeypatch):
    """Three parameters are expected to take 4 * 3^(1/4) leapfrog steps; 64 times as many leave a quarter of 16."""
    monkeypatch.setattr(sys.modules[__name__], "LEAPFROGS", 64.0 * 4.0 * 3.0**0.25)
    goals = ThinnedDraws(4, 10.0, lambda draws, wanted: 1.0, affordable=4.5 * 64.0)
    assert amc.NUTS().run(two_means, asked(goals, thin=1)).attrs["thin"] == 4
    goals = ThinnedDraws(4, 10.0, lambda draws, wanted: 1.0, affordable=0.5 * 64.0)
    assert amc.NUTS().run(two_means, asked(goals, thin=1)).attrs["thin"] == 1


def test_goals_lengthen_a_run_and_see_what_is_kept(two_means):
    seen = []

    def smallest_ess(draws, wanted):
        seen.append(draws[0, :, 0].tolist())
        return 10.0 if len(seen) == 3 else 1.0

    drawn = amc.NUTS().run(two_means, asked(ThinnedDraws(4, 10.0, smallest_ess), thin=2))
    assert seen == [[1, 3, 5, 7], [3, 7, 11, 15], [7, 15, 23, 31]]
    assert drawn.posterior["s"][0].tolist() == [7, 15, 23, 31] and drawn.attrs["thin"] == 8


@pytest.mark.parametrize(
    ("name", "expected"),
    [("n_steps", [3, 7]), ("lp", [2, 4]), ("acceptance_rate", [1.5, 3.5]), ("diverging", [True, True])],
)
def test_each_record_is_thinned_by_its_kind(name, expected):
    assert thinned(name, np.array([[1, 2, 3, 4, 5]]), 2)[0].tolist() == expected


def test_a_trace_is_like_all_others(two_means, tmp_path):
    path = tmp_path / "run.nc"
    run_of = {**QUIET, "draws": 200, "tune": 4, "chains": 2, "checkpoint": path}
    trace = amc.sample(two_means, **run_of)
    attrs = trace["posterior"].attrs
    assert attrs["chosen"].endswith("the model has no observed variable")
    assert json.loads(attrs["choice"])[0]["verdict"] == "chosen"
    assert attrs["why_not_invariant"] == "" and attrs["tuning_steps"] == 4 and attrs["setup_compile_seconds"] == 2.0
    table = amc.diagnose(trace).set_index("check")
    assert table.loc["divergences", "verdict"] == "warning" and table.loc["divergences", "value"] == 80
    assert "divergences" in attrs["problems"]
    costs = amc.cost_summary(trace).loc["all"]
    assert costs["gradient_evaluations"] == 2 * 200 * 3 and costs["tuning_seconds"] == 4.0
    assert amc.sample(two_means, **run_of).identical(trace)
    longer = amc.resume(path, two_means, draws=50, progressbar=False)
    assert longer.posterior.sizes["draw"] == 250
    with pytest.raises(InvalidInputError, match="a run with other arguments"):
        amc.sample(two_means, **{**run_of, "tune": 5})


@pytest.mark.thorough
def test_an_interrupted_run_starts_again_and_says_so(two_means, tmp_path, monkeypatch, caplog):
    path = tmp_path / "run.nc"
    run_of = {**QUIET, "draws": 20, "chains": 2, "checkpoint": path}
    monkeypatch.setattr(by_nutpie, "draw", lambda job, compiled: fake_draw(job)._replace(stopped="interrupt"))
    monkeypatch.setattr(by_pymc, "draw", lambda job: fake_draw(job)._replace(stopped="interrupt"))
    assert amc.sample(two_means, **run_of)["posterior"].attrs["stopped"] == "interrupt"
    monkeypatch.setattr(by_nutpie, "draw", fake_draw)
    monkeypatch.setattr(by_pymc, "draw", fake_draw)
    with caplog.at_level("INFO", logger="approxmcmc"):
        assert amc.sample(two_means, **run_of)["posterior"].attrs["stopped"] == ""
    assert "starts again" in caplog.text


@pytest.mark.parametrize("given", [{"q": 1.0}, np.zeros(3), [{"s": 1.0}]])
def test_starting_values_of_a_whole_model_are_named(two_means, given):
    with pytest.raises(InvalidInputError, match=r"a dict by the variables \['m', 's'\], or a list of 2 dicts"):
        amc.NUTS().run(two_means, asked(FixedDraws(5), initvals=given))


@pytest.mark.thorough
@pytest.mark.parametrize("function", [amc.audit, amc.bias])
def test_what_reads_terms_says_why_it_cannot(two_means, function):
    trace = amc.sample(two_means, draws=50, **QUIET)
    with pytest.raises(IncompatibleError, match="can only be sampled by NUTS"):
        function(trace, two_means, None)


def test_nutpie_gives_way_to_pymc_where_it_cannot_compile(two_means, monkeypatch, caplog):
    def fail(model, names):
        raise NotImplementedError("no gradient of this operation\nand more")

    monkeypatch.setattr(settings, "preferred", lambda: "nutpie")
    monkeypatch.setattr(by_nutpie, "compile_model", fail)
    run._compiled.clear()
    with caplog.at_level("INFO", logger="approxmcmc"):
        assert amc.NUTS().run(two_means, asked(FixedDraws(5))).attrs["nuts"] == "pymc"
    assert "nutpie cannot compile the model (NotImplementedError: no gradient of this operation)" in caplog.text
    with pytest.raises(NotImplementedError):
        amc.NUTS(backend="nutpie").run(two_means, asked(FixedDraws(5)))


def test_pymc_runs_without_nutpie_and_a_message_says_so(two_means, monkeypatch, caplog):
    monkeypatch.setattr(settings.importlib.util, "find_spec", lambda name: None)
    with caplog.at_level("INFO", logger="approxmcmc"):
        assert amc.NUTS().run(two_means, asked(FixedDraws(5))).attrs["nuts"] == "pymc"
    assert 'nutpie is not installed; it is usually faster: pip install "approxmcmc[nutpie]"' in caplog.text


def test_trees_cut_short_and_divergences_are_findings():
    stats = xr.Dataset(
        {
            "diverging": (("chain", "draw"), np.arange(20).reshape(2, 10) == 13),
            "reached_max_treedepth": (("chain", "draw"), np.arange(20).reshape(2, 10) < 4),
        },
        {"chain": [0, 1]},
    )
    one, other = trajectories(stats, {"target_accept": 0.9})
    assert (one.verdict, one.value, one.where) == ("warning", 1.0, "chain 1") and "target_accept=0.95" in one.advice
    assert (other.verdict, other.value) == ("warning", 0.2)
    assert [found.verdict for found in trajectories(xr.zeros_like(stats), {})] == ["ok", "ok"]
    assert trajectories(stats[[]], {}) == []


def test_a_model_that_cannot_start_is_an_error(two_means, monkeypatch):
    def fail(job, compiled=None):
        raise RuntimeError("All initialization points failed\nbacktrace")

    monkeypatch.setattr(by_nutpie, "draw", fail)
    monkeypatch.setattr(by_pymc, "draw", fail)
    with pytest.raises(SamplingError, match="NUTS cannot start: All initialization points failed"):
        amc.sample(two_means, **QUIET)


@pytest.mark.thorough
def test_a_model_that_cannot_start_has_pymcs_diagnosis():
    with pm.Model() as model:
        pm.Poisson("y", pt.exp(pm.Normal("m")), observed=[1, 2, -3])
    told = why_no_start(model, RuntimeError("no start\nbacktrace"))
    assert "NUTS cannot start: no start. The log density of y is not finite" in told
    assert "value = -3 -> logp = -inf" in told and "backtrace" not in told
    assert "all log densities are finite" in why_no_start(eight_schools(), RuntimeError("no start"))


# --- where chains start ---


def test_chains_start_in_pairs_that_mirror_each_other():
    with pm.Model() as model:
        pm.Normal("m", 3.0, shape=2)
        pm.HalfNormal("s")
        pm.Poisson("k", 4.0)
    starts = mirrored_starts(model, [5, 6, 7])
    centre = model.initial_point()
    assert list(starts[0]) == ["m", "s_log__", "k"] and starts[0]["k"] == starts[1]["k"] == 4
    for name in ("m", "s_log__"):
        away = [start[name] - centre[name] for start in starts]
        np.testing.assert_allclose(away[0], -away[1], rtol=1e-12)
        assert (np.abs(away) > 0.0).all() and (np.abs(away) <= 1.0).all() and (away[0] != away[2]).all()
    assert mirrored_starts(model, [5, 8])[1]["m"].tolist() == starts[1]["m"].tolist()
    assert mirrored_starts(model, [7])[0]["m"].tolist() == starts[2]["m"].tolist()
    np.testing.assert_array_equal(flat(model, starts[0])[:3], [*starts[0]["m"], starts[0]["s_log__"]])


@pytest.mark.needs_jit
def test_pymc_takes_starts_on_the_scale_of_the_model():
    """The upper bound of u is the parameter s, so that the scale of u depends on another start."""
    with pm.Model() as model:
        s = pm.HalfNormal("s")
        pm.Uniform("u", 0.0, s)
    point = mirrored_starts(model, [3])[0]
    [start] = constrained(model, [point])
    assert start["s"] == pytest.approx(np.exp(point["s_log__"]))
    assert start["u"] == pytest.approx(start["s"] / (1.0 + np.exp(-point["u_interval__"])))


def test_nutpie_has_other_points_after_a_start_that_it_rejects():
    given = by_nutpie.at_first(np.ones(2), by_nutpie.near(np.ones(2)))
    assert given(1).tolist() == [1.0, 1.0]
    assert 0.0 < np.abs(given(2) - 1.0).max() < 0.01
    own = by_nutpie.at_first(np.ones(2), lambda seed: np.full(2, seed))
    assert [own(5)[0], own(6)[0], own(7)[0]] == [1.0, 6.0, 7.0]


def test_pymc_starts_by_itself_where_it_rejects_a_mirrored_start(two_means, monkeypatch):
    tried = []

    def rejects(job, clock, draws, starts):
        tried.append(starts)
        if starts is not None:
            raise by_pymc.start_error()("Initial evaluation of model at starting point failed!")
        return "a tree"

    monkeypatch.setattr(by_pymc, "_sample", rejects)
    monkeypatch.setattr(by_pymc, "constrained", lambda model, points: points)
    clock = by_pymc.StepClock(JOB)
    assert by_pymc._sample_from_pairs(JOB._replace(model=two_means.to_pymc()), clock, 5) == "a tree"
    assert len(tried) == 2 and tried[0][0]["s"] == -tried[0][1]["s"]
    clock.ends[0].append(1.0)
    with pytest.raises(by_pymc.start_error()):
        by_pymc._sample_from_pairs(JOB._replace(model=two_means.to_pymc()), clock, 5)


@pytest.mark.parametrize("chains", [[0, 1], [0]])
def test_pymc_may_be_stopped_while_it_tunes(two_means, monkeypatch, chains):
    """PyMC then returns the steps of tuning, of the chains that had begun, and no posterior."""
    tuning = xr.Dataset({"s": (("chain", "draw"), np.zeros((len(chains), 3)))}, {"chain": chains, "draw": range(3)})
    records = xr.Dataset({"tree_size": (("chain", "draw"), np.ones((len(chains), 3)))}, {"chain": chains})
    tree = xr.DataTree.from_dict({"warmup_posterior": tuning, "warmup_sample_stats": records})

    def stopped(job, clock, draws, starts):
        for chain in chains:
            clock.ends[chain].extend([1.0, 2.0, 3.0])
        clock.late = True
        return tree

    monkeypatch.setattr(by_pymc, "_sample", stopped)
    raw = DRAW_BY_PYMC(JOB._replace(model=two_means.to_pymc(), shapes={"s": ()}, starts=[{}, {}]))
    assert raw.stopped == "time_limit" and raw.posterior.sizes == {"chain": len(chains), "draw": 0}
    assert raw.seconds.shape == (len(chains), 0) and raw.warmup_seconds.tolist() == [[1.0] * 3] * len(chains)


def test_starts_that_were_near_are_findings(two_means):
    """The fake library starts all chains at the same point."""
    trace = amc.sample(two_means, draws=50, initvals={"s": 1.0}, **QUIET)
    row = amc.diagnose(trace).set_index("check").loc["modes"]
    assert row["verdict"] == "not checked" and "at most 0 posterior sd" in row["finding"]


# --- chains of nutpie that do not move ---


@dataclasses.dataclass(frozen=True)
class FakeModel:
    """What `NutpieChain` needs of a model that nutpie has compiled."""

    n_expanded: int = 1
    initial_point_func: object = None


class FakeChain(by_nutpie.NutpieChain):
    """A chain that has ended: three leapfrog steps and a new value a step, or the same if it does not move.

    With nutpie's scales the chains numbered `still` do not move from step `since` of tuning on. `made_by` holds the
    adaptation of each chain that was made. Each look at the draws adds half a second.
    """

    still = ()
    since = 0
    made_by = ()

    def __init__(self, job, compiled, first, k, most, adaptation):
        super().__init__(job, compiled, first, k, most, adaptation)
        type(self).made_by += (adaptation,)
        self.values = np.arange(job.tune + most, dtype=float)
        if adaptation == "diag" and k in self.still:
            self.values[self.since :] = self.since

    is_done = True  # so that `_advance` waits for nothing

    def draws(self):
        self.seconds += 0.5
        tree = {}
        parts = self.values[: self._job.tune], self.values[self._job.tune :]
        for before, values in zip(("warmup_", ""), parts, strict=True):
            tree[before + "posterior"] = xr.Dataset({"x": (("chain", "draw"), values[None])})
            tree[before + "sample_stats"] = xr.Dataset({"n_steps": (("chain", "draw"), np.full((1, len(values)), 3))})
        return xr.DataTree.from_dict(tree)


@pytest.fixture
def fake_chains(monkeypatch):
    """Return a function that draws by fake chains, those in `still` without moves from step `since` of tuning on."""

    def draw(still=(), since=0, tune=400, adaptation=None):
        monkeypatch.setattr(FakeChain, "still", still)
        monkeypatch.setattr(FakeChain, "since", since)
        monkeypatch.setattr(FakeChain, "made_by", ())
        monkeypatch.setattr(by_nutpie, "NutpieChain", FakeChain)
        monkeypatch.setattr(by_nutpie, "_starts", lambda job: [np.zeros(1)] * 2)
        job = JOB._replace(tune=tune)
        return by_nutpie.draw(job, by_nutpie.NutpieModel(FakeModel(), 0.0), adaptation), list(FakeChain.made_by)

    return draw


@pytest.mark.parametrize(("still", "since"), [((1,), 0), ((0, 1), 300)])
def test_all_chains_start_again_with_other_scales_where_one_does_not_move(fake_chains, caplog, still, since):
    with caplog.at_level("INFO", logger="approxmcmc"):
        raw, made_by = fake_chains(still, since)
    assert made_by == ["diag", "diag", "draw_diag", "draw_diag"] and raw.adaptation == "draw_diag"
    assert f"chain(s) {list(still)} did not move in the last quarter of tuning" in caplog.text
    np.testing.assert_array_equal(raw.posterior["x"], [np.arange(400.0, 405.0)] * 2)


def test_what_replaced_chains_cost_is_part_of_tuning(fake_chains):
    """A replaced chain made 400 steps of tuning and 5 draws. It was looked at twice, the chain in its place once."""
    raw, _ = fake_chains(still=(1,))
    np.testing.assert_array_equal(raw.warmup_stats["n_steps"].sum(axis=1), [3 * (400 + 405)] * 2)
    np.testing.assert_array_equal(raw.warmup_stats["n_steps"][:, 1:], np.full((2, 399), 3))
    np.testing.assert_allclose(raw.warmup_seconds.sum(axis=1) + raw.seconds.sum(axis=1), [1.5, 1.5])
    usual, _ = fake_chains()
    np.testing.assert_array_equal(usual.warmup_stats["n_steps"], np.full((2, 400), 3))


@pytest.mark.parametrize(
    "run",
    [
        {},
        {"still": (1,), "since": 301},  # the chain moves once within the last quarter
        {"still": (1,), "tune": 199},  # too few steps to judge
        {"still": (1,), "adaptation": "diag"},  # the scales were asked for
    ],
)
def test_other_chains_are_drawn_once(fake_chains, run):
    raw, made_by = fake_chains(**run)
    assert made_by == ["diag", "diag"] and raw.adaptation == "diag"
    assert raw.warmup_stats["n_steps"].max() == 3


# --- nutpie and PyMC themselves ---


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("nutpie")
    return WholeModel(eight_schools(), "by hand")


@pytest.fixture(scope="module")
def trace(model):
    return amc.sample(model, CAREFUL, draws=300, **QUIET)


@pytest.mark.needs_jit
class TestByNutpie:
    """One model, compiled once."""

    def test_names_axes_and_deterministics_are_those_of_pymc(self, trace):
        posterior = trace["posterior"]
        assert set(posterior.data_vars) == {"mu", "tau", "z", "theta"}
        assert posterior["theta"].dims == ("chain", "draw", "school")
        assert posterior["school"].values.tolist() == list("abcdefgh")
        np.testing.assert_allclose(posterior["theta"], posterior["mu"] + posterior["tau"] * posterior["z"], rtol=1e-12)
        assert trace["observed_data"]["y"].dims == ("school",) and "error" in trace["constant_data"]
        steps = trace["sample_stats"]["n_steps"]
        np.testing.assert_array_equal(trace["sample_stats"]["gradient_evaluations"], 8 * steps)
        assert (trace["sample_stats"]["perf_counter_diff"] > 0.0).all()

    def test_a_chain_depends_on_its_seed_alone(self, model, trace):
        fewer = amc.sample(model, CAREFUL, draws=40, chains=2, cores=1, discard_tuned_samples=False, **QUIET)
        for name in trace["posterior"].data_vars:
            np.testing.assert_array_equal(fewer["posterior"][name], trace["posterior"][name][:2, :40])
        assert fewer["warmup_posterior"].sizes["draw"] == 400

    def test_a_target_ess_is_the_beginning_of_a_longer_run(self, model, trace, monkeypatch):
        monkeypatch.setattr(by_nutpie, "RESERVED", 1)  # so that the chains start again
        found = amc.sample(model, CAREFUL, target_ess=450, **QUIET)
        draws = min(found.posterior.sizes["draw"], 300)
        np.testing.assert_array_equal(found.posterior["mu"][:, :draws], trace.posterior["mu"][:, :draws])
        assert found.posterior.attrs["smallest_ess"] >= 450

    def test_chains_take_turns_under_a_time_limit(self, model):
        found = amc.sample(model, CAREFUL, draws=10**7, time_limit=1.0, cores=1, **QUIET)
        assert found.posterior.attrs["stopped"] == "time_limit" and found.posterior.sizes["draw"] > 0

    def test_starting_values_are_taken(self, model):
        starts = [{"mu": float(k), "z": np.zeros(8)} for k in range(4)]  # chain 1: a gradient of exactly 0
        found = amc.sample(model, CAREFUL, draws=10, tune=1, initvals=starts, discard_tuned_samples=False, **QUIET)
        assert found.posterior.sizes == {"chain": 4, "draw": 10, "school": 8}

    def test_each_of_two_mirrored_modes_has_a_chain(self):
        """With independent starts both chains lie in one mode for half of the seeds, so the test fails but for 2^-6."""
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, 100.0, shape=2)
            pm.Potential("two", pm.logp(pm.Normal.dist(0.0, 0.05), x[0] * x[1] - 9.0))
            pm.Potential("near", pm.logp(pm.Normal.dist(0.0, 0.05), x[0] - x[1]))
        for seed in range(6):
            found = amc.sample(
                model, CAREFUL, draws=20, tune=100, chains=2, cores=1, random_seed=seed, progressbar=False
            )
            signs = np.sign(found.posterior["x"].isel(draw=-1, x_dim_0=0).to_numpy())
            assert sorted(signs) == [-1.0, 1.0]


@pytest.mark.needs_jit
def test_discrete_parameters_are_moved_by_pymc():
    """A switch between two rates: the posterior of the place is known by enumeration."""
    counts = np.array([5, 6, 4, 5, 7, 1, 0, 1, 2, 0])
    with pm.Model() as model:
        place = pm.DiscreteUniform("place", 1, 9)
        pm.Poisson("y", pt.switch(place > np.arange(10), 5.0, 1.0), observed=counts)
    trace = amc.sample(model, draws=300, tune=100, chains=2, cores=1, **QUIET)
    assert trace.posterior["place"].dtype.kind == "i" and trace.posterior.attrs["nuts"] == "pymc"
    places = np.arange(1, 10)
    rates = np.where(places[:, None] > np.arange(10), 5.0, 1.0)
    log_density = (counts * np.log(rates) - rates).sum(axis=1)
    expected = np.exp(log_density - log_density.max())
    found = np.bincount(trace.posterior["place"].values.ravel(), minlength=10)[1:] / 600
    assert np.abs(found - expected / expected.sum()).max() < 0.15
    assert "likelihood_evaluations" not in trace["sample_stats"]
