"""Passes over all data: the same bits on any number of threads, NumPy's sums, and no more passes than are needed."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import arrays_hashed_once, content_hash, hashing
from approxmcmc.engine.terms import passes
from approxmcmc.engine.terms.passes import over_blocks, sum_over_blocks
from approxmcmc.errors import NotFiniteError
from approxmcmc.expansion import linear as linear_rows
from approxmcmc.expansion.general import GeneralExpansion
from approxmcmc.expansion.linear import LinearExpansion
from approxmcmc.numerics import mode
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.surrogate.pilot import normal_pilot, run_pilot
from approxmcmc.targets import all_rows
from approxmcmc.targets.all_rows import AllRows
from tests.models import logistic

N = 700
QUIET = {"audit_every": None, "progressbar": False}
THETA = np.array([0.3, -0.2, 0.1])


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 100 rows, so that seven make a pass; tiles of 32."""
    monkeypatch.setattr(over_blocks, "__defaults__", (100,))
    monkeypatch.setattr(sum_over_blocks, "__defaults__", (100,))
    monkeypatch.setattr(passes, "TILE", 32)


def on_threads(monkeypatch, number, function):
    """Return what a function returns where passes have so many threads."""
    with monkeypatch.context() as patch:
        patch.setattr(passes, "threads", lambda: number)
        return function()


def flat(found):
    """Return all numbers of nested tuples, but for functions, in one vector."""
    items = found if isinstance(found, tuple) else (found,)
    numbers = [flat(item) if isinstance(item, tuple) else np.ravel(item) for item in items if not callable(item)]
    return np.concatenate([np.asarray(part, dtype=float) for part in numbers])


class TestBlocks:
    def test_sums_are_made_in_the_order_of_the_rows(self, monkeypatch):
        numbers = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(1000.0) ** 0.3
        expected = 0.0
        for lo in range(0, 1000, 64):
            expected += numbers[lo : lo + 64].sum()
        for threads in (1, 4):
            found = on_threads(
                monkeypatch, threads, lambda: sum_over_blocks(lambda lo, hi: numbers[lo:hi].sum(), 1000, 64)
            )
            assert found == expected

    def test_blocks_hold_every_row_once(self, monkeypatch):
        monkeypatch.setattr(passes, "threads", lambda: 3)
        for n_obs in (1, 63, 64, 65, 1000):
            found = list(over_blocks(lambda lo, hi: (lo, hi), n_obs, 64))
            assert [row for lo, hi in found for row in range(lo, hi)] == list(range(n_obs))

    def test_the_first_failure_by_rows_is_raised(self, monkeypatch):
        def fail(lo, hi):
            raise ValueError(lo)

        with pytest.raises(ValueError, match=r"^0$"):
            on_threads(monkeypatch, 4, lambda: list(over_blocks(fail, 1000, 64)))


