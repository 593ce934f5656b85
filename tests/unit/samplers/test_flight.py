"""How a particle is drawn, flies and turns, by hand: zig-zag and bouncy particle in two dimensions."""

import math
import types

import numpy as np
import pytest

from approxmcmc.samplers.pdmp import step, step as flight
from approxmcmc.samplers.pdmp.bouncy_particle import BOUNCE, BOUNCY, REFRESH
from approxmcmc.samplers.pdmp.rows import LENGTH, N_SCALARS
from approxmcmc.samplers.pdmp.zigzag import ZIGZAG
from tests.planting import plain

CURVATURE = np.array([[2.0, 0.5], [0.5, 1.0]])
ORIGIN = np.array([0.3, -1.0])


def scripted(**numbers):
    """Return a generator that gives these numbers: uniforms, normals, exponentials."""
    given = {name: iter(values) for name, values in numbers.items()}
    return types.SimpleNamespace(**{name: lambda it=it: next(it) for name, it in given.items()})


def flying(velocity, position=(0.5, -2.0), setting=0.8):
    """Return a flight with force g + H phi = (0.3, -2.75) and change H v."""
    one = flight.new_flight(np.array(position), CURVATURE, setting)
    one.velocity[:] = velocity
    plain(flight.set_force)(one, ORIGIN)
    return one


def row(*normal):
    """Return the record of a row with this a_i."""
    record = np.zeros(N_SCALARS + 2)
    record[N_SCALARS:] = normal
    record[LENGTH] = np.abs(normal).sum()
    return record


def test_force_and_flight():
    one = flying((1.0, -3.0))
    np.testing.assert_allclose([one.force, one.change], [[0.3, -2.75], [0.5, -2.5]], rtol=1e-15)
    assert plain(flight.fly)(one, 0.2) == pytest.approx(0.7**2 + 2.6**2)
    np.testing.assert_allclose([one.position, one.force], [[0.7, -2.6], [0.4, -3.25]], rtol=1e-14)
    again = flying((1.0, -3.0), one.position)
    np.testing.assert_allclose(one.force, again.force, rtol=1e-14)


class TestZigZag:
    def test_speeds_are_one_or_minus_one(self):
        one = flying((0.0, 0.0))
        plain(ZIGZAG.start)(scripted(random=[0.49, 0.5]), one)
        assert one.velocity.tolist() == [1.0, -1.0]

    @pytest.mark.parametrize(("exponentials", "first"), [((0.1, 4.0), 0), ((4.0, 0.1), 1)])
    def test_the_first_of_the_coordinates_turns(self, exponentials, first):
        one = flying((1.0, -1.0))
        rates, growths = one.velocity * one.force, one.velocity * one.change
        times = [plain(flight.arrival)(*each) for each in zip(rates, growths, exponentials, strict=True)]
        assert plain(ZIGZAG.plan)(scripted(standard_exponential=exponentials), one) == min(times)
        assert one.next_turn[0] == first == int(np.argmin(times))
        before = one.velocity.copy()
        plain(ZIGZAG.turn)(None, one)
        assert (one.velocity == before * np.where(np.arange(2) == first, -1.0, 1.0)).all()
        np.testing.assert_allclose(one.change, CURVATURE @ one.velocity, rtol=1e-15)

    @pytest.mark.parametrize(
        ("left", "slope", "velocity", "turned"),
        [
            (0.19, -1.5, (1.0, 1.0), 0),  # of a = (0.6, -2.4) a fifth is the first coordinate's
            (0.21, 1.5, (1.0, 1.0), 1),
            (1.0, 1.5, (1.0, 1.0), 1),  # where rounding leaves more than there is
            (0.19, 1.5, (1.0, 1.0), None),  # v_j s a_j > 0: no push
            (0.21, 1.5, (1.0, -1.0), None),
            (0.19, 1.5, (-1.0, 1.0), 0),
        ],
    )
    def test_a_row_turns_a_coordinate_round(self, left, slope, velocity, turned):
        """At the rate of the push over the ceiling: 1.5 / 2 here."""
        for u, happens in ((0.74, True), (0.76, False)):
            one = flying(velocity)
            record = row(0.6, -2.4)
            found = plain(ZIGZAG.turn_by_row)(scripted(random=[left, u]), one, record, record[N_SCALARS:], slope, 2.0)
            expected = np.array(velocity)
            assert found == (turned is not None and happens)
            expected[turned if found else slice(0, 0)] *= -1.0
            assert one.velocity.tolist() == expected.tolist()
            np.testing.assert_allclose(one.change, CURVATURE @ one.velocity, rtol=1e-15)


