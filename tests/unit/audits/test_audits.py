"""Audits of finished chains: how many, what they record, and that nothing else depends on them."""

import itertools
import math
import time
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import runs
from approxmcmc.audits import policy as audits
from approxmcmc.audits.policy import audit_draws, number_of_audits, time_for_draws
from approxmcmc.audits.replication import DECISIONS, ORDERS, by_decision, by_threshold_form
from approxmcmc.audits.steps import (
    Judge,
    TestedSteps as AuditsOfATest,  # pytest takes a class Test... for tests
    WalkedSteps,
    kurtosis_of,
    of_a_walk,
)
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Auditor, SamplingResult
from approxmcmc.engine.streams import streams
from approxmcmc.engine.terms.term_table import Partition, table_of_terms
from approxmcmc.errors import SamplingWarning
from approxmcmc.sampling.chain import Loop
from tests.models import logistic, normal_loglik, normal_logprior, normal_mean
from tests.planting import plain

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
RUN = {"draws": 60, "tune": 20, "chains": 2, "random_seed": 7, "progressbar": False}
WALK = amc.RandomWalk(0.2)


class TestNumber:
    @pytest.mark.parametrize(
        ("seconds", "of_one", "draws", "expected"),
        [
            (100.0, 0.01, 10**6, 1000),  # a tenth of the time
            (5.0, 0.01, 10**6, 100),  # at least 100
            (0.5, 0.01, 10**6, 50),  # as many as fit in the sampling time
            (0.001, 0.1, 10**6, 20),  # but 20
            (0.001, 0.0025, 10**6, 120),  # as many as fit in .3 s
            (0.001, 0.01, 10**6, 50),  # the 50 that a verdict needs
            (0.001, 0.025, 10**6, 40),  # or as many of them as fit in 1 s
            (0.001, 0.0001, 10**6, 400),  # and 400 are plenty
            (100.0, 0.01, 30, 30),  # one for each draw
        ],
    )
    def test_rule(self, seconds, of_one, draws, expected):
        assert number_of_audits(seconds, of_one, draws) == expected

    def test_the_tenth_pays_for_the_pilot(self):
        assert number_of_audits(100.0, 0.01, 10**6, pilot=1.0) == 900

    def test_a_sampler_of_our_choice_gets_the_audits_that_were_in_its_price(self):
        assert [number_of_audits(0.1, 1.0, 4000, fewest=fewest) for fewest in (20, 50)] == [20, 50]


class By(Auditor):
    """Audits by a function."""

    def __init__(self, audit):
        self.audit = audit

    def __call__(self, theta, number):
        return self.audit(theta, number)


