"""Beta regression."""

from collections.abc import Callable, Sequence
from typing import Any

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.families.beta import BETA
from approxmcmc.targets.family_regression import FamilyRegression


class BetaRegression(FamilyRegression):
    r"""Bayesian beta regression of shares: 0 < y_i < 1 with mean m_i and variance m_i (1 - m_i) / (1 + phi).

    y_i ~ Beta(phi m_i, phi (1 - m_i)), with m_i = 1 / (1 + exp(-x_i' beta - offset_i)) and the precision phi.

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`.
    y
        Responses, shape (n,), above 0 and below 1. Shares of counts are responses of a :class:`BinomialRegression`.
    phi
        The precision if it is known, one positive number; None: it is a parameter, which the trace calls ``phi``.
    phi_scale
        Median of the prior of ``phi``; log(phi) is normal with standard deviation 1.5.
    prior_scale, intercept, coef_names, offset, weights
        As for :class:`PoissonRegression`; beta_j ~ N(0, prior_scale^2).
    prior
        A function ``log_prior(theta) -> float`` that replaces these priors; if phi is a parameter, the last entry of
        theta is log(phi).

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, `phi` is not positive, or y is not between 0 and 1.

    Notes
    -----
    Terms leave out -log(y (1 - y)), and may not be concave in beta. With a known phi each row's term has bounded
    derivatives, so all exact tests by subsampling work, and `Firefly` has the bounds "tuned" and "untuned", which are
    loose; with an unknown phi rows have two predictors, and the residuals of a `ControlVariate` have bounds.

    Reference: Ferrari and Cribari-Neto (2004), Beta regression for modelling rates and proportions.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> mean = 1.0 / (1.0 + np.exp(-X[:, 0]))
    >>> amc.BetaRegression(X, rng.beta(9.0 * mean, 9.0 * (1.0 - mean))).variables.shapes
    {'beta': (2,), 'phi': ()}
    """

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        phi: float | None = None,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        phi_scale: float = 10.0,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
        weights: Any = None,
    ) -> None:
        super().__init__(
            BETA,
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
            weights=weights,
            shape=phi,
            shape_name="phi",
            shape_scale=phi_scale,
        )

    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows, with the precision, None for a parameter."""
        settings = super().settings_without_rows()
        assert settings is not None
        return {**settings, "phi": self.known_shape, "phi_scale": self.shape_scale}
