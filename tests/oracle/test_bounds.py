"""Bounds against enumeration and quadrature: the known-answer cases, and no rigorous bound below the truth, ever."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.acceptance.laws import probability as acceptance_law
from approxmcmc.bounds import finite, statements
from approxmcmc.bounds.coupling import coupling_bound
from approxmcmc.bounds.finite import (
    asymptotic_variance,
    closed_classes,
    contraction,
    row_distances,
    stationary_distribution,
    total_variation,
)
from approxmcmc.couplings.meeting import maximal_coupling
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.samplers.auxiliary_variable.distribution import acceptance_of_exchange, lattice_error
from approxmcmc.samplers.counted_model import CountedModel
from approxmcmc.targets.ising.exact import level_counts

RIGOROUS_BOUNDS = ("b1", "b2", "b3", "b4", "b5")


# --- the canonical case: quadrature, three figures ---


def loglik(theta, data, i):
    (x,) = data
    return -0.5 * (x[i] - theta[0]) ** 2


def logprior(theta):
    return 0.0


@functools.cache
def canonical():
    """Return target, grid and exact matrix: posterior N(0, 1) in z = 100 theta, tau = |z' - z|."""
    from scipy.special import ndtri

    x = ndtri((np.arange(10_000) + 0.5) / 10_000)
    x = (x - x.mean()) / x.std(ddof=1)
    target = amc.FunctionTarget(loglik, logprior, data=x, n_obs=10_000, dim=1)
    grid = np.linspace(-5.0, 5.0, 201) / 100.0
    return target, grid, bounds.transition_matrix(target, walk(amc.ExactTest()), grid)


def walk(test):
    return amc.MetropolisHastings(amc.RandomWalk(0.024), test)


# epsilon: TV, Delta_max, delta, E delta, B3, B4, B2, bias of E z^2, asymptotic variance of z^2
TABLE = {
    0.001: (0.001547, 0.00797, 0.00070, 0.00058, 0.0041, 0.0033, 0.0064, 0.00908, 9.254),
    0.005: (0.008299, 0.03529, 0.00371, 0.00305, 0.0213, 0.0176, 0.0337, 0.05085, 10.667),
    0.01: (0.016954, 0.06523, 0.00753, 0.00618, 0.0433, 0.0356, 0.0683, 0.10637, 12.607),
    0.05: (0.083575, 0.23773, 0.03733, 0.02988, 0.2147, 0.1718, 0.3387, 0.57226, 29.207),
    0.10: (0.155786, 0.36454, 0.07093, 0.05524, 0.4079, 0.3177, 0.6436, 1.1416, 49.215),
    0.20: (0.264751, 0.46497, 0.12253, 0.09287, 0.7047, 0.5341, 1.1118, 2.1556, 85.023),
}


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", TABLE)
def test_the_canonical_table(epsilon):
    target, grid, T = canonical()
    T_hat = bounds.transition_matrix(target, walk(amc.SequentialTTest(epsilon, 500)), grid)
    found = bounds.exact(T, T_hat)
    law, z2 = found["stationary_hat"].values, (100.0 * grid) ** 2
    bias = float((law - found["stationary"].values) @ z2)
    values = [float(found[name]) for name in ("tv", "delta_max", "delta", "e_delta", "b3", "b4", "b2")]
    values += [bias, asymptotic_variance(T_hat.values, law, z2)]
    # Quadrature: 0.5 % or 1e-4; the smallest entries are printed with fewer figures.
    np.testing.assert_allclose(values, TABLE[epsilon], rtol=5e-3, atol=1e-4)
    assert found["label_b2"].item() == ("vacuous" if epsilon == 0.2 else "rigorous")
    assert T_hat.attrs["label"] == "heuristic"


@pytest.mark.thorough
def test_the_canonical_exact_chain():
    target, grid, T = canonical()
    found = bounds.exact(T, T)
    etas = (0.96140, 0.85549, 0.71875, 0.57792, 0.44895, 0.33922, 0.25056, 0.18159, 0.12952, 0.09113)
    np.testing.assert_allclose(found["eta"].values[:10], etas, atol=6e-6)
    assert float(found["sum_eta"]) == pytest.approx(5.75135, abs=1e-5)
    law, z = found["stationary"].values, 100.0 * grid
    assert asymptotic_variance(T.values, law, z**2) == pytest.approx(8.9667, abs=1e-4)
    assert asymptotic_variance(T.values, law, z) / float(law @ z**2) == pytest.approx(4.2004, abs=1e-4)
    barker = bounds.transition_matrix(target, walk(amc.ExactTest("barker")), grid)
    np.testing.assert_allclose(stationary_distribution(barker.values), law, atol=1e-12)
    assert asymptotic_variance(barker.values, law, z**2) == pytest.approx(11.098, abs=1e-3)
    factor = statements.bound_factors(found["eta"].values, np.ones(found.sizes["k"]))["b2"]
    assert factor == pytest.approx(9.0735, abs=1e-4)


