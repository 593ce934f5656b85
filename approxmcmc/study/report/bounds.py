"""Verdicts on error bounds: each bound that the study declares, checked on its finished cells."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from approxmcmc.diagnostics.moments import has_only_moments
from approxmcmc.study.report.cache import cached_pieces
from approxmcmc.study.report.pieces import Figure, Note, Section, Table
from approxmcmc.study.report.svg import literal, subplots

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from approxmcmc.study.results import StudyResults

RULES = (
    "A verdict compares a bound with the interval of the distance: PASS if the upper limit is at most the bound, FAIL "
    "if the lower limit exceeds it, otherwise INCONCLUSIVE; no bound if a contraction coefficient is 1 or unknown. The "
    "label says how much a verdict means: the bound is rigorous, a theorem given premises that were checked, "
    "heuristic, vacuous (1 or more, so it always passes), or not applicable. Each interval holds at 95 % on its own, "
    "not all of a page together."
)
TITLES = {
    "b1": "B1, Theorem 1: delta / (1 - eta_1)",
    "b2": "B2, multi-step",
    "b3": "B3, summed",
    "b4": "B4, average-case",
    "b5": "B5, Mitrophanov",
    "b1_delta_max": "B1 with D Delta_max",
    "b2_delta_max": "B2 with D Delta_max",
    "b3_delta_max": "B3 with D Delta_max",
    "b5_delta_max": "B5 with D Delta_max",
    "w2": "W2, Wasserstein, multi-step",
    "w4": "W4, Wasserstein, average-case",
}
SHORT = {
    "b1": "Theorem 1 (B1)",
    "b2": "multi-step (B2)",
    "b3": "summed (B3)",
    "b4": "average (B4)",
    "b5": "Mitrophanov (B5)",
}
SHORT |= {f"{name}_delta_max": f"{SHORT[name]}, largest error" for name in ("b1", "b3")}
HEADINGS = {
    "tv": "distance (TV)",
    "label_tv": "label of the distance",
    "delta": "one-step error",
    "e_delta": "one-step error, average",
    "delta sqrt(N)": "one-step error times √N",
    "delta_max": "largest error of a decision",
    "label_delta_max": "label of the largest error",
    **SHORT,
    **{f"{name} / truth": f"{title} / distance" for name, title in SHORT.items()},
}


def headings_of(frame: "pd.DataFrame") -> dict[str, str]:
    """Return headings in words for the columns of a table of bounds; columns without one keep their names."""
    return {name: HEADINGS[name] for name in frame.columns if name in HEADINGS}


def bounds_section(results: "StudyResults") -> list[Section]:
    """Return the verdicts on the bounds that the study declares; empty if it declares none."""
    if not results.study.bounds:
        return []
    pieces = cached_pieces(results, "bounds", verdicts)
    text = (RULES, *(piece.text for piece in pieces if isinstance(piece, Note)))
    return [Section("Error bounds", text, pieces=tuple(piece for piece in pieces if not isinstance(piece, Note)))]


def verdicts(results: "StudyResults") -> Iterator[Figure | Table | Note]:
    """Yield for each bound that the study declares a note and, if a cell is done, a figure and two tables."""
    for name in results.study.bounds:
        check = checked(results, name)
        if check is None:
            yield Note(f"{name}: no cell is done yet.")
            continue
        yield Note(summary(name, check))
        yield from _figure(name, check)
        yield _table(name, check)
        yield _ingredients(name, check)
        yield from _premises(name, check)


def checked(results: "StudyResults", name: str) -> "xr.DataTree | None":
    """Return the result of `check_bound` for a declared bound, on the finished cells; None if there are none."""
    from approxmcmc.bounds import check_bound

    options = dict(results.study.bounds[name])
    target = options.pop("target")
    sampler = options.pop("sampler")
    knob = options.pop("knob", "epsilon")
    finished = results.traces()
    settings = {
        setting.knobs[knob]: setting
        for setting in results.study.settings()
        if setting.sampler_name == sampler and knob in setting.knobs and (target, setting.label) in finished
    }
    if not settings:
        return None
    traces = {value: finished[target, setting.label] for value, setting in settings.items()}
    reference = results.reference(target)
    draws = None if has_only_moments(reference) else reference  # a distance needs draws
    options = {"reference": draws, "random_seed": results.study.seed, "progressbar": False} | {
        key: value(results) if callable(value) else value for key, value in options.items()
    }
    samplers = {value: settings[value].sampler for value in sorted(settings)}
    return check_bound(results.target(target), samplers, knob=knob, traces=traces, **options)


def summary(name: str, check: "xr.DataTree") -> str:
    """Return a paragraph: how many bounds have each verdict and label, and where distances and bounds come from."""
    import collections

    columns = (check.dataset[key].to_numpy().ravel() for key in ("verdict", "label", "value"))
    counted = collections.Counter(
        (str(verdict), str(label)) for verdict, label, value in zip(*columns, strict=True) if value != 0.0
    )
    words = ", ".join(
        f"{count} {verdict}" + ("" if verdict == "no bound" else f" ({label})")
        for (verdict, label), count in sorted(counted.items())
    )
    return f"{name}: {words}. Distance: {check.attrs['distance_source']}. Bounds from {check.attrs['route']}."


def _table(name: str, check: "xr.DataTree") -> Table:
    from approxmcmc.bounds import check_table

    frame = check_table(check)
    knob = check.attrs["knob"]
    frame = frame[frame["value"] > 0.0].assign(
        bound=lambda rows: [TITLES[str(bound)] for bound in rows["bound"]],
    )[[knob, "bound", "distance", "distance_lower", "distance_upper", "value", "label", "looseness", "verdict"]]
    caption = (
        "Distance of the approximate stationary distribution from the posterior "
        f"({check.attrs['distance_source']}; interval {check.attrs['confidence']:.0%}), each bound with its label, and "
        "its looseness: bound / truth. W2 and W4 bound the Wasserstein distance: their rows have the largest marginal "
        "one, in posterior standard deviations. Rows without a bound are left out, and exact settings, whose bounds "
        "are 0."
    )
    headings = {"value": "bound's value", "bound": "bound"}
    return Table(f"Verdicts: {name}", caption, frame, headings=headings, formats={knob: "g"})


def _ingredients(name: str, check: "xr.DataTree") -> Table:
    columns = [
        "tv",
        "label_tv",
        "delta",
        "delta_max",
        "label_delta_max",
        "noise_floor",
        "wasserstein",
        "wasserstein_lower",
        "wasserstein_upper",
        "wasserstein_floor",
    ]
    frame: pd.DataFrame = check.dataset[columns].to_dataframe().reset_index()
    caption = (
        "The quantities in the bounds: total variation between the two stationary distributions (from the transition "
        "matrices), one-step error delta, largest error of a decision Delta_max with its label. Then the measured "
        "distances: the floor due to noise; the largest marginal Wasserstein-1 distance in posterior standard "
        "deviations, and its own floor."
    )
    if "eta" in check.dataset:
        etas = check.dataset["eta"].to_numpy()
        listed = ", ".join(f"eta_{k} = {etas[k - 1]:.6g}" for k in (1, 2, 5, 10, 20) if k <= len(etas))
        caption += f" Contraction of the exact chain: {listed}."
    formats = {check.attrs["knob"]: "g"}
    return Table(f"Ingredients: {name}", caption, frame, headings=headings_of(frame), formats=formats)


def _premises(name: str, check: "xr.DataTree") -> Iterator[Table]:
    """Yield a table of what the bounds by audits rest on, or why they are missing; nothing without audits."""
    knob = check.attrs["knob"]
    frame = check.dataset[["label", "premises"]].to_dataframe().reset_index()
    frame = frame[frame["premises"] != ""].assign(bound=lambda rows: [TITLES[str(bound)] for bound in rows["bound"]])
    if len(frame):
        caption = "What each bound by audits and coupled chains rests on, or why it does not exist."
        yield Table(f"Premises: {name}", caption, frame[[knob, "bound", "label", "premises"]], formats={knob: "g"})


def _figure(name: str, check: "xr.DataTree") -> list[Figure]:
    knob = check.attrs["knob"]
    table = check.dataset.sortby(knob)
    if not table["value"].notnull().any() and not table["distance"].notnull().any():
        return []
    figure, axes = subplots(1, 1, figsize=(8.6, 4.0))
    positive = table.where(table[knob] > 0, drop=True)
    for bound in table["bound"].values:
        values = positive["value"].sel(bound=bound)
        if values.notnull().any() and bound in ("b1", "b2", "b3", "b4", "b5", "b3_delta_max", "b5_delta_max"):
            labels = sorted(set(map(str, positive["label"].sel(bound=bound).values)))
            name = f"B{str(bound)[1:].replace('_delta_max', ', largest error')}"
            axes.plot(positive[knob], values, label=literal(f"{name} ({', '.join(labels)})"), linewidth=1.2)
    x = table[knob].values
    low, high = (table[key].values for key in ("distance_lower", "distance_upper"))
    centre = table["distance"].values
    axes.errorbar(
        x, centre, yerr=[centre - low, high - centre], fmt="o", color="black", markersize=4, label="measured distance"
    )
    if table["tv"].notnull().any():
        axes.plot(x, table["tv"], "x", color="black", label="distance of the matrices' distributions")
    axes.axhline(1.0, color="gray", linewidth=0.6)
    smallest = [float(v) for v in (positive["value"].min(), positive["distance"].min()) if v > 0]
    axes.set_yscale("log")
    axes.set_ylim(bottom=min(smallest, default=1e-3) / 5)
    axes.set_xlabel(knob)
    axes.set_ylabel("total variation")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    caption = (
        "Measured distance with its interval, and the bounds with their labels; above the line at 1 a bound is "
        "vacuous. A distance of the matrices' stationary distributions that is labelled heuristic assumes normal "
        "estimates of the log ratio: if a test reads few terms at a time, the sampler itself may be farther off."
    )
    return [Figure(f"Distance and bounds: {name}", caption, figure, _rows(check))]


def _rows(check: "xr.DataTree") -> Any:
    from approxmcmc.bounds import check_table

    return check_table(check)
