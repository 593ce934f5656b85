r"""Sum discrete variables out of a PyMC model: one observed variable has the summed log density of all rows they reach.

Examples are indicators of mixtures, outliers and structural zeros, classes of persons, and the state of a site that is
visited several times. Such a variable takes finitely many values, its entries are independent given the parameters, no
other free variable and no potential depends on it, and each row depends only on one entry, see `groups.labels`.

With indicators z of G entries and the rows :math:`y_g` of entry g, state k has the terms

.. math:: \log p(z_g = k \mid \theta) + \sum_{i \in g} \log p(y_i \mid z_g = k, \theta), \qquad g = 1, \dots, G,

and the likelihood of a group is the logarithm of the sum of their exponentials, :func:`log_sum_exp`.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.abstract import MeasurableOp, _logprob
from pytensor.gradient import disconnected_grad
from pytensor.graph import rewrite_graph
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.attempts import NotPossibleError, Reason, attempt
from approxmcmc.interop.comparison import compare
from approxmcmc.interop.densities import initial_point, simplified_densities
from approxmcmc.interop.graphs import by_numpy, frozen, rebuild, replace_nodes, simplify
from approxmcmc.interop.groups.labels import FREE, MIXED, join, join_along, labels_of
from approxmcmc.interop.law import law_name
from approxmcmc.interop.values import NO_TRACES, ValuesOfGraph, shape_of
from approxmcmc.interop.variables import refuse_other_users
from approxmcmc.interop.walk import MOVING, evaluate, in_python, leaves, name_of, value_of

MOST_STATES = 32  # terms of a sum: the graph of the likelihood is repeated for each
MOST_PADDING = 10  # times the rows: groups are padded to the length of the longest
SPREAD = 0.3  # standard deviation of the random point around the initial point


class Indicators(NamedTuple):
    """Discrete variables of the same shape and the values of each; `rows` maps observed variables to entries.

    An array of `rows` holds the entry that each row depends on, as its position in the flat variable; None if the
    leading axes of the observed variable are those of the indicators.
    """

    supports: Mapping[Any, np.ndarray]
    shape: tuple[int, ...]
    rows: Mapping[Any, np.ndarray | None]


def indicators(model: Any, variables: Sequence[Any]) -> Indicators:
    """Return the discrete `variables` of a model as indicators that can be summed out.

    Raises
    ------
    NotPossibleError
        With the reason why they cannot be summed out.
    """
    if len(variables) == len(model.free_RVs):
        raise NotPossibleError("the model has no other parameters")
    for variable in variables:
        refuse_other_users(model, variable)
    observed = [variable for variable in model.observed_RVs if set(variables) & set(ancestors([variable]))]
    for variable in observed:
        if not isinstance(variable.owner.op, RandomVariable):
            raise NotPossibleError(
                f"the rows of {variable.name} have the distribution {law_name(variable)}, which PyMC builds from "
                "several operations, so the parameters of each state cannot be put into it"
            )
    parents = {variable: variable.owner.op.dist_params(variable.owner) for variable in (*observed, *variables)}
    values = ValuesOfGraph(model, [parameter for parameters in parents.values() for parameter in parameters])
    supports = {variable: _support(variable, values) for variable in variables}
    if (states := np.prod([len(support) for support in supports.values()])) > MOST_STATES:
        raise NotPossibleError(f"it has {states} states, and at most {MOST_STATES} are summed out")
    shapes = {shape_of(model, variable) for variable in variables}
    if len(shapes) > 1:
        raise NotPossibleError(f"discrete variables of different shapes, {sorted(shapes)}, are not summed out together")
    [shape] = shapes
    if np.prod(shape, dtype=int) < 2:
        raise NotPossibleError("all rows depend on its single entry, so no row would have a term of its own")
    entries = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    labels = labels_of(values, dict.fromkeys(variables, entries))
    return Indicators(
        supports, shape, {variable: _rows(model, variable, parents[variable], labels, entries) for variable in observed}
    )


def _support(variable: Any, values: ValuesOfGraph) -> np.ndarray:
    """Return the values that a discrete variable can take, in order."""
    law = law_name(variable)
    parameters = variable.owner.op.dist_params(variable.owner)
    numbers = [values.of[parameter] for parameter in parameters]
    if law == "Bernoulli":
        return np.arange(2)
    if law == "Categorical":
        return np.arange(numbers[0].shape[-1])
    if law == "DiscreteUniform" and values.fixed.issuperset(parameters):
        return np.arange(np.min(numbers[0]), np.max(numbers[1]) + 1, dtype=np.int64)
    if law in ("Binomial", "BetaBinomial") and parameters[0] in values.fixed:
        return np.arange(np.max(numbers[0]) + 1)
    raise NotPossibleError(f"its distribution, {law}, has no finite list of values")


def _rows(
    model: Any, observed: Any, parameters: Sequence[Any], labels: Mapping[Any, np.ndarray], entries: np.ndarray
) -> np.ndarray | None:
    """Return the entry that each row of an observed variable depends on; None if axes are shared."""
    operation = observed.owner.op
    shape = np.shape(evaluate(model.rvs_to_values[observed]))
    batch = shape[: len(shape) - operation.ndim_supp]
    columns = np.full(batch, FREE)
    for parameter, n_axes in zip(parameters, operation.ndims_params, strict=True):
        if parameter in labels:
            own = labels[parameter]
            for _ in range(n_axes):
                own = join_along(own, -1)
            columns = join(columns, np.broadcast_to(own, batch))
    if (columns == MIXED).any():
        raise NotPossibleError(f"a row of {observed.name} depends on several of its entries")
    if (columns == FREE).any():
        raise NotPossibleError(f"some rows of {observed.name} depend on none of its entries")
    same_axes = batch[: entries.ndim] == entries.shape
    if same_axes and (columns.reshape((*entries.shape, -1)) == entries[..., None]).all():
        return None
    rows = columns.reshape((len(columns), -1))
    if entries.ndim > 1 or (rows != rows[:, :1]).any():
        raise NotPossibleError(f"it has the shape {entries.shape}, and the rows of {observed.name} another")
    return rows[:, 0]


def log_sum_exp(terms: Sequence[Any]) -> Any:
    """Return log(sum(exp(term))) over arrays; finite with its gradient if one term is, in unoptimised graphs, too."""
    highest = functools.reduce(pt.maximum, terms)
    shift = disconnected_grad(pt.switch(pt.isinf(highest), 0.0, highest))
    return shift + pt.log(pt.add(*(pt.exp(term - shift) for term in terms)))


def terms_of_states(model: Any, found: Indicators) -> tuple[list[Any], Any]:
    """Return the terms of each state, of the shape of the indicators, and the data of the first variable reached.

    The terms are graphs of the other free variables and of the data.
    """
    variables = list(found.supports)
    states = [
        {variable: int(k) for variable, k in zip(variables, state, strict=True)}
        for state in itertools.product(*found.supports.values())
    ]
    terms = [[_log_weight(variable, k) for variable, k in state.items()] for state in states]
    rows = None
    for observed, labels in found.rows.items():
        node = observed.owner
        value = model.rvs_to_values[observed]
        in_states = [in_state(node.op.dist_params(node), state) for state in states]
        in_states = _fold(model, in_states, shared=labels is not None)
        if labels is not None:
            padding = Padding(labels, found.shape[0])
            rows_of_groups = padding.array(np.asarray(evaluate(value)))
            value = padding.flat(rows_of_groups)
            in_states = padding.rebuild(in_states)
        else:
            rows_of_groups = value
        for term, own in zip(terms, in_states, strict=True):
            zeros = pt.zeros_like(value, dtype="float64")[..., None]
            # The density of a categorical row needs probabilities for each row.
            parameters = [own[0] + zeros] if law_name(observed) == "Categorical" else own
            density = _log_density_of(observed, parameters, value)
            term.append(sum_beyond(density, len(found.shape)) if labels is None else padding.sum(density))
        rows = rows_of_groups if rows is None else rows
    return [pt.add(*term) for term in terms], rows


def sum_beyond(terms: Any, n_axes: int) -> Any:
    """Sum terms over all axes but the first `n_axes`."""
    return terms.sum(axis=tuple(range(n_axes, terms.ndim))) if terms.ndim > n_axes else terms


def _log_weight(variable: Any, k: int) -> Any:
    """Return the log probability that an entry of `variable` is k, which broadcasts to its shape."""
    if law_name(variable) == "Categorical":
        [p] = variable.owner.op.dist_params(variable.owner)
        return pt.log(p[..., k])
    return _log_density_of(variable, variable.owner.op.dist_params(variable.owner), _filled(k, variable.ndim))


def _log_density_of(variable: Any, parameters: Sequence[Any], value: Any) -> Any:
    """Return the log density of a random variable with other parameters, of the shape of these and the value."""
    node = variable.owner
    return pm.logp(node.op.make_node(node.inputs[0], None, *parameters).outputs[1], value, warn_rvs=False)


class Padding:
    """The rows of groups in arrays with a leading axis of groups, each padded to the length of the longest."""

    def __init__(self, labels: np.ndarray, n_groups: int) -> None:
        counts = np.bincount(labels, minlength=n_groups)
        self.n_rows = len(labels)
        # As many rows as groups would leave it ambiguous which axis of the padded arrays counts groups.
        self.longest = int(counts.max()) + int(counts.max() == n_groups)
        if self.longest * n_groups > MOST_PADDING * len(labels):
            raise NotPossibleError(
                f"its {n_groups} groups have {counts.min()} to {counts.max()} rows, and padding all to the longest "
                f"would take more than {MOST_PADDING} times the memory"
            )
        order = np.argsort(labels, kind="stable")
        position = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.index = np.zeros((n_groups, self.longest), dtype=np.int64)
        self.index[labels[order], position] = order
        self.is_row = pt.constant(np.arange(self.longest) < counts[:, None])

    def rebuild(self, graphs: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Rebuild lists of graphs over the padded rows of all groups, one group after the other."""
        replacements: dict[Any, Any] = {}
        for leaf in leaves([graph for terms in graphs for graph in terms]):
            array = value_of(leaf)
            axes = [axis for axis, length in enumerate(array.shape) if length == self.n_rows]
            if len(axes) > 1:
                raise NotPossibleError(f"it is ambiguous which axis of an array of shape {array.shape} counts rows")
            for axis in axes:
                replacements[leaf] = pt.moveaxis(self.flat(self.array(np.moveaxis(array, axis, 0))), 0, axis)
        return [rebuild(terms, replacements) for terms in graphs]

    def array(self, rows: np.ndarray) -> Any:
        """Return an array with axes of groups and of their rows, from an array of rows."""
        return pt.constant(rows[self.index])

    def flat(self, padded: Any) -> Any:
        """Return the padded rows of all groups as one axis."""
        return padded.reshape((-1, *padded.type.shape[2:]))

    def sum(self, terms: Any) -> Any:
        """Sum the terms of padded rows over the rows of each group."""
        return pt.switch(self.is_row, sum_beyond(terms, 1).reshape((-1, self.longest)), 0.0).sum(axis=1)


