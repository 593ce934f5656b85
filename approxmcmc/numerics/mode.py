"""The mode of a posterior, and its Laplace approximation.

The search is Newton's method on all data (`newton`). For a target without second derivatives in closed form it begins
with BFGS, which needs only gradients.

With many data the search, unless it is told where to start, begins on n of the N rows, drawn at random. With d
parameters the mode of these rows is about (d N / n)^(1/2) posterior standard deviations from the mode of all rows, and
two Newton steps on all data cover this distance: with closed forms the search takes three passes at 10^7 data.
"""

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.expansion.general import GeneralExpansion
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.quadratic import Quadratic, inverse
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.newton import Progress, newton

# Number of rows that the search begins with: the largest of a number, a number for each parameter, and a share of all;
# no such search if that is more than a quarter of the data.
FEWEST = 10_000
FOR_EACH = 400
SHARE = 0.02
LARGEST_SHARE = 0.25
# Largest distance from the mode of a sample of rows to that of all rows, as a multiple of the expected distance. Beyond
# it the sample is misleading, and the search begins anew without it.
TOO_FAR = 10.0


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
    """The mode of some rows, the precision there, and the distance expected to the mode of all rows (posterior sds)."""

    theta: np.ndarray
    precision: np.ndarray
    distance: float


@naming_the_arguments
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
        A target with continuous parameters. Models with linear predictors or groups use closed forms; other targets use
        their gradient if they have one (`grad_loglik`), else differences.
    start
        Where to begin, shape (dim,); None is the target's initial point, or with many data the mode of some rows.
    tolerance
        Largest allowed distance from the mode, in posterior standard deviations, by the decrement.
    max_passes
        Passes over the data after which the search fails. None means 100; if second derivatives are differences, it
        means 100 (dim + 3) for a target with a gradient, and 100 (dim + 3)^2 otherwise.
    progress
        Called as ``progress(passes, decrement)`` before every Newton step, and at the end.

    Raises
    ------
    IncompatibleError
        For a discrete target, or one without terms.
    InvalidInputError
        If there is no mode, because the density is flat along a direction, or rises without bound; or if the search
        takes more than `max_passes`.
    NotFiniteError
        If a term or the prior is not finite, or has a derivative that is not finite, at a point of the search.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> found = amc.numerics.find_mode(amc.LogisticRegression(X, X[:, 0] > 0.5))
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
    climb = None if guess is None else _climb_from_guess(posterior, guess, tolerance, max_passes, progress)
    if climb is None:
        theta = _climb(posterior, theta, tolerance)
        climb = newton(posterior, theta, tolerance, max_passes, progress)
    theta, quadratic, decrement = climb
    return Mode(
        theta, quadratic.value, -quadratic.hessian, decrement, posterior.expansion.passes, time.perf_counter() - began
    )


def _check_target(target: Any) -> None:
    if not isinstance(target, Target):
        raise InvalidInputError(
            f"{speaker()}: target must be a target, such as LogisticRegression(X, y) or from_pymc(model), found "
            f"{target!r}"
        )


@naming_the_arguments
def laplace(
    target: Target,
    *,
    start: Any = None,
    tolerance: float = 1e-4,
    max_passes: int | None = None,
    progress: Progress | None = None,
) -> Laplace:
    """Return the Laplace approximation N(mode, H^-1) of a posterior, H minus the Hessian of its log density there.

    Arguments and errors are as for `find_mode`. Without `start`, an approximation that was found when the target was
    made (`Target.known_fit`) is returned at once.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> fit = amc.laplace(amc.LogisticRegression(X, X[:, 0] > 0.5))
    >>> amc.RandomWalk(preconditioner=fit)
    RandomWalk(scale=1.0, target_acceptance=None, preconditioner=(2, 2))
    """
    _check_target(target)
    if start is None and target.known_fit is not None:
        return target.known_fit  # type: ignore[no-any-return]  # a role does not know the class
    mode = find_mode(target, start=start, tolerance=tolerance, max_passes=max_passes, progress=progress)
    return Laplace(mode.theta, inverse(mode.precision), mode.decrement, mode.passes, mode.seconds)


def _passes_for_a_step(posterior: Posterior) -> int:
    """Return the largest number of passes that a Hessian takes, by closed forms or by differences."""
    expansion = posterior.expansion
    if expansion.is_closed:
        return 1
    assert isinstance(expansion, GeneralExpansion)
    return int((posterior.target.variables.size + 3) ** (2 if expansion.gradients is None else 1))


def _mode_of_some_rows(posterior: Posterior, theta: np.ndarray) -> Guess | None:
    """Return the mode of the posterior with the likelihood of a sample of rows; None if there are few data, or no mode.

    The log-likelihood of the sample is scaled to all rows.
    """
    n_obs = posterior.target.n_obs
    n_rows = max(FEWEST, FOR_EACH * theta.size, int(SHARE * n_obs))
    if n_rows > LARGEST_SHARE * n_obs:
        return None
    rows = np.sort(np.random.default_rng(0).choice(n_obs, n_rows, replace=False, shuffle=False))  # for set-up only
    posterior_of_rows = posterior.of_rows(rows)
    off = np.sqrt(n_obs / n_rows)
    try:
        near = _climb(posterior_of_rows, theta, off)
        theta, quadratic, _ = newton(posterior_of_rows, near, off, 20 * _passes_for_a_step(posterior_of_rows), None)
    except (InvalidInputError, NotFiniteError):
        return None
    return Guess(theta, -quadratic.hessian, float(off * np.sqrt(theta.size)))


def _climb_from_guess(
    posterior: Posterior,
    guess: Guess,
    tolerance: float,
    max_passes: int,
    progress: Progress | None,
) -> tuple[np.ndarray, Quadratic, float] | None:
    """Return the mode by Newton's method from the mode of a sample of rows; None if it fails or starts too far away.

    Raises if the passes exceed `max_passes`.

    If few rows of the sample have a rare category, its mode may be so far from the mode of all rows that Newton's
    method does not converge: on the one-hot columns of KDD99 it failed after 100 passes, but from the origin it took
    15.
    """
    try:
        theta = _climb(posterior, guess.theta, tolerance, inverse(guess.precision))
        return newton(posterior, theta, tolerance, max_passes, progress, farthest=TOO_FAR * guess.distance)
    except (InvalidInputError, NotFiniteError):
        if posterior.expansion.passes > max_passes:
            raise
        return None


def _climb(posterior: Posterior, theta: np.ndarray, tolerance: float, cov: np.ndarray | None = None) -> np.ndarray:
    """Return a point near the mode, found by BFGS; `cov`, if given, is its first inverse Hessian.

    Returns `theta` unchanged if second derivatives are in closed form: Newton's method then needs no BFGS.
    """
    expansion = posterior.expansion
    n_obs = posterior.target.n_obs
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
    # Largest gradient of the log density / n_obs at the end: 1e-6 is enough for Newton's steps to finish, and the least
    # for gradients by differences. With the target's gradient, a few more steps here save a Hessian later.
    smallest = 1e-6 if expansion.gradients is None else np.clip(0.1 * tolerance / np.sqrt(n_obs), 1e-8, 1e-6)
    options_of_start = {} if cov is None else {"hess_inv0": cov * n_obs}
    options = {"gtol": float(smallest), "maxiter": 50 + 20 * theta.size, **options_of_start}
    result = minimize(objective, theta, jac=slope, method="BFGS", options=options)
    expansion.forget_steps()
    return np.asarray(result.x)
