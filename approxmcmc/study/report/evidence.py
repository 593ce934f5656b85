"""The numbers behind the page, computed once: risk curves, risk at each budget, ratios to the baseline, departures.

Ratios are formed inside blocks: replicate r of every setting ran in block r, close in time and on the same machine, so
the bootstrap draws whole blocks. With f_r the running mean of replicate r, f* the reference and e its standard error,

    risk = mean_r (f_r - f*)^2 - e^2,        ratio = risk(setting) / risk(exact),

for each coordinate of an estimand or, if `average_over` names the estimand, averaged over them before the ratio is
taken. The first estimand of a page is the average over all coordinates of all estimands, each error in posterior
standard deviations of its estimand: a risk of 1/n is that of n independent draws.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance.stored import stored_test
from approxmcmc.diagnostics.bootstrap import Resampling, draws_at, resample
from approxmcmc.diagnostics.estimands import Reference, evaluate_reference, resolve
from approxmcmc.diagnostics.moments import described, has_only_moments
from approxmcmc.diagnostics.records import leaves_invariant
from approxmcmc.diagnostics.risk import coordinate, summarise
from approxmcmc.diagnostics.running import Completions, completion_clocks, knows, running_means
from approxmcmc.diagnostics.standard import departures
from approxmcmc.diagnostics.traces import aligned
from approxmcmc.study.declare import Declaration, estimands_of, is_averaged
from approxmcmc.study.report.clocks import PageClock, cells_seconds, clock_of, is_foreign, wait
from approxmcmc.study.report.intervals import LEAST_REPLICATES, NOTHING, Interval
from approxmcmc.study.report.scores import ALL_ESTIMANDS, CONFIDENCE, STANDARD, WITHOUT_TAILS, Scores

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from approxmcmc.study.results import StudyResults

BOOTSTRAPS = 2000
RATE = 1.0 - CONFIDENCE  # share of pages with a difference that is due to chance
GRID_POINTS = 30
LONG = 300.0  # seconds: chains as long as this have a fourth budget, so that their pages start at about a second, too
MANY = 10**6  # data: a test that reads so many in one look always reads all, whatever its settings
QUANTITIES = ("risk", "bias_sq", "variance")


@dataclasses.dataclass(frozen=True, eq=False)
class Contest(Scores):
    """The settings that sampled one target, judged against its gold standard.

    Parameters
    ----------
    target, exact, at_budgets
        As in :class:`~approxmcmc.study.report.scores.Scores`.
    traces
        One-chain traces of every setting, in replicate order; settings in the order of the plan.
    reference
        The gold standard, or None: then the tables are empty.
    clock
        What the seconds of the curves and budgets are.
    budgets
        Three times in seconds; the last is the longest that every chain reached.
    """

    traces: Mapping[str, Sequence["xr.DataTree"]]
    reference: "xr.DataTree | None"
    clock: PageClock
    budgets: np.ndarray


@functools.lru_cache(maxsize=2)
def gather(results: "StudyResults") -> list[Contest]:
    """Return the contest of every target with a finished cell; cached for later analyses."""
    by_target: dict[str, dict[str, Sequence[xr.DataTree]]] = {}
    for (target, label), traces in results.traces().items():
        usable = [trace for trace in traces if trace["posterior"].sizes["draw"]]
        if usable and len(usable) == len(traces):
            by_target.setdefault(target, {})[label] = usable
    return [contest_of(results, target, traces) for target, traces in by_target.items()]


def contest_of(results: "StudyResults", target: str, traces: Mapping[str, Sequence["xr.DataTree"]]) -> Contest:
    """Compare the settings of one target."""
    import pandas as pd

    reference = results.reference(target)
    exact = baseline_of(results.study, traces)
    clock = clock_of(results)
    clocks = {label: completion_clocks(runs, clock.axis, True) for label, runs in traces.items()}
    longest = _longest(clocks.values())
    budgets = longest * 10.0 ** np.arange(-3.0 if longest > LONG else -2.0, 1.0)
    if reference is None:
        return Contest(target, exact, pd.DataFrame(), traces, None, clock, budgets, clock_name=clock.name)
    if has_only_moments(reference):  # its labels may be those of another library
        names = list(map(str, described(reference).data_vars))
        traces = {label: aligned(runs, reference, names)[0] for label, runs in traces.items()}
    replicates = {label: done_replicates(results, target, label, len(runs)) for label, runs in traces.items()}
    planned = results.records[results.records.target == target].groupby("label").size()
    judge = _Judge.of(results.study, traces, reference)
    own_ends = _own_ends(clocks)
    grids = {label: _grid(end) for label, end in own_ends.items()}
    over_time = judge.errors({label: np.union1d(grid, budgets) for label, grid in grids.items()}, clocks, "time")
    counted = {label: runs for label, runs in traces.items() if knows(runs, "datapoints_touched")}
    touched = {label: completion_clocks(runs, "datapoints_touched", True) for label, runs in counted.items()}
    ends = {label: _grid(_longest([listed])) for label, listed in touched.items()}
    over_data = judge.errors(ends, touched, "datapoints_touched")
    at_budgets = [errors.at(budgets) for errors in over_time]
    foreign = any(map(is_foreign, traces.values()))
    longest_waits = {label: wait(cells_seconds(results, target, label, runs, clock)) for label, runs in traces.items()}
    waits = {label: seconds for label, seconds in longest_waits.items() if not math.isnan(seconds)}
    stuck = {label: sum(map(is_stuck, runs)) for label, runs in traces.items()}
    rows = []
    for errors in at_budgets:
        rival = next((e for e in at_budgets if (e.setting, e.estimand) == (exact, errors.estimand)), None)
        for k, row in enumerate(errors.rows()):
            ratio = NOTHING if rival is None else block_ratio(errors, rival, replicates, k)
            chains = {
                "replicates": len(errors.values),
                "planned": int(planned[errors.setting]),
                "drawn": sum(bool(clock.ends[0] <= row["time"]) for clock in clocks[errors.setting]),
                "stuck": stuck[errors.setting],
            }
            rows.append(row | ratio.columns("ratio") | chains)
    return Contest(
        target,
        exact,
        pd.DataFrame(rows),
        traces,
        reference,
        clock,
        budgets,
        over_time=pd.DataFrame([row for errors in over_time for row in errors.at(grids[errors.setting]).rows()]),
        over_data=pd.DataFrame([row for errors in over_data for row in errors.rows()]),
        clock_name=clock.name,
        waits=waits if foreign else {},
        departures=_departures(traces, reference, clocks, longest, RATE / len(results.study.targets)),
        gold_draws=draws_of(reference),
    )


def _departures(
    traces: Mapping[str, Sequence["xr.DataTree"]],
    reference: "xr.DataTree",
    clocks: Mapping[str, Sequence[Completions]],
    budget: float,
    rate: float,
) -> "pd.DataFrame":
    """Return a row per setting: how far means, spreads and tails are from the gold standard, as `compare_samplers`.

    The sentences on all settings together are due to chance with probability `rate`.
    """
    import pandas as pd

    names = list(map(str, described(reference).data_vars))
    rows = []
    for label, runs in traces.items():
        if not all(set(names) <= set(run["posterior"].data_vars) for run in runs):
            continue
        errors = departures(
            *aligned(runs, reference, names), clocks=clocks[label], budget=budget, rate=rate / len(traces)
        )
        enough = len(clocks[label]) >= LEAST_REPLICATES
        half = errors.mean_error_limit if enough else math.nan
        mean = Interval(errors.mean_error, errors.mean_error - half, errors.mean_error + half)
        ends = (errors.sd_ratio_lower, errors.sd_ratio_upper) if enough else (math.nan, math.nan)
        spread = Interval(errors.sd_ratio, *ends)
        rows.append(
            {"setting": label}
            | (mean.columns("mean_error") | {"mean_at": errors.mean_at})
            | (spread.columns("sd_ratio") | {"sd_at": errors.sd_at})
            | {"differs": "; ".join(errors.sentences) if enough else ""}
        )
    return pd.DataFrame(rows)


def draws_of(reference: "xr.DataTree") -> int:
    """Return the number of draws of a gold standard, all chains together; 0 if it has only moments."""
    if has_only_moments(reference):
        return 0
    sizes = reference["posterior"].sizes
    return int(sizes["chain"] * sizes["draw"])


@dataclasses.dataclass(frozen=True)
class Errors:
    """Errors of running means: values (replicate, point, coordinate) of one setting and one estimand label."""

    setting: str
    estimand: str
    axis: str
    points: np.ndarray
    values: np.ndarray
    gold: Reference

    def at(self, points: np.ndarray) -> "Errors":
        """Return the errors at some of the grid points."""
        kept = np.searchsorted(self.points, points)
        return dataclasses.replace(self, points=self.points[kept], values=self.values[:, kept])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield risk, squared bias and variance with their intervals, one row per point."""
        resampling = resample(BOOTSTRAPS, len(self.values), len(self.gold.directions), 0)
        summary = summarise(self.values, self.gold, resampling, CONFIDENCE)
        if len(self.values) < LEAST_REPLICATES:
            summary |= {name: np.full(len(self.points), math.nan) for name in summary if name not in QUANTITIES}
        for k, point in enumerate(self.points):
            row: dict[str, Any] = {"setting": self.setting, "estimand": self.estimand, self.axis: float(point)}
            for name in QUANTITIES:
                row |= Interval(*(float(summary[f"{name}{end}"][k]) for end in ("", "_lower", "_upper"))).columns(name)
            yield row | {"floor": float(np.mean(self.gold.mcse**2))}


