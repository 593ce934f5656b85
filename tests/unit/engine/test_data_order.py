"""The schedules of subsets: what a decision reads, what it costs, and what the cache keeps."""

import collections
import concurrent.futures
import errno
import itertools
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.files.mapped_files import has_named_file, nameless_array
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms import moments, order, shuffled
from approxmcmc.engine.terms.batches import CERTAIN, FINITE, IMPOSSIBLE, UNDEFINED, batch_kernel
from approxmcmc.engine.terms.evidence import new_evidence
from approxmcmc.engine.terms.order import (
    PERIOD,
    VERSION,
    begin,
    block_size,
    blocks_order,
    draw_next,
    read_blocks,
    rows_order,
    settle,
    shuffle_rows,
)
from approxmcmc.engine.terms.shuffled import order_of_files, shuffled_copy
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.metropolis_hastings import program as metropolis_hastings_program
from tests import data_order as wrong
from tests.models import normal_logprior, normal_mean

TOUCHED, EVALUATIONS = COUNT_NAMES.index("datapoints_touched"), COUNT_NAMES.index("likelihood_evaluations")
SEED = 20140621


class Reader:
    """A chain's view of blocks: read differences of the terms ``numbers[i] * theta`` up to some places, then settle.

    The helpers run as plain Python, so that bugs can be planted in them; compiled, the equivalences test them.
    """

    def __init__(self, numbers, size, seed=0, period=0, bug=None):
        self.schedule = wrong.Schedule(bug)
        self.rng = np.random.default_rng(seed)
        calls = np.zeros(20 * len(numbers) + 1)
        numbers = np.array(numbers, dtype=float)
        self.data, rows = shuffled_copy((numbers, calls), self.rng.permutation(len(numbers)), "memory")
        self.kernel = batch_kernel(counted_term, self.data)
        self.order = blocks_order(len(numbers), size, rows)
        self.order.cursor[PERIOD] = period
        self.theta, self.count = np.ones(2), np.zeros(len(COUNT_NAMES), int)

    def decide(self, stops, accept=False, proposed=None):
        """Read up to each of the stops; return the outcome, the rows evaluated, and the differences' moments."""
        proposed = self.theta + np.array([1.0, 0.0]) if proposed is None else np.array(proposed)
        self.data[1][0] = 0.0
        evidence = new_evidence(self.kernel, self.data, len(self.data[0]), self.theta, proposed, self.order)
        outcome = self.schedule.read(self.rng, evidence, stops, self.count)
        self.settle(accept)
        self.theta = proposed if accept else self.theta
        return outcome, self.data[1][1 : int(self.data[1][0]) + 1].astype(int), evidence.moments

    def settle(self, accept):
        self.schedule.settle(self.order, accept)


def counted_term(theta, data, i):
    """Return the i-th number times theta_0; where it is 0, -inf, or NaN at theta_1 = 0. Keep a record of the calls."""
    numbers, calls = data
    calls[0] += 1.0
    calls[int(calls[0])] = i
    if numbers[i] != 0.0:
        return numbers[i] * theta[0]
    return -np.inf if theta[1] > 0.0 else np.nan


def test_looks_end_where_they_say_and_the_next_goes_on_there():
    """17 rows in blocks of 4, the last of one row: every row is read once, whatever the looks."""
    for stops in ([3, 5, 12, 17], [17], list(range(1, 18)), [2, 17]):
        reader = Reader(np.arange(1.0, 18.0), 4)
        for _ in range(5):
            before = reader.count[TOUCHED]
            _, _, seen = reader.decide(stops)
            assert reader.count[TOUCHED] - before == seen[moments.N] == 17
            np.testing.assert_allclose(seen[moments.MEAN], 9.0, rtol=1e-12)


def test_evaluations_are_what_is_performed():
    """Rejections leave the terms at theta in place; a move makes the terms at theta' those of theta, and no others."""
    reader = Reader(np.arange(1.0, 13.0), 4)
    assert len(reader.decide([12])[1]) == 24  # nothing is kept yet
    assert len(reader.decide([12])[1]) == 12  # rejected: the terms at theta are still right
    assert len(reader.decide([6], accept=True)[1]) == 6
    read = len(reader.decide([12])[1])
    assert read == 12 + 6  # at the new theta 6 rows are kept
    assert reader.count[EVALUATIONS] == 24 + 12 + 6 + 18
    assert reader.count[TOUCHED] == 12 + 12 + 6 + 12


