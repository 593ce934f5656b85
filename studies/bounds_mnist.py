"""Bounds on a real posterior: which can be measured, which are heuristic, and which are not available.

After Korattikara, Chen and Welling (2014), Austerity in MCMC Land, theorem 1 and section 6.1: logistic regression of
the digits 7 and 9, here on the first 10 principal components of the 12214 images. A random walk on R^d is not uniformly
ergodic: eta_k = 1 for every k, and B1 to B3 say nothing. The study computes what remains: Delta from replicated
decisions with its confidence statements, couplings with a lag for the exact chain, from both a heuristic B5; B4, W2 and
W4 by audits and coupled chains; and the marginal distances from a gold standard.
"""

import dataclasses
import functools

import numpy as np

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.datasets import Dataset
from approxmcmc.study import Budget, Gold, Study, knob, standard_estimands, vary
from approxmcmc.study.measures import ALL_STANDARD
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.svg import COLOURS, subplots
from studies.tools import mnist

EPSILONS = (0.0, 0.01, 0.05, 0.1)
COMPONENTS = 10
SEED = 2014
# Of the analyses: pairs of states, decisions at each pair, couplings of chains, their lag.
EFFORT = {
    "smoke": (30, 200, 50, 100),
    "quick": (100, 500, 200, 200),
    "published": (100, 500, 200, 200),
    "paper": (299, 2000, 1000, 400),
}


def posterior_of(data: Dataset) -> "amc.targets.LogisticRegression":
    """Return the posterior given the first 10 principal components."""
    return mnist.posterior_of(dataclasses.replace(data, X_train=data.X_train[:, :COMPONENTS]))


@functools.cache
def real_posterior():
    """Return the posterior given the real images, or raise."""
    return posterior_of(mnist.images(real=True, n_components=COMPONENTS))


@functools.cache
def any_posterior():
    """Return the posterior given the images, or generated rows if no images are available."""
    return posterior_of(mnist.images(n_components=COMPONENTS))


@functools.cache
def smoke_posterior():
    """Return the posterior given the 1000 generated rows of preset smoke."""
    return posterior_of(mnist.stand_in())


def austerity(epsilon: float, batch_size: int, scale: float):
    """Return the random walk with a sequential test."""
    return amc.MetropolisHastings(amc.RandomWalk(scale), amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size))


def samplers(batch_size: int, scale: float) -> dict:
    """Return the random walk with the sequential test at each of `EPSILONS`, by name.

    The scale is about 2.38 / sqrt(10) posterior standard deviations.
    """
    return {"austerity": vary(austerity, epsilon=knob(*EPSILONS), batch_size=batch_size, scale=scale)}


def effort(results) -> tuple[int, int, int, int]:
    """Return pairs, decisions, couplings and lag of the analyses."""
    return EFFORT.get(results.preset, EFFORT["paper"])


@functools.lru_cache(maxsize=2)
def coupled(results):
    """Return couplings of the exact chain, started at draws of N(mode, 4 cov) of the Laplace approximation."""
    target = results.target("digits")
    approximation = amc.laplace(target)
    lower = 2.0 * np.linalg.cholesky(approximation.cov)
    _, _, n_couplings, lag = effort(results)
    sampler = results.study.settings()[0].sampler
    return bounds.couplings(
        target, sampler, lag=lag, n_couplings=n_couplings, random_seed=SEED, max_steps=20_000, progressbar=False,
        initvals=lambda rng: approximation.mode + lower @ rng.standard_normal(len(lower)),
    )  # fmt: skip


HEADINGS = {
    "delta_sampled": "these pairs", "delta_quantile": "99 % of pairs", "delta_max": "all pairs",
    "delta_max_model": "Gaussian regime", "mean_error_upper": "mean error, upper limit",
}  # fmt: skip


