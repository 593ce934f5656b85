"""A PyMC model as a target: its likelihood row by row, compiled by PyTensor, called from the chain's kernel.

The graph of the observed variable is rebuilt over the rows asked for: every constant and every shared array with an
axis as long as the data becomes an input that is indexed by the row numbers, and only then the log density is taken.
So a call costs what its rows cost, and nothing of size N is ever evaluated in a step. (Indexing the full
log-likelihood instead costs O(N) a call: PyTensor does not push the index down.)

This room alone stands on the semi-private surface of PyTensor and PyMC: here the removal of minibatches, in `rows` and
`graphs` the rebuilding of random variables, in `kernels` the dispatcher of what PyTensor's numba linker compiled.
"""

import contextlib
import functools
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.data import MinibatchOp
from pymc.model.transform.basic import remove_minibatched_nodes
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import (
    CompiledGradient,
    CompiledTarget,
    DifferentiableTarget,
    Target,
    TwinnedTarget,
    content_hash,
)
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.graphs import (
    evaluate,
    is_shared,
    leaves,
    merge_branches,
    over_flat,
    rebuild,
    simplify,
    value_of,
)
from approxmcmc.interop.hierarchies import group_effects
from approxmcmc.interop.kernels import (
    gradient_kernel,
    log_prior_kernel,
    log_terms_kernel,
    numba_function,
    prior_gradient_kernel,
)
from approxmcmc.interop.model_hash import model_hash
from approxmcmc.interop.rows import Rows, first_line, refuse_unsuitable
from approxmcmc.interop.variables import ModelVariables, describe_variables, flat, multiplier

CHECKED_POINTS, CHECKED_ROWS = 3, 64


def from_pymc(
    model: Any, row_dim: str | None = None, *, deterministics: bool = False, scale_effects: bool = True
) -> "PyMCTarget":
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
    scale_effects
        Whether samplers move sigma * z in place of a vector z of standard normal variables that one positive variable
        sigma multiplies, where there are 100 rows or more for each entry of z, and these differ by over 10 times the
        variance that the rows leave them. Draws come back as z either way.

    Returns
    -------
    PyMCTarget
        Its theta is the flat unconstrained vector, in the order of ``model.initial_point()``; draws come back
        constrained, under the model's names, dims and coords, as from ``pm.sample``. The attribute ``effects`` and the
        trace's attribute ``group_effects`` say which group effects are moved in what coordinates, and why.

    Raises
    ------
    IncompatibleError
        When the likelihood is no sum over rows, or cannot be read row by row; the message names the variable, the
        reason and the way out.
    InvalidInputError
        When `row_dim` names no dim of the model, or a row has no finite log-likelihood; the message names the row.

    Notes
    -----
    At construction the terms of all rows, evaluated in random groups, are compared with the full log-likelihood at
    three points: a coupling of rows that the graph hides is found there.

    Many rows per group know sigma z_j almost exactly, and z_j alone then bends with sigma: a ridge that no sampler
    follows (Papaspiliopoulos, Roberts and Skoeld 2007). In a = sigma z the posterior is nearly normal; its density has
    the factor ``sigma ** -J`` of the Jacobian, J the length of z, and is the same posterior whatever else the model
    does with z. Where groups hardly differ it has no mode, and the model's own coordinates are kept.

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
    return PyMCTarget(model, row_dim, deterministics=deterministics, scale_effects=scale_effects)


