"""Blocks against rows and the exact test, a cached chain against an uncached one: equal bit for bit."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.order import VERSION
from approxmcmc.samplers.metropolis_hastings import program as metropolis_hastings_program
from approxmcmc.sampling import recorder
from approxmcmc.sampling.chain import CompiledChain
from tests.equivalence.test_sample import TARGET, assert_same, draw
from tests.pinned import pin

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
COSTS = ("perf_counter_diff", "thread_time_diff", "likelihood_evaluations")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of 32 rows: 300 data are 10 blocks, the last one ragged, shuffled anew every 200 decisions."""
    monkeypatch.setattr(metropolis_hastings_program, "block_size", lambda n_obs, first_look: 32)


def t_test(epsilon=0.1, batch_size=50, **settings):
    return amc.SequentialTTest(epsilon, batch_size, order="blocks", **settings)


@pytest.mark.parametrize(
    "test",
    [t_test(0.0), t_test(0.0, 7, growth=1.7), t_test(0.05, TARGET.n_obs), t_test(1e-300, 130)],
    ids=repr,
)
@pytest.mark.recompiles
def test_blocks_that_read_everything_are_the_exact_test(test):
    exact, blocks = draw(amc.ExactTest(), tune=250), draw(test, tune=250)
    np.testing.assert_array_equal(exact.posterior["beta"], blocks.posterior["beta"])
    np.testing.assert_array_equal(exact.sample_stats["accepted"], blocks.sample_stats["accepted"])
    assert (blocks.sample_stats["datapoints_touched"] == TARGET.n_obs).all()
    assert blocks.posterior.attrs["data_order"] == "blocks"


@pytest.mark.recompiles
def test_barker_blocks_that_read_everything_are_the_exact_test():
    exact, blocks = (
        draw(amc.ExactTest("barker")),
        draw(amc.acceptance.MinibatchBarker(batch_size=TARGET.n_obs, order="blocks")),
    )
    np.testing.assert_array_equal(exact.posterior["beta"], blocks.posterior["beta"])


@pytest.mark.recompiles
def test_an_early_stop_in_blocks_does_change_the_chain():
    """The companion of the equalities above and below: they could not hold by accident."""
    assert not draw(t_test()).posterior.equals(draw(amc.ExactTest()).posterior)
    assert not draw(t_test()).posterior.equals(draw(amc.SequentialTTest(0.1, 50, order="rows")).posterior)


TESTS = [t_test(), t_test(0.2, 37, growth=1.3), amc.acceptance.MinibatchBarker(batch_size=40, order="blocks")]


@pytest.mark.parametrize(
    "test", [*TESTS[:2], pytest.param(TESTS[2], marks=[pytest.mark.needs_jit, pytest.mark.recompiles])], ids=repr
)
def test_kept_terms_change_nothing_but_the_cost(test, monkeypatch):
    """A chain that forgets all kept terms before every decision evaluates everything, and draws the same."""
    kept = draw(test, chains=1, tune=0, draws=450, audit_every=7)
    advance = CompiledChain.advance

    def step_by_step(self, steps, thin, draws, counts, values):
        for done in range(steps):
            self.state.evidence.order.cursor[VERSION] += 1  # nothing kept is of this version
            one = slice(done, done + 1)
            if advance(self, 1, thin, draws[one], counts[one], values[one]) == 0:
                return done
        return steps

    monkeypatch.setattr(CompiledChain, "advance", step_by_step)
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
        monkeypatch.setattr(recorder, "CHUNK_SECONDS", 0.0)
        assert_same(whole, draw(t_test(), draws=300))

    def test_not_on_the_number_of_chains(self):
        assert_same(draw(t_test(), chains=1), draw(t_test(), chains=3).isel(chain=[0]))

    def test_not_on_audits(self):
        audits = (
            "decisions_audited",
            "wrong_decisions",
            "wrong_accepts",
            "audited_mu_std",
            "perf_counter_diff",
            "thread_time_diff",
        )
        assert_same(draw(t_test(), audit_every=None), draw(t_test(), audit_every=1), but=audits)

    def test_not_on_thinning(self):
        every, third = draw(t_test(), draws=300), draw(t_test(), draws=100, thin=3)
        np.testing.assert_array_equal(every.posterior["beta"][:, 2::3], third.posterior["beta"])


# Written down from a compiled run; plain Python draws the same.
PINNED = [
    ("569c2a7cca980dcc", [-0.6982249623391694, -0.12993259738887575, 0.5090601998177553]),
    ("27891f87292ac467", [-0.9683709631704698, 0.10942574878341621, 0.7872072346834114]),
    ("977cdaad6b29d4d7", [-0.48099775379926146, -0.16535759414471957, 0.597389920577569]),
]


@pytest.mark.parametrize(("test", "expected"), list(zip(TESTS, PINNED, strict=True)), ids=map(repr, TESTS))
def test_draws_are_the_same_with_and_without_compilation(test, expected):
    """Blocks are shuffled anew every 200 decisions."""
    trace = draw(test, chains=1, tune=0, draws=230, audit_every=3)
    records = [trace.sample_stats[name][0] for name in ("datapoints_touched", "likelihood_evaluations", "accepted")]
    assert pin(trace.posterior["beta"][0], *records) == expected


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


@pytest.mark.parametrize("dim", [1, 2, 7, 10, 17, 33, 50, 100])
def test_terms_at_two_thetas_are_those_at_each(rng, dim):
    """Bit for bit, so that a chain in blocks does not depend on which of its terms were kept."""
    target = amc.targets.LogisticRegression(rng.normal(size=(201, dim)), rng.integers(0, 2, 201)).compile()
    thetas = rng.normal(size=(2, dim))
    apart, together = np.empty((2, 201)), np.empty((2, 201))
    at_both = target.compile_at_both()
    for lo, hi in ((0, 201), (3, 200), (5, 6), (10, 13)):
        for theta, terms in zip(thetas, apart, strict=True):
            target.log_terms(theta, target.data, np.empty(0, np.int64), lo, hi, terms)
        at_both(*thetas, target.data, lo, hi, *together)
        np.testing.assert_array_equal(together[:, : hi - lo], apart[:, : hi - lo])


def test_only_the_terms_of_the_target_itself_are_read_in_one_pass(rng):
    """What a control variate leaves of a term is not what the target's kernel for two thetas computes."""
    target = amc.targets.LogisticRegression(rng.normal(size=(60, 3)), rng.integers(0, 2, 60))
    assert target.compile().compile_at_both is not None
    assert amc.ControlVariate(target).compile().compile_at_both is None
