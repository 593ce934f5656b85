"""Decisions repeated at fixed contexts: an estimate of the conditional that a test realises.

The other sites are fixed, and only u and the order of the terms change. So the frequency of x_i = 1 estimates
P_epsilon(x_i = 1 | rest) directly. A chain visits every context about once; its frequencies would have to be binned
over contexts, and the error of the binning would add to the test's error.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance.rules import logit_uniform
from approxmcmc.audits.replication import compile_replicate
from approxmcmc.contracts import AcceptanceTest, CompiledConditionals, Decision, DiscreteTarget, Streams
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.records import COUNT_NAMES, TOUCHED
from approxmcmc.engine.compiler.compile import as_python
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.samplers.gibbs.state import blocks_of_sites, build_tests, evidence_in_blocks, evidence_on, new_state
from approxmcmc.sampling.chain import new_clock

if TYPE_CHECKING:
    import xarray as xr


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
    blocks = blocks_of_sites(test, tests[0], target, conditionals)
    state = new_state(conditionals, tests, contexts[0].copy(), new_clock(0), blocks, own.order)
    evidence_of = as_python(evidence_on if blocks is None else evidence_in_blocks)
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
        realised = realised_conditional(
            target, test, state[None], [site], replications=replications, random_seed=int(seed)
        ).isel(context=0)
        n = int(n_terms[site])
        touched = round(float(realised["data_fraction"]) * n * replications)
        accepted = round(float(realised["realised"]) * replications)
        yield Decision(float(realised["log_odds"]), float(realised["tau"]), n, "barker", accepted, touched)


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
