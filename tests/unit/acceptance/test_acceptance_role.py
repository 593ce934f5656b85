"""The role of an acceptance test: what every member answers, and what the law and the warnings of each are."""

import dataclasses
import math
import re

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.acceptance import (
    AlwaysAccept,
    AnnealedEpsilon,
    BernsteinTest,
    CheapestExactTest,
    DelayedAcceptance,
    ExactTest,
    FactorizedTest,
    MinibatchBarker,
    PoissonTest,
    SequentialTTest,
    TunaTest,
)
from approxmcmc.acceptance.laws.audits import wrong_decisions
from approxmcmc.acceptance.laws.probability import acceptance_probability, gaussian_probability
from approxmcmc.contracts import COUNT_NAMES, AcceptanceTest, Component
from approxmcmc.contracts.records import BLANK_VALUES
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests.decisions import Population, decide_once, evidence_of
from tests.examples import TESTS
from tests.models import normal_mean
from tests.planting import plain

UNKNOWN = pytest.approx(math.nan, nan_ok=True)  # the log ratio where a density is undefined

EPOCHS = AnnealedEpsilon((0.1, 0.0), steps=(50,), test=SequentialTTest(batch_size=20))
# Tests that read a random number of rows, or none.
UNFORESEEN = [CheapestExactTest(), DelayedAcceptance(ExactTest()), FactorizedTest(), PoissonTest(), TunaTest(0.1)]
MEMBERS = [AlwaysAccept(), EPOCHS, BernsteinTest(0.1, 20), ExactTest(), MinibatchBarker(batch_size=20), EPOCHS.test]
MEMBERS += UNFORESEEN
MEMBERS += [given[0] for name, given in TESTS.items() if name not in {type(member).__name__ for member in MEMBERS}]


@dataclasses.dataclass(frozen=True, eq=False)
class Bare(AcceptanceTest):
    """A test that gives nothing but the part that decides."""

    def build_test(self, target):
        """Decide as the exact test."""
        return ExactTest().build_test(target)


class TestTheRole:
    def test_a_test_must_decide(self):
        class Undecided(AcceptanceTest):
            pass

        with pytest.raises(TypeError, match="build_test"):
            Undecided()

    def test_only_members_are_tests(self):
        assert all(isinstance(member, AcceptanceTest) for member in (*MEMBERS, Bare()))
        assert not isinstance(amc.RandomWalk(), AcceptanceTest)

    @pytest.mark.parametrize("member", [*MEMBERS, Bare()], ids=repr)
    def test_the_looks_say_whether_all_data_are_read(self, member):
        looks = member.looks(100)
        assert (np.diff(looks, prepend=0) > 0).all() and looks.size in (0, 1, 3, 5)
        assert member.reads_all(100) == (isinstance(member, (ExactTest, Bare)))
        assert member.reads_all(20) == (not isinstance(member, AlwaysAccept) and member not in UNFORESEEN)

    @pytest.mark.parametrize("member", [*MEMBERS, Bare()], ids=repr)
    def test_independent_subsets_change_nothing_else(self, member):
        fresh = member.with_independent_subsets()
        assert fresh.order == ("memory" if member.order == "memory" else "rows")
        settings = member.to_dict() | ({"order": "rows"} if "order" in member.to_dict() else {})
        if member is EPOCHS:
            settings["test"]["order"] = "rows"
        assert fresh.to_dict() == settings

    def test_a_test_without_a_law_is_refused_where_the_law_is_needed(self):
        one, c, silent = np.zeros((1, 4)), np.zeros(1), BernsteinTest(0.1, 2)
        assert acceptance_probability(Bare(), one, c)[0] == 1.0  # it reads all data
        assert acceptance_probability(BernsteinTest(0.0, 2), one, c)[0] == 1.0  # as this one does
        for method in ("auto", "enumerate", "gaussian"):
            with pytest.raises(IncompatibleError, match="not known in closed form; use a test that gives its law"):
                acceptance_probability(silent, one, c, method=method)


