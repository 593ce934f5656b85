"""Tables of numbers: risk at each budget, failures counted as infinite, cost, seconds, convergence diagnostics."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.diagnostics.records import stat_attribute
from approxmcmc.study.measures import ratio_of_sums
from approxmcmc.study.report.census import numbers
from approxmcmc.study.report.clocks import cells_seconds, draws_timed
from approxmcmc.study.report.evidence import Contest, is_stuck
from approxmcmc.study.report.families import FEW
from approxmcmc.study.report.intervals import (
    NOTHING,
    Interval,
    median_range,
    proportion_interval,
    rate_interval,
    share_interval,
)
from approxmcmc.study.report.pieces import Table
from approxmcmc.study.report.predictions import Prediction, predict_setting
from approxmcmc.study.report.scores import DEPARTURES, ROUNDING, Scores

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from approxmcmc.study.results import StudyResults


PART = 0.5  # share of the data

# --- risk ---


def risk_table(scores: Scores) -> Table:
    """Tabulate risk, bias², variance and the ratio to the exact setting at each budget.

    More than ten settings are sorted by risk, fewer stay in the order of the study.
    """
    ranked = len(scores.settings) > FEW
    order = ["time", "estimand", "risk"] if ranked else ["time"]  # with many settings, the best ones come first
    sort_keys = {"estimand": lambda column: column.map(scores.estimands.index)}
    data = (
        scores.of_moving(scores.at_budgets)
        .dropna(subset="risk")
        .sort_values(
            order,
            ascending=[name != "time" for name in order],
            kind="stable",
            ignore_index=True,
            key=lambda column: sort_keys.get(column.name, lambda same: same)(column),
        )
    )
    rounding = data.variance_upper < ROUNDING * data.bias_sq.abs()  # a fitted distribution is the same in every chain
    data.loc[rounding, ["variance", "variance_lower", "variance_upper"]] = 0.0
    delivered = [f"{n:.0f}/{planned:.0f}" for n, planned in zip(data.replicates, data.planned, strict=True)]
    data.insert(3, "n/R", delivered)
    data = data.drop(columns=["replicates", "planned", "drawn", "stuck"], errors="ignore")
    what = ""
    if len(scores.estimands) == 1:
        data = data.drop(columns="estimand")
        what = f" Estimand: {scores.estimands[0]}."
    if scores.exact is None:
        data = data.drop(columns=["ratio", "ratio_lower", "ratio_upper"], errors="ignore")
    else:
        what += f" Ratio: risk over that of {scores.exact}, the baseline, formed within blocks, paired bootstrap."
    return Table(
        f"Risk at each budget, {scores.target}",
        "Estimates with 95 % bootstrap intervals over replicates; n/R: replicates that finished, of those "
        f"planned.{what} "
        "A negative bias² is an unbiased estimate of a value near zero. Floor: squared standard error of the gold "
        "standard. A setting is missing at a time at which a replicate has no draw, or if its chains never moved. A "
        "risk that does not exceed the floor bounds a ratio on one side only. Each interval is for one number: the "
        "verdicts widen it for all comparisons of the page, so a ratio whose interval here excludes 1 may be "
        "undecided. From five to eight replicates about 91 to 95 % of such intervals hold the true value.",
        data,
        headings={"bias_sq": "bias²", "time": "time (s)", "ratio": "ratio to baseline"},
    )


def departures_table(scores: Scores) -> Table | None:
    """Tabulate how far means and spreads of each setting are from the gold standard at the last budget."""
    if scores.departures is None or scores.departures.empty:
        return None
    departures = scores.of_moving(scores.departures)
    return Table(
        f"{DEPARTURES}, {scores.target}",
        f"From the draws of {scores.times[-1]:.3g} s of a chain, over all coordinates of all parameters. Largest error "
        "of a mean, in posterior standard deviations; posterior standard deviation over that of the gold standard, "
        "where it is farthest from 1. Differences that chance does not explain, and intervals: all coordinates, "
        "quantities and settings of the page share an error rate of 5 %, which is apart from that of the comparisons. "
        "A setting whose chains never moved is left out.",
        departures,
        headings={
            "mean_error": "error of a mean (sd)",
            "mean_at": "of",
            "sd_ratio": "sd / gold standard",
            "sd_at": "of ",
            "differs": "differs beyond chance",
        },
        formats={"mean_error": "+.3f", "sd_ratio": ".3f"},
    )


def sensitivity_table(contest: Contest) -> Table:
    """Tabulate the risk at the last budget over finished cells, and with the risk of failed cells as infinite."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    last = contest.at_budgets[contest.at_budgets.time == contest.budgets[-1]]
    for row in last.itertuples():
        complete = row.replicates >= row.planned
        counted = Interval(row.risk, row.risk_lower, row.risk_upper) if complete else Interval(*[math.inf] * 3)
        rows.append(
            {"setting": row.setting, "estimand": row.estimand, "delivered": f"{row.replicates} of {row.planned}"}
            | Interval(row.risk, row.risk_lower, row.risk_upper).columns("risk of the delivered")
            | counted.columns("risk, failures infinite")
        )
    return Table(
        f"Failures counted as infinite risk, {contest.target}",
        f"At {contest.budgets[-1]:.3g} s. A setting with a failed replicate has infinite mean risk here, whatever the "
        "reason; the other column averages over the replicates that finished.",
        pd.DataFrame(rows).drop(columns="estimand" if len(contest.estimands) == 1 else []),
    )


