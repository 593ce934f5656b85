"""The correction distribution: added to normal noise it gives logistic noise.

Barker's test accepts iff Delta + X_log > 0 with X_log standard logistic. A minibatch estimate of Delta contains normal
noise. If X_log = X_norm + X_corr in distribution, X_norm ~ N(0, sigma^2), then the noise of the estimate can serve as
X_norm. No such X_corr exists exactly: the quotient of the two characteristic functions grows without bound. The best
approximation on atoms Y_j with weights p_j solves

    minimise over p >= 0, sum p = 1:    sup_x | sum_j p_j Phi((x - Y_j) / sigma) - S(x) |,    S(x) = 1 / (1 + exp(-x)).

As a linear programme on the half line (the distribution is symmetric) it reaches 5e-8 at sigma = 1, where the ridge
regression of the original paper, clipped at zero, reaches 7e-4.

Reference: Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for Metropolis-Hastings, UAI,
section 4 and its appendix.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError

METHODS = ("minimax", "nnls", "ridge")
# Below 0.1 the atoms would have to lie closer than the programme can solve; above 1.5 the error passes 2e-3.
SMALLEST_SIGMA = 0.1
LARGEST_SIGMA = 1.5
CHECKED_UP_TO = 30.0
CHECKED_POINTS = 24_001
HALF_WIDTH = 16.0  # the largest atom; the logistic distribution has probability 1e-7 beyond it
NEGLIGIBLE_WEIGHT = 1e-12
# The programme's optimum is smaller than the usual tolerances of solvers, so the error variable is scaled up; if the
# solver fails, a slightly different grid or a looser tolerance is tried.
ERROR_SCALE = 1e3
ATTEMPTS = ((1.0, HALF_WIDTH, 1e-10), (1.5, 18.0, 1e-10), (1.0, HALF_WIDTH, 1e-9), (1.5, 18.0, 1e-9), (1.0, 18.0, 1e-8))
# Minimax distribution for sigma = 1, by `_minimax(1.0)`: pairs (atom, weight) on the half line. A test recomputes it.
SHIPPED_SIGMA = 1.0
SHIPPED_SUP_ERROR = 5.3822512890988605e-08
SHIPPED_HALF_LINE = (
    (0.0, 0.4205370117317214),
    (1.1, 0.06823458607364785),
    (1.2, 0.12707684327666044),
    (2.3, 0.011715035002226197),
    (2.4, 0.0549754979279041),
    (3.6, 0.008725497322783665),
    (3.7, 0.011538525911242603),
    (5.0, 0.005344663609864993),
    (5.1, 0.0002650750724466582),
    (6.4, 0.0008889829661413332),
    (6.5, 0.0005554263344386231),
    (7.9, 1.5971092937316e-05),
    (8.0, 0.00031627838178413493),
    (9.7, 5.490714091991468e-05),
    (9.8, 1.2131079384439522e-05),
    (11.7, 8.682280720603956e-06),
    (11.8, 2.2049273941352838e-06),
    (14.3, 6.905607709154723e-07),
    (14.4, 4.907538181850297e-07),
    (16.0, 4.4190532599897645e-09),
)


class CorrectionDistribution(NamedTuple):
    """A discrete distribution X_corr such that N(0, sigma^2) + X_corr is nearly standard logistic.

    Attributes
    ----------
    atoms, weights
        Values, increasing, and their probabilities, which add up to 1; shape (k,).
    sigma
        Standard deviation of the normal part.
    sup_error
        Largest distance of the sum's distribution function from the logistic one, on 24001 points of [-30, 30].
    method
        How it was found.
    """

    atoms: np.ndarray
    weights: np.ndarray
    sigma: float
    sup_error: float
    method: str


@naming_the_arguments
def correction_distribution(
    sigma: float = 1.0, method: str = "minimax", *, regularisation: float = 1.0, points: int = 2001
) -> CorrectionDistribution:
    """Return the distribution that turns normal noise into logistic noise.

    Parameters
    ----------
    sigma
        Standard deviation of the normal noise, 0.1 to 1.5.
    method
        ``"minimax"``: smallest sup-error, by linear programming. ``"nnls"``: non-negative least squares. ``"ridge"``:
        the paper's regression, negative weights set to 0 and the rest rescaled.
    regularisation, points
        Only for ``"ridge"``: the penalty lambda on the squared weights, and the number of equidistant points on [-20,
        20], used as atoms and as the grid of the fit.

    Returns
    -------
    CorrectionDistribution
        Atoms, weights and their computed sup-error.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.
    RuntimeError
        When no solver reached an optimum.

    Notes
    -----
    Sup-errors of ``"minimax"``: 4e-8 at sigma = 0.5, 2e-8 at 0.8, 5.4e-8 at 1.0, 1.4e-6 at 1.1, 1.6e-5 at 1.2, and
    1.6e-3 at 1.5. Optimal weights are not unique. The result for sigma = 1 is a table that comes with the library.

    References
    ----------
    Seita, Pan, Chen and Canny (2017), section 4 and appendix.

    Examples
    --------
    >>> correction = correction_distribution(1.0)
    >>> len(correction.atoms), float(correction.weights.max().round(4)), correction.sup_error < 1e-7
    (39, 0.4205, True)
    """
    sigma = float(sigma)
    if not SMALLEST_SIGMA <= sigma <= LARGEST_SIGMA:
        raise InvalidInputError(
            f"correction_distribution: sigma must lie between {SMALLEST_SIGMA} and {LARGEST_SIGMA}, found {sigma}; "
            "the variance of the normal noise must be well below the variance 3.29 of the logistic distribution"
        )
    if method not in METHODS:
        raise InvalidInputError(f"correction_distribution: method must be one of {METHODS}, found {method!r}")
    if not regularisation > 0.0 or points < 3:
        raise InvalidInputError(
            "correction_distribution: regularisation must be positive and points at least 3, found "
            f"{regularisation!r} and {points!r}"
        )
    if method == "minimax" and sigma == SHIPPED_SIGMA:
        return _shipped()
    return _computed(sigma, method, float(regularisation), int(points))


def sup_error(atoms: np.ndarray, weights: np.ndarray, sigma: float) -> float:
    """Return sup |P(N(0, sigma^2) + X_corr <= x) - S(x)| over 24001 points x of [-30, 30]."""
    grid = np.linspace(-CHECKED_UP_TO, CHECKED_UP_TO, CHECKED_POINTS)
    return max(
        float(np.abs(ndtr((part[:, None] - atoms) / sigma) @ weights - expit(part)).max())
        for part in np.array_split(grid, 1 + CHECKED_POINTS * len(atoms) // 1_000_000)
    )


def _shipped() -> CorrectionDistribution:
    table = np.array(SHIPPED_HALF_LINE)
    atoms, weights = _mirrored(table[:, 0], table[:, 1])
    return CorrectionDistribution(atoms, weights, SHIPPED_SIGMA, SHIPPED_SUP_ERROR, "minimax")


@functools.lru_cache(maxsize=32)
def _computed(sigma: float, method: str, regularisation: float, points: int) -> CorrectionDistribution:
    if method == "ridge":
        atoms, weights = _ridge(sigma, regularisation, points)
    else:
        atoms, weights = _minimax(sigma) if method == "minimax" else _nnls(sigma)
    keep = weights > NEGLIGIBLE_WEIGHT
    atoms = atoms[keep]
    weights = weights[keep] / weights[keep].sum()
    return CorrectionDistribution(atoms, weights, sigma, sup_error(atoms, weights, sigma), method)


def _minimax(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return atoms and weights with the least sup-error, by a linear programme for the weights on a half line."""
    from scipy.optimize import linprog

    for stretch, half_width, tolerance in ATTEMPTS:
        atoms, matrix, logistic, count = _half_line(sigma, stretch, half_width)
        error = np.ones((len(logistic), 1))
        solution = linprog(
            np.append(np.zeros(len(atoms)), 1.0),
            A_ub=np.block([[matrix * ERROR_SCALE, -error], [-matrix * ERROR_SCALE, -error]]),
            b_ub=ERROR_SCALE * np.concatenate([logistic, -logistic]),
            A_eq=np.append(count, 0.0)[None, :],
            b_eq=[1.0],
            method="highs-ds",
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        )
        if solution.x is not None and solution.status == 0:
            return _mirrored(atoms, np.maximum(solution.x[:-1], 0.0))
    raise RuntimeError(f"correction_distribution: no solution at sigma = {sigma}: {solution.message}")


