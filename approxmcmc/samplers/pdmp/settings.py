"""Piecewise deterministic processes with control variates: the zig-zag sampler and the bouncy particle sampler.

The processes differ in their dynamics alone (`zigzag`, `bouncy_particle`): how a velocity is drawn, and turns.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from approxmcmc.contracts import Component, Sampler, Target
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.numerics import Laplace
from approxmcmc.samplers.pdmp.bouncy_particle import BOUNCY
from approxmcmc.samplers.pdmp.program import PDMPProgram
from approxmcmc.samplers.pdmp.zigzag import ZIGZAG


class ProcessSampler(Component, Sampler):
    """Base class of piecewise deterministic processes; chains start at draws of `fit`, a normal approximation."""

    fit: Any

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "the next theta depends on the velocity, too",
        "coupling": "two particles would have to meet in position and velocity at one time",
    }

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of the normal approximation."""
        start: np.ndarray = self.fit.draw(rng)
        return start

    def why_not_invariant(self, target: Target) -> str:
        """Return "": the process leaves the posterior invariant if the bounds hold; a run that sees one fail stops."""
        return ""


@dataclasses.dataclass(frozen=True, eq=False)
class ZigZag(ProcessSampler):
    r"""The zig-zag sampler (a PDMP) with control variates: exact, without rejection, one row of the data at an event.

    Parameters
    ----------
    fit
        A normal approximation of the posterior: ``amc.laplace(target)``, or ``amc.ControlVariate(target,
        always_read="auto").laplace`` if categories are rare. It defines the coordinates and the point of the control
        variates; chains start at its draws.
    spacing
        Time between two draws, positive. All speeds are 1 in whitened coordinates, so in a time of 1 a coordinate moves
        by one posterior standard deviation.

    Raises
    ------
    InvalidInputError
        When `spacing` is not positive, `fit` is not a `Laplace`, or a bound does not hold at one of 8 draws of the fit.
    IncompatibleError
        When the target is not a regression with a normal prior, its derivatives are finite differences, or none of them
        is bounded near the fit; raised before anything runs. A rate that exceeds its bound stops the run, and the
        message names the datum; so does a position so far from the fit that bounds are infinite or useless.

    Notes
    -----
    With :math:`\theta = c + L \phi`, the energy is :math:`Q(\phi) - \sum_i r_i(\phi)`: `Q` quadratic, with the prior,
    and :math:`r_i` the remainder of row `i` after a Taylor polynomial at `c`. Coordinate `j` reverses at the rate

    .. math:: \lambda_j(\phi, v) = \max(0, v_j \partial_j Q) + \sum_i \max(0, -v_j \partial_j r_i),

    so that :math:`\lambda_j(\phi, v) - \lambda_j(\phi, F_j v) = v_j \partial_j U`, with `U` the energy and `F_j v` the
    velocity with coordinate `j` reversed. This leaves the posterior invariant. Events of the first summand are drawn
    exactly, events of the others by thinning, with bounds on the derivatives of :math:`\log p(y \mid \eta)` (logistic:
    1, 1/4, :math:`1/(6\sqrt 3)`). Where no bound holds for all predictors, as for counts, bounds of balls around `c`
    are used; rows with several predictors, such as those of a softmax, have bounds in every direction.

    Guarantee: exact in continuous time; draws are states of the process at equally spaced times. Cost: rows read one at
    a time, counted in ``datapoints_touched``, ``gradient_evaluations`` and ``decisions_made``; ``events`` counts all
    turns, ``row_events`` the turns by a row. ``setup_expected_reads`` predicts the reads of a draw, ``expected_reads``
    is their mean given the path. With polynomials of order 2 the reads of a draw fall like :math:`N^{-1/2}`. ``lp`` and
    ``accepted`` are not written. Memory: a whitened copy of the data,
    K times as large for rows with K predictors.

    References
    ----------
    Bierkens, Fearnhead and Roberts (2019), sections 2 and 4; there the polynomials have order 1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(20_000, 3)
    >>> target = amc.LogisticRegression(X, y)
    >>> sampler = amc.samplers.ZigZag(amc.laplace(target))
    >>> trace = amc.sample(target, sampler, draws=500, tune=20, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["datapoints_touched"].mean() < 20)
    True
    """

    fit: Any
    spacing: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_fit(self.fit)
        check_positive(self.spacing, "spacing")

    @names_itself()
    def build(self, target: Target, *, audit_every: int | str | None = None) -> PDMPProgram:
        """Check the pairing, split the energy, compile; nothing is audited."""
        return PDMPProgram(target, self.fit, ZIGZAG, setting=0.0, spacing=float(self.spacing))


@dataclasses.dataclass(frozen=True, eq=False)
class BouncyParticle(ProcessSampler):
    r"""BPS, the bouncy particle sampler, with control variates: exact, without rejection, one row at an event.

    Parameters
    ----------
    fit, spacing
        As for :class:`ZigZag`; velocities are N(0, I) in whitened coordinates.
    refresh_rate
        Rate at which the velocity is redrawn; positive, because without redraws the process may stay on a circle.

    Raises
    ------
    InvalidInputError
        When a setting is not positive, `fit` is not a `Laplace`, or a bound does not hold at one of 8 draws of the fit.
    IncompatibleError
        As for :class:`ZigZag`.

    Notes
    -----
    The energy is split as for :class:`ZigZag`. The velocity is reflected at the gradient of `Q` at the rate
    :math:`\max(0, v' \nabla Q)`, and at :math:`a_i` at the rate :math:`\max(0, -v' \nabla r_i)`, whose bound is
    proportional to :math:`|a_i| |v|`. Each factor leaves the posterior invariant, and so does their combination.

    Guarantee and records: as for :class:`ZigZag`; ``events`` count refreshments, too.

    References
    ----------
    Bouchard-Côté, Vollmer and Doucet (2018), section 3.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(20_000, 3)
    >>> target = amc.LogisticRegression(X, y)
    >>> sampler = amc.samplers.BouncyParticle(amc.laplace(target), refresh_rate=1.0)
    >>> trace = amc.sample(target, sampler, draws=500, tune=20, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["events"].mean() > 1)
    True
    """

    fit: Any
    refresh_rate: float = 1.0
    spacing: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_fit(self.fit)
        check_positive(self.refresh_rate, "refresh_rate")
        check_positive(self.spacing, "spacing")

    @names_itself()
    def build(self, target: Target, *, audit_every: int | str | None = None) -> PDMPProgram:
        """Check the pairing, split the energy, compile; nothing is audited."""
        return PDMPProgram(
            target,
            self.fit,
            BOUNCY,
            setting=float(self.refresh_rate),
            spacing=float(self.spacing),
        )


def check_fit(fit: Any) -> None:
    """Raise unless the value is a normal approximation."""
    if not isinstance(fit, Laplace):
        raise InvalidInputError(
            f"{speaker()}: fit must be a normal approximation of the posterior such as amc.laplace(target), found "
            f"{fit!r}"
        )


def check_positive(value: Any, name: str) -> None:
    """Raise unless the value is a positive, finite number."""
    if isinstance(value, bool) or not (isinstance(value, (int, float)) and 0.0 < value < math.inf):
        raise InvalidInputError(f"{speaker()}: {name} must be positive and finite, found {value!r}")
