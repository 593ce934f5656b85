"""Firefly Monte Carlo: exact MCMC that reads a small part of the data in most steps.

Every datum has a lower bound B_i(theta) <= L_i(theta) = p(x_i | theta), with a product over all data in closed form,
and an indicator z_i with P(z_i = 1 | theta) = 1 - B_i / L_i. Their joint density is

    p(theta) prod_i B_i(theta) prod_{i: z_i = 1} (L_i(theta) - B_i(theta)) / B_i(theta),

and needs the likelihood only of the bright data (z_i = 1). Summed over z it is p(theta) prod_i L_i(theta), so the draws
of theta follow the posterior exactly. One step moves theta at fixed z, then z at fixed theta.

Reference: Maclaurin and Adams (2014), Firefly Monte Carlo: Exact MCMC with Subsets of Data.
"""

import dataclasses
import sys
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from approxmcmc.contracts import (
    BoundedTarget,
    CompiledBound,
    CompiledTarget,
    Component,
    Proposal,
    ProposalSampler,
    Target,
)
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.numerics import find_mode
from approxmcmc.samplers.checks import check_continuous
from approxmcmc.samplers.firefly.implicit_resampling import ImplicitResampling
from approxmcmc.samplers.firefly.joint import Bright, false_bound
from approxmcmc.samplers.firefly.program import FireflyProgram
from approxmcmc.samplers.firefly.step import CompiledThetaUpdate, ZUpdate
from approxmcmc.samplers.firefly.theta_update import JointTarget, metropolis_update, slice_update
from approxmcmc.samplers.slice.settings import Slice
from approxmcmc.targets.all_rows import AllRows
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.stands_for_rows import StandsForRows

# Distance of the touching point from the mode, in posterior standard deviations. Bounds with 0.01 are as tight, within
# rounding, as with 0; the draws are exact with any.
TOLERANCE = 0.01
SPREADS = (0.0, 0.1, 1.0, 10.0)  # standard deviations of the random theta at which bounds are checked
SECONDS_BETWEEN_LINES = 10.0


