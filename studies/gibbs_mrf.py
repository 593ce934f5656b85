"""Gibbs with sequential tests on a dense Markov random field: the pairs that it saves, and the seconds.

Korattikara, Chen and Welling (2013), Austerity in MCMC Land: Cutting the Metropolis-Hastings Budget, preprint, section
6.3, figures 7 and 8: 100 binary sites, a table for each of the 161700 triples with log entries N(0, 0.02^2) (0.02 read
as the standard deviation: only then are the conditionals at epsilon = 0.01 off by less than 0.01, as the paper says),
and sequential tests on the 4851 pairs of a conditional.

The paper's exact rival adds up all pairs at every decision: ``all_pairs`` here. ``sequential`` reads blocks of pairs
that are shuffled site by site, and at epsilon = 0 all of them, in the same code; ``rows`` reads single pairs, which are
scattered in memory. ``exact`` draws from the same conditionals, but keeps the log odds of all sites up to date, and is
the rival that a user would choose. The study repeats the paper's curves against pairs evaluated; against seconds,
compiled exact Gibbs has the smaller error at every epsilon.
"""

import functools

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import content_hash
from approxmcmc.reference.cache import cached
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.measures import seconds_of_draws
from approxmcmc.study.report import Figure, Note, Table
from approxmcmc.study.report.intervals import mean_interval
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from studies.tools import austerity_paper
from studies.tools.discrete import (
    all_states,
    clique_error,
    clique_error_at_cost,
    clique_errors_over_draws,
    clique_noise_floor,
    clique_probabilities,
    empirical_conditional,
    influence_at,
    influence_bound,
    random_cliques,
)

EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25)
RIVALS = {"all pairs": "all_pairs", "epsilon = 0": "sequential[epsilon=0.0]"}
SEED = 2014
# Fixed states of all sites, decisions at each, subsets of five sites, sweeps of a reference chain (0: by enumeration).
EFFORT = {
    "smoke": (20, 50, 100, 0),
    "quick": (60, 400, 400, 100_000),
    "published": (100, 1000, 800, 500_000),
    "paper": (200, 2000, 1600, 1_000_000),
}


@functools.cache
def paper_field():
    """Return the paper's model."""
    return amc.targets.BinaryMRF.random_triples(100, scale=0.02, random_seed=SEED)


@functools.cache
def small_field():
    """Return a field of 12 sites with conditionals as spread as the paper's; its joint distribution is enumerated."""
    return amc.targets.BinaryMRF.random_triples(12, scale=0.19, random_seed=SEED)


def sequential(epsilon: float, batch_size: int):
    """Return Gibbs with the sequential test, the paper's sampler, on blocks of shuffled pairs."""
    return amc.Gibbs(amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size, order="blocks"))


def rows(epsilon: float, batch_size: int):
    """Return Gibbs with the sequential test on single random pairs."""
    return amc.Gibbs(amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size, order="rows"))


def all_pairs():
    """Return exact Gibbs as in the paper: it adds up all pairs at every decision."""
    return amc.Gibbs(amc.ExactTest(), conditional="terms")


def exact():
    """Return exact Gibbs in its fastest form."""
    return amc.Gibbs(amc.ExactTest())


def samplers(batch_size: int) -> dict:
    """Return the paper's settings on blocks, one of them on single pairs, and the two exact rivals."""
    return {
        "sequential": vary(sequential, epsilon=knob(*EPSILONS), batch_size=batch_size),
        "rows": vary(rows, epsilon=EPSILONS[-1], batch_size=batch_size),
        "all_pairs": vary(all_pairs),
        "exact": vary(exact),
    }


def start(target, rng):
    """Return a random state, each site independently 0 or 1 with probability 1/2."""
    return target.draw_start(rng)


def effort(results) -> tuple[int, int, int, int]:
    """Return contexts, decisions, subsets and sweeps of the analyses."""
    return EFFORT.get(results.preset, EFFORT["paper"])


