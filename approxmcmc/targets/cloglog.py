"""Complementary log-log regression."""

from approxmcmc.families.bernoulli import CLOGLOG
from approxmcmc.targets.family_regression import BinaryRegression


class CloglogRegression(BinaryRegression):
    r"""Bayesian regression with the complementary log-log link: P(y_i = 1) = 1 - exp(-exp(x_i' beta + offset_i)).

    The probability that at least one event of a Poisson process with the rate exp(x_i' beta) occurs; a proportional
    hazards model of durations that are known in whole periods has such rows, one for each period at risk.

    Parameters
    ----------
    X, y, prior_scale, intercept, prior, coef_names, weights
        As for :class:`LogisticRegression`.
    offset
        A known part of the predictor, shape (n,), such as the logarithm of the time at risk; None: 0.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y is not coded 0/1 or -1/1.

    Notes
    -----
    The link is not symmetric: 0 and 1 cannot be swapped. Terms are concave. Those of y = 0 are -exp(eta), so no bound
    of a derivative holds for all eta, and no quadratic in eta lies below them: the plain terms have no bounds for
    `PoissonTest` and `Firefly`; those of a `ControlVariate` have them for `PoissonTest`, and `ZigZag` in balls around
    its fit.

    Reference: McCullagh and Nelder (1989), Generalized Linear Models, section 4.3.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.CloglogRegression(X, rng.poisson(np.exp(X[:, 0])) > 0)
    CloglogRegression(n_obs=100, dim=2)
    """

    family = CLOGLOG
