r"""Write the log density of indicators and the rows that they reach as a graph for each state of the indicators.

With indicators z of G entries and the rows :math:`y_g` of entry g, state k has the terms

.. math:: \log p(z_g = k \mid \theta) + \sum_{i \in g} \log p(y_i \mid z_g = k, \theta), \qquad g = 1, \dots, G,

and the likelihood of a group is the logarithm of the sum of their exponentials, :func:`log_sum_exp`.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.graph import rewrite_graph

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graphs import rebuild, replace_nodes
from approxmcmc.interop.law import law_name
from approxmcmc.interop.operations import MOVING, name_of
from approxmcmc.interop.summed.find import Indicators
from approxmcmc.interop.values import shape_of
from approxmcmc.interop.walk import evaluate, is_shared, leaves, value_of

MOST_PADDING = 10  # times the rows: groups are padded to the length of the longest


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
            density = _log_density(observed, parameters, value)
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
    return _log_density(variable, variable.owner.op.dist_params(variable.owner), _filled(k, variable.ndim))


def _log_density(variable: Any, parameters: Sequence[Any], value: Any) -> Any:
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
        replaced = rebuild(
            replaced, {leaf: pt.constant(value_of(leaf)) for leaf in leaves(replaced) if is_shared(leaf)}
        )
    folded: Any = rewrite_graph(replaced, include=("merge", "canonicalize"), clone=True)
    own = rebuild(folded, {new: pt.specify_shape(old, new.type.shape) for old, new in free.items()})
    flat = iter(replace_nodes(own, _added_to_zeros))
    return [[next(flat) for _ in terms] for terms in graphs]


def _filled(k: int, ndim: int) -> Any:
    return pt.constant(np.full((1,) * ndim, k, dtype=np.int64))
