"""Analyses that a study may add to its report: each takes the results and returns figures.

Figures 1 to 3 of Korattikara, Chen and Welling (2014), for any study of a tall-data target with a knob called epsilon:
the law of the test statistic, the price of epsilon, and log risk against time. `marginals` has figure 4.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.diagnostics.running import completion_clocks
from approxmcmc.study.report.evidence import Contest, gather
from approxmcmc.study.report.figures import legend_below, style_of
from approxmcmc.study.report.intervals import NOTHING, mean_interval, proportion_interval, share_interval
from approxmcmc.study.report.pieces import Figure
from approxmcmc.study.report.predictions import flat_draws, log_term_differences, predict_setting
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from approxmcmc.study.report.tables import ratio_of_sums, total
from approxmcmc.study.report.wording import number

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from approxmcmc.study.results import StudyResults


def t_statistic(
    results: "StudyResults", *, sizes: Sequence[int], scale: float, resamples: int = 4000, random_seed: int = 0
) -> list[Figure]:
    """Compare the t-statistic under resampling of n data without replacement with its Student law, for several n.

    The population is that of a real decision: l_i at the last draw theta of a chain and a random-walk proposal theta'.
    With mu_0 = mu, t = (mean - mu) / (s_l / sqrt(n) sqrt(1 - n/N)) should follow Student's law with n - 1 degrees of
    freedom.

    Parameters
    ----------
    sizes
        Numbers of data n; those of N or more are left out.
    scale
        Standard deviation of the random walk that proposes theta'.
    """
    import pandas as pd
    from scipy import stats

    rng = np.random.default_rng(random_seed)
    target_name, traces = _first(results)
    target = results.target(target_name)
    theta = flat_draws(target, traces[0])[-1]
    terms = log_term_differences(target, theta, theta + scale * rng.standard_normal(theta.shape))
    sizes = [n for n in sizes if 2 <= n < terms.size]
    figure, axes = subplots(1, len(sizes), figsize=(9.6, 3.4), sharey=True, squeeze=False)
    grid, edges, rows, verdicts = np.linspace(-4.5, 4.5, 181), np.linspace(-4.5, 4.5, 46), [], []
    for panel, n in zip(axes[0], sizes, strict=True):
        t = np.array([_t(rng.choice(terms, size=n, replace=False), terms) for _ in range(resamples)])
        test = stats.kstest(t, stats.t(n - 1).cdf)
        verdicts.append(f"n = {n:,}: distance {number(float(test.statistic))}, p = {number(float(test.pvalue))}")
        density, _ = np.histogram(t, bins=edges, density=True)
        panel.stairs(density, edges, fill=True, color=COLOURS[0], alpha=0.55)
        panel.plot(grid, stats.t(n - 1).pdf(grid), color=COLOURS[1], linewidth=2)
        panel.set_title(f"n = {n:,}")
        panel.set_xlabel("t-statistic")
        rows += [{"n": n, "resample": i, "t": value} for i, value in enumerate(t)]
    axes[0, 0].set_ylabel("density")
    band = 1.36 / np.sqrt(resamples)
    caption = (
        f"Figure 1 of the paper. Bars: t-statistic of {resamples:,} resamples of n terms without replacement from "
        f"the N = {terms.size:,} terms of one proposal; curve: Student's law with n − 1 degrees of freedom. "
        f"Kolmogorov-Smirnov: {'; '.join(verdicts)} (distances up to {number(band)} arise by chance in 95 % of such "
        "samples)."
    )
    return [Figure("Law of the t-statistic", caption, figure, pd.DataFrame(rows))]


def _t(sample: np.ndarray, population: np.ndarray) -> float:
    n, n_obs = sample.size, population.size
    s = sample.std(ddof=1) / np.sqrt(n) * np.sqrt(1.0 - n / n_obs)
    return float((sample.mean() - population.mean()) / s)


def cost_against_epsilon(results: "StudyResults") -> list[Figure]:
    """Draw data read and audited wrong decisions against epsilon, with intervals and the recursion's prediction."""
    figures = []
    for target, settings in _by_target(results).items():
        rows = epsilon_rows(results, target, settings)
        if rows.empty:
            continue
        figure, axes = subplots(1, 2, figsize=(9.6, 3.8))
        for panel, name, word, colour in (
            (axes[0], "data", "data read per decision (%)", COLOURS[0]),
            (axes[1], "wrong", "wrong decisions (%)", COLOURS[1]),
        ):
            _measured_and_predicted(panel, rows, name, colour)
            panel.set_xlabel("epsilon")
            panel.set_xticks(rows.epsilon, _apart(rows.epsilon.to_list()))
            panel.set_ylabel(word)
            panel.set_ylim(bottom=0.0)
        axes[1].plot(rows.epsilon, 100.0 * rows.epsilon, color=INK, linestyle=":", label="epsilon itself")
        for panel in axes:
            panel.legend()
        caption = (
            "Figure 2 of the paper. Left: share of the data that one decision reads, with Student intervals over "
            "replicates. Right: audited decisions that differ from the full-data decision with the same proposal and "
            "u, with Clopper-Pearson intervals; nothing is audited where the test is exact by construction. Dashed: "
            "the recursion's expectation, averaged over u and over (log ratio, scale) pairs from the same chains. "
            "epsilon bounds the error of one look only at the boundary; a sequence of looks may err more often, easy "
            "decisions less."
        )
        figures.append(Figure(f"Data read and wrong decisions against epsilon, {target}", caption, figure, rows))
    return figures


