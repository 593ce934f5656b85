"""The mode of a posterior, and its Laplace approximation.

Newton's method on all data is theta <- theta + t H^-1 g, with g and -H the gradient and Hessian of the log posterior;
t is halved until the density rises enough (Armijo). The decrement (g' H^-1 g)^(1/2) is the length of the step in
posterior standard deviations, so as a measure of convergence it does not depend on the units of parameters. For a
target that is not a generalised linear model the search begins with BFGS, which needs only gradients.

With many data the search begins on n of the N rows, drawn at random. The mode of these rows is about (d N / n)^(1/2)
posterior standard deviations from the mode of all rows, and two Newton steps on all data cover this distance: the
search takes three passes at 10^7 data.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.targets.expansion.general import GeneralExpansion
from approxmcmc.targets.expansion.quadratic import Quadratic, inverse, is_positive_definite
from approxmcmc.targets.laplace_approximation import Laplace
from approxmcmc.targets.posterior import Posterior

# A step this long relative to theta shows that there is no mode: with separable classes under a flat prior, the
# decrement falls for ever while each step changes theta by a constant.
RUNAWAY = 1e-3
# Number of rows that the search begins with: the largest of a number, a number for each parameter, and a share of all;
# no such search if that is more than a quarter of the data.
FEWEST, FOR_EACH, SHARE, LARGEST_SHARE = 10_000, 400, 0.02, 0.25
TOO_FAR = 10.0  # times the expected distance; beyond it the sample of rows is misleading
Progress = Callable[[int, float], None]


@dataclasses.dataclass(frozen=True, eq=False)
class Mode:
    """The mode of a log posterior; NumPy converts it to the array `theta`.

    Parameters
    ----------
    theta
        The mode; shape (dim,).
    log_density
        The log posterior density there, up to the target's constant.
    precision
        Minus the Hessian there; shape (dim, dim).
    decrement
        Whitened length of the gradient: the remaining distance to the mode, in posterior standard deviations.
    passes, seconds
        Passes over the data and seconds that the search took.
    """

    theta: np.ndarray
    log_density: float
    precision: np.ndarray
    decrement: float
    passes: int
    seconds: float

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return theta."""
        return np.array(self.theta, dtype=dtype)


class Guess(NamedTuple):
    """The mode of some rows, the precision there, and the expected posterior sds from it to the mode of all rows."""

    theta: np.ndarray
    precision: np.ndarray
    distance: float


def find_mode(
    target: Target,
    *,
    start: Any = None,
    tolerance: float = 1e-4,
    max_passes: int | None = None,
    progress: Progress | None = None,
) -> Mode:
    """Return the mode of a posterior, found on all data.

    Parameters
    ----------
    target
        A target with continuous parameters. Generalised linear models use closed forms; other targets use their
        gradient if they have one (`grad_loglik`), else differences.
    start
        Where to begin, shape (dim,); None is the target's initial point.
    tolerance
        Largest allowed distance from the mode, in posterior standard deviations.
    max_passes
        Passes over the data after which the search fails. None means 100; if second derivatives are differences, it
        means 100 (dim + 3) for a target with a gradient, and 100 (dim + 3)^2 otherwise.
    progress
        Called as ``progress(passes, decrement)`` after every Newton step.

    Raises
    ------
    IncompatibleError
        For a discrete target, or one without terms.
    InvalidInputError
        If there is no mode, because the density is flat along a direction, or rises without bound.
    NotFiniteError
        If a term or the prior is not finite, or has a derivative that is not finite, at a point of the search.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> found = amc.targets.find_mode(amc.targets.LogisticRegression(X, X[:, 0] > 0.5))
    >>> np.asarray(found).shape, found.passes < 15
    ((2,), True)
    """
    began = time.perf_counter()
    posterior = Posterior(target)
    theta = np.array(target.initial_point() if start is None else start, dtype=np.float64)
    if theta.shape != (target.variables.size,):
        raise InvalidInputError(f"find_mode: start must have shape ({target.variables.size},), found {theta.shape}")
    if max_passes is None:
        max_passes = 100 * _passes_for_a_step(posterior)
    guess = _mode_of_some_rows(posterior, theta) if start is None else None
    found = None if guess is None else _climb_from_guess(posterior, guess, tolerance, max_passes, progress)
    if found is None:
        theta = _climb(posterior, theta, tolerance)
        found = _newton(posterior, theta, tolerance, max_passes, progress)
    theta, here, decrement = found
    return Mode(theta, here.value, -here.hessian, decrement, posterior.expansion.passes, time.perf_counter() - began)


