"""Judge runs: "right", "wrong and warned", "wrong and silent" (without a warning), "undecided" or "not validated".

A run is right when every mean is within .1 posterior sd of the reference and every sd within 10 %, wrong when one of
them is not. Both are decided by intervals that hold together, over all coefficients, with probability .95, and contain
the Monte Carlo errors of run and reference. If an interval contains a limit, the verdict is "undecided". A run counts
as "warned" if its trace reports at least one problem.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from approxmcmc.diagnostics.diagnose import findings
from approxmcmc.reference.summary import summarize
from approxmcmc.study.report.intervals import NOTHING, Interval

if TYPE_CHECKING:
    import xarray as xr

LARGEST_SHIFT = 0.1
LARGEST_RATIO = 1.1
CONFIDENCE = 0.95
# Of a chain: ArviZ would need 20 minutes for all draws of 60 runs, and errors are far below the limits.
MOST_DRAWS = 10_000
RIGHT = "right"
UNDECIDED = "undecided"
UNKNOWN = "not validated"
WARNED = "wrong and warned"
SILENT = "wrong and silent"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on one run, with its numbers.

    Attributes
    ----------
    word
        "right", "wrong and warned", "wrong and silent", "undecided" or "not validated".
    shift, shift_at
        Largest difference of a mean from the reference's, in posterior sds, with its interval; the coefficient.
    ratio, ratio_at
        Largest ratio of sds, the larger over the smaller, with its interval; the coefficient.
    r_hat, ess
        Largest R-hat and smallest bulk ESS over coefficients.
    problems
        The failed checks of `amc.diagnose`.
    """

    word: str
    shift: Interval
    shift_at: str
    ratio: Interval
    ratio_at: str
    r_hat: float
    ess: float
    problems: tuple[str, ...]

    @property
    def short(self) -> str:
        """The verdict; for an undecided run with failed checks also that it was warned."""
        return f"{self.word}, warned" if self.word == UNDECIDED and self.problems else self.word


def problems_of(run: "xr.DataTree") -> tuple[str, ...]:
    """Return the failed checks of `amc.diagnose`, most serious first."""
    return tuple(dict.fromkeys(finding.check for finding in findings(run) if finding.fires))


def judge(run: "xr.DataTree", reference: "xr.DataTree | None", variable: str = "beta") -> Verdict:
    """Return the verdict on a run of several chains; without a reference it is "not validated"."""
    draws = thinned(run["posterior"].to_dataset()[variable])
    problems = problems_of(run)
    summary = summarize(draws)
    quality = (float(np.max(summary.r_hat)), float(np.min(summary.ess_bulk)), problems)
    if reference is None:
        return Verdict(UNKNOWN, NOTHING, "", NOTHING, "", *quality)
    truth = reference["posterior"].to_dataset()[variable]
    true = summarize(truth)
    z = float(stats.norm.isf((1.0 - CONFIDENCE) / (4 * len(true.labels))))  # two ends, two statistics
    shift = np.abs(summary.mean - true.mean) / true.sd
    shift_error = z * np.hypot(summary.mcse, true.mcse) / true.sd
    with np.errstate(divide="ignore"):  # draws that never moved have sd 0
        log_ratio = np.abs(np.log(summary.sd / true.sd))
    log_ratio_error = z * np.hypot(_log_sd_error(draws, summary), _log_sd_error(truth, true))
    worst_shift = _largest(shift, shift_error)
    worst_ratio = _largest(log_ratio, log_ratio_error)
    limits = (LARGEST_SHIFT, math.log(LARGEST_RATIO))
    if any(worst.lower > limit for worst, limit in zip((worst_shift, worst_ratio), limits, strict=True)):
        word = WARNED if problems else SILENT
    elif all(worst.upper <= limit for worst, limit in zip((worst_shift, worst_ratio), limits, strict=True)):
        word = RIGHT
    else:
        word = UNDECIDED
    return Verdict(
        word,
        worst_shift,
        true.labels[int(np.argmax(shift))],
        Interval(*(math.exp(value) for value in worst_ratio)),
        true.labels[int(np.argmax(log_ratio))],
        *quality,
    )


def thinned(draws: "xr.DataArray") -> "xr.DataArray":
    """Return at most `MOST_DRAWS` draws of each chain, evenly spaced: this can only make the errors larger."""
    return draws.isel(draw=slice(None, None, math.ceil(draws.sizes["draw"] / MOST_DRAWS)))


def _log_sd_error(draws: "xr.DataArray", summary: Any) -> np.ndarray:
    """Return the standard error of log sd: half the relative error of the variance, a mean of squared deviations."""
    squares = summarize((draws - draws.mean(("chain", "draw"))) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(summary.sd > 0.0, 0.5 * squares.mcse / summary.sd**2, 0.0)


def _largest(value: np.ndarray, error: np.ndarray) -> Interval:
    """Return the largest of several values, with an interval that holds where those of all values hold."""
    error = np.where(np.isnan(error), np.inf, error)  # a chain that never moved has no estimate of its error
    return Interval(float(value.max()), max(0.0, float((value - error).max())), float((value + error).max()))
