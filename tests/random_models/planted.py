"""Bugs planted into the library or into a trace, each of which a check must reject."""

from typing import Any

import numpy as np
from pymc.logprob.transforms import LogTransform

from approxmcmc.interop.groups import target as groups_target
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.summed import model as summed_model
from approxmcmc.interop.summed.model import SummedModel


def effects_in_another_order(patch: Any) -> None:
    """Give each group the effects of the group at the other end."""
    draw = IntegratedOfPyMC.draw_latents
    patch.setattr(IntegratedOfPyMC, "draw_latents", lambda self, *given: draw(self, *given)[:, ::-1])


def prior_without_jacobian(patch: Any) -> None:
    """Leave the Jacobian of the logarithm out of the prior of positive parameters."""
    patch.setattr(LogTransform, "log_jac_det", lambda self, value, *inputs: 0.0 * value)


def rows_in_each_others_group(patch: Any) -> None:
    """Exchange the groups of two rows, and skip the comparison that the library makes itself."""
    labels = groups_target.labels_of_rows

    def exchanged(effects: Any) -> np.ndarray:
        found = np.array(labels(effects))
        other = np.flatnonzero(found != found[0])
        if len(other):
            found[[0, other[0]]] = found[[other[0], 0]]
        return found

    patch.setattr(groups_target, "labels_of_rows", exchanged)
    patch.setattr(groups_target, "compare_with_model", lambda target: None)


def weight_of_a_state(patch: Any) -> None:
    """Double the weight of the first state, and skip the comparison that the library makes itself."""
    weight = summed_model._log_weight
    patch.setattr(
        summed_model, "_log_weight", lambda variable, k: weight(variable, k) + (np.log(2.0) if k == 0 else 0.0)
    )
    patch.setattr(SummedModel, "_compare", lambda self: None)


def dropped_deterministic(trace: Any, name: str) -> Any:
    """Return a trace without a deterministic."""
    found = trace.copy()
    found["posterior"] = trace["posterior"].to_dataset().drop_vars(name)
    return found


def swapped_coord(trace: Any, dim: str) -> Any:
    """Return a trace in which the labels of a dim are in the other order."""
    found = trace.copy()
    posterior = trace["posterior"].to_dataset()
    found["posterior"] = posterior.assign_coords({dim: posterior[dim].values[::-1]})
    return found
