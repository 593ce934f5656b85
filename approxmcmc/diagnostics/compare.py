"""Which sampler is closest to the truth at one budget: a table in the shape of ``az.compare``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.bootstrap import resample
from approxmcmc.diagnostics.clock import by_name, with_clocks
from approxmcmc.diagnostics.cost import full_data_reads
from approxmcmc.diagnostics.decisions import wrong_decision_rate
from approxmcmc.diagnostics.estimands import Estimand, Reference, evaluate, resolve
from approxmcmc.diagnostics.health import share_of_moves
from approxmcmc.diagnostics.moments import as_reference, described, has_only_moments
from approxmcmc.diagnostics.rank_statistics import bulk_ess
from approxmcmc.diagnostics.records import check_confidence, group, sums, tuning_totals
from approxmcmc.diagnostics.risk import copies_of, errors_of, summarise, unknown_means
from approxmcmc.diagnostics.running import AXES, NEVER, Completions, completion_clocks, is_approximation, knows
from approxmcmc.diagnostics.standard import TO_TENTH_SD, Departures, departures, to_tenth_sd
from approxmcmc.diagnostics.traces import Traces, aligned, as_list, replicates, weights_of
from approxmcmc.errors import ApproxMCMCWarning, InvalidInputError, warn

if TYPE_CHECKING:
    import pandas as pd

# Above this share of the risk, the reference's own error decides the order of the samplers.
_REFERENCE_SHARE = 0.05


@naming_the_arguments
def compare_samplers(
    runs: Mapping[str, Traces],
    reference: Any,
    *,
    estimands: Mapping[str, Estimand] | None = None,
    over: str = "time",
    budget: float | None = None,
    baseline: str | None = None,
    standardize: bool = False,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    random_seed: int = 0,
    include_tuning: bool = True,
    clock: Mapping[str, Any] | None = None,
    warmup_seconds: Mapping[str, Any] | None = None,
) -> "pd.DataFrame":
    """Rank samplers by their risk at one budget of time, or of data.

    Parameters
    ----------
    runs
        Traces of each sampler by name, in any form that :func:`approxmcmc.as_trace` takes; every chain is one
        replicate, except that an ensemble is one.
    reference, estimands, over, confidence, n_bootstrap, random_seed, include_tuning
        As for :func:`approxmcmc.risk`. The risk is averaged over all coordinates of all estimands.
    budget
        Point of the axis at which runs are compared, per chain. Default: the largest that every replicate reached.
    baseline
        Name of the run that ``risk_ratio`` divides by; default the best.
    standardize
        Divide errors by the reference's posterior standard deviations first: risk is then in posterior variances, and
        1 / effective sample size for an unbiased sampler. Use it if coordinates have different scales.
    clock, warmup_seconds
        By the names of the runs whose traces do not record their seconds; as for :func:`approxmcmc.risk`.

    Returns
    -------
    pandas.DataFrame
        Indexed by name, best first. ``rank``; ``risk`` with ``risk_lower``, ``risk_upper``; ``risk_ratio``;
        ``bias_sq``; ``variance``; with the default estimands ``mean_error``, the largest error of a mean in posterior
        standard deviations, ``sd_ratio``, the standard deviation over the reference's where it is farthest from 1, and
        ``to_tenth_sd``, an estimate of the budget at which the typical error of a mean is a tenth of a posterior
        standard deviation, from bias and variance at `budget` (infinite if the bias is larger), with
        ``to_tenth_sd_lower`` and ``to_tenth_sd_upper``; ``ess_per_second`` (smallest bulk ESS of any coordinate, over
        all seconds of all chains); ``data_fraction`` and ``wrong_decision_rate`` as in
        :func:`approxmcmc.cost_summary`; ``seconds`` of all replicates; ``warning``, an empty text if all is well. The
        budget is in the table's ``attrs``. Where the
        cost of a run is unknown, or a draw is not finite, its risk is NaN, it has no rank, and the warning says why.

    Raises
    ------
    InvalidInputError, GoldStandardError
        As for :func:`approxmcmc.risk`.

    Notes
    -----
    R-hat and ESS describe how a chain moves in its own stationary distribution; they cannot see that this distribution
    is biased. With the default estimands, ``warning`` names means, standard deviations and tails (the share beyond two
    standard deviations) that differ from the reference by more than chance explains; all coordinates and runs of a
    table share one error rate, ``1 - confidence``. A high ``ess_per_second`` with a high ``bias_sq`` is a fast way to a
    wrong answer. Intervals are those of single runs, so whether they overlap says little about the order of two runs.

    Examples
    --------
    >>> amc.compare_samplers({"exact": exact, "epsilon=0.05": fast}, reference)  # doctest: +SKIP
    """
    import pandas as pd

    from approxmcmc.output.shown_table import ShownTable

    if isinstance(runs, xr.DataTree):
        raise InvalidInputError("compare_samplers: runs must be a dict of name -> trace or traces, found one DataTree")
    reference = as_reference(reference)
    options = [
        by_name(by_run, list(runs), what) for by_run, what in ((clock, "clock"), (warmup_seconds, "warmup_seconds"))
    ]
    as_given = {
        name: with_clocks(
            as_list(traces, what=f"runs[{name!r}]", like=reference), *(by_run[name] for by_run in options)
        )
        for name, traces in runs.items()
    }
    listed = {name: replicates(traces) for name, traces in as_given.items()}
    if not listed or (baseline is not None and baseline not in listed):
        raise InvalidInputError(f"`runs` needs at least one run, and the baseline among them; found {list(listed)}.")
    check_confidence(confidence)
    functions = _common(listed, reference) if estimands is None else resolve(estimands, next(iter(listed.values()))[0])
    clocks = {
        name: completion_clocks(traces, over, include_tuning) for name, traces in listed.items() if knows(traces, over)
    }
    if not clocks:  # this call raises an error that says what is missing
        completion_clocks(next(iter(listed.values())), over, include_tuning)
    budget = _common_budget(clocks, over) if budget is None else float(budget)
    rows = {}
    for name, traces in listed.items():
        has_clock = name in clocks
        own = clocks[name] if has_clock else [NEVER] * sum(group(trace, "posterior").sizes["chain"] for trace in traces)
        where = {"reference": reference, "clocks": own, "points": np.array([budget])}
        errors, gold = _all_errors(traces, functions, standardize=standardize, **where)
        resampling = resample(n_bootstrap, len(errors), len(gold.directions), random_seed)
        at_budget = {key: float(value[0]) for key, value in summarise(errors, gold, resampling, confidence).items()}
        spent = _seconds(traces, include_tuning)
        smallest_ess = _effective_draws(as_given[name], functions)
        how_wrong = None
        needed: dict[str, float] = {}
        if has_clock and estimands is None and not np.isnan(at_budget["risk"]):
            alike = aligned(traces, reference, functions)
            share = (1.0 - confidence) / len(listed)
            how_wrong = departures(*alike, clocks=own, budget=budget, rate=share)
            if not any(map(is_approximation, traces)):  # more time does not make a fitted distribution better
                sampled: dict[str, Any] = {"n_bootstrap": n_bootstrap, "random_seed": random_seed}
                seconds = to_tenth_sd(*alike, clocks=own, budget=budget, confidence=confidence, **sampled)
                needed = dict(zip(TO_TENTH_SD, seconds, strict=True))
        rows[name] = {
            **{key: at_budget[key] for key in ("risk", "risk_lower", "risk_upper", "bias_sq", "variance")},
            **{key: getattr(how_wrong, key, np.nan) for key in ("mean_error", "sd_ratio")},
            **{key: needed.get(key, np.nan) for key in TO_TENTH_SD},
            "ess_per_second": smallest_ess / spent if spent > 0 and not any(map(is_approximation, traces)) else np.nan,
            **_data_and_decisions(traces),
            "seconds": spent,
            "warning": f"its {over} is unknown" + "; pass clock=" * (over == "time")
            if not has_clock
            else _warnings(
                at_budget["risk"], float(np.mean(gold.mcse**2)), traces, how_wrong, clocks=own, budget=budget, over=over
            ),
        }
    table = pd.DataFrame.from_dict(rows, orient="index").sort_values("risk", kind="stable", na_position="last")
    ranks = pd.array(np.arange(1, len(table) + 1), dtype="Int64")
    ranks[table["risk"].isna().to_numpy()] = pd.NA
    table.insert(0, "rank", ranks.astype("int64") if table["risk"].notna().all() else ranks)
    divisor = table["risk"].iloc[0] if baseline is None else table.loc[baseline, "risk"]
    table.insert(4, "risk_ratio", table["risk"] / (divisor if divisor > 0 else np.nan))
    table.index.name = "sampler"
    table.attrs.update(budget=budget, over=over, confidence=confidence)
    shown = ShownTable(table)
    shown.attrs = table.attrs
    return shown


def _common_budget(clocks: Mapping[str, Sequence[Completions]], over: str) -> float:
    # A fitted distribution needs no more time after its fit, so the end of the fit is only a lower limit of the budget.
    ends = {name: min(max(clock.until, 0.0) for clock in run) for name, run in clocks.items()}
    if all(map(np.isinf, ends.values())):
        return max(float(clock.ends[0]) for run in clocks.values() for clock in run)
    shortest = min(ends, key=lambda name: ends[name])
    if ends[shortest] <= 0:
        raise InvalidInputError(
            f"No budget of {over!r} is common to all runs: {shortest!r} has no draws, or no cost. "
            "Leave that run out, or choose another `over`."
        )
    return float(ends[shortest])


def _all_errors(
    traces: Sequence[xr.DataTree],
    functions: Mapping[str, Estimand],
    *,
    standardize: bool,
    **where: Any,
) -> tuple[np.ndarray, Reference]:
    """Join the coordinates of all estimands into one axis: errors (replicate, 1, coordinate) and their reference.

    `where`: keyword arguments of `errors_of`.
    """
    errors_by_estimand = [errors_of(traces, name, function, **where) for name, function in functions.items()]
    errors = np.concatenate([error for error, _, _ in errors_by_estimand], axis=-1)
    golds = [gold for _, gold, _ in errors_by_estimand]
    mean, mcse, sd, directions = (np.concatenate(parts, axis=-1) for parts in zip(*golds, strict=True))
    if standardize:
        scale = np.where(sd > 0, sd, 1.0)
        errors = errors / scale
        mcse = mcse / scale
    return errors, Reference(mean, mcse, sd, directions)


def _common(listed: Mapping[str, Sequence[xr.DataTree]], reference: xr.DataTree) -> dict[str, Estimand]:
    """Return the variables that all runs and the reference have as estimands, with a warning that names the others."""
    having = {repr(name): [set(trace["posterior"].data_vars) for trace in traces] for name, traces in listed.items()}
    if isinstance(reference, xr.DataTree) and ("posterior" in reference.children or has_only_moments(reference)):
        having["the reference"] = [set(described(reference).data_vars)]
    common = set.intersection(*(variables for each in having.values() for variables in each))
    resolved = resolve(None, next(iter(listed.values()))[0])
    everywhere = {str(variable) for each in having.values() for variables in each for variable in variables}
    for variable in sorted(everywhere - set(map(str, common))):
        lacking = [name for name, each in having.items() if not all(variable in variables for variables in each)]
        who = f"{' and '.join(lacking)} lack{'s' * (len(lacking) == 1)}"
        warn(f"compare_samplers leaves out the variable {variable!r}, which {who}.", ApproxMCMCWarning)
    if not common:
        raise InvalidInputError(
            "compare_samplers needs a variable that all runs and the reference have; found "
            f"{ {name: sorted(map(str, set.union(*each))) for name, each in having.items()} }."
        )
    return {name: function for name, function in resolved.items() if name in common}


def _effective_draws(traces: Sequence[xr.DataTree], functions: Mapping[str, Estimand]) -> float:
    """Return the smallest bulk ESS over coordinates, all chains together.

    It is NaN if draws have weights or are not finite, a chain has fewer than four draws, or no coordinate moves.
    """
    shortest = min(group(trace, "posterior").sizes["draw"] for trace in traces)
    smallest = np.inf
    if shortest < 4 or any(weights_of(trace) is not None for trace in traces):
        return np.nan  # ESS needs four draws of equal weight
    for name, function in functions.items():
        values = np.concatenate([evaluate(name, function, trace).values[:, :shortest] for trace in traces])
        if not np.isfinite(values).all():
            return np.nan
        varying = np.ptp(values, axis=(0, 1)) > 0  # ESS of a constant would be the number of draws
        if varying.any():
            smallest = min(smallest, float(bulk_ess(values[..., varying]).min()))
    return smallest if np.isfinite(smallest) else np.nan


def _seconds(traces: Sequence[xr.DataTree], include_tuning: bool) -> float:
    total = 0.0
    for trace in traces:
        stats = group(trace, "sample_stats")
        total += float(stats["perf_counter_diff"].sum()) if "perf_counter_diff" in stats else np.nan
        tuning = tuning_totals(trace, "perf_counter_diff") if include_tuning else None
        total += 0.0 if tuning is None else float(np.sum(tuning))
    return total


def _data_and_decisions(traces: Sequence[xr.DataTree]) -> dict[str, float]:
    """Return ``data_fraction`` over all decisions of all traces, and ``wrong_decision_rate`` over all audits."""
    touched = [sums(trace, "datapoints_touched") for trace in traces]
    full = sum(float(full_data_reads(trace).sum()) for trace in traces)
    rates = [wrong_decision_rate(trace) for trace in traces]
    audited = sum(int(rate["decisions_audited"]) for rate in rates)
    wrong = sum(int(rate["wrong_decisions"]) for rate in rates)
    read = sum(np.nan if counts is None else float(counts.sum()) for counts in touched)
    return {
        "data_fraction": read / full if full > 0 else np.nan,
        "wrong_decision_rate": wrong / audited if audited else np.nan,
    }


def _warnings(
    risk: float,
    mcse_sq: float,
    traces: Sequence[xr.DataTree],
    how_wrong: Departures | None,
    *,
    clocks: Sequence[Completions],
    budget: float,
    over: str,
) -> str:
    sentences: list[Any] = [] if how_wrong is None else [*how_wrong.sentences]
    stuck = sum(_n_stuck(group(trace, "posterior")) for trace in traces)
    unknown = unknown_means(traces)
    if len(clocks) == 1 and not is_approximation(traces[0]):
        sentences.append("one replicate: bias and variance unknown")
    if unknown:
        sentences.append(f"{unknown}: averages are unknown from there on")
    elif np.isnan(risk):
        sentences.append(_why_unknown(clocks, budget, over))
    elif mcse_sq > _REFERENCE_SHARE * risk:
        sentences.append(f"reference too coarse: its squared error is {mcse_sq:.2g}")
    if stuck:
        n_chains = sum(group(trace, "posterior").sizes["chain"] for trace in traces)
        sentences.append(f"{stuck} of {n_chains} chains never moved")
    if sentence := copies_of(traces):
        sentences.append(f"{sentence}: copies are one replicate, and variance and intervals are too small")
    stops = {str(group(trace, "sample_stats").attrs.get("stopped", "")) for trace in traces}
    sentences.extend(f"stopped: {stop}" for stop in sorted(stops & {"failure", "interrupt"}))
    return "; ".join(sentences)


def _why_unknown(clocks: Sequence[Completions], budget: float, over: str) -> str:
    """Return why some chain has no average at the budget: it has no draw yet, or ended before."""
    unit = AXES[over][1].replace("1", "data")
    last_start = max(float(clock.ends[0]) if len(clock.ends) else np.inf for clock in clocks)
    if np.isinf(last_start):
        return "a chain has no draw"
    if last_start > budget:
        return (
            f"no draw within the budget of {budget:.3g} {unit}: the last chain has its first draw after "
            f"{last_start:.3g} {unit}; give all runs as much, or pass a larger `budget`"
        )
    first_end = min(clock.until for clock in clocks)
    return f"a chain ended after {first_end:.3g} {unit}, before the budget of {budget:.3g} {unit} was used"


def _n_stuck(posterior: xr.Dataset) -> int:
    """Return the number of chains that never moved; a chain of one draw cannot move."""
    return int((share_of_moves(posterior) == 0.0).sum()) if posterior.sizes["draw"] > 1 else 0
