"""Momentum where everything can be computed: textbook steps, stationary covariances, invariance by quadrature."""

import itertools

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.proposals import hamiltonian_step, stochastic_gradient_hamiltonian as sghmc
from approxmcmc.proposals.gradient_noise import added_noise
from tests import hamiltonian as book, langevin as models
from tests.planting import plain

N, n = 6, 2
DENSE = np.array([[0.3, 0.1], [0.1, 0.2]])
ANCHOR = np.array([0.4, 0.1])
TARGET = models.normal_means(N, 2)
V2 = np.cov(TARGET.data[0].T, ddof=1) * N**2 * (1.0 / n - 1.0 / N)
DRAW = {
    "plain": lambda: book.estimator(models.scores(TARGET.data[0]), models.prior_score, n=n, n_obs=N),
    "anchored": lambda: book.estimator(models.scores(TARGET.data[0]), models.prior_score, n=n, n_obs=N, anchor=ANCHOR),
}
PROPOSALS = {  # settings, estimator, the rest of the textbook's settings, and whether for a test
    "noise made up for": ((0.2, 3.0, n, 1, DENSE, None, V2), "plain", {"V": V2}, False),
    "two steps": ((0.2, 3.0, n, 2, np.sqrt(np.diag(DENSE)), ANCHOR, None), "anchored", {"steps": 2}, False),
    "trajectory": ((0.2, 0.7, n, 3, DENSE), "plain", {"steps": 3}, True),
    "short trajectory": ((0.2, 0.7, n, 1, np.sqrt(np.diag(DENSE)), ANCHOR), "anchored", {}, True),
}


def differs(case, wrong=None):
    """Make 12 proposals by both; return whether a theta' or a log ratio differs. Every third is rejected by a test."""
    settings, estimator, rest, tested = PROPOSALS[case]
    proposal, M = amc.proposals.StochasticGradientHamiltonian(*settings), settings[4]
    part = proposal.build_proposal(TARGET) if tested else proposal.build_unadjusted(TARGET)
    written = book.corrected if tested else book.sghmc
    written = written(DRAW[estimator](), *settings[:2], M if M.ndim == 2 else np.diag(M**2), **rest)
    propose, settle, state = plain(part.propose, wrong), part.settle, part.make_state()
    settle = settle and plain(settle, wrong)
    rng, book_rng = np.random.default_rng(1), np.random.default_rng(1)
    theta, out, count = np.array([0.5, 0.1]), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    book_theta = theta
    for step in range(12):
        ratio = propose(rng, state, theta, out, count)
        proposed, book_ratio = written(book_rng, book_theta)
        if not (np.allclose(out, proposed, rtol=0, atol=1e-11) and abs(ratio - book_ratio) < 1e-9):
            return True
        if tested:
            settle(state, bool(step % 3))
        if step % 3 or not tested:
            theta, book_theta = out.copy(), proposed
    return False


kick = plain(hamiltonian_step.kick)
apply_friction = plain(hamiltonian_step.apply_friction)
drift = plain(hamiltonian_step.drift)


def never_turned(state, accepted):
    """Settle the velocity as if no trajectory had been rejected, but for where it starts."""
    if accepted:
        state.velocity[:] = state.velocity_there


def heat_counted(rng, state, *rest):
    """Return the change of all kinetic energy instead of the kicks' work."""
    plain(sghmc.propose)(rng, state, *rest)
    return 0.5 * (state.velocity @ state.velocity - state.velocity_there @ state.velocity_there)


BUGS = {
    "kick along L g": (
        "noise made up for",
        {hamiltonian_step.kick: lambda t, s, U, *rest: kick(t, s, np.ascontiguousarray(U.T), *rest)},
    ),
    "drift by L' v": (
        "trajectory", {hamiltonian_step.drift: lambda t, s, U, *rest: drift(t, s, U.T.copy(), *rest)},
    ),
    "friction's noise at another temperature": (
        "trajectory", {hamiltonian_step.apply_friction: lambda rng, c, s, v: apply_friction(rng, c, 1.1 * s, v)},
    ),
    "heat counted as energy": ("trajectory", {sghmc.propose: heat_counted}),
    "velocity kept on rejection": ("short trajectory", {sghmc.settle_velocity: never_turned}),
}  # fmt: skip


@pytest.mark.parametrize("case", PROPOSALS)
def test_steps_equal_the_textbook(case):
    assert not differs(case)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug):
    assert differs(*BUGS[bug])


# --- without a test: stationary covariances ---


def covariance(target, h, gamma, batch, M=None, noise=None, wrong=None):
    """Return the stationary covariance of (theta, v) of the kernel's linear chain."""
    proposal = amc.proposals.StochasticGradientHamiltonian(h, gamma, batch, preconditioner=M, gradient_noise=noise)
    return book.LinearChain(target, proposal.build_unadjusted(target), batch, wrong=wrong).stationary_covariance()


