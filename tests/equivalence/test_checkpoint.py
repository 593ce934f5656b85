"""Runs that stop at any draw and resume from their checkpoint equal uninterrupted runs, bit by bit."""

import errno
import functools
import os
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import barker_decision
from approxmcmc.checkpoints import run_file, when as checkpoints
from approxmcmc.checkpoints.run_file import open_run_file
from approxmcmc.checkpoints.tables import read_checkpoint
from approxmcmc.checkpoints.when import Checkpoints, Snapshot
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import CheckpointWarning, InvalidInputError
from approxmcmc.sampling import driver, goals, recorder
from tests.examples import SAMPLERS, TARGETS
from tests.models import logistic
from tests.planting import plant
from tests.unit.test_every_pairing import build

plain_python = pytest.mark.recompiles  # nothing here is about the compiler
TARGET = logistic(12, 2)
SAMPLER = amc.MetropolisHastings(amc.RandomWalk(0.3, target_acceptance=0.3), amc.SequentialTTest(0.2, 4))
QUICK = {"draws": 30, "tune": 6, "chains": 2, "random_seed": 1, "progressbar": False, "audit_every": 2}
CLOCKS = ("perf_counter_diff", "thread_time_diff")


class Killed(BaseException):
    """An exception that no code catches."""


@pytest.fixture
def kill(monkeypatch):
    """Return a function that lets a run be killed after so many checkpoints: every chunk waits for one."""
    keep, seconds_between = run_file.write_checkpoint, checkpoints.SECONDS_BETWEEN
    begin_to_keep = Checkpoints.keep

    def after(n, error=Killed):
        written = []

        def write(*arguments):
            if len(written) == n:
                raise error
            written.append(arguments)
            if len(written) in (1, n):  # only the last is ever read
                keep(*arguments)

        def keep_and_wait(self, snapshot, steps):
            begin_to_keep(self, snapshot, steps)
            self.finish()

        monkeypatch.setattr(run_file, "write_checkpoint", write)
        monkeypatch.setattr(Checkpoints, "keep", keep_and_wait)
        monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
        monkeypatch.setattr(checkpoints, "SHARE", np.inf)

    def never():
        monkeypatch.setattr(run_file, "write_checkpoint", keep)
        monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", seconds_between)

    after.never = never
    return after


def assert_equal_traces(one, other):
    """Two traces hold the same, clocks apart."""
    for group in ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"):
        assert (group in one.children) == (group in other.children)
        if group in one.children:
            assert set(one[group].data_vars) == set(other[group].data_vars)
            for name in set(one[group].data_vars) - set(CLOCKS):
                np.testing.assert_array_equal(one[group][name], other[group][name], err_msg=name)
    told = [{k: v for k, v in trace["posterior"].attrs.items() if is_timeless(k)} for trace in (one, other)]
    assert {k: np.asarray(v).tolist() for k, v in told[0].items()} == {
        k: np.asarray(v).tolist() for k, v in told[1].items()
    }


def is_timeless(name):
    """Say whether an attribute must be the same: those of set-up count what was evaluated to begin again."""
    clocks = (
        "created_at",
        "sampling_time",
        "problems",
        "diagnosis",
        "tuning_perf_counter_diff",
        "tuning_thread_time_diff",
    )
    return name not in clocks and "seconds" not in name and not name.startswith(("setup", "checkpoint"))


@pytest.fixture(autouse=True)
def uncompiled(request, monkeypatch):
    """Let chains run as plain Python where the test says so."""
    if request.node.get_closest_marker("recompiles"):
        plant(monkeypatch, {})


def fitting(sampler):
    """Return the first target that a sampler fits."""
    targets = (make() for make in TARGETS.values())
    return next(target for target in targets if build(sampler, {}, target))


# What every sampler remembers is looked at, setting by setting, in test_memory.py.
BY_DEFAULT = ("MetropolisHastings", "Gibbs", "NoisyMetropolisHastings")
NAMES = [name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.faults) for name in SAMPLERS]


@plain_python
@pytest.mark.parametrize("name", NAMES)
def test_every_sampler_goes_on(name, tmp_path, kill, rng, monkeypatch):
    monkeypatch.setattr(barker_decision, "REPLICATIONS", 2)
    sampler = SAMPLERS[name][0]
    target = fitting(sampler)
    whole = amc.sample(target, sampler, **QUICK)
    kill(int(rng.integers(2, 7)))
    with pytest.raises(Killed):
        amc.sample(target, sampler, checkpoint=tmp_path / "run.nc", **QUICK)
    kill.never()
    again = amc.sample(target, sampler, checkpoint=tmp_path / "run.nc", cores=1, **QUICK)
    assert_equal_traces(whole, again)
    assert_equal_traces(whole, amc.load(tmp_path / "run.nc"))


