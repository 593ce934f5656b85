"""Likelihoods of a row with derivatives in closed form: normal outcomes, the softmax, and ordered categories."""

from collections.abc import Callable

import numpy as np

from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.families import categorical, normal, ordered
from approxmcmc.families.categorical import softmax_expansion, softmax_slopes, softmax_terms
from approxmcmc.families.normal import normal_expansion, normal_slopes, normal_terms
from approxmcmc.families.ordered import (
    draw_categories,
    ordered_expansion,
    ordered_probabilities,
    ordered_slopes,
    ordered_terms,
)
from approxmcmc.targets.predictors.family import form_of_partials
from approxmcmc.targets.predictors.likelihood import RowLikelihood


class ClosedForm(RowLikelihood):
    """A likelihood with batch functions written out: terms, slopes, and value with slopes and second derivatives."""

    def __init__(
        self,
        n_predictors: int,
        terms: Callable[..., None],
        slopes: Callable[..., None],
        expansion: Callable[..., None],
    ) -> None:
        self.n_predictors = n_predictors
        self._terms = terms
        self._slopes = slopes
        self._expansion = expansion

    def terms(self) -> Callable[..., None]:
        """Return the batch function of the terms."""
        return self._terms

    def slopes(self) -> Callable[..., None]:
        """Return the batch function of the slopes in the predictors."""
        return self._slopes

    def expansion(self) -> Callable[..., None]:
        """Return the batch function of value, slopes and second derivatives."""
        return self._expansion

    def identity(self) -> str:
        """Return a hash of the terms."""
        return content_id(self._terms)


class NormalLikelihood(ClosedForm):
    """J independent normal outcomes of a row, y (n, J); the predictors are J means, then J log scales."""

    def __init__(self, n_outcomes: int = 1) -> None:
        super().__init__(2 * n_outcomes, normal_terms, normal_slopes, normal_expansion)
        self.n_outcomes = n_outcomes

    bounds_forms = True

    def forms_within(
        self, order: int, eta: np.ndarray, responses: tuple[np.ndarray, ...], covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of directional derivatives, the sum of those of the outcomes."""
        [Y] = responses
        J = self.n_outcomes
        total = np.zeros(len(Y))
        for j in range(J):
            pair = [j, J + j]
            covariances_of_pair = covariances[:, pair][:, :, pair]
            total += form_of_partials(normal.partials_within, order, eta[pair], Y[:, j], covariances_of_pair, radius)
        return total


class SoftmaxLikelihood(ClosedForm):
    """log p(y | eta) = eta_y - log sum_k exp(eta_k), with one predictor for each class."""

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes, softmax_terms, softmax_slopes, softmax_expansion)

    bounds_forms = True
    forms_are_global = True

    def forms_within(
        self, order: int, eta: np.ndarray, responses: tuple[np.ndarray, ...], covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of directional derivatives, which hold for all predictors."""
        return categorical.forms_within(order, eta, responses[0], covariances, radius)

    def slopes_within(
        self, eta: np.ndarray, responses: tuple[np.ndarray, ...], covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of slopes in a direction, which hold for all predictors."""
        return categorical.largest_difference(covariances)

    def mean(self, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return the probability of each class, given the predictors `eta` (K, ...); shape (K, ...)."""
        from scipy.special import softmax

        return softmax(eta, axis=0)  # type: ignore[no-any-return]  # SciPy has no types

    def simulate(self, rng: np.random.Generator, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Draw the index of a class for rows with the predictors `eta` (K, ...); shape (...)."""
        return np.argmax(eta + rng.gumbel(size=eta.shape), axis=0)  # the maximum of Gumbel noise is a categorical draw


class OrderedLikelihood(ClosedForm):
    """log P(y | eta) of K ordered categories; the predictors are eta and what the K - 1 cutpoints are made of."""

    def __init__(self, n_categories: int) -> None:
        super().__init__(n_categories, ordered_terms, ordered_slopes, ordered_expansion)

    bounds_forms = True

    def forms_within(
        self, order: int, eta: np.ndarray, responses: tuple[np.ndarray, ...], covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of directional derivatives."""
        return ordered.forms_within(order, eta, responses[0], covariances, radius)

    def mean(self, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return the probability of each category, given the predictors `eta` (K, ...); shape (K, ...)."""
        return ordered_probabilities(eta)

    def simulate(self, rng: np.random.Generator, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Draw the index of a category for rows with the predictors `eta` (K, ...); shape (...)."""
        return draw_categories(rng, eta)
