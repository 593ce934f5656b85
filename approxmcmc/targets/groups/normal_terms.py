"""Base of all targets of normal groups: terms, gradients and draws of effects; see `triangles` for what they read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, closure
from approxmcmc.families.normal import log_standard_normal
from approxmcmc.targets.groups.grouping import Grouping, by_group
from approxmcmc.targets.groups.linked import LinkedTerms
from approxmcmc.targets.groups.normal_kernels import make_add_gradient, make_log_terms

AT_ONCE = 1 << 17  # draws of groups per block


class NormalTerms(LinkedTerms):
    """Groups of normal rows, y = X beta + Z L u + noise, that were reduced to triangles; a term is a group.

    Subclasses set `data` = (triangles, (rows, log weights), table of a `link`), `n_columns` of Z, `n_effects` in u, and
    `knows_noise`.
    """

    n_columns: int
    n_effects: int
    knows_noise: bool

    def _log_terms(self) -> Any:
        parts = self.n_columns, self.n_effects, self.knows_noise
        return self._linked_terms(closure(make_log_terms, *parts, fastmath=BATCH_FASTMATH))

    def _term_gradients(self) -> Any:
        parts = self.n_columns, self.n_effects, self.knows_noise
        return self._linked_gradient(closure(make_add_gradient, *parts, fastmath=BATCH_FASTMATH))

    def effects_given(self, phi: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean m (..., groups, K) and triangle C (..., groups, K, K) of u ~ N(m, (CC')^-1) given rows and phi.

        The precision is I + A'A and the mean (I + A'A)^-1 A' r_1 / tau, with A, r_1 and tau of `normal_kernels`.
        """
        q = self.n_columns
        K = self.n_effects
        R = self.data[0][groups]
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
        """Return a draw of u for each group given the rows, shape (groups, K), and the log density of each draw."""
        mean, factor = self.effects_given(self.phis(theta[None]), np.arange(self.n_obs))
        noise = rng.standard_normal((self.n_obs, self.n_effects))
        u = mean[0] + np.linalg.solve(np.swapaxes(factor[0], -1, -2), noise[..., None])[..., 0]
        log_det = np.log(np.diagonal(factor[0], axis1=-2, axis2=-1)).sum(axis=-1)
        return u, log_det + log_standard_normal(noise)

    def draw_standard_effects(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return exact draws of u given the rows; shape (thetas, groups, K)."""
        drawn = np.empty((len(thetas), len(groups), self.n_effects))
        step = max(1, AT_ONCE // max(len(groups), 1))
        for lo in range(0, len(thetas), step):
            mean, factor = self.effects_given(self.phis(thetas[lo : lo + step]), groups)
            noise = rng.standard_normal((*mean.shape, 1))
            drawn[lo : lo + step] = mean + np.linalg.solve(np.swapaxes(factor, -1, -2), noise)[..., 0]
        return drawn


def triangles(columns: Sequence[np.ndarray], groups: Grouping) -> np.ndarray:
    """Return the upper triangle of the QR decomposition of each group's rows; shape (G, m, m).

    `columns`, arrays (n,) or (n, k), are side by side; m is their number.
    """
    rows = by_group(columns, groups)
    sizes = groups.sizes
    m = rows.shape[1]
    roots = np.zeros((len(sizes), m, m))
    for g, h in groups.spans():
        for size in np.unique(sizes[g:h]):
            which = g + np.flatnonzero(sizes[g:h] == size)
            places = groups.start[which][:, None] + np.arange(size)
            roots[which, : min(size, m)] = np.linalg.qr(rows[places], mode="r")
    return roots
