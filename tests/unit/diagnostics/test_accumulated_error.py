"""Errors of decisions times the memory of the chains: fires, stays quiet, and is silent where it cannot be known."""

import math

import pytest

from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.gates import Gate, accumulated_error


def error(value, lower):
    """Return the gate on E|alpha^ - alpha|."""
    return [Gate("acceptance_error", value, lower, 2.0 * value - lower, 0.05, False, "", "")]


def ess(value):
    """Return the finding on bulk ESS."""
    return [Finding("R-hat", "ok", "", value=1.0), Finding("bulk ESS", "ok", "", value=value)]


@pytest.mark.parametrize(
    ("gate", "effective", "verdict"),
    [
        (error(0.018, 0.010), 561.0, "warning"),  # a walk: 14 steps to forget, errors of .018 each
        (error(0.018, 0.010), 8000.0, "ok"),  # independent draws with the same errors
        (error(0.018, 0.001), 561.0, "ok"),  # two standard errors above 0: may be nothing
        (error(0.022, 0.0074), 400.0, "warning"),  # less than three standard errors above 0, and far beyond the limit
        (error(0.0007, 0.0005), 3700.0, "ok"),
    ],
)
def test_small_errors_matter_where_chains_remember(gate, effective, verdict):
    [found] = accumulated_error(gate, ess(effective), 8000)
    assert found.verdict == verdict
    assert found.value == pytest.approx(gate[0].value * 8000 / effective)
    assert f"{found.value:.2g}" in found.finding


@pytest.mark.parametrize(
    ("gates", "convergence"),
    [([], ess(500.0)), (error(0.02, 0.01), []), (error(0.02, 0.01), ess(math.nan)), (error(0.02, -math.inf), ess(9.0))],
)
def test_nothing_is_said_where_audits_or_draws_are_missing(gates, convergence):
    assert accumulated_error(gates, convergence, 8000) == []
