"""A PyMC model as a target: its likelihood row by row, compiled by PyTensor, called from the chain's kernel.

The graph of the observed variable is rebuilt over the rows asked for: every constant and every shared array with an
axis as long as the data becomes an input that is indexed by the row numbers, and only then the log density is taken.
So a call costs what its rows cost, and nothing of size N is ever evaluated in a step. (Indexing the full
log-likelihood instead costs O(N) a call: PyTensor does not push the index down.)

This room alone stands on the semi-private surface of PyTensor and PyMC: here the dispatcher of a function compiled by
PyTensor's numba linker and the removal of minibatches, in `rows` the rebuilding of random variables.
"""

import dataclasses
import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.data import MinibatchOp
from pymc.initial_point import make_initial_point_fn
from pymc.model.transform.basic import remove_minibatched_nodes
from pytensor.graph import rewrite_graph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import CompiledGradient, CompiledTarget, Variables, content_hash
from approxmcmc.engine.batches import LOG_PRIOR, log_terms_type
from approxmcmc.engine.bind import VECTOR, bind, type_of
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.model_hash import model_hash
from approxmcmc.interop.rows import (
    Rows,
    evaluate,
    first_line,
    is_shared,
    leaves,
    merge_branches,
    over_flat,
    rebuild,
    refuse_unsuitable,
    value_of,
)

# Checks of parameters (0 <= p <= 1) read all rows and cost 3 to 18 times the likelihood itself; NaN says the same.
REWRITES = ("canonicalize", "stabilize", "local_remove_check_parameter")
CHECKED_POINTS, CHECKED_ROWS, TOLERANCE = 3, 64, 1e-8


def from_pymc(model: Any, row_dim: str | None = None, *, deterministics: bool = False) -> "PyMCTarget":
    """Return a PyMC model as a target: log p(theta) with all Jacobians + sum_i log p(y_i | theta) over rows i.

    Parameters
    ----------
    model
        A ``pm.Model`` with one observed variable whose rows are independent given the parameters, and continuous free
        variables.
    row_dim
        Name of the dim that counts the rows, for models in which another axis is as long as the data.
    deterministics
        Whether the trace holds the model's deterministics that have no axis as long as the data.

    Returns
    -------
    PyMCTarget
        Its theta is the flat unconstrained vector, in the order of ``model.initial_point()``; draws come back
        constrained, under the model's names, dims and coords, as from ``pm.sample``.

    Raises
    ------
    IncompatibleError
        When the likelihood is no sum over rows, or cannot be read row by row; the message names the variable, the
        reason and the way out.

    Notes
    -----
    At construction the terms of all rows, evaluated in random groups, are compared with the full log-likelihood at
    three points: a coupling of rows that the graph hides is found there.

    The model's data are read now. After ``pm.set_data`` make a new target: the old one refuses to run.

    Examples
    --------
    >>> import numpy as np, pymc as pm, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> with pm.Model() as model:
    ...     beta = pm.Normal("beta", 0.0, 1.0, shape=2)
    ...     sigma = pm.HalfNormal("sigma", 1.0)
    ...     _ = pm.Normal("y", X @ beta, sigma, observed=X[:, 0] + rng.normal(size=1000))
    >>> amc.from_pymc(model)  # doctest: +SKIP
    PyMCTarget(y: 1000 rows; beta, sigma)
    """
    return PyMCTarget(model, row_dim, deterministics=deterministics)


