"""The Ising model against published and enumerated numbers; each planted bug is found."""

import itertools

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.reference.grid import grid_reference
from approxmcmc.targets.ising.exact import (
    backward_simulator,
    bits_set,
    draw_backwards,
    draw_row,
    level_counts,
    log_normalizer,
    moments,
    n_pairs,
)
from approxmcmc.targets.ising.simulators import DIGIT, FOUR_DIGITS, heat_bath_states, update_sites
from tests.coins import law
from tests.edited_source import edited
from tests.planting import plain

# side, theta, log Z, E s, Var s of square lattices with free boundary; None where only log Z and E s are known
PRINTED = [
    (2, 0.2, "2.853577508310", None, None),
    (2, 0.4, "3.105028638401", None, None),
    (3, 0.2, "6.483044791349", "2.4934843598", "13.3722068624"),
    (3, 0.4, "7.267652770359", "5.4408977333", "15.8920802251"),
    (4, 0.2, "11.581576909341", "5.0245152978", "27.3665509594"),
    (4, 0.4, "13.186573417463", "11.3078707541", "35.4890548458"),
    (8, 0.2, "46.666323426", "23.71330", None),
    (8, 0.4, "54.443625528", "56.60511", None),
    (10, 0.2, "73.023066455", "38.19645", None),
    (10, 0.4, "85.623736653", "92.47062", None),
    (16, 0.2, "187.350774532", "102.20086", None),
    (16, 0.4, "221.373266162", "253.12381", None),  # 253.123808; its central difference at 1e-4 is 253.12382
]
COUNTS = {
    3: {12: 2, 8: 8, 6: 32, 4: 46, 2: 96, 0: 144},
    4: {24: 2, 20: 8, 18: 32, 16: 72, 14: 224, 12: 584, 10: 1216, 8: 2638, 6: 4928, 4: 7344, 2: 9984, 0: 11472},
}


def as_printed(value: float, printed: str) -> bool:
    return f"{value:.{len(printed.partition('.')[2])}f}" == printed


@pytest.mark.thorough
@pytest.mark.parametrize(("side", "theta", "log_z", "mean", "variance"), PRINTED)
def test_normalisers_and_moments_to_the_printed_digits(side, theta, log_z, mean, variance):
    assert as_printed(log_normalizer(theta, side, side), log_z)
    assert mean is None or as_printed(moments(theta, side, side)[0], mean)
    assert variance is None or as_printed(moments(theta, side, side)[1], variance)


def counts_by_statistic(rows, columns):
    counts = level_counts(rows, columns)
    return {n_pairs(rows, columns) - 2 * k: round(count) for k, count in enumerate(counts) if count}


@pytest.mark.thorough
def test_the_mean_is_the_derivative_of_log_z():
    """The last digit of E s at 16 x 16, theta = 0.4: a difference at h is off by Var's curvature times h^2 / 6."""
    slopes = [(log_normalizer(0.4 + h, 16, 16) - log_normalizer(0.4 - h, 16, 16)) / (2 * h) for h in (1e-3, 2e-3)]
    assert (4 * slopes[0] - slopes[1]) / 3 == pytest.approx(moments(0.4, 16, 16)[0], abs=1e-6)


@pytest.mark.parametrize("side", COUNTS)
def test_level_counts(side):
    half = COUNTS[side]
    assert counts_by_statistic(side, side) == {**half, **{-s: count for s, count in half.items()}}


def all_statistics(rows, columns):
    """Return s of every lattice, from scratch."""
    spins = np.array(list(itertools.product([-1, 1], repeat=rows * columns))).reshape(-1, rows, columns)
    return (spins[:, 1:] * spins[:, :-1]).sum(axis=(1, 2)) + (spins[:, :, 1:] * spins[:, :, :-1]).sum(axis=(1, 2))


@pytest.mark.parametrize("shape", [(1, 2), (1, 7), (2, 5), (5, 2), (3, 4)])
@pytest.mark.parametrize("theta", [0.0, 0.7, -0.35])
def test_normaliser_and_moments_of_oblong_lattices(shape, theta):
    s = all_statistics(*shape)
    weights = np.exp(theta * s)
    mean = weights @ s / weights.sum()
    assert log_normalizer(theta, *shape) == pytest.approx(np.log(weights.sum()), abs=1e-12)
    assert moments(theta, *shape) == pytest.approx((mean, weights @ (s - mean) ** 2 / weights.sum()), abs=1e-11)


@pytest.mark.thorough
def test_recursion_and_counts_agree_on_ten_by_ten():
    s = 180.0 - 2.0 * np.arange(181)
    for theta in (0.2, 0.44, 0.8):
        direct = np.log(np.exp(theta * s - theta * 180) @ level_counts(10, 10)) + theta * 180
        assert log_normalizer(theta, 10, 10) == pytest.approx(direct, rel=1e-13)


def distance_of_backward_draws(theta, shape=(2, 3), draw=draw_backwards, wrong=None):
    """Return the total variation distance of the enumerated law of s from the exact one."""
    state, draw = (
        backward_simulator(*shape).make_state(),
        plain(draw, wrong),
    )  # kept: also the tables of a repeated theta are tried
    statistics, count = np.empty(1), np.zeros(40, np.int64)

    def program(rng):
        draw(rng, np.array([theta]), state, statistics, count)
        return float(statistics[0])

    found = law(program)
    s = all_statistics(*shape)
    exact = {value: np.exp(theta * s[s == value]).sum() / np.exp(theta * s).sum() for value in np.unique(s)}
    return 0.5 * sum(abs(found.get(s, 0.0) - exact.get(s, 0.0)) for s in found.keys() | exact.keys())


