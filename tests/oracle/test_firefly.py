"""Firefly against laws that are known without sampling: enumerated kernels, and the same chain in NumPy."""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.batches import full_terms
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.samplers.firefly import chain as firefly_chain
from approxmcmc.samplers.firefly import steps as firefly_steps
from approxmcmc.targets import LogisticRegression
from tests import firefly as textbook
from tests.branches import outcomes, plain_module
from tests.models import logistic

# ------------------------------------------------------------------------------------------------- enumerated kernels

REVIEW_RATIO = ("q_bright * math.expm1(min(gap, MOST_GAP)) / q)", "-q_bright * math.expm1(-gap) / q)")
IN_PLACE = ("n = skip_over_dark(rng, order, first_dark,", "n = skip_over_dark(rng, order, size[0],")
ATTEMPT_FORGOTTEN = ("math.log(q / q_bright)", "math.log(q)")
STEPS = {None: plain_module(firefly_steps)}
STEPS |= {bug: plain_module(firefly_steps, *bug) for bug in (REVIEW_RATIO, IN_PLACE, ATTEMPT_FORGOTTEN)}


def z_kernel(steps, gaps, update, settings):
    """Return P(z -> z') of one z-update, shape (2^N, 2^N), by running it under every outcome of its coins."""
    n = len(gaps)
    kernel = np.zeros((2**n, 2**n))

    def fill(theta, data, order, lo, hi, out):
        out[:] = gaps[order[lo:hi]]

    for before in range(2**n):
        bright = np.array([before >> i & 1 for i in range(n)], dtype=bool)

        def run(rng, bright=bright):
            order = np.concatenate([np.flatnonzero(bright), np.flatnonzero(~bright)])
            position, size = np.argsort(order), np.array([bright.sum()])
            log_odds = np.array([steps.log_odds_of(gaps[i]) for i in order])
            state = (order, position, size, log_odds)
            work = (np.empty(n), np.empty(n, dtype=np.int64), np.empty(n), np.zeros(n, dtype=np.int64))
            getattr(steps, update)(rng, fill, None, None, state, work, settings, np.zeros(99, dtype=np.int64))
            assert (position[order] == np.arange(n)).all()
            assert not work[3].any()
            return sum(1 << int(i) for i in order[: size[0]])

        for probability, after in outcomes(run):
            kernel[before, after] += probability
    np.testing.assert_allclose(kernel.sum(axis=1), 1.0, rtol=1e-12)
    return kernel


def stationary(kernel):
    n = len(kernel)
    return np.linalg.lstsq(np.vstack([kernel.T - np.eye(n), np.ones(n)]), np.r_[np.zeros(n), 1.0], rcond=None)[0]


def brightness(steps, r, q, update="update_by_skips", q_bright=1.0):
    gaps = np.array([-math.log(r)])
    return stationary(z_kernel(steps, gaps, update, np.array([q, q_bright, 0.0])))[1]


@pytest.mark.parametrize("update", ["update_by_skips", "update_by_scan", "update_explicit"])
@pytest.mark.parametrize("q_bright", [1.0, 0.4])
@pytest.mark.parametrize(("r", "q"), [(0.98, 0.1), (0.9, 0.1), (0.6, 0.1), (0.98, 1.0), (0.3, 0.6)])
def test_every_update_leaves_the_law_of_z_alone(update, q_bright, r, q):
    assert brightness(STEPS[None], r, q, update, q_bright) == pytest.approx(1.0 - r, abs=1e-12)


@pytest.mark.parametrize(
    ("r", "review", "in_place"), [(0.98, 0.019608, 0.020408), (0.9, 0.1, 0.109890), (0.6, 0.4, 0.425532)]
)
def test_what_the_published_errors_would_do(r, review, in_place):
    """The table of brightness: the errors show where a minimum is active, r = .98 (correct: .020000)."""
    assert brightness(STEPS[REVIEW_RATIO], r, 0.1) == pytest.approx(review, abs=5e-7)
    assert brightness(STEPS[IN_PLACE], r, 0.1) == pytest.approx(in_place, abs=5e-7)


def test_a_forgotten_attempt_probability_is_seen():
    assert abs(brightness(STEPS[ATTEMPT_FORGOTTEN], 0.6, 0.1, q_bright=0.4) - 0.4) > 0.01


