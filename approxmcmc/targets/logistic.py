"""Logistic regression: the log-likelihood of a row, its bounds, and the twin in PyMC."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import BoundedTarget, CompiledBound
from approxmcmc.engine.numerics import sigmoid, softplus
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import response_source
from approxmcmc.targets.likelihood_bounds import logistic_bound
from approxmcmc.targets.linear import LinearTarget, pieces
from approxmcmc.targets.tables import TableRegression, categorical_columns
from approxmcmc.targets.tall_data import Prior

STEEPEST = math.log(2.0 + math.sqrt(3.0))  # where m (1 - m) (2 m - 1), m = 1 / (1 + exp(-t)), is largest


def _bernoulli_logit(eta: float, y: float) -> float:
    """Return log p(y | eta) = y eta - log(1 + exp(eta)), y in {0, 1}."""
    return y * eta - softplus(eta)


def _bernoulli_logit_derivatives(eta: float, y: float) -> tuple[float, float]:
    """Return the first two derivatives of log p(y | eta) in eta: y - m and -m (1 - m), m = 1 / (1 + exp(-eta))."""
    mean = sigmoid(eta)
    return y - mean, -mean * (1.0 - mean)


def _bernoulli_of_pymc(eta: Any, y: np.ndarray) -> None:
    """Add the variable y with log odds `eta` to the PyMC model of the current context."""
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
        Labels of the columns of X, in place of those of a DataFrame or x0, x1, ...

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y is not coded as above.

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
        classes = {value for piece in pieces(y) for value in np.unique(piece).tolist()}
        if not (classes <= {0.0, 1.0} or classes <= {-1.0, 1.0}):
            raise InvalidInputError(
                f"LogisticRegression: y must be coded 0/1 or -1/1, found {sorted(classes)[:5]}; recode two "
                "classes, or use SoftmaxRegression for more"
            )
        return (y + 1.0) / 2.0 if -1.0 in classes else y

    def second_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the largest m (1 - m), m = 1 / (1 + exp(-t)), over abs(t - eta_i) <= reach_i: at the t nearest 0."""
        mean = 1.0 / (1.0 + np.exp(-np.maximum(np.abs(eta) - reach, 0.0)))
        return mean * (1.0 - mean)

    def third_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return the largest m (1 - m) abs(1 - 2 m), m = 1 / (1 + exp(-t)), over abs(t - eta_i) <= reach_i.

        The function of abs(t) rises from 0 at 0 to its maximum at `STEEPEST`, then falls: it is largest at the abs(t)
        nearest to `STEEPEST`.
        """
        nearest, farthest = np.maximum(np.abs(eta) - reach, 0.0), np.abs(eta) + reach
        at = np.clip(STEEPEST, nearest, farthest)
        mean = 1.0 / (1.0 + np.exp(-at))
        return mean * (1.0 - mean) * (2.0 * mean - 1.0)

    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Return the lower bound `kind` of the likelihood: "tuned" or "taylor", which touch at `at`, or "untuned"."""
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
