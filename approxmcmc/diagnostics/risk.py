"""Risk of posterior averages against time or data: squared bias plus variance, versus a gold standard."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.bootstrap import QUANTITIES, Resampling, estimate, intervals, resample
from approxmcmc.diagnostics.clock import with_clocks
from approxmcmc.diagnostics.copies import copies_sentence
from approxmcmc.diagnostics.estimands import Estimand, Reference, evaluate_reference, resolve
from approxmcmc.diagnostics.finite import not_finite
from approxmcmc.diagnostics.moments import as_reference
from approxmcmc.diagnostics.records import check_confidence, group
from approxmcmc.diagnostics.running import (
    AXES,
    Completions,
    common_grid,
    completion_clocks,
    is_approximation,
    running_means,
)
from approxmcmc.diagnostics.traces import Traces, as_list, replicates
from approxmcmc.errors import ApproxMCMCWarning, InvalidInputError, warn

_AXIS_NAMES = {
    "time": "wall-clock time",
    "processor_time": "processor time",
    "datapoints_touched": "data points touched",
}
_LONG_NAMES = {"bias_sq": "squared bias", "variance": "variance", "risk": "risk"}


@naming_the_arguments
def risk(
    traces: Traces,
    reference: Any,
    *,
    estimands: Mapping[str, Estimand] | None = None,
    over: str = "time",
    grid: Any = None,
    n_grid: int = 30,
    average_over: Sequence[str] | None = None,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    random_seed: int = 0,
    include_tuning: bool = True,
    clock: Any = None,
    warmup_seconds: Any = None,
) -> xr.Dataset:
    r"""Estimate the risk of posterior averages after a given time, or a given amount of data read.

    .. math:: risk(t) = E (\bar f(t) - f^*)^2 = bias^2(t) + variance(t),

    where :math:`\bar f(t)` is the mean of an estimand over the draws that a chain completed by t and :math:`f^*` its
    posterior mean [1]_. Every chain of every trace is one replicate, except that an ensemble is one (see `as_trace`);
    replicates should differ in seed and start.

    Parameters
    ----------
    traces
        One trace or several of the same sampler and setting, in any form that :func:`approxmcmc.as_trace` takes.
        Records used: ``perf_counter_diff`` or ``datapoints_touched``, and ``weight`` or ``log_weight`` if draws are
        weighted.
    reference
        Gold standard: a trace; or a table of means and standard deviations with their standard errors, a DataFrame
        with a row per coordinate (columns ``mean``, ``sd``, ``mcse_mean``, ``mcse_sd``) or a dict of them by variable,
        see :func:`approxmcmc.diagnostics.as_reference`. Its Monte Carlo error e enters estimates and intervals.
    estimands
        Dict of name -> function of the posterior Dataset (dims chain, draw, ...) that returns a DataArray (chain,
        draw, ...). Default: every coordinate of every variable.
    over
        ``"time"`` (seconds of the wall clock), ``"processor_time"`` (seconds of the chain's thread, for a machine that
        ran other programs) or ``"datapoints_touched"``, per chain.
    grid
        Points t of that axis, ascending. Default: `n_grid` log-spaced points, from the first at which every replicate
        has a draw to the end of the shortest replicate.
    average_over
        Names of estimands to average over their coordinates: one label in place of one per coordinate. The average is
        taken before the intervals, because coordinates share chains and are not independent replicates.
    confidence, n_bootstrap, random_seed
        Parametric bootstrap over replicates, joint over estimands and t; each draw moves the reference by a normal
        error of standard deviation e, correlated between coordinates as the reference's batch means are.
    include_tuning
        Start each clock at the cost of the chain's tuning steps, if the trace records it: users pay for them.
    clock
        Seconds, if a trace of another library does not record them: of each draw, shape (draw,) or (chain, draw); or of
        all kept draws of a chain, one number or one for each chain, which are spread over the draws by the gradients
        that the trace counts, or evenly. For several traces a list of these. None: as recorded.
    warmup_seconds
        Seconds of a chain before its first kept draw, one number or one for each chain; for several traces a list.

    Returns
    -------
    xarray.Dataset
        Dims ``estimand`` (labels such as ``"beta[x1]"``) and the axis that `over` names. Variables ``bias_sq``,
        ``variance``, ``risk`` in squared units of the estimand, each with ``_lower`` and ``_upper``; ``n_replicates``;
        ``reference_mcse_sq`` (estimand), e^2. NaN at points where a replicate has no draw yet, or ended before.

    Raises
    ------
    InvalidInputError
        If an argument, a trace's records or an estimand's result is invalid.
    GoldStandardError
        If the reference lacks an estimand's coordinates, or its error cannot be estimated.

    Warns
    -----
    ApproxMCMCWarning
        With one replicate: bias and variance cannot be separated and are NaN. If draws are not finite, or chains are
        copies of each other.

    Notes
    -----
    ``bias_sq`` and ``risk`` are unbiased: the variance of the mean over replicates and e^2 are subtracted, so both may
    be negative; keep the sign in averages. ``risk = bias_sq + variance`` holds to rounding. If e^2 is more than a few
    per cent of the risk, the curve shows the error of the reference as much as the sampler's. Finite-time bias includes
    the burn-in.

    A fitted distribution (Laplace, ADVI, Pathfinder; see `approxmcmc.whole_chains`) has one point, at the end of its
    fit: all its risk is bias, except for differences between fits. A single fit has variance 0, and its interval is
    that of the reference's error. The mean of the fit is computed from its draws, so use antithetic pairs of draws, or
    many draws.

    Intervals treat running means as normal. If they are, nominal 95 % intervals cover 93 to 100 % from 5 replicates on,
    for single coordinates and for averages (simulated). With 2 to 4 replicates they are too wide to be useful.

    References
    ----------
    .. [1] A. Korattikara, Y. Chen, M. Welling (2013). Austerity in MCMC land: cutting the Metropolis-Hastings budget.
       Preprint, section 3.

    Examples
    --------
    >>> runs = amc.sample(target, sampler, draws=5000, chains=8)  # doctest: +SKIP
    >>> curves = amc.risk(runs, amc.reference_posterior(target))  # doctest: +SKIP
    >>> curves.risk.sel(estimand="beta[x1]").plot()  # doctest: +SKIP
    """
    reference = as_reference(reference)
    traces = replicates(with_clocks(as_list(traces, like=reference), clock, warmup_seconds))
    check_confidence(confidence)
    functions = resolve(estimands, traces[0])
    averaged = _averaged_names(average_over, functions)
    clocks = completion_clocks(traces, over, include_tuning)
    points = common_grid(clocks, n_grid) if grid is None else _checked_grid(grid, over)
    if len(clocks) == 1 and not is_approximation(traces[0]):
        warn(
            "Risk over one chain: squared bias and variance cannot be separated and are NaN, intervals too. "
            "Run several chains from different seeds; papers use about 8; 32 give usable intervals.",
            ApproxMCMCWarning,
        )
    pieces = {
        name: errors_of(traces, name, function, reference=reference, clocks=clocks, points=points)
        for name, function in functions.items()
    }
    if sentence := unknown_means(traces):
        warn(f"Risk over draws that are not finite: {sentence}. Its mean is NaN from there on.", ApproxMCMCWarning)
    if sentence := copies_of(traces):
        warn(
            f"Risk over copies: {sentence}. They are one replicate, so the variance and the intervals are too small. "
            "Give each chain its own seed, and pass each trace once.",
            ApproxMCMCWarning,
        )
    first_errors, first_gold, _ = next(iter(pieces.values()))
    resampling = resample(n_bootstrap, len(first_errors), len(first_gold.directions), random_seed)
    labels: list[str] = []
    columns: list[dict[str, np.ndarray]] = []  # of each estimand, (coordinate, grid point)
    mcse_sq: list[float] = []
    for name, (errors, gold, own_labels) in pieces.items():
        if name in averaged:
            row = summarise(errors, gold, resampling, confidence)
            labels.append(name)
            columns.append({key: values[None] for key, values in row.items()})
            mcse_sq.append(np.mean(gold.mcse**2))
        else:
            labels.extend(own_labels)
            columns.append(summarise_each(errors, gold, resampling, confidence))
            mcse_sq.extend(gold.mcse**2)
    attrs = {"confidence": confidence, "n_bootstrap": n_bootstrap, "include_tuning": int(include_tuning)}
    dataset = _dataset(columns, labels, over, points, attrs)
    dataset["n_replicates"] = ((), len(clocks), {"long_name": "replicates"})
    dataset["reference_mcse_sq"] = (("estimand",), mcse_sq, {"long_name": "squared standard error of the reference"})
    return dataset


def errors_of(
    traces: Sequence[xr.DataTree],
    name: str,
    function: Estimand,
    *,
    reference: xr.DataTree,
    clocks: Sequence[Completions],
    points: np.ndarray,
) -> tuple[np.ndarray, Reference, tuple[str, ...]]:
    """Return running means minus reference means, (replicate, grid point, coordinate), the reference, and the labels.

    If the only replicate is a fitted distribution, it appears twice, so that its variance is 0 and not unknown.
    """
    running = running_means(traces, name, function, clocks, points)
    gold = evaluate_reference(name, function, reference, running.layout)
    errors = running.means - gold.mean
    if len(errors) == 1 and is_approximation(traces[0]):
        errors = np.repeat(errors, 2, axis=0)  # the variance between two equal fits is 0
    return errors, gold, running.layout.labels


def unknown_means(traces: Sequence[xr.DataTree]) -> str:
    """Return a sentence on the draws that are not finite; "" if all are finite."""
    for k, trace in enumerate(traces):
        if sentence := not_finite(group(trace, "posterior")):
            return sentence if len(traces) == 1 else f"{sentence} of trace {k}"
    return ""


def copies_of(traces: Sequence[xr.DataTree]) -> str:
    """Return a sentence on chains with equal draws; "" without any. Fits of one distribution may be equal."""
    return copies_sentence([group(trace, "posterior") for trace in traces if not is_approximation(trace)])


def coordinate(errors: np.ndarray, gold: Reference, k: int) -> tuple[np.ndarray, Reference]:
    """Return the errors and the reference of coordinate k only."""
    only = slice(k, k + 1)
    return errors[..., only], Reference(gold.mean[only], gold.mcse[only], gold.sd[only], gold.directions[:, only])


def summarise(errors: np.ndarray, gold: Reference, resampling: Resampling, confidence: float) -> dict[str, np.ndarray]:
    """Return estimates and limits by variable name, each of shape (grid point,)."""
    row = estimate(errors, gold.mcse)
    for name, (lower, upper) in intervals(errors, gold.mcse, gold.directions, resampling, confidence).items():
        row[f"{name}_lower"] = lower
        row[f"{name}_upper"] = upper
    return row


def summarise_each(
    errors: np.ndarray, gold: Reference, resampling: Resampling, confidence: float
) -> dict[str, np.ndarray]:
    """Return estimates and limits of each coordinate by itself, by variable name, shape (coordinate, grid point)."""
    columns = {name: values.T for name, values in estimate(errors[..., None], gold.mcse[:, None]).items()}
    if not len(gold.mcse):  # a variable without entries
        return columns | {f"{name}_{end}": columns[name] for name in QUANTITIES for end in ("lower", "upper")}
    limits = []
    for k in range(len(gold.mcse)):
        own_errors, own_gold = coordinate(errors, gold, k)
        limits.append(intervals(own_errors, own_gold.mcse, own_gold.directions, resampling, confidence))
    for name in QUANTITIES:
        lower, upper = np.stack([each[name] for each in limits], axis=1)
        columns[f"{name}_lower"] = lower
        columns[f"{name}_upper"] = upper
    return columns


def _dataset(
    columns: Sequence[Mapping[str, np.ndarray]],
    labels: Sequence[str],
    over: str,
    points: np.ndarray,
    attrs: dict[str, Any],
) -> xr.Dataset:
    units = AXES[over][1]
    dataset = xr.Dataset(
        coords={"estimand": list(labels), over: (over, points, {"units": units, "long_name": _AXIS_NAMES[over]})},
        attrs={"over": over, **attrs},
    )
    for quantity in QUANTITIES:
        for suffix, what in (("", ""), ("_lower", ", lower limit"), ("_upper", ", upper limit")):
            values = np.concatenate([column[quantity + suffix] for column in columns])
            dataset[quantity + suffix] = (("estimand", over), values, {"long_name": _LONG_NAMES[quantity] + what})
    return dataset


def _averaged_names(average_over: Sequence[str] | None, functions: Mapping[str, Estimand]) -> set[str]:
    names = {average_over} if isinstance(average_over, str) else set(average_over or ())
    if unknown := names - set(functions):
        raise InvalidInputError(
            f"`average_over` needs names of estimands, which are {sorted(functions)}; unknown: {sorted(unknown)}."
        )
    return names


def _checked_grid(grid: Any, over: str) -> np.ndarray:
    points = np.atleast_1d(np.asarray(grid, dtype=np.float64))
    if points.ndim != 1 or not len(points) or not np.all(np.isfinite(points)) or np.any(np.diff(points) <= 0):
        raise InvalidInputError(
            f"`grid` needs finite, ascending points on the axis {over!r}; found shape {points.shape}: {points}."
        )
    return points
