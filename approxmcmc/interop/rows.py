"""Read the rows of a PyMC model's observed variables: as terms over chosen rows, or as one stack with one law.

Either reading says why it is impossible. In a stack a group may have rows of several distributions: a code of each row
says which of two families it follows, see `families.stack`.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.logprob.abstract import _logprob
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.random.basic import NormalRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape

from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.families import BINOMIAL, LOGIT, Family
from approxmcmc.interop.attempts import NotPossibleError, Reason, attempt, first_line, refusals
from approxmcmc.interop.densities import initial_point, log_densities, simplified_densities
from approxmcmc.interop.graphs import apply_node, is_signed, rebuild, sum_trailing
from approxmcmc.interop.law import LawOfRows, Product, Weighted, law_name, law_of_rows, without_weights
from approxmcmc.interop.walk import evaluate, is_shared, leaves, value_of

Shapes = Sequence[tuple[int, ...]]
USER_LAWS = CustomDistRV, CustomSymbolicDistRV  # of pm.CustomDist
CHECKED_ROWS = 64  # rows of a group that is evaluated separately
# What PyTensor raises at a graph of a fixed number of rows if it is evaluated on some of them.
ON_SOME_ROWS = AssertionError, IndexError, TypeError, ValueError


def refuse_row_latents(model: Any, n_rows: int, row_dim: str | None) -> None:
    """Raise if free variables have one entry for each of `n_rows` rows.

    An axis counts rows if it has the dim of the rows, `row_dim` or else the first dim of the observed variables, or the
    length `n_rows` and no dim of its own that differs from that of the rows.

    Raises
    ------
    IncompatibleError
        If there are any; the message names the variables.
    """
    dims = model.named_vars_to_dims
    start = initial_point(model)
    of_rows = {row_dim} if row_dim is not None else {(dims.get(one.name) or (None,))[0] for one in model.observed_RVs}

    def counts_rows(name: str | None, length: int) -> bool:
        if name is None or None in of_rows:
            return length == n_rows
        return name in of_rows

    found = []
    for variable in model.free_RVs:
        shape = np.shape(start[model.rvs_to_values[variable].name])
        names = dims.get(variable.name) or (None,) * len(shape)
        if any(counts_rows(name, length) for name, length in zip(names, shape, strict=False)):  # unlike when packed
            found.append(variable.name)
    if found:
        raise IncompatibleError(
            f"from_pymc: latent variables with an entry for each of the {n_rows} rows ({', '.join(sorted(found))}) "
            "leave nothing to subsample; integrate them out, or sample the model by NUTS, amc.sample(model). If that "
            "axis counts something else, give dims to these variables and to the observed ones"
        )


class RowArray(NamedTuple):
    """An array of a model with an axis that counts rows: a `leaf` of its graph.

    `own` holds the model's rows and `data` those that are read, rows first. `replacement` is the leaf as a graph of the
    rows in `input`. `rounded` holds the model's rows in the precision of given float32 rows, else None.
    """

    leaf: Any
    name: str
    own: np.ndarray
    data: np.ndarray
    input: Any
    replacement: Any
    rounded: Any


class StackedRows(NamedTuple):
    """The rows of all observed variables as one flat array of responses `y`, and one law.

    The graphs of the `parameters` are stacked in the same order, so predictors and effects are read from one graph.
    `law` is None if all rows are normal (`parameters` are then mean and scale), and if a distribution is not supported:
    `refused` then says why; else it is "". `weight` holds the known weights of the rows; None without any.
    """

    y: np.ndarray
    parameters: list[Any]
    weight: np.ndarray | None
    law: LawOfRows | None = None
    refused: str = ""


class Rows:
    """The rows of the observed variables of a model, read when they are first asked for.

    As terms, the likelihood is a graph over chosen rows, and a row's term is the sum over the observed variables
    (`terms`); all observed variables must have the same number of rows. As a stack, rows follow one another, and each
    may have another law (`stacked`).

    `row_dim` names the dim that counts rows. `given` are rows by name, in place of the model's; the graph is read from
    the model's own rows. A float32 row is converted to the model's type when it is read.
    """

    def __init__(self, model: Any, row_dim: str | None = None, given: Mapping[str, np.ndarray] | None = None) -> None:
        self.model = model
        self.row_dim = row_dim
        self.given = given
        self.dims = model.named_vars_to_dims
        self.values = [model.rvs_to_values[observed] for observed in model.observed_RVs]
        self.name = " and ".join(observed.name for observed in model.observed_RVs)

    @property
    def is_given(self) -> bool:
        """Whether the user gave rows in place of those of the model."""
        return self.given is not None

    @functools.cached_property
    def observed(self) -> list[np.ndarray]:
        """The model's own observed data, an array for each observed variable."""
        return [np.asarray(evaluate(value)) for value in self.values]

    # --- rows as terms ---

    @functools.cached_property
    def n_rows(self) -> int:
        """Number of the model's rows; raises if observed variables differ, or free variables count rows."""
        counts = {
            variable.name: self._count(variable.name, np.shape(array))
            for variable, array in zip(self.model.observed_RVs, self.observed, strict=True)
        }
        n_rows = _one_count(counts)
        refuse_row_latents(self.model, n_rows, self.row_dim)
        return n_rows

    @functools.cached_property
    def variables(self) -> list[Any]:
        """The observed random variables, without factors of minibatches."""
        return [self._unscaled(observed) for observed in self.model.observed_RVs]

    @functools.cached_property
    def parameters(self) -> list[Any]:
        """The inputs of all observed random variables, one after the other, as graphs of the value variables."""
        inputs = [parameter for variable in self.variables for parameter in variable.owner.inputs]
        return list(self.model.replace_rvs_by_values(inputs))

    @functools.cached_property
    def _graphs(self) -> list[Any]:
        return [*self.parameters, *self.values, *self._user_densities()]

    @functools.cached_property
    def _lengths(self) -> set[Any]:
        return {node.inputs[1] for node in toposort(self._graphs) if isinstance(node.op, Reshape)}

    @functools.cached_property
    def arrays(self) -> list[RowArray]:
        """The arrays of the model that have an axis of rows."""
        arrays: list[RowArray] = []
        for leaf in leaves(self._graphs):
            axis = self._row_axis(leaf)
            if axis is not None:
                own = np.require(np.moveaxis(value_of(leaf), axis, 0), requirements=["C", "W"])
                name = self._name(leaf)
                data = own if self.given is None else rows_given(self.given, name, own, axis)
                rows = pt.tensor(f"rows_{len(arrays)}", shape=(None, *own.shape[1:]), dtype=data.dtype.name)
                converted = own.astype(data.dtype, copy=False)
                is_rounded = data.dtype != own.dtype
                rounded = pt.constant(np.moveaxis(converted, 0, axis).astype(leaf.dtype)) if is_rounded else None
                replacement = pt.moveaxis(rows, 0, axis).astype(leaf.dtype)
                arrays.append(RowArray(leaf, name, converted, data, rows, replacement, rounded))
        return arrays

    @functools.cached_property
    def replacements(self) -> dict[Any, Any]:
        """What replaces a leaf of the graph: the rows that are read, or other shared data as they are now."""
        of_rows = {array.leaf: array.replacement for array in self.arrays}
        shared = [leaf for leaf in leaves(self._graphs) if is_shared(leaf) and leaf not in of_rows]
        return {**of_rows, **{leaf: pt.constant(value_of(leaf)) for leaf in shared}}

    @property
    def inputs(self) -> list[Any]:
        """The inputs of the graph `terms` that hold rows."""
        return [array.input for array in self.arrays]

    @property
    def names(self) -> list[str]:
        """Names of the arrays with rows, for messages."""
        return [array.name for array in self.arrays]

    @functools.cached_property
    def data(self) -> tuple[np.ndarray, ...]:
        """The rows that are read, an array for each of `inputs`."""
        return tuple(array.data for array in self.arrays)

    @property
    def own(self) -> tuple[np.ndarray, ...]:
        """The model's own rows, an array for each of `inputs`."""
        return tuple(array.own for array in self.arrays)

    @property
    def leaves(self) -> set[Any]:
        """The leaves of the model's graph that hold rows."""
        return {array.leaf for array in self.arrays}

    @functools.cached_property
    def n_obs(self) -> int:
        """Number of rows that are read."""
        return self.n_rows if self.given is None else _one_length(self.given, self.names, self.data)

    def _name(self, leaf: Any) -> str:
        """Return what messages call an array with rows: the name of its pm.Data container, if it has one.

        Otherwise the name of the observed variable with these values, or, for any other array, its shape.
        """
        observed = dict(zip(self.values, self.model.observed_RVs, strict=True))
        if leaf in observed and not is_shared(leaf):
            return str(observed[leaf].name)
        return leaf.name or f"an array of shape {np.shape(value_of(leaf))}"

    def _count(self, name: str, shape: tuple[int, ...]) -> int:
        if not shape:
            raise IncompatibleError(
                f"from_pymc: the observed variable {name!r} is a single number, and a sum over rows needs rows: give "
                "the data as rows, or sample the model by NUTS, amc.sample(model)"
            )
        if shape[0] < 2:
            raise IncompatibleError(
                f"from_pymc: the observed variable {name!r} has {shape[0]} rows, and a sum over rows needs at least 2: "
                "give the data as rows, or sample the model by NUTS, amc.sample(model)"
            )
        dims = self.dims.get(name)
        labels = sorted({label for names in self.dims.values() for label in names if label})
        if self.row_dim is not None and self.row_dim not in labels:
            raise InvalidInputError(
                f"from_pymc: no variable of the model has the dim {self.row_dim!r} given as row_dim; its dims are "
                f"{labels}. Give {name!r} and the arrays with rows dims=, or leave row_dim out"
            )
        if self.row_dim is not None and dims is not None and dims[0] != self.row_dim:
            raise IncompatibleError(
                f"from_pymc: row_dim {self.row_dim!r} must be the first dim of the observed variable {name!r}, "
                f"found the dims {tuple(dims)}; transpose the data"
            )
        return int(shape[0])

    def _unscaled(self, observed: Any) -> Any:
        """Return the observed variable without the factor total_size / N, which must be 1 on all rows."""
        if not isinstance(observed.owner.op, MinibatchRandomVariable):
            return observed
        variable, *total = observed.owner.inputs
        sizes = [int(evaluate(size)) for size in total if getattr(size, "data", 0) is not None]
        if sizes[:1] not in ([], [self.n_rows]):
            raise IncompatibleError(
                f"from_pymc: {observed.name!r} has total_size {sizes[0]} and {self.n_rows} rows, which rescales the "
                "likelihood; leave total_size out, or give all rows"
            )
        return variable

    def _row_axis(self, leaf: Any) -> int | None:
        if leaf in self._lengths:  # (-1, 3) may have as many entries as there are rows
            return None
        dims = self.dims.get(leaf.name)
        if self.row_dim is not None and dims is not None:
            return list(dims).index(self.row_dim) if self.row_dim in dims else None
        axes = [axis for axis, length in enumerate(np.shape(value_of(leaf))) if length == self.n_rows]
        if len(axes) > 1:
            raise IncompatibleError(
                f"from_pymc: the array {leaf.name or 'without a name'} has shape {np.shape(value_of(leaf))}, and "
                f"{self.name!r} has {self.n_rows} rows: it is ambiguous which axis counts rows. Make it a pm.Data with "
                "dims, and name the dim of the rows by row_dim="
            )
        return axes[0] if axes else None

    def are_read_by(self, graph: Any) -> bool:
        """Return whether a graph depends on observed data, or on an array with rows."""
        observed = {*self.model.observed_RVs, *self.values}
        return bool((self.leaves | observed) & set(ancestors([graph]))) or any(
            self._row_axis(leaf) is not None for leaf in leaves([graph])
        )

    def all_terms(self, *, simplified: bool = False) -> Any:
        """Return the graph of the log-likelihood of all of the model's rows, a vector, as PyMC writes it.

        With `simplified`, in a stable form.
        """
        derive = simplified_densities if simplified else log_densities
        terms = derive(self.model, self.model.observed_RVs)
        rounded = {array.leaf: array.rounded for array in self.arrays if array.rounded is not None}
        return sum_of([sum_trailing(each) for each in rebuild(terms, rounded)])

    def terms(self) -> Any:
        """Return the graph of the log-likelihood of the rows that `inputs` hold, a vector."""
        replacements = {**self.replacements, **self._sizes()}
        rebuilt = rebuild([*self.values, *self.parameters], replacements)
        values = rebuilt[: len(self.values)]
        parameters = rebuilt[len(self.values) :]
        terms = []
        for variable, value in zip(self.variables, values, strict=True):
            count = len(variable.owner.inputs)
            terms.append(self._terms_of(variable, value, parameters[:count]))
            parameters = parameters[count:]
        return sum_of(terms)

    def _terms_of(self, variable: Any, value: Any, parameters: list[Any]) -> Any:
        node = variable.owner

        def why(error: Exception) -> IncompatibleError:
            return IncompatibleError(
                f"from_pymc: PyMC cannot write the log density of some rows of the {law_name(variable)} variable "
                f"{variable.name!r} alone: a time series has no such density, nor has a mixture with a truncated part, "
                "such as a hurdle of counts. Such a model needs all data at every step: sample it by NUTS, "
                f"amc.sample(model). PyTensor says: {first_line(error)}"
            )

        with refusals(TypeError, ValueError, NotImplementedError, AttributeError, reason=why):
            if isinstance(node.op, CustomSymbolicDistRV) and not node.op.inline_logprob:
                # The operation for another number of rows would have the density of its draws, not that of the user.
                terms = _logprob(node.op, [value], *parameters)
            else:
                outputs = apply_node(node, parameters)
                terms = pm.logp(outputs[node.outputs.index(variable)], value)
        [terms] = rebuild([terms], self._rows_in(terms))
        if terms.ndim == 0:
            raise IncompatibleError(
                f"from_pymc: all rows of the {law_name(variable)} variable {variable.name!r} have one log density: a "
                "time series, a Gaussian process or one multivariate normal over all rows is not a sum of independent "
                "terms. Such a model needs all data at every step: sample it by NUTS, amc.sample(model)"
            )
        return sum_trailing(terms)

    def _user_densities(self) -> list[Any]:
        """Return the log densities of observed `pm.CustomDist`s: their functions may read arrays that no parameter is.

        Weights of rows (`weighted` in Bambi) are such arrays.
        """
        pairs = zip(self.variables, self.values, strict=True)
        return [
            pm.logp(variable, value, warn_rvs=False)
            for variable, value in pairs
            if isinstance(variable.owner.op, USER_LAWS)
        ]

    def _rows_in(self, terms: Any) -> dict[Any, Any]:
        """Return the rows that replace constants of a user's density, which are made anew each time it is written."""
        constants = [leaf for leaf in self.leaves if not is_shared(leaf)]
        new = [leaf for leaf in leaves([terms]) if leaf not in self.replacements]
        pairs = ((leaf, next((constant for constant in constants if constant.equals(leaf)), None)) for leaf in new)
        return {leaf: self.replacements[constant] for leaf, constant in pairs if constant is not None}

    def _sizes(self) -> dict[Any, Any]:
        """Return the size over the rows read, by the constant or dim length that fixes a random variable's size."""
        count = self.inputs[0].shape[0]
        variables = [v for v in (*ancestors(self.parameters), *self.variables) if v.owner is not None]
        sizes = [size for v in variables if (size := _size_of(v.owner)) is not None]
        leaves_of_sizes = [
            v for v in ancestors(sizes) if v.owner is None and hasattr(v, "dtype") and v not in self.leaves
        ]
        numbers = {v: np.asarray(value_of(v)) for v in leaves_of_sizes if "int" in str(v.dtype)}
        fixed = {v: value for v, value in numbers.items() if value.ndim < 2 and self.n_rows in np.atleast_1d(value)}
        return {
            v: count if value.ndim == 0 else pt.stack([count if n == self.n_rows else pt.constant(n) for n in value])
            for v, value in fixed.items()
        }

    # --- rows as a stack ---

    def stacked(self, faults: list[str]) -> StackedRows:
        """Return all rows as one stack; the sentence on a fault (see `attempts`) is added to `faults`.

        Raises
        ------
        NotPossibleError
            When the parameters of a distribution cannot be read, or rows or weights are not numbers.
        """
        model = self.model
        arrays = [np.asarray(array, dtype=np.float64) for array in self.observed]
        read = [without_weights(model, variable) for variable in model.observed_RVs]
        variables = [law.variable for law in read]
        for variable, array in zip(variables, arrays, strict=True):
            if not hasattr(variable.owner.op, "dist_params"):
                raise NotPossibleError(
                    f"the parameters of the {law_name(variable)} variable {variable.name} cannot be read"
                )
            if not np.isfinite(array).all():
                raise NotPossibleError(f"{variable.name} has rows that are not finite")
        shapes = [array.shape for array in arrays]
        y = arrays[0] if len(arrays) == 1 else np.concatenate([array.ravel() for array in arrays])
        weight = weights_of(read, shapes)
        if weight is not None and not (weight >= 0.0).all():
            raise NotPossibleError(f"the rows of {self.name} have weights that are negative or not a number")
        if all(isinstance(variable.owner.op, NormalRV) for variable in variables):
            of_variables = [variable.owner.op.dist_params(variable.owner) for variable in variables]
            return StackedRows(y, [stacked(graphs, shapes) for graphs in zip(*of_variables, strict=True)], weight)
        of_variables = [of_rows(variable) for variable in variables]
        # The sum serves to find the effects: it depends on all variables that one of the parameters depends on.
        sums = [stacked([sum(parameters) for parameters in of_variables], shapes)]
        parameters = list(of_variables[0]) if len(variables) == 1 else sums
        law = attempt(functools.partial(self._law, variables, shapes, weight), faults)
        if isinstance(law, Reason):
            return StackedRows(y, parameters, weight, refused=law.sentence)
        return StackedRows(y, parameters, weight, law)

    def _law(self, variables: Sequence[Any], shapes: Shapes, weight: np.ndarray | None) -> LawOfRows:
        """Return the distribution of the stacked rows of `variables`, which have these shapes."""
        laws = [law_of_rows(self.model, variable) for variable in variables]
        if len(laws) == 1:
            return dataclasses.replace(laws[0], weight=weight)
        if weight is not None:
            raise NotPossibleError(f"weights of rows of several observed variables ({self.name}) are not supported")
        return joint_law(laws, shapes)


