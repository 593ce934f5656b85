"""Exact on few rows, or nearly so: exact subsampling against biased samplers and against steps that read all data.

Surrogate transitions on influential rows, decided by every exact test and by t-tests, are compared with exact MALA,
control variates with independent draws of the Laplace approximation, and stochastic gradients. Risk is that of the
posterior means, in squared posterior standard deviations and averaged over coefficients, against seconds and against
data read; the references are long exact chains, or in preset paper NUTS where it is fast. All chains start at a draw of
the Laplace approximation. A separate table has the cost of set-up.
"""

import functools
import math
import warnings

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic
from approxmcmc.study import Budget, Study
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.clocks import clock_of
from approxmcmc.study.report.figures import legend_below, log_axes, style_of
from approxmcmc.study.report.intervals import LEAST_REPLICATES
from approxmcmc.study.report.svg import subplots
from studies.real_data import data_used, targets
from studies.tools.efficiency import effective_samples
from studies.tools.in_laplace_metric import InLaplaceMetric, control_variate, influential_rows, start
from studies.tools.tall_references import SEED, reference_of, references
from studies.tools.tall_samplers import mala, mixture, sghmc, sgld, surrogate

REAL = ("mnist_7v9", "covertype", "a9a", "kdd99")
COLUMNS = 50  # columns of the dense data


def t_test(tol: float) -> amc.SequentialTTest:
    """Return the t-test that also stops once the standard error of the log ratio is at most `tol`."""
    return amc.SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0, tol=tol)


ON_CORE_ROWS = {
    "core_sum": amc.ExactTest(),
    "core_poisson": amc.acceptance.PoissonTest(),
    "core_tuna": amc.acceptance.TunaTest(0.0),
    "core_factorized": amc.acceptance.FactorizedTest(),
    "core_delayed": amc.acceptance.DelayedAcceptance(amc.acceptance.PoissonTest()),
    "core_t_test_05": t_test(0.05),
    "core_t_test_2": t_test(0.2),
}
SAMPLERS = {
    "mala": InLaplaceMetric(mala),
    **{name: InLaplaceMetric(surrogate(test), influential_rows) for name, test in ON_CORE_ROWS.items()},
    "control_variates": InLaplaceMetric(mixture, control_variate),
    "sgld": InLaplaceMetric(sgld),
    "sghmc": InLaplaceMetric(
        sghmc, influential_rows
    ),  # on plain data the noise of 500 gradients inflates the variance more than friction can damp
}


@functools.cache
def dense(n_obs: int):
    """Return the logistic regression on `n_obs` generated rows of normal predictors."""
    return amc.targets.LogisticRegression(*synthetic_logistic(n_obs, COLUMNS, seed=0))


DENSE = {"dense_1e5": functools.partial(dense, 100_000), "dense_1e6": functools.partial(dense, 1_000_000)}


def risk_of(traces, reference, over: str):
    """Return the risk of the posterior means against `over`, in posterior variances, averaged over coefficients."""
    sd = reference["posterior"]["beta"].std(("chain", "draw"))
    in_sds = {"means": lambda posterior: posterior["beta"] / sd}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a single chain; `risks` leaves intervals of few chains out
        return amc.risk(traces, reference, estimands=in_sds, average_over=["means"], over=over, n_bootstrap=200)


