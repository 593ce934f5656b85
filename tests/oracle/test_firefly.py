"""Firefly against distributions that are known without sampling: enumerated kernels, and the same chain in NumPy."""

import math

import numpy as np
import pytest
from numba import types as nb

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.compiler.compile import as_python, kernel
from approxmcmc.engine.numerics import log1mexp
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.families.binomial import jaakkola_coefficients
from approxmcmc.samplers.firefly.implicit_resampling import (
    brighten,
    choose_dark,
    darken,
    go_bright_probability,
    go_dark_probability,
    update_implicit,
)
from approxmcmc.samplers.firefly.joint import (
    Bright,
    Factors,
    JointDensity,
    log_joint,
    log_joint_at,
    make_bright,
    make_dark,
    new_bright,
)
from approxmcmc.samplers.firefly.step import go_to_candidate
from approxmcmc.targets import LogisticRegression
from studies.firefly_updates import expected_bright
from studies.tools.one_by_one_z import OneByOneZ
from tests import firefly as textbook
from tests.coins import outcomes
from tests.models import logistic
from tests.planting import plain, plant

# Stays compiled, because its polynomials are the compiler's; as a kernel it is kept on disk.
RIGHT = {log1mexp: kernel(as_python(log1mexp), nb.float64(nb.float64))}

# ------------------------------------------------------------------------------------------------- enumerated kernels


def review_ratio(gap, q, q_bright):
    return min(1.0, -q_bright * math.expm1(-gap) / q)


def choose_in_place(rng, bright, first_dark, state):
    """Ask the data that have just gone dark, too."""
    return plain(choose_dark)(rng, bright, bright.size[0], state)


def forget_the_attempt(log_odds, q, q_bright):
    return math.exp(min(0.0, math.log(q) - log_odds))


REVIEW_RATIO = {go_bright_probability: review_ratio}
IN_PLACE = {choose_dark: choose_in_place}
ATTEMPT_FORGOTTEN = {go_dark_probability: forget_the_attempt}


def implicit(q, q_bright=1.0):
    return amc.samplers.ImplicitResampling(q, q_bright)


def explicit(q, q_bright=1.0):
    return amc.samplers.ExplicitResampling(q)


def z_kernel(z_update, gaps, wrong=None):
    """Return P(z -> z') of one z-update, shape (2^N, 2^N), by running it under every outcome of its coins."""
    n, built = len(gaps), z_update.build_z_update()
    update, kernel = plain(built.update, RIGHT | (wrong or {})), np.zeros((2**n, 2**n))

    def fill(theta, data, order, lo, hi, out):
        out[:] = gaps[order[lo:hi]]

    joint = JointDensity(None, None, fill, None, None)
    for before in range(2**n):
        is_bright = np.array([before >> i & 1 for i in range(n)], dtype=bool)

        def run(rng, is_bright=is_bright):
            bright, state = new_bright(is_bright, gaps), built.make_state(0.0, n)
            assert update(rng, None, joint, bright, state, np.zeros(99, dtype=np.int64))
            assert (bright.position[bright.order] == np.arange(n)).all()
            assert not np.any(getattr(state, "is_picked", 0))
            return sum(1 << int(i) for i in bright.order[: bright.size[0]])

        for probability, after in outcomes(run):
            kernel[before, after] += probability
    np.testing.assert_allclose(kernel.sum(axis=1), 1.0, rtol=1e-12)
    return kernel


def stationary(kernel):
    n = len(kernel)
    return np.linalg.lstsq(np.vstack([kernel.T - np.eye(n), np.ones(n)]), np.r_[np.zeros(n), 1.0], rcond=None)[0]


def brightness(z_update, r, wrong=None):
    return stationary(z_kernel(z_update, np.array([-math.log(r)]), wrong))[1]


@pytest.mark.parametrize("update", [implicit, explicit])
@pytest.mark.parametrize("q_bright", [1.0, 0.4])
@pytest.mark.parametrize(("r", "q"), [(0.98, 0.1), (0.9, 0.1), (0.6, 0.1), (0.98, 1.0), (0.3, 0.6)])
def test_every_update_leaves_the_law_of_z_alone(update, q_bright, r, q):
    assert brightness(update(q, q_bright), r) == pytest.approx(1.0 - r, abs=1e-12)


