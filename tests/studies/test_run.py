"""Runs: what is computed, kept and reported, and what a kill costs."""

import dataclasses
import io
import itertools
import multiprocessing.resource_tracker
import multiprocessing.spawn
import os
import shutil
import signal
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.diagnose import attributes, report
from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.errors import CacheWarning, GoldStandardError, NotFiniteError, SamplingWarning, StudyError
from approxmcmc.output.files import save
from approxmcmc.sampling.progress import progress, watching
from approxmcmc.study import Budget, Gold, Study, engines, environment, knob, machine, vary
from approxmcmc.study.cell import run_cell
from approxmcmc.study.engines import Job
from approxmcmc.study.machine import collect, is_noisy, speed_probe, stopwatch
from approxmcmc.study.plan import make_plan
from approxmcmc.study.processes import run_in_processes
from approxmcmc.study.progress import Lines, Listener
from approxmcmc.study.results import StudyResults, _version_with_most_cells
from approxmcmc.study.revalidate import revalidate
from approxmcmc.study.run import Outcome, run_study
from approxmcmc.study.store import Store, hash_of_draws
from approxmcmc.study.verify import compare_stores, geometric_mean, verify
from tests.fakes import fake_trace
from tests.studies.toys import ToySampler, ToyTarget, quiet_probe, toy_sample, toy_study

pytestmark = pytest.mark.core

