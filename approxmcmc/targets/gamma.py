"""Gamma regression."""

from approxmcmc.families.gamma import GAMMA
from approxmcmc.targets.family_regression import ShapedRegression


class GammaRegression(ShapedRegression):
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
    Terms leave out -log y. The link is the logarithm, not the reciprocal, which would allow negative means. With a
    known alpha residuals of expansions have bounds. With an unknown alpha rows have two predictors and wider bounds, so
    exact tests that use these bounds read more rows.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.GammaRegression(X, rng.gamma(3.0, np.exp(X[:, 0]) / 3.0), intercept=True).variables.labels()
    ['beta[intercept]', 'beta[x0]', 'beta[x1]', 'log_alpha']
    """

    family = GAMMA
