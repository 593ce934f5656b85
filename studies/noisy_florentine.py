"""Exchange and its noisy relatives on the Florentine business network, against the exact posterior.

Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 4.2.1, table 1: edges and 2-stars of 16 families,
flat prior, auxiliary chains of 1000 updates, then 200 more of which every fourth graph is kept (N = 50), 30 seconds of
CPU for each sampler, two hours for BERGM (Caimo and Friel 2011), which is the paper's reference.

The normaliser of this model can be computed, so the posterior is known on a grid: mean (-2.270, 0.070), not the
(-2.675, 0.188) of the paper's reference. The model has a dense phase near its likelihood's maximum; auxiliary chains of
1000 updates that start from sparse graphs rarely enter this phase, and the sampled posterior moves to where it would
lie without a dense phase. The study shows this shift: exchange is run with exact auxiliary draws, and with chains of
several lengths from the empty, the full and the observed graph. This explanation of the paper's table is ours.

Noisy Langevin is run with two step sizes. The paper uses the tuned size of MALA-exchange, here about 1.5 posterior
covariances: the chain diverges, since at some 8 % of the posterior, near the dense phase, the log density is curved too
much for such a step. With a step of 0.03 the chain stays near the posterior for longer; its error is slow mixing, not
the discretisation error that the paper describes.
"""

import functools

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import content_hash
from approxmcmc.datasets import florentine_business
from approxmcmc.reference.cache import cached
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Note, Table
from approxmcmc.study.report.intervals import share_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.tools.chain_figures import chain_figures, grid_marginals
from studies.tools.members import draws_of
from studies.tools.mode_and_curvature import mode_and_curvature
from studies.tools.network_figure import network_figure
from studies.tools.noisy_paper import EXCHANGE, TABLE_1, table_of_moments
from studies.tools.published import moments_of
from studies.tools.unadjusted import beyond_stability, points_of, unadjusted_steps

SEED = 2016
NAMES = ("edges", "two_stars")
UPDATES = 1000
THIN = 4
N_AUXILIARY = 50
# Shape of the steps, BERGM's excepted: the posterior covariance, rounded. (The paper: inverse curvature at the mode.)
COVARIANCE = ((0.23, -0.042), (-0.042, 0.0108))
WALK = 1.2  # times the square root of that covariance
STEPS = (0.03, 1.5)  # steps of noisy Langevin: a short one, and the one that MALA-exchange is tuned to
GRID_POINTS = {"smoke": 41, "quick": 81, "published": 81, "paper": 161}
BOUNDS = ((-5.5, 0.5), (-0.55, 0.60))


@functools.cache
def business() -> "amc.targets.ERGM":
    """Return the posterior under a flat prior."""
    return amc.targets.ERGM(florentine_business().adjacency, statistics=NAMES, prior_scale=np.inf)


def chains(start: str = "observed", n_updates: int = UPDATES, thin: int | None = None):
    """Return auxiliary chains; the paper does not say where its chains start or how they move."""
    return amc.targets.AuxiliaryChain(n_updates, start, thin=thin)


def walk(factor: float = WALK):
    """Return the random walk of the exchange samplers; its covariance is `COVARIANCE` times the square of `factor`."""
    return amc.RandomWalk(factor**2 * np.array(COVARIANCE))


def exact_draws():
    """Return exchange with exact auxiliary draws: the exact sampler."""
    return amc.Exchange(walk(), auxiliary="exact")


def exchange(start: str, n_updates: int):
    """Return exchange with auxiliary chains."""
    return amc.Exchange(walk(), auxiliary=chains(start, n_updates))


def noisy_exchange():
    """Return noisy exchange with `N_AUXILIARY` auxiliary draws for each decision."""
    return amc.Exchange(walk(), N_AUXILIARY, chains(thin=THIN))


def noisy_langevin(step_size: float):
    """Return noisy Langevin at one step size."""
    return amc.samplers.NoisyLangevin(step_size, N_AUXILIARY, np.array(COVARIANCE), chains(thin=THIN))


def mala(step_size: float, noisy: bool):
    """Return MALA-exchange tuned to the paper's acceptance rate."""
    return amc.samplers.MALAExchange(
        step_size, noisy, N_AUXILIARY, np.array(COVARIANCE), chains(thin=THIN), target_acceptance=0.25
    )


def bergm():
    """Return BERGM: exchange with moves along the differences of a population."""
    return amc.Exchange(amc.proposals.AdaptiveDirection(gamma=0.5, scale=0.05, spread=0.05), auxiliary=chains())


def samplers(lengths: tuple[int, ...], starts: tuple[str, ...]) -> dict:
    """Return the exact sampler, the paper's six, and exchange by length and start of the auxiliary chains."""
    return {
        "exact_draws": vary(exact_draws),
        "exchange": vary(exchange, start=knob(*starts), n_updates=knob(*lengths)),
        "noisy_exchange": vary(noisy_exchange),
        "noisy_langevin": vary(noisy_langevin, step_size=knob(*STEPS)),
        "mala_exchange": vary(mala, step_size=0.5, noisy=False),
        "noisy_mala": vary(mala, step_size=0.5, noisy=True),
        "bergm": vary(bergm),
    }