class Clock:
    """A clock that audits alone move."""

    def __init__(self, monkeypatch, seconds=0.01):
        self.now, self.seconds, self.audited = 0.0, seconds, []
        monkeypatch.setattr(audits, "time", types.SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(audits, "limit_clock", lambda: self.now)

    def auditor(self, draws):
        def audit(theta, number):
            self.now += self.seconds
            self.audited.append((float(theta[0]), number))
            return {"decisions_audited": 1, "audited_acceptance": 0.5}

        return By(audit)


def result(n_draws=1000, seconds=10.0):
    draws = np.arange(2.0 * n_draws).reshape(2, n_draws, 1)
    stats = {"decisions_audited": np.zeros((2, n_draws), np.int64)}
    return SamplingResult(draws, stats, None, None, {}, {"sampling_time": seconds})


class TestPolicy:
    def run(self, clock, given=None, **settings):
        chains = [types.SimpleNamespace(auditor=clock.auditor)] * 2
        settings = {"tune": 5, "thin": 3} | settings
        return audit_draws(given or result(), chains, np.random.default_rng(0), **settings)

    def test_a_systematic_sample_over_chains_and_draws(self, monkeypatch):
        clock = Clock(monkeypatch)
        found = self.run(clock)
        audited = np.flatnonzero(found.stats["decisions_audited"])
        assert len(audited) == found.attrs["audits"] == 100
        assert (np.diff(audited) == 20).all()
        assert found.attrs["audit_every"] == 60 and found.attrs["audit_policy"] == "auto"
        np.testing.assert_array_equal(np.isfinite(found.stats["audited_acceptance"]).ravel().nonzero()[0], audited)
        assert all(number == 5 + (int(theta) % 1000 + 1) * 3 for theta, number in clock.audited)

    def test_a_tenth_of_the_time_with_the_pilot(self, monkeypatch):
        clock = Clock(monkeypatch, 0.001)
        found = self.run(clock, result(5000))
        assert found.attrs["audit_seconds"] == clock.now == pytest.approx(1.0, abs=0.002)
        assert found.attrs["audits"] == pytest.approx(980, abs=1)

    def test_the_order_is_random_so_that_a_cut_spares_no_part(self, monkeypatch):
        clock = Clock(monkeypatch)
        found = self.run(clock, deadline=0.5)
        assert clock.now <= 0.5
        places = np.flatnonzero(found.stats["decisions_audited"])
        assert 30 < len(places) == found.attrs["audits"] < found.attrs["audits_planned"]
        assert 700 < places.mean() < 1300 and places.min() < 300 and places.max() > 1700

    def test_none_after_the_deadline(self, monkeypatch):
        clock = Clock(monkeypatch)
        found = self.run(clock, deadline=-1.0)
        assert clock.audited == [] and found.attrs["audits"] == found.attrs["audit_every"] == 0

    def test_an_interrupt_keeps_what_was_made(self, monkeypatch):
        clock, left = Clock(monkeypatch), itertools.count()

        def auditor(draws):
            audit = clock.auditor(draws)

            def interrupted(theta, number):
                if next(left) > 60:
                    raise KeyboardInterrupt
                return audit(theta, number)

            return By(interrupted)

        chains = [types.SimpleNamespace(auditor=auditor)] * 2
        found = audit_draws(result(), chains, np.random.default_rng(0), tune=0, thin=1)
        assert 40 < found.attrs["audits"] == found.stats["decisions_audited"].sum() < 60

    def test_a_model_that_raises_costs_its_audit_alone(self, monkeypatch):
        clock = Clock(monkeypatch, seconds=1e-4)  # so that 400 audits are planned on a busy machine, too

        def auditor(draws):
            def audit(theta, number):
                clock.now += clock.seconds
                if theta[0] % 300 < 150:
                    raise ZeroDivisionError
                return {"decisions_audited": 1}

            return By(audit)

        chains = [types.SimpleNamespace(auditor=auditor)] * 2
        with pytest.warns(SamplingWarning, match="the first a ZeroDivisionError in audit, test_audits.py") as told:
            found = audit_draws(result(seconds=0.0), chains, np.random.default_rng(0), tune=0, thin=1)
        assert (
            0 < found.stats["decisions_audited"].sum() == found.attrs["audits"] < found.attrs["audits_planned"] == 400
        )
        assert f"{found.attrs['audits']} of 400 planned audits succeeded" in str(told[0].message)

    def test_chains_without_auditors_are_left_alone(self):
        given, chains = result(), [types.SimpleNamespace(auditor=None)] * 2
        assert audit_draws(given, chains, np.random.default_rng(0), tune=0, thin=1) is given
        assert time_for_draws(11.0, chains) == 11.0

    def test_audits_get_their_part_of_a_time_limit(self, monkeypatch):
        chains = [types.SimpleNamespace(auditor=Clock(monkeypatch).auditor)] * 2
        assert time_for_draws(11.0, chains) == pytest.approx(10.0) and time_for_draws(None, chains) is None


SAMPLERS = {
    "t-test": amc.MetropolisHastings(WALK, amc.SequentialTTest(0.1, 50)),
    "blocks": amc.MetropolisHastings(WALK, amc.SequentialTTest(0.1, 50, order="blocks")),
    "MALA": amc.MetropolisHastings(amc.Langevin(0.02), amc.SequentialTTest(0.1, 50, tol=0.1)),
    "tuned": amc.MetropolisHastings(amc.RandomWalk(0.2, target_acceptance=0.4), amc.SequentialTTest(0.1, 50)),
    "Barker": amc.MetropolisHastings(WALK, amc.acceptance.MinibatchBarker(batch_size=50)),
    "epochs": amc.MetropolisHastings(
        WALK, amc.acceptance.AnnealedEpsilon((0.1, 0.0), (40,), amc.SequentialTTest(batch_size=50))
    ),
    "SGLD": amc.MetropolisHastings(amc.proposals.StochasticGradientLangevin(1e-3, 20), amc.acceptance.AlwaysAccept()),
}
QUICK = ("t-test",)  # the others cost seconds of compilation each


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.recompiles) for n in SAMPLERS]
)
def test_draws_and_costs_do_not_depend_on_audits(name):
    target, sampler = logistic(), SAMPLERS[name]
    audited, plain = (amc.sample(target, sampler, audit_every=every, **RUN) for every in ("auto", None))
    np.testing.assert_array_equal(audited.posterior["beta"], plain.posterior["beta"])
    for record in ("datapoints_touched", "likelihood_evaluations", "decisions_made", "accepted"):
        np.testing.assert_array_equal(audited.sample_stats[record], plain.sample_stats[record])
    assert audited.posterior.attrs["audits"] >= 20 and "audits" not in plain.posterior.attrs
    alpha = audited.sample_stats["audited_acceptance"].values
    made = np.isfinite(alpha)
    assert made.sum() == audited.posterior.attrs["audits"] and ((alpha[made] >= 0.0) & (alpha[made] <= 1.0)).all()
    assert 0.02 < alpha[made].mean() < 0.98


