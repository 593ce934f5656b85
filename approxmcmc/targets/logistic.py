"""Logistic regression."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.bernoulli import LOGIT
from approxmcmc.targets.family_regression import FamilyRegression


class LogisticRegression(FamilyRegression):
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
    >>> amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(int), prior_scale=2.0)
    LogisticRegression(n_obs=100, dim=2)
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
            LOGIT,
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
        return zero_and_one(y, who="LogisticRegression")


def zero_and_one(y: np.ndarray, *, who: str) -> np.ndarray:
    """Return the responses as 0 and 1, from 0/1 or -1/1."""
    classes = {value for piece in pieces(y) for value in np.unique(piece).tolist()}
    if not (classes <= {0.0, 1.0} or classes <= {-1.0, 1.0}):
        raise InvalidInputError(
            f"{who}: y must be coded 0/1 or -1/1, found {sorted(classes)[:5]}; recode two classes, or use "
            "SoftmaxRegression for more"
        )
    return (y + 1.0) / 2.0 if -1.0 in classes else y


def pieces(y: np.ndarray, rows: int = 65_536) -> Iterator[np.ndarray]:
    """Yield runs of rows of an array, so that data larger than memory are never copied as a whole."""
    return (y[start : start + rows] for start in range(0, len(y), rows))