def test_a_decision_that_reads_nothing_keeps_nothing():
    """A move without reading must not pass off the terms of the last proposal as those of theta."""
    reader = Reader(np.arange(1.0, 9.0), 4)
    reader.decide([8])
    reader.settle(True)
    reader.theta = reader.theta + 5.0
    assert len(reader.decide([8])[1]) == 16


def number_of(theta, data, i):
    """Return 2^i theta for the datum whose number is i: the sum over a subset then names the subset."""
    return 2.0 ** data[0][i] * theta[0]


def tally(n, size, stops, seed, bug=None, decisions=3000):
    """Return how often each subset was read by `decisions` decisions, each of a chain with a shuffle of its own."""
    schedule, rng, numbers = wrong.Schedule(bug), np.random.default_rng(seed), np.arange(float(n))
    kernel, found = batch_kernel(number_of, (numbers,)), collections.Counter()
    theta, proposed, count = np.zeros(1), np.ones(1), np.zeros(len(COUNT_NAMES), int)
    for _ in range(decisions):
        data, rows = shuffled_copy((numbers,), rng.permutation(n), "memory")
        evidence = new_evidence(kernel, data, n, theta, proposed, blocks_order(n, size, rows))
        schedule.read(rng, evidence, stops, count)
        found[round(evidence.moments[moments.N] * evidence.moments[moments.MEAN])] += 1
    return found


def is_simple_random_sample(found, n, size):
    """Return whether all subsets of `size` of `n` were found equally often: chi-square below its 1e-6 quantile."""
    subsets = [sum(2**i for i in chosen) for chosen in itertools.combinations(range(n), size)]
    expected = found.total() / len(subsets)
    chi_square = sum((found[subset] - expected) ** 2 / expected for subset in subsets)
    return set(found) <= set(subsets) and chi_square < 55.0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "size", "stops"), [(5, 2, (3,)), (6, 2, (1, 2)), (5, 3, (2, 4)), (5, 1, (2,)), (4, 8, (3,))]
)
def test_what_is_read_is_a_simple_random_sample(n, size, stops, seed):
    """All C(n, m) subsets are equally likely over shuffles and block orders; ragged blocks and looks inside blocks too.

    3000 chains, one decision each; chi-square with 3 to 14 degrees of freedom, false-fail rate below 1e-6.
    """
    assert is_simple_random_sample(tally(n, size, stops, seed), n, stops[-1])


SCHEDULE_BUGS = {
    "blocks drawn with replacement": {draw_next: wrong.draw_with_replacement},
    "a look goes on at the next block": {read_blocks: wrong.skip_the_rest_of_a_block},
}


@pytest.mark.thorough
@pytest.mark.parametrize("bug", SCHEDULE_BUGS)
def test_planted_schedule_bugs_are_seen(bug, seed):
    assert not is_simple_random_sample(tally(5, 2, (1, 3), seed, SCHEDULE_BUGS[bug]), 5, 3)


def test_a_ragged_tail_dropped_is_seen():
    """A subset without the last rows is a simple random sample all the same; all the data are not."""
    with pytest.raises(IndexError):
        Reader(np.arange(1.0, 18.0), 4, bug={begin: wrong.drop_the_ragged_tail}).decide([17])


@pytest.mark.thorough
def test_a_shuffle_forgotten_is_seen(seed, monkeypatch):
    right = shuffled_copy
    monkeypatch.setitem(globals(), "shuffled_copy", lambda data, p, place: right(data, np.arange(len(p)), place))
    assert not is_simple_random_sample(tally(6, 2, (4,), seed), 6, 4)


CACHE_BUGS = {
    "terms kept past a move": {settle: wrong.keep_terms_past_a_move},
    "terms kept of a rejected proposal": {settle: wrong.keep_terms_of_a_rejection},
    "rows not read count as kept": {read_blocks: wrong.keep_whole_blocks},
    "terms of a move kept in the wrong block": {settle: wrong.keep_terms_in_the_wrong_block},
    "a reshuffle keeps the terms": {begin: wrong.reshuffle_and_keep_the_terms},
}