@plain_python
@pytest.mark.parametrize(("seconds_between", "begins"), [(np.inf, 1), (0.0, 2)])
def test_beginning_and_end_are_written_once(tmp_path, monkeypatch, seconds_between, begins):
    """The beginning twice where its cost, which is that of imports, would put off the next one."""
    written, keep = [], run_file.write_checkpoint

    def write(path, about, snapshot, trace=None, columns=()):
        written.append((snapshot, trace is not None))
        keep(path, about, snapshot, trace, columns)

    monkeypatch.setattr(run_file, "write_checkpoint", write)
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", seconds_between)
    monkeypatch.setattr(Checkpoints, "due", lambda self, steps: False)
    settings = QUICK | {"discard_tuned_samples": False}
    amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **settings)
    assert [(last.goal is None, traced) for last, traced in written] == [(False, False)] * begins + [(True, True)]
    for chain, read in zip(written[-1][0].chains, read_checkpoint(tmp_path / "run.nc").snapshot.chains, strict=True):
        for name in (f"{phase}{table}" for phase in ("", "warmup_") for table in recorder.RECORDS):
            np.testing.assert_array_equal(chain[name], read[name], err_msg=name)


@plain_python
class TestWhileChainsGoOn:
    """A snapshot that is written when its chains have long moved on is that of the moment at which it was taken."""

    SETTINGS = QUICK | {"draws": 60, "discard_tuned_samples": False}
    STEPS = 2 * 66
    PATIENCE = 20.0

    @pytest.fixture
    def slow(self, monkeypatch):
        """Return a function that lets two writes wait for so many chunks more, of one step each, and these for them."""
        keep, advance, made, written, allowed = run_file.write_checkpoint, recorder.Recorder.advance, [], [], [np.inf]

        def wait_until(happened, seconds=self.PATIENCE):
            patience = time.monotonic() + seconds
            while not happened() and time.monotonic() < patience:
                time.sleep(0.001)

        def one_more(chain):
            wait_until(lambda: len(made) < allowed[0])
            advance(chain)
            made.append(1)

        def writing(more, beyond=0.0):
            def write(path, about, snapshot, trace=None, columns=()):
                if 0 < len(written) < 3 and trace is None:
                    allowed[0] = min(len(made) + more, self.STEPS)
                    wait_until(lambda: len(made) >= allowed[0])
                    wait_until(lambda: any(traced for _, _, traced in written), beyond)
                keep(path, about, snapshot, trace, columns)
                written.append((sum(sum(chain["done"]) for chain in snapshot.chains), len(made), trace is not None))
                allowed[0] = np.inf

            monkeypatch.setattr(run_file, "write_checkpoint", write)
            return written

        monkeypatch.setattr(recorder.Recorder, "advance", one_more)
        monkeypatch.setattr(recorder, "CHUNK_SECONDS", 0.0)
        monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
        monkeypatch.setattr(checkpoints, "SHARE", np.inf)
        return writing

    def kill_after_three(self, path, monkeypatch):
        """Kill a run when the third write has ended, and return the steps that its file holds."""
        settle = Checkpoints._settle

        def killed(self):
            settle(self)
            if self.written == 3:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "_settle", killed)
            with pytest.raises(Killed):
                amc.sample(TARGET, SAMPLER, checkpoint=path, **self.SETTINGS)
        return sum(sum(chain["done"]) for chain in read_checkpoint(path).snapshot.chains)

    def test_a_run_goes_on(self, tmp_path, slow, monkeypatch):
        written = slow(6)
        assert 0 < self.kill_after_three(tmp_path / "run.nc", monkeypatch) < self.STEPS
        assert [made - held >= 6 for held, made, _ in written] == [False, True, True]
        again = amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **self.SETTINGS)
        assert_equal_traces(amc.sample(TARGET, SAMPLER, **self.SETTINGS), again)

    def test_a_snapshot_that_shares_what_a_chain_remembers_is_found(self, tmp_path, slow, monkeypatch):
        slow(6)
        with monkeypatch.context() as patch:
            # Not in the module `copy` itself, which the libraries use that a run imports.
            patch.setattr(recorder, "copy", SimpleNamespace(deepcopy=lambda memory: memory))
            self.kill_after_three(tmp_path / "run.nc", patch)
        again = amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **self.SETTINGS)
        with pytest.raises(AssertionError):
            assert_equal_traces(amc.sample(TARGET, SAMPLER, **self.SETTINGS), again)

    def test_the_end_waits_for_what_is_being_written(self, tmp_path, slow):
        written = slow(self.STEPS, beyond=1.0)
        trace = amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **self.SETTINGS)
        assert written[1][0] < written[1][1] == self.STEPS
        assert [traced for _, _, traced in written] == [False] * (len(written) - 1) + [True]
        assert_equal_traces(trace, amc.load(tmp_path / "run.nc"))


