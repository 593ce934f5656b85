"""Run a short chain on a surrogate to estimate mean and covariance of the posterior, and to get a few draws.

The mode and the curvature there understate a skewed posterior: with rare categories the mean lies one or two standard
deviations of the Laplace approximation away, and some directions are ten times as wide. The pilot expands at the mode,
always reads the walls and the rows whose residuals vary over draws of the Laplace approximation, and runs a chain on
this surrogate. The chain reads no light row, so it is biased; if an exact test decides later, this only costs speed.
If no row is influential there is no chain: the pilot is the Laplace approximation.
"""

import dataclasses
import time
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from approxmcmc.contracts import Target
from approxmcmc.contracts.records import EVALUATIONS, GRADIENTS
from approxmcmc.expansion import influential_rows
from approxmcmc.expansion.influential_rows import LARGEST_SHARE, rows_that_vary
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.quadratic import Survey, empty_rows
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.mode import laplace
from approxmcmc.surrogate.kernels import kernel_named, run
from approxmcmc.surrogate.surrogate import Surrogate

DRAWS = 16  # draws at which residuals are compared; a standard deviation from 16 draws is right to 20 %
LARGEST_SPREAD = 1.0  # largest accepted standard deviation, in nats, of the error of the pilot's surrogate
STEPS = (300, 600)  # steps with the metric at the mode, then steps with the metric from the first steps
BURN_IN = (100, 50)  # draws dropped from the first STEPS, and from the second
SHRINKAGE = (2.0, 0.5)  # weight of the previous covariance, in draws per parameter, after the first and second STEPS
KERNEL = "hmc+walls"
FIRST_STEP = float(np.log(0.4))
TUNING_STEPS = 100  # steps that tune only the step length, on the final surrogate


@dataclasses.dataclass(frozen=True, eq=False)
class Pilot(Laplace):
    """Mean and covariance of a pilot's chain instead of mode and curvature, with some draws; made by `run_pilot`.

    Parameters
    ----------
    mode, cov
        Mean (dim,) and shrunk covariance (dim, dim) of the chain's draws; without a chain, the Laplace approximation.
    decrement, passes, seconds
        Figures of the search for the mode, as in `Laplace`; passes and seconds include the pilot.
    draws
        Some draws, shape (16, dim).
    """

    draws: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 0)), repr=False, kw_only=True)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return one of the pilot's draws, chosen at random; shape (dim,).

        A draw of the normal approximation would lie beyond a wall in some direction. There light rows matter, and a
        chain may not leave: on KDD99, one-hot, 6000 transitions from such points made 5 effective draws.
        """
        return self.draws[rng.integers(len(self.draws))].copy()


def normal_pilot(fit: Laplace) -> Pilot:
    """Return a pilot with mode and covariance of a Laplace approximation, and 16 independent draws from it."""
    rng = np.random.default_rng(0)  # for set-up only: equal targets show equal numbers
    draws = fit.mode + rng.standard_normal((DRAWS, fit.mode.size)) @ fit.cholesky.T
    return Pilot(fit.mode, fit.cov, fit.decrement, fit.passes, fit.seconds, draws=draws)


class ExpandedRows(NamedTuple):
    """Coefficients of the quadratics of all rows, and the survey of their residuals."""

    numbers: np.ndarray
    survey: Survey


class PilotRun(NamedTuple):
    """A pilot, and the rows expanded at it; None if a chain was run.

    After a chain the pilot differs from the distribution at which the rows were expanded, so they must be expanded
    again.
    """

    pilot: Pilot
    expanded: ExpandedRows | None = None


def run_pilot(target: Target, memory_limit: float = 4e9, fit: Laplace | None = None) -> PilotRun:
    """Return a pilot of a posterior: the Laplace approximation if no row is influential, else a chain.

    `memory_limit` is the number of bytes that the coefficients of the rows may take; `fit` is the Laplace
    approximation, computed if None. If more than the share `LARGEST_SHARE` of the rows are influential, all are read.
    """
    fit = laplace(target) if fit is None else fit
    start = normal_pilot(fit)
    began = time.perf_counter()
    posterior = Posterior(target)
    expansion = posterior.expansion
    before = expansion.passes
    numbers = empty_rows(target.n_obs, expansion.columns, memory_limit, mapped=expansion.mapped)
    survey = expansion.light_everywhere(fit, numbers, influential_rows.LARGEST_SPREAD)
    if survey is None:
        survey = expansion.survey(fit.mode, fit.cholesky, start.draws, numbers, averaged=True)
    is_influential = survey.walls | rows_that_vary(survey, LARGEST_SPREAD)
    is_influential |= is_influential.mean() > LARGEST_SHARE
    if not is_influential.any():
        passes = fit.passes + expansion.passes - before
        seconds = fit.seconds + time.perf_counter() - began
        pilot = dataclasses.replace(start, passes=passes, seconds=seconds)
        return PilotRun(pilot, ExpandedRows(numbers, survey))
    rows = np.flatnonzero(is_influential)
    light = survey.total - expansion.total(fit.mode, numbers, rows)
    surrogate = Surrogate(target, fit.mode, light, rows)
    mean, cholesky, draws, gradients = _explore(surrogate, fit)
    passes = fit.passes + expansion.passes - before + round(gradients / target.n_obs)
    seconds = fit.seconds + time.perf_counter() - began
    return PilotRun(Pilot(mean, cholesky @ cholesky.T, fit.decrement, passes, seconds, draws=draws))


def _explore(surrogate: Surrogate, fit: Laplace) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Run a chain on the surrogate, with one update of the metric.

    Return the mean of its draws, the Cholesky factor of their covariance, 16 of the draws, and the number of rows read,
    counted once for each evaluation of a term or a gradient.
    """
    rng = np.random.default_rng(1)
    theta = fit.mode
    dim = fit.mode.size
    cholesky = fit.cholesky
    log_step = FIRST_STEP
    rows_read = 0
    moves = kernel_named(KERNEL)
    for steps, burn_in, shrinkage in zip(STEPS, BURN_IN, SHRINKAGE, strict=True):
        state = surrogate.new_state(surrogate.directions(cholesky), moves.length, log_step)
        chain = run(rng, moves, state, theta, steps)
        draws = chain.draws[burn_in:]
        theta = chain.draws[-1]
        log_step = float(state.log_step[0])
        rows_read += int(chain.counts[:, (EVALUATIONS, GRADIENTS)].sum())
        mean = draws.mean(axis=0)
        whitened = solve_triangular(cholesky, (draws - mean).T, lower=True)
        share = len(draws) / (len(draws) + shrinkage * dim)
        cov = share * (whitened @ whitened.T) / (len(draws) - 1) + (1.0 - share) * np.eye(dim)
        cholesky = cholesky @ np.linalg.cholesky(cov)
    return mean, cholesky, draws[np.linspace(0, len(draws) - 1, DRAWS).astype(int)], rows_read
