"""Real tall data: which samplers are right, wrong with a warning, or wrong without one.

The data sets are those of `approxmcmc.datasets.tall_target`, from easy to hard. On ordinary data with one-hot columns a
few rows carry nearly all of the variance of the terms; a subsample rarely contains these rows, and neither R-hat nor
the effective sample size shows that they are missing. References are long exact chains; in preset paper NUTS where it
passes its checks in an hour. Every sampler uses the metric of the Laplace approximation, and all chains start at a draw
of this approximation. The chains of one setting are judged together, as one run.
"""

import functools
import math

import numpy as np

from approxmcmc.datasets import TALL_DATA, tall_data, tall_target
from approxmcmc.study import Budget, Study
from approxmcmc.study.biases import as_one_run
from approxmcmc.study.report import Figure, Note, Table
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.tools.in_laplace_metric import start
from studies.tools.tall_references import SEED, reference_of, references
from studies.tools.tall_samplers import SAMPLERS
from studies.tools.verdict import RIGHT, SILENT, UNDECIDED, UNKNOWN, WARNED, judge

HUGE = ("kdd99", "kdd99_one_hot")  # half a million rows
RARE = ("kdd99_one_hot", "covertype", "a9a")  # data with one-hot columns
PAINT = {RIGHT: COLOURS[2], WARNED: COLOURS[4], SILENT: COLOURS[7], UNDECIDED: "#9aa1a9", UNKNOWN: "#d0d4d9"}
# Limits of the picture of marginals.
WIDE = 4.0  # posterior sds on either side
HIGH = 2.5  # multiples of the reference's height


def truth(results, name: str):
    """Return the reference of a data set if it passed its checks, else None; preset smoke ignores failed checks."""
    reference = reference_of(results.target(name), name, results.preset)
    return reference if reference["posterior"].attrs["gates_passed"] or results.preset == "smoke" else None


@functools.cache
def runs_of(results):
    """Return the runs by (data set, sampler): the chains of every setting that has finished."""
    return {key: as_one_run(traces) for key, traces in results.traces().items()}


@functools.cache
def verdicts(results):
    """Return (data set, sampler, run, verdict) of every run."""
    return [(name, label, run, judge(run, truth(results, name))) for (name, label), run in runs_of(results).items()]


def matrix(results) -> list:
    """Draw and tabulate the verdict on every sampler and data set."""
    import pandas as pd

    rows = [
        {"data": name, "sampler": label, "verdict": verdict.short}
        | verdict.shift.columns("largest shift (sd)")
        | {"of": verdict.shift_at}
        | verdict.ratio.columns("largest sd ratio")
        | {"R-hat": verdict.r_hat, "min ESS": verdict.ess, "draws per chain": run["posterior"].sizes["draw"]}
        | {"failed checks": ", ".join(verdict.problems) or "none"}
        for name, label, run, verdict in verdicts(results)
    ]
    if not rows:
        return []
    data = pd.DataFrame(rows)
    caption = (
        "Right: every mean within .1 posterior sd of the reference and every sd within 10 %, by intervals that hold "
        "together with probability .95; wrong: one of them outside; undecided: the Monte Carlo error is too large to "
        "tell. "
        "Warned: at least one check of amc.diagnose fails. Largest sd ratio: the larger over the smaller."
    )
    formats = {"R-hat": ".3f", "min ESS": ".0f"}
    return [
        Figure("Verdicts", caption, _grid(data), data[["data", "sampler", "verdict"]]),
        Table("Verdicts and what they rest on", caption, data, formats=formats),
    ]


def _grid(data):
    names, samplers = (list(dict.fromkeys(data[column])) for column in ("data", "sampler"))
    figure, axes = subplots(figsize=(1.2 + 1.25 * len(names), 0.8 + 0.52 * len(samplers)))
    for row in data.itertuples():
        x = names.index(row.data)
        y = samplers.index(row.sampler)
        word, _, warned = row.verdict.partition(", ")
        axes.add_patch(_square(x, y, PAINT[word]))
        axes.text(x, y, f"{word}\n{warned}".strip().replace(" and ", "\nand "), ha="center", va="center", fontsize=7)
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(samplers) - 0.5, -0.5))
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(samplers)), samplers)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    return figure


def _square(x, y, colour):
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=colour, alpha=0.75, linewidth=0)


