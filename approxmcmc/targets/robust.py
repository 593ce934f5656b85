"""Robust linear regression: Student-t errors of known scale."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.student_t import student_t
from approxmcmc.targets.family_regression import FamilyRegression


class RobustRegression(FamilyRegression):
    """Linear regression with Student-t errors: (y_i - x_i' beta) / scale ~ t_df, beta_j ~ N(0, prior_scale^2).

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table, as for :class:`LogisticRegression`.
    y
        Responses, shape (n,).
    df
        Degrees of freedom, positive. 4 is the choice of Maclaurin and Adams (2014); large values give normal errors.
    scale
        Scale of the errors, positive, in the units of y.
    prior_scale, intercept, prior, coef_names, offset, weights
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
    >>> amc.RobustRegression(X, X[:, 0] + rng.standard_t(4, size=100))
    RobustRegression(n_obs=100, dim=2)
    """

    @naming_the_arguments
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
        offset: Any = None,
        weights: Any = None,
    ) -> None:
        self.df, self.scale = _checked(df, scale)
        super().__init__(
            student_t(self.df, self.scale),
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
            weights=weights,
        )

    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows, with degrees of freedom and scale."""
        settings = super().settings_without_rows()
        assert settings is not None
        return {**settings, "df": self.df, "scale": self.scale}


def _checked(df: float, scale: float) -> tuple[float, float]:
    """Return degrees of freedom and scale; raise unless both are positive and finite."""
    for name, value in (("df", df), ("scale", scale)):
        if not 0.0 < value < math.inf:
            raise InvalidInputError(f"RobustRegression: {name} must be positive and finite, found {value!r}")
    return float(df), float(scale)
