"""The mode and curvature of a doubly intractable posterior by stochastic approximation.

    theta <- theta + a_k P [grad log p(theta) + s(y) - s(y'_k)],    y'_k drawn at theta,    a_k = a_0 k_0 / (k_0 + k),

with s the statistics, y the data, y'_k simulated data, and P a covariance that sets the shape of the steps, climbs the
log posterior along an unbiased estimate of its gradient (Robbins and Monro 1951). Averaging the later iterates removes
most of the noise (Polyak and Juditsky 1992). At the mode, minus the Hessian of the log posterior is
Cov s(y') plus the prior's precision: the covariance of simulated statistics gives the shape of the steps.
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import COUNT_NAMES, DoublyIntractableTarget
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import INDICES, MATRIX, VECTOR, bind, entry_point, internal, type_of
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import check_target, make_draw_rows
from approxmcmc.samplers.auxiliary_variable.langevin import PRIOR_STEP, posterior_gradient, prior_gradient

BLOCKS = 20  # blocks of steps in a round; the averages of successive blocks are compared
LONGEST_STEP = 1.0  # posterior standard deviations: a start in another phase of the model must not move theta far away
RIDGE = 1e-3  # share of its diagonal that is added to a matrix estimated from few draws


class ClimbState(NamedTuple):
    """The state of a climb.

    `observed` is s(y), shape (dim,); `drawn` holds s(y') of the draws of one step, (n_auxiliary, dim); `gradient`,
    `whitened` and `proposed` are scratch, (dim,) each. `average` is the mean of the iterates.
    """

    log_prior: Any
    observed: np.ndarray
    simulator: Any
    drawn: np.ndarray
    gradient: np.ndarray
    whitened: np.ndarray
    proposed: np.ndarray
    average: np.ndarray
    counts: np.ndarray


def make_climb(draw_rows: Callable[..., None]) -> Callable[..., None]:
    """Return the loop of the equation of the module, in the metric L L' = P."""

    def climb(
        rng: np.random.Generator,
        state: ClimbState,
        theta: np.ndarray,
        lower: np.ndarray,
        gain: float,
        delay: float,
        first: int,
        n_steps: int,
    ) -> None:
        """Make `n_steps` steps of `theta`, with P = L L', L = `lower`; write the mean of the iterates to the state."""
        gradient = state.gradient
        whitened = state.whitened
        proposed = state.proposed
        average = state.average
        dim = theta.shape[0]
        average[:] = 0.0
        for k in range(n_steps):
            draw_rows(rng, theta, state.simulator, state.drawn, state.counts)
            posterior_gradient(state.log_prior, theta, state.observed, state.drawn, proposed, gradient)
            length = 0.0
            for j in range(dim):
                whitened[j] = 0.0
                for i in range(j, dim):
                    whitened[j] += lower[i, j] * gradient[i]
                length += whitened[j] * whitened[j]
            size = gain * delay / (delay + first + k)
            size = min(size, LONGEST_STEP / math.sqrt(length)) if length > 0.0 else size
            for i in range(dim):
                proposed[i] = theta[i]
                for j in range(i + 1):
                    proposed[i] += size * lower[i, j] * whitened[j]
            if state.log_prior(proposed) > -math.inf:
                assign(theta, proposed)
            for j in range(dim):
                average[j] += theta[j] / n_steps

    climb = internal(climb)

    def enter(
        rng: np.random.Generator,
        state: ClimbState,
        theta: np.ndarray,
        lower: np.ndarray,
        gain: float,
        delay: float,
        first: int,
        n_steps: int,
    ) -> None:
        climb(rng, state, theta, lower, gain, delay, first, n_steps)

    return enter


def make_draw(draw_rows: Callable[..., None]) -> Callable[..., None]:
    """Return `draw_rows` as a function that Python calls."""

    def draw(rng: np.random.Generator, theta: np.ndarray, simulator: Any, rows: np.ndarray, count: np.ndarray) -> None:
        draw_rows(rng, theta, simulator, rows, count)

    return draw


class _Simulation:
    """A target's simulator with its compiled loops, scratch and stream."""

    def __init__(self, target: DoublyIntractableTarget, auxiliary: Any, n_auxiliary: int, random_seed: Any) -> None:
        simulator = target.build_simulator(auxiliary)
        dim = target.variables.size
        [sequence], _ = seed_sequences(random_seed, 1)
        self.rng = streams(sequence).order
        self.log_prior = target.compile_log_prior()
        self.observed = target.observed_statistics
        self.state = ClimbState(
            log_prior=self.log_prior,
            observed=self.observed,
            simulator=simulator.make_state(),
            drawn=np.empty((n_auxiliary, dim)),
            gradient=np.empty(dim),
            whitened=np.empty(dim),
            proposed=np.empty(dim),
            average=np.empty(dim),
            counts=np.zeros(len(COUNT_NAMES), dtype=np.int64),
        )
        rng = type_of(self.rng)
        draw_rows = make_draw_rows(simulator.simulate)
        numbers = (nb.float64, nb.float64, nb.int64, nb.int64)
        climb = nb.void(rng, type_of(self.state), VECTOR, MATRIX, *numbers)
        draw = nb.void(rng, VECTOR, type_of(self.state.simulator), MATRIX, INDICES)
        self._climb = entry_point(bind(make_climb, draw_rows, signature=climb), climb)
        self._draw = entry_point(bind(make_draw, draw_rows, signature=draw), draw)

    def climb(self, theta: np.ndarray, lower: np.ndarray, gain: float, delay: float, first: int, n: int) -> np.ndarray:
        """Make `n` steps of `theta`, in place, with P = L L', L = `lower`; return the mean of the iterates.

        Step k has a_k = `gain` `delay` / (`delay` + `first` + k).
        """
        self._climb(self.rng, self.state, theta, lower, gain, delay, first, n)
        return self.state.average.copy()

    def statistics(self, theta: np.ndarray, n: int) -> np.ndarray:
        """Return the statistics s(y') of `n` draws at theta; shape (n, dim)."""
        out = np.empty((n, theta.size))
        self._draw(self.rng, theta, self.state.simulator, out, self.state.counts)
        return out

    def curvature(self, theta: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the log posterior and minus its Hessian at theta, from `n` draws."""
        drawn = self.statistics(theta, n)
        gradient = np.empty_like(theta)
        prior_gradient(self.log_prior, theta, np.empty_like(theta), gradient)
        precision = np.atleast_2d(np.cov(drawn.T)) + self._prior_precision(theta)
        return gradient + self.observed - drawn.mean(axis=0), precision

    def _prior_precision(self, theta: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of the log prior, by differences of its gradient; 0 at the edge of the support."""
        columns = []
        dim = theta.size
        for j in range(dim):
            # Longer than the step of the gradient, which is itself a difference: its rounding is divided by this step.
            step = 100.0 * PRIOR_STEP * (1.0 + abs(theta[j]))
            sides = np.empty((2, dim))
            for side, sign in zip(sides, (1.0, -1.0), strict=True):
                moved = theta + sign * step * np.eye(dim)[j]
                prior_gradient(self.log_prior, moved, np.empty(dim), side)
            columns.append(-(sides[0] - sides[1]) / (2.0 * step))
        hessian = np.array(columns)
        return 0.5 * (hessian + hessian.T)


@naming_the_arguments
def robbins_monro(
    target: DoublyIntractableTarget,
    *,
    start: Any = None,
    auxiliary: Any = "auto",
    n_steps: int = 20_000,
    n_auxiliary: int = 1,
    n_curvature: int = 4000,
    gain: float = 0.1,
    tol: float = 0.01,
    random_seed: Any = None,
) -> Laplace:
    """Find the mode of a doubly intractable posterior, and the curvature there, from simulated data only.

    Parameters
    ----------
    target
        Such as ``targets.Ising`` or ``targets.ERGM``. A flat prior gives the maximum-likelihood estimate.
    start
        Where to start, shape (dim,); None: the target's initial point.
    auxiliary
        As for :class:`Exchange`.
    n_steps
        Largest number of steps, half of them in each of two rounds. The second round is preconditioned by the
        curvature where the first one ended.
    n_auxiliary
        Draws behind the gradient of one step.
    n_curvature
        Draws behind the curvature at the mode.
    gain
        First step, a_0, in (0, 1]: 1 would be a Newton step.
    tol
        A round ends early when the averages of two successive blocks of steps are closer than this, in posterior
        standard deviations.
    random_seed
        As in `sample`.

    Returns
    -------
    Laplace
        ``mode``, ``cov`` (every ``cov=`` and ``preconditioner=`` accepts the object) and ``decrement``, the length of
        the estimated gradient at the mode in posterior standard deviations: it contains noise of sqrt(dim /
        n_curvature).

    Raises
    ------
    IncompatibleError
        When the target cannot simulate.
    InvalidInputError
        When a setting is out of range.
    NotFiniteError
        When the covariance of the simulated statistics has no inverse: the model is degenerate there.

    Notes
    -----
    Guarantee: consistent as steps and draws grow, with exact auxiliary draws; otherwise biased by the error of these.

    References
    ----------
    Robbins and Monro (1951); Polyak and Juditsky (1992); Alquier, Friel, Everitt and Boland (2016), section 4.2.1.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> lattice = np.array([[1, 1, -1], [1, 1, -1], [1, -1, -1]])
    >>> target = amc.targets.Ising(lattice, prior_scale=1.0)
    >>> amc.design.robbins_monro(target, n_steps=400, n_curvature=200, random_seed=1).cov.shape
    (1, 1)
    """
    check_target(target)
    counts = {"n_steps": n_steps, "n_auxiliary": n_auxiliary, "n_curvature": n_curvature}
    n_steps, n_auxiliary, n_curvature = (checked_integer(n, name) for name, n in counts.items())
    if not 0.0 < gain <= 1.0 or tol < 0.0 or n_steps < 2 * BLOCKS or n_curvature < 2 * target.variables.size + 2:
        raise InvalidInputError(
            f"robbins_monro needs 0 < gain <= 1, tol >= 0, n_steps >= {2 * BLOCKS} and n_curvature >= "
            f"{2 * target.variables.size + 2}, found {gain}, {tol}, {n_steps} and {n_curvature}"
        )
    began = time.perf_counter()
    simulation = _Simulation(target, auxiliary, n_auxiliary, random_seed)
    theta = np.array(target.initial_point() if start is None else start, dtype=np.float64)  # type: ignore[attr-defined]
    if theta.shape != (target.variables.size,) or not np.isfinite(theta).all():
        raise InvalidInputError(
            f"robbins_monro: start must hold {target.variables.size} finite numbers, found {np.array2string(theta)}"
        )
    n_pilot = max(n_curvature // 4, 2 * theta.size + 2)  # the shape of steps needs less precision than the result
    for _ in range(2):
        theta = _round(simulation, theta, n_steps // 2, n_pilot, gain, tol)
    gradient, precision = simulation.curvature(theta, n_curvature)
    cov = _inverse(precision, theta)
    decrement = float(np.sqrt(max(gradient @ cov @ gradient, 0.0)))
    return Laplace(theta, cov, decrement=decrement, seconds=time.perf_counter() - began)


def _round(
    simulation: _Simulation, theta: np.ndarray, n_steps: int, n_pilot: int, gain: float, tol: float
) -> np.ndarray:
    """Make up to `n_steps` steps with the curvature at `theta`; return the mean of the second half of the iterates."""
    _, precision = simulation.curvature(theta, n_pilot)
    precision = precision + np.diag(
        RIDGE * np.diag(precision) + 1e-12
    )  # 1e-12: a statistic may be constant in so few draws
    lower = np.ascontiguousarray(np.linalg.cholesky(_inverse(precision, theta)))
    theta = theta.copy()
    block = n_steps // BLOCKS
    averages: list[np.ndarray] = []
    for k in range(BLOCKS):
        averages.append(simulation.climb(theta, lower, gain, delay=float(block), first=k * block, n=block))
        if k > 1:  # the first block is still on its way from the start
            move = averages[-1] - averages[-2]
            if np.sqrt(move @ precision @ move) < tol:
                break
    return np.mean(averages[len(averages) // 2 :], axis=0)


def _inverse(precision: np.ndarray, theta: np.ndarray) -> np.ndarray:
    values = np.linalg.eigvalsh(precision)
    if not np.isfinite(values).all() or values[0] <= 1e-12 * abs(values[-1]):
        raise NotFiniteError(
            f"robbins_monro: the simulated statistics at theta = {np.array2string(theta, precision=4)} hardly vary in "
            f"some direction (eigenvalues {np.array2string(values, precision=3)}): the model is degenerate there; "
            "start elsewhere, use a proper prior, or longer auxiliary chains"
        )
    inverse = np.linalg.inv(precision)
    return 0.5 * (inverse + inverse.T)