@pytest.mark.parametrize(("given", "every"), [("auto", 0), (None, 0), (7, 7)])
def test_an_integer_alone_audits_decisions_in_the_kernel(given, every):
    program = SAMPLERS["t-test"].build(logistic(), audit_every=given)
    assert program.attrs["audit_every"] == every and program.audit_probability == (1.0 / every if every else 0.0)


@pytest.mark.parametrize(("n_obs", "apart"), [(40, 10), (7, 1), (3, 1)])
def test_the_orders_of_an_audit_begin_as_far_apart_as_they_can(n_obs, apart):
    seen, table = [], table_of_terms(n_obs, 1)
    judge = types.SimpleNamespace(
        table=table, rule="metropolis", temperature=1.0, replicate=lambda *arguments: seen.append(arguments[-1])
    )
    test, state = types.SimpleNamespace(threshold_form=True, state_at=None), types.SimpleNamespace(test=None)
    given = types.SimpleNamespace(test=test, judge=judge, rng=np.random.default_rng(1), state=state, partition=None)
    AuditsOfATest.decide(given, np.zeros(1), np.ones(1), np.ones(n_obs), 0.0, 0, 4)
    assert (np.diff(seen[0]) % n_obs == apart).all() and seen[0][0] == 0


def test_an_audit_says_what_the_test_would_have_done():
    """Over three orders, Lambda = 0: errors of -0.5, 0 and -0.2, and one decision at log u = -0.1, wrongly rejected."""
    given = types.SimpleNamespace(
        judge=types.SimpleNamespace(rule="metropolis"), test=types.SimpleNamespace(records=("audited_mu_std",))
    )
    log_ratios = np.log([0.5, 1.0, 0.8])
    found = AuditsOfATest.of_the_test(given, 0.0, np.array([-0.1, -3.0, -1.0]), log_ratios, 0.5)
    assert (found["decisions_audited"], found["wrong_decisions"], found["wrong_accepts"]) == (1, True, False)
    assert found["audited_mu_std"] == pytest.approx(0.2)
    assert found["audit_acceptance_error"] == pytest.approx(-0.7 / 3.0)
    assert found["audit_acceptance_noise"] == pytest.approx(np.std([-0.5, 0.0, -0.2], ddof=1) / 3.0**0.5)
    for tau in (0.0, math.inf):
        beside = AuditsOfATest.of_the_test(given, 0.0, np.array([-0.1]), np.zeros(2), tau)
        assert math.isnan(beside["audited_mu_std"]) and not beside["wrong_decisions"]


