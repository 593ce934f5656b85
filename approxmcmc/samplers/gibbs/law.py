"""What is known of a Gibbs sweep: transition matrix on all states, coupling, the conditional that a test realises.

The matrix is the product of the sites' kernels. The realised conditional is estimated at fixed contexts, by repeating
one decision: the other sites are fixed, and only u and the order of the terms change. So the frequency of x_i = 1
estimates P_epsilon(x_i = 1 | rest) directly. A chain visits every context about once; its frequencies would have to be
binned over contexts, and the error of the binning would add to the test's error.
"""

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.probability import acceptance_probability, has_closed_form, refuse_impossible_terms
from approxmcmc.acceptance.rules import logit_uniform
from approxmcmc.audits.replication import compile_replicate
from approxmcmc.contracts import (
    AcceptanceTest,
    CompiledConditionals,
    CompiledCoupling,
    CompiledTest,
    Decision,
    DiscreteTarget,
    Streams,
    TransitionMatrix,
)
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.records import BLANK_VALUES, COUNT_NAMES, TOUCHED
from approxmcmc.engine.compiler.compile import as_python, compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.samplers.gibbs.state import GibbsState, build_tests, evidence_on, new_state
from approxmcmc.samplers.gibbs.step import SCANS, draw_by_terms
from approxmcmc.sampling.chain import FAILED, STAYED, new_clock

if TYPE_CHECKING:
    import xarray as xr


def sweep_matrix(
    target: DiscreteTarget,
    conditionals: CompiledConditionals | None,
    test: AcceptanceTest,
    scan: str,
    points: np.ndarray,
    method: str,
    site: int | None,
) -> TransitionMatrix:
    """Return the matrix of a sweep, or of one `site`, on all states; ``conditionals=None``: sites are drawn exactly."""
    if len(points) != math.prod(target.n_states.tolist()):
        raise InvalidInputError("transition_matrix: Gibbs needs all states; leave the grid out.")
    strides = np.append(np.cumprod(target.n_states[:0:-1])[::-1], 1)
    n_sites = target.n_states.size
    sites = range(n_sites) if site is None else [site]
    kernels = []
    used = "closed form"
    decision = np.full((len(points), len(points)), np.nan)
    for i in sites:
        with np.errstate(invalid="ignore"):
            law, used = _conditional(target, conditionals, test, points, i, method)
        law[np.isnan(law)] = 1.0 / law.shape[1]  # no value is possible, and no chain gets here: any numbers will do
        kernels.append(_site_kernel(points, law, i, int(strides[i])))
        moved = kernels[-1].copy()
        np.fill_diagonal(moved, 0.0)
        decision = np.where(moved > 0.0, moved, decision)
    if site is not None:
        matrix = kernels[0]
        n_decisions = 1
    elif scan == "random":
        matrix = np.linalg.matrix_power(np.mean(kernels, axis=0), n_sites)
        n_decisions = n_sites
    else:
        matrix = np.linalg.multi_dot(kernels) if n_sites > 1 else kernels[0]
        n_decisions = n_sites
    return TransitionMatrix(matrix, decision, used, n_decisions)


def _conditional(
    target: DiscreteTarget,
    conditionals: CompiledConditionals | None,
    test: AcceptanceTest,
    points: np.ndarray,
    site: int,
    method: str,
) -> tuple[np.ndarray, str]:
    """Return a site's probabilities under the test's errors in every state, and how they were computed."""
    if conditionals is None:
        return np.asarray(target.conditional(points, site)), "closed form"
    n = int(conditionals.n_terms[site])
    values = []
    for state in (0.0, 1.0):
        at = points.copy()
        at[:, site] = state
        values.append(np.array([conditionals.terms_at(x, site) for x in at]))
    if not has_closed_form(test, n):
        refuse_impossible_terms(test, np.stack(values))
    one, used = acceptance_probability(
        test, values[1] - values[0], np.zeros(len(points)), method=method, conditional=True
    )
    return np.stack([1.0 - one, one], axis=1), used


def _site_kernel(points: np.ndarray, law: np.ndarray, site: int, stride: int) -> np.ndarray:
    here = np.arange(len(points))
    kernel = np.zeros((len(points), len(points)))
    for state in range(law.shape[1]):
        kernel[here, here + ((state - points[:, site]) * stride).astype(np.int64)] = law[:, state]
    return kernel


