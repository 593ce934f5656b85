"""Exponential regression."""

from approxmcmc.families.gamma import GAMMA
from approxmcmc.targets.family_regression import PlainRegression


class ExponentialRegression(PlainRegression):
    r"""Bayesian regression of exponential y_i with mean exp(x_i' beta + offset_i), beta_j ~ N(0, prior_scale^2).

    It is a :class:`GammaRegression` and a :class:`WeibullRegression` with alpha = 1. Every duration must have been
    observed to its end: censored rows are not supported, and leaving them out makes the posterior wrong.

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`.
    y
        Responses, shape (n,), positive: durations.
    prior_scale, intercept, prior, coef_names, offset, weights
        As for :class:`PoissonRegression`.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y is not positive.

    Notes
    -----
    Terms are concave. No bound of a derivative holds for all eta, so the plain terms have no bounds for `PoissonTest`;
    those of a `ControlVariate` have them near its centre, and `ZigZag` in balls around its fit.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.ExponentialRegression(X, rng.exponential(np.exp(X[:, 0])), intercept=True)
    ExponentialRegression(n_obs=100, dim=3)
    """

    family = GAMMA