def by_epsilon(results) -> dict:
    """Return test and traces of the sequential settings, by epsilon."""
    labels = {f"sequential[epsilon={epsilon!r}]": epsilon for epsilon in EPSILONS}
    traces = results.traces()
    return {
        labels[label]: (setting.sampler.test, traces["triples", label])
        for setting in results.study.settings()
        if (label := setting.label) in labels and traces.get(("triples", label))
    }


# --- figure 7: the conditional that the test realises ---


def figure_7(results) -> list:
    """Draw realised against exact conditionals: at fixed states of all sites, and binned over one chain's decisions."""
    import pandas as pd

    field, (n_contexts, decisions, _, _) = results.target("triples"), effort(results)
    rng = np.random.default_rng(SEED)
    n_sites = field.n_states.size
    contexts = rng.integers(0, 2, (n_contexts, n_sites))
    sites = rng.integers(0, n_sites, n_contexts)
    settings = {epsilon: measured for epsilon, measured in by_epsilon(results).items() if epsilon > 0.0}
    figure, axes = subplots(2, max(len(settings), 1), figsize=(2.1 * max(len(settings), 1), 4.4), squeeze=False)
    rows = []
    for column, (epsilon, (test, traces)) in enumerate(settings.items()):
        frozen = amc.samplers.realised_conditional(
            field, test, contexts, sites, replications=decisions, random_seed=SEED
        )
        n_pairs = traces[0]["sample_stats"].attrs["n_obs"]
        grid = np.linspace(0.02, 0.98, 49)
        expected = grid + amc.acceptance.acceptance_probability_error(
            np.log(grid / (1.0 - grid)), float(frozen["tau"].mean()), epsilon=epsilon,
            batch_size=min(test.batch_size, n_pairs), n_obs=n_pairs, rule="barker",
        )["error"].values  # fmt: skip
        binned = empirical_conditional(traces[0], field.conditional)
        for panel, measured, name in ((axes[0, column], frozen, "realised"), (axes[1, column], binned, "empirical")):
            panel.plot([0, 1], [0, 1], color=INK, linestyle=":", linewidth=0.8)
            panel.plot(grid, expected, color=COLOURS[1], linewidth=1.0)
            panel.plot(measured["exact"], measured[name], ".", color=COLOURS[0], markersize=3)
            panel.set_aspect("equal")
        axes[0, column].set_title(f"epsilon = {epsilon:g}")
        rows += [
            {"epsilon": epsilon, "kind": kind, "exact": float(p), "realised": float(q)}
            for kind, measured, name in (("frozen", frozen, "realised"), ("binned", binned, "empirical"))
            for p, q in zip(measured["exact"].values, measured[name].values, strict=True)
        ]
    caption = (
        f"Figure 7 of the paper: realised against exact probability of a 1. Above: {decisions} decisions at each of "
        f"{n_contexts} fixed states of all sites. Below: the decisions of one chain in bins of the exact probability. "
        "Line: the recursion of the sequential test at the mean scale tau of the fixed states. The test "
        "under-estimates large probabilities and over-estimates small ones."
    )
    return [Figure("Realised against exact conditionals", caption, figure, pd.DataFrame(rows))]


# --- figure 8: joint laws of five sites ---


