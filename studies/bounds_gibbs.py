"""Theorem 2 on Markov random fields: exact bounds by sweeps where states can be enumerated, no bound elsewhere.

After Korattikara, Chen and Welling (2013), preprint of Austerity in MCMC Land, theorem 2 and section 6.3. The theorem
needs a contraction coefficient. One site update contracts nothing (eta = 1), a systematic sweep does; its one-step
error is at most D Delta_max. With 6 sites the realised conditionals are enumerated over all ways to draw the looks, so
that every bound is rigorous; with 8 they come from the Gaussian regime and bounds are heuristic. At the paper's 100
sites there are 2^100 states, Dobrushin's condition fails, and no bound of Theorem 2 is available: the report says so.

The same check is made for the minibatch Barker test at several target variances: Barker's rule is the conditional of
Gibbs. Seita, Pan, Chen and Canny (2017) bound the error of a decision by a Berry-Esseen epsilon; a lecture on them
concludes d(p^, p) < epsilon / (1 - eta). That bound is compared with the truth.
"""

import functools

import numpy as np

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Table
from approxmcmc.study.report.bounds import headings_of
from studies.tools.discrete import influence_bound, influence_matrix

EPSILONS = (0.0, 0.01, 0.05, 0.1, 0.2)
BATCH_SIZE = 5
LARGE_BATCH_SIZE = 500
TARGET_VARIANCES = (0.25, 0.5, 1.0, 1.5)
SEED = 2014
LONGEST_COUPLING = 2000


@functools.cache
def six():
    """Return 6 sites, 20 triples, 10 terms to a conditional."""
    return amc.targets.BinaryMRF.random_triples(6, scale=0.3, random_seed=0)


@functools.cache
def eight():
    """Return 8 sites, 56 triples, 21 terms to a conditional."""
    return amc.targets.BinaryMRF.random_triples(8, scale=0.3, random_seed=0)


@functools.cache
def hundred():
    """Return the paper's model: 100 sites, 161700 triples, 4851 terms to a conditional."""
    return amc.targets.BinaryMRF.random_triples(100, scale=0.02, random_seed=SEED)


@functools.cache
def thirty():
    """Return the smaller model of preset smoke: its 2^30 states cannot be enumerated either."""
    return amc.targets.BinaryMRF.random_triples(30, scale=0.07, random_seed=SEED)


def large(results):
    """Return (name, Markov random field, batch size) of the model that is too large to enumerate."""
    return ("thirty", thirty(), 40) if results.preset == "smoke" else ("hundred", hundred(), LARGE_BATCH_SIZE)


def sequential(epsilon: float, batch_size: int = BATCH_SIZE):
    """Return Gibbs with the sequential test at one epsilon."""
    return amc.Gibbs(amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size))


def start(target, rng):
    """Return a random state, each site independently 0 or 1 with probability 1/2."""
    return target.draw_start(rng)


def fields(results) -> dict:
    """Return all fields by name."""
    name, field, _ = large(results)
    return {**{target: results.target(target) for target in results.study.targets}, name: field}


def contraction(results) -> list:
    """Tabulate the inputs of Theorem 2: contraction of one site update, one and two sweeps; Dobrushin's condition."""
    import pandas as pd

    rows = []
    for name, field in fields(results).items():
        row = {"target": name, "sites": field.n_states.size}
        if field.n_states.size <= 8:
            T = bounds.transition_matrix(field, amc.Gibbs())
            etas = bounds.exact(T, T)["eta"].values
            site = bounds.transition_matrix(field, amc.Gibbs(), site=0)
            row |= {
                "eta of a site": bounds.finite.contraction(site.values),
                "eta of a sweep": etas[0],
                "eta of two sweeps": etas[1],
                "largest row sum of influences": influence_matrix(field.log_joint).sum(axis=1).max(),
                "label": "rigorous",
            }
        else:
            row |= {
                "largest row sum of influences": influence_bound(field.fields()).sum(axis=1).max(),
                "label": "not available (row sum: an upper bound)",
            }
        rows.append(row)
    caption = (
        "Contraction of exact Gibbs, by enumeration. A single site never contracts. Dobrushin's condition asks for a "
        "largest row sum below 1; it may fail although sweeps contract. A field of 30 or 100 sites cannot be "
        "enumerated, so that its contraction coefficient is not known and no bound is given."
    )
    return [Table("Contraction", caption, pd.DataFrame(rows))]