# What two runs with equal seeds and a budget of draws must agree on.
REPRODUCIBLE = [
    "key",
    "target",
    "label",
    "replicate",
    "status",
    "seed",
    "draws",
    "steps",
    "datapoints_touched",
    "draws_hash",
]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Return a function that tells how many chains have been drawn, in this process or another."""
    log = tmp_path / "calls.log"
    monkeypatch.setenv("TOY_LOG", str(log))
    return lambda: log.read_text().split() if log.exists() else []


def execute(study: Study, base: Path, preset: str = "paper", **options) -> tuple[Outcome, str]:
    said = io.StringIO()
    settings = {"sample": toy_sample, "probe": quiet_probe, "listener": Lines(said)} | options
    return run_study(study, preset, base, **settings), said.getvalue()


def results_of(study: Study, base: Path, preset: str = "paper") -> StudyResults:
    return StudyResults.open(study, preset, base)


def faulty(*faults: str) -> Study:
    return toy_study(samplers={"walk": vary(ToySampler, fault=knob("", *faults))}, replicates=1)


# --- a run, and again ---


def test_a_run_makes_every_cell_and_the_next_one_none(tmp_path, calls):
    study = toy_study()
    outcome, said = execute(study, tmp_path)
    assert outcome.statuses == {"done": 6}
    assert outcome.exit_code == 0
    assert "6 cells = 1 target x 3 settings x 2 replicates; 6 to run" in said
    assert len(calls()) == 6
    outcome, said = execute(study, tmp_path)
    assert outcome.statuses == {"done": 6}
    assert "0 to run" in said
    assert len(calls()) == 6


def test_results_hold_records_traces_and_where_they_came_from(tmp_path):
    study = toy_study()
    execute(study, tmp_path)
    results = results_of(study, tmp_path)
    records = results.records
    assert records["status"].eq("done").all()
    assert records["draws"].eq(20).all()
    assert records["steps"].eq(25).all()
    assert records["datapoints_touched"].eq(20 * 10 + 5 * 7).all()
    assert records["decisions_made"].eq(25).all()
    assert records["compile_seconds"].eq(0.5).all()
    assert set(results.traces()) == {("plain", setting.label) for setting in study.settings()}
    for (target, label), traces in results.traces().items():
        cells = [c for c in results.plan.cells if (c.target, c.label) == (target, label)]
        for cell, trace in zip(sorted(cells, key=lambda c: c.replicate), traces, strict=True):
            start = cell.starting_point(study, study.target(target))
            walk = start + np.random.default_rng(cell.seed).normal(size=(20, 2)).cumsum(axis=0)
            np.testing.assert_array_equal(trace["posterior"]["beta"].values[0], walk)
    assert results.reference("plain") is None
    assert results.provenance["code_version"] == results.code_version
    assert results.provenance["thread_variables"]["OMP_NUM_THREADS"] == "1"


def test_a_notebook_needs_two_lines(tmp_path):
    study = toy_study()
    results = study.run("smoke", tmp_path, sample=toy_sample, probe=quiet_probe)
    assert results.records["status"].tolist() == ["done"] * 3
    assert study.results("smoke", tmp_path).records["key"].tolist() == results.records["key"].tolist()


def test_a_lost_file_of_facts_is_named(tmp_path):
    study = toy_study()
    results = study.run("smoke", tmp_path, sample=toy_sample, probe=quiet_probe)
    [path] = results.store.folder.glob("provenance/*.json")
    path.unlink()
    assert study.results("smoke", tmp_path).provenance == {f"{path.stem}: provenance": "its file was lost"}


@pytest.mark.thorough
def test_a_grown_study_runs_only_what_is_new(tmp_path, calls):
    execute(toy_study(), tmp_path)
    larger = toy_study(replicates=3)
    outcome, said = execute(larger, tmp_path)
    assert outcome.statuses == {"done": 9}
    assert "(plan extended)" in said
    assert len(calls()) == 9


def test_another_plan_is_refused_and_nothing_runs(tmp_path, calls):
    execute(toy_study(), tmp_path)
    with pytest.raises(StudyError, match=r"budget\.draws: 20 -> 30"):
        execute(toy_study(budget=Budget(draws=30)), tmp_path)
    assert len(calls()) == 6


def test_only_runs_what_the_filter_names(tmp_path):
    outcome, _ = execute(toy_study(), tmp_path, only="epsilon=0.05")
    assert outcome.statuses == {"done": 2, "missing": 4}
    assert outcome.exit_code == 0


@pytest.mark.thorough
def test_the_starting_rule_of_a_study_is_used(tmp_path):
    study = toy_study(start=lambda target, rng: np.full(target.size, 3.0))
    execute(study, tmp_path)
    trace = results_of(study, tmp_path).traces()["plain", "walk[epsilon=0.0]"][0]
    assert np.abs(trace["posterior"]["beta"].values[0, 0] - 3.0).max() < 6  # one step of a standard normal


# --- failures ---


def test_failures_are_counted_told_and_kept_and_the_others_go_on(tmp_path):
    study = faulty("raises", "nan", "nothing", "no number")
    outcome, said = execute(study, tmp_path)
    assert outcome.statuses == {"done": 1, "failed": 1, "invalid": 3}
    assert outcome.exit_code == 1
    assert "FAILED  plain walk[fault='raises'] replicate 0: RuntimeError: the toy broke" in said
    records = results_of(study, tmp_path).records.set_index("label")
    broken = records.loc["walk[fault='raises']"]
    assert "toys.py" in broken["error"]
    assert broken["error"].rstrip().endswith("RuntimeError: the toy broke")
    assert (
        broken["command"] == f"approxmcmc retry toy --preset paper --store {tmp_path.as_posix()} --cell {broken['key']}"
    )
    assert broken["seed"] == next(c.seed for c in make_plan(study, "paper").cells if c.key == broken["key"])
    assert records.loc["walk[fault='nan']"]["error"] == (
        "beta[0] has 1 draw that is not finite (first NaN in chain 0, draw 19)."
    )
    assert "ended before the first draw" in records.loc["walk[fault='nothing']"]["error"]
    assert set(results_of(study, tmp_path).traces()) == {("plain", "walk[fault='']")}


def test_a_log_density_that_is_not_a_number_makes_a_cell_invalid():
    def raises(*args, **kwargs):
        raise NotFiniteError("datum 3")

    plan = make_plan(toy_study(), "paper")
    record, trace = run_cell(plan, plan.cells[0], sample=raises, probe=quiet_probe)
    assert (record["status"], record["error"], trace) == ("invalid", "datum 3", None)


def test_a_failed_cell_runs_again_only_when_asked(tmp_path, calls):
    study = faulty("once")
    assert execute(study, tmp_path)[0].statuses == {"done": 1, "failed": 1}
    before = len(calls())
    assert execute(study, tmp_path)[0].statuses == {"done": 1, "failed": 1}
    assert len(calls()) == before
    records = results_of(study, tmp_path).records
    key = records.loc[records["status"] == "failed", "key"].item()
    assert execute(study, tmp_path, keys=[key])[0].statuses == {"done": 2}
    assert execute(study, tmp_path, keys=[key])[0].statuses == {"done": 2}


def test_fail_fast_stops_at_the_first_failure(tmp_path):
    study = toy_study(samplers={"walk": vary(ToySampler, fault=knob("raises", "nan"))}, replicates=3)
    outcome, said = execute(study, tmp_path, fail_fast=True)
    assert outcome.statuses["missing"] == 5
    assert "stopped at the first failure" in said


def test_an_interrupt_keeps_what_is_done_and_no_part_of_a_chain(tmp_path):
    study = toy_study(samplers={"walk": vary(ToySampler, fault=knob("", "interrupt"))}, replicates=3)
    outcome, said = execute(study, tmp_path)
    assert outcome.exit_code == 130
    assert outcome.statuses["missing"] >= 3
    assert set(outcome.statuses) <= {"done", "missing"}
    assert "interrupted; finished cells are kept" in said


def test_options_that_name_nothing_are_refused(tmp_path):
    with pytest.raises(StudyError, match="did you mean 'serial'"):
        execute(toy_study(), tmp_path, engine="seriall")
    with pytest.raises(StudyError, match="`jobs` is for engine 'processes', not for 'serial'"):
        execute(toy_study(), tmp_path, engine="serial", jobs=2)
    with pytest.raises(StudyError, match="`scheduler` is for engine 'dask', not for 'processes'"):
        execute(toy_study(), tmp_path, engine="processes", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(StudyError, match="needs `scheduler`"):
        execute(toy_study(), tmp_path, engine="dask")
    with pytest.raises(StudyError, match="at least 1; found 0"):
        execute(toy_study(), tmp_path, jobs=0)
    with pytest.raises(StudyError, match="no cells"):
        execute(toy_study(), tmp_path, keys=["0123"])


# --- code that changed ---


@pytest.mark.thorough
def test_a_change_of_code_makes_cells_stale_and_a_run_computes_them_again(tmp_path, calls, monkeypatch):
    study = toy_study()
    execute(study, tmp_path)
    old = results_of(study, tmp_path).code_version
    monkeypatch.setattr("approxmcmc.study.plan.code_version", lambda: "new")

    results = results_of(study, tmp_path)  # all of one version: they can be shown
    assert results.stale
    assert results.code_version == old
    assert results.records["status"].eq("done").all()

    outcome, _ = execute(study, tmp_path, only="replicate=0")
    assert outcome.statuses == {"done": 3, "stale": 3}
    with pytest.raises(StudyError, match="results of two versions do not mix"):
        results_of(study, tmp_path)
    shown = StudyResults.open(study, "paper", tmp_path, allow_stale=True).records
    assert shown["status"].tolist() == ["done"] * 3 + ["missing"] * 3

    outcome, _ = execute(study, tmp_path)
    assert outcome.statuses == {"done": 6}
    assert len(calls()) == 12
    assert not results_of(study, tmp_path).stale


def test_verify_draws_the_same_again_and_sees_a_change(tmp_path):
    study = toy_study()
    execute(study, tmp_path)
    results = results_of(study, tmp_path)
    assert verify(results, 100, sample=toy_sample)["equal"].tolist() == [True] * 6
    assert len(verify(results, 2, sample=toy_sample, random_seed=1)) == 2

    def other(target, sampler, *, random_seed, **rest):
        return toy_sample(target, sampler, random_seed=random_seed + 1, **rest)

    assert not verify(results, 100, sample=other)["equal"].any()


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (toy_sample, "are the same, bit for bit"),
        (lambda *args, random_seed, **rest: toy_sample(*args, random_seed=random_seed + 1, **rest), "are not the same"),
        (lambda *args, **rest: toy_sample(args[0], ToySampler(fault="raises"), **rest), "could not be repeated"),
    ],
)
def test_a_resumed_run_repeats_draws_of_another_environment(tmp_path, monkeypatch, sample, words):
    _, said = execute(toy_study(replicates=1), tmp_path)
    assert "environment changed" not in said
    _, said = execute(toy_study(replicates=2), tmp_path)
    assert "environment changed" not in said
    facts = collect()
    facts["libraries"] = {**facts["libraries"], "numpy": "1.0"}
    monkeypatch.setattr(environment, "collect", lambda: facts)
    _, said = execute(toy_study(replicates=3), tmp_path, sample=sample)
    assert f"environment changed: numpy {np.__version__} -> 1.0. Of 6 finished cells, the first 20 draws of " in said
    assert words in said


def test_a_damaged_cell_does_not_stop_the_run_that_would_make_it_again(tmp_path, monkeypatch):
    study = toy_study(replicates=1)
    execute(study, tmp_path)
    facts = collect()
    facts["libraries"] = {**facts["libraries"], "numpy": "1.0"}
    monkeypatch.setattr(environment, "collect", lambda: facts)
    damaged = sorted(tmp_path.rglob("draws.nc"))
    for path in damaged:
        path.write_bytes(b"no netCDF")
    _, said = execute(toy_study(replicates=2), tmp_path)
    assert "cannot be read" in said
    assert results_of(toy_study(replicates=2), tmp_path).records.status.tolist() == ["done"] * 2 * len(damaged)


def test_a_cell_counts_processor_seconds(tmp_path):
    spent = []

    def waiting(*args, **kwargs):
        began = limit_clock()
        time.sleep(0.2)
        spent.append(limit_clock() - began)
        return toy_sample(*args, **kwargs)

    execute(toy_study(replicates=1), tmp_path, sample=waiting)
    assert max(spent) < 0.1


@pytest.mark.thorough
def test_chains_have_the_budget_of_their_target(tmp_path):
    study = toy_study(targets={"plain": ToyTarget, "slow": lambda: ToyTarget(3)}, budgets={"slow": Budget(draws=50)})
    execute(study, tmp_path)
    records = results_of(study, tmp_path).records
    assert records.groupby("target").draws.unique().map(list).to_dict() == {"plain": [20], "slow": [50]}


def test_verify_repeats_the_draws_of_a_budget_of_seconds(tmp_path):
    asked = []

    def timed(target, sampler, *, draws, time_limit, **rest):
        asked.append((draws, time_limit))
        return toy_sample(target, sampler, draws=7 if time_limit else draws, time_limit=None, **rest)

    study = toy_study(budget=Budget(seconds=3.0))
    execute(study, tmp_path, sample=timed)
    assert set(asked) == {(1_000_000, 3.0)}
    assert verify(results_of(study, tmp_path), 1, sample=timed)["equal"].all()
    assert asked[-1] == (7, None)


@pytest.mark.thorough
def test_compare_pairs_the_cells_of_two_stores(tmp_path):
    def slower(*args, **kwargs):
        trace = toy_sample(*args, **kwargs)
        trace["sample_stats"].attrs["sampling_time"] *= 2.0
        return trace

    study = toy_study(replicates=3)
    execute(study, tmp_path / "a")
    execute(study, tmp_path / "b", sample=slower)
    table = compare_stores(tmp_path / "a" / "toy-paper", tmp_path / "b" / "toy-paper")
    assert table["cells"].tolist() == [3, 3, 3]
    assert table["equal_draws"].tolist() == [3, 3, 3]
    np.testing.assert_allclose(table["seconds_ratio"], 2.0)
    np.testing.assert_allclose(table["data_ratio"], 1.0)
    with pytest.raises(StudyError, match=r"no plan\.json"):
        compare_stores(tmp_path, tmp_path / "b" / "toy-paper")


@pytest.mark.thorough
def test_compare_takes_the_cells_of_one_version_of_the_code(tmp_path, monkeypatch):
    study = toy_study(replicates=1)
    execute(study, tmp_path / "one")
    for version in ("old", "new"):
        monkeypatch.setattr("approxmcmc.study.plan.code_version", lambda version=version: version)
        execute(study, tmp_path / "two")
    folders = tmp_path / "one" / "toy-paper", tmp_path / "two" / "toy-paper"
    with pytest.raises(StudyError, match="different versions of the code"):
        compare_stores(*folders)
    for wanted in ("old", "new"):
        monkeypatch.setattr("approxmcmc.study.verify.code_version", lambda wanted=wanted: wanted)
        assert len(compare_stores(*folders)) == 3


def test_compare_has_no_ratio_where_nothing_was_read(tmp_path):
    def reads_nothing(*args, **kwargs):
        trace = toy_sample(*args, **kwargs)
        trace["sample_stats"]["datapoints_touched"] *= 0
        trace["sample_stats"].attrs["tuning_datapoints_touched"] = [0]
        return trace

    execute(toy_study(), tmp_path, sample=reads_nothing)
    assert compare_stores(tmp_path / "toy-paper", tmp_path / "toy-paper")["data_ratio"].isna().all()


def test_geometric_mean_has_the_t_interval():
    # Logs -1, 0, 1: mean 0, sd 1, half width t_2(0.975) / sqrt(3) = 4.302653 / 1.732051.
    value, lower, upper = geometric_mean([np.exp(-1), 1.0, np.exp(1)])
    half = 4.302652729911275 / np.sqrt(3)
    np.testing.assert_allclose([value, lower, upper], np.exp([0, -half, half]), rtol=1e-9)


# --- clocks ---


def test_the_two_clocks_tell_waiting_from_work():
    with stopwatch() as waiting:
        time.sleep(0.1)
    assert waiting.wall_seconds > 0.09
    assert waiting.cpu_seconds < 0.05


def test_a_probe_is_a_twentieth_of_a_second_of_work():
    before = time.thread_time()  # of the processor: on the clock it takes longer beside other programs
    speed_probe()
    assert 0.005 < time.thread_time() - before < 2


def test_a_probe_ignores_an_interruption(monkeypatch):
    seconds = [0.010, 0.012, 9.0, 0.011, 0.009]  # of its five parts
    clock = itertools.accumulate(itertools.chain.from_iterable((100.0, part) for part in seconds))
    monkeypatch.setattr(machine, "time", types.SimpleNamespace(perf_counter=clock.__next__))
    assert speed_probe() == pytest.approx(5 * 0.011)


def test_a_drift_is_noise():
    assert not is_noisy(1.0, 1.09)
    assert is_noisy(1.0, 1.11)
    assert is_noisy(1.11, 1.0)


def test_a_cell_is_probed_before_and_after(tmp_path):
    probes = iter([0.05, 0.05, 0.05, 0.06, 0.05, 0.05])
    study = toy_study(replicates=1)
    execute(study, tmp_path, probe=lambda: next(probes))
    assert results_of(study, tmp_path).records["noisy"].tolist() == [False, True, False]


def test_one_plain_line_per_event(tmp_path):
    _, said = execute(faulty("raises"), tmp_path)
    assert "\x1b" not in said
    assert "\r" not in said
    assert said.splitlines()[-1].startswith("[2/2] 00:0")


# --- gold standards ---


def gold_study(**changes) -> Study:
    return toy_study(gold=Gold(chains=2, draws=50), replicates=1, **changes)


@pytest.fixture
def nuts(monkeypatch):
    """Replace the gold standard's sampler; return the list of calls and a switch for its gates."""
    made: dict = {"calls": [], "passes": True}

    def reference(target, *, enforce=True, **settings):
        made["calls"].append(settings)
        if enforce and not made["passes"]:
            raise GoldStandardError("r_hat = 2 at beta[0], needs <= 1.01")
        tree = fake_trace(np.random.default_rng(0).normal(size=(2, 50, target.size)))
        gate = '[{"gate": "r_hat", "value": 2.0, "where": "beta[0]", "limit": "<= 1.01", "passed": %s}]'
        passed = made["passes"]
        tree["posterior"].attrs |= {"gates": gate % str(passed).lower(), "gates_passed": int(passed), "command": "pymc"}
        tree["posterior"].attrs["seconds_to_make"] = 1000.0  # of an earlier run, whose draws come from the cache
        return tree

    monkeypatch.setattr("approxmcmc.reference.reference_posterior", reference)
    return made


