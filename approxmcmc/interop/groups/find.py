"""Find the effects of a PyMC model that can be integrated out, and make the target without them."""

from typing import Any

from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import WrittenWork
from approxmcmc.interop.groups.candidates import GroupEffects
from approxmcmc.interop.groups.forms import MOST_NUMBERS
from approxmcmc.interop.groups.normal import NormalGroupsOfPyMC
from approxmcmc.interop.groups.quadrature import QuadratureGroupsOfPyMC
from approxmcmc.interop.groups.source import ModelOfGroups
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.groups.values import NO_TRACES, NotGroupsError, shape_of, size
from approxmcmc.interop.nuts_seconds import seconds_of_trajectory, seconds_to_compile

# Seconds in which quadrature is compiled for a new model (11, 19 and 20 in three models of docs/street.md), and the
# steps of NUTS: 4 chains of 400 tuning steps and 1000 draws.
CODE = 12.0
DRAWS = 4 * (400 + 1000)
DETERMINED = 10  # rows of a group that determine its effect, so that NUTS moves it well though it is centred
# effects of fewer groups, with more rows each, stay parameters: no quadrature
FEW_GROUPS = 20
MANY_ROWS = 100


@NO_TRACES
def integrated(model: Any, *, always: bool = False, if_cheaper: bool = False) -> IntegratedOfPyMC:
    """Return a model as a target whose largest possible set of group effects is integrated out.

    `always`: also if that is expected to save nothing.

    `if_cheaper`: not by quadrature if NUTS makes 4000 draws of the model in the time that compiling the quadrature
    takes, and meets no funnel.

    Raises
    ------
    NotGroupsError
        When no effects can be integrated out; the message says why, variable by variable.
    """
    source = ModelOfGroups(model)
    reasons = list(source.reasons)
    for effects in source.sets:
        try:
            if set(source.model.free_RVs) <= set(effects.axes):
                raise NotGroupsError("no parameters would remain to sample")
            if source.law is None:
                return NormalGroupsOfPyMC(source, effects)
            if not always and effects.n_groups < FEW_GROUPS and source.y.size > MANY_ROWS * effects.n_groups:
                raise NotGroupsError(
                    f"integrating out {effects.n_groups} groups of {source.y.size // effects.n_groups} rows would "
                    f"leave too few terms to sample (fewer than {FEW_GROUPS}); integrate=True integrates them out "
                    "anyway"
                )
            if not always and _nuts_moves(source, effects):
                _refuse_if_many_effects_remain(source, effects)
                if if_cheaper:
                    _refuse_if_nuts_is_cheaper(source.written_work)
            return QuadratureGroupsOfPyMC(source, effects, source.law, always=always)
        except NotGroupsError as error:
            reasons.append(f"{effects.name}: {error}")
    raise NotGroupsError("; ".join(reasons))


def _refuse_if_many_effects_remain(source: ModelOfGroups, effects: GroupEffects) -> None:
    """Raise if L effects of crossed factors would remain, and L^2 is above the number of groups.

    The terms are then too few for a normal approximation at the mode (see `TargetProfile.why_no_mode`), so trajectories
    sample the model with or without the integrated effects, and a gradient of an integral evaluates each row at eight
    nodes or more. A Hessian of all parameters must not be too large.
    """
    sizes = {v: size(shape_of(source.model, v)) for v in source.model.free_RVs}
    remain = sum(sizes[v] for one in source.sets if one is not effects for v in one.axes)
    if remain**2 > effects.n_groups and sum(sizes.values()) ** 2 <= MOST_NUMBERS:
        raise NotGroupsError(
            f"{remain} effects of other factors would remain, too many for the terms of {effects.n_groups} groups (at "
            "most their square root), so trajectories with all effects cost less; integrate=True integrates them out "
            "anyway"
        )


def _refuse_if_nuts_is_cheaper(work: WrittenWork) -> None:
    """Raise if NUTS ends before quadrature is compiled."""
    seconds = seconds_to_compile(work) + DRAWS * seconds_of_trajectory(work)
    if seconds < CODE:
        raise NotGroupsError(
            f"NUTS needs about {seconds:.0f} s, less than the {CODE:g} s in which the code of quadrature is compiled; "
            "give from_pymc(model) to integrate the effects out"
        )


def _nuts_moves(source: ModelOfGroups, effects: GroupEffects) -> bool:
    """Return whether NUTS meets no funnel: effects are not centred, or rows determine them.

    Effects are centred if their location or scale has parameters (Betancourt and Girolami 2015). With twelve hospitals
    of one row each, centred, trajectories diverged in four of six runs. If each row has effects of several sets, such
    as subjects and items, rows determine only their sum: of 60 subjects and 40 items, centred, 4000 draws of NUTS were
    worth 50 independent ones.
    """
    above = set(ancestors([parent for variable in effects.axes for parent in variable.owner.inputs]))
    is_determined = len(source.sets) == 1 and source.y.size >= DETERMINED * effects.n_groups
    return is_determined or not above & set(source.model.free_RVs)
