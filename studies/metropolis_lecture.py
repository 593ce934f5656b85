"""Metropolis-Hastings as lectures show it: a walk over two modes, the best acceptance rate by dimension, Gibbs as MH.

Slides on Markov chain Monte Carlo: a Gaussian proposal on a bimodal density, narrow and wide; "the optimal acceptance
rate is .45 in one dimension and approaches .23" (Gelman, Roberts and Gilks 1996); "Gibbs sampling is
Metropolis-Hastings with a proposal that is always accepted", on the alarm network.

All figures but the first are computed, not simulated. For a walk x' = x + s z on the standard normal distribution of d
dimensions, the log ratio given r = |z| is N(-s^2 r^2 / 2, s^2 r^2), so that the acceptance probability is 2 Phi(-s r /
2), and r^2 has a chi-square distribution: acceptance and mean squared jump are one integral each.
"""

import functools
import itertools
import math
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.intervals import mean_interval, share_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots

MODES = 3.0  # the two modes lie at -3 and 3, with standard deviation 1 and weights 0.3 and 0.7
DIMENSIONS = (1, 2, 3, 4, 6, 8, 10, 20, 50, 100)
SHOWN = 1000  # draws of a chain in a picture


def loglik(theta, data, i):
    """Return the log density of the mixture at theta, up to a constant; the datum is the place of the right mode."""
    near = theta[0] - data[0][i]
    far = theta[0] + data[0][i]
    return np.log(0.7 * np.exp(-0.5 * near * near) + 0.3 * np.exp(-0.5 * far * far) + 1e-300)


def flat(theta):
    """Return the log of a flat prior."""
    return 0.0


@functools.cache
def bimodal() -> "amc.targets.FunctionTarget":
    """Return the density of the lecture's example."""
    return amc.targets.FunctionTarget(loglik, flat, data=np.array([MODES]), n_obs=1, dim=1, var_names=("x",))


def walk(scale: float) -> "amc.MetropolisHastings":
    """Return random-walk Metropolis."""
    return amc.MetropolisHastings(amc.RandomWalk(scale), amc.ExactTest())


# --- a walk over two modes ---


def two_modes(results: Any) -> list[Any]:
    """Draw chains and histograms by the width of the proposal; tabulate acceptance and share of the right mode."""
    import arviz as az
    import pandas as pd

    traces_by_setting = results.traces()
    settings = [setting for setting in results.study.settings() if ("bimodal", setting.label) in traces_by_setting]
    by_scale = [(setting.knobs["scale"], traces_by_setting["bimodal", setting.label]) for setting in settings]
    if not by_scale:
        return []
    figure, axes = subplots(
        len(by_scale), 2, figsize=(9.6, 2.0 * len(by_scale)), squeeze=False, width_ratios=(3, 1), sharey=True
    )
    grid = np.linspace(-7.0, 7.0, 281)
    density = (0.7 * np.exp(-0.5 * (grid - MODES) ** 2) + 0.3 * np.exp(-0.5 * (grid + MODES) ** 2)) / math.sqrt(
        2 * math.pi
    )
    rows = []
    frames = []
    for (left, right), (scale, traces) in zip(axes, by_scale, strict=True):
        x = traces[0]["posterior"]["x"].values[0]
        left.plot(x[:SHOWN], color=COLOURS[0], linewidth=0.8)
        left.set_ylabel(f"scale {scale:g}")
        right.hist(x, bins=56, range=(-7.0, 7.0), density=True, orientation="horizontal", color=COLOURS[0], alpha=0.5)
        right.plot(density, grid, color=INK, linestyle="--", linewidth=1.4)
        frames.append(pd.DataFrame({"scale": scale, "step": np.arange(len(x[:SHOWN])), "x": x[:SHOWN]}))
        rows.append(
            {"scale": scale}
            | share_interval(float(t["sample_stats"]["acceptance_rate"].mean()) for t in traces).columns("acceptance")
            | share_interval(float((t["posterior"]["x"] > 0.0).mean()) for t in traces).columns(
                "share of the right mode"
            )
            | mean_interval(1000.0 / x.size * float(az.ess(t["posterior"]["x"].values)) for t in traces).columns(
                "ESS per 1000"
            )
        )
    axes[-1, 0].set_xlabel("step")
    axes[-1, 1].set_xlabel("density")
    caption = (
        f"The first {SHOWN} steps of one chain, and the histogram of all its draws with the density (dashed; the "
        "right mode has weight 0.7). Narrow proposals are nearly always accepted and stay in one mode; wide ones are "
        "mostly rejected."
    )
    table_caption = "Means over chains with their Student intervals; the probability of the right mode is 0.699."
    table = Table("Width of the proposal", table_caption, pd.DataFrame(rows))
    return [Figure("A walk over two modes", caption, figure, pd.concat(frames)), table]


# --- the best acceptance rate by dimension ---


def walk_rates(scale: float, dim: int) -> tuple[float, float]:
    """Return acceptance rate and mean squared jump of the walk x' = x + scale z in N(0, I_dim), by quadrature."""
    from scipy import integrate, special, stats

    law = stats.chi2(dim)
    low = law.ppf(1e-12)
    high = law.isf(1e-12)
    accept = lambda square: 2.0 * special.ndtr(-0.5 * scale * math.sqrt(square))  # noqa: E731  one line says it
    rate = integrate.quad(lambda q: law.pdf(q) * accept(q), low, high, limit=200)[0]
    jump = integrate.quad(lambda q: law.pdf(q) * q * accept(q), low, high, limit=200)[0]
    return rate, scale**2 * jump


