r"""Compute how much noise friction must still add if the estimated gradients are noisy.

With h, c, gamma and L as in :mod:`~approxmcmc.proposals.hamiltonian_step`, a kick by an estimated gradient of
covariance V adds h^2 W to the covariance of the velocity, W = L' V L: the chain gets too hot. In BAOAB, friction then
adds N(0, S) with

.. math:: S = (1 - c^2) I - \tfrac{(1 + c)^2}{4} h^2 W

instead of (1 - c^2) I. The positions of a linear-Gaussian chain are an autoregression of order 2. Friction's noise
enters it twice, half a step apart; a kick's noise enters it once, (1 + c) h times as strong. At low frequencies the
spectrum of the two together is that of exact gradients. The remaining error is of order h^3 W / (8 gamma); without the
correction the variance is too large by h W / (2 gamma).

S is a covariance only if friction removes more energy than the kicks add: (h^2 / 4) w <= tanh(gamma h / 2) for the
largest eigenvalue w of W.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.records import GRADIENTS
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.covariance import checked_cholesky, factor
from approxmcmc.proposals.langevin_step import Spread
from approxmcmc.proposals.minibatch_gradient import MinibatchGradient, write_scores

ROUNDING = 1e-8  # negative eigenvalues of a covariance of lower rank, relative to the largest
FORMS = '"tune", None, or a covariance of the estimated gradient, shape (dim, dim)'


class AddedNoise(NamedTuple):
    """The noise of friction: `lower`, the Cholesky factor of S, or if that is empty `sd` times the identity.

    S = total I - heat W. `due` is 1 if the next draw learns, else 0; `tuned` is 1 if a tuning step has ended or S is
    given, else 0. `learnt` is the number of minibatches behind `estimate`, the mean of L' C_n L, with C_n the
    covariance of the gradients of a minibatch's data (`heat` has the factor between C_n and V). The rest is scratch:
    `covariance` and `product` (dim, dim), `mean` and `score` (dim,).
    """

    sd: float
    total: float
    heat: float
    lower: np.ndarray
    due: np.ndarray
    tuned: np.ndarray
    learnt: np.ndarray
    estimate: np.ndarray
    covariance: np.ndarray
    product: np.ndarray
    mean: np.ndarray
    score: np.ndarray


@compiled
def apply_compensating_friction(rng: np.random.Generator, keep: float, noise: AddedNoise, velocity: np.ndarray) -> None:
    """Replace the velocity v by keep v + N(0, S): friction, with less noise because the gradients are noisy."""
    dim = velocity.shape[0]
    lower = noise.lower
    z = noise.score  # scratch, which `learn` uses for other numbers
    for j in range(dim):
        z[j] = rng.standard_normal()
    isotropic = lower.shape[0] == 0
    learns = noise.due[0] > 0.0
    untuned = noise.tuned[0] == 0.0 and not learns  # NaN then stops the chain, and `explain_noise` says why
    # Tuning may pass through places where the gradients are too noisy for any S. No noise is added there, because it
    # would heat the chain further and keep it where control variates are poor.
    silent = learns and not isotropic and math.isnan(lower[dim - 1, dim - 1])
    for j in range(dim):
        added = 0.0
        if isotropic:
            added = noise.sd * z[j]
        elif untuned:
            added = math.nan  # ends the chain, with the message of `explain_noise`
        if not (isotropic or silent):
            for k in range(j + 1):
                added += lower[j, k] * z[k]
        velocity[j] = keep * velocity[j] + added


@compiled
def learn(
    minibatch: MinibatchGradient,
    theta: np.ndarray,
    scale: np.ndarray,
    upper: np.ndarray,
    noise: AddedNoise,
    count: np.ndarray,
) -> None:
    """Update the estimate of W by the minibatch's gradients at theta, and factor S."""
    dim = theta.shape[0]
    covariance = noise.covariance
    product = noise.product
    estimate = noise.estimate
    write_scores(minibatch, theta, noise.mean, covariance, noise.score)
    gradients_of_a_datum = 2 if minibatch.anchor.shape[0] > 0 else 1  # at theta, and at the anchor of a control variate
    count[GRADIENTS] += minibatch.batch_size * gradients_of_a_datum
    noise.learnt[0] += 1.0
    # The mean weights minibatch t in proportion to t^3. A chain may start 60 standard deviations away, where control
    # variates leave 3600 times the noise: with weights in proportion to t, the first 50 of 2000 steps still trebled the
    # estimate.
    weight = 4.0 / (noise.learnt[0] + 3.0)
    for j in range(dim):  # product = C_n L
        for k in range(dim):
            total = 0.0
            if upper.shape[0] == 0:
                total = covariance[j, k] * scale[k]
            else:
                for i in range(k, dim):
                    total += covariance[j, i] * upper[k, i]
            product[j, k] = total
    for j in range(dim):  # L' C_n L
        for k in range(dim):
            total = 0.0
            if upper.shape[0] == 0:
                total = scale[j] * product[j, k]
            else:
                for i in range(j, dim):
                    total += upper[j, i] * product[i, k]
            estimate[j, k] += weight * (total - estimate[j, k])
    S = product  # scratch again
    for j in range(dim):
        for k in range(dim):
            S[j, k] = (noise.total if j == k else 0.0) - noise.heat * estimate[j, k]
    factor(S, noise.lower)


