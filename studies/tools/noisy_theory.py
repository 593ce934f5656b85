"""Figures of the theory of Noisy Monte Carlo where transition matrices are known: bounds and true distances.

After Alquier, Friel, Everitt and Boland (2016): lemma 3.1, corollary 2.3, theorem 3.2, remark 2.2, lemmas 2.4 and 3.3,
theorem 3.4, and section 5's question of the asymptotic variance. ``sampler(N)`` makes the sampler with N auxiliary
draws, `counts` holds values of N, `grid` values of theta.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.intervals import proportion_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots

LOSSES = {
    "lemma_3_1": "lemma 3.1: sd of the estimated ratio",
    "mean_error": "E|a^ - a|, hypothesis (H2)",
    "mean_flip": "E|min(1, a^) - min(1, a)|",
    "delta": "true distance of one step",
}
HEADINGS = {  # of the table of constants
    "lemma_3_1": "lemma 3.1", "mean_error": "E|a^ - a|", "mean_flip": "E|min(1, a^) - min(1, a)|",
    "delta": "one-step error", "label": "its label", "corollary_2_3": "corollary 2.3 of E|a^ - a|",
    "theorem_bound": "corollary 2.3 of lemma 3.1", "log10 log_gap": "theorem 3.2: log10 of 1 - rho",
    "log10 log_one_step": "log10 of the one-step error", "log10 log_bound": "log10 of the bound",
}  # fmt: skip
START_UP = 20.0  # cost of an auxiliary chain before its first kept draw, in units of a further draw


def losses(
    target: Any, sampler: Callable[[int], Any], counts: Sequence[int], grid: np.ndarray, scale: float
) -> list[Figure | Table]:
    """Draw the bounds of one step against N, from lemma 3.1 to the true distance, and tabulate constants."""
    import pandas as pd

    errors = {count: bounds.noisy_exchange_errors(target, sampler(count), grid) for count in counts}
    rows = []
    for count, each in errors.items():
        row = {"N": count} | {name: float(each[name].max()) for name in LOSSES}
        row["label"] = each["delta"].attrs["label"]
        row |= {name: float(each[name]) for name in ("corollary_2_3", "theorem_bound")}
        constants = uniform_constants(target, count, scale)
        row |= {f"log10 {name}": value / math.log(10.0) for name, value in constants._asdict().items()}
        rows.append(row)
    frame = pd.DataFrame(rows)
    figure, axes = subplots(1, 2, figsize=(9.6, 4.0))
    for index, (name, label) in enumerate(LOSSES.items()):
        colour = INK if name == "delta" else COLOURS[index]
        axes[0].loglog(frame["N"], frame[name], "o-", color=colour, label=label)
    at = errors[counts[0]]
    for index, name in enumerate(LOSSES):
        axes[1].semilogy(grid, at[name], color=INK if name == "delta" else COLOURS[index], label=LOSSES[name])
    for axis in axes:
        axis.axhline(1.0, color="gray", linewidth=0.6)
    axes[0].set_xlabel("auxiliary draws N")
    axes[0].set_ylabel("largest value over theta")
    axes[0].legend(fontsize=7)
    axes[1].set_xlabel(f"theta, at N = {counts[0]}")
    worst = rows[0]
    best = rows[-1]
    kappa = 0.8 * 24.0
    caption = (
        "Each line is the supremum over theta of int h(theta'|theta) (...), and each is below the one before it. "
        f"Lemma 3.1 is {worst['lemma_3_1']:.0f} / sqrt(N), at theta = "
        f"{grid[int(at['lemma_3_1'].to_numpy().argmax())]:g}; the true E|a^ - a| is {worst['mean_error']:.0f} at N = "
        f"{worst['N']}, and the true one-step distance {worst['delta']:.4f}: min(1, .) hides errors of ratios that are "
        f"large anyway. At N = {best['N']} lemma 3.1 gives {best['lemma_3_1']:.0f}, and the true distance is "
        f"{best['delta']:.4f}. A bound above the line at 1 says nothing."
    )
    table = (
        "Corollary 2.3 multiplies the largest E|a^ - a|, or lemma 3.1, by the factor of the exact "
        f"chain. Theorem 3.2 uses of the model only kappa = e^(T S) = e^{kappa:.1f} = {math.exp(kappa):.3g} "
        "and bounds of prior and proposal densities: decimal logarithms of 1 - rho, of its one-step error and of its "
        "bound on the distance of the distributions, which is at most 1 anyway."
    )
    return [
        Figure("Lemma 3.1 and the truth", caption, figure, frame),
        Table("Constants of corollary 2.3 and theorem 3.2", table, frame, HEADINGS),
    ]


def uniform_constants(target: Any, count: int, scale: float) -> Any:
    """Return the natural logarithms of theorem 3.2's constants on a uniform prior, for a random walk."""
    low, high = target.prior.bounds
    largest = float(np.abs(target.statistic_counts()[0]).max())
    far = math.exp(-0.5 * ((high - low) / scale) ** 2) / (scale * math.sqrt(2.0 * math.pi))
    density = 1.0 / (high - low)
    return bounds.uniform_exchange_bound(
        count,
        largest_theta=max(abs(low), abs(high)),
        largest_statistic=largest,
        volume=high - low,
        prior_constant=max(density, 1.0 / density),
        proposal_constant=max(1.0 / far, 1.0),
    )


