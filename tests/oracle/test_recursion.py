"""The recursion against published tables, against simulation of the real test, and inside a whole Markov chain."""

import math
from itertools import permutations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings, strategies as st

from approxmcmc.acceptance.laws.bridge import schedule, stopped_early
from approxmcmc.acceptance.laws.early_stops import epsilon_for_type_one_error, tolerance_stop_error, type_one_error
from approxmcmc.acceptance.laws.looks import critical_values, look_sizes
from approxmcmc.acceptance.laws.recursion import (
    acceptance_probability_error,
    sequential_test_error,
)
from approxmcmc.errors import InvalidInputError

LOOKS = {"batch_size": 500, "n_obs": 10_000}

# Error and fraction of the data at mu_std -> 0, .25, .5, 1, 2, 3, 5; N = 10000, batches of 500, normal thresholds.
ONE_TEST = {
    0.001: [
        (0.01104, 0.988),
        (0.00486, 0.985),
        (0.0028, 0.967),
        (0.0012, 0.874),
        (0.00032, 0.663),
        (1e-4, 0.493),
        (1e-5, 0.289),
    ],
    0.01: [
        (0.08379, 0.907),
        (0.04415, 0.894),
        (0.02818, 0.850),
        (0.01405, 0.723),
        (0.00467, 0.500),
        (0.00178, 0.353),
        (0.00029, 0.199),
    ],
    0.05: [
        (0.28199, 0.652),
        (0.18176, 0.635),
        (0.13010, 0.591),
        (0.07575, 0.487),
        (0.03106, 0.326),
        (0.01397, 0.229),
        (0.00299, 0.133),
    ],
    0.10: [
        (0.41081, 0.436),
        (0.30204, 0.425),
        (0.23384, 0.398),
        (0.15081, 0.335),
        (0.07045, 0.233),
        (0.03487, 0.170),
        (0.00874, 0.105),
    ],
    0.20: [
        (0.49277, 0.193),
        (0.42429, 0.191),
        (0.36611, 0.185),
        (0.27412, 0.169),
        (0.15509, 0.135),
        (0.08777, 0.110),
        (0.02711, 0.079),
    ],
}

# (epsilon, tau): Delta at Lambda = -2, -1, 0, 1 and the fraction of the data at Lambda = 0; Student thresholds.
ONE_PAIR = {
    (0.01, 1.0): (0.00791, 0.00856, -0.02685, -0.00655, 0.736),
    (0.01, 2.0): (0.01669, 0.01319, -0.03889, -0.01651, 0.833),
    (0.05, 1.0): (0.04345, 0.03939, -0.11580, -0.03979, 0.508),
    (0.05, 2.0): (0.07991, 0.05400, -0.15856, -0.08463, 0.585),
    (0.10, 2.0): (0.14743, 0.08904, -0.26422, -0.16310, 0.394),
    (0.20, 2.0): (0.24127, 0.12283, -0.38038, -0.28403, 0.183),
}


@pytest.mark.parametrize("epsilon", ONE_TEST)
def test_error_and_data_of_one_test(epsilon):
    test = sequential_test_error([0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0], epsilon=epsilon, thresholds="normal", **LOOKS)
    error, fraction = np.transpose(ONE_TEST[epsilon])
    np.testing.assert_allclose(test["error"], error, atol=1e-5)  # five digits are printed
    np.testing.assert_allclose(test["data_fraction"], fraction, atol=6e-4)  # three are


@pytest.mark.parametrize(("epsilon", "tau"), ONE_PAIR)
def test_error_of_the_acceptance_probability(epsilon, tau):
    test = acceptance_probability_error([-2.0, -1.0, 0.0, 1.0], tau, epsilon=epsilon, **LOOKS)
    *delta, fraction = ONE_PAIR[epsilon, tau]
    np.testing.assert_allclose(test["error"], delta, atol=1e-4, rtol=5e-3)  # the table's stated accuracy
    assert float(test["data_fraction"][2]) == pytest.approx(fraction, abs=6e-4)


