"""The burglary alarm by Gibbs, Metropolis-Hastings and importance sampling, given both calls, one call, or the alarm.

The network of Pearl (1988), chapter 2, with the numbers of Russell and Norvig, figure 14.2: all answers are known by
enumeration, so every error below is measured and not estimated. Burglary and earthquake explain the alarm: they move
together with it, and samplers that change one variable at a time keep one explanation for many steps.

Two lessons on mixing follow, on the standard normal distribution: acceptance rate against proposal width, with the
guideline 0.44 for one dimension (Roberts, Gelman and Gilks 1997; Gelman, Roberts and Gilks 1996), and trace and rank
plots of chains that mix well and badly (Vehtari et al. 2021).
"""

import math

import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.intervals import mean_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots

SEED = 2014
QUERIES = {"calls": {"J": 1, "M": 1}, "john": {"J": 1}, "alarm": {"A": 1}}
WIDTHS = (0.1, 0.3, 1.0, 2.38, 5.0, 10.0, 30.0)
GOOD = 2.38
SHORT = 0.05
LONG = 100.0


def calls():
    """Return P(B, E, A | J = 1, M = 1)."""
    return amc.targets.alarm_network(**QUERIES["calls"])


def john():
    """Return P(B, E, A, M | J = 1)."""
    return amc.targets.alarm_network(**QUERIES["john"])


def alarm():
    """Return P(B, E, J, M | A = 1)."""
    return amc.targets.alarm_network(**QUERIES["alarm"])


def gibbs(scan: str):
    """Return exact Gibbs that visits the variables in the order `scan`: "systematic" or "random"."""
    return amc.Gibbs(amc.ExactTest(), scan=scan)


def single_site():
    """Return Metropolis-Hastings that changes one variable at a time."""
    return amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest())


def start(target, rng):
    """Return a draw of the unobserved variables, parents first; it ignores evidence on their descendants."""
    return target.draw_start(rng)


