"""Exchange and its noisy relatives on twenty lattices of 16 x 16 spins: bias of the posterior mean at equal time.

Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo: Convergence of Markov Chains with Approximate Transition
Kernels, section 4.1, figures 1 and 2. There: 20 lattices of an Ising model, prior uniform on (-0.4, 0.8), auxiliary
chains of 1000 site updates, 100 further draws for the noisy samplers, 30 seconds for each sampler and lattice.

Two things are ours. The exact posterior comes from the transfer recursion on a grid of theta (in the paper it took 36.5
minutes for each lattice). And exchange with *exact* auxiliary draws is among the samplers: in the same time it makes
few steps, but it is the only sampler here without bias. The auxiliary chains of the others start from the observed
lattice and have 1000 updates, which are only four sweeps of the lattice.
"""

import functools

import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Study, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.clocks import clock_of
from approxmcmc.study.report.intervals import mean_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots

BOUNDS = (-0.4, 0.8)
TRUE_THETA = 0.3  # theta of the simulated lattices; the paper does not state its values
SWEEPS = 500  # sweeps of the simulation of a lattice, from random spins
UPDATES = 1000
THIN = 16
SEED = 2016
GRID = {"smoke": 121, "quick": 121, "paper": 241}
STEP = 6e-4  # variance of a Langevin step; posterior standard deviations are near 0.033 on 16 x 16 spins


@functools.cache
def lattice(k: int, size: int) -> "amc.targets.Ising":
    """Return the posterior given lattice k, simulated by a heat bath in checkerboard order."""
    rng = np.random.default_rng([SEED, k, size])
    spins = rng.choice([-1, 1], size=(size, size))
    colour = np.indices(spins.shape).sum(axis=0) % 2
    for sweep in range(2 * SWEEPS):
        padded = np.pad(spins, 1)
        field = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        up = rng.random(spins.shape) < 1.0 / (1.0 + np.exp(-2.0 * TRUE_THETA * field))
        spins = np.where(colour == sweep % 2, np.where(up, 1, -1), spins)
    return amc.targets.Ising(spins, prior_bounds=BOUNDS)


def lattices(n: int, size: int) -> dict:
    """Return functions that make the posteriors of `n` lattices, by name."""
    return {f"lattice_{k:02d}": functools.partial(lattice, k, size) for k in range(n)}


def auxiliary(thin: int | None = None):
    """Return the auxiliary chains of the paper; `thin` is the number of updates between further draws."""
    return amc.targets.AuxiliaryChain(UPDATES, "observed", thin=thin)


def exact_exchange(scale: float):
    """Return the exchange algorithm with exact draws."""
    return amc.Exchange(amc.RandomWalk(scale), auxiliary="exact")


def exchange(scale: float):
    """Return the exchange algorithm with the paper's settings."""
    return amc.Exchange(amc.RandomWalk(scale), auxiliary=auxiliary())


def noisy_exchange(scale: float, n_auxiliary: int):
    """Return noisy exchange with `n_auxiliary` auxiliary draws for each decision."""
    return amc.Exchange(amc.RandomWalk(scale), n_auxiliary, auxiliary(THIN))


def noisy_langevin(step_size: float, n_auxiliary: int):
    """Return noisy Langevin at one step size."""
    return amc.samplers.NoisyLangevin(step_size, n_auxiliary, auxiliary=auxiliary(THIN))


def mala_exchange(step_size: float, noisy: bool, n_auxiliary: int):
    """Return MALA-exchange, exact up to its auxiliary chains, or noisy."""
    return amc.samplers.MALAExchange(
        step_size, noisy, n_auxiliary, auxiliary=auxiliary(THIN), target_acceptance=0.5 if noisy else 0.25
    )


def samplers(scale: float, step_size: float, n_auxiliary: int) -> dict:
    """Return the paper's five samplers, and exchange with exact draws."""
    return {
        "exact_draws": vary(exact_exchange, scale=scale),
        "exchange": vary(exchange, scale=scale),
        "noisy_exchange": vary(noisy_exchange, scale=scale, n_auxiliary=n_auxiliary),
        "noisy_langevin": vary(noisy_langevin, step_size=step_size, n_auxiliary=n_auxiliary),
        "mala_exchange": vary(mala_exchange, step_size=step_size, noisy=False, n_auxiliary=n_auxiliary),
        "noisy_mala": vary(mala_exchange, step_size=step_size, noisy=True, n_auxiliary=n_auxiliary),
    }


def start(target, rng):
    """Return a draw of U(0.1, 0.4), an interval around `TRUE_THETA`."""
    return rng.uniform(0.1, 0.4, size=1)