def _one_count(counts: dict[str, int]) -> int:
    """Return the number of rows that all observed variables have, given `counts` by variable; raise if they differ."""
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise IncompatibleError(
            f"from_pymc: the observed variables need the same number of rows, since a row is one term; {numbers}. "
            "Observe them over the same rows; if one has fewer values than another, such as one for each "
            "group, repeat it as data, or write it as a pm.Potential of parameters; or sample the model by NUTS, "
            "amc.sample(model)"
        )
    return next(iter(counts.values()))


def rows_given(given: Mapping[str, np.ndarray], name: str, own: np.ndarray, axis: int) -> np.ndarray:
    """Return the user's rows for the array `name` of the model, whose rows are `own` and counted by `axis`; checked.

    Raises
    ------
    InvalidInputError
        When rows are missing, or have another type or shape than the model's.
    """
    if name not in given:
        raise InvalidInputError(
            f"from_pymc: {name!r} has {len(own)} rows in the model, so data= needs its rows, too; found {list(given)}. "
            "Make it a pm.Data and give its rows; if its axis does not count rows, make the model with another number "
            "of rows"
        )
    array = given[name]
    if axis != 0 or array.shape[1:] != own.shape[1:] or (array.dtype.kind == "f" and own.dtype.kind in "iub"):
        raise InvalidInputError(
            f"from_pymc: data[{name!r}] needs the type and shape of the model's rows, {own.dtype} of shape "
            f"(n, {', '.join(map(str, own.shape[1:]))}) with the rows first; found {array.dtype} of shape {array.shape}"
            f"{'' if axis == 0 else f', and in the model axis {axis} counts rows'}"
        )
    return array


