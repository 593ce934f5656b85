"""The table of plans: the ways in which a PyMC model can become a target, each with its price or its reason.

| plan | terms of its target |
|---|---|
| `SumOutDiscrete` | those of the model without its discrete variables, for which the other plans are asked |
| `IntegrateGroups` | the log-likelihoods of groups, whose effects are integrated out |
| `LinearPredictors` | rows as functions of a few linear predictors, most of them the library's own |
| `CompiledRows` | rows of the model's graph, compiled by PyTensor |
| `WholeChains` | none: NUTS, or the steps of PyMC, sample the whole log density |

A plan says why it does not fit a model (`ReadingPlan.why_not`, a sentence for users), what it costs
(`ReadingPlan.seconds`, counted before anything is read, see `nuts_seconds`), and makes the target (`ReadingPlan.make`).
The cheapest plan that fits is taken; among equal ones, the first in the table. Prices are of the way in which the
target is sampled:

- Trajectories of NUTS on the model as it is written, `DRAWS` of them, for all plans. A target with terms can be sampled
  by NUTS, too, so it never costs more than `WholeChains`. If the model has effects of groups, its posterior is far from
  normal, and trajectories are all that is counted, without a limit if they would meet a funnel.
- Else the passes over all rows in which an expansion of the terms is made: one with linear predictors, 2 + 2 dim by the
  gradient of the graph.
- With effects integrated out, one pass, and the compilation of quadrature.

`from_pymc` makes a target that may serve many runs, so it counts no compilation; `sample` counts it.
"""

import abc
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import speaking
from approxmcmc.errors import IncompatibleError
from approxmcmc.families import FORMS
from approxmcmc.interop.attempts import NotPossibleError, Reason
from approxmcmc.interop.graphs import GRADIENT
from approxmcmc.interop.groups.candidates import ModelOfGroups
from approxmcmc.interop.groups.target import integrated, nuts_moves
from approxmcmc.interop.law import distribution_of
from approxmcmc.interop.linear_predictor import structured_target
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.nuts_seconds import OPERATION, seconds_of_trajectory, seconds_to_compile
from approxmcmc.interop.pymc_target import PyMCTarget
from approxmcmc.interop.read import ModelDescription, Request, checked_latents
from approxmcmc.interop.summed.model import SummedModel, summed
from approxmcmc.interop.values import NO_TRACES
from approxmcmc.interop.whole_model import WholeModel
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import with_sources

NEGLIGIBLE = 0.1  # seconds
DRAWS = 4 * (400 + 1000)  # trajectories: 4 chains of 400 tuning steps and 1000 draws
# Seconds in which quadrature is compiled for a new model: 11, 19 and 20 in three models of docs/street.md.
QUADRATURE = 12.0
# Seconds in which PyTensor's terms and their gradient are compiled, of one linear predictor and of a whole graph, as
# `design.work` counts them.
TERMS_OF_PREDICTORS = 7.0
TERMS_OF_GRAPH = 10.0


class ReadingPlan(abc.ABC):
    """A way in which a model can become a target."""

    name: str
    """What the plan does, for users."""

    def why_not(self, description: ModelDescription) -> str | None:
        """Return why the plan does not fit a model, a sentence for users; None if it fits."""
        target = self.outcome(description)
        return target.sentence if isinstance(target, Reason) else None

    def make(self, description: ModelDescription) -> Any:
        """Return the target; raise if the plan does not fit."""
        return description.require(self, functools.partial(self.read, description))

    def outcome(self, description: ModelDescription) -> Any:
        """Return the target, or the reason why the plan does not fit; the model is read once."""
        return description.attempt(self, functools.partial(self.read, description))

    @abc.abstractmethod
    def read(self, description: ModelDescription) -> Any:
        """Return the target; raise `NotPossibleError`, or an error of the library, with the reason."""

    @abc.abstractmethod
    def seconds(self, description: ModelDescription) -> float:
        """Return the counted seconds of a run, from what the model's graph shows at a glance."""


class SumOutDiscrete(ReadingPlan):
    """Sum out discrete variables; `make` returns the description of the model without them."""

    name = "discrete variables summed out"

    def read(self, description: ModelDescription) -> ModelDescription:
        """Return the description of the model without discrete variables."""
        model = summed(description.given, description.faults)
        if model is description.given:
            raise NotPossibleError("the model has no discrete variable")
        model.latents_wanted = checked_latents(description.request.latents)
        return ModelDescription(model, description.request, description.faults)

    def seconds(self, description: ModelDescription) -> float:
        """Return the seconds of the cheapest plan for the model without discrete variables."""
        return 0.0


class IntegrateGroups(ReadingPlan):
    """Integrate out effects of independent groups, in closed form or by quadrature."""

    name = "effects of groups integrated out"

    def read(self, description: ModelDescription) -> Target:
        """Return the target of the other parameters."""
        request = description.request
        target = integrated(description.require(ModelOfGroups, _groups(description)), always=request.integrate is True)
        target.latents_wanted = checked_latents(request.latents)
        return target

    def seconds(self, description: ModelDescription) -> float:
        """Return the seconds of a pass over the rows; for quadrature also those of its compilation, if they count."""
        source = description.attempt(ModelOfGroups, _groups(description))
        by_quadrature = isinstance(source, ModelOfGroups) and source.law is not None
        compilation = QUADRATURE if by_quadrature and description.request.counts_compilation else 0.0
        return compilation + OPERATION * description.work.operations


