"""Risk of autoregressions with a known bias: the estimates' means, and how often their intervals cover.

The chains are x' = a x + sqrt(1 - a^2) z plus a shift b, so squared bias is b^2 and the variance of a mean of T draws
is IAT / T up to the ends, IAT = (1 + a) / (1 - a). The coordinates of a chain are independent: each is one experiment
of R replicates with a reference of its own, and their spread gives the standard error.
"""

import numpy as np
import pytest

from approxmcmc.diagnostics import risk
from approxmcmc.diagnostics.bootstrap import intervals, resample
from tests.fakes import autoregression, fake_trace

pytestmark = pytest.mark.statistical

COEFFICIENT = 0.5
N_REPLICATES = 8
N_DRAWS = 50
N_EXPERIMENTS = 4000
REFERENCE_SHAPE = (4, 100)
# false_fail of one |z| > 5 is 5.7e-7, and about twice that for means of 4000 squares, which are skewed; six of them
# (two shifts, three quantities) stay under 1e-5.
LARGEST_Z = 5.0


def variance_of_mean(n_draws, coefficient=COEFFICIENT):
    """Exact variance of the mean of n stationary AR(1) draws of unit variance."""
    lags = np.arange(1, n_draws)
    return (1 + 2 * np.sum((1 - lags / n_draws) * coefficient**lags)) / n_draws


def experiments(rng, shift, *, n_experiments=N_EXPERIMENTS, n_replicates=N_REPLICATES, n_bootstrap=2):
    chains = autoregression(rng, (n_replicates * n_experiments, N_DRAWS), COEFFICIENT, shift)
    chains = chains.reshape(n_replicates, n_experiments, N_DRAWS).transpose(0, 2, 1)
    gold = fake_trace(rng.normal(size=(*REFERENCE_SHAPE, n_experiments)))
    found = risk(fake_trace(chains), gold, grid=[float(N_DRAWS)], n_bootstrap=n_bootstrap)
    return found.isel(time=0)


def z_score(values, truth):
    return float((np.mean(values) - truth) / (np.std(values, ddof=1) / np.sqrt(len(values))))


def test_variance_of_a_mean_approaches_iat_over_t():
    iat = (1 + COEFFICIENT) / (1 - COEFFICIENT)
    assert variance_of_mean(10_000) == pytest.approx(iat / 10_000, rel=1e-3)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_estimates_average_to_the_truth_and_planted_bugs_do_not(rng, shift):
    found = experiments(rng, shift)
    variance = variance_of_mean(N_DRAWS)
    assert abs(z_score(found["bias_sq"], shift**2)) < LARGEST_Z
    assert abs(z_score(found["variance"], variance)) < LARGEST_Z
    assert abs(z_score(found["risk"], shift**2 + variance)) < LARGEST_Z
    if shift == 0:
        naive = found["bias_sq"] + found["variance"] / N_REPLICATES
        trusting = found["bias_sq"] + found["reference_mcse_sq"]
        assert z_score(naive, 0) > LARGEST_Z
        assert z_score(trusting, 0) > LARGEST_Z


def test_enough_experiments_to_see_the_planted_bugs():
    """At b = 0, bias_sq + V/R + e^2 is (V/R + e^2) chi^2_1, of sd sqrt(2) times that: power from the two shifts."""
    share, error = variance_of_mean(N_DRAWS) / N_REPLICATES, 1 / np.prod(REFERENCE_SHAPE)
    # The sample variance adds its own noise, sd V/R sqrt(2 / (R - 1)).
    sd = np.sqrt(2 * (share + error) ** 2 + share**2 * 2 / (N_REPLICATES - 1))
    standard_error = sd / np.sqrt(N_EXPERIMENTS)
    false_pass_quantile = 3.1  # false_pass 1e-3
    assert share / standard_error > LARGEST_Z + false_pass_quantile
    assert error / standard_error > LARGEST_Z + false_pass_quantile


@pytest.mark.parametrize("n_replicates", [5, 8, 32])
@pytest.mark.parametrize("shift", [0.0, 0.1, 1.0])
def test_intervals_of_single_coordinates_cover(rng, shift, n_replicates):
    """At least 93 % of nominal 95 % intervals cover. False_fail 1e-6 at a true 93 % (4.8 binomial errors of 1000);

    percentile intervals of a resampling bootstrap covered about 74 % of the variances at 8 replicates.
    """
    found = experiments(rng, shift, n_experiments=1000, n_replicates=n_replicates, n_bootstrap=500)
    variance = variance_of_mean(N_DRAWS)
    for quantity, truth in {"bias_sq": shift**2, "variance": variance, "risk": shift**2 + variance}.items():
        covered = (found[f"{quantity}_lower"] <= truth) & (truth <= found[f"{quantity}_upper"])
        assert float(covered.mean()) > 0.93 - 4.8 * np.sqrt(0.93 * 0.07 / 1000), quantity


@pytest.mark.parametrize("n_replicates", [5, 8])
@pytest.mark.parametrize("shift", [0.0, 0.3, 3.0])
@pytest.mark.parametrize(("n_coordinates", "correlation"), [(10, 0.0), (10, 0.5), (50, 0.0), (50, 0.3)])
def test_intervals_of_averages_over_coordinates_cover(rng, shift, n_replicates, n_coordinates, correlation):
    """As above, for an average over coordinates of unit variance; the reference errs by 0.1 in each."""
    directions, mcse = np.eye(n_coordinates), np.full(n_coordinates, 0.1)
    truth = {"bias_sq": shift**2, "variance": 1.0, "risk": shift**2 + 1.0}
    covered = dict.fromkeys(truth, 0)
    for k in range(1000):
        common, own = rng.standard_normal((n_replicates, 1)), rng.standard_normal((n_replicates, n_coordinates))
        errors = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own + shift
        errors = errors - mcse * rng.standard_normal(n_coordinates)
        resampling = resample(300, n_replicates, n_coordinates, k)
        for name, (lower, upper) in intervals(errors[:, None], mcse, directions, resampling, 0.95).items():
            covered[name] += lower[0] <= truth[name] <= upper[0]
    assert min(covered.values()) / 1000 > 0.93 - 4.8 * np.sqrt(0.93 * 0.07 / 1000), covered
