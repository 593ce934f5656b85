"""Firefly: settings, refusals, costs, and the corners where a gap is 0 or large."""

import itertools
import math
import re
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Component
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.batches import BATCH, full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.samplers.firefly import settings
from approxmcmc.samplers.firefly.explicit_resampling import pick, redraw_dark
from approxmcmc.samplers.firefly.implicit_resampling import automatic_q, brighten, go_bright_probability
from approxmcmc.samplers.firefly.joint import JointDensity, false_bound, new_bright, write_gaps
from approxmcmc.samplers.firefly.program import FireflyProgram
from approxmcmc.samplers.firefly.theta_update import JointTarget, is_inside, make_metropolis_move
from approxmcmc.sampling.chain import FAILED, MOVED, STAYED
from tests.models import logistic, normal_logprior, normal_mean
from tests.oracle.test_firefly import z_kernel
from tests.planting import plain

WALK = amc.RandomWalk(0.2)
COMPONENTS = [
    amc.Firefly(WALK),
    amc.Firefly(WALK, "untuned", amc.samplers.ExplicitResampling(0.2)),
    amc.Firefly(amc.samplers.Slice([0.1, 0.2]), "taylor", amc.samplers.ImplicitResampling(0.1, 0.5), at=[0.0, 1.0]),
    amc.samplers.ImplicitResampling(),
    amc.samplers.ExplicitResampling(),
    amc.samplers.Slice(0.5, max_steps=3),
]


def start(target, sampler, theta, *, n_tune=0):
    return sampler.build(target).start(np.asarray(theta, dtype=float), streams(seed_sequences(5, 1)[0][0]), n_tune)


def advance(chain, steps, dim, thin=1):
    """Return draws and records by name; fewer than `steps` where the chain stopped."""
    draws, counts = np.empty((steps, dim)), np.empty((steps, len(COUNT_NAMES)), dtype=np.int64)
    values = np.empty((steps, len(VALUE_NAMES)))
    made = chain.advance(steps * thin, thin, draws, counts, values) // thin
    records = {name: counts[:made, k] for k, name in enumerate(COUNT_NAMES)}
    return draws[:made], records | {name: values[:made, k] for k, name in enumerate(VALUE_NAMES)}


def check_bright_set(chain):
    """The order is a permutation, positions are its inverse, and odds are those of the data at theta."""
    from approxmcmc.engine.terms.batches import full_terms

    state, joint = chain.state, chain.state.joint
    order, position, size, log_odds = state.bright
    n = order.size
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(order[position], np.arange(n))
    gaps = full_terms(joint.gaps, state.theta, joint.data, n)[order[: size[0]]]
    np.testing.assert_allclose(log_odds[: size[0]], gaps + np.log(-np.expm1(-gaps)), rtol=1e-7, atol=1e-7)
    assert state.current.log_bound[0] == pytest.approx(joint.log_bound(state.theta, joint.sums), rel=1e-12)


class TestSettings:
    @pytest.mark.parametrize("component", COMPONENTS, ids=repr)
    def test_round_trip(self, component):
        again = Component.from_dict(component.to_dict())
        assert again == component and repr(again) == repr(component)
        assert [component == other for other in COMPONENTS].count(True) == 1

    @pytest.mark.parametrize(
        ("make", "error", "match"),
        [
            (lambda: amc.Firefly(WALK, "tight"), InvalidInputError, r"bound must be one of .* found 'tight'"),
            (lambda: amc.Firefly(amc.ExactTest()), IncompatibleError, "proposal must be .* RandomWalk.* or Slice"),
            (
                lambda: amc.Firefly(WALK, z_update=0.1),
                InvalidInputError,
                r"ImplicitResampling\(q\) or ExplicitResampling.*found 0.1",
            ),
            (
                lambda: amc.samplers.ImplicitResampling(0.0),
                InvalidInputError,
                r'q must lie in \(0, 1\] or "auto", found 0.0',
            ),
            (lambda: amc.samplers.ImplicitResampling("all"), InvalidInputError, "found 'all'"),
            (lambda: amc.samplers.ImplicitResampling(math.nan), InvalidInputError, "found nan"),
            (
                lambda: amc.samplers.ImplicitResampling(0.1, 1.5),
                InvalidInputError,
                r"q_bright must lie in \(0, 1\], found 1.5",
            ),
            (lambda: amc.samplers.ExplicitResampling(0.0), InvalidInputError, "fraction must lie"),
            (lambda: amc.samplers.Slice(0.0), InvalidInputError, "width must be a positive number"),
            (lambda: amc.samplers.Slice(1.0, 0), InvalidInputError, "max_steps must be an integer >= 1"),
        ],
    )
    def test_ranges(self, make, error, match):
        with pytest.raises(error, match=match):
            make()