class LinearPredictors(ReadingPlan):
    """Evaluate rows as functions of the few linear predictors through which they depend on the parameters."""

    name = "rows by linear predictors"

    def read(self, description: ModelDescription) -> Target:
        """Return the target of linear predictors."""
        if not description.request.structure:
            raise NotPossibleError("it was not looked for")
        if description.request.data is not None:
            raise NotPossibleError("the graph is compiled unchanged if data= is given")
        return structured_target(rows_of(description))

    def seconds(self, description: ModelDescription) -> float:
        """Return the seconds of trajectories, or of the one pass in which an expansion is made, whichever is less."""
        distributions = {distribution_of(variable.owner.op) for variable in description.given.observed_RVs}
        of_library = distributions <= {form.distribution for form in FORMS}
        compilation = 0.0 if of_library else TERMS_OF_PREDICTORS
        return _by_expansion(description, compilation, passes=1)


class CompiledRows(ReadingPlan):
    """Evaluate rows of the model's graph, compiled unchanged by PyTensor."""

    name = "rows of the graph"

    def read(self, description: ModelDescription) -> Target:
        """Return the target of the model's graph."""
        if description.request.data is not None:
            return _of_given_rows(description)
        why = LINEAR_PREDICTORS.why_not(description)
        return PyMCTarget(rows_of(description), why_no_structure=why or "")

    def seconds(self, description: ModelDescription) -> float:
        """Return the seconds of trajectories, or of the passes in which an expansion is made, whichever is less."""
        return _by_expansion(description, TERMS_OF_GRAPH, passes=2 + 2 * description.work.dim)


class WholeChains(ReadingPlan):
    """Leave the model unchanged, for NUTS, or for PyMC's steps if it has discrete variables."""

    name = "whole chains by NUTS"

    def read(self, description: ModelDescription) -> Target:
        """Return the target without terms, which says why it has none."""
        rows = COMPILED_ROWS.outcome(description)
        why = rows.sentence if isinstance(rows, Reason) else "NUTS is asked for"
        return WholeModel(description, why)

    def seconds(self, description: ModelDescription) -> float:
        """Return the seconds of trajectories; without limit for PyMC's discrete steps, which are not counted."""
        return math.inf if description.discrete else seconds_of_nuts(description)


SUM_OUT = SumOutDiscrete()
INTEGRATE_GROUPS = IntegrateGroups()
LINEAR_PREDICTORS = LinearPredictors()
COMPILED_ROWS = CompiledRows()
WHOLE_CHAINS = WholeChains()
WITH_TERMS: Sequence[ReadingPlan] = (INTEGRATE_GROUPS, LINEAR_PREDICTORS, COMPILED_ROWS)
PLANS: Sequence[ReadingPlan] = (*WITH_TERMS, WHOLE_CHAINS)


def without_discrete(description: ModelDescription) -> ModelDescription:
    """Return the description of the model with its discrete variables summed out, if that is possible."""
    summed_out = SUM_OUT.outcome(description)
    return description if isinstance(summed_out, Reason) else summed_out


def cheapest(description: ModelDescription, plans: Sequence[ReadingPlan]) -> ReadingPlan | None:
    """Return the cheapest of the plans that fit a model, the first of equal ones; None if none fits."""
    by_price = sorted(plans, key=lambda plan: price(plan, description))
    return next((plan for plan in by_price if plan.why_not(description) is None), None)


class Answer(NamedTuple):
    """A row of the table for a model.

    `why_not` is the reason why the plan does not fit, None if it fits, or was not tried because it costs more than the
    plan taken; `seconds` is its price.
    """

    plan: ReadingPlan
    why_not: str | None
    seconds: float
    is_taken: bool = False
    is_tried: bool = True

    def __str__(self) -> str:
        """Return the reason, or the price and whether the plan is taken, in words."""
        if self.why_not is not None:
            return f"no, {self.why_not}"
        if self.plan is SUM_OUT:
            return "yes, and the other plans are for the model without them"
        seconds = f"{self.seconds:.2g} s" if self.seconds > NEGLIGIBLE else f"under {NEGLIGIBLE:g} s"
        counted = seconds if math.isfinite(self.seconds) else "not counted"
        if not self.is_tried:
            return f"{counted} if it fits; not tried, because quadrature would be compiled"
        return f"{counted}, taken" if self.is_taken else counted


class PlanTable(NamedTuple):
    """The plans for a model: an answer for each, the plan that `sample` takes, its target, and faults of reading."""

    answers: list[Answer]
    taken: ReadingPlan
    target: Target
    faults: list[str]


