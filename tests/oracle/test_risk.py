"""Risk against answers known without sampling: enumerated expectations, running means by hand, a bootstrap by loops."""

import itertools

import arviz as az
import numpy as np
import pytest
import scipy.stats
import xarray as xr

from approxmcmc.diagnostics import risk
from approxmcmc.diagnostics.bootstrap import central_quantiles, estimate, intervals, resample
from approxmcmc.diagnostics.estimands import Layout, evaluate_reference
from tests.fakes import autoregression, fake_trace

# --- unbiasedness, by enumeration ---

SIGNS = (-1.0, 1.0)


def expectations(estimator, shift, spread, reference_error, n_replicates):
    """Average an estimator over every outcome of replicates ``shift +- spread`` and reference ``0 +- reference_error``.

    All 2^(R+1) outcomes are equally likely, so this is the estimator's expectation, exactly. The truth is squared bias
    ``shift^2``, variance ``spread^2``, risk their sum.
    """
    mcse = np.array([reference_error])
    results = [
        estimator(np.array(signs)[:, None, None] * spread + shift - sign * reference_error, mcse)
        for signs in itertools.product(SIGNS, repeat=n_replicates)
        for sign in SIGNS
    ]
    return {name: float(np.mean([result[name][0] for result in results])) for name in ("bias_sq", "variance", "risk")}


CASES = [
    (shift, spread, error, n)
    for shift in (0.0, 0.7)
    for spread in (0.0, 1.3)
    for error in (0.0, 0.4)
    for n in (2, 3, 8)
]


def is_unbiased(estimator):
    for shift, spread, error, n in CASES:
        truth = {"bias_sq": shift**2, "variance": spread**2, "risk": shift**2 + spread**2}
        found = expectations(estimator, shift, spread, error, n)
        if any(abs(found[name] - truth[name]) > 1e-12 for name in truth):
            return False
    return True


def with_change(change):
    def estimator(errors, mcse):
        result = estimate(errors, mcse)
        return {**result, **change(result, errors, np.mean(mcse**2))}

    return estimator


PLANTED = {
    "bias without the share of the variance": lambda r, e, m: {"bias_sq": r["bias_sq"] + r["variance"] / len(e)},
    "bias without the error of the reference": lambda r, e, m: {"bias_sq": r["bias_sq"] + m},
    "bias clipped at zero": lambda r, e, m: {"bias_sq": np.maximum(r["bias_sq"], 0)},
    "risk without the error of the reference": lambda r, e, m: {"risk": r["risk"] + m},
    "variance divided by R": lambda r, e, m: {"variance": r["variance"] * (len(e) - 1) / len(e)},
}


@pytest.mark.thorough
def test_estimates_are_unbiased_exactly():
    assert is_unbiased(estimate)


@pytest.mark.thorough
@pytest.mark.parametrize("change", PLANTED.values(), ids=PLANTED.keys())
def test_planted_bug_is_biased(change):
    assert not is_unbiased(with_change(change))


def test_with_one_replicate_the_risk_is_unbiased_still():
    for shift, spread, error in [(0.0, 1.3, 0.4), (0.7, 1.3, 0.0)]:
        assert expectations(estimate, shift, spread, error, 1)["risk"] == pytest.approx(shift**2 + spread**2)


# --- the public function against the formulas, loop by loop ---