def test_exact_samplers_are_not_audited():
    trace = amc.sample(logistic(), amc.MetropolisHastings(WALK, amc.ExactTest()), **RUN)
    assert "audits" not in trace.posterior.attrs and "audited_acceptance" not in trace.sample_stats


@pytest.mark.recompiles
def test_records_are_those_of_the_terms():
    """A normal mean: the terms of a pair are linear in x, and all records have a closed form."""
    target = normal_mean()
    program = amc.MetropolisHastings(amc.RandomWalk(0.3), amc.SequentialTTest(0.2, 10)).build(target)
    x, theta = np.random.default_rng(0).normal(size=100), np.array([0.1])
    auditor = program.start(theta, streams(np.random.SeedSequence(1)), 0).auditor(theta[None])
    for _ in range(20):
        found, there = auditor(theta, 0), auditor.state.proposed
        terms = np.array([normal_loglik(there, (x,), i) - normal_loglik(theta, (x,), i) for i in range(100)])
        change = terms.sum() + normal_logprior(there) - normal_logprior(theta)
        assert found["audited_energy_change"] == pytest.approx(change)
        assert found["audited_log_ratio"] == pytest.approx(change)  # the walk is symmetric
        assert found["audited_acceptance"] == pytest.approx(min(1.0, math.exp(change)))
        assert found["audited_tau"] == pytest.approx(10.0 * terms.std(ddof=1))
        assert found["audited_kurtosis"] == pytest.approx(((x - x.mean()) ** 4).mean() / x.var() ** 2)
        estimate = found["audited_acceptance"] + found["audit_acceptance_error"]
        assert 0.0 <= estimate <= 1.0 and 0.0 <= found["audit_acceptance_noise"] <= 0.13
        assert found["wrong_accepts"] <= found["wrong_decisions"] <= found["decisions_audited"] == 1


def test_kurtosis():
    assert kurtosis_of(np.array([-1.0, 1.0, 1.0, -1.0])) == 1.0
    assert math.isnan(kurtosis_of(np.ones(5))) and kurtosis_of(np.array([0.0, -math.inf])) == math.inf


@pytest.mark.thorough
def test_a_time_limit_ends_the_audits(monkeypatch):
    """The chains get ten elevenths of it, and the audits know when it ends."""
    left = []

    def spy(result, chains, rng, *, deadline, **others):
        left.append(deadline - time.perf_counter())
        return audit_draws(result, chains, rng, deadline=deadline, **others)

    monkeypatch.setattr(runs, "audit_draws", spy)
    trace = amc.sample(logistic(), SAMPLERS["t-test"], **(RUN | {"draws": 10**7, "time_limit": 0.33}))
    attrs = trace.posterior.attrs
    assert attrs["stopped"] == "time_limit" and attrs["audit_policy"] == "auto"
    assert attrs["sampling_time"] >= 0.3
    assert left[0] <= 0.33 - attrs["sampling_time"] + 0.001  # less where another process held up this one


