"""The log density around a known normal fit, and climbs on it from points far away.

A climb is L-BFGS (Liu and Nocedal 1989) in whitened coordinates phi, theta = m + L phi, with m and L L' the mean and
the covariance of the fit. Where the fit describes the posterior the Hessian is nearly -I, so that a climb to the known
mode takes about ten gradients, and lengths are in posterior standard deviations.
"""

from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.expansion.general import GeneralExpansion
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.sparse_normal import NormalFit

# Largest coordinate of the whitened gradient at the end of a climb, in 1 / posterior standard deviations: what is left
# to the top is then about as many standard deviations.
FLAT = 0.05
MOST_STEPS = 60  # most steps of a climb; each takes one gradient, sometimes two
MEMORY = 10  # steps whose curvature the direction of the next one uses
# Longest first step of a climb, in posterior standard deviations, and the largest factor from one step to the next: a
# long step could jump from the basin of one mode to that of another.
FIRST_STEP = 1.0
GROWTH = 4.0
# share of the promised gain that a step must make; halvings of a step that does not
ARMIJO = 1e-4
MOST_HALVINGS = 20
SMALLEST_GAIN = 1e-12  # gain of a step, relative to the log density, below which a climb ends
DIFFERENCE = 0.01  # step of differences in posterior standard deviations, if the target has no gradient
POINTS_BETWEEN = 9  # points of a segment at which the log density is evaluated
# Nats by which the log density may fall between two points of one mode; an unfinished climb leaves hundredths.
LARGEST_DIP = 0.5


class Climb(NamedTuple):
    """The end of a climb: the point `phi`, whitened, its log density, and whether the gradient there is nearly 0.

    `crossing` is the first point of the climb with a log density of at least the level asked for; None if none had it.
    """

    phi: np.ndarray
    value: float
    is_flat: bool
    crossing: np.ndarray | None


