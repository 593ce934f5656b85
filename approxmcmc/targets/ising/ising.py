"""The Ising model on a rectangular lattice with free boundary.

    f(y | theta) = exp(theta s(y)) / Z(theta),   y in {-1, 1}^(rows x columns),   s(y) = sum_{i ~ j} y_i y_j,

every pair of neighbours counted *once*. A sum "over i and j ~ i" counts each pair twice and has half our theta.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Simulator, Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.exponential_family import AuxiliaryChain, ExponentialFamily, FamilyPrior, checked_auxiliary
from approxmcmc.targets.ising import exact as exact_lattice
from approxmcmc.targets.ising.simulators import coupling_simulator, heat_bath, heat_bath_states

LEAST_UPDATES = 1000
SWEEPS = 20


class Ising(ExponentialFamily):
    """The posterior of the Ising model's parameter, given one lattice of spins.

    Parameters
    ----------
    lattice
        The observed spins, -1 or 1; shape (rows, columns), at least two sites.
    prior_scale
        Standard deviation of the normal prior with mean 0; inf = flat.
    prior_bounds
        (low, high) of the uniform prior, instead of `prior_scale`.

    Raises
    ------
    InvalidInputError
        If the lattice is not two-dimensional, holds a value other than -1 and 1, or there is not exactly one prior.

    Notes
    -----
    The trace holds the scalar ``theta``. Lattices up to 16 wide (the shorter side) have exact answers:
    ``log_normalizer(theta)``, ``moments(theta)``, ``log_density(theta)``, see `approxmcmc.targets.ising.exact`.

    Simulators: ``auxiliary="exact"`` draws backwards through the transfer recursion up to 16 wide, and by monotone
    coupling from the past if wider; `AuxiliaryChain` is a heat bath in checkerboard order; "auto" is exact up to 16
    wide, else ``AuxiliaryChain(max(1000, 20 n_sites), "both")``.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> lattice = np.array([[1, 1, -1], [1, 1, -1], [1, -1, -1]])
    >>> target = amc.targets.Ising(lattice, prior_bounds=(-0.4, 0.8))
    >>> target.observed_statistics
    array([4.])
    >>> round(target.log_normalizer(0.4), 6)
    7.267653
    """

    @naming_the_arguments
    def __init__(self, lattice: Any, *, prior_scale: float | None = None, prior_bounds: Any = None) -> None:
        self.lattice = _checked_lattice(lattice)
        self.prior = FamilyPrior(prior_scale, prior_bounds)
        self.variables = Variables({"theta": ()})
        self._observed_statistics = np.array([lattice_statistic(self.lattice)])

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed lattice of spins."""
        return {"lattice": self.lattice}

    def initial_point(self) -> np.ndarray:
        """Return the middle of the prior; shape (1,)."""
        bounds = self.prior.bounds
        return np.array([0.0 if bounds is None else 0.5 * (bounds[0] + bounds[1])])

    def change_statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pseudo-likelihood's responses, 1 if y_i = 1 else 0, (n,), and design 2 sum_{j ~ i} y_j, (n, 1)."""
        padded = np.pad(self.lattice, 1)
        field = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        return (self.lattice > 0).astype(np.int64).ravel(), 2.0 * field.reshape(-1, 1)

    def _log_normalizers(self, thetas: np.ndarray) -> np.ndarray | None:
        """Return log Z at each row of `thetas`, by the transfer recursion; None if the shorter side is over 16."""
        if not self._has_recursion:
            return None
        return np.array([exact_lattice.log_normalizer(theta, *self.lattice.shape) for theta in thetas[:, 0]])

    def statistic_counts(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the values of s and the log number of lattices with each; None if the shorter side is over 12."""
        if min(self.lattice.shape) > exact_lattice.WIDEST_COUNTS:
            return None
        counts = exact_lattice.level_counts(*self.lattice.shape)
        most = len(counts) - 1  # k disagreeing pairs of neighbours of n: s = n - 2k
        values = most - 2.0 * np.arange(most + 1)
        return values[counts > 0.0, None], np.log(counts[counts > 0.0])

    def moments(self, theta: Any) -> tuple[float, float]:
        """Return mean and variance of s(y') under f(.|theta); the lattice's shorter side must be at most 16."""
        if not self._has_recursion:
            raise IncompatibleError(f"{self!r}: exact moments need a shorter side of at most {exact_lattice.WIDEST}")
        return exact_lattice.moments(self._checked_theta(theta)[0], *self.lattice.shape)

    @property
    def _has_recursion(self) -> bool:
        return min(self.lattice.shape) <= exact_lattice.WIDEST

    def build_simulator(self, auxiliary: Any) -> Simulator:
        """Return the simulator for the setting `auxiliary`."""
        auxiliary = checked_auxiliary(auxiliary)
        if auxiliary in ("auto", "exact") and self._has_recursion:
            return exact_lattice.backward_simulator(*self.lattice.shape)
        if auxiliary == "exact":
            return coupling_simulator(*self.lattice.shape)
        if auxiliary == "auto":
            auxiliary = AuxiliaryChain(max(LEAST_UPDATES, SWEEPS * self.lattice.size), "both")
        if auxiliary.move != "auto":
            raise InvalidInputError(
                f'{self!r} moves by a heat bath: AuxiliaryChain needs move="auto", found {auxiliary!r}'
            )
        return Simulator(heat_bath, heat_bath_states(self.lattice, auxiliary), exact=False)

    def __repr__(self) -> str:
        """Show size and prior."""
        rows, columns = self.lattice.shape
        return f"Ising({rows} x {columns}, {self.prior})"


def lattice_statistic(lattice: np.ndarray) -> float:
    """Return s(y), the sum of y_i y_j over pairs of neighbours, each pair once."""
    return float((lattice[1:] * lattice[:-1]).sum() + (lattice[:, 1:] * lattice[:, :-1]).sum())


def _checked_lattice(lattice: Any) -> np.ndarray:
    array = checked_array(lattice, "lattice")
    if array.ndim != 2 or array.size < 2:
        raise InvalidInputError(
            f"Ising: lattice must have shape (rows, columns), at least 2 sites; found {array.shape}"
        )
    values = np.unique(array)
    if not np.isin(values, (-1, 1)).all():
        hint = "; give 2 * lattice - 1" if np.isin(values, (0, 1)).all() else ""
        raise InvalidInputError(f"Ising: spins must be -1 or 1, found the values {values[:5].tolist()}{hint}")
    return np.ascontiguousarray(array, dtype=np.int64)
