"""Firefly on digits by update of z and by bound: bright data, likelihood evaluations and time of a step.

Draves (2019), Exact MCMC with Firefly Monte Carlo: A Review, algorithms 3 to 5 (explicit, implicit, and implicit with
skips), the two bounds that it names, Jaakkola's of Maclaurin and Adams (2014) and the direct (Taylor) expansion, and
its equation 3, the expected number of bright data, compared with the realised one.

The implicit updates with and without skips have the same distribution and number of likelihood evaluations: they differ
only in time. The explicit update picks as large a share of the data as the implicit ones evaluate on average. The
bright data of equation 3 are averaged over draws of full-data chains, which have no z.
"""

from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.samplers.firefly.settings import checked_bound, touching_point
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.measures import seconds_of_draws
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.intervals import mean_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.firefly import WALK, any_mnist, data_used, mnist, small_mnist, start
from studies.tools.one_by_one_z import OneByOneZ

# Share of the data (implicit updates: of the dark data) that an update of z evaluates in a step (Maclaurin and Adams).
SHARE = {"untuned": 0.1, "tuned": 0.01, "taylor": 0.01}
UPDATES = {
    "explicit": amc.samplers.ExplicitResampling,
    "implicit": OneByOneZ,
    "skipping": amc.samplers.ImplicitResampling,
}
DRAWS = 200  # draws of the full-data chains, over which equation 3 is averaged


def firefly(bound: str, update: str) -> "amc.Firefly":
    """Return Firefly with a bound and an update of z."""
    return amc.Firefly(WALK, bound, UPDATES[update](SHARE[bound]))


def exact() -> "amc.MetropolisHastings":
    """Return the full-data chain."""
    return amc.MetropolisHastings(WALK, amc.ExactTest())


def expected_bright(target: Any, bound: str, thetas: np.ndarray) -> np.ndarray:
    """Return sum_n (1 - B_n / L_n), the expected number of bright data, at each row of `thetas` (n, dim)."""
    compiled = target.compile()
    checked, _ = checked_bound(target, compiled, bound, touching_point(target, bound, None)[0])
    gaps = (full_terms(checked.gaps, theta, checked.data, compiled.n_obs) for theta in thetas)
    return np.array([-np.expm1(-np.maximum(gap, 0.0)).sum() for gap in gaps])