def reference_of(field, cliques: np.ndarray, sweeps: int) -> tuple[np.ndarray, float, str]:
    """Return the joint probabilities of the subsets, their estimated error (`clique_error`), and their origin."""
    if not sweeps:
        weights = np.exp(field.log_joint - field.log_normalizer())
        return clique_probabilities(all_states(field.n_states.size), cliques, weights=weights), 0.0, "enumeration"
    key = content_hash("gibbs_mrf reference", field.content_hash(), sweeps)

    settings = {"tune": 1000, "thin": 10, "chains": 2, "cores": 1, "random_seed": SEED, "progressbar": False}
    chains = cached(key, None, lambda: amc.sample(field, exact(), draws=sweeps // 10, **settings))
    halves = [clique_probabilities(chain, cliques) for chain in chains["posterior"]["x"].to_numpy()]
    # Two independent halves differ by twice the error of their mean.
    return 0.5 * (halves[0] + halves[1]), 0.5 * clique_error(*halves), f"2 exact chains of {sweeps} sweeps"


def figure_8(results) -> list:
    """Draw the L1 error of joint probabilities of five sites against pairs evaluated and against time."""
    import pandas as pd

    field, (_, _, n_cliques, sweeps) = results.target("triples"), effort(results)
    cliques = random_cliques(field.n_states.size, n_cliques=n_cliques, size=5, random_seed=SEED)
    reference, own_error, origin = reference_of(field, cliques, sweeps)
    rows = []
    for (_, label), traces in results.traces().items():
        longest = min(trace["posterior"].sizes["draw"] for trace in traces)
        sizes = np.unique(np.geomspace(min(10, longest), longest, 12).round().astype(int))
        errors = [clique_errors_over_draws(trace, cliques, reference, sizes) for trace in traces]
        for index, n in enumerate(sizes):
            at = [chain_errors.isel(chain=0, n_draws=index) for chain_errors in errors]
            costs = {"pairs": "datapoints_touched", "seconds": "seconds"}
            row = {name: float(np.mean([chain_errors[cost] for chain_errors in at])) for name, cost in costs.items()}
            row |= mean_interval([float(chain_errors["error"]) for chain_errors in at]).columns("error")
            rows.append({"setting": label, "sweeps": int(n), "floor": clique_noise_floor(reference, float(n))} | row)
    data = pd.DataFrame(rows)
    figure, axes = subplots(1, 2, figsize=(9.6, 4.2), sharey=True)
    for panel, column, word in ((axes[0], "pairs", "pairs of tables read"), (axes[1], "seconds", "seconds")):
        for index, (label, curve) in enumerate(data.groupby("setting", sort=False)):
            style = {"exact": "--", "all_pairs": ":"}.get(label, "-")
            colour = COLOURS[index % len(COLOURS)] if style == "-" else INK
            panel.plot(curve[column], curve.error, style, color=colour, marker=".", label=label)
        panel.set(xscale="log", yscale="log", xlabel=word)
    axes[0].set_ylabel("mean L1 error")
    axes[0].legend(fontsize=7)
    caption = (
        f"Figure 8 of the paper, equation 12: mean over {n_cliques} subsets of 5 sites of sum |P_hat - P|, without the "
        f"factor 1/2; mean over {len(traces)} chains. Reference: {origin}, own error {own_error:.2g}. The column "
        "floor is the error of as many independent draws. Left: against pairs, where the paper finds its saving; the "
        "paper's time axis is pairs at a fixed cost. Right: against seconds of this compiled code, kept draws only."
    )
    tables = at_equal_pairs(results, cliques, reference)
    return [Figure("Error of joint laws of five sites", caption, figure, data), *tables]


def at_equal_pairs(results, cliques: np.ndarray, reference: np.ndarray) -> list[Table]:
    """Tabulate the clique errors of each test less those of `all_pairs` after as many pairs as the test has read."""
    import pandas as pd

    rivals = results.traces().get(("triples", "all_pairs"), [])
    rows = []
    for epsilon, (_, chains) in by_epsilon(results).items() if rivals else ():
        read = float(np.mean([trace["sample_stats"]["datapoints_touched"].sum() for trace in chains]))
        at = functools.partial(clique_error_at_cost, cliques=cliques, reference=reference, pairs=read)
        tested = list(map(at, chains))
        summed = list(map(at, rivals))
        more = mean_interval(np.subtract(tested, summed)).columns("error less that of all pairs")
        rows.append({"epsilon": epsilon, "pairs read": read, **mean_interval(tested).columns("error"), **more})
    caption = "Errors as in the picture; Student intervals over pairs of chains. Negative: the test errs less."
    return [Table("Errors at equal numbers of pairs", caption, pd.DataFrame(rows))] if rows else []


def ratio_of(seconds: list[float], others: list[float]) -> float:
    """Return the ratio of two means, NaN if the first list is empty."""
    return float(np.mean(seconds) / np.mean(others)) if seconds else np.nan


def prices(results) -> list:
    """Tabulate pairs per decision, nanoseconds per pair and sweeps per second; say whether exact Gibbs is fastest."""
    import pandas as pd

    rows = []
    # Seconds of a sweep; medians, because an interrupted sweep hardly changes them.
    seconds_of = {
        label: [float(seconds_of_draws(trace["sample_stats"]).median()) for trace in traces]
        for (_, label), traces in results.traces().items()
    }
    for (_, label), traces in results.traces().items():
        stats = [trace["sample_stats"] for trace in traces]
        seconds = seconds_of[label]
        pairs = [float(s["datapoints_touched"].mean()) for s in stats]
        decisions = [float(s["decisions_made"].mean()) for s in stats]
        used = [p / d / s.attrs["n_obs"] for p, d, s in zip(pairs, decisions, stats, strict=True)]
        rows.append(
            {"setting": label}
            | mean_interval(used).columns("pairs used")
            | mean_interval([1e3 * s for s in seconds]).columns("ms per sweep")
            | mean_interval([1e9 * s / p for s, p in zip(seconds, pairs, strict=True)]).columns("ns per pair read")
            | mean_interval([1.0 / s for s in seconds]).columns("sweeps per second")
            | {f"sweeps over {name}": ratio_of(seconds_of.get(base, []), seconds) for name, base in RIVALS.items()}
        )
    data = pd.DataFrame(rows)
    caption = (
        "Medians over the sweeps of a chain, Student intervals over chains. The exact sampler keeps its log odds, "
        "and the pairs that it need not read again count as read: so its time per pair is short. Last columns: sweeps "
        "in the time of one that adds up all pairs, and of one with epsilon = 0, which reads them in the tests' code."
    )
    table = Table("Price of a sweep", caption, data, formats={"pairs used": ".1%"})
    speed = data.set_index("setting")["ms per sweep"]
    tests = speed[[label for label in speed.index if label.startswith("sequential") and "epsilon=0.0]" not in label]]
    if "exact" not in speed or tests.empty:
        return [table]
    note = (
        f"In seconds exact Gibbs {'wins' if speed['exact'] < tests.min() else 'does not win'}: a sweep takes "
        f"{speed['exact']:.3g} ms with kept log odds"
        + (f" and {speed['all_pairs']:.3g} ms adding up all pairs" if "all_pairs" in speed else "")
        + f", and {tests.min():.3g} to {tests.max():.3g} ms with sequential tests on blocks of "
        "shuffled pairs."
    )
    return [Note(note), table]


def theorem_2(results) -> list:
    """Tabulate row sums of the influences of sites, and say whether they satisfy Dobrushin's condition."""
    import pandas as pd

    field = results.target("triples")
    fields = field.fields()
    state = np.random.default_rng(1).integers(0, 2, field.n_states.size)
    bound = influence_bound(fields).sum(axis=1)
    typical = influence_at(fields, state).sum(axis=1)
    names = ["largest row sum of the bound", "mean row sum at a random state"]
    data = pd.DataFrame({"quantity": names, "value": [bound.max(), typical.mean()]})
    fails = "fails for this bound, so that no contraction rate, and no bound of Theorem 2, is available"
    verdict = "holds" if bound.max() < 1.0 else fails
    caption = f"Row sums of the influence matrix. Dobrushin's condition (largest row sum below 1) {verdict}."
    return [Table("Influences", caption, data)]


study = Study(
    name="gibbs_mrf",
    reference="Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, section 6.3, figures 7 and 8",
    names={
        "all_pairs": "all pairs",
        "sequential": "sequential",
        "rows": "sequential, single pairs, epsilon = 0.25",
    },
    targets={"triples": paper_field},
    samplers=samplers(batch_size=500),
    budget=Budget(draws=6000),
    tune=50,
    replicates=4,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(figure_7, figure_8, prices, theorem_2),
    paper_values=austerity_paper.figure_8(),
    presets={
        "smoke": {
            "targets": {"triples": small_field},
            "samplers": samplers(batch_size=15),
            "budget": Budget(draws=400),
            "replicates": 2,
            "audit_every": 10,
            "paper_values": {},
        },
        "quick": {"budget": Budget(draws=200), "tune": 10, "replicates": 2},
        "published": {"budget": Budget(draws=500), "replicates": 5},
    },
)