@pytest.mark.thorough
def test_the_bound_with_delta_max_is_vacuous_from_5_percent_on():
    target, grid, T = canonical()
    for epsilon, value, label in ((0.01, 0.375, "rigorous"), (0.05, None, "vacuous")):
        found = bounds.exact(T, bounds.transition_matrix(target, walk(amc.SequentialTTest(epsilon, 500)), grid))
        assert found["label_b3_delta_max"].item() == label
        if value:
            assert float(found["b3_delta_max"]) == pytest.approx(value, abs=6e-4)
            assert float(found["looseness_b3_delta_max"]) == pytest.approx(22.0, abs=0.3)


# --- fields and networks: enumeration, all digits ---


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "scale", "one", "two"),
    [(8, 0.3, 0.976161, 0.510798), (8, 0.1, 0.627177, 0.083085), (6, 0.3, 0.898325, 0.384982)],
)
def test_sweeps_of_the_small_fields_contract(n, scale, one, two):
    field = amc.targets.BinaryMRF.random_triples(n, scale, 0)
    T = bounds.transition_matrix(field, amc.Gibbs())
    found = bounds.exact(T, T)
    np.testing.assert_allclose(found["eta"].values[:2], (one, two), atol=5.1e-7)
    law = np.exp(field.log_joint - field.log_normalizer()).ravel()
    np.testing.assert_allclose(found["stationary"].values, law, atol=1e-13)
    site = bounds.transition_matrix(field, amc.Gibbs(), site=2)
    assert contraction(site.values) == pytest.approx(1.0, abs=1e-12)


def test_the_alarm_network():
    T = bounds.transition_matrix(amc.targets.alarm_network(), amc.Gibbs())
    etas = bounds.exact(T, T)["eta"].values
    np.testing.assert_allclose(etas[[0, 1, 4]], (0.855439, 0.635970, 0.209621), atol=5.1e-7)
    assert sorted(abs(np.linalg.eigvals(T.values)))[-2] == pytest.approx(0.687525, abs=5.1e-7)


@pytest.mark.thorough
def test_theorem_2_needs_sweeps():
    field = amc.targets.BinaryMRF.random_triples(6, 0.3, 0)
    sampler = amc.Gibbs(amc.SequentialTTest(0.1, 5))
    found = bounds.exact(bounds.transition_matrix(field, amc.Gibbs()), bounds.transition_matrix(field, sampler))
    assert found.attrs["n_decisions"] == 6
    assert float(found["delta"]) <= 6 * float(found["delta_max"])
    assert float(found["b1_delta_max"]) == pytest.approx(6 * float(found["delta_max"]) / (1 - 0.898325), rel=1e-5)
    one = [bounds.transition_matrix(field, s, site=0) for s in (amc.Gibbs(), sampler)]
    with pytest.raises(amc.errors.InvalidInputError, match="reducible"):
        bounds.exact(*one)
    scan = [bounds.transition_matrix(field, amc.Gibbs(test, scan="random")) for test in (amc.ExactTest(), sampler.test)]
    assert_no_rigorous_bound_is_too_small(bounds.exact(*scan))


def site_update(n_sites, site, delta):
    """Return the update of one of some fair sites that draws a 1 with probability 1/2 + delta."""
    share = np.array([[0.5 - delta, 0.5 + delta]] * 2)
    return functools.reduce(np.kron, [share if site == k else np.eye(2) for k in range(n_sites)])


