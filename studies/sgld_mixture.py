"""SGLD as in its paper: decreasing steps on a posterior with two modes, which is computed on a grid.

Welling and Teh (2011), Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML, section 5.1, figures 1 and 2:
a mixture of two normals with tied means, 100 data drawn at (0, 1), minibatches of one datum, 10 000 sweeps, steps that
fall from 0.01 to 0.0001 like (b + t)^-0.55. Lectures on stochastic MCMC use it as an example. The study adds constant
steps, whose bias does not fall with the length of the chain; the same steps with the exact Metropolis test; and
stochastic-gradient Fisher scoring (Ahn, Korattikara and Welling 2012), whose guarantee is for normal posteriors, unlike
this one.

In the paper a sweep visits every datum once, here each step draws its minibatch afresh. Draws of decreasing steps are
weighted by their step in every average. The paper does not print its data, and most samples of this distribution give
one flat ridge: of the seeds 0 to 7, three have modes above the saddle by 0.1 or more in log density; seed 5, which is
used here, has the highest, by 1.04.
"""

import functools
import math
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.measures import seconds_of_draws
from approxmcmc.study.names import spelled
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.intervals import mean_interval, share_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots

# Schedule of step sizes in the paper: from FIRST to LAST in STEPS steps.
FIRST = 0.01
LAST = 0.0001
STEPS = 1_000_000
EXPONENT = 0.55
N_OBS = 100
CELLS = 16  # cells of a histogram per axis
PER_CELL = 12  # grid points per cell and axis
WINDOW = np.array([[-2.0, 3.2], [-4.0, 4.0]])  # less than 1e-6 of the mass lies outside
SHOWN = 400  # draws in a panel


@functools.cache
def mixture() -> "amc.targets.GaussianMixture":
    """Return the paper's posterior: means theta1 and theta1 + theta2, variance 2, priors N(0, 10) and N(0, 1)."""
    return amc.targets.GaussianMixture.simulated(N_OBS, random_seed=5)


def falling_steps() -> "amc.proposals.DecreasingStep":
    """Return a (b + t)^-gamma with the first and the last step of the paper."""
    offset = STEPS / ((FIRST / LAST) ** (1.0 / EXPONENT) - 1.0)
    return amc.proposals.DecreasingStep(FIRST * offset**EXPONENT, offset, EXPONENT)


def decreasing(batch_size: int) -> "amc.MetropolisHastings":
    """Return SGLD with decreasing steps, the paper's sampler."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(falling_steps(), batch_size), amc.acceptance.AlwaysAccept()
    )


def constant(step_size: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return SGLD with a constant step."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(step_size, batch_size), amc.acceptance.AlwaysAccept()
    )


def corrected(step_size: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return SGLD with a constant step and the exact test; both proposal densities use the same minibatch."""
    return amc.MetropolisHastings(amc.proposals.StochasticGradientLangevin(step_size, batch_size), amc.ExactTest())


def fisher_scoring(step_size: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return stochastic-gradient Fisher scoring with the estimated information as its matrix B."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientFisherScoring(step_size, batch_size), amc.acceptance.AlwaysAccept()
    )


SAMPLERS = {
    "decreasing": vary(decreasing, batch_size=1),
    "constant": vary(constant, step_size=knob(0.01, 0.001), batch_size=1),
    "corrected": vary(corrected, step_size=knob(0.01, 0.001), batch_size=1),
    "fisher_scoring": vary(fisher_scoring, step_size=knob(0.03, 0.3), batch_size=10),
}


