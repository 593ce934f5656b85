"""The canonical known-answer case: posterior N(0, 1) on a grid, Gaussian data, a random walk, sequential t-tests.

Lambda = (z^2 - z'^2) / 2 and tau = |z' - z| are known for every move. So the kernel of every epsilon is known, and its
bias, asymptotic variance and cost, and the mean square error of a running mean at any number of steps. Figures and
tests use these numbers, which need no simulation.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.acceptance.laws.recursion import acceptance_probability_error

LOOKS: dict[str, Any] = {"batch_size": 500, "n_obs": 10_000}
GRID = np.linspace(-5.0, 5.0, 201)
MIDDLE = 100


@functools.cache
def law() -> np.ndarray:
    """Return the posterior on the grid."""
    weight = np.exp(-(GRID**2) / 2.0)
    return weight / weight.sum()


@functools.cache
def proposals() -> np.ndarray:
    """Return the probabilities of proposing each other point; with the rest the chain stays where it is."""
    weight = np.exp(-((GRID[None, :] - GRID[:, None]) ** 2) / (2.0 * 2.4**2))
    weight /= weight.sum(axis=1).max()
    np.fill_diagonal(weight, 0.0)
    return weight


@functools.cache
def log_ratios() -> np.ndarray:
    """Return Lambda of every move."""
    return (GRID[:, None] ** 2 - GRID[None, :] ** 2) / 2.0


@dataclasses.dataclass(frozen=True)
class Arm:
    """One epsilon: its kernel, bias and asymptotic variance of the mean of z^2, and the share of the data it reads."""

    kernel: np.ndarray
    bias: float
    variance: float
    cost: float


@functools.cache
def arm(epsilon: float) -> Arm:
    """Return kernel, bias, asymptotic variance and cost of an epsilon; 0: the exact test."""
    accept = np.exp(np.minimum(log_ratios(), 0.0))
    used = np.ones((201, 201))
    if epsilon > 0.0:  # one half of the grid is the mirror image of the other
        half = slice(0, MIDDLE + 1)
        steps = np.abs(GRID[None, :] - GRID[half, None])
        predicted = acceptance_probability_error(log_ratios()[half], steps, epsilon=epsilon, **LOOKS)
        error, fraction = (np.array(predicted[name]) for name in ("error", "data_fraction"))
        accept = accept + np.vstack([error, error[-2::-1, ::-1]])
        used = np.vstack([fraction, fraction[-2::-1, ::-1]])
    kernel = proposals() * accept
    np.fill_diagonal(kernel, 1.0 - kernel.sum(axis=1))
    stationary = np.linalg.lstsq(np.vstack([kernel.T - np.eye(201), np.ones(201)]), np.append(np.zeros(201), 1.0))[0]
    square = GRID**2
    centred = square - stationary @ square
    solved = np.linalg.solve(np.eye(201) - kernel + stationary[None, :], centred)
    moves = stationary[:, None] * proposals()
    return Arm(
        kernel,
        float(stationary @ square - law() @ square),
        float(stationary @ (centred * (2.0 * solved - centred))),
        float((moves * used).sum() / moves.sum()),
    )


def mean_square_error(epochs: Sequence[tuple[float, int]]) -> float:
    """Return the exact E (mean of z^2 over all steps - E z^2)^2 of a chain that starts in the posterior.

    `epochs` is a sequence of (epsilon, number of steps). The moments p = P(x), m = E[S; x] and q = E[S^2; x] of state x
    and running sum S are updated in each step by the transition matrix. The sign of z does not matter, so that 101
    states suffice.
    """
    square = GRID[MIDDLE:] ** 2
    f = square - law() @ GRID**2
    start = law()[MIDDLE:] + np.append(0.0, law()[:MIDDLE][::-1])
    moments = np.concatenate([start, np.zeros(202)])
    total = 0
    for epsilon, steps in epochs:
        T = arm(epsilon).kernel[MIDDLE:]
        T = T[:, MIDDLE:] + np.hstack([np.zeros((101, 1)), T[:, :MIDDLE][:, ::-1]])
        none = np.zeros_like(T)
        augmented = np.block([[T, T * f, T * f**2], [none, T, 2.0 * T * f], [none, none, T]])
        moments = moments @ np.linalg.matrix_power(augmented, int(steps))
        total += int(steps)
    return float(moments[202:].sum()) / total**2