def side_by_side(results) -> list:
    """Tabulate estimates and errors of all samplers on every query.

    Importance sampling makes as many evaluations of terms as the median chain.
    """
    import pandas as pd

    rows = []
    weights = []
    for name in results.study.targets:
        network = results.target(name)
        traces = {label: chains for (target, label), chains in results.traces().items() if target == name}
        spent = [
            int(trace["sample_stats"]["likelihood_evaluations"].sum()) for chains in traces.values() for trace in chains
        ]
        draws = max(100, int(np.median(spent)) // network.n_obs)
        seeds = range(results.study.replicates)
        drawn = [
            amc.importance_sampling(network, network.ancestral(), draws, random_seed=SEED + seed) for seed in seeds
        ]
        for variable in network.names:
            exact = network.probability({variable: 1})
            estimates = {
                label: [float(trace["posterior"][variable].mean()) for trace in chains]
                for label, chains in traces.items()
            }
            estimates["likelihood weighting"] = [
                float(amc.diagnostics.importance_estimates(trace)[variable].sel(moment="mean")) for trace in drawn
            ]
            rows += [
                {"query": _query(name, variable), "sampler": label, "exact": exact}
                | mean_interval(values).columns("estimate")
                | {"rms error": float(np.sqrt(np.mean((np.array(values) - exact) ** 2)))}
                for label, values in estimates.items()
            ]
        weights.append(_weights(name, network, drawn, draws))
    table = Table(
        "Estimates against exact answers",
        "Means over replicates with Student intervals, and the root mean square error of one replicate. Importance "
        "sampling draws the network's own variables, parents first, and weights by the evidence; it makes as many "
        "evaluations of a table as the median chain.",
        pd.DataFrame(rows),
        formats={"exact": ".6f"},
    )
    return [table, *_needed(pd.DataFrame(weights))]


def _query(target: str, variable: str) -> str:
    return f"P({variable} | {', '.join(QUERIES[target])})"


def _weights(name: str, network, drawn, draws: int) -> dict:
    attrs = [trace["posterior"].attrs for trace in drawn]
    joint = np.exp(network.log_joint - network.log_normalizer())
    states = np.array(list(np.ndindex(*joint.shape)))
    log_rho = np.log(joint.ravel()) - network.ancestral().logpmf(states)
    kl = float(joint.ravel() @ log_rho)
    bound = amc.diagnostics.chatterjee_diaconis_bound(
        draws, kl=kl, tail=lambda s: float(joint.ravel()[log_rho > s].sum())
    )
    return (
        {"evidence": ", ".join(QUERIES[name]), "draws": draws, "KL": kl, "needed draws": math.exp(kl)}
        | mean_interval([attributes["kl"] for attributes in attrs]).columns("estimated KL")
        | mean_interval([attributes["ess"] / draws for attributes in attrs]).columns("ESS per draw")
        | {
            "exact ESS per draw": 1.0 / float(joint.ravel() @ np.exp(log_rho)),
            "error bound": float(bound["error_bound"]),
            "self-normalised error": float(bound["self_normalised_error"]),
            "but with chance": float(bound["self_normalised_risk"]),
        }
        | mean_interval([attributes["log_normalizer"] for attributes in attrs]).columns("log evidence")
        | {"exact log evidence": network.log_evidence()}
    )


def _needed(data) -> list:
    caption = (
        "About exp(KL) draws are necessary and sufficient (Chatterjee and Diaconis 2018). Error bound: their theorem "
        "1.1, of the mean absolute error of the average with normalised weights, in units of the L2 norm of the "
        "function; over 1 it says nothing. The estimates above have normalised weights of their own sample; theorem "
        "1.2 is about those: in the same unit they err by less than the self-normalised error, except with the "
        "probability in the next column, where 1 or more says nothing. The effective sample size is computed from "
        "the draws alone; the KL divergence here is exact."
    )
    return [Table("Likelihood weighting: how many draws are needed", caption, data)]


def errors_against_evaluations(results) -> list:
    """Draw the running error of P(B = 1 | J, M) against evaluations of tables."""
    import pandas as pd

    network = results.target("calls")
    rows = []
    exact = network.probability({"B": 1})
    figure, axes = subplots(1, 1, figsize=(7.2, 4.0))
    runs = {label: chains for (target, label), chains in results.traces().items() if target == "calls"}
    for index, (label, traces) in enumerate(runs.items()):
        running = []
        clocks = []
        for trace in traces:
            values = trace["posterior"]["B"].to_numpy()[0]
            running.append(np.cumsum(values) / np.arange(1, values.size + 1))
            clocks.append(np.cumsum(trace["sample_stats"]["likelihood_evaluations"].to_numpy()[0]))
        length = min(map(len, running))
        places = np.unique(np.geomspace(min(10, length), length, 30).astype(int)) - 1
        error = np.sqrt(np.mean([(path[places] - exact) ** 2 for path in running], axis=0))
        clock = np.mean([path[places] for path in clocks], axis=0)
        axes.plot(clock, error, color=COLOURS[index % len(COLOURS)], label=label)
        rows += [{"setting": label, "evaluations": c, "rms error": e} for c, e in zip(clock, error, strict=True)]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("evaluations of a table")
    axes.set_ylabel("rms error of P(B = 1 | J, M)")
    axes.legend()
    caption = "Root mean square over the replicates of the error of the running mean; exact answer by enumeration."
    return [Figure("Error of P(B | J, M) against evaluations", caption, figure, pd.DataFrame(rows))]


# --- acceptance rate, width and mixing, in one dimension ---


def standard_normal():
    """Return N(0, 1), as a target with one term."""
    return amc.FunctionTarget(_log_normal, _flat, data=np.zeros(1), n_obs=1, dim=1, var_names=("x",))


def _log_normal(theta, data, i):
    return -0.5 * theta[0] ** 2


def _flat(theta):
    return 0.0


def walk(scale: float, draws: int, chains: int):
    """Return the trace of a random walk on N(0, 1), with starts spread from -1 to 1."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(scale), amc.ExactTest())
    starts = np.linspace(-1.0, 1.0, chains)[:, None]
    return amc.sample(
        standard_normal(), sampler, draws=draws, tune=0, chains=chains, cores=1, random_seed=SEED, initvals=starts,
        progressbar=False,
    )  # fmt: skip


def optimal_rate(results) -> list:
    """Draw acceptance rate and efficiency against the width of a random walk, with the guideline."""
    import arviz as az
    import pandas as pd

    draws = 2000 if results.preset == "smoke" else 20_000
    rows = []
    for width in WIDTHS:
        trace = walk(width, draws, chains=4)
        accepted = [float(rate) for rate in trace["sample_stats"]["acceptance_rate"].mean("draw")]
        effective = [
            float(az.ess(trace["posterior"]["x"].to_numpy()[chain : chain + 1], method="mean")) / draws
            for chain in range(4)
        ]
        rows.append(
            {"width": width, "exact rate": 2.0 / math.pi * math.atan(2.0 / width)}
            | mean_interval(accepted).columns("acceptance rate")
            | mean_interval(effective).columns("effective draws per draw")
        )
    data = pd.DataFrame(rows)
    figure, axes = subplots(1, 2, figsize=(9.6, 3.8))
    grid = np.geomspace(WIDTHS[0], WIDTHS[-1], 200)
    axes[0].plot(grid, 2.0 / math.pi * np.arctan(2.0 / grid), color=INK, linestyle="--", label="(2/pi) atan(2/h)")
    axes[0].plot(data.width, data["acceptance rate"], "o", color=COLOURS[0], label="measured")
    axes[0].set_xscale("log")
    axes[0].set_xlabel("standard deviation h of the walk")
    axes[0].set_ylabel("acceptance rate")
    axes[0].legend()
    axes[1].plot(data["acceptance rate"], data["effective draws per draw"], "o-", color=COLOURS[0])
    axes[1].axvline(0.44, color=INK, linestyle=":", label="0.44")
    axes[1].set_xlabel("acceptance rate")
    axes[1].set_ylabel("effective draws of the mean, per draw")
    axes[1].legend()
    caption = (
        "A random walk on N(0, 1). Neither a high nor a low acceptance rate is good by itself: efficiency is best near "
        "0.44, at h = 2.38 standard deviations of the target, and flat around it. The guideline is for exact tests."
    )
    return [Figure("Acceptance rate and width", caption, figure, data)]


def traces_and_ranks(results) -> list:
    """Draw traces and rank histograms of walks that are well sized, too short and too long."""
    import pandas as pd
    from scipy.stats import rankdata

    figure, axes = subplots(2, 3, figsize=(9.6, 4.8))
    rows = []
    for column, (name, width) in enumerate((("well sized", GOOD), ("too short", SHORT), ("too long", LONG))):
        x = walk(width, 1000, chains=4)["posterior"]["x"].to_numpy()
        ranks = rankdata(x).reshape(x.shape)
        edges = np.linspace(0.5, x.size + 0.5, 21)
        for chain in range(4):
            axes[0, column].plot(x[chain], color=COLOURS[chain], linewidth=0.6)
            counts = np.histogram(ranks[chain], edges)[0]
            axes[1, column].stairs(counts, edges, color=COLOURS[chain])
            rows += [{"walk": name, "chain": chain, "bin": k, "count": int(c)} for k, c in enumerate(counts)]
        axes[1, column].axhline(x.shape[1] / 20, color=INK, linestyle=":")
        axes[0, column].set_title(f"{name}, h = {width:g}")
        axes[0, column].set_xlabel("draw")
        axes[1, column].set_xlabel("rank among all draws")
    axes[0, 0].set_ylabel("x")
    axes[1, 0].set_ylabel("draws per bin")
    caption = (
        "Four chains of 1000 draws each on N(0, 1). Above: traces. Below: ranks of each chain's draws among all; "
        "chains that agree fill every bin alike (dotted), chains that do not mix fill some bins and miss others."
    )
    return [Figure("Traces and ranks of good and bad mixing", caption, figure, pd.DataFrame(rows))]


study = Study(
    name="alarm",
    reference="Pearl (1988), Probabilistic Reasoning in Intelligent Systems, chapters 2 and 4; Gelman, Roberts and "
    "Gilks (1996), Efficient Metropolis Jumping Rules",
    names={
        "gibbs": "Gibbs",
        "single_site": "single site",
    },
    targets={"calls": calls, "john": john, "alarm": alarm},
    samplers={"gibbs": vary(gibbs, scan=knob("systematic", "random")), "single_site": vary(single_site)},
    budget=Budget(draws=100_000),
    tune=100,
    replicates=16,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(side_by_side, errors_against_evaluations, optimal_rate, traces_and_ranks),
    presets={
        "smoke": {"budget": Budget(draws=500), "replicates": 2},
        "quick": {"budget": Budget(draws=10_000), "replicates": 6},
        "published": {"like": "quick", "replicates": 16},
    },
)
