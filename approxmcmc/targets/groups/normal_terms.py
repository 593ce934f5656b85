"""Base of all targets of normal groups: terms, gradients and draws of effects, from the triangles of their rows."""

from typing import Any

import numpy as np

from approxmcmc.contracts import LatentTarget
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, bind, closure, type_of
from approxmcmc.engine.terms.batches import log_terms_type
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.targets.groups.grouping import Grouping
from approxmcmc.targets.groups.link import (
    add_factor_slopes,
    factors_of,
    make_linked_gradient,
    make_linked_terms,
    sums_of,
)
from approxmcmc.targets.groups.normal_kernels import make_add_gradient, make_log_terms
from approxmcmc.targets.tall_data import TallDataTarget

AT_ONCE = 1 << 17  # draws of groups per block


class NormalTerms(TallDataTarget, LatentTarget):
    """Groups of normal rows, y = X beta + Z L u + noise, that were reduced to triangles; a term is a group.

    Subclasses set `data` = (triangles, (rows, log weights), table of a `link`), `n_columns` of Z, `n_effects` in u, and
    `knows_noise`.
    """

    n_columns: int
    n_effects: int
    knows_noise: bool
    keeps_kernels = True
    """Whether kernels are cached on disk: not if they call code compiled by PyTensor."""

    def _factors(self) -> tuple[Any, Any]:
        """Return two kernels: one computes the factors of the table at theta, the other maps slopes back to theta."""
        return factors_of, add_factor_slopes

    def _log_terms(self) -> Any:
        core = closure(make_log_terms, self.n_columns, self.n_effects, self.knows_noise, fastmath=BATCH_FASTMATH)
        signature = log_terms_type(type_of(self.data)).signature
        return self._bind(make_linked_terms, core, self._factors()[0], signature=signature)

    def _term_gradients(self) -> Any:
        core = closure(make_add_gradient, self.n_columns, self.n_effects, self.knows_noise, fastmath=BATCH_FASTMATH)
        signature = gradient_signature(type_of(self.data))
        return self._bind(make_linked_gradient, core, *self._factors(), signature=signature)

    def _bind(self, make: Any, *parts: Any, signature: Any) -> Any:
        return bind(make, *parts, signature=signature, fastmath=BATCH_FASTMATH, cache=self.keeps_kernels)

    def phis(self, thetas: np.ndarray) -> np.ndarray:
        """Return the parameters of the groups, (beta, L row by row, log noise) at each theta."""
        places, *sums = self.data[2:6]
        read = self._factors()[0]
        return np.array([sums_of(read(theta, places), *sums) for theta in thetas])

    def effects_given(self, phi: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean m and triangle C of u ~ N(m, (CC')^-1) given rows and phi; shapes (..., groups, K, ...).

        The precision is I + A'A and the mean (I + A'A)^-1 A' r_1 / tau.
        """
        q, K, R = self.n_columns, self.n_effects, self.data[0][groups]
        p = R.shape[1] - q - 1
        tau = np.ones(phi.shape[:-1]) if self.knows_noise else np.exp(phi[..., -1])
        L = phi[..., p : p + q * K].reshape(*phi.shape[:-1], 1, q, K)
        A = R[:, :q, :q] @ L / tau[..., None, None, None]
        r = (R[:, :q, q + p] - np.einsum("gij,...j->...gi", R[:, :q, q : q + p], phi[..., :p])) / tau[..., None, None]
        turned = np.swapaxes(A, -1, -2)
        factor = np.linalg.cholesky(np.eye(K) + turned @ A)
        half = np.linalg.solve(factor, turned @ r[..., None])
        return np.linalg.solve(np.swapaxes(factor, -1, -2), half)[..., 0], factor

    def at_random(self, rng: np.random.Generator, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a draw of u for each group, shape (groups, K), and its log density given the rows."""
        mean, factor = self.effects_given(self.phis(theta[None]), np.arange(self.n_obs))
        noise = rng.standard_normal((self.n_obs, self.n_effects))
        u = mean[0] + np.linalg.solve(np.swapaxes(factor[0], -1, -2), noise[..., None])[..., 0]
        log_det = np.log(np.diagonal(factor[0], axis1=-2, axis2=-1)).sum(axis=-1)
        return u, log_det - 0.5 * (noise**2 + np.log(2.0 * np.pi)).sum(axis=1)

    def draw_standard_effects(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return exact draws of u given the rows; shape (thetas, groups, K)."""
        drawn = np.empty((len(thetas), len(groups), self.n_effects))
        step = max(1, AT_ONCE // max(len(groups), 1))
        for lo in range(0, len(thetas), step):
            mean, factor = self.effects_given(self.phis(thetas[lo : lo + step]), groups)
            noise = rng.standard_normal((*mean.shape, 1))
            drawn[lo : lo + step] = mean + np.linalg.solve(np.swapaxes(factor, -1, -2), noise)[..., 0]
        return drawn


def triangles(rows: np.ndarray, groups: Grouping) -> np.ndarray:
    """Return the upper triangle of the QR decomposition of each group's rows (n, m); shape (G, m, m)."""
    m, sizes = rows.shape[1], groups.sizes
    found = np.zeros((len(sizes), m, m))
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        places = groups.order[groups.start[which][:, None] + np.arange(size)]
        found[which, : min(size, m)] = np.linalg.qr(rows[places], mode="r")
    return found
