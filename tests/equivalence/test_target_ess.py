"""A run to a target ESS is the beginning of a longer run, thinned as that would be: bit by bit, whatever the clock."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.runs import RunPlan, carry_out
from approxmcmc.sampling import goals, recorder
from approxmcmc.sampling.assembly import Settings
from approxmcmc.sampling.goals import EffectiveDraws, Goal, ThinnedDraws
from tests.interrupts import interrupt_once_drawing
from tests.models import logistic

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")

TARGET = logistic()
WALK = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest())


def draw(sampler=WALK, target=TARGET, **settings):
    usual = {"tune": 20, "chains": 2, "random_seed": 5, "progressbar": False, "audit_every": None}
    return amc.sample(target, sampler, **usual | settings)


def assert_same(one, other, *, but=("perf_counter_diff", "thread_time_diff")):
    for name in one.posterior:
        np.testing.assert_array_equal(one.posterior[name], other.posterior[name])
    for name in set(one.sample_stats) - set(but):
        np.testing.assert_array_equal(one.sample_stats[name], other.sample_stats[name], err_msg=name)


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(goals, "BYTES", 0)
    monkeypatch.setattr(goals, "FEWEST_KEPT", 30)
    monkeypatch.setattr(goals, "KEPT_PER_EFFECTIVE", 1)


class TestDraws:
    @pytest.mark.needs_jit
    def test_are_the_beginning_of_a_longer_run(self):
        reached = draw(target_ess=40)
        n = reached.posterior.sizes["draw"]
        assert n > 100 and reached.posterior.attrs["ess_checks"] > 1
        assert_same(reached, draw(draws=n))
        longer = draw(draws=n + 37)
        np.testing.assert_array_equal(reached.posterior["beta"], longer.posterior["beta"][:, :n])

    def test_do_not_depend_on_threads_and_chunks(self, monkeypatch):
        one = draw(target_ess=40, cores=1)
        assert_same(one, draw(target_ess=40, cores=2))
        monkeypatch.setattr(recorder, "CHUNK_SECONDS", 0.0)
        assert_same(one, draw(target_ess=40, cores=2))

    @pytest.mark.needs_jit
    @pytest.mark.parametrize("thin", [1, 3])
    def test_thinned_to_bound_the_memory_are_those_of_a_thinned_run(self, thin, small_memory):
        reached = draw(target_ess=40, thin=thin)
        attrs, n = reached.posterior.attrs, reached.posterior.sizes["draw"]
        assert n <= 40 and attrs["thinned_by"] >= 8 and attrs["thin"] == thin * attrs["thinned_by"]
        assert_same(
            reached, draw(draws=n, thin=attrs["thin"]), but=("perf_counter_diff", "thread_time_diff", "acceptance_rate")
        )
        np.testing.assert_allclose(
            reached.sample_stats["acceptance_rate"],
            draw(draws=n, thin=attrs["thin"]).sample_stats["acceptance_rate"],
            rtol=1e-12,  # a mean of means, in another order
        )
        assert (reached.sample_stats["perf_counter_diff"] > 0.0).all()
        end = amc.diagnose(reached).set_index("check").loc["end of the run", "finding"]
        assert f"1 in {attrs['thinned_by']} of those made" in end

    @pytest.mark.needs_jit
    def test_end_at_the_target_and_not_before(self):
        reached = draw(target_ess=40)
        assert reached.posterior.attrs["smallest_ess"] >= 40.0
        assert amc.diagnose(reached).set_index("check").loc["target ESS", "verdict"] == "ok"
        higher = draw(target_ess=80)
        n = reached.posterior.sizes["draw"]
        assert higher.posterior.sizes["draw"] > n
        np.testing.assert_array_equal(higher.posterior["beta"][:, :n], reached.posterior["beta"])


@pytest.mark.recompiles
@pytest.mark.parametrize(
    "test",
    [
        amc.SequentialTTest(0.1, 50),
        amc.acceptance.MinibatchBarker(batch_size=50),
        amc.acceptance.AnnealedEpsilon((0.2, 0.1, 0.0), (20, 60), amc.SequentialTTest(batch_size=50)),
    ],
    ids=lambda test: type(test).__name__,
)
def test_records_of_every_second_draw_are_those_of_a_thinned_run(test):
    """All of them: what is added, the last that was written, the largest; audits leave theirs where they were."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(2.0), test)
    program = sampler.build(TARGET, audit_every=3)

    def record(rows, thin):
        [sequence], _ = seed_sequences(3, 1)
        kept = recorder.Recorder(program.start(np.zeros(3), streams(sequence), 0), 3, 0, thin, keep_warmup=False)
        kept.aim(Goal(rows))
        while not kept.finished:
            kept.advance()
        return kept

    ours, theirs = record(80, 1), record(40, 2).arrays(1, 40)
    ours.aim(Goal(80, 2))
    draws, counts, values = ours.arrays(1, 40)
    np.testing.assert_array_equal(draws, theirs[0])
    np.testing.assert_array_equal(counts, theirs[1])
    unclocked = ~np.isin(np.arange(values.shape[1]), [recorder.SECONDS, recorder.THREAD_SECONDS])
    np.testing.assert_array_equal(values[:, unclocked], theirs[2][:, unclocked])
    assert counts[:, recorder.ACCEPTED].min() == 0


