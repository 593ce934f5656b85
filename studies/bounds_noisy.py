"""Noisy exchange on a small lattice: error against the number of auxiliary draws, theory and truth.

After Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, sections 2 and 3 (theorem 3.2 is in section 3.3). A
4 x 4 lattice with s(y) = 12 and a uniform prior on (-0.4, 0.8): the acceptance probability depends on auxiliary
lattices through s alone, whose distribution is a table of 23 numbers, so that the transition matrix of the noisy
sampler is known for every N. Every quantity of the paper's theory is known too: lemma 3.1, corollary 2.3 and theorem
3.2 for noisy exchange, lemmas 2.4 and 3.3 and theorem 3.4 for noisy Langevin, the time of remark 2.2, and two questions
that section 5 leaves to future work, the asymptotic variance and the best N at a budget. (The 1 / sqrt(N) of the theory
is right; its constants, exp(T S) to the fourth power with T = 0.8 and S = 24, are astronomical.)
"""

import functools
import math

import numpy as np

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.bounds import headings_of
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.tools import noisy_theory

COUNTS = (1, 2, 5, 10, 20, 50, 100)
LOW = -0.4
HIGH = 0.8
SCALE = 0.2
POINTS = {"smoke": 61, "quick": 121, "published": 121}  # points of the grid; 241 in preset paper


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
    """Return grid, exact matrix, and by N the noisy matrix and the result of `bounds.exact` for it."""
    target = results.target("lattice")
    grid = np.linspace(LOW, HIGH, POINTS.get(results.preset, 241))
    T = bounds.transition_matrix(target, amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.ExactTest()), grid)
    by_count = {}
    for setting in results.study.settings():
        T_hat = bounds.transition_matrix(target, setting.sampler, grid)
        by_count[setting.sampler.n_auxiliary] = (T_hat, bounds.exact(T, T_hat))
    return {"grid": grid, "T": T, "found": by_count}


def error_against_draws(results) -> list:
    """Tabulate and draw one-step error, true distance and bounds against N, the number of auxiliary draws."""
    import pandas as pd

    chains = matrices(results)
    grid = chains["grid"]
    exact_by_count = {count: exact for count, (_, exact) in chains["found"].items()}
    rows = []
    for count, exact in exact_by_count.items():
        law = exact["stationary"].values
        law_hat = exact["stationary_hat"].values
        row = {
            "N": count,
            "tv": float(exact["tv"]),
            "bias of theta": float((law_hat - law) @ grid),
            "delta": float(exact["delta"]),
            "delta sqrt(N)": float(exact["delta"]) * math.sqrt(count),
            "the matrix is": exact.attrs["label_matrices"],
        }
        for name in ("b1", "b2", "b3", "b4", "b5"):
            label = exact[f"label_{name}"].item()
            of_the_law = name == "b4" and exact.attrs["label_matrices"] != "rigorous" and label == "rigorous"
            row[name] = f"{float(exact[name]):.3g} {'heuristic' if of_the_law else label}"
        rows.append(row)
    frame = pd.DataFrame(rows)
    figure, axes = subplots(1, 1, figsize=(6.4, 4.0))
    counts = np.array(list(exact_by_count))
    for index, (name, label) in enumerate(
        (("delta", "one-step error delta"), ("b4", "bound B4"), ("b3", "bound B3"), ("b2", "bound B2"))
    ):
        axes.loglog(counts, [float(e[name]) for e in exact_by_count.values()], "o-", color=COLOURS[index], label=label)
    biased = counts > 1
    axes.loglog(counts[biased], frame["tv"][biased], "o-", color="black", label="true total variation")
    axes.loglog(counts, frame["delta"][0] / np.sqrt(counts), ":", color="gray", label="1 / sqrt(N)")
    axes.axhline(1.0, color="gray", linewidth=0.6)
    axes.set_xlabel("auxiliary draws N")
    axes.set_ylabel("total variation")
    axes.legend(fontsize=7)
    etas = next(iter(exact_by_count.values()))["eta"].values
    shown = ", ".join(f"eta_{k} = {etas[k - 1]:.4f}" for k in (1, 5, 10, 20))
    slope = np.polyfit(np.log(counts[biased]), np.log(frame["delta"][biased]), 1)[0]
    caption = (
        f"On a grid of {len(grid)} points, from the closed form (N = 1, 2: rigorous) and the distribution of the mean "
        "on a lattice (else: one-sided; the one-step error and the bounds that grow with it are slightly too large, "
        "the distance, the bias and the average bound approximate); each bound with its label. Contraction of exact "
        f"Metropolis-Hastings: {shown}. The one-step error falls like N to the power {slope:.2f} from N = 2 on, and "
        "theorem 3.2 says -1/2 or faster. The bias is 0 at N = 1 and is not monotone in N: the bounds follow the "
        "one-step error, and are loose."
    )
    drawn = "The exchange sampler (N = 1) is exact, and its bounds are vacuous nevertheless; its true distance is 0."
    return [
        Table("Error against auxiliary draws", caption, frame, headings=headings_of(frame)),
        Figure("Bounds and truth against N", drawn, figure, frame.drop(columns=["b1", "b2", "b3", "b4", "b5"])),
    ]


