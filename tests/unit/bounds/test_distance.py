"""Distances between laws of draws: the formulas loop by loop, and draws whose distance is known without them."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from approxmcmc.bounds.distance import frequencies, marginal_distances, total_variation_interval
from approxmcmc.errors import InvalidInputError


@pytest.mark.parametrize(("draws", "batches", "length"), [(7, 7, 1), (20, 20, 1), (47, 20, 2)])
def test_frequencies_are_shares_of_twenty_batches(draws, batches, length, rng):
    """47 draws are 20 batches of 2, and the last 7 are left out."""
    cells = rng.integers(3, size=(2, draws))
    found = frequencies(cells, 4)
    assert found.shape == (2, batches, 4)
    for chain in range(2):
        for batch in range(batches):
            part = cells[chain, batch * length : (batch + 1) * length]
            assert found[chain, batch].tolist() == [np.mean(part == k) for k in range(4)]


def of_one_half(found, other):
    """Return the parts of the lower limit: cells are chosen on the first of two halves, and judged on the second."""
    chosen = found[0].mean(axis=(0, 1)) > other[0].mean(axis=(0, 1))
    below, variance = 0.0, 0.0
    for sign, (_, half) in ((1.0, found), (-1.0, other)):
        shares = [batch[chosen].sum() for chain in half for batch in chain]
        below += sign * np.mean(shares)
        variance += np.var(shares, ddof=1) / len(shares) if len(shares) > 1 else 0.0
    return below, variance


def halves(values):
    """Return two groups of chains; one chain in two pieces of time."""
    cut = len(values) // 2
    return (values[:cut], values[cut:]) if cut else np.split(values, [values.shape[1] // 2], axis=1)


@pytest.mark.parametrize("chains", [1, 2, 3])
@pytest.mark.parametrize("law", [[0.1, 0.2, 0.7], "draws"])
def test_the_interval_of_total_variation_is_that_of_the_formulas(chains, law, rng):
    found = rng.dirichlet([9.0, 2.0, 3.0], size=(chains, 7))
    other = np.array(law) if law != "draws" else rng.dirichlet([2.0, 2.0, 9.0], size=(2, 5))
    batches = [other] if law != "draws" else [batch for chain in other for batch in chain]
    flat = [batch for chain in found for batch in chain]
    gap = np.mean(flat, axis=0) - np.mean(batches, axis=0)
    noise, floor = 0.0, 0.0
    for values in (flat, batches) if law == "draws" else (flat,):
        noise += np.var([0.5 * np.sign(gap) @ batch for batch in values], ddof=1) / len(values)
        floor = floor + np.var(values, axis=0, ddof=1) / len(values)
    theirs = halves(other if law == "draws" else np.broadcast_to(other, (2, 1, 3)))
    ours = halves(found)
    below, variances = zip(of_one_half(ours, theirs), of_one_half(ours[::-1], theirs[::-1]), strict=True)
    for settings, z in (({}, 1.959963984540054), ({"confidence": 0.8}, NormalDist().inv_cdf(0.9))):
        distance = total_variation_interval(found, other, **settings)
        assert distance.estimate == pytest.approx(0.5 * np.abs(gap).sum(), rel=1e-12)
        assert distance.upper == pytest.approx(distance.estimate + z * math.sqrt(noise), rel=1e-12)
        assert distance.lower == pytest.approx(np.mean(below) - 0.5 * z * math.sqrt(sum(variances)), rel=1e-12)
        assert 0.0 < distance.lower < distance.upper < 1.0
        # E|N(0, s^2)| = s sqrt(2 / pi): the value for two equal distributions.
        assert distance.floor == pytest.approx(0.5 * np.sqrt(2.0 / math.pi * floor).sum(), rel=1e-12)


def test_four_batches_make_an_interval_and_many_cells_do_not():
    law = np.full(8, 1 / 8)
    with pytest.raises(InvalidInputError, match="at least 4 batches"):
        total_variation_interval(np.tile(law, (3, 1, 1)), law)
    batches = np.zeros((4, 1, 8))
    batches[:2, 0, :2], batches[2:, 0, 2:4] = [[0.6, 0.4], [0.4, 0.6]], [[0.6, 0.4], [0.4, 0.6]]
    found = total_variation_interval(batches, law)
    # Each half chooses its own two cells, which the other half never visits: -1/4 of probability, and no distance.
    assert (found.estimate, found.lower) == (0.5, 0.0)


def test_a_lower_limit_counts_the_noise_of_the_half_that_judges():
    """Two batches in each half: shares 1 and 0.8 of the cell that is chosen, a standard error of 0.1 on both sides."""
    batches = np.tile([[1.0, 0.0], [0.8, 0.2]], (2, 1, 1))
    found = total_variation_interval(batches, np.array([0.1, 0.9]))
    z = NormalDist().inv_cdf(0.975)
    assert found.lower == pytest.approx(0.8 - z * 0.5 * math.sqrt(2.0 * 0.1**2))


def test_a_cell_of_equal_shares_is_not_chosen():
    """One half chooses cell 1 alone, and finds 0.1 in the other; that chooses cells 0 and 1, and finds 0.2."""
    found = np.array([[[0.25, 0.5, 0.25]] * 2, [[0.35, 0.4, 0.25]] * 2])
    assert total_variation_interval(found, np.array([0.25, 0.3, 0.45])).lower == pytest.approx(0.15, rel=1e-12)


REFERENCE = np.arange(400.0).reshape(2, 200)[..., None]


@pytest.mark.parametrize("n_bins", [0, 1, 10, 19])
def test_draws_that_never_reach_some_of_twenty_bins_are_so_far_away(n_bins):
    """All mass of the bins above is moved to the lowest one."""
    draws = np.where(20.0 * (20 - n_bins) > REFERENCE, REFERENCE, 0.0)
    assert marginal_distances(draws, REFERENCE)[0].estimate == pytest.approx(n_bins / 20, abs=1e-12)


def test_the_distance_of_wasserstein_is_how_far_mass_is_moved():
    """A shift by 3; a twentieth of the draws moved by 40; both in standard deviations, and the larger is returned."""
    scale = REFERENCE.std()
    shifted, moved = REFERENCE + 3.0, np.where(REFERENCE < 380.0, REFERENCE, REFERENCE + 40.0)
    assert marginal_distances(shifted, REFERENCE)[1].estimate == pytest.approx(3.0 / scale, rel=1e-12)
    assert marginal_distances(moved, REFERENCE)[1].estimate == pytest.approx(2.0 / scale, rel=1e-12)
    both = marginal_distances(np.concatenate([moved, shifted], axis=2), np.tile(REFERENCE, 2))
    assert both[1].estimate == pytest.approx(3.0 / scale, rel=1e-12)
    constant = np.full((2, 200, 1), 5.0)
    assert marginal_distances(constant + 0.25, constant)[1].estimate == 0.25  # in its own units


def test_the_floor_is_half_of_what_two_halves_differ_by():
    ones, fives = np.ones((1, 50, 1)), np.full((1, 50, 1), 5.0)
    for draws in (
        np.concatenate([ones, fives]),  # two chains
        np.concatenate([ones, fives, fives]),
        np.concatenate([ones, fives], axis=1),  # one chain that moved half-way
    ):
        assert marginal_distances(draws, REFERENCE)[1].floor == pytest.approx(2.0 / REFERENCE.std(), rel=1e-12)


def test_the_coordinate_that_is_farthest_away_is_returned():
    near, far = REFERENCE, np.zeros_like(REFERENCE)
    for pair in ((near, far), (far, near)):
        found = marginal_distances(np.concatenate(pair, axis=2), np.tile(REFERENCE, 2))
        assert found[0].estimate == pytest.approx(0.95, abs=1e-12)
    with pytest.raises(InvalidInputError, match="no coordinate"):
        marginal_distances(near[..., :0], near[..., :0])


def test_the_level_of_a_limit_is_that_of_an_interval_over_bins(rng):
    """One coordinate, 95 % unless given; reference and draws binned by quantiles of the reference."""
    draws, reference = rng.normal(0.3, size=(2, 90, 1)), rng.normal(size=(2, 90, 1))
    edges = np.quantile(reference, np.arange(1, 20) / 20)
    ours, theirs = (frequencies(np.searchsorted(edges, values[..., 0]), 20) for values in (draws, reference))
    for settings in ({}, {"confidence": 0.6}):
        wanted = total_variation_interval(ours, theirs, **settings)
        assert marginal_distances(draws, reference, **settings)[0] == pytest.approx(wanted, rel=1e-12)


def test_the_interval_of_total_variation_covers_and_sees_the_planted_factor_of_two():
    """Independent draws from a law at known distance; half the distance, and twice it, lie outside."""
    rng = np.random.default_rng(0)
    law, other = np.full(8, 1 / 8), np.array([0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    cells = rng.choice(8, size=(8, 20_000), p=other)
    found = total_variation_interval(frequencies(cells, 8), law)
    truth = 0.5 * np.abs(law - other).sum()
    assert found.lower < truth < found.upper
    assert not found.lower < 2 * truth < found.upper
    assert not found.lower < truth / 2 < found.upper
    right = total_variation_interval(frequencies(rng.choice(8, size=(8, 20_000)), 8), law)
    assert right.lower < 1e-3
    assert right.estimate < 3 * right.floor


def test_limits_of_two_coordinates_share_the_level():
    rng = np.random.default_rng(1)
    draws, reference = rng.normal(0.5, size=(4, 400, 1)), rng.normal(size=(4, 400, 1))
    one = marginal_distances(draws, reference, 0.95)
    assert 0.0 < one[0].lower < one[0].estimate < one[0].upper < 1.0
    assert marginal_distances(np.tile(draws, 2), np.tile(reference, 2), 0.9) == one


def test_an_interval_of_total_variation_needs_four_batches_and_ends_at_one():
    law, batches = np.array([1.0, 0.0]), np.array([[[1.0, 0.0]], [[0.0, 1.0]]] * 2)
    found = total_variation_interval(batches, law)
    assert found.estimate == 0.5 and found.upper == 1.0
    with pytest.raises(InvalidInputError, match="at least 4 batches"):
        total_variation_interval(batches[:3].reshape(1, 3, 2), law)
