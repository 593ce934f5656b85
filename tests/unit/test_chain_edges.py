"""What all chains agree on: what a step returns, when audits draw a number, and what a start costs by default."""

import math
import types

import pytest

from approxmcmc.samplers.chain import MOVED, STAYED, CompiledChain, is_chosen_for_audit, new_clock
from approxmcmc.samplers.undefined import OUT_OF_REACH
from tests.planting import plain


def test_steps_return_what_is_recorded_as_accepted():
    assert (STAYED, MOVED) == (0, 1)


@pytest.mark.parametrize(("probability", "drawn"), [(0.0, 0), (0.3, 1)])
def test_a_run_without_audits_draws_no_number_for_them(probability, drawn):
    made = []
    streams = types.SimpleNamespace(audit=types.SimpleNamespace(random=lambda: made.append(0) or 0.2))
    assert plain(is_chosen_for_audit)(streams, new_clock(0, probability)) == (probability > 0.0)
    assert len(made) == drawn


def test_a_start_evaluates_nothing_and_tuning_settles_on_nothing_unless_told():
    chain = CompiledChain(None, None, None, explain=str)
    assert (chain.start_evaluations, chain.adapted(), chain.auditor, chain.fixed) == (0, {}, None, ())


def test_out_of_reach_is_where_a_density_is_no_double_any_more():
    """exp(-745) is the smallest positive one."""
    assert math.exp(-OUT_OF_REACH) > 0.0 == math.exp(-OUT_OF_REACH - 1.0)
