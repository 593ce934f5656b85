"""Likelihoods of one row as functions of its predictors and responses, and their derivatives.

Kernels and expansions use a likelihood only through three batch functions. Each reads predictors ``eta[k, i]``, shape
(K, rows), and the rows ``order[lo:hi]`` of a tuple of arrays of responses.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.contracts import TermWork
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import (
    BATCH_FASTMATH,
    INDICES,
    MATRIX,
    VECTOR,
    allocating,
    closure,
    kernel,
    type_of,
)
from approxmcmc.engine.compiler.identity import cached_by_content, content_id
from approxmcmc.engine.compiler.operations import TRANSCENDENTAL, operations
from approxmcmc.engine.terms.batches import row_reader
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.families.family import Minorant
from approxmcmc.targets.checks import check_gradient


class RowLikelihood(abc.ABC):
    """log p(y_i | eta_i1 ... eta_iK), up to a constant of each row.

    A likelihood of one predictor may also bound its derivatives in eta, over all rows or row by row, and have lower
    bounds of its terms that are quadratic in eta, its minorants.
    """

    n_predictors: int
    """The number K."""
    knows_derivatives: bool = True
    """Whether slopes and second derivatives are exact, and not differences."""
    predictor_scale: float | None = None
    """Change of eta over which the second derivative changes much, such as 1 for a logit; None if it has no scale."""
    slope_bound: float | None = None
    """Upper bound of abs(d log p / d eta) over all rows and all eta; None if it is unknown."""
    second_derivative_bound: float | None = None
    """Upper bound of abs(d^2 log p / d eta^2), None if unknown; for residuals of first-order expansions."""
    third_derivative_bound: float | None = None
    """Upper bound of abs(d^3 log p / d eta^3), None if unknown; for residuals of second-order expansions."""
    bounds_derivatives: bool = False
    """Whether it bounds its derivatives, or can say which argument would bound them."""

    bounds_forms: bool = False
    """Whether a likelihood of several predictors bounds its derivatives, see `forms_within`."""
    forms_are_global: bool = False
    """Whether these bounds are finite for all predictors, within an infinite radius."""

    def forms_within(
        self, order: int, eta: np.ndarray, responses: tuple[np.ndarray, ...], covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return upper bounds of the absolute derivatives of rows in a direction, of second or third order; (rows,).

        The predictors of a row are linear functions of a vector phi, A phi, with A A' = ``covariances[i]``, shape
        (rows, K, K). A direction is A u for a unit vector u; the bounds hold for all of them, and wherever phi differs
        by at most `radius` from a point with the predictors `eta` (K, rows).
        """
        raise IncompatibleError("these terms have no bounds in several predictors")

    def slopes_within(
        self, eta: np.ndarray, responses: tuple[np.ndarray, ...], covariances: np.ndarray, radius: float
    ) -> np.ndarray | None:
        """Return upper bounds of the absolute slopes of rows in a direction, as `forms_within`; None if unknown."""
        return None

    def covering(self, responses: tuple[np.ndarray, ...]) -> "RowLikelihood":
        """Return the likelihood with bounds that also hold for rows with these responses."""
        return self

    @property
    def single(self) -> "RowLikelihood":
        """The likelihood of rows without weights: this one, unless it is a weighted one."""
        return self

    @property
    def bounds(self) -> tuple[float | None, float | None, float | None]:
        """Upper bounds of the first three absolute derivatives over all rows and all eta; None each if unknown."""
        return self.slope_bound, self.second_derivative_bound, self.third_derivative_bound

    def derivative_bounds(self, order: int, responses: tuple[np.ndarray, ...]) -> np.ndarray | None:
        """Return an upper bound of abs(d^k log p / d eta^k), k = `order`, over all eta for each row; shape (n,).

        None if it is unknown, or infinite for a row.
        """
        bound = self.bounds[order - 1]
        return None if bound is None else np.full(len(responses[0]), bound)

    def derivative_within(
        self, order: int, eta: np.ndarray, responses: tuple[np.ndarray, ...], reach: np.ndarray
    ) -> np.ndarray | None:
        """Return upper bounds of abs(d^k log p(y_i | t) / dt^k), k = `order`, over abs(t - eta_i) <= reach_i; (rows,).

        They are for rows with one predictor, k = 1, 2 or 3; None if they are unknown.
        """
        bound = self.bounds[order - 1]
        return None if bound is None else np.full(len(eta), bound)

    def of_one_response(self, responses: tuple[np.ndarray, ...]) -> tuple[Callable[..., float], np.ndarray] | None:
        """Return the term as a function of one predictor and one number, and this number for each row.

        The number is the response, or a complex number that also holds a size or a weight. None if a term reads more.
        """
        return None

    def bound_kinds(self, responses: tuple[np.ndarray, ...]) -> tuple[str, ...]:
        """Return the names of the minorants of rows with these responses, see `minorant`."""
        return ()

    def minorant(self, kind: str, responses: tuple[np.ndarray, ...], eta_0: np.ndarray) -> Minorant:
        """Return the minorant `kind`, one of `bound_kinds`; a tuned one touches the terms at eta_0 (n,)."""
        raise IncompatibleError(f"these terms have no lower bound called {kind!r}")

    def work(self) -> TermWork:
        """Return the operations of a row, given its predictors: one exponential (ten operations) for each predictor."""
        return TermWork(TRANSCENDENTAL * self.n_predictors, TRANSCENDENTAL * self.n_predictors, 0.0)

    def compile(self, name: str, responses: tuple[np.ndarray, ...]) -> Any:
        """Compile one of the batch functions, "terms", "slopes" or "expansion", for responses of these types."""
        return kernel(getattr(self, name)(), self.signature(name, responses), fastmath=BATCH_FASTMATH)

    def evaluate(self, eta: np.ndarray, responses: tuple[np.ndarray, ...], rows: np.ndarray) -> np.ndarray:
        """Return the terms of the rows with indices `rows`, given their predictors `eta` (K, rows); shape (rows,)."""
        out = np.empty(len(rows))
        chosen = tuple(np.ascontiguousarray(array[rows]) for array in responses)
        self.compile("terms", responses)(eta, chosen, np.arange(len(rows)), 0, len(rows), out)
        return out

    def signature(self, name: str, responses: tuple[np.ndarray, ...]) -> Any:
        """Return the numba signature of the batch function "terms", "slopes" or "expansion"."""
        out = VECTOR if name == "terms" else MATRIX
        return nb.void(MATRIX, type_of(responses), INDICES, nb.int64, nb.int64, out)

    @property
    def n_numbers(self) -> int:
        """Numbers of a row's second-order expansion: value, K slopes, K (K + 1) / 2 second derivatives."""
        K = self.n_predictors
        return 1 + K + K * (K + 1) // 2

    @abc.abstractmethod
    def terms(self) -> Callable[..., None]:
        """Return ``terms(eta, responses, order, lo, hi, out)``, which writes the terms to ``out[:hi - lo]``."""

    @abc.abstractmethod
    def slopes(self) -> Callable[..., None]:
        """Return the batch function of the slopes; ``out[k, :hi - lo]`` are the slopes in predictor k."""

    @abc.abstractmethod
    def expansion(self) -> Callable[..., None]:
        """Return the batch function of expansions.

        ``out[i]`` is value, slopes, and upper triangle of the Hessian of the row ``order[lo + i]``.
        """

    @abc.abstractmethod
    def identity(self) -> str:
        """Return a hash of the likelihood's code."""


