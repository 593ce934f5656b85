"""How biased is a run, if no gold standard is available? Intervals from audited draws, compared with known values.

Independent draws of the Laplace approximation, pCN with rho = 0, are decided by sequential tests at several epsilons,
with and without control variates; SGLD is judged too. `approxmcmc.bias` estimates the bias of each setting from its
draws alone. On MNIST the estimates are compared with a long exact chain; chains on enumerated states give the coverage
of the intervals. On Covertype the exact kernel mixes badly and the verdict must say so, unless influential rows give a
better kernel. On dense data of 10^5 and 10^6 rows there is no other check. On a bimodal posterior two coupled chains
meet only after they have reached the same mode.
"""

import functools
import math
import warnings

import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic, tall_target
from approxmcmc.errors import SamplingWarning
from approxmcmc.reference import Kernel, exact_chain_reference
from approxmcmc.study import Bias, Budget, Study
from approxmcmc.study.biases import as_one_run
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.biases import gap_to_gold
from approxmcmc.study.report.svg import COLOURS, subplots
from studies.tools.bias_tables import agreement, cost
from studies.tools.in_laplace_metric import InLaplaceMetric, control_variate, laplace_of, start, unwrapped
from studies.tools.known_biases import coverage

SEED = 2031
GAP = 1.6  # Distance between the two components; the modes lie 2 GAP apart in theta2.
PRIOR_SCALE = 1.0
REFERENCE = {
    "smoke": (400, 100),
    "quick": (10_000, 200),
    "published": (10_000, 200),
    "paper": (200_000, 1000),
}  # draws and tuning steps of each of four chains
COVERAGE = {"smoke": (4, 60), "quick": (60, 200), "published": (60, 200), "paper": (500, 1000)}  # repetitions, audits


# --- targets ---


def dense(n: int, d: int = 50):
    """Return a logistic regression on normal predictors."""
    X, y = synthetic_logistic(n, d)
    return amc.targets.LogisticRegression(X, y, prior_scale=PRIOR_SCALE)


def bimodal(n: int = 5000):
    """Return the posterior of the means of a mixture; it has two modes (Welling and Teh 2011, section 5.1).

    The likelihood is tempered to the information of 100 data: with the full information no chain crosses between the
    modes.
    """
    rng = np.random.default_rng(SEED)
    x = rng.normal(np.where(rng.random(n) < 0.5, 0.0, GAP), math.sqrt(2.0))
    return amc.targets.GaussianMixture(x, variance=2.0, temperature=n / 100)


def targets(names, **changes) -> dict:
    """Return the functions that make the posteriors in `names`; `changes` holds other functions, by name."""
    every = {
        "mnist_7v9": functools.partial(tall_target, "mnist_7v9"),
        "covertype": functools.partial(tall_target, "covertype"),
        "dense_1e5": functools.partial(dense, 100_000),
        "dense_1e6": functools.partial(dense, 1_000_000),
        "bimodal": bimodal,
    }
    return {name: changes.get(name, every[name]) for name in names}


# --- samplers ---


def independent(test):
    """Return the sampler that proposes draws of the Laplace approximation, and decides by a test."""

    def recipe(fit):
        return amc.MetropolisHastings(amc.proposals.PreconditionedCrankNicolson(0.0, fit), test)

    return recipe


def sgld(fit):
    """Return stochastic-gradient Langevin dynamics in the metric of the Laplace approximation."""
    proposal = amc.proposals.StochasticGradientLangevin(step_size=0.02, batch_size=100, preconditioner=fit)
    return amc.MetropolisHastings(proposal, amc.acceptance.AlwaysAccept())


def t_test(epsilon: float, batch_size: int):
    """Return independent proposals decided by the sequential test, without control variates."""
    return InLaplaceMetric(independent(amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size)))


def samplers(batch_size: int) -> dict:
    """Return the settings that are judged."""
    residuals = amc.SequentialTTest(epsilon=0.05, batch_size=min(100, batch_size), tol=0.05)
    return {
        "exact": InLaplaceMetric(independent(amc.ExactTest())),
        "t_test_01": t_test(0.01, batch_size),
        "t_test_05": t_test(0.05, batch_size),
        "t_test_20": t_test(0.2, batch_size),
        "control_variates": InLaplaceMetric(independent(residuals), control_variate),
        "sgld": InLaplaceMetric(sgld),
    }


# --- known biases to compare with ---


