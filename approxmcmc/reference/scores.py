"""Scores, grad log pi, at many states: on all data, or by minibatches."""

from typing import Any

import numpy as np

from approxmcmc.contracts import CompiledGradient, DifferentiableTarget, Target
from approxmcmc.engine.gradients import full_gradient
from approxmcmc.errors import IncompatibleError


def gradient_of(target: Any, *, who: str) -> CompiledGradient:
    """Return the compiled gradients of a target, or say that it has none."""
    if not isinstance(target, Target) or not isinstance(target, DifferentiableTarget):
        raise IncompatibleError(
            f"{who} needs a target with gradients; found {target!r}. Give the target its gradients (grad_loglik)."
        )
    return target.compile_gradient()


def scores(gradient: CompiledGradient, states: np.ndarray) -> np.ndarray:
    """Return grad log pi at states of shape (..., dim), on all data; same shape."""
    slopes = np.empty_like(states)
    for place in np.ndindex(states.shape[:-1]):
        slopes[place] = full_gradient(gradient, states[place])
        gradient.add_prior_gradient(states[place], slopes[place])
    return slopes


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
