"""Foreign samplers as cells of a study: budgets, starts, failures, kills, and what their traces must hold."""

import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.contracts import Sampler, WholeSampler
from approxmcmc.engine.streams import chain_seeds
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.study import Budget, knob, vary
from approxmcmc.study.cell import doubtful_clock
from approxmcmc.study.plan import make_plan
from approxmcmc.study.progress import Lines
from approxmcmc.study.report.clocks import draws_timed
from approxmcmc.study.report.evidence import contest_of, exact_setting
from approxmcmc.study.report.figures import risk_against_data, risk_with_setup
from approxmcmc.study.report.page_warnings import cautions
from approxmcmc.study.results import StudyResults
from approxmcmc.study.run import run_study
from approxmcmc.study.store import Store
from approxmcmc.study.verify import verify
from approxmcmc.whole_chains import ChainSampler, chain_trace
from tests.fakes import fake_trace
from tests.studies.toys import ToySampler, ToyTarget, log_call, quiet_probe, toy_sample, toy_study


@dataclasses.dataclass(frozen=True, eq=False)
class ForeignWalk(ChainSampler):
    """A random walk in NumPy; `fault` says what goes wrong."""

    scale: float = 1.0
    fault: str = ""

    def draw_chain(self, target, *, seconds, draws, seed, initial):
        log_call(seed)
        if self.fault == "interrupted":
            raise SystemError("a compiled function was interrupted") from KeyboardInterrupt()
        if self.fault == "raises":
            raise RuntimeError("the foreign library broke")
        if "TOY_SECONDS" in os.environ:
            time.sleep(float(os.environ["TOY_SECONDS"]))
        steps = np.random.default_rng(seed).normal(scale=self.scale, size=(draws, initial.size))
        trace = chain_trace(
            self,
            target,
            initial + steps.cumsum(axis=0),
            seconds=np.full(draws, 1e-3),
            warmup_seconds=0.25,
            compile_seconds=2.0,
            gradients=np.full(draws, 3.0),
            warmup_gradients=30.0,
            warmup_steps=10,
        )
        if self.fault == "no clock":
            trace["sample_stats"] = trace["sample_stats"].to_dataset().drop_vars("perf_counter_diff")
        return {"nothing": None, "posterior alone": trace.filter(lambda n: n.name == "posterior")}.get(
            self.fault, trace
        )


def study_with(**changes):
    samplers = {"ours": ToySampler(), "theirs": vary(ForeignWalk, scale=knob(0.5, 1.0))}
    return toy_study(**{"samplers": samplers, **changes})


def execute(study, base, **options):
    return run_study(
        study, "paper", base, sample=toy_sample, probe=quiet_probe, listener=Lines(io.StringIO()), **options
    )


def test_foreign_cells_run_beside_our_own_from_the_same_starts(tmp_path):
    study = study_with()
    assert execute(study, tmp_path).statuses == {"done": 6}
    results = StudyResults.open(study, "paper", tmp_path)
    theirs = results.records[results.records.sampler_name == "theirs"].iloc[0]
    assert (theirs["draws"], theirs["steps"], theirs["compile_seconds"]) == (20, 30, 2.0)
    assert theirs["sampling_seconds"] == pytest.approx(0.25 + 20e-3)
    assert theirs["datapoints_touched"] == (20 * 3 + 30) * 100  # tuning included
    plan = make_plan(study, "paper")
    starts = {cell.replicate: set() for cell in plan.cells}
    for cell in plan.cells:
        starts[cell.replicate].add(tuple(cell.starting_point(study, ToyTarget())))
    assert all(len(points) == 1 for points in starts.values())


def test_foreign_draws_are_verified_bit_by_bit(tmp_path):
    study = study_with()
    execute(study, tmp_path)
    assert verify(StudyResults.open(study, "paper", tmp_path), 6, sample=toy_sample)["equal"].all()


def test_a_foreign_sampler_that_raises_is_a_failed_cell_with_its_reason(tmp_path):
    study = study_with(samplers={"theirs": vary(ForeignWalk, fault=knob("", "raises"))})
    outcome = execute(study, tmp_path)
    assert outcome.statuses == {"done": 2, "failed": 2}
    assert outcome.exit_code == 1
    failed = StudyResults.open(study, "paper", tmp_path).records.query("status == 'failed'")
    assert all("the foreign library broke" in error for error in failed["error"])


def test_ctrl_c_that_a_library_turned_into_an_error_is_no_failed_cell(tmp_path):
    outcome = execute(study_with(samplers={"theirs": ForeignWalk(fault="interrupted")}), tmp_path)
    assert outcome.interrupted and outcome.exit_code == 130
    assert outcome.statuses == {"missing": 2}