class Landscape:
    """The log posterior of a target in the whitened coordinates of a fit; counts its passes over all rows.

    Parameters
    ----------
    target
        The posterior; continuous, with terms.
    fit
        Mean and covariance that define the coordinates; of a sparse fit only the standard deviations.
    rows
        Indices of the rows whose log-likelihood, scaled, stands for that of all; None: all rows.
    is_closed
        Whether to take derivatives from the closed forms of linear predictors, if the target has them. False if
        these are not compiled, but the gradient of the terms is.
    """

    def __init__(self, target: Target, fit: NormalFit, rows: np.ndarray | None, *, is_closed: bool) -> None:
        self.target = target
        self.mean = fit.mode
        self.factor = fit.cholesky if isinstance(fit, Laplace) else fit.sd
        self.posterior = Posterior(target, order=1) if is_closed else Posterior.by_gradients(target)
        self.share = 1.0
        if rows is not None:
            self.posterior = self.posterior.of_rows(rows)
            self.share = len(rows) / target.n_obs

    @property
    def passes(self) -> float:
        """Passes over all rows so far; a pass over a sample of the rows counts as its share."""
        return self.share * self.posterior.expansion.passes

    def theta(self, phi: np.ndarray) -> np.ndarray:
        """Return the parameters at whitened coordinates; shape (dim,)."""
        return np.asarray(self.mean + (self.factor * phi if self.factor.ndim == 1 else self.factor @ phi))

    def phi(self, theta: np.ndarray) -> np.ndarray:
        """Return the whitened coordinates of parameters; the inverse of `theta`."""
        if self.factor.ndim == 1:
            return np.asarray((theta - self.mean) / self.factor)
        return np.asarray(np.linalg.solve(self.factor, theta - self.mean))

    @property
    def has_slopes(self) -> bool:
        """Whether the gradient comes from the target, and not from differences of the log density."""
        expansion = self.posterior.expansion
        return not isinstance(expansion, GeneralExpansion) or expansion.gradients is not None

    def value(self, phi: np.ndarray) -> float:
        """Return the log density; -inf where it is not finite."""
        return self._evaluated(phi, wants_slope=False)[0]

    def value_and_slope(self, phi: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density and its whitened gradient; (-inf, 0) where they are not finite."""
        if self.has_slopes:
            value, slope = self._evaluated(phi, wants_slope=True)
            slope = self.factor * slope if self.factor.ndim == 1 else self.factor.T @ slope
        else:
            shifts = DIFFERENCE * np.eye(phi.size)
            value = self.value(phi)
            slope = np.array([self.value(phi + shift) - self.value(phi - shift) for shift in shifts])
            slope /= 2.0 * DIFFERENCE
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return -np.inf, np.zeros(phi.size)
        return value, slope

    def _evaluated(self, phi: np.ndarray, *, wants_slope: bool) -> tuple[float, np.ndarray]:
        """Return the log density and, if wanted, its gradient in theta; -inf where one is not finite."""
        theta = self.theta(phi)
        expansion = self.posterior.expansion
        slope = np.zeros(phi.size)
        with np.errstate(all="ignore"):
            try:
                value = float(self.posterior.log_prior(theta))
                if not np.isfinite(value):
                    return -np.inf, slope
                if expansion.is_closed or not isinstance(expansion, GeneralExpansion):
                    quadratic = expansion.at(theta)
                    value = value + quadratic.value
                    slope = quadratic.gradient
                else:
                    value = value + expansion.log_likelihood(theta)
                    slope = expansion.gradient(theta) if wants_slope else slope
                slope = slope + self.posterior.prior_gradient(theta) if wants_slope else slope
            except (ApproxMCMCError, ArithmeticError, ValueError):  # beyond the edge of the support
                return -np.inf, slope
        return (value, slope) if np.isfinite(value) else (-np.inf, slope)

    def climb(self, phi: np.ndarray, level: float = np.inf) -> Climb:
        """Climb from `phi` until the gradient is nearly 0, or for `MOST_STEPS` steps.

        Where the log density is convex along a step, as in a tail, no metric bounds the next step, which has the
        largest length allowed. SciPy's L-BFGS-B takes as many gradients, but more time between them, and importing
        scipy.optimize takes .3 s, which would be most of a search with few rows.
        """
        value, slope = self.value_and_slope(phi)
        crossing = phi if value >= level else None
        pairs: list[tuple[np.ndarray, np.ndarray]] = []
        longest = FIRST_STEP
        is_convex = False
        for _ in range(MOST_STEPS):
            if not np.isfinite(value) or np.abs(slope).max() <= FLAT:
                break
            direction = _uphill(slope, pairs)
            stretch = longest / np.linalg.norm(direction)
            direction *= stretch if is_convex else min(1.0, stretch)
            step = self._higher(phi, value, slope, direction)
            if step is None:
                break
            move, new_value, new_slope = step
            if new_value - value <= SMALLEST_GAIN * (1.0 + abs(value)):
                phi = phi + move
                value = new_value
                slope = new_slope
                break
            slope_drop = slope - new_slope
            is_convex = bool(move @ slope_drop <= 0.0)  # then no metric bounds the next step
            pairs = [] if is_convex else [*pairs[1 - MEMORY :], (move, slope_drop)]
            phi = phi + move
            value = new_value
            slope = new_slope
            crossing = phi if crossing is None and value >= level else crossing
            longest = GROWTH * float(np.linalg.norm(move))
        is_flat = np.isfinite(value) and np.abs(slope).max() <= FLAT
        return Climb(phi, value, bool(is_flat), crossing)

    def _higher(
        self, phi: np.ndarray, value: float, slope: np.ndarray, direction: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Return the first of the moves `direction`, half of it, ... that gains enough, with value and slope there.

        None if all of them are too short to matter.
        """
        promised = float(slope @ direction)
        for halving in range(MOST_HALVINGS):
            share = 0.5**halving
            new_value, new_slope = self.value_and_slope(phi + share * direction)
            if new_value >= value + ARMIJO * share * promised:
                return share * direction, new_value, new_slope
        return None

    def is_connected(self, first: np.ndarray, second: np.ndarray) -> bool:
        """Return whether the log density on the segment between two points falls at most slightly below the lower end.

        True proves that a path without a valley connects the points; False proves nothing.
        """
        weights = np.linspace(0.0, 1.0, POINTS_BETWEEN + 2)
        values = [self.value((1.0 - weight) * first + weight * second) for weight in weights]
        return min(values[1:-1]) >= min(values[0], values[-1]) - LARGEST_DIP


def _uphill(slope: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the direction of L-BFGS from the last moves and the changes of the slope: two loops over the `pairs`.

    The pairs are (s, y), s a move and y minus the change of the slope, oldest first; see Nocedal and Wright (2006),
    algorithm 7.4. Without pairs it is the slope, which reaches the mode of the fit in one step.
    """
    direction = slope.copy()
    weights = []
    for move, slope_drop in reversed(pairs):
        weight = (move @ direction) / (move @ slope_drop)
        direction -= weight * slope_drop
        weights.append(weight)
    if pairs:
        move, slope_drop = pairs[-1]
        direction *= (move @ slope_drop) / (slope_drop @ slope_drop)
    for (move, slope_drop), weight in zip(pairs, reversed(weights), strict=True):
        direction += (weight - (slope_drop @ direction) / (move @ slope_drop)) * move
    return direction
