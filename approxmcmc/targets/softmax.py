"""Softmax regression: two or more classes, each with a vector of coefficients.

The bound of Boehning (1992) replaces the Hessian of the log partition function by an upper bound without theta. With
eta = (x' beta_1, ..., x' beta_K), lse(eta) = log sum_k exp(eta_k), t the datum's class, any eta_0,

    log B = eta_t - [lse(eta_0) + g'(eta - eta_0) + (eta - eta_0)' A (eta - eta_0) / 2],   g = softmax(eta_0),
    A = (I - 11'/K) / 2,

which touches the likelihood at eta_0. Sums of log B only need X'X, not a (K p, K p) matrix: A is the same for all data.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import BoundedTarget, CompiledBound, CompiledTarget, Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled, kernel, type_of
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.numerics import exp_to_700
from approxmcmc.engine.terms.batches import Data, datum_at, log_terms_type
from approxmcmc.engine.terms.gradients import ROWS, gradient_signature
from approxmcmc.errors import IncompatibleError
from approxmcmc.families.categorical import log_sum_exp
from approxmcmc.targets.given import check_same_index, design_matrix, design_source, kept, response_source
from approxmcmc.targets.likelihood_bounds import ROWS as ROWS_OF_SUMS, check_kind, compile_bound
from approxmcmc.targets.predictors.base import PredictorsTarget
from approxmcmc.targets.predictors.closed_form import SoftmaxLikelihood
from approxmcmc.targets.predictors.design import Design, Predictor
from approxmcmc.targets.softmax_tables import WHO, SoftmaxTable, classes_of, prior_of
from approxmcmc.targets.tables import categorical_columns
from approxmcmc.targets.tall_data import TallDataTarget


@compiled(fastmath=set(BATCH_FASTMATH))
def _predictors(theta: np.ndarray, X: np.ndarray, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write x_i' beta_k to ``out[k, :hi - lo]`` for all classes k."""
    p = X.shape[1]
    for place in range(lo, hi):
        row = datum_at(order, place)
        for k in range(out.shape[0]):
            eta = 0.0
            for j in range(p):
                eta += X[row, j] * theta[k * p + j]
            out[k, place - lo] = eta


