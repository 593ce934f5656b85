r"""How fast exact chains forget their start, which determines how many audits can see the bias of the draws.

With :math:`\tau(a, b)` the meeting time of coupled exact chains from a and b, :math:`g(a) - g(b)` is at most
:math:`\mathrm{E}\,\tau(a, b)` times the range of h. So a bias of b ranges shows in at least :math:`b / \tau` of the
audits, those with two chains that separate for long; the others carry no information. An audit starts its chains close
to each other: if regions are separated, all couplings may meet at once, and no interval notices. Chains from distant
draws do notice: on two modes they meet only after one has crossed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from approxmcmc.couplings.meeting import Coupling

PAIRS = 20
SIGHTINGS = 20  # audits wanted for each step that chains need to forget


class Forgetting(NamedTuple):
    """Mean steps until exact chains from distant draws meet; passes used."""

    steps: float
    passes: float


def forgetting_time(
    coupling: Coupling, draws: np.ndarray, n_audits: int, rng: np.random.Generator, chains: np.random.Generator
) -> Forgetting:
    """Couple exact chains from pairs of draws (n, dim) until they meet, or use more steps than `n_audits` allows.

    `rng` chooses pairs, `chains` is the stream of the chains. With k meetings in S steps in total, the mean is S / k,
    the maximum-likelihood estimate for exponential times, whether the last pair was cut off or not; without a meeting
    it is at least S.
    """
    allowed = PAIRS * n_audits // SIGHTINGS
    steps, met, passes = 0, 0, 0.0
    for a, b in far_pairs(draws, rng):
        left = allowed + 1 - steps
        if left <= 0:
            break
        meeting = coupling.meet(chains, draws[a], draws[b], 0, left, record=False)
        steps += meeting.time if meeting.met else left
        met += meeting.met
        passes += meeting.passes
    return Forgetting(steps / max(met, 1), passes)


def far_pairs(draws: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield pairs of draws: the smallest and the largest of a coordinate, and any two, in turn."""
    n, dim = draws.shape
    for k in rng.permutation(max(dim, PAIRS // 2))[: PAIRS // 2] % dim:
        yield int(draws[:, k].argmin()), int(draws[:, k].argmax())
        a, b = rng.integers(n, size=2)
        yield int(a), int(b)