def test_a_gold_standard_is_made_once_and_comes_back(tmp_path, nuts):
    study = gold_study(estimands={"mean": lambda posterior: posterior["beta"]})
    outcome, said = execute(study, tmp_path)
    assert outcome.exit_code == 0
    assert "gold plain: accepted in 1000.0 s" in said
    execute(study, tmp_path)
    assert len(nuts["calls"]) == 1
    assert nuts["calls"][0]["draws"] == 50
    assert nuts["calls"][0]["estimands"] == study.estimands
    results = results_of(study, tmp_path)
    assert results.reference("plain")["posterior"].sizes["chain"] == 2
    assert results.gold_report("plain")["command"] == "pymc"
    assert not list((tmp_path / "toy-paper" / "cells").rglob("plain*"))


@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["cut", "gone", "other"])
def test_a_gold_standard_that_is_damaged_is_not_used_and_the_next_run_makes_another(tmp_path, nuts, rng, damage):
    study = gold_study()
    execute(study, tmp_path)
    path = tmp_path / "toy-paper" / "gold" / "plain.nc"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    elif damage == "gone":
        path.unlink()
    else:
        save(fake_trace(rng.normal(size=(2, 50, 2))), path)
    with pytest.raises(StudyError, match=r"plain\.nc is damaged"):
        results_of(study, tmp_path).reference("plain")
    with pytest.warns(CacheWarning, match="damaged"):
        execute(study, tmp_path)
    assert len(nuts["calls"]) == 2
    assert results_of(study, tmp_path).reference("plain") is not None