class TestTheExactTest:
    """Lambda = c + 6 - 1.5: the terms are the changes of the log-likelihood, kept at theta is 1.5."""

    TERMS = np.array([1.0, 2.0, 3.0])
    BOOKED = dict.fromkeys(("decisions_made", "decision_rounds"), 1) | dict.fromkeys(
        ("datapoints_touched", "likelihood_evaluations"), 3
    )

    @pytest.mark.parametrize("rule", ["metropolis", "barker"])
    @pytest.mark.parametrize(("threshold", "decision"), [(4.7, 1), (4.75, 0), (4.8, 0)])
    def test_it_accepts_below_lambda(self, rule, threshold, decision):
        found = decide_once(ExactTest(rule), self.TERMS, threshold, 0.25, kept=1.5)
        assert found == (decision, 4.75, self.BOOKED, {})

    @pytest.mark.parametrize("term", [math.nan, math.inf])
    def test_no_answer_where_the_density_is_undefined(self, term):
        with np.errstate(invalid="ignore"):
            found = decide_once(ExactTest(), np.array([1.0, term, 3.0]), 0.0, 0.0, kept=0.0)
        assert found == (-1, UNKNOWN, self.BOOKED, {})

    def test_it_keeps_the_log_likelihood(self):
        part = ExactTest().build_test(Population(self.TERMS))
        state, count = part.make_state(), np.zeros(len(COUNT_NAMES), np.int64)
        assert state.log_likelihood.shape == (1,) and math.isnan(part.log_likelihood(state))
        part.keep_log_likelihood(state, 1.5)
        for threshold, kept in ((5.0, 1.5), (4.0, 6.0)):
            plain(part.decide)(None, evidence_of(self.TERMS), threshold, 0.0, state, count, BLANK_VALUES.copy())
            assert part.log_likelihood(state) == kept

    def test_it_is_exact_and_there_is_nothing_to_audit(self):
        assert ExactTest().leaves_invariant(3) and ExactTest().reads_all(3) and ExactTest().only_compares
        assert not ExactTest().build_test(Population(self.TERMS)).is_audited


class TestAlwaysAccept:
    TERMS = np.array([1.0, 2.0, 3.0])

    @pytest.mark.parametrize("threshold", [-math.inf, 0.0, math.inf])
    def test_it_accepts_and_reads_and_books_nothing(self, threshold):
        assert decide_once(AlwaysAccept(), self.TERMS, threshold, -math.inf) == (1, 0.0, {}, {})

    def test_its_rule_draws_nothing_and_is_certain(self):
        part = AlwaysAccept().build_test(Population(self.TERMS))
        assert plain(part.threshold)(None) == 0.0
        assert plain(part.probability)(-3.0) == 1.0

    def test_it_asks_for_no_ratio_and_there_is_nothing_to_audit(self):
        part = AlwaysAccept().build_test(Population(self.TERMS))
        assert not (AlwaysAccept().uses_ratio or part.uses_ratio or part.is_audited)
        assert AlwaysAccept().looks(100).tolist() == []


class TestFoundIn:
    def test_the_test_of_a_sampler_is_found_whatever_its_place(self):
        for member in MEMBERS:
            sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), member)
            assert AcceptanceTest.found_in(sampler.to_dict()) == member
            assert AcceptanceTest.found_in({"many": [1, {"deep": sampler.to_dict()}]}) == member
        assert SequentialTTest.found_in(EPOCHS.to_dict()) == EPOCHS.test

    @pytest.mark.parametrize(
        "settings",
        [None, {}, {"kind": "Fake"}, {"kind": "ExactTest", "of": 1}, {"kind": "ExactTest", "rule": "?"}, [1, "a"]],
    )
    def test_what_is_no_test_of_this_version_is_not_found(self, settings):
        assert AcceptanceTest.found_in(settings) is None

    def test_settings_that_a_version_did_not_know_take_their_defaults(self):
        stored = {"kind": "SequentialTTest", "epsilon": 0.1, "batch_size": 7, "growth": 1.0}
        assert Component.from_dict(stored) == SequentialTTest(0.1, 7)