def _nnls(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return atoms, and weights >= 0 fitted by least squares; a scaled-up row makes the sum of the weights 1."""
    from scipy.optimize import nnls

    atoms, matrix, logistic, count = _half_line(sigma, 1.0, HALF_WIDTH)
    rows = np.vstack([matrix, ERROR_SCALE * count])
    logistic = np.append(logistic, ERROR_SCALE)
    weights, _ = nnls(rows, logistic, maxiter=200 * len(atoms))
    return _mirrored(atoms, weights)


def _ridge(sigma: float, regularisation: float, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return atoms X, and weights (M'M + lambda I)^-1 M'v with negative ones set to 0.

    M_ij = Phi((X_i - X_j) / sigma), and v_i = S(X_i).
    """
    grid = np.linspace(-20.0, 20.0, points)
    matrix = ndtr((grid[:, None] - grid) / sigma)
    normal = matrix.T @ matrix
    normal[np.diag_indices(points)] += regularisation
    return grid, np.maximum(np.linalg.solve(normal, matrix.T @ expit(grid)), 0.0)


def _half_line(
    sigma: float, stretch: float, half_width: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return atoms >= 0, the matrix from weights to P(N(0, sigma^2) + X_corr <= x) for x in [0, 20], S(x), and counts.

    The atom at 0 counts once, each other one twice: it stands for the atom with the other sign as well.
    """
    step = stretch * min(0.1, 0.5 * sigma)
    atoms = step * np.arange(round(half_width / step) + 1)
    points = np.linspace(0.0, 20.0, round(40.0 / min(0.1, 0.5 * sigma)) + 1)[:, None]
    matrix = ndtr((points - atoms) / sigma)
    matrix[:, 1:] += ndtr((points + atoms[1:]) / sigma)
    return atoms, matrix, expit(points[:, 0]), np.where(atoms > 0.0, 2.0, 1.0)


def _mirrored(atoms: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return atoms and weights of the symmetric distribution with these atoms >= 0; the first atom is 0."""
    atoms = np.concatenate([-atoms[:0:-1], atoms])
    weights = np.concatenate([weights[:0:-1], weights])
    return atoms, weights / math.fsum(weights)
