"""The share of draws in which one term outweighs the others: counted, or 0 where it says nothing."""

import numpy as np
import pytest
import xarray as xr

from approxmcmc.acceptance import SequentialTTest
from approxmcmc.acceptance.laws.audits import share_of_heavy_draws


def stats(ratios=((0.4, 0.5), (0.3, 0.9)), **attrs):
    """Return the records of two chains of two draws with these ratios; one of 0.5 is not heavy."""
    return xr.Dataset({"max_term_ratio": (("chain", "draw"), np.array(ratios))}, attrs=attrs)


@pytest.mark.parametrize("ratio", [1.0, 0.06])
def test_draws_are_counted(ratio):
    assert share_of_heavy_draws(stats(setup_variance_ratio=ratio)) == share_of_heavy_draws(stats()) == 0.25


def test_small_residuals_say_nothing():
    assert share_of_heavy_draws(stats(setup_variance_ratio=0.05)) == 0.0


def test_nor_do_draws_that_were_audited():
    assert share_of_heavy_draws(stats().assign(audited_kurtosis=3.0)) == 0.0


def test_nor_none_at_all():
    assert share_of_heavy_draws(stats(ratios=((), ()))) == 0.0
    assert share_of_heavy_draws(stats().drop_vars("max_term_ratio")) == 0.0


@pytest.mark.parametrize(("heavy", "warns"), [(1, False), (2, True), (20, True)])
def test_the_t_test_warns_from_a_tenth_of_the_draws_on(heavy, warns):
    records = stats(ratios=[[0.9] * heavy + [0.1] * (20 - heavy)])
    counts = dict.fromkeys(("decisions_audited", "wrong_decisions"), xr.zeros_like(records["max_term_ratio"], int))
    assert bool(SequentialTTest().problems(records.assign(counts))) == warns