@pytest.mark.parametrize(("n_sites", "eta"), [(2, 0.5), (3, 1.0)])
def test_theorem_2_holds_as_printed_for_random_scans_and_not_for_sweeps(n_sites, eta):
    """Two fair sites: a sweep misses by delta + delta^2, more than its bound of delta; a random scan's is 2 delta."""
    delta = 0.1
    exact, wrong = ([site_update(n_sites, k, d) for k in range(n_sites)] for d in (0.0, delta))
    uniform = np.full(2**n_sites, 0.5**n_sites)
    law = functools.reduce(np.kron, [np.array([0.5 - delta, 0.5 + delta])] * n_sites)
    sweep, scan = functools.reduce(np.matmul, wrong), sum(wrong) / n_sites
    np.testing.assert_allclose([stationary_distribution(sweep), stationary_distribution(scan)], [law, law], atol=1e-12)
    truth = total_variation(law, uniform)
    assert contraction(functools.reduce(np.matmul, exact)) == pytest.approx(0.0, abs=1e-15)
    assert truth > delta  # the bound as printed, delta / (1 - 0), for a sweep
    assert truth <= n_sites * delta
    assert contraction(sum(exact) / n_sites) == pytest.approx(eta)
    if eta < 1.0:
        assert truth == pytest.approx(delta + delta**2)
        assert truth <= delta / (1.0 - eta)


# --- the Ising fixture: exchange and noisy exchange ---


@functools.cache
def ising(n):
    grid = np.linspace(-0.4, 0.8, n)[:, None]
    proposal = np.exp(-((grid - grid.T) ** 2) / (2 * 0.2**2))
    proposal /= proposal.sum(axis=1).max()
    np.fill_diagonal(proposal, 0.0)
    counts = level_counts(4, 4)
    values = len(counts) - 1 - 2.0 * np.arange(len(counts))
    kept = counts > 0
    return grid, proposal, values[kept, None], np.log(counts[kept])


def kernel_of(n, n_auxiliary):
    grid, proposal, values, log_counts = ising(n)
    model = CountedModel(grid, np.zeros(n), np.array([12.0]), values, log_counts)
    acceptance = acceptance_of_exchange(model, n_auxiliary, proposal > 1e-12)
    matrix = proposal * acceptance
    matrix[np.arange(n), np.arange(n)] = 1.0 - matrix.sum(axis=1)
    return matrix, acceptance


@pytest.mark.thorough
@pytest.mark.slow
def test_the_ising_fixture():
    n, (grid, proposal, _, _) = 241, ising(241)
    (T, exact), (T_1, one), (T_2, two) = (kernel_of(n, count) for count in (math.inf, 1, 2))
    found, noisy = bounds.exact(T, T_1), bounds.exact(T, T_2)
    np.testing.assert_allclose(found["eta"].values[[0, 4, 9, 19]], (0.9973, 0.7781, 0.3572, 0.0386), atol=5.1e-5)
    assert float(found["tv"]) < 1e-12  # exchange is exact, and its bound is vacuous
    assert float(found["b2"]) == pytest.approx(1.94, abs=5e-3)
    assert found["label_b2"].item() == "vacuous"
    assert float(noisy["tv"]) == pytest.approx(0.004948, abs=5e-7)
    assert float(noisy["b2"]) == pytest.approx(1.41, abs=5e-3)
    law, law_2 = noisy["stationary"].values, noisy["stationary_hat"].values
    points = grid[:, 0]
    assert law_2 @ points - law @ points == pytest.approx(0.001137, abs=5e-7)
    deviation = [math.sqrt(p @ points**2 - (p @ points) ** 2) for p in (law, law_2)]
    assert deviation[1] / deviation[0] == pytest.approx(0.99337, abs=5e-6)
    for acceptance, rate in ((exact, 0.7086), (one, 0.5956), (two, 0.6311)):
        assert (law[:, None] * proposal * acceptance).sum() / (law[:, None] * proposal).sum() == pytest.approx(
            rate, abs=5.1e-5
        )
    for one_step, wanted in ((found, 0.1248), (noisy, 0.0904)):
        assert float(one_step["delta"]) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("count", "tv", "delta"), [(5, 0.0066, 0.0561), (20, 0.0047, 0.0256), (100, 0.0017, 0.0091)])
def test_the_ising_fixture_with_many_draws(count, tv, delta):
    """The fixture's own acceptance is Monte Carlo, with a noise of 7e-4 in total variation."""
    found = bounds.exact(kernel_of(61, math.inf)[0], kernel_of(61, count)[0])
    assert float(found["tv"]) == pytest.approx(tv, abs=7e-4)
    assert float(found["delta"]) == pytest.approx(delta, abs=7e-4)
    assert_no_rigorous_bound_is_too_small(found)


