"""Find the variables of a PyMC model that are effects of independent groups, and the group of each row.

A candidate is a free normal variable with an entry, or a row of entries, for each group. No other free variable and no
potential may depend on it, and a row of data only on the entries of one group, see `labels`.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pymc.distributions.multivariate import MvNormalRV
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import NormalRV

from approxmcmc.contracts import WrittenWork
from approxmcmc.interop.attempts import NotPossibleError, Reason, attempt
from approxmcmc.interop.groups.labels import FREE, MIXED, join, labels_of
from approxmcmc.interop.law import law_name
from approxmcmc.interop.read import ReadModel
from approxmcmc.interop.rows import Rows
from approxmcmc.interop.values import ValuesOfGraph, shape_of
from approxmcmc.interop.variables import refuse_other_users, refuse_unsuitable

FEWEST_TO_NAME = 3  # groups whose effects are not normal, for a reason: two levels are a factor more often than groups


class GroupEffects(NamedTuple):
    """Variables whose entries are effects of the same groups, and the axis of each variable that counts the groups.

    `rows` holds the label of the group of every row, `FREE` for a row without one.
    """

    axes: Mapping[Any, int]
    n_groups: int
    rows: np.ndarray

    @property
    def name(self) -> str:
        """Names of the variables, for messages."""
        return " and ".join(variable.name for variable in self.axes)


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
        self.rows = Rows(model)
        self.observed = self.rows.stacked(self.faults)
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


def candidates(
    model: Any, values: ValuesOfGraph, parameters: Sequence[Any], shape: tuple[int, ...], faults: list[str]
) -> tuple[list[GroupEffects], list[str]]:
    """Return the sets of effects that can be integrated out, largest first, and why other variables cannot.

    `parameters` are the graphs of the observed variable's parameters, and `shape` is its shape. Each of several crossed
    factors is a separate set: if it is integrated out, the other factors stay parameters. Faults are added to `faults`.
    """
    sets: dict[bytes, GroupEffects] = {}
    reasons = []
    for variable in model.free_RVs:
        effects = attempt(functools.partial(_effects, model, values, parameters, shape, variable), faults)
        if isinstance(effects, Reason):
            reasons.append(f"{variable.name}: {effects.sentence}")
        elif effects is not None:
            same_groups = effects.rows.tobytes() + bytes([effects.n_groups % 256])
            before = sets.get(same_groups)
            sets[same_groups] = effects if before is None else before._replace(axes={**before.axes, **effects.axes})
    sizes = {key: sum(np.prod(shape_of(model, v)) for v in effects.axes) for key, effects in sets.items()}
    return [sets[key] for key in sorted(sets, key=lambda key: -sizes[key])], reasons


def _effects(
    model: Any, values: ValuesOfGraph, parameters: Sequence[Any], observed: tuple[int, ...], variable: Any
) -> GroupEffects | None:
    node = variable.owner
    shape = shape_of(model, variable)
    if node is None or not shape or variable not in values.of or not set(ancestors(parameters)) & {variable}:
        return None
    is_vector = isinstance(node.op, MvNormalRV)
    is_normal = is_vector or isinstance(node.op, NormalRV)
    if is_normal:
        _refuse_prior(model, variable, shape)
    opaque: set[str] = set()
    axes = [0] if is_vector or len(shape) == 1 else list(range(len(shape)))
    for axis in sorted(axes, key=lambda axis: -shape[axis]):
        if shape[axis] < 2:
            continue
        labels = np.indices(shape)[axis]
        below = labels_of(values, {variable: labels}, opaque)
        rows = np.full(observed, FREE)
        for one in parameters:
            if one in below:
                rows = join(rows, np.broadcast_to(below[one], observed))
        row_labels = rows.ravel()
        if (row_labels == MIXED).any():
            continue
        if (row_labels == FREE).all():
            return None
        if not is_normal and np.unique(row_labels[row_labels != FREE]).size < FEWEST_TO_NAME:
            return None
        if not is_normal:
            raise NotPossibleError(f"its distribution is {law_name(variable)}, but its entries must be normal")
        return GroupEffects({variable: axis}, shape[axis], row_labels)
    if not is_normal:  # a covariance, or coefficients of all rows
        return None
    if opaque:
        raise NotPossibleError(
            f"rows depend on it through {', '.join(sorted(opaque))}, and a row may then depend on several of its "
            "entries"
        )
    raise NotPossibleError("a row depends on several of its entries, which are not independent given the rows")


def _refuse_prior(model: Any, variable: Any, shape: tuple[int, ...]) -> None:
    """Raise unless the entries of a normal variable are independent, or its rows if they are vectors."""
    if isinstance(variable.owner.op, MvNormalRV) and len(shape) != 2:
        raise NotPossibleError("it is one multivariate normal vector, whose entries are not independent")
    if model.rvs_to_transforms[variable] is not None:
        transform = type(model.rvs_to_transforms[variable]).__name__
        raise NotPossibleError(f"it has the transform {transform}, so its entries are not independent normal numbers")
    refuse_other_users(model, variable)