@dataclasses.dataclass
class _Judge:
    """The estimands of one target: evaluates the gold standard once, and every trace once per axis."""

    traces: Mapping[str, Sequence["xr.DataTree"]]
    functions: Mapping[str, Any]
    reference: "xr.DataTree"
    averaged: Mapping[str, bool]
    together: str
    golds: dict[str, Reference] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls, study: Declaration, traces: Mapping[str, Sequence["xr.DataTree"]], reference: "xr.DataTree"
    ) -> "_Judge":
        functions = resolve(estimands_of(study, reference), next(iter(traces.values()))[0])
        averaged = {name: is_averaged(study, name) for name in functions}
        standard = WITHOUT_TAILS if has_only_moments(reference) else STANDARD
        return cls(traces, functions, reference, averaged, ALL_ESTIMANDS if study.estimands else standard)

    def errors(
        self, points: Mapping[str, np.ndarray], clocks: Mapping[str, Sequence[Completions]], axis: str
    ) -> list[Errors]:
        """Return the errors of all settings, estimand by estimand; first those of all estimands together."""
        pieces: dict[str, list[Errors]] = {self.together: []}
        for label, grid in points.items():
            standardized = []
            for name, function in self.functions.items():
                running = running_means(self.traces[label], name, function, clocks[label], grid)
                if name not in self.golds:
                    self.golds[name] = evaluate_reference(name, function, self.reference, running.layout)
                gold = self.golds[name]
                values = running.means - gold.mean
                standardized.append(_in_sds(values, gold))
                parts = [(name, values, gold)]
                if not self.averaged[name]:
                    parts = [
                        (coordinate_name, *coordinate(values, gold, k))
                        for k, coordinate_name in enumerate(running.layout.labels)
                    ]
                for estimand, part, own in parts:
                    pieces.setdefault(estimand, []).append(Errors(label, estimand, axis, grid, part, own))
            values, gold = _joined(standardized)
            pieces[self.together].append(Errors(label, self.together, axis, grid, values, gold))
        return [errors for listed in pieces.values() for errors in listed]