def some_draws(traces: Any) -> list[np.ndarray]:
    """Return a few draws of each chain, shape (n, dim) each."""
    draws_of_chains = [trace["posterior"]["beta"].values[0] for trace in traces]
    return [draws[:: max(1, len(draws) * len(draws_of_chains) // DRAWS)] for draws in draws_of_chains]


def updates_and_bounds(results: Any) -> list[Any]:
    """Tabulate bright data, queries, mixing and cost by update and bound; draw the numbers of bright data."""
    import arviz as az
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name in results.study.targets:
        traces_by_label = {label: traces for (of, label), traces in results.traces().items() if of == name}
        if "exact" not in traces_by_label:
            continue
        target = results.target(name)
        thetas = some_draws(traces_by_label["exact"])
        expected = {
            bound: mean_interval([expected_bright(target, bound, draws).mean() for draws in thetas]) for bound in SHARE
        }
        for setting in results.study.settings():
            if setting.label not in traces_by_label or setting.sampler_name != "firefly":
                continue
            traces = traces_by_label[setting.label]
            stats = [trace["sample_stats"] for trace in traces]
            steps = [
                s.sizes["draw"] * int(trace["posterior"].attrs["thin"]) for s, trace in zip(stats, traces, strict=True)
            ]
            ess = [float(az.ess(trace["posterior"]["beta"], method="bulk").median()) for trace in traces]
            row = {"target": name, **setting.knobs}
            row |= expected[setting.knobs["bound"]].columns("expected bright")
            for heading, values in (
                ("realised bright", [float(s["bright_count"].mean()) for s in stats]),
                (
                    "queries per step",
                    [float(s["likelihood_evaluations"].sum()) / n for s, n in zip(stats, steps, strict=True)],
                ),
                ("ESS per 1000 steps", [1000.0 * e / n for e, n in zip(ess, steps, strict=True)]),
                (
                    "us per step",
                    [1e6 * float(seconds_of_draws(s).sum()) / n for s, n in zip(stats, steps, strict=True)],
                ),
            ):
                row |= mean_interval(values).columns(heading)
            rows.append(row)
    table = pd.DataFrame(rows)
    caption = (
        "Expected bright: equation 3, sum over the data of 1 - B / L, averaged over draws of full-data chains. "
        "Realised: mean number of bright data along the Firefly chain. Bulk effective sample size, median over "
        "coordinates. Student intervals over chains."
    )
    return [effective_steps(table), Table("Updates of z and bounds", caption, table), brightness(table)] if rows else []


def effective_steps(table: Any) -> Figure:
    """Draw the effective draws of a step over its time, with intervals, and lines of equal effective draws a second."""
    figure, axis = subplots(figsize=(8.6, 4.4))
    names = ("us per step", "ESS per 1000 steps")
    ends = np.array([6.0, 500.0])
    for rate in (10, 30, 100):
        axis.plot(ends, 1e-3 * rate * ends, color=INK, linestyle=":", linewidth=0.8)
        axis.annotate(
            f"{rate} a second", (ends[0], 1e-3 * rate * ends[0]), (2, -10), textcoords="offset points", fontsize=8
        )
    for k, (update, rows) in enumerate(table.groupby("update", sort=False)):
        x, y = (rows[name].to_numpy() for name in names)
        half = [np.minimum((rows[f"{name}_upper"] - rows[name]).fillna(0.0), 0.9 * rows[name]) for name in names]
        axis.errorbar(x, y, half[1], half[0], fmt="os^"[k], color=COLOURS[k], capsize=2, label=f"{update} update")
        for bound, a, b in zip(rows["bound"], x, y, strict=True):
            axis.annotate(f"{bound} bound", (a, b), (6, -10), textcoords="offset points", fontsize=8)
    axis.set(xscale="log", yscale="log", xlabel="microseconds per step", ylabel="effective draws per 1000 steps")
    axis.legend(fontsize=8)
    caption = "Bars: Student intervals over chains. On a dotted line the effective draws per second are equal."
    return Figure("What a step costs and gives", caption, figure, table)


def brightness(table: Any) -> Figure:
    """Draw the realised number of bright data, with its interval, over the expected one."""
    figure, axis = subplots(figsize=(8.6, 4.4))
    ends = np.array([0.7, 1.4]) * (table["expected bright"].min(), table["expected bright"].max())
    axis.plot(ends, ends, color=INK, linestyle="--", linewidth=1.0, label="expected = realised")
    for k, (update, rows) in enumerate(table.groupby("update", sort=False)):
        shift = 1.04 ** (k - 1)  # puts the three marks of a bound side by side
        half = (
            (rows["realised bright_upper"] - rows["realised bright"])
            .fillna(0.0)
            .clip(upper=0.9 * rows["realised bright"])
        )
        axis.errorbar(rows["expected bright"] * shift, rows["realised bright"], yerr=half, fmt="os^"[k],
                      color=COLOURS[k], capsize=2, label=update)  # fmt: skip
    for bound, rows in table.groupby("bound", sort=False):
        axis.annotate(bound, (rows["expected bright"].iloc[0], rows["realised bright"].max()), (0, 10),
                      textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="expected number of bright data", ylabel="realised")
    axis.legend(fontsize=8)
    caption = (
        "Realised numbers against equation 3; bars: Student intervals over chains; marks of one bound are set side "
        "by side."
    )
    return Figure("Bright data, expected and realised", caption, figure, table)


study = Study(
    name="firefly_updates",
    reference="Draves (2019), Exact MCMC with Firefly Monte Carlo: A Review, algorithms 3 to 5 and equation 3",
    names={
        "firefly": "Firefly",
        "mnist": "MNIST",
        "taylor": "Taylor",
    },
    targets={"mnist": mnist},
    samplers={
        "exact": exact(),
        "firefly": vary(firefly, bound=knob(*SHARE), update=knob(*UPDATES)),
    },
    budget=Budget(seconds=100.0),
    tune=4000,
    thin=10,
    audit_every=None,
    replicates=6,
    gold=None,
    seed=2019,
    start=start,
    analyses=(data_used, updates_and_bounds),
    presets={
        "smoke": {"targets": {"mnist": small_mnist}, "budget": Budget(draws=300), "tune": 300, "replicates": 2},
        "quick": {"targets": {"mnist": any_mnist}, "budget": Budget(seconds=4.0), "tune": 1500, "replicates": 2},
        "published": {"budget": Budget(seconds=8.0), "replicates": 5},
    },
)
