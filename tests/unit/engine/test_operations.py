"""Scalar operations of functions and graphs, counted without running them."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.compiler.operations import TRANSCENDENTAL, operations
from approxmcmc.engine.numerics import softplus


def plain(eta, y):
    return -0.5 * (y - eta) ** 2


def with_exponential(eta, y):
    return y * eta - math.exp(eta)


def calls_another(eta, y):
    return plain(eta, y) + np.log(y)


def with_loop(theta, data, i):
    total = 0.0
    for j in range(theta.shape[0]):
        total += data[0][i, j] * theta[j]
    return total


def with_product(theta, data, i):
    return data[0][i] @ theta


def calls_itself(x):
    return x if x < 1.0 else calls_itself(x - 1.0)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, 3.0),
        (with_exponential, 2.0 + TRANSCENDENTAL),
        (calls_another, 1.0 + 3.0 + TRANSCENDENTAL),
        (calls_itself, 2.0),
        (math.exp, TRANSCENDENTAL),
    ],
)
def test_arithmetic_is_counted_through_calls(function, expected):
    assert operations(function) == expected


OF_ARRAYS = {
    "function": (lambda x: np.sum(x * x), 101.0),
    "method": (lambda x: x.sum(), 100.0),
    "product": (lambda x, A: A.dot(x), 100.0),
    "norm": (lambda x: np.linalg.norm(x - 1.0), 101.0),
    "after an exponential": (lambda x: np.exp(x).sum(), TRANSCENDENTAL + 100.0),
    "generator": (lambda x: sum(v * v for v in x), 200.0),
    "list": (lambda x: [v * v for v in x], 100.0),
    "two numbers": (lambda x: max(x[0], x[1]), 3.0),
    "attribute": (lambda x: x.shape[0], 1.0),
}


@pytest.mark.parametrize("way", OF_ARRAYS)
def test_reductions_of_arrays_take_one_operation_for_each_entry(way):
    function, expected = OF_ARRAYS[way]
    assert operations(function, 100.0) == expected


def test_a_product_in_place_is_a_product():
    def multiplied(A, x):
        A @= x
        return A

    assert operations(multiplied, 100.0) == 100.0


def test_closures_are_followed():
    scale = np.float64(2.0)

    def outer(eta, y):
        return plain(eta, y) / scale

    assert operations(outer) == 4.0 and operations(softplus) == TRANSCENDENTAL


@pytest.mark.parametrize("function", [with_loop, with_product])
def test_loops_and_whole_arrays_are_as_long_as_the_caller_says(function):
    assert operations(function, 100.0) - operations(function, 50.0) >= 50.0


def test_the_work_of_a_term_follows_from_the_model_alone():
    X, y = np.ones((50, 7)), np.zeros(50)
    target = amc.targets.LogisticRegression(X, y)
    work = target.term_work
    assert work == amc.targets.LogisticRegression(2.0 * X, y).term_work and work.code == "library"
    assert work.operations == 7.0 + operations(target.likelihood.loglik) and work.bytes == 8.0 * 8
    user = amc.targets.GLMTarget(with_exponential, X, y)
    assert user.term_work.code == "python" and user.term_work.gradient > user.term_work.operations