def _in_sds(values: np.ndarray, gold: Reference) -> tuple[np.ndarray, Reference]:
    """Return errors (replicate, point, coordinate) and the gold standard in posterior standard deviations."""
    scale = np.where(gold.sd > 0.0, gold.sd, 1.0)
    return values / scale, gold._replace(mean=gold.mean / scale, mcse=gold.mcse / scale, sd=gold.sd / scale)


def _joined(parts: Sequence[tuple[np.ndarray, Reference]]) -> tuple[np.ndarray, Reference]:
    """Join the coordinates of several estimands."""
    values = np.concatenate([values for values, _ in parts], axis=-1)
    return values, Reference(*(np.concatenate(arrays, axis=-1) for arrays in zip(*(g for _, g in parts), strict=True)))


def _longest(clocks: Iterable[Sequence[Completions]]) -> float:
    """Return the longest time that every replicate reached; if all are fits, twice the end of the slowest one."""
    listed = [clock for each in clocks for clock in each]
    end = min(clock.until for clock in listed)
    return 2.0 * max(float(clock.ends[0]) for clock in listed) if math.isinf(end) else end


def _own_ends(clocks: Mapping[str, Sequence[Completions]]) -> dict[str, float]:
    """Return the longest time that every replicate of each setting reached; a fit has the end of the slowest setting.

    With a budget in draws the settings end at different times.
    """
    ends = {label: min(clock.until for clock in listed) for label, listed in clocks.items()}
    finite = [end for end in ends.values() if not math.isinf(end)]
    of_fits = max([_longest(clocks.values()), *finite])
    return {label: of_fits if math.isinf(end) else end for label, end in ends.items()}


