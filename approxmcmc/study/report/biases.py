"""Biases estimated from the draws, with intervals and verdicts, next to the gold standard if there is one."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from approxmcmc.diagnostics.estimands import evaluate, evaluate_reference, resolve
from approxmcmc.study.biases import as_one_run
from approxmcmc.study.report.intervals import Interval
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.svg import COLOURS, literal, subplots

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from approxmcmc.study.results import StudyResults

RULES = (
    "Bias of the mean over all chains of a setting, in standard deviations of the draws, estimated from audited draws "
    "and coupled exact chains. Verdicts: biased (the interval of some bias excludes 0, and the bias exceeds 0.05 sd), "
    "small (every upper limit is below 0.1 sd), inconclusive (too few audits), not applicable (the exact chain mixes "
    "too slowly for couplings to give an estimate), cannot be judged (the draws failed the checks of a run, such as "
    "R-hat). A mode that no chain has visited is invisible to all verdicts."
)
ERROR_QUANTILE = 1.96
PANELS_A_ROW = 2


@dataclasses.dataclass(frozen=True)
class SettingBiases:
    """The biases of one setting, or why there are none; `gap` is the difference from the gold standard, if any."""

    target: str
    label: str
    estimate: "xr.Dataset | None"
    error: str
    gap: "pd.DataFrame | None"

    @property
    def verdict(self) -> str:
        """The verdict; "failed" if nothing could be estimated."""
        return "failed" if self.estimate is None else str(self.estimate["verdict"].item())

    def in_sds(self) -> "pd.DataFrame":
        """Return bias with limits by estimand, in sds of the draws; constant or unknown estimands are left out."""
        import pandas as pd

        if self.estimate is None:
            return pd.DataFrame(columns=["bias", "bias_lower", "bias_upper"])
        sd = self.estimate["posterior_sd"].values
        columns = {name: self.estimate[name].values / np.where(sd > 0.0, sd, np.nan) for name in LIMITS}
        biases = pd.DataFrame(columns, index=self.estimate["estimand"].values.astype(str))
        return biases[np.isfinite(biases).all(axis=1)]


LIMITS = ("bias", "bias_lower", "bias_upper")


def biases_of(results: "StudyResults") -> list[SettingBiases]:
    """Return the biases, or the error, of every setting with a bias report; empty if the study asks for no biases."""
    if results.study.bias is None:
        return []
    biases = []
    for (target, label), traces in results.traces().items():
        report = results.bias_report(target, label)
        estimate = results.bias(target, label)
        if report is not None:
            asked = results.study.bias.estimands
            gap = (
                None
                if estimate is None
                else gap_to_gold(estimate, as_one_run(traces), results.reference(target), asked)
            )
            biases.append(SettingBiases(target, label, estimate, str(report.get("error") or ""), gap))
    return biases


def gap_to_gold(
    estimate: "xr.Dataset", run: "xr.DataTree", reference: "xr.DataTree | None", estimands: Any = None
) -> "pd.DataFrame | None":
    """Return the mean of the draws minus that of the gold standard, in sds of the draws, for coordinates that vary.

    The limits include the Monte Carlo errors of both means. None if there is no gold standard.
    """
    import pandas as pd

    if reference is None:
        return None
    sds = dict(zip(estimate["estimand"].values.astype(str), estimate["posterior_sd"].values, strict=True))
    rows = {}
    for name, function in resolve(estimands, run).items():
        mine = evaluate(name, function, run)
        gold = evaluate_reference(name, function, reference, mine.layout)
        margins = ERROR_QUANTILE * np.hypot(_errors(mine.values), gold.mcse)
        apart = mine.values.mean(axis=(0, 1)) - gold.mean
        for label, gap, margin in zip(mine.layout.labels, apart, margins, strict=True):
            if sds.get(label, 0.0) > 0.0:
                rows[label] = [(gap + side * margin) / sds[label] for side in (0, -1, 1)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["gap", "gap_lower", "gap_upper"])


def _errors(values: np.ndarray) -> np.ndarray:
    """Return the standard error of each coordinate's mean, by batch means; `values` is (chain, draw, coordinate)."""
    size = max(1, int(np.sqrt(values.shape[1])))
    batches = values[:, : values.shape[1] // size * size].reshape(-1, size, values.shape[2]).mean(axis=1)
    return batches.std(axis=0, ddof=1) / np.sqrt(len(batches)) if len(batches) > 1 else np.full(values.shape[2], np.nan)


def bias_section(biases: Sequence[SettingBiases]) -> list[Section]:
    """Return the section on biases; an empty list if no setting has a report."""
    if not biases:
        return []
    pieces = [
        _verdicts(biases),
        _evidence(biases),
        *(_figure(name, biases) for name in dict.fromkeys(setting.target for setting in biases)),
    ]
    return [Section("Biases", (RULES,), pieces=tuple(piece for piece in pieces if piece is not None))]


def sentence(target: str, biases: Sequence[SettingBiases]) -> str:
    """Return the verdicts on the settings of a target as one sentence; "" if there are none."""
    mine = [setting for setting in biases if setting.target == target]
    if not mine:
        return ""
    by_verdict = {verdict: [setting.label for setting in mine if setting.verdict == verdict] for verdict in ORDER}
    words = [f"{verdict}: {', '.join(labels)}" for verdict, labels in by_verdict.items() if labels]
    return f"Biases on {target}, estimated from the draws themselves: {'; '.join(words)}."


ORDER = ("biased", "small", "inconclusive", "not applicable", "cannot be judged", "failed")


def _verdicts(biases: Sequence[SettingBiases]) -> Table:
    """Return the verdict of every setting, and why."""
    import pandas as pd

    caption = (
        "One row per setting. Largest bias: the largest of all estimands, with the interval that holds for all of them "
        "together. Gap: difference between "
        "the same mean and the gold standard, with the Monte Carlo error of both; if the largest bias is that of a "
        "square, the gap is that of the coordinate with the largest one."
    )
    data = pd.DataFrame([_verdict_of(setting) for setting in biases])
    return Table("Verdicts on biases", caption, data.dropna(axis=1, how="all"))


def _verdict_of(setting: SettingBiases) -> dict[str, Any]:
    row: dict[str, Any] = {"target": setting.target, "setting": setting.label, "verdict": setting.verdict}
    in_sds = setting.in_sds()
    if len(in_sds):
        worst = in_sds["bias"].abs().idxmax()
        stretch = float(special.ndtri(1.0 - 0.025 / len(in_sds)) / special.ndtri(0.975))  # Bonferroni
        value, *ends = in_sds.loc[worst, list(LIMITS)]
        row |= {"estimand": worst}
        row |= Interval(value, *(value + stretch * (end - value) for end in ends)).columns("largest bias (sd)")
        if setting.gap is not None and len(setting.gap):
            at = worst if worst in setting.gap.index else setting.gap["gap"].abs().idxmax()
            row |= {
                f"gap to gold standard (sd){end}": setting.gap.loc[at, f"gap{end}"] for end in ("", "_lower", "_upper")
            }
    return {**row, "reasons": setting.error if setting.estimate is None else str(setting.estimate["reasons"].item())}


def _evidence(biases: Sequence[SettingBiases]) -> Table | None:
    """Return a table of the quantities behind the verdicts and their cost; None if no bias could be estimated."""
    import pandas as pd

    estimated = [(setting, setting.estimate) for setting in biases if setting.estimate is not None]
    if not estimated:
        return None
    rows = [
        {
            "target": setting.target,
            "setting": setting.label,
            **{
                f"{heading}{end}": float(estimate[f"{name}{end}"])
                for name, heading in (("mean_abs_delta", "error of acceptance"), ("tv_bound", "TV bound"))
                for end in ("", "_lower", "_upper")
            },
            "form": estimate.attrs["form"],
            "audits": int(estimate["n_audits"]),
            "couplings": int(estimate["n_couplings"]),
            "unmet": int(estimate["unmet"]),
            "passes": float(estimate["passes"]),
            "seconds": float(estimate["seconds"]),
        }
        for setting, estimate in estimated
    ]
    caption = (
        "Error of acceptance: E|delta|, where delta is the acceptance probability of the test minus that on all data. "
        "TV "
        'bound: E[|delta| tau], where tau is the meeting time; it bounds the total variation. form="drift" estimates '
        "neither. Passes: evaluations of all terms."
    )
    return Table("Evidence for the verdicts", caption, pd.DataFrame(rows), formats={"passes": ",.0f"})


def _figure(target: str, estimated: Sequence[SettingBiases]) -> Figure | None:
    """Draw the biases of all estimands, a panel per setting, with the gaps to the gold standard.

    None if no setting is judged biased or small: such a picture shows only wide intervals.
    """
    import pandas as pd

    mine = [setting for setting in estimated if setting.target == target and len(setting.in_sds())]
    if not {setting.verdict for setting in mine} & {"biased", "small"}:
        return None
    rows = math.ceil(len(mine) / PANELS_A_ROW)
    figure, axes = subplots(rows, min(len(mine), PANELS_A_ROW), figsize=(8.6, 2.6 * rows), squeeze=False)
    frames = []
    for setting, axis in zip(mine, axes.flat, strict=False):
        in_sds = setting.in_sds()
        x = np.arange(len(in_sds))
        y = in_sds["bias"].to_numpy()
        axis.axhline(0.0, color="gray", linewidth=0.8)
        reach = [y - in_sds["bias_lower"], in_sds["bias_upper"] - y]
        axis.errorbar(x, y, yerr=reach, fmt="o", markersize=2.5, linewidth=0.9, color=COLOURS[0], label="bias")
        if setting.gap is not None:
            gap = setting.gap.reindex(in_sds.index)
            in_sds = in_sds.join(gap)
            axis.plot(x, gap["gap"], "x", markersize=4, color=COLOURS[1], label="gap to gold standard")
        axis.set_title(literal(f"{setting.label}: {setting.verdict}"))
        axis.set_xlabel("estimand")
        frames.append(in_sds.rename_axis("estimand").reset_index().assign(setting=setting.label))
    for axis in axes.flat[len(mine) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("posterior sd")
    axes.flat[0].legend()
    caption = (
        "The estimands in order: coordinates, their squares about the mean, the log density. Bars: a 95 % interval for "
        "each estimand separately."
    ) + (" Crosses: difference from the gold standard." if any(setting.gap is not None for setting in mine) else "")
    return Figure(f"Biases: {target}", caption, figure, pd.concat(frames, ignore_index=True))
