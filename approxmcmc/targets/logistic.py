"""Logistic regression."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import BoundedTarget, CompiledBound
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.bernoulli import LOGIT
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import check_same_index, response_source
from approxmcmc.targets.likelihood_bounds import bound_of_family
from approxmcmc.targets.linear import LinearTarget, pieces
from approxmcmc.targets.tables import TableRegression, categorical_columns
from approxmcmc.targets.tall_data import Prior


class LogisticRegression(LinearTarget, BoundedTarget):
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

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y is not coded as above.

    Notes
    -----
    Draws are called ``beta`` with the dimension ``coef``.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(int), prior_scale=2.0)
    LogisticRegression(n_obs=100, dim=2)
    """

    terms_are_concave = True

    @naming_the_arguments
    def __new__(
        cls, X: Any = None, y: Any = None, prior_scale: float = 1.0, intercept: bool = False, **settings: Any
    ) -> Any:
        """Return a logistic regression: a `TableRegression` if X is a table with categories."""
        if cls is not LogisticRegression or not categorical_columns(X):
            return super().__new__(cls)
        check_same_index("LogisticRegression", X=X, y=y)
        y = checked_array(response_source(y), "y", who="LogisticRegression").astype(np.float64)
        settings = {"prior_scale": prior_scale, "intercept": intercept, "who": "LogisticRegression", **settings}
        table = TableRegression.of_family(LOGIT, X, cls.responses(y), **settings)
        table.terms_are_concave = True
        return table

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
    ) -> None:
        self._set_family(LOGIT)
        self._set_data(X, y, intercept=intercept, coef_names=coef_names)
        self.prior = Prior(prior_scale, prior, who="LogisticRegression")

    @staticmethod
    def responses(y: np.ndarray) -> np.ndarray:
        """Return the responses as 0 and 1, from 0/1 or -1/1."""
        classes = {value for piece in pieces(y) for value in np.unique(piece).tolist()}
        if not (classes <= {0.0, 1.0} or classes <= {-1.0, 1.0}):
            raise InvalidInputError(
                f"LogisticRegression: y must be coded 0/1 or -1/1, found {sorted(classes)[:5]}; recode two "
                "classes, or use SoftmaxRegression for more"
            )
        return (y + 1.0) / 2.0 if -1.0 in classes else y

    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Return the lower bound `kind` of the likelihood: "tuned" or "taylor", which touch at `at`, or "untuned"."""
        return bound_of_family(LOGIT, self.X, self.y, kind, at, who="LogisticRegression")
