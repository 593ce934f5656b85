"""Noisy exchange on a small lattice: error against the number of auxiliary draws, and the theory's 1 / sqrt(N).

After Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, sections 2 and 3.4 (theorem 3.2). A 4 x 4 lattice
with s(y) = 12 and a uniform prior on (-0.4, 0.8): the acceptance probability depends on auxiliary lattices through s
alone, whose law is a table of 23 numbers, so that the transition matrix of the noisy sampler is known for every N.
The theorem's own constants hold exp(T S), T = 0.8 and S = 24, to the fourth power: numerically vacuous, useful for the
rate.
"""

import functools
import math

import numpy as np

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds.exchange import acceptance_of_exchange, statistic_counts
from approxmcmc.bounds.transition import proposal_matrix
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.svg import COLOURS, subplots

COUNTS = (1, 2, 5, 10, 20, 50, 100)
LOW, HIGH, SCALE = -0.4, 0.8, 0.2
POINTS = {"smoke": 61, "quick": 121}  # of the grid; 241 in preset paper


@functools.cache
def lattice():
    """Return the posterior of a 4 x 4 lattice with s(y) = 12."""
    spins = np.ones((4, 4), dtype=int)
    spins[[0, 0, 3], [0, 3, 0]] = -1  # three corners: 6 of the 24 pairs of neighbours disagree
    return amc.targets.Ising(spins, prior_bounds=(LOW, HIGH))


def noisy(n_auxiliary: int):
    """Return the exchange sampler with N auxiliary draws."""
    return amc.Exchange(amc.RandomWalk(SCALE), n_auxiliary=n_auxiliary, auxiliary="exact")


def start(target, rng):
    """Return a draw from the prior."""
    return rng.uniform(LOW, HIGH, size=1)


@functools.lru_cache(maxsize=2)
def matrices(results) -> dict:
    """Return grid, and what `bounds.exact` says, by N."""
    target = results.target("lattice")
    grid = np.linspace(LOW, HIGH, POINTS.get(results.preset, 241))
    proposal = proposal_matrix(amc.RandomWalk(SCALE), grid[:, None], target)
    statistics, log_counts = statistic_counts(target)
    acceptance = acceptance_of_exchange(
        grid[:, None], np.zeros(len(grid)), target.observed_statistics, statistics, log_counts, math.inf, proposal > 0
    )
    T = proposal * acceptance
    T[np.diag_indices(len(grid))] = 1.0 - T.sum(axis=1)
    found = {}
    for setting in results.study.settings():
        T_hat = bounds.transition_matrix(target, setting.sampler, grid)
        exact = bounds.exact(T, T_hat)
        decided = np.abs(T_hat.coords["decision"].values - acceptance)
        found[setting.sampler.n_auxiliary] = exact.assign(delta_max=float(np.nanmax(decided)))
    return {"grid": grid, **found}


def error_against_draws(results) -> list:
    """Tabulate and draw one-step error, truth and bounds against N."""
    import pandas as pd

    found = dict(matrices(results))
    grid = found.pop("grid")
    rows = []
    for count, exact in found.items():
        law, law_hat = exact["stationary"].values, exact["stationary_hat"].values
        row = {
            "N": count,
            "tv": float(exact["tv"]),
            "bias of theta": float((law_hat - law) @ grid),
            "delta": float(exact["delta"]),
            "delta sqrt(N)": float(exact["delta"]) * math.sqrt(count),
        }
        for name in ("b1", "b2", "b3", "b4", "b5"):
            row[name] = f"{float(exact[name]):.3g} {exact[f'label_{name}'].item()}"
        rows.append(row)
    frame = pd.DataFrame(rows)
    figure, axes = subplots(1, 1, figsize=(6.4, 4.0))
    counts = np.array(list(found))
    for place, (name, label) in enumerate(
        (("delta", "one-step error delta"), ("b4", "bound B4"), ("b3", "bound B3"), ("b2", "bound B2"))
    ):
        axes.loglog(counts, [float(e[name]) for e in found.values()], "o-", color=COLOURS[place], label=label)
    biased = counts > 1
    axes.loglog(counts[biased], frame["tv"][biased], "o-", color="black", label="true total variation")
    axes.loglog(counts, frame["delta"][0] / np.sqrt(counts), ":", color="gray", label="1 / sqrt(N)")
    axes.axhline(1.0, color="gray", linewidth=0.6)
    axes.set_xlabel("auxiliary draws N")
    axes.set_ylabel("total variation")
    axes.legend(fontsize=7)
    etas = next(iter(found.values()))["eta"].values
    shown = ", ".join(f"eta_{k} = {etas[k - 1]:.4f}" for k in (1, 5, 10, 20))
    slope = np.polyfit(np.log(counts[biased]), np.log(frame["delta"][biased]), 1)[0]
    caption = (
        f"On a grid of {len(grid)} points, from the closed form (N = 1, 2) and the law of the mean on a lattice "
        f"(else); each bound with its label. Contraction of exact Metropolis-Hastings: {shown}. delta falls like N to "
        f"the power {slope:.2f} from N = 2 on, as theorem 3.2 says at the latest (-1/2). The bias is 0 at N = 1 and "
        "is not monotone: the bounds are of delta, and loose."
    )
    drawn = "The exchange sampler (N = 1) is exact, and its bounds are vacuous nevertheless; its true distance is 0."
    return [
        Table("Error against auxiliary draws", caption, frame),
        Figure("Bounds and truth against N", drawn, figure, frame.drop(columns=["b1", "b2", "b3", "b4", "b5"])),
    ]


def chains_against_the_grid(results) -> list:
    """Tabulate the chains' means beside those of the matrices: the sampler does what its matrix says."""
    import pandas as pd

    from approxmcmc.study.report.intervals import mean_interval

    found = dict(matrices(results))
    grid = found.pop("grid")
    rows = []
    for (_, label), traces in results.traces().items():
        count = next(s.sampler.n_auxiliary for s in results.study.settings() if s.label == label)
        means = [float(trace["posterior"]["theta"].mean()) for trace in traces]
        rows.append(
            {"N": count}
            | mean_interval(means).columns("chains' mean of theta")
            | {"matrix's mean": float(found[count]["stationary_hat"].values @ grid)}
            | {"exact mean": float(found[count]["stationary"].values @ grid)}
        )
    caption = "Mean of theta over chains of the real sampler (Student interval over chains), and of the grid's laws."
    return [Table("Chains beside the matrices", caption, pd.DataFrame(rows), formats={"matrix's mean": ".5f"})]


study = Study(
    name="bounds_noisy",
    reference="Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, theorem 3.2",
    targets={"lattice": lattice},
    samplers={"exchange": vary(noisy, n_auxiliary=knob(*COUNTS))},
    budget=Budget(draws=50_000, seconds=60),
    tune=100,
    replicates=8,
    gold=None,
    seed=2016,
    start=start,
    analyses=(error_against_draws, chains_against_the_grid),
    presets={
        "smoke": {
            "samplers": {"exchange": vary(noisy, n_auxiliary=knob(1, 2, 5, 20))},
            "budget": Budget(draws=2000),
            "replicates": 2,
        },
        "quick": {"budget": Budget(draws=10_000, seconds=5), "replicates": 4},
    },
)