def exact_density(target, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of theta over the prior's interval, and the exact posterior density on it."""
    grid = np.linspace(*BOUNDS, n_points)
    log_density = np.array([target.log_density([theta]) for theta in grid])
    density = np.exp(log_density - log_density.max())
    return grid, density / (density.sum() * (grid[1] - grid[0]))


@functools.cache
def exact_moments(name: str, study_target, n_points: int) -> tuple[float, float]:
    """Return mean and standard deviation of the exact posterior `study_target`, called `name`, by `n_points` points."""
    grid, density = exact_density(study_target, n_points)
    weights = density * (grid[1] - grid[0])
    mean = float(weights @ grid)
    return mean, float(np.sqrt(weights @ (grid - mean) ** 2))


def points(results) -> int:
    """Return the size of the grid."""
    return GRID.get(results.preset, GRID["paper"])


def errors(results):
    """Return one row per chain: bias of the mean and its MCSE in posterior standard deviations, sd ratio, and cost."""
    import arviz as az
    import pandas as pd

    rows = []
    clock = clock_of(results).record
    for (name, label), traces in results.traces().items():
        mean, sd = exact_moments(name, results.target(name), points(results))
        for trace in traces:
            theta = trace["posterior"]["theta"].values
            row = {"lattice": name, "sampler": label, "exact mean": mean, "exact sd": sd}
            row["bias"] = (theta.mean() - mean) / sd
            row["mcse"] = float(az.mcse(theta)) / sd
            row["sd ratio"] = theta.std() / sd
            stats = trace["sample_stats"]
            row["steps"] = stats.sizes["draw"] * int(stats.attrs.get("thin", 1))
            row["seconds"] = float(stats[clock].sum())
            row["updates"] = float(stats["auxiliary_updates"].sum())
            row["acceptance"] = float(stats["acceptance_rate"].mean())
            rows.append(row)
    return pd.DataFrame(rows)


def figure_1(results) -> list:
    """Draw the bias of the posterior means as box plots over lattices, and tabulate bias and cost."""
    import pandas as pd

    data = errors(results)
    labels = list(dict.fromkeys(data["sampler"]))
    figure, axis = subplots(figsize=(8.6, 4.0))
    axis.boxplot([data.loc[data["sampler"] == label, "bias"] for label in labels], tick_labels=labels)
    axis.axhline(0.0, color=INK, linewidth=0.8, linestyle=":")
    axis.set_ylabel("bias / posterior sd")
    caption = (
        f"Figure 1 of the paper: posterior mean minus exact mean, in exact posterior standard deviations, over "
        f"{data['lattice'].nunique()} lattices. Chains of equal time; the differences contain Monte Carlo error, as "
        "in the paper."
    )
    rows = []
    sizes = data.assign(size=data["bias"].abs()).pivot_table("size", "lattice", "sampler")
    for label in labels:
        of_label = data[data["sampler"] == label]
        rows.append(
            {"sampler": label}
            | mean_interval(of_label["bias"]).columns("mean bias")
            | mean_interval(of_label["bias"].abs()).columns("mean |bias|")
            | mean_interval(sizes[label] - sizes["exchange"]).columns("|bias| less that of exchange")
            | {"MCSE": float(np.sqrt((of_label["mcse"] ** 2).mean()))}
            | mean_interval(of_label["sd ratio"]).columns("sd ratio")
            | mean_interval(of_label["acceptance"]).columns("acceptance")
            | mean_interval(of_label["steps"] / of_label["seconds"]).columns("steps per second")
            | mean_interval(1e9 * of_label["seconds"] / of_label["updates"]).columns("ns per update")
        )
    table_caption = (
        "Bias in posterior standard deviations; Student intervals over lattices, also for the differences from "
        "exchange on the same lattice. MCSE: root mean square of the Monte Carlo standard errors of the means; "
        "without any bias, |bias| would be about 0.8 of it. An exact draw counts as one update for each site of a "
        "lattice, whatever the recursion costs."
    )
    return [
        Figure("Bias of posterior means", caption, figure, data),
        Table("Bias and price", table_caption, pd.DataFrame(rows)),
    ]


def figure_2(results) -> list:
    """Draw the posterior densities on the first lattice, and the exact one."""
    import pandas as pd

    name = next(iter(results.study.targets))
    grid, density = exact_density(results.target(name), points(results))
    figure, axis = subplots(figsize=(8.6, 4.0))
    rows = [{"sampler": "exact", "theta": theta, "density": value} for theta, value in zip(grid, density, strict=True)]
    width = 4.0 * (grid[1] - grid[0])
    for k, ((_, label), traces) in enumerate(
        (key, chains) for key, chains in results.traces().items() if key[0] == name
    ):
        theta = np.concatenate([trace["posterior"]["theta"].values.ravel() for trace in traces])
        height, edges = np.histogram(theta, bins=np.arange(*BOUNDS, width), density=True)
        middle = 0.5 * (edges[1:] + edges[:-1])
        axis.plot(middle, height, color=COLOURS[k % len(COLOURS)], label=label)
        rows += [{"sampler": label, "theta": x, "density": y} for x, y in zip(middle, height, strict=True)]
    axis.plot(grid, density, color=INK, linewidth=2.4, linestyle="--", label="exact")
    inside = grid[density > 1e-3 * density.max()]
    axis.set_xlim(inside[0], inside[-1])
    axis.set_xlabel("theta")
    axis.set_ylabel("density")
    axis.legend()
    caption = f"Figure 2 of the paper: posterior densities on {name}; histograms of the draws, and the exact density."
    return [Figure("Posterior densities", caption, figure, pd.DataFrame(rows))]


study = Study(
    name="noisy_ising",
    reference="Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 4.1, figures 1 and 2",
    names={
        "exact_draws": "exact draws",
        **{f"lattice_{k:02}": f"lattice {k:02}" for k in range(20)},
        "mala_exchange": "MALA exchange",
        "noisy_exchange": "noisy exchange",
        "noisy_langevin": "noisy Langevin",
        "noisy_mala": "noisy MALA",
    },
    targets=lattices(20, 16),
    samplers=samplers(scale=0.1, step_size=STEP, n_auxiliary=100),
    budget=Budget(seconds=30.0),
    tune=200,
    thin=10,
    audit_every=None,
    replicates=1,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(figure_1, figure_2),
    presets={
        "smoke": {
            "targets": lattices(2, 6),
            "samplers": samplers(scale=0.3, step_size=6e-3, n_auxiliary=10),
            "budget": Budget(draws=300),
            "thin": 1,
        },
        "quick": {"targets": lattices(4, 16), "budget": Budget(seconds=3.0), "thin": 1},
        "published": {"budget": Budget(seconds=5.0), "tune": 20, "thin": 1},  # a step with exact draws takes 10 ms
    },
)