class TestEnds:
    def test_a_cap_that_comes_first_is_told(self):
        with pytest.warns(SamplingWarning, match=r"target_ess=5000: the limit draws= came first"):
            capped = draw(target_ess=5000, draws=120)
        assert_same(capped, draw(draws=120))
        assert "target ESS" in capped.posterior.attrs["problems"]
        assert 0.0 < capped.posterior.attrs["smallest_ess"] < 5000.0

    def test_a_cap_of_no_draws(self):
        assert draw(target_ess=50, draws=0).posterior.sizes["draw"] == 0

    def test_a_time_limit_that_comes_first_is_told_and_keeps_the_draws(self):
        with pytest.warns(SamplingWarning, match="the time limit came first"):
            cut = draw(target_ess=1e9, time_limit=0.3)
        assert cut.posterior.attrs["stopped"] == "time_limit"
        n = cut.posterior.sizes["draw"]
        np.testing.assert_array_equal(cut.posterior["beta"], draw(draws=n).posterior["beta"])

    def test_an_interrupt_keeps_the_draws(self, monkeypatch):
        interrupt_once_drawing(monkeypatch, chains=2)
        with pytest.warns(SamplingWarning, match="the run was interrupted"):
            cut = draw(target_ess=1e9, time_limit=20.0)
        assert cut.posterior.attrs["stopped"] == "interrupt" and cut.posterior.sizes["draw"] > 0

    @pytest.mark.needs_jit
    def test_draws_alone_is_as_ever(self):
        assert draw(chains=1, tune=0).posterior.sizes["draw"] == 1000
        assert "target_ess" not in draw(draws=3).posterior.attrs

    @pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), "many"])
    def test_a_target_is_a_positive_number(self, bad):
        with pytest.raises(InvalidInputError, match="target_ess must be a positive number"):
            draw(target_ess=bad)


class TestGoals:
    """The schedule, on an ESS that is known."""

    def follow(self, rate, target=1000.0, most=float("inf"), chains=4, dim=2):
        """Return all goals of chains whose ESS is `rate` times the draws of all of them."""
        plan = EffectiveDraws(
            target, most, chains=chains, dim=dim, smallest_ess=lambda draws, enough: rate * chains * draws.shape[1]
        )
        reached, goal = [], plan.first()
        while goal is not None:
            reached.append(goal)
            goal = plan.after(goal, lambda goal=goal: np.empty((chains, goal.draws, dim)))
        return reached, plan

    @pytest.mark.parametrize("rate", [1.0, 0.3, 0.01, 0.0007])
    def test_it_ends_soon_after_enough_draws_and_in_few_checks(self, rate):
        reached, plan = self.follow(rate)
        enough = 1000.0 / (4 * rate)
        assert enough <= reached[-1].draws <= 1.25 * enough + 4 * reached[-1].every
        assert len(reached) <= 3 + np.log(1.0 / rate) / np.log(4.0)
        assert plan.expected[0] >= enough - 1

    def test_goals_are_pairs_of_kept_draws_and_bounded(self, small_memory):
        reached, plan = self.follow(0.001)
        assert plan.capacity == 252
        for goal in reached:
            assert goal.draws % (4 * goal.every) == 0 and goal.draws // goal.every <= plan.capacity
        assert [goal.every for goal in reached] == sorted(goal.every for goal in reached)
        assert reached[-1].draws >= 250_000

    def test_a_cap_is_kept_to_the_draw(self):
        reached, _ = self.follow(1e-9, most=777)
        assert reached[-1] == Goal(777, 1)

    def test_a_million_draws_are_a_few_megabytes(self):
        assert goals.capacity(50, 100.0) * 8 * (50 + 30) < 2**25
        assert goals.capacity(50, 1e6) >= 4e6  # of which one asked for so many
        assert goals.capacity(10**6, 1.0) == goals.FEWEST_KEPT
        assert goals.capacity(3, 7.0) % goals.HALVED == 0