def _apart(ticks: Sequence[float]) -> list[str]:
    """Return tick labels, blank where one would touch the label before it."""
    labels, last = [], -np.inf
    for tick in ticks:
        keep = tick - last > 0.06 * (max(ticks) - min(ticks))
        labels.append(f"{tick:g}" if keep else "")
        last = tick if keep else last
    return labels


def epsilon_rows(
    results: "StudyResults", target: str, settings: Mapping[str, Sequence["xr.DataTree"]]
) -> "pd.DataFrame":
    """Return measured and predicted cost of every setting that has a knob epsilon, in the order of epsilon."""
    import pandas as pd

    records = results.records[results.records.target == target]
    described = {row.label: (row.knobs or {}, row.sampler) for row in records.itertuples()}
    n_obs, rows = results.target(target).n_obs, []
    for label, traces in settings.items():
        knobs, sampler = described[label]
        if "epsilon" not in knobs:
            continue
        fractions = [ratio_of_sums(trace, "datapoints_touched", "decisions_made") / n_obs for trace in traces]
        audited, wrong = total(traces, "decisions_audited"), total(traces, "wrong_decisions")
        prediction = predict_setting(results.target(target), traces, sampler)
        rows.append(
            {"epsilon": float(knobs["epsilon"]), "setting": label}
            | share_interval(fractions).columns("data")
            | (prediction.data_fraction if prediction else NOTHING).columns("predicted_data")
            | {"audited": audited, "wrong_count": wrong}
            | proportion_interval(wrong, audited).columns("wrong")
            | (prediction.wrong_rate if prediction else NOTHING).columns("predicted_wrong")
        )
    return pd.DataFrame(rows).sort_values("epsilon", ignore_index=True) if rows else pd.DataFrame()


def _measured_and_predicted(panel: Any, rows: "pd.DataFrame", name: str, colour: str) -> None:
    x = rows.epsilon
    value, lower, upper = (100.0 * rows[f"{name}{end}"] for end in ("", "_lower", "_upper"))
    error = np.nan_to_num(np.array([value - lower, upper - value]))
    panel.errorbar(x, value, yerr=np.maximum(error, 0.0), fmt="o-", color=colour, capsize=3, label="measured")
    predicted = 100.0 * rows[f"predicted_{name}"]
    panel.plot(x, predicted, color=INK, linestyle="--", label="recursion")
    panel.fill_between(
        x,
        100.0 * rows[f"predicted_{name}_lower"],
        100.0 * rows[f"predicted_{name}_upper"],
        color=INK,
        alpha=0.1,
        linewidth=0,
    )


def log_risk_against_time(results: "StudyResults") -> list[Figure]:
    """Draw log risk of the first estimand against time on a linear axis, with the number of steps of every setting."""
    figures = []
    for contest in gather(results):
        if contest.reference is None or not contest.estimands:
            continue
        estimand = contest.estimands[0]
        figure, axes = subplots(1, 1, figsize=(9.6, 5.0))
        styles = style_of(list(contest.traces), contest.exact)
        curves = contest.over_time[contest.over_time.estimand == estimand]
        for label in contest.traces:
            described = f"{label}, T = {_steps(contest, label)}"
            _log_risk(axes, curves[curves.setting == label], described, styles[label])
        axes.set_xlabel("sampling time per chain (s)")
        axes.set_ylabel("log risk (natural)")
        axes.set_title(estimand)
        legend_below(figure, [axes])
        caption = (
            f"Figure 3 of the paper, in its axes: natural logarithm of the risk in {estimand} against time; T: steps "
            f"per chain in {number(float(contest.budgets[-1]))} s, mean and Student interval over replicates. Bands: "
            "95 % bootstrap intervals."
        )
        figures.append(Figure(f"Log risk against time, {contest.target}", caption, figure, curves))
    return figures


def _log_risk(panel: Any, curve: "pd.DataFrame", label: str, style: Mapping[str, Any]) -> None:
    y, lower, upper = (np.log(curve[f"risk{end}"].where(curve[f"risk{end}"] > 0.0)) for end in ("", "_lower", "_upper"))
    panel.plot(curve.time, y, markevery=4, markersize=4, label=label, **style)
    panel.fill_between(curve.time, lower, upper, color=style["color"], alpha=0.13, linewidth=0)


def _steps(contest: Contest, label: str) -> str:
    counts = []
    for trace in contest.traces[label]:
        [clock] = completion_clocks([trace], "time", True)
        draws = int(np.searchsorted(clock, contest.budgets[-1], side="right"))
        counts.append(float(draws * int(trace["sample_stats"].attrs.get("thin", 1))))
    mean = mean_interval(counts)
    half = "" if np.isnan(mean.upper) else f" ± {mean.upper - mean.value:,.0f}"
    return f"{mean.value:,.0f}{half}"


def _by_target(results: "StudyResults") -> dict[str, dict[str, Sequence["xr.DataTree"]]]:
    found: dict[str, dict[str, Sequence[xr.DataTree]]] = {}
    for (target, label), traces in results.traces().items():
        if traces:
            found.setdefault(target, {})[label] = traces
    return found


def _first(results: "StudyResults") -> tuple[str, Sequence["xr.DataTree"]]:
    target, settings = next(iter(_by_target(results).items()))
    return target, next(iter(settings.values()))