def best_scale(dim: int) -> float:
    """Return the scale of the walk with the largest mean squared jump in `dim` dimensions."""
    from scipy import optimize

    unit = 1.0 / math.sqrt(dim)
    optimum = optimize.minimize_scalar(lambda factor: -walk_rates(factor * unit, dim)[1], bounds=(0.5, 5.0))
    return float(optimum.x) * unit


def by_dimension(results: Any) -> list[Figure]:
    """Draw the acceptance rate of the best walk against the dimension, and the efficiency at other rates."""
    import pandas as pd

    best = {dim: best_scale(dim) for dim in DIMENSIONS}
    data = pd.DataFrame([{"dimension": d, "scale": s, "acceptance": walk_rates(s, d)[0]} for d, s in best.items()])
    figure, (left, right) = subplots(1, 2, figsize=(9.6, 3.6))
    left.plot(data["dimension"], data["acceptance"], marker="o", color=COLOURS[0])
    left.axhline(0.234, color=INK, linestyle="--", linewidth=1.0, label="0.234, the limit")
    left.set(xscale="log", xlabel="dimension", ylabel="acceptance rate of the best walk", ylim=(0.0, 0.5))
    left.legend(fontsize=8)
    for k, dim in enumerate((1, 4, 50)):
        curve = [walk_rates(best[dim] * factor, dim) for factor in np.geomspace(0.1, 6.0, 40)]
        rates, jumps = np.array(curve).T
        right.plot(rates, jumps / walk_rates(best[dim], dim)[1], color=COLOURS[k], label=f"dimension {dim}")
    right.set(xlabel="acceptance rate", ylabel="mean squared jump / the best")
    right.legend(fontsize=8)
    caption = (
        "A random walk on a standard normal distribution; best: largest mean squared jump. Left: from 0.44 in one "
        "dimension "
        "towards 0.234 (Gelman, Roberts and Gilks 1996). Right: the optimum is flat."
    )
    return [Figure("The best acceptance rate by dimension", caption, figure, data)]


# --- Gibbs as Metropolis-Hastings ---


def single_site_acceptance(joint: np.ndarray, proposal: str) -> np.ndarray:
    """Return min(1, P(x') q(x | x') / (P(x) q(x' | x))) of every move of one variable between possible states.

    `joint` has an axis of length 2 for each variable. ``"conditional"`` proposes x_i' ~ P(x_i | the others), which is
    Gibbs sampling; ``"flip"`` the other value, always.
    """
    probabilities = []
    for site in range(joint.ndim):
        conditional = joint / joint.sum(axis=site, keepdims=True)
        for x in itertools.product((0, 1), repeat=joint.ndim):
            y = (*x[:site], 1 - x[site], *x[site + 1 :])
            if joint[x] > 0.0 and joint[y] > 0.0:
                there, back = (conditional[y], conditional[x]) if proposal == "conditional" else (1.0, 1.0)
                probabilities.append(min(1.0, joint[y] * back / (joint[x] * there)))
    return np.array(probabilities)


def gibbs(results: Any) -> list[Figure]:
    """Draw the acceptance probabilities of all moves in the alarm network: Gibbs, and flips."""
    import pandas as pd

    network = amc.targets.alarm_network()
    joint = np.exp(network.log_joint - network.log_normalizer())
    figure, axes = subplots(1, 2, figsize=(9.6, 3.2), sharey=True)
    rows = []
    for k, (axis, proposal, title) in enumerate(
        zip(axes, ("conditional", "flip"), ("from the conditional: Gibbs", "flip the variable"), strict=True)
    ):
        acceptance = single_site_acceptance(joint, proposal)
        axis.hist(acceptance, bins=np.linspace(0.0, 1.0, 26), color=COLOURS[k])
        axis.set(title=f"propose {title}", xlabel="acceptance probability", xlim=(0.0, 1.02))
        rows.append(pd.DataFrame({"proposal": proposal, "acceptance": acceptance}))
    axes[0].set_ylabel("moves")
    caption = (
        f"All {len(rows[0])} moves of one variable between two states of the alarm network, enumerated. A proposal "
        "from the full conditional is always accepted: its density ratio cancels that of the target. A rate of 1 "
        "does not mean that the chain mixes fast."
    )
    return [Figure("Gibbs as Metropolis-Hastings", caption, figure, pd.concat(rows))]


study = Study(
    name="metropolis_lecture",
    reference="Ermon, Zhang and Sontag, lecture on Markov chain Monte Carlo; Gelman, Roberts and Gilks (1996)",
    names={
        "walk": "walk",
    },
    targets={"bimodal": bimodal},
    samplers={"walk": vary(walk, scale=knob(0.3, 3.0, 30.0))},
    budget=Budget(draws=50_000),
    audit_every=None,
    replicates=4,
    gold=None,
    seed=1994,
    analyses=(two_modes, by_dimension, gibbs),
    presets={
        "smoke": {"budget": Budget(draws=2000), "replicates": 2},
        "quick": {"budget": Budget(draws=20_000)},
        "published": {"like": "quick", "replicates": 8},
    },
)