def plan_table(model: Any, row_dim: str | None = None) -> PlanTable:
    """Return the table of plans for a run of a PyMC model.

    Raises
    ------
    IncompatibleError
        When no plan fits, because the model has no free variable.
    """
    given = ModelDescription(model, Request(row_dim=row_dim, counts_compilation=True))
    description = without_discrete(given)
    taken = cheapest(description, PLANS) or WHOLE_CHAINS
    target = taken.make(description)
    answers = [Answer(SUM_OUT, SUM_OUT.why_not(given), 0.0)]
    for plan in PLANS:
        seconds = price(plan, description)
        is_tried = plan is not INTEGRATE_GROUPS or seconds <= price(taken, description)
        why_not = plan.why_not(description) if is_tried else None
        answers.append(Answer(plan, why_not, seconds, plan is taken, is_tried))
    return PlanTable(answers, taken, target, description.faults)


@speaking("from_pymc")
def target_of(model: Any) -> Target:
    """Return the target with which `sample` draws from a PyMC model, by the cheapest of all plans."""
    description = without_discrete(ModelDescription(model, Request(counts_compilation=True)))
    target: Target = (cheapest(description, PLANS) or WHOLE_CHAINS).make(description)
    return target


def price(plan: ReadingPlan, description: ModelDescription) -> float:
    """Return the counted seconds of a plan; infinite if counting them failed."""
    seconds = description.attempt((plan, "price"), functools.partial(plan.seconds, description))
    return math.inf if isinstance(seconds, Reason) else seconds


def seconds_of_nuts(description: ModelDescription) -> float:
    """Return the seconds in which NUTS makes its trajectories, and the model is compiled; infinite with a funnel."""
    source = description.attempt(ModelOfGroups, _groups(description))
    if isinstance(source, ModelOfGroups) and not all(nuts_moves(source, effects) for effects in source.sets):
        return math.inf
    compilation = seconds_to_compile(description.work) if description.request.counts_compilation else 0.0
    return compilation + DRAWS * seconds_of_trajectory(description.work)


def _by_expansion(description: ModelDescription, compilation: float, passes: int) -> float:
    """Return the seconds of `passes` over the rows, each a gradient of the model; at most those of NUTS.

    With effects of groups it returns those of NUTS.
    """
    trajectories = seconds_of_nuts(description)
    if isinstance(description.attempt(ModelOfGroups, _groups(description)), ModelOfGroups):
        return trajectories
    counted = compilation if description.request.counts_compilation else 0.0
    return min(counted + passes * GRADIENT * OPERATION * description.work.operations, trajectories)


def _groups(description: ModelDescription) -> Callable[[], ModelOfGroups]:
    """Return the function that reads the groups of a model; it raises if the user does not want them found."""

    @NO_TRACES
    def read() -> ModelOfGroups:
        request = description.request
        if not request.integrate:
            raise NotPossibleError(f"integrate={request.integrate!r}")
        looks_at_all = request.data is None and request.structure and request.row_dim is None
        if request.integrate is not True and not looks_at_all:
            raise NotPossibleError("data=, structure=False or row_dim= is given")
        if isinstance(description.given, SummedModel):
            raise NotPossibleError(
                f"{description.given.sentence}, and effects are not integrated out of rows with such a sum"
            )
        refuse_discrete(description)
        return ModelOfGroups(description)

    return read


def rows_of(description: ModelDescription) -> ModelOfPyMC:
    """Return a model read row by row.

    Raises
    ------
    IncompatibleError, InvalidInputError
        When it cannot be read row by row, or its rows are invalid.
    """
    request = description.request
    refuse_discrete(description)
    read = functools.partial(ModelOfPyMC, description, request.row_dim, scale_effects=request.scale_effects)
    rows = description.attempt(ModelOfPyMC, read)
    given = description.given
    if isinstance(rows, Reason) and isinstance(given, SummedModel) and isinstance(rows.error, IncompatibleError):
        # entries, each with its rows, count as rows
        sentence = f"from_pymc: with {given.sentence}, each entry is a row; then {rows.sentence}"
        raise IncompatibleError(sentence) from rows.error
    return description.require(ModelOfPyMC, read)


def refuse_discrete(description: ModelDescription) -> None:
    """Raise if discrete variables cannot be summed out."""
    summed_out = SUM_OUT.outcome(description)
    if isinstance(summed_out, Reason) and isinstance(summed_out.error, IncompatibleError):
        raise summed_out.error


def _of_given_rows(description: ModelDescription) -> PyMCTarget:
    """Return the target of the rows given in place of the model's."""
    request = description.request
    if isinstance(description.given, SummedModel):
        raise IncompatibleError(
            f"from_pymc: {description.given.sentence}, for the rows of the model only; with data= write a pm.Mixture "
            "in their place"
        )
    refuse_discrete(description)
    sources = with_sources(dict(request.data or {}))
    rows = {name: checked_array(array, name, keep_float32=True) for name, array in sources.items()}
    source = ModelOfPyMC(description, request.row_dim, scale_effects=False, data=rows)
    return PyMCTarget(source, given=sources)
