"""Find models of normal rows, and compute their sufficient statistics from the rows, outcome by outcome.

The mean is any linear predictor; the log scale is a linear predictor that differs between rows only by a known offset,
such as a weight. So a step may read the results of `least_squares` instead of n rows.
"""

import dataclasses

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.families.normal import HALF_LOG_2_PI, unit_normal
from approxmcmc.targets.predictors.closed_form import NormalLikelihood
from approxmcmc.targets.predictors.design import Design, Predictor
from approxmcmc.targets.predictors.likelihood import ScalarLikelihood
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.statistics.least_squares import LeastSquares, least_squares

MOST_WORK = 2e11  # largest number of multiplications in a pass: about ten seconds
ROWS_PER_BLOCK = 1 << 16  # rows whose offsets are added up at a time


@dataclasses.dataclass(frozen=True, eq=False)
class NormalOutcome:
    """One outcome: y_i ~ N(a_i' theta + offset_i, (s_i exp(c' theta))^2).

    Parameters
    ----------
    design
        The design of the rows.
    mean, log_scale
        Predictors of the outcome's mean and log scale. None for a log scale of 0, in a model whose terms leave out the
        constant -log(2 pi) / 2.
    Y, column
        Outcomes, shape (n, J), and the column of this one.
    """

    design: Design
    mean: Predictor
    log_scale: Predictor | None
    Y: np.ndarray
    column: int

    @property
    def entries(self) -> np.ndarray:
        """Indices of the entries of theta that the mean reads, in increasing order."""
        first, last = self.mean.codes
        read = np.unique([*self.mean.places, *self.mean.shared, *np.unique(self.design.codes[:, first:last])])
        return read[read < self.design.dim].astype(np.int64)

    @property
    def work(self) -> float:
        """Number of multiplications in a pass over the rows."""
        return float(self.design.n_rows) * self.entries.size**2

    @property
    def scale_weights(self) -> np.ndarray:
        """The vector c; shape (dim,)."""
        weights = np.zeros(self.design.dim + 1)
        if self.log_scale is not None:
            np.add.at(weights, np.array(self.log_scale.shared, dtype=int), self.log_scale.values)
        return weights[:-1]

    def log_offsets(self, lo: int, hi: int) -> np.ndarray:
        """Return log s_i of the rows lo ... hi - 1."""
        if self.log_scale is None:
            return np.zeros(hi - lo)
        return self.design.matrix_of(self.log_scale, slice(lo, hi))[:, -1]

    def fit(self) -> tuple[LeastSquares, float]:
        """Return the least-squares fit, and the sum over rows of -log s_i - log(2 pi) / 2; 0 if terms leave it out."""
        entries = self.entries
        n_rows = self.design.n_rows

        def rows(lo: int, hi: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            whole = self.design.matrix_of(self.mean, slice(lo, hi))
            log_s = self.log_offsets(lo, hi)
            return whole[:, entries], self.Y[lo:hi, self.column] - whole[:, -1], np.exp(-2.0 * log_s)

        solution = least_squares(rows, n_rows, entries.size)
        if self.log_scale is None:
            return solution, 0.0
        starts = range(0, n_rows, ROWS_PER_BLOCK)
        offsets = sum(float(self.log_offsets(lo, min(lo + ROWS_PER_BLOCK, n_rows)).sum()) for lo in starts)
        return solution, -offsets - n_rows * HALF_LOG_2_PI


def normal_outcomes(target: Target) -> list[NormalOutcome]:
    """Return the outcomes if rows are normal, with log scales that differ only by offsets; else an empty list."""
    if not isinstance(target, Regression):
        return []
    if isinstance(target.likelihood, ScalarLikelihood) and target.likelihood.loglik is unit_normal and target.is_dense:
        return [NormalOutcome(target.design, target.design.predictors[0], None, target.y[:, None], 0)]
    if not isinstance(target.likelihood, NormalLikelihood):
        return []
    design = target.design
    J = target.likelihood.n_outcomes
    scales = design.predictors[J:]
    for scale in scales:
        has_codes = scale.codes[0] < scale.codes[1]
        has_columns = bool(set(scale.places) - {design.dim})  # besides offsets
        if has_codes or has_columns:  # rows have several scales
            return []
    pairs = zip(design.predictors[:J], scales, strict=True)
    return [NormalOutcome(design, mean, scale, target.responses[0], j) for j, (mean, scale) in enumerate(pairs)]
