"""The distribution of the rows of a group, whose effects are integrated out: one of the library's families."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graphs import evaluate
from approxmcmc.interop.groups.coordinates import has_fixed_parameters
from approxmcmc.interop.law import distribution_of, law_of
from approxmcmc.interop.links import Graphs, LawOfRows

# Their log densities are not concave in a location, so the posterior of an effect may have several modes.
SEVERAL_MODES = "Beta", "Cauchy", "Mixture", "StudentT"


def law_of_rows(model: Any, observed: Any) -> LawOfRows:
    """Return the distribution of an observed variable of a model, or of one with its weights taken off.

    Raises
    ------
    NotPossibleError
        If this distribution or its link is not supported; the message says which.
    """
    operation = observed.owner.op
    name = distribution_of(operation)
    modes = f"{name} rows are not log-concave in the predictor, so the effects of a group may have several modes"
    graphs = Graphs(model.free_RVs, [one for one in model.free_RVs if is_positive(model, one)])
    law = law_of(operation, operation.dist_params(observed.owner), graphs)
    if isinstance(law, str):
        raise NotPossibleError(f"the rows of {observed.name}: {modes if name in SEVERAL_MODES else law}")
    if law.family is None:
        raise NotPossibleError(
            f"the rows of {observed.name}: {name} rows have several predictors, and effects are integrated out "
            "of rows with one"
        )
    if not law.family.is_concave:
        raise NotPossibleError(f"the rows of {observed.name}: {modes}")
    return law


def is_positive(model: Any, variable: Any) -> bool:
    """Return whether a free variable is positive, by the transform with which PyMC samples it."""
    transform = model.rvs_to_transforms[variable]
    if isinstance(transform, LogTransform | LogOddsTransform):
        return True
    if not isinstance(transform, IntervalTransform) or not has_fixed_parameters(model, variable):
        return False
    lower, _ = transform.args_fn(*variable.owner.inputs)
    return lower is not None and bool(np.all(evaluate(pt.as_tensor(lower)) >= 0.0))
