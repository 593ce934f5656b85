"""Poisson regression."""

from approxmcmc.families.poisson import POISSON
from approxmcmc.targets.family_regression import PlainRegression


class PoissonRegression(PlainRegression):
    r"""Bayesian Poisson regression: y_i ~ Poisson(exp(x_i' beta + offset_i)), beta_j ~ N(0, prior_scale^2).

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`.
    y
        Counts, shape (n,): integers from 0.
    prior_scale, intercept, prior, coef_names, weights
        As for :class:`LogisticRegression`.
    offset
        A known part of the predictor, shape (n,), such as the logarithm of an exposure; None: 0.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y holds anything but integers from 0.

    Notes
    -----
    Terms leave out -log y!, which does not depend on beta. No bound of a derivative holds for all eta, so the plain
    terms have no bounds for `PoissonTest`; those of a `ControlVariate` have them near its centre, and `ZigZag` in balls
    around its fit. No quadratic in eta lies below every term, so there is no bound for `Firefly`.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X, hours = rng.normal(size=(100, 2)), rng.uniform(1.0, 3.0, size=100)
    >>> y = rng.poisson(hours * np.exp(0.3 * X[:, 0]))
    >>> amc.PoissonRegression(X, y, offset=np.log(hours), intercept=True)
    PoissonRegression(n_obs=100, dim=3)
    """

    family = POISSON
