"""What a finished run should be warned about: stops, stuck chains, heavy tails, too many wrong decisions."""

import json
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import betaincinv

from approxmcmc.acceptance.laws.looks import look_sizes
from approxmcmc.acceptance.laws.recursion import sequential_test_error
from approxmcmc.acceptance.laws.tolerance import tolerance_stop_error
from approxmcmc.diagnostics.expansion_gates import VARIANCE_RATIO, expansion_problems

# A term that alone makes up half of the spread at the stop breaks the central limit theorem behind a t-test.
HEAVIEST_TERM = 0.5
SHARE_OF_HEAVY_DRAWS = 0.1
# Barker's minibatch test under skewed terms is off by some 0.01 in acceptance probability from here on.
LARGEST_SKEWNESS_RATIO = 0.05
SHARE_OF_SKEWED_DRAWS = 0.5
SMALLEST_RUN = 50
# The error is smooth and decreasing in |mu_std|: interpolation on 65 points is exact to 1e-3 of itself.
MU_STD_GRID = np.linspace(0.0, 6.0, 65) + 1e-9


def problems(trace: xr.DataTree) -> list[str]:
    """Return one sentence for each thing about `trace` that deserves a second look; empty for a clean run."""
    stats, posterior = trace["sample_stats"].dataset, trace["posterior"].dataset
    checks = (
        _stopped(posterior),
        _stuck(posterior),
        _heavy_tails(stats),
        _skewed(stats),
        _too_many_wrong(stats),
        _false_range(stats),
    )
    settings = json.loads(posterior.attrs.get("inference_library_settings", "{}"))
    return [sentence for sentence in checks if sentence] + expansion_problems(posterior.attrs, settings)


def _stopped(posterior: xr.Dataset) -> str | None:
    stopped, draws = posterior.attrs.get("stopped", ""), posterior.sizes["draw"]
    if stopped == "failure":
        return f"sampling stopped after {draws} draws. {posterior.attrs['failure']}. The draws made are kept"
    if stopped and not draws:
        return f"sampling was stopped ({stopped}) before the first draw was kept: the posterior group is empty"
    if stopped == "interrupt":
        return f"sampling was interrupted; {draws} draws per chain are kept"
    return None


def _stuck(posterior: xr.Dataset) -> str | None:
    if posterior.sizes["draw"] < SMALLEST_RUN:
        return None
    moved = sum(
        (values != values.isel(draw=0)).sum([d for d in values.dims if d != "chain"]) for values in posterior.values()
    )
    stuck = [int(chain) for chain, moves in zip(posterior["chain"].values, np.asarray(moved), strict=True) if not moves]
    if not stuck:
        return None
    return (
        f"chain(s) {stuck} never moved in {posterior.sizes['draw']} draws: the steps are too large or the start is far "
        "off; reduce the scale, tune it (target_acceptance), or start elsewhere. its R-hat and ESS mean nothing"
    )


def _heavy_tails(stats: xr.Dataset) -> str | None:
    if "max_term_ratio" not in stats or not stats.sizes["draw"]:
        return None
    if stats.attrs.get("setup_variance_ratio", 1.0) <= VARIANCE_RATIO:
        return None  # cubes are heavy-tailed, and so small that few decisions feel it; the audits below judge them
    share = float((stats["max_term_ratio"] > HEAVIEST_TERM).mean())
    if share < SHARE_OF_HEAVY_DRAWS:
        return None
    return (
        f"in {share:.0%} of the draws one log-likelihood term outweighed half of the spread of all terms read: they "
        "are heavy-tailed, and the t-test errs more often than its epsilon says; use a larger batch_size or ExactTest"
    )


def _skewed(stats: xr.Dataset) -> str | None:
    """Compare |skewness| / sqrt(n) with its limit; in most draws, as 100 normal terms pass it in 4 % by chance."""
    if "skewness_ratio" not in stats or not stats.sizes["draw"]:
        return None
    share = float((stats["skewness_ratio"] > LARGEST_SKEWNESS_RATIO).mean())
    if share < SHARE_OF_SKEWED_DRAWS:
        return None
    return (
        f"in {share:.0%} of the draws |skewness| / sqrt(n) of the terms read exceeded {LARGEST_SKEWNESS_RATIO}: the "
        "noise of the minibatch is not normal, and the Barker test is biased; use a larger batch_size, a smaller "
        "target_variance, shorter steps, or ExactTest('barker')"
    )


