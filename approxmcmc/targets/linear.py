"""Generalised linear models: terms that depend on theta only through eta_i = x_i' theta.

The fast form of the library: a fused dot product for each row, then one vectorised loop of ``loglik_eta(eta, y)``
over the batch. A datum costs about 20 ns at 50 coefficients, a quarter of a general per-datum function.
"""

import copy
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import (
    BoundedTarget,
    CompiledBound,
    CompiledDifferenceBound,
    CompiledTarget,
    CompiledTermRange,
    TermWork,
    Variables,
)
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content, content_id
from approxmcmc.engine.compiler.operations import operations
from approxmcmc.engine.numerics import sigmoid, softplus
from approxmcmc.engine.terms.batches import linear_batch_kernel, linear_kernel_at_both
from approxmcmc.engine.terms.gradients import linear_gradient_kernel
from approxmcmc.engine.terms.term_range import distance_range
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import design_matrix, design_source, kept, response_source
from approxmcmc.targets.likelihood_bounds import logistic_bound
from approxmcmc.targets.tables import TableRegression, categorical_columns
from approxmcmc.targets.tall_data import Prior, TallDataTarget

STEEPEST = math.log(2.0 + math.sqrt(3.0))  # where m (1 - m) (2 m - 1), m = 1 / (1 + exp(-t)), is largest


def _bernoulli_logit(eta: float, y: float) -> float:
    """Return log p(y | eta) = y eta - log(1 + exp(eta)), y in {0, 1}."""
    return y * eta - softplus(eta)


def _bernoulli_logit_derivatives(eta: float, y: float) -> tuple[float, float]:
    """Return the first two derivatives of log p(y | eta) in eta: y - m and -m (1 - m), m = 1 / (1 + exp(-eta))."""
    mean = sigmoid(eta)
    return y - mean, -mean * (1.0 - mean)


def unit_normal(eta: float, y: float) -> float:
    """Return log p(y | eta) of a normal distribution with standard deviation 1, up to its constant."""
    return -0.5 * (y - eta) ** 2


def unit_normal_derivatives(eta: float, y: float) -> tuple[float, float]:
    """Return the first two derivatives of log p(y | eta) in eta, for standard deviation 1."""
    return y - eta, -1.0


@cached_by_content(maxsize=64)
def numerical_derivatives(function: Callable[[float, float], float]) -> Callable[[float, float], tuple[float, float]]:
    """Return ``derivatives(eta, y)``, the first two derivatives in eta of a function by five-point differences.

    Their errors, about 1e-9 and 1e-8 of the scale of the function, make no sampler inexact: the expansion differs
    slightly from the Taylor polynomial, and the residuals correct the difference.
    """
    at = compiled(function)

    def derivatives(eta: float, y: float) -> tuple[float, float]:
        h = 5e-3 * (1.0 + abs(eta))
        near, far = at(eta + h, y), at(eta + 2.0 * h, y)
        near_left, far_left = at(eta - h, y), at(eta - 2.0 * h, y)
        first = (8.0 * (near - near_left) - (far - far_left)) / (12.0 * h)
        second = (16.0 * (near + near_left) - (far + far_left) - 30.0 * at(eta, y)) / (12.0 * h * h)
        return first, second

    return derivatives