def test_a_gate_that_fails_ends_with_code_3_and_gives_no_reference(tmp_path, nuts):
    nuts["passes"] = False
    outcome, said = execute(gold_study(), tmp_path)
    assert outcome.exit_code == 3
    assert outcome.statuses == {"done": 3}
    assert "gold plain: refused" in said
    assert "r_hat 2 at beta[0], needs <= 1.01" in said
    results = results_of(gold_study(), tmp_path)
    assert results.reference("plain") is None
    assert results.gold_report("plain")["gates"][0]["gate"] == "r_hat"


def test_smoke_reports_its_gates_and_does_not_enforce_them(tmp_path, nuts):
    nuts["passes"] = False
    outcome, said = execute(gold_study(), tmp_path, preset="smoke")
    assert outcome.exit_code == 0
    assert "needs <= 1.01" in said
    assert results_of(gold_study(), tmp_path, "smoke").reference("plain") is not None


def test_fail_fast_stops_before_the_cells_when_a_gate_fails(tmp_path, nuts):
    nuts["passes"] = False
    outcome, _ = execute(gold_study(), tmp_path, fail_fast=True)
    assert outcome.statuses == {"missing": 3}


def test_another_gold_standard_is_made_anew_and_the_old_one_not_shown(tmp_path, nuts):
    execute(gold_study(), tmp_path)
    other = dataclasses.replace(gold_study(), gold=Gold(chains=2, draws=60))
    assert results_of(other, tmp_path).reference("plain") is None
    execute(other, tmp_path)
    assert [call["draws"] for call in nuts["calls"]] == [50, 60]