class TestThinnedDraws:
    """A number of draws that is kept, and thinned until it says enough."""

    def test_they_are_those_of_a_thinned_run(self):
        asked = Settings(draws=20, tune=20, chains=2, thin=3, seed=5, audit_every=None, enough=1e9)
        thinned, _ = carry_out(RunPlan(TARGET, WALK, asked, TARGET.content_hash()), None, cores=1, progressbar=False)
        assert thinned.posterior.attrs["thinned_by"] == 4 and thinned.posterior.attrs["thin"] == 12
        assert_same(thinned, draw(draws=20, thin=12), but=("perf_counter_diff", "thread_time_diff", "acceptance_rate"))

    @pytest.mark.parametrize(("rate", "every"), [(0.5, 1), (0.06, 2), (0.01, 16), (0.001, 16), (0.0, 1)])
    def test_they_are_thinned_no_further_than_they_need_be(self, rate, every):
        """Of 4000 draws 400 are to be effective; without any movement nothing is gained."""
        plan = ThinnedDraws(1000, 400, lambda draws, enough: rate * draws.size)
        goal = plan.first()
        while (there := plan.after(goal, lambda goal=goal: np.empty((4, goal.draws, 1)))) is not None:
            assert there.draws == 1000 * there.every == 2 * goal.draws
            goal = there
        assert plan.found(np.empty((4, 1000, 1))) == {"thinned_by": every} and goal.every == every

    @pytest.mark.parametrize(
        ("seconds", "most"), [(0.01, 1024), (1.0, 32), (30.0, 16), (100.0, 4), (600.0, 1), (1e5, 1), (np.inf, 4)]
    )
    def test_a_long_run_is_not_made_many_times_as_long(self, seconds, most):
        """All steps take at most 60 seconds of counted work beyond a factor of 16, and 600 below; unknown work: 4."""
        assert goals.most_thinning(seconds / 4000, 4000) == most

    @pytest.mark.parametrize(
        ("factor", "affordable", "every"),
        [(4.0, 8.0, 16), (6.0, 30.0, 4), (6.0, 96.0, 16), (6.0, 11.0, 1), (5.0, 0.0, 1), (6.0, math.inf, 16)],
    )
    def test_expensive_steps_are_thinned_no_further_than_a_minute_allows(self, factor, affordable, every):
        plan = ThinnedDraws(1000, 400, lambda *_: 1.0, affordable=affordable)
        plan.steps_cost(factor)
        goal = plan.first()
        while (longer := plan.after(goal, lambda: np.empty((4, 1, 1)))) is not None:
            goal = longer
        assert goal.every == every and goal.draws == plan.most

    @pytest.mark.parametrize(("agrees_at", "most", "every"), [(1, 16, 1), (4, 16, 4), (32, 16, 16), (32, 64, 32)])
    def test_they_go_on_until_chains_agree(self, agrees_at, most, every):
        """All of them are effective ones; up to a thinning that follows from counted work."""
        draws = {"now": 1000}
        plan = ThinnedDraws(1000, 400, lambda *_: 4000.0, lambda _: draws["now"] >= 1000 * agrees_at, most)
        goal = plan.first()
        while (there := plan.after(goal, lambda: np.empty((4, 1, 1)))) is not None:
            goal, draws["now"] = there, there.draws
        assert goal.every == plan.every == every

    @pytest.mark.parametrize(
        ("ess", "agree", "every"),
        [
            ([5, 5, 6], False, 4),
            ([5, 9, 16, 30, 60], False, 16),
            ([5, 5, 6, 6, 6], True, 16),
            ([21, 21, 22], False, 16),
        ],
    )
    def test_chains_in_different_modes_are_not_made_longer(self, ess, agree, every):
        """Four chains that disagree, whose few effective draws do not grow with their length, end at once."""
        found = iter([*ess, *[ess[-1]] * 5])
        plan = ThinnedDraws(1000, 400, lambda *_: float(next(found)), lambda _: agree)
        goal = plan.first()
        while (there := plan.after(goal, lambda: np.empty((4, 1, 1)))) is not None:
            goal = there
        assert plan.every == every


@pytest.mark.recompiles
def test_weighted_draws_are_refused():
    sampler = amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(amc.proposals.DecreasingStep(0.1, 1.0, 0.7), 10),
        amc.acceptance.AlwaysAccept(),
    )
    with pytest.raises(IncompatibleError, match="this sampler weights its draws; give draws= or time_limit="):
        draw(sampler, target_ess=10)
