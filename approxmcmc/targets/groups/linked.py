"""Base of all targets of groups: theta is mapped to the parameters of the groups, phi, by the table of a `link`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.contracts import LatentTarget
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, bind, closure, type_of
from approxmcmc.engine.terms.batches import log_terms_type
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.targets.groups.link import (
    add_factor_slopes,
    factors_of,
    make_derivatives,
    make_jacobian,
    make_linked_gradient,
    make_linked_terms,
    make_phis,
)
from approxmcmc.targets.tall_data import TallDataTarget


class LinkedTerms(TallDataTarget, LatentTarget):
    """Terms and gradients in theta, from kernels in phi; the table of the link is last among the data."""

    keeps_kernels = True
    """Whether kernels are cached on disk: not if they call code compiled by PyTensor."""

    def _factors(self) -> tuple[Any, Any]:
        """Return two kernels: one computes the factors of the table at theta, the other maps slopes back to theta."""
        return factors_of, add_factor_slopes

    def _bind(self, make: Callable[..., Any], *parts: Any, signature: Any) -> Any:
        return bind(make, *parts, signature=signature, fastmath=BATCH_FASTMATH, cache=self.keeps_kernels)

    def _linked_terms(self, core: Callable[..., None]) -> Any:
        signature = log_terms_type(type_of(self.data)).signature
        return self._bind(make_linked_terms, core, self._factors()[0], signature=signature)

    def _linked_gradient(self, core: Callable[..., None]) -> Any:
        signature = gradient_signature(type_of(self.data))
        return self._bind(make_linked_gradient, core, *self._factors(), signature=signature)

    def phis(self, thetas: np.ndarray) -> np.ndarray:
        """Return the parameters of the groups at each theta; shape (thetas, n)."""
        table = self.data[-4:]
        out = np.empty((len(thetas), table[-1].shape[1]))
        self._run(make_phis, self._factors()[0], arguments=(np.ascontiguousarray(thetas), table, out))
        return out

    def derivatives_of_phi(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return phi (n,), its first derivatives (n, d), and its second (n, d, d)."""
        table, d = self.data[-4:], len(theta)
        n = table[-1].shape[1]
        found = np.empty(n), np.empty((n, d)), np.zeros((n, d, d))
        jacobian = closure(make_jacobian, *self._factors(), fastmath=BATCH_FASTMATH)
        self._run(make_derivatives, jacobian, arguments=(np.ascontiguousarray(theta), table, *found))
        return found

    def _run(self, make: Callable[..., Any], *parts: Any, arguments: tuple[Any, ...]) -> None:
        self._bind(make, *parts, signature=nb.void(*map(type_of, arguments)))(*arguments)
