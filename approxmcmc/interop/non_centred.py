r"""Sample effects of a PyMC model in their non-centred form.

An effect with a scale that is itself unknown, :math:`x \sim f((x - \mu) / \sigma) / \sigma`, is sampled as
:math:`x = \mu + \sigma z` with :math:`z \sim f` (Papaspiliopoulos, Roberts and Skoeld 2007). The posterior is the same.
With little data the density of (x, sigma) is a funnel, with a neck that trajectories of one step size do not enter,
while z and sigma are nearly independent. With much data the reverse holds.

For PyMC, z is the transformed value of x, as log sigma is that of sigma, so all variables keep their names.
"""

from typing import Any

from pymc.logprob.transforms import Transform
from pymc.model.transform.conditioning import change_value_transforms
from pytensor import tensor as pt
from pytensor.graph.traversal import ancestors

from approxmcmc.errors import IncompatibleError

# Operations of PyTensor and PyMC that draw from a location-scale family; their last two inputs are location and scale.
FAMILIES = ("NormalRV", "StudentTRV", "CauchyRV", "LaplaceRV", "LogisticRV")


class Standardized(Transform):
    """The transform x -> (x - location) / scale of a variable of a location-scale family."""

    name = "standardized"

    def forward(self, value: Any, *inputs: Any) -> Any:
        """Return z at a value of x; `inputs` are those of the variable."""
        location, scale = inputs[-2:]
        return (value - location) / scale

    def backward(self, value: Any, *inputs: Any) -> Any:
        """Return x at a value of z."""
        location, scale = inputs[-2:]
        return location + scale * value

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        """Return log(dx / dz) for each entry."""
        return pt.zeros_like(value) + pt.log(inputs[-1])


def centred_effects(model: Any) -> list[Any]:
    """Return the free variables of a model with an unbounded location-scale family and a scale that is not constant."""
    free = set(model.free_RVs)
    return [
        variable
        for variable in model.free_RVs
        if type(variable.owner.op).__name__ in FAMILIES
        and model.rvs_to_transforms.get(variable) is None
        and not free.isdisjoint(ancestors([variable.owner.inputs[-1]]))
    ]


def non_centred(model: Any) -> Any:
    """Return a copy of a PyMC model in which each of `centred_effects` is sampled as location + scale z.

    Raises
    ------
    IncompatibleError
        When the model has no such effect.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     sigma = pm.HalfNormal("sigma")
    ...     x = pm.Normal("x", 0.0, sigma, shape=8)
    >>> list(non_centred(model).initial_point())
    ['sigma_log__', 'x_standardized__']
    """
    effects = centred_effects(model)
    if not effects:
        raise IncompatibleError(
            "non_centred: the model has no effect of a location-scale family (normal, Student-t, Cauchy, Laplace, "
            f"logistic) with an unknown scale; its variables are {[variable.name for variable in model.free_RVs]}"
        )
    return change_value_transforms(model, {variable: Standardized() for variable in effects})