class ScalarLikelihood(RowLikelihood):
    """A likelihood written as ``loglik(eta_1, ..., eta_K, y_1, ..., y_m) -> float``.

    Parameters
    ----------
    loglik
        The function, plain Python.
    n_predictors, n_responses
        The numbers K and m.
    derivatives
        ``derivatives(eta_1, ..., y_m)``, which returns a tuple of K slopes and then the K (K + 1) / 2 second
        derivatives, row by row of the upper triangle; None: differences.
    """

    def __init__(
        self,
        loglik: Callable[..., float],
        n_predictors: int,
        n_responses: int,
        derivatives: Callable[..., tuple[float, ...]] | None = None,
    ) -> None:
        self.loglik = loglik
        self.n_predictors = n_predictors
        self.n_responses = n_responses
        self.knows_derivatives = derivatives is not None
        self.derivatives = derivatives or differences(loglik, n_predictors, n_responses)

    def of_one_response(self, responses: tuple[np.ndarray, ...]) -> tuple[Callable[..., float], np.ndarray] | None:
        """Return the function and the response, if there is one of each predictors and responses."""
        return (self.loglik, responses[0]) if self.n_predictors == self.n_responses == 1 else None

    def work(self) -> TermWork:
        """Return the operations of a row, from the byte code of the user's or the library's functions."""
        ours = (self.loglik.__module__ or "").startswith(__name__.partition(".")[0] + ".")
        return TermWork(operations(self.loglik), operations(self.derivatives), 0.0, "library" if ours else "python")

    def terms(self) -> Callable[..., None]:
        """Return the batch function of the terms: a loop over rows that calls ``loglik``."""
        K = self.n_predictors
        m = self.n_responses
        return loop_over_rows(K, m, [f"out[i] = loglik({arguments(K, m)})"], loglik=self.loglik)

    def slopes(self) -> Callable[..., None]:
        """Return the batch function of the slopes: a loop over rows that calls ``derivatives``."""
        K = self.n_predictors
        m = self.n_responses
        keep = [f"out[{k}, i] = numbers[{k}]" for k in range(K)]
        statement = f"numbers = derivatives({arguments(K, m)})"
        return loop_over_rows(K, m, [statement, *keep], derivatives=self.derivatives)

    def expansion(self) -> Callable[..., None]:
        """Return the batch function of expansions: a loop over rows that calls ``loglik`` and ``derivatives``."""
        K = self.n_predictors
        m = self.n_responses
        keep = [f"out[i, {1 + k}] = numbers[{k}]" for k in range(self.n_numbers - 1)]
        lines = [f"out[i, 0] = loglik({arguments(K, m)})", f"numbers = derivatives({arguments(K, m)})", *keep]
        return loop_over_rows(K, m, lines, loglik=self.loglik, derivatives=self.derivatives)

    def identity(self) -> str:
        """Return a hash of the function."""
        return content_id(self.loglik)

    def check_derivatives(self, responses: Sequence[float], name: str) -> None:
        """Compare the slopes with differences of ``loglik``, and the second derivatives with differences of the slopes.

        Raises
        ------
        InvalidInputError
            If there are not K + K (K + 1) / 2 derivatives, or one is wrong; the message calls them `name`.
        """
        K = self.n_predictors
        at = np.full(self.n_predictors, 0.25)
        shape = np.shape(self.derivatives(*at, *responses))
        if shape != (self.n_numbers - 1,):
            raise InvalidInputError(
                f"{speaker()}: derivatives must return a tuple of {K} slopes and {K * (K + 1) // 2} second "
                f"derivatives, found shape {shape}"
            )
        # Row 0 of the loop compares the slopes with differences of loglik, row k the derivatives of slope k with
        # differences of this slope. `entry_of[j, k]` is the place of d^2 / d eta_j d eta_k in the user's tuple.
        entry_of = np.zeros((K, K), dtype=int)
        entry_of[np.triu_indices(K)] = np.arange(K, self.n_numbers - 1)
        labels = [f"eta_{k + 1}" for k in range(K)]
        for k, entries in enumerate([np.arange(K), *np.maximum(entry_of, entry_of.T)]):

            def value(eta: np.ndarray, k: int = k) -> float:
                return self.derivatives(*eta, *responses)[k - 1] if k else self.loglik(*eta, *responses)

            def add_gradient(eta: np.ndarray, out: np.ndarray, entries: np.ndarray = entries) -> None:
                out += np.array(self.derivatives(*eta, *responses))[entries]

            name_of_row = f"{name}: row {k} of the second derivatives" if k else name
            check_gradient(value, add_gradient, at, name_of_row, labels)


