"""Complementary log-log regression."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.families.bernoulli import CLOGLOG
from approxmcmc.targets.family_regression import FamilyRegression
from approxmcmc.targets.logistic import zero_and_one


class CloglogRegression(FamilyRegression):
    r"""Bayesian regression with the complementary log-log link: P(y_i = 1) = 1 - exp(-exp(x_i' beta + offset_i)).

    The probability that at least one event of a Poisson process with the rate exp(x_i' beta) occurs; a proportional
    hazards model of durations that are known in whole periods has such rows, one for each period at risk.

    Parameters
    ----------
    X, y, prior_scale, intercept, prior, coef_names
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
    `PoissonTest`, `ZigZag` and `Firefly`; those of a `ControlVariate` have them for `PoissonTest`.

    Reference: McCullagh and Nelder (1989), Generalized Linear Models, section 4.3.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.targets.CloglogRegression(X, rng.poisson(np.exp(X[:, 0])) > 0)
    CloglogRegression(n_obs=100, dim=2)
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
            CLOGLOG,
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
        return zero_and_one(y, who="CloglogRegression")
