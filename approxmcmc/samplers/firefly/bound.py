"""Set-up of Firefly: find the point at which the bound touches the likelihood, and check the bound."""

import sys
import time
from typing import Any

import numpy as np

from approxmcmc.contracts import BoundedTarget, CompiledBound, CompiledTarget, Target
from approxmcmc.engine.checks import show
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets import find_mode

# Distance of the touching point from the mode, in posterior standard deviations. Bounds with 0.01 are as tight, within
# rounding, as with 0; the draws are exact with any.
TOLERANCE = 0.01
SPREADS = (0.0, 0.1, 1.0, 10.0)  # standard deviations of the random theta at which bounds are checked
SECONDS_BETWEEN_LINES = 10.0


class _Reporter:
    """Reports every ten seconds how far the search for the mode is."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, passes: int, distance: float) -> None:
        now = time.perf_counter()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            sys.stderr.write(f"Firefly, mode: {passes} passes over the data, {distance:.3g} posterior sd to go\n")


def touching_point(target: Target, kind: str, at: Any) -> tuple[np.ndarray | None, dict[str, float]]:
    """Return the theta at which a bound touches the likelihood, and the cost of finding it, as attributes."""
    dim = target.variables.size
    if at is not None:
        point = np.array(at, dtype=np.float64)
        if point.shape != (dim,) or not np.isfinite(point).all():
            raise InvalidInputError(f"Firefly: at must hold {dim} finite numbers, found shape {point.shape}")
        return point, {}
    if kind not in ("tuned", "taylor"):
        return None, {}
    found = find_mode(target, tolerance=TOLERANCE, progress=_Reporter())
    took = {"passes": found.passes, "likelihood_evaluations": found.passes * target.n_obs, "seconds": found.seconds}
    return found.theta, {f"setup_mode_{name}": value for name, value in took.items()}


def checked_bound(
    target: Target, compiled: CompiledTarget, kind: str, point: np.ndarray | None
) -> tuple[CompiledBound, dict[str, float]]:
    """Compile the bound of a target, and check it at random theta.

    Raises
    ------
    IncompatibleError
        When the target has no bound.
    InvalidInputError
        When a bound lies above the likelihood, or the closed form is not the sum of the bounds.
    """
    if not isinstance(target, BoundedTarget):
        raise IncompatibleError(
            f"Firefly needs a lower bound of every likelihood term, and {target!r} has none; use LogisticRegression, "
            "SoftmaxRegression or RobustRegression, give one by targets.BoundedLikelihood(target, gap, log_bound), or "
            "sample it with MetropolisHastings"
        )
    bound = target.likelihood_bound(kind, point)
    rng = np.random.default_rng(0)  # the same for every run, so that a bound that passes once passes again
    centre = target.initial_point() if point is None else point
    for spread in SPREADS:
        _check_at(bound, compiled, centre + spread * rng.standard_normal(centre.shape), repr(target))
    return bound, {"setup_bound_likelihood_evaluations": 2 * len(SPREADS) * compiled.n_obs}


def _check_at(bound: CompiledBound, compiled: CompiledTarget, theta: np.ndarray, name: str) -> None:
    shown = show(theta)
    log_likelihood = full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)
    gaps = full_terms(bound.gaps, theta, bound.data, compiled.n_obs)
    size = 1.0 + np.abs(log_likelihood) + np.abs(gaps)
    below = ~(gaps >= -1e-9 * size) & ~np.isnan(log_likelihood)
    if below.any():
        worst = int(np.argmin(np.where(below, np.nan_to_num(gaps, nan=-np.inf), np.inf)))
        raise InvalidInputError(
            f"Firefly: the lower bound of {name} lies above the likelihood for {below.sum()} of {gaps.size} data at "
            f"theta = {shown}; the worst is datum {worst}: log L = {log_likelihood[worst]:.6g}, log B = "
            f"{log_likelihood[worst] - gaps[worst]:.6g}. Lower the bound: Firefly is exact only where B <= L"
        )
    summed, closed = float(np.sum(log_likelihood - gaps)), float(bound.log_bound(theta, bound.sums))
    if np.isfinite(summed) and not abs(summed - closed) <= 1e-9 * float(size.sum()):
        raise InvalidInputError(
            f"Firefly: the closed form of the bound of {name} is {closed:.12g} at theta = {shown}, and its terms add "
            f"up to {summed:.12g}; log_bound must return the sum of log L_i - gap_i over all data"
        )