class TestRefusals:
    def test_a_target_without_a_bound(self):
        with pytest.raises(
            IncompatibleError, match=r"needs a lower bound.*FunctionTarget\(normal_loglik.*BoundedLikelihood"
        ):
            amc.Firefly(WALK, "untuned").build(normal_mean())

    def test_a_bound_that_the_target_does_not_have(self):
        with pytest.raises(InvalidInputError, match=r"bound must be one of \('tuned', 'untuned', 'taylor'\).*'own'"):
            amc.Firefly(WALK, "own").build(logistic())

    def test_a_discrete_target(self):
        with pytest.raises(IncompatibleError, match="discrete states; use Gibbs"):
            amc.Firefly(WALK).build(amc.targets.BinaryMRF.random_triples(4, 0.1, 0))

    def test_a_touching_point_of_the_wrong_length(self):
        with pytest.raises(InvalidInputError, match=r"at must hold 3 finite numbers, found shape \(2,\)"):
            amc.Firefly(WALK, at=[0.0, 1.0]).build(logistic())

    def test_the_wrong_number_of_widths(self):
        with pytest.raises(IncompatibleError, match="3 parameters, 2 widths"):
            amc.Firefly(amc.samplers.Slice([0.1, 0.2]), "untuned").build(logistic())

    def test_a_proposal_that_cannot_forget_gradients(self):
        proposal = amc.proposals.Mixture((amc.Langevin(0.01), WALK), (0.5, 0.5))
        with pytest.raises(IncompatibleError, match="can clear its cache"):
            amc.Firefly(proposal, "untuned").build(logistic())

    def test_a_bound_without_gradients(self):
        with pytest.raises(IncompatibleError, match="has no gradient"):
            amc.Firefly(amc.Langevin(0.01), "own").build(bounded(0.1))

    def test_slice_is_for_firefly_alone(self):
        with pytest.raises(IncompatibleError, match="proposal must be a proposal"):
            amc.MetropolisHastings(amc.samplers.Slice(0.1), amc.ExactTest())


def bounded(slack, *, closed=0.0, above=()):
    """Return a normal mean whose bound is lower by `slack`, but higher than the likelihood for the data `above`."""
    target = normal_mean(60)
    (x,) = target.data
    shifts = np.full(60, slack)
    shifts[list(above)] = -0.3

    def gap(theta, data, i):
        return data[1][i]

    def log_bound(theta, sums):
        s = sums[0]
        return -0.5 * (s[0] - 2.0 * theta[0] * s[1] + s[2] * theta[0] ** 2) - s[3]

    sums = np.array([x @ x, x.sum(), 60.0, shifts.sum() + closed])
    return amc.targets.BoundedLikelihood(target, gap, log_bound, sums, shifts)


class TestOwnBound:
    def test_it_is_a_target_again(self):
        target = bounded(0.1)
        assert target.content_hash() == bounded(0.1).content_hash() != bounded(0.2).content_hash()
        assert repr(target) == "BoundedLikelihood(FunctionTarget(normal_loglik, n_obs=60, dim=1))"
        chain = start(target, amc.Firefly(WALK, "own", amc.samplers.ImplicitResampling(0.2)), [0.3])
        _, records = advance(chain, 300, 1)
        check_bright_set(chain)
        # A constant gap: P(bright) = 1 - exp(-.1) = .095 for each of 60 data, whatever theta.
        assert abs(records["bright_count"].mean() - 60 * -math.expm1(-0.1)) < 1.5

    def test_bounds_above_the_likelihood_are_named(self):
        with pytest.raises(
            InvalidInputError, match=r"above the likelihood for 2 of 60 data(.|\n)*worst is datum 1[37]"
        ):
            amc.Firefly(WALK, "own").build(bounded(0.1, above=(13, 17)))

    def test_a_closed_form_that_is_not_the_sum(self):
        with pytest.raises(InvalidInputError, match="its terms add up to"):
            amc.Firefly(WALK, "own").build(bounded(0.1, closed=0.01))

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "z_update", [amc.samplers.ImplicitResampling(0.5), amc.samplers.ExplicitResampling(0.5)], ids=repr
    )
    def test_a_closed_form_that_is_false_where_the_chain_goes_stops_it(self, z_update):
        """No step sees it: the gaps are right."""
        good, sampler = bounded(0.1), amc.Firefly(WALK, "own", z_update)

        def log_bound(theta, sums):
            s = sums[0]
            tilt = 50.0 * (theta[0] - 0.31) if 0.31 < theta[0] < 0.5 else 0.0  # between the random theta of set-up
            return -0.5 * (s[0] - 2.0 * theta[0] * s[1] + s[2] * theta[0] ** 2) - s[3] + tilt

        false = amc.targets.BoundedLikelihood(good.target, good._gap, log_bound, good._sums, good._more)
        chains = [start(target, sampler, [0.4]) for target in (good, false)]
        (draws, records), (fewer, _) = (advance(chain, 400, 1) for chain in chains)
        assert len(draws) == 400
        assert len(fewer) < 400
        assert "the closed form of the bound is" in chains[1].explain_failure()
        checked = np.isin(np.arange(1, 401), 2 ** np.arange(9))
        assert (records["datapoints_touched"][checked] >= 60).all()
        assert (records["likelihood_evaluations"][checked] >= 120).all()
        with pytest.raises(NotFiniteError, match="the closed form of the bound is"):
            amc.sample(
                false, sampler, draws=1, tune=0, chains=1, thin=400, random_seed=1, initvals=[0.4], progressbar=False
            )

    def test_what_the_look_before_has_missed_stops_the_chain(self):
        def gap(theta, data, i):
            return 0.1 if abs(theta[0] - 0.35) > 0.04 else -0.1  # wrong in an interval that no random theta falls into

        good = bounded(0.1)
        target = amc.targets.BoundedLikelihood(good.target, gap, good._log_bound, good._sums, good._more)
        program = amc.Firefly(WALK, "own", amc.samplers.ImplicitResampling(0.5)).build(target)
        chain = program.start(np.array([0.5]), streams(seed_sequences(5, 1)[0][0]), 0)
        draws, _ = advance(chain, 400, 1)
        assert len(draws) < 400
        assert "the lower bound lies above the likelihood for 60 of 60 data" in chain.explain_failure()
        settings = {"draws": 1, "tune": 0, "thin": 400, "chains": 1, "random_seed": 1, "progressbar": False}
        with pytest.raises(NotFiniteError, match="lower bound lies above"):
            amc.sample(
                target,
                amc.Firefly(WALK, "own", amc.samplers.ImplicitResampling(0.5)),
                initvals=np.array([0.5]),
                **settings,
            )