def errors_of_decisions(results) -> list:
    """Tabulate Delta, estimated by replicated decisions; each number has its label."""
    import pandas as pd

    target = results.target("digits")
    n_pairs, replications, _, _ = effort(results)
    rows = []
    points = []
    mode = amc.laplace(target).mode
    for setting in results.study.settings():
        if not setting.sampler.test.epsilon:
            continue
        estimate = bounds.estimate_delta(
            target, setting.sampler, n_pairs=n_pairs, replications=replications, random_seed=SEED, tune=500,
            initvals=mode, progressbar=False,
        )  # fmt: skip
        names = ("delta_sampled", "delta_quantile", "delta_max", "delta_max_model", "mean_error_upper")
        rows.append(
            {"epsilon": setting.sampler.test.epsilon}
            | {name: f"{float(estimate[name]):.3g} {estimate[f'label_{name}'].item()}" for name in names}
            | {"mean_error (heuristic)": float(estimate["mean_error"])}
            | {"data read": estimate.attrs["datapoints_touched"]}
        )
        points.append((setting.sampler.test.epsilon, estimate))
    figure, axes = subplots(1, 1, figsize=(6.4, 4.0))
    data = []
    for index, (epsilon, estimate) in enumerate(points):
        axes.plot(
            estimate["error_model"],
            estimate["error"],
            ".",
            color=COLOURS[index],
            markersize=3,
            label=f"epsilon = {epsilon:g}",
        )
        data += [
            {"epsilon": epsilon, "error_model": float(model), "error": float(error)}
            for model, error in zip(estimate["error_model"], estimate["error"], strict=True)
        ]
    ends = axes.get_xlim()
    axes.plot(ends, ends, color="gray", linewidth=0.6)
    axes.set_xlabel("error in the Gaussian regime (heuristic)")
    axes.set_ylabel("error over replicated decisions")
    axes.legend(fontsize=7)
    caption = (
        f"Errors of acceptance probabilities at {n_pairs} pairs from a chain, {replications} decisions each. The "
        "largest upper confidence limit of a pair (Clopper-Pearson, union bound), as three statements: about these "
        "pairs, about 99 % of pairs, about all. The last is heuristic at best, and so is the second, as the pairs of "
        "one chain are dependent. Gaussian regime: the largest error there, without the noise of few decisions. Mean "
        "error: over pairs, and its upper limit."
    )
    drawn = "Each point is a pair of states. Scatter about the line is the binomial noise of the replications."
    return [
        Table("Delta by replicated decisions", caption, pd.DataFrame(rows), HEADINGS, {"epsilon": "g"}),
        Figure("Errors of single decisions", drawn, figure, pd.DataFrame(data)),
    ]


def convergence(results) -> list:
    """Draw the bound on the exact chain's distance from its stationary distribution, from couplings."""
    bound = coupled(results)
    frame = bound[["tv_bound", "tv_lower", "tv_upper"]].to_dataframe().reset_index()
    figure, axes = subplots(1, 1, figsize=(6.4, 4.0))
    axes.plot(frame["time"], frame["tv_bound"], color=COLOURS[0])
    axes.fill_between(frame["time"], frame["tv_lower"], frame["tv_upper"], color=COLOURS[0], alpha=0.25)
    axes.axhline(1.0, color="gray", linewidth=0.6)
    axes.set_xlabel("steps")
    axes.set_ylabel("bound on total variation")
    caption = (
        "Upper bound on the distance of the exact chain from its stationary distribution, started from N(mode, 4 "
        "cov), by "
        f"{bound.sizes['coupling']} couplings with lag {bound.attrs['lag']} (label: {bound.attrs['label']}; "
        f"{bound.attrs['unmet']} not met); bootstrap interval. Fitted C = {float(bound['C']):.3g}, rho = "
        f"{float(bound['rho']):.5f}, so that B5 multiplies delta by {float(bound['b5_factor']):.3g}: heuristic."
    )
    return [Figure("Couplings of the exact chain", caption, figure, frame)]


study = Study(
    name="bounds_mnist",
    reference="Korattikara, Chen and Welling (2014), Austerity in MCMC Land, theorem 1 and section 6.1",
    names={
        "austerity": "t-test",
    },
    targets={"digits": real_posterior},
    samplers=samplers(500, 0.02),
    budget=Budget(draws=50_000, seconds=300),
    tune=500,
    replicates=8,
    gold=Gold(),
    estimands=standard_estimands,
    average_over=ALL_STANDARD,
    seed=SEED,
    analyses=(errors_of_decisions, convergence),
    bounds={"theorem 1": {"target": "digits", "sampler": "austerity", "coupled": coupled}},
    presets={
        "smoke": {
            "targets": {"digits": smoke_posterior},
            "samplers": samplers(100, 0.07),
            "budget": Budget(draws=1500),
            "replicates": 2,
            "gold": Gold(chains=2, draws=500, tune=300),
        },
        "quick": {
            "targets": {"digits": any_posterior},
            "samplers": samplers(500, 0.02),
            "budget": Budget(draws=50_000, seconds=10),
            "replicates": 4,
            "gold": Gold(chains=4, draws=1000),
        },
        "published": {"like": "quick", "replicates": 8},
    },
)