def test_data_saved_by_the_constant_boundary():
    # G_j = 2.2138 at every look, tau = 2, Lambda ~ N(-1, 2^2) on [-6, 3]: mean |Delta| .02, largest .0513, usage .7295.
    log_ratio = np.linspace(-6.0, 3.0, 46)
    weight = np.exp(-0.5 * ((log_ratio + 1.0) / 2.0) ** 2)
    weight /= weight.sum()
    epsilon = 0.5 * math.erfc(2.2138 / math.sqrt(2.0))
    test = acceptance_probability_error(log_ratio, 2.0, epsilon=epsilon, thresholds="normal", **LOOKS)
    assert float(weight @ test["data_fraction"].values) == pytest.approx(0.7295, abs=2e-4)
    assert float(abs(test["error"]).max()) == pytest.approx(0.0513, abs=2e-4)
    assert float(weight @ abs(test["error"].values)) == pytest.approx(0.02, abs=1e-4)


@pytest.mark.parametrize(
    ("shape", "limit", "usage", "mean", "largest"),
    [(0.25, 1.5988, 0.7038, 0.019867, 0.07086), (0.0, 1.3391, 0.7116, 0.019822, 0.08076)],
)
def test_data_saved_by_boundaries_that_are_strict_early(shape, limit, usage, mean, largest):
    # The same pairs as above, with G_j = G_0 pi_j^(shape - 1/2). Errors (published as .02 and .0712, .0812, good to a
    # per cent) by linear interpolation in 401 and 1001 points of an independent recursion.
    log_ratio = np.linspace(-6.0, 3.0, 46)
    weight = np.exp(-0.5 * ((log_ratio + 1.0) / 2.0) ** 2)
    weight /= weight.sum()
    epsilon = 0.5 * math.erfc(limit / math.sqrt(2.0))
    test = acceptance_probability_error(
        log_ratio, 2.0, epsilon=epsilon, thresholds="normal", boundary_shape=shape, **LOOKS
    )
    assert float(weight @ test["data_fraction"].values) == pytest.approx(usage, abs=2e-4)
    assert float(abs(test["error"]).max()) == pytest.approx(largest, abs=2e-5)
    assert float(weight @ abs(test["error"].values)) == pytest.approx(mean, abs=1e-5)


def test_errors_of_stops_by_tolerance():
    """A decision by sign of a normal statistic that is known to lie in [-G, G], at the first look and at the fourth."""
    test = {"epsilon": 0.05, "thresholds": "normal", **LOOKS}
    limit, slope = 1.6448536, math.sqrt(0.05 / 0.95)
    tail = [0.5 * math.erfc(x / math.sqrt(2.0)) for x in (slope, slope + limit, slope - limit)]
    expected = (tail[0] - tail[1]) / (tail[2] - tail[1])
    first = tolerance_stop_error([0.0, 1.0, 60.0], 0, **test)
    np.testing.assert_allclose(first, [0.5, expected, 0.0], atol=1e-6)
    rng = np.random.default_rng(1)
    times = np.array([0.05, 0.10, 0.15, 0.20])
    times = times / (1.0 - times)  # z_j = B(t_j) / sqrt(t_j) + mu_std sqrt(t_j) for a Brownian motion B
    steps = rng.standard_normal((400_000, 4)) * np.sqrt(np.diff(times, prepend=0.0))
    z = steps.cumsum(axis=1) / np.sqrt(times) + np.sqrt(times)
    running = (np.abs(z) <= limit).all(axis=1)
    wrong = (z[running, 3] < 0.0).mean()
    standard_error = math.sqrt(wrong * (1.0 - wrong) / running.sum())
    assert float(tolerance_stop_error(1.0, 3, **test)) == pytest.approx(wrong, abs=5.0 * standard_error)
    assert standard_error < 1e-3


