"""Find the effects of a PyMC model that can be integrated out, and make the target without them."""

from typing import Any

from pytensor import config
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import WrittenWork
from approxmcmc.interop.groups.candidates import GroupEffects
from approxmcmc.interop.groups.normal import NormalGroupsOfPyMC
from approxmcmc.interop.groups.quadrature import QuadratureGroupsOfPyMC
from approxmcmc.interop.groups.source import ModelOfGroups
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.groups.values import NotGroupsError
from approxmcmc.interop.written_work import seconds_of_trajectory, seconds_to_compile

# Reading a model makes thousands of variables; stack traces of their creation would take a third of a second.
NO_TRACES = config.change_flags(traceback__limit=0)
# Seconds in which quadrature is compiled for a new model: 11, 19 and 20 in three models of docs/street.md. An integral
# in closed form is compiled once per machine, but trajectories in the 45 other parameters of pupils in classes took 10.
QUADRATURE, TRAJECTORIES, DRAWS = 12.0, 10.0, 4 * (400 + 1000)
DETERMINED = 10  # rows of a group that determine its effect, so that NUTS moves it well though it is centred
FEW_GROUPS, MANY_ROWS = 20, 100  # with fewer groups their effects stay parameters, and no quadrature is used


@NO_TRACES
def integrated(model: Any, *, always: bool = False, if_cheaper: bool = False) -> IntegratedOfPyMC:
    """Return a model as a target whose largest possible set of group effects is integrated out.

    `always`: also if that is expected to save nothing.

    `if_cheaper`: not if NUTS makes 4000 draws of the model in the time to compile the integral, without a funnel.

    Raises
    ------
    NotGroupsError
        When no effects can be integrated out; the message says why, variable by variable.
    """
    source = ModelOfGroups(model)
    reasons = list(source.reasons)
    for effects in source.sets:
        try:
            enough = always or effects.n_groups >= FEW_GROUPS or source.y.size <= MANY_ROWS * effects.n_groups
            if source.law is not None and not enough:
                raise NotGroupsError(
                    f"integrating out {effects.n_groups} groups of {source.y.size // effects.n_groups} rows would "
                    f"leave too few terms to sample (fewer than {FEW_GROUPS}); integrate=True integrates them out "
                    "anyway"
                )
            seconds, code = _seconds_of_nuts(source.written_work), _seconds_to_compile(source, effects)
            if if_cheaper and seconds < code and _nuts_moves(source, effects):
                raise NotGroupsError(
                    f"NUTS needs about {seconds:.0f} s, less than their integral to compile ({code:g} s); give "
                    "from_pymc(model) to integrate them out"
                )
            if source.law is None:
                return NormalGroupsOfPyMC(source, effects)
            return QuadratureGroupsOfPyMC(source, effects, source.law, always=always)
        except NotGroupsError as error:
            reasons.append(f"{effects.name}: {error}")
    raise NotGroupsError("; ".join(reasons))


def _seconds_of_nuts(work: WrittenWork) -> float:
    return seconds_to_compile(work) + DRAWS * seconds_of_trajectory(work)


def _seconds_to_compile(source: ModelOfGroups, effects: GroupEffects) -> float:
    """Return the seconds to compile quadrature, or the trajectories in parameters that are too many for a mode."""
    if source.law is not None:
        return QUADRATURE
    return TRAJECTORIES if effects.n_groups < source.dim(effects.axes) ** 2 else 0.0


def _nuts_moves(source: ModelOfGroups, effects: GroupEffects) -> bool:
    """Whether NUTS meets no funnel: effects are not centred, or rows determine them (Betancourt and Girolami 2015).

    With twelve hospitals of one row each, centred, trajectories diverged in four of six runs. Rows determine only the
    sum of several factors: of 60 subjects and 40 items, centred, NUTS made 50 effective draws in 4000.
    """
    above = set(ancestors([parent for variable in effects.axes for parent in variable.owner.inputs]))
    is_determined = len(source.sets) == 1 and source.y.size >= DETERMINED * effects.n_groups
    return is_determined or not above & set(source.model.free_RVs)
