"""PyMC models with a likelihood that cannot be read row by row: targets only for samplers of whole models."""

import functools
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from approxmcmc.contracts import Target, TwinnedTarget, Variables, content_hash
from approxmcmc.engine.messages import first_clause
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.model_hash import model_hash
from approxmcmc.interop.read import ReadModel
from approxmcmc.interop.returned import ReturnedByModel
from approxmcmc.interop.summed.draws import SummedOut
from approxmcmc.interop.summed.model import SummedModel
from approxmcmc.interop.variables import labels_of_model


class WholeModel(TwinnedTarget, Target):
    """A PyMC model with a log density that is one function, not a sum over rows that can be read separately.

    NUTS samples it. Code that needs single terms raises, with the reason.

    Parameters
    ----------
    model
        A ``pm.Model``, or the `ReadModel` of one, which may have faults (see `attempts`) for the trace's attributes.
    reason
        Why there are no terms.

    Raises
    ------
    IncompatibleError
        When the model has no free variable.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     _ = pm.Normal("x")
    >>> WholeModel(model, "the model has no observed variable")
    WholeModel(x; the model has no observed variable)
    """

    def __init__(self, model: Any, reason: str) -> None:
        self.source = ReadModel(model)
        model = self.source.model
        if not model.free_RVs:
            raise IncompatibleError(f"sample: {reason}")
        self.model = model
        self.why_no_terms = reason
        shapes = model.eval_rv_shapes()
        names = [variable.name for variable in model.free_RVs]
        self.variables = Variables({name: tuple(map(int, shapes[name])) for name in names}, *labels_of_model(model))
        self.n_obs = max([1, *(len(np.atleast_1d(values)) for values in self.observed_data.values())])

    @functools.cached_property
    def summed(self) -> SummedOut | None:  # type: ignore[override]  # a property, too
        """What draws the indicators that were summed out of the model, if there are any."""
        return SummedOut(self.model, self.variables) if isinstance(self.model, SummedModel) else None

    @functools.cached_property
    def returned(self) -> ReturnedByModel:  # type: ignore[override]  # a property, too
        """What computes the model's deterministics from draws."""
        return ReturnedByModel(self.model if self.summed is None else self.model.given)

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """What was summed out, and the faults that stopped the reading of the model, for the trace's attributes."""
        summed = {} if self.summed is None else {"integrated": self.summed.sentence}
        return {**self.source.fault_attrs, **summed}

    @functools.cached_property
    def observed_data(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]  # a property, too
        """The observed data, under the variables' names, as `pm.sample` stores them."""
        return self.source.observed_data

    @functools.cached_property
    def constant_data(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]  # a property, too
        """The model's data containers, as `pm.sample` stores them."""
        return self.source.constant_data

    def to_pymc(self) -> Any:
        """Return the model itself."""
        return self.model

    def content_hash(self) -> str:
        """Return a hash of model and data; unique if the model has operations that cannot be read."""
        return content_hash("WholeModel", model_hash(self.model) or self.source.hash)

    def initial_point(self) -> NoReturn:
        """Raise: only samplers that read terms need a flat theta."""
        self.compile()

    def compile(self) -> NoReturn:
        """Raise, with the reason why there are no terms."""
        raise IncompatibleError(
            f"{type(self).__name__}({', '.join(self.variables.shapes)}) can only be sampled by NUTS, "
            f"amc.sample(model); all else needs a likelihood that is a sum over rows: {self.why_no_terms}"
        )

    def __repr__(self) -> str:
        """Show the free variables, and why there are no terms."""
        return f"{type(self).__name__}({', '.join(self.variables.shapes)}; {first_clause(self.why_no_terms)})"
