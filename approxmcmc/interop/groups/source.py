"""Read a PyMC model, and find its rows and the group effects that can be integrated out."""

from typing import Any

import numpy as np

from approxmcmc.contracts import WrittenWork
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups.candidates import GroupEffects, candidates
from approxmcmc.interop.groups.observed import ObservedRows
from approxmcmc.interop.groups.values import ValuesOfGraph
from approxmcmc.interop.read import ReadModel
from approxmcmc.interop.variables import refuse_unsuitable


class ModelOfGroups(ReadModel):
    """A model, its observed rows, and the sets of effects that can be integrated out.

    Raises
    ------
    NotPossibleError
        If no effects can be integrated out; the message says why.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        model = self.model
        refuse_unsuitable(model)
        self.observed = ObservedRows(model, self.faults)
        self.y = self.observed.y
        self.law = self.observed.law
        self.parameters = self.observed.parameters
        graphs = [] if self.law is None else self.law.graphs
        priors = [p for v in model.free_RVs if hasattr(v.owner.op, "dist_params") for p in v.owner.inputs]
        self.values = ValuesOfGraph(model, [*self.parameters, *graphs, *(p for p in priors if hasattr(p, "ndim"))])
        self.sets, self.reasons = candidates(model, self.values, self.parameters, self.y.shape, self.faults)
        if not self.sets:
            raise NotPossibleError("; ".join(self.reasons) or "no variable has an effect for each of several groups")
        if self.observed.refused:
            raise NotPossibleError(f"{' and '.join(effects.name for effects in self.sets)}: {self.observed.refused}")
        self.shared  # noqa: B018  # hashes of the data that were read

    @property
    def written_work(self) -> WrittenWork:
        """The work of NUTS on the graph of the model."""
        return self.work

    def labels(self, effects: GroupEffects) -> np.ndarray:
        """Return the model's labels of the groups of `effects`; 0, 1, ... if the model has none."""
        named = (self.labels_of_axis(variable, axis) for variable, axis in effects.axes.items())
        return next((labels for labels in named if labels is not None), np.arange(effects.n_groups))