class TestCosts:
    """The likelihood writes every call into an array among the data: records must equal what it has counted."""

    N = 80

    def counted(self, z_update, proposal=WALK, thin=1):
        log = np.zeros((100_000, 2))
        base = normal_mean(self.N)
        (x,) = base.data

        def gap(theta, data, i):
            _, log, slacks = data
            log[0, 0] += 1
            call = int(log[0, 0])
            log[call, 0], log[call, 1] = i, theta[0]
            return slacks[i]

        def loglik(theta, data, i):
            return -0.5 * (data[0][i] - theta[0]) ** 2

        def log_bound(theta, sums):
            s = sums[0]
            return -0.5 * (s[0] - 2.0 * theta[0] * s[1] + s[2] * theta[0] ** 2) - s[3]

        slacks = np.linspace(0.0, 0.4, self.N)
        target = amc.FunctionTarget(loglik, normal_logprior, data=(x, log), n_obs=self.N, dim=1)
        sums = np.array([x @ x, x.sum(), float(self.N), slacks.sum()])
        target = amc.targets.BoundedLikelihood(target, gap, log_bound, sums, slacks)
        log = target._data[1]
        log[:] = 0.0  # as when the target was made: a target refuses data that were changed since
        program = amc.Firefly(proposal, "own", z_update).build(target)
        program.watched = False  # the checks of the bound are no part of the steps
        chain = program.start(np.array([0.3]), streams(seed_sequences(5, 1)[0][0]), 0)
        rows = []
        for _ in range(60):
            before = chain.state.bright.size[0]
            log[:] = 0.0
            draws, records = advance(chain, 1, 1, thin)
            calls = log[1 : int(log[0, 0]) + 1].copy()
            rows.append(({name: values[0] for name, values in records.items()}, calls, before, draws[0, 0]))
        return rows

    @pytest.mark.parametrize(
        "z_update",
        [
            amc.samplers.ImplicitResampling(0.2),
            amc.samplers.ImplicitResampling(0.2, 0.5),
            amc.samplers.ExplicitResampling(0.3),
        ],
        ids=repr,
    )
    def test_random_walk(self, z_update):
        rows = self.counted(z_update)
        for records, calls, bright, theta in rows:
            at_theta = calls[bright:]  # after the bright data at theta' come the dark ones at the theta that was kept
            assert records["likelihood_evaluations"] == len(calls) == bright + records["dark_proposals"]
            assert (at_theta[:, 1] == theta).all() and len(set(at_theta[:, 0])) == len(at_theta)
            assert len(set(calls[:bright, 1])) <= 1 and not set(calls[:bright, 0]) & set(at_theta[:, 0])
            assert records["bound_evaluations"] == records["decisions_made"] == records["decision_rounds"] == 1
            if isinstance(z_update, amc.samplers.ImplicitResampling):
                assert records["datapoints_touched"] == 2 * bright + records["dark_proposals"]
            else:
                assert len(calls) <= records["datapoints_touched"] <= bright + math.ceil(0.3 * self.N)
        moved = [records["accepted"] for records, *_ in rows]
        assert 0 < sum(moved) < len(moved)
        rates = [records["acceptance_rate"] for records, *_ in rows]
        assert 0.0 < min(rates) < 0.9 and max(rates) == 1.0

    def test_slice_and_thinning(self):
        rows = self.counted(amc.samplers.ImplicitResampling(0.2), amc.samplers.Slice(0.3))
        for records, calls, bright, _ in rows:
            assert records["likelihood_evaluations"] == len(calls)
            assert len(calls) == records["bound_evaluations"] * bright + records["dark_proposals"]
            assert records["datapoints_touched"] == 2 * bright + records["dark_proposals"]
            assert records["accepted"] == records["acceptance_rate"] == 1
        thinned = self.counted(amc.samplers.ImplicitResampling(0.2), thin=3)
        assert all(records["likelihood_evaluations"] == len(calls) for records, calls, *_ in thinned)
        assert all(records["decisions_made"] == 3 for records, *_ in thinned)

    def test_set_up_is_booked_apart(self):
        target = logistic()
        trace = amc.sample(target, amc.Firefly(WALK), draws=5, tune=5, chains=1, random_seed=1, progressbar=False)
        attrs = trace.posterior.attrs
        assert attrs["setup_mode_likelihood_evaluations"] == attrs["setup_mode_passes"] * target.n_obs > 0
        assert attrs["setup_mode_seconds"] > 0.0
        assert attrs["setup_bound_likelihood_evaluations"] == 8 * target.n_obs
        assert "lp" not in trace.sample_stats and "wrong_decisions" not in trace.sample_stats
        for name in ("bright_count", "dark_proposals", "bound_evaluations", "accepted"):
            assert name in trace.sample_stats
        untuned = amc.sample(
            target, amc.Firefly(WALK, "untuned"), draws=5, tune=0, chains=1, random_seed=1, progressbar=False
        )
        assert "setup_mode_passes" not in untuned.posterior.attrs

    def test_gradients_of_bright_data_are_counted(self):
        chain = start(
            logistic(), amc.Firefly(amc.Langevin(0.01), "untuned", amc.samplers.ImplicitResampling(0.1)), np.zeros(3)
        )
        for _ in range(20):
            bright = chain.state.bright.size[0]
            _, records = advance(chain, 1, 3)
            assert records["gradient_evaluations"][0] == 2 * bright  # at theta, since z has changed, and at theta'
            assert records["datapoints_touched"][0] == 3 * bright + records["dark_proposals"][0]


