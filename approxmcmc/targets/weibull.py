"""Weibull regression."""

from approxmcmc.families.weibull import WEIBULL
from approxmcmc.targets.family_regression import ShapedRegression


class WeibullRegression(ShapedRegression):
    r"""Bayesian Weibull regression: (y_i / scale_i)^alpha ~ Exponential(1) with scale_i = exp(x_i' beta + offset_i).

    The log density of a row is log(alpha / y) + s - exp(s) with s = alpha (log y - x' beta - offset). It is a model of
    accelerated failure times, with the coefficients of `survreg` in R; -alpha beta_j is the coefficient of a model of
    proportional hazards. The mean of y_i is scale_i Gamma(1 + 1 / alpha).

    Every duration must have been observed to its end: censored rows are not supported. A row that is left out because
    it is censored, or one that is given as if it were complete, makes the posterior wrong.

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`.
    y
        Responses, shape (n,), positive: durations or strengths.
    alpha
        The shape if it is known, one positive number, 1 for exponential responses; None: it is a parameter, which the
        trace calls ``alpha``. Hazards increase with time if it is above 1, and decrease if it is below 1.
    alpha_scale
        Median of the prior of ``alpha``; log(alpha) is normal with standard deviation 1.5.
    prior_scale, intercept, coef_names, offset, weights
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
    Terms leave out -log y. With a known alpha terms are concave and residuals of expansions have bounds; with an
    unknown alpha rows have two predictors, and these bounds are wider.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.WeibullRegression(X, np.exp(X[:, 0]) * rng.weibull(2.0, size=100)).variables.shapes
    {'beta': (2,), 'alpha': ()}
    """

    family = WEIBULL