STEP = 5e-3  # step of differences in a predictor of size 1; as in `families.user.numerical_derivatives`


def loop_over_rows(K: int, m: int, lines: Sequence[str], **functions: Any) -> Callable[..., None]:
    """Return ``loop(eta, responses, order, lo, hi, out)``, which runs `lines` for each row i.

    A line may name `functions`, predictors ``eta0[i]`` and responses ``y0[i]``, see `arguments`.
    """
    make = _loop_maker(K, m, tuple(lines), tuple(functions))
    return closure(make, *functions.values(), fastmath=BATCH_FASTMATH)


def arguments(K: int, m: int) -> str:
    """Return as text the arguments of the function of row i: ``eta0[i], ..., y0[i], ...``."""
    return ", ".join([*(f"eta{k}[i]" for k in range(K)), *(f"y{k}[i]" for k in range(m))])


@cached_by_content(maxsize=64)
def _loop_maker(K: int, m: int, lines: tuple[str, ...], names: tuple[str, ...]) -> Callable[..., Any]:
    responses = "".join(f"y{k}, " for k in range(m))
    predictors = "".join(f"eta{k}, " for k in range(K))
    body = "\n".join(f"            {line}" for line in lines)
    source = f"""
def make({", ".join(names)}):
    def loop(eta, responses, order, lo, hi, out):
        {responses}= rows(responses, order, lo, hi)
        {predictors}= {"".join(f"eta[{k}], " for k in range(K))}
        for i in range(hi - lo):
{body}
    return loop
"""
    return _run(source, {"rows": allocating(row_reader(m))})