def _softmax_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    X, y = data
    eta, work = np.empty((theta.shape[0] // X.shape[1], hi - lo)), np.empty((2, hi - lo))
    _predictors(theta, X, order, lo, hi, eta)
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for i in range(hi - lo):
        out[i] = eta[y[datum_at(order, lo + i)], i] - work[1, i]


def _add_softmax_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    X, y = data
    p = X.shape[1]
    eta, work = np.empty((theta.shape[0] // p, ROWS)), np.empty((2, ROWS))
    for start in range(lo, hi, ROWS):  # rows are read twice; so few stay in the first-level cache until the second time
        stop = min(start + ROWS, hi)
        _predictors(theta, X, order, start, stop, eta)
        log_sum_exp(eta, stop - start, work[0], work[1])
        for place in range(start, stop):
            i, row = place - start, datum_at(order, place)
            for k in range(eta.shape[0]):
                # np.float64: without compilation, a Python float times a float32 is a float32.
                slope = (1.0 if k == y[row] else 0.0) - np.float64(exp_to_700(eta[k, i] - work[1, i]))
                for j in range(p):
                    out[k * p + j] += slope * X[row, j]


def _boehning_gaps(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write lse(eta_0) + g'delta + delta' A delta / 2 - lse(eta), delta = eta - eta_0: the gap for every response."""
    X, touch = data  # touch: lse(eta_0), then eta_0 and g of every class
    n_classes = (touch.shape[1] - 1) // 2
    eta, work = np.empty((n_classes, hi - lo)), np.empty((3, hi - lo))
    _predictors(theta, X, order, lo, hi, eta)
    log_sum_exp(eta, hi - lo, work[0], work[1])
    total, square = work[0], work[2]
    for i in range(hi - lo):
        row = datum_at(order, lo + i)
        out[i] = touch[row, 0] - work[1, i]
        total[i] = square[i] = 0.0
        for k in range(n_classes):
            delta = eta[k, i] - touch[row, 1 + k]
            total[i] += delta
            square[i] += delta * delta
            out[i] += touch[row, 1 + n_classes + k] * delta
    for i in range(hi - lo):
        out[i] += 0.25 * (square[i] - total[i] * total[i] / n_classes)


def _boehning_gap_gradient(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, weights: np.ndarray, out: np.ndarray
) -> None:
    X, touch = data
    n_classes, p = (touch.shape[1] - 1) // 2, X.shape[1]
    eta, work = np.empty((n_classes, hi - lo)), np.empty((2, hi - lo))
    _predictors(theta, X, order, lo, hi, eta)
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for place in range(lo, hi):
        i, row = place - lo, datum_at(order, place)
        mean = 0.0
        for k in range(n_classes):
            mean += (eta[k, i] - touch[row, 1 + k]) / n_classes
        for k in range(n_classes):
            slope = touch[row, 1 + n_classes + k] - exp_to_700(eta[k, i] - work[1, i])
            slope = weights[i] * (slope + 0.5 * (eta[k, i] - touch[row, 1 + k] - mean))
            for j in range(p):
                out[k * p + j] += slope * X[row, j]


def _boehning_sum(theta: np.ndarray, sums: Data) -> float:
    gram, linear, constant = sums
    p = gram.shape[0]
    n_classes = theta.shape[0] // p
    total = constant[0]
    mean = np.zeros(p)
    for k in range(n_classes):
        for j in range(p):
            mean[j] += theta[k * p + j] / n_classes
            total += linear[k * p + j] * theta[k * p + j]
    for k in range(n_classes):
        for i in range(p):
            row = 0.0
            for j in range(p):
                row += gram[i, j] * (theta[k * p + j] - mean[j])
            total -= 0.25 * row * (theta[k * p + i] - mean[i])
    return total


def _boehning_sum_gradient(theta: np.ndarray, sums: Data, out: np.ndarray) -> None:
    gram, linear, _ = sums
    p = gram.shape[0]
    n_classes = theta.shape[0] // p
    mean = np.zeros(p)
    for k in range(n_classes):
        for j in range(p):
            mean[j] += theta[k * p + j] / n_classes
    for k in range(n_classes):
        for i in range(p):
            row = 0.0
            for j in range(p):
                row += gram[i, j] * (theta[k * p + j] - mean[j])
            out[k * p + i] += linear[k * p + i] - 0.5 * row


class SoftmaxRegression(PredictorsTarget, BoundedTarget):
    """Multinomial logistic regression: P(y_i = k) = exp(x_i' beta_k) / sum_l exp(x_i' beta_l), beta_kj ~ N(0, s^2).

    Parameters
    ----------
    X
        Predictors, shape (n, p), float32 or float64; a DataFrame's columns become the labels of the coefficients. X
        and y may be sources (`approxmcmc.sources`). With columns of text or categories the result is a `SoftmaxTable`.
    y
        Classes, shape (n,); any integers or whole numbers. Sorted, they label the dimension ``category``.
    prior_scale
        Prior standard deviation s of every coefficient, finite: with a flat prior the posterior is improper, because
        adding the same vector to all beta_k does not change the likelihood.
    intercept
        Add a column of ones in front, called "intercept", with the same prior.
    prior
        A function ``log_prior(beta) -> float`` that replaces the normal prior; beta is one vector, class by class.
    coef_names
        Labels of the columns of X, in place of those of a DataFrame or x0, x1, ...

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, y holds fewer than two classes or numbers that are not
        whole, or the prior is flat.

    Notes
    -----
    The trace holds ``beta``, with the dimensions ``category`` and ``coef``.

    References
    ----------
    Boehning (1992), Multinomial logistic regression algorithm; Maclaurin and Adams (2014), section 4.2.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> amc.targets.SoftmaxRegression(rng.normal(size=(100, 2)), rng.integers(3, size=100))
    SoftmaxRegression(n_obs=100, n_classes=3, dim=6)
    """

    by_row = ("data", "X", "y", "design", "responses")
    terms_are_concave = True

    @naming_the_arguments
    def __new__(
        cls, X: Any = None, y: Any = None, prior_scale: float = 1.0, intercept: bool = False, **settings: Any
    ) -> Any:
        """Return a softmax regression: a `SoftmaxTable` if X is a table with categories."""
        coded = cls is SoftmaxRegression and categorical_columns(X)
        return SoftmaxTable(X, y, prior_scale, intercept, **settings) if coded else super().__new__(cls)

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
    ) -> None:
        check_same_index(WHO, X=X, y=y)
        X, y = given = design_source(X, intercept=intercept), response_source(y)
        self.given = kept(given)
        X, y, coefs = design_matrix(X, y, intercept=intercept, coef_names=coef_names, who=WHO)
        self._labels, self.prior = classes_of(y), prior_of(prior_scale, prior)
        coords: dict[str, list[Any]] = {"category": [int(label) for label in self._labels], "coef": coefs}
        self.n_classes = len(self._labels)
        self.likelihood = SoftmaxLikelihood(self.n_classes)
        self._set_rows(X, y)
        self.variables = Variables({"beta": (self.n_classes, len(coefs))}, {"beta": tuple(coords)}, coords)

    def _set_rows(self, X: np.ndarray, y: np.ndarray) -> None:
        (n, p), self.X, self.y = X.shape, X, np.searchsorted(self._labels, y).astype(np.int64, copy=False)
        self.data, self.n_obs, self.responses = (self.X, self.y), n, (self.y,)
        classes = [Predictor((0, p), range(k * p, (k + 1) * p)) for k in range(self.n_classes)]
        self.design = Design(self.n_classes * p, X, np.empty((n, 0), dtype=np.int32), (), classes)

    def with_rows(self, given: tuple[np.ndarray, np.ndarray], n_obs: int) -> Self:
        """Return this model with other data: `given` is (X, y), with the columns of this model's X, and its classes."""
        other = copy.copy(self)
        other.given = None
        other._set_rows(*given)
        return other

    def predictor_data(self, data: Data) -> Data:
        """Return the data (X, y) as the arrays of a design with columns that all classes share, followed by y."""
        X, y = data
        return X, np.empty((len(X), 0), dtype=np.int32), *self.design.arrays[2:], y

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, without a kernel that evaluates a row at two thetas."""
        return TallDataTarget.compile(self)

    def _log_terms(self) -> Any:
        return kernel(_softmax_terms, log_terms_type(type_of(self.data)).signature, fastmath=BATCH_FASTMATH)

    def _term_gradients(self) -> Any:
        return kernel(_add_softmax_gradient, gradient_signature(type_of(self.data)), fastmath=BATCH_FASTMATH)

    def _identity(self) -> str:
        return content_id(_softmax_terms)

    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Return Boehning's lower bound of the likelihood: "tuned" touches it at `at`, "untuned" at 0."""
        check_kind(kind, ("tuned", "untuned"), at, who=WHO)
        p = self.X.shape[1]
        beta_0 = np.reshape(np.zeros(self.n_classes * p) if kind == "untuned" or at is None else at, (-1, p))
        eta_0 = self.X @ beta_0.T
        largest = eta_0.max(axis=1, keepdims=True)
        log_partition = np.log(np.exp(eta_0 - largest).sum(axis=1)) + largest[:, 0]
        gradient = np.exp(eta_0 - log_partition[:, None])
        centred = eta_0 - eta_0.mean(axis=1, keepdims=True)  # 2 A eta_0
        linear = -gradient + 0.5 * centred
        linear[np.arange(self.n_obs), self.y] += 1.0
        constant = (gradient * eta_0).sum(axis=1) - log_partition - 0.25 * (centred * eta_0).sum(axis=1)
        gram = np.zeros((p, p))
        for lo in range(0, self.n_obs, ROWS_OF_SUMS):
            rows = np.asarray(self.X[lo : lo + ROWS_OF_SUMS], np.float64)
            gram += rows.T @ rows
        sums = (gram, (linear.T @ self.X).ravel(), np.array([math.fsum(constant)]))
        kernels = (_boehning_gaps, _boehning_sum, _boehning_gap_gradient, _boehning_sum_gradient)
        touch = np.ascontiguousarray(np.column_stack([log_partition, eta_0, gradient]))
        return compile_bound((self.X, touch), sums, *kernels)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The classes y, as indices into the labels of the dimension ``category``."""
        return {"y": self.y}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The predictors X, with the column of ones if there is an intercept."""
        return {"X": self.X}

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels."""
        if self.prior.function is not None:
            raise IncompatibleError(f"{WHO}: a prior given as a function has no PyMC twin; use prior_scale")
        import pymc as pm

        with pm.Model(coords=dict(self.variables.coords)) as model:
            beta = pm.Normal("beta", 0.0, self.prior.scale, dims=("category", "coef"))
            eta = pm.math.dot(np.asarray(self.X, np.float64), beta.T)
            pm.Categorical("y", logit_p=eta, observed=self.y.astype(np.int32))
        return model

    def __repr__(self) -> str:
        """Show the size."""
        return f"SoftmaxRegression(n_obs={self.n_obs}, n_classes={self.n_classes}, dim={self.variables.size})"
