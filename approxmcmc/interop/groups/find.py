"""Find the effects of a PyMC model that can be integrated out, and make the target without them."""

import functools
from typing import Any

from pytensor.graph.traversal import ancestors

from approxmcmc.interop.attempts import NotPossibleError, Reason, attempt
from approxmcmc.interop.groups.candidates import GroupEffects, ModelOfGroups
from approxmcmc.interop.groups.forms import MOST_NUMBERS
from approxmcmc.interop.groups.normal import NormalGroupsOfPyMC
from approxmcmc.interop.groups.quadrature import QuadratureGroupsOfPyMC
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.values import NO_TRACES, shape_of, size

DETERMINED = 10  # rows of a group that determine its effect, so that NUTS moves it well though it is centred
# effects of fewer groups, with more rows each, stay parameters: no quadrature
FEW_GROUPS = 20
MANY_ROWS = 100


@NO_TRACES
def integrated(model: Any, *, always: bool = False) -> IntegratedOfPyMC:
    """Return a model as a target whose largest possible set of group effects is integrated out.

    `model` is a ``pm.Model``, or a `ModelOfGroups`. `always`: also if that is expected to save nothing.

    Raises
    ------
    NotPossibleError
        When no effects can be integrated out; the message says why, variable by variable.
    """
    source = model if isinstance(model, ModelOfGroups) else ModelOfGroups(model)
    reasons = list(source.reasons)
    for effects in source.sets:
        target = attempt(functools.partial(_without, source, effects, always=always), source.faults)
        if not isinstance(target, Reason):
            return target
        reasons.append(f"{effects.name}: {target.sentence}")
    raise NotPossibleError("; ".join(reasons))


def _without(source: ModelOfGroups, effects: GroupEffects, *, always: bool) -> IntegratedOfPyMC:
    """Return the model without one set of effects."""
    if set(source.model.free_RVs) <= set(effects.axes):
        raise NotPossibleError("no parameters would remain to sample")
    if source.law is None:
        return NormalGroupsOfPyMC(source, effects)
    if not always and effects.n_groups < FEW_GROUPS and source.y.size > MANY_ROWS * effects.n_groups:
        raise NotPossibleError(
            f"integrating out {effects.n_groups} groups of {source.y.size // effects.n_groups} rows would "
            f"leave too few terms to sample (fewer than {FEW_GROUPS}); integrate=True integrates them out "
            "anyway"
        )
    if not always and nuts_moves(source, effects):
        _refuse_if_many_effects_remain(source, effects)
    return QuadratureGroupsOfPyMC(source, effects, source.law, always=always)


def _refuse_if_many_effects_remain(source: ModelOfGroups, effects: GroupEffects) -> None:
    """Raise if L effects of crossed factors would remain, and L^2 is above the number of groups.

    The terms are then too few for a normal approximation at the mode (see `TargetProfile.why_no_mode`), so trajectories
    sample the model with or without the integrated effects, and a gradient of an integral evaluates each row at eight
    nodes or more. A Hessian of all parameters must not be too large.
    """
    sizes = {v: size(shape_of(source.model, v)) for v in source.model.free_RVs}
    remain = sum(sizes[v] for one in source.sets if one is not effects for v in one.axes)
    if remain**2 > effects.n_groups and sum(sizes.values()) ** 2 <= MOST_NUMBERS:
        raise NotPossibleError(
            f"{remain} effects of other factors would remain, too many for the terms of {effects.n_groups} groups (at "
            "most their square root), so trajectories with all effects cost less; integrate=True integrates them out "
            "anyway"
        )


def nuts_moves(source: ModelOfGroups, effects: GroupEffects) -> bool:
    """Return whether NUTS meets no funnel: effects are not centred, or rows determine them.

    Effects are centred if their location or scale has parameters (Betancourt and Girolami 2015). With twelve hospitals
    of one row each, centred, trajectories diverged in four of six runs. If each row has effects of several sets, such
    as subjects and items, rows determine only their sum: of 60 subjects and 40 items, centred, 4000 draws of NUTS were
    worth 50 independent ones.
    """
    above = set(ancestors([parent for variable in effects.axes for parent in variable.owner.inputs]))
    is_determined = len(source.sets) == 1 and source.y.size >= DETERMINED * effects.n_groups
    return is_determined or not above & set(source.model.free_RVs)