def cache_is_invisible(bug=None):
    """Return whether a reader that forgets its terms before every decision finds the same moments."""
    readers = [Reader(np.arange(1.0, 31.0) ** 1.5, 4, seed=3, period=9, bug=bug) for _ in range(2)]
    script = np.random.default_rng(4)
    for _ in range(40):
        stops, accept = np.sort(script.choice(np.arange(2, 31), 2, replace=False)).tolist(), script.random() < 0.4
        readers[1].order.cursor[VERSION] += 1  # nothing kept is of this version
        seen = [reader.decide(stops, accept)[2] for reader in readers]
        if not np.array_equal(*seen):
            return False
    return True


def test_kept_terms_change_no_difference():
    assert cache_is_invisible()


@pytest.mark.parametrize("bug", CACHE_BUGS)
def test_planted_cache_bugs_are_seen(bug):
    assert not cache_is_invisible(CACHE_BUGS[bug])


def test_reshuffles_move_whole_rows(rng):
    X, y = rng.normal(size=(50, 3)), np.arange(50)
    (copy_x, copy_y), rows = shuffled_copy((X, y), rng.permutation(50), "memory")
    for _ in range(3):
        shuffle_rows(rng, rows, 50)
        assert sorted(copy_y.tolist()) == list(range(50))
        np.testing.assert_array_equal(copy_x, X[copy_y])


@pytest.mark.parametrize("narrow", [bool, np.float32])
def test_rows_of_several_widths_move_together(rng, narrow):
    """As the constants of a PyMC model have them: truth values beside numbers."""
    wide, few, none = rng.random((1000, 3)), (10 * rng.random(1000)).astype(narrow), np.empty((1000, 0), np.int32)
    permutation = rng.permutation(1000)
    data, rows = shuffled_copy((wide, few, none), permutation, "memory")
    assert {array.dtype.itemsize for array in rows} == {min(4, few.itemsize)}
    shuffle_rows(rng, rows, 1000)
    where = np.argsort(data[0][:, 0])[np.argsort(np.argsort(wide[:, 0]))]
    np.testing.assert_array_equal(data[0][where], wide)
    np.testing.assert_array_equal(data[1][where], few)


def test_a_reshuffle_forgets_the_terms_kept():
    reader = Reader(np.arange(1.0, 13.0), 4, period=2)
    evaluated = [len(reader.decide([12])[1]) for _ in range(5)]
    assert evaluated == [24, 12, 24, 12, 24]


@pytest.mark.parametrize(
    ("term", "proposed", "outcome"),
    [(3.0, [2.0, 1.0], FINITE), (0.0, [2.0, 1.0], IMPOSSIBLE), (0.0, [2.0, 0.0], UNDEFINED)],
)
def test_terms_that_are_not_finite(term, proposed, outcome):
    reader = Reader([1.0, 2.0, term, 4.0, 5.0], 2)
    assert reader.decide([5], proposed=proposed)[0] == outcome


def test_leaving_an_impossible_state_is_certain():
    reader = Reader([1.0, 2.0, 3.0], 2)
    reader.data[0][1] = 0.0
    reader.theta = np.array([1.0, 1.0])

    def loglik(theta, data, i):
        return -np.inf if theta[0] < 1.5 and data[0][i] == 0.0 else data[0][i]

    reader.kernel = batch_kernel(loglik, reader.data)
    assert reader.decide([3], accept=True)[0] == CERTAIN
    assert reader.decide([3], proposed=[1.0, 1.0])[0] == IMPOSSIBLE


def test_block_sizes():
    assert block_size(12_214, 500) == 500
    assert block_size(12_214, 5000) == 500
    assert block_size(200_000, 8000) == 1000
    assert block_size(1_000_000, 41_667) == 1985  # 21 blocks to a look
    assert block_size(1_000_000, 39) == 39  # tiny looks, as with control variates, read tiny blocks
    assert block_size(100, 2) == 32


def chain_of(target, test, **settings):
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.2), test, **settings)
    program = sampler.build(target, audit_every=None)
    return program, program.start(np.array([0.3]), streams(seed_sequences(SEED, 1)[0][0]), 0)