def _one_length(given: Mapping[str, np.ndarray], names: list[str], data: tuple[np.ndarray, ...]) -> int:
    """Return the number of rows of the user's arrays; raise if they differ, or `given` has an unknown name."""
    if unknown := sorted(set(given) - set(names)):
        raise InvalidInputError(f"from_pymc: data= needs arrays in which the model has rows, {names}; found {unknown}")
    lengths = {name: len(array) for name, array in zip(names, data, strict=True)}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(f"from_pymc: the arrays in data must have the same number of rows, found {lengths}")
    return next(iter(lengths.values()))


def _size_of(node: Any) -> Any:
    """Return the size parameter of a random variable; None if it has none or the node is another operation."""
    return node.op.size_param(node) if isinstance(node.op, RandomVariable) or is_signed(node.op) else None


def sum_of(terms: list[Any]) -> Any:
    """Return the graph of the sum of vectors."""
    return terms[0] if len(terms) == 1 else pt.add(*terms)


def random_groups(n_rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return all row indices in random order, in groups of one, of some and of many rows.

    Groups of one size only may not show that rows depend on each other.
    """
    order = rng.permutation(n_rows)
    n_chosen = min(CHECKED_ROWS, max(1, n_rows // 3))
    stops = np.cumsum([1, n_chosen, *[max(CHECKED_ROWS, n_rows // 8)] * 9])
    return list(np.split(order, stops[stops < n_rows]))


def weights_of(read: Sequence[Weighted], shapes: Shapes) -> np.ndarray | None:
    """Return the weights of the stacked rows of several variables, flat; None if no variable has weights."""
    if all(one.weight is None for one in read):
        return None
    known = [1.0 if one.weight is None else one.weight for one in read]
    return np.concatenate([np.broadcast_to(one, shape).ravel() for one, shape in zip(known, shapes, strict=True)])


def of_rows(observed: Any) -> list[Any]:
    """Return graphs, one for each parameter of an observed variable, that broadcast to its shape.

    A parameter that is a vector or a matrix for each row, such as the probabilities of categories, is summed: the graph
    serves to find the variables that a row depends on.
    """
    operation = observed.owner.op
    graphs = []
    for parameter, n_axes in zip(operation.dist_params(observed.owner), operation.ndims_params, strict=True):
        axes = min(n_axes, parameter.ndim)  # AR has a number, its order, where its signature has a vector
        summed = parameter.sum(axis=tuple(range(-axes, 0))) if axes else parameter
        graphs.append(pt.shape_padright(summed, operation.ndim_supp) if operation.ndim_supp else summed)
    return graphs


def stacked(graphs: Sequence[Any], shapes: Shapes) -> Any:
    """Return one graph of the entries of several arrays, flat and in order; a single graph is returned unchanged."""
    if len(graphs) == 1:
        return graphs[0]
    return pt.concatenate([(graph + pt.zeros(shape)).ravel() for graph, shape in zip(graphs, shapes, strict=True)])


def joint_law(laws: Sequence[LawOfRows], shapes: Shapes) -> LawOfRows:
    """Return the distribution of stacked rows of at most two families, at most one of them with a shape."""
    of_laws: list[Family] = [law.family for law in laws if law.family is not None]
    if BINOMIAL in of_laws:  # Bernoulli rows are binomial rows of one trial
        of_laws = [BINOMIAL if family is LOGIT else family for family in of_laws]
    families = list(dict.fromkeys(of_laws))
    shape = [(law.shape, rows) for law, rows in zip(laws, shapes, strict=True) if law.shape is not None]
    if len(families) > 2 or sum(family.has_shape for family in families) > 1:
        raise NotPossibleError(
            f"observed variables with the distributions {', '.join(family.name for family in families)} are not "
            "supported together: two are, of which one may have a shape or a noise"
        )
    sizes = [pt.ones(()) if law.trials is None else law.trials for law in laws]
    codes = [np.full(math.prod(rows), float(families.index(one))) for one, rows in zip(of_laws, shapes, strict=True)]
    return LawOfRows(
        families[0],
        [stacked([sum(law.predictors) for law in laws], shapes)],
        [stacked([functools.reduce(operator.mul, law.exposures, pt.ones(())) for law in laws], shapes)],
        trials=stacked(sizes, shapes),
        is_clipped=any(law.is_clipped for law in laws),
        shape_product=Product(whole=stacked(*zip(*shape, strict=True))) if shape else None,
        second=families[1] if len(families) == 2 else None,
        code=np.concatenate(codes) if len(families) == 2 else None,
    )
