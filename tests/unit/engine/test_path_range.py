"""How far powers of a predictor move between two states: largest over all directions, and below older bounds."""

import math

import numpy as np
import pytest

from approxmcmc.engine.terms.term_range import (
    first_power,
    largest_on_circle,
    reach_along_path,
    second_power,
    third_power,
)

ANGLES = np.linspace(0.0, np.pi, 40_001)
DIRECTIONS = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])


def pairs(rng, count=60):
    """Yield pairs of points of the plane: far apart, near each other, opposite, on one line, one at the centre."""
    for k in range(count):
        one, other = rng.normal(size=(2, 2)) * 10.0 ** rng.uniform(-1.0, 1.0)
        share = rng.uniform(0.1, 2.0)
        yield one, [other, one + 1e-3 * other, -share * one, share * one, np.zeros(2)][k % 5]


def sums(one, other):
    """Return |m|^2, |D|^2 and m . D of the middle m and the difference D."""
    middle, difference = 0.5 * (one + other), other - one
    return middle @ middle, difference @ difference, middle @ difference


def powers(one, other):
    """Return P_1, P_2 and P_3."""
    v, w, z = sums(one, other)
    return np.array([first_power(w), second_power(v, w, z), third_power(v, w, z)])


def moves(one, other, power):
    """Return how far sign(t) |t|^power of a coordinate moves, for every direction."""
    before, after = DIRECTIONS @ one, DIRECTIONS @ other
    return np.abs(np.sign(after) * np.abs(after) ** power - np.sign(before) * np.abs(before) ** power)


def test_powers_are_the_largest_moves_over_all_directions(rng):
    for one, other in pairs(rng):
        for power, found in enumerate(powers(one, other), start=1):
            largest = moves(one, other, power).max()
            assert largest <= found * (1.0 + 1e-9), (one, other, power)  # a bound
            assert found <= largest * (1.0 + 1e-7), (one, other, power)  # and attained, as far as 40 000 angles see


def test_the_middle_alone_is_no_bound(rng):
    """Planted: 3 (u . m)^2 (u . D), which forgets how far the way goes to either side of its middle."""
    assert any(
        moves(one, other, 3).max()
        > 1.01 * (3.0 * (DIRECTIONS @ (one + other) / 2.0) ** 2 * np.abs(DIRECTIONS @ (other - one))).max()
        for one, other in pairs(rng)
    )


def test_two_states_give_no_more_than_each_by_itself(rng):
    for one, other in pairs(rng):
        alone = [np.linalg.norm(one) ** k + np.linalg.norm(other) ** k for k in (1, 2, 3)]
        assert (powers(one, other) <= np.array(alone) * (1.0 + 1e-12)).all()


def test_nor_more_than_the_sum_of_the_largest_parts(rng):
    """The bounds of Prado, Nemeth and Sherlock (2024), as in the authors' code, of P_2 / 2 and P_3 / 6."""

    def share_1(cosine):
        return (1.0 + cosine) / 2.0

    def share_2(cosine):
        root = math.sqrt(2.0 + 0.25 * cosine**2) - 0.5 * cosine
        return (2.0 + cosine * root) ** 1.5 / (3.0**1.5 * root)

    for one, other in pairs(rng):
        far = [(np.linalg.norm(p), abs(p @ (other - one))) for p in (one, other) if p.any()]
        step = np.linalg.norm(other - one)
        first = step * max(radius * share_1(min(dot / (radius * step), 1.0)) for radius, dot in far)
        both = sum(radius**2 * share_2(min(dot / (radius * step), 1.0)) for radius, dot in far)
        second = 0.5 * step * (step**2 / 6.0 + both)
        _, square, cube = powers(one, other)
        assert square / 2.0 <= first * (1.0 + 1e-9)
        assert cube / 6.0 <= second * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "form", [(1.0, 0.0, 0.0), (1.0, 0.0, 1.5), (1.0, 0.0, 4.0), (1.0, 3.0, 0.0), (1e-9, 1e-5, 3.0)]
)
def test_the_form_on_a_circle_at_its_edges(form):
    """No middle term; a root of multiplicity three; one that is not at 0; no last term; nearly no first."""
    a, b, c = form
    x, y = np.abs(DIRECTIONS.T)
    assert largest_on_circle(a, b, c) == pytest.approx((x * (a * x * x + b * x * y + c * y * y)).max(), rel=1e-7)


def test_a_reach_weighs_the_powers_in_units_of_the_pilot(rng):
    center, one, other = rng.normal(size=(3, 2))
    cholesky = np.array([[0.7, 0.0], [-0.4, 0.2]])
    weights = np.array([3.0, 0.5, 2.0])
    whitened = np.linalg.solve(cholesky, np.column_stack([one, other]) - center[:, None])
    farthest = np.sqrt((whitened**2).sum(axis=0)).max()
    reach, numbers = reach_along_path(weights, farthest * 1.001, center, cholesky)
    assert reach(one, other, numbers) == pytest.approx(weights @ powers(*whitened.T), rel=1e-12)
    assert reach(one, other, numbers) == reach(other, one, numbers)
    assert reach(one, one, numbers) == 0.0
    reach, numbers = reach_along_path(weights, farthest * 0.999, center, cholesky)
    assert reach(one, other, numbers) == math.inf
