"""The table of unadjusted Langevin steps on distributions where the answer is known."""

import numpy as np
import pytest

from studies.tools.unadjusted import _row, beyond_stability, largest_curvature
from tests.fakes import fake_trace

COV = np.array([[2.0, 0.3], [0.3, 0.5]])


def log_normal(theta):
    return -0.5 * theta @ np.linalg.solve(COV, theta)


def test_a_normal_law_has_curvature_1_in_its_own_metric_and_is_stable_below_4():
    assert largest_curvature(log_normal, np.array([0.3, -0.4]), COV) == pytest.approx(1.0, abs=1e-8)
    assert largest_curvature(log_normal, np.array([0.3, -0.4]), 3.0 * COV) == pytest.approx(3.0, abs=1e-7)
    said = beyond_stability(log_normal, np.zeros((5, 2)), COV, (3.9, 4.1))
    assert "5 points" in said and "0% for a = 3.9, 100% for a = 4.1" in said


def test_the_variance_of_the_step_is_the_fixed_point_of_the_recursion():
    step, variance = 1.5, 0.0
    for _ in range(100):
        variance = (1.0 - step / 2.0) ** 2 * variance + step
    found = _row(step, [trace_of(np.zeros((1, 50, 2)))], np.zeros(2), np.ones(2))
    assert found["variance by the step"] == pytest.approx(variance, rel=1e-12)
    assert found["what it shows"].startswith("discretisation error, 60% of a variance")


def test_a_divergence_is_named_and_a_short_step_is_slow():
    draws = np.random.default_rng(1).standard_normal((1, 400, 2))
    slow = _row(0.03, [trace_of(draws)], np.zeros(2), np.ones(2))
    assert slow["draws far off"] == 0.0 and slow["what it shows"].startswith("slow mixing")
    draws[0, 300:] += 50.0
    gone = _row(0.03, [trace_of(draws)], np.zeros(2), np.ones(2))
    assert gone["draws far off"] == 0.25 and gone["what it shows"].startswith("divergence")
    assert gone["sd ratio"] == pytest.approx(1.0, abs=0.15)  # of the draws that stayed: 300 of them
    assert gone["steps"] == 400


def trace_of(draws):
    return fake_trace(draws, name="theta")
