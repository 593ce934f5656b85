"""Find the effects of a PyMC model that can be integrated out, and make the target without them."""

from typing import Any

from pytensor import config

from approxmcmc.interop.groups.normal import NormalGroupsOfPyMC
from approxmcmc.interop.groups.quadrature import QuadratureGroupsOfPyMC
from approxmcmc.interop.groups.source import ModelOfGroups
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.groups.values import NotGroupsError
from approxmcmc.nuts.work import COMPILE, seconds_of_trajectory

# Reading a model makes thousands of variables; stack traces of their creation would take a third of a second.
NO_TRACES = config.change_flags(traceback__limit=0)
# Seconds in which quadrature is compiled for a new model: 11, 19 and 20 in three models of docs/street.md.
CODE, DRAWS = 12.0, 4 * (400 + 1000)
FEW_GROUPS, MANY_ROWS = 20, 100  # with fewer groups their effects stay parameters, and no quadrature is used


@NO_TRACES
def integrated(model: Any, *, always: bool = False, if_cheaper: bool = False) -> IntegratedOfPyMC:
    """Return a model as a target without the effects of its groups; `always`: even if that saves nothing.

    `if_cheaper`: not by quadrature if NUTS makes 4000 draws of the model in the time of its compilation.

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
            if not always and effects.n_groups < FEW_GROUPS and source.y.size > MANY_ROWS * effects.n_groups:
                raise NotGroupsError(
                    f"integrating out {effects.n_groups} groups of {source.y.size // effects.n_groups} rows would "
                    f"leave too few terms to sample (fewer than {FEW_GROUPS}); integrate=True integrates them out "
                    "anyway"
                )
            if if_cheaper and (seconds := COMPILE + DRAWS * seconds_of_trajectory(*source.written_work)) < CODE:
                raise NotGroupsError(
                    f"NUTS needs about {seconds:.0f} s, less than quadrature to compile ({CODE:g} s); give "
                    "from_pymc(model) to integrate them out"
                )
            return QuadratureGroupsOfPyMC(source, effects, source.law, always=always)
        except NotGroupsError as error:
            reasons.append(f"{effects.name}: {error}")
    raise NotGroupsError("; ".join(reasons))
