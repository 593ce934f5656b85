r"""The gradient of the log posterior, estimated on a minibatch; shared by all stochastic-gradient proposals.

Let g_i be the gradient of log p(x_i | theta). A minibatch X_n, drawn without replacement, gives

.. math:: \hat g(\theta) = \nabla \log p(\theta) + \frac{N}{n} \sum_{x \in X_n} \nabla \log p(x | \theta),

and with a control variate, a point :math:`\hat\theta` near the mode,

.. math:: \hat g(\theta) = \nabla \log p(\theta) + \sum_{i=1}^N g_i(\hat\theta)
          + \frac{N}{n} \sum_{X_n} [g_i(\theta) - g_i(\hat\theta)].

Both estimates are unbiased. Let S be the covariance (divisor N - 1) of the N gradients, or with a control variate of
the N differences of gradients. Then the covariance of the estimate is V = N^2 (1/n - 1/N) S.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledGradient
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import mode_of
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.errors import IncompatibleError, InvalidInputError


class MinibatchGradient(NamedTuple):
    """A target's gradients on a minibatch, which is the front of the chain's permutation `order` of the data.

    `anchor` is the point of the control variate, empty without one; `anchor_total` is the gradient on all data at this
    point, `at_anchor` the minibatch's gradient at this point.
    """

    data: Any
    n_obs: int
    batch_size: int
    add_gradient: Any
    add_prior_gradient: Any
    prior_rows: int
    order: np.ndarray
    anchor: np.ndarray
    anchor_total: np.ndarray
    at_anchor: np.ndarray


@compiled
def draw_minibatch(rng: np.random.Generator, minibatch: MinibatchGradient, count: np.ndarray) -> None:
    """Draw a minibatch, and write its gradient at the anchor to `at_anchor`, 0 without an anchor."""
    batch_size = minibatch.batch_size
    draw_next(rng, minibatch.order, 0, batch_size)
    minibatch.at_anchor[:] = 0.0
    if minibatch.anchor.shape[0] > 0:
        minibatch.add_gradient(minibatch.anchor, minibatch.data, minibatch.order, 0, batch_size, minibatch.at_anchor)
        count[GRADIENTS] += batch_size


@compiled
def book_reads(minibatch: MinibatchGradient, minibatches: int, count: np.ndarray) -> None:
    """Add to `count` how many rows the minibatches of a proposal read, at most all rows once, and the prior's rows."""
    count[TOUCHED] += min(minibatches * minibatch.batch_size, minibatch.n_obs) + minibatch.prior_rows


@compiled
def estimate_gradient(minibatch: MinibatchGradient, theta: np.ndarray, out: np.ndarray, count: np.ndarray) -> None:
    """Write the estimate g_hat(theta), with the prior's gradient, to `out`; see the module."""
    n_obs = minibatch.n_obs
    batch_size = minibatch.batch_size
    out[:] = 0.0
    minibatch.add_gradient(theta, minibatch.data, minibatch.order, 0, batch_size, out)
    count[GRADIENTS] += batch_size + minibatch.prior_rows
    for j in range(theta.shape[0]):
        out[j] = n_obs / batch_size * (out[j] - minibatch.at_anchor[j]) + minibatch.anchor_total[j]
    minibatch.add_prior_gradient(theta, out)


@compiled
def write_scores(
    minibatch: MinibatchGradient, theta: np.ndarray, mean: np.ndarray, covariance: np.ndarray, score: np.ndarray
) -> None:
    """Write mean and covariance (divisor n - 1) of the gradients of the minibatch's data, minus those at the anchor.

    `score` is scratch. The data are added one after the other (Welford).
    """
    mean[:] = 0.0
    covariance[:] = 0.0
    dim = theta.shape[0]
    for position in range(minibatch.batch_size):
        # score = g_i(theta) - g_i(anchor) of one datum
        score[:] = 0.0
        if minibatch.anchor.shape[0] > 0:
            minibatch.add_gradient(minibatch.anchor, minibatch.data, minibatch.order, position, position + 1, score)
            for j in range(dim):
                score[j] = -score[j]
        minibatch.add_gradient(theta, minibatch.data, minibatch.order, position, position + 1, score)
        # With d the datum's distance from the mean of the first i, sum (g - mean)(g - mean)' grows by i / (i + 1) d d',
        # and the mean moves by d / (i + 1). Only the lower triangle is summed.
        for j in range(dim):
            score[j] -= mean[j]
        shrink = position / (position + 1.0)
        for j in range(dim):
            for k in range(j + 1):
                covariance[j, k] += shrink * score[j] * score[k]
        for j in range(dim):
            mean[j] += score[j] / (position + 1.0)
    for j in range(dim):
        for k in range(j + 1):
            covariance[j, k] /= minibatch.batch_size - 1.0
            covariance[k, j] = covariance[j, k]


def checked_anchor(control_variate: Any) -> np.ndarray | None:
    """Return the point of a control variate, shape (dim,), or None; raise if it is invalid."""
    if control_variate is None:
        return None
    anchor = mode_of(control_variate)
    if anchor.ndim != 1 or not np.isfinite(anchor).all():
        raise InvalidInputError(
            f"{speaker()}: control_variate must be a point, shape (dim,), or an object with a mode such as "
            f"laplace(target), found shape {anchor.shape}"
        )
    return anchor


def minibatch_gradient(
    gradient: CompiledGradient,
    dim: int,
    batch_size: int,
    anchor: np.ndarray | None = None,
) -> Callable[[], MinibatchGradient]:
    """Return the function that makes the `MinibatchGradient` of a chain.

    Raises IncompatibleError if `batch_size` exceeds the number of data, or `anchor` does not have the length `dim`.
    """
    n_obs = gradient.n_obs
    if batch_size > n_obs:
        raise IncompatibleError(
            f"{speaker()}: a minibatch of {batch_size} cannot be drawn from {n_obs} data; use fewer"
        )
    if anchor is not None and anchor.shape != (dim,):
        raise IncompatibleError(
            f"{speaker()}: the target has {dim} parameters, control_variate {anchor.size}; give a point near the mode "
            "of this target"
        )
    at = np.empty(0) if anchor is None else anchor.copy()
    total = np.zeros(dim) if anchor is None else full_gradient(gradient, anchor)
    kernels = gradient.add_gradient, gradient.add_prior_gradient, gradient.prior_rows

    def make_minibatch() -> MinibatchGradient:
        return MinibatchGradient(gradient.data, n_obs, batch_size, *kernels, np.arange(n_obs), at, total, np.zeros(dim))

    return make_minibatch


def setup_cost(gradient: CompiledGradient, anchor: np.ndarray | None) -> dict[str, int]:
    """Return the cost of computing the control variate at set-up, as attributes; empty without one."""
    return {} if anchor is None else {"setup_gradient_evaluations": gradient.n_obs}
