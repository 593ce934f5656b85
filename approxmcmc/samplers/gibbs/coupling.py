"""Two coupled Gibbs chains: they visit the same sites, and draw each with the same u from its exact conditional."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.rules import logit_uniform
from approxmcmc.contracts import CompiledConditionals, CompiledCoupling, CompiledTest, DiscreteTarget, Streams
from approxmcmc.contracts.records import BLANK_VALUES, COUNT_NAMES
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.samplers.gibbs.state import GibbsState, new_state
from approxmcmc.samplers.gibbs.step import SCANS, draw_by_terms
from approxmcmc.sampling.chain import FAILED, STAYED, new_clock


class SharedSites(NamedTuple):
    """What both chains use: counts, an unused `last_ratios`, the values that a step writes, and the threshold."""

    counts: np.ndarray
    last_ratios: np.ndarray
    value: np.ndarray
    threshold: np.ndarray


@compiled
def given_threshold(drawn: np.ndarray) -> float:
    """Return the threshold ``drawn[0]``, which was drawn once and is used by both chains."""
    return drawn[0]


@cached_by_content(maxsize=64)
def make_coupled_sweep(next_site: Callable[..., int], draw: Callable[..., int]) -> Callable[..., int]:
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


def couple(
    target: DiscreteTarget, conditionals: CompiledConditionals, tests: tuple[CompiledTest, ...], scan: str
) -> CompiledCoupling:
    """Return the coupling of two Gibbs chains that draw the same sites with the same u; `tests` must read all data."""

    def start(theta: np.ndarray, log_likelihood: float) -> GibbsState:
        return new_state(conditionals, tests, theta, new_clock(0))

    def shared() -> SharedSites:
        counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        return SharedSites(counts, np.full(2, math.nan), BLANK_VALUES.copy(), np.zeros(1))

    sweep = make_coupled_sweep(SCANS[scan], draw_by_terms(given_threshold, tests[0]))
    point = np.asarray(target.initial_point(), dtype=np.float64)
    terms = float(conditionals.n_terms.sum())
    return CompiledCoupling("Gibbs", sweep, start, shared, point, terms, rule="barker")