def start(target, rng):
    """Return a point near the centre of the posterior."""
    return np.array([-2.3, 0.07]) + rng.uniform(-1.0, 1.0, size=2) * (0.3, 0.05)


def exact_posterior(results):
    """Return the exact posterior density on a grid, one weight per point; a Dataset that is kept in the cache."""
    n_points = GRID_POINTS.get(results.preset, GRID_POINTS["paper"])
    target = business()
    key = content_hash("noisy_florentine grid", target.content_hash(), n_points, BOUNDS)
    return cached(key, None, lambda: on_grid(target, n_points))["posterior"]


def on_grid(target, n_points: int):
    """Return weights on a grid, 0 where a coarser grid has no mass, and how many normalisers it took, 6 ms each."""
    import xarray as xr

    edges, stars = (np.linspace(*bounds, n_points) for bounds in BOUNDS)
    coarse = np.array([[target.log_density((e, s)) for s in stars[::5]] for e in edges[::5]])
    log_density = np.full((n_points, n_points), -np.inf)
    is_near_mass = np.zeros_like(log_density, dtype=bool)
    for i, j in np.argwhere(coarse > coarse.max() - 25.0):
        is_near_mass[max(0, 5 * i - 5) : 5 * i + 6, max(0, 5 * j - 5) : 5 * j + 6] = True
    for i, j in np.argwhere(is_near_mass):
        log_density[i, j] = target.log_density((edges[i], stars[j]))
    weight = np.exp(log_density - log_density.max())
    distribution = xr.Dataset({"weight": (NAMES, weight / weight.sum())}, coords={"edges": edges, "two_stars": stars})
    price = xr.Dataset({"normalizers_computed": np.int64(coarse.size + is_near_mass.sum())})
    return xr.DataTree.from_dict({"posterior": distribution, "sample_stats": price})


