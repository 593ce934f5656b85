"""Kernels that hold a context: each reads its own, and places in memory serve one context after another."""

import gc
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import config, typeof

from approxmcmc.engine.compiler.compilations import compiled_so_far
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.compiler.words import length, words
from approxmcmc.engine.terms.batches import LOG_PRIOR

THETA = np.array([1.0, 2.0])


class Numbers(NamedTuple):
    """Arrays with and without gaps, and single numbers of several types."""

    matrix: np.ndarray
    column: np.ndarray
    scale: float
    count: int
    is_shifted: bool


class Around(NamedTuple):
    """A number, and a kernel that holds another context."""

    factor: float
    inner: Any


def weighed(theta: np.ndarray, known: Numbers) -> float:
    """Return scale (theta' matrix theta + sum of the column) + count, less 1000 if it is shifted."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += known.column[j]
        for k in range(theta.shape[0]):
            total += theta[j] * known.matrix[j, k] * theta[k]
    return known.scale * total + known.count - (1000.0 if known.is_shifted else 0.0)


def around(theta: np.ndarray, known: Around) -> float:
    """Return a multiple of the inner function."""
    return known.factor * known.inner(theta)


def numbers(seed: int) -> Numbers:
    """Return a context; its column runs backwards through every second row of a matrix."""
    rng = np.random.default_rng(seed)
    return Numbers(rng.normal(size=(2, 2)), rng.normal(size=(4, 3))[::-2, 1], rng.normal(), seed - 5, seed % 2 == 1)


def hold(seed: int) -> Any:
    """Return the kernel of one context."""
    return with_context(weighed, LOG_PRIOR.signature, numbers(seed))


def expected(seed: int) -> float:
    """Return its value at `THETA`, by Python."""
    return weighed(THETA, numbers(seed))


@pytest.mark.thorough
def test_contexts_in_use_have_places_of_their_own() -> None:
    held = [hold(seed) for seed in range(5)]
    gc.collect()  # nothing but the kernels refers to the arrays
    assert [one(THETA) for one in held] == pytest.approx([expected(seed) for seed in range(5)], rel=1e-13)


@pytest.mark.thorough
def test_a_context_inside_another_lives_as_long_as_the_outer_one() -> None:
    outer = with_context(around, LOG_PRIOR.signature, Around(2.0, hold(1)))
    gc.collect()
    others = [hold(seed) for seed in range(2, 6)]  # would take the place of the inner context if it were free
    assert outer(THETA) == pytest.approx(2.0 * expected(1), rel=1e-13)
    assert len(others) == 4


@pytest.mark.thorough
@pytest.mark.recompiles
def test_a_free_place_serves_the_next_context_without_compiling() -> None:
    first = hold(1)
    first(THETA)
    compiled = compiled_so_far().kernels
    del first
    gc.collect()
    assert hold(2)(THETA) == pytest.approx(expected(2), rel=1e-13)
    assert hold(3)(THETA) == pytest.approx(expected(3), rel=1e-13)
    assert config.DISABLE_JIT or compiled_so_far().kernels == compiled


@pytest.mark.parametrize("wrong", [np.zeros(3, np.float32), np.zeros((3, 1)), np.zeros(6)[::2]])
def test_an_array_of_another_type_is_not_written_as_words(wrong):
    """A kernel would read its memory as if it had the type that it was compiled for."""
    kind = typeof(np.zeros(3))
    assert len(list(words(kind, np.zeros(3)))) == length(kind)
    with pytest.raises(TypeError, match=r"a kernel reads array\(float64, 1d, C\) here, found"):
        list(words(kind, wrong))
