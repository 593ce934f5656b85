r"""Step and batch size of SGLD for a wanted error of its covariance.

In the metric of the posterior, M its covariance, z = L^-1 (theta - mean) and L L' = M, an SGLD step of size alpha on a
normal posterior is z' = (1 - alpha/2) z + (alpha/2) noise + N(0, alpha I), and with gradients of whitened covariance
W(z) its stationary covariance C solves

.. math:: C = (1 - \alpha/2)^2 C + \tfrac{\alpha^2}{4} \mathrm{E}\, W(z) + \alpha I .

Where W does not depend on z, C = (I + alpha W / 4) / (1 - alpha / 4). Where z enters W quadratically, as in all models
with quadratic terms, E W grows with C, and (1 + e) I solves the equation with <= in place of = when

.. math:: \alpha = \frac{4 e}{1 + e + \lambda}, \qquad
          \lambda \text{ the largest eigenvalue of } \mathrm{E}\, W(z), \; z \sim N(0, (1 + e) I) :

the iterates that begin at C = 0 then increase, and stay below (1 + e) I. So the largest relative error of a variance is
at most e. Minibatches of n rows have lambda(n) = Lambda (1/n - 1/N), with Lambda this eigenvalue for N times the
gradient of one row. An effective draw takes 4/alpha - 1 steps, and the batch size is the one with the least

.. math:: (4/\alpha(n) - 1) \, (\text{gradients of a step} + \text{overhead}).
"""

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance import AlwaysAccept
from approxmcmc.contracts import Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import InvalidInputError
from approxmcmc.numerics import Laplace, laplace
from approxmcmc.proposals import StochasticGradientLangevin
from approxmcmc.proposals.langevin_step import gradient_of
from approxmcmc.proposals.minibatch_gradient import minibatch_gradient, write_scores
from approxmcmc.samplers import MetropolisHastings

if TYPE_CHECKING:
    import pandas as pd

ROWS = 20_000  # read to estimate the covariance of the gradients: to 1 % if they have four moments
CANDIDATES = 60  # batch sizes, evenly spaced on the logarithmic scale


@dataclasses.dataclass(frozen=True)
class DesignedLangevin:
    """The SGLD that was found, the predicted error of its variances, its predicted cost, and what the search cost.

    Parameters
    ----------
    sampler
        `MetropolisHastings` with :class:`StochasticGradientLangevin` and :class:`AlwaysAccept`.
    step_size, batch_size, control_variate
        Settings of `sampler`; `control_variate` says whether it has control variates.
    covariance_error
        Predicted largest relative error of a posterior variance, over all directions.
    direction
        The direction of theta with this error; its length is its posterior standard deviation, shape (dim,).
    gradients_per_draw
        Predicted gradients of one term for each effective draw.
    table
        The best batch size with control variates and without: control_variate, batch_size, step_size, steps_per_draw,
        gradients_per_draw, cost (the overhead of steps included).
    setup_gradient_evaluations, setup_seconds
        Cost of the search, without the search for the mode.
    """

    sampler: MetropolisHastings
    step_size: float
    batch_size: int
    control_variate: bool
    covariance_error: float
    direction: np.ndarray = dataclasses.field(repr=False, compare=False)
    gradients_per_draw: float
    table: "pd.DataFrame" = dataclasses.field(repr=False, compare=False)
    setup_gradient_evaluations: int = 0
    setup_seconds: float = 0.0


