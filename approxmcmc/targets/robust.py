"""Robust linear regression: Student-t errors of known scale."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import BoundedTarget, CompiledBound
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.likelihood_bounds import student_bound
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.tables import TableRegression, categorical_columns
from approxmcmc.targets.tall_data import Prior

LARGEST_THIRD = (3.0 + 2.0 * math.sqrt(2.0)) / 4.0  # largest third derivative of log(1 + t^2) / 2


class RobustRegression(LinearTarget, BoundedTarget):
    """Linear regression with Student-t errors: (y_i - x_i' beta) / scale ~ t_df, beta_j ~ N(0, prior_scale^2).

    Parameters
    ----------
    X
        Predictors, shape (n, p); a DataFrame's columns become the labels of `beta`. With columns of text or categories
        the result is a :class:`TableRegression`.
    y
        Responses, shape (n,).
    df
        Degrees of freedom, positive. 4 is the choice of Maclaurin and Adams (2014); large values give normal errors.
    scale
        Scale of the errors, positive, in the units of y.
    prior_scale, intercept, prior, coef_names
        As for :class:`LogisticRegression`.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or `df` or `scale` is not positive.

    Notes
    -----
    The log density of a response is -((df + 1) / 2) log(1 + r^2 / df) plus a constant, which terms include; r is the
    residual in units of the scale. It is not log-concave, so the posterior can have several modes if outliers agree
    with each other. The trace holds ``beta`` with the dimension ``coef``.

    References
    ----------
    Maclaurin and Adams (2014), Firefly Monte Carlo, section 4.3.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.targets.RobustRegression(X, X[:, 0] + rng.standard_t(4, size=100))
    RobustRegression(n_obs=100, dim=2)
    """

    def __new__(
        cls,
        X: Any = None,
        y: Any = None,
        df: float = 4.0,
        scale: float = 1.0,
        prior_scale: float = 1.0,
        intercept: bool = False,
        **settings: Any,
    ) -> Any:
        """Return a robust regression: a `TableRegression` if X is a table with categories."""
        if cls is not RobustRegression or not categorical_columns(X):
            return super().__new__(cls)
        loglik_eta, derivatives = _student_term(*_checked(df, scale))
        return TableRegression(
            loglik_eta,
            X,
            y,
            derivatives_eta=derivatives,
            prior_scale=prior_scale,
            intercept=intercept,
            pymc_law=functools.partial(_student_of_pymc, df=df, scale=scale),
            who="RobustRegression",
            **settings,
        )

    def __init__(
        self,
        X: Any,
        y: Any,
        df: float = 4.0,
        scale: float = 1.0,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
    ) -> None:
        self._set_data(X, y, intercept=intercept, coef_names=coef_names)
        self.df, self.scale, self._constant = _checked(df, scale)
        half = 0.5 * (self.df + 1.0)
        self._loglik_eta, self._derivatives_eta = _student_term(self.df, self.scale, self._constant)
        # The derivatives of log(1 + t^2) / 2, t = r / sqrt(df), are largest at t = 1, 0 and sqrt(2) - 1.
        unit = self.scale * math.sqrt(self.df)
        self.slope_bound, self.second_derivative_bound = half / unit, 2.0 * half / unit**2
        self.third_derivative_bound = 2.0 * half * LARGEST_THIRD / unit**3
        self.prior = Prior(prior_scale, prior, who="RobustRegression")

    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Return the lower bound `kind` of the likelihood: "tuned", which touches at `at`, or "untuned"."""
        return student_bound(self.X, self.y, self.df, self.scale, self._constant, kind, at)

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels."""
        import pymc as pm

        if self.prior.function is not None:
            raise IncompatibleError("RobustRegression: a prior given as a function has no PyMC twin; use prior_scale")
        with pm.Model(coords={"coef": self.variables.coords["coef"]}) as model:
            flat = np.isinf(self.prior.scale)
            beta = pm.Flat("beta", dims="coef") if flat else pm.Normal("beta", 0.0, self.prior.scale, dims="coef")
            _student_of_pymc(np.asarray(self.X, np.float64) @ beta, self.y, self.df, self.scale)
        return model


def _student_of_pymc(eta: Any, y: np.ndarray, df: float, scale: float) -> Any:
    import pymc as pm

    return pm.StudentT("y", nu=df, mu=eta, sigma=scale, observed=y)


def _checked(df: float, scale: float) -> tuple[float, float, float]:
    """Return degrees of freedom, scale, and the constant of the log density."""
    for name, value in (("df", df), ("scale", scale)):
        if not 0.0 < value < math.inf:
            raise InvalidInputError(f"RobustRegression: {name} must be positive and finite, found {value!r}")
    constant = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df)
    return float(df), float(scale), constant - (0.5 * math.log(math.pi * df) + math.log(scale))


def _student_term(df: float, scale: float, constant: float) -> tuple[Callable[..., float], Callable[..., Any]]:
    """Return two functions of (eta, y): log p(y | eta), and the pair of its first two derivatives in eta."""
    half, per_scale = 0.5 * (df + 1.0), 1.0 / scale

    def loglik_eta(eta: float, y: float) -> float:
        r = per_scale * (y - eta)
        return constant - half * math.log1p(r * r / df)

    def derivatives(eta: float, y: float) -> tuple[float, float]:
        r = per_scale * (y - eta)
        weight = 2.0 * half * per_scale / (df + r * r)
        return weight * r, weight * per_scale * (r * r - df) / (df + r * r)

    return loglik_eta, derivatives