class TestCorners:
    @pytest.mark.parametrize("bound", ["tuned", "untuned", "taylor"])
    def test_predictors_of_800(self, bound):
        """|s| = 800 at the start, both signs: odds, gaps and sums stay finite."""
        X = np.array([[800.0], [-800.0], [800.0], [0.5], [-1.0]])
        target = amc.targets.LogisticRegression(X, [1, 1, 0, 1, 0])
        at = None if bound == "untuned" else [0.002]
        chain = start(
            target, amc.Firefly(amc.RandomWalk(0.001), bound, amc.samplers.ImplicitResampling(0.5), at=at), [1.0]
        )
        draws, _ = advance(chain, 200, 1)
        assert (
            len(draws) == 200
            and np.isfinite(draws).all()
            and np.isfinite(chain.state.current.log_prior + chain.state.current.log_bound).all()
        )
        check_bright_set(chain)

    @pytest.mark.parametrize("name", ["softmax", "robust"])
    def test_predictors_of_800_of_other_models(self, name):
        X = np.array([[800.0], [-800.0], [1.0], [0.5], [-1.0], [2.0]])
        y = [0, 1, 2, 0, 1, 2]
        kind = {"softmax": amc.targets.SoftmaxRegression, "robust": amc.targets.RobustRegression}[name]
        target = kind(X, y)
        dim = target.variables.size
        theta = np.linspace(-1.0, 1.0, dim) if dim > 1 else [1.0]
        chain = start(
            target, amc.Firefly(amc.RandomWalk(0.001), "untuned", amc.samplers.ImplicitResampling(0.5)), theta
        )
        assert len(advance(chain, 100, dim)[0]) == 100
        check_bright_set(chain)

    @pytest.mark.thorough
    def test_start_at_the_mode_where_every_gap_is_zero(self):
        """All data are dark there, and none goes bright before theta moves; then some do."""
        target = logistic()
        mode = np.asarray(amc.numerics.find_mode(target))
        chain = start(target, amc.Firefly(WALK, z_update=amc.samplers.ImplicitResampling(0.5), at=mode), mode)
        assert chain.state.bright.size[0] == 0
        _, records = advance(chain, 200, 3)
        before = np.argmax(records["accepted"])
        assert (records["bright_count"][:before] == 0).all()
        assert records["bright_count"].max() > 0
        check_bright_set(chain)

    def test_a_bright_datum_whose_gap_becomes_zero_goes_dark(self):
        from approxmcmc.samplers.firefly.implicit_resampling import go_bright_probability, go_dark_probability
        from approxmcmc.samplers.firefly.joint import log_odds_of

        assert log_odds_of(0.0) == log_odds_of(-1e-9) == -math.inf
        assert math.isnan(log_odds_of(-0.1)) and math.isnan(log_odds_of(math.nan))
        assert go_dark_probability(-math.inf, 0.01, 1.0) == 1.0
        assert go_bright_probability(0.0, 0.01, 1.0) == 0.0
        assert go_dark_probability(1e5, 0.01, 1.0) == 0.0
        assert go_bright_probability(1e5, 0.01, 1.0) == 1.0

    @pytest.mark.thorough
    @pytest.mark.parametrize("bound", ["tuned", "untuned"])
    def test_far_starts_come_home(self, bound):
        """Started 30 away, every datum is bright; the chain comes back and most data go dark."""
        target = logistic(n=100, prior_scale=30.0)
        mode = np.asarray(amc.numerics.find_mode(target))
        at = None if bound == "untuned" else mode
        chain = start(
            target, amc.Firefly(amc.RandomWalk(1.0), bound, amc.samplers.ImplicitResampling(0.5), at=at), mode + 30.0
        )
        assert chain.state.bright.size[0] > 0.9 * target.n_obs
        draws, records = advance(chain, 400, 3)
        assert np.abs(draws[-1] - mode).max() < 3.0
        assert records["bright_count"][-1] < 0.4 * target.n_obs
        check_bright_set(chain)

    def test_q_one_and_single_datum(self):
        target = amc.targets.LogisticRegression([[1.0]], [1])
        chain = start(target, amc.Firefly(WALK, "untuned", amc.samplers.ImplicitResampling(1.0)), [0.1])
        _, records = advance(chain, 50, 1)
        assert (records["dark_proposals"] + np.r_[0, records["bright_count"][:-1]] == 1)[1:].all()

    def test_outside_the_support_of_the_prior(self):
        def prior(theta):
            return 0.0 if abs(theta[0]) < 0.3 else -math.inf

        target = amc.targets.LogisticRegression([[1.0], [2.0], [-1.0]], [1, 0, 1], prior=prior)
        chain = start(target, amc.Firefly(amc.RandomWalk(1.0), "untuned"), [0.1])
        draws, records = advance(chain, 100, 1)
        assert len(draws) == 100 and np.abs(draws).max() < 0.3
        assert records["bound_evaluations"].min() == 0