@pytest.mark.parametrize("update", ["update_by_skips", "update_by_scan", "update_explicit"])
def test_three_data_at_once(update):
    """All 8 states of three data with different gaps, one of them 0: the product law, reached from everywhere."""
    gaps = np.array([0.0, 0.3, 2.0])
    r = np.exp(-gaps)
    law = [np.prod([(1 - r[i]) if z >> i & 1 else r[i] for i in range(3)]) for z in range(8)]
    kernel = z_kernel(STEPS[None], gaps, update, np.array([0.4, 1.0, 0.0]))
    np.testing.assert_allclose(stationary(kernel), law, atol=1e-13)
    bright = [z for z in range(8) if z & 1]
    assert kernel[np.ix_(bright, bright)].sum(axis=1).max() <= (0.6 if update == "update_explicit" else 0.0)


UPDATES = ["update_by_skips", "update_by_scan", "update_explicit"]
FROZEN = {
    "nothing goes dark by skips": (
        UPDATES[0], "    darken(rng, bright, settings[Q], settings[Q_BRIGHT])\n    n = skip_over", "    n = skip_over",
    ),
    "nothing goes dark by scan": (
        UPDATES[1], "    darken(rng, bright, settings[Q], settings[Q_BRIGHT])\n    n = scan_dark", "    n = scan_dark",
    ),
    "nothing goes bright by skips": (UPDATES[0], "if u < go_bright_probability(gap, q, q_bright):", "if False:"),
    "nothing goes bright by scan": (UPDATES[1], "if u < go_bright_probability(gap, q, q_bright):", "if False:"),
    "nothing goes dark explicitly": (UPDATES[2], "make_dark(bright, position[datum])", "pass"),
    "nothing goes bright explicitly": (
        UPDATES[2], "make_bright(bright, candidates[k], log_odds_of(candidate_gaps[k]))", "pass",
    ),
}  # fmt: skip


def renews(steps, update):
    """Return whether every z of two data can be reached from every other; to leave the law alone is not enough."""
    kernel = z_kernel(steps, np.array([0.3, 2.0]), update, np.array([0.4, 1.0, 0.0]))
    return bool((np.linalg.matrix_power(np.eye(4) + kernel, 4) > 0.0).all())


@pytest.mark.parametrize("update", UPDATES)
def test_every_update_renews_z(update):
    assert renews(STEPS[None], update)


@pytest.mark.parametrize("bug", FROZEN)
def test_a_z_that_freezes_is_seen(bug):
    update, right, wrong = FROZEN[bug]
    assert not renews(plain_module(firefly_steps, right, wrong), update)


GRID = np.linspace(-3.0, 3.0, 25)
X3, Y3 = np.array([[1.0], [-2.0], [1.5]]), np.array([1, 1, -1])
SLACK = 1e-6


def joint_fixture(steps):
    """Return TV(theta-marginal, posterior) and E sum z under the stationary law of z-update times random walk."""
    target = LogisticRegression(X3, Y3)
    bound, compiled = target.likelihood_bound("untuned", None), target.compile()
    n_theta, n_z = len(GRID), 8
    log_joint, z_part = np.empty((n_theta, n_z)), np.zeros((n_theta, n_z, n_theta, n_z))
    log_posterior = np.empty(n_theta)
    for a, theta in enumerate(GRID[:, None]):
        gaps = full_terms(bound.gaps, theta, bound.data, 3) + SLACK
        log_posterior[a] = compiled.log_prior(theta) + full_terms(compiled.log_terms, theta, compiled.data, 3).sum()
        z_part[a, :, a, :] = z_kernel(steps, gaps, "update_by_skips", np.array([0.05, 1.0, 0.0]))
        for z in range(n_z):
            order = np.array([i for i in range(3) if z >> i & 1] + [i for i in range(3) if not z >> i & 1])
            log_joint[a, z] = steps.log_joint(
                lambda t, d, o, lo, hi, out: bound.gaps(t, d, o, lo, hi, out) or np.add(out, SLACK, out=out),
                lambda t, s: bound.log_bound(t, s) - 3 * SLACK, compiled.log_prior, bound.data, bound.sums, theta,
                (order, None, np.array([z.bit_count()]), None), np.empty(3), np.empty(2), np.zeros(99, dtype=np.int64),
            )  # fmt: skip
    weights = np.exp(-0.5 * np.subtract.outer(GRID, GRID) ** 2)
    weights /= weights.sum(axis=1).max()  # one constant for all rows: symmetric, what is left over stays
    theta_part = np.zeros((n_theta, n_z, n_theta, n_z))
    for z in range(n_z):
        move = weights * np.exp(np.minimum(0.0, log_joint[None, :, z] - log_joint[:, None, z]))
        np.fill_diagonal(move, 0.0)
        theta_part[:, z, :, z] = move + np.diag(1.0 - move.sum(axis=1))
    size = n_theta * n_z
    law = stationary(z_part.reshape(size, size) @ theta_part.reshape(size, size)).reshape(n_theta, n_z)
    posterior = np.exp(log_posterior - log_posterior.max())
    tv = 0.5 * np.abs(law.sum(axis=1) - posterior / posterior.sum()).sum()
    return tv, float(law.sum(axis=0) @ [z.bit_count() for z in range(n_z)])


