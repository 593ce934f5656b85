"""Further runs after failed checks: which follow which failures, what is kept, and that a run that passes is alone."""

import dataclasses
import json

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.contracts import Variables
from approxmcmc.engine.streams import chain_seeds
from approxmcmc.errors import SamplingError
from approxmcmc.further_runs import mended
from approxmcmc.interop.non_centred import centred_effects, non_centred
from approxmcmc.interop.whole_model import WholeModel
from approxmcmc.output.datatree import named_trace
from approxmcmc.runs import RunPlan, judge
from approxmcmc.sampling.assembly import Settings
from approxmcmc.whole_chains.starts import mirrored_starts

CHAINS = 4
DRAWS = 500
SEPARATE = np.array([0.0, 0.0, 0.0, 30.0])  # chain 3 stays far from the others


def effects():
    """Return a model with centred effects."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        pm.Normal("effect", 1.0, scale, shape=3)
    return model


def independent():
    """Return a model without effects."""
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    return model


def plan(model=independent, **changes):
    """Return the plan of a chosen run of NUTS on a model."""
    settings = Settings(draws=DRAWS, tune=100, chains=CHAINS, thin=1, seed=1)
    settings = settings._replace(**{name: changes.pop(name) for name in tuple(changes) if name in Settings._fields})
    target = WholeModel(model(), "it is a test")
    return RunPlan(target, amc.NUTS(target_accept=0.9), settings, "", **changes)


def trace_of(*, shift=0.0, lp=0.0, diverging=0, moves=True, evaluations=10, seconds=1.0):
    """Return the judged trace of a run of two parameters: standard normal, plus `shift` for each chain."""
    rng = np.random.default_rng(8)
    draws = rng.normal(size=(CHAINS, DRAWS, 2)) + np.broadcast_to(shift, CHAINS)[:, None, None]
    draws[~np.broadcast_to(moves, CHAINS)] = np.broadcast_to(shift, CHAINS)[~np.broadcast_to(moves, CHAINS), None, None]
    flags = np.zeros((CHAINS, DRAWS), dtype=bool)
    flags[0, :diverging] = True
    stats = {
        "lp": np.broadcast_to(lp, CHAINS)[:, None] + rng.normal(size=(CHAINS, DRAWS)),
        "diverging": flags,
        "likelihood_evaluations": np.full((CHAINS, DRAWS), evaluations),
    }
    attrs = {"stopped": "", "sampling_time": seconds, "thin": 1, "n_obs": 1, "adaptation": "diag"}
    trace = named_trace(
        {"x": draws},
        stats,
        variables=Variables({"x": (2,)}),
        tuning_totals={},
        attrs=attrs,
        settings=amc.NUTS().to_dict(),
    )
    return trace, judge(trace)


def runs_of(plan, *results):
    """Return kept trace, warning and the plans of all runs, with these results of the runs, errors among them."""
    plans = []

    def run(plan):
        plans.append(plan)
        result = results[len(plans) - 1]
        if isinstance(result, Exception):
            raise result
        return result

    trace, block = mended(plan, plan.target, run, starts_given=False, say=False)
    assert len(plans) == len(results)
    return trace, block, plans


def record_of(trace):
    return json.loads(trace["posterior"].attrs["further_runs"])


def test_a_run_that_passes_is_the_only_one():
    passing, block = trace_of()
    before = dict(passing["posterior"].attrs)
    trace, after, _ = runs_of(plan(), (passing, block))
    assert trace is passing and after == block == ""
    assert trace["posterior"].attrs == before and "further_runs" not in before


@pytest.mark.thorough
def test_lost_chains_start_at_new_points_and_the_others_stay():
    lost = trace_of(shift=SEPARATE, lp=-np.array([0.0, 0.0, 0.0, 400.0]))
    trace, block, plans = runs_of(plan(), lost, lost, trace_of())
    assert block == "" and [one.restarts for one in plans] == [(), (0, 0, 0, 1), (0, 0, 0, 2)]
    assert plans[1].sampler == dataclasses.replace(plans[0].sampler, adaptation="diag")
    first, second, third = record_of(trace)
    assert third["kept"] and not first["kept"] and "chain 3 stayed in a place with about e^-4" in second["change"]
    [place] = first["not_reached"]
    assert place["chain"] == 3 and place["below"] > place["limit"] == 15.5
    assert trace["posterior"].attrs["setup_further_seconds"] == 2.0
    assert "R-hat" in first["problems"] and "further runs" in set(amc.diagnose(trace)["check"])


def test_chains_in_modes_of_similar_density_are_reported_at_once():
    _, block, _ = runs_of(plan(), trace_of(shift=SEPARATE, lp=-np.array([0.0, 0.0, 0.0, 5.0])))
    assert "they are in different modes" in block


@pytest.mark.thorough
@pytest.mark.parametrize(("below", "is_reported"), [(5.0, True), (14.0, True), (60.0, False), (np.nan, True)])
def test_a_place_of_an_earlier_chain_is_reported_unless_its_density_is_negligible(below, is_reported):
    """The stuck chain may have found a second mode, although all chains of the next run agree."""
    moves = np.array([True, True, True, False])
    stuck = trace_of(shift=SEPARATE, lp=-np.array([0.0, 0.0, 0.0, below]), moves=moves)
    trace, block, _ = runs_of(plan(), stuck, trace_of())
    assert ("places that no draw of this run has reached: chain 3 of run 0" in block) == is_reported
    assert trace["posterior"].attrs["problems"] == ("places not reached" if is_reported else "")


def test_a_place_that_the_kept_run_has_reached_is_not_reported():
    stuck = trace_of(shift=np.array([0.0, 0.0, 0.0, 1.0]), moves=np.array([True, True, True, False]))
    _, block, _ = runs_of(plan(), stuck, trace_of())
    assert block == ""


def test_divergences_alone_get_smaller_steps_first_then_the_other_form():
    trace, block, plans = runs_of(
        plan(effects), trace_of(diverging=9), trace_of(diverging=3, evaluations=4), trace_of(evaluations=4)
    )
    assert block == "" and [run["change"] for run in record_of(trace)] == [
        "as chosen",
        "target_accept=0.98",
        "non-centred effects effect",
    ]
    assert plans[2].sampler.non_centred and plans[2].sampler.target_accept == 0.98


def test_chains_that_overlap_are_not_lost_although_their_masses_differ():
    """As in a funnel, where one chain sees the neck and another one the mouth."""
    shift = np.array([0.0, 0.0, 0.0, 2.0])
    overlapping = trace_of(shift=shift, lp=-np.array([0.0, 0.0, 0.0, 40.0]), evaluations=10)
    trace, _, plans = runs_of(plan(effects), overlapping, trace_of(shift=shift), trace_of())
    changes = [run["change"] for run in record_of(trace)]
    assert changes == ["as chosen", "non-centred effects effect", "4 times the tuning steps"]
    assert plans[2].settings.tune == 400 and all(not one.restarts for one in plans)


def test_what_no_run_mends_is_one_warning_about_the_best_run():
    best = trace_of(diverging=1, evaluations=4)
    trace, block, _ = runs_of(plan(effects), trace_of(diverging=9), best, trace_of(shift=[0, 0.2, 0, 0], diverging=1))
    assert trace is best[0]
    assert "3 runs were made, and none passed all checks" in block and "Run 1 is kept" in block


def test_no_run_begins_after_the_share_is_spent():
    costly = trace_of(diverging=3, evaluations=30)
    runs_of(plan(effects), trace_of(diverging=9), costly)


def test_further_runs_have_the_seconds_that_are_left():
    late = trace_of(diverging=9, seconds=6.0), trace_of(diverging=1, evaluations=1, seconds=3.5)
    *_, plans = runs_of(plan(effects, time_limit=10.0), *late)
    assert [one.settings.time_limit for one in plans] == [10.0, 4.0]  # half a second is left for a third run


def test_an_error_of_a_further_run_keeps_the_draws():
    first = trace_of(diverging=9)
    trace, _, _ = runs_of(plan(effects), first, SamplingError("no start"), trace_of(evaluations=4))
    assert [run.get("error", "") for run in record_of(trace)] == ["", "no start", ""]


def test_the_user_s_few_draws_are_no_reason_for_another_run():
    first, _ = trace_of()
    rows = [{"check": "bulk ESS", "verdict": "warning", "value": 0.2 * CHAINS * DRAWS}]
    first["posterior"].attrs |= {"problems": "bulk ESS", "diagnosis": json.dumps(rows)}
    runs_of(plan(), (first, "few"))


def test_the_next_plan_is_the_cheapest_exact_one_that_is_not_far_slower():
    X, y = amc.datasets.synthetic_logistic(300, 2)
    target = amc.targets.LogisticRegression(X, y)
    names = ["NUTS by nutpie", "control variates, t-test", "random walk"]
    rows = [("random walk of nothing", True, "chosen", 1.0), *((name, True, "slower", 2.0) for name in names[:1])]
    rows.append(("biased", False, "slower", 1.5))
    table = [dict(zip(("candidate", "exact", "verdict", "price"), row, strict=True)) for row in rows]
    chosen = plan(attrs={"choice": json.dumps(table), "chosen": "random walk"})
    chosen = chosen._replace(target=target, sampler=amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()))
    apart = trace_of(shift=np.array([0.0, 0.0, 0.5, 0.5]))
    trace, block, plans = runs_of(chosen, apart, trace_of())
    assert block == "" and isinstance(plans[1].sampler, amc.NUTS)
    assert trace["posterior"].attrs["problems"] == ""


def test_seeds_of_other_chains_stay_the_same():
    for seed in (5, [9, 8, 7, 6]):
        before, after = chain_seeds(seed, 4), chain_seeds(seed, 4, [0, 0, 1, 2])
        assert before[:2] == after[:2] and not set(before[2:]) & set(after) and len(set(after)) == 4


def test_a_chain_that_starts_anew_leaves_the_starts_of_the_others():
    model = independent()
    before, after = chain_seeds(5, 4), chain_seeds(5, 4, [0, 0, 1, 0])
    first = mirrored_starts(model, before)
    second = mirrored_starts(model, after, before, [2])
    same = [np.array_equal(one["x"], other["x"]) for one, other in zip(first, second, strict=True)]
    assert same == [True, True, False, True]


# --- the non-centred form ---


def test_the_non_centred_form_has_the_density_of_its_variables(rng):
    """log p(z, scale) = log p(effect, scale) + 3 log(scale)."""
    model = effects()
    other = non_centred(model)
    assert [variable.name for variable in centred_effects(model)] == ["effect"] and not centred_effects(other)
    log_scale = rng.normal()
    z = rng.normal(size=3)
    there = {"scale_log__": log_scale, "effect": 1.0 + np.exp(log_scale) * z}
    here = {"scale_log__": log_scale, "effect_standardized__": z}
    mode = "FAST_COMPILE"
    difference = other.compile_logp(mode=mode)(here) - model.compile_logp(mode=mode)(there)
    assert difference == pytest.approx(3 * log_scale, abs=1e-10)


def test_a_model_without_effects_is_refused():
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0)
    with pytest.raises(amc.errors.IncompatibleError, match="no effect of a location-scale family"):
        non_centred(model)
