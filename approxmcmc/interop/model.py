"""Read a PyMC model row by row: its rows, variables and prior; and the methods of all targets made from its rows."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.data import MinibatchOp
from pymc.model.transform.basic import remove_minibatched_nodes
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import Variables, WrittenWork, content_hash
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.densities import initial_point, log_densities
from approxmcmc.interop.graphs import by_numpy, frozen, over_flat
from approxmcmc.interop.hierarchies import Effects, group_effects
from approxmcmc.interop.read import ReadModel, work_as_written
from approxmcmc.interop.returned import ReturnedByModel
from approxmcmc.interop.rows import Rows
from approxmcmc.interop.summed.draws import SummedOut
from approxmcmc.interop.summed.model import SummedModel
from approxmcmc.interop.variables import ModelVariables, describe_variables, flat, multiplier, refuse_unsuitable
from approxmcmc.interop.walk import in_python, leaves


class ModelOfPyMC(ReadModel):
    """A PyMC model that was read: rows of its observed variables, the flat symbolic theta, and the starting point.

    `row_dim` names the axis that counts rows, `data` has rows in place of those of the model, by name (see `Rows`), and
    with `scale_effects` samplers may move scaled group effects (see `hierarchies`).

    Raises
    ------
    IncompatibleError
        When `model` is not a ``pm.Model``, or its likelihood is visibly not a sum over rows.
    """

    def __init__(
        self,
        model: Any,
        row_dim: str | None,
        *,
        scale_effects: bool = True,
        data: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        super().__init__(model)
        model = self.given
        refuse_unsuitable(model)
        if _has_minibatches(model):  # only then, because the copy has its variables in another order
            model = remove_minibatched_nodes(model)
        self.model = model
        self.start = initial_point(model)
        self.values = [model.rvs_to_values[variable] for variable in model.free_RVs]
        self.theta = pt.vector("theta", shape=(sum(np.size(self.start[v.name]) for v in self.values),))
        self.rows = Rows(model, row_dim, data)
        self.rows.n_obs  # noqa: B018  # raises if the rows are no terms
        self.shared  # noqa: B018  # hashes of the data that were read
        self.hash  # noqa: B018  # of the model as it was read, whatever its data become
        self.effects = group_effects(model, self.rows.n_rows, self._score) if scale_effects else []
        scaled = [(effect.effect, effect.scale) for effect in self.effects if effect.scale is not None]
        self.scales = {model.rvs_to_values[v]: model.replace_rvs_by_values([scale])[0] for v, scale in scaled}
        self._multiply = multiplier(self.theta, self.values, self.start, self.scales)

    def over_flat(self, graphs: Sequence[Any]) -> list[Any]:
        """Rebuild graphs of the value variables as graphs of the flat vector that samplers move."""
        return over_flat(graphs, self.theta, self.values, self.start, self.scales)

    def _score(self) -> Any:
        """Return a function, the gradient of the log-likelihood of all rows in the model's own coordinates."""
        [full] = over_flat([self.rows.all_terms().sum()], self.theta, self.values, self.start)
        return in_python([self.theta], pt.grad(full, self.theta))

    @functools.cached_property
    def terms_by_pymc(self) -> Any:
        """The function of theta that returns the terms of all of the model's rows by PyMC's own density, (n_rows,)."""
        [terms] = self.over_flat([self.rows.all_terms(simplified=True)])
        return in_python([self.theta], by_numpy(terms))

    def describe(self) -> ModelVariables:
        """Return the variables that theta holds, as the trace stores them."""
        users_model = self.model.given if isinstance(self.model, SummedModel) else self.model
        return describe_variables(self.model, self.theta, self.start, [], self.scales, users_model)

    def log_priors(self) -> list[Any]:
        """Return the log densities of free variables and potentials as graphs of the value variables.

        Raises
        ------
        IncompatibleError
            When a potential reads the data.
        """
        model = self.model
        terms = log_densities(model, model.free_RVs)
        for potential in model.potentials:
            if self.rows.are_read_by(potential):
                raise IncompatibleError(
                    f"from_pymc: the potential {potential.name!r} depends on the data, and it is unknown which part "
                    "of it belongs to which row; write it as a likelihood (pm.CustomDist), or keep it to parameters"
                )
            terms += model.replace_rvs_by_values([potential])
        terms += [-np.size(self.start[value.name]) * pt.log(pt.abs(scale)) for value, scale in self.scales.items()]
        return frozen(terms)

    def initial_point(self) -> np.ndarray:
        """Return the model's initial point, unconstrained; shape (dim,)."""
        return self._multiply(flat(self.start, self.values))

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, under the variables' names; with given rows, these."""
        return self._given(observed=True) if self.rows.is_given else super().observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The model's data containers without the observed ones; given rows replace the model's."""
        if not self.rows.is_given:
            return super().constant_data
        observed = self._given(observed=True)
        held = {**super().constant_data, **self._given(observed=False)}
        return {name: rows for name, rows in held.items() if name not in observed}

    def _given(self, *, observed: bool) -> Mapping[str, np.ndarray]:
        """Return the rows given in place of the model's, either the observed ones or the others."""
        below = set(leaves(self.rows.values))
        return {array.name: array.data for array in self.rows.arrays if (array.leaf in below) == observed}

    @property
    def names(self) -> str:
        """The names of the free variables, for messages."""
        return ", ".join(variable.name for variable in self.model.free_RVs)


