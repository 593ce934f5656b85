"""Probit regression."""

from approxmcmc.families.bernoulli import PROBIT
from approxmcmc.targets.family_regression import BinaryRegression


class ProbitRegression(BinaryRegression):
    r"""Bayesian probit regression: P(y_i = 1) = Phi(x_i' beta), Phi the normal distribution function.

    Parameters
    ----------
    X, y, prior_scale, intercept, prior, coef_names, offset, weights
        As for :class:`LogisticRegression`.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y is not coded 0/1 or -1/1.

    Notes
    -----
    The second and third derivatives of a term in eta are bounded over all eta, the first is not: so `ZigZag` runs, and
    `PoissonTest` needs a `ControlVariate`. `Firefly` has the bounds "tuned" and "untuned".

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.ProbitRegression(X, (X[:, 0] + rng.normal(size=100) > 0).astype(int))
    ProbitRegression(n_obs=100, dim=2)
    """

    family = PROBIT
