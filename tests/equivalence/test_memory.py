"""A chain's memory is complete: every sampler resumes from it bit by bit, and writes to nothing else."""

import copy

import numba
import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import barker_decision
from approxmcmc.engine.terms import order
from approxmcmc.errors import InvalidInputError
from approxmcmc.sampling.memory import leaves, restore
from tests.examples import PROPOSALS, SAMPLERS, TARGETS, TESTS
from tests.planting import plant
from tests.unit.test_every_pairing import Run, assert_same, build, variants

EXACT, WALK = TESTS["ExactTest"][0], PROPOSALS["RandomWalk"][0]
FREE = TESTS["AlwaysAccept"][0]


def star(name):
    """Yield every setting of a sampler: each proposal beside a plain test, and each test beside a walk."""
    for example, parts in variants(name):
        move, test = parts.get("proposal", WALK), parts.get("test", EXACT)
        if move is WALK or test in (EXACT, FREE) or isinstance(move, amc.SurrogateTransition):
            yield example, parts


def remembered(chain):
    """Return a copy of what a chain remembers, and of its streams."""
    return copy.deepcopy(chain.memory), [copy.deepcopy(rng.bit_generator.state) for rng in chain.streams]


def recalled(run, memory, streams):
    """Resume a chain that was just started from this memory."""
    restore(run.chain.memory, memory)
    for rng, state in zip(run.chain.streams, streams, strict=True):
        rng.bit_generator.state = state
    return run


def seal(chain):
    """Make all that a chain does not remember read-only: a step that writes to it raises."""
    if not numba.config.DISABLE_JIT:  # compiled functions take no array for another kind
        return
    inner = getattr(chain, "chain", chain)
    own = {id(array) for array in chain.memory.values()}
    places = {array.__array_interface__["data"][0] for array in chain.memory.values() if isinstance(array, np.ndarray)}
    for _, leaf in leaves(inner.state):
        if isinstance(leaf, np.ndarray) and id(leaf) not in own and leaf.__array_interface__["data"][0] not in places:
            leaf.flags.writeable = False


@pytest.mark.recompiles
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_chain_goes_on_from_what_it_remembers(sampler, seed, monkeypatch):
    """On the first target that a setting fits; from within a draw of two steps."""
    plant(monkeypatch, {})
    monkeypatch.setattr(barker_decision, "REPLICATIONS", 2)  # 64 are slow without the compiler
    monkeypatch.setattr(order, "RESHUFFLE_EVERY", 2)  # data that change are remembered, too
    targets = [make() for make in TARGETS.values()]
    fitted = 0
    for example, parts in star(sampler):
        pairings = ((target, build(example, parts, target)) for target in targets)
        target, built = next(((target, built) for target, built in pairings if built), (None, None))
        if built is None:  # such as a proposal without a density ratio, beside a test that needs one
            continue
        theta = np.asarray(target.initial_point(), dtype=np.float64)
        whole, first, second = (Run(built[1], theta, seed) for _ in range(3))
        whole.advance(10, thin=2)
        seal(first.chain)
        first.advance(3, 2, thin=2)
        left = remembered(first.chain)
        assert_same(whole, first.advance(5, thin=2))  # what was written down is a copy
        second.draws, second.counts, second.values = first.draws[:2], first.counts[:2], first.values[:2]
        second.begun = 1
        assert_same(whole, recalled(second, *left).advance(5, thin=2))
        fitted += 1
    assert fitted


def test_another_set_up_is_refused():
    memory = {"theta": np.zeros(2), "scale": 0.1}
    with pytest.raises(InvalidInputError, match=r"scale was 0\.2 and is 0\.1"):
        restore(memory, {"theta": np.ones(2), "scale": 0.2})
    with pytest.raises(InvalidInputError, match="theta had 3 entries and has 2"):
        restore(memory, {"theta": np.ones(3), "scale": 0.1})
    with pytest.raises(InvalidInputError, match=r"\['more'\] occur in only one of the two"):
        restore(memory, {"theta": np.ones(2), "scale": 0.1, "more": 1})
    assert not memory["theta"].any()  # nothing is restored in part
