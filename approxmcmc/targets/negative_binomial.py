"""Negative binomial regression."""

from approxmcmc.families.negative_binomial import NEGATIVE_BINOMIAL
from approxmcmc.targets.family_regression import ShapedRegression


class NegativeBinomialRegression(ShapedRegression):
    r"""Bayesian regression of counts y_i with mean m_i = exp(x_i' beta + offset_i) and variance m_i + m_i^2 / alpha.

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`.
    y
        Counts, shape (n,): integers from 0.
    alpha
        The shape if it is known, one positive number; None: it is a parameter, which the trace calls ``alpha``.
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
        When shapes do not fit, a value is NaN or infinite, `alpha` is not positive, or y holds anything but integers
        from 0.

    Notes
    -----
    Terms leave out -log y!. With a known alpha all terms are concave and bounded, so all exact tests by subsampling
    work, and `Firefly` has the bounds "tuned" and "untuned"; with an unknown alpha rows have two predictors, and
    the residuals of a `ControlVariate` have bounds for `PoissonTest`.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(X[:, 0])))
    >>> amc.NegativeBinomialRegression(X, y).variables.shapes
    {'beta': (2,), 'alpha': ()}
    """

    family = NEGATIVE_BINOMIAL
