"""How biased is a run, where no gold standard can be had? Intervals from audited draws, held against what is known.

Independent draws of the Laplace approximation, pCN with rho = 0, are put to sequential tests at several epsilons, with
and without control variates, and SGLD runs beside them. `approxmcmc.bias` tells the bias of each setting from its draws
alone. On MNIST a long exact chain says whether it is right; the canonical normal model gives coverage; on Covertype the
exact kernel mixes badly and the verdict must say so, unless core rows bring a better one; on dense data of 10^5 and
10^6 rows nothing else can tell; on a bimodal posterior couplings live as long as chains take from mode to mode.
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
from studies.tools.in_laplace_metric import InLaplaceMetric, control_variate, core_rows, laplace_of, start, unwrapped

SEED = 2031
GAP = 1.6  # of the two components; the modes lie 2 GAP apart in theta2
PRIOR_SCALE = 1.0
REFERENCE = {"smoke": (400, 100), "quick": (10_000, 200), "paper": (200_000, 1000)}  # draws and tuning of four chains
COVERAGE = {"smoke": (4, 60), "quick": (60, 200), "paper": (500, 1000)}  # repetitions, audits


# --- targets ---


def dense(n: int, d: int = 50):
    """Return a logistic regression on normal predictors."""
    X, y = synthetic_logistic(n, d)
    return amc.targets.LogisticRegression(X, y, prior_scale=PRIOR_SCALE)


def bimodal(n: int = 5000):
    """Return the means of a mixture whose posterior has two modes (Welling and Teh 2011, section 5.1).

    Its likelihood is tempered to what 100 data say: more would part the modes for good, and fewer leave no subsets.
    """
    rng = np.random.default_rng(SEED)
    x = rng.normal(np.where(rng.random(n) < 0.5, 0.0, GAP), math.sqrt(2.0))
    return amc.targets.GaussianMixture(x, variance=2.0, temperature=n / 100)


def targets(names, **changes) -> dict:
    """Return the posteriors, made when they are needed."""
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
    """Return what proposes draws of the Laplace approximation, and puts them to a test."""

    def recipe(fit):
        return amc.MetropolisHastings(amc.PreconditionedCrankNicolson(0.0, fit), test)

    return recipe


def sgld(fit):
    """Return stochastic-gradient Langevin dynamics in the metric of the Laplace approximation."""
    return amc.presets.sgld(0.02, batch_size=100, preconditioner=fit)


def t_test(epsilon: float, batch_size: int):
    """Return the sequential test on the terms themselves."""
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


# --- what is known beside ---


@functools.cache
def reference_of(target, preset: str):
    """Return a long exact chain of independent proposals, held against its gates; reported, not enforced."""
    draws, tune = REFERENCE[preset]
    kernel = Kernel(independent(amc.ExactTest())(laplace_of(target)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        return exact_chain_reference(
            target, kernel, draws=draws, tune=tune, chains=4, random_seed=SEED, enforce=False, cores=1
        )


def mnist_against_a_long_chain(results) -> list:
    """Plot the biases that the draws tell against the gaps to a long exact chain, for every epsilon."""
    import pandas as pd

    name, frames = "mnist_7v9", {}
    for (target, label), traces in results.traces().items():
        found = results.bias(target, label)
        if target == name and found is not None:
            gap = gap_to_gold(found, as_one_run(traces), reference_of(results.target(name), results.preset))
            table = found[["bias", "bias_lower", "bias_upper", "posterior_sd"]].to_dataframe()
            told = table[["bias", "bias_lower", "bias_upper"]].div(table["posterior_sd"], axis=0)
            frames[label] = told.join(gap, how="inner")
    if not frames:
        return []
    figure, axes = subplots(
        1, len(frames), figsize=(2.1 * len(frames) + 0.6, 2.6), sharex=True, sharey=True, squeeze=False
    )
    for axis, (label, table) in zip(axes.flat, frames.items(), strict=True):
        reach = [table["bias"] - table["bias_lower"], table["bias_upper"] - table["bias"]]
        axis.errorbar(table["gap"], table["bias"], yerr=reach, fmt="o", markersize=2.5, linewidth=0.7, color=COLOURS[0])
        axis.axline((0.0, 0.0), slope=1.0, color="gray", linewidth=0.8)
        axis.set_title(label)
        axis.set_xlabel("gap to the long chain")
    axes[0, 0].set_ylabel("bias told by the draws")
    rows = [{"setting": label, **_agreement(table)} for label, table in frames.items()]
    caption = (
        "A point for each coefficient of MNIST, in posterior sds: the bias told by audits (95 % interval) against the "
        "difference of means from a long exact chain, which has Monte Carlo errors of both chains."
    )
    told = (
        "rms z: of the differences, by the errors of all three; 1 where both are right. Correlations mean nothing "
        "where the biases are as small as the errors."
    )
    data = pd.concat([table.rename_axis("estimand").reset_index().assign(setting=k) for k, table in frames.items()])
    return [
        Figure("Biases of MNIST against a long exact chain", caption, figure, data),
        Table("Agreement on MNIST", told, pd.DataFrame(rows)),
    ]


def _agreement(table):
    errors = [(table[f"{name}_upper"] - table[f"{name}_lower"]) / (2.0 * 1.96) for name in ("bias", "gap")]
    z = (table["bias"] - table["gap"]) / np.hypot(*errors)
    return {
        "rms bias (sd)": float(np.sqrt((table["bias"] ** 2).mean())),
        "rms gap (sd)": float(np.sqrt((table["gap"] ** 2).mean())),
        "correlation": float(np.corrcoef(table["bias"], table["gap"])[0, 1]),
        "error of a bias": float(errors[0].median()),
        "error of a gap": float(errors[1].median()),
        "rms z": float(np.sqrt((z**2).mean())),
    }


def covertype_by_core_rows(results) -> list:
    """Tabulate the verdict on the control variates of Covertype with the default kernel, and with one by core rows."""
    import pandas as pd

    runs = {key: traces for key, traces in results.traces().items() if key == ("covertype", "control_variates")}
    rows = []
    for (name, label), traces in runs.items():
        target = results.target(name)
        form, sampler = unwrapped(target, results.study.samplers[label])
        core = core_rows(target), amc.MetropolisHastings(amc.SurrogateTransition())
        run = as_one_run(traces)
        asked = results.study.bias
        by_core = amc.bias(
            run, form, sampler, kernel=core, n_audits=asked.n_audits, seconds=asked.seconds, random_seed=SEED
        )
        for kernel, found in (("default", results.bias(name, label)), ("core rows", by_core)):
            if found is not None:
                rows.append({"kernel": kernel, **_worst(found)})
    caption = (
        "Control variates on Covertype move well and are wrong. Independent draws of the Laplace approximation are no "
        "exact kernel that mixes there, and the verdict has to say so; transitions of the core rows' surrogate are."
    )
    return [Table("Covertype, with and without core rows", caption, pd.DataFrame(rows))] if rows else []


def _worst(found):
    relative = np.abs(found["bias"] / found["posterior_sd"].where(found["posterior_sd"] > 0.0))
    at = found.isel(estimand=int(relative.argmax("estimand")))
    return {
        "verdict": str(found["verdict"].item()),
        "estimand": str(at["estimand"].item()),
        **{f"bias (sd){end}": float(at[f"bias{end}"] / at["posterior_sd"]) for end in ("", "_lower", "_upper")},
        "TV bound": float(found["tv_bound"]),
        "audits": int(found["n_audits"]),
        "passes": float(found["passes"]),
        "seconds": float(found["seconds"]),
        "reasons": str(found["reasons"].item()),
    }


def cost(results) -> list:
    """Tabulate what an error of a bias costs in passes, beside the exact chain that would give the same error."""
    import pandas as pd
    from arviz import ess

    rows = []
    for target in results.study.targets:
        exact = results.traces().get((target, "exact"))
        rate = math.nan
        if exact:
            run = as_one_run(exact)["posterior"].to_dataset()
            sizes = ess(run)
            effective = np.median(np.concatenate([np.ravel(sizes[name].values) for name in sizes.data_vars]))
            rate = float(effective) / (run.sizes["chain"] * run.sizes["draw"])
        for setting in results.study.settings():
            found = results.bias(target, setting.label)
            if found is None or setting.label == "exact":
                continue
            relative = found["variance_per_audit"] / found["posterior_sd"].where(found["posterior_sd"] > 0.0) ** 2
            error = float(np.sqrt(relative.median() / found["n_audits"]))
            rows.append(
                {
                    "target": target,
                    "setting": setting.label,
                    "verdict": str(found["verdict"].item()),
                    "form": found.attrs["form"],
                    "error of a bias (sd)": error,
                    "passes": float(found["passes"]),
                    "passes of the exact chain": 1.0 / error**2 / rate if error > 0.0 else math.nan,
                    "seconds": float(found["seconds"]),
                }
            )
    caption = (
        "Median error of a bias, in posterior sds, and the passes over the data that it took, pilots included; beside "
        "them the steps, each a pass, that the exact chain of independent proposals would need for a mean as exact "
        "(its effective draws a step are those of the exact setting). The race page has the seconds of NUTS."
    )
    return [Table("Cost of a bias", caption, pd.DataFrame(rows), formats={"passes": ",.0f"})] if rows else []


# --- coverage on the canonical normal model ---


def normal_mean(n: int = 500):
    """Return the posterior of a normal mean with a wide prior: N(mean x, 1 / n) nearly."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=n)
    return amc.Target(_normal_term, _wide_prior, data=x, n_obs=n, dim=1, var_names=("mu",))