@plain_python
def test_a_run_that_is_killed_again_and_again(tmp_path, kill, monkeypatch):
    """Tuning that is kept, thinning, and a run without a given seed; killed within draws too, step by step."""
    settings = QUICK | {"thin": 3, "discard_tuned_samples": False, "random_seed": None}
    path = tmp_path / "run.nc"
    monkeypatch.setattr(recorder, "CHUNK_SECONDS", 0.0)
    begun = []
    for _ in range(6):
        kill(6)
        with pytest.raises(Killed):
            amc.sample(TARGET, SAMPLER, checkpoint=path, **settings)
        begun += [chain["begun"] for chain in read_checkpoint(path).snapshot.chains]
    done = [chain["done"] for chain in read_checkpoint(path).snapshot.chains]
    assert max(map(sum, done)) > 3 and max(begun) > 0
    kill.never()
    trace = amc.sample(TARGET, SAMPLER, checkpoint=path, **settings)
    seed = int(trace["posterior"].attrs["seed"])
    assert_equal_traces(amc.sample(TARGET, SAMPLER, **settings | {"random_seed": seed}), trace)


def test_what_a_run_that_was_killed_in_its_first_checkpoint_left_is_removed(tmp_path):
    with whole_file(tmp_path / "run.nc") as mine, whole_file(tmp_path / "other.nc") as another:
        for temporary in (mine, another):
            temporary.write_bytes(b"a part")
            os.utime(temporary, (0.0, 0.0))
        open_run_file(tmp_path / "run.nc", {}, any_seed=True)
        assert list(tmp_path.iterdir()) == [another]
        mine.write_bytes(b"a part")


@plain_python
def test_a_target_ess_is_reached_as_if_nothing_had_happened(tmp_path, kill, monkeypatch):
    """Through several looks, and through draws that are dropped."""
    monkeypatch.setattr(goals, "BYTES", 1)
    monkeypatch.setattr(goals, "FEWEST_KEPT", 100)
    settings = {name: value for name, value in QUICK.items() if name != "draws"} | {"target_ess": 30.0}
    whole = amc.sample(TARGET, SAMPLER, **settings)
    assert whole["posterior"].attrs["thinned_by"] > 1
    for n in (3, 8, 5, 8):
        kill(n)
        with pytest.raises(Killed):
            amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **settings)
    kill.never()
    assert_equal_traces(whole, amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **settings))
    longer = amc.resume(tmp_path / "run.nc", TARGET, draws=10, progressbar=False)
    n = whole["posterior"].sizes["draw"]
    assert longer["posterior"].sizes["draw"] == n + 10
    np.testing.assert_array_equal(longer["posterior"]["beta"][:, :n], whole["posterior"]["beta"])


@plain_python
def test_resume_adds_draws_and_can_be_killed_too(tmp_path, kill):
    path, run = tmp_path / "run.nc", QUICK | {"checkpoint": tmp_path / "run.nc"}
    amc.sample(TARGET, SAMPLER, **run | {"draws": 12})
    kill(3)
    with pytest.raises(Killed):
        amc.resume(path, TARGET, draws=18, progressbar=False)
    with pytest.raises(InvalidInputError, match="no 5 draws can be added: 18 draws are still missing"):
        amc.resume(path, TARGET, draws=5)
    kill.never()
    whole = amc.sample(TARGET, SAMPLER, **QUICK)
    assert_equal_traces(whole, amc.resume(path, TARGET, draws=18, progressbar=False))
    assert_equal_traces(whole, amc.resume(path, TARGET))  # nothing is left to do
    assert_equal_traces(whole, amc.sample(TARGET, SAMPLER, **run))  # as if it had been asked for so many
    with pytest.raises(InvalidInputError, match="draws: 30 -> 12"):
        amc.sample(TARGET, SAMPLER, **run | {"draws": 12})


