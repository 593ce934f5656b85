"""The deterministics of a PyMC model, computed from draws of its free variables by one vectorised function.

`pm.compute_deterministics` calls a compiled function once for each draw; here a block of draws is one call.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.contracts import ReturnedVariables
from approxmcmc.errors import InvalidInputError
from approxmcmc.interop.attempts import NotPossibleError, fault_of, is_own
from approxmcmc.interop.densities import initial_point
from approxmcmc.interop.graphs import by_numpy, rebuild
from approxmcmc.interop.values import size
from approxmcmc.interop.variables import labels_of_model
from approxmcmc.interop.walk import PYTHON, in_python

AT_ONCE = 1 << 21  # numbers in the inputs and results of one call: 16 MB
# Without compilation a scalar operation that NumPy lacks takes a microsecond for each number. Compiling takes seconds.
WORTH_COMPILING = 10**6


class ReturnedByModel(ReturnedVariables):
    """The deterministics of `model`; those that read an array in `unknown`, with rows of the user, are not computed."""

    def __init__(self, model: Any, unknown: Collection[Any] = ()) -> None:
        self.model = model
        self._unknown = set(unknown)

    @property
    def names(self) -> Sequence[str]:
        """Names of the deterministics, in the model's order."""
        return [variable.name for variable in self.model.deterministics]

    @functools.cached_property
    def _graphs(self) -> Mapping[str, Any]:
        """The graphs of the deterministics, with data in the place of observed variables."""
        model = self.model
        replacements = {variable: variable for variable in model.free_RVs}
        replacements |= {variable: model.rvs_to_values[variable] for variable in model.observed_RVs}
        return dict(zip(self.names, rebuild(list(model.deterministics), replacements), strict=True))

    @property
    def free(self) -> Sequence[str]:
        """Names of the free variables of the model."""
        return [variable.name for variable in self.model.free_RVs]

    @functools.cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:  # type: ignore[override]  # a property, too
        """Shape of each deterministic: that of its type, or the shape at the model's initial point."""
        shapes = {name: graph.type.shape for name, graph in self._graphs.items()}
        unknown = [name for name, shape in shapes.items() if None in shape]
        if unknown:
            model = self.model
            point = initial_point(model)
            graphs = model.replace_rvs_by_values([self._graphs[name].shape for name in unknown])
            values = [model.rvs_to_values[variable] for variable in model.free_RVs]
            function = in_python(values, graphs)
            at_start = function(*(point[value.name] for value in values))
            shapes |= {name: tuple(shape) for name, shape in zip(unknown, at_start, strict=True)}
        return {name: tuple(map(int, shape)) for name, shape in shapes.items()}

    @property
    def why_not_computed(self) -> Mapping[str, str]:
        """Which deterministics read rows of the model that the user replaced by others."""
        reason = "it reads rows of the model, and data= gave others"
        return {name: reason for name, graph in self._graphs.items() if self._unknown & set(ancestors([graph]))}

    def choose(self, names: Sequence[str] | None) -> None:
        """Store only the deterministics `names`, whatever their size; None: all that fit.

        Raises
        ------
        InvalidInputError
            When a name is not that of a deterministic.
        """
        if isinstance(names, bool) or not (names is None or isinstance(names, Sequence)):
            raise InvalidInputError(f"from_pymc: deterministics needs a list of names, or None; found {names!r}")
        wanted = [names] if isinstance(names, str) else names
        if unknown := [name for name in wanted or () if name not in self.names]:
            raise InvalidInputError(
                f"from_pymc: deterministics needs names among {self.names}, or None for all; found {unknown}"
            )
        self.wanted = wanted

    def parents(self, name: str) -> Sequence[str]:
        """Return the names of the free variables on which a deterministic depends."""
        above = set(ancestors([self._graphs[name]], blockers=self.model.free_RVs))
        return [variable.name for variable in self.model.free_RVs if variable in above]

    def axes(self, name: str) -> Sequence[str]:
        """Return the dims of a variable; an axis without one is called ``{name}_dim_0`` and so on."""
        dims = self.model.named_vars_to_dims.get(name)
        ndim = self.model[name].ndim
        named = dims if dims is not None else (None,) * ndim
        return [f"{name}_dim_{axis}" if dim is None else str(dim) for axis, dim in enumerate(named)]

    @property
    def coords(self) -> Mapping[str, Sequence[Any]]:
        """The model's labels by axis."""
        return labels_of_model(self.model)[1]

    def advice(self, names: Sequence[str]) -> str:
        """Return the calls that compute the deterministics `names` from a trace, or store them in one."""
        listed = list(names)
        return (
            f"pm.compute_deterministics(trace.posterior, model=model, var_names={listed}) computes them, of fewer "
            f"draws if they are large; amc.from_pymc(model, deterministics={listed}) is a target that stores them"
        )

    def compute(self, draws: Mapping[str, np.ndarray], names: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Return the deterministics `names` at n draws of the free variables, block by block.

        If PyTensor cannot vectorise a graph, such as a loop, the draws are computed one by one.
        """
        graphs = [self._graphs[name] for name in names]
        needed = {parent for name in names for parent in self.parents(name)}
        inputs = [variable for variable in self.model.free_RVs if variable.name in needed]
        values = [np.asarray(draws[variable.name], dtype=variable.dtype) for variable in inputs]
        n_draws = len(next(iter(draws.values())))
        computed = {
            name: np.empty((n_draws, *self.shapes[name]), dtype=graph.dtype)
            for name, graph in zip(names, graphs, strict=True)
        }
        n_numbers = sum(size(self.shapes[name]) for name in names)
        try:
            function = _of_block(inputs, graphs, compiled=n_draws * n_numbers > WORTH_COMPILING)
            self._fill(computed, function, values, range(min(n_draws, 1)), 1)
        except Exception as error:  # PyTensor raises errors of many kinds at graphs that it cannot vectorise
            if is_own(error) and not isinstance(error, NotPossibleError):
                fault_of(error, "computing them at many draws at once failed", "deterministics are computed slowly")
            function = _one_by_one(inputs, graphs)
        n_inputs = sum(size(array.shape[1:]) for array in values)
        self._fill(computed, function, values, range(n_draws), max(1, AT_ONCE // max(1, n_numbers + n_inputs)))
        return computed

    def _fill(
        self, computed: Mapping[str, np.ndarray], function: Any, values: Sequence[np.ndarray], draws: range, step: int
    ) -> None:
        """Write the results of `function` at some draws to `found`, `step` draws at a time."""
        for lo in range(draws.start, draws.stop, step):
            block = slice(lo, min(lo + step, draws.stop))
            results = function(*(array[block] for array in values))
            for (name, whole), result in zip(computed.items(), results, strict=True):
                value = np.asarray(result)
                shape = self.shapes[name]
                # A deterministic of no free variable has no axis of draws.
                if value.shape not in (shape, whole[block].shape):
                    raise NotPossibleError(f"{name} has shape {shape} in a draw, and its block {value.shape}")
                whole[block] = value


def _of_block(inputs: Sequence[Any], graphs: Sequence[Any], *, compiled: bool) -> Callable[..., Sequence[Any]]:
    """Return the function of arrays of draws that returns arrays of draws of `graphs`."""
    many = [pt.tensor(dtype=variable.dtype, shape=(None, *variable.type.shape)) for variable in inputs]
    plain = [by_numpy(graph) for graph in graphs]
    batched = vectorize_graph(plain, dict(zip(inputs, many, strict=True))) if inputs else plain
    slow = any(isinstance(node.op, Elemwise) and node.op.nfunc_spec is None for node in toposort(batched))
    mode = None if slow and compiled else PYTHON
    function: Callable[..., Sequence[Any]] = pytensor.function(many, batched, mode=mode, on_unused_input="ignore")
    return function


def _one_by_one(inputs: Sequence[Any], graphs: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    """Return the same function as `_of_block`, which evaluates the graphs once for each draw."""
    single = {variable: variable.type() for variable in inputs}
    function = pytensor.function(list(single.values()), rebuild(list(graphs), single), on_unused_input="ignore")

    def of_block(*arrays: np.ndarray) -> Sequence[Any]:
        if not arrays:
            return list(function())
        each = [function(*(array[draw] for array in arrays)) for draw in range(len(arrays[0]))]
        return [np.stack([np.asarray(values[k]) for values in each]) for k in range(len(graphs))]

    return of_block