def test_the_lattice_of_noisy_exchange_against_enumeration():
    rng = np.random.default_rng(0)
    from approxmcmc.samplers.auxiliary_variable.distribution import _mean_of_capped_sum

    values, law = rng.random((20, 5)) * 0.7, rng.dirichlet(np.ones(5), size=20)
    exact = np.array(
        [
            sum(math.prod(p[list(k)]) * min(1.0, v[list(k)].sum()) for k in itertools.product(range(5), repeat=4))
            for v, p in zip(values, law, strict=True)
        ]
    )
    found = _mean_of_capped_sum(values, law, 4)
    np.testing.assert_allclose(found, exact, atol=2e-6)
    assert (found <= exact + 1e-13).all()  # one-sided: the label says so
    assert (exact - found).max() > 1e-8  # and it is not the law itself
    assert (exact - found <= lattice_error(4)).all()


def test_the_error_of_the_lattice_is_reached_by_no_law_and_nearly_by_the_worst(monkeypatch):
    """Draws that are all alike, at every value: some put their sum at the kink, each in the middle of a cell."""
    from approxmcmc.samplers.auxiliary_variable import distribution as exchange

    monkeypatch.setattr(exchange, "LATTICE", 8)
    for count in (3, 5, 12):
        values = np.linspace(0.0, 1.0, 4001)[:, None]
        lost = np.minimum(count * values[:, 0], 1.0) - exchange._mean_of_capped_sum(values, np.ones((4001, 1)), count)
        assert lost.min() >= -1e-12
        assert lost.max() <= lattice_error(count)
        assert lost.max() > 0.5 * lattice_error(count)  # half the limit would be crossed


def test_the_exchange_sampler_has_the_matrix_of_its_closed_form():
    lattice = np.array([[1, 1, 1, 1], [1, 1, 1, -1], [1, 1, -1, -1], [1, 1, 1, 1]])
    target = amc.targets.Ising(lattice, prior_bounds=(-0.4, 0.8))
    grid = np.linspace(-0.4, 0.8, 31)
    T = bounds.transition_matrix(target, amc.Exchange(amc.RandomWalk(0.2)), grid)
    weights = np.array([theta * target.observed_statistics[0] - target.log_normalizer(theta) for theta in grid])
    law = np.exp(weights - weights.max())
    np.testing.assert_allclose(stationary_distribution(T.values), law / law.sum(), atol=1e-10)


# --- distributions of decisions by enumeration ---


def accepts_at(terms, mu_0, epsilon):
    """Return P(accept) over all 24 orders, looks at 2 and 4, for each threshold, as the textbook decides."""
    from scipy import stats

    total, critical = 0.0, stats.t.isf(epsilon, 1)
    for order in itertools.permutations(range(4)):
        seen = terms[list(order[:2])]
        t = (seen.mean() - mu_0) / (seen.std(ddof=1) / math.sqrt(2) * math.sqrt(0.5))
        total += np.where(np.abs(t) > critical, t > 0, terms.mean() > mu_0)
    return total / 24


def test_the_fixture_of_24_orders():
    terms = np.array([1.0, 2.0, 3.0, 10.0])
    for mu_0, epsilon, wanted in ((2.5, 0.2, 5 / 6), (2.5, 0.3, 5 / 6), (3.9, 0.1, 2 / 3)):
        assert accepts_at(terms, mu_0, epsilon) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("rule", ["metropolis", "barker"])
def test_enumerated_acceptance_equals_integration_over_the_threshold(rule):
    from scipy.special import expit

    terms, epsilon = np.array([0.3, -0.2, 0.9, -1.1]), 0.2
    c, u = -0.4, (np.arange(200_000) + 0.5) / 200_000
    threshold = np.log(u) if rule == "metropolis" else np.log(u) - np.log1p(-u)
    slow = accepts_at(terms, (threshold - c) / 4, epsilon).mean()
    found, method = acceptance_law.acceptance_probability(
        amc.SequentialTTest(epsilon, 2), terms[None], np.array([c]), conditional=rule == "barker"
    )
    assert method == "enumerate"
    assert found[0] == pytest.approx(slow, abs=5e-5)
    exact = math.exp(min(0.0, c + terms.sum())) if rule == "metropolis" else expit(c + terms.sum())
    assert abs(found[0] - exact) > 5e-3  # the test errs, so that the agreement above says something


# --- no bound is too small: random small targets, every pairing ---


