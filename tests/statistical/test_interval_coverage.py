"""How often the intervals of pages cover: of each kind of figure that other tests do not simulate.

At least 93 % of nominal 95 % intervals cover, at the number of replicates that pages have, and each test has a planted
bug that covers less. Risk, squared bias and variance: `test_risk_coverage.py`. Ratios of one coordinate, means, shares
and rates over replicates, verdicts of a page: `tests/studies/test_report.py`. Biases: `test_bias.py`, and the largest
of many: `tests/studies/test_biases.py`. Published numbers: `tests/contracts/test_results.py`. Proportions have the
interval of Clopper and Pearson, which covers by construction. Sums of effective samples, and errors at one place, are
shown without an interval.
"""

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import ndtr, ndtri

from approxmcmc.bounds import wasserstein
from approxmcmc.bounds.distance import frequencies, total_variation_interval, wasserstein_interval
from approxmcmc.bounds.followed import _limited
from approxmcmc.bounds.wasserstein import Norm, ratios
from approxmcmc.diagnostics.bootstrap import resample
from approxmcmc.diagnostics.estimands import Reference
from approxmcmc.reference.summary import summarize
from approxmcmc.study.report.evidence import paired_ratio
from approxmcmc.study.report.intervals import mean_interval, rate_interval
from studies.tools.verdict import judge
from tests.fakes import fake_trace

pytestmark = pytest.mark.statistical


def least(runs):
    """Return the least number of intervals that cover: a true 93 % has fewer with probability 1e-3."""
    return runs * (0.93 - 3.1 * math.sqrt(0.93 * 0.07 / runs))


def chains(rng, shape, coefficient):
    """Return stationary autoregressions of mean 0 and variance 1; the last axis is time."""
    noise = rng.standard_normal(shape) * math.sqrt(1 - coefficient**2)
    noise[..., 0] /= math.sqrt(1 - coefficient**2)
    return lfilter([1.0], [1.0, -coefficient], noise, axis=-1)


@pytest.mark.parametrize("n_replicates", [5, 8])
@pytest.mark.parametrize(
    ("top", "bottom", "bias", "shared", "correlation"),
    [
        (1.0, 2.0, 0.0, 0.0, 0.0),
        (1.0, 2.0, 0.0, 0.5, 0.3),
        (1.0, 2.0, 1.0, 0.0, 0.3),  # the bias of the numerator is half of its risk
        (1.0, 0.05, 0.0, 0.0, 0.0),  # the risk below is a quarter of the squared error of the gold standard
        (0.05, 1.0, 0.0, 0.0, 0.0),
    ],
)
def test_ratios_of_averages_over_coordinates_cover(rng, n_replicates, top, bottom, bias, shared, correlation):
    """Ratios of risks over 20 coordinates, whose gold standard errs by 0.1 in each."""
    dims, error, runs, covered, trusting = 20, 0.1, 500, 0, 0
    gold = Reference(np.zeros(dims), np.full(dims, error), np.ones(dims), np.eye(dims))
    exact = gold._replace(mcse=np.zeros(dims))
    resampling = resample(300, n_replicates, dims, 1)

    def noise():
        common, own = rng.standard_normal((n_replicates, 1)), rng.standard_normal((n_replicates, dims))
        return math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own

    truth = (top**2 + bias**2) / bottom**2
    for _ in range(runs):
        reference, below = error * rng.standard_normal(dims), noise()
        above = top * (shared * below + math.sqrt(1 - shared**2) * noise()) + bias
        errors = above - reference, bottom * below - reference
        covers = [
            found.lower <= truth <= found.upper
            for found in (paired_ratio(*errors, one, resampling) for one in (gold, exact))
        ]
        covered, trusting = covered + covers[0], trusting + covers[1]
    assert covered >= least(runs)
    if min(top, bottom) < error:  # planted: a gold standard that is taken to be exact
        assert trusting < least(runs)


@pytest.mark.parametrize("n_replicates", [5, 8])
def test_effective_samples_of_a_chain_cover(rng, n_replicates):
    """Means and ratios of the bulk ESS of chains with 55 and 14 effective draws of 1000, beside their expectations."""
    runs, counts = 400, {}
    for name, coefficient in (("fast", 0.9), ("slow", 0.98)):
        ess = np.array([float(summarize_one(chain)) for chain in chains(rng, (runs * n_replicates, 1000), coefficient)])
        counts[name] = ess.reshape(runs, n_replicates)
    for ess in counts.values():
        assert sum(covers(mean_interval(row), ess.mean()) for row in ess) >= least(runs)
        normal = 1.96 * ess.std(axis=1, ddof=1) / math.sqrt(n_replicates)
        if n_replicates == 5:  # planted: the normal quantile
            assert (np.abs(ess.mean(axis=1) - ess.mean()) <= normal).sum() < least(runs)
    ratios = counts["fast"] / counts["slow"]
    assert sum(covers(rate_interval(row), math.exp(np.log(ratios).mean())) for row in ratios) >= least(runs)


def summarize_one(chain):
    import arviz as az

    return az.ess(chain[None])


def covers(interval, truth):
    return interval.lower <= truth <= interval.upper