A = N + 0.01  # precision of the posterior of one mean
V = N**2 * (1.0 / n - 1.0 / N)


@pytest.mark.parametrize("h", [0.3, 0.05])
@pytest.mark.parametrize("gamma", [0.5, 4.0, np.inf])
def test_baoab_has_the_exact_variance_and_the_stated_one_with_noise(h, gamma):
    target, c = models.normal_means(N), np.exp(-gamma * h)
    assert covariance(target, h, gamma, N)[0, 0] == pytest.approx(1.0 / A, rel=1e-10)
    kicks = (1.0 + c) / (1.0 - c) * h**2 / (4.0 - h**2 * A)
    assert covariance(target, h, gamma, n)[0, 0] == pytest.approx((1.0 + kicks * V) / A, rel=1e-10)
    taken_out = 4.0 / h**2 * (1.0 - c) / (1.0 + c)
    known = min(V, 0.7 * taken_out)  # little friction cannot make up for all of it
    found = covariance(target, h, gamma, n, noise=[[known]])[0, 0]
    assert found == pytest.approx((1.0 - known / taken_out + kicks * V) / A, rel=1e-10)


def error(h, noise, wrong=None):
    """Return the largest relative error of a variance, over directions, in two dimensions that nothing aligns."""
    found = covariance(TARGET, h, 3.0, n, DENSE, noise, wrong)[:2, :2]
    return np.abs(np.linalg.eigvalsh(A * found - np.eye(2))).max()


def test_noise_that_is_made_up_for_leaves_an_error_of_third_order():
    """Halving h divides the error by 8, up to terms of order h^2; without, by 2."""
    steps = 0.2 * 0.5 ** np.arange(5)
    made_up, left = (np.array([error(h, noise) for h in steps]) for noise in (V2, None))
    assert made_up[0] < 0.01
    assert left[0] > 0.1
    np.testing.assert_array_less(np.abs(made_up[:-1] / made_up[1:] - 8.0), 60.0 * steps[:-1] ** 2)
    np.testing.assert_array_less(np.abs(left[:-1] / left[1:] - 2.0), 3.0 * steps[:-1])


def made_up_by(change):
    """Return `added_noise` with other arguments."""
    return lambda V, minibatch, spread, h, keep: added_noise(*change(V, minibatch, spread, h, keep))


WRONG_NOISE = {
    "before whitening": lambda V, batch, spread, h, c: (DENSE @ V @ DENSE / 0.3, batch, spread, h, c),
    "kicks as strong as halves": lambda V, batch, spread, h, c: (0.25 * V, batch, spread, h, c),
    "with replacement": lambda V, batch, spread, h, c: (V / (1.0 - n / N), batch, spread, h, c),
}


@pytest.mark.parametrize("bug", WRONG_NOISE)
def test_other_corrections_leave_more(bug, monkeypatch):
    monkeypatch.setattr(sghmc, "added_noise", made_up_by(WRONG_NOISE[bug]))
    ratio = error(0.05, V2) / error(0.025, V2)
    assert abs(ratio - 8.0) > 60.0 * 0.05**2


def test_friction_without_end_is_the_scheme_of_leimkuhler_and_matthews():
    """theta' = theta + (h^2/2) M g + (h/2) L (z + z'), z that of the last step: an average of two noises."""
    h, theta = 0.3, np.array([0.5, 0.1])
    part = amc.proposals.StochasticGradientHamiltonian(h, np.inf, N, 1, DENSE, gradient_noise=None).build_unadjusted(
        TARGET
    )
    state, propose, rng = part.make_state(), plain(part.propose), np.random.default_rng(2)
    out, count = np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    state.velocity[:] = z = np.array([0.3, -0.8])
    L, x = np.linalg.cholesky(DENSE), TARGET.data[0]
    for _ in range(5):
        propose(rng, state, theta, out, count)
        gradient = models.prior_score(theta) + models.scores(x)(theta).sum(axis=0)
        expected = theta + h**2 / 2.0 * DENSE @ gradient + h / 2.0 * L @ (z + state.velocity)
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)
        theta, z = out.copy(), state.velocity.copy()


def test_tuning_learns_the_noise_of_the_gradients():
    """All minibatches are all data in turn: the mean of their covariances, later ones heavier, is what is known."""
    for M, anchor in ((DENSE, None), (np.sqrt(np.diag(DENSE)), ANCHOR)):
        part = amc.proposals.StochasticGradientHamiltonian(0.1, 3.0, 3, 1, M, anchor).build_unadjusted(TARGET)
        state, propose, rng = part.make_state(), plain(part.propose), np.random.default_rng(2)
        theta, out, count = np.array([0.5, 0.1]), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
        seen = []
        for step in range(7):
            propose(rng, state, theta, out, count)
            part.adapt(state, 1.0, step)
            theta = out.copy()
            seen.append(np.cov(TARGET.data[0][state.minibatch.order[:3]].T, ddof=1) * (anchor is None))
        L = np.linalg.cholesky(M) if M.ndim == 2 else np.diag(M)
        t = 1.0 + np.arange(7)
        known = L.T @ np.average(seen, axis=0, weights=t * (t + 1.0) * (t + 2.0)) @ L
        np.testing.assert_allclose(state.noise.estimate, known, rtol=0, atol=1e-13)
        c = np.exp(-0.3)
        S = (1 - c**2) * np.eye(2) - (1 + c) ** 2 / 4 * 0.1**2 * N**2 * (1 / 3 - 1 / N) * known
        lower = np.tril(state.noise.lower)
        np.testing.assert_allclose(lower @ lower.T, S, rtol=0, atol=1e-13)