def assert_no_rigorous_bound_is_too_small(found):
    tv = float(found["tv"])
    for name in [*RIGOROUS_BOUNDS, *(f"{name}_delta_max" for name in ("b1", "b2", "b3", "b5"))]:
        if name in found and found[f"label_{name}"].item() in ("rigorous", "vacuous"):
            assert float(found[name]) >= tv - 1e-12, name


def is_too_small(found):
    try:
        assert_no_rigorous_bound_is_too_small(found)
    except AssertionError:
        return True
    return False


def stochastic(n, rng, sharpness):
    return rng.dirichlet(np.full(n, sharpness), size=n)


@pytest.mark.thorough
@given(
    n=st.integers(2, 7),
    seed=st.integers(0, 2**32 - 1),
    sharpness=st.sampled_from([0.1, 0.5, 1.0, 5.0]),
    mix=st.floats(1e-6, 1.0),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_no_bound_is_below_the_truth(n, seed, sharpness, mix):
    rng = np.random.default_rng(seed)
    T, other = (stochastic(n, rng, sharpness) for _ in range(2))
    lazy = rng.random()
    T, other = ((1 - lazy) * matrix + lazy * np.eye(n) for matrix in (T, other))
    T_hat = (1 - mix) * T + mix * other
    if len(closed_classes(T)) > 1 or len(closed_classes(T_hat)) > 1:
        return
    found = bounds.exact(T, T_hat)
    assert_no_rigorous_bound_is_too_small(found)
    assert float(found["e_delta"]) <= float(found["delta"]) + 1e-15
    assert float(found["b4"]) <= float(found["b3"]) * (1 + 1e-12) or math.isnan(float(found["b3"]))


TESTS = {
    "sequential": amc.SequentialTTest(0.2, 2),
    "tolerance": amc.SequentialTTest(0.05, 2, tol=0.8),
    "barker": amc.acceptance.MinibatchBarker(batch_size=2, target_variance=0.5),
    "always": amc.acceptance.AlwaysAccept(),
}


@pytest.mark.thorough
@pytest.mark.parametrize("test", TESTS)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.05, 1.5))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_no_bound_of_a_metropolis_pairing_is_below_the_truth(test, seed, scale):
    field = amc.targets.BinaryMRF.random_triples(4, scale, seed)
    exact = amc.ExactTest("barker") if test == "barker" else amc.ExactTest()
    matrices = [
        bounds.transition_matrix(field, amc.MetropolisHastings(amc.proposals.SingleSite(), decide))
        for decide in (exact, TESTS[test])
    ]
    assert matrices[1].attrs["label"] == "rigorous"
    found = bounds.exact(*matrices)
    assert_no_rigorous_bound_is_too_small(found)
    assert float(found["delta"]) <= float(found["delta_max"]) + 1e-12
    law = np.exp(field.log_joint - field.log_normalizer()).ravel()
    np.testing.assert_allclose(found["stationary"].values, law, atol=1e-9)


@pytest.mark.parametrize("scan", [pytest.param("systematic", marks=pytest.mark.thorough), "random"])
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.05, 1.0), epsilon=st.floats(0.01, 0.5))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_no_bound_of_a_gibbs_pairing_is_below_the_truth(scan, seed, scale, epsilon):
    field = amc.targets.BinaryMRF.random_triples(5, scale, seed)
    matrices = [
        bounds.transition_matrix(field, amc.Gibbs(decide, scan=scan))
        for decide in (amc.ExactTest(), amc.SequentialTTest(epsilon, 3))
    ]
    assert_no_rigorous_bound_is_too_small(bounds.exact(*matrices))


# --- planted errors ---


def test_a_norm_mistaken_for_total_variation_is_seen(monkeypatch):
    """Twice too large distances on both sides cancel; the fixtures see them. Half too small deltas break the bound."""
    T = np.array([[0.9, 0.1], [0.2, 0.8]])
    T_hat = np.array([[0.8, 0.2], [0.2, 0.8]])
    right = bounds.exact(T, T_hat)
    assert float(right["tv"]) == pytest.approx(1 / 6, abs=1e-15)
    assert float(right["b1"]) == pytest.approx(0.1 / 0.3, abs=1e-15)
    monkeypatch.setattr(statements, "row_distances", lambda a, b: 0.5 * row_distances(a, b))
    doubled = [stochastic(2, np.random.default_rng(seed), 1.0) for seed in range(40)]
    broken = [bounds.exact(A, B) for A, B in itertools.pairwise(doubled)]
    assert any(is_too_small(found) for found in broken)