class PyMCTarget(Target, DifferentiableTarget, TwinnedTarget):
    """A PyMC model, read row by row; made by :func:`from_pymc`."""

    def __init__(
        self, model: Any, row_dim: str | None = None, *, deterministics: bool = False, scale_effects: bool = True
    ) -> None:
        if not isinstance(model, pm.Model):
            raise IncompatibleError(f"from_pymc needs a pm.Model, found {type(model).__name__}")
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
        self.effects = group_effects(model, self.n_obs, self._score) if scale_effects else []
        scaled = [(one.effect, one.scale) for one in self.effects if one.scale is not None]
        self._scales = {model.rvs_to_values[v]: model.replace_rvs_by_values([scale])[0] for v, scale in scaled}
        [terms] = over_flat([rows.terms()], self._theta, self._values, self._start, self._scales)
        self._terms: Any = merge_branches(simplify(terms))
        self._prior: Any = simplify(self._log_prior(rows))
        self._multiply = multiplier(self._theta, self._values, self._start, self._scales)
        self.variables = self._describe_variables(deterministics)
        self._hash = model_hash(model) or f"unreadable {uuid.uuid4()}"  # equal to no other, so never taken for one
        self._compile_terms()
        self._check_rows()

    def _score(self) -> Any:
        """Return the gradient of the log-likelihood of all rows, in the model's own coordinates."""
        [full] = over_flat([self._rows.all_terms().sum()], self._theta, self._values, self._start)
        return pytensor.function([self._theta], pt.grad(full, self._theta), mode="FAST_COMPILE")

    def _log_prior(self, rows: Rows) -> Any:
        model = self._model
        terms = list(model.logp(vars=model.free_RVs, sum=False, jacobian=True))
        for potential in model.potentials:
            if rows.are_read_by(potential):
                raise IncompatibleError(
                    f"from_pymc: the potential {potential.name!r} depends on the data, and nobody can tell which part "
                    "of it belongs to which row; write it as a likelihood (pm.CustomDist), or keep it to parameters"
                )
            terms += model.replace_rvs_by_values([potential])
        frozen = {leaf: pt.constant(value_of(leaf)) for leaf in leaves(terms) if is_shared(leaf)}
        terms += [-np.size(self._start[value.name]) * pt.log(pt.abs(scale)) for value, scale in self._scales.items()]
        terms = rebuild(terms, frozen)
        total = functools.reduce(lambda a, b: a + b, [term.sum() for term in terms])
        return over_flat([total], self._theta, self._values, self._start, self._scales)[0].astype("float64")

    def _describe_variables(self, deterministics: bool) -> ModelVariables:
        wanted = [v for v in self._model.deterministics if not self._rows.leaves & set(ancestors([v]))]
        wanted = wanted if deterministics else []
        return describe_variables(self._model, self._theta, self._start, wanted, self._scales)

    def _compile_terms(self) -> None:
        inputs = [self._theta, *self._rows.inputs]
        example = (self.initial_point(), *(array[:4] for array in self.data))
        with self._on_rows_alone():
            self._terms_function = numba_function(inputs, [self._terms], example)

    def _terms_of(self, theta: np.ndarray, rows: Any) -> np.ndarray:
        with self._on_rows_alone():
            return np.asarray(self._terms_function(theta, *(array[rows] for array in self.data))[0])

    @contextlib.contextmanager
    def _on_rows_alone(self) -> Iterator[None]:
        try:
            yield
        except (TypeError, ValueError, AssertionError, IndexError) as error:
            raise IncompatibleError(
                f"from_pymc: the likelihood of {self._observed.name!r} cannot be evaluated on some of its "
                f"{self.n_obs} rows alone. The usual reason is an array of that length made inside the model "
                f"(pt.zeros({self.n_obs})), or one whose length is fixed: give arrays as pm.Data, or let them "
                f"broadcast. PyTensor says: {first_line(error)}"
            ) from error

    def _check_rows(self) -> None:
        """Compare the terms, read in random groups, with the full log-likelihood."""
        [full] = over_flat([self._rows.all_terms()], self._theta, self._values, self._start, self._scales)
        function = pytensor.function([self._theta], simplify(full), mode="FAST_COMPILE")
        rng = np.random.default_rng(0)
        impossible = np.full(self.n_obs, True)
        for point in range(CHECKED_POINTS):
            theta = self.initial_point() + rng.normal(scale=0.5 * (point > 0), size=self._theta.type.shape[0])
            expected = np.asarray(function(theta))
            if expected.shape == impossible.shape:
                self._refuse_rows(np.isnan(expected) & (point == 0), "has the log-likelihood NaN at the initial point")
                impossible &= expected == -np.inf
            whole = self._terms_of(theta, slice(None))
            # One graph agrees with itself to rounding; with PyMC's, which is written otherwise, to 1e-6 where a law is
            # truncated.
            if not _are_close(whole, expected, 1e-6, 1e-6):
                self._refuse_coupling()
            order = rng.permutation(self.n_obs)
            # groups of one row, of some, and of many: a coupling may hide from one size, and always from all rows
            some = min(CHECKED_ROWS, max(1, self.n_obs // 3))
            stops = np.cumsum([1, some, *[max(CHECKED_ROWS, self.n_obs // 8)] * 9])
            for index in np.split(order, stops[stops < self.n_obs]):
                if not _are_close(self._terms_of(theta, index), whole[index], 1e-8, 1e-10):
                    self._refuse_coupling()
        self._refuse_rows(impossible, "is impossible (log-likelihood -inf) at the initial point and two more")

    def _refuse_coupling(self) -> None:
        raise IncompatibleError(
            f"from_pymc: the log-likelihood of a row of {self._observed.name!r} changes when other rows are left out "
            "(a cumulative sum, a mean over the data, centring inside the model): it is no sum of independent terms. "
            "Compute such quantities before the model, and pass them as data"
        )

    def _refuse_rows(self, bad: np.ndarray, fault: str) -> None:
        """Refuse data that no parameter explains, naming the first row and the arrays that are not finite there."""
        if not bad.any():
            return
        row = int(np.flatnonzero(bad)[0])
        arrays = zip(self._rows.names, self.data, strict=True)
        broken = [name for name, array in arrays if not np.isfinite(array[row]).all()]
        cause = f"{broken} hold NaN or infinity there." if broken else "they may lie outside the support."
        raise InvalidInputError(
            f"from_pymc: row {row} of the observed variable {self._observed.name!r} {fault}, and {int(bad.sum()) - 1} "
            f"others: {cause} Leave out or mend such rows, or give the variables an initval at which they can occur"
        )

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """What was observed, under the variable's name."""
        return {self._observed.name: np.asarray(evaluate(self._model.rvs_to_values[self._observed]))}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The model's data containers but the one that was observed itself, as `pm.sample` has them."""
        observed = self._model.rvs_to_values[self._observed]
        data = [variable for variable in self._model.data_vars if variable is not observed]
        return {variable.name: np.asarray(evaluate(variable)) for variable in data}

    def initial_point(self) -> np.ndarray:
        """Return the model's initial point, unconstrained; shape (dim,)."""
        return self._multiply(flat(self._start, self._values))

    def content_hash(self) -> str:
        """Return a hash of model and data; of a model whose operations cannot be read, one that no other target has."""
        self._refuse_changed_data()
        return content_hash(type(self).__name__, self._hash, *(value.name for value in self._scales))

    def compile(self) -> CompiledTarget:
        """Hand the compiled likelihood and prior to the chain; compiled once."""
        self._refuse_changed_data()
        return self._compiled

    def compile_gradient(self) -> CompiledGradient:
        """Hand the compiled gradients to the proposal; compiled once."""
        self._refuse_changed_data()
        return self._compiled_gradient

    @functools.cached_property
    def _compiled(self) -> CompiledTarget:
        terms = log_terms_kernel(self._terms_function, self.data)
        return CompiledTarget(terms, log_prior_kernel(self._prior_function), self.data, self.n_obs)

    @functools.cached_property
    def _compiled_gradient(self) -> CompiledGradient:
        gradient = gradient_kernel(self._gradient_function, self.data)
        return CompiledGradient(gradient, prior_gradient_kernel(self._prior_gradient_function), self.data, self.n_obs)

    @functools.cached_property
    def _prior_function(self) -> Any:
        return numba_function([self._theta], [self._prior], (self.initial_point(),))

    @functools.cached_property
    def _prior_gradient_function(self) -> Any:
        return numba_function([self._theta], [pt.grad(self._prior, self._theta)], (self.initial_point(),))

    @functools.cached_property
    def _gradient_function(self) -> Any:
        inputs = [self._theta, *self._rows.inputs]
        example = (self.initial_point(), *(array[:4] for array in self.data))
        return numba_function(inputs, [pt.grad(self._terms.sum(), self._theta)], example)

    def _refuse_changed_data(self) -> None:
        changed = [leaf.name for leaf, known in self._shared if content_hash(value_of(leaf)) != known]
        if changed:
            raise InvalidInputError(
                f"PyMCTarget: the data {changed} were changed (pm.set_data) after the target was made from the model; "
                "call from_pymc(model) again"
            )

    @property
    def setup_attrs(self) -> Mapping[str, str]:
        """In which coordinates group effects are moved, and why."""
        return {"group_effects": "; ".join(one.reason for one in self.effects)} if self.effects else {}

    def to_pymc(self) -> Any:
        """Return the model itself."""
        return self._given

    def __repr__(self) -> str:
        """Say what is observed, how many rows it has, and the free variables."""
        names = ", ".join(variable.name for variable in self._model.free_RVs)
        return f"PyMCTarget({self._observed.name}: {self.n_obs} rows; {names})"


def _are_close(found: np.ndarray, expected: np.ndarray, relative: float, absolute: float) -> bool:
    return found.shape == expected.shape and np.allclose(found, expected, relative, absolute, equal_nan=True)


def _has_minibatches(model: Any) -> bool:
    graphs = [*model.observed_RVs, *(model.rvs_to_values[variable] for variable in model.observed_RVs)]
    return any(v.owner is not None and isinstance(v.owner.op, MinibatchOp) for v in ancestors(graphs))
