r"""How wrong is one decision of a real sampler? Replicated decisions at pairs that the chain visits.

At a pair (x, x') the exact acceptance probability P_a is known from all data; M independent decisions of the test, each
with a new u and new subsets, give K accepts, and Clopper and Pearson's interval [lo, hi] at level 1 - alpha/B gives

    U_b = max(|lo - P_a|, |hi - P_a|).

What may be claimed, with B pairs:

sampled    max_b U_b bounds the largest error over the *sampled* pairs with probability 1 - alpha: rigorous.
quantile   for independent pairs, at most a share s of the pair distribution errs by more than max_b U_b, with
           probability 1 - (1 - s)^B - alpha: rigorous; 0.9505 - alpha for B = 299, s = 0.01.
supremum   that max_b U_b is Delta_max, the largest error over all pairs: heuristic, and what Theorem 1 asks for.
model      the largest error of the Gaussian regime at the sampled (Lambda, tau): heuristic, without sampling noise.
mean       mean_b |K/M - P_a| estimates E|Delta| from above (its own noise is not taken off): with Hoeffding's
           inequality, for independent pairs, a rigorous upper limit, which B4 may use in place of E delta.

References: Clopper and Pearson (1934); Korattikara, Chen and Welling (2014), Austerity in MCMC Land, theorem 1.
"""

import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from approxmcmc.acceptance import AlwaysAccept
from approxmcmc.bounds.acceptance_law import exact_probability, gaussian_probability, rule_of
from approxmcmc.bounds.statements import HEURISTIC, NOT_APPLICABLE, RIGOROUS
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Component, Part
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.engine.batches import full_terms
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.random_walk import keep
from approxmcmc.samplers import Gibbs, MetropolisHastings, realised_conditional
from approxmcmc.sampling.initial import random_start, starting_points
from approxmcmc.sampling.progress import progress

if TYPE_CHECKING:
    import xarray as xr

TOUCHED = COUNT_NAMES.index("datapoints_touched")
MOST_STEPS = 2000  # of one call of the chain: some 10 to 100 ms