@pytest.mark.parametrize(
    ("r", "review", "in_place"), [(0.98, 0.019608, 0.020408), (0.9, 0.1, 0.109890), (0.6, 0.4, 0.425532)]
)
def test_what_the_published_errors_would_do(r, review, in_place):
    """The table of brightness: the errors show where a minimum is active, r = .98 (correct: .020000)."""
    assert brightness(implicit(0.1), r, REVIEW_RATIO) == pytest.approx(review, abs=5e-7)
    assert brightness(implicit(0.1), r, IN_PLACE) == pytest.approx(in_place, abs=5e-7)


def test_a_forgotten_attempt_probability_is_seen():
    assert abs(brightness(implicit(0.1, 0.4), 0.6, ATTEMPT_FORGOTTEN) - 0.4) > 0.01


@pytest.mark.parametrize("update", [implicit, explicit])
def test_three_data_at_once(update):
    """All 8 states of three data with different gaps, one of them 0: the product law, reached from everywhere."""
    gaps = np.array([0.0, 0.3, 2.0])
    r = np.exp(-gaps)
    law = [np.prod([(1 - r[i]) if z >> i & 1 else r[i] for i in range(3)]) for z in range(8)]
    kernel = z_kernel(update(0.4), gaps)
    np.testing.assert_allclose(stationary(kernel), law, atol=1e-13)
    bright = [z for z in range(8) if z & 1]
    assert kernel[np.ix_(bright, bright)].sum(axis=1).max() <= (0.6 if update is explicit else 0.0)


def choose_by_scan(rng, bright, first_dark, state):
    n = 0
    for place in range(first_dark, len(bright.order)):
        if rng.random() < state.q[0]:
            state.candidates[n] = bright.order[place]
            n += 1
    return n


@pytest.mark.parametrize("q_bright", [1.0, 0.4])
def test_jumps_choose_as_a_uniform_for_each_datum_would(q_bright):
    gaps, z_update = np.array([0.0, 0.3, 2.0]), implicit(0.4, q_bright)
    scanned = z_kernel(z_update, gaps, {choose_dark: choose_by_scan})
    np.testing.assert_allclose(z_kernel(z_update, gaps), scanned, atol=1e-14)


def test_the_loop_of_the_study_has_the_law_of_the_jumps():
    gaps = np.array([0.0, 0.3, 2.0])
    np.testing.assert_allclose(z_kernel(OneByOneZ(0.4), gaps), z_kernel(implicit(0.4), gaps), atol=1e-14)


def test_expected_brightness_is_equation_3():
    """On two data by hand: 1 - B / L with the bounds in closed form, s = y theta'x."""
    target, theta = logistic(2, 2), np.array([[0.7, -0.4], [2.0, 1.0]])
    a, c = jaakkola_coefficients(np.array([1.5]))
    s = np.where(target.y > 0, 1.0, -1.0) * (theta @ target.X.T)
    by_hand = 1.0 - np.exp(a * s**2 + 0.5 * s + c) * (1.0 + np.exp(-s))
    np.testing.assert_allclose(expected_bright(target, "untuned", theta), by_hand.sum(axis=1), rtol=1e-9)


def do_nothing(*arguments):
    return True


FROZEN = {
    "nothing goes dark implicitly": (implicit, {darken: do_nothing}),
    "nothing goes bright implicitly": (implicit, {brighten: do_nothing}),
    "nothing goes dark explicitly": (explicit, {make_dark: do_nothing}),
    "nothing goes bright explicitly": (explicit, {make_bright: do_nothing}),
}


def renews(update, wrong=None):
    """Return whether every z of two data can be reached from every other; to leave the law alone is not enough."""
    kernel = z_kernel(update(0.4), np.array([0.3, 2.0]), wrong)
    return bool((np.linalg.matrix_power(np.eye(4) + kernel, 4) > 0.0).all())


@pytest.mark.parametrize("update", [implicit, explicit])
def test_every_update_renews_z(update):
    assert renews(update)


