"""The target that evaluates the graph of a PyMC model unchanged, on the requested rows.

It is first compared with the whole model: terms read in random groups of rows must equal those of the full
log-likelihood; otherwise the model couples rows, and the target raises.

Workers of a cluster get the graph of the terms: code compiled by PyTensor is not sent, and no kernel around it is
cached on disk, so each worker compiles the graph once, for all parts of the rows that it holds.
"""

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np
import pytensor.tensor as pt

from approxmcmc.contracts import (
    CompiledGradient,
    CompiledTarget,
    DifferentiableTarget,
    Target,
    TermWork,
    TwinnedTarget,
)
from approxmcmc.contracts.speaker import speaking
from approxmcmc.contracts.variables import Variables
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.attempts import first_line, refusals
from approxmcmc.interop.comparison import ROUNDING, compare
from approxmcmc.interop.graphs import merge_branches, simplify, work_of_a_row
from approxmcmc.interop.kernels import (
    gradient_kernel,
    log_prior_kernel,
    log_terms_kernel,
    numba_function,
    prior_gradient_kernel,
)
from approxmcmc.interop.model import ModelOfPyMC, TargetOfPyMC
from approxmcmc.interop.prior import log_prior_of
from approxmcmc.interop.rows import ON_SOME_ROWS, random_groups
from approxmcmc.interop.walk import in_python
from approxmcmc.sources.parts import MadeOfRows
from approxmcmc.targets.checks import ROWS_AT_ONCE, checked_array
from approxmcmc.targets.given import kept

CHECKED_POINTS = 3
IMPOSSIBLE = "is impossible (log-likelihood -inf) at the initial point and two more"


class GraphOfRows:
    """The graph `terms` of the flat `theta` and of the `inputs` with rows; `example` holds a theta and a few rows."""

    def __init__(self, theta: Any, inputs: Sequence[Any], terms: Any, example: Sequence[np.ndarray]) -> None:
        self.theta = theta
        self.inputs = list(inputs)
        self.terms = terms
        self.example = list(example)

    @functools.cached_property
    def function(self) -> Any:
        """The terms as a function of theta and rows, compiled by PyTensor for numba."""
        return numba_function([self.theta, *self.inputs], [self.terms], self.example)

    @functools.cached_property
    def gradient(self) -> Any:
        """The gradient of the sum of the terms as a function of theta and rows, compiled by PyTensor for numba."""
        return numba_function([self.theta, *self.inputs], [pt.grad(self.terms.sum(), self.theta)], self.example)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without compiled functions."""
        return {name: vars(self)[name] for name in ("theta", "inputs", "terms", "example")}


class TermsOfGraph(Target, DifferentiableTarget, MadeOfRows):
    """Terms and gradients, without the prior, that a worker makes from a graph and the rows that it holds."""

    data: tuple[np.ndarray, ...]

    def __init__(self, graph: GraphOfRows, n_obs: int, name: str) -> None:
        self.graph = graph
        self.n_obs = n_obs
        self.name = name
        self.variables = Variables({"theta": graph.example[0].shape})

    @speaking("from_pymc")
    def with_rows(self, given: Mapping[str, Any], n_obs: int) -> Self:
        """Return the terms of some rows, given as arrays by name."""
        other = copy.copy(self)
        arrays = (checked_array(rows, name, keep_float32=True) for name, rows in given.items())
        other.data = tuple(arrays)
        other.n_obs = n_obs
        return other

    def compile(self) -> CompiledTarget:
        """Compile the terms."""
        return CompiledTarget(log_terms_kernel(self.graph.function, self.data), None, self.data, self.n_obs)

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients of the terms."""
        return CompiledGradient(gradient_kernel(self.graph.gradient, self.data), None, self.data, self.n_obs)

    def initial_point(self) -> np.ndarray:
        """Return the theta of the example."""
        return self.graph.example[0]

    def content_hash(self) -> str:
        """Raise: this is only a part of a posterior."""
        raise IncompatibleError(f"{self.name}: the terms of the rows alone have no hash; use the target they come from")

    def __repr__(self) -> str:
        """Return a text that names the model."""
        return self.name