def _propose_pinned(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    here, there, log_q_ratio = params
    away = False
    for j in range(theta.shape[0]):
        away = away or theta[j] != here[j]
    for j in range(theta.shape[0]):
        out[j] = here[j] if away else there[j]
    return math.inf if away else log_q_ratio[0]  # the way back is accepted for sure


@dataclasses.dataclass(frozen=True, eq=False)
class _Pinned(Component):
    """Propose x' from x, again and again, and return from x' for sure: the chain's own decisions at one pair."""

    proposes_states: ClassVar[bool] = True

    def build_proposal(self, target: Any) -> Part:
        dim = target.variables.size
        params = (np.zeros(dim), np.zeros(dim), np.zeros(1))
        return Part({"PROPOSE": _propose_pinned, "ADAPT": keep}, params, lambda: np.zeros(1))


def quantile_confidence(n_pairs: int, share: float) -> float:
    """Return the probability that the largest of n independent values lies above all but a `share` of their law.

    Examples
    --------
    >>> round(quantile_confidence(299, 0.01), 4)
    0.9505
    """
    return -math.expm1(n_pairs * math.log1p(-share))


def estimate_delta(
    target: Any,
    sampler: Any,
    *,
    n_pairs: int = 299,
    replications: int = 2000,
    states: Any = None,
    tune: int = 1000,
    thin: int = 10,
    confidence: float = 0.95,
    share: float = 0.01,
    initvals: Any = None,
    random_seed: Any = None,
    progressbar: bool = True,
) -> "xr.Dataset":
    """Estimate by how much an approximate test errs in its acceptance probabilities, with confidence limits.

    Parameters
    ----------
    target, sampler
        A target and the `MetropolisHastings` or `Gibbs` sampler whose decisions are replicated.
    n_pairs, replications
        Pairs B (for Gibbs: contexts with a site each), and decisions M at each.
    states
        Independent states, shape (n_pairs, dim), such as draws of a gold standard. None: states of one chain, `thin`
        steps apart after `tune` steps; they are dependent, and the statements that need independence become heuristic.
    confidence
        1 - alpha, of all intervals at once (union bound).
    share
        s of the quantile statement.
    initvals, random_seed, progressbar
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        Dim ``pair``: `log_ratio`, `tau`, `exact` and `realised` probability, `error` = realised - exact with
        `error_lower`, `error_upper`, its bound `error_bound` = U_b, and `error_model` of the Gaussian regime. Scalars,
        each with a ``label_``: `delta_sampled`, `delta_quantile` (with `quantile_confidence`), `delta_max`,
        `delta_max_model`, `mean_error` with limits over pairs, `mean_error_upper`. Attributes: `datapoints_touched` and
        `seconds`, the cost of the replications, and `likelihood_evaluations_exact`, that of P_a.

    Raises
    ------
    IncompatibleError
        When the sampler is neither Metropolis-Hastings nor Gibbs with an approximate test.
    InvalidInputError
        When a number is out of range or `states` has the wrong shape.

    Notes
    -----
    Nothing here bounds the supremum over all pairs: `delta_max` is labelled heuristic, always.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> field = amc.targets.BinaryMRF.random_triples(8, scale=0.3, random_seed=0)
    >>> found = amc.bounds.estimate_delta(
    ...     field, amc.Gibbs(amc.SequentialTTest(0.2, 5)), n_pairs=20, replications=50, random_seed=1, progressbar=False
    ... )
    >>> str(found["label_delta_sampled"].values), str(found["label_delta_max"].values)
    ('rigorous', 'heuristic')
    """
    _check(n_pairs, replications, confidence, share)
    if not isinstance(sampler, (MetropolisHastings, Gibbs)):
        raise IncompatibleError(
            f"estimate_delta replicates the decisions of MetropolisHastings and Gibbs, found {sampler!r}"
        )
    sequences, seed = seed_sequences(random_seed, 1)
    own = streams(sequences[0])
    program: Any = sampler.build(target, audit_every=None)
    points, _ = starting_points(program, target.variables, lambda rng: random_start(target, rng), initvals, [own])
    chain = program.start(points[0], own, tune)
    given = None if states is None else np.asarray(states, dtype=np.float64)
    if given is None:
        visited = _run(chain, tune, n_pairs, thin, target.variables.size)
    elif given.shape == (n_pairs, target.variables.size):
        visited = given
    else:
        raise InvalidInputError(
            f"estimate_delta: states must have shape ({n_pairs}, {target.variables.size}), found {given.shape}"
        )
    started = time.perf_counter()
    with progress(n_pairs, show=progressbar, label=f"deciding {replications} times", time_limit=None) as shown:
        replicate = _replicate_gibbs if isinstance(sampler, Gibbs) else _replicate_pairs
        table, touched, evaluations = replicate(target, sampler, program, chain, visited, replications, own, shown)
    found = _judged(table, replications, confidence, share, independent=given is not None)
    found.attrs |= {
        "datapoints_touched": touched,
        "likelihood_evaluations_exact": evaluations,
        "seconds": time.perf_counter() - started,
        "replications": replications,
        "confidence": confidence,
        "seed": str(seed),
        "sampler": repr(sampler),
    }
    return found


def _check(n_pairs: int, replications: int, confidence: float, share: float) -> None:
    for name, value, least in (("n_pairs", n_pairs, 1), ("replications", replications, 1)):
        if isinstance(value, bool) or int(value) != value or value < least:
            raise InvalidInputError(f"estimate_delta: {name} must be a whole number >= {least}, found {value!r}")
    for name, level in (("confidence", confidence), ("share", share)):
        if not 0.0 < level < 1.0:
            raise InvalidInputError(f"estimate_delta: {name} must lie strictly between 0 and 1, found {level!r}")


def _run(chain: Any, tune: int, n_draws: int, thin: int, dim: int) -> np.ndarray:
    """Advance a chain and return every `thin`-th state after `tune` steps, shape (n_draws, dim)."""
    kept = []
    for rows, every, keep_them in ((tune, 1, False), (n_draws, thin, True)):
        done = 0
        while done < rows:
            n = min(rows - done, max(1, MOST_STEPS // every))
            draws = np.empty((n, dim))
            made = chain.advance(
                n, every, draws, np.empty((n, len(COUNT_NAMES)), dtype=np.int64), np.empty((n, len(VALUE_NAMES)))
            )
            if made < n:
                raise InvalidInputError(f"estimate_delta: the chain broke off: {chain.explain_failure()}")
            done += n
            if keep_them:
                kept.append(draws)
    return np.concatenate(kept)


def _replicate_pairs(
    target: Any, sampler: Any, program: Any, chain: Any, visited: np.ndarray, replications: int, own: Any, shown: Any
) -> tuple[dict[str, list[float]], int, int]:
    """Draw x' for each state, and let a chain whose proposal is pinned to the pair decide."""
    propose, params, state = program.proposal.functions["PROPOSE"], program.proposal.params, chain.proposal_state
    # Blocks would let the decisions at one pair share a partition of the data; rows make them independent.
    test = dataclasses.replace(sampler.test, order="rows") if hasattr(sampler.test, "order") else sampler.test
    pinned = MetropolisHastings(_Pinned(), test).build(target, audit_every=None)
    here, there, pinned_ratio = pinned.proposal.params
    compiled, count, touched = target.compile(), np.zeros(len(COUNT_NAMES), dtype=np.int64), 0
    table: dict[str, list[float]] = {name: [] for name in ("log_ratio", "tau", "exact", "accepted", "error_model")}
    for k, theta in enumerate(visited):
        proposed = theta.copy()
        log_q_ratio = propose(own.proposal, params, state, theta, proposed, count)
        log_ratio, tau = _pair(compiled, sampler.test, theta, proposed, log_q_ratio)
        accepted = 0
        if log_ratio > -math.inf:
            here[:], there[:], pinned_ratio[0] = theta, proposed, log_q_ratio
            accepted, cost = _decide(pinned.start(theta.copy(), own, 0), theta, replications)
            touched += cost
        for name, value in zip(
            table,
            (log_ratio, tau, *_probabilities(sampler.test, log_ratio, tau, compiled.n_obs, accepted)),
            strict=True,
        ):
            table[name].append(value)
        shown.update(k + 1)
    return table, touched, 2 * compiled.n_obs * len(visited)


def _pair(compiled: Any, test: Any, theta: np.ndarray, proposed: np.ndarray, log_q_ratio: float) -> tuple[float, float]:
    """Return Lambda and tau of a pair, from all data."""
    prior = compiled.log_prior(proposed)
    if prior == -math.inf:
        return -math.inf, 0.0
    ends = [full_terms(compiled.log_terms, at, compiled.data, compiled.n_obs) for at in (theta, proposed)]
    terms = (ends[1] - ends[0]) / getattr(test, "temperature", 1.0)
    log_ratio = prior - compiled.log_prior(theta) + log_q_ratio + float(terms.sum())
    scale = math.sqrt(compiled.n_obs) * float(terms.std(ddof=1)) if compiled.n_obs > 1 else 0.0
    return log_ratio, scale


def _probabilities(test: Any, log_ratio: float, tau: float, n_obs: int, accepted: int) -> tuple[float, float, float]:
    """Return exact probability, accepts, and the error in the Gaussian regime (NaN where it is not known)."""
    exact = float(exact_probability(np.array([log_ratio]), rule_of(test, conditional=False))[0])
    if isinstance(test, AlwaysAccept):
        return exact, accepted, 1.0 - exact
    if not math.isfinite(log_ratio):
        return exact, accepted, 0.0
    try:
        model = gaussian_probability(
            test, np.array([log_ratio]), np.array([tau]), n_obs, rule_of(test, conditional=False)
        )
    except IncompatibleError:
        return exact, accepted, math.nan
    return exact, accepted, float(model[0]) - exact


def _decide(chain: Any, here: np.ndarray, replications: int) -> tuple[int, int]:
    """Return how many of `replications` decisions at the pair accepted, and the data that they touched."""
    decided = accepted = touched = 0
    away = False
    while decided < replications:
        n = min(MOST_STEPS, replications - decided)
        draws, counts = np.empty((n, here.size)), np.empty((n, len(COUNT_NAMES)), dtype=np.int64)
        if chain.advance(n, 1, draws, counts, np.empty((n, len(VALUE_NAMES)))) < n:
            raise InvalidInputError(f"estimate_delta: {chain.explain_failure()}")
        moved = (draws != here).any(axis=1)
        began_away = np.concatenate([[away], moved[:-1]])
        decided += int((~began_away).sum())
        accepted += int((moved & ~began_away).sum())
        touched += int(counts[~began_away, TOUCHED].sum())
        away = bool(moved[-1])
    return accepted, touched


def _replicate_gibbs(
    target: Any, sampler: Any, program: Any, chain: Any, visited: np.ndarray, replications: int, own: Any, shown: Any
) -> tuple[dict[str, list[float]], int, int]:
    """Replicate the decision of a random site in each visited state; a proposed value of 1 is an accept."""
    sites = (own.proposal.random(len(visited)) * visited.shape[1]).astype(np.int64)
    table: dict[str, list[float]] = {name: [] for name in ("log_ratio", "tau", "exact", "accepted", "error_model")}
    terms, touched = program.conditionals.n_terms, 0
    seeds = np.random.SeedSequence(int(own.audit.random() * 2**52)).generate_state(len(visited))
    for k, site in enumerate(sites):
        found = realised_conditional(
            target, sampler.test, visited[k : k + 1], [site], replications=replications, random_seed=int(seeds[k])
        ).isel(context=0)
        n_terms = int(terms[site])
        log_odds, tau = float(found["log_odds"]), float(found["tau"])
        try:
            model = gaussian_probability(sampler.test, np.array([log_odds]), np.array([tau]), n_terms, "barker")
            error = float(model[0]) - float(found["exact"])
        except IncompatibleError:
            error = math.nan
        row = (log_odds, tau, float(found["exact"]), round(float(found["realised"]) * replications), error)
        for name, value in zip(table, row, strict=True):
            table[name].append(value)
        touched += round(float(found["data_fraction"]) * n_terms * replications)
        shown.update(k + 1)
    return table, touched, int(2 * terms[sites].sum())


def _judged(
    table: dict[str, list[float]], replications: int, confidence: float, share: float, *, independent: bool
) -> "xr.Dataset":
    import xarray as xr

    columns = {name: np.asarray(values, dtype=np.float64) for name, values in table.items()}
    n_pairs, alpha = len(columns["exact"]), 1.0 - confidence
    lower, upper = clopper_pearson(columns["accepted"], np.full(n_pairs, replications), 1.0 - alpha / n_pairs)
    error = columns["accepted"] / replications - columns["exact"]
    limits = [lower - columns["exact"], upper - columns["exact"]]
    # A proposal outside the support is rejected before any test runs: no error is possible there.
    certain = columns["log_ratio"] == -math.inf
    limits = [np.where(certain, 0.0, limit) for limit in limits]
    bound = np.maximum(*np.abs(limits))
    size = np.abs(error)
    spread = 1.96 * size.std(ddof=1) / math.sqrt(n_pairs) if n_pairs > 1 else math.nan
    iid = RIGOROUS if independent else HEURISTIC
    known = np.isfinite(columns["error_model"]).any()
    scalars = {
        "delta_sampled": (bound.max(), RIGOROUS, "largest error over the sampled pairs, upper confidence limit"),
        "delta_quantile": (bound.max(), iid, f"exceeded by at most a share {share:g} of pairs, upper confidence limit"),
        "delta_max": (bound.max(), HEURISTIC, "largest error over all pairs, estimated by that over the sampled ones"),
        "delta_max_model": (
            np.nanmax(np.abs(columns["error_model"])) if known else math.nan,
            HEURISTIC if known else NOT_APPLICABLE,
            "largest error at the sampled pairs in the Gaussian regime",
        ),
        "mean_error": (size.mean(), HEURISTIC, "mean absolute error over pairs, biased upwards by its own noise"),
        "mean_error_upper": (
            min(1.0, size.mean() + math.sqrt(math.log(1.0 / alpha) / (2.0 * n_pairs))),
            iid,
            "upper confidence limit of the mean absolute error (Hoeffding)",
        ),
    }
    data: dict[str, Any] = {name: ("pair", values) for name, values in columns.items()}
    data |= {"realised": ("pair", columns["accepted"] / replications), "error": ("pair", error)}
    data |= {"error_lower": ("pair", limits[0]), "error_upper": ("pair", limits[1]), "error_bound": ("pair", bound)}
    for name, (value, label, text) in scalars.items():
        data[name] = ((), float(value), {"long_name": text, "units": "1", "label": label})
        data[f"label_{name}"] = label
    data["mean_error_interval"] = ("limit", [size.mean() - spread, size.mean() + spread])
    data["quantile_confidence"] = quantile_confidence(n_pairs, share) - alpha
    return xr.Dataset(data, coords={"limit": ["lower", "upper"]})