@pytest.mark.parametrize("bug", FROZEN)
def test_a_z_that_freezes_is_seen(bug):
    assert not renews(*FROZEN[bug])


GRID = np.linspace(-3.0, 3.0, 25)
X3, Y3 = np.array([[1.0], [-2.0], [1.5]]), np.array([1, 1, -1])
SLACK = 1e-6


def joint_fixture(wrong=None):
    """Return TV(theta-marginal, posterior) and E sum z under the stationary law of z-update times random walk."""
    target = LogisticRegression(X3, Y3)
    bound, compiled = target.likelihood_bound("untuned", None), target.compile()
    n_theta, n_z = len(GRID), 8
    log_p, z_part = np.empty((n_theta, n_z)), np.zeros((n_theta, n_z, n_theta, n_z))
    log_posterior, log_joint_of_z = np.empty(n_theta), plain(log_joint_at, RIGHT)
    lowered = JointDensity(
        compiled.log_prior,
        lambda t, s: bound.log_bound(t, s) - 3 * SLACK,
        lambda t, d, o, lo, hi, out: bound.gaps(t, d, o, lo, hi, out) or np.add(out, SLACK, out=out),
        bound.data,
        bound.sums,
    )
    for a, theta in enumerate(GRID[:, None]):
        gaps = full_terms(bound.gaps, theta, bound.data, 3) + SLACK
        log_posterior[a] = compiled.log_prior(theta) + full_terms(compiled.log_terms, theta, compiled.data, 3).sum()
        z_part[a, :, a, :] = z_kernel(implicit(0.05), gaps, wrong)
        for z in range(n_z):
            order = np.array([i for i in range(3) if z >> i & 1] + [i for i in range(3) if not z >> i & 1])
            bright = Bright(order, None, np.array([z.bit_count()]), None)
            factors = Factors(np.empty(1), np.empty(1), np.empty(3))
            log_p[a, z] = log_joint_of_z(lowered, theta, bright, factors, np.zeros(99, dtype=np.int64))
    weights = np.exp(-0.5 * np.subtract.outer(GRID, GRID) ** 2)
    weights /= weights.sum(axis=1).max()  # one constant for all rows: symmetric, what is left over stays
    theta_part = np.zeros((n_theta, n_z, n_theta, n_z))
    for z in range(n_z):
        move = weights * np.exp(np.minimum(0.0, log_p[None, :, z] - log_p[:, None, z]))
        np.fill_diagonal(move, 0.0)
        theta_part[:, z, :, z] = move + np.diag(1.0 - move.sum(axis=1))
    size = n_theta * n_z
    law = stationary(z_part.reshape(size, size) @ theta_part.reshape(size, size)).reshape(n_theta, n_z)
    posterior = np.exp(log_posterior - log_posterior.max())
    tv = 0.5 * np.abs(law.sum(axis=1) - posterior / posterior.sum()).sum()
    return tv, float(law.sum(axis=0) @ [z.bit_count() for z in range(n_z)])


def test_the_marginal_of_theta_is_the_posterior():
    """200 joint states, exactly: nothing but rounding may separate the theta-marginal from the posterior."""
    tv, bright = joint_fixture()
    assert tv < 1e-10
    assert bright == pytest.approx(0.062425, abs=5e-7)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("bug", "tv", "bright"), [(REVIEW_RATIO, 3.1e-4, 0.061518), (IN_PLACE, 9.4e-4, 0.064499)],
    ids=["the review's ratio", "loops in place"],
)  # fmt: skip
def test_the_marginal_shows_the_published_errors(bug, tv, bright):
    assert joint_fixture(bug) == (pytest.approx(tv, rel=0.01), pytest.approx(bright, abs=5e-7))


# -------------------------------------------------------------------------------------- the same chain, draw for draw