@pytest.mark.usefixtures("small_blocks")
class TestThreads:
    def passes_of(self, target):
        """Return every kind of pass, as numbers."""
        linear, general = LinearExpansion(target), GeneralExpansion(target, 2)
        law, numbers = normal_pilot(Laplace(THETA, 0.01 * np.eye(3))), np.empty((N, 2))
        survey = linear.survey(THETA, law.cholesky, law.draws, numbers, averaged=True)
        return (
            *linear.at(THETA),
            *general.at(THETA),
            general.log_likelihood(THETA),
            AllRows(target).log_densities(np.array([THETA, -THETA])),
            numbers,
            survey,
            survey.spreads(),
            linear.terms_at(law.draws),
            linear.total(THETA, numbers, np.arange(0, N, 2)),
            amc.ControlVariate(target, at=law, averaged=True).compile_difference_bound().rates,
        )

    @pytest.mark.thorough
    def test_any_number_gives_the_same_bits(self, monkeypatch):
        target = logistic(N, 3)
        one, four = (on_threads(monkeypatch, k, lambda: flat(self.passes_of(target))) for k in (1, 4))
        np.testing.assert_array_equal(one, four)

    @pytest.mark.thorough
    def test_any_number_gives_the_same_mode_and_the_same_draws(self, monkeypatch):
        target = logistic(N, 3)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(epsilon=0.05, batch_size=50))

        def draws():
            fit = amc.laplace(target)
            trace = amc.sample(target, sampler, draws=10, tune=0, chains=2, random_seed=1, initvals=fit, **QUIET)
            return np.append(fit.mode, trace.posterior["beta"].values)

        one, four = (on_threads(monkeypatch, k, draws) for k in (1, 4))
        np.testing.assert_array_equal(one, four)

    def test_sums_are_those_of_numpy(self):
        target = logistic(N, 3)
        X, y = target.X, target.y
        eta = X @ THETA
        mean = 1.0 / (1.0 + np.exp(-eta))
        found = LinearExpansion(target).at(THETA)
        np.testing.assert_allclose(found.value, np.sum(y * eta - np.logaddexp(0.0, eta)), rtol=1e-12)
        np.testing.assert_allclose(found.gradient, X.T @ (y - mean), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.hessian, -(X * (mean * (1.0 - mean))[:, None]).T @ X, rtol=1e-12)

    def test_densities_are_those_of_each_theta_alone_and_nothing_is_read_outside_the_support(self):
        target = amc.targets.LogisticRegression(
            logistic(N, 3).X, logistic(N, 3).y, prior=lambda beta: -np.inf if beta[0] > 5.0 else 0.0
        )
        thetas = np.array([THETA, [6.0, 0.0, 0.0], -THETA])
        found = AllRows(target).log_densities(thetas)
        eta = target.X @ thetas.T
        expected = (target.y[:, None] * eta - np.logaddexp(0.0, eta)).sum(axis=0)
        assert found[1] == -np.inf
        np.testing.assert_allclose(found[[0, 2]], expected[[0, 2]], rtol=1e-12)

    def test_ratios_are_those_of_the_densities_and_none_is_read_outside_the_support(self):
        target = amc.targets.LogisticRegression(
            logistic(N, 3).X, logistic(N, 3).y, prior=lambda beta: -np.inf if beta[0] > 5.0 else -beta[1]
        )
        thetas, proposed = np.array([THETA, THETA, -THETA]), np.array([-THETA, [6.0, 0.0, 0.0], 0.5 * THETA])
        rows = AllRows(target)
        found = rows.log_ratios(thetas, proposed)
        assert found[1] == -np.inf
        expected = rows.log_densities(proposed[[0, 2]]) - rows.log_densities(thetas[[0, 2]])
        np.testing.assert_allclose(found[[0, 2]], expected, rtol=1e-11)
        for k in (0, 2):
            terms, at_theta = rows.differences(thetas[k], proposed[k])
            prior = thetas[k, 1] - proposed[k, 1]
            np.testing.assert_allclose(
                [prior + terms.sum(), at_theta - thetas[k, 1]],
                [found[k], rows.log_densities(thetas[k, None])[0]],
                rtol=1e-11,
            )

    def test_a_row_without_a_finite_value_is_named(self):
        y = np.where(np.arange(N) == 433, -9.0, 1.0)
        target = amc.targets.GLMTarget(lambda eta, y: eta if y > 0.0 else math.nan, np.ones((N, 1)), y)
        with pytest.raises(NotFiniteError, match="datum 433"):
            LinearExpansion(target).at(np.array([1.0]))


def test_tiles_stay_small():
    assert [linear_rows.rows_of_tile(dim) for dim in (1, 50, 1000)] == [256, 104, 16]


def _loglik(theta, data, i):
    X, y = data
    return -0.5 * (y[i] - X[i, 0] * theta[0] - X[i, 1] * theta[1]) ** 2


def _grad_loglik(theta, data, i, out):
    X, y = data
    residual = y[i] - X[i, 0] * theta[0] - X[i, 1] * theta[1]
    out[0] += residual * X[i, 0]
    out[1] += residual * X[i, 1]


def _logprior(theta):
    return -0.5 * (theta[0] ** 2 + theta[1] ** 2)


