"""Rows as differences from a common row have the predictors of the full rows, in any order of reading."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.sparse_rows import sparse_predictor, sparse_rows
from approxmcmc.expansion.linear import LinearExpansion

N = 240


def one_hot(n=N, levels=6, factors=2, seed=0):
    """Return standardised columns of two factors and an intercept: no entry is 0, two of 13 are not the common ones."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(levels, size=(n, factors))
    X = np.concatenate([drawn[:, [k]] == np.arange(levels) for k in range(factors)], axis=1).astype(float)
    return np.column_stack([np.ones(n), (X - X.mean(axis=0)) / X.std(axis=0)])


def predictors(theta, packed, order):
    out = np.empty(N)
    sparse_predictor(theta, *packed, order, 0, N, out)
    return out


def test_predictors_are_those_of_the_full_rows():
    X, theta = one_hot(), np.random.default_rng(1).normal(size=13)
    packed = sparse_rows(X)
    assert [array.shape for array in packed] == [(1, 13), (N, 2), (N, 2)]
    found = predictors(theta, packed, np.empty(0, dtype=np.int64))
    np.testing.assert_allclose(found, X @ theta, rtol=0.0, atol=1e-12)
    order = np.random.default_rng(2).permutation(N)
    np.testing.assert_array_equal(predictors(theta, packed, order), found[order])


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_one_row_that_differs_more_makes_all_rows_longer_and_none_wrong(rows):
    X = one_hot()
    X[:rows, 1:4] += 0.5
    assert sparse_rows(X) is None  # 5 of 13
    packed = sparse_rows(np.column_stack([X, np.zeros((N, 20))]))
    assert packed[1].shape[1] > 2
    theta = np.random.default_rng(1).normal(size=33)
    found = predictors(theta, packed, np.empty(0, dtype=np.int64))
    np.testing.assert_allclose(found, X @ theta[:13], rtol=0.0, atol=1e-12)


def test_dense_rows_stay_as_they_are():
    assert sparse_rows(np.random.default_rng(0).normal(size=(50, 8))) is None
    assert sparse_rows(np.ones((50, 2))) is None  # nothing to win


def test_light_terms_of_influential_rows_are_the_same_packed_or_not(monkeypatch):
    X = one_hot()
    target = amc.targets.LogisticRegression(X, np.random.default_rng(3).random(N) < 0.4)
    packed = amc.ControlVariate(target, always_read=[0, 7], at="mode")
    here = packed.compile()
    monkeypatch.setattr(LinearExpansion, "packed", lambda self, data: data)
    full = amc.ControlVariate(target, always_read=[0, 7], at="mode")
    there = full.compile()
    assert (len(here.data), len(there.data)) == (5, 3)
    for theta in packed.pilot.draws[:4]:
        ours, theirs = (full_terms(c.log_terms, theta, c.data, c.n_obs) for c in (here, there))
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-12)
        assert np.ptp(theirs) > 1e-6
