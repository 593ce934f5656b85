"""Acceptance tests at the ends of their ranges: which settings are refused, and where a run is warned of."""

import math

import numpy as np
import pytest
import xarray as xr

from approxmcmc.acceptance import (
    BernsteinTest,
    DelayedAcceptance,
    ExactTest,
    MinibatchBarker,
    PoissonTest,
    SequentialTTest,
)
from approxmcmc.errors import InvalidInputError
from tests.decisions import Population


class Rows(Population):
    """Terms of one posterior."""

    same_terms = True


@pytest.mark.parametrize(
    ("kind", "settings", "match"),
    [
        *[(BernsteinTest, {"p": p}, "p must be finite and over 1") for p in (1.0, math.inf, math.nan)],
        *[(MinibatchBarker, {"target_variance": v}, "target_variance must lie between") for v in (-0.5, 0.0, 0.0099)],
        *[(SequentialTTest, {"tol": tol}, "tol must be finite and at least 0") for tol in (-0.1, math.inf, math.nan)],
    ],
)
def test_beyond_the_ends_of_a_range_is_refused(kind, settings, match):
    with pytest.raises(InvalidInputError, match=match):
        kind(**settings)


@pytest.mark.parametrize("target_variance", [0.01, 2.25])
def test_the_ends_of_a_range_are_in_it(target_variance):
    assert MinibatchBarker(target_variance).target_variance == target_variance


def records(**stats):
    """Return a group of ten draws, each of one decision that was not audited."""
    usual = {"wrong_decisions": 0, "decisions_audited": 0, "decisions_made": 1}
    columns = {name: (("chain", "draw"), np.broadcast_to(value, (1, 10))) for name, value in (usual | stats).items()}
    return xr.Dataset(columns, attrs={"n_obs": 100})


@pytest.mark.parametrize(
    ("test", "column", "clean", "found", "value", "limit"),
    [
        (BernsteinTest(), "range_violations", 0, 1, 10, 0.0),
        (PoissonTest(), "range_violations", 0, 1, 10, 0.0),
        (MinibatchBarker(), "skewness_ratio", 0.05, 0.051, 1.0, 0.5),
        (MinibatchBarker(), "skewness_ratio", [0.06] * 4 + [0.0] * 6, [0.06] * 5 + [0.0] * 5, 0.5, 0.5),
        (SequentialTTest(), "max_term_ratio", 0.5, 0.51, 1.0, 0.1),
        (SequentialTTest(), "max_term_ratio", 0.0, [0.6] + [0.0] * 9, 0.1, 0.1),
    ],
)
def test_a_finding_says_what_was_measured_and_where_it_fires(test, column, clean, found, value, limit):
    """At the limit of one draw nothing is wrong yet; a share of the draws that reaches its limit is."""
    assert test.problems(records(**{column: clean})) == []
    [finding] = test.problems(records(**{column: found}))
    assert (finding.value, finding.limit) == (pytest.approx(value), limit)
    assert test.problems(records()) == [] and test.problems(records(**{column: found}).isel(draw=slice(0))) == []


@pytest.mark.parametrize("second", [ExactTest(), SequentialTTest(0.1, 2)])
def test_two_stages_are_not_audited(second):
    """A second threshold of its own decides: there is nothing to compare with."""
    part = DelayedAcceptance(second).build_test(Rows(np.array([0.1, 0.5, -0.2, 0.3])))
    assert not part.is_audited and part.audit is None