def differences(function: Callable[..., float], K: int, m: int) -> Callable[..., tuple[float, ...]]:
    """Return the ``derivatives`` of a function of K + m numbers, see `ScalarLikelihood`, by differences.

    The errors of the derivatives, about 1e-9 and 1e-8 of the scale of the function, make no exact sampler inexact: the
    expansion differs slightly from the Taylor polynomial, and the residuals correct the difference.
    """
    return closure(_difference_maker(K, m), function, fastmath=BATCH_FASTMATH)


@cached_by_content(maxsize=16)
def _difference_maker(K: int, m: int) -> Callable[..., Any]:
    # Five-point rules of fourth order: f' = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, and the like for f''. In the
    # text, e_k are predictors, h_k their steps; a_k, b_k, c_k, d_k the values at +h_k, -h_k, +2h_k, -2h_k.
    names = [*(f"e{k}" for k in range(K)), *(f"y{k}" for k in range(m))]

    def call_at(**steps: float) -> str:
        """Return as text the call of the function with each argument named in `steps` moved by so many steps."""
        moved = [f"{name} + {steps[name]} * h{name[1:]}" if name in steps else name for name in names]
        return f"at({', '.join(moved)})"

    lines = [f"h{k} = {STEP} * (1.0 + abs(e{k}))" for k in range(K)] + [f"middle = {call_at()}"]
    results = []
    for k in range(K):
        lines += [
            f"{side}{k} = {call_at(**{f'e{k}': step})}"
            for side, step in zip("abcd", (1.0, -1.0, 2.0, -2.0), strict=True)
        ]
        results.append(f"(8.0 * (a{k} - b{k}) - (c{k} - d{k})) / (12.0 * h{k})")
    for k in range(K):
        results.append(f"(16.0 * (a{k} + b{k}) - (c{k} + d{k}) - 30.0 * middle) / (12.0 * h{k} * h{k})")
        for j in range(k + 1, K):
            for name, step in (("near", 1.0), ("far", 2.0)):
                first = f"e{k}"
                second = f"e{j}"
                same = f"{call_at(**{first: step, second: step})} + {call_at(**{first: -step, second: -step})}"
                opposite = f"{call_at(**{first: step, second: -step})} + {call_at(**{first: -step, second: step})}"
                lines.append(f"{name}{k}_{j} = {same} - ({opposite})")
            results.append(f"(16.0 * near{k}_{j} - far{k}_{j}) / (48.0 * h{k} * h{j})")
    body = "\n".join(f"        {line}" for line in lines)
    source = f"""
def make(at):
    def derivatives({", ".join(names)}):
{body}
        return ({", ".join(results)},)
    return derivatives
"""
    return _run(source, {})


def _run(source: str, scope: dict[str, Any]) -> Callable[..., Any]:
    """Return the function `make` that a source defines.

    It is text, because a function of K predictors and m responses is called with K + m numbers: closures that add one
    number each to a tuple compile for several times as long, see `engine.terms.batches.row_reader`.
    """
    exec(source, scope)
    function: Callable[..., Any] = scope["make"]
    return function