@naming_the_arguments
def design_sgld(
    target: Target,
    *,
    covariance_error: float = 0.1,
    batch_size: int | None = None,
    at: Laplace | None = None,
    overhead: float | None = None,
    n_points: int | None = None,
    random_seed: Any = 0,
) -> DesignedLangevin:
    r"""Find the cheapest SGLD with posterior variances that are wrong by at most the share `covariance_error`.

    Parameters
    ----------
    target
        A target with gradients; a :class:`ControlVariate` brings its own control variates.
    covariance_error
        e, the largest relative error of a variance that is allowed, over all directions; in (0, 1).
    batch_size
        The batch size n to use; None: the cheapest.
    at
        Location and width of the posterior, `mode` and `cov`; None: ``laplace(target)``.
    overhead
        Cost of a step without the gradients of its minibatch, in gradients of a term; None: ``20 + 2 dim``, which
        was measured at 50 parameters.
    n_points
        Points at which the noise is measured, in pairs with exactly the mean of N(mode, (1 + e) cov), and exactly its
        covariance if there are at least 2 dim points; None: twice the larger of 8 and dim.
    random_seed
        Seed of the random points and rows.

    Returns
    -------
    DesignedLangevin
        `sampler` goes into `sample`; the other attributes are its prediction and cost.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.
    IncompatibleError
        When the target has no gradient.

    Notes
    -----
    Guarantee: on a normal posterior with covariance `cov` and quadratic terms, the largest error is at most e; it
    equals e if the noise does not depend on theta. On other posteriors the prediction is as good as the normal
    approximation and `cov`: an error of a third in `cov` changes the step, and so the covariance error, by a third. The
    noise is measured on at most 20 000 rows, drawn at random: if a few rows dominate it, use ``ControlVariate(target,
    always_read="auto")``. Cost: ``3 n_points`` gradients of each of these rows, and one of every row.

    References
    ----------
    Vollmer, Zygalakis and Teh (2016); Baker, Fearnhead, Fox and Nemeth (2019).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> found = amc.design.design_sgld(target, covariance_error=0.05)
    >>> found.control_variate, found.batch_size < 100, 0.1 < found.step_size < 0.2
    (True, True, True)
    """
    import pandas as pd

    if not 0.0 < covariance_error < 1.0:
        raise InvalidInputError(f"design_sgld: covariance_error must lie between 0 and 1, found {covariance_error!r}")
    gradient = gradient_of(target)  # raises before the search of the mode
    fit = laplace(target) if at is None else at
    began = time.perf_counter()
    dim = target.variables.size
    rng = np.random.default_rng(random_seed)
    lower = np.linalg.cholesky(fit.cov)
    pairs = max(8, dim) if n_points is None else checked_integer(n_points, "n_points", 2) // 2
    n_obs = gradient.n_obs
    n_rows = min(gradient.n_obs, ROWS)
    rows = rng.permutation(n_obs)[:n_rows]
    points = fit.mode + np.sqrt(1.0 + covariance_error) * standard_points(rng, pairs, dim) @ lower.T
    # In gradients of a term, as measured at 50 parameters.
    overhead = 20.0 + 2.0 * dim if overhead is None else float(overhead)
    sizes = candidate_sizes(n_obs, batch_size)
    choices = []
    directions = []
    for anchor in (None, np.array(fit.mode, dtype=np.float64)):
        make_minibatch = minibatch_gradient(gradient, dim, n_rows, anchor)
        minibatch = make_minibatch()
        minibatch.order[:n_rows] = rows
        noise = lower.T @ mean_covariance(minibatch, points) @ lower
        values, vectors = np.linalg.eigh(noise)
        largest = (
            n_obs**2 * values[-1]
        )  # Lambda: `noise` is the covariance of the gradient of one row, not of N of them
        gradients_per_row = 1.0 if anchor is None else 2.0  # at the anchor, too
        choices.append(
            {
                "control_variate": anchor is not None,
                **best_batch(sizes, n_obs, largest, covariance_error, gradients_per_row, gradient.prior_rows, overhead),
            }
        )
        directions.append(lower @ vectors[:, -1])
    best = int(np.argmin([choice["cost"] for choice in choices]))
    chosen = choices[best]
    proposal = StochasticGradientLangevin(
        chosen["step_size"],
        chosen["batch_size"],
        preconditioner=fit,
        control_variate=fit if chosen["control_variate"] else None,
    )
    return DesignedLangevin(
        sampler=MetropolisHastings(proposal, AlwaysAccept()),
        step_size=chosen["step_size"],
        batch_size=chosen["batch_size"],
        control_variate=chosen["control_variate"],
        covariance_error=covariance_error,
        direction=directions[best],
        gradients_per_draw=chosen["gradients_per_draw"],
        table=pd.DataFrame(choices),
        # Rows at each point: once without control variates, and twice with; once all rows, for the sum at the anchor.
        setup_gradient_evaluations=3 * len(points) * n_rows + n_obs,
        setup_seconds=time.perf_counter() - began,
    )


def standard_points(rng: np.random.Generator, pairs: int, dim: int) -> np.ndarray:
    """Return points with mean 0 and, from `dim` pairs on, mean square I, in pairs z and -z; shape (2 pairs, dim)."""
    z = rng.standard_normal((pairs, dim))
    if pairs >= dim:
        z = np.sqrt(pairs) * np.linalg.qr(z)[0]
    return np.vstack([z, -z])


def mean_covariance(minibatch: Any, points: np.ndarray) -> np.ndarray:
    """Return the covariance of the gradients of single rows, averaged over points; shape (dim, dim)."""
    dim = points.shape[1]
    total = np.zeros((dim, dim))
    mean = np.zeros(dim)
    covariance = np.zeros((dim, dim))
    score = np.zeros(dim)
    for theta in points:
        write_scores(minibatch, np.ascontiguousarray(theta), mean, covariance, score)
        total += covariance / len(points)
    return total


def candidate_sizes(n_obs: int, batch_size: int | None) -> np.ndarray:
    """Return the batch sizes to compare: only the given one, or sizes from 1 to N; shape (n_sizes,)."""
    if batch_size is None:
        return np.unique(np.rint(np.geomspace(1.0, n_obs, CANDIDATES)).astype(int))
    size = checked_integer(batch_size, "batch_size")
    if size > n_obs:
        raise InvalidInputError(f"design_sgld: a minibatch of {size} cannot be drawn from {n_obs} data; use fewer")
    return np.array([size])


def best_batch(
    sizes: np.ndarray, n_obs: int, noise: float, error: float, per_row: float, prior_rows: int, overhead: float
) -> dict[str, Any]:
    """Return the batch size that costs least for each effective draw, with step size and costs, as a row of the table.

    lambda(n) = noise (1/n - 1/N); `per_row` gradients for each row of a minibatch, and `prior_rows` and `overhead` for
    each step.
    """
    steps = 4.0 * error / (1.0 + error + noise * (1.0 / sizes - 1.0 / n_obs))
    per_draw = 4.0 / steps - 1.0
    gradients = per_row * sizes + prior_rows
    k = int(np.argmin(per_draw * (gradients + overhead)))
    return {
        "batch_size": int(sizes[k]),
        "step_size": float(steps[k]),
        "steps_per_draw": float(per_draw[k]),
        "gradients_per_draw": float(per_draw[k] * gradients[k]),
        "cost": float(per_draw[k] * (gradients[k] + overhead)),
    }
