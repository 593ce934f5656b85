"""What all chains agree on: what a step returns, when audits draw a number, and what a start costs by default."""

import math
import types

import numpy as np
import pytest

from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import BLANK_VALUES, EVALUATIONS, MU_STD
from approxmcmc.engine.terms.evidence import log_likelihood_at
from approxmcmc.samplers.chain import MOVED, STAYED, CompiledChain, is_chosen_for_audit, new_clock
from approxmcmc.samplers.decision import decide_on_all_data
from approxmcmc.samplers.metropolis_hastings.undefined import OUT_OF_REACH, log_density_at
from tests.decisions import evidence_of
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


@pytest.mark.parametrize(("log_prior", "found", "evaluated"), [(-math.inf, -math.inf, 3), (-2.0, -12.0, 3 + 7)])
def test_on_the_way_out_of_reach_no_datum_is_read_outside_the_support(log_prior, found, evaluated):
    """The prior reads three rows, the likelihood all seven."""
    evidence = types.SimpleNamespace(n_obs=7, as_they_lie=None)
    state = types.SimpleNamespace(prior_rows=3, log_prior_of=lambda point: log_prior, evidence=evidence)
    count = np.zeros(len(COUNT_NAMES), np.int64)
    assert plain(log_density_at, {log_likelihood_at: lambda *_: -10.0})(state, np.zeros(1), count) == found
    assert count[EVALUATIONS] == count.sum() == evaluated


def test_terms_that_differ_by_little_have_a_standardised_distance():
    """Lambda = 1.2, and s_l^2 = 0.14 / 3."""
    value = BLANK_VALUES.copy()
    terms = np.array([0.1, 0.2, 0.3, 0.6])
    assert plain(decide_on_all_data)(None, evidence_of(terms), 1.0, 0.0, None, value) == 1
    assert value[MU_STD] == pytest.approx(0.2 / (2.0 * math.sqrt(0.14 / 3.0)))