class TestTheLaw:
    @pytest.mark.parametrize("test", [SequentialTTest(0.1, 50), SequentialTTest(0.2, 20, 2.0, boundary_shape=0.2)])
    def test_decisions_add_up_to_the_acceptance_probability(self, test):
        """P(accept) is the mean over u of 1 - error where Lambda exceeds log u, and of error elsewhere."""
        u = (np.arange(100_000) + 0.5) / 100_000
        for log_ratio, tau in ((-1.3, 0.8), (0.4, 2.0), (-0.2, 0.1)):
            distance = log_ratio - np.log(u)
            error = test.decision_law(distance / tau, 500).error
            by_decisions = np.where(distance > 0.0, 1.0 - error, error).mean()
            pair = np.array([log_ratio]), np.array([tau])
            accepted = float(gaussian_probability(test, *pair, 500, "metropolis")[0])
            assert by_decisions == pytest.approx(accepted, abs=1e-5)
            assert abs(accepted - np.exp(min(log_ratio, 0.0))) > 3e-4  # it errs: the agreement says something

    def test_no_error_and_all_data_where_all_data_are_read(self):
        for test in (ExactTest(), SequentialTTest(0.0, 10), SequentialTTest(0.1, 100, tol=1.0), BernsteinTest(0.0, 10)):
            law = test.decision_law(np.array([-1.0, 0.3]), 100)
            assert law.error.tolist() == [0.0, 0.0] and law.data_fraction.tolist() == [1.0, 1.0]

    @pytest.mark.parametrize("test", [MEMBERS[0], EPOCHS, BernsteinTest(0.1, 20), MinibatchBarker(batch_size=20)])
    def test_none_where_it_is_not_known(self, test):
        assert test.decision_law(np.zeros(1), 100) is None


def records(**stats):
    """Return a group of 100 draws, each of one decision that was audited and read 20 of 100 data."""
    usual = {"wrong_decisions": 0, "decisions_audited": 1, "decisions_made": 1, "datapoints_touched": 20}
    columns = {name: (("chain", "draw"), np.broadcast_to(value, (1, 100))) for name, value in (usual | stats).items()}
    return xr.Dataset(columns, attrs={"n_obs": 100})


SOME = np.arange(100) < 30


class TestProblems:
    T = SequentialTTest(0.05, 20)

    @pytest.mark.parametrize(
        ("test", "stats", "sentence"),
        [
            (T, {"max_term_ratio": np.where(SOME, 0.6, 0.1)}, "in 30% of the draws one log-likelihood term made up"),
            (
                T,
                {"audited_mu_std": 2.0, "wrong_decisions": SOME},
                r"30 of 100 audited decisions were wrong \(a rate above 0\.171 .* the test's settings predict 0\.004",
            ),
            (
                EPOCHS,
                {"audited_mu_std": 2.0, "wrong_decisions": SOME, "epsilon": np.where(SOME, 0.1, 0.0)},
                r"30 of 100 .*, where the test's settings predict 0\.00",
            ),
            (
                MinibatchBarker(),
                {"skewness_ratio": 0.06},
                r"in 100% of the draws \|skewness\| / sqrt\(n\) .* 0\.05: the",
            ),
            (
                BernsteinTest(0.05, range=2.0),
                {"wrong_decisions": SOME},
                r"30 of 100 .*, more than delta = 0\.05 of BernsteinTest\(range=2\.0\): the range is too small",
            ),
            (
                BernsteinTest(),
                {"range_violations": SOME},
                "in 30 of 100 decisions the terms read lay further apart than",
            ),
        ],
    )
    def test_one_sentence_for_each(self, test, stats, sentence):
        [found] = test.problems(records(**stats))
        assert re.match(sentence, found.finding)
        assert found.advice

    @pytest.mark.parametrize("member", [*MEMBERS, Bare()], ids=repr)
    def test_a_clean_run_is_silent(self, member):
        clean = {"max_term_ratio": 0.4, "skewness_ratio": 0.04, "range_violations": 0, "audited_mu_std": 2.0}
        assert member.problems(records(**clean)) == []
        assert member.problems(records(**clean, wrong_decisions=np.arange(100) == 3)) == []
        assert BernsteinTest(0.0).problems(records()) == []

    def test_as_many_wrong_decisions_as_predicted_are_no_problem(self):
        stats = records(audited_mu_std=2.0, wrong_decisions=SOME)

        class Foreseen(SequentialTTest):
            def expected_wrong_rate(self, stats):
                return wrong_decisions(stats).lower

        assert Foreseen(0.05, 20).problems(stats) == [] != self.T.problems(stats)

    def test_the_tails_of_small_residuals_are_left_to_the_audits(self):
        heavy = records(max_term_ratio=0.9)
        assert self.T.problems(heavy) != []
        assert self.T.problems(heavy.assign_attrs(setup_variance_ratio=0.01)) == []

    def test_ties_that_a_tolerance_gives_up_are_no_sign_of_heavy_tails(self):
        wrong = {"audited_mu_std": 0.3, "wrong_decisions": SOME}
        test = dataclasses.replace(self.T, tol=0.5)
        assert test.expected_wrong_rate(records(**wrong)) < 0.29
        assert 0.3 < test.expected_wrong_rate(records(**wrong, tolerance_stops=1)) < 1.0
        assert len(test.problems(records(**wrong, tolerance_stops=1))) == 0


