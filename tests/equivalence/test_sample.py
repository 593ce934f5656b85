"""Runs that must be equal bit for bit."""

import math
import time

import numpy as np
import pytest

from approxmcmc.acceptance import AlwaysAccept, ExactTest, SequentialTTest
from approxmcmc.api import sample
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import SamplingWarning
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.sampling import recorder
from approxmcmc.targets import FunctionTarget
from tests.models import logistic
from tests.pinned import pin

# Batches far below 500 make the terms look heavy-tailed, which these tests are not about.
pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")

TARGET = logistic()
SEED = 20140621


def draw(test, target=TARGET, proposal=None, **settings):
    usual = {"draws": 60, "tune": 20, "chains": 2, "random_seed": SEED, "progressbar": False, "audit_every": 9}
    arguments = usual | settings  # "auto" counts its audits by the clock
    return sample(target, MetropolisHastings(proposal or RandomWalk(0.2), test), **arguments)


def assert_same(one, other, *, but=("perf_counter_diff", "thread_time_diff")):
    np.testing.assert_array_equal(one.posterior["beta"], other.posterior["beta"])
    for name in set(one.sample_stats) - set(but):
        np.testing.assert_array_equal(one.sample_stats[name], other.sample_stats[name], err_msg=name)


@pytest.mark.parametrize(
    "test",
    [
        SequentialTTest(epsilon=0.0, batch_size=50),
        SequentialTTest(epsilon=0.0, batch_size=7, growth=1.7),
        SequentialTTest(epsilon=0.05, batch_size=TARGET.n_obs),
        SequentialTTest(epsilon=0.05, batch_size=10 * TARGET.n_obs),
        SequentialTTest(epsilon=1e-300, batch_size=150),  # looks early, never stops early
    ],
    ids=repr,
)
def test_a_sequential_test_that_reads_everything_is_the_exact_test(test):
    exact, sequential = draw(ExactTest()), draw(test)
    np.testing.assert_array_equal(exact.posterior["beta"], sequential.posterior["beta"])
    np.testing.assert_array_equal(exact.sample_stats["accepted"], sequential.sample_stats["accepted"])
    np.testing.assert_allclose(
        exact.sample_stats["acceptance_rate"], sequential.sample_stats["acceptance_rate"], rtol=1e-9
    )
    assert (sequential.sample_stats["datapoints_touched"] == TARGET.n_obs).all()


def test_an_early_stop_does_change_the_chain():
    """The companion of the equalities above: they could not hold by accident."""
    assert not draw(ExactTest()).posterior.equals(draw(SequentialTTest(0.3, 20)).posterior)


@pytest.mark.parametrize("test", [ExactTest(), SequentialTTest(0.1, 50), AlwaysAccept()], ids=repr)
class TestDrawsDependOnSeedAndChainAlone:
    def test_not_on_repetition(self, test):
        assert_same(draw(test), draw(test))

    def test_not_on_threads(self, test):
        assert_same(draw(test, chains=4, cores=1), draw(test, chains=4, cores=4))

    def test_not_on_chunks(self, test, monkeypatch):
        whole = draw(test)
        monkeypatch.setattr(recorder, "CHUNK_SECONDS", 0.0)
        assert_same(whole, draw(test))

    def test_not_on_the_number_of_chains(self, test):
        assert_same(draw(test, chains=1), draw(test, chains=3).isel(chain=[0]))

    def test_not_on_audits(self, test):
        audits = (
            "decisions_audited",
            "wrong_decisions",
            "wrong_accepts",
            "audited_mu_std",
            "perf_counter_diff",
            "thread_time_diff",
        )
        assert_same(draw(test, audit_every=None), draw(test, audit_every=1), but=audits)

    def test_not_on_what_is_kept(self, test):
        kept = draw(test, discard_tuned_samples=False)
        assert kept.warmup_posterior.sizes["draw"] == 20
        assert_same(kept, draw(test))


def test_a_failure_ends_every_chain_at_the_same_draw(monkeypatch):
    """The first chain to meet a NaN keeps all that it drew and the others as many, whatever ran when it happened."""
    target = FunctionTarget(
        lambda theta, data, i: 0.0,
        lambda theta: math.nan if theta[0] > 2.0 else 0.0,
        data=np.ones(1),
        n_obs=1,
        dim=1,
        var_names="beta",
    )

    start = {"chains": 3, "tune": 0, "initvals": np.array([[-4.0], [0.0], [-2.0]])}

    def fail(cores, draws=50_000):
        with pytest.warns(SamplingWarning, match="log prior is NaN"):
            return draw(ExactTest(), target, draws=draws, cores=cores, **start)

    one = fail(cores=1)
    kept, failure = one.posterior.sizes["draw"], one.posterior.attrs["failure"]
    assert_same(one, fail(cores=3))
    assert fail(cores=2, draws=kept + 1).posterior.attrs["failure"] == failure
    assert draw(ExactTest(), target, draws=kept, **start).posterior.attrs["stopped"] == ""
    monkeypatch.setattr(recorder, "CHUNK_SECONDS", 1e-5)
    short = fail(cores=2)
    assert_same(one, short)
    assert short.posterior.attrs["failure"] == failure