@naming_the_arguments
def realised_conditional(
    target: DiscreteTarget,
    test: AcceptanceTest,
    contexts: Any,
    sites: Any,
    *,
    replications: int = 2000,
    probability: float | None = None,
    random_seed: Any = None,
) -> "xr.Dataset":
    """Estimate P_epsilon(x_i = 1 | rest), the conditional that a test realises, at fixed contexts.

    Parameters
    ----------
    target
        A discrete target with binary sites.
    test
        An approximate test, such as ``SequentialTTest(0.05, 500)``.
    contexts
        States of all sites, shape (n, D); the entry of the site itself is ignored.
    sites
        Index of the site to be drawn in each context, shape (n,).
    replications
        Decisions per context, each with a new u and new batches.
    probability
        Shift the log odds of every context so that the exact conditional has this value, in (0, 1); None does not
        shift.
    random_seed
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        Dim ``context``: ``exact`` and ``realised``, the probability of 1; ``realised_mcse``, the standard error of the
        latter; the exact ``log_odds``, shifted if `probability` is given; ``tau``, sqrt(N) times the standard deviation
        of the terms; and ``data_fraction``, the mean share of the terms read.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, or `probability` is out of range.
    IncompatibleError
        When the test is exact, or cannot decide the target's sites.
    NotFiniteError
        When a term is NaN.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> field = amc.targets.BinaryMRF.random_triples(20, scale=0.1, random_seed=0)
    >>> contexts = np.random.default_rng(1).integers(0, 2, size=(3, 20))
    >>> test = amc.SequentialTTest(0.1, 20)
    >>> amc.samplers.realised_conditional(field, test, contexts, [0, 1, 2], replications=10, random_seed=1).sizes[
    ...     "context"
    ... ]
    3
    """
    import xarray as xr

    contexts = np.array(contexts, dtype=np.float64)
    sites = np.asarray(sites, dtype=np.int64)
    if contexts.ndim != 2 or sites.shape != contexts.shape[:1] or contexts.shape[1] != target.n_states.size:
        raise InvalidInputError(
            f"realised_conditional: contexts must have shape (n, {target.n_states.size}) and sites shape (n,), found "
            f"{contexts.shape} and {sites.shape}"
        )
    if not (
        ((contexts >= 0) & (contexts < target.n_states) & (contexts % 1 == 0)).all()
        and ((sites >= 0) & (sites < target.n_states.size)).all()
    ):
        raise InvalidInputError(
            f"realised_conditional: contexts must hold states 0, 1, ... below n_states = {target.n_states}, and sites "
            f"indices from 0 to {target.n_states.size - 1}"
        )
    if probability is not None and not 0.0 < probability < 1.0:
        raise InvalidInputError(
            f"realised_conditional: probability must lie strictly between 0 and 1, found {probability!r}"
        )
    conditionals = target.compile_conditionals(fields=False)
    tests = build_tests(test, target, conditionals)
    if tests[0].log_likelihood is not None:
        raise IncompatibleError("realised_conditional: test must be approximate; an exact test has no error")
    [sequence], _ = seed_sequences(random_seed, 1)
    own = streams(sequence)
    state = new_state(conditionals, tests, contexts[0].copy(), new_clock(0))
    evidence_of = as_python(evidence_on)
    draw_threshold = as_python(logit_uniform)
    by_decision = tests[0]._replace(threshold_form=None)  # a separate u for every decision
    replicate = compile_replicate(by_decision, evidence_of(state, 0))
    rows = []
    for context, site in zip(contexts, sites.tolist(), strict=True):
        log_odds, tau = _log_odds(conditionals, context, site, test.temperature)
        shift = 0.0 if probability is None else float(np.log(probability) - np.log1p(-probability)) - log_odds
        state.theta[:] = state.proposed[:] = context
        state.theta[site] = 0.0
        state.proposed[site] = 1.0
        count = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        thresholds = np.array([draw_threshold(own.uniform) for _ in range(replications)])
        held = evidence_of(state, site), shift, state.tests[state.sites.group[site]]
        log_ratios = replicate(own.order, *held, thresholds, np.zeros(replications, np.int64), count)
        if np.isnan(log_ratios).any():
            raise NotFiniteError(f"realised_conditional: a term of site {site} is NaN at x = {context.tolist()}")
        realised = float((log_ratios == np.inf).mean())
        rows.append(
            (
                1.0 / (1.0 + np.exp(-(log_odds + shift))),
                realised,
                float(np.sqrt(realised * (1.0 - realised) / replications)),
                log_odds + shift,
                tau,
                float(count[TOUCHED]) / (replications * int(conditionals.n_terms[site])),
            )
        )
    names = ("exact", "realised", "realised_mcse", "log_odds", "tau", "data_fraction")
    return xr.Dataset(
        {name: ("context", list(values)) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    )


def replicate_sites(
    target: DiscreteTarget, test: AcceptanceTest, states: np.ndarray, replications: int, own: Streams
) -> Iterator[Decision]:
    """Yield for each of `states` one `Decision`: repeated decisions of `test` on a random site; 1 means accepted."""
    sites = (own.proposal.random(len(states)) * states.shape[1]).astype(np.int64)
    n_terms = target.compile_conditionals(fields=False).n_terms
    seeds = np.random.SeedSequence(int(own.audit.random() * 2**52)).generate_state(len(states))
    for state, site, seed in zip(states, sites, seeds, strict=True):
        found = realised_conditional(
            target, test, state[None], [site], replications=replications, random_seed=int(seed)
        ).isel(context=0)
        n = int(n_terms[site])
        touched = round(float(found["data_fraction"]) * n * replications)
        accepted = round(float(found["realised"]) * replications)
        yield Decision(float(found["log_odds"]), float(found["tau"]), n, "barker", accepted, touched)


def _log_odds(
    conditionals: CompiledConditionals, context: np.ndarray, site: int, temperature: float
) -> tuple[float, float]:
    """Return the log odds L of a site in a context, and tau = sqrt(N) times the sd of the site's terms."""
    at_zero = context.copy()
    at_one = context.copy()
    at_zero[site] = 0.0
    at_one[site] = 1.0
    differences = (conditionals.terms_at(at_one, site) - conditionals.terms_at(at_zero, site)) / temperature
    return float(differences.sum()), float(np.sqrt(differences.size) * differences.std(ddof=1))


class SharedSites(NamedTuple):
    """What both chains use: counts, an unused `look`, the values that a step writes, and the threshold."""

    counts: np.ndarray
    look: np.ndarray
    value: np.ndarray
    threshold: np.ndarray


@compiled
def given_threshold(drawn: np.ndarray) -> float:
    """Return the threshold ``drawn[0]``, which was drawn once and is used by both chains."""
    return drawn[0]


@cached_by_content(maxsize=64)
def make_sweep(next_site: Callable[..., int], draw: Callable[..., int]) -> Callable[..., int]:
    """Return ``sweep(rng, chains, shared, n_chains) -> status``: a sweep of the first `n_chains` chains, 1 or 2."""

    def sweep(rng: np.random.Generator, chains: Any, shared: SharedSites, n_chains: int) -> int:
        n_sites = chains[0].theta.shape[0]
        drawn: Any = shared.threshold
        streams = Streams(rng, drawn, rng, rng, rng)
        for place in range(n_sites):
            site = next_site(rng, place, n_sites)
            shared.threshold[0] = logit_uniform(rng)
            for k in range(n_chains):
                if draw(streams, chains[k], site, shared.counts, shared.value) == FAILED:
                    return FAILED
        return STAYED

    return compiled(sweep)


def couple_gibbs(
    target: DiscreteTarget, conditionals: CompiledConditionals, tests: tuple[CompiledTest, ...], scan: str
) -> CompiledCoupling:
    """Return the coupling of two Gibbs chains that draw the same sites with the same u; `tests` must read all data."""

    def start(theta: np.ndarray, log_likelihood: float) -> GibbsState:
        return new_state(conditionals, tests, theta, new_clock(0))

    def shared() -> SharedSites:
        counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        return SharedSites(counts, np.full(2, math.nan), BLANK_VALUES.copy(), np.zeros(1))

    sweep = make_sweep(SCANS[scan], draw_by_terms(given_threshold, tests[0]))
    point = np.asarray(target.initial_point(), dtype=np.float64)
    terms = float(conditionals.n_terms.sum())
    return CompiledCoupling("Gibbs", sweep, start, shared, point, terms, rule="barker")
