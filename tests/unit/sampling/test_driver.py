"""The driver of chains, on chains that are nothing but a clock."""

import errno
import io
import itertools

import numpy as np
import pytest

from approxmcmc.contracts.records import SECONDS, THREAD_SECONDS
from approxmcmc.sampling import progress, recorder
from approxmcmc.sampling.goals import Goal
from approxmcmc.sampling.recorder import CHUNK_SECONDS, GrowingRows, Recorder, every_second


class TimedChain:
    """A chain whose step number k takes ``seconds(k)`` of a clock that nothing else moves."""

    def __init__(self, seconds, monkeypatch):
        self.seconds, self.now, self.made, self.chunks = seconds, 0.0, 0, []
        monkeypatch.setattr(recorder.time, "perf_counter", lambda: self.now)

    def advance(self, n_steps, thin, draws, counts, values):
        steps = range(self.made, self.made + n_steps)
        took = sum(self.seconds(step) for step in steps)
        self.now += took
        self.made = steps.stop
        self.chunks.append((len(steps), took))
        draws[:], counts[:], values[:] = 0.0, 0, 0.0
        return n_steps


def chunks_of(seconds, monkeypatch, *, tune=0, draws=100_000, thin=1, planned_for=50):
    chain = TimedChain(seconds, monkeypatch)
    recorder = Recorder(chain, 1, tune, thin, keep_warmup=False)
    recorder.aim(Goal(draws))
    for _ in range(planned_for):
        if not recorder.finished:
            recorder.advance()
    return chain.chunks


def test_a_fast_first_step_does_not_plan_a_chunk_of_minutes(monkeypatch):
    """A first proposal outside the support takes a microsecond, the steps after it 10 ms: a time limit must hold."""
    chunks = chunks_of(lambda step: 1e-6 if step == 0 else 0.01, monkeypatch)
    assert max(took for _, took in chunks) < 1.5 * CHUNK_SECONDS
    assert {steps for steps, _ in chunks[-10:]} <= {4, 5}  # 5 steps of 10 ms are 50 ms, up to rounding


@pytest.mark.parametrize("thin", [1, 10, 100_000])
def test_chunks_grow_to_fifty_milliseconds(thin, monkeypatch):
    chunks = chunks_of(lambda step: 1e-5, monkeypatch, tune=3000, thin=thin)
    assert chunks[0] == (1, 1e-5)
    largest = max(took for _, took in chunks)
    assert 0.9 * CHUNK_SECONDS < largest <= 1.1 * CHUNK_SECONDS
    assert sum(took > 0.9 * CHUNK_SECONDS for _, took in chunks) > 15  # a dozen doublings, and then whole chunks


def test_a_slow_step_comes_alone(monkeypatch):
    assert all(steps == 1 for steps, _ in chunks_of(lambda step: 2.0, monkeypatch))


def test_a_draw_of_many_steps_is_made_in_chunks(monkeypatch):
    """A draw of 1000 s: each chunk takes 50 ms, so a time limit is noticed after 50 ms."""
    chunks = chunks_of(lambda step: 1e-3, monkeypatch, draws=2, thin=10**6, planned_for=100)
    assert len(chunks) == 100 and max(took for _, took in chunks) < 1.1 * CHUNK_SECONDS


@pytest.mark.thorough
@pytest.mark.parametrize("thin", [7, 64, 1000])
def test_no_chunk_passes_the_last_draw(thin, monkeypatch):
    """Chunks of whole draws, or of a part of one draw."""
    chunks = chunks_of(lambda step: 1e-3, monkeypatch, draws=30, thin=thin, planned_for=10**6)
    assert sum(steps for steps, _ in chunks) == 30 * thin
    assert max(steps for steps, _ in chunks) <= 50