class TestMode:
    """The search begins with some rows, where that is a small part of the data."""

    @pytest.fixture
    def few_rows(self, monkeypatch):
        monkeypatch.setattr(mode, "FEWEST", 50)
        monkeypatch.setattr(mode, "FOR_EACH", 50)

    def test_it_is_the_same_mode_in_fewer_passes(self, few_rows, monkeypatch):
        target = logistic(2000, 3)
        some = mode.find_mode(target)
        monkeypatch.setattr(mode, "LARGEST_SHARE", 0.0)
        every = mode.find_mode(target)
        assert some.passes < every.passes
        distance = np.sqrt((some.theta - every.theta) @ some.precision @ (some.theta - every.theta))
        assert distance < 2e-4 and some.decrement < 1e-4

    def test_a_general_target_begins_so_too(self, few_rows, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1000, 2))
        target = amc.FunctionTarget(
            _loglik, _logprior, data=(X, X[:, 0] + rng.normal(size=1000)), n_obs=1000, dim=2, grad_loglik=_grad_loglik
        )
        seen = []
        right = GeneralExpansion.of_rows
        monkeypatch.setattr(GeneralExpansion, "of_rows", lambda self, rows: seen.append(len(rows)) or right(self, rows))
        some = mode.find_mode(target)
        np.testing.assert_allclose(some.theta, np.linalg.solve(X.T @ X + np.eye(2), X.T @ target.data[1]), atol=1e-6)
        assert seen == [100]

    def test_a_guess_that_leads_nowhere_is_left(self, few_rows, monkeypatch):
        target = logistic(2000, 3)
        right = mode.find_mode(target).theta
        guess = mode.Guess(np.full(3, 1e6), np.eye(3), math.inf)
        monkeypatch.setattr(mode, "_mode_of_some_rows", lambda posterior, theta: guess)
        np.testing.assert_allclose(mode.find_mode(target).theta, right, atol=1e-4)

    def test_a_guess_much_farther_off_than_expected_costs_one_pass(self, few_rows, monkeypatch):
        """As where rare categories are in few of the rows; steps from there find no hold on all data."""
        target = logistic(2000, 3)
        monkeypatch.setattr(mode, "_mode_of_some_rows", lambda posterior, theta: None)
        right = mode.find_mode(target)
        guess = mode.Guess(right.theta + 3.0, right.precision, 2.0)  # some 60 posterior sds away
        monkeypatch.setattr(mode, "_mode_of_some_rows", lambda posterior, theta: guess)
        found = mode.find_mode(target)
        assert found.passes == right.passes + 1
        np.testing.assert_array_equal(found.theta, right.theta)


class TestSetUp:
    def test_rows_that_were_surveyed_are_not_surveyed_again(self):
        """With a normal posterior and no influential row a mode, a survey and bounds are all; nothing is copied."""
        target = logistic(N, 2)
        fit = amc.laplace(target)
        pilot = run_pilot(target, fit=fit)
        assert pilot.expanded is not None and pilot.pilot.passes == fit.passes + 1
        split = amc.ControlVariate(target, always_read=[], at=pilot)
        assert split.setup_attrs["setup_expansion_passes"] == 0
        assert split._numbers.base is pilot.expanded.numbers or split._numbers is pilot.expanded.numbers
        assert np.shares_memory(split.compile().data[0], target.X)
        assert split.compile_difference_bound() is split.compile_difference_bound()

    def test_starts_of_all_chains_take_one_pass(self, monkeypatch):
        seen = []
        right = all_rows.log_likelihoods

        def counted(target, thetas):
            seen.append(len(thetas))
            return right(target, thetas)

        monkeypatch.setattr(all_rows, "log_likelihoods", counted)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(epsilon=0.05, batch_size=50))
        amc.sample(
            logistic(N, 3), sampler, draws=1, tune=0, chains=3, random_seed=1, audit_every=None, progressbar=False
        )
        assert seen == [3]


class TestHashes:
    @pytest.fixture
    def large(self, monkeypatch):
        """Arrays of a kilobyte are large, and pieces of 80 bytes are read."""
        monkeypatch.setattr(hashing, "LARGE", 1000)
        monkeypatch.setattr(hashing, "PIECE", 80)

    def test_no_number_of_threads_changes_a_hash(self, large, monkeypatch):
        array, found = np.arange(300.0).reshape(-1, 3), set()
        for threads in ("1", "4"):
            monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
            found.add(content_hash(array))
        assert len(found) == 1

    @pytest.mark.thorough
    def test_one_bit_anywhere_changes_it(self, large):
        array = np.arange(300.0)
        hashes = {content_hash(array)}
        for place in range(300):
            other = array.copy()
            other[place] = np.nextafter(other[place], np.inf)
            hashes.add(content_hash(other))
        assert len(hashes) == 301

    def test_an_array_is_read_once_within_a_call_and_again_after_it(self, large):
        array = np.arange(300.0)
        with arrays_hashed_once():
            before = content_hash(array)
            array[7] += 1.0
            assert content_hash(array) == before
        assert content_hash(array) != before
