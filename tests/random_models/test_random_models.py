"""Random PyMC models, read in each way that the library has, against sums and quadrature of NumPy.

The session `tests-all` puts 200 models to the plans and plants bugs; `statistical` puts 2000 to them, with a new seed.
Both are uncompiled. A model takes about 1.8 s of a processor, most of it in reading graphs, and in the quadrature of
effects, ours and the sums over grids that it is compared with. A failure prints the smallest model that fails, as a
script.
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed as seeded, settings

import approxmcmc as amc
from approxmcmc.contracts import Target
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from tests.random_models import checks, families, latents, plans, planted, reasons
from tests.random_models.conftest import usual_rewriting
from tests.random_models.models import RandomModel
from tests.random_models.strategy import random_models

pytestmark = pytest.mark.uncompiled
STATISTICAL = pytest.mark.statistical
ANY = random_models()


def for_each(
    models: int, root: int, check: Callable[[RandomModel], None], strategy: Any = ANY, *, shrink: bool = True
) -> None:
    """Put so many models to a check, each drawn by Hypothesis with a seed of its own, which starts at `root`.

    Within a run Hypothesis draws variations of earlier examples, which cost as much as new ones: 400 examples had 263
    structures. The first example of a run, the simplest model, is skipped.
    """
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    how = settings(max_examples=2, suppress_health_check=list(HealthCheck), deadline=None, phases=phases, database=None)
    for number in range(root, root + models):
        try:
            seeded(number)(how(given(strategy)(_but_the_first(check))))()
        except Exception as error:
            error.add_note(f"Repeat this model by for_each(1, {number}, check).")
            raise


def _but_the_first(check: Callable[[RandomModel], None]) -> Callable[[RandomModel], None]:
    calls = itertools.count()

    def check_others(model: RandomModel) -> None:
        if next(calls):
            check(model)

    return check_others


def built(model: RandomModel) -> Any:
    """Return the PyMC model, without PyMC's advice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.build()


def compare(model: RandomModel, plan: str) -> None:
    """Compare a model in graphs that are made in a tenth of the time; a fault counts if the usual graphs have it."""
    try:
        compare_as_compiled(model, plan)
    except Exception:
        with usual_rewriting():
            compare_as_compiled(model, plan)


def compare_as_compiled(model: RandomModel, plan: str) -> None:
    """Compare everything that a plan gives with NumPy's; if it gives a reason instead, check that it is true."""
    pymc_model, rng = built(model), np.random.default_rng(0)
    target, why = plans.read(plan, pymc_model)
    if target is None:
        reasons.check_refusal(model, plan, why)
        return
    checks.compare_density(model, target, rng)
    checks.compare_latents(model, target, rng)
    trace = checks.draw_trace(target, 1)
    checks.compare_trace(model, pymc_model, trace)
    checks.compare_pointwise(model, pymc_model, trace)


MODELS = 50  # of each of the four plans in the session `tests-all`


@pytest.mark.slow
@pytest.mark.parametrize("plan", plans.PLANS)
def test_target_and_trace_are_those_of_the_model(plan, seed):
    for_each(MODELS, seed, lambda model: compare(model, plan))


@STATISTICAL
@pytest.mark.parametrize("plan", plans.PLANS)
def test_target_and_trace_are_those_of_many_models(plan, seed):
    for_each(500, seed, lambda model: compare(model, plan))


@STATISTICAL
def test_nuts_returns_what_pymc_returns(seed):
    def check(model):
        pymc_model = built(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = amc.sample(
                plans.whole(pymc_model),
                amc.NUTS(backend="pymc"),
                draws=2,
                tune=2,
                chains=1,
                random_seed=1,
                progressbar=False,
            )
        checks.compare_trace(model, pymc_model, trace)

    for_each(80, seed, check)


# --- planted bugs ---

INTEGRABLE = random_models(families=families.OF_GROUPS, latents=[])
IN_CLOSED_FORM = random_models(families=[families.normal], latents=[])
WITH_STATES = random_models(latents=latents.LATENTS)


def read_or_skip(model: RandomModel, kind: Any = Target) -> Any:
    """Return the target of a model; skip the model if there is none of this kind."""
    target, _ = plans.read("as chosen", built(model))
    assume(isinstance(target, kind))
    return target


@pytest.mark.parametrize(
    ("plant", "strategy", "check"),
    [
        (planted.effects_in_another_order, IN_CLOSED_FORM, checks.compare_latents),
        (planted.prior_without_jacobian, IN_CLOSED_FORM, checks.compare_density),
        (planted.rows_in_each_others_group, INTEGRABLE, checks.compare_density),
        (planted.weight_of_a_state, WITH_STATES, checks.compare_density),
    ],
)
def test_a_planted_bug_is_rejected(plant, strategy, check, monkeypatch, seed):
    plant(monkeypatch)
    with_states = strategy is WITH_STATES
    kind = Target if with_states else IntegratedOfPyMC

    def look(model):
        assume(model.discrete if with_states else model.free)
        check(model, read_or_skip(model, kind), np.random.default_rng(0))

    with pytest.raises(AssertionError):
        for_each(60, seed, look, strategy, shrink=False)


@pytest.mark.parametrize("fault", ["deterministic", "coord"])
def test_a_trace_with_a_planted_fault_is_rejected(fault, seed):
    def look(model):
        used = [dim for one in model.free.values() for dim in one.dims or () if len(model.coords[dim]) > 1]
        assume(model.deterministics if fault == "deterministic" else used)
        target = read_or_skip(model)
        trace = checks.draw_trace(target, 1)
        if fault == "deterministic":
            spoilt = planted.dropped_deterministic(trace, next(iter(model.deterministics)))
        else:
            spoilt = planted.swapped_coord(trace, used[0])
        checks.compare_trace(model, model.build(), trace)  # the trace itself is right
        with pytest.raises(AssertionError):
            checks.compare_trace(model, model.build(), spoilt)

    for_each(2, seed, look, IN_CLOSED_FORM, shrink=False)


# --- shrinking ---


def test_a_failure_shrinks_to_a_script_of_few_lines(seed):
    sources = []

    def look(model):
        laws_of_rows = {one.law.name for one in model.observed.values()}
        if "Poisson" in laws_of_rows and any(max(one.shape, default=0) > 2 for one in model.free.values()):
            sources.append(model.source)
            raise AssertionError

    with pytest.raises(AssertionError):
        for_each(60, seed, look)
    smallest = sources[-1]  # Hypothesis ends with the smallest
    assert len(smallest.splitlines()) <= 8, smallest
