"""Gamma regression."""

from collections.abc import Callable, Sequence
from typing import Any

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.families.gamma import GAMMA
from approxmcmc.targets.family_regression import FamilyRegression


class GammaRegression(FamilyRegression):
    r"""Bayesian regression of positive y_i with mean m_i = exp(x_i' beta + offset_i) and variance m_i^2 / alpha.

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`.
    y
        Responses, shape (n,), positive: amounts or durations.
    alpha
        The shape if it is known, one positive number, 1 for exponential responses; None: it is a parameter, which the
        trace calls ``alpha``.
    alpha_scale
        Median of the prior of ``alpha``; log(alpha) is normal with standard deviation 1.5.
    prior_scale, intercept, coef_names, offset
        As for :class:`PoissonRegression`; beta_j ~ N(0, prior_scale^2).
    prior
        A function ``log_prior(theta) -> float`` that replaces these priors; if alpha is a parameter, the last entry of
        theta is log(alpha).

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y or `alpha` is not positive.

    Notes
    -----
    Terms leave out -log y. The link is the logarithm, not the reciprocal, which would allow negative means. With a
    known alpha residuals of expansions have bounds; with an unknown alpha rows have two predictors, and none are known.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.targets.GammaRegression(X, rng.gamma(3.0, np.exp(X[:, 0]) / 3.0), intercept=True).variables.labels()
    ['beta[intercept]', 'beta[x0]', 'beta[x1]', 'log_alpha']
    """

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        alpha: float | None = None,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        alpha_scale: float = 1.0,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
    ) -> None:
        super().__init__(
            GAMMA,
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
            shape=alpha,
            shape_scale=alpha_scale,
        )