def test_a_target_without_a_twin_has_a_failed_gold_standard(tmp_path):
    outcome, said = execute(gold_study(), tmp_path)
    assert outcome.exit_code == 3
    assert "gold plain: failed" in said
    assert outcome.statuses == {"done": 3}


# --- kill -9 ---

SCRIPT = """
import sys
from approxmcmc.study.progress import Listener
from approxmcmc.study.run import run_study
from tests.studies.toys import quiet_probe, toy_sample, toy_study

study = toy_study(replicates=8)
run_study(study, "paper", sys.argv[1], sample=toy_sample, probe=quiet_probe, listener=Listener())
"""


@pytest.mark.faults
@pytest.mark.slow
def test_kill_twice_and_run_again_gives_the_undisturbed_table(tmp_path, calls, monkeypatch):
    study = toy_study(replicates=8)
    execute(study, tmp_path / "undisturbed")
    undisturbed = len(calls())
    monkeypatch.setenv("TOY_SECONDS", "0.03")  # of the order of a write, so that kills meet both
    store = Store.of(tmp_path / "killed", "toy", "paper")
    survivors: dict[str, float] = {}
    for wanted in (5, 13):
        with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "killed")]) as process:
            wait_for(lambda wanted=wanted: len(finished(store)) >= wanted, process)
            process.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        assert process.returncode != 0
        assert 0 < len(finished(store)) < 24
        for path in finished(store):
            survivors.setdefault(str(path), path.stat().st_mtime_ns)
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "killed")], check=True)

    assert all(Path(path).stat().st_mtime_ns == time for path, time in survivors.items())  # no record was written twice
    assert undisturbed == 24
    assert 24 <= len(calls()) - undisturbed <= 26  # each kill loses at most the cell in flight
    tables = [results_of(study, tmp_path / name).records[REPRODUCIBLE] for name in ("undisturbed", "killed")]
    assert tables[0].equals(tables[1])
    assert tables[0]["status"].eq("done").all()
    assert not [path for path in store.folder.rglob("*") if path.suffix == ".tmp"]


