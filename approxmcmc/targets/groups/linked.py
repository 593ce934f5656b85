"""Base of all targets of groups: theta is mapped to the parameters of the groups, phi, by the table of a `link`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import LatentTarget
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, bind, type_of
from approxmcmc.engine.terms.batches import log_terms_type
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.targets.groups.link import (
    NEAR_0,
    STEP,
    Link,
    add_factor_slopes,
    factors_of,
    make_linked_gradient,
    make_linked_terms,
    phi_of,
    slopes_in_theta,
    slopes_of_phi,
    values_of,
)
from approxmcmc.targets.tall_data import TallDataTarget

# A search may try points far from the mode. Compiled kernels then compute with infinities and do not warn; nor does
# NumPy in this context.
WITHOUT_WARNINGS = np.errstate(over="ignore", invalid="ignore", divide="ignore")


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

    @property
    def _link_table(self) -> Link:
        """The table of the link: the last arrays of the data."""
        return Link(*self.data[-len(Link._fields) :])

    @WITHOUT_WARNINGS
    def phis(self, thetas: np.ndarray) -> np.ndarray:
        """Return phi, the parameters of the groups (see `link`), at one theta or many; shape (..., n)."""
        table = self._link_table
        return phi_of(self._factor_values(thetas), table.products, table.weights, table.logs)

    @WITHOUT_WARNINGS
    def derivatives_of_phi(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return phi (n,), its first derivatives (n, d), and its second derivatives by differences (n, d, d).

        Terms that depend on an absolute value are even in it, so either side of 0 gives the derivatives at 0.
        """
        nonzero_theta = np.where(theta == 0.0, NEAR_0, theta)
        d = len(theta)
        phi, first = self._jacobian(nonzero_theta)
        second = np.zeros((len(phi), d, d))
        steps = np.minimum(STEP, 0.5 * np.abs(nonzero_theta))  # short enough that no coordinate changes its sign
        for j in range(d):
            shift = np.zeros(d)
            shift[j] = steps[j]
            _, after = self._jacobian(nonzero_theta + shift)
            _, before = self._jacobian(nonzero_theta - shift)
            half = (after - before) / (4.0 * steps[j])
            second[:, :, j] += half
            second[:, j, :] += half  # the other half of the symmetric matrix
        return phi, first, second

    def _jacobian(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return phi and its derivatives in theta."""
        factors = self._factor_values(theta)
        table = self._link_table
        phi = phi_of(factors, table.products, table.weights, table.logs)
        slopes = slopes_of_phi(factors, phi, table.products, table.weights, table.logs)
        return phi, self._factor_slopes(theta, slopes)

    def _factor_values(self, thetas: np.ndarray) -> np.ndarray:
        """Return the factors at one theta or many; shape (..., F)."""
        return values_of(thetas, self._link_table.places)

    def _factor_slopes(self, theta: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return derivatives in theta (n, d), given those in the factors, `slopes` (n, F)."""
        return slopes_in_theta(theta, self._link_table.places, slopes)