class PyMCTarget(MadeOfRows, TargetOfPyMC, Target, DifferentiableTarget, TwinnedTarget):
    """A PyMC model whose graph is evaluated unchanged, row by row; made by :func:`approxmcmc.from_pymc`."""

    def __init__(
        self,
        source: ModelOfPyMC,
        *,
        given: Mapping[str, Any] | None = None,
        why_no_structure: str = "",
    ) -> None:
        self.source = source
        self.why_no_structure = why_no_structure
        self.given = kept({name: given[name] for name in source.rows.names}) if given else None
        self.n_obs = source.rows.n_obs
        self.data = source.rows.data
        self._theta = source.theta
        [terms] = source.over_flat([source.rows.terms()])
        example = self.initial_point(), *(np.array(array[:4]) for array in self.data)
        self._graph = GraphOfRows(self._theta, source.rows.inputs, merge_branches(simplify(terms)), example)
        self._prior: Any = simplify(log_prior_of(source))
        self.variables = source.describe()
        self._check_rows()
        if source.rows.is_given:
            self._check_given()

    def without_rows(self) -> TermsOfGraph:
        """Return the graph of the terms, which is all that workers need for passes over the rows."""
        return TermsOfGraph(self._graph, self.n_obs, repr(self))

    def _terms_of(self, theta: np.ndarray, rows: Any) -> np.ndarray:
        """Return the terms of the model's own rows at the indices, or in the slice, `rows`."""
        with refusals(*ON_SOME_ROWS, reason=self._not_alone):
            return np.asarray(self._by_python(theta, *(array[rows] for array in self.source.rows.own)))

    @functools.cached_property
    def _by_python(self) -> Any:
        """The function of the terms in Python, which checks the bounds of arrays and takes no compilation."""
        inputs = [self._theta, *self.source.rows.inputs]
        return in_python(inputs, self._graph.terms)

    def _not_alone(self, error: Exception) -> IncompatibleError:
        rows = self.source.rows
        return IncompatibleError(
            f"from_pymc: the likelihood of {rows.name!r} cannot be evaluated on some of its {rows.n_rows} rows "
            f"alone. The usual reason is an array of that length made inside the model (pt.zeros({rows.n_rows})), "
            "or one whose length is fixed: give arrays as pm.Data, or let them broadcast; or a variable with an "
            "entry for each row, under a dim that is not that of the rows. "
            f"PyTensor says: {first_line(error)}"
        )

    def _check_rows(self) -> None:
        """Compare the terms, read in random groups, with the full log-likelihood."""
        coupled = self._why_coupled()
        rng = np.random.default_rng(0)
        n_rows = self.source.rows.n_rows
        impossible = np.full(n_rows, True)
        for point, theta in enumerate(self._points(rng)):
            expected = np.asarray(self.source.terms_by_pymc(theta))
            if expected.shape == impossible.shape:
                if point == 0 and np.isnan(expected).any():
                    self._refuse_undefined(np.isnan(expected), self.source.terms_by_pymc)
                impossible &= expected == -np.inf
            whole = self._terms_of(theta, slice(None))
            compare(whole, expected, coupled, finite=False)
            for index in random_groups(n_rows, rng):
                compare(self._terms_of(theta, index), whole[index], coupled, tolerance=ROUNDING, finite=False)
        self._refuse_rows(impossible, IMPOSSIBLE)

    def _points(self, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the initial point, and two random points around it."""
        for point in range(CHECKED_POINTS):
            yield self.initial_point() + rng.normal(scale=0.5 * (point > 0), size=self._theta.type.shape[0])

    def _check_given(self) -> None:
        """Evaluate all rows given by the user, in blocks; raise if a row has no finite log-likelihood."""
        undefined = np.full(self.n_obs, False)
        impossible = np.full(self.n_obs, True)
        for point, theta in enumerate(self._points(np.random.default_rng(0))):
            for lo in range(0, self.n_obs, ROWS_AT_ONCE):
                here = slice(lo, lo + ROWS_AT_ONCE)
                with refusals(IndexError, ValueError, reason=functools.partial(self._not_evaluated, here)):
                    terms = np.asarray(self._by_python(theta, *(array[here] for array in self.data)))
                undefined[here] |= np.isnan(terms) & (point == 0)
                impossible[here] &= terms == -np.inf
        self._refuse_rows(undefined, "has the log-likelihood NaN at the initial point")
        self._refuse_rows(impossible, IMPOSSIBLE)

    def _not_evaluated(self, rows: slice, error: Exception) -> InvalidInputError:
        return InvalidInputError(
            f"from_pymc: the terms of rows {rows.start} to {min(rows.stop, self.n_obs) - 1} of data cannot be "
            f"evaluated; perhaps a code is beyond the categories of the model: {first_line(error)}"
        )

    def _why_coupled(self) -> str:
        """Return the sentence on rows whose terms differ from the model's, or depend on which rows are evaluated."""
        return (
            f"the log-likelihood of a row of {self.source.rows.name!r} changes when other rows are left "
            "out (a cumulative sum, a mean over the data, centring inside the model): it is not a sum of independent "
            "terms. Compute such quantities before the model, and pass them as data"
        )

    def _refuse_undefined(self, at_start: np.ndarray, function: Any) -> NoReturn:
        """Raise because rows are NaN at the initial point; say whether rows or parameters are the cause."""
        _, *others = self._points(np.random.default_rng(0))
        with np.errstate(all="ignore"):
            everywhere = np.all([np.isnan(function(theta)) for theta in others], axis=0)
        if not (at_start & ~everywhere).any():
            self._refuse_rows(at_start, "has the log-likelihood NaN at the initial point")
        start = {name: np.asarray(value).tolist() for name, value in self.source.start.items()}
        raise InvalidInputError(
            f"from_pymc: the log-likelihood of {int(at_start.sum())} of {len(at_start)} rows of "
            f"{self.source.rows.name!r} is NaN at the initial point ({str(start)[1:-1]:.200}), and finite for some of "
            "these rows at points near it, so the values of the parameters are the cause, not the rows. With an "
            "inverse link, for example, the mean is infinite where the linear predictor is 0. Give the variables an "
            "initval at which the log-likelihood is finite, or take another link, such as the logarithm; or sample "
            "the model by NUTS, amc.sample(model)"
        )

    def _refuse_rows(self, bad: np.ndarray, fault: str) -> None:
        """Raise if `bad` marks a row; name the first one, its `fault`, and the arrays that are not finite there."""
        if not bad.any():
            return
        row = int(np.flatnonzero(bad)[0])
        rows = self.source.rows
        arrays = zip(rows.names, self.data if len(bad) == self.n_obs else rows.own, strict=True)
        broken = [name for name, array in arrays if not np.isfinite(array[row]).all()]
        cause = f"{broken} hold NaN or infinity there." if broken else "they may lie outside the support."
        raise InvalidInputError(
            f"from_pymc: row {row} of the observed variable {self.source.rows.name!r} {fault} (such rows: "
            f"{int(bad.sum())}): {cause} Leave out or correct such rows, or give the variables an initval at which "
            "they can occur"
        )

    @property
    def term_work(self) -> TermWork:
        """The work of a term, counted from its graph."""
        return work_of_a_row(self._graph.terms, self.n_obs, sum(array.nbytes for array in self.data) / self.n_obs)

    def compile(self) -> CompiledTarget:
        """Return the compiled likelihood and prior; compiled once."""
        self.source.refuse_changed_data()
        return self._compiled

    def compile_gradient(self) -> CompiledGradient:
        """Return the compiled gradients; compiled once."""
        self.source.refuse_changed_data()
        return self._compiled_gradient

    def compile_prior_gradient(self) -> Any:
        """Compile the gradient of the prior, once."""
        return self._compiled_prior_gradient

    @functools.cached_property
    def _compiled(self) -> CompiledTarget:
        terms = log_terms_kernel(self._graph.function, self.data)
        return CompiledTarget(terms, log_prior_kernel(self._prior_function), self.data, self.n_obs)

    @functools.cached_property
    def _compiled_gradient(self) -> CompiledGradient:
        gradient = gradient_kernel(self._graph.gradient, self.data)
        return CompiledGradient(gradient, self.compile_prior_gradient(), self.data, self.n_obs)

    @functools.cached_property
    def _prior_function(self) -> Any:
        return numba_function([self._theta], [self._prior], (self.initial_point(),))

    @functools.cached_property
    def _compiled_prior_gradient(self) -> Any:
        slope = pt.grad(self._prior, self._theta, disconnected_inputs="ignore")  # a flat prior is a constant
        return prior_gradient_kernel(numba_function([self._theta], [slope], (self.initial_point(),)))