# --- cost ---


def over_targets(by_target: Mapping[str, Table]) -> Table:
    """Join the tables of all targets into one; if there are several targets, a column names them."""
    import pandas as pd

    target, first = next(iter(by_target.items()))
    if len(by_target) == 1:
        return first
    rows = pd.concat({name: table.data for name, table in by_target.items()}, names=["target"])
    data = rows.reset_index("target").reset_index(drop=True)
    return dataclasses.replace(first, title=first.title.removesuffix(f", {target}"), data=data)


def cost_table(results: "StudyResults", contest: Contest) -> Table:
    """Tabulate data per decision, decisions per second and wrong decisions, measured and predicted by the recursion."""
    import pandas as pd

    target = results.target(contest.target)
    samplers = {
        row.label: row.sampler for row in results.records[results.records.target == contest.target].itertuples()
    }
    rows = []
    for label, traces in contest.traces.items():
        fractions = [
            ratio_of_sums(trace, "datapoints_touched", "decisions_made") / stat_attribute(trace, "n_obs", target.n_obs)
            for trace in traces
        ]
        speeds = [ratio_of_sums(trace, "decisions_made", contest.clock.record) for trace in traces]
        audited = total(traces, "decisions_audited")
        wrong = total(traces, "wrong_decisions")
        prediction = _prediction(target, traces, samplers.get(label))
        row: dict[str, Any] = {"setting": label}
        rows.append(
            row
            | share_interval(fractions).columns("data per decision")
            | (prediction.data_fraction if prediction else NOTHING).columns("predicted data")
            | rate_interval(speeds).columns("decisions per second")
            | share_interval([ratio_of_sums(trace, "accepted", "draw") for trace in traces]).columns("acceptance")
            | {"audited": audited}
            | proportion_interval(wrong, audited).columns("wrong decisions")
            | (prediction.wrong_rate if prediction else NOTHING).columns("predicted wrong")
        )
    percent = dict.fromkeys(["data per decision", "predicted data", "acceptance"], ".1%")
    return Table(
        f"Cost of a decision, {contest.target}",
        "Data read: share of the data that one accept/reject decision reads. Intervals: Student over "
        "replicates, Clopper-Pearson for wrong decisions (audits decide the same proposal with the same u on all data; "
        "their time is not counted). Predicted: the recursion of Korattikara, Chen and Welling at (log ratio, scale) "
        "pairs from the chains' own draws, with the interval of the mean over pairs; blank for a test to which the "
        "recursion does not apply. Data read include those of the proposal, such as of a gradient; the prediction "
        "has those of the test alone.",
        pd.DataFrame(rows),
        headings={
            "data per decision": "data read",
            "predicted data": "predicted",
            "decisions per second": "decisions/s",
            "wrong decisions": "wrong",
            "predicted wrong": "predicted",
        },
        formats=percent | {"wrong decisions": ".2%", "predicted wrong": ".2%"},
    )


