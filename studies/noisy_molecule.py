"""Exchange and its noisy relatives on the molecule network: four statistics, no exact answer.

Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 4.2.2, table 2: edges, 2-stars, 3-stars and
triangles of 20 nodes, flat prior, 100 seconds of CPU for each sampler, and BERGM (Caimo and Friel 2011) for four hours
as the reference.

This normaliser cannot be computed, so the reference here too is a long run of BERGM, with its Monte Carlo standard
error. Its auxiliary chains are longer than the paper's (except in preset smoke): the effect of short auxiliary chains
is part of the question. Settings of the paper: 1000 updates, then 200 more of which every fourth graph is kept (N =
50).

Noisy Langevin is run with two step sizes. The paper uses the tuned size of MALA-exchange, here about 1.1 covariances:
the chain diverges at once. With a step of 0.01 the chain stays near the posterior for longer; its error is slow mixing,
not the discretisation error that the paper describes.
"""

import functools
import math

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import content_hash
from approxmcmc.datasets import molecule
from approxmcmc.reference.cache import cached
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Note, Table
from approxmcmc.study.report.intervals import Interval, share_interval
from studies.tools.auxiliary_lengths import auxiliary_lengths
from studies.tools.chain_figures import chain_figures, draw_marginals
from studies.tools.members import draws_of
from studies.tools.mode_and_curvature import mode_and_curvature
from studies.tools.network_figure import network_figure
from studies.tools.noisy_paper import TABLE_2, table_of_moments
from studies.tools.published import moments_of
from studies.tools.unadjusted import unadjusted_steps

SEED = 2016
NAMES = ("edges", "two_stars", "three_stars", "triangles")
UPDATES = 1000
THIN = 4
N_AUXILIARY = 50
LONGER = 4000  # updates of the auxiliary chains of bergm_longer, in place of the paper's 1000
# Chains and steps of the reference, and updates of its auxiliary chains.
REFERENCE = {
    "smoke": (2, 2000, 1000),
    "quick": (2, 40_000, 4000),
    "published": (2, 1_000_000, 4000),
    "paper": (4, 4_000_000, 10_000),
}
# Shape of the steps and where chains start: inverse curvature and mode by `robbins_monro`, rounded. The last table of
# the report estimates both again; the curvature is uncertain, because it depends mostly on rare graphs with many
# 3-stars.
MODE = (3.3, -1.4, 0.24, 1.74)
COVARIANCE = (
    (10.2, -3.18, 1.23, 0.15),
    (-3.18, 1.05, -0.432, -0.08),
    (1.23, -0.432, 0.197, 0.012),
    (0.15, -0.08, 0.012, 0.254),
)
STEPS = (0.01, 1.1)  # steps of noisy Langevin: a short one, and the one that MALA-exchange is tuned to


@functools.cache
def bonds() -> "amc.targets.ERGM":
    """Return the posterior under a flat prior."""
    return amc.targets.ERGM(molecule().adjacency, statistics=NAMES, prior_scale=np.inf)


def chains(thin: int | None = None, n_updates: int = UPDATES):
    """Return auxiliary chains that start from the observed graph."""
    return amc.targets.AuxiliaryChain(n_updates, "observed", thin=thin)


def covariance(factor: float = 1.0) -> np.ndarray:
    """Return the covariance of the steps: `COVARIANCE` times the square of a factor."""
    return factor**2 * np.array(COVARIANCE)


def exchange(factor: float):
    """Return the exchange algorithm with a random walk of covariance ``covariance(factor)``."""
    return amc.Exchange(amc.RandomWalk(covariance(factor)), auxiliary=chains())


def noisy_exchange(factor: float):
    """Return noisy exchange with the walk of `exchange`, and `N_AUXILIARY` auxiliary draws for each decision."""
    return amc.Exchange(amc.RandomWalk(covariance(factor)), N_AUXILIARY, chains(THIN))


def noisy_langevin(step_size: float):
    """Return noisy Langevin. Chains with long steps move to a theta of dense graphs and do not return."""
    return amc.samplers.NoisyLangevin(step_size, N_AUXILIARY, covariance(), chains(THIN))