@pytest.mark.parametrize(
    ("fault", "told"),
    [("nothing", "a NoneType"), ("posterior alone", r"no group \['sample_stats'\]"), ("no clock", "perf_counter_diff")],
)
def test_a_trace_that_cannot_be_compared_is_a_failed_cell_that_says_what_is_missing(tmp_path, fault, told):
    study = study_with(samplers={"theirs": ForeignWalk(fault=fault)}, replicates=1)
    execute(study, tmp_path)
    [record] = StudyResults.open(study, "paper", tmp_path).records.to_dict("records")
    assert record["status"] == "failed"
    assert re.search(f"chain_trace.*{told}", record["error"])


def test_a_budget_of_seconds_reaches_the_foreign_sampler(tmp_path):
    asked = {}

    @dataclasses.dataclass(frozen=True, eq=False)
    class Listening(ForeignWalk):
        def draw_chain(self, target, *, seconds, draws, seed, initial):
            asked.update(seconds=seconds, draws=draws)
            return super().draw_chain(target, seconds=seconds, draws=5, seed=seed, initial=initial)

    study = study_with(samplers={"theirs": Listening()}, budget=Budget(seconds=7.0), replicates=1)
    execute(study, tmp_path)
    assert asked == {"seconds": 7.0, "draws": 1_000_000}


class ExactWalk(ForeignWalk):
    def why_not_invariant(self, target):
        return ""


def test_a_sampler_that_says_that_it_is_exact_is_the_baseline():
    traces = {
        name: [chain_trace(sampler, ToyTarget(), np.arange(10.0).reshape(5, 2), seconds=1.0)]
        for name, sampler in {"theirs": ForeignWalk(), "exact": ExactWalk()}.items()
    }
    assert exact_setting(traces) == "exact"
    del traces["exact"]
    assert exact_setting(traces) is None


def test_records_that_do_not_fit_the_draws_are_refused():
    with pytest.raises(InvalidInputError, match="20 draws need records of shape"):
        chain_trace(ForeignWalk(), ToyTarget(), np.zeros((20, 2)), seconds=np.ones(19))
    with pytest.raises(InvalidInputError, match="needs draws of the variables"):
        chain_trace(ForeignWalk(), ToyTarget(), {"gamma": np.zeros((20, 2))}, seconds=np.ones(0))


def test_sample_runs_one_chain_after_the_other():
    X, y = amc.datasets.synthetic_logistic(100, 2)
    target = amc.targets.LogisticRegression(X, y)
    how = {"draws": 30, "random_seed": 3, "progressbar": False}
    assert isinstance(ForeignWalk(), WholeSampler) and not isinstance(ForeignWalk(), Sampler)
    trace = amc.sample(target, ForeignWalk(), chains=3, initvals=np.ones(2), **how)
    alone = ForeignWalk().draw_chain(target, seconds=None, draws=30, seed=chain_seeds(3, 3)[2], initial=np.ones(2))
    assert np.array_equal(trace["posterior"]["beta"][2], alone["posterior"]["beta"][0])
    stats = trace["sample_stats"]
    assert stats["gradient_evaluations"].shape == (3, 30) and stats.attrs["tuning_gradient_evaluations"] == [3000] * 3
    assert stats.attrs["sampling_time"] == pytest.approx(3 * (0.25 + 30e-3))
    assert json.loads(stats.attrs["inference_library_settings"])["scale"] == 1.0
    with pytest.raises(InvalidInputError, match="has no setting thin"):
        amc.sample(target, ForeignWalk(), thin=2, **how)
    with pytest.raises(IncompatibleError, match="give draws= in place of target_ess="):
        amc.sample(target, ForeignWalk(), target_ess=100, random_seed=3, progressbar=False)


def test_one_total_is_spread_by_gradients_or_evenly_and_says_so():
    gradients = np.array([1.0, 3.0])
    trace = chain_trace(ForeignWalk(), ToyTarget(), np.zeros((2, 2)), seconds=8.0, gradients=gradients)
    assert trace["sample_stats"]["perf_counter_diff"].values.tolist() == [[2.0, 6.0]]
    assert trace["sample_stats"].attrs["clock"] == "the total, spread over draws by their gradients"
    trace = chain_trace(ForeignWalk(), ToyTarget(), np.zeros((2, 2)), seconds=8.0)
    assert trace["sample_stats"]["perf_counter_diff"].values.tolist() == [[4.0, 4.0]]
    assert "evenly" in trace["sample_stats"].attrs["clock"]


