"""Replicated decisions: what is read and counted, pairs outside the support, data of probability 0, and what is not known."""

import contextlib
import math
from types import SimpleNamespace

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import AlwaysAccept, ExactTest, MinibatchBarker, SequentialTTest
from approxmcmc.bounds import delta, estimate_delta
from approxmcmc.bounds.acceptance_law import gaussian_probability
from approxmcmc.bounds.replication import _pair, _probabilities, visited_states
from approxmcmc.errors import InvalidInputError
from tests.models import logistic

pytestmark = pytest.mark.recompiles
N, REPLICATIONS = 12, 10
FIELD = amc.targets.BinaryMRF.random_triples(5, scale=0.5, random_seed=0)
WALL = 1.0


def loglik(theta, data, i):
    """Return log N(x_i | theta, 1), and probability 0 of the data beyond 9."""
    x = data[0][i]
    return -0.5 * (x - theta[0]) ** 2 if x < 9.0 else (0.0 if theta[0] < 0.5 else -math.inf)


def within_the_wall(theta):
    return -0.5 * theta[0] ** 2 if abs(theta[0]) < WALL else -math.inf


def walled(x):
    return amc.Target(loglik, within_the_wall, data=np.asarray(x, dtype=float), n_obs=len(x), dim=1)


X = np.random.default_rng(0).normal(size=N)
READ_ALL = SequentialTTest(0.1, N)


def estimated(target, sampler, **settings):
    given = {"n_pairs": 3, "replications": REPLICATIONS, "random_seed": 1, "progressbar": False}
    return estimate_delta(target, sampler, **given | settings)


def test_outside_the_support_nothing_is_asked_or_read():
    """Steps of 50 from three states all leave it; with them the exact probability is 0, and so are error and accepts."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(50.0), READ_ALL)
    found = estimated(walled(X), sampler, states=np.array([[0.0], [0.1], [-0.2]]))
    assert found.attrs["datapoints_touched"] == 0 and found.attrs["likelihood_evaluations_exact"] == 2 * N * 3
    for name, value in {"log_ratio": -math.inf, "tau": 0.0, "exact": 0.0, "accepted": 0, "error_model": 0.0}.items():
        assert (found[name] == value).all(), name


def test_inside_it_every_decision_is_booked():
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), READ_ALL)
    found = estimated(walled(X), sampler, states=np.array([[0.0], [0.1], [-0.2]]))
    assert found.attrs["datapoints_touched"] == N * REPLICATIONS * 3
    assert (found["tau"] > 0.0).all() and (found["tau"] < 1.0).all()
    np.testing.assert_allclose(found["error_model"], 0.0, atol=1e-12)


def test_data_of_probability_0_are_read_until_they_are_seen():
    """Beyond 1/2 the last datum is impossible: refused for sure, and by its own decision each time."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.3), SequentialTTest(0.1, 3))
    found = estimated(walled([*X[:2], 10.0]), sampler, n_pairs=8, states=np.full((8, 1), 0.4))
    beyond = np.isneginf(found["log_ratio"].values) & np.isposinf(found["tau"].values)
    assert beyond.any() and not beyond.all() and not found["accepted"].values[beyond].any()
    inside = found["tau"].values > 0.0
    assert found.attrs["datapoints_touched"] == 3 * REPLICATIONS * int(inside.sum())


def test_a_chain_that_is_thinned_beyond_one_call_comes_to_its_end():
    calls = []

    def advance(n, every, draws, counts, values):
        draws[:] = len(calls)
        calls.append((n, every))
        return n

    chain = SimpleNamespace(advance=advance)
    assert visited_states(chain, 3, 2, 5000, 1).ravel().tolist() == [1.0, 2.0]
    assert calls == [(3, 1), (1, 5000), (1, 5000)]


def test_equal_terms_are_asked_too():
    """Of data without influence tau is 0, and the prior decides."""
    flat = amc.Target(lambda theta, data, i: 0.0, within_the_wall, data=X, n_obs=N, dim=1)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), READ_ALL)
    found = estimated(flat, sampler, states=np.zeros((3, 1)))
    assert found["tau"].values.tolist() == [0.0] * 3 and (found["accepted"] >= REPLICATIONS - 1).all()


