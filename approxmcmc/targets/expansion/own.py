"""Expand terms in one pass, for targets that define second derivatives of their terms."""

import abc
from typing import Any

import numpy as np

from approxmcmc.engine.terms.passes import sum_over_blocks
from approxmcmc.targets.expansion.general import GeneralExpansion
from approxmcmc.targets.expansion.passes import over_all_rows
from approxmcmc.targets.expansion.quadratic import Quadratic


class ExpandsItself(abc.ABC):
    """A target that defines the second derivatives of its terms."""

    @abc.abstractmethod
    def compile_expansion(self) -> Any:
        """Compile ``expand(theta, data, order, lo, hi, out)``, which writes a row for each term in ``order[lo:hi]``.

        A row is (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2), as in `GeneralExpansion`.
        """


class OwnExpansion(GeneralExpansion):
    """The expansion of an `ExpandsItself`: the rows that `GeneralExpansion` computes by differences, in closed form."""

    is_closed = True

    def _bind_gradients(self) -> Any:
        """Compile the target's expansion, which contains the gradients of the terms."""
        assert isinstance(self.target, ExpandsItself)
        self.own = self.target.compile_expansion()
        return self.own

    def steps(self, theta: np.ndarray) -> np.ndarray:
        """Return zeros, shape (dim,): no difference steps are needed."""
        return np.zeros(self.dim)

    def _passes_of_rows(self) -> int:
        return 1

    def _fill_by_gradients(self, theta: np.ndarray, steps: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        if self.order == 2:
            self.own(theta, self.compiled.data, self.rows, lo, hi, out)
        else:
            rows = np.empty((hi - lo, 1 + self.dim + self.dim * (self.dim + 1) // 2))
            self.own(theta, self.compiled.data, self.rows, lo, hi, rows)
            out[:] = rows[:, : 1 + self.dim]

    @over_all_rows
    def _sum_of_rows(self, theta: np.ndarray) -> np.ndarray:
        def block(lo: int, hi: int) -> np.ndarray:
            out = np.empty((hi - lo, self.columns))
            self._fill_by_gradients(theta, np.zeros(0), lo, hi, out)
            return np.asarray(out.sum(axis=0))

        return self.weight * sum_over_blocks(block, self.n_rows, self.block)

    def _total(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log-likelihood at theta: one pass."""
        return self._quadratic(self._sum_of_rows(theta))