class LinearTarget(TallDataTarget):
    """Base class of generalised linear models: X, y, coefficient names, and the batch kernel of ``loglik_eta``."""

    _loglik_eta: Callable[[float, float], float]
    _derivatives_eta: Callable[[float, float], tuple[float, float]] | None = None
    slope_bound: float | None = None
    """Upper bound of abs(d log p(y_i | eta) / d eta) over all data and eta; None if it is unknown."""
    second_derivative_bound: float | None = None
    """Upper bound of abs(d^2 log p(y_i | eta) / d eta^2), or a function; for residuals of a first-order expansion."""
    third_derivative_bound: float | None = None
    """Upper bound of abs(d^3 log p(y_i | eta) / d eta^3), or a function; for residuals of a second-order expansion."""
    by_row = ("data", "X", "y")
    predictor_scale: float | None = None
    """How far eta moves until the second derivative changes, if one number is enough: 1 for a logit."""

    @property
    def derivatives_eta(self) -> Callable[[float, float], tuple[float, float]]:
        """The function ``derivatives(eta, y)`` that returns the first two derivatives of ``loglik_eta`` in eta."""
        return self._derivatives_eta or numerical_derivatives(self._loglik_eta)

    @property
    def knows_derivatives(self) -> bool:
        """Whether `derivatives_eta` are exact, and not differences."""
        return self._derivatives_eta is not None

    def _set_data(self, X: Any, y: Any, *, intercept: bool, coef_names: Sequence[str] | None) -> None:
        who = type(self).__name__
        X, y = design_source(X, intercept=intercept), response_source(y)
        self.given = kept((X, y))
        self.X, y, labels = design_matrix(X, y, intercept=intercept, coef_names=coef_names, who=who)
        self.y = self.responses(y.astype(np.float64, copy=False))
        self.data, self.n_obs = (self.X, self.y), len(y)
        self.variables = Variables({"beta": (len(labels),)}, {"beta": ("coef",)}, {"coef": labels})

    @staticmethod
    def responses(y: np.ndarray) -> np.ndarray:
        """Return the responses in the form that the likelihood needs; shape (n,)."""
        return y

    def with_rows(self, given: tuple[np.ndarray, np.ndarray], n_obs: int) -> Self:
        """Return this model with other data: X of floats, with a column of ones if this model has one, and y."""
        other = copy.copy(self)
        other.X, other.y, other.given = given[0], self.responses(given[1]), None
        other.data, other.n_obs = (other.X, other.y), n_obs
        return other

    @property
    def term_work(self) -> TermWork:
        """Operations of a term: a dot product and the function of it; a gradient adds one more pass over the row."""
        columns, bytes_of_row = self.X.shape[1], float(self.X[:1].nbytes + self.y[:1].nbytes)
        term, slope = operations(self._loglik_eta), operations(self.derivatives_eta)
        ours = (self._loglik_eta.__module__ or "").startswith(__name__.partition(".")[0] + ".")
        return TermWork(columns + term, 2.0 * columns + slope, bytes_of_row, "library" if ours else "python")

    def _log_terms(self) -> Any:
        return linear_batch_kernel(self._loglik_eta, self.data)

    def compile(self) -> CompiledTarget:
        """Compile terms and prior."""
        at_both = functools.partial(linear_kernel_at_both, self._loglik_eta, self.data)
        return super().compile()._replace(compile_at_both=at_both)

    def _term_gradients(self) -> Any:
        return linear_gradient_kernel(self.derivatives_eta, self.data)

    def compile_term_range(self) -> CompiledTermRange:
        """Compile ``2 slope_bound max_i ||x_i|| ||theta' - theta||``, which bounds the range of the terms."""
        if self.slope_bound is None:
            return super().compile_term_range()
        return CompiledTermRange(distance_range(), np.array([self.longest_gradients().max()]))

    def largest_row_norm(self) -> float:
        """Return max_i ||x_i||."""
        return float(self.row_norms().max())

    def row_norms(self) -> np.ndarray:
        """Return the ||x_i||; shape (n_obs,)."""
        squares = (np.square(rows, dtype=np.float64).sum(axis=1) for rows in _pieces(self.X))
        return np.sqrt(np.concatenate(list(squares)))

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile ``slope_bound ||x_i|| ||theta' - theta||``, which bounds the change of term i."""
        if self.slope_bound is None:
            return super().compile_difference_bound()
        distance = np.array([0.5])  # the range is twice the number times the distance
        return CompiledDifferenceBound(distance_range(), distance, self.longest_gradients(), np.empty(0))

    def longest_gradients(self) -> np.ndarray:
        """Return upper bounds of the lengths of the terms' gradients, ``slope_bound ||x_i||``; shape (n_obs,)."""
        assert self.slope_bound is not None
        return self.slope_bound * self.row_norms()

    def second_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return upper bounds of abs(d^2 log p(y_i | t) / dt^2) over abs(t - eta_i) <= reach_i; shape (rows,)."""
        if self.second_derivative_bound is None:
            raise IncompatibleError(
                f"{type(self).__name__} does not bound its second derivative, which exact subsampling of a "
                "first-order expansion needs; give a GLMTarget second_derivative_bound="
            )
        return np.full(len(eta), self.second_derivative_bound)

    def third_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return upper bounds of abs(d^3 log p(y_i | t) / dt^3) over abs(t - eta_i) <= reach_i; shape (rows,)."""
        if self.third_derivative_bound is None:
            raise IncompatibleError(
                f"{type(self).__name__} does not bound its third derivative, which exact subsampling of an expansion "
                "needs; give a GLMTarget third_derivative_bound=, a number or a function of (eta, y, reach)"
            )
        return np.full(len(eta), self.third_derivative_bound)

    def _identity(self) -> str:
        return content_id(self._loglik_eta)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The responses y."""
        return {"y": self.y}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The predictors X, with the column of ones where there is an intercept."""
        return {"X": self.X}

    def __repr__(self) -> str:
        """Show the model and its size."""
        return f"{type(self).__name__}(n_obs={self.n_obs}, dim={self.variables.size})"


def _pieces(X: np.ndarray, rows: int = 65_536) -> Iterator[np.ndarray]:
    """Yield an array in runs of rows: data larger than memory are read once, and squared without a copy of all."""
    return (X[start : start + rows] for start in range(0, len(X), rows))


def _bernoulli_of_pymc(eta: Any, y: np.ndarray) -> None:
    """Add y to the PyMC model of the current context."""
    import pymc as pm

    pm.Bernoulli("y", logit_p=eta, observed=y.astype(np.int32))


