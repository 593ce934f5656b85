r"""Stein's identities: averages of gradients at draws of a posterior have known values.

For draws of a density :math:`\pi` with tails that vanish, in whitened coordinates :math:`\varphi = L^{-1}(\theta - m)`,

.. math:: E[g] = 0, \qquad E[\varphi g'] = -I, \qquad g = L' \nabla \log \pi(\theta).

Both identities follow from integration by parts, and need no other sampler to compare with. Near a normal posterior the
first average is minus the error of the mean, in posterior standard deviations, and the second average is minus the
ratio of the draws' covariance to the true covariance. The identities detect errors in regions where there are draws,
but not a mode that no chain found.

The gradients (scores) are computed on all data, by this process or a Dask cluster, or on minibatches.
"""

import math
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import solve_triangular

from approxmcmc.contracts import CompiledGradient, DifferentiableTarget, Target
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError
from approxmcmc.sources.parts import Part, parts_of

BATCHES = 20  # batches of each chain: means over a twentieth of a chain are nearly independent, and nearly normal


class Deviations(NamedTuple):
    """Averages minus their expected values, in standard errors: Student's t with `degrees` degrees of freedom.

    `gradient` (dim,) belongs to E[g] = 0, `identity` (dim, dim) to E[phi g'] = -I: entry [i, j] to phi_i g_j.
    """

    gradient: np.ndarray
    identity: np.ndarray
    degrees: int


def stein_deviations(draws: np.ndarray, gradients: np.ndarray) -> Deviations:
    """Return the deviations of draws from Stein's identities, in standard errors by batch means.

    Parameters
    ----------
    draws
        Draws of theta; shape (chains, draws, dim), at least 20 draws a chain. Batches should be longer than the
        autocorrelation time of the chain, otherwise the standard errors are too small.
    gradients
        grad log pi at the draws; same shape.

    References
    ----------
    Stein (1972) and Gorham and Mackey (2015) for the identities; Flegal, Haran and Jones (2008) for batch means.

    Examples
    --------
    >>> draws = np.random.default_rng(1).normal(size=(4, 2000, 2))
    >>> bool(np.abs(stein_deviations(draws, -draws).gradient).max() < 5)
    True
    """
    dim = draws.shape[2]
    flat = draws.reshape(-1, dim)
    L = np.linalg.cholesky(np.atleast_2d(np.cov(flat.T)))
    phi = solve_triangular(L, (flat - flat.mean(axis=0)).T, lower=True).T
    length = draws.shape[1] // BATCHES

    def in_batches(values: np.ndarray) -> np.ndarray:
        return values.reshape(draws.shape)[:, : BATCHES * length].reshape(-1, length, dim)

    phi = in_batches(phi)
    g = in_batches(gradients.reshape(-1, dim) @ L)
    return Deviations(
        _in_standard_errors(g.mean(axis=1)),
        _in_standard_errors(phi.transpose(0, 2, 1) @ g / length + np.eye(dim)),
        len(g) - 1,
    )


def _in_standard_errors(batch_means: np.ndarray) -> np.ndarray:
    return batch_means.mean(axis=0) / (batch_means.std(axis=0, ddof=1) / np.sqrt(len(batch_means)))


STATES = 32  # states per task: a worker that dies loses the work of one task


def gradient_of(target: Any) -> CompiledGradient:
    """Return the compiled gradients of a target; raise if it has none."""
    if not isinstance(target, Target) or not isinstance(target, DifferentiableTarget):
        raise IncompatibleError(
            f"{speaker()} needs a target with gradients; found {target!r}. Give the target its gradients (grad_loglik)."
        )
    return target.compile_gradient()


def scores_of(target: Any, states: np.ndarray) -> np.ndarray:
    """Return grad log pi at states of shape (..., dim), on all data; same shape.

    If the rows came from sources and a Dask cluster is active, it computes the sums.
    """
    gradient = target.compile_gradient()
    parts = parts_of(target)
    flat = states.reshape(-1, states.shape[-1])
    if parts is None:
        slopes = _slopes_of(gradient, flat)
    else:
        groups = np.array_split(flat, math.ceil(len(flat) / STATES))
        slopes = np.concatenate([parts.total(_slopes_of_part, states_of_group) for states_of_group in groups])
    for theta, slope in zip(flat, slopes, strict=True):
        gradient.add_prior_gradient(theta, slope)
    return slopes.reshape(states.shape)


def _slopes_of(gradient: CompiledGradient, states: np.ndarray) -> np.ndarray:
    return np.array([full_gradient(gradient, theta) for theta in states])


def _slopes_of_part(part: Part, states: np.ndarray) -> np.ndarray:
    return _slopes_of(part.keep(_gradient), states)


def _gradient(target: Any) -> CompiledGradient:
    return cast("CompiledGradient", target.compile_gradient())


def minibatch_scores(
    gradient: CompiledGradient, states: np.ndarray, minibatch: int, rng: np.random.Generator
) -> np.ndarray:
    """Return unbiased estimates of the scores at states (n, dim): a minibatch for each, without replacement."""
    slopes = np.zeros_like(states)
    for k, theta in enumerate(states):
        rows = rng.choice(gradient.n_obs, minibatch, replace=False, shuffle=False)
        gradient.add_gradient(theta, gradient.data, rows, 0, minibatch, slopes[k])
        slopes[k] *= gradient.n_obs / minibatch
        gradient.add_prior_gradient(theta, slopes[k])
    return slopes