def laplace(
    target: Target,
    *,
    start: Any = None,
    tolerance: float = 1e-4,
    max_passes: int | None = None,
    progress: Progress | None = None,
) -> Laplace:
    """Return the Laplace approximation N(mode, H^-1) of a posterior; arguments and errors are as for `find_mode`.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> fit = amc.laplace(amc.targets.LogisticRegression(X, X[:, 0] > 0.5))
    >>> amc.RandomWalk(preconditioner=fit)
    RandomWalk(scale=1.0, target_acceptance=None, preconditioner=(2, 2))
    """
    if start is None and target.known_law is not None:
        return target.known_law  # type: ignore[no-any-return]  # a role does not know the class
    found = find_mode(target, start=start, tolerance=tolerance, max_passes=max_passes, progress=progress)
    return Laplace(found.theta, inverse(found.precision), found.decrement, found.passes, found.seconds)


def _passes_for_a_step(posterior: Posterior) -> int:
    """Return the largest number of passes that a Hessian takes, by closed forms or by differences."""
    expansion = posterior.expansion
    if expansion.is_closed:
        return 1
    assert isinstance(expansion, GeneralExpansion)
    return int((posterior.target.variables.size + 3) ** (2 if expansion.gradients is None else 1))


def _mode_of_some_rows(posterior: Posterior, theta: np.ndarray) -> Guess | None:
    """Return the mode of a sample of rows, scaled to all rows; None if there are few data, or no mode."""
    n_obs = posterior.target.n_obs
    wanted = max(FEWEST, FOR_EACH * theta.size, int(SHARE * n_obs))
    if wanted > LARGEST_SHARE * n_obs:
        return None
    rows = np.sort(np.random.default_rng(0).choice(n_obs, wanted, replace=False, shuffle=False))  # for set-up only
    some, off = posterior.of_rows(rows), np.sqrt(n_obs / wanted)
    try:
        near = _climb(some, theta, off)
        theta, here, _ = _newton(some, near, off, 20 * _passes_for_a_step(some), None)
    except (InvalidInputError, NotFiniteError):
        return None
    return Guess(theta, -here.hessian, float(off * np.sqrt(theta.size)))


def _climb_from_guess(
    posterior: Posterior,
    guess: Guess,
    tolerance: float,
    max_passes: int,
    progress: Progress | None,
) -> tuple[np.ndarray, Quadratic, float] | None:
    """Return the mode by Newton's method from the mode of a sample of rows; None if it fails or moves far.

    If few rows of the sample have a rare category, its mode may be so far from the mode of all rows that Newton's
    method does not converge: on the one-hot columns of KDD99 it failed after 100 passes, but from the origin it took
    15.
    """
    try:
        theta = _climb(posterior, guess.theta, tolerance, inverse(guess.precision))
        return _newton(posterior, theta, tolerance, max_passes, progress, farthest=TOO_FAR * guess.distance)
    except (InvalidInputError, NotFiniteError):
        if posterior.expansion.passes > max_passes:
            raise
        return None


