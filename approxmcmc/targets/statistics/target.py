"""Normal rows represented by their sufficient statistics: a term is an outcome, and no step reads a row."""

import copy
import functools
import time
from typing import Any, NoReturn, Self

import numpy as np
from numba import types as nb

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, INDICES, MATRIX, VECTOR, bind, kernel, type_of
from approxmcmc.engine.terms.batches import log_terms_type
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.expansion.general import ExpandsItself
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.mode import laplace
from approxmcmc.targets.blocks import Blocks, Grows
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.stands_for_rows import StandsForRows
from approxmcmc.targets.statistics.blocks import OutcomeOfBlock, added, outcome_of_block
from approxmcmc.targets.statistics.kernels import add_gradient, log_terms, make_expand
from approxmcmc.targets.statistics.model import normal_outcomes
from approxmcmc.targets.tall_data import TallDataTarget


class NormalStatistics(StandsForRows, Grows, ExpandsItself):
    r"""The posterior of a model of normal rows, computed from its sufficient statistics.

    .. math:: \ell(\theta) = b - n \lambda - \tfrac12 (s + |R (\beta - \hat\beta)|^2) e^{-2 \lambda}

    for each outcome with n rows, log scale lambda and a constant b; s, R and the fit come from weighted least squares.

    Parameters
    ----------
    rows
        The model of single rows. Its mean is a linear predictor, and its log scale differs between rows only by known
        offsets. In PyMC: ``pm.Normal("y", X @ beta + a, sigma, observed=y)``, with any priors.

    Attributes
    ----------
    plain
        The model of single rows, for leave-one-out cross-validation and other uses of single rows.

    Raises
    ------
    IncompatibleError
        If the model is not of this kind.

    Notes
    -----
    Guarantee: the posterior of `rows`, to rounding, 1e-10 of the log-likelihood. Set-up takes one pass over the rows,
    or a few if categories are rare or columns nearly collinear.

    References
    ----------
    Gelman et al. (2013), section 14.2; Yamamoto et al. (2015), for the pass.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rows = amc.LinearRegression(np.ones((5, 1)), np.arange(5.0)).plain
    >>> amc.targets.compressed(rows).n_rows
    5
    """

    reads_rows = False

    def __init__(self, rows: Target) -> None:
        self._take(rows)

    def _take(self, rows: Target) -> None:
        """Compute the statistics of these rows."""
        began = time.perf_counter()
        outcomes = normal_outcomes(rows)
        if not isinstance(rows, TallDataTarget) or not outcomes:
            raise IncompatibleError(
                f"NormalStatistics needs rows that are normal, with means that are linear in the parameters and one "
                f"scale for each outcome, up to known weights; found {rows!r}"
            )
        StandsForRows.__init__(self, rows)
        self._of_blocks: tuple[list[OutcomeOfBlock], ...] = ([outcome_of_block(outcome) for outcome in outcomes],)
        self._add_up()
        self.seconds = time.perf_counter() - began

    def _add_up(self) -> None:
        """Add up the statistics of all blocks."""
        outcomes = [added(parts) for parts in zip(*self._of_blocks, strict=True)]
        self.n_obs = len(outcomes)
        self.data = _statistics(outcomes)
        self.passes = sum(outcome.fit.passes for outcome in outcomes)
        vars(self).pop("_fit", None)

    # --- blocks of rows that come and go ---

    def rows_to_append(self, *rows: Any, **columns: Any) -> Self:
        """Return the target of new rows alone; the arguments are those of the model of single rows."""
        more = copy.copy(self)
        more._take(self._growing_rows().rows_to_append(*rows, **columns))
        return more

    def joined(self, more: Self, block: str | None = None) -> Self:
        """Return the target of the rows of this target and those of `more`."""
        joined = copy.copy(self)
        joined._rows = self._growing_rows().joined(more._growing_rows(), block)
        joined.n_rows = joined._rows.n_obs
        joined._of_blocks = (*self._of_blocks, *more._of_blocks)
        joined._add_up()
        return joined

    @names_itself("remove from {}")
    def remove(self, block: str) -> Self:
        """Return the target without the rows of a block."""
        k = self.blocks.place(block)
        rest = copy.copy(self)
        rest._rows = self._growing_rows().remove(block)
        rest.n_rows = rest._rows.n_obs
        rest._of_blocks = (*self._of_blocks[:k], *self._of_blocks[k + 1 :])
        rest._add_up()
        return rest

    @property
    def blocks(self) -> Blocks:
        """Blocks of rows, those of the model of single rows."""
        return self._growing_rows().blocks

    def _growing_rows(self) -> Regression:
        """Return the model of single rows, which grows; raise if it is of another kind."""
        assert isinstance(self._rows, Regression)  # as `normal_outcomes` has found outcomes
        return self._rows

    def _log_terms(self) -> Any:
        return kernel(log_terms, log_terms_type(type_of(self.data)).signature, fastmath=BATCH_FASTMATH)

    def _term_gradients(self) -> Any:
        return kernel(add_gradient, gradient_signature(type_of(self.data)), fastmath=BATCH_FASTMATH)

    def compile_term_range(self) -> NoReturn:
        """Raise: there are no rows to leave out."""
        raise IncompatibleError(self._why_no_subsets)

    def compile_difference_bound(self) -> NoReturn:
        """Raise: there are no rows to leave out."""
        raise IncompatibleError(self._why_no_subsets)

    @property
    def _why_no_subsets(self) -> str:
        return (
            f"{self!r} has one term for each outcome, because sufficient statistics replace its rows, so a test has no "
            "rows to leave out; use ExactTest, whose steps read none"
        )

    def compile_expansion(self) -> Any:
        """Compile the kernel that writes the second-order expansion of an outcome."""
        signature = nb.void(VECTOR, type_of(self.data), INDICES, nb.int64, nb.int64, MATRIX)
        parts = self._log_terms(), self._term_gradients()
        return bind(make_expand, *parts, signature=signature, fastmath=BATCH_FASTMATH)

    def initial_point(self) -> np.ndarray:
        """Return the least-squares fit and scale, or the initial point of `rows` if the prior forbids that theta."""
        own = self._rows.initial_point()
        at = self._rows.initial_point()
        _, centers, places, scales, numbers = self.data
        for k, (n, squares, _) in enumerate(numbers):
            at[places[k]] = centers[k]
            v = scales[k]
            if v.any() and squares > 0.0:
                at += v * (0.5 * np.log(squares / n) - v @ at) / (v @ v)
        return at if np.isfinite(self.prior.compile(at.size)(at)) else own

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a draw of the Laplace approximation of this posterior; None if it has no mode."""
        return None if self._fit is None else self._fit.draw(rng)

    @functools.cached_property
    def _fit(self) -> Laplace | None:
        try:
            return laplace(self)
        except (InvalidInputError, NotFiniteError):
            return None

    @property
    def found(self) -> str:
        """Return a sentence: sufficient statistics replace the rows, so a step reads none."""
        outcomes = "" if self.n_obs == 1 else f" of {self.n_obs} outcomes"
        return f"normal rows: sufficient statistics{outcomes} replace all {self.n_rows:,} rows, so a step reads none"

    def __repr__(self) -> str:
        """Show the sizes."""
        return f"{type(self).__name__}({self.n_rows} rows, dim={self.variables.size})"


def _statistics(outcomes: list[OutcomeOfBlock]) -> tuple[np.ndarray, ...]:
    """Return the arrays that the kernels read."""
    K = len(outcomes)
    dim = outcomes[0].scale_weights.size
    p = max(outcome.entries.size for outcome in outcomes)
    roots = np.zeros((K, p, p))
    centers = np.zeros((K, p))
    places = np.zeros((K, p), np.int64)
    scales = np.zeros((K, dim))
    numbers = np.zeros((K, 3))
    for k, outcome in enumerate(outcomes):
        entries = outcome.entries
        fit = outcome.fit
        roots[k, : len(fit.root), : entries.size] = fit.root
        filled = np.minimum(np.arange(p), entries.size - 1)  # beyond them the root is 0
        centers[k] = fit.center[filled]
        places[k] = entries[filled]
        scales[k] = outcome.scale_weights
        numbers[k] = (outcome.n_rows, fit.squares, outcome.constant)
    return roots, centers, places, scales, numbers