def test_q_is_the_running_mean_of_the_bright_count_over_n():
    target = logistic(n=200)
    chain = start(target, amc.Firefly(amc.RandomWalk(0.1), at=amc.laplace(target).mode), np.zeros(3), n_tune=10)
    mean = float(chain.state.z.mean_bright[0])
    for step, count in enumerate(advance(chain, 10, 3)[1]["bright_count"]):
        mean += (count - mean) / (step + 1.0) ** 0.6
    assert 1.0 < mean < 20.0
    assert chain.adapted() == {"q": pytest.approx(mean / 200.0)}


@pytest.mark.parametrize(
    ("log_q_ratio", "log_prior", "status"),
    [(0.0, None, MOVED), (math.nan, None, FAILED), (0.0, math.inf, FAILED), (math.inf, None, MOVED)],
)
def test_an_infinite_density_would_lead_where_no_chain_comes_back_from(log_q_ratio, log_prior, status):
    """A proposal that stays where it is, so that its own ratio is all there is; and a prior of +inf there."""

    def propose(rng, state, theta, out, count):
        out[:] = theta
        return log_q_ratio

    chain = start(logistic(), amc.Firefly(WALK, "untuned"), np.zeros(3))
    state = chain.state
    if log_prior is not None:
        state = state._replace(joint=state.joint._replace(log_prior=lambda theta: log_prior))
    move = plain(make_metropolis_move(propose, lambda *_: None, lambda *_: None, lambda *_: None))
    count, value = np.zeros(len(COUNT_NAMES), np.int64), np.zeros(len(VALUE_NAMES))
    assert move(chain.streams, state, count, value) == status


@pytest.mark.parametrize(
    ("log_prior", "looks", "answer"),
    [(1e9, 0, 1), (-1e9, 0, 0), (-math.inf, 0, 0), (math.nan, 0, -1), (math.inf, 0, -1), (math.nan, 3, 0)],
)
def test_a_point_is_inside_a_slice_where_the_joint_density_is_above_it(log_prior, looks, answer):
    state = start(logistic(), amc.Firefly(amc.samplers.Slice(0.1), "untuned"), np.zeros(3)).state
    joint = state.joint._replace(log_prior=lambda theta: log_prior)
    state = state._replace(joint=joint, evaluations_to_reject=lambda: looks)
    assert plain(is_inside)(None, state, 0.5, 0.0, np.zeros(len(COUNT_NAMES), np.int64), None) == answer


