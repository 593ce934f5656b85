"""Firefly at its limits: when a bound is refused, what stops a chain, the automatic q, and more data than a batch."""

import itertools
import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import VALUE_NAMES
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.batches import BATCH, full_terms
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.chain import STAYED
from approxmcmc.samplers.firefly import bound as bounds
from approxmcmc.samplers.firefly.explicit_z import pick, redraw_dark
from approxmcmc.samplers.firefly.implicit_z import automatic_q, brighten, go_bright_probability
from approxmcmc.samplers.firefly.joint import JointDensity, new_bright, write_gaps
from approxmcmc.samplers.firefly.program import FireflyProgram
from approxmcmc.samplers.firefly.theta_update import JointTarget, make_metropolis_move
from tests.models import logistic
from tests.oracle.test_firefly import z_kernel
from tests.planting import plain

THETA = np.array([2.0])


def writes(numbers):
    """Return a kernel of terms that are these numbers, whatever theta."""

    def write(theta, data, order, lo, hi, out):
        out[:] = np.asarray(numbers)[order[lo:hi] if len(order) else slice(lo, hi)]

    return write


def look_at(log_likelihood, gaps, *, off=0.0):
    """Look at a bound with these gaps whose closed form is `off` by so much."""
    compiled = types.SimpleNamespace(log_terms=writes(log_likelihood), data=(), n_obs=len(gaps))
    closed = float(np.sum(np.array(log_likelihood) - np.array(gaps))) + off
    bound = types.SimpleNamespace(gaps=writes(gaps), data=(), log_bound=lambda theta, sums: closed, sums=None)
    bounds._check_at(bound, compiled, THETA, "the target")


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
        (math.nan, math.nan, False),  # a fault of the likelihood, which is none of the bound's
    ],
)
def test_a_bound_may_lie_above_the_likelihood_by_rounding_alone(log_likelihood, gap, is_refused):
    if not is_refused:
        return look_at([log_likelihood, -1.0], [gap, 0.5])
    with pytest.raises(InvalidInputError, match="above the likelihood for 1 of 2 data"):
        look_at([log_likelihood, -1.0], [gap, 0.5])


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ((0.5, -0.3, -0.5), r"for 2 of 3 data at theta = \[2.\]; the worst is datum 2: log L = -2, log B = -1.5\."),
        ((-0.5, 0.5, math.nan), "for 2 of 3 data .* the worst is datum 2: log L = -2, log B = nan"),
        ((-0.5, -0.3, 0.1), "for 2 of 3 data .* the worst is datum 0: log L = -2, log B = -1.5"),
    ],
)
def test_the_worst_datum_of_a_bound_is_named(gaps, said):
    with pytest.raises(InvalidInputError, match=said):
        look_at([-2.0, -2.0, -2.0], gaps)


@pytest.mark.parametrize(("gap", "off", "is_refused"), [(0.0, 1e-9, False), (0.0, 3e-9, True), (8.0, 9e-9, False)])
def test_a_closed_form_may_be_off_by_rounding_alone(gap, off, is_refused):
    """Two data of size 1 + |log L| + |gap| each: 2e-9 where both are 0, more where a gap is large."""
    for sign in (-1.0, 1.0):
        if not is_refused:
            look_at([0.0, 0.0], [gap, gap], off=sign * off)
            continue
        with pytest.raises(InvalidInputError, match="its terms add up to"):
            look_at([0.0, 0.0], [gap, gap], off=sign * off)
    look_at([-math.inf, 0.0], [0.0, 0.0], off=1.0)  # nothing to compare


@pytest.mark.recompiles
@pytest.mark.parametrize("point", [None, np.array([1.0, 2.0, 3.0])])
def test_bounds_are_looked_at_where_they_touch_and_around(point, monkeypatch):
    looked = []
    monkeypatch.setattr(bounds, "_check_at", lambda bound, compiled, theta, name: looked.append(theta))
    target = logistic(60)
    _, attrs = bounds.checked_bound(target, types.SimpleNamespace(n_obs=60), "untuned", point)
    centre = target.initial_point() if point is None else point
    assert (looked[0] == centre).all() and attrs == {"setup_bound_likelihood_evaluations": 2 * len(looked) * 60}
    distances = [float(np.abs(theta - centre).max()) for theta in looked]
    assert distances == sorted(set(distances)) and distances[-1] > 2.0