def case(name):
    """Return a target, its NumPy model, the start, the scale and the bound."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    if name == "robust":
        target = amc.targets.RobustRegression(X, X[:, 0] + rng.standard_t(3, size=150), df=3.0, scale=0.8)
        return target, textbook.Robust(X, target.y, 3.0, 0.8, 1.0, 1.0), np.zeros(2), 0.1, {"bound": "untuned"}
    if name == "softmax":
        target = amc.targets.SoftmaxRegression(X, rng.integers(3, size=150))
        at = rng.normal(size=6)
        model = textbook.Softmax(X, target.y, 3, 1.0, at.reshape(3, 2))
        return target, model, np.zeros(6), 0.1, {"bound": "tuned", "at": at}
    target = logistic(n=150, dim=2)
    at = np.array([0.5, 1.0])
    xi = np.abs(target.X @ at) if name == "tuned" else 1.5
    settings = {"bound": "tuned", "at": at} if name == "tuned" else {"bound": "untuned"}
    return target, textbook.Logistic(target.X, target.y, 1.0, xi), np.array([0.3, 0.2]), 0.2, settings


def differs(name, steps=120, q=0.1):
    """Run the library's chain and NumPy's; return whether a draw or a record differs."""
    target, model, start, scale, settings = case(name)
    program = amc.Firefly(amc.RandomWalk(scale), z_update=amc.samplers.ImplicitResampling(q), **settings).build(target)
    chain = program.start(start, streams(seed_sequences(20140621, 1)[0][0]), 0)
    draws, counts = np.empty((steps, start.size)), np.empty((steps, len(COUNT_NAMES)), dtype=np.int64)
    if chain.advance(steps, 1, draws, counts, np.empty((steps, len(VALUE_NAMES)))) < steps:
        return True
    theirs = textbook.Chain(model, start, n_obs=target.n_obs, scale=scale, q=q, seed=20140621)
    expected, *records = theirs.run(steps)
    ours = [counts[:, COUNT_NAMES.index(key)] for key in ("bright_count", "dark_proposals", "accepted")]
    return not (np.array_equal(draws, expected) and all(map(np.array_equal, ours, records)))


@pytest.mark.parametrize("name", [pytest.param("tuned", marks=pytest.mark.core), "untuned", "robust", "softmax"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_chains_equal_numpy_draw_for_draw(name, compiled, monkeypatch):
    if not compiled:
        plant(monkeypatch, RIGHT)
    assert not differs(name)


def leave_out_the_bound(factors, n_bright):
    return factors.log_prior[0] + factors.log_odds[:n_bright].sum()


def leave_out_the_odds(factors, n_bright):
    return factors.log_prior[0] + factors.log_bound[0]


def keep_the_old_odds(state):
    odds = state.bright.log_odds.copy()
    plain(go_to_candidate)(state)
    state.bright.log_odds[:] = odds


def keep_the_old_theta(state):
    theta = state.theta.copy()
    plain(go_to_candidate)(state)
    state.theta[:] = theta


def leave_odds_behind(bright, place):
    odds = bright.log_odds.copy()
    plain(make_dark)(bright, place)
    bright.log_odds[:] = odds


def jump_at_rate_q(rng, bright, first_dark, state):
    return plain(choose_dark)(rng, bright, first_dark, state._replace(q=-np.expm1(-state.q)))


def update_after_moves_alone():
    update, last = plain(update_implicit, RIGHT), []

    def update_where_moved(rng, theta, joint, bright, state, count):
        stayed = bool(last) and np.array_equal(theta, last[-1])
        last.append(theta.copy())
        return stayed or update(rng, theta, joint, bright, state, count)

    return update_where_moved


BUGS = {
    "the bound is left out": {log_joint: leave_out_the_bound},
    "the odds of bright data are left out": {log_joint: leave_out_the_odds},
    "odds of the old theta are kept": {go_to_candidate: keep_the_old_odds},
    "a datum's odds stay behind": {make_dark: leave_odds_behind},
    "the review's ratio": REVIEW_RATIO,
    "loops in place": IN_PLACE,
    "jumps of the wrong rate": {choose_dark: jump_at_rate_q},
    "z is never renewed": {update_implicit: do_nothing},
    "z is renewed after accepted moves alone": {update_implicit: update_after_moves_alone()},
    "the review's theta, not theta'": {go_to_candidate: keep_the_old_theta},
}


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug, monkeypatch):
    plant(monkeypatch, RIGHT | BUGS[bug])
    assert differs("untuned")
