"""Firefly Monte Carlo: what exact subsampling saves on three models, in likelihood evaluations and in seconds.

Maclaurin and Adams (2014), Firefly Monte Carlo: Exact MCMC with Subsets of Data, UAI, section 4 and table 1 (numbers as
reported in secondary sources). Logistic regression of the digits 7 and 9 on 50 principal components and
a constant; softmax regression of three classes (there: CIFAR-10; here: generated); robust regression with Student-t
errors (there: 1.8 million molecules; here: generated). Columns have unit variance, so that one proposal scale suits all
coordinates; chains of random walks and Langevin steps tune this scale. All chains start at a draw of the Laplace
approximation.
"""

import functools
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import Dataset, synthetic_stand_in
from approxmcmc.study import Budget, Gold, PaperValue, Study
from approxmcmc.study.measures import seconds_of_draws
from approxmcmc.study.report import Figure, Note, Table
from approxmcmc.study.report.figures import log_axes
from approxmcmc.study.report.intervals import rate_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.tools import gold
from studies.tools.efficiency import effective_samples
from studies.tools.mnist import images
from studies.tools.published import MARGIN

WALK = amc.RandomWalk(0.02, target_acceptance=0.234)
LANGEVIN = amc.Langevin(1e-4, target_acceptance=0.574)
SLICE = amc.samplers.Slice(0.1)
# Table 1 of the paper, as reported in secondary sources: queries per iteration, effective samples per 1000 iterations.
# Its softmax regression moves by Langevin steps and its robust regression by slices, on other data than these.
PRINTED = "table 1, as reported in secondary sources"
PAPER = {
    "mnist": {"exact": (12_214, 3.7), "untuned": (6_252, 1.3), "tuned": (207, 1.4)},
    "softmax": {"exact_langevin": (18_000, 8.0), "tuned_langevin": (654, 3.3)},
    "robust": {"tuned_slice": (575_528, 1.2)},
}
SPEED_UPS = {("mnist", "untuned"): 0.7, ("mnist", "tuned"): 22.0, ("softmax", "tuned_langevin"): 11.0}


def digits(data: Dataset) -> "amc.targets.LogisticRegression":
    """Return the logistic regression on standardised components and a constant."""
    return amc.targets.LogisticRegression(data.X_train / data.X_train.std(axis=0), data.y_train, intercept=True)


def mnist() -> "amc.targets.LogisticRegression":
    """Return the paper's first target, or raise if the images are not available."""
    return digits(images(real=True))


def any_mnist() -> "amc.targets.LogisticRegression":
    """Return the paper's first target, or generated data in its place."""
    return digits(images())


def small_mnist() -> "amc.targets.LogisticRegression":
    """Return the logistic regression on the generated data of preset smoke."""
    return digits(synthetic_stand_in(n_train=1000, n_test=0, n_components=5))


def softmax_of(n_obs: int, n_columns: int) -> "amc.targets.SoftmaxRegression":
    """Return the softmax regression of generated data: `n_obs` rows of `n_columns` columns, three classes."""
    rng = np.random.default_rng(2014)
    X = rng.standard_normal((n_obs, n_columns))
    scores = X @ (2.0 * rng.standard_normal((n_columns, 3)) / np.sqrt(n_columns))
    return amc.targets.SoftmaxRegression(X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1))


def robust_of(n_obs: int, n_columns: int) -> "amc.targets.RobustRegression":
    """Return the regression of generated data with Student-t errors, 4 degrees of freedom and scale 0.5."""
    rng = np.random.default_rng(2014)
    X = rng.standard_normal((n_obs, n_columns))
    y = X @ rng.standard_normal(n_columns) + 0.5 * rng.standard_t(4, size=n_obs)
    return amc.targets.RobustRegression(X, y, df=4.0, scale=0.5)


def softmax() -> "amc.targets.SoftmaxRegression":
    """Return the softmax regression of 18000 generated rows, as many as in the paper; 33 coefficients."""
    return softmax_of(18_000, 11)


def robust() -> "amc.targets.RobustRegression":
    """Return the robust regression of 200000 generated rows, 57 coefficients."""
    return robust_of(200_000, 57)


def quick_softmax() -> "amc.targets.SoftmaxRegression":
    """Return the second target of preset quick."""
    return softmax_of(3_000, 4)


def quick_robust() -> "amc.targets.RobustRegression":
    """Return the third target of preset quick."""
    return robust_of(100_000, 10)


def small_softmax() -> "amc.targets.SoftmaxRegression":
    """Return the second target of preset smoke."""
    return softmax_of(600, 2)


