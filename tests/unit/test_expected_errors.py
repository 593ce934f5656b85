"""How many wrong decisions audits of a sequential t-test should find, draw by draw."""

import numpy as np
import pytest
import xarray as xr

from approxmcmc.acceptance.laws.audits import expected_errors, wrong_decisions
from approxmcmc.acceptance.laws.early_stops import tolerance_stop_error
from approxmcmc.acceptance.laws.recursion import sequential_test_error

LOOKS = {"batch_size": 20, "growth": 2.0, "boundary_shape": 0.4}
LAW = LOOKS | {"epsilon": 0.05, "n_obs": 100}


def stats_of(attrs=None, **columns):
    """Return a group of one chain."""
    values = {name: (("chain", "draw"), np.atleast_2d(value)) for name, value in columns.items()}
    return xr.Dataset(values, attrs={"n_obs": 100} | (attrs or {}))


def expected(stats, tol=0.0):
    """Return the errors of the chain's draws."""
    return expected_errors(stats, epsilon=0.05, tol=tol, **LOOKS)[0]


def test_the_error_is_that_of_the_recursion():
    """At either sign, interpolated; from 6 on that of 6."""
    mu_std = np.array([0.0, -0.3, 1.21, 2.77, -4.4, 5.49, 5.97, 7.0])
    exact = sequential_test_error(np.minimum(np.abs(mu_std), 6.0), **LAW)["error"]
    np.testing.assert_allclose(expected(stats_of(audited_mu_std=mu_std)), exact, rtol=0.02)


def test_draws_are_judged_by_an_epsilon_of_their_own():
    stats = stats_of(audited_mu_std=[1.0, 1.0, 1.0, np.nan], epsilon=[0.05, 0.2, np.nan, 0.2])
    exact = [float(sequential_test_error(1.0, **LAW | {"epsilon": each})["error"]) for each in (0.05, 0.2)]
    np.testing.assert_allclose(expected(stats), [*exact, np.nan, np.nan], rtol=0.02)


def test_nothing_is_expected_where_nothing_was_audited():
    assert expected_errors(stats_of(x=[0.0]), epsilon=0.05, tol=0.0, **LOOKS) is None
    assert expected_errors(stats_of(audited_mu_std=[np.nan]), epsilon=0.05, tol=0.0, **LOOKS) is None
    kept = stats_of({"audit_policy": "auto"}, audited_mu_std=[1.0])
    assert expected_errors(kept, epsilon=0.05, tol=0.1, **LOOKS) is None
    assert expected_errors(kept, epsilon=0.05, tol=0.0, **LOOKS) is not None


@pytest.mark.parametrize("core", [0, 7])
def test_a_stop_by_tolerance_adds_the_error_of_its_look(core):
    """Looks at 20 and 60 terms beside the core; then a draw of no decision, and one of two, which adds a quarter."""
    stats = stats_of(
        {"setup_core_rows": core} if core else {},
        audited_mu_std=[1.0, 1.0, 1.0, 1.0, 1.0],
        decisions_made=[1, 1, 1, 0, 2],
        tolerance_stops=[0, 1, 1, 0, 1],
        datapoints_touched=np.array([100, 20, 60, 0, 80]) + core,
    )
    added = expected(stats, tol=0.1) - expected(stats)
    looks = [float(tolerance_stop_error(1.0, look, **LAW)) for look in (0, 1)]
    np.testing.assert_allclose(added, [0.0, *looks, 0.0, 0.25], rtol=1e-2)
    assert 0.01 < looks[1] < looks[0] - 0.01


@pytest.mark.parametrize(
    ("wrong", "audited", "lower"),
    [(0, 1000, 0.0), (1, 49, 0.0), (1, 50, 1.0 - 0.999 ** (1 / 50)), (50, 50, 0.001**0.02)],
)
def test_the_lower_limit_of_a_rate(wrong, audited, lower):
    """The root of P(at least so many) = 0.001; 0 without a wrong one, and below 50 audits."""
    found = wrong_decisions(stats_of(wrong_decisions=[wrong], decisions_audited=[audited]))
    assert found == (wrong, audited, pytest.approx(lower, rel=1e-9))