def test_risk_follows_the_formulas_and_decomposes(rng):
    chains, draws = 5, 60
    traces = [
        fake_trace(
            np.stack([autoregression(rng, (n, draws), 0.5, shift) for shift in (0.3, 0.0)], axis=-1),
            seconds_per_draw=0.5,
        )
        for n in (2, chains - 2)
    ]
    gold = fake_trace(rng.normal(size=(4, 100, 2)))
    curves = risk(traces, gold, n_bootstrap=10)
    mcse = az.mcse(gold)["beta"].values
    values = np.concatenate([trace["posterior"]["beta"].values for trace in traces])
    for point, time in enumerate(curves["time"].values):
        completed = int(time // 0.5)
        for k in range(2):
            means = [values[r, :completed, k].mean() for r in range(chains)]
            truth = gold["posterior"]["beta"].values[..., k].mean()
            center = sum(means) / chains
            variance = sum((mean - center) ** 2 for mean in means) / (chains - 1)
            mean_square = sum((mean - truth) ** 2 for mean in means) / chains
            assert mean_square == pytest.approx((center - truth) ** 2 + variance * (chains - 1) / chains)
            at = {"estimand": k, "time": point}
            assert float(curves["variance"].isel(at)) == pytest.approx(variance)
            assert float(curves["risk"].isel(at)) == pytest.approx(mean_square - mcse[k] ** 2)
            expected = (center - truth) ** 2 - variance / chains - mcse[k] ** 2
            assert float(curves["bias_sq"].isel(at)) == pytest.approx(expected)
    xr.testing.assert_allclose(curves["risk"], (curves["bias_sq"] + curves["variance"]).rename("risk"), rtol=1e-12)
    np.testing.assert_allclose(curves["reference_mcse_sq"], mcse**2)


# --- running means on a grid, by hand ---


def known_reference():
    """Draws around zero, in another order in each chain: the mean is 0; its error does not matter to the variance."""
    return fake_trace(np.random.default_rng(0).permuted(np.tile([1.0, -1.0], (4, 50)), axis=1))


def test_running_means_on_a_grid_by_hand():
    # Chain 0 ends its draws at 1, 3, 4, 8 seconds, chain 1 at 2, 4, 6, 7.
    trace = fake_trace(
        [[6.0, 0.0, 3.0, 7.0], [2.0, 4.0, 6.0, 0.0]],
        stats={"perf_counter_diff": [[1.0, 2.0, 1.0, 4.0], [2.0, 2.0, 2.0, 1.0]]},
    )
    grid = [1.0, 1.99, 2.0, 3.0, 4.0, 5.9, 6.0, 7.0, 7.1, 8.0]
    means = [
        (6.0, np.nan),  # chain 1 has no draw yet
        (6.0, np.nan),
        (6.0, 2.0),  # a draw counts from the moment that it is complete
        (3.0, 2.0),
        (3.0, 3.0),
        (3.0, 3.0),
        (3.0, 4.0),
        (3.0, 3.0),
        (np.nan, np.nan),  # chain 1 has ended
        (np.nan, np.nan),
    ]
    curves = risk(trace, known_reference(), grid=grid, n_bootstrap=10)
    expected = [(first - second) ** 2 / 2 for first, second in means]
    np.testing.assert_allclose(curves["variance"].isel(estimand=0), expected)
    default = risk(trace, known_reference(), n_grid=3, n_bootstrap=10)
    np.testing.assert_allclose(default["time"], [2, np.sqrt(14), 7])


def test_weighted_running_means_by_hand():
    trace = fake_trace(
        [[6.0, 0.0, 3.0], [2.0, 4.0, 6.0]], stats={"weight": [[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]]}, datapoints_per_draw=4
    )
    curves = risk(trace, known_reference(), over="datapoints_touched", grid=[4, 8, 12], n_bootstrap=10)
    means = [(6.0, np.nan), (2.0, 4.0), (15 / 6, 5.0)]
    np.testing.assert_allclose(curves["variance"].isel(estimand=0), [(a - b) ** 2 / 2 for a, b in means])


# --- the bootstrap, by loops ---


def bootstrap_by_loops(errors, mcse, directions, resampling):
    """Move the mean over replicates and the reference, and scale the variance: what the quadratic forms must equal."""
    n, (_, _, dim) = len(errors), errors.shape
    center, scatter = errors.mean(axis=0), errors - errors.mean(axis=0)
    draws = []
    for g, scales, normals in zip(resampling.replicates, resampling.scales, resampling.reference, strict=True):
        chi_square = scipy.stats.chi2(n - 1).isf(scipy.stats.norm.cdf(scales[0]))
        student = np.tensordot(g, scatter, axes=1) / np.sqrt(n * chi_square)
        row = np.empty((3, errors.shape[1]))
        for point in range(errors.shape[1]):
            covariance = np.atleast_2d(np.cov(scatter[:, point], rowvar=False))
            total, square = np.trace(covariance), (covariance**2).sum()
            k = total**2 / ((n - 1) ** 2 / ((n - 2) * (n + 1)) * (square - total**2 / (n - 1)))
            nu = (n - 1) * (1 + (min(max(k, 1), dim) - 1) * (n - 1) / (n + 7))
            variance = total / dim * nu / scipy.stats.chi2(nu).isf(scipy.stats.norm.cdf(scales[0]))
            moved = center[point] + student[point] + mcse * (normals @ directions)
            bias_sq = np.mean(moved**2) - 2 * variance / n - 2 * np.mean(mcse**2)
            row[:, point] = bias_sq, variance, bias_sq + variance
        draws.append(row)
    return np.array(draws)


@pytest.mark.thorough
@pytest.mark.parametrize("n_coordinates", [1, 7])
def test_quadratic_forms_equal_a_bootstrap_by_loops(rng, n_coordinates):
    errors = rng.normal(0.2, 1.0, size=(5, 3, n_coordinates))
    gold = fake_trace(rng.normal(size=(4, 100, n_coordinates)))
    layout = Layout(tuple(f"beta[{k}]" for k in range(n_coordinates)), ("coef",))
    reference = evaluate_reference("beta", lambda posterior: posterior["beta"], gold, layout)
    resampling = resample(300, 5, len(reference.directions), random_seed=1)
    found = intervals(errors, reference.mcse, reference.directions, resampling, 0.9)
    expected = np.quantile(
        bootstrap_by_loops(errors, reference.mcse, reference.directions, resampling), [0.05, 0.95], axis=0
    )
    for k, name in enumerate(("bias_sq", "variance", "risk")):
        np.testing.assert_allclose(found[name], expected[:, k], atol=1e-12, err_msg=name)


@pytest.mark.parametrize("n_bootstrap", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("tail", [0.001, 0.025, 0.2, 0.25, 0.499])
def test_limits_are_the_quantiles_of_numpy(rng, n_bootstrap, tail):
    draws = rng.normal(size=(2, 5, n_bootstrap))
    draws[1, 3] = np.nan
    expected = np.quantile(draws, [tail, 1.0 - tail], axis=-1)
    np.testing.assert_allclose(central_quantiles(draws, tail), expected, rtol=1e-12, atol=1e-14)


def test_reference_moves_by_its_standard_error_in_every_coordinate(rng):
    common = rng.normal(size=(4, 200, 1))
    gold = fake_trace(np.concatenate([common, 3 * common, rng.normal(size=(4, 200, 1))], axis=-1))
    layout = Layout(("beta[0]", "beta[1]", "beta[2]"), ("coef",))
    reference = evaluate_reference("beta", lambda posterior: posterior["beta"], gold, layout)
    np.testing.assert_allclose((reference.directions**2).sum(axis=0), 1)
    assert reference.directions[:, 0] @ reference.directions[:, 1] == pytest.approx(1)  # one error, seen twice
    assert abs(reference.directions[:, 0] @ reference.directions[:, 2]) < 0.8
    np.testing.assert_allclose(reference.mcse[1], 3 * reference.mcse[0])


def test_resampling_is_shared_by_estimands_and_reproducible():
    first, again = resample(20, 6, 3, random_seed=4), resample(20, 6, 3, random_seed=4)
    np.testing.assert_array_equal(first.replicates, again.replicates)
    np.testing.assert_allclose(first.replicates.sum(axis=1), 0, atol=1e-12)
    assert not np.array_equal(first.replicates, resample(20, 6, 3, random_seed=5).replicates)