@dataclasses.dataclass(frozen=True)
class ModelVariables(Variables):
    """The constrained variables that a flat unconstrained theta stands for."""

    unconstrained_size: int = 0
    constrain: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    unconstrain: Callable[[Mapping[str, Any]], np.ndarray] | None = None

    @property
    def size(self) -> int:
        """Length of theta, which is not the number of constrained values where a variable lies on a simplex."""
        return self.unconstrained_size

    def unpack(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Map the last axis of `theta` to the model's variables; leading axes stay."""
        assert self.constrain is not None
        flat = np.ascontiguousarray(theta.reshape(-1, theta.shape[-1]))
        values = self.constrain(flat)
        return {name: value.reshape(*theta.shape[:-1], *value.shape[1:]) for name, value in values.items()}

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Map constrained values to theta."""
        assert self.unconstrain is not None
        return self.unconstrain(values)


class PyMCTarget:
    """A PyMC model, read row by row; made by :func:`from_pymc`."""

    def __init__(self, model: Any, row_dim: str | None = None, *, deterministics: bool = False) -> None:
        self._given = model
        refuse_unsuitable(model)
        if _has_minibatches(model):  # only then: the copy has its variables in another order
            model = remove_minibatched_nodes(model)
        self._model, self._observed = model, model.observed_RVs[0]
        self._start = model.initial_point()
        self._values = [model.rvs_to_values[variable] for variable in model.free_RVs]
        self._theta = pt.vector("theta", shape=(sum(np.size(self._start[v.name]) for v in self._values),))
        rows = Rows(model, row_dim)
        self.n_obs, self.data = rows.n_rows, rows.data
        self._shared = [(leaf, content_hash(value_of(leaf))) for leaf in leaves([model.logp()]) if is_shared(leaf)]
        self._rows = rows
        [terms] = over_flat([rows.terms()], self._theta, self._values, self._start)
        self._terms: Any = merge_branches(rewrite_graph(terms, include=REWRITES))
        self._prior: Any = rewrite_graph(self._log_prior(rows), include=REWRITES)
        self.variables = self._describe_variables(deterministics)
        self._hash = model_hash(model) or f"unreadable {uuid.uuid4()}"  # equal to no other, so never taken for one
        self._compile_terms()
        self._check_rows()

    def _log_prior(self, rows: Rows) -> Any:
        model = self._model
        terms = list(model.logp(vars=model.free_RVs, sum=False, jacobian=True))
        for potential in model.potentials:
            if rows.leaves & set(ancestors([potential])):
                raise IncompatibleError(
                    f"from_pymc: the potential {potential.name!r} depends on the data, and nobody can tell which part "
                    "of it belongs to which row; write it as a likelihood (pm.CustomDist), or keep it to parameters"
                )
            terms += model.replace_rvs_by_values([potential])
        frozen = {leaf: pt.constant(value_of(leaf)) for leaf in leaves(terms) if is_shared(leaf)}
        terms = rebuild(terms, frozen)
        total = functools.reduce(lambda a, b: a + b, [term.sum() for term in terms])
        return over_flat([total], self._theta, self._values, self._start)[0].astype("float64")

    def _describe_variables(self, deterministics: bool) -> ModelVariables:
        model = self._model
        wanted = list(model.free_RVs)
        if deterministics:
            wanted += [v for v in model.deterministics if not self._rows.leaves & set(ancestors([v]))]
        graphs = over_flat(model.replace_rvs_by_values(wanted), self._theta, self._values, self._start)
        many = pt.matrix("thetas", shape=(None, self._theta.type.shape[0]))
        function = pytensor.function([many], vectorize_graph(graphs, {self._theta: many}), mode="FAST_COMPILE")
        names = [variable.name for variable in wanted]
        start = dict(zip(names, function(self._flat(self._start)[None, :]), strict=True))
        named = {name: dims for name, dims in model.named_vars_to_dims.items() if None not in dims}
        return ModelVariables(
            shapes={variable.name: start[variable.name].shape[1:] for variable in model.free_RVs},
            dims={name: tuple(map(str, dims)) for name, dims in named.items()},
            coords={str(name): list(labels) for name, labels in model.coords.items() if labels is not None},
            unconstrained_size=self._theta.type.shape[0],
            constrain=lambda theta: dict(zip(names, function(theta), strict=True)),
            unconstrain=self._unconstrain,
        )

    def _unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        overrides = {self._model[name]: np.asarray(value) for name, value in values.items()}
        return self._flat(make_initial_point_fn(model=self._model, overrides=overrides)(0))

    def _flat(self, point: Mapping[str, Any]) -> np.ndarray:
        return np.concatenate([np.ravel(point[value.name]) for value in self._values]).astype(np.float64)

    def _compile_terms(self) -> None:
        inputs = [self._theta, *self._rows.inputs]
        example = (self.initial_point(), *(array[:4] for array in self.data))
        try:
            self._terms_function = _numba_function(inputs, [self._terms], example)
        except (TypeError, ValueError, AssertionError, IndexError) as error:
            raise IncompatibleError(
                f"from_pymc: the likelihood of {self._observed.name!r} cannot be evaluated on some of its "
                f"{self.n_obs} rows alone. The usual reason is an array of that length made inside the model "
                f"(pt.zeros({self.n_obs})), or one whose length is fixed: give arrays as pm.Data, or let them "
                f"broadcast. PyTensor says: {first_line(error)}"
            ) from error

    def _check_rows(self) -> None:
        """Compare the terms, read in random groups, with the full log-likelihood."""
        [full] = over_flat([self._rows.all_terms()], self._theta, self._values, self._start)
        full = rewrite_graph(full, include=REWRITES)
        function = pytensor.function([self._theta], full, mode="FAST_COMPILE")
        rng = np.random.default_rng(0)
        for _ in range(CHECKED_POINTS):
            theta = self.initial_point() + rng.normal(scale=0.5, size=self._theta.type.shape[0])
            expected = np.asarray(function(theta))
            order = rng.permutation(self.n_obs)
            # groups of 64 rows, of one row, and of many: a coupling may hide from one size
            sizes = [CHECKED_ROWS, 1, *[max(CHECKED_ROWS, self.n_obs // 8)] * 9]
            start = 0
            for size in sizes:
                index = order[start : start + size]
                start += size
                if not index.size:
                    break
                found = np.asarray(self._terms_function(theta, *(array[index] for array in self.data))[0])
                same = expected.shape == (self.n_obs,) and found.shape == index.shape
                if not same or not np.allclose(found, expected[index], TOLERANCE, 1e-10, equal_nan=True):
                    raise IncompatibleError(
                        f"from_pymc: the log-likelihood of a row of {self._observed.name!r} changes when other rows "
                        "are left out (a cumulative sum, a mean over the data, centring inside the model): it is no "
                        "sum of independent terms. Compute such quantities before the model, and pass them as data"
                    )

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """What was observed, under the variable's name."""
        return {self._observed.name: np.asarray(evaluate(self._model.rvs_to_values[self._observed]))}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The model's other data containers."""
        observed = self._model.rvs_to_values[self._observed]
        data = [variable for variable in self._model.data_vars if variable not in set(ancestors([observed]))]
        return {variable.name: np.asarray(evaluate(variable)) for variable in data}

    def initial_point(self) -> np.ndarray:
        """Return the model's initial point, unconstrained; shape (dim,)."""
        return self._flat(self._start)

    def content_hash(self) -> str:
        """Return a hash of model and data; of a model whose operations cannot be read, one that no other target has."""
        return content_hash(type(self).__name__, self._hash)

    def compile(self) -> CompiledTarget:
        """Hand the compiled likelihood and prior to the chain."""
        self._refuse_changed_data()
        prior = bind(_log_prior, LOG_PRIOR.signature, cache=False, PRIOR=self._prior_function)
        signature = log_terms_type(type_of(self.data)).signature
        terms = bind(_log_terms, signature, cache=False, TERMS=self._terms_function, ROWS=_row_reader(len(self.data)))
        return CompiledTarget(terms, prior, self.data, self.n_obs)

    def compile_gradient(self) -> CompiledGradient:
        """Hand the compiled gradients to the proposal."""
        self._refuse_changed_data()
        signature = log_terms_type(type_of(self.data)).signature
        gradient = bind(
            _add_gradient, signature, cache=False, GRADIENT=self._gradient_function, ROWS=_row_reader(len(self.data))
        )
        prior = bind(_add_prior_gradient, _VOID, cache=False, GRADIENT=self._prior_gradient_function)
        return CompiledGradient(gradient, prior, self.data, self.n_obs)

    @functools.cached_property
    def _prior_function(self) -> Any:
        return _numba_function([self._theta], [self._prior], (self.initial_point(),))

    @functools.cached_property
    def _prior_gradient_function(self) -> Any:
        return _numba_function([self._theta], [pt.grad(self._prior, self._theta)], (self.initial_point(),))

    @functools.cached_property
    def _gradient_function(self) -> Any:
        inputs = [self._theta, *self._rows.inputs]
        example = (self.initial_point(), *(array[:4] for array in self.data))
        return _numba_function(inputs, [pt.grad(self._terms.sum(), self._theta)], example)

    def _refuse_changed_data(self) -> None:
        changed = [leaf.name for leaf, known in self._shared if content_hash(value_of(leaf)) != known]
        if changed:
            raise InvalidInputError(
                f"PyMCTarget: the data {changed} were changed (pm.set_data) after the target was made from the model; "
                "call from_pymc(model) again"
            )

    def to_pymc(self) -> Any:
        """Return the model itself."""
        return self._given

    def __repr__(self) -> str:
        """Say what is observed, how many rows it has, and the free variables."""
        names = ", ".join(variable.name for variable in self._model.free_RVs)
        return f"PyMCTarget({self._observed.name}: {self.n_obs} rows; {names})"


# Kernels: templates of the engine, around dispatchers that PyTensor compiled.
_VOID = log_terms_type(type_of((np.zeros(1),))).signature.return_type(VECTOR, VECTOR)


def _log_terms(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    terms = TERMS(theta, *ROWS(data, order, lo, hi))[0]  # type: ignore[name-defined]  # noqa: F821 (bound)
    for i in range(hi - lo):
        out[i] = terms[i]


@functools.cache
def _row_reader(n_arrays: int) -> Any:
    """Return ``rows(data, order, lo, hi)`` for a tuple of arrays: those of ``order[lo:hi]``, or views of lo ... hi - 1.

    Written out for each number of arrays, because compiled code cannot loop over a tuple of arrays of several types.
    """
    chosen, views = ("".join(f"data[{k}][{rows}], " for k in range(n_arrays)) for rows in ("index", "lo:hi"))
    source = f"""
def rows(data, order, lo, hi):
    if order.shape[0] > 0:
        index = order[lo:hi]
        return ({chosen})
    return ({views})
"""
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope["rows"]


def _log_prior(theta):  # type: ignore[no-untyped-def]  # a template
    return PRIOR(theta)[0].item()  # type: ignore[name-defined]  # noqa: F821 (bound)


def _add_gradient(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    gradient = GRADIENT(theta, *ROWS(data, order, lo, hi))[0]  # type: ignore[name-defined]  # noqa: F821 (bound)
    for j in range(out.shape[0]):
        out[j] += gradient[j]


def _add_prior_gradient(theta, out):  # type: ignore[no-untyped-def]  # a template
    gradient = GRADIENT(theta)[0]  # type: ignore[name-defined]  # noqa: F821 (bound)
    for j in range(out.shape[0]):
        out[j] += gradient[j]


def _has_minibatches(model: Any) -> bool:
    graphs = [*model.observed_RVs, *(model.rvs_to_values[variable] for variable in model.observed_RVs)]
    return any(v.owner is not None and isinstance(v.owner.op, MinibatchOp) for v in ancestors(graphs))


def _numba_function(inputs: Sequence[Any], outputs: Sequence[Any], example: Sequence[Any]) -> Any:
    """Compile by PyTensor's numba linker; return the dispatcher, which any compiled function may call."""
    function = pytensor.function(inputs, outputs, mode="NUMBA", on_unused_input="ignore", trust_input=True)
    function(*example)
    return function.vm.jit_fn