@pytest.mark.parametrize("n_draws", [1, 7, 600, 1024, 1025])
def test_the_walk_that_audits_draws_has_their_covariance(n_draws):
    """Every second of 600, every third of 1025; scaled by 2.38 / sqrt(dim), whatever its sign."""
    draws = np.random.default_rng(0).normal(size=(n_draws, 3))
    some = draws[:: max(-(-n_draws // 512), 1)]
    spread = WalkedSteps(None, draws, None).spread
    expected = 2.38**2 / 3.0 * np.cov(some.T) if n_draws > 1 else np.zeros((3, 3))
    np.testing.assert_allclose(spread.T @ spread, expected, atol=1e-14)


@pytest.mark.parametrize(
    ("tau", "records", "clear"),
    [(2.0, ("audited_mu_std",), 0.25), (0.0, ("audited_mu_std",), math.nan), (2.0, (), None)],
)
def test_what_an_audit_says_of_the_test(tau, records, clear):
    """Lambda = -0.5, T(u) = -1 at first; estimates of -2, 0 and -1 accept with e^-2, 1 and e^-1."""
    judge = Judge("metropolis", 1.0, None, None)
    steps = AuditsOfATest(None, types.SimpleNamespace(records=records), judge, None, None, None, None)
    found = dict(steps.of_the_test(-0.5, np.array([-1.0, 0.0, 1.0]), np.array([-2.0, 0.0, -1.0]), tau))
    errors = np.exp([-2.0, 0.0, -1.0]) - math.exp(-0.5)
    assert found.pop("audit_acceptance_error") == pytest.approx(errors.mean())
    assert found.pop("audit_acceptance_noise") == pytest.approx(errors.std(ddof=1) / math.sqrt(3.0))
    assert found.pop("audited_mu_std", None) == pytest.approx(clear, nan_ok=True)
    assert found == {"decisions_audited": 1, "wrong_decisions": True, "wrong_accepts": False}
    assert steps.of_the_test(-3.0, np.array([-1.0, 0.0]), np.array([-0.5, 0.0]), tau)["wrong_accepts"] is True


@pytest.mark.parametrize(("form", "asked"), [(None, 2 * (DECISIONS // ORDERS)), ("a threshold form", 2)])
def test_a_test_without_a_threshold_form_decides_several_times_for_each_order(form, asked):
    rng = np.random.default_rng(0)
    test, judge = types.SimpleNamespace(threshold_form=form), Judge("metropolis", 1.0, None, None)
    steps = AuditsOfATest(None, test, judge, None, None, None, rng)
    thresholds, ratios = steps.decide(None, None, None, -math.inf, 0, 2)
    assert ratios.tolist() == [-math.inf] * asked
    strata = np.floor(np.exp(np.sort(thresholds)) * asked)
    assert strata.tolist() == list(range(asked))  # one u in each


HERE, THERE = np.array([0.5]), np.array([2.0])


class Steps:
    """Audits of the one step from HERE to THERE, over four orders; `asked` is what the test was asked."""

    def __init__(self, terms, *, prior_here=0.0, prior_there=0.0, log_q_ratio=0.0, temperature=1.0, answers=0.0):
        self.asked, self.read, self.terms, n_obs = [], [], np.array(terms), len(terms)
        compiled = types.SimpleNamespace(
            n_obs=n_obs, log_prior=lambda theta: prior_here if theta[0] == HERE[0] else prior_there
        )
        rows = types.SimpleNamespace(compiled=compiled, differences=self.differences, parts=None)
        state = types.SimpleNamespace(
            theta=np.zeros(1), proposed=np.zeros(1), log_prior=np.zeros(1), log_q_ratio=np.zeros(1),
            proposal="tuned", test="state at the end",
        )  # fmt: skip

        def step(streams, state, unfinished, steps, thin, draws, counts, values):
            assert (state.theta == HERE).all() and state.log_prior[0] == math.inf
            assert steps == thin == 1 and draws.shape == (1, 1)
            assert counts.shape[1:] == (len(COUNT_NAMES),) and values.shape[1:] == (len(VALUE_NAMES),)
            state.proposed[:], state.log_q_ratio[0] = THERE, log_q_ratio
            return int(not math.isnan(log_q_ratio))

        def replicate(rng, table, log_rest, state, thresholds, begins):
            self.asked.append((table.data[0].tolist(), log_rest, state, begins.tolist()))
            return np.full(thresholds.size, answers)

        test = types.SimpleNamespace(
            threshold_form="one", state_at=lambda number: f"state at {number}", records=("audited_mu_std",)
        )
        judge = Judge("metropolis", temperature, replicate, table_of_terms(n_obs, 1))
        self.audit = AuditsOfATest(
            rows, test, judge, Loop(step, state), lambda proposal: None, state, np.random.default_rng(0)
        )

    def differences(self, here, there, some=None):
        self.read.append(len(self.terms) if some is None else len(some))
        return self.terms.copy() if some is None else np.resize(self.terms[some], len(self.terms)), -7.0

    def audit_at(self):
        return self.audit.audit_at(HERE, 3, orders=4)


def test_audits_of_few_rows_know_the_log_ratio_within_their_noise():
    terms = 1e-4 + 4e-5 * np.random.default_rng(1).normal(size=6400)  # tau = 0.0032
    steps = Steps(terms)
    whole, few = steps.audit(HERE, 3), steps.audit.on_few_rows()
    assert (steps.audit.share, few.share) == (1.0, 1.0 / 16.0)
    ratios = np.array([few(HERE, 3)["audited_log_ratio"] for _ in range(50)])
    assert steps.read == [6400, *[400] * 50]
    noise = ratios - whole["audited_log_ratio"]
    assert 0.5 < np.sqrt(np.mean(noise**2)) / (4.0 * whole["audited_tau"] * math.sqrt(15 / 16)) < 1.5
    assert all(np.sum(data) == pytest.approx(ratio) for (data, *_), ratio in zip(steps.asked[1:], ratios, strict=True))


def test_audits_of_few_rows_keep_the_blocks_of_a_partition():
    steps, partition = Steps(2e-8 * np.arange(6400.0)), Partition(np.random.default_rng(1).permutation(6400), 64)
    few = steps.audit.on_few_rows()
    few.partition = partition
    _, terms, _, _ = few.compare(HERE, THERE)
    blocks = {tuple(block) for block in terms[partition.rows].reshape(100, 64)}
    assert len(blocks) == 7  # of 64 rows each, a sixteenth
    assert blocks <= {tuple(block) for block in steps.terms[partition.rows].reshape(100, 64)}


@pytest.mark.parametrize("heavy", [False, True])
def test_audits_read_all_rows_if_terms_are_large_or_one_matters_alone(heavy):
    terms = (1e-6 if heavy else 1e-3) * np.random.default_rng(1).normal(size=6400)
    terms[7] = 2e-3 if heavy else 0.0
    steps = Steps(terms)
    steps.audit(HERE, 3)
    assert steps.audit.on_few_rows() is steps.audit
    few = Steps(terms).audit.on_few_rows()  # before an audit of all rows: each audit sees that few do not tell
    if not heavy:
        assert few(HERE, 3)["audited_log_ratio"] == pytest.approx(terms.sum())


def test_a_step_is_judged_by_prior_proposal_and_terms():
    """Lambda = log prior ratio + log q ratio + sum of terms; the change of energy has no q."""
    steps = Steps([0.5, -1.0, 0.25, 0.0], prior_here=-2.0, prior_there=-3.0, log_q_ratio=0.125, answers=-0.5)
    found = steps.audit_at()
    assert (found.log_ratio, found.energy_change) == (-1.125, -1.25)
    assert found.proposed.tolist() == THERE.tolist() and found.log_likelihood == -7.0
    assert found.terms.tolist() == [0.5, -1.0, 0.25, 0.0] and found.log_ratios.tolist() == [-0.5] * 4
    assert steps.asked == [([0.5, -1.0, 0.25, 0.0], -0.875, "state at 3", [0, 1, 2, 3])]
    assert steps.audit(HERE, 3)["audited_acceptance"] == pytest.approx(math.exp(-1.125))


def test_a_temperature_divides_the_terms_and_the_test_does_it_by_itself():
    steps = Steps([2.0, -6.0], log_q_ratio=0.125, temperature=4.0)
    assert steps.audit_at().log_ratio == 0.125 - 1.0
    assert steps.asked[0][0] == [2.0, -6.0]


@pytest.mark.parametrize("log_q_ratio", [0.0, math.inf])
def test_a_step_out_of_the_support_is_one_that_nobody_accepts(log_q_ratio):
    """No datum is read; not even a gradient that is undefined there matters."""
    steps = Steps([1.0, 1.0], prior_there=-math.inf, log_q_ratio=log_q_ratio)
    found = steps.audit_at()
    assert found.log_ratio == found.energy_change == -math.inf and found.log_ratios.tolist() == [-math.inf] * 4
    assert found.terms.tolist() == [0.0, 0.0] and math.isnan(found.log_likelihood) and steps.asked == []
    audit = steps.audit(HERE, 3)
    assert audit["audited_acceptance"] == audit["audit_acceptance_error"] == 0.0 and not audit["wrong_decisions"]


def test_a_step_to_an_impossible_datum_is_judged():
    assert Steps([1.0, -math.inf], answers=-math.inf).audit_at().log_ratio == -math.inf


@pytest.mark.parametrize(
    ("terms", "settings"),
    [
        ([1.0, math.inf], {}),
        ([-math.inf, math.inf], {}),
        ([math.nan, 1.0], {}),
        ([1.0, 1.0], {"prior_there": math.inf}),
        ([1.0, 1.0], {"prior_there": math.nan}),
        ([1.0, 1.0], {"log_q_ratio": math.inf}),
        ([1.0, 1.0], {"log_q_ratio": math.nan}),
        ([1.0, 1.0], {"answers": math.nan}),
    ],
)
def test_what_has_no_log_ratio_is_not_audited(terms, settings):
    assert Steps(terms, **settings).audit(HERE, 3) is None


def test_a_threshold_that_is_just_attained_rejects():
    """As in a chain: theta' is taken where T(u) < Lambda. Both answers are the same, and none is wrong."""
    audit = Steps([0.0, 0.0]).audit
    found = audit.of_the_test(-1.0, np.array([-1.0, -2.0]), np.array([-1.5, -1.5]), 1.0)
    assert (found["wrong_decisions"], found["wrong_accepts"]) == (False, False)
    found = audit.of_the_test(-1.5, np.array([-1.0, -2.0]), np.array([-1.0, -1.0]), 1.0)
    assert (found["wrong_decisions"], found["wrong_accepts"]) == (False, False)


@pytest.mark.parametrize(
    ("log_ratio", "acceptance"),
    [(0.5, 1.0), (0.0, 1.0), (-0.5, math.exp(-0.5)), (-math.inf, 0.0), (math.inf, None), (math.nan, None)],
)
def test_a_walk_is_accepted_by_the_rule_of_metropolis(log_ratio, acceptance):
    found = of_a_walk(log_ratio)
    assert found == acceptance or found["audited_acceptance"] == pytest.approx(acceptance, abs=0.0)
    assert found is None or found["audited_log_ratio"] == found["audited_energy_change"] == log_ratio


def test_walks_begin_at_the_draws():
    """A walk adds z'(draws - mean) in its scale, 2.38 / sqrt(dim (n - 1)): here of two draws, with z = (1, 0)."""
    seen = []
    rows = types.SimpleNamespace(log_ratios=lambda here, there: seen.append(there - here) or np.zeros(len(here)))
    rng = types.SimpleNamespace(standard_normal=lambda n: np.eye(n)[0])
    walks = WalkedSteps(rows, np.array([[3.0, 1.0], [0.0, 0.0]]), rng)
    assert len(walks.of_many(np.array([[5.0, 6.0], [7.0, 8.0]]), np.arange(2))) == 2
    np.testing.assert_allclose(seen[0], np.tile(2.38 / math.sqrt(2.0) * np.array([1.5, 0.5]), (2, 1)))


def test_windows_of_a_table_begin_where_they_are_told_to():
    """Three windows of a table of 10 terms; rule, rest and state are handed on."""
    table = table_of_terms(10, 1)

    def form(rng, table, log_rest, test):
        assert (rng, test) == ("rng", "state")
        return table.order.cursor[1] + log_rest

    found = np.empty(3)
    plain(by_threshold_form(form))("rng", table, 0.5, "state", np.zeros(3), np.array([0, 8, 2]), found, None, None)
    assert found.tolist() == [0.5, 8.5, 2.5]


def test_decisions_are_infinite_log_ratios():
    """+inf where a test accepts at a threshold, -inf where it rejects, NaN where it has no answer."""
    answers = {-2.0: 1, -1.0: 0, -3.0: -1}

    def decide(rng, table, threshold, log_rest, test, count, value):
        return answers[threshold], 0.0

    found = np.empty(4)
    plain(by_decision(decide))("rng", None, 0.5, "state", np.array([-1.0, -2.0, -3.0, -2.0]), 4, found, None, None)
    np.testing.assert_array_equal(found, [-math.inf, math.inf, math.nan, math.inf])