def _added_to_zeros(node: Any, inputs: list[Any]) -> list[Any] | None:
    """Return the sum of an array of zeros and what a node repeats to the shape of that array; None for other nodes.

    Rewriting writes a product with zeros, such as X b for X = 0, as a number repeated for each row. Then no array
    would say which axis counts rows.
    """
    if name_of(node) != "Alloc" or None in node.outputs[0].type.shape:
        return None
    shape = node.outputs[0].type.shape
    return [inputs[0] + pt.constant(np.zeros(shape, dtype=inputs[0].dtype))]


def in_state(graphs: Sequence[Any], state: Mapping[Any, int]) -> list[Any]:
    """Rebuild graphs with every entry of each variable in `state` equal to its value there.

    An array of one repeated value becomes an array with axes of length 1, and stays one if entries are moved.
    """
    filled = {variable.owner: _filled(k, variable.ndim) for variable, k in state.items()}

    def make(node: Any, inputs: list[Any]) -> list[Any] | None:
        if node in filled:
            return [inputs[0], filled[node]]
        if name_of(node) in MOVING and inputs[0] is not node.inputs[0] and set(inputs[0].type.shape) == {1}:
            return [pt.zeros((1,) * node.outputs[0].ndim, dtype=inputs[0].dtype) + inputs[0].reshape(())]
        return None

    return replace_nodes(graphs, make)


