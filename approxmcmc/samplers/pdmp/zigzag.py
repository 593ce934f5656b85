r"""The zig-zag process on few rows: every coordinate moves at speed 1, and reverses at random times.

References: Bierkens, Fearnhead and Roberts (2019), The zig-zag process and super-efficient sampling for Bayesian
analysis of big data, sections 2 and 4.
"""

import dataclasses
from typing import Any

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.samplers.pdmp.program import PDMPProgram, ProcessSampler, checked_fit, checked_positive
from approxmcmc.samplers.pdmp.split import LENGTH, N_SCALARS
from approxmcmc.samplers.pdmp.step import Dynamics, Flight, arrival


@compiled
def start(rng: np.random.Generator, flight: Flight) -> None:
    """Draw the velocity of each coordinate, 1 or -1."""
    for j in range(flight.velocity.shape[0]):
        flight.velocity[j] = 1.0 if rng.random() < 0.5 else -1.0


@compiled
def plan(rng: np.random.Generator, flight: Flight) -> float:
    """Return the time until Q reverses some coordinate; it reverses j at the rate max(0, v_j dQ/dphi_j).

    The index of the coordinate that is reversed first is stored in ``flight.next_turn``.
    """
    soonest = np.inf
    for j in range(flight.velocity.shape[0]):
        v = flight.velocity[j]
        time = arrival(v * flight.force[j], v * flight.change[j], rng.standard_exponential())
        if time < soonest:
            soonest = time
            flight.next_turn[0] = j
    return soonest


@compiled
def turn_round(flight: Flight, j: int) -> None:
    """Reverse the velocity of coordinate j, and update H v."""
    flight.velocity[j] = -flight.velocity[j]
    row = flight.curvature[j]
    twice = 2.0 * flight.velocity[j]
    for k in range(row.shape[0]):
        flight.change[k] += twice * row[k]


@compiled
def turn(rng: np.random.Generator, flight: Flight) -> None:
    """Reverse the velocity of the coordinate that `plan` stored."""
    turn_round(flight, flight.next_turn[0])


@compiled
def turn_by_row(rng: np.random.Generator, flight: Flight, record: np.ndarray, slope: float, ceiling: float) -> bool:
    """Draw a coordinate j in proportion to abs(a_j), and reverse it or not; return whether it was reversed.

    The row's `record` holds its whitened covariates a; `slope` is s, the derivative of the row's remainder in its
    predictor. Coordinate j is reversed with probability max(0, -v_j s a_j) / (`ceiling` abs(a_j)).
    """
    last = flight.velocity.shape[0] - 1
    left = rng.random() * record[LENGTH]
    j = 0
    while j < last and left >= abs(record[N_SCALARS + j]):
        left -= abs(record[N_SCALARS + j])
        j += 1
    push = -slope * flight.velocity[j] * (1.0 if record[N_SCALARS + j] > 0.0 else -1.0)
    if rng.random() * ceiling < push:
        turn_round(flight, j)
        return True
    return False


ZIGZAG = Dynamics(start, plan, turn, turn_by_row, norm=1)


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
        When the target is not a generalised linear model with a normal prior, its derivatives are finite differences,
        or none of them is bounded; raised before anything runs. A rate that exceeds its bound stops the run, and the
        message names the datum.

    Notes
    -----
    With :math:`\theta = c + L \phi`, the energy is :math:`Q(\phi) - \sum_i r_i(\phi)`: `Q` quadratic, with the prior,
    and :math:`r_i` the remainder of row `i` after a Taylor polynomial at `c`. Coordinate `j` reverses at the rate

    .. math:: \lambda_j(\phi, v) = \max(0, v_j \partial_j Q) + \sum_i \max(0, -v_j \partial_j r_i),

    so that :math:`\lambda_j(\phi, v) - \lambda_j(\phi, F_j v) = v_j \partial_j U`, with `U` the energy and `F_j v` the
    velocity with coordinate `j` reversed. This leaves the posterior invariant. Events of the first summand are drawn
    exactly, events of the others by thinning, with bounds on the derivatives of :math:`\log p(y \mid \eta)` (logistic:
    1, 1/4, :math:`1/(6\sqrt 3)`).

    Guarantee: exact in continuous time; draws are states of the process at equally spaced times. Cost: rows read one at
    a time, counted in ``datapoints_touched``, ``gradient_evaluations`` and ``decisions_made``; ``events`` counts all
    turns, ``row_events`` the turns by a row. ``setup_expected_reads`` predicts the reads of a draw, ``expected_reads``
    is their mean given the path. With polynomials of order 2 the reads of a draw fall like :math:`N^{-1/2}`. ``lp`` and
    ``accepted`` are not written. Memory: a whitened copy of the data.

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
        checked_fit(self.fit, who="ZigZag")
        checked_positive(self.spacing, "spacing", who="ZigZag")

    def build(self, target: Target, *, audit_every: int | str | None = None) -> PDMPProgram:
        """Check the pairing, split the energy, compile; nothing is audited."""
        return PDMPProgram(target, self.fit, ZIGZAG, setting=0.0, spacing=float(self.spacing), who="ZigZag")