@pytest.mark.recompiles
class TestChoice:
    def test_auto_is_rows_for_few_data_and_blocks_for_many(self):
        for n, name in ((100, "rows"), (10_000, "blocks")):
            program, _ = chain_of(normal_mean(n), amc.SequentialTTest(0.1, 50))
            assert program.attrs["data_order"] == name

    @pytest.mark.parametrize("order", ["rows", "blocks"])
    def test_the_test_can_force_one(self, order):
        for test in (
            amc.SequentialTTest(0.1, 50, order=order),
            amc.acceptance.MinibatchBarker(batch_size=50, order=order),
        ):
            assert chain_of(normal_mean(200), test)[0].attrs["data_order"] == order

    def test_exact_and_always_read_the_data_in_memory_order(self):
        target = normal_mean(200)
        for test in (amc.ExactTest(), amc.acceptance.AlwaysAccept()):
            program, chain = chain_of(target, test)
            assert "data_order" not in program.attrs
            assert chain.state.evidence.data[0] is target.data[0]

    def test_unknown_orders_are_refused(self):
        for make in (amc.SequentialTTest, amc.acceptance.MinibatchBarker):
            with pytest.raises(InvalidInputError, match="order must be one of"):
                make(order="columns")

    def test_chains_shuffle_apart(self):
        program, one = chain_of(normal_mean(200), amc.SequentialTTest(0.1, 50, order="blocks"))
        other = program.start(np.array([0.3]), streams(seed_sequences(SEED, 2)[0][1]), 0)
        (one,), (other,) = one.state.evidence.data, other.state.evidence.data
        assert not np.array_equal(one, other)
        np.testing.assert_array_equal(np.sort(one), np.sort(program.target.data[0]))


def test_terms_that_know_their_neighbours_are_refused():
    """Shuffled, a time series is another one; the same model by rows is untouched."""
    x = np.random.default_rng(0).normal(size=300)

    def loglik(theta, data, i):
        (x,) = data
        return -0.5 * (x[i] - theta[0] * (x[i - 1] if i > 0 else 0.0)) ** 2

    series = amc.FunctionTarget(loglik, normal_logprior, data=x, n_obs=300, dim=1)
    chain_of(series, amc.SequentialTTest(0.1, 50, order="rows"))
    with pytest.raises(IncompatibleError, match="order='rows'"):
        chain_of(series, amc.SequentialTTest(0.1, 50, order="blocks"))


def test_a_copy_in_memory_has_the_order_of_the_first_chains_own_stream():
    program = amc.MetropolisHastings(amc.RandomWalk(0.1), SMALL_BLOCKS).build(normal_mean(9600), audit_every=None)
    assert program.attrs["block_size"] == block_size(9600, 64)
    (x,), _, _ = program.arrange(np.zeros(1), np.random.default_rng(SEED))
    np.testing.assert_array_equal(x, program.target.data[0][np.random.default_rng(SEED).permutation(9600)])


def test_a_copy_on_disk_is_the_copy_in_memory(tmp_path):
    target, test = normal_mean(500), amc.SequentialTTest(0.1, 50, order="blocks")
    draws = []
    for place in ("memory", str(tmp_path)):
        _, chain = chain_of(target, test, shuffled_copy=place)
        out = np.empty((50, 1))
        chain.advance(50, 1, out, np.empty((50, len(COUNT_NAMES)), np.int64), np.empty((50, len(VALUE_NAMES))))
        draws.append(out)
    np.testing.assert_array_equal(*draws)
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


@pytest.fixture
def on_file(tmp_path, rng, monkeypatch):
    """Return a regression whose predictors lie in a file, with enough blocks for all runs to share one copy."""
    monkeypatch.setattr(order, "ENOUGH_BLOCKS", 10)
    rng.normal(size=(960, 2)).tofile(tmp_path / "X")
    X = np.memmap(tmp_path / "X", np.float64, "r", shape=(960, 2))
    return amc.targets.LogisticRegression(X, rng.integers(0, 2, 960))


SMALL_BLOCKS = amc.SequentialTTest(0.1, 64, growth=2.0, order="blocks")