def mala(step_size: float, noisy: bool):
    """Return MALA-exchange tuned to the paper's acceptance rate."""
    return amc.samplers.MALAExchange(step_size, noisy, N_AUXILIARY, covariance(), chains(THIN), target_acceptance=0.25)


def bergm(n_updates: int = UPDATES):
    """Return BERGM: exchange with moves along the differences of a population of eight members."""
    return amc.Exchange(
        amc.proposals.AdaptiveDirection(gamma=0.5, scale=0.05, spread=0.1), auxiliary=chains(None, n_updates)
    )


SAMPLERS = {
    "exchange": vary(exchange, factor=1.0),
    "noisy_exchange": vary(noisy_exchange, factor=1.0),
    "noisy_langevin": vary(noisy_langevin, step_size=knob(*STEPS)),
    "mala_exchange": vary(mala, step_size=0.5, noisy=False),
    "noisy_mala": vary(mala, step_size=0.5, noisy=True),
    "bergm": vary(bergm),
    "bergm_longer": vary(bergm, n_updates=LONGER),
}


def start(target, rng):
    """Return a point near the mode."""
    return np.array(MODE) + 0.1 * np.linalg.cholesky(covariance()) @ rng.standard_normal(4)


def reference(results):
    """Return the draws of the long run of BERGM, shape (chain, draw, 4); the run is kept in the cache."""
    n_chains, n_steps, n_updates = REFERENCE.get(results.preset, REFERENCE["paper"])
    target = bonds()
    sampler = bergm(n_updates)
    thin = max(1, n_steps // 20_000)
    thin += 1 - thin % 2  # odd, so it has no factor in common with the eight members
    settings = {
        "draws": n_steps // thin, "tune": n_steps // 10, "thin": thin, "chains": n_chains, "cores": 1,
        "random_seed": SEED, "initvals": np.array(MODE), "progressbar": False,
    }  # fmt: skip
    shown = {name: value for name, value in settings.items() if name != "initvals"}
    key = content_hash("noisy_molecule reference", target.content_hash(), sampler.to_dict(), shown, np.array(MODE))
    return draws_of([cached(key, None, lambda: amc.sample(target, sampler, **settings))])


def moments(theta: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """Return mean, sd and MCSE of the mean by statistic; theta has shape (chain, draw, 4)."""
    import arviz as az

    return {
        name: (float(theta[..., k].mean()), float(theta[..., k].std()), float(az.mcse(theta[..., k])))
        for k, name in enumerate(NAMES)
    }


def row_of(label: str, moments) -> dict:
    """Return one line of table 2."""
    row: dict = {"sampler": label}
    for name in NAMES:
        mean, sd, mcse = moments[name]
        row |= {
            f"{name} mean": mean,
            f"{name} mean_lower": mean - 1.96 * mcse,
            f"{name} mean_upper": mean + 1.96 * mcse,
        }
        row |= {f"{name} sd": sd}
    return row


def table_2(results) -> list:
    """Tabulate means and sds, and their distance from the reference."""
    import pandas as pd

    gold = moments(reference(results))
    n_chains, n_steps, n_updates = REFERENCE.get(results.preset, REFERENCE["paper"])
    rows = [row_of("reference", gold)]
    distances = []
    for (_, label), traces in results.traces().items():
        own_moments = moments(draws_of(traces))
        rows.append(row_of(label, own_moments))
        stats = [trace["sample_stats"] for trace in traces]
        distance = {"sampler": label}
        for name in NAMES:
            error = own_moments[name][0] - gold[name][0]
            noise = 1.96 * math.hypot(own_moments[name][2], gold[name][2])
            distance |= Interval(*(e / gold[name][1] for e in (error, error - noise, error + noise))).columns(
                f"{name} error / sd"
            )
            distance[f"{name} sd ratio"] = own_moments[name][1] / gold[name][1]
        distance |= share_interval(float(s["acceptance_rate"].mean()) for s in stats).columns("acceptance")
        distance["steps"] = int(sum(s.sizes["draw"] * int(s.attrs.get("thin", 1)) for s in stats))
        distances.append(distance)
    caption = (
        f"Table 2 of the paper. Reference: BERGM, {n_chains} populations of {n_steps:,} steps, auxiliary chains of "
        f"{n_updates:,} updates. Intervals: 1.96 Monte Carlo standard errors, which do not contain the bias."
    )
    far = (
        "Distance of the means from the reference's, with 1.96 Monte Carlo standard errors of both, and ratio of "
        "standard deviations. The reference has an MCSE of "
        + ", ".join(f"{gold[name][2] / gold[name][1]:.3f} sd ({name})" for name in NAMES)
        + f". All settings but bergm_longer have auxiliary chains of {UPDATES:,} updates, whose "
        "distribution is not yet the model's: a distance that exchange and bergm have in common comes from them."
    )
    return [
        Table("Table 2", caption, pd.DataFrame(rows)),
        Table("Distance from the reference", far, pd.DataFrame(distances)),
    ]


def lengths(results) -> list:
    """Tabulate errors of auxiliary statistics by length of the chains, the reference's length among them."""
    theta = reference(results).reshape(-1, len(NAMES))
    few = results.preset == "smoke"
    thetas = theta[:: max(1, len(theta) // (20 if few else 300))]
    own = REFERENCE.get(results.preset, REFERENCE["paper"])[2]
    updates = sorted({UPDATES, LONGER, own, 4 * LONGER})
    table = auxiliary_lengths(bonds(), thetas, NAMES, updates, repeats=2 if few else 20, random_seed=SEED)
    [row] = table.data[table.data["updates"] == own].to_dict("records")
    missed = [name for name in NAMES if row[f"{name}_lower"] > 0.0 or row[f"{name}_upper"] < 0.0]
    note = (
        f"The reference is not the posterior: its auxiliary chains, of {own:,} updates, are too short for "
        f"{len(missed)} of {len(NAMES)} statistics too. Distances are from BERGM with longer chains than the paper's, "
        "not from the truth."
    )
    return [*([Note(note)] if missed else []), table]


def langevin_steps(results) -> list:
    """Tabulate correlation times, inflated variances and far-off draws of noisy Langevin at its two step sizes."""
    gold = moments(reference(results))
    mean, sd = (np.array([gold[name][k] for name in NAMES]) for k in (0, 1))
    return [unadjusted_steps(results, mean, sd, kind="noisy_langevin", tuned="mala_exchange")]


def figures_6_to_8(results) -> list:
    """Draw the network, and chains, densities and autocorrelations of every sampler, with the reference's density."""
    labels = {label: label for _, label in results.traces()}
    leads = ("", "Figure 7 of the paper.", "Figure 8 of the paper.")
    pictures = chain_figures(results, labels, draw_marginals(reference(results), NAMES), "the reference", leads=leads)
    return [network_figure(molecule(), "Figure 6 of the paper."), *pictures]


def step_matrix(results) -> list:
    """Estimate mode and curvature again, by stochastic approximation."""
    return [
        mode_and_curvature(
            results, chains(), NAMES, random_seed=SEED, used_mode=MODE, used_sd=np.sqrt(np.diag(COVARIANCE))
        )
    ]


study = Study(
    name="noisy_molecule",
    reference="Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 4.2.2, table 2",
    names={
        "bergm": "BERGM",
        "bergm_longer": "BERGM longer",
        "mala_exchange": "MALA exchange",
        "noisy_exchange": "noisy exchange",
        "noisy_langevin": "noisy Langevin",
        "noisy_mala": "noisy MALA",
        "three_stars": "three stars",
        "two_stars": "two stars",
    },
    targets={"molecule": bonds},
    samplers=SAMPLERS,
    budget=Budget(seconds=100.0),
    tune=500,
    thin=5,
    audit_every=None,
    replicates=4,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(table_2, lengths, langevin_steps, figures_6_to_8, step_matrix),
    measures=moments_of("theta", NAMES),
    paper_values=table_of_moments(TABLE_2, NAMES, "table 2"),
    presets={
        "smoke": {"budget": Budget(draws=300, seconds=3.0), "tune": 50, "thin": 1, "replicates": 2},
        "quick": {"budget": Budget(seconds=8.0), "thin": 1, "replicates": 2},
        "published": {"budget": Budget(seconds=10.0), "tune": 2000, "replicates": 5},
    },
)
