"""Identical rows as one term with a weight: the terms of all rows, and what is refused of them."""

import math

import dask.array as da
import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.targets import compressed, equal_rows
from approxmcmc.targets.distinct_rows import DistinctRows

N = 600
rng = np.random.default_rng(3)
X = rng.integers(-1, 2, size=(N, 3)).astype(np.float64)
THETA = np.array([0.5, -1.0, 0.3])
Y = (rng.random(N) < 1.0 / (1.0 + np.exp(-X @ THETA))).astype(np.float64)


def poisson(eta, y):
    return y * eta - math.exp(eta)


TARGETS = {
    "logistic": lambda: amc.targets.LogisticRegression(X, Y),
    "float32": lambda: amc.targets.LogisticRegression(X.astype(np.float32), Y),
    "counts": lambda: amc.targets.GLMTarget(poisson, X, np.round(np.exp(X @ THETA))),
}


def total(target, theta):
    compiled = target.compile()
    return math.fsum(full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs))


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "logistic" else pytest.mark.recompiles) for kind in TARGETS]
)
def test_weighted_terms_add_up_to_those_of_all_rows(kind):
    rows = TARGETS[kind]()
    target = compressed(rows)
    kinds, counts = np.unique(np.column_stack([rows.X, rows.y]), axis=0, return_counts=True)
    assert isinstance(target, DistinctRows) and target.plain is rows
    assert (target.n_obs, target.n_rows) == (len(kinds), N)
    assert sorted(target.weights) == sorted(counts)
    for theta in np.random.default_rng(0).normal(size=(3, 3)):
        assert total(target, theta) == pytest.approx(total(rows, theta), rel=1e-13)
        slopes = (full_gradient(one.compile_gradient(), theta) for one in (target, rows))
        assert next(slopes) == pytest.approx(next(slopes), rel=1e-9)
        here, there = (Posterior(one).at(theta) for one in (target, rows))
        rounding = 1e-12 * np.abs(there.hessian).max()
        assert here.hessian == pytest.approx(there.hessian, rel=1e-9, abs=rounding)


def test_weights_that_are_forgotten_would_be_told():
    rows = TARGETS["logistic"]()
    target = compressed(rows)
    target.data = (target.X, target.y.real + 1j)
    assert total(target, THETA) != pytest.approx(total(rows, THETA), rel=1e-2)


def test_a_zero_has_no_sign():
    signed = np.where(X == 0.0, np.where(rng.random(X.shape) < 0.5, -0.0, 0.0), X)
    assert np.signbit(signed[signed == 0.0]).any()
    assert compressed(amc.targets.LogisticRegression(signed, Y)).n_obs == compressed(TARGETS["logistic"]()).n_obs


def test_rows_of_one_hash_that_differ_stay_apart(monkeypatch):
    """Planted: a hash that looks at the first column alone. Rows are compared before they are taken for one."""
    monkeypatch.setattr(equal_rows, "_hashes", lambda arrays, rows: arrays[0][rows, 0].copy())
    rows = TARGETS["logistic"]()
    assert compressed(rows) is rows


def test_rows_that_hardly_repeat_stay_rows():
    few = amc.targets.LogisticRegression(np.arange(N)[:, None] // 1.5, Y)  # about three of four are alone
    assert compressed(few) is few
    alone = amc.targets.LogisticRegression(rng.normal(size=(N, 2)), Y)
    assert compressed(alone) is alone


def in_memory(X, Y):
    return X, Y


def mapped(X, Y):
    return amc.sources.Arrays(X), amc.sources.Arrays(Y)


def in_partitions(X, Y):
    """Return Dask arrays in partitions of different lengths, of which most hold one kind of row more than once."""
    chunks = (1, 7, 200, len(X) - 208)
    return da.from_array(X, (chunks, 3)), da.from_array(Y, (chunks,))


@pytest.mark.parametrize("given", [in_memory, mapped, in_partitions])
def test_rows_are_merged_wherever_they_are(given, monkeypatch):
    """Kinds of rows are found block by block: here in many blocks, so that most kinds occur in several."""
    monkeypatch.setattr(
        equal_rows, "over_blocks", lambda block, n: [block(lo, min(lo + 50, n)) for lo in range(0, n, 50)]
    )
    target = compressed(amc.targets.LogisticRegression(*given(X, Y)))
    kinds, counts = np.unique(np.column_stack([X, Y]), axis=0, return_counts=True)
    found = np.column_stack([target.X, target.y.real, target.weights])
    assert np.array_equal(found[np.lexsort(found.T[::-1])], np.column_stack([kinds, counts]))


def test_a_row_that_is_no_number_is_refused_before_it_is_merged():
    """NaN equals nothing, so copies of such a row would stay apart; targets refuse it."""
    with pytest.raises(InvalidInputError, match="NaN"):
        amc.targets.LogisticRegression(np.where(np.arange(N)[:, None] == 5, np.nan, X), Y)


@pytest.mark.parametrize("form", ["plain", "influential rows", "control variate"])
def test_bounds_hold_for_weighted_terms(form):
    """Planted: bounds without the weights, which some terms break."""
    rows = compressed(TARGETS["logistic"]())
    always_read = "auto" if form == "influential rows" else None
    target = rows if form == "plain" else amc.ControlVariate(rows, always_read=always_read)
    compiled, bound, ends = target.compile(), target.compile_difference_bound(), target.compile_term_range()
    assert form == "plain" or target.n_rows == N
    fit, beyond = amc.laplace(rows), False
    for move in np.random.default_rng(0).normal(size=(30, 2, 3)):
        here, there = fit.mode + move @ fit.cholesky.T
        changes = [full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs) for theta in (here, there)]
        change, allowed = changes[1] - changes[0], bound.rates * bound.reach(here, there, bound.numbers)
        assert (np.abs(change) <= allowed + 1e-12).all()
        assert np.ptp(change) <= ends.term_range(here, there, ends.numbers) + 1e-12
        beyond |= form == "plain" and bool((np.abs(change) > allowed / rows.weights).any())
    assert beyond or form != "plain"


def test_a_process_in_continuous_time_wants_single_rows():
    target = compressed(TARGETS["logistic"]())
    fit = amc.laplace(target)
    with pytest.raises(IncompatibleError, match="plain"):
        amc.samplers.ZigZag(fit).build(target)


@pytest.mark.thorough
@pytest.mark.recompiles
def test_a_choice_reads_distinct_rows_and_a_trace_keeps_all():
    rows = TARGETS["logistic"]()
    trace = amc.sample(rows, random_seed=1, progressbar=False)
    attrs = trace.posterior.attrs
    assert (attrs["n_obs"], attrs["n_rows"]) == (compressed(rows).n_obs, N)
    assert "distinct" in attrs["compression"] and "distinct" in amc.explain(rows)
    assert trace.observed_data.y.size == N
    assert amc.log_likelihood(trace, compressed(rows)).log_likelihood.terms.sizes["row"] == N
    some = np.flatnonzero(X.any(axis=1))[:100]  # a row of zeros has the same term in all draws, which ArviZ refuses
    assert amc.loo_subsample(trace, rows, observations=some).n_data_points == N
    fit = amc.laplace(rows)
    assert trace.posterior.beta.mean(("chain", "draw")).to_numpy() == pytest.approx(fit.mode, abs=0.05)
