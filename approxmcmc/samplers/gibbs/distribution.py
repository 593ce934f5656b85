"""The transition matrix of a Gibbs sweep on all states: the product of the matrices of the sites' updates."""

import math

import numpy as np

from approxmcmc.acceptance.laws.probability import acceptance_probability, has_closed_form, refuse_impossible_terms
from approxmcmc.contracts import AcceptanceTest, CompiledConditionals, DiscreteTarget, TransitionMatrix
from approxmcmc.errors import InvalidInputError


def transition_matrix(
    target: DiscreteTarget,
    conditionals: CompiledConditionals | None,
    test: AcceptanceTest,
    scan: str,
    points: np.ndarray,
    method: str,
    site: int | None,
) -> TransitionMatrix:
    """Return the matrix of a sweep, or of one `site`, on all states; ``conditionals=None``: sites are drawn exactly."""
    if len(points) != math.prod(target.n_states.tolist()):
        raise InvalidInputError("transition_matrix: Gibbs needs all states; leave the grid out.")
    strides = np.append(np.cumprod(target.n_states[:0:-1])[::-1], 1)
    n_sites = target.n_states.size
    sites = range(n_sites) if site is None else [site]
    kernels = []
    used = "closed form"
    decision = np.full((len(points), len(points)), np.nan)
    for i in sites:
        with np.errstate(invalid="ignore"):
            law, used = _conditional(target, conditionals, test, points, i, method)
        law[np.isnan(law)] = 1.0 / law.shape[1]  # no value is possible, and no chain gets here: any numbers will do
        kernels.append(_site_kernel(points, law, i, int(strides[i])))
        moved = kernels[-1].copy()
        np.fill_diagonal(moved, 0.0)
        decision = np.where(moved > 0.0, moved, decision)
    if site is not None:
        matrix = kernels[0]
        n_decisions = 1
    elif scan == "random":
        matrix = np.linalg.matrix_power(np.mean(kernels, axis=0), n_sites)
        n_decisions = n_sites
    else:
        matrix = np.linalg.multi_dot(kernels) if n_sites > 1 else kernels[0]
        n_decisions = n_sites
    return TransitionMatrix(matrix, decision, used, n_decisions)


def _conditional(
    target: DiscreteTarget,
    conditionals: CompiledConditionals | None,
    test: AcceptanceTest,
    points: np.ndarray,
    site: int,
    method: str,
) -> tuple[np.ndarray, str]:
    """Return a site's probabilities under the test's errors in every state, and how they were computed."""
    if conditionals is None:
        return np.asarray(target.conditional(points, site)), "closed form"
    n = int(conditionals.n_terms[site])
    values = []
    for state in (0.0, 1.0):
        at = points.copy()
        at[:, site] = state
        values.append(np.array([conditionals.terms_at(x, site) for x in at]))
    if not has_closed_form(test, n):
        refuse_impossible_terms(test, np.stack(values))
    probability_of_one, used = acceptance_probability(
        test, values[1] - values[0], np.zeros(len(points)), method=method, conditional=True
    )
    return np.stack([1.0 - probability_of_one, probability_of_one], axis=1), used


def _site_kernel(points: np.ndarray, law: np.ndarray, site: int, stride: int) -> np.ndarray:
    here = np.arange(len(points))
    kernel = np.zeros((len(points), len(points)))
    for state in range(law.shape[1]):
        kernel[here, here + ((state - points[:, site]) * stride).astype(np.int64)] = law[:, state]
    return kernel
