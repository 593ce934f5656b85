"""Expand terms in one pass, for targets that define second derivatives of their terms."""

import abc
from typing import Any

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.engine.terms.passes import sum_over_blocks
from approxmcmc.targets.expansion.general import GeneralExpansion
from approxmcmc.targets.expansion.passes import over_all_rows
from approxmcmc.targets.expansion.quadratic import Quadratic


class ExpandsItself(abc.ABC):
    """A target that defines the second derivatives of its terms."""

    @abc.abstractmethod
    def compile_expansion(self) -> Any:
        """Compile ``expand(theta, data, order, lo, hi, out)``, which writes a row of `GeneralExpansion` for each term.

        A row is (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2).
        """


class OwnExpansion(GeneralExpansion):
    """The rows that `GeneralExpansion` computes by differences, in closed form."""

    def __init__(self, target: Target, order: int) -> None:
        super().__init__(target, order)
        assert isinstance(target, ExpandsItself)
        self.own = target.compile_expansion()

    def steps(self, theta: np.ndarray) -> np.ndarray:
        """Return an empty array: no difference steps are needed."""
        return np.zeros(self.dim)

    def _passes_of_rows(self) -> int:
        return 1 if self.order == 2 else super()._passes_of_rows()

    def _fill_by_gradients(self, theta: np.ndarray, steps: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        if self.order == 1:
            super()._fill_by_gradients(theta, steps, lo, hi, out)
        else:
            self.own(theta, self.compiled.data, self.rows, lo, hi, out)

    @over_all_rows
    def _sum_of_rows(self, theta: np.ndarray) -> np.ndarray:
        def block(lo: int, hi: int) -> np.ndarray:
            out = np.empty((hi - lo, self.columns))
            self._fill_by_gradients(theta, np.zeros(0), lo, hi, out)
            return np.asarray(out.sum(axis=0))

        return self.weight * sum_over_blocks(block, self.n_rows, self.block)

    def _total(self, theta: np.ndarray) -> Quadratic:
        """Return the expansion of the sum: one pass."""
        return self._quadratic(self._sum_of_rows(theta))