def chains_against_the_grid(results) -> list:
    """Tabulate the means of chains and of matrices, which agree if the sampler has the stated matrix."""
    import pandas as pd

    from approxmcmc.study.report.intervals import mean_interval

    chains = matrices(results)
    grid = chains["grid"]
    exact_by_count = {count: exact for count, (_, exact) in chains["found"].items()}
    rows = []
    for (_, label), traces in results.traces().items():
        count = next(s.sampler.n_auxiliary for s in results.study.settings() if s.label == label)
        means = [float(trace["posterior"]["theta"].mean()) for trace in traces]
        rows.append(
            {"N": count}
            | mean_interval(means).columns("chains' mean of theta")
            | {"matrix's mean": float(exact_by_count[count]["stationary_hat"].values @ grid)}
            | {"exact mean": float(exact_by_count[count]["stationary"].values @ grid)}
        )
    caption = (
        "Mean of theta over chains of the real sampler (Student interval over chains), and of the stationary "
        "distributions on the grid."
    )
    return [Table("Chains beside the matrices", caption, pd.DataFrame(rows), formats={"matrix's mean": ".5f"})]


def theory_of_one_step(results) -> list:
    """Draw lemma 3.1 and the inequalities of its proof against N, and tabulate theorem 3.2's constants."""
    return noisy_theory.losses(results.target("lattice"), noisy, counts_of(results), coarse_grid(results), SCALE)


def first_differences(results) -> list:
    """Draw the distribution of the first step at which ideal and noisy chain differ."""
    runs = 200 if results.preset == "smoke" else 1000
    return noisy_theory.first_differences(results.target("lattice"), noisy, coarse_grid(results), runs)


def langevin(results) -> list:
    """Draw one-step distance, its bounds and the distance of stationary distributions of noisy Langevin."""
    prior = amc.targets.Ising(lattice().lattice, prior_scale=1.0)
    return noisy_theory.langevin(prior, counts_of(results), np.linspace(LOW, HIGH, 25), np.linspace(-1.5, 2.5, 161))


def over_time(results) -> list:
    """Draw the bounds for every number of steps and the true distance, from the worst start."""
    chains = matrices(results)
    figure, axes = subplots(1, 2, figsize=(9.6, 3.8), sharey=True)
    rows = []
    steps = 30 if results.preset == "smoke" else 60
    for axis, count in zip(axes, (1, max(counts_of(results))), strict=True):
        distances = bounds.over_time(chains["T"], chains["found"][count][0], n_steps=steps)
        shown = (("tv", "distance of the laws", INK), ("b4", "B4 at n", COLOURS[0]), ("b3", "B3 at n", COLOURS[1]))
        for name, label, colour in (*shown, ("b5", "Mitrophanov", COLOURS[2])):
            axis.semilogy(distances["step"][1:], distances[name][1:], color=colour, label=label)
        axis.semilogy(
            distances["step"], distances["to_posterior"], ":", color=INK, label="noisy distribution to the posterior"
        )
        axis.axhline(1.0, color="gray", linewidth=0.6)
        axis.set_title(f"N = {count}")
        axis.set_xlabel("steps n")
        rows += distances.drop_attrs().to_dataframe().reset_index().assign(N=count).to_dict("records")
    axes[0].set_ylabel("total variation, worst start")
    axes[0].legend(fontsize=7)
    import pandas as pd

    caption = (
        "Distance between the distributions of exact and noisy chain after n steps from the same start, the worst "
        "for each n, and the bounds that hold for every n and start. Corollary 2.3 (Mitrophanov) is the same at "
        "every n; a sum of contractions up to n is tight for few steps and ends at B3. At N = 1 the distance rises "
        "and falls to 0 again: exchange is exact in the limit."
    )
    return [Figure("Bounds at every number of steps", caption, figure, pd.DataFrame(rows))]


def best_number_of_draws(results) -> list:
    """Draw asymptotic variance and risk against N, and the N that is best at each budget."""
    chains = matrices(results)
    settings = {count: T_hat for count, (T_hat, _) in chains["found"].items()}
    return noisy_theory.budgets(chains["T"], settings, chains["grid"])


def counts_of(results) -> list:
    """Return the numbers of auxiliary draws that the preset of `results` compares, ascending."""
    return sorted(setting.sampler.n_auxiliary for setting in results.study.settings())


def coarse_grid(results) -> np.ndarray:
    """Return 61 points (31 in preset smoke, 241 in preset paper), enough for suprema and integrals of one step."""
    return np.linspace(LOW, HIGH, {"smoke": 31, "quick": 61, "published": 61}.get(results.preset, 241))


study = Study(
    name="bounds_noisy",
    reference="Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, sections 2, 3.3, 3.4 and 5",
    names={
        "exchange": "exchange",
        "n_auxiliary": "auxiliary draws",
    },
    targets={"lattice": lattice},
    samplers={"exchange": vary(noisy, n_auxiliary=knob(*COUNTS))},
    budget=Budget(draws=50_000, seconds=60),
    tune=100,
    replicates=8,
    gold=None,
    seed=2016,
    start=start,
    analyses=(
        error_against_draws,
        chains_against_the_grid,
        theory_of_one_step,
        first_differences,
        over_time,
        best_number_of_draws,
        langevin,
    ),
    presets={
        "smoke": {
            "samplers": {"exchange": vary(noisy, n_auxiliary=knob(1, 2, 5, 20))},
            "budget": Budget(draws=2000),
            "replicates": 2,
        },
        "quick": {"budget": Budget(draws=10_000, seconds=5), "replicates": 4},
        "published": {"budget": Budget(draws=50_000, seconds=60)},
    },
)