def _climb(posterior: Posterior, theta: np.ndarray, tolerance: float, cov: np.ndarray | None = None) -> np.ndarray:
    """Return a point near the mode, found by BFGS; `cov`, if given, is its first inverse Hessian.

    Returns `theta` unchanged if second derivatives are in closed form: Newton's method then needs no BFGS.
    """
    expansion, n_obs = posterior.expansion, posterior.target.n_obs
    if expansion.is_closed:
        return theta
    assert isinstance(expansion, GeneralExpansion)
    from scipy.optimize import minimize

    def objective(theta: np.ndarray) -> float:
        value = float(posterior.log_prior(theta))
        value = value + expansion.log_likelihood(theta) if value > -np.inf else value
        return -value / n_obs if np.isfinite(value) else 1e300  # a wall for the line search

    def slope(theta: np.ndarray) -> np.ndarray:
        total = expansion.gradient(theta)
        if expansion.gradients is None:
            return -(total + posterior.prior_gradient(theta)) / n_obs
        expansion.add_prior_gradient(theta, total)
        return -total / n_obs

    if objective(theta) >= 1e300:
        raise NotFiniteError(f"find_mode: the log posterior is not finite at the start {theta}; give another start=")
    # Gradients of the mean term: 1e-6 is enough for Newton's steps to finish. Differences cannot reach less. A gradient
    # of the target can, and a few more steps here then save a Hessian later.
    smallest = 1e-6 if expansion.gradients is None else np.clip(0.1 * tolerance / np.sqrt(n_obs), 1e-8, 1e-6)
    known = {} if cov is None else {"hess_inv0": cov * n_obs}
    options = {"gtol": float(smallest), "maxiter": 50 + 20 * theta.size, **known}
    found = minimize(objective, theta, jac=slope, method="BFGS", options=options)
    expansion.forget_steps()
    return np.asarray(found.x)


def _newton(
    posterior: Posterior,
    theta: np.ndarray,
    tolerance: float,
    max_passes: int,
    progress: Progress | None,
    *,
    farthest: float = np.inf,
) -> tuple[np.ndarray, Quadratic, float]:
    """Climb by Newton steps until the decrement is below `tolerance`; return theta, the expansion and the decrement.

    Raise if the decrement at the start is above `farthest`.
    """
    here, decrement = posterior.at(theta), np.inf
    while posterior.expansion.passes <= max_passes:
        bends_down = is_positive_definite(-here.hessian)
        step = _step(-here.hessian, here.gradient, bends_down)
        decrement = float(np.sqrt(here.gradient @ step))
        if progress is not None:
            progress(posterior.expansion.passes, decrement)
        arrived = np.max(np.abs(step) / (1.0 + np.abs(theta))) < RUNAWAY
        if decrement < tolerance and arrived:
            if bends_down:
                return theta, here, decrement
            break
        moved = _line_search(posterior, theta, here, step, decrement, max_passes) if decrement <= farthest else None
        if moved is None:
            break
        farthest = np.inf
        theta, here = moved
    shape = "bends down" if is_positive_definite(-here.hessian) else "is flat or bends up"
    raise InvalidInputError(
        f"find_mode: no mode of {posterior.target!r} after {posterior.expansion.passes} passes over the data: "
        f"{decrement:.3g} posterior standard deviations are left, the largest parameter is {np.abs(theta).max():.3g}, "
        f"and the log posterior {shape} there. Under a flat prior there is no mode if a plane separates the classes or "
        "columns are collinear; a hierarchy with a scale that can go to 0 has none either. Give a proper prior, drop "
        "the columns, write the hierarchy with standardised effects, or begin nearer by start="
    )


def _step(precision: np.ndarray, gradient: np.ndarray, bends_down: bool) -> np.ndarray:
    """Return the Newton step, in units where the diagonal is 1; if the function bends up, a step that still ascends."""
    diagonal = np.abs(np.diag(precision))
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = precision * np.outer(scale, scale)
    if bends_down:
        return np.asarray(scale * np.linalg.solve(scaled, scale * gradient))
    values, vectors = np.linalg.eigh(scaled)
    return np.asarray(scale * (vectors @ ((vectors.T @ (scale * gradient)) / np.maximum(np.abs(values), 1e-4))))


def _line_search(
    posterior: Posterior, theta: np.ndarray, here: Quadratic, step: np.ndarray, decrement: float, max_passes: int
) -> tuple[np.ndarray, Quadratic] | None:
    """Return the first of t = 1, 1/2, 1/4, ... at which the density rises as much as the slope predicts, or None."""
    rounding = 1e-13 * abs(here.value)
    for halving in range(40):
        t = 0.5**halving
        try:
            there = posterior.at(theta + t * step)
        except NotFiniteError:
            continue  # over the edge of the support
        if there.value >= here.value + 1e-4 * t * decrement**2 - rounding:
            return theta + t * step, there
        if posterior.expansion.passes > max_passes:
            break
    return None