def finished(store: Store) -> list[Path]:
    return list((store.folder / "cells").glob("??/*/record.json"))


def wait_for(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300  # seconds, against a hang: at a load of 18 the imports alone took more than 60
    while not condition():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.005)


# --- workers ---


def job_of(study: Study, folder: Path | None) -> Job:
    source = cloudpickle.dumps(study)
    return Job(source, "paper", None if folder is None else str(folder), toy_sample, quiet_probe, "toy", "run1")


def test_a_worker_that_is_asked_twice_computes_once(tmp_path, calls):
    job, key = job_of(toy_study(), tmp_path), make_plan(toy_study(), "paper").cells[0].key
    first, second = job.perform(key), job.perform(key)
    assert first.stored
    assert len(calls()) == 1
    assert second.record["draws_hash"] == first.record["draws_hash"]
    assert dataclasses.replace(job, run_id="run2").perform(key).record["run"] == "run2"
    assert len(calls()) == 2


def test_a_worker_without_the_store_sends_everything_back(tmp_path):
    study = toy_study()
    plan = make_plan(study, "paper")
    finished = job_of(study, None).perform(plan.cells[0].key)
    assert not finished.stored
    assert finished.provenance["code_version"] == plan.code_version
    store = Store.of(tmp_path, "toy", "paper")
    store.write_cell(finished.record, finished.draws)
    assert hash_of_draws(store.trace(plan.cells[0].key)) == finished.record["draws_hash"]