def test_the_mode_is_searched_to_a_hundredth_of_a_posterior_sd(monkeypatch):
    asked = []
    found = types.SimpleNamespace(theta=THETA, passes=3, seconds=0.5)
    monkeypatch.setattr(bounds, "find_mode", lambda target, *, tolerance, progress: asked.append(tolerance) or found)
    point, attrs = bounds.touching_point(logistic(60), "tuned", None)
    assert point is THETA and attrs["setup_mode_passes"] == 3 and asked == [0.01]


def test_the_search_for_the_mode_says_every_ten_seconds_how_far_it_is(monkeypatch, capsys):
    now = itertools.chain([100.0], (100.0 + t for t in (9.9, 10.0, 19.9, 20.1)))
    monkeypatch.setattr(bounds, "time", types.SimpleNamespace(perf_counter=lambda: next(now)))
    report, said = bounds._Reporter(), []
    for passes in range(1, 5):
        report(passes, 0.25)
        said.append(capsys.readouterr().err)
    assert said[0] == said[2] == "" and said[3].startswith("Firefly, mode: 4 passes")
    assert said[1] == "Firefly, mode: 2 passes over the data, 0.25 posterior sd to go\n"


@pytest.mark.parametrize(
    ("update", "setting", "value"),
    [
        *((amc.ExplicitZ, "fraction", value) for value in (0.0, -0.1, 1.01, math.nan, "0.5")),
        *((amc.ImplicitZ, "q", value) for value in (0.0, 1.01, math.nan, "0.5")),
        *((amc.ImplicitZ, "q_bright", value) for value in (0.0, 1.01, math.nan, "auto")),
    ],
)
def test_a_probability_lies_between_0_and_1(update, setting, value):
    also = ' or "auto"' if setting == "q" else ""
    with pytest.raises(InvalidInputError) as refused:
        update(**{setting: value})
    assert str(refused.value) == f"{update.__name__}: {setting} must lie in (0, 1]{also}, found {value!r}"
    assert getattr(update(**{setting: 1.0}), setting) == 1.0


@pytest.mark.recompiles
@pytest.mark.parametrize(("expected_bright", "q"), [(0.0, 0.02), (0.5, 0.02), (1.0, 0.02), (3.0, 0.06), (30.0, 0.1)])
def test_the_automatic_q_is_the_share_of_bright_data_within_limits(expected_bright, q):
    """Of 50 data: at least one of them proposes to go bright, and at most a tenth."""
    assert plain(automatic_q)(expected_bright, 50) == pytest.approx(q)
    assert amc.ImplicitZ().build_z_update().make_state(expected_bright, 50).q[0] == pytest.approx(q)


@pytest.mark.recompiles
@pytest.mark.parametrize("gap", [0.05, 0.999, 1.0, 1.001, 1.5, 3.0])
@pytest.mark.parametrize("q_bright", [1.0, 0.4])
def test_a_dark_datum_goes_bright_below_its_probability(gap, q_bright):
    """The limit that spares an exponential changes no answer, and is none at gap = 1."""
    chance = go_bright_probability(gap, 0.8, q_bright)
    joint = JointDensity(None, None, writes([gap]), None, None)
    for u in (0.0, 0.5 * chance, 0.999 * chance, 1.001 * chance):
        state = amc.ImplicitZ(0.8, q_bright).build_z_update().make_state(0.0, 1)
        state.candidates[0], bright = 0, new_bright(np.zeros(1, dtype=bool), np.zeros(1))
        assert plain(brighten)(types.SimpleNamespace(random=lambda u=u: u), None, joint, bright, state, 1)
        assert bright.size[0] == (u < min(chance, 1.0))


def test_a_datum_that_is_picked_twice_counts_once_and_the_next_is_picked():
    """Picks of data 0, 0, 1 and 2 of three, the last of them bright: dark ones in front, bright ones at the end."""
    numbers = iter((0.0, 0.1, 0.5, 0.9))
    state = amc.ExplicitZ(1.0).build_z_update().make_state(0.0, 3)._replace(n_picks=4)
    bright = new_bright(np.array([False, False, True]), np.ones(3))
    assert plain(pick)(types.SimpleNamespace(random=lambda: next(numbers)), bright, state) == (1, 2)
    assert state.picked.tolist() == [0, 1, 2] and state.is_picked.all()