@plain_python
def test_ctrl_c_keeps_what_is_done_and_the_same_call_goes_on(tmp_path, monkeypatch):
    path, advance, calls = tmp_path / "run.nc", driver.concurrent.futures.wait, []
    monkeypatch.setattr(recorder, "CHUNK_SECONDS", 0.0)  # a step at a time

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return advance(*arguments, **options)

    monkeypatch.setattr(driver.concurrent.futures, "wait", interrupted)
    part = amc.sample(TARGET, SAMPLER, checkpoint=path, **QUICK)
    assert part["posterior"].attrs["stopped"] == "interrupt"
    n = part["posterior"].sizes["draw"]
    assert n < QUICK["draws"]
    with pytest.raises(InvalidInputError, match="of a run that has not ended: call `sample` again"):
        amc.load(path)
    whole = amc.sample(TARGET, SAMPLER, checkpoint=path, **QUICK)
    assert_equal_traces(amc.sample(TARGET, SAMPLER, **QUICK), whole)
    np.testing.assert_array_equal(part["posterior"]["beta"], whole["posterior"]["beta"][:, :n])


@plain_python
def test_a_time_limit_ends_a_run_and_resume_goes_beyond(tmp_path):
    path = tmp_path / "run.nc"
    settings = QUICK | {"draws": 10**6, "checkpoint": path, "time_limit": 0.3, "cores": 1}
    part = amc.sample(TARGET, SAMPLER, **settings)
    assert part["posterior"].attrs["stopped"] == "time_limit"
    assert_equal_traces(part, amc.sample(TARGET, SAMPLER, **settings))
    n = part["posterior"].sizes["draw"]
    longer = amc.resume(path, TARGET, draws=7, progressbar=False)
    assert longer["posterior"].sizes["draw"] == n + 7
    assert_equal_traces(amc.sample(TARGET, SAMPLER, **QUICK | {"draws": n + 7}), longer)


