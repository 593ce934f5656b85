"""The schedules of subsets in plain Python, and bugs to plant in them."""

import itertools

import numpy as np

from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.order import (
    BLOCK_SIZE,
    N_OBS,
    OFFSET,
    VERSION,
    begin,
    read_blocks,
    read_differences,
    settle,
)
from tests.planting import plain


class Schedule:
    """The functions by which a decision reads terms and ends, as plain Python; `wrong` maps functions to stand-ins."""

    def __init__(self, wrong=None):
        self.read_differences, self.settle = (plain(each, wrong) for each in (read_differences, settle))

    def read(self, rng, evidence, stops, count):
        """Read up to each of the stops in turn; return the last outcome."""
        moments.reset(evidence.moments)
        for start, stop in itertools.pairwise((0, *stops)):
            outcome = self.read_differences(rng, evidence, start, stop, count)
        return outcome


def draw_with_replacement(rng, order, start, stop):
    """Draw as `draw_next` does, but with replacement."""
    for place in range(start, stop):
        order[place] = order[place + int(rng.random() * (order.shape[0] - place))]


def skip_the_rest_of_a_block(rng, evidence, start, stop, count):
    """Start the next look at the next block."""
    outcome = plain(read_blocks)(rng, evidence, start, stop, count)
    evidence.order.cursor[OFFSET] = 0
    return outcome


def drop_the_ragged_tail(rng, order):
    """Treat all blocks as equally large: leave out the rows of a smaller last block."""
    plain(begin)(rng, order)
    order.cursor[N_OBS] -= order.cursor[N_OBS] % order.cursor[BLOCK_SIZE]


def keep_terms_past_a_move(order, accepted):
    """Keep the terms at the old theta as if they were those at the new one."""
    version = order.cursor[VERSION]
    plain(settle)(order, accepted)
    order.cursor[VERSION] = version
    order.kept[:, 0] = np.minimum(order.kept[:, 0], version)


def keep_terms_of_a_rejection(order, accepted):
    """Treat every proposal as accepted."""
    plain(settle)(order, True)


def keep_whole_blocks(rng, evidence, start, stop, count):
    """Mark all rows of a block as kept, also those that were not read."""
    outcome = plain(read_blocks)(rng, evidence, start, stop, count)
    kept, cursor = evidence.order.kept, evidence.order.cursor
    sizes = np.minimum(cursor[BLOCK_SIZE], cursor[N_OBS] - cursor[BLOCK_SIZE] * np.arange(len(kept)))
    kept[:, 1] = np.where(kept[:, 0] == cursor[VERSION], sizes, kept[:, 1])
    return outcome


def keep_terms_in_the_wrong_block(order, accepted):
    """Write the terms of a move to other blocks than they were read from."""
    plain(settle)(order._replace(blocks=np.roll(order.blocks, 1)), accepted)


def reshuffle_and_keep_the_terms(rng, order):
    """Shuffle the rows, and keep the terms as if they were in the new order."""
    version = order.cursor[VERSION]
    plain(begin)(rng, order)
    order.cursor[VERSION] = version
