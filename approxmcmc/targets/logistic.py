"""Logistic regression."""

from approxmcmc.families.bernoulli import LOGIT
from approxmcmc.targets.family_regression import BinaryRegression


class LogisticRegression(BinaryRegression):
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
    offset
        A known part of the predictor, shape (n,): eta_i = x_i' beta + offset_i; None: 0.
    weights
        Known weights of rows, positive, shape (n,), such as numbers of equal rows or weights of a survey: the log
        density of row i is multiplied by weights_i; None: 1. Weights of a survey give a pseudo-posterior, whose width
        depends on their sum.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y is not coded as above.

    Notes
    -----
    Draws are called ``beta`` with the dimension ``coef``. Effects of a column of categories have its name.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.LogisticRegression(X, (X[:, 0] > 0).astype(int), prior_scale=2.0)
    LogisticRegression(n_obs=100, dim=2)
    """

    family = LOGIT
