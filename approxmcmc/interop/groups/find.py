"""Find the effects of a PyMC model that can be integrated out, and make the target without them."""

from typing import Any

from approxmcmc.interop.groups.normal import NormalGroupsOfPyMC
from approxmcmc.interop.groups.quadrature import QuadratureGroupsOfPyMC
from approxmcmc.interop.groups.source import ModelOfGroups
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.groups.values import NotGroupsError


def integrated(model: Any) -> IntegratedOfPyMC:
    """Return a model as a target without the effects of its groups.

    Raises
    ------
    NotGroupsError
        When no effects can be integrated out; the message says why, variable by variable.
    """
    source = ModelOfGroups(model)
    reasons = list(source.reasons)
    for effects in source.sets:
        try:
            if source.law is None:
                return NormalGroupsOfPyMC(source, effects)
            return QuadratureGroupsOfPyMC(source, effects, source.law)
        except NotGroupsError as error:
            reasons.append(f"{effects.name}: {error}")
    raise NotGroupsError("; ".join(reasons))