@functools.cache
def reference_of(target, preset: str):
    """Return four long exact chains of independent proposals; their failed checks are reported and raise no error."""
    draws, tune = REFERENCE[preset]
    kernel = Kernel(independent(amc.ExactTest())(laplace_of(target)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        return exact_chain_reference(
            target, kernel, draws=draws, tune=tune, chains=4, random_seed=SEED, enforce=False, cores=1
        )


def mnist_against_a_long_chain(results) -> list:
    """Plot the biases estimated from the draws against the gaps to a long exact chain, for every sampler."""
    import pandas as pd

    name = "mnist_7v9"
    frames = {}
    for (target, label), traces in results.traces().items():
        estimate = results.bias(target, label)
        if target == name and estimate is not None:
            reference = reference_of(results.target(name), results.preset)
            gap = gap_to_gold(estimate, as_one_run(traces), reference)
            table = estimate[["bias", "bias_lower", "bias_upper", "posterior_sd"]].to_dataframe()
            in_sds = table[["bias", "bias_lower", "bias_upper"]].div(table["posterior_sd"], axis=0)
            frames[label] = in_sds.join(gap, how="inner")
    if not frames:
        return []
    panel_rows = math.ceil(len(frames) / 3)
    figure, axes = subplots(panel_rows, 3, figsize=(8.6, 2.9 * panel_rows), squeeze=False)
    for axis, (label, table) in zip(axes.flat, frames.items(), strict=False):
        error_bars = [table["bias"] - table["bias_lower"], table["bias_upper"] - table["bias"]]
        axis.errorbar(
            table["gap"], table["bias"], yerr=error_bars, fmt="o", markersize=2.5, linewidth=0.7, color=COLOURS[0]
        )
        axis.axline((0.0, 0.0), slope=1.0, color="gray", linewidth=0.8)
        axis.set_title(label)
        axis.set_xlabel("gap to the long chain")
    for axis in axes[:, 0]:
        axis.set_ylabel("bias estimated from the draws")
    for axis in axes.flat[len(frames) :]:
        axis.set_visible(False)
    rows = [{"setting": label, **agreement(table)} for label, table in frames.items()]
    caption = (
        "A point for each coefficient of MNIST, in posterior sds: the bias estimated by audits (95 % interval) against "
        "the difference of means from a long exact chain, which has Monte Carlo errors of both chains."
    )
    caption_of_agreement = (
        "rms z: root mean square of the differences in units of their standard errors; 1 where both are right. "
        "Correlations mean nothing where the biases are as small as the errors."
    )
    points = [table.rename_axis("estimand").reset_index().assign(setting=label) for label, table in frames.items()]
    data = pd.concat(points)
    return [
        Figure("Biases of MNIST against a long exact chain", caption, figure, data),
        Table("Agreement on MNIST", caption_of_agreement, pd.DataFrame(rows)),
    ]


def coverage_where_it_is_known(results) -> list:
    """Tabulate how often intervals contain biases that are known."""
    return [coverage(*COVERAGE[results.preset], SEED)]


study = Study(
    name="bias_without_gold",
    reference="Audited draws and coupled exact chains: Jacob, O'Leary and Atchade (2020); Douc and others (2022)",
    names={
        "control_variates": "control variates",
        "covertype": "Covertype",
        "dense_1e5": "dense simulated",
        "mnist_7v9": "MNIST 7 and 9",
        "sgld": "SGLD",
        "t_test_01": "t-test 0.01",
        "t_test_05": "t-test 0.05",
        "t_test_20": "t-test 0.20",
    },
    targets=targets(("mnist_7v9", "covertype", "dense_1e5", "dense_1e6", "bimodal")),
    samplers=samplers(500),
    budget=Budget(seconds=60.0),
    tune=1000,
    replicates=4,
    gold=None,
    seed=SEED,
    start=start,
    bias=Bias(seconds=120.0, of=unwrapped),
    analyses=(mnist_against_a_long_chain, cost, coverage_where_it_is_known),
    presets={
        "smoke": {
            "targets": targets(
                ("mnist_7v9", "bimodal"), mnist_7v9=functools.partial(tall_target, "mnist_7v9", "synthetic")
            ),
            "samplers": samplers(50),
            "budget": Budget(draws=200),
            "tune": 50,
            "replicates": 2,
            "bias": Bias(n_audits=60, of=unwrapped),
        },
        "quick": {
            "targets": targets(("mnist_7v9", "covertype", "dense_1e5", "bimodal")),
            "budget": Budget(seconds=5.0),
            "tune": 200,
            "replicates": 2,
            "bias": Bias(seconds=15.0, of=unwrapped),
        },
        "published": {"like": "quick", "replicates": 5},
    },
)