def _fold(model: Any, graphs: Sequence[Sequence[Any]], *, shared: bool) -> list[list[Any]]:
    """Fold the constants of lists of graphs, `shared` data too if asked, and merge equal ones.

    This removes products with 0, with a derivative of 0 times infinity at a Poisson mean of z mu for z = 0. Data of
    groups that are indexed by the group of each row become data of rows.

    Free variables get the lengths that they have: of a variable with dims PyTensor knows none, so m[[k]], which
    broadcasts over rows, would be rewritten to m[k : k + 1], which has an unknown length and does not.
    """
    free = {
        variable: pt.tensor(variable.name, shape=shape_of(model, variable), dtype=variable.dtype)
        for variable in model.free_RVs
    }
    replaced = rebuild([graph for terms in graphs for graph in terms], free)
    if shared:
        replaced = frozen(replaced)
    folded: Any = rewrite_graph(replaced, include=("merge", "canonicalize"), clone=True)
    own = rebuild(folded, {new: pt.specify_shape(old, new.type.shape) for old, new in free.items()})
    flat = iter(replace_nodes(own, _added_to_zeros))
    return [[next(flat) for _ in terms] for terms in graphs]


def _filled(k: int, ndim: int) -> Any:
    return pt.constant(np.full((1,) * ndim, k, dtype=np.int64))


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
def _log_density_of_rows(op: Any, values: Any, *terms: Any, **kwargs: Any) -> Any:
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
