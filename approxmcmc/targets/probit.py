"""Probit regression."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.families.bernoulli import PROBIT
from approxmcmc.targets.family_regression import FamilyRegression
from approxmcmc.targets.logistic import zero_and_one


class ProbitRegression(FamilyRegression):
    r"""Bayesian probit regression: P(y_i = 1) = Phi(x_i' beta), Phi the normal distribution function.

    Parameters
    ----------
    X, y, prior_scale, intercept, prior, coef_names, offset
        As for :class:`LogisticRegression`.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y is not coded 0/1 or -1/1.

    Notes
    -----
    The slope of a term is not bounded over all eta, its second and third derivatives are: `ZigZag` uses these, and
    `PoissonTest` needs a `ControlVariate`. `Firefly` has the bounds "tuned" and "untuned".

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.targets.ProbitRegression(X, (X[:, 0] + rng.normal(size=100) > 0).astype(int))
    ProbitRegression(n_obs=100, dim=2)
    """

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
    ) -> None:
        super().__init__(
            PROBIT,
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
        )

    @staticmethod
    def coded(y: np.ndarray) -> np.ndarray:
        """Return the responses as 0 and 1, from 0/1 or -1/1."""
        return zero_and_one(y, who="ProbitRegression")
