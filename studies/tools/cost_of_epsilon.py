"""Cost and errors by epsilon: data read and wrong decisions, measured and predicted.

Figure 2 of the preprint of Korattikara, Chen and Welling (2013), for any study with a knob epsilon.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.study.measures import ratio_of_sums
from approxmcmc.study.report import Figure
from approxmcmc.study.report.intervals import NOTHING, proportion_interval, share_interval
from approxmcmc.study.report.predictions import predict_setting
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from approxmcmc.study.report.tables import total

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from approxmcmc.study.results import StudyResults


def cost_against_epsilon(results: "StudyResults", *, lead: str = "") -> list[Figure]:
    """Draw data read and audited wrong decisions against epsilon, with intervals and the recursion's prediction.

    Parameters
    ----------
    lead
        Opens the caption: the published figure that this one repeats.
    """
    figures = []
    for target, settings in _by_target(results).items():
        rows = epsilon_rows(results, target, settings)
        if rows.empty:
            continue
        figure, axes = subplots(1, 2, figsize=(9.6, 3.8))
        ticks = sorted(set(rows.epsilon))
        families = list(rows.groupby("sampler", sort=False))
        for panel, name, word in (
            (axes[0], "data", "data read per decision (%)"),
            (axes[1], "wrong", "wrong decisions (%)"),
        ):
            for index, (sampler, family) in enumerate(families):
                said = f", {sampler}" if len(families) > 1 else ""
                _measured_and_predicted(panel, family, name, index, said)
            panel.set_xlabel("epsilon")
            panel.set_xticks(ticks, _apart(ticks))
            panel.set_ylabel(word)
            panel.set_ylim(bottom=0.0)
        axes[1].plot(ticks, 100.0 * np.array(ticks), color=INK, linestyle=":", label="epsilon itself")
        for panel in axes:
            panel.legend()
        caption = (
            f"{lead} Left: share of the data that one decision reads, with Student intervals over "
            "replicates. Right: audited decisions that differ from the full-data decision with the same proposal and "
            "u, with Clopper-Pearson intervals; exact tests have no audits. Dashed: "
            "the recursion's expectation, averaged over u and over (log ratio, scale) pairs from the same chains. "
            "epsilon bounds the error of one look; a sequence of looks may err more often, easy decisions less often."
        )
        title = f"Data read and wrong decisions against epsilon, {target}"
        figures.append(Figure(title, caption.lstrip(), figure, rows))
    return figures


def _apart(ticks: Sequence[float]) -> list[str]:
    """Return tick labels, blank where one would touch the label before it."""
    labels = []
    last = -np.inf
    for tick in ticks:
        keep = tick - last > 0.06 * (max(ticks) - min(ticks))
        labels.append(f"{tick:g}" if keep else "")
        last = tick if keep else last
    return labels


def epsilon_rows(
    results: "StudyResults", target: str, settings: Mapping[str, Sequence["xr.DataTree"]]
) -> "pd.DataFrame":
    """Return data read and wrong decisions, measured and predicted, a row for each setting with a knob epsilon."""
    import pandas as pd

    records = results.records[results.records.target == target]
    described = {row.label: (row.sampler_name, row.knobs or {}, row.sampler) for row in records.itertuples()}
    n_obs = results.target(target).n_obs
    rows = []
    for label, traces in settings.items():
        name, knobs, sampler = described[label]
        if "epsilon" not in knobs:
            continue
        fractions = [ratio_of_sums(trace, "datapoints_touched", "decisions_made") / n_obs for trace in traces]
        audited = total(traces, "decisions_audited")
        wrong = total(traces, "wrong_decisions")
        prediction = predict_setting(results.target(target), traces, sampler)
        rows.append(
            {"sampler": name, "epsilon": float(knobs["epsilon"]), "setting": label}
            | share_interval(fractions).columns("data")
            | (prediction.data_fraction if prediction else NOTHING).columns("predicted_data")
            | {"audited": audited, "wrong_count": wrong}
            | proportion_interval(wrong, audited).columns("wrong")
            | (prediction.wrong_rate if prediction else NOTHING).columns("predicted_wrong")
        )
    return pd.DataFrame(rows).sort_values("epsilon", kind="stable", ignore_index=True) if rows else pd.DataFrame()


def _measured_and_predicted(panel: Any, rows: "pd.DataFrame", name: str, index: int, said: str) -> None:
    x = rows.epsilon
    colour = COLOURS[index]
    value, lower, upper = (100.0 * rows[f"{name}{end}"] for end in ("", "_lower", "_upper"))
    error = np.nan_to_num(np.array([value - lower, upper - value]))
    panel.errorbar(x, value, yerr=np.maximum(error, 0.0), fmt="o-", color=colour, capsize=3, label=f"measured{said}")
    predicted = 100.0 * rows[f"predicted_{name}"]
    panel.plot(x, predicted, color=INK, linestyle=("--", ":", "-.")[index % 3], label=f"recursion{said}")
    panel.fill_between(
        x,
        100.0 * rows[f"predicted_{name}_lower"],
        100.0 * rows[f"predicted_{name}_upper"],
        color=INK,
        alpha=0.1,
        linewidth=0,
    )


def _by_target(results: "StudyResults") -> dict[str, dict[str, Sequence["xr.DataTree"]]]:
    targets: dict[str, dict[str, Sequence[xr.DataTree]]] = {}
    for (target, label), traces in results.traces().items():
        targets.setdefault(target, {})[label] = traces
    return targets
