"""Proposals with a momentum: ranges and messages, costs as counted by an instrumented gradient, what is refused."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError, SamplingWarning
from tests import langevin as book
from tests.models import logistic, normal_mean
from tests.planting import plain, plant

SGHMC = amc.proposals.StochasticGradientHamiltonian


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGHMC(0.0), "step_size is the time of a step"),
        (lambda: SGHMC(True), "one positive number, found True"),
        (lambda: SGHMC([0.1, 0.2]), "go into preconditioner="),
        (lambda: SGHMC(0.1, friction=0.0), "friction is a rate and must be positive, found 0.0"),
        (lambda: SGHMC(0.1, friction=math.nan), "found nan"),
        (lambda: SGHMC(0.1, batch_size=0), "batch_size must be"),
        (lambda: SGHMC(0.1, steps=0), "steps must be"),
        (lambda: SGHMC(0.1, gradient_noise="auto"), "\"tune\", None, or a covariance.*found 'auto'"),
        (lambda: SGHMC(0.1, gradient_noise=[1.0, 2.0]), r"found shape \(2,\)"),
        (lambda: SGHMC(0.1, batch_size=1), "a minibatch of one cannot be learnt"),
        (lambda: SGHMC(0.1, control_variate=[[0.0]]), "control_variate must be a point"),
    ],
)
def test_ranges(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("proposal", "target", "message"),
    [
        (SGHMC(0.1), normal_mean, "pass grad_loglik="),
        (SGHMC(0.1, batch_size=51), lambda: logistic(50), "a minibatch of 51 cannot be drawn from 50 data"),
        (SGHMC(0.1, batch_size=5, preconditioner=[1.0]), lambda: logistic(50), "the target has 3 parameters"),
        (SGHMC(0.1, batch_size=5, control_variate=[1.0]), lambda: logistic(50), "control_variate 1"),
        (
            SGHMC(0.1, batch_size=5, gradient_noise=np.eye(2)),
            lambda: logistic(50),
            r"gradient_noise has shape \(2, 2\)",
        ),
        (SGHMC(0.1, 1.0, 5, gradient_noise=100.0 * np.eye(3)), lambda: logistic(50), "use friction of at least 5.11,"),
        (
            SGHMC(0.1, 1.0, 5, gradient_noise=900.0 * np.eye(3)),
            lambda: logistic(50),
            "friction removes; use a smaller step_size",
        ),
    ],
)
def test_what_does_not_fit_is_refused(proposal, target, message):
    with pytest.raises(IncompatibleError, match=message):
        amc.MetropolisHastings(proposal, amc.acceptance.AlwaysAccept()).build(target(), audit_every=None)


def test_the_least_friction_that_is_named_is_enough():
    target = logistic(50)
    for friction in (5.115, 5.105):
        sampler = SGHMC(0.1, friction, 5, gradient_noise=100.0 * np.eye(3))
        if friction > 5.11:
            sampler.build_unadjusted(target)
        else:
            with pytest.raises(IncompatibleError, match="adds 1 times the energy"):
                sampler.build_unadjusted(target)


def sample(proposal, monkeypatch, *, tune, draws=5, test=None, target=None):
    plant(monkeypatch, {})
    sampler = amc.MetropolisHastings(proposal, test or amc.acceptance.AlwaysAccept())
    return amc.sample(
        target or logistic(50), sampler, draws=draws, tune=tune, chains=1, random_seed=3, progressbar=False
    )


@pytest.mark.thorough
@pytest.mark.recompiles
def test_what_tuning_finds_too_hot_ends_the_chain_with_advice(monkeypatch):
    with pytest.warns(
        SamplingWarning, match=r"adds .* times the energy that friction removes; use friction of at least"
    ):
        assert sample(SGHMC(0.03, 0.01, 5), monkeypatch, tune=20).posterior.sizes["draw"] == 1
    with pytest.warns(SamplingWarning, match="no tuning steps; set tune="):
        sample(SGHMC(0.05, 5.0, 5), monkeypatch, tune=0)
    with pytest.warns(SamplingWarning, match="no tuning steps; set tune="):
        sample(SGHMC(0.05, 5.0, 5, steps=3), monkeypatch, tune=0)
    assert np.isfinite(sample(SGHMC(0.2, 0.01, 5, gradient_noise=None), monkeypatch, tune=0).posterior["beta"]).all()
    assert np.isfinite(sample(SGHMC(0.05, 5.0, 5), monkeypatch, tune=20).posterior["beta"]).all()


@pytest.mark.recompiles
@pytest.mark.parametrize(
    ("settings", "test", "gradients", "touched"),
    [
        ({"steps": 3, "gradient_noise": None}, None, 30, 30),
        ({"steps": 3, "control_variate": np.zeros(3), "gradient_noise": None}, None, 60, 30),
        ({"steps": 3}, amc.ExactTest(), 40, 90),  # T + 1 minibatches, and all data by the test
        ({"steps": 3}, None, 30, 30),  # what tuning learns costs nothing after
    ],
)
def test_costs_are_booked(settings, test, gradients, touched, monkeypatch):
    trace = sample(SGHMC(0.02, 5.0, 10, **settings), monkeypatch, tune=4, test=test)
    # The first draw still learns from the last tuning step.
    assert trace.sample_stats["gradient_evaluations"].values[0, 1:].tolist() == 4 * [gradients]
    assert trace.sample_stats["datapoints_touched"].values[0, 1:].tolist() == 4 * [touched]


@pytest.mark.parametrize(("anchor", "gradients"), [(np.zeros(3), 40), (None, 20)])
def test_learning_is_booked(anchor, gradients):
    part = SGHMC(0.02, 5.0, 10, control_variate=anchor).build_unadjusted(logistic(50))
    state, count = part.make_state(), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    plain(part.propose)(np.random.default_rng(1), state, np.zeros(3), np.empty(3), count)
    assert count[COUNT_NAMES.index("gradient_evaluations")] == gradients
    assert count[COUNT_NAMES.index("datapoints_touched")] == 10


@pytest.mark.recompiles
def test_influential_rows_give_control_variates_by_themselves(monkeypatch):
    """Gradients of the light residuals are small: friction has nothing to make up for."""
    noise = []
    for target in (logistic(50), amc.ControlVariate(logistic(50), always_read=[0, 1], at="mode")):
        part = SGHMC(0.02, 5.0, 10).build_unadjusted(target)
        state, propose = part.make_state(), plain(part.propose)
        theta, out = np.array(amc.laplace(logistic(50)).mode), np.empty(3)
        for step in range(20):
            propose(np.random.default_rng(step), state, theta, out, np.zeros(len(COUNT_NAMES), dtype=np.int64))
            part.adapt(state, 1.0, step)
        noise.append(np.trace(state.noise.estimate))
    assert noise[1] < 0.01 * noise[0]


@pytest.mark.recompiles
def test_a_gradient_that_is_nan_is_named(monkeypatch):
    target = amc.FunctionTarget(
        book.loglik, lambda theta: -theta[0] if theta[0] > 0.0 else -math.inf, data=np.full((20, 1), 0.1), n_obs=20,
        dim=1, grad_loglik=book.grad_loglik, initial_point=[0.01],
    )  # fmt: skip
    proposal = SGHMC(0.3, 1.0, 20, gradient_noise=None)
    with pytest.raises(NotFiniteError, match="gradient of the proposal is NaN"):
        sample(proposal, monkeypatch, tune=200, draws=1, target=target)


@pytest.mark.parametrize("mixed", [False, True])
def test_steps_that_do_not_follow_one_another_have_velocities_of_their_own(mixed):
    proposal = SGHMC(0.05, 1.0, 10, gradient_noise=None)
    part = (amc.proposals.Mixture([proposal, proposal]) if mixed else proposal).build_proposal(logistic(50))
    state, rng, drawn = part.make_state(), np.random.default_rng(1), []
    ours = [state.first, state.second] if mixed else [state]
    for _ in range(40):
        part.refresh(state)
        plain(part.propose)(rng, state, np.zeros(3), np.empty(3), np.zeros(len(COUNT_NAMES), dtype=np.int64))
        drawn += [np.abs(each.velocity[0]) for each in ours if not np.isnan(each.velocity[0])]
    assert len(set(drawn)) == 40  # one turned after a rejection has the size that it had


def test_audits_draw_velocities_anew(monkeypatch):
    """Were all from the chain's last velocity, turned and turned again, each audit would look at one direction."""
    plant(monkeypatch, {})
    sampler = amc.MetropolisHastings(SGHMC(0.05, 1e-15, 50), amc.SequentialTTest(0.1, 10))
    chain = sampler.build(logistic(50), audit_every="auto").start(np.zeros(3), streams(seed_sequences(1, 1)[0][0]), 0)
    auditor = chain.auditor(np.zeros((3, 3)))
    directions = [auditor.propose(np.zeros(3))[0].copy() for _ in range(20)]
    assert np.linalg.matrix_rank(np.array(directions), tol=1e-6) == 3  # 2 where the velocity is only turned