@pytest.mark.parametrize("theta", [0.4, -0.3])
def test_the_law_of_backward_draws_is_exact(theta):
    assert distance_of_backward_draws(theta) < 1e-14


def row_below_forgotten(rng, t, below, width, weights, work):
    return plain(draw_row)(rng, 1.0, below, width, weights, work)


def sign_lost(rng, theta, state, statistics, count):
    plain(draw_backwards)(rng, abs(theta), state, statistics, count)


wrong_weights = edited(draw_row, "1.0 if below & half else t", "t if below & half else 1.0")
BACKWARD_BUGS = {
    "the row below forgotten": {"wrong": {draw_row: row_below_forgotten}},
    "pairs between rows not counted": {"wrong": {bits_set: lambda word: 0}},
    "bits kept with the wrong weight": {"wrong": {draw_row: wrong_weights}},
    "the sign of theta lost": {"draw": sign_lost},
}


@pytest.mark.parametrize("bug", BACKWARD_BUGS)
def test_planted_bugs_in_backward_draws_are_found(bug):
    assert distance_of_backward_draws(-0.3, **BACKWARD_BUGS[bug]) > 1e-2


class Digits:
    """A generator whose first number has a given lowest digit of 13 bits, and whose others record a comparison."""

    def __init__(self, digit):
        self.digit, self.first, self.rest = digit, True, None

    def random(self):
        if self.first:
            self.first = False
            return self.digit / FOUR_DIGITS
        return Recorded(self)


class Recorded(float):
    def __new__(cls, owner):
        value = super().__new__(cls, 0.5)
        value.owner = owner
        return value

    def __lt__(self, other):
        self.owner.rest = float(other)
        return False


def probability_up(lattice, theta, update):
    """Return P(y = 1 | rest) of the first site that is updated, from how the digits decide."""
    spins = np.pad(np.asarray(lattice, np.int8), 1)
    state = heat_bath_states(np.asarray(lattice), amc.targets.AuxiliaryChain(1, "observed"))()
    expected = DIGIT / (1.0 + np.exp(-2.0 * theta * (spins[1, 2] + spins[2, 1])))
    tie = None
    for digit in (int(expected) - 1, int(expected), int(expected) + 1):
        rng, trial = Digits(digit), spins.copy()
        update(rng, theta, state._replace(spins=trial, next_site=np.zeros(3, np.int64)), 1)
        if rng.rest is not None:
            tie = (digit + rng.rest) / DIGIT
        elif trial[1, 1] != (1 if digit < expected else -1):
            return np.inf
    return np.inf if tie is None else tie


def largest_error(update):
    lattices = [np.array([[1, a], [b, 1]]) for a in (-1, 1) for b in (-1, 1)]
    errors = [0.0]
    for lattice, theta in itertools.product(lattices, (0.4, -0.15, 1.0)):
        exact = 1.0 / (1.0 + np.exp(-2.0 * theta * (lattice[0, 1] + lattice[1, 0])))
        found = probability_up(lattice, theta, update)
        errors.append(abs(found - exact))
    return max(errors)


def test_the_heat_bath_rounds_no_probability():
    assert largest_error(plain(update_sites)) < 1e-15


@pytest.mark.parametrize(
    ("right", "wrong"), [("above == 0 and rng.random() < rest[field]", "False"), ("-2.0 * theta", "-1.0 * theta")]
)
def test_planted_bugs_in_the_heat_bath_are_found(right, wrong):
    assert largest_error(edited(update_sites, right, wrong)) > 1e-6


def test_posterior_of_a_four_by_four_lattice():
    """s = 12 under U(-0.4, 0.8): mean .40913388, sd .17009280 by Gauss-Legendre quadrature."""
    lattice = next(
        spins
        for spins in np.random.default_rng(0).choice([-1, 1], (10_000, 4, 4))
        if amc.targets.Ising(spins, prior_scale=1.0).observed_statistics[0] == 12
    )
    target = amc.targets.Ising(lattice, prior_bounds=(-0.4, 0.8))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    theta = 0.2 + 0.6 * nodes
    density = weights * np.exp(target.log_densities(theta[:, np.newaxis]))
    mean = density @ theta / density.sum()
    assert f"{mean:.8f}" == "0.40913388"
    assert f"{np.sqrt(density @ (theta - mean) ** 2 / density.sum()):.8f}" == "0.17009280"


@pytest.mark.thorough
def test_the_exact_posterior_serves_as_gold_standard():
    """Against quadrature of another kind."""
    rng = np.random.default_rng(0)
    target = amc.targets.Ising(rng.choice([-1, 1], (8, 8)), prior_scale=np.inf)
    gold = grid_reference(target.log_densities, target.variables, [(-1.2, 1.2)], n_points=401, vectorized=True)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    density = weights * np.exp(target.log_densities(1.2 * nodes[:, np.newaxis]))
    mean = density @ (1.2 * nodes) / density.sum()
    sd = np.sqrt(density @ (1.2 * nodes - mean) ** 2 / density.sum())
    assert gold["reference_moments"]["theta"].to_numpy()[:2] == pytest.approx([mean, sd], rel=1e-9)