def first_differences(target: Any, sampler: Callable[[int], Any], grid: np.ndarray, runs: int) -> list[Figure]:
    """Plot P(tau > n) for a few N, tau the first step at which the noisy chain decides otherwise than the exact one."""
    import pandas as pd

    steps = 40
    start = float(grid[int(0.7 * len(grid))])
    figure, axis = subplots(1, 1, figsize=(7.2, 4.0))
    rows = []
    for index, count in enumerate((1, 2, 10)):
        difference = bounds.first_difference(target, sampler(count), grid, n_steps=steps)
        law = difference["survival"].isel(state=int(np.abs(grid - start).argmin()))
        colour = COLOURS[index]
        axis.semilogy(difference["step"], law, color=colour, label=f"N = {count}")
        axis.semilogy(difference["step"], difference["lower_bound"], ":", color=colour)
        times = simulated_times(target, sampler(count), start, runs, steps)
        for n in range(0, steps + 1, 4):
            share = proportion_interval(int((times > n).sum()), runs)
            rows.append(
                {"N": count, "step": n, "P(tau > n)": float(law[n]), "lower bound": float(difference["lower_bound"][n])}
                | share.columns("simulated")
            )
            if share.lower > 0.0:
                axis.plot([n, n], [share.lower, share.upper], color=colour, linewidth=1.0)
    axis.set_ylim(bottom=1.0 / runs)
    axis.set_xlabel("steps n")
    axis.set_ylabel("P(ideal and noisy chain still agree)")
    axis.legend()
    caption = (
        f"Both chains start at theta = {start:.2g} with the same proposals and uniforms (remark 2.2). Lines: "
        f"enumerated. Bars: 95 % intervals from {runs} runs of the sampler, each audited at every step. Dotted: (1 - "
        "d)^n with the largest probability d of differing decisions, the lower bound. Exchange, N = 1, is exact and "
        "differs first: the time measures noise and no bias."
    )
    return [Figure("The first difference of ideal and noisy chain", caption, figure, pd.DataFrame(rows))]


def simulated_times(target: Any, sampler: Any, start: float, runs: int, steps: int) -> np.ndarray:
    """Return the step of each run at which its decision first differs from the exact one; steps + 1 if none does."""
    trace = amc.sample(
        target, sampler, draws=steps, tune=0, chains=runs, cores=1, initvals=np.full((runs, 1), start), audit_every=1,
        random_seed=2016, progressbar=False,
    )  # fmt: skip
    differs = trace["sample_stats"]["wrong_decisions"].to_numpy() > 0
    return np.where(differs.any(axis=1), differs.argmax(axis=1) + 1, steps + 1)