def rare_category(results) -> list:
    """Draw the marginal of a rare category's coefficient under each sampler, over that of the reference."""
    import pandas as pd
    from scipy.stats import gaussian_kde

    figures = []
    for name in results.study.targets:
        runs = {label: run for (data, label), run in runs_of(results).items() if data == name}
        if not runs or name not in RARE:
            continue
        reference = reference_of(results.target(name), name, results.preset)
        column, count = _rarest(results.target(name))
        truth = reference["posterior"]["beta"].values[..., column].ravel()
        centre = truth.mean()
        sd = truth.std()
        grid = np.linspace(centre - WIDE * sd, centre + WIDE * sd, 150)
        height = gaussian_kde(truth)(grid)
        shape = (math.ceil(len(runs) / 4), 4)
        figure, axes = subplots(*shape, figsize=(9.6, 1.9 * shape[0]), sharex=True, sharey=True, squeeze=False)
        axes[0, 0].set_ylim(0.0, HIGH * height.max())
        label_of = results.target(name).variables.labels()[column]
        rows = []
        for panel, (label, run) in zip(axes.flat, runs.items(), strict=False):
            panel.fill_between(grid, height, color=INK, alpha=0.18, linewidth=0)
            draws = run["posterior"]["beta"].values[..., column]
            for chain, values in enumerate(draws):
                if values.std() > 0.0:
                    panel.plot(grid, gaussian_kde(values[:: 1 + len(values) // 4000])(grid), color=COLOURS[chain])
                rows += [
                    {"sampler": label, "chain": chain, "draw": value} for value in values[:: 1 + len(values) // 500]
                ]
            panel.set_title(label)
        for panel in axes[-1]:
            panel.set_xlabel(label_of)
        caption = (
            f"The coefficient of {label_of}, which {count} of {results.target(name).n_obs} rows have. Grey: the "
            f"reference ({reference['posterior'].attrs['method']}); lines: one for each chain (kernel estimates). "
            "A chain that never moved has no line; high peaks are cut."
        )
        figures.append(Figure(f"A rare category, {name}", caption, figure, pd.DataFrame(rows)))
    return figures


def _rarest(target):
    """Return the index of the rarest category's coefficient, and how many rows have the category."""
    largest = target.X.max(axis=0)  # of a standardised 0/1 column: sqrt((1 - p) / p)
    column = int(largest.argmax())
    return column, int((target.X[:, column] > 0.5 * largest[column]).sum())


def data_used(results) -> list:
    """Return a note if some of the data are generated."""
    source = "synthetic" if results.preset == "smoke" else "auto"
    names = [name for name in results.study.targets if name in TALL_DATA]
    synthetic = [name for name in names if tall_data(name, source, allow_synthetic=True).is_synthetic]
    text = f"Generated data replace {', '.join(synthetic)}: look at the mechanism, not at the verdicts."
    return [Note(text)] if synthetic else []


def targets(names, source: str = "auto") -> dict:
    """Return functions that make the posteriors of some data sets, by name."""
    return {name: functools.partial(tall_target, name, source) for name in names}


study = Study(
    name="real_data",
    reference="Logistic regressions on MNIST, KDD99, Covertype, a9a, ijcnn1 and EEG: see approxmcmc.datasets",
    names={
        "bernstein": "Bernstein",
        "control_variates": "control variates",
        "core_barker": "influential rows (Barker)",
        "core_bernstein": "influential rows (Bernstein)",
        "core_exact": "influential rows (exact)",
        "core_t_test": "influential rows (t-test)",
        "covertype": "Covertype",
        "exact_walk": "exact walk",
        "firefly": "Firefly",
        "mala": "MALA",
        "minibatch_barker": "minibatch Barker",
        "mnist_7v9": "MNIST 7 and 9",
        "sgld": "SGLD",
        "t_test": "t-test",
    },
    targets=targets(TALL_DATA),
    samplers=SAMPLERS,
    budget=Budget(seconds=300.0),
    tune=1000,
    replicates=4,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(data_used, references, matrix, rare_category),
    presets={
        "smoke": {
            "targets": targets(("mnist_7v9", "covertype"), "synthetic"),
            "budget": Budget(draws=200),
            "tune": 100,
            "replicates": 2,
        },
        "quick": {
            "targets": targets([name for name in TALL_DATA if name not in HUGE]),
            "budget": Budget(seconds=5.0),
            "tune": 200,
            "replicates": 2,
        },
        "published": {"like": "quick", "targets": targets(("mnist_7v9", "covertype")), "replicates": 5},
    },
)
