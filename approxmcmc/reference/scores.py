"""Scores, grad log pi, at many states: on all data, by this process or a Dask cluster, or by minibatches."""

from typing import Any, cast

import numpy as np

from approxmcmc.contracts import CompiledGradient, DifferentiableTarget, Target
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError
from approxmcmc.targets.parts import Part, parts_of

STATES = 32  # at which a task looks: a worker that dies takes the work of one task with it


def gradient_of(target: Any, *, who: str) -> CompiledGradient:
    """Return the compiled gradients of a target, or say that it has none."""
    if not isinstance(target, Target) or not isinstance(target, DifferentiableTarget):
        raise IncompatibleError(
            f"{who} needs a target with gradients; found {target!r}. Give the target its gradients (grad_loglik)."
        )
    return target.compile_gradient()


def scores_of(target: Any, states: np.ndarray) -> np.ndarray:
    """Return grad log pi at states of shape (..., dim), on all data; same shape.

    Of rows that came from sources the Dask cluster whose client is active makes the sums.
    """
    gradient, parts, flat = target.compile_gradient(), parts_of(target), states.reshape(-1, states.shape[-1])
    if parts is None:
        slopes = _slopes_of(gradient, flat)
    else:
        groups = np.array_split(flat, -(-len(flat) // STATES))
        slopes = np.concatenate([parts.total(_slopes_of_part, some) for some in groups])
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