def test_the_report_says_what_is_in_each_clock_and_draws_who_counts_data():
    """Of a chain that counts its data, one that does not, and a law that was fitted."""
    target, rng = ToyTarget(), np.random.default_rng(0)
    chain, fitted = {"seconds": np.full(50, 0.1), "warmup_seconds": 1.0}, {"seconds": 0.0, "warmup_seconds": 0.5}
    kinds = {
        "counts": chain | {"gradients": np.ones(50), "compile_seconds": 3.0},
        "silent": chain | {"compile_seconds": 7.0},
        "fit": fitted | {"approximation": True},
    }
    traces = {
        label: [chain_trace(ForeignWalk(), target, rng.normal(size=(50, 2)), **kind) for _ in range(3)]
        for label, kind in kinds.items()
    }
    rows = [
        {"target": "t", "label": label, "status": "done", "replicate": k, "sampler": ForeignWalk().to_dict()}
        | {"wall_seconds": 20.0, "cpu_seconds": 20.0}  # compilation is a part of the cell
        for label in traces
        for k in range(3)
    ]
    results = SimpleNamespace(
        reference=lambda name: fake_trace(rng.normal(size=(4, 500, 2))),
        traces=lambda: traces,
        records=pd.DataFrame(rows),
        study=SimpleNamespace(estimands=None, average_over=(), baseline=None, targets={"t": None}),
    )
    contest = contest_of(results, "t", traces)
    assert contest.budgets[-1] == pytest.approx(6.0)  # the fit, done after half a second, cuts nothing short
    assert set(contest.over_data["setting"]) == {"counts"}
    level = contest.over_time.query("setting == 'fit' and time > 0.5").groupby("estimand")["risk"]
    assert (level.max() == level.min()).all()
    assert contest.over_time.query("setting == 'fit' and time < 0.5")["risk"].isna().all()
    moved = risk_with_setup(contest)
    first = moved.data.groupby("setting")["time"].min() - contest.over_time.groupby("setting")["time"].min()
    assert first.to_dict() == pytest.approx({"counts": 3.0, "silent": 7.0, "fit": 0.0})
    assert "counts 3 s" in moved.caption and "Not moved, because its compilation is not known: fit." in moved.caption
    assert risk_against_data(contest).data["setting"].unique().tolist() == ["counts"]
    assert [draws_timed(runs) for runs in traces.values()] == [
        "each draw timed",
        "each draw timed",
        "the fit is timed; its draws cost nothing",
    ]
    plt.close("all")


SCRIPT = """
import sys
from pathlib import Path
from tests.studies.test_foreign_cells import execute, study_with
execute(study_with(replicates=8), Path(sys.argv[1]))
"""


@pytest.mark.faults
def test_a_killed_run_loses_no_finished_foreign_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "calls.log"))
    monkeypatch.setenv("TOY_SECONDS", "0.05")
    store = Store.of(tmp_path, "toy", "paper")
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)]) as process:
        while process.poll() is None and len(store.records()) < 6:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    survivors = set(store.records())
    assert 6 <= len(survivors) < 24
    monkeypatch.delenv("TOY_SECONDS")
    assert execute(study_with(replicates=8), tmp_path).statuses == {"done": 24}
    assert survivors <= set(store.records())
    calls = (tmp_path / "calls.log").read_text().split()
    assert 24 <= len(calls) <= 25  # a kill costs at most the cell in flight


@pytest.mark.parametrize(
    ("claimed", "compiled", "wall", "cpu", "doubtful"),
    [
        (0.0007, np.nan, 0.07, 0.07, True),  # a JAX sampler that did not wait for its result
        (0.0007, 0.065, 0.07, 0.07, False),  # the rest was compilation, as stated
        (0.05, np.nan, 0.07, 0.07, False),
        (0.05, np.nan, 0.5, 0.07, False),  # another program had the processor
        (0.001, np.nan, 0.015, 0.015, False),  # too short to tell
        (2.0, np.nan, 0.5, 0.5, True),  # more than passed
        (0.1, 5.0, 0.12, 0.12, False),  # compiled in an earlier cell, and stated again
    ],
)
def test_the_seconds_that_a_sampler_reports_are_compared_with_those_of_its_cell(claimed, compiled, wall, cpu, doubtful):
    trace = chain_trace(ForeignWalk(), ToyTarget(), np.ones((10, 2)), seconds=claimed, compile_seconds=compiled)
    sentences = doubtful_clock(trace, wall, cpu)
    assert bool(sentences) == doubtful
    assert all(f"{claimed:.2g} s of sampling" in sentence for sentence in sentences)


def test_a_doubtful_clock_is_a_warning_of_the_cell_and_a_note_of_the_page(tmp_path):
    """The walk reports 0.27 s for what takes a millisecond."""
    study = toy_study(samplers={"theirs": ForeignWalk()}, replicates=1)
    how = {"sample": toy_sample, "probe": quiet_probe, "listener": Lines(io.StringIO())}
    run_study(study, "paper", tmp_path, **how)
    results = StudyResults.open(study, "paper", tmp_path)
    assert any(text.startswith("The sampler reports 0.27 s") for text in results.records["warnings"][0])
    [note] = [text for text in cautions(results, [], []) if "doubtful" in text]
    assert "theirs in 1 cell" in note