def barker_sweeps(results) -> list:
    """Tabulate truth and bounds for Barker's test at several target variances, the lecture's bound among them."""
    field = results.target("six")
    samplers = {
        variance: amc.Gibbs(amc.acceptance.MinibatchBarker(target_variance=variance, batch_size=BATCH_SIZE))
        for variance in TARGET_VARIANCES
    }
    check = amc.check_bound(field, samplers, knob="target_variance", draws=0, method="enumerate", progressbar=False)
    table = check.dataset
    sites = field.n_states.size
    gap = 1.0 - float(table["eta"][0])
    epsilon = amc.acceptance.minibatch_barker_error_bound(np.random.default_rng(SEED).normal(size=100_000), BATCH_SIZE)
    frame = table[["tv", "delta", "delta_max"]].to_dataframe()
    for name in ("b1", "b3", "b1_delta_max"):
        at = table.sel(bound=name)
        frame[name] = [f"{float(v):.3g} {w}" for v, w in zip(at["value"].values, at["label"].values, strict=True)]
    frame["D epsilon / (1 - eta)"] = f"{sites * epsilon / gap:.3g} vacuous"
    needed = (sites * epsilon * BATCH_SIZE**0.5 / gap) ** 2
    caption = (
        f"Gibbs on six sites, each decision by the minibatch Barker test from {BATCH_SIZE} of 10 terms on; realised "
        "conditionals enumerated, the bounds as for Theorem 2. Last column: epsilon / (1 - eta) "
        f"with the Berry-Esseen epsilon of {BATCH_SIZE} normal terms, {epsilon:.2f}, for each of D = {sites} decisions "
        f"of a sweep. epsilon falls like 1 / sqrt(b), and 1 - eta is {gap:.3f}: the bound would be below 1 from "
        f"{needed:.2g} terms read for each decision on. The largest error of a decision is its true one."
    )
    headings = headings_of(frame) | {"target_variance": "target variance"}
    frame, formats = frame.reset_index(), {"target_variance": "g"}
    return [Table("Barker's test along its target variance", caption, frame, headings=headings, formats=formats)]


def coupled_sweeps(results) -> list:
    """Tabulate bounds of the distance of exact sweeps from their stationary distribution, by couplings with a lag."""
    import pandas as pd

    rows = []
    without = []
    for name, field in fields(results).items():
        few = field.n_states.size > 30
        coupled = bounds.couplings(
            field, amc.Gibbs(), lag=20, n_couplings=8 if few else 300, random_seed=SEED, max_steps=LONGEST_COUPLING,
            progressbar=False,
        )  # fmt: skip
        if coupled.attrs["unmet"]:  # a curve of the couplings that met alone is no bound
            without.append(f"{name} sites: {coupled.attrs['unmet']} of {coupled.sizes['coupling']}")
            continue
        for t in (0, 2, 5, 10):
            at = bounds.coupling_bound(coupled["meeting_time"].values, 20, times=[t]).isel(time=0)
            numbers = {
                "bound": float(at["tv_bound"]),
                "bound_lower": float(at["tv_lower"]),
                "bound_upper": float(at["tv_upper"]),
                "rho (heuristic)": float(coupled["rho"]),
                "C (heuristic)": float(coupled["C"]),
            }
            rows.append({"target": name, "sweeps": t, **numbers, "label": coupled.attrs["label"]})
    caption = (
        "Upper bound on the distance of exact Gibbs from its stationary distribution, started from independent fair "
        "states, by couplings "
        "with lag 20 and bootstrap intervals. It applies to this start, so that (C, rho) are heuristic inputs to B5. "
        f"Couplings that have not met after {LONGEST_COUPLING} sweeps leave no bound"
        f"{': ' if without else ''}{', '.join(without)}."
    )
    return [Table("Couplings of exact sweeps", caption, pd.DataFrame(rows))]


def no_bound(results) -> list:
    """Tabulate the result of `check_bound` for a field that cannot be enumerated: Delta, and no bound."""
    name, field, batch_size = large(results)
    check = amc.check_bound(
        field, sequential(0.0, batch_size), epsilons=EPSILONS, n_pairs=30, replications=300, random_seed=SEED,
        progressbar=False,
    )  # fmt: skip
    frame = check.dataset[["delta_max", "label_delta_max"]].to_dataframe().reset_index()
    caption = (
        f"{name} sites: {check.attrs['route']}. What is known is the largest error of a decision: the upper confidence "
        "limit over 30 visited contexts, heuristic as a supremum."
    )
    headings = headings_of(frame)
    formats = {"epsilon": "g"}
    return [Table(f"Theorem 2 at {name} sites", caption, frame, headings=headings, formats=formats)]


study = Study(
    name="bounds_gibbs",
    reference="Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, theorem 2 and section 6.3",
    names={
        "sequential": "sequential",
    },
    targets={"six": six, "eight": eight},
    samplers={"sequential": vary(sequential, epsilon=knob(*EPSILONS))},
    budget=Budget(draws=200_000),
    tune=50,
    replicates=8,
    gold=None,
    seed=SEED,
    start=start,
    analyses=(contraction, no_bound, barker_sweeps, coupled_sweeps),
    bounds={
        "theorem 2, six sites": {"target": "six", "sampler": "sequential"},
        "theorem 2, eight sites": {"target": "eight", "sampler": "sequential"},
    },
    presets={
        "smoke": {
            "targets": {"six": six},
            "bounds": {"theorem 2, six sites": {"target": "six", "sampler": "sequential"}},
            "budget": Budget(draws=4000),
            "replicates": 2,
        },
        "quick": {"budget": Budget(draws=20_000), "replicates": 4},
        "published": {"like": "quick", "replicates": 8},
    },
)
