"""Diagnostics of discrete chains: influences, cliques, binned conditionals."""

import itertools

import numpy as np
import pytest
import xarray as xr

from approxmcmc.errors import InvalidInputError
from approxmcmc.targets import BinaryMRF
from studies.tools.discrete import (
    all_states,
    clique_error,
    clique_errors_over_draws,
    clique_noise_floor,
    clique_probabilities,
    empirical_conditional,
    influence_at,
    influence_bound,
    influence_matrix,
    random_cliques,
)

pytestmark = pytest.mark.core


def trace_of(states: np.ndarray, **attrs) -> xr.DataTree:
    """Return a trace of states (chain, draw, site), one unit of cost per draw."""
    ones = np.ones(states.shape[:2])
    posterior = xr.Dataset({"x": (("chain", "draw", "site"), states)})
    stats = xr.Dataset(
        {"datapoints_touched": (("chain", "draw"), ones), "perf_counter_diff": (("chain", "draw"), ones)}
    )
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats.assign_attrs(thin=1, **attrs)})


@pytest.mark.parametrize(("n", "scale", "row_sum"), [(8, 0.1, 1.690), (8, 0.3, 4.228), (6, 0.3, 2.383)])
def test_influence_matrix(n, scale, row_sum):
    field = BinaryMRF.random_triples(n, scale, 0)
    exact, bound = influence_matrix(field.log_joint), influence_bound(field.fields())
    assert exact.sum(axis=1).max() == pytest.approx(row_sum, abs=5e-4)
    assert (bound >= exact - 1e-12).all() and not np.diag(bound).any()
    # One pair by definition, state by state.
    flipped = 0.0
    for x in all_states(n):
        y = x.copy()
        y[3] = 1 - y[3]
        flipped = max(flipped, abs(np.diff(field.conditional(np.array([x, y]), 1)[:, 1])[0]))
    assert exact[1, 3] == pytest.approx(flipped, abs=1e-12)


def test_influence_of_a_pair_is_its_bound():
    table = np.array([[[0.7, 0.0], [0.0, 0.7]]])
    pair = BinaryMRF(2, [[0, 1]], table)
    assert influence_bound(pair.fields())[0, 1] == pytest.approx(np.tanh(1.4 / 4))
    assert influence_at(pair.fields(), [0, 1])[1, 0] == pytest.approx(np.tanh(1.4 / 4))
    assert influence_matrix(pair.log_joint)[0, 1] == pytest.approx(np.tanh(0.7 / 2))  # the log odds go from -.7 to .7


@pytest.mark.needs_jit
def test_influences_at_the_scale_of_the_paper():
    fields = BinaryMRF.random_triples(100, 0.02, 0).fields()
    assert influence_bound(fields).sum(axis=1).max() == pytest.approx(54.9, abs=0.05)
    x = np.random.default_rng(1).integers(0, 2, 100)
    assert influence_at(fields, x).sum(axis=1).mean() == pytest.approx(7.7, abs=0.05)


def test_clique_probabilities_of_all_states_are_exact():
    field = BinaryMRF.random_triples(6, 0.3, 0)
    cliques = random_cliques(6, n_cliques=7, size=3, random_seed=2)
    weights = np.exp(field.log_joint - field.log_normalizer())
    found = clique_probabilities(all_states(6), cliques, weights=weights)
    for clique, row in zip(cliques, found, strict=True):
        np.testing.assert_allclose(row, field.joint(clique).ravel(), atol=1e-12)


def test_random_cliques_are_subsets():
    cliques = random_cliques(10, n_cliques=300, size=5, random_seed=0)
    assert (np.diff(cliques, axis=1) > 0).all() and cliques.shape == (300, 5)
    assert np.array_equal(cliques, random_cliques(10, n_cliques=300, size=5, random_seed=0))
    assert np.bincount(cliques.ravel(), minlength=10) == pytest.approx(np.full(10, 150), abs=5 * np.sqrt(300 / 4))


def test_clique_error_has_no_factor_one_half():
    assert clique_error(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])) == 2.0


def test_noise_floor_is_what_independent_draws_show(rng):
    field = BinaryMRF.random_triples(8, 0.3, 0)
    cliques = random_cliques(8, n_cliques=40, random_seed=1)
    reference = np.array([field.joint(clique).ravel() for clique in cliques])
    probability = np.exp(field.log_joint - field.log_normalizer()).ravel()
    states = all_states(8)[rng.choice(256, size=(100, 500), p=probability / probability.sum())]
    errors = [clique_error(clique_probabilities(chain, cliques), reference) for chain in states]
    # 100 replicates: standard error of their mean below 1 %; the normal approximation is good to 2 % at 500 draws.
    assert np.mean(errors) == pytest.approx(clique_noise_floor(reference, 500), rel=0.05)


def test_errors_over_draws():
    states = np.array(list(itertools.islice(itertools.cycle([[0, 0], [1, 1]]), 8)))[None]
    found = clique_errors_over_draws(
        trace_of(states), np.array([[0, 1]]), np.array([[0.5, 0.0, 0.0, 0.5]]), [1, 2, 3, 99]
    )
    assert found["n_draws"].values.tolist() == [1, 2, 3]
    np.testing.assert_allclose(found["error"], [[1.0, 0.0, 1.0 / 3.0]], atol=1e-12)
    assert found["datapoints_touched"].values.tolist() == [[1.0, 2.0, 3.0]]


def test_empirical_conditional_rebuilds_contexts():
    # A deterministic "sampler": x_0 := 1 - x_1 and then x_1 := x_0, so every context is known.
    states = [[0, 1]]
    for _ in range(6):
        first = 1 - states[-1][1]
        states.append([first, first])
    seen = []

    def conditional(context, site):
        seen.append((site, context.copy()))
        p = 0.9 * (1 - context[:, 1]) if site == 0 else 0.9 * context[:, 0]
        return np.stack([1 - p, p], axis=1)

    found = empirical_conditional(trace_of(np.array([states])), conditional, n_bins=10)
    assert [site for site, _ in seen] == [0, 1]
    assert np.array_equal(seen[1][1][:, 0], np.array(states)[1:, 0])  # site 1 sees the new state of site 0
    assert found["n_decisions"].values[[0, 9]].tolist() == [6, 6] and found["n_decisions"].sum() == 12
    assert found["empirical"].values[9] == 1.0 and found["empirical"].values[0] == 0.0
    assert found["exact"].values[9] == pytest.approx(0.9) and np.isnan(found["exact"].values[4])


def test_empirical_conditional_needs_every_sweep():
    trace = trace_of(np.zeros((1, 5, 2), dtype=int))
    trace["sample_stats"].attrs["thin"] = 2
    with pytest.raises(InvalidInputError, match="thin=1"):
        empirical_conditional(trace, lambda states, site: None)