def run_on(target, place, seed=SEED):
    """Return the chain of one run, its streams, and what draws it."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.02), SMALL_BLOCKS, shuffled_copy=str(place))
    own = streams(seed_sequences(seed, 1)[0][0])
    program = sampler.build(target, audit_every=None)

    def draws():
        out = np.empty((20, 2))
        chain = program.start(np.zeros(2), own, 0)
        chain.advance(20, 1, out, np.empty((20, len(COUNT_NAMES)), np.int64), np.empty((20, len(VALUE_NAMES))))
        return out

    return program, own, draws


@pytest.mark.recompiles
def test_all_runs_on_one_data_set_share_one_file(on_file, tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    n, copies = on_file.n_obs, []
    for seed in (1, 2):
        program, own, draws = run_on(on_file, folder, seed)
        draws()
        copies.append(program.arrange(np.zeros(2), own.order)[0])
    (file,) = folder.iterdir()
    assert file.stat().st_size - 256 < on_file.X.nbytes < file.stat().st_size
    for (X, *others), stored in zip(copies, [np.load(file)] * 2, strict=True):
        assert has_named_file(X) and not X.flags.writeable and not any(map(has_named_file, others))
        np.testing.assert_array_equal(X, stored)
        np.testing.assert_array_equal(X, on_file.X[order_of_files(n)])


def test_what_is_shared_is_what_lies_in_a_file(rng):
    """What lies in memory or in scratch, as the numbers of an expansion, would leave a file for each reference."""
    assert not has_named_file(rng.normal(size=4))
    assert not has_named_file(nameless_array((4,), float, Path(tempfile.gettempdir()), purpose="test"))


@pytest.mark.recompiles
def test_a_shared_copy_gives_the_draws_of_one_in_memory(on_file, tmp_path, monkeypatch):
    """In the same order: patched, it is that of the chain's own stream."""
    _, _, in_memory = run_on(on_file, "memory")
    _, own, on_disk = run_on(on_file, tmp_path)
    expected = in_memory()
    assert not np.array_equal(run_on(on_file, tmp_path)[2](), expected)
    monkeypatch.setattr(metropolis_hastings_program, "order_of_files", own.order.permutation)
    np.testing.assert_array_equal(on_disk(), expected)


def test_the_order_of_files_is_random():
    """Blocks of neighbours: 160 means of 64 numbers 0 ... 1 spread as of a random sample, chi-squared at 1e-6."""
    means = (order_of_files(10_240) / 10_239).reshape(160, 64).mean(axis=1)
    spread = (160 * 12 * 64 / 160) * np.sum((means - 0.5) ** 2) / (1 - 64 / 10_240)
    assert stats.chi2.ppf(5e-7, 159) < spread < stats.chi2.ppf(1 - 5e-7, 159)
    assert not np.array_equal(order_of_files(5), np.arange(5))


def test_two_writers_at_once_leave_one_whole_file(on_file, tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    places = order_of_files(on_file.n_obs)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: shuffled_copy((on_file.X,), places, str(folder), named=True)[0][0], range(4)))
    assert len(list(folder.iterdir())) == 1
    for X in made:
        np.testing.assert_array_equal(X, on_file.X[places])


