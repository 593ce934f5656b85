"""The PyMC model without its indicators: one observed variable has the summed log density of all rows they reach."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.abstract import MeasurableOp, _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors

from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.attempts import Reason, attempt
from approxmcmc.interop.comparison import compare
from approxmcmc.interop.densities import initial_point, simplified_densities
from approxmcmc.interop.graphs import by_numpy, simplify
from approxmcmc.interop.summed.find import Indicators, indicators
from approxmcmc.interop.summed.terms import log_sum_exp, terms_of_states
from approxmcmc.interop.values import NO_TRACES
from approxmcmc.interop.walk import in_python

SPREAD = 0.3  # standard deviation of the random point around the initial point


class SummedRows(MeasurableOp, Op):
    """Rows whose log density is the logarithm of the sum of the exponentials of its inputs, one input for each state.

    The inputs contain the data, so it makes no random draws: the user's model does.
    """

    __props__ = ("dtype", "ndim")
    ndim_supp = 0

    def __init__(self, dtype: str, ndim: int) -> None:
        self.dtype = dtype
        self.ndim = ndim

    def make_node(self, *terms: Any) -> Any:
        """Return the node that stands for the rows with these terms."""
        rows = pt.tensor(dtype=self.dtype, shape=(None,) * self.ndim)
        return Apply(self, [pt.as_tensor_variable(term) for term in terms], [rows])

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        """Raise: the inputs are log densities."""
        raise IncompatibleError(
            "rows with indicators summed out cannot be drawn; draw them from your own model, which has the indicators"
        )


@_logprob.register(SummedRows)
def _log_density(op: Any, values: Any, *terms: Any, **kwargs: Any) -> Any:
    return log_sum_exp(terms)


class SummedModel(pm.Model):
    """A model without its indicators, which are `found`, and `given`, the user's model with them.

    Free variables, potentials, data and the deterministics that do not depend on indicators are those of `given`.
    `latents_wanted` says which indicators `sample` draws.
    """

    latents_wanted: Any = "auto"

    def __init__(self, given: Any, found: Indicators) -> None:
        super().__init__(model=None)
        self.given = given
        self.found = found
        for name, labels in given.coords.items():
            self.add_coord(name, labels, length=given.dim_lengths[name])
        dims = given.named_vars_to_dims
        for variable in given.data_vars:
            self.data_vars.append(variable)
            self.add_named_variable(variable, dims.get(variable.name))
        for variable in given.free_RVs:
            if variable not in found.supports:
                transform = given.rvs_to_transforms[variable]
                initval = given.rvs_to_initial_values[variable]
                how = {"default_transform": None, "transform": transform, "initval": initval}
                self.register_rv(variable, variable.name, dims=dims.get(variable.name), **how)
        self.terms, rows = terms_of_states(given, found)
        kept = [variable for variable in given.observed_RVs if variable not in found.rows]
        name = " and ".join(variable.name for variable in found.rows)
        first = next(iter(found.rows))
        op = SummedRows(rows.dtype, rows.ndim)
        axes = dims.get(name) if found.rows[first] is None else self._axes_of_groups(name, rows.type.shape)
        self.register_rv(op(*self.terms), name, observed=rows, dims=axes)
        for variable in kept:
            self.register_rv(
                variable, variable.name, observed=given.rvs_to_values[variable], dims=dims.get(variable.name)
            )
        for variable in given.potentials:
            self.potentials.append(variable)
            self.add_named_variable(variable, dims.get(variable.name))
        for variable in given.deterministics:
            if not set(found.supports) & set(ancestors([variable])):
                self.deterministics.append(variable)
                self.add_named_variable(variable, dims.get(variable.name))
        self._compare()

    def _axes_of_groups(self, name: str, shape: Sequence[int]) -> Sequence[str] | None:
        """Return dims of rows by groups: those of the entries, and a new one for each other axis.

        None if the entries have no dims, because PyMC has no variables with dims for some axes only.
        """
        entries = self.given.named_vars_to_dims.get(next(iter(self.found.supports)).name)
        if entries is None:
            return None
        new = [f"{name}_dim_{axis}" for axis in range(1, len(shape))]
        for dim, length in zip(new, shape[1:], strict=True):
            self.add_coord(dim, length=length)
        return [*entries, *new]

    def _compare(self) -> None:
        """Compare the terms of each state with the model's own densities, all entries in that state, at a random point.

        Raises
        ------
        NotPossibleError
            When they differ, so the graph was misread.
        """
        rng = np.random.default_rng(0)
        found = self.found
        given = self.given
        point = {name: rng.normal(value, SPREAD) for name, value in initial_point(self).items()}
        own = in_python(
            [self.rvs_to_values[one] for one in self.free_RVs],
            [by_numpy(simplify(one)) for one in self.replace_rvs_by_values(self.terms)],
        )
        variables = [*found.supports, *found.rows]
        expected = in_python(
            [given.rvs_to_values[one] for one in given.free_RVs],
            [by_numpy(density) for density in simplified_densities(given, variables)],
        )
        mine = own(*(point[self.rvs_to_values[one].name] for one in self.free_RVs))
        states = itertools.product(*found.supports.values())
        for state, terms in zip(states, mine, strict=True):
            fixed = {
                given.rvs_to_values[one].name: np.full(found.shape, k, dtype=one.dtype)
                for one, k in zip(found.supports, state, strict=True)
            }
            parts = expected(*({**point, **fixed}[given.rvs_to_values[one].name] for one in given.free_RVs))
            total = np.zeros(found.shape)
            for one, part in zip(variables, parts, strict=True):
                rows = found.rows.get(one)
                if rows is None:
                    total += part.reshape((*found.shape, -1)).sum(axis=-1)
                else:
                    np.add.at(total, rows, part.reshape((len(rows), -1)).sum(axis=1))
            different = f"the terms of state {state} differ from those of the model"
            compare(np.broadcast_to(terms, found.shape), total, different, finite=False)

    @property
    def sentence(self) -> str:
        """A sentence: the indicators, and their number of values and of entries."""
        size = " by ".join(map(str, self.found.shape))
        values = ", ".join(
            f"{variable.name} ({len(support)} values)" for variable, support in self.found.supports.items()
        )
        return f"{values} of {size} entries summed out"


def summed(model: Any, faults: list[str] | None = None) -> Any:
    """Return a PyMC model with its discrete variables summed out; any other object is returned unchanged.

    The sentence on a fault (see `attempts`) is added to `faults`.

    Raises
    ------
    IncompatibleError
        When discrete variables cannot be summed out; the message gives the reason.
    """
    discrete = [variable for variable in getattr(model, "free_RVs", ()) if not str(variable.dtype).startswith("float")]
    if not discrete or not model.observed_RVs or any(variable.name.endswith("_unobserved") for variable in discrete):
        return model

    @NO_TRACES
    def without_discrete() -> SummedModel:
        return SummedModel(model, indicators(model, discrete))

    summed_model = attempt(without_discrete, [] if faults is None else faults)
    if isinstance(summed_model, Reason):
        names = [variable.name for variable in discrete]
        raise IncompatibleError(
            f"from_pymc: the free variables {names} are discrete, and proposals need continuous ones; they cannot be "
            f"summed out: {summed_model.sentence}. Sample the model by NUTS and PyMC's discrete steps, "
            "amc.sample(model)"
        )
    return summed_model
