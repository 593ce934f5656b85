"""How Firefly updates z, the indicators of the bright data."""

import dataclasses
import math
from typing import Any

import numpy as np

from approxmcmc.contracts import Component
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.firefly.chain import MOST_Q
from approxmcmc.samplers.firefly.steps import update_by_scan, update_by_skips, update_explicit


@dataclasses.dataclass(frozen=True, eq=False)
class ImplicitZ(Component):
    """Metropolis-Hastings on every z_i: bright data propose to go dark, dark data propose to go bright w.p. q.

    Parameters
    ----------
    q
        Probability that a dark datum proposes to go bright, in (0, 1]; each such proposal costs a likelihood
        evaluation. "auto": the expected bright count over N, kept in [1/N, 0.1]; estimated at the start, followed
        during tuning, and frozen after.
    q_bright
        Probability that a bright datum proposes to go dark, in (0, 1]. This costs nothing: the likelihoods are kept.
    skips
        True: go from proposal to proposal among the dark data by geometric jumps, in time proportional to q N. False:
        one uniform for each dark datum; the same law, in time proportional to N.

    Raises
    ------
    InvalidInputError
        When a probability is out of range.

    Notes
    -----
    With r = B / L a bright datum goes dark with probability min(1, q r / (q_bright (1 - r))), a dark one goes bright
    with probability min(1, q_bright (1 - r) / (q r)): detailed balance with P(z = 1) = 1 - r. Bright and dark data are
    those of one snapshot: a datum that has just gone dark is not asked again.

    References
    ----------
    Maclaurin and Adams (2014), section 3.2. Draves, Exact MCMC with Firefly Monte Carlo: A Review, algorithms 4 and
    5, prints other ratios, which do not leave that law invariant.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.ImplicitZ(q=0.01)
    ImplicitZ(q=0.01, q_bright=1.0, skips=True)
    """

    q: Any = "auto"
    q_bright: float = 1.0
    skips: bool = True

    def __post_init__(self) -> None:
        """Check ranges."""
        probabilities = {"q_bright": self.q_bright, **({} if self.q == "auto" else {"q": self.q})}
        for name, value in probabilities.items():
            if isinstance(value, str) or not 0.0 < value <= 1.0:
                also = ' or "auto"' if name == "q" else ""
                raise InvalidInputError(f"ImplicitZ: {name} must lie in (0, 1]{also}, found {value!r}")

    @property
    def function(self) -> Any:
        """The compiled update."""
        return update_by_skips if self.skips else update_by_scan

    @property
    def tunes(self) -> bool:
        """Whether q follows the bright count during tuning."""
        return self.q == "auto"

    @property
    def picks(self) -> bool:
        """Whether the update marks the data that it picks."""
        return False

    def settings(self, expected_bright: float, n_obs: int) -> np.ndarray:
        """Return what the compiled update reads: q, q_bright and the running mean of the bright count."""
        q = min(MOST_Q, max(expected_bright, 1.0) / n_obs) if self.tunes else float(self.q)
        return np.array([q, self.q_bright, expected_bright])


@dataclasses.dataclass(frozen=True, eq=False)
class ExplicitZ(Component):
    """Draw z_i from its law given theta, for some of the data.

    Parameters
    ----------
    fraction
        ceil(fraction N) data are picked with replacement in every step, in (0, 1]; every dark one among them costs a
        likelihood evaluation. A small fraction slows the mixing of z by that factor.

    Raises
    ------
    InvalidInputError
        When the fraction is out of range.

    References
    ----------
    Maclaurin and Adams (2014), section 3.2 and algorithm 1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.ExplicitZ(0.05)
    ExplicitZ(fraction=0.05)
    """

    fraction: float = 0.1

    def __post_init__(self) -> None:
        """Check the range."""
        if isinstance(self.fraction, str) or not 0.0 < self.fraction <= 1.0 or math.isnan(self.fraction):
            raise InvalidInputError(f"ExplicitZ: fraction must lie in (0, 1], found {self.fraction!r}")

    @property
    def function(self) -> Any:
        """The compiled update."""
        return update_explicit

    @property
    def tunes(self) -> bool:
        """There is nothing to tune."""
        return False

    @property
    def picks(self) -> bool:
        """Whether the update marks the data that it picks."""
        return True

    def settings(self, expected_bright: float, n_obs: int) -> np.ndarray:
        """Return what the compiled update reads, the fraction first."""
        return np.array([self.fraction, 1.0, expected_bright])