@pytest.mark.parametrize("shape", [(1000,), (1000, 3), (997, 2, 2)])
@pytest.mark.parametrize("named", [True, False])
def test_large_data_are_put_in_order_by_way_of_buckets(shape, named, tmp_path, rng, monkeypatch):
    folder = tmp_path / "copies"
    folder.mkdir()
    array = np.memmap(tmp_path / "rows", np.float32, "w+", shape=shape)
    array[:] = rng.random(shape)
    places = rng.permutation(len(array))
    monkeypatch.setattr(shuffled, "LARGE", array.nbytes)
    monkeypatch.setattr(shuffled, "BUCKET", array.nbytes // 7)
    ((copy,), _) = shuffled_copy((array,), places, str(folder), named=named)
    np.testing.assert_array_equal(copy, array[places])
    assert len(list(folder.iterdir())) == named
    monkeypatch.setattr(shuffled, "_inverse", lambda permutation: np.arange(len(permutation)))
    ((copy,), _) = shuffled_copy((array,), places[::-1].copy(), str(folder), named=named)
    assert not np.array_equal(copy, array[places[::-1]])  # the buckets were used


def test_a_shared_copy_can_stand_in_for_an_array_that_may_be_written(on_file, tmp_path):
    """It has the array's type, for which chains are compiled, and its file stays as it is."""
    folder = tmp_path / "copies"
    folder.mkdir()
    X = np.memmap(tmp_path / "X", np.float64, "r+", shape=on_file.X.shape)
    places = order_of_files(len(X))
    ((copy,), _) = shuffled_copy((X,), places, str(folder), named=True)
    copy[0] = 7.0
    ((again,), _) = shuffled_copy((X,), places, str(folder), named=True)
    np.testing.assert_array_equal(again, on_file.X[places])


def test_a_disk_without_room_for_the_copy_is_refused(tmp_path, monkeypatch):
    """A mapped file is written page by page, and a page that finds no room kills the process."""

    def full(descriptor, offset, length):
        assert length == 8 * 500
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(InvalidInputError, match=r"no room for .*No space left"):
        shuffled_copy((np.zeros(500),), np.arange(500), str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    shuffled_copy((np.zeros(500),), np.arange(500), "memory")

    def takes_no_claims(descriptor, offset, length):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", takes_no_claims, raising=False)
    shuffled_copy((np.zeros(500),), np.arange(500), str(tmp_path))


@pytest.fixture
def mapped(tmp_path, rng):
    """Return a logistic regression on a file of 16 MB, mapped read-only, and the size of the file."""
    n, dim = 20_000, 100
    X = np.memmap(tmp_path / "X", np.float64, "w+", shape=(n, dim))
    X[:] = rng.normal(size=(n, dim))
    X.flush()
    X = np.memmap(tmp_path / "X", np.float64, "r", shape=(n, dim))
    target = amc.targets.LogisticRegression(X, rng.integers(0, 2, n))
    assert np.shares_memory(target.X, X)
    return target, X.nbytes


def peak_of_a_run(target, test, place):
    """Return the most memory that a run had allocated at a time, and its draws; mapped pages do not count."""
    import tracemalloc

    program = amc.MetropolisHastings(amc.RandomWalk(0.001), test, shuffled_copy=place).build(target, audit_every=None)
    tracemalloc.start()
    chain = program.start(np.zeros(target.variables.size), streams(seed_sequences(SEED, 1)[0][0]), 0)
    draws = np.empty((3, target.variables.size))
    chain.advance(3, 1, draws, np.empty((3, len(COUNT_NAMES)), np.int64), np.empty((3, len(VALUE_NAMES))))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, draws


@pytest.mark.recompiles
@pytest.mark.needs_jit
def test_mapped_files_are_never_in_memory_as_a_whole(mapped, tmp_path):
    target, size = mapped
    test = amc.SequentialTTest(0.05, 800)
    on_disk, draws = peak_of_a_run(target, test, str(tmp_path))
    in_memory, same_draws = peak_of_a_run(target, test, "memory")
    exact, _ = peak_of_a_run(target, amc.ExactTest(), "memory")
    np.testing.assert_array_equal(draws, same_draws)
    assert exact < size / 8
    assert on_disk < size / 2  # pieces of 4 MB, and 4 numbers for each row
    assert in_memory > size


def test_a_target_looks_at_a_file_piece_by_piece(mapped, monkeypatch):
    import tracemalloc

    target, size = mapped
    monkeypatch.setattr("approxmcmc.targets.checks.ROWS_AT_ONCE", 1000)
    tracemalloc.start()
    again = amc.targets.LogisticRegression(target.X, target.y)
    again.content_hash()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 8
    broken = np.array(target.X[:2500])
    broken[2100, 3] = np.nan
    with pytest.raises(InvalidInputError, match=r"first at index \(2100, 3\)"):
        amc.targets.LogisticRegression(broken, target.y[:2500])


def test_places_that_do_not_exist_are_refused():
    for place in ("memroy", None):
        with pytest.raises(InvalidInputError, match="shuffled_copy must be"):
            amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest(), shuffled_copy=place)


def test_rows_order_reads_without_blocks():
    order = rows_order(5)
    assert order.places.tolist() == [0, 1, 2, 3, 4]
    assert order.blocks.size == 0
