"""The distribution of the rows of a group, whose effects are integrated out: one of the library's families."""

from typing import Any

from pymc.logprob.transforms import LogTransform

from approxmcmc.interop.groups.values import NotGroupsError
from approxmcmc.interop.law import NoFamilyError, distribution_of, law_of
from approxmcmc.interop.links import Graphs, LawOfRows

# Their log densities are not concave in a location, so the posterior of an effect may have several modes.
SEVERAL_MODES = "Beta", "Cauchy", "Mixture", "StudentT"


def law_of_rows(model: Any, observed: Any) -> LawOfRows:
    """Return the distribution of an observed variable of a model, or of one with its weights taken off.

    Raises
    ------
    NotGroupsError
        If this distribution or its link is not supported; the message says which.
    """
    operation = observed.owner.op
    name = distribution_of(operation)
    modes = f"{name} rows are not log-concave in the predictor, so the effects of a group may have several modes"
    positive = [one for one in model.free_RVs if isinstance(model.rvs_to_transforms[one], LogTransform)]
    graphs = Graphs(model.free_RVs, positive)
    try:
        law = law_of(operation, operation.dist_params(observed.owner), graphs)
    except NoFamilyError as error:
        raise NotGroupsError(f"the rows of {observed.name}: {modes if name in SEVERAL_MODES else error}") from error
    if law.family is None:
        raise NotGroupsError(
            f"the rows of {observed.name}: {name} rows have a linear predictor for each class, and effects are "
            "integrated out of rows with one"
        )
    if not law.family.is_concave:
        raise NotGroupsError(f"the rows of {observed.name}: {modes}")
    return law
