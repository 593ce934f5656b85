"""Blocks against rows and the exact test, a cached chain against an uncached one: equal bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.order import VERSION
from approxmcmc.samplers import metropolis_hastings
from approxmcmc.sampling import driver
from tests.equivalence.test_sample import TARGET, assert_same, draw

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
COSTS = ("perf_counter_diff", "likelihood_evaluations")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of 32 rows: 300 data are 10 blocks, the last one ragged, shuffled anew every 200 decisions."""
    monkeypatch.setattr(metropolis_hastings, "block_size", lambda n_obs, first_look: 32)


def t_test(epsilon=0.1, batch_size=50, **settings):
    return amc.SequentialTTest(epsilon, batch_size, order="blocks", **settings)


@pytest.mark.parametrize(
    "test",
    [t_test(0.0), t_test(0.0, 7, growth=1.7), t_test(0.05, TARGET.n_obs), t_test(1e-300, 130)],
    ids=repr,
)
def test_blocks_that_read_everything_are_the_exact_test(test):
    exact, blocks = draw(amc.ExactTest(), tune=250), draw(test, tune=250)
    np.testing.assert_array_equal(exact.posterior["beta"], blocks.posterior["beta"])
    np.testing.assert_array_equal(exact.sample_stats["accepted"], blocks.sample_stats["accepted"])
    assert (blocks.sample_stats["datapoints_touched"] == TARGET.n_obs).all()
    assert blocks.posterior.attrs["data_order"] == "blocks"


def test_barker_blocks_that_read_everything_are_the_exact_test():
    exact, blocks = draw(amc.ExactTest("barker")), draw(amc.MinibatchBarker(batch_size=TARGET.n_obs, order="blocks"))
    np.testing.assert_array_equal(exact.posterior["beta"], blocks.posterior["beta"])


def test_an_early_stop_in_blocks_does_change_the_chain():
    """The companion of the equalities above and below: they could not hold by accident."""
    assert not draw(t_test()).posterior.equals(draw(amc.ExactTest()).posterior)
    assert not draw(t_test()).posterior.equals(draw(amc.SequentialTTest(0.1, 50, order="rows")).posterior)


TESTS = [t_test(), t_test(0.2, 37, growth=1.3), amc.MinibatchBarker(batch_size=40, order="blocks")]


@pytest.mark.parametrize("test", TESTS, ids=repr)
def test_kept_terms_change_nothing_but_the_cost(test, monkeypatch):
    """A chain that forgets all kept terms before every decision evaluates everything, and draws the same."""
    kept = draw(test, chains=1, tune=0, draws=450, audit_every=7)
    advance = metropolis_hastings.MetropolisHastingsChain.advance

    def step_by_step(self, n_draws, thin, draws, counts, values):
        for done in range(n_draws):
            self.order[4][VERSION] += 1  # nothing kept is of this version
            one = slice(done, done + 1)
            if advance(self, 1, thin, draws[one], counts[one], values[one]) == 0:
                return done
        return n_draws

    monkeypatch.setattr(metropolis_hastings.MetropolisHastingsChain, "advance", step_by_step)
    uncached = draw(test, chains=1, tune=0, draws=450, audit_every=7)
    assert_same(kept, uncached, but=COSTS)
    assert (uncached.sample_stats["likelihood_evaluations"] == 2 * uncached.sample_stats["datapoints_touched"]).all()
    evaluations = kept.sample_stats["likelihood_evaluations"].sum() / kept.sample_stats["datapoints_touched"].sum()
    assert 1.0 < evaluations < 1.95


class TestDrawsDependOnSeedAndChainAlone:
    def test_not_on_repetition_and_threads(self):
        assert_same(draw(t_test(), chains=4, cores=1), draw(t_test(), chains=4, cores=4))

    def test_not_on_chunks(self, monkeypatch):
        whole = draw(t_test(), draws=300)
        monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)
        assert_same(whole, draw(t_test(), draws=300))

    def test_not_on_the_number_of_chains(self):
        assert_same(draw(t_test(), chains=1), draw(t_test(), chains=3).isel(chain=[0]))

    def test_not_on_audits(self):
        audits = ("decisions_audited", "wrong_decisions", "wrong_accepts", "audited_mu_std", "perf_counter_diff")
        assert_same(draw(t_test(), audit_every=None), draw(t_test(), audit_every=1), but=audits)

    def test_not_on_thinning(self):
        every, third = draw(t_test(), draws=300), draw(t_test(), draws=100, thin=3)
        np.testing.assert_array_equal(every.posterior["beta"][:, 2::3], third.posterior["beta"])


RUN = """
import json, sys
from approxmcmc.samplers import metropolis_hastings
metropolis_hastings.block_size = lambda n_obs, first_look: 32
from tests.equivalence.test_data_order import TESTS
from tests.equivalence.test_sample import draw
traces = [draw(test, chains=1, tune=0, draws=230, audit_every=3) for test in TESTS]
names = ("datapoints_touched", "likelihood_evaluations", "accepted")
json.dump([[t.posterior["beta"].values.tolist(), *(t.sample_stats[n].values.tolist() for n in names)] for t in traces],
          sys.stdout)
"""


@pytest.mark.needs_jit
def test_without_the_jit_draws_are_the_same():
    outputs = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": str(Path(__file__).parents[2])}
        run = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True)
        outputs.append(json.loads(run.stdout))
    assert outputs[0] == outputs[1]


def test_a_term_does_not_depend_on_the_batch_that_reads_it(rng):
    """The equality of cached and uncached chains rests on this; odd and even batches, with and without an order."""
    target = amc.targets.LogisticRegression(rng.normal(size=(200, 50)), rng.integers(0, 2, 200)).compile()
    theta, places = rng.normal(size=50), np.arange(200)
    whole, part = np.empty(200), np.empty(200)
    target.log_terms(theta, target.data, np.empty(0, np.int64), 0, 200, whole)
    for lo, hi in ((0, 1), (3, 200), (5, 6), (10, 13), (17, 81), (0, 199)):
        for order in (np.empty(0, np.int64), places):
            target.log_terms(theta, target.data, order, lo, hi, part)
            np.testing.assert_array_equal(part[: hi - lo], whole[lo:hi])
