"""No chain leaks arrays: functions compiled without numba's run time count no references, and must make no array."""

import gc

import numpy as np
import pytest

from approxmcmc.engine.streams import seed_sequences, streams
from tests.examples import PROPOSALS, SAMPLERS, TARGETS, TESTS

ELSEWHERE = ("AdaptiveDirection", "SingleSite", "SurrogateTransition")  # do not move on a `FunctionTarget`
MOVES = [move for name in PROPOSALS for move in PROPOSALS[name] if name not in ELSEWHERE]
EXACT, WALK = TESTS["ExactTest"][0], PROPOSALS["RandomWalk"][0]
FREE = TESTS["AlwaysAccept"][0]
WITHOUT_RATIO = ("StochasticGradientFisherScoring", "StochasticGradientNoseHoover", "StochasticGradientZigZag")
PAIRINGS = [(move, FREE if type(move).__name__ in WITHOUT_RATIO else EXACT) for move in MOVES]
PAIRINGS += [(WALK, test) for name in TESTS for test in TESTS[name] if test is not EXACT]
PAIRINGS += [(move, EXACT) for move in PROPOSALS["SurrogateTransition"]]


@pytest.mark.needs_jit
@pytest.mark.recompiles
@pytest.mark.parametrize(("move", "test"), PAIRINGS, ids=repr)
def test_every_array_that_a_chain_makes_is_freed(move, test):
    from numba.core.runtime import _nrt_python, rtsys

    from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES

    (example,) = SAMPLERS["MetropolisHastings"]
    target = TARGETS[
        "ControlVariate, influential rows" if move in PROPOSALS["SurrogateTransition"] else "FunctionTarget"
    ]()
    program = type(example)(move, test).build(target, audit_every=2)
    chain = program.start(np.zeros(2), streams(seed_sequences(1, 1)[0][0]), 10)
    draws = np.empty((50, 2))
    counts, values = np.empty((50, len(COUNT_NAMES)), np.int64), np.empty((50, len(VALUE_NAMES)))
    gc.collect()
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    assert chain.advance(100, 2, draws, counts, values) == 100
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free