@pytest.mark.thorough
def test_q_follows_the_bright_count_in_tuning_and_is_then_frozen():
    target = logistic(n=500)
    sampler = amc.Firefly(amc.RandomWalk(0.1, target_acceptance=0.3), "untuned")
    chain = start(target, sampler, np.zeros(3), n_tune=300)
    advance(chain, 300, 3)
    tuned = chain.adapted()["q"]
    _, records = advance(chain, 300, 3)
    assert chain.adapted()["q"] == tuned
    assert 0.3 < tuned * 500 / records["bright_count"].mean() < 3.0
    assert set(chain.adapted()) == {"q", "scale_factor"}
    assert (
        "q"
        not in start(target, amc.Firefly(WALK, "untuned", amc.samplers.ImplicitResampling(0.2)), np.zeros(3)).adapted()
    )


THETA = np.array([2.0])


def writes(numbers):
    """Return a kernel of terms that are these numbers, whatever theta."""

    def write(theta, data, order, lo, hi, out):
        out[:] = np.asarray(numbers)[order[lo:hi] if len(order) else slice(lo, hi)]

    return write


def look_at(log_likelihood, gaps, *, off=0.0):
    """Return what is false of a bound with these gaps whose closed form is `off` by so much."""
    compiled = types.SimpleNamespace(log_terms=writes(log_likelihood), data=(), n_obs=len(gaps))
    closed = float(np.sum(np.array(log_likelihood) - np.array(gaps))) + off
    bound = types.SimpleNamespace(gaps=writes(gaps), data=(), log_bound=lambda theta, sums: closed, sums=None)
    return false_bound(bound, compiled, THETA)


@pytest.mark.parametrize(
    ("log_likelihood", "gap", "is_refused"),
    [
        (0.0, -0.5e-9, False),
        (0.0, -1.5e-9, True),
        (-9.0, -9e-9, False),  # rounding of log L is relative
        (-9.0, -11e-9, True),
        (0.0, 0.0, False),
        (0.0, math.nan, True),
        (-math.inf, math.nan, True),
        (math.nan, math.nan, False),  # a fault of the likelihood, not of the bound
    ],
)
def test_a_bound_may_lie_above_the_likelihood_by_rounding_alone(log_likelihood, gap, is_refused):
    assert ("above the likelihood for 1 of 2 data" in look_at([log_likelihood, -1.0], [gap, 0.5])) is is_refused


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ((0.5, -0.3, -0.5), r"for 2 of 3 data at theta = \[2.\]; the worst is datum 2: log L = -2, log B = -1.5\."),
        ((-0.5, 0.5, math.nan), "for 2 of 3 data .* the worst is datum 2: log L = -2, log B = nan"),
        ((-0.5, -0.3, 0.1), "for 2 of 3 data .* the worst is datum 0: log L = -2, log B = -1.5"),
    ],
)
def test_the_worst_datum_of_a_bound_is_named(gaps, said):
    assert re.search(said, look_at([-2.0, -2.0, -2.0], gaps))


@pytest.mark.parametrize(("gap", "off", "is_refused"), [(0.0, 1e-9, False), (0.0, 3e-9, True), (8.0, 9e-9, False)])
def test_a_closed_form_may_be_off_by_rounding_alone(gap, off, is_refused):
    """Two data of size 1 + |log L| + |gap| each: 2e-9 where both are 0, more where a gap is large."""
    for sign in (-1.0, 1.0):
        assert ("its terms add up to" in look_at([0.0, 0.0], [gap, gap], off=sign * off)) is is_refused
    assert look_at([-math.inf, 0.0], [0.0, 0.0], off=1.0) == ""  # nothing to compare


@pytest.mark.parametrize("point", [None, np.array([1.0, 2.0, 3.0])])
def test_bounds_are_looked_at_where_they_touch_and_around(point, monkeypatch):
    looked = []
    monkeypatch.setattr(settings, "false_bound", lambda bound, compiled, theta: looked.append(theta))
    target = logistic(60)
    _, attrs = settings.checked_bound(target, types.SimpleNamespace(n_obs=60), "untuned", point)
    centre = target.initial_point() if point is None else point
    assert (looked[0] == centre).all() and attrs == {"setup_bound_likelihood_evaluations": 2 * len(looked) * 60}
    distances = [float(np.abs(theta - centre).max()) for theta in looked]
    assert distances == sorted(set(distances)) and distances[-1] > 2.0