def budgets(T: Any, settings: dict[int, Any], grid: np.ndarray) -> list[Figure | Table]:
    """Draw asymptotic variance and risk of the mean of theta against N, and tabulate the best N at each budget."""
    costs_allowed = 10.0 ** np.arange(2, 9)
    costs = {count: START_UP + count for count in settings}
    risks = bounds.long_run_risk(T, settings, grid, costs=costs, budgets=costs_allowed, knob="n_auxiliary")
    ideal = bounds.long_run_risk(T, {0: T}, grid, costs={0: 1.0}, budgets=[1.0])
    exact = float(ideal["asymptotic_variance"][0])
    counts = risks["n_auxiliary"].to_numpy()
    figure, axes = subplots(1, 2, figsize=(9.6, 3.8))
    axes[0].semilogx(counts, risks["asymptotic_variance"], "o-", color=COLOURS[0], label="noisy exchange")
    axes[0].axhline(exact, color=INK, linestyle="--", label="ideal chain")
    axes[0].set_xlabel("auxiliary draws N")
    axes[0].set_ylabel("asymptotic variance of the mean of theta")
    axes[0].legend(fontsize=7)
    for index, budget in enumerate(costs_allowed[::2]):
        risk = risks["risk"].sel(budget=budget)
        axes[1].loglog(counts, risk, "o-", color=COLOURS[index], label=f"budget {budget:g}")
        axes[1].plot([float(risks["best"].sel(budget=budget))], [float(risk.min())], "*", color=INK, markersize=10)
    axes[1].set_xlabel("auxiliary draws N")
    axes[1].set_ylabel("risk of the mean of theta")
    axes[1].legend(fontsize=7)
    rows = (
        risks["risk"]
        .to_dataframe()
        .reset_index()
        .merge(risks[["bias", "asymptotic_variance", "cost"]].to_dataframe().reset_index(), on="n_auxiliary")
    )
    best = risks[["best"]].to_dataframe().reset_index()
    best["risk"] = risks["risk"].min("n_auxiliary").to_numpy()
    best["risk of N = 1"] = risks["risk"].sel(n_auxiliary=counts.min()).to_numpy()
    caption = (
        "From the matrices, in the long run. Left: noise costs variance, as it does for pseudo-marginal chains. Right: "
        f"squared bias + variance at a budget in auxiliary draws, a step costing {START_UP:g} + N of them; stars mark "
        "the best N. The bias is 0 at N = 1, largest at a few draws, and small again at many."
    )
    meaning = (
        "The number of auxiliary draws with the smallest risk of the posterior mean at each budget: more draws, "
        "which are cheap, are best at small budgets, where variance dominates; exact exchange is best at large ones."
    )
    return [
        Figure("Asymptotic variance and the best number of draws", caption, figure, rows),
        Table("The best number of draws at a budget", meaning, best, formats={"budget": "g"}),
    ]


def langevin(target: Any, counts: Sequence[int], points: np.ndarray, wide: np.ndarray) -> list[Figure]:
    """Draw one-step distance, bounds and distance of the stationary distributions of noisy Langevin against N."""
    import pandas as pd

    variance = 0.02
    rows = []
    T = bounds.langevin_matrix(target, amc.samplers.NoisyLangevin(variance), wide, ideal=True)
    for count in counts:
        sampler = amc.samplers.NoisyLangevin(variance, count)
        each = bounds.noisy_langevin_errors(target, sampler, points)
        tv = float(bounds.exact(T, bounds.langevin_matrix(target, sampler, wide))["tv"])
        rows.append(
            {"N": count, "delta": float(each["delta"].max()), "tv": tv}
            | {name: float(each[name].max()) for name in ("pinsker", "lemma_2_4")}
            | {"lemma_3_3": float(each["lemma_3_3"])}
        )
    frame = pd.DataFrame(rows)
    figure, axis = subplots(1, 1, figsize=(7.2, 4.0))
    shown = {
        "lemma_3_3": "lemma 3.3",
        "lemma_2_4": "lemma 2.4",
        "pinsker": "Pinsker, E|V| / 4",
        "delta": "true one-step distance",
    }
    for index, (name, label) in enumerate(shown.items()):
        axis.loglog(frame["N"], frame[name], "o-", color=INK if name == "delta" else COLOURS[index], label=label)
    axis.loglog(frame["N"], frame["tv"], "x--", color=INK, label="distance of the stationary laws")
    axis.axhline(1.0, color="gray", linewidth=0.6)
    axis.set_xlabel("auxiliary draws N")
    axis.set_ylabel("total variation")
    axis.legend(fontsize=7)
    drift = bounds.langevin_drift(variance, target.prior.normal.scale, 24.0)
    slope = np.polyfit(np.log(frame["N"]), np.log(frame["delta"]), 1)[0]
    caption = (
        f"Steps of variance {variance:g}, prior N(0, 1). Largest distance of one noisy step from the ideal one, by "
        f"quadrature, and its bounds. The bounds fall like N^(-1/2), the distance like N^{slope:.2f}, because the "
        "noisy step has the right mean. Theorem 3.4 says that both chains are geometrically ergodic, with P W <= r W "
        "+ L, W = 1 "
        f"+ |theta|, r = {drift.rate:g} and L = {drift.constant:.3f} at every N, and that the stationary "
        "distributions converge; it gives no rate."
    )
    return [Figure("Noisy Langevin: one step and the stationary laws", caption, figure, frame)]