class TargetOfPyMC:
    """A mixin for targets made from a PyMC model, which set `source`."""

    source: ModelOfPyMC
    n_obs: int

    variables: Variables

    @functools.cached_property
    def summed(self) -> SummedOut | None:
        """What draws the indicators that were summed out of the model, if there are any."""
        model = self.source.given
        return SummedOut(model, self.variables) if isinstance(model, SummedModel) else None

    @functools.cached_property
    def returned(self) -> ReturnedByModel:
        """What computes the model's deterministics from draws."""
        rows = self.source.rows
        given = self.source.given
        model = self.source.model
        whole = given.given if isinstance(given, SummedModel) else model
        return ReturnedByModel(whole, rows.leaves if rows.is_given else ())

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, under the variables' names."""
        return self.source.observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The model's data containers without the observed ones, as in `pm.sample`."""
        return self.source.constant_data

    @property
    def written_work(self) -> WrittenWork:
        """The work of NUTS on the graph of the model."""
        source = self.source
        n_rows = self.source.rows.n_rows
        sizes = [n_rows] * len(source.model.observed_RVs)
        work = work_as_written(source.model, sizes, int(source.theta.type.shape[0]))
        longer = max((effect.ratio for effect in self.effects), default=1.0) ** 0.5
        return work._replace(operations=self.n_obs / n_rows * work.operations, longer=longer)

    def initial_point(self) -> np.ndarray:
        """Return the model's initial point, unconstrained; shape (dim,)."""
        return self.source.initial_point()

    def content_hash(self) -> str:
        """Return a hash of model and data; unique if the model has operations that cannot be read."""
        self.source.refuse_changed_data()
        rows = [*self.source.rows.names, *self.source.rows.data] if self.source.rows.is_given else []
        return content_hash("PyMCTarget", self.source.hash, *(value.name for value in self.source.scales), *rows)

    @property
    def effects(self) -> list[Effects]:
        """The group effects of the model, the coordinates in which they are sampled, and the reasons."""
        return self.source.effects

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Attributes for the trace: coordinates of group effects, what was summed out, and faults (see `attempts`)."""
        attrs = {"group_effects": "; ".join(effect.reason for effect in self.effects)} if self.effects else {}
        if self.summed is not None:
            attrs["integrated"] = self.summed.sentence
        return {**attrs, **self.source.fault_attrs}

    def to_pymc(self) -> Any:
        """Return the model itself.

        Raises
        ------
        IncompatibleError
            When the target's rows differ from the model's.
        """
        if self.source.rows.is_given:
            raise IncompatibleError(
                f"{self!r}: the model holds {self.source.rows.n_rows} rows instead of the {self.n_obs} given by "
                "data=, so it has another posterior; make gold standards by exact_chain_reference, which needs no model"
            )
        return self.source.given

    def __repr__(self) -> str:
        """Return the observed variable, its number of rows, and the free variables as text."""
        return f"{type(self).__name__}({self.source.rows.name}: {self.n_obs} rows; {self.source.names})"


def _has_minibatches(model: Any) -> bool:
    graphs = [*model.observed_RVs, *(model.rvs_to_values[variable] for variable in model.observed_RVs)]
    return any(v.owner is not None and isinstance(v.owner.op, MinibatchOp) for v in ancestors(graphs))