def test_the_mode_is_searched_to_a_hundredth_of_a_posterior_sd(monkeypatch):
    asked = []
    found = types.SimpleNamespace(theta=THETA, passes=3, seconds=0.5)
    monkeypatch.setattr(settings, "find_mode", lambda target, *, tolerance, progress: asked.append(tolerance) or found)
    point, attrs = settings.touching_point(logistic(60), "tuned", None)
    assert point is THETA and attrs["setup_mode_passes"] == 3 and asked == [0.01]


def test_the_search_for_the_mode_says_every_ten_seconds_how_far_it_is(monkeypatch, capsys):
    now = itertools.chain([100.0], (100.0 + t for t in (9.9, 10.0, 19.9, 20.1)))
    monkeypatch.setattr(settings, "time", types.SimpleNamespace(perf_counter=lambda: next(now)))
    report, said = settings._Reporter(), []
    for passes in range(1, 5):
        report(passes, 0.25)
        said.append(capsys.readouterr().err)
    assert said[0] == said[2] == "" and said[3].startswith("Firefly, mode: 4 passes")
    assert said[1] == "Firefly, mode: 2 passes over the data, 0.25 posterior sd to go\n"


@pytest.mark.parametrize(
    ("update", "setting", "value"),
    [
        *((amc.samplers.ExplicitResampling, "fraction", value) for value in (0.0, -0.1, 1.01, math.nan, "0.5")),
        *((amc.samplers.ImplicitResampling, "q", value) for value in (0.0, 1.01, math.nan, "0.5")),
        *((amc.samplers.ImplicitResampling, "q_bright", value) for value in (0.0, 1.01, math.nan, "auto")),
    ],
)
def test_a_probability_lies_between_0_and_1(update, setting, value):
    also = ' or "auto"' if setting == "q" else ""
    with pytest.raises(InvalidInputError) as refused:
        update(**{setting: value})
    assert str(refused.value) == f"{update.__name__}: {setting} must lie in (0, 1]{also}, found {value!r}"
    assert getattr(update(**{setting: 1.0}), setting) == 1.0


@pytest.mark.parametrize(("expected_bright", "q"), [(0.0, 0.02), (0.5, 0.02), (1.0, 0.02), (3.0, 0.06), (30.0, 0.1)])
def test_the_automatic_q_is_the_share_of_bright_data_within_limits(expected_bright, q):
    """Of 50 data: at least one of them proposes to go bright, and at most a tenth."""
    assert plain(automatic_q)(expected_bright, 50) == pytest.approx(q)
    assert amc.samplers.ImplicitResampling().build_z_update().make_state(expected_bright, 50).q[0] == pytest.approx(q)


@pytest.mark.parametrize("gap", [0.05, 0.999, 1.0, 1.001, 1.5, 3.0])
@pytest.mark.parametrize("q_bright", [1.0, 0.4])
def test_a_dark_datum_goes_bright_below_its_probability(gap, q_bright):
    """The limit that spares an exponential changes no result; at gap = 1 it does not apply."""
    chance = go_bright_probability(gap, 0.8, q_bright)
    joint = JointDensity(None, None, writes([gap]), None, None)
    for u in (0.0, 0.5 * chance, 0.999 * chance, 1.001 * chance):
        state = amc.samplers.ImplicitResampling(0.8, q_bright).build_z_update().make_state(0.0, 1)
        state.candidates[0], bright = 0, new_bright(np.zeros(1, dtype=bool), np.zeros(1))
        assert plain(brighten)(types.SimpleNamespace(random=lambda u=u: u), None, joint, bright, state, 1)
        assert bright.size[0] == (u < min(chance, 1.0))


def test_a_datum_that_is_picked_twice_counts_once_and_the_next_is_picked():
    """Picks of data 0, 0, 1 and 2 of three, the last of them bright: dark ones in front, bright ones at the end."""
    numbers = iter((0.0, 0.1, 0.5, 0.9))
    state = amc.samplers.ExplicitResampling(1.0).build_z_update().make_state(0.0, 3)._replace(n_picks=4)
    bright = new_bright(np.array([False, False, True]), np.ones(3))
    assert plain(pick)(types.SimpleNamespace(random=lambda: next(numbers)), bright, state) == (1, 2)
    assert state.picked.tolist() == [0, 1, 2] and state.is_picked.all()


@pytest.mark.parametrize("q_bright", [1.0, 0.4])
def test_every_bright_datum_is_asked_by_itself(q_bright):
    """The law of three z, exactly, also where the first that was asked has stayed, or was left out."""
    gaps = np.array([0.2, 0.3, 2.0])
    dark, bright = np.exp(-gaps), -np.expm1(-gaps)
    law = [np.prod(np.where([z >> i & 1 for i in range(3)], bright, dark)) for z in range(8)]
    kernel = z_kernel(amc.samplers.ImplicitResampling(0.6, q_bright), gaps)
    np.testing.assert_allclose(law @ kernel, law, atol=1e-13)