@pytest.mark.parametrize("nested", [False, True])
def test_a_mixture_tells_a_member_whether_its_own_trajectory_was_accepted(nested):
    """Velocities follow the answers about their own trajectories, wherever theta has gone since."""
    proposal, walk = SGHMC(0.05, 0.01, 10, gradient_noise=None), amc.RandomWalk(0.5)
    members = [walk, amc.proposals.Mixture([proposal, walk])] if nested else [proposal, walk]
    part = amc.proposals.Mixture(members, weights=[1.0, 2.0] if nested else None).build_proposal(logistic(50))
    state, rng, answers = part.make_state(), np.random.default_rng(1), np.random.default_rng(2)
    ours, theta, out = state.second.first if nested else state.first, np.zeros(3), np.empty(3)
    expected, moved = None, 0
    for _ in range(60):
        before = ours.velocity.copy()
        assert expected is None or np.array_equal(before, expected)
        plain(part.propose)(rng, state, theta, out, np.zeros(len(COUNT_NAMES), dtype=np.int64))
        start = ours.velocity.copy()  # drawn by the first trajectory
        mine = state.chosen[0] == 1 and state.second.chosen[0] == 0 if nested else state.chosen[0] == 0
        accepted = bool(answers.random() < 0.7)
        plain(part.settle)(state, accepted)
        if mine:
            expected = ours.velocity_there.copy() if accepted else -start
        theta = out.copy() if accepted else theta
        moved += not mine and accepted
    assert moved > 5