# --- with a test: exact ---

WEIGHTS, ANSWERS = np.array([0.5, 1.0, 2.0]), np.array([1.0, 1.0, 0.0])
H, GAMMA = 0.8, 0.6


def log_posterior(theta):
    """Return the log density of a logistic regression with three data, one parameter and prior N(0, 1)."""
    eta = np.multiply.outer(theta, WEIGHTS)
    return (ANSWERS * eta - np.logaddexp(0.0, eta)).sum(axis=-1) - 0.5 * theta**2


def minibatch_slope(theta, datum):
    """Return the gradient that one datum estimates."""
    return 3.0 * WEIGHTS[datum] * (ANSWERS[datum] - 1.0 / (1.0 + np.exp(-WEIGHTS[datum] * theta))) - theta


def trajectory(theta, v, z, data, warmth=1.0):
    """Return theta', v' and the log ratio of a trajectory of one step."""
    c = np.exp(-GAMMA * H)
    kicked = v + 0.5 * H * minibatch_slope(theta, data[0])
    theta = theta + 0.5 * H * kicked
    rubbed = c * kicked + warmth * np.sqrt(1.0 - c**2) * z
    theta = theta + 0.5 * H * rubbed
    v_there = rubbed + 0.5 * H * minibatch_slope(theta, data[1])
    return theta, v_there, -0.5 * (kicked**2 - v**2 + v_there**2 - rubbed**2)


def bias(bug=""):
    """Return how far a step with Barker's rule, which is smooth, moves E f from the posterior, for several f."""
    theta, v, z = np.meshgrid(np.linspace(-6.5, 6.5, 80), *2 * [np.linspace(-7.0, 7.0, 64)], indexing="ij", sparse=True)
    weight = np.exp(log_posterior(theta) - 0.5 * v**2 - 0.5 * z**2)
    weight = weight / weight.sum() / 9.0
    functions = (lambda x, v: x * v, lambda x, v: x**2, lambda x, v: v**2, lambda x, v: np.sin(x + 2.0 * v))
    total = np.zeros(len(functions))
    for data in itertools.product(range(3), repeat=2):
        there, v_there, ratio = trajectory(theta, v, z, data, 1.1 if bug == "temperature" else 1.0)
        if bug == "heat":
            ratio = -0.5 * (v_there**2 - v**2)
        accept = 1.0 / (1.0 + np.exp(log_posterior(theta) - log_posterior(there) - ratio))
        back = v if bug == "not turned" else -v
        for k, f in enumerate(functions):
            total[k] += (weight * (accept * f(there, v_there) + (1.0 - accept) * f(theta, back) - f(theta, v))).sum()
    return np.abs(total).max()


def logistic_target():
    """Return the same as a target."""
    return amc.targets.LogisticRegression(WEIGHTS[:, None], ANSWERS.astype(int), prior_scale=1.0)


def test_the_corrected_step_leaves_the_posterior_invariant():
    assert bias() < 1e-10


@pytest.mark.thorough
@pytest.mark.parametrize("bug", ["not turned", "heat", "temperature"])
def test_without_its_parts_it_does_not(bug):
    assert bias(bug) > 1e-3


def test_the_kernel_makes_the_trajectory_that_was_integrated():
    part = amc.proposals.StochasticGradientHamiltonian(H, GAMMA, 1, gradient_noise=None).build_proposal(
        logistic_target()
    )
    propose, out, count = plain(part.propose), np.empty(1), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    for theta, v, z in ((0.3, -1.2, 0.4), (-2.0, 0.5, 1.5)):
        for data in itertools.product(range(3), repeat=2):
            state, second = part.make_state(), [0, 1, 2]
            state.velocity[0] = -v
            plain(part.settle)(state, False)  # the trajectory before was not accepted: it is turned
            second[0], second[data[0]] = second[data[0]], second[0]
            uniforms = [(data[0] + 0.5) / 3.0, (second.index(data[1]) + 0.5) / 3.0]
            ratio = propose(models.Script(uniforms, [z]), state, np.array([theta]), out, count)
            expected = trajectory(theta, v, z, data)
            np.testing.assert_allclose((out[0], state.velocity_there[0], ratio), expected, rtol=0, atol=1e-12)