def test_a_worker_with_another_study_refuses(tmp_path):
    with pytest.raises(StudyError, match="study file, data or version of the code"):
        job_of(toy_study(seed=2), tmp_path).perform(make_plan(toy_study(), "paper").cells[0].key)


@pytest.mark.faults
@pytest.mark.slow
def test_processes_blame_a_dead_worker_on_one_cell_and_gives_the_same_draws(tmp_path):
    study = toy_study(samplers={"walk": vary(ToySampler, fault=knob("", "raises", "a", "b"))}, replicates=1)
    execute(study, tmp_path / "serial")
    deadly = toy_study(samplers={"walk": vary(ToySampler, fault=knob("", "dies", "raises", "a", "b"))}, replicates=1)
    outcome, said = execute(deadly, tmp_path / "processes", jobs=2)
    assert outcome.statuses == {"done": 3, "failed": 1, "crashed": 1}
    assert outcome.exit_code == 1
    assert said.count("CRASHED  plain walk[fault='dies']") == 1
    tables = [results_of(s, tmp_path / n).records for s, n in ((study, "serial"), (deadly, "processes"))]
    hashes = [table.set_index("key")["draws_hash"].dropna().to_dict() for table in tables]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 3
    crashed = tables[1][tables[1]["status"] == "crashed"].iloc[0]
    assert crashed["error"] == "2 processes died while they ran this cell."
    assert crashed["command"].endswith(crashed["key"])


def test_workers_of_dask_with_several_threads_are_refused():
    engines._check_threads({"tcp://a": 1, "tcp://b": 1})
    with pytest.raises(StudyError, match=r"tcp://b has 4 threads.*--nworkers 4 --nthreads 1"):
        engines._check_threads({"tcp://a": 1, "tcp://b": 4})


