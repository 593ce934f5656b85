"""Which proposals are out of reach: the bisection on the way to them, look by look."""

import math
import types

import numpy as np
import pytest

from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import TOUCHED
from approxmcmc.samplers.metropolis_hastings import undefined
from tests.planting import plain


def looked_at(monkeypatch, log_density, proposed=3.0):
    """Return the answer and where it looked, as shares of the way from theta = 1."""
    looks = []

    def log_density_at(state, at, count):
        looks.append((at[0] - 1.0) / 2.0)
        return log_density(looks[-1])

    monkeypatch.setattr(undefined, "log_density_at", log_density_at)
    count = np.zeros(len(COUNT_NAMES), np.int64)
    evidence = types.SimpleNamespace(n_obs=7)
    state = types.SimpleNamespace(theta=np.ones(1), proposed=np.array([proposed]), point=np.empty(1), evidence=evidence)
    answer = plain(undefined.is_out_of_reach)(state, count)
    assert {k: n for k, n in enumerate(count.tolist()) if n} == ({TOUCHED: 7} if looks else {})
    return answer, looks


@pytest.mark.parametrize("nothing", [math.nan, math.inf])
def test_a_way_that_ends_without_a_fall_is_bisected(nothing, monkeypatch):
    answer, looks = looked_at(monkeypatch, lambda s: -5.0 if s <= 0.3 else nothing)
    assert not answer and looks[:5] == [0.0, 1.0, 0.5, 0.25, 0.375] and len(looks) == 1 + undefined.BISECTIONS
    assert looks[-1] == pytest.approx(0.3, abs=1e-12)


@pytest.mark.parametrize(("depth", "answer"), [(undefined.OUT_OF_REACH + 1e-6, True), (undefined.OUT_OF_REACH, False)])
def test_a_fall_before_the_end_puts_it_out_of_reach(depth, answer, monkeypatch):
    def fallen(s):
        return -5.0 if s == 0.0 else math.nan if s > 0.2 else -5.0 - depth

    found, looks = looked_at(monkeypatch, fallen)
    assert found is answer and looks[:5] == [0.0, 1.0, 0.5, 0.25, 0.125]


def test_a_place_with_a_density_is_in_reach_at_once(monkeypatch):
    assert looked_at(monkeypatch, lambda s: -5.0) == (False, [0.0, 1.0])
    assert looked_at(monkeypatch, lambda s: -5.0, math.nan) == (False, [])
    assert looked_at(monkeypatch, lambda s: -5.0 - 2.0 * undefined.OUT_OF_REACH * s) == (True, [0.0, 1.0])
