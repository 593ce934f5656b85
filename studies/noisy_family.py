"""Pseudo-marginal and noisy Metropolis-Hastings on a lattice whose posterior is known: GIMH, MCWM, path sampling.

Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 2 and algorithms 2 and 5, has no experiment with
them. A 4 x 4 lattice with s(y) = 12 and a uniform prior on (-0.4, 0.8): auxiliary lattices enter through s alone, whose
distribution is a table of 23 numbers, so that draws are exact and cheap, and the posterior and the distributions of
the estimates are known. With s_1, ..., s_N drawn at theta,

    mean of exp((theta_0 - theta) s_k)    is unbiased for    Z(theta_0) / Z(theta),

and times exp(theta s(y)) for the likelihood, up to a constant. GIMH keeps the estimate of the current state and is
exact at every N; with N = 1 it is the sampler of Moller, Pettitt, Reeves and Berthelsen (2006). MCWM draws a new
estimate in each step and is biased. The generic noisy sampler here estimates the *log* ratio without bias, by path
sampling (Gelman and Meng 1998): the mean of s at points drawn between theta and theta'. The exponential of this
estimate is biased, and so is the chain. The pseudo-likelihood needs no auxiliary draws; its error does not depend on N.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Component, Sampler
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.measures import seconds_of_draws
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.intervals import mean_interval, share_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from approxmcmc.targets.ising.exact import level_counts, n_pairs

LOW = -0.4
HIGH = 0.8
SCALE = 0.3
ANCHOR = 0.4  # theta_0
COUNTS = (1, 10, 100)
BINS = 24


@functools.cache
def lattice() -> "amc.targets.Ising":
    """Return the posterior of a 4 x 4 lattice with s(y) = 12."""
    spins = np.ones((4, 4), dtype=int)
    spins[[0, 0, 3], [0, 3, 0]] = -1  # three corners: 6 of the 24 pairs of neighbours disagree
    return amc.targets.Ising(spins, prior_bounds=(LOW, HIGH))


@functools.cache
def law_of_s() -> tuple[np.ndarray, np.ndarray]:
    """Return the values of s(y') and the logs of how many lattices have them."""
    counts = level_counts(4, 4)
    values = n_pairs(4, 4) - 2.0 * np.arange(len(counts))
    return values[counts > 0.0], np.log(counts[counts > 0.0])


# --- estimates; data are the values of s, their log counts, and (s(y), theta_0, N) ---


@compiled
def cumulate(theta: float, values: np.ndarray, log_counts: np.ndarray, cumulated: np.ndarray) -> None:
    """Write the running sums of the values' unnormalised probabilities at theta into `cumulated`."""
    total = 0.0
    for k in range(values.shape[0]):
        total += math.exp(log_counts[k] + theta * values[k])
        cumulated[k] = total


@compiled
def draw(rng: np.random.Generator, values: np.ndarray, cumulated: np.ndarray) -> float:
    """Return one draw of s, given the running sums of its probabilities, by inversion."""
    last = values.shape[0] - 1
    index = np.searchsorted(cumulated, rng.random() * cumulated[last], side="right")
    return values[min(index, last)]


def log_likelihood_estimate(rng, theta, data):
    """Return theta s(y) plus the log of the mean of exp((theta_0 - theta) s) over N draws at theta."""
    values, log_counts, settings = data
    observed, anchor, n_draws = settings
    cumulated = np.empty(values.shape[0])
    cumulate(theta[0], values, log_counts, cumulated)
    total = 0.0
    for _ in range(int(n_draws)):
        total += math.exp((anchor - theta[0]) * draw(rng, values, cumulated))
    return theta[0] * observed + math.log(total / n_draws)


def log_ratio_estimate(rng, theta, proposed, data):
    """Return (theta' - theta) (s(y) - mean of s), each of N draws at its own uniform point between the two."""
    values, log_counts, settings = data
    observed, _, n_draws = settings
    cumulated = np.empty(values.shape[0])
    step = proposed[0] - theta[0]
    total = 0.0
    for _ in range(int(n_draws)):
        cumulate(theta[0] + rng.random() * step, values, log_counts, cumulated)
        total += draw(rng, values, cumulated)
    return step * (observed - total / n_draws)


def log_prior(theta):
    """Return the log of the uniform prior."""
    return 0.0 if -0.4 <= theta[0] <= 0.8 else -math.inf


@functools.cache
def view(target: Any, form: str, n_draws: int) -> Any:
    """Return the posterior in the form that a sampler runs on.

    `form` is "likelihood" or "ratio", an estimate by `n_draws` draws, or "pseudo_likelihood".
    """
    if form == "pseudo_likelihood":
        return amc.targets.PseudoLikelihood(target)
    settings = np.array([target.observed_statistics[0], ANCHOR, n_draws])
    common = {"dim": 1, "data": (*law_of_s(), settings), "n_terms": 1, "initial_point": [0.2]}
    if form == "likelihood":
        return amc.targets.EstimatedLikelihood(log_likelihood_estimate, log_prior, **common)
    return amc.targets.EstimatedRatio(log_ratio_estimate, log_prior, **common)


@dataclasses.dataclass(frozen=True, eq=False)
class Through(Component, Sampler):
    """A sampler that runs on one of the forms of `view`, so that all samplers share one target and its exact answer."""

    sampler: Any
    form: str
    n_draws: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, with the sampler as text.

        As a dictionary, reports would describe its test as one on the lattice itself.
        """
        return {"kind": "Through", "sampler": repr(self.sampler), "form": self.form, "n_draws": self.n_draws}

    def build(self, target: Any, *, audit_every: Any) -> Any:
        """Build the sampler on its form of the target."""
        return self.sampler.build(view(target, self.form, self.n_draws), audit_every=audit_every)


def exchange(n_draws: int) -> "amc.Exchange":
    """Return exchange with exact auxiliary lattices, noisy if there is more than one."""
    return amc.Exchange(amc.RandomWalk(SCALE), n_draws, auxiliary="exact")


def pseudo_marginal(refresh: bool, n_draws: int) -> Through:
    """Return GIMH, or MCWM with `refresh`."""
    return Through(amc.samplers.PseudoMarginal(amc.RandomWalk(SCALE), refresh=refresh), "likelihood", n_draws)


def path_sampling(n_draws: int) -> Through:
    """Return noisy Metropolis-Hastings with the estimate of path sampling."""
    return Through(amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(SCALE)), "ratio", n_draws)


def pseudo_likelihood() -> Through:
    """Return exact Metropolis-Hastings on the pseudo-likelihood."""
    return Through(amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.ExactTest()), "pseudo_likelihood")


def start(target, rng):
    """Return a draw from the prior."""
    return rng.uniform(LOW, HIGH, size=1)


# --- what is known ---


def log_normalizer(theta: np.ndarray) -> np.ndarray:
    """Return log Z at thetas of any shape, by the table of s."""
    values, log_counts = law_of_s()
    return np.logaddexp.reduce(log_counts + np.multiply.outer(theta, values), axis=-1)


@functools.cache
def exact() -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of 2400 cells of (-0.4, 0.8) and the posterior mass of each."""
    edges = np.linspace(LOW, HIGH, 100 * BINS + 1)
    grid = 0.5 * (edges[1:] + edges[:-1])
    log = 12.0 * grid - log_normalizer(grid)
    mass = np.exp(log - log.max())
    return grid, mass / mass.sum()


def relative_sd(n_draws: int) -> float:
    """Return the standard deviation of the estimated likelihood in units of its mean, averaged over the posterior."""
    grid, mass = exact()
    square = log_normalizer(2.0 * ANCHOR - grid) + log_normalizer(grid) - 2.0 * log_normalizer(np.array(ANCHOR))
    return float(mass @ np.sqrt(np.expm1(square) / n_draws))


# --- the page ---


def against_the_posterior(results: Any) -> list[Any]:
    """Draw the density of each sampler's draws over the exact one; tabulate bias, spread, distance and cost."""
    import arviz as az
    import pandas as pd

    grid, mass = exact()
    mean = float(mass @ grid)
    cells = mass.reshape(BINS, -1).sum(axis=1)
    sd = math.sqrt(mass @ (grid - mean) ** 2)
    edges = np.linspace(LOW, HIGH, BINS + 1)
    rows = []
    curves = []
    for (_, label), traces in results.traces().items():
        draws = [trace["posterior"]["theta"].values.ravel() for trace in traces]
        shares = [np.histogram(theta, edges)[0] / theta.size for theta in draws]
        stats = [trace["sample_stats"] for trace in traces]
        rows.append(
            {"sampler": label}
            | mean_interval([(theta.mean() - mean) / sd for theta in draws]).columns("bias of the mean")
            | mean_interval([theta.std() / sd for theta in draws]).columns("sd ratio")
            | mean_interval([0.5 * np.abs(share - cells).sum() for share in shares]).columns("TV to the posterior")
            | share_interval(float(s["acceptance_rate"].mean()) for s in stats).columns("acceptance")
            | mean_interval(float(1000.0 * az.ess(t[None]) / t.size) for t in draws).columns("ESS per 1000 steps")
            | mean_interval(1e6 * float(seconds_of_draws(s).mean()) for s in stats).columns("us per step")
        )
        heights = np.mean(shares, axis=0) / np.diff(edges)
        curves += [
            {"sampler": label, "theta": float(left), "density": float(height)}
            for left, height in zip(edges[:-1], heights, strict=True)
        ]
    if not rows:
        return []
    sizes = ", ".join(f"{relative_sd(n):.2g} at N = {n}" for n in COUNTS)
    caption = (
        "Bias in exact posterior standard deviations, Student intervals over chains. Exact: exchange at N = 1, and "
        "GIMH; their rows show how far above 0 the TV of exact samplers is, because it is computed over 24 bins of "
        f"theta. Standard deviation of the estimated likelihood in units of its mean, over the posterior: {sizes}."
    )
    drawn = "Draws of all chains (steps) and the exact posterior density (dashed)."
    frame = pd.DataFrame(curves)
    formats = {"acceptance": ".3f", "ESS per 1000 steps": ".0f", "us per step": ".2f"}
    return [
        Figure("Densities beside the posterior", drawn, _densities(frame, edges), frame),
        Table("Bias, spread and price", caption, pd.DataFrame(rows), formats=formats),
    ]


def _densities(frame: Any, edges: np.ndarray) -> Any:
    """Draw one panel for each sampler, its numbers of draws in colours."""
    grid, mass = exact()
    labels = list(dict.fromkeys(frame["sampler"]))
    names = list(dict.fromkeys(label.split("[")[0] for label in labels))
    figure, axes = subplots(1, len(names), figsize=(1.95 * len(names), 2.8), sharey=True, squeeze=False)
    for panel, name in zip(axes[0], names, strict=True):
        for index, label in enumerate(label for label in labels if label.split("[")[0] == name):
            heights = frame.loc[frame["sampler"] == label, "density"].to_numpy()
            said = label[len(name) :].strip("[]").replace("n_draws=", "N = ")
            panel.stairs(heights, edges, color=COLOURS[index], label=said)
        panel.plot(grid, mass / (grid[1] - grid[0]), color=INK, linestyle="--", linewidth=1.0)
        panel.set(title=name, xlabel="theta", xlim=(LOW, HIGH))
        if name not in labels:
            panel.legend(fontsize=7)
    axes[0, 0].set_ylabel("density")
    return figure


study = Study(
    name="noisy_family",
    reference="Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 2, algorithms 2 and 5",
    names={
        "exchange": "exchange",
        "gimh": "GIMH",
        "mcwm": "MCWM",
        "n_draws": "draws",
        "path_sampling": "path sampling",
        "pseudo_likelihood": "pseudo likelihood",
    },
    targets={"lattice": lattice},
    samplers={
        "exchange": vary(exchange, n_draws=knob(*COUNTS)),
        "gimh": vary(pseudo_marginal, refresh=False, n_draws=knob(*COUNTS)),
        "mcwm": vary(pseudo_marginal, refresh=True, n_draws=knob(*COUNTS)),
        "path_sampling": vary(path_sampling, n_draws=knob(*COUNTS)),
        "pseudo_likelihood": pseudo_likelihood(),
    },
    budget=Budget(draws=200_000),
    tune=200,
    audit_every=None,
    replicates=8,
    gold=None,
    seed=2016,
    start=start,
    analyses=(against_the_posterior,),
    presets={
        "smoke": {"budget": Budget(draws=1000), "replicates": 2},
        "quick": {"budget": Budget(draws=50_000), "replicates": 4},
        "published": {"like": "quick", "replicates": 8},
    },
)