def test_progress_counts_pairs_and_sites(monkeypatch):
    shown = []

    class Shown:
        update = staticmethod(shown.append)

    monkeypatch.setattr(delta, "progress", lambda *given, **settings: contextlib.nullcontext(Shown))
    estimated(walled(X), amc.MetropolisHastings(amc.RandomWalk(0.01), READ_ALL), states=np.zeros((3, 1)))
    estimated(FIELD, amc.Gibbs(SequentialTTest(0.1, 3)), states=np.zeros((3, 5)))
    assert shown == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("test", [SequentialTTest(0.1, 3), MinibatchBarker(batch_size=3, temperature=2.0)], ids=repr)
def test_sites_are_judged_by_their_conditionals(test):
    """The Gaussian regime is known of a t-test, and of no Barker test with a temperature."""
    found = estimated(FIELD, amc.Gibbs(test), states=np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0], [1, 0, 1, 1, 1]]))
    exact = 1.0 / (1.0 + np.exp(-found["log_ratio"].values))
    np.testing.assert_allclose(found["exact"], exact, rtol=1e-12)
    n = FIELD.compile_conditionals(fields=False).n_terms[0]
    if isinstance(test, MinibatchBarker):
        assert np.isnan(found["error_model"]).all()
    else:
        model = gaussian_probability(test, found["log_ratio"].values, found["tau"].values, int(n), "barker")
        np.testing.assert_allclose(found["error_model"], model - exact, atol=1e-12)
    assert found.attrs["likelihood_evaluations_exact"] == 2 * n * 3
    assert 3 * REPLICATIONS * 3 <= found.attrs["datapoints_touched"] <= n * REPLICATIONS * 3


def test_sites_that_read_all_read_all():
    found = estimated(FIELD, amc.Gibbs(SequentialTTest(0.1, 6)), states=np.zeros((3, 5)))
    n = FIELD.compile_conditionals(fields=False).n_terms[0]
    assert found.attrs["datapoints_touched"] == n * REPLICATIONS * 3


class TestPair:
    def test_of_all_data(self):
        target = logistic(30)
        theta, proposed = np.zeros(3), np.array([0.1, -0.2, 0.3])
        sign = np.where(target.y > 0, 1.0, -1.0)
        terms = math.log(2.0) - np.log1p(np.exp(-sign * (target.X @ proposed)))
        prior = target.compile().log_prior
        log_ratio, tau = _pair(target.compile(), READ_ALL, theta, proposed, 0.7)
        assert log_ratio == pytest.approx(terms.sum() + prior(proposed) - prior(theta) + 0.7, rel=1e-10)
        assert tau == pytest.approx(math.sqrt(30) * terms.std(ddof=1), rel=1e-10)

    def test_outside_the_prior(self):
        assert _pair(walled(X).compile(), READ_ALL, np.zeros(1), np.array([2.0]), 0.0) == (-math.inf, 0.0)

    def test_where_a_datum_has_probability_0(self):
        """There it is refused for sure; from there no exact chain starts."""
        model, possible, impossible = walled([0.0, 1.0, 10.0]).compile(), np.array([0.2]), np.array([0.7])
        with np.errstate(invalid="ignore"):
            log_ratio, tau = _pair(model, READ_ALL, possible, impossible, 0.0)
        assert log_ratio == -math.inf and not tau == 0.0
        with pytest.raises(InvalidInputError, match="datum 2 has probability 0"):
            _pair(model, READ_ALL, impossible, possible, 0.0)


@pytest.mark.parametrize(
    ("test", "log_ratio", "tau", "expected"),
    [
        (AlwaysAccept(), math.log(0.25), 1.0, (0.25, 0.75)),
        (ExactTest(), math.log(0.25), 1.0, (0.25, 0.0)),
        (ExactTest(), -math.inf, 0.0, (0.0, 0.0)),
        (ExactTest(), -math.inf, math.inf, (0.0, math.nan)),
        (MinibatchBarker(batch_size=5, temperature=2.0), 0.0, 1.0, (0.5, math.nan)),
    ],
    ids=lambda value: repr(value) if not isinstance(value, tuple) else "",
)
def test_probability_and_error_of_the_regime(test, log_ratio, tau, expected):
    exact, accepted, error = _probabilities(test, log_ratio, tau, 100, 7)
    assert accepted == 7
    np.testing.assert_allclose((exact, error), expected, rtol=1e-12)