class LogisticRegression(LinearTarget, BoundedTarget):
    """Bayesian logistic regression: y_i ~ Bernoulli(1 / (1 + exp(-x_i' beta))), beta_j ~ N(0, prior_scale^2).

    Parameters
    ----------
    X
        Predictors, shape (n, p), float32 or float64; a DataFrame's columns become the labels of `beta`. X and y may be
        sources (`approxmcmc.sources`), which are laid out in a local file and mapped. Columns of text or categories are
        coded as integers: each such column is a separate variable, the effects of its levels relative to the first
        level.
    y
        Responses, shape (n,), in {0, 1} or {-1, 1}.
    prior_scale
        Prior standard deviation of every coefficient; ``inf`` for a flat prior. Prior precision 10 is ``10**-0.5``.
    intercept
        Add a column of ones in front, called "intercept", with the same prior.
    prior
        A function ``log_prior(beta) -> float`` in place of the normal prior.
    coef_names
        Labels of the columns, if X has none.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y holds anything but two classes coded as above.

    Notes
    -----
    Draws are called ``beta`` with the dimension ``coef``.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(int), prior_scale=2.0)
    LogisticRegression(n_obs=100, dim=2)
    """

    predictor_scale = 1.0
    slope_bound = 1.0  # y - m lies between -1 and 1
    second_derivative_bound = 0.25
    third_derivative_bound = 1.0 / (6.0 * math.sqrt(3.0))  # m (1 - m) (1 - 2 m) is largest at m = (1 + 1/sqrt(3)) / 2

    def __new__(
        cls, X: Any = None, y: Any = None, prior_scale: float = 1.0, intercept: bool = False, **settings: Any
    ) -> Any:
        """Return a logistic regression: a `TableRegression` if X is a table with categories."""
        if cls is not LogisticRegression or not categorical_columns(X):
            return super().__new__(cls)
        y = checked_array(response_source(y), "y", who="LogisticRegression").astype(np.float64)
        return TableRegression(
            _bernoulli_logit,
            X,
            cls.responses(y),
            derivatives_eta=_bernoulli_logit_derivatives,
            prior_scale=prior_scale,
            intercept=intercept,
            pymc_law=_bernoulli_of_pymc,
            who="LogisticRegression",
            **settings,
        )

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
        self._loglik_eta, self._derivatives_eta = _bernoulli_logit, _bernoulli_logit_derivatives
        self._set_data(X, y, intercept=intercept, coef_names=coef_names)
        self.prior = Prior(prior_scale, prior, who="LogisticRegression")

    @staticmethod
    def responses(y: np.ndarray) -> np.ndarray:
        """Return the responses as 0 and 1, from 0/1 or -1/1."""
        classes = {value for piece in _pieces(y) for value in np.unique(piece).tolist()}
        if not (classes <= {0.0, 1.0} or classes <= {-1.0, 1.0}):
            raise InvalidInputError(
                f"LogisticRegression: y must be coded 0/1 or -1/1, found {sorted(classes)[:5]}; recode the two classes"
            )
        return (y + 1.0) / 2.0 if -1.0 in classes else y

    def second_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the largest m (1 - m), m = 1 / (1 + exp(-t)), over abs(t - eta_i) <= reach_i: that nearest to 0."""
        mean = 1.0 / (1.0 + np.exp(-np.maximum(np.abs(eta) - reach, 0.0)))
        return mean * (1.0 - mean)

    def third_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the largest m (1 - m) abs(1 - 2 m), m = 1 / (1 + exp(-t)), over abs(t - eta_i) <= reach_i.

        It is even in t, rises from 0 to its maximum at `STEEPEST`, and falls: the largest value lies there, or at the
        end of the interval that is nearer to it.
        """
        nearest, farthest = np.maximum(np.abs(eta) - reach, 0.0), np.abs(eta) + reach
        at = np.clip(STEEPEST, nearest, farthest)
        mean = 1.0 / (1.0 + np.exp(-at))
        return mean * (1.0 - mean) * (2.0 * mean - 1.0)

    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Return the collapsible lower bound of the likelihood: "tuned" and "taylor" at a theta, or "untuned"."""
        return logistic_bound(self.X, self.y, kind, at)

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels."""
        import pymc as pm

        if self.prior.function is not None:
            raise IncompatibleError("LogisticRegression: a prior given as a function has no PyMC twin; use prior_scale")
        with pm.Model(coords={"coef": self.variables.coords["coef"]}) as model:
            flat = np.isinf(self.prior.scale)
            beta = pm.Flat("beta", dims="coef") if flat else pm.Normal("beta", 0.0, self.prior.scale, dims="coef")
            _bernoulli_of_pymc(np.asarray(self.X, np.float64) @ beta, self.y)
        return model