def test_chunks_within_draws_leave_no_trace(monkeypatch):
    """Draws of seven steps, whole in their chunks and one step to a chunk: all records are equal, bit by bit."""
    settings = {"draws": 20, "thin": 7, "audit_every": 2}
    whole = draw(SequentialTTest(0.1, 50), **settings)
    monkeypatch.setattr(recorder, "CHUNK_SECONDS", 0.0)
    assert_same(whole, draw(SequentialTTest(0.1, 50), **settings))


def test_a_time_limit_is_noticed_within_a_draw():
    """A draw of 10^7 steps takes minutes; the limit is a fifth of a second."""
    began = time.perf_counter()
    trace = draw(ExactTest(), draws=2, tune=0, thin=10**7, time_limit=0.2, chains=1, audit_every=None)
    assert trace.posterior.attrs["stopped"] == "time_limit" and trace.posterior.sizes["draw"] == 0
    assert time.perf_counter() - began < 30.0


def test_thinning_keeps_every_kth_state_and_adds_up_costs():
    test = SequentialTTest(0.1, 50)
    every, third = draw(test, draws=60, audit_every=2), draw(test, draws=20, thin=3, audit_every=2)
    np.testing.assert_array_equal(every.posterior["beta"][:, 2::3], third.posterior["beta"])
    np.testing.assert_array_equal(every.sample_stats["accepted"][:, 2::3], third.sample_stats["accepted"])
    for name in ("datapoints_touched", "likelihood_evaluations", "decisions_made", "wrong_decisions"):
        summed = every.sample_stats[name].values.reshape(2, 20, 3).sum(axis=2)
        np.testing.assert_array_equal(summed, third.sample_stats[name], err_msg=name)


def test_always_accept_is_the_proposal_chain():
    trace = draw(AlwaysAccept(), chains=1, tune=0, initvals=np.zeros(3))
    sequences, _ = seed_sequences(SEED, 1)
    steps = 0.2 * streams(sequences[0]).proposal.standard_normal((60, 3))
    np.testing.assert_allclose(trace.posterior["beta"][0], np.cumsum(steps, axis=0), rtol=1e-12)


@pytest.mark.parametrize("shape", [pytest.param("vector", marks=pytest.mark.recompiles), "matrix"])
def test_equal_scales_in_three_spellings_walk_alike(shape):
    scale = {"vector": [0.2, 0.2, 0.2], "matrix": 0.04 * np.eye(3)}[shape]
    np.testing.assert_allclose(
        draw(ExactTest(), proposal=RandomWalk(scale)).posterior["beta"], draw(ExactTest()).posterior["beta"], rtol=1e-12
    )


def test_adaptation_is_frozen_after_tuning():
    """Draws after tuning equal those of a fixed walk with the adapted scale, started where tuning ended."""
    tuned = draw(
        ExactTest(), chains=1, tune=200, proposal=RandomWalk(5.0, target_acceptance=0.3), discard_tuned_samples=False
    )
    factor = float(np.atleast_1d(tuned.posterior.attrs["adapted_scale_factor"])[0])
    assert factor < 0.5  # a scale of 5 accepts next to nothing here
    steps = np.diff(tuned.posterior["beta"][0], axis=0)
    fixed = draw(ExactTest(), chains=1, tune=200, proposal=RandomWalk(5.0 * factor), draws=1)
    assert fixed.posterior.sizes["draw"] == 1
    sequences, _ = seed_sequences(SEED, 1)
    normals = streams(sequences[0]).proposal.standard_normal((260, 3))[200:]
    moved = tuned.sample_stats["accepted"][0].values[1:]
    np.testing.assert_allclose(steps[moved], 5.0 * factor * normals[1:][moved], rtol=1e-9)


# Written down from a compiled run; plain Python draws the same.
PINNED = {
    "exact": (ExactTest(), ("80183510d3f33076", [-1.1058982445043555, -0.14335596115706878, 0.9112949155168932])),
    "barker": (
        ExactTest("barker"),
        ("9847bcde0a56cb2d", [-1.057498572845389, -0.1772091837153747, 1.066182240059127]),
    ),
    "sequential": (
        SequentialTTest(0.1, 50),
        ("2bb5758628e67fea", [-1.1068970824261306, -0.11524278982804541, 0.8427212673421456]),
    ),
    "always": (AlwaysAccept(), ("553f47a87d396707", [-0.6753804158612204, -0.49093024456291495, 2.7294387532357156])),
}


@pytest.mark.parametrize("name", PINNED)
def test_draws_are_the_same_with_and_without_compilation(name):
    test, expected = PINNED[name]
    trace = draw(test, chains=1, audit_every=3)
    stats = trace.sample_stats
    assert pin(trace.posterior["beta"][0], stats["datapoints_touched"][0], stats["accepted"][0]) == expected
