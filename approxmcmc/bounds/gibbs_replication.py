"""The conditional that an acceptance test realises, at frozen contexts: one decision, made again and again.

A chain visits every context about once, so its frequencies mix the test's error with that of the binning. Here the
other sites stay where they are, only u and the order of the terms change, and the frequency of x_i = 1 estimates
P_epsilon(x_i = 1 | rest) itself.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.acceptance.rules import logit_uniform
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, AcceptanceTest, DiscreteTarget
from approxmcmc.engine.batches import log_terms_type
from approxmcmc.engine.compile import INDICES, MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.gibbs.gibbs import NO_BLOCKS, Gibbs, GibbsChain

if TYPE_CHECKING:
    import xarray as xr

TOUCHED = COUNT_NAMES.index("datapoints_touched")


def _replicate(  # type: ignore[no-untyped-def]  # a template
    streams, log_terms, data, n, params, state, at_zero, at_one, shift, order, work, count, value, replications
):
    uniform_rng, order_rng = streams
    ones = 0
    for _ in range(replications):
        decision, _ = TEST(  # noqa: F821 (bound)
            order_rng, log_terms, data, n, at_zero, at_one, THRESHOLD(uniform_rng), shift,  # noqa: F821 (bound)
            order, work, params, state, count, value,
        )  # fmt: skip
        ones += decision
    return ones


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
    """Estimate P_epsilon(x_i = 1 | rest), the conditional that a test realises, at frozen contexts.

    Parameters
    ----------
    target
        A discrete target with binary sites.
    test
        An approximate test, such as ``SequentialTTest(0.05, 500)``.
    contexts
        States of all sites, shape (n, D); the entry of the site itself is ignored.
    sites
        The site to be drawn in each context, shape (n,).
    replications
        Decisions per context, each with a new u and new batches.
    probability
        Shift the log odds of every context so that the exact conditional is this one, in (0, 1); None leaves them.
    random_seed
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        Dim ``context``: `exact` and `realised` probability of 1, `realised_mcse`, exact `log_odds`, `tau` = sqrt(N)
        times the standard deviation of the terms, and `data_fraction`, the mean share of the terms read.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, or `probability` is out of range.
    IncompatibleError
        When the test is exact, or cannot decide the target's sites.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> field = amc.targets.BinaryMRF.random_triples(20, scale=0.1, random_seed=0)
    >>> contexts = np.random.default_rng(1).integers(0, 2, size=(3, 20))
    >>> test = amc.SequentialTTest(0.1, 20)
    >>> amc.realised_conditional(field, test, contexts, [0, 1, 2], replications=10, random_seed=1).sizes["context"]
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
            f"numbers from 0 to {target.n_states.size - 1}"
        )
    if probability is not None and not 0.0 < probability < 1.0:
        raise InvalidInputError(
            f"realised_conditional: probability must lie strictly between 0 and 1, found {probability!r}"
        )
    program = Gibbs(test, conditional="terms").build(target, audit_every=None)
    if program.test.functions["CACHES_LIKELIHOOD"]:
        raise IncompatibleError("realised_conditional: an exact test realises the exact conditional")
    [sequence], _ = seed_sequences(random_seed, 1)
    chain = GibbsChain(program, contexts[0], streams(sequence))
    kernel = bind(_replicate, _signature(program, chain), TEST=program.test.functions["TEST"], THRESHOLD=logit_uniform)
    rows = [
        _one_context(program, chain, kernel, context, int(site), replications, probability, test.temperature)
        for context, site in zip(contexts, sites, strict=True)
    ]
    names = ("exact", "realised", "realised_mcse", "log_odds", "tau", "data_fraction")
    return xr.Dataset(
        {name: ("context", list(values)) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    )


def _signature(program: Any, chain: Any) -> Any:
    if config.DISABLE_JIT:
        return None
    generator, data = type_of(np.random.default_rng(0)), type_of(chain.data)
    return nb.int64(
        nb.UniTuple(generator, 2), log_terms_type(data), data, nb.int64, type_of(program.test_params[0]), VECTOR,
        VECTOR, VECTOR, nb.float64, type_of((chain.orders, *NO_BLOCKS)), MATRIX, INDICES, VECTOR, nb.int64,
    )  # fmt: skip


def _one_context(
    program: Any,
    chain: Any,
    kernel: Any,
    context: np.ndarray,
    site: int,
    replications: int,
    probability: float | None,
    temperature: float,
) -> tuple[float, ...]:
    conditionals = program.conditionals
    n, group = int(conditionals.n_terms[site]), int(program.group_of[site])
    start = int(chain.order_start[group])
    order = chain.orders[start : start + n]
    at_zero, at_one = context.copy(), context.copy()
    at_zero[site], at_one[site] = 0.0, 1.0
    chain.data[0][0] = conditionals.first[site]
    terms = np.empty((2, n))
    for out, x in zip(terms, (at_zero, at_one), strict=True):
        conditionals.log_terms(x, chain.data, np.arange(n), 0, n, out)
    differences = (terms[1] - terms[0]) / temperature
    log_odds = float(differences.sum())
    shift = 0.0 if probability is None else float(np.log(probability) - np.log1p(-probability)) - log_odds
    count, value = np.zeros(len(COUNT_NAMES), dtype=np.int64), np.zeros(len(VALUE_NAMES))
    ones = kernel(
        (chain.streams.uniform, chain.streams.order), conditionals.log_terms, chain.data, n,
        program.test_params[group], chain.test_state, at_zero, at_one, shift, (order, *NO_BLOCKS), chain.work, count,
        value, replications,
    )  # fmt: skip
    realised = ones / replications
    return (
        1.0 / (1.0 + np.exp(-(log_odds + shift))),
        realised,
        float(np.sqrt(realised * (1.0 - realised) / replications)),
        log_odds + shift,
        float(np.sqrt(n) * differences.std(ddof=1)),
        float(count[TOUCHED]) / (replications * n),
    )