def test_a_process_that_dies_before_it_reads_a_large_study_ends_the_run(monkeypatch):
    """More bytes than a pipe holds, to a process that reads none of them: nothing may wait for it."""

    def give_up(*_):
        raise TimeoutError("the run waits for a dead process")

    multiprocessing.resource_tracker.ensure_running()  # it starts by the same command
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode(shutil.which("false")))
    job = types.SimpleNamespace(study=bytes(1 << 22))
    cell = types.SimpleNamespace(key="a")
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    try:
        with pytest.raises(StudyError, match="ended with exit code 1 before its first cell"):
            next(run_in_processes(job, None, [cell], jobs=1))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_cell_keeps_what_its_chain_was_told():
    """Its ESS is left to the report, which judges the replicates together."""

    def sample(*args, **settings):
        trace = toy_sample(*args, **settings)
        found = [Finding(name, "warning", f"{name} is bad") for name in ("movement", "bulk ESS", "tail ESS")]
        trace["posterior"].attrs |= attributes(found)
        warnings.warn(report(found), SamplingWarning, stacklevel=1)
        warnings.warn("of something else", UserWarning, stacklevel=1)
        return trace

    plan = make_plan(toy_study(), "paper")
    record, _ = run_cell(plan, plan.cells[0], sample=sample, probe=quiet_probe)
    assert record["warnings"] == ["movement is bad", "of something else"]


# --- after a change of the code ---


def test_the_version_with_most_cells_counts_cells_that_another_version_made_as_well():
    """Version a finished all four cells, b three of them, c another plan's; the last of a cell in the store counts."""
    made = [("a", k) for k in range(4)] + [("b", k) for k in range(3)] + [("c", k) for k in range(4, 12)]
    records = {
        str(place): {"code_version": version, "identity": f"cell {k}", "status": "done"}
        for place, (version, k) in enumerate(reversed(made))
    }
    plan = types.SimpleNamespace(cells=[types.SimpleNamespace(identity=f"cell {k}") for k in range(4)])
    assert _version_with_most_cells(plan, types.SimpleNamespace(records=lambda: records)) == "a"


@pytest.mark.thorough
def test_cells_whose_draws_did_not_change_are_kept_and_the_others_stay_stale(tmp_path, monkeypatch):
    study = toy_study(budget=Budget(draws=20))
    execute(study, tmp_path)
    monkeypatch.setattr("approxmcmc.study.plan.code_version", lambda: "later")
    assert execute(study, tmp_path / "none")[0].statuses == {"done": 6}  # the new version makes its own cells

    def changed(target, sampler, **rest):
        trace = toy_sample(target, sampler, **rest)
        if sampler.epsilon == 0.2:
            trace["posterior"]["beta"][0, 3] += 1e-12  # planted: another last bit of one draw
        return trace

    told = []
    table = revalidate(study, "paper", tmp_path, sample=changed, draws=5, listener=told.append)
    assert table.groupby("label").equal.all().to_dict() == {
        "walk[epsilon=0.0]": True, "walk[epsilon=0.05]": True, "walk[epsilon=0.2]": False,
    }  # fmt: skip
    assert len(told) == 6 and set(table.draws) == {5}
    kept = StudyResults.open(study, "paper", tmp_path, allow_stale=True).records
    assert kept[kept.label != "walk[epsilon=0.2]"].drawn_by.notna().all() and (kept.status == "done").sum() == 4
    outcome, _ = execute(study, tmp_path)
    assert outcome.statuses == {"done": 6} and results_of(study, tmp_path).records.drawn_by.notna().sum() == 4
    assert revalidate(study, "paper", tmp_path, sample=toy_sample).empty


def test_a_gold_standard_that_takes_long_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr("approxmcmc.sampling.progress.SECONDS_BETWEEN_LINES", 0.0)
    written = io.StringIO()
    with (
        watching(True, display=Lines(written).display("gold toy")),
        progress(10, show=False, label="2 chains", time_limit=None) as steps,
    ):
        steps.update(4)
    assert "gold toy: 2 chains: 4 of 10 steps" in written.getvalue()
    assert Listener().display("gold toy") is None