def tells_costs(costs: "pd.DataFrame") -> bool:
    """Return whether a table of costs is about subsampling: some setting is audited, or reads a part of the data."""
    return bool((costs["audited"] > 0).any() or (costs["data per decision"] < PART).any())


def _prediction(target: Any, traces: Sequence["xr.DataTree"], sampler: Any) -> Prediction | None:
    return predict_setting(target, traces, sampler) if isinstance(sampler, Mapping) else None


def seconds_table(results: "StudyResults", contest: Contest) -> Table:
    """Tabulate the seconds of a cell: compilation, set-up, tuning, sampling."""
    import pandas as pd

    records = results.records
    rows = []
    for label, traces in contest.traces.items():
        done = records[(records.target == contest.target) & (records.label == label) & (records.status == "done")]
        cells = cells_seconds(results, contest.target, label, traces, contest.clock)
        rows.append(
            {"setting": label, "cells": len(done), "draws timed": draws_timed(traces)}
            | median_range([cell.compilation for cell in cells]).columns("compilation")
            | median_range([cell.setup for cell in cells]).columns("set-up")
            | median_range([cell.tuning for cell in cells]).columns("tuning")
            | median_range([cell.sampling for cell in cells]).columns("sampling")
            | median_range(numbers(done.wall_seconds)).columns("whole cell, wall")
            | median_range(numbers(done.cpu_seconds)).columns("whole cell, CPU")
        )
    return Table(
        f"Seconds per cell, {contest.target}",
        f"Median [smallest, largest] over cells, in {contest.clock.name} seconds but for the column that is named "
        "after the wall clock. Only tuning (warm-up, or the fit of a distribution) and sampling are on the clock of "
        "the risk curves. Set-up: the rest of the cell. Compilation is a part of it, as large as the sampler states, "
        "and at most all of it: a library states in each cell what it compiled for in the first cell of a process. A "
        "chain ends at its limit on the clock that its sampler reads: on a busy machine one that reads the wall clock "
        "has fewer processor seconds.",
        pd.DataFrame(rows),
        formats=dict.fromkeys(["compilation", "set-up"], ".3f")
        | dict.fromkeys(["tuning", "sampling", "whole cell, wall", "whole cell, CPU"], ".2f"),
    )


# --- diagnostics that cannot see bias ---


def convergence_table(contest: Contest) -> Table:
    """Tabulate R-hat and effective sample size of every setting, with its replicates as the chains."""
    import arviz_stats as az
    import pandas as pd

    rows = []
    for label, traces in contest.traces.items():
        shortest = min(trace["posterior"].sizes["draw"] for trace in traces)
        row: dict[str, Any] = {"setting": label, "chains": len(traces), "draws": shortest - shortest // 2}
        if all(map(is_stuck, traces)):
            row["R-hat"] = "stuck"
        elif row["draws"] >= 4:
            draws = np.stack([_flat(trace)[shortest // 2 : shortest] for trace in traces])
            row |= median_range(az.rhat(draws)).columns("R-hat")
            row |= median_range(az.ess(draws, method="bulk")).columns("bulk ESS")
            row |= median_range(az.ess(draws, method="tail", prob=(0.05, 0.95))).columns("tail ESS")
        rows.append(row)
    return Table(
        f"R-hat and effective sample size, {contest.target}",
        "Each replicate counts as a chain; draws: the second half of the shortest chain, of which as many are taken of "
        "each; median [smallest, largest] over parameters. Stuck: the chains never moved.",
        pd.DataFrame(rows),
        formats={"R-hat": ".3f", "bulk ESS": ",.0f", "tail ESS": ",.0f"},
    )


def _flat(trace: "xr.DataTree") -> np.ndarray:
    """Return the draws of a one-chain trace, shape (draw, parameter)."""
    posterior = trace["posterior"].to_dataset().transpose("chain", "draw", ...)
    arrays = [posterior[name].values[0] for name in posterior.data_vars]
    return np.concatenate([values.reshape(len(values), -1) for values in arrays], axis=1)


# --- small readers ---


def total(traces: Sequence["xr.DataTree"], name: str) -> int:
    """Return the sum of a count over all draws of all traces; a trace without this count adds 0."""
    return int(sum(int(trace["sample_stats"][name].sum()) for trace in traces if name in trace["sample_stats"]))