def risks(results) -> list:
    """Draw risk against seconds and against data read, one figure for each data set, and tabulate its last value."""
    import pandas as pd

    pieces: list[Figure | Table] = []
    for name in results.study.targets:
        runs = {label: traces for (data, label), traces in results.traces().items() if data == name}
        if not runs:
            continue
        reference = reference_of(results.target(name), name, results.preset)
        rows = []
        styles = style_of(list(runs), "mala")
        figure, axes = subplots(1, 2, figsize=(9.6, 4.6), sharey=True)
        seconds = clock_of(results).axis
        for panel, over in zip(axes, (seconds, "datapoints_touched"), strict=True):
            for label, traces in runs.items():
                curve = risk_of(traces, reference, over).isel(estimand=0)
                positive = curve["risk"].where(curve["risk"] > 0.0)
                panel.plot(curve[over], positive, markevery=4, markersize=4, label=label, **styles[label])
                values = {end: curve[f"risk{end}"].values for end in ("", "_lower", "_upper")}
                rows += [
                    {"sampler": label, "over": over, "at": at, **{f"risk{k}": v[i] for k, v in values.items()}}
                    for i, at in enumerate(curve[over].values)
                ]
            log_axes(panel)
        axes[0].set_xlabel(f"{clock_of(results).name} time per chain (s), tuning included")
        axes[1].set_xlabel("data read per chain")
        axes[0].set_ylabel("risk of the means (posterior variances)")
        legend_below(figure, list(axes))
        caption = (
            f"Mean over coefficients of squared bias and variance of the posterior means, {results.study.replicates} "
            "chains. A curve turns flat at the squared bias or at the reference's error. "
            "Estimates that are not positive are left out."
        )
        data = pd.DataFrame(rows)
        ends = data[data["over"] == seconds].groupby("sampler", sort=False).tail(1)
        table = ends.drop(columns="over").rename(columns={"at": "seconds"})
        if results.study.replicates < LEAST_REPLICATES:
            table[["risk_lower", "risk_upper"]] = math.nan
        pieces += [
            Figure(f"Risk, {name}", caption, figure, data),
            Table(
                f"Risk at the end, {name}",
                f"Where the curves end; 95 % bootstrap intervals over chains, none with fewer than {LEAST_REPLICATES}.",
                table,
                headings={"risk": "risk (posterior variances)"},
            ),
        ]
    return pieces


def setups(results) -> list:
    """Tabulate the seconds of set-up, and the influential rows."""
    import pandas as pd

    kinds = ("influential_rows", "light_spread", "expected_reads", "pilot_seconds", "expansion_seconds")
    rows = []
    for (data, label), traces in results.traces().items():
        attrs = traces[0]["posterior"].attrs
        if "setup_influential_rows" in attrs:
            set_up = {kind: attrs.get(f"setup_{kind}", float("nan")) for kind in kinds}
            rows.append({"data": data, "sampler": label, **set_up})
    caption = "Influential rows, standard deviation of the light remainder, predicted reads of a decision, and seconds."
    return [Table("Set-up", caption, pd.DataFrame(rows))] if rows else []


study = Study(
    name="exact_subsampling",
    reference="Exact and biased subsampling on influential rows: docs/samplers/exact_subsampling.md",
    names={
        "control_variates": "control variates",
        "core_delayed": "influential rows (delayed)",
        "core_factorized": "influential rows (factorized)",
        "core_poisson": "influential rows (Poisson)",
        "core_sum": "influential rows (all rows)",
        "core_t_test_05": "influential rows (t-test 0.05)",
        "core_t_test_2": "influential rows (t-test 0.2)",
        "core_tuna": "influential rows (Tuna)",
        "covertype": "Covertype",
        "mala": "MALA",
        "mnist_7v9": "MNIST 7 and 9",
        "sghmc": "SGHMC",
        "sgld": "SGLD",
    },
    targets=targets(REAL) | DENSE,
    samplers=SAMPLERS,
    budget=Budget(seconds=300.0),
    tune=500,
    replicates=4,
    gold=None,
    audit_every=None,
    seed=SEED,
    start=start,
    analyses=(data_used, references, risks, effective_samples, setups),
    presets={
        "smoke": {
            "targets": targets(("mnist_7v9", "covertype"), "synthetic"),
            "budget": Budget(draws=200),
            "tune": 50,
            "replicates": 2,
        },
        "quick": {
            "targets": targets(("mnist_7v9", "covertype", "a9a")),
            "budget": Budget(seconds=5.0),
            "tune": 100,
            "replicates": 2,
        },
        "published": {"like": "quick", "targets": targets(("mnist_7v9", "covertype")), "replicates": 5},
    },
)
