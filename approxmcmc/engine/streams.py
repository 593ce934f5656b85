"""Random streams: one set per chain, one generator per purpose.

The streams of chain k depend on the seed and on k alone, not on the number of chains, threads or chunks. Proposals,
acceptance uniforms, data order, audits and starting points have separate generators, so an audit never shifts the
chain, and two tests that read different data still get the same random numbers for proposals and thresholds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Streams
from approxmcmc.engine.checks import is_integer
from approxmcmc.errors import InvalidInputError

RESTARTED = 0x72657374  # "rest": the key of the streams of chains that start anew, which no other stream has


def seed_sequences(random_seed: Any, chains: int) -> tuple[list[np.random.SeedSequence], Any]:
    """Return one seed sequence for each chain, and an int or a list of ints which, as `random_seed`, repeats the run.

    Parameters
    ----------
    random_seed
        An int (chain k uses spawn key k), a sequence of different ints (chain k uses only entry k), a Generator (one
        integer is drawn from it), a SeedSequence (its first 128 bits), or None (fresh entropy, returned so that it can
        be stored).
    chains
        Number of chains.

    Raises
    ------
    InvalidInputError
        When `random_seed` has another type, is negative, or is a sequence of the wrong length or with a repeated entry,
        which would make two chains equal.
    """
    if random_seed is None:
        random_seed = np.random.SeedSequence().entropy
    elif isinstance(random_seed, np.random.Generator):
        random_seed = int(random_seed.integers(2**63))
    elif isinstance(random_seed, np.random.SeedSequence):
        random_seed = int.from_bytes(random_seed.generate_state(2, np.uint64).tobytes(), "little")
    if is_integer(random_seed):
        if random_seed < 0:
            raise InvalidInputError(f"random_seed must not be negative, found {random_seed}")
        return [np.random.SeedSequence(int(random_seed), spawn_key=(k,)) for k in range(chains)], int(random_seed)
    is_vector = not isinstance(random_seed, str) and getattr(random_seed, "shape", None) != ()
    if isinstance(random_seed, (Sequence, np.ndarray)) and is_vector:
        if len(random_seed) != chains:
            raise InvalidInputError(
                f"random_seed as a sequence needs one entry for each of the {chains} chains, found {len(random_seed)}"
            )
        if not all(is_integer(entry) and entry >= 0 for entry in random_seed) or len(set(random_seed)) < chains:
            raise InvalidInputError(
                f"random_seed as a sequence needs different integers >= 0, one for each chain, found {random_seed!r}"
            )
        return [np.random.SeedSequence(int(entry)) for entry in random_seed], [int(entry) for entry in random_seed]
    raise InvalidInputError(
        "random_seed must be an int, a sequence of ints (one per chain), a numpy Generator or SeedSequence, or None, "
        f"found {type(random_seed).__name__}"
    )


def chain_seeds(random_seed: Any, chains: int, restarts: Sequence[int] = ()) -> list[int]:
    """Return one integer for each chain, for samplers of other libraries; see :func:`seed_sequences`.

    `restarts` counts for each chain how often it was started anew. A chain with count 0 has the seed that it has
    without `restarts`.
    """
    sequences = seed_sequences(random_seed, chains)[0]
    for chain, count in enumerate(restarts):
        if count:
            key = (*sequences[chain].spawn_key, RESTARTED, count)
            sequences[chain] = np.random.SeedSequence(sequences[chain].entropy, spawn_key=key)
    return [int(sequence.generate_state(1)[0]) for sequence in sequences]


def streams(sequence: np.random.SeedSequence) -> Streams:
    """Return the generators of the chain with this seed sequence, one for each purpose."""
    # spawn_key is set explicitly: SeedSequence.spawn counts calls, and a second use of one sequence would differ.
    children = [
        np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, purpose))
        for purpose in range(len(Streams._fields))
    ]
    return Streams(*(np.random.Generator(np.random.PCG64(child)) for child in children))