class _Reporter:
    """Prints the progress of the search for the mode to stderr, every ten seconds."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, passes: int, distance: float) -> None:
        now = time.perf_counter()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            sys.stderr.write(f"Firefly, mode: {passes} passes over the data, {distance:.3g} posterior sd to go\n")


def touching_point(target: Target, kind: str, at: Any) -> tuple[np.ndarray | None, dict[str, float]]:
    """Return the theta at which the bounds touch the likelihood, and attributes on the cost of finding it.

    It is `at` if given, the mode for the kinds "tuned" and "taylor", otherwise None.
    """
    dim = target.variables.size
    if at is not None:
        point = np.array(at, dtype=np.float64)
        if point.shape != (dim,) or not np.isfinite(point).all():
            raise InvalidInputError(f"Firefly: at must hold {dim} finite numbers, found shape {point.shape}")
        return point, {}
    if kind not in TOUCHING:
        return None, {}
    mode = find_mode(target, tolerance=TOLERANCE, progress=_Reporter())
    took = {"passes": mode.passes, "likelihood_evaluations": mode.passes * target.n_obs, "seconds": mode.seconds}
    return mode.theta, {f"setup_mode_{name}": value for name, value in took.items()}


def checked_bound(
    target: Target, compiled: CompiledTarget, kind: str, point: np.ndarray | None
) -> tuple[CompiledBound, dict[str, float]]:
    """Return the compiled bound of a target, checked at random theta, and the cost of the check as trace attributes.

    The random theta lie around `point`, or around the initial point if it is None.

    Raises
    ------
    IncompatibleError
        When the target has no bound.
    InvalidInputError
        When a bound lies above the likelihood, or the closed form is not the sum of the bounds.
    """
    if isinstance(target, StandsForRows) and not target.reads_rows:
        raise IncompatibleError(f"Firefly leaves rows dark, and {target!r} reads none: {target.found}; use ExactTest")
    if isinstance(target, Regression) and not target.bound_kinds and target.why_no_quadratic:
        raise IncompatibleError(
            f"Firefly needs a lower bound of every likelihood term, a quadratic in theta, and none lies below those of "
            f"{target!r}, because {target.why_no_quadratic}; sample it with MetropolisHastings"
        )
    if not isinstance(target, BoundedTarget) or not target.bound_kinds:
        raise IncompatibleError(
            f"Firefly needs a lower bound of every likelihood term, and {target!r} has none; use LogisticRegression, "
            "ProbitRegression, BinomialRegression, SoftmaxRegression or RobustRegression, give one by "
            "targets.BoundedLikelihood(target, gap, log_bound), or sample it with MetropolisHastings"
        )
    bound = target.likelihood_bound(kind, point)
    rng = np.random.default_rng(0)  # the same for every run, so that a bound that passes once passes again
    centre = target.initial_point() if point is None else point
    for spread in SPREADS:
        if why := false_bound(bound, compiled, centre + spread * rng.standard_normal(centre.shape)):
            raise InvalidInputError(f"Firefly: {why}")
    return bound, {"setup_bound_likelihood_evaluations": 2 * len(SPREADS) * compiled.n_obs}


BOUNDS = ("tuned", "untuned", "taylor", "own")
TOUCHING = ("tuned", "taylor")  # those that touch the likelihood at one theta


@dataclasses.dataclass(frozen=True, eq=False)
class Firefly(Component, ProposalSampler):
    """FlyMC, Firefly Monte Carlo: sample theta and the indicators of bright data alternately; exact for theta.

    Parameters
    ----------
    proposal
        The update of theta at fixed z: :class:`RandomWalk` or another proposal, or :class:`Slice`. Gradient proposals
        use the gradient of the joint density.
    bound
        ``"tuned"``: bounds that touch the likelihood of every datum at the posterior's mode, which is found first on
        all data. ``"untuned"``: the same bounds, touching at fixed places. ``"taylor"`` (logistic): the expansion to
        second order at the mode. ``"own"``: the bound given to :class:`targets.BoundedLikelihood`, which each chain
        checks on all data after 1, 2, 4, 8, ... steps.
    z_update
        The update of z: :class:`ImplicitResampling` or :class:`ExplicitResampling`.
    at
        The theta at which the bounds "tuned" and "taylor" touch the likelihood, shape (dim,), in place of the mode.

    Raises
    ------
    InvalidInputError
        When a setting is unknown, or a bound lies above the likelihood at one of some random theta; the message names
        the worst datum. A chain that meets such a bound later stops, and a run warns.
    IncompatibleError
        When the target has no bound, or no gradient although the proposal needs one; raised before anything runs.

    Notes
    -----
    Guarantee: exact. For any valid bound and any setting the joint chain leaves the joint distribution invariant, which
    has the posterior as its theta-marginal. The speed of mixing depends on bound and settings: bright data that lag
    behind theta slow the chain down, so tune the steps on this chain (``RandomWalk(scale, target_acceptance=0.234)``),
    not on full-data Metropolis-Hastings.

    Records: ``likelihood_evaluations`` counts the bright data at each theta that is tried, and the dark data that
    the z-update reads; cached values are free. ``datapoints_touched`` also counts the bright data of the z-update,
    which use cached values. ``bound_evaluations`` counts closed forms, O(dim^2) each. ``bright_count`` and
    ``dark_proposals`` describe the z-updates; ``accepted`` is theta's move. ``lp`` is not written, because the
    posterior density is never evaluated. The attributes ``setup_mode_...`` and ``setup_bound_...`` hold the passes over
    all data during set-up; each chain then makes one more, to draw its first z.

    References
    ----------
    Maclaurin and Adams (2014).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> trace = amc.sample(
    ...     target, amc.Firefly(amc.RandomWalk(0.05)), draws=200, tune=200, chains=1, random_seed=1, progressbar=False
    ... )
    >>> bool(trace.sample_stats["likelihood_evaluations"].mean() < 200)
    True
    """

    proposal: Any
    bound: str = "tuned"
    z_update: Any = dataclasses.field(default_factory=ImplicitResampling)
    at: Any = None

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "the next theta depends on which data are bright, too",
        "coupling": "two chains would have to meet in the indicators of all data, too",
    }

    def __post_init__(self) -> None:
        """Check that each setting has the right role."""
        if not isinstance(self.proposal, (Proposal, Slice)):
            raise IncompatibleError(
                f"Firefly: proposal must be a proposal such as RandomWalk(scale=0.1), or Slice, found {self.proposal!r}"
            )
        if self.bound not in BOUNDS:
            raise InvalidInputError(f"Firefly: bound must be one of {BOUNDS}, found {self.bound!r}")
        if not isinstance(self.z_update, ZUpdate):
            raise InvalidInputError(
                "Firefly: z_update must be ImplicitResampling(q) or ExplicitResampling(fraction), "
                f"found {self.z_update!r}"
            )
        if self.at is not None and self.bound not in TOUCHING:
            raise InvalidInputError(
                f"Firefly: bound={self.bound!r} touches the likelihood at no theta, so at={self.at!r} has no effect; "
                f"leave it out, or use one of the bounds {TOUCHING}"
            )
        if self.at is not None:
            object.__setattr__(self, "at", np.array(self.at, dtype=np.float64))

    @names_itself()
    def build(self, target: Target, *, audit_every: int | str | None = None) -> FireflyProgram:
        """Check that target and settings fit, find the mode, compile, and return the program that starts chains.

        `audit_every` is not used: nothing is audited.
        """
        check_continuous(target)
        point, mode_attrs = touching_point(target, self.bound, self.at)
        rows = AllRows(target)
        bound, bound_attrs = checked_bound(target, rows.compiled, self.bound, point)

        def theta_update(bright: Bright) -> CompiledThetaUpdate:
            return self._theta_update(JointTarget(target, bound, bright))

        z_update = self.z_update.build_z_update()
        attrs = {**mode_attrs, **bound_attrs}
        return FireflyProgram(rows, bound, theta_update, z_update, attrs, watched=self.bound == "own")

    def why_not_invariant(self, target: Target) -> str:
        """Return "": the joint distribution is invariant if the bound holds; a run that sees it fail stops."""
        return ""

    def _theta_update(self, joint: JointTarget) -> CompiledThetaUpdate:
        """Compile the update of theta at fixed z."""
        if isinstance(self.proposal, Slice):
            return slice_update(self.proposal, joint.variables.size)
        proposal = self.proposal.build_proposal(joint)
        if "gradient_evaluations" in proposal.records and proposal.forget is None:
            raise IncompatibleError(
                f"Firefly: {self.proposal!r} reads gradients, and may cache them from before the bright set has "
                "changed; use RandomWalk, Slice, or Langevin, which can clear its cache"
            )
        return metropolis_update(proposal)