def checked_noise(gradient_noise: Any) -> Any:
    """Return "tune", None or a covariance; raise if it is invalid."""
    if gradient_noise is None or (isinstance(gradient_noise, str) and gradient_noise == "tune"):
        return gradient_noise
    if isinstance(gradient_noise, str):
        raise InvalidInputError(f"{speaker()}: gradient_noise must be {FORMS}, found {gradient_noise!r}")
    covariance = np.array(gradient_noise, dtype=np.float64)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise InvalidInputError(f"{speaker()}: gradient_noise must be {FORMS}, found shape {covariance.shape}")
    fault = _why_no_covariance(covariance)
    if fault:
        raise InvalidInputError(f"{speaker()}: gradient_noise must be {FORMS}; the matrix {fault}")
    return covariance


def _why_no_covariance(matrix: np.ndarray) -> str:
    """Return why a square matrix is not symmetric positive semidefinite; "" if it is, up to rounding."""
    if not np.isfinite(matrix).all():
        return "has entries that are not finite"
    difference = np.abs(matrix - matrix.T).max(initial=0.0)
    if not np.allclose(matrix, matrix.T):
        return f"is not symmetric: entries (i, j) and (j, i) differ by up to {difference:.3g}"
    eigenvalues = np.linalg.eigvalsh(matrix)
    least = eigenvalues.min(initial=0.0)
    if least < -ROUNDING * np.abs(eigenvalues).max(initial=0.0):
        return f"has the negative eigenvalue {least:.3g}"
    return ""


def added_noise(
    gradient_noise: Any,
    minibatch: MinibatchGradient,
    spread: Spread,
    step_size: float,
    keep: float,
) -> AddedNoise:
    """Return the noise of friction at the start of a chain.

    `gradient_noise` is a covariance, from which S is computed now; "tune": S is learnt; or None: S = (1 - c^2) I.
    `keep` is c. Raises IncompatibleError if friction then removes too little energy for any S, or the covariance has
    another size.
    """
    dim = minibatch.at_anchor.size
    total = 1.0 - keep**2
    heat = 0.25 * ((1.0 + keep) * step_size) ** 2
    n_obs = minibatch.n_obs
    lower = np.empty((0, 0))
    learns = isinstance(gradient_noise, str)
    if isinstance(gradient_noise, np.ndarray):
        if gradient_noise.shape[0] != dim:
            raise IncompatibleError(
                f"{speaker()}: the target has {dim} parameters, gradient_noise has shape {gradient_noise.shape}"
            )
        L = np.diag(spread.scale) if spread.upper.size == 0 else spread.upper.T
        whitened = L.T @ gradient_noise @ L
        why = why_too_noisy(whitened, step_size, total, heat)
        if why:
            raise IncompatibleError(f"{speaker()}: {why}")
        lower = checked_cholesky(total * np.eye(dim) - heat * whitened)
    elif learns:
        lower = np.full((dim, dim), math.nan)
        # V = N^2 (1/n - 1/N) C, C the covariance of the gradients of single data (`minibatch_gradient`).
        heat *= n_obs**2 * (1.0 / minibatch.batch_size - 1.0 / n_obs)
    return AddedNoise(
        math.sqrt(total),
        total,
        heat,
        lower,
        due=np.full(1, 1.0 if learns else 0.0),
        tuned=np.full(1, 0.0 if learns else 1.0),
        learnt=np.zeros(1),
        estimate=np.zeros((dim, dim)),
        covariance=np.zeros((dim, dim)),
        product=np.zeros((dim, dim)),
        mean=np.zeros(dim),
        score=np.zeros(dim),
    )


def why_too_noisy(whitened: np.ndarray, step_size: float, total: float, heat: float) -> str:
    """Return a message with a remedy if friction removes less energy than the gradients' noise adds; "" otherwise.

    `whitened` is W, or a multiple of W with `heat` scaled accordingly.
    """
    largest = float(np.linalg.eigvalsh(whitened)[-1])
    if heat * largest < total:
        return ""
    keep = math.sqrt(1.0 - total)
    strength = heat * largest / (1.0 + keep) ** 2  # (h^2 / 4) w = tanh(gamma h / 2) at the least friction
    enough = f"friction of at least {2.0 * math.atanh(strength) / step_size:.3g}, " if strength < 1.0 else ""
    return (
        f"gradient noise adds {heat * largest / total:.3g} times the energy that friction removes; use {enough}"
        "a smaller step_size, a larger batch, control_variate= or a ControlVariate; or gradient_noise=None, "
        "which leaves the variance too large"
    )


def explain_noise(noise: AddedNoise, step_size: float) -> str:
    """Return a sentence on why the noise of friction is NaN; "" if it is not."""
    if not noise.lower.size or not np.isfinite(noise.estimate).all():  # gradients that are not finite have a message
        return ""
    if noise.learnt[0] > 0.0 and noise.tuned[0] == 0.0:
        return f'{speaker()}: gradient_noise="tune" learns during tuning, and there were no tuning steps; set tune='
    if np.isfinite(noise.lower[-1, -1]):
        return ""
    return f"{speaker()}: {why_too_noisy(noise.estimate, step_size, noise.total, noise.heat)}"