def exact_moments(results) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd of the exact posterior."""
    weight = exact_posterior(results)["weight"]
    mean = np.array([float((weight * weight[name]).sum()) for name in NAMES])
    square = [float((weight * (weight[name] - m) ** 2).sum()) for name, m in zip(NAMES, mean, strict=True)]
    return mean, np.sqrt(square)


def paper_label(label: str) -> str | None:
    """Return the name of the row of table 1 that belongs to a setting; None if the table has no such row."""
    return label.partition("[")[0] if label in TABLE_1 else None


def rows_of(results) -> list[dict]:
    """Return mean, sd and MCSE of every setting over all replicates."""
    import arviz as az

    rows = []
    for (_, label), traces in results.traces().items():
        theta = draws_of(traces)
        row: dict = {"sampler": label}
        for k, name in enumerate(NAMES):
            mcse = float(az.mcse(theta[..., k]))
            mean = float(theta[..., k].mean())
            row |= {
                f"{name} mean": mean,
                f"{name} mean_lower": mean - 1.96 * mcse,
                f"{name} mean_upper": mean + 1.96 * mcse,
            }
            row |= {f"{name} sd": float(theta[..., k].std()), f"{name} mcse": mcse}
        stats = [trace["sample_stats"] for trace in traces]
        row |= share_interval(float(s["acceptance_rate"].mean()) for s in stats).columns("acceptance")
        row["steps"] = int(sum(s.sizes["draw"] * int(s.attrs.get("thin", 1)) for s in stats))
        rows.append(row)
    return rows


def table_1(results) -> list:
    """Tabulate means and sds, the exact ones on top."""
    import pandas as pd

    mean, sd = exact_moments(results)
    exact: dict = {"sampler": "exact posterior"}
    for k, name in enumerate(NAMES):
        exact |= {f"{name} mean": mean[k], f"{name} sd": sd[k]}
    rows = [exact]
    for row in rows_of(results):
        row |= {f"{name} error / sd": (row[f"{name} mean"] - mean[k]) / sd[k] for k, name in enumerate(NAMES)}
        rows.append(row)
    caption = (
        "Table 1 of the paper. Intervals: mean plus and minus 1.96 Monte Carlo standard errors of all replicates; "
        "they do not contain the bias. error / sd: distance from the exact mean in exact posterior standard "
        "deviations. The MCSE of bergm treats each member of a population as a chain."
    )
    exact_row = {row["sampler"]: row for row in rows}.get("exact_draws")
    notes = []
    if exact_row:
        z = max(abs(exact_row[f"{name} mean"] - mean[k]) / exact_row[f"{name} mcse"] for k, name in enumerate(NAMES))
        notes.append(
            Note(
                f"Exchange with exact auxiliary draws is within {z:.1f} MCSE of the exact mean "
                f"({mean[0]:.3f}, {mean[1]:.3f}); the paper's reference is (-2.675, 0.188)."
            )
        )
    return [*notes, Table("Table 1", caption, pd.DataFrame(rows))]


def auxiliary_length(results) -> list:
    """Draw the posterior mean of exchange against length and start of the auxiliary chains."""
    import pandas as pd

    mean, sd = exact_moments(results)
    rows = []
    for row in rows_of(results):
        settings = [s for s in results.study.settings() if s.label == row["sampler"] and s.sampler_name == "exchange"]
        rows += [{**s.knobs, **row} for s in settings]
    data = pd.DataFrame(rows)
    figure, axes = subplots(1, 2, figsize=(9.6, 4.0))
    for k, (axis, name) in enumerate(zip(axes, NAMES, strict=True)):
        axis.axhspan(mean[k] - sd[k], mean[k] + sd[k], color=INK, alpha=0.07, linewidth=0)
        axis.axhline(mean[k], color=INK, linestyle="--", linewidth=1.2, label="exact mean, ± sd")
        for label, style in (("bergm", ":"), (EXCHANGE, (0, (1, 3)))):
            axis.axhline(TABLE_1[label][k][0], color=COLOURS[3], linestyle=style, label=f"paper, {paper_label(label)}")
        for j, (word, curve) in enumerate(data.groupby("start", sort=False)):
            axis.errorbar(
                curve["n_updates"], curve[f"{name} mean"], yerr=1.96 * curve[f"{name} mcse"],
                marker="os^D"[j % 4], color=COLOURS[j], label=f"start {word}", capsize=2,
            )  # fmt: skip
        axis.set_xscale("log")
        axis.set_ylim(mean[k] - 3.0 * sd[k], mean[k] + 3.0 * sd[k])
        axis.set_xlabel("updates of an auxiliary chain")
        axis.set_ylabel(f"posterior mean, {name}")
    axes[0].legend(fontsize=7)
    caption = (
        "Posterior mean of exchange against the length of its auxiliary chains, by the graph from which these start; "
        "bars: 1.96 MCSE. Dashed: the exact mean, with one standard deviation shaded. Chains that miss the dense phase "
        "move the posterior towards the paper's table. With chains too short to leave the full graph the sampler "
        "diverges: such points lie outside the frame."
    )
    return [Figure("Length and start of auxiliary chains", caption, figure, data)]


def langevin_steps(results) -> list:
    """Tabulate correlation times, inflated variances and far-off draws of noisy Langevin at its two step sizes."""
    mean, sd = exact_moments(results)
    points = points_of(exact_posterior(results)["weight"], 20 if results.preset == "smoke" else 60)
    remark = beyond_stability(business().log_density, points, np.array(COVARIANCE), STEPS)
    return [unadjusted_steps(results, mean, sd, kind="noisy_langevin", tuned="mala_exchange", remark=remark)]


def step_matrix(results) -> list:
    """Estimate mode and curvature again, by stochastic approximation."""
    return [mode_and_curvature(results, chains(), NAMES, random_seed=SEED, used_sd=np.sqrt(np.diag(COVARIANCE)))]


def figures_3_to_5(results) -> list:
    """Draw the network, and chains, densities and autocorrelations of the paper's samplers and of the exact one."""
    shown = {label: label.partition("[")[0] for _, label in results.traces()}
    shown = {label: name for label, name in shown.items() if label in (*TABLE_1, "exact_draws")}
    truth = grid_marginals(exact_posterior(results)["weight"])
    leads = ("Figure 4 of the paper.", "Figure 4 of the paper.", "Figure 5 of the paper.")
    network = network_figure(florentine_business(), "Figure 3 of the paper.")
    return [network, *chain_figures(results, shown, truth, "the exact posterior", leads=leads)]


study = Study(
    name="noisy_florentine",
    reference="Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 4.2.1, table 1",
    names={
        "bergm": "BERGM",
        "exact_draws": "exact draws",
        "exchange": "exchange",
        "mala_exchange": "MALA exchange",
        "n_updates": "updates",
        "noisy_exchange": "noisy exchange",
        "noisy_langevin": "noisy Langevin",
        "noisy_mala": "noisy MALA",
        "two_stars": "two stars",
    },
    targets={"business": business},
    samplers=samplers((100, 300, 1000, 3000, 10_000), ("empty", "full", "both", "observed")),
    budget=Budget(seconds=30.0),
    tune=200,
    thin=5,
    audit_every=None,
    replicates=4,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(table_1, langevin_steps, figures_3_to_5, auxiliary_length, step_matrix),
    measures=moments_of("theta", NAMES),
    paper_values=table_of_moments(TABLE_1, NAMES, "table 1"),
    presets={
        "smoke": {
            "samplers": samplers((100, 1000), ("both", "observed")),
            "budget": Budget(draws=200, seconds=2.0),
            "tune": 20,
            "thin": 1,
            "replicates": 2,
        },
        "quick": {
            "samplers": samplers((100, 1000, 10_000), ("full", "both", "observed")),
            "budget": Budget(seconds=5.0),
            "tune": 20,
            "thin": 1,
            "replicates": 2,
        },
        "published": {"like": "quick", "budget": Budget(seconds=10.0), "tune": 200, "replicates": 5},
    },
)