@pytest.mark.parametrize(("gap", "is_defined"), [(-1e-9, True), (-1e-3, False), (math.nan, False)])
def test_a_dark_datum_whose_bound_fails_is_seen(gap, is_defined):
    """By both updates of z: a gap of 0 with rounding errors does not fail, and the datum stays dark."""
    rng, joint = types.SimpleNamespace(random=lambda: 0.0), JointDensity(None, None, writes([gap]), None, None)
    for update, redraw in (
        (amc.samplers.ImplicitResampling(0.8), brighten),
        (amc.samplers.ExplicitResampling(), redraw_dark),
    ):
        state, bright = update.build_z_update().make_state(0.0, 1), new_bright(np.zeros(1, dtype=bool), np.zeros(1))
        (state.candidates if redraw is brighten else state.picked)[0] = 0
        assert plain(redraw)(rng, None, joint, bright, state, 1) is is_defined
        assert bright.size[0] == 0


def one_move(log_q_ratio, *, n_tune=0, log_prior=None):
    """Return the status of a move that stays where it is, its counts, the bright data, and what was adapted.

    Two gradients of the joint density are read, five have been before; of its terms three, and seven.
    """
    adapted = []

    def stay(rng, state, theta, out, count):
        out[:] = theta
        count[GRADIENTS] += 2
        count[TOUCHED] += 3
        return log_q_ratio

    program = amc.Firefly(amc.RandomWalk(0.2), "untuned").build(logistic(60))
    chain, count = program.start(np.zeros(3), streams(seed_sequences(5, 1)[0][0]), n_tune), np.zeros(99, np.int64)
    state = chain.state
    if log_prior is not None:
        state = state._replace(joint=state.joint._replace(log_prior=lambda theta: log_prior))
    count[[GRADIENTS, TOUCHED]] = 5, 7
    move = plain(
        make_metropolis_move(
            stay, lambda *_: None, lambda state, rate, step: adapted.append((rate, step)), lambda _: None
        )
    )
    status = move(chain.streams, state, count, np.zeros(len(VALUE_NAMES)))
    return status, count[[GRADIENTS, TOUCHED]].tolist(), int(state.bright.size[0]), adapted


@pytest.mark.parametrize("n_tune", [0, 1])
def test_a_move_learns_while_the_chain_is_tuned_alone(n_tune):
    _, counts, n_bright, adapted = one_move(-0.5, n_tune=n_tune)
    assert adapted == [(pytest.approx(math.exp(-0.5)), 0)] * n_tune
    assert n_bright > 1 and counts == [5 + 2 * n_bright, 7 + 3 * n_bright]


@pytest.mark.parametrize("log_q_ratio", [0.0, math.inf, math.nan])
def test_a_move_out_of_the_support_is_refused_whatever_the_proposal(log_q_ratio):
    assert one_move(log_q_ratio, log_prior=-math.inf)[0] == STAYED


def explained(log_prior):
    """Return what a program says of a theta with this log prior, where its bound holds."""
    joint = types.SimpleNamespace(log_prior=lambda theta: log_prior)
    program = types.SimpleNamespace(joint=joint, false_bound=lambda theta: "")
    return FireflyProgram.explain_failure(program, types.SimpleNamespace(proposed=THETA))


@pytest.mark.parametrize(
    ("log_prior", "said"),
    [
        (math.nan, "log prior is NaN at theta = [2.]"),
        (math.inf, "log prior is +inf at theta = [2.]"),
        (0.0, "the log joint density or the ratio of proposal densities is NaN at theta = [2.]"),
    ],
)
def test_a_failure_without_a_bad_bound_is_explained_by_the_prior_or_the_rest(log_prior, said):
    assert explained(log_prior) == said


def test_more_bright_data_than_a_batch():
    """Gaps and gradients of one batch and a part are those of all data at once, in the order of the bright set."""
    n = BATCH + 40
    target, theta = logistic(n, 2), np.array([0.4, -0.3])
    bound, _ = settings.checked_bound(target, target.compile(), "untuned", None)
    all_gaps = full_terms(bound.gaps, theta, bound.data, n)
    order, found = np.arange(n)[::-1].copy(), np.empty(n)
    plain(write_gaps)(JointDensity(None, None, bound.gaps, bound.data, bound.sums), theta, order, n, found)
    np.testing.assert_array_equal(found, all_gaps[::-1])
    gradient = JointTarget(target, bound, new_bright(np.ones(n, dtype=bool), all_gaps)).compile_gradient()
    found, expected = np.zeros(2), np.zeros(2)
    gradient.add_gradient(theta, gradient.data, np.zeros(1, np.int64), 0, 1, found)
    bound.add_bound_gradient(theta, bound.sums, expected)
    bound.add_gap_gradient(theta, bound.data, order[::-1].copy(), 0, n, -1.0 / np.expm1(-all_gaps), expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