def small_robust() -> "amc.targets.RobustRegression":
    """Return the third target of preset smoke."""
    return robust_of(1000, 3)


def samplers() -> dict[str, Any]:
    """Return full-data chains and Firefly, by random walk and with gradients, and Firefly by slice sampling."""
    return {
        "exact": amc.MetropolisHastings(WALK, amc.ExactTest()),
        "untuned": amc.Firefly(WALK, "untuned", amc.samplers.ImplicitResampling(0.1)),
        "tuned": amc.Firefly(WALK, "tuned", amc.samplers.ImplicitResampling(0.01)),
        "exact_langevin": amc.MetropolisHastings(LANGEVIN, amc.ExactTest()),
        "tuned_langevin": amc.Firefly(LANGEVIN, "tuned", amc.samplers.ImplicitResampling(0.01)),
        "tuned_slice": amc.Firefly(SLICE, "tuned", amc.samplers.ImplicitResampling(0.01)),
    }


def start(target: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a draw of the Laplace approximation."""
    fit = laplace_of(target)
    return rng.multivariate_normal(fit.mode, fit.cov, method="cholesky")


@functools.cache
def laplace_of(target: Any) -> Any:
    """Return the Laplace approximation of a target, found once."""
    return amc.laplace(target)


def coefficients(posterior: Any) -> Any:
    """Return all coefficients along one axis, dims (chain, draw, coefficient)."""
    beta = posterior["beta"]
    axes = [dim for dim in beta.dims if dim not in ("chain", "draw")]
    return beta.stack(coefficient=axes).reset_index("coefficient", drop=True)


def queries(results: Any) -> list[Table]:
    """Tabulate likelihood evaluations per iteration, effective samples, and the speed-up."""
    import pandas as pd

    measured = {
        key: [np.array(column) for column in zip(*map(_efficiency, traces), strict=True)]
        for key, traces in results.traces().items()
    }
    rows = []
    for (target, label), (evaluations, effective, seconds) in measured.items():
        row = {"target": target, "sampler": label} | rate_interval(evaluations).columns("queries / iteration")
        row |= rate_interval(effective).columns("ESS / 1000 iterations")
        row |= rate_interval(1e6 * seconds).columns("us / iteration")
        row["bright data"] = _bright(results.traces()[target, label])
        kind = "exact_langevin" if "langevin" in label else "exact"
        others = measured.get((target, kind), (evaluations, effective, seconds))
        for name, cost, their_cost in (("query", evaluations, others[0]), ("second", seconds, others[2])):
            pairs = zip(effective / cost, others[1] / their_cost, strict=False)  # of the same block
            row |= rate_interval(ours / theirs for ours, theirs in pairs).columns(f"speed-up per {name}")
        rows.append(row)
    caption = (
        "Likelihood evaluations per iteration, effective samples per 1000 iterations (bulk, median over coordinates), "
        "microseconds per iteration: geometric means over chains with 95 % Student intervals of the logarithms; bright "
        "data: median. Speed-up: effective samples per likelihood evaluation, and per second, over those of the "
        "full-data chain of the same kind (of the random walk for the slice) in the same block. Gradients are not "
        "counted as queries."
    )
    data = pd.DataFrame(rows)
    return [speed_ups(data), Table("Queries and speed-up", caption, data)] if rows else []


def speed_ups(data: Any) -> Figure:
    """Draw what Firefly gains: effective samples over those of a full-data chain, per evaluation and per second."""
    shown = data[data["bright data"].notna()]
    figure, axes = subplots(1, 2, figsize=(9.6, 0.8 + 0.3 * len(shown)), sharey=True)
    places = np.arange(len(shown))
    for panel, name, unit in zip(axes, ("query", "second"), ("likelihood evaluation", "second"), strict=True):
        value, lower, upper = (shown[f"speed-up per {name}{end}"].to_numpy() for end in ("", "_lower", "_upper"))
        panel.errorbar(value, places, xerr=[value - lower, upper - value], fmt="o", markersize=5, color=COLOURS[0])
        panel.axvline(1.0, color=INK, linewidth=0.8, linestyle="--")
        log_axes(panel, y=False)
        panel.set_xlabel(f"effective samples per {unit}, over the exact chain's")
    axes[0].set_yticks(
        places, [f"{target}, {label}" for target, label in zip(shown.target, shown.sampler, strict=True)]
    )
    axes[0].invert_yaxis()
    caption = (
        "Firefly with untuned and tuned bounds, with Langevin steps and with slices, beside the chain that reads all "
        "data: ratios with 95 % Student intervals over chains. Right of the dashed line Firefly gains."
    )
    return Figure("What Firefly saves", caption, figure, shown)


def _bright(traces: Any) -> float:
    counts = [float(t.sample_stats["bright_count"].mean()) for t in traces if "bright_count" in t.sample_stats]
    return float(np.median(counts)) if counts else float("nan")


def _efficiency(trace: Any) -> tuple[float, float, float]:
    """Return likelihood evaluations per step, effective samples per 1000 steps, and seconds per step of one chain."""
    import arviz as az

    steps = trace.posterior.sizes["draw"] * int(trace.posterior.attrs["thin"])
    stats = trace.sample_stats
    effective = float(az.ess(trace.posterior["beta"], method="bulk").median())
    evaluations, seconds = (float(x.sum()) / steps for x in (stats["likelihood_evaluations"], seconds_of_draws(stats)))
    return evaluations, 1000.0 * effective / steps, seconds


def queries_per_step(trace: Any) -> float:
    """Return likelihood evaluations per step."""
    return _efficiency(trace)[0]


def effective_per_1000(trace: Any) -> float:
    """Return effective samples per 1000 steps."""
    return _efficiency(trace)[1]


def effective_per_query(trace: Any) -> float:
    """Return effective samples per likelihood evaluation."""
    evaluations, effective, _ = _efficiency(trace)
    return effective / 1000.0 / evaluations


# Relative differences up to which numbers count as equal: queries have little noise.
MARGINS = {"queries": 0.1, "ESS per 1000 steps": MARGIN}


def published() -> dict[str, PaperValue]:
    """Return the numbers of the paper's table 1."""
    values = {}
    for target, rows in PAPER.items():
        differs = "" if target == "mnist" else "generated data here"
        for label, pair in rows.items():
            for number, measure in zip(pair, ("queries", "ESS per 1000 steps"), strict=True):
                values[f"{target}, {label}: {measure}"] = PaperValue(
                    number,
                    "1",
                    PRINTED,
                    measure=measure,
                    setting=label,
                    target=target,
                    differs=differs,
                    margin=MARGINS[measure] * number,
                )
        for (of, label), number in SPEED_UPS.items():
            base = "exact_langevin" if "langevin" in label else "exact"
            if of == target:
                values[f"{target}, {label}: speed-up per query"] = PaperValue(
                    number, "times", PRINTED, measure="ESS per query", setting=label, target=target,
                    relative_to=base, differs=differs, margin=MARGIN * number,
                )  # fmt: skip
    return values


def data_used(results: Any) -> list[Note]:
    """Return a note if the data are not the real images."""
    synthetic = results.preset == "smoke" or images().is_synthetic
    note = Note("No images of digits were used: the data are generated with the spectrum of the images.")
    return [note] if synthetic else []


study = Study(
    name="firefly",
    reference="Maclaurin and Adams (2014), Firefly Monte Carlo: Exact MCMC with Subsets of Data, section 4, table 1",
    names={
        "exact_langevin": "exact Langevin",
        "mnist": "MNIST",
        "tuned_langevin": "tuned Langevin",
        "tuned_slice": "tuned slice",
    },
    targets={"mnist": mnist, "softmax": softmax, "robust": robust},
    samplers=samplers(),
    estimands={"coefficients": coefficients},
    average_over=("coefficients",),
    budget=Budget(seconds=300.0),
    tune=4000,
    thin=10,
    replicates=6,
    gold=Gold(),
    seed=2014,
    start=start,
    analyses=(data_used, queries, effective_samples),
    measures={
        "queries": queries_per_step,
        "ESS per 1000 steps": effective_per_1000,
        "ESS per query": effective_per_query,
    },
    paper_values=published(),
    presets={
        "smoke": {
            "targets": {"mnist": small_mnist, "softmax": small_softmax, "robust": small_robust},
            "budget": Budget(draws=300),
            "tune": 300,
            "replicates": 2,
            "gold": Gold(chains=2, draws=300, tune=300),
            "paper_values": {},
        },
        "quick": {
            "targets": {"mnist": any_mnist, "softmax": quick_softmax, "robust": quick_robust},
            "budget": Budget(seconds=8.0),
            "tune": 1500,
            "replicates": 2,
            "gold": gold.QUICK,
        },
        "published": {
            "like": "quick",
            "replicates": 5,
            "gold": Gold(chains=4, draws=10_000, by=gold.precise_exact_chain),
        },
    },
)