def _grid(end: float) -> np.ndarray:
    grid = np.geomspace(end / 100.0, end, GRID_POINTS)
    grid[-1] = end  # exactly: the risk is undefined beyond the end of the shortest chain
    return grid


def baseline_of(study: Declaration, traces: Mapping[str, Sequence["xr.DataTree"]]) -> str | None:
    """Return the setting that others are compared with: the study's `baseline`, else an exact one; None for none."""
    return study.baseline if study.baseline in traces else exact_setting(traces)


def exact_setting(traces: Mapping[str, Sequence["xr.DataTree"]]) -> str | None:
    """Return the setting that is exact; of several, one with the fewest looks at data in a decision; None for none.

    Chains that never moved are no standard to compare others with.
    """
    looks = {}
    for label, runs in traces.items():
        if all(map(is_stuck, runs)):
            continue
        attrs = runs[0]["posterior"].attrs
        settings = json.loads(attrs["inference_library_settings"])
        if leaves_invariant(attrs, settings):
            test = stored_test(settings)
            looks[label] = MANY if test is None else len(test.looks(MANY)) or MANY
    return min(looks, key=looks.__getitem__, default=None)


def is_stuck(trace: "xr.DataTree") -> bool:
    """Return whether all draws of a chain are equal; a chain of one draw cannot move."""
    variables = list(trace["posterior"].data_vars.values())
    has_steps = trace["posterior"].sizes.get("draw", 0) > 1
    return has_steps and all(bool((draws == draws.isel(draw=0)).all()) for draws in variables)


def done_replicates(results: "StudyResults", target: str, label: str, count: int) -> list[int]:
    """Return the replicate numbers of a setting's finished cells; 0 to `count` - 1 if the cells are not `count`."""
    records = results.records
    rows = records[(records.target == target) & (records.label == label) & (records.status == "done")]
    numbers = sorted(int(r) for r in rows.replicate)
    return numbers if len(numbers) == count else list(range(count))


# --- ratios ---


def block_ratio(top: Errors, bottom: Errors, replicates: Mapping[str, Sequence[int]], k: int) -> Interval:
    """Return the ratio of two settings' risks at grid point k and its interval, over the blocks that both finished."""
    common = sorted(set(replicates[top.setting]) & set(replicates[bottom.setting]))
    a, b = (
        errors.values[[list(replicates[errors.setting]).index(block) for block in common], k]
        for errors in (top, bottom)
    )
    return paired_ratio(a, b, top.gold, resample(BOOTSTRAPS, max(len(common), 1), len(top.gold.directions), 0))


def paired_ratio(a: np.ndarray, b: np.ndarray, gold: Reference, resampling: Resampling) -> Interval:
    """Return the ratio of two risks and its bootstrap interval, resampling the same blocks of both.

    A risk that is not above the squared error of the gold standard is known only to be small. One end of the interval
    is then 0 or infinite, and in the value that risk counts as the squared error, so the value is a bound too.
    NaN if neither risk is above the error; with fewer than `LEAST_REPLICATES` blocks only the interval is NaN.

    Parameters
    ----------
    a, b
        Errors of the running means in numerator and denominator, shape (block, coordinate), row r from the same block.
    gold
        The reference; its error affects both risks alike.
    resampling
        Bootstrap weights of the blocks and of the reference, from `approxmcmc.diagnostics.bootstrap.resample`.
    """
    if len(a) == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return NOTHING
    floor = float(np.mean(gold.mcse**2))
    top = float(np.mean(a**2)) - floor
    bottom = float(np.mean(b**2)) - floor
    if max(top, bottom) <= 0.0:
        return NOTHING  # both are below the error of the gold standard
    ratio = (top if top > 0.0 else floor) / (bottom if bottom > 0.0 else floor)
    if len(a) < LEAST_REPLICATES:
        return Interval(ratio, math.nan, math.nan)
    shifts = gold.mcse * gold.directions
    above = draws_at(a, shifts, resampling)[-1]
    below = draws_at(b, shifts, resampling, beside=a)[-1]
    ratios = np.where(below > 0.0, np.maximum(above, 0.0) / np.where(below > 0.0, below, 1.0), math.inf)
    tail = (1.0 - CONFIDENCE) / 2.0
    lower, upper = np.quantile(ratios, [tail, 1.0 - tail], method="nearest")
    if top <= 0.0:
        return Interval(min(ratio, float(upper)), 0.0, float(upper))
    if bottom <= 0.0:
        return Interval(max(ratio, float(lower)), float(lower), math.inf)
    return Interval(ratio, float(lower), float(upper))
