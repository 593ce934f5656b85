"""Binomial regression."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.families.binomial import BINOMIAL
from approxmcmc.targets.family_regression import FamilyRegression


class BinomialRegression(FamilyRegression):
    r"""Bayesian binomial regression: y_i ~ Binomial(trials_i, 1 / (1 + exp(-x_i' beta))), beta_j ~ N(0, prior_scale^2).

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`.
    y
        Successes, shape (n,): integers from 0 to `trials`.
    trials
        Numbers of trials, shape (n,): integers from 1.
    prior_scale, intercept, prior, coef_names, offset, weights
        As for :class:`LogisticRegression`.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y or `trials` are not such integers.

    Notes
    -----
    Terms leave out the binomial coefficients, which do not depend on beta. All terms are concave and bounded, so all
    exact tests by subsampling work; `Firefly` has the bounds "tuned" and "untuned".

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X, trials = rng.normal(size=(100, 2)), rng.integers(1, 9, size=100)
    >>> y = rng.binomial(trials, 1.0 / (1.0 + np.exp(-X[:, 0])))
    >>> amc.BinomialRegression(X, y, trials)
    BinomialRegression(n_obs=100, dim=2)
    """

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        trials: Any,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
        weights: Any = None,
    ) -> None:
        super().__init__(
            BINOMIAL,
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
            weights=weights,
            size=trials,
            size_name="trials",
        )

    @classmethod
    def columns_of_form(cls, form: Mapping[str, Any], n: int) -> dict[str, Any]:
        """Return the arguments of n made-up rows but for X; all have the largest number of trials."""
        return {**super().columns_of_form(form, n), "trials": np.full(n, form["largest_size"])}