def test_constants_of_mitrophanov_given_for_the_wrong_distance_are_seen():
    """For the chain with eta_1 = 0.7, d_v(T^n(x, .), S_0) <= (2/3) 0.7^n; in the norm C is twice that."""
    assert bounds.mitrophanov_factor(2.0, 0.9) == pytest.approx(16.565938, abs=5e-7)
    assert bounds.mitrophanov_factor(1.0, 0.9, distance="tv") == bounds.mitrophanov_factor(2.0, 0.9)
    assert bounds.mitrophanov_factor(1.0, 0.9) == pytest.approx(10.0)  # forgetting the 2 is not a small matter
    T = np.array([[0.9, 0.1], [0.2, 0.8]])
    law = stationary_distribution(T)
    norms = [2 * row_distances(np.linalg.matrix_power(T, n), law).max() for n in range(6)]
    np.testing.assert_allclose(norms, [4 / 3 * 0.7**n for n in range(6)], atol=1e-12)
    given_constants = bounds.exact(T, [[0.88, 0.12], [0.2, 0.8]], constants=(4 / 3, 0.7))
    assert given_constants["label_b5"].item() == "heuristic"
    assert float(given_constants["b5"]) == pytest.approx(0.02 * bounds.mitrophanov_factor(4 / 3, 0.7))


@pytest.mark.thorough
def test_a_contraction_that_looks_at_neighbours_only_is_seen(monkeypatch):
    def neighbours(matrix):
        return 0.5 * float(np.abs(np.diff(matrix, axis=0)).sum(axis=1).max())

    _, _, T = canonical()
    monkeypatch.setattr(finite, "contraction", neighbours)
    assert abs(float(bounds.exact(T, T)["eta"][0]) - 0.96140) > 0.1


# --- couplings, Clopper and Pearson ---


@pytest.mark.parametrize("lag", [1, 3, 10])
def test_the_coupling_bound_of_the_two_state_chain_is_its_total_variation(lag):
    """Start 0, maximal coupling: .333333 (t = 0), .056023 (5), .009416 (10), for every lag; by the joint law."""
    T = np.array([[0.9, 0.1], [0.2, 0.8]])
    joint = np.zeros((2, 2))
    joint[:, 0] = np.linalg.matrix_power(T, lag)[0]  # X after `lag` steps, Y at its start
    unmet = []
    for _ in range(400):
        unmet.append(joint[0, 1] + joint[1, 0])
        joint = sum(joint[i, j] * maximal_coupling(T[i], T[j]) for i in range(2) for j in range(2))
    unmet = np.array(unmet)  # P(tau - lag > s)
    for t, wanted in ((0, 0.333333), (5, 0.056023), (10, 0.009416)):
        # E max(0, ceil((tau - lag - t) / lag)) = sum over j >= 0 of P(tau - lag > t + j lag)
        assert unmet[t::lag].sum() == pytest.approx(wanted, abs=5.1e-7)
        law = np.linalg.matrix_power(T, t)[0]
        assert unmet[t::lag].sum() == pytest.approx(total_variation(law, stationary_distribution(T)), abs=1e-12)


def test_meeting_times_become_a_bound():
    found = coupling_bound([5, 7, 12, 30], 5, times=[0, 1, 10])
    np.testing.assert_allclose(found["tv_bound"], [(0 + 1 + 2 + 5) / 4, (0 + 1 + 2 + 5) / 4, (0 + 0 + 0 + 3) / 4])


def test_couplings_that_have_all_met_leave_room_for_those_that_might_not():
    """0 of n still apart: the upper limit is that of a share, 1 - .025^(1/n), and not the 0 of a bootstrap of zeros."""
    found = coupling_bound([5, 7, 12, 30], 5, times=[30])
    assert float(found["tv_bound"][0]) == 0.0
    assert float(found["tv_upper"][0]) == pytest.approx(1.0 - 0.025 ** (1 / 4))


def test_the_interval_of_clopper_and_pearson():
    lower, upper = clopper_pearson(1230, 2000, 1 - 0.0005)
    assert (round(float(lower), 6), round(float(upper), 6)) == (0.576451, 0.652574)
    from approxmcmc.bounds.delta import quantile_confidence

    assert quantile_confidence(299, 0.01) == pytest.approx(0.9505, abs=5e-5)