@pytest.mark.parametrize("shift", [0.0, 0.2, 1.0])
def test_distances_of_eight_chains_cover(rng, shift):
    """Total variation over 20 bins; a batch is ten autocorrelation times. Planted: the draws taken as independent."""
    runs, covered, naive = 400, 0, 0
    edges, law = ndtri(np.arange(1, 20) / 20), np.full(20, 1 / 20)
    truth = 0.5 * np.abs(np.diff([0.0, *ndtr(edges - shift), 1.0]) - law).sum()
    for draws in chains(rng, (runs, 8, 2000), 0.8) + shift:
        cells = np.searchsorted(edges, draws)
        found = total_variation_interval(frequencies(cells, 20), law)
        covered += found.lower <= truth + 1e-12 and truth <= found.upper
        mixed = rng.permuted(cells, axis=1)
        wrong = total_variation_interval(frequencies(mixed, 20), law)
        naive += wrong.lower <= truth + 1e-12 and truth <= wrong.upper
    assert covered >= least(runs)
    if shift:
        assert naive < least(runs)


def test_means_with_their_monte_carlo_errors_cover(rng):
    """Mean +- 1.96 MCSE of five chains together with 70 effective draws. Planted: the error of independent draws."""
    runs = 400
    draws = chains(rng, (runs, 5, 1000), 0.97)
    errors = np.array([summarize(fake_trace(one[..., None])["posterior"]["beta"]).mcse[0] for one in draws])
    off = np.abs(draws.mean(axis=(1, 2)))
    assert (off <= 1.96 * errors).sum() >= least(runs)
    assert (off <= 1.96 * draws.std(axis=(1, 2)) / math.sqrt(5000)).sum() < least(runs)


def test_the_largest_shift_and_ratio_of_a_run_cover(rng):
    """Of 10 coefficients, all right, no interval excludes it. Planted: intervals that each hold on their own."""
    runs, right, alone = 60, 0, 0
    for _ in range(runs):
        reference = fake_trace(rng.standard_normal((4, 2000, 10)))
        run = fake_trace(chains(rng, (5, 10, 400), 0.5).transpose(0, 2, 1))
        verdict = judge(run, reference)
        right += verdict.shift.lower == 0.0 and verdict.ratio.lower == 1.0
        found, true = (summarize(one["posterior"]["beta"]) for one in (run, reference))
        alone += (np.abs(found.mean - true.mean) <= 1.96 * np.hypot(found.mcse, true.mcse)).all()
    assert right >= least(runs) > alone


def reflected_autoregression(rng, starts, rho, n_chains, steps):
    """Return X_m - Y_m, shape (start, chain, step, 1), of reflected chains x' = rho x + sqrt(1 - rho^2) z."""
    spread = math.sqrt(1.0 - rho**2)
    apart = np.tile(starts[:, None], n_chains)
    found = []
    for step in range(1, max(steps) + 1):
        z = rng.standard_normal(apart.shape)
        shift = rho * apart / spread
        met = np.log(rng.random(apart.shape)) <= -shift * z - 0.5 * shift**2
        apart = np.where(met | (apart == 0.0), 0.0, rho * apart + 2.0 * spread * z)
        if step in steps:
            found.append(apart)
    return np.stack(found, axis=-1)[..., None]


@pytest.mark.parametrize("n_chains", [20, 60])
def test_limits_of_a_contraction_cover_and_refute_a_wrong_one(rng, monkeypatch, n_chains):
    """Pairs near and far, where m steps contract all by rho^m.

    Planted: limits of Student's t alone, which rare chains make too small; and a claimed coefficient of .85 rho.
    """
    starts, rho, steps, runs = np.array([0.1, 0.5, 2.0, 4.0]), 0.8, (1, 3, 8), 300
    truth = rho ** np.array(steps)

    def share_covered():
        found = [
            ratios(reflected_autoregression(rng, starts, rho, n_chains, steps), starts[:, None], Norm(np.eye(1)), 0.95)
            for _ in range(runs)
        ]
        upper = sum((each["ratio_upper"] >= truth).all() for each in found)
        lower = sum((each["ratio_lower"] <= truth).all() for each in found)
        refuted = sum(each["ratio_lower"][:, 0].max() > 0.85 * rho for each in found)
        return upper, lower, refuted

    upper, lower, refuted = share_covered()
    assert min(upper, lower) >= least(runs)
    assert refuted > 0.5 * runs or n_chains == 20
    monkeypatch.setattr(wasserstein, "_limit_with_rare_chains", lambda lengths, tail: 0.0)
    assert share_covered()[0] < least(runs)


def test_limits_of_followed_errors_cover(rng):
    """Sums of distances: 0 in seven of ten audits, otherwise exponential, and correlated as neighbouring draws are.

    Planted: limits as if the audits were independent.
    """
    runs, n_audits = 400, 400
    noise = chains(rng, (runs, n_audits), 0.6)
    rows = np.where(ndtr(noise) > 0.7, -np.log1p(-(ndtr(noise) - 0.7) / 0.3), 0.0)  # mean 0.3
    covered = alone = 0
    for values in rows:
        found = _limited(values, 0.95)
        covered += found.lower <= 0.3 <= found.upper
        alone += abs(values.mean() - 0.3) <= 1.96 * values.std(ddof=1) / math.sqrt(n_audits)
    assert covered >= runs * 0.9 and alone < least(runs)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_limits_of_a_wasserstein_distance_cover(rng, shift):
    """Normal draws, correlated, shifted by 0 or 0.3 standard deviations, against independent ones.

    Planted: the estimate itself as the lower limit, which is above a distance of 0.
    """
    runs, covered, naive = 100, 0, 0
    for _ in range(runs):
        draws = shift + chains(rng, (4, 500), 0.7)
        reference = rng.standard_normal((4, 1000))
        found = wasserstein_interval(draws, reference)
        covered += found.lower <= shift <= found.upper
        naive += found.estimate <= shift
    assert covered >= least(runs) and naive < least(runs)