def start(target: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a point near one of the two modes, each with probability 1/2."""
    mode = np.array([0.0, 1.0]) if rng.random() < 0.5 else np.array([1.0, -1.0])
    return mode + 0.1 * rng.standard_normal(2)


# --- the exact posterior, and statistics of the draws ---


@functools.cache
def exact() -> tuple[list[np.ndarray], np.ndarray]:
    """Return the axes of a grid, and the exact probability of each of its points, by the midpoint rule."""
    n = CELLS * PER_CELL
    axes = [low + (high - low) * (np.arange(n) + 0.5) / n for low, high in WINDOW]
    log_density = mixture().log_density()
    values = np.array([[log_density(np.array([a, b])) for b in axes[1]] for a in axes[0]])
    weights = np.exp(values - values.max())
    return axes, weights / weights.sum()


def exact_cells() -> np.ndarray:
    """Return the exact probability of every cell of the histogram; shape (CELLS, CELLS)."""
    return exact()[1].reshape(CELLS, PER_CELL, CELLS, PER_CELL).sum(axis=(1, 3))


def exact_summary() -> dict[str, float]:
    """Return the exact probability of theta2 > 0, and means and standard deviations."""
    axes, weights = exact()
    return summary(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2), weights.ravel())


def summary(theta: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Return P(theta2 > 0), means and standard deviations of weighted points; shapes (n, 2) and (n,)."""
    share = weights / weights.sum()
    mean = share @ theta
    sd = np.sqrt(share @ (theta - mean) ** 2)
    return {"P(theta2 > 0)": float(share @ (theta[:, 1] > 0.0)), "mean of theta1": float(mean[0]),
            "sd of theta1": float(sd[0]), "mean of theta2": float(mean[1]), "sd of theta2": float(sd[1])}  # fmt: skip


def weighted_draws(trace: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws of one chain and their weights; shapes (n, 2) and (n,)."""
    theta = np.stack([trace["posterior"][f"theta{k}"].values[0] for k in (1, 2)], axis=-1)
    stats = trace["sample_stats"]
    return theta, stats["weight"].values[0] if "weight" in stats else np.ones(len(theta))


def histogram(theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the share of the weights in every cell; points outside the window are in no cell."""
    counts, *_ = np.histogram2d(*theta.T, bins=CELLS, range=WINDOW, weights=weights)
    return counts / weights.sum()


def distance(estimated: np.ndarray, true: np.ndarray) -> float:
    """Return the total variation distance between two distributions on the cells and the region outside them."""
    return 0.5 * float(np.abs(estimated - true).sum() + abs(estimated.sum() - true.sum()))


# --- the report ---


def figure_1(results: Any) -> list[Figure]:
    """Draw the exact posterior, and the draws of one chain of every setting over its contours."""
    import pandas as pd

    axes, weights = exact()
    ordered = np.sort(weights.ravel())[::-1]
    levels = sorted(ordered[np.searchsorted(np.cumsum(ordered), share)] for share in (0.5, 0.9, 0.99))
    settings = {label: traces[0] for (_, label), traces in results.traces().items()}
    columns = min(4, 1 + len(settings))
    rows = math.ceil((1 + len(settings)) / columns)
    figure, panels = subplots(rows, columns, figsize=(9.6, 2.7 * rows), squeeze=False, sharex=True, sharey=True)
    frames = []
    for panel, (name, trace) in zip(panels.ravel(), [("exact", None), *settings.items()], strict=False):
        if trace is not None:
            theta, weight = weighted_draws(trace)
            resampled = np.searchsorted(np.cumsum(weight), weight.sum() * (np.arange(SHOWN) + 0.5) / SHOWN)
            panel.plot(*theta[resampled].T, ".", markersize=2.0, color=COLOURS[0])
            frames.append(pd.DataFrame({"setting": name, "theta1": theta[resampled, 0], "theta2": theta[resampled, 1]}))
        panel.contour(*axes, weights.T, levels=levels, colors=[INK], linewidths=0.8)
        panel.set_title(spelled(name, results.study.names).replace(" (", "\n").rstrip(")"), fontsize=8)
        panel.grid(False)
    for panel in panels.ravel()[1 + len(settings) :]:
        panel.axis("off")
    for panel in panels[-1]:
        panel.set_xlabel("theta1")
    for row in panels:
        row[0].set_ylabel("theta2")
    caption = (
        "Figure 1 of Welling and Teh. Lines: regions of highest exact density that hold 50, 90 and 99 % of the "
        f"posterior. Points: {SHOWN} draws of one chain, at equal steps of the sum of its weights."
    )
    return [Figure("Two modes, exact and sampled", caption, figure, pd.concat(frames))] if frames else []


def table(results: Any) -> list[Table]:
    """Tabulate distance from the posterior, probability of a mode and moments, with intervals over chains."""
    import pandas as pd

    true = exact_cells()
    rows: list[dict[str, Any]] = [{"sampler": "exact", "distance": 0.0, **exact_summary()}]
    for (_, label), traces in results.traces().items():
        chains = [weighted_draws(trace) for trace in traces]
        row = {"sampler": label, **mean_interval([distance(histogram(*c), true) for c in chains]).columns("distance")}
        summaries = [summary(*chain) for chain in chains]
        for name in summaries[0]:
            interval = share_interval if name.startswith("P(") else mean_interval
            row |= interval([values[name] for values in summaries]).columns(name)
        stats = [trace["sample_stats"] for trace in traces]
        row |= share_interval(float(s["acceptance_rate"].mean()) for s in stats).columns("acceptance")
        row |= mean_interval(
            1e6 * float(seconds_of_draws(s).mean()) / int(s.attrs.get("thin", 1)) for s in stats
        ).columns("microseconds per step")
        rows.append(row)
    caption = (
        f"Distance: total variation between the weighted draws and the exact posterior on {CELLS} x {CELLS} cells; "
        "its estimate is above 0 for exact draws too. Means and Student intervals over chains. "
        "A step size is the variance of the injected noise; for Fisher scoring in units of the inverse information."
    )
    return [Table("Against the exact posterior", caption, pd.DataFrame(rows), formats={"acceptance": ".3f"})]


def noise(results: Any) -> list[Figure]:
    """Draw the two noises of a step against its size: injected, alpha, and the minibatch's, alpha^2 V / 4."""
    import pandas as pd

    steps = falling_steps()
    sizes = np.array([steps.at(int(t)) for t in np.geomspace(1, STEPS, 60)])
    variance = gradient_variance()
    data = pd.DataFrame({"step size": sizes, "injected": sizes})
    figure, axis = subplots(figsize=(6.4, 3.8))
    axis.plot(sizes, sizes, color=INK, linestyle="--", label="injected noise, alpha")
    for k, variance_of_coordinate in enumerate(variance):
        data[f"gradient, theta{k + 1}"] = 0.25 * sizes**2 * variance_of_coordinate
        axis.plot(
            sizes, data[f"gradient, theta{k + 1}"], color=COLOURS[k], label=f"minibatch, alpha² V / 4, theta{k + 1}"
        )
        axis.axvline(4.0 / variance_of_coordinate, color=COLOURS[k], linestyle=":", linewidth=1.0)
    axis.set(xscale="log", yscale="log", xlabel="step size alpha", ylabel="variance")
    axis.invert_xaxis()
    axis.legend(fontsize=8)
    caption = (
        "Figure 2 of Welling and Teh, left: the variance that a step injects, and that which its minibatch of one "
        "datum brings, averaged over the exact posterior. Steps fall from left to right. Left of the dotted line "
        "alpha = 4 / V the minibatch's noise is the larger, and inflates the variance of the draws; right of it the "
        "injected noise is the larger, and the chain samples the posterior."
    )
    return [Figure("Two noises of one step", caption, figure, data)]


def gradient_variance() -> np.ndarray:
    """Return V = N^2 Var_i(grad log p(x_i | theta)), averaged over the exact posterior, for both coordinates."""
    axes, weights = exact()
    x = mixture().x
    v = mixture().variance
    total = np.zeros(2)
    for i, j in np.argwhere(weights > 1e-6):
        first = x - axes[0][i]
        second = x - axes[0][i] - axes[1][j]
        share = 1.0 / (1.0 + np.exp((second**2 - first**2) / (2.0 * v)))  # of the second component
        score = np.stack([((1.0 - share) * first + share * second) / v, share * second / v])
        total += weights[i, j] * N_OBS**2 * score.var(axis=1)
    return total


study = Study(
    name="sgld_mixture",
    reference="Welling and Teh (2011), Bayesian Learning via SGLD, section 5.1, figures 1 and 2",
    names={
        "constant": "constant",
        "corrected": "corrected",
        "fisher_scoring": "Fisher scoring",
    },
    targets={"mixture": mixture},
    samplers=SAMPLERS,
    budget=Budget(draws=STEPS // 100),
    thin=100,
    audit_every=None,
    replicates=8,
    gold=None,
    seed=2011,
    start=start,
    analyses=(table, figure_1, noise),
    presets={
        "smoke": {"budget": Budget(draws=300), "thin": 10, "replicates": 2},
        "quick": {"replicates": 3},
        "published": {"like": "quick", "replicates": 5},
    },
)