@pytest.mark.parametrize("q_bright", [1.0, 0.4])
def test_every_bright_datum_is_asked_by_itself(q_bright):
    """The law of three z, exactly, also where the first that was asked has stayed, or was left out."""
    gaps = np.array([0.2, 0.3, 2.0])
    dark, bright = np.exp(-gaps), -np.expm1(-gaps)
    law = [np.prod(np.where([z >> i & 1 for i in range(3)], bright, dark)) for z in range(8)]
    kernel = z_kernel(amc.ImplicitZ(0.6, q_bright), gaps)
    np.testing.assert_allclose(law @ kernel, law, atol=1e-13)


@pytest.mark.recompiles
@pytest.mark.parametrize(("gap", "is_defined"), [(-1e-9, True), (-1e-3, False), (math.nan, False)])
def test_a_dark_datum_whose_bound_fails_is_seen(gap, is_defined):
    """By both updates of z; what rounding makes of a gap of 0 is none that fails, and stays dark."""
    rng, joint = types.SimpleNamespace(random=lambda: 0.0), JointDensity(None, None, writes([gap]), None, None)
    for update, redraw in ((amc.ImplicitZ(0.8), brighten), (amc.ExplicitZ(), redraw_dark)):
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


@pytest.mark.recompiles
@pytest.mark.parametrize("n_tune", [0, 1])
def test_a_move_learns_while_the_chain_is_tuned_alone(n_tune):
    _, counts, n_bright, adapted = one_move(-0.5, n_tune=n_tune)
    assert adapted == [(pytest.approx(math.exp(-0.5)), 0)] * n_tune
    assert n_bright > 1 and counts == [5 + 2 * n_bright, 7 + 3 * n_bright]


@pytest.mark.recompiles
@pytest.mark.parametrize("log_q_ratio", [0.0, math.inf, math.nan])
def test_a_move_out_of_the_support_is_refused_whatever_the_proposal(log_q_ratio):
    assert one_move(log_q_ratio, log_prior=-math.inf)[0] == STAYED


def explained(*, log_prior=0.0, gaps=(0.0, 0.1, 0.2)):
    """Return what a program says of a theta where the log prior and the gaps are these."""
    given = types.SimpleNamespace(
        joint=types.SimpleNamespace(log_prior=lambda theta: log_prior), gaps=lambda theta: np.array(gaps)
    )
    return FireflyProgram.explain_failure(given, THETA)


@pytest.mark.parametrize(
    ("gaps", "worst", "gap", "n"),
    [((0.0, -0.3, -0.5), 2, -0.5, 2), ((-0.3, 0.0, 0.5), 0, -0.3, 1), ((-0.3, math.nan, 0.5), 1, math.nan, 2)],
)
def test_a_bound_that_fails_is_explained_by_its_worst_datum(gaps, worst, gap, n):
    """A gap of 0 is no fault."""
    assert explained(gaps=gaps) == (
        f"the lower bound of datum {worst} is not below its likelihood at theta = [2.]: log L - log B = {gap}; so for "
        f"{n} of 3 data"
    )


@pytest.mark.parametrize(
    ("log_prior", "said"),
    [
        (math.nan, "log prior is NaN at theta = [2.]"),
        (math.inf, "log prior is +inf at theta = [2.]"),
        (0.0, "the log joint density or the ratio of proposal densities is NaN at theta = [2.]"),
    ],
)
def test_a_failure_without_a_bad_bound_is_explained_by_the_prior_or_the_rest(log_prior, said):
    assert explained(log_prior=log_prior) == said


@pytest.mark.recompiles
def test_more_bright_data_than_a_batch():
    """Gaps and gradients of one batch and a part are those of all data at once, in the order of the bright set."""
    n = BATCH + 40
    target, theta = logistic(n, 2), np.array([0.4, -0.3])
    bound, _ = bounds.checked_bound(target, target.compile(), "untuned", None)
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