def test_the_marginal_of_theta_is_the_posterior():
    """200 joint states, exactly: nothing but rounding may separate the theta-marginal from the posterior."""
    tv, bright = joint_fixture(STEPS[None])
    assert tv < 1e-10
    assert bright == pytest.approx(0.062425, abs=5e-7)


@pytest.mark.parametrize(
    ("bug", "tv", "bright"), [(REVIEW_RATIO, 3.1e-4, 0.061518), (IN_PLACE, 9.4e-4, 0.064499)],
    ids=["the review's ratio", "loops in place"],
)  # fmt: skip
def test_the_marginal_shows_the_published_errors(bug, tv, bright):
    assert joint_fixture(STEPS[bug]) == (pytest.approx(tv, rel=0.01), pytest.approx(bright, abs=5e-7))


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


def plain_kernel(sampler, target, module=None, right="", wrong=""):
    """Return the loop over draws as plain Python, with one piece of its source replaced."""
    steps = plain_module(firefly_steps, right, wrong) if module is firefly_steps else STEPS[None]
    chain = plain_module(firefly_chain, right, wrong) if module is firefly_chain else plain_module(firefly_chain)
    proposal = sampler.proposal.build_proposal(target)
    parts = {"FORGET": lambda state: None, "SLICES": False, "TUNES_Q": False, "UPDATE_Z": steps.update_by_skips}
    names = {name: value for name, value in vars(steps).items() if callable(value)}
    return types.FunctionType(chain.advance.__code__, {**vars(chain), **names, **proposal.functions, **parts})


def differs(name, *bug, steps=120, q=0.1, compiled=False):
    """Run the library's chain and NumPy's; return whether a draw or a record differs."""
    target, model, start, scale, settings = case(name)
    sampler = amc.Firefly(amc.RandomWalk(scale), z_update=amc.ImplicitZ(q), **settings)
    program = sampler.build(target)
    if not compiled:
        program.kernel = plain_kernel(sampler, target, *bug)
    chain = program.start(start, streams(seed_sequences(20140621, 1)[0][0]), 0)
    draws, counts = np.empty((steps, start.size)), np.empty((steps, len(COUNT_NAMES)), dtype=np.int64)
    if chain.advance(steps, 1, draws, counts, np.empty((steps, len(VALUE_NAMES)))) < steps:
        return True
    theirs = textbook.Chain(model, start, n_obs=target.n_obs, scale=scale, q=q, seed=20140621)
    expected, *records = theirs.run(steps)
    ours = [counts[:, COUNT_NAMES.index(key)] for key in ("bright_count", "dark_proposals", "accepted")]
    return not (np.array_equal(draws, expected) and all(map(np.array_equal, ours, records)))


@pytest.mark.parametrize("name", ["tuned", "untuned", "robust", "softmax"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_chains_equal_numpy_draw_for_draw(name, compiled):
    assert not differs(name, compiled=compiled)


BUGS = {
    "the bound is left out": (firefly_steps, "return parts[0] + parts[1] + total\n\n\n@compiled\ndef current",
                              "return parts[0] + total\n\n\n@compiled\ndef current"),
    "the odds of bright data are left out": (firefly_steps, "total += log_odds[k]\n    count", "count"),
    "odds of the old theta are kept": (
        firefly_chain, "log_odds[: size[0]] = proposed_log_odds[: size[0]]", "pass",
    ),
    "a datum's odds stay behind": (firefly_steps, "    log_odds[place] = log_odds[last]\n", ""),
    "the review's ratio": (firefly_steps, *REVIEW_RATIO),
    "loops in place": (firefly_steps, *IN_PLACE),
    "jumps of the wrong rate": (firefly_steps, "rate = -math.log1p(-q) if q < 1.0 else math.inf", "rate = q"),
    "z is never renewed": (firefly_chain, "if UPDATE_Z(z_rng, gaps, theta, data, bright, work, z_settings, count) < 0:",
                           "if False:"),
    "z is renewed after accepted moves alone": (firefly_chain, "if UPDATE_Z(", "if moved and UPDATE_Z("),
    "the review's theta, not theta'": (
        firefly_chain, "assign(theta, proposed)\n                assign(parts", "assign(parts",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug):
    assert differs("untuned", *BUGS[bug])
