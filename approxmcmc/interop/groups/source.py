"""Read a PyMC model, and find its rows and the group effects that can be integrated out."""

import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from approxmcmc.contracts import WrittenWork, as_labels, content_hash
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.densities import initial_point, log_density
from approxmcmc.interop.graphs import evaluate, is_shared, leaves, value_of
from approxmcmc.interop.groups.candidates import GroupEffects, candidates
from approxmcmc.interop.groups.observed import ObservedRows
from approxmcmc.interop.groups.values import NoEffectsError, NotGroupsError, ValuesOfGraph
from approxmcmc.interop.model_hash import UNREADABLE, model_hash
from approxmcmc.interop.variables import refuse_unsuitable
from approxmcmc.interop.written_work import work_as_written


class ModelOfGroups:
    """A model, its observed rows, and the sets of effects that can be integrated out.

    Raises
    ------
    NotGroupsError
        If no effects can be integrated out; the message says why.
    """

    def __init__(self, model: Any) -> None:
        if not isinstance(model, pm.Model):
            raise IncompatibleError(f"from_pymc needs a pm.Model, found {type(model).__name__}")
        refuse_unsuitable(model)
        self.model = model
        self.observed = ObservedRows(model)
        self.y = self.observed.y
        self.law = self.observed.law
        self.parameters = self.observed.parameters
        graphs = [] if self.law is None else self.law.graphs
        laws = [p for v in model.free_RVs if hasattr(v.owner.op, "dist_params") for p in v.owner.inputs]
        self.values = ValuesOfGraph(model, [*self.parameters, *graphs, *(p for p in laws if hasattr(p, "ndim"))])
        self.sets, self.reasons = candidates(model, self.values, self.parameters, self.y.shape)
        if not self.sets:
            none = "no variable has an effect for each of several groups"
            raise NotGroupsError("; ".join(self.reasons)) if self.reasons else NoEffectsError(none)
        if self.observed.refused:
            raise NotGroupsError(f"{' and '.join(one.name for one in self.sets)}: {self.observed.refused}")
        self.shared = [(leaf, content_hash(value_of(leaf))) for leaf in leaves([log_density(model)]) if is_shared(leaf)]

    @property
    def written_work(self) -> WrittenWork:
        """The work of NUTS on the graph of the model."""
        sizes = [values.size for values in self.observed.values.values()]
        return work_as_written(self.model, sizes, sum(map(np.size, initial_point(self.model).values())))

    @property
    def hash(self) -> str:
        """A hash of the model; unique if the model has operations that cannot be read."""
        return model_hash(self.model) or f"{UNREADABLE} {uuid.uuid4()}"

    def refuse_changed_data(self) -> None:
        """Raise if the model's data have changed since they were read."""
        changed = [leaf.name for leaf, known in self.shared if content_hash(value_of(leaf)) != known]
        if changed:
            raise InvalidInputError(
                f"from_pymc: the data {changed} were changed (pm.set_data) after the target was made from the model; "
                "call from_pymc(model) again"
            )

    def labels(self, effects: GroupEffects) -> np.ndarray:
        """Return the model's labels of the groups of `effects`; 0, 1, ... if the model has none."""
        for variable, axis in effects.axes.items():
            dims = self.model.named_vars_to_dims.get(variable.name)
            known = self.model.coords.get(dims[axis]) if dims else None
            if known is not None:
                return as_labels(known)
        return np.arange(effects.n_groups)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, under the names of their variables."""
        return self.observed.values

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The model's data containers without the observed ones."""
        observed = {self.model.rvs_to_values[one] for one in self.model.observed_RVs}
        return {one.name: np.asarray(evaluate(one)) for one in self.model.data_vars if one not in observed}