def _decide(
    terms: np.ndarray, threshold: float, looks: np.ndarray, critical: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Run the real t-test on each row of terms, in its order; return decisions and the numbers of terms read."""
    sizes = looks[:-1]
    totals, squares = np.cumsum(terms, axis=1)[:, looks - 1], np.cumsum(terms**2, axis=1)[:, sizes - 1]
    means = totals / looks
    variance = (squares - sizes * means[:, :-1] ** 2) / (sizes - 1)
    statistic = (means[:, :-1] - threshold) / np.sqrt(variance / sizes * (1.0 - sizes / looks[-1]))
    stops = np.column_stack([np.abs(statistic) > critical, np.ones(len(terms), dtype=bool)])
    first = stops.argmax(axis=1)
    return means[np.arange(len(terms)), first] > threshold, looks[first]


@pytest.mark.parametrize(
    ("threshold", "epsilon", "accepted", "read"),
    [(2.5, 0.2, 5 / 6, 10 / 3), (2.5, 0.3, 5 / 6, 8 / 3), (3.9, 0.1, 2 / 3, 10 / 3)],
)
def test_the_simulated_test_is_the_real_one(threshold, epsilon, accepted, read):
    # All 24 orders of four terms, counted by hand elsewhere: the simulation below rests on this.
    orders = np.array(list(permutations([1.0, 2.0, 3.0, 10.0])))
    looks = look_sizes(4, 2)
    above, terms = _decide(orders, threshold, looks, critical_values(looks, epsilon))
    assert above.mean() == pytest.approx(accepted)
    assert terms.mean() == pytest.approx(read)


@pytest.mark.thorough
@pytest.mark.parametrize(("mu_std", "epsilon", "growth"), [(0.5, 0.05, 1.0), (-1.0, 0.05, 1.0), (2.0, 0.01, 2.0)])
def test_simulated_tests_agree_with_the_recursion(mu_std, epsilon, growth, rng):
    # 10000 orders of 2000 normal draws in batches of 100. Error and use must agree within 5 standard errors plus .004,
    # the gap that estimating the standard deviation leaves at this batch size. False-fail rate under 4e-6 for the six
    # figures; a forgotten correction factor moves the error at mu_std = .5 from .129 to .081, 17 standard errors.
    n_obs, batch_size, repeats = 2000, 100, 10_000
    terms = rng.standard_normal(n_obs)
    terms = (terms - terms.mean()) / terms.std()
    looks = look_sizes(n_obs, batch_size, growth)
    critical = critical_values(looks, epsilon)
    threshold = -mu_std / math.sqrt(n_obs - 1)
    results = [
        _decide(rng.permuted(np.tile(terms, (500, 1)), axis=1), threshold, looks, critical)
        for _ in range(repeats // 500)
    ]
    above, read = (np.concatenate(part) for part in zip(*results, strict=True))
    test = sequential_test_error(mu_std, epsilon=epsilon, batch_size=batch_size, n_obs=n_obs, growth=growth)
    wrong, used = above != (mu_std > 0), read / n_obs
    for simulated, predicted in ((wrong, test["error"]), (used, test["data_fraction"])):
        standard_error = simulated.std() / math.sqrt(repeats)
        assert simulated.mean() == pytest.approx(float(predicted), abs=5 * standard_error + 0.004)


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0.001, 0.05, 0.4])
@pytest.mark.parametrize(
    ("batch_size", "n_obs", "growth"), [(500, 12_214, 1.0), (500, 10_001, 1.0), (20, 5000, 1.5), (2, 300, 1.0)]
)
def test_twice_the_nodes_change_nothing(epsilon, batch_size, n_obs, growth):
    mu_std = np.append(0.0, np.geomspace(1e-3, 300.0, 150))
    fractions, limits = schedule(epsilon, batch_size, n_obs, growth, "student")
    once = np.array(stopped_early(mu_std, fractions, limits))
    twice = np.array(stopped_early(mu_std, fractions, limits, refine=2))
    np.testing.assert_allclose(once, twice, atol=1e-9)
    test = sequential_test_error(mu_std, epsilon=epsilon, batch_size=batch_size, n_obs=n_obs, growth=growth)
    np.testing.assert_allclose([test["error"], test["data_fraction"]], twice, atol=1e-6)  # interpolation included


@pytest.mark.parametrize("rule", ["metropolis", "barker"])
@pytest.mark.parametrize(("log_ratio", "tau"), [(-3.0, 0.5), (-0.5, 1.0), (0.0, 0.05), (2.0, 3.0), (-8.0, 20.0)])
def test_the_integral_over_the_threshold_agrees_with_a_fine_sum(rule, log_ratio, tau):
    # Midpoints in u; the kink and the infinite tail of the threshold limit their accuracy to about 1 / 200000.
    u = (np.arange(200_000) + 0.5) / 200_000
    threshold = np.log(u) if rule == "metropolis" else np.log(u / (1.0 - u))
    exact = min(1.0, math.exp(log_ratio)) if rule == "metropolis" else 1.0 / (1.0 + math.exp(-log_ratio))
    mu_std = (log_ratio - threshold) / tau
    test = acceptance_probability_error(log_ratio, tau, epsilon=0.05, rule=rule, **LOOKS)
    given = sequential_test_error(mu_std, epsilon=0.05, **LOOKS)
    above = np.where(mu_std > 0.0, 1.0 - given["error"], given["error"])  # the probability to decide "above"
    assert float(test["error"]) == pytest.approx(above.mean() - exact, abs=1e-5)
    assert float(test["data_fraction"]) == pytest.approx(float(given["data_fraction"].mean()), abs=1e-5)


def test_the_barker_rule_errs_antisymmetrically():
    log_ratio = np.linspace(-6.0, 6.0, 25)
    error = acceptance_probability_error(log_ratio, 1.5, epsilon=0.1, rule="barker", **LOOKS)["error"].values
    np.testing.assert_allclose(error, -error[::-1], atol=1e-9)
    assert error[-8] < -0.01  # at Lambda > 0 it accepts too rarely


@pytest.mark.thorough
@settings(deadline=None, max_examples=30)
@given(
    epsilon=st.floats(1e-4, 0.49),
    batch_size=st.integers(2, 200),
    n_obs=st.integers(2, 800),
    growth=st.floats(1.0, 3.0),
    mu_std=st.lists(st.floats(0.0, 50.0), min_size=2, max_size=2),
)
def test_error_and_data_fall_with_the_distance_and_ignore_its_sign(epsilon, batch_size, n_obs, growth, mu_std):
    test = {"epsilon": epsilon, "batch_size": batch_size, "n_obs": n_obs, "growth": growth}
    near, far = sorted(mu_std)
    result = sequential_test_error([near, far, -near, -far], **test)
    error, fraction = result["error"].values, result["data_fraction"].values
    assert error[1] <= error[0] + 1e-7
    assert fraction[1] <= fraction[0] + 1e-7
    assert np.array_equal(error[:2], error[2:])
    assert np.array_equal(fraction[:2], fraction[2:])
    assert error[1] >= 0.0
    assert error[0] <= 0.5
    assert min(batch_size, n_obs) / n_obs - 1e-12 <= fraction[1] <= 1.0


def test_a_wrong_sign_at_one_look_has_a_closed_form():
    # Two looks: the error is the normal tail below -G at the first one.
    test = sequential_test_error([0.0, 1.0], epsilon=0.1, batch_size=50, n_obs=100, thresholds="normal")
    limit = 1.2815515655446004
    tail = [0.5 * math.erfc((limit + mu_std) / math.sqrt(2.0)) for mu_std in (0.0, 1.0)]
    np.testing.assert_allclose(test["error"], tail, atol=1e-7)
    stop = tail[1] + 0.5 * math.erfc((limit - 1.0) / math.sqrt(2.0))
    assert float(test["data_fraction"][1]) == pytest.approx(1.0 - 0.5 * stop, abs=1e-7)


@pytest.mark.parametrize("exact", [{"epsilon": 0.0, **LOOKS}, {"epsilon": 0.1, "batch_size": 900, "n_obs": 900}])
def test_an_exact_test_reads_everything_and_never_errs(exact):
    one = sequential_test_error([-1.0, 0.0, 0.3], **exact)
    pair = acceptance_probability_error([-1.0, 0.0, 2.0], [0.0, 1.0, 5.0], **exact)
    for test in (one, pair):
        np.testing.assert_allclose(test["error"], 0.0, atol=0)
        np.testing.assert_allclose(test["data_fraction"], 1.0, rtol=1e-9)
    assert type_one_error(**exact) == 0.0


def test_epsilon_of_one_half_stops_at_the_first_look():
    test = sequential_test_error([0.0, 1.0], epsilon=0.5, **LOOKS)
    np.testing.assert_allclose(test["data_fraction"], 0.05, atol=1e-12)
    slope = math.sqrt(0.05 / 0.95)
    np.testing.assert_allclose(test["error"], [0.5, 0.5 * math.erfc(slope / math.sqrt(2.0))], atol=1e-6)


def test_equal_terms_are_decided_rightly_at_the_first_look():
    test = acceptance_probability_error([-3.0, 0.0, 2.0], 0.0, epsilon=0.05, **LOOKS)
    np.testing.assert_allclose(test["error"], 0.0, atol=1e-12)
    np.testing.assert_allclose(test["data_fraction"], 0.05, rtol=1e-9)
    assert float(sequential_test_error(-np.inf, epsilon=0.05, **LOOKS)["data_fraction"]) == pytest.approx(0.05)


def test_type_one_error_is_twice_the_error_at_a_tie():
    # The first column of the table above, doubled: an early stop may claim either sign.
    assert type_one_error(epsilon=0.05, thresholds="normal", **LOOKS) == pytest.approx(2 * 0.28199, abs=2e-5)
    one_look = type_one_error(epsilon=0.05, batch_size=500, n_obs=1000, thresholds="normal")
    assert one_look == pytest.approx(0.1, abs=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("thresholds", ["student", "normal"])
@pytest.mark.parametrize("wanted", [1e-8, 0.05, 0.3, 0.99])
@pytest.mark.parametrize(
    ("batch_size", "n_obs", "growth"), [(500, 10_000, 1.0), (100, 12_214, 1.5), (50, 100, 1.0), (2, 9, 1.0)]
)
def test_epsilon_is_found_from_the_type_one_error(wanted, thresholds, batch_size, n_obs, growth):
    looks = {"batch_size": batch_size, "n_obs": n_obs, "growth": growth, "thresholds": thresholds}
    epsilon = epsilon_for_type_one_error(wanted, **looks)
    assert type_one_error(epsilon=epsilon, **looks) == pytest.approx(wanted, rel=1e-6)


def test_looks_are_equal_steps_unless_they_are_said_to_grow():
    steps = {"growth": 1.0, "thresholds": "student", "boundary_shape": 0.5}
    assert epsilon_for_type_one_error(0.05, **LOOKS) == epsilon_for_type_one_error(0.05, **LOOKS, **steps)
    assert type_one_error(epsilon=0.05, **LOOKS) == type_one_error(epsilon=0.05, **LOOKS, **steps)


def test_pocock_constant_of_five_equal_groups():
    # Pocock (1977), table 1: five groups at level .05 two-sided need |z| > 2.413. Sampling without replacement has the
    # same law in the time pi / (1 - pi); five early looks at equal steps of it make the classical design.
    times = np.arange(1, 6)
    fractions = np.append(times / (1 + times), 1.0)
    error, _ = stopped_early(np.zeros(1), fractions, np.full(5, 2.413))
    assert 2 * error[0] == pytest.approx(0.05, abs=1e-4)  # the constant is printed to three decimals


def test_the_ends_of_the_type_one_error():
    assert epsilon_for_type_one_error(0.0, **LOOKS) == 0.0
    assert epsilon_for_type_one_error(1.0, **LOOKS) == 0.5
    assert epsilon_for_type_one_error(0.0, batch_size=20, n_obs=10) == 0.0
    for wanted in (0.05, 1.0):
        with pytest.raises(InvalidInputError, match="only look"):
            epsilon_for_type_one_error(wanted, batch_size=20, n_obs=10)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        epsilon_for_type_one_error(1.2, **LOOKS)


def test_results_keep_the_shape_and_labels_of_what_was_asked():
    one = sequential_test_error(1.0, epsilon=0.05, **LOOKS)
    assert one["error"].shape == ()
    many = sequential_test_error([0.5, 1.0], epsilon=0.05, **LOOKS)
    assert many["error"].dims == ("mu_std",)
    assert float(many["error"].sel(mu_std=1.0)) == float(one["error"])
    assert many.attrs["batch_size"] == 500
    log_ratio = xr.DataArray([-1.0, 0.0, 1.0], dims="log_ratio")
    tau = xr.DataArray([0.5, 2.0], dims="scale", coords={"scale": ["small", "large"]})
    labelled = acceptance_probability_error(log_ratio, tau, epsilon=0.05, **LOOKS)
    assert dict(labelled.sizes) == {"log_ratio": 3, "scale": 2}
    plain = acceptance_probability_error([[-1.0], [0.0], [1.0]], [0.5, 2.0], epsilon=0.05, **LOOKS)
    assert np.array_equal(labelled["error"].transpose("log_ratio", "scale"), plain["error"])
    single = acceptance_probability_error(0.0, 2.0, epsilon=0.05, **LOOKS)["error"]
    assert float(labelled["error"].sel(log_ratio=0.0, scale="large")) == pytest.approx(float(single), abs=1e-12)


@pytest.mark.parametrize(
    ("log_ratio", "tau", "rule", "message"),
    [
        (np.nan, 1.0, "metropolis", "log_ratio"),
        (0.0, -1.0, "metropolis", "tau"),
        (np.inf, 1.0, "metropolis", "log_ratio"),
        ([0.0, 1.0], [1.0, 2.0, 3.0], "metropolis", "broadcast"),
        (0.0, 1.0, "gibbs", "rule"),
    ],
)
def test_impossible_pairs_are_refused(log_ratio, tau, rule, message):
    with pytest.raises(InvalidInputError, match=message):
        acceptance_probability_error(log_ratio, tau, rule=rule, epsilon=0.05, **LOOKS)


def test_an_undefined_distance_is_refused():
    with pytest.raises(InvalidInputError, match="mu_std"):
        sequential_test_error([1.0, np.nan], epsilon=0.05, **LOOKS)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("epsilon", "distance", "largest", "usage", "bias"),
    [(0.01, 0.016954, 0.06523, 0.6411, 0.10637), (0.10, 0.155786, 0.36454, 0.2900, 1.1416)],
)
def test_a_whole_chain_with_approximate_acceptance(epsilon, distance, largest, usage, bias):
    # Gaussian data, posterior N(0, 1) on a grid: Lambda = (z^2 - z'^2) / 2 and tau = |z' - z| are known for every move.
    # Published: total variation between the two stationary distributions, largest |Delta|, data used, bias of E z^2.
    grid = np.linspace(-5.0, 5.0, 201)
    target = np.exp(-(grid**2) / 2.0)
    target /= target.sum()
    step = grid[None, :] - grid[:, None]
    proposal = np.exp(-(step**2) / (2.0 * 2.4**2))
    proposal /= proposal.sum(axis=1).max()
    np.fill_diagonal(proposal, 0.0)
    log_ratio = (grid[:, None] ** 2 - grid[None, :] ** 2) / 2.0
    test = acceptance_probability_error(log_ratio, np.abs(step), epsilon=epsilon, **LOOKS)
    kernel = proposal * (np.minimum(1.0, np.exp(log_ratio)) + test["error"].values)
    np.fill_diagonal(kernel, 1.0 - kernel.sum(axis=1))
    equations = np.vstack([kernel.T - np.eye(201), np.ones(201)])
    stationary = np.linalg.lstsq(equations, np.append(np.zeros(201), 1.0))[0]
    moves = stationary[:, None] * proposal
    assert 0.5 * np.abs(stationary - target).sum() == pytest.approx(distance, rel=5e-3)
    assert np.abs(test["error"].values).max() == pytest.approx(largest, rel=5e-3)
    assert (moves * test["data_fraction"].values).sum() / moves.sum() == pytest.approx(usage, rel=5e-3)
    assert (stationary - target) @ grid**2 == pytest.approx(bias, rel=5e-3)


def test_a_number_goes_with_labels():
    labelled = xr.DataArray([-1.0, 0.5], dims="log_ratio")
    found = acceptance_probability_error(labelled, 2.0, epsilon=0.05, batch_size=20, n_obs=100)
    plain = acceptance_probability_error(labelled.values, np.full(2, 2.0), epsilon=0.05, batch_size=20, n_obs=100)
    np.testing.assert_array_equal(found["error"], plain["error"])
    with pytest.raises(InvalidInputError, match="must be a number or a DataArray"):
        acceptance_probability_error(labelled, np.full(2, 2.0), epsilon=0.05, batch_size=20, n_obs=100)