def _normal_term(theta, data, i):
    return -0.5 * (data[0][i] - theta[0]) ** 2


def _wide_prior(theta):
    return -0.5 * (theta[0] / 10.0) ** 2


def coverage(results) -> list:
    """Tabulate how often 95 % intervals hold the truth, on draws of a law that is off by a known amount."""
    import pandas as pd
    import xarray as xr

    repetitions, audits = COVERAGE[results.preset]
    target, n = normal_mean(), 500
    mean, sd = float(np.mean(target.observed_data["data_0"])) * n / (n + 0.01), 1.0 / math.sqrt(n + 0.01)
    kernel = amc.MetropolisHastings(amc.RandomWalk(2.4 * sd), amc.ExactTest())
    rng, rows = np.random.default_rng(SEED), []
    for shift, spread in ((0.0, 1.0), (0.3, 1.0), (0.0, 1.3)):
        truth = np.array([shift * sd, (spread * sd) ** 2 - sd**2 - (shift * sd) ** 2])
        held = []
        for k in range(repetitions):
            draws = mean + sd * (shift + spread * rng.standard_normal((1, audits, 1)))
            trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"mu": (("chain", "draw"), draws[..., 0])})})
            found = amc.bias(trace, target, None, kernel=kernel, n_audits=audits, random_seed=k)
            held.append((found["bias_lower"].values[0] <= truth[0]) & (truth[0] <= found["bias_upper"].values[0]))
        p = float(np.mean(held))
        rows.append(
            {"shift (sd)": shift, "spread": spread, "repetitions": repetitions, "audits": audits, "coverage": p}
        )
    caption = (
        "Draws of N(mean + shift, spread^2) in place of the canonical posterior N(mean, 1), so that the bias of the "
        "mean is known; how many 95 % intervals of the drift form hold it, with a random walk as exact kernel."
    )
    return [Table("Coverage on the canonical model", caption, pd.DataFrame(rows))]


study = Study(
    name="bias_without_gold",
    reference="Audited draws and coupled exact chains: Jacob, O'Leary and Atchade (2020); Douc and others (2022)",
    targets=targets(("mnist_7v9", "covertype", "dense_1e5", "dense_1e6", "bimodal")),
    samplers=samplers(500),
    budget=Budget(seconds=60.0),
    tune=1000,
    replicates=4,
    gold=None,
    seed=SEED,
    start=start,
    bias=Bias(seconds=120.0, of=unwrapped),
    analyses=(mnist_against_a_long_chain, covertype_by_core_rows, cost, coverage),
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
    },
)