def _too_many_wrong(stats: xr.Dataset) -> str | None:
    """Compare the audited wrong-decision rate with what the recursion predicts at the audited standardised means."""
    if "audited_mu_std" not in stats:
        return None
    audited, wrong = int(stats["decisions_audited"].sum()), int(stats["wrong_decisions"].sum())
    if audited < SMALLEST_RUN or not wrong:
        return None
    lower = betaincinv(wrong, audited - wrong + 1, 0.001)  # Clopper-Pearson, one-sided 99.9 %
    bernstein = find_settings(json.loads(stats.attrs.get("inference_library_settings", "{}")), "BernsteinTest")
    if bernstein is not None and lower > bernstein["delta"]:
        return (
            f"{wrong} of {audited} audited decisions were wrong (above {lower:.3f} with 99.9 % confidence), more than "
            f"delta = {bernstein['delta']:g} of BernsteinTest(range={bernstein['range']!r}): the range is too small; "
            "give an upper bound of max l - min l"
        )
    predicted = predicted_wrong_decision_rate(stats)
    if predicted is None or lower <= predicted:
        return None
    return (
        f"{wrong} of {audited} audited decisions were wrong (above {lower:.3f} with 99.9 % confidence), where the "
        f"test's settings predict {predicted:.3f}: the log-likelihood terms are not in the Gaussian regime; "
        "use a larger batch_size, a smaller epsilon, or ExactTest"
    )


def _false_range(stats: xr.Dataset) -> str | None:
    violations = int(stats["range_violations"].sum()) if "range_violations" in stats else 0
    if not violations:
        return None
    return (
        f"in {violations} of {int(stats['decisions_made'].sum())} decisions the terms read lay further apart than the "
        "range that BernsteinTest was told. They were decided on all data; others may have been decided wrongly: give "
        "an upper bound of max l - min l over all data"
    )


def predicted_wrong_decision_rate(stats: xr.Dataset) -> float | None:
    """Return the mean error that the recursion of the sequential t-test predicts over the audited decisions.

    Each audit records the standardised mean mu_std = (Lambda - log u) / tau of its decision; in the Gaussian regime the
    error depends on the data through mu_std alone. A stop by tolerance adds what a tie may err: ties are what it gives
    up on, and no sign of heavy tails. None where the run had no sequential t-test or no audits.
    """
    settings = find_settings(json.loads(stats.attrs.get("inference_library_settings", "{}")), "SequentialTTest")
    mu_std = np.abs(np.asarray(stats["audited_mu_std"]))
    audited = np.isfinite(mu_std)
    if settings is None or not audited.any():
        return None
    n_obs = int(stats.attrs["n_obs"])
    looks = {
        "batch_size": settings["batch_size"],
        "n_obs": n_obs,
        "growth": settings["growth"],
        "boundary_shape": settings.get("boundary_shape", 0.5),
    }
    epsilons = np.asarray(stats["epsilon"] if "epsilon" in stats else np.full_like(mu_std, settings["epsilon"]))
    predicted = np.zeros_like(mu_std)
    for epsilon in np.unique(epsilons[audited]):  # one, or those of an annealed test
        here = audited & (epsilons == epsilon)
        error = sequential_test_error(MU_STD_GRID, epsilon=epsilon, **looks)["error"].values
        predicted[here] = np.interp(np.minimum(mu_std[here], MU_STD_GRID[-1]), MU_STD_GRID, error)
    if settings.get("tol", 0.0) > 0.0 and "tolerance_stops" in stats:
        predicted += _tolerance_errors(stats, mu_std, epsilons, looks)
    return float(predicted[audited].mean())


def _tolerance_errors(stats: xr.Dataset, mu_std: np.ndarray, epsilons: np.ndarray, looks: Any) -> np.ndarray:
    """Return what stops by tolerance add to the error of each draw; 1/2 where a draw holds several decisions."""
    decisions, stops = (np.asarray(stats[name]) for name in ("decisions_made", "tolerance_stops"))
    share = stops / np.maximum(decisions, 1)
    alone = (decisions == 1) & (stops == 1) & np.isfinite(mu_std)
    out = 0.5 * share
    sizes = look_sizes(looks["n_obs"], looks["batch_size"], looks["growth"])
    look_of = np.searchsorted(sizes, np.asarray(stats["datapoints_touched"]))
    for epsilon, look in {*zip(epsilons[alone].tolist(), look_of[alone].tolist(), strict=True)}:
        here = alone & (epsilons == epsilon) & (look_of == look)
        error = tolerance_stop_error(MU_STD_GRID, look, epsilon=epsilon, **looks)
        out[here] = np.interp(np.minimum(mu_std[here], MU_STD_GRID[-1]), MU_STD_GRID, error)
    return out


def find_settings(settings: Any, kind: str) -> dict[str, Any] | None:
    """Return the first component of this kind inside nested settings."""
    if isinstance(settings, dict):
        if settings.get("kind") == kind:
            return settings
        settings = list(settings.values())
    if isinstance(settings, list):
        return next((found for item in settings if (found := find_settings(item, kind)) is not None), None)
    return None