@pytest.mark.parametrize("test", [AlwaysAccept(), dataclasses.replace(EPOCHS, untested=10)])
def test_a_size_of_steps_is_not_tuned_to_answers_that_are_not_given_at_every_step(test):
    tuned = amc.RandomWalk(0.1, target_acceptance=0.3)
    with pytest.raises(
        IncompatibleError, match=r"target_acceptance=0\.3 .* some or all steps are accepted without a decision"
    ):
        amc.MetropolisHastings(tuned, test).build(normal_mean(30))
    amc.MetropolisHastings(tuned, EPOCHS).build(normal_mean(30))


class Rows(Population):
    """Terms of one posterior."""

    same_terms = True


@pytest.mark.parametrize(
    ("kind", "settings", "match"),
    [
        *[(BernsteinTest, {"p": p}, "p must be finite and over 1") for p in (1.0, math.inf, math.nan)],
        *[(MinibatchBarker, {"target_variance": v}, "target_variance must lie between") for v in (-0.5, 0.0, 0.0099)],
        *[(SequentialTTest, {"tol": tol}, "tol must be finite and at least 0") for tol in (-0.1, math.inf, math.nan)],
    ],
)
def test_beyond_the_ends_of_a_range_is_refused(kind, settings, match):
    with pytest.raises(InvalidInputError, match=match):
        kind(**settings)


@pytest.mark.parametrize("target_variance", [0.01, 2.25])
def test_the_ends_of_a_range_are_in_it(target_variance):
    assert MinibatchBarker(target_variance).target_variance == target_variance


def ten_decisions(**stats):
    """Return a group of ten draws, each of one decision that was not audited."""
    usual = {"wrong_decisions": 0, "decisions_audited": 0, "decisions_made": 1}
    columns = {name: (("chain", "draw"), np.broadcast_to(value, (1, 10))) for name, value in (usual | stats).items()}
    return xr.Dataset(columns, attrs={"n_obs": 100})


@pytest.mark.parametrize(
    ("test", "column", "clean", "found", "value", "limit"),
    [
        (BernsteinTest(), "range_violations", 0, 1, 10, 0.0),
        (PoissonTest(), "range_violations", 0, 1, 10, 0.0),
        (MinibatchBarker(), "skewness_ratio", 0.05, 0.051, 1.0, 0.5),
        (MinibatchBarker(), "skewness_ratio", [0.06] * 4 + [0.0] * 6, [0.06] * 5 + [0.0] * 5, 0.5, 0.5),
        (SequentialTTest(), "max_term_ratio", 0.5, 0.51, 1.0, 0.1),
        (SequentialTTest(), "max_term_ratio", 0.0, [0.6] + [0.0] * 9, 0.1, 0.1),
    ],
)
def test_a_finding_says_what_was_measured_and_where_it_fires(test, column, clean, found, value, limit):
    """At the limit of one draw nothing is wrong yet; a share of the draws that reaches its limit is."""
    assert test.problems(ten_decisions(**{column: clean})) == []
    [finding] = test.problems(ten_decisions(**{column: found}))
    assert (finding.value, finding.limit) == (pytest.approx(value), limit)
    assert (
        test.problems(ten_decisions()) == []
        and test.problems(ten_decisions(**{column: found}).isel(draw=slice(0))) == []
    )


@pytest.mark.parametrize("second", [ExactTest(), SequentialTTest(0.1, 2)])
def test_two_stages_are_not_audited(second):
    """A second threshold of its own decides: there is nothing to compare with."""
    part = DelayedAcceptance(second).build_test(Rows(np.array([0.1, 0.5, -0.2, 0.3])))
    assert not part.is_audited and part.audit is None


@pytest.mark.parametrize("test", [SequentialTTest(0.2, 20), BernsteinTest(0.1, 20)], ids=repr)
def test_a_second_stage_that_is_not_audited_has_no_problems_to_report(test):
    """The records of delayed acceptance count no audits."""
    stats = xr.Dataset({"decisions_made": (("chain", "draw"), np.ones((1, 5), np.int64))})
    assert DelayedAcceptance(test).problems(stats) == []