@plain_python
@pytest.mark.faults
def test_a_sampler_that_was_chosen_is_not_chosen_anew(tmp_path, kill):
    """Trials depend on the clock; a resumed run uses their stored results."""
    settings = {name: value for name, value in QUICK.items() if name != "tune"}
    kill(4)
    with pytest.raises(Killed):
        amc.sample(TARGET, checkpoint=tmp_path / "run.nc", **settings)
    left = read_checkpoint(tmp_path / "run.nc")
    kill.never()
    trace = amc.sample(TARGET, checkpoint=tmp_path / "run.nc", **settings)
    done = min(chain["done"][1] for chain in left.snapshot.chains)
    flat = trace["posterior"]["beta"].values
    for k, chain in enumerate(left.snapshot.chains):
        np.testing.assert_array_equal(flat[k, :done], chain["draws"][:done])
    assert trace["posterior"].attrs["chosen"] == left.about["made"]["attrs"]["chosen"]
    assert amc.resume(tmp_path / "run.nc", TARGET, draws=5, progressbar=False)["posterior"].sizes["draw"] == 35


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return the file of a run that has ended; tests must not change it."""
    path = tmp_path_factory.mktemp("refusals") / "run.nc"
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, {})
        amc.sample(TARGET, SAMPLER, checkpoint=path, **QUICK)
    return path


@plain_python
class TestRefusals:
    @pytest.mark.parametrize(
        ("target", "sampler", "settings", "match"),
        [
            (logistic(13, 2), SAMPLER, {}, r"target\.n_obs: 12 -> 13\n  target\.content: \w{32} -> \w{32}"),
            (TARGET, amc.MetropolisHastings(amc.RandomWalk(0.3), SAMPLER.test), {}, "target_acceptance: 0.3 -> None"),
            (TARGET, SAMPLER, {"random_seed": 2}, "seed: 1 -> 2"),
            (TARGET, SAMPLER, {"chains": 3}, "chains: 2 -> 3"),
            (TARGET, SAMPLER, {"initvals": np.zeros(2)}, r"initvals: None -> \w{32}"),
            (TARGET, None, {}, "sampler.kind: MetropolisHastings -> nothing"),
        ],
    )
    def test_another_run(self, path, target, sampler, settings, match):
        with pytest.raises(InvalidInputError, match=match):
            amc.sample(target, sampler, checkpoint=path, **QUICK | settings)

    def test_another_version(self, path, monkeypatch):
        monkeypatch.setattr(run_file, "code_version", lambda: "0123")
        with pytest.raises(InvalidInputError, match=r"version.approxmcmc: 0\.1\.0, code \w{16} -> 0\.1\.0, code 0123"):
            amc.sample(TARGET, SAMPLER, checkpoint=path, **QUICK)
        with pytest.raises(InvalidInputError, match=r"version\.approxmcmc"):
            amc.resume(path, TARGET, draws=10)

    def test_data_that_differ_in_one_bit(self, path):
        X, y = np.array(TARGET.X), np.array(TARGET.y)
        X[7, 1] = np.nextafter(X[7, 1], np.inf)
        other = amc.targets.LogisticRegression(X, y, prior_scale=1.0)
        with pytest.raises(InvalidInputError, match=r"target\.content: \w+ -> \w+"):
            amc.resume(path, other, draws=10)

    def test_a_sampler_that_is_not_known_here(self, path, monkeypatch):
        monkeypatch.delitem(amc.RandomWalk._registry, "RandomWalk")
        with pytest.raises(InvalidInputError, match="cannot be made here"):
            amc.resume(path, TARGET, draws=10)

    def test_files_that_are_not_checkpoints(self, tmp_path, path):
        with pytest.raises(InvalidInputError, match=r"the path of a checkpoint, .* found a DataTree"):
            amc.resume(amc.load(path), TARGET)
        with pytest.raises(FileNotFoundError, match="There is no checkpoint at"):
            amc.resume(tmp_path / "no.nc", TARGET)
        amc.save(amc.load(path), tmp_path / "trace.nc")
        for act in (lambda p: amc.resume(p, TARGET), lambda p: amc.sample(TARGET, SAMPLER, checkpoint=p, **QUICK)):
            with pytest.raises(InvalidInputError, match="holds no checkpoint, only"):
                act(tmp_path / "trace.nc")
        (tmp_path / "cut.nc").write_bytes(path.read_bytes()[:-100])
        with pytest.raises(InvalidInputError, match="cannot be read"):
            amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "cut.nc", **QUICK)
        with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
            amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "no" / "run.nc", **QUICK)


@plain_python
def test_a_full_disk_costs_no_draw_once_a_run_has_begun(tmp_path, kill):
    full = OSError(errno.ENOSPC, "No space left on device")
    kill(0, full)
    with pytest.raises(OSError, match="No space left"):  # before anything is drawn
        amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **QUICK)
    kill(2, full)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amc.errors.SamplingWarning)
        with pytest.warns(CheckpointWarning, match="No space left"):
            trace = amc.sample(TARGET, SAMPLER, checkpoint=tmp_path / "run.nc", **QUICK)
    assert_equal_traces(amc.sample(TARGET, SAMPLER, **QUICK), trace)


def test_compiled_chains_go_on(tmp_path):
    run = QUICK | {"checkpoint": tmp_path / "run.nc"}
    amc.sample(TARGET, SAMPLER, **run | {"draws": 12})
    assert_equal_traces(amc.sample(TARGET, SAMPLER, **QUICK), amc.resume(run["checkpoint"], TARGET, draws=18))


def test_checkpoints_take_two_percent_of_the_time(monkeypatch):
    """A run of a million seconds at any cost of a checkpoint, which grows with the draws."""
    now, steps = [0.0], [0]
    monkeypatch.setattr(checkpoints.time, "perf_counter", lambda: now[0])

    def write(snapshot, at_rest, per_step):
        now[0] += at_rest + per_step * steps[0]

    for at_rest, per_step in ((0.1, 0.0), (5.0, 0.0), (0.1, 1e-6), (0.1, 1e-3)):
        now[0], steps[0] = 0.0, 0
        kept = Checkpoints(functools.partial(write, at_rest=at_rest, per_step=per_step))
        kept.begin(Snapshot(None, {}, 0.0, "", []), 0)
        begun, first = now[0], kept.seconds
        while now[0] < 1e5:
            now[0] += 0.05 * 100
            steps[0] += 1000
            if kept.due(steps[0]):
                kept.keep(Snapshot(None, {}, 0.0, "", []), steps[0])
                kept.finish()
        assert kept.written > 1
        assert kept.seconds - first <= 0.021 * (now[0] - begun) + at_rest + per_step * 7000  # the first is a guess