class TestBouncyParticle:
    def test_the_velocity_is_normal_and_its_length_the_gain(self):
        one = flying((0.0, 0.0))
        plain(BOUNCY.start)(scripted(standard_normal=[3.0, -4.0]), one)
        assert one.velocity.tolist() == [3.0, -4.0] and one.gain[0] == 5.0

    @pytest.mark.parametrize(("exponentials", "kind"), [((0.5, 9.0), BOUNCE), ((9.0, 0.5), REFRESH)])
    def test_the_first_of_bounce_and_refreshment(self, exponentials, kind):
        one = flying((1.0, -3.0))
        bounce = plain(flight.arrival)(one.velocity @ one.force, one.velocity @ one.change, exponentials[0])
        found = plain(BOUNCY.plan)(scripted(standard_exponential=exponentials), one)
        assert found == pytest.approx(min(bounce, exponentials[1] / 0.8), rel=1e-14) and one.next_turn[0] == kind
        before, force = one.velocity.copy(), one.force
        plain(BOUNCY.turn)(scripted(standard_normal=[0.2, 0.1]), one)
        bounced = before - 2.0 * (before @ force) / (force @ force) * force
        np.testing.assert_allclose(one.velocity, bounced if kind == BOUNCE else [0.2, 0.1], rtol=1e-14)
        np.testing.assert_allclose(one.change, CURVATURE @ one.velocity, rtol=1e-14)

    @pytest.mark.parametrize(("u", "slope", "turns"), [(0.37, -2.0, True), (0.38, -2.0, False), (0.0, 2.0, False)])
    def test_a_row_bounces_the_particle(self, u, slope, turns):
        """a = (0.6, -2.4) and v = (1, -0.1): -s a'v = 1.68, over the ceiling 2, the length 3 and the gain 0.75."""
        one = flying((1.0, -0.1))
        one.gain[0] = 0.75
        record = row(0.6, -2.4)
        assert plain(BOUNCY.turn_by_row)(scripted(random=[u]), one, record, record[N_SCALARS:], slope, 2.0) == turns
        normal, before = np.array([0.6, -2.4]), np.array([1.0, -0.1])
        expected = before - 2.0 * (before @ normal) / (normal @ normal) * normal if turns else before
        np.testing.assert_allclose(one.velocity, expected, rtol=1e-14)
        np.testing.assert_allclose(one.change, CURVATURE @ one.velocity, rtol=1e-14)


def test_a_bounce_keeps_the_length():
    one = flying((1.0, -3.0))
    one.next_turn[0] = BOUNCE
    plain(BOUNCY.turn)(None, one)
    assert math.hypot(*one.velocity) == pytest.approx(math.sqrt(10.0))


def test_the_radius_after_a_flight():
    one = flying((1.0, -3.0))
    assert plain(step.radius_after)(one, 4.25, 0.2) == pytest.approx(0.7**2 + 2.6**2)
    assert plain(step.radius_after)(one, 0.0, -1.0) == 0.0  # rounding leaves nothing below


@pytest.mark.parametrize(
    ("totals", "u", "order"),
    [
        ((1.0, 2.0, 3.0), 0.0, 0),  # at abs(phi) = 2 the classes have 1, 4 and 12 of 17
        ((1.0, 2.0, 3.0), 0.9 / 17, 0),
        ((1.0, 2.0, 3.0), 1.1 / 17, 1),
        ((1.0, 2.0, 3.0), 4.9 / 17, 1),
        ((1.0, 2.0, 3.0), 5.1 / 17, 2),
        ((0.0, 2.0, 3.0), 0.0, 1),
        ((1.0, 2.0, 0.0), 1.0, 1),  # rounding has gone past the last that holds a row
        ((1.0, 0.0, 0.0), 1.0, 0),
    ],
)
def test_a_row_is_drawn_from_a_class_by_its_share(totals, u, order, monkeypatch):
    rows = types.SimpleNamespace(first=np.array([0, 10, 30, 60]), table=np.arange(60))
    state = types.SimpleNamespace(split=rows, row=np.full(1, 7), weight=None)
    seen = []
    monkeypatch.setattr(step, "draw_rows", lambda rng, table, *_: seen.extend(table))
    found = plain(step.draw_row)(scripted(random=[u]), state, np.array(totals), 4.0)
    assert found == (order, rows.first[order] + 7)
    assert seen == list(range(rows.first[order], rows.first[order + 1]))