def test_processor_time_is_the_share_of_a_core_that_the_thread_had(monkeypatch):
    """Another program had the core for three quarters of each chunk, and a quarter of a draw's time was an audit's."""
    chain = TimedChain(lambda step: 0.02, monkeypatch)
    monkeypatch.setattr(recorder.time, "thread_time", lambda: chain.now / 4)

    def advance(steps, thin, draws, counts, values):
        TimedChain.advance(chain, steps, thin, draws, counts, values)
        values[:, SECONDS] = 0.015
        return steps

    chain.advance = advance
    made = Recorder(chain, 1, 0, 1, keep_warmup=False)
    made.aim(Goal(8))
    while not made.finished:
        made.advance()
    np.testing.assert_allclose(made.records(1)[2][:, THREAD_SECONDS], 0.015 / 4)
    np.testing.assert_allclose(every_second(made.records(1))[2][:, THREAD_SECONDS], 0.015 / 2)


def test_the_seconds_of_a_draw_are_those_of_all_its_chunks(monkeypatch):
    """Without a clock in kernels: 1000 steps of 10 ms in chunks of 50 ms; half of the core was free."""
    chain = TimedChain(lambda step: 0.01, monkeypatch)
    monkeypatch.setattr(recorder.time, "thread_time", lambda: chain.now / 2)
    monkeypatch.setattr(recorder, "TICKS_IN_KERNELS", False)
    made = Recorder(chain, 1, 0, 1000, keep_warmup=False)
    made.aim(Goal(2))
    while not made.finished:
        made.advance()
    assert len(chain.chunks) > 300
    np.testing.assert_allclose(made.records(1)[2][:, [SECONDS, THREAD_SECONDS]], [[10.0, 5.0]] * 2)


class FailingChain:
    """A chain that meets a NaN after two draws, and whose model raises when it is asked for the reason."""

    proposed = np.array([7.0])

    def advance(self, steps, thin, draws, counts, values):
        made = min(steps, 2)
        draws[:made], counts[:], values[:] = 1.0, 0, 0.0
        return made

    def explain_failure(self):
        raise ZeroDivisionError("no such datum")


def test_a_model_that_raises_while_a_failure_is_explained_costs_no_draw():
    """The test that failed read a few data, the explanation reads all of them."""
    recorder = Recorder(FailingChain(), 1, 0, 1, keep_warmup=False)
    recorder.aim(Goal(100))
    while not recorder.finished:
        recorder.advance()
    assert "the model raised ZeroDivisionError: no such datum at theta = [7.]" in recorder.failure
    draws, *_ = recorder.arrays(1, recorder.done[1])
    assert draws.tolist() == [[1.0]] * 5  # chunks of 1, 2 and 4


def test_rows_that_were_returned_stay_as_they_were(rng):
    """However the table grows; a snapshot that is being written shares them."""
    rows = rng.normal(size=(40, 2))
    table, seen = GrowingRows(rows[:0]), []
    for first, last in itertools.pairwise([0, 0, 1, 2, 5, 6, 20, 40]):
        table.add(rows[first:last])
        seen.append((last, table.rows))
    assert all(np.array_equal(view, rows[:last]) for last, view in seen)
    assert not np.shares_memory(table.rows, rows)


class TestProgress:
    def test_no_console_no_bar(self, monkeypatch):
        monkeypatch.setattr(progress.sys, "stderr", None)
        with progress.progress(10, show=True, label="sampling", time_limit=None) as shown:
            shown.update(5)

    def test_lines_come_now_and_then(self, monkeypatch):
        monkeypatch.setattr(progress.sys, "stderr", io.StringIO())
        monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
        with progress.progress(10, show=True, label="sampling", time_limit=7.0) as shown:
            shown.update(5)
        assert "sampling: 5 of 10 steps, 0 s of 7 s" in progress.sys.stderr.getvalue()

    @pytest.mark.parametrize(
        "error", [BrokenPipeError(errno.EPIPE, "Broken pipe"), ValueError("closed file")], ids=repr
    )
    def test_a_reader_who_left_does_not_end_the_run(self, error, monkeypatch):
        class Gone(io.StringIO):
            def write(self, text):
                raise error

        monkeypatch.setattr(progress.sys, "stderr", Gone())
        monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
        with progress.progress(10, show=True, label="sampling", time_limit=None) as shown:
            shown.update(5)
