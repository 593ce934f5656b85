"""The program of Gibbs samplers: sweeps of a discrete target, with sites drawn in any of the forms of `step`."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.acceptance.rules import logit_uniform
from approxmcmc.contracts import CompiledConditionals, CompiledTest, DiscreteTarget, Streams
from approxmcmc.engine.terms.order import PERIOD
from approxmcmc.samplers.gibbs.poisson_counts import CompiledCounts
from approxmcmc.samplers.gibbs.state import BlocksOfSites, GibbsState, evidence_in_blocks, evidence_on, new_state
from approxmcmc.samplers.gibbs.step import (
    SCANS,
    draw_by_states,
    draw_by_terms,
    make_draw_by_field,
    make_step,
    prepare_nothing,
    refresh_field,
)
from approxmcmc.samplers.program import StepProgram
from approxmcmc.sampling.chain import CompiledChain, compile_chain, new_clock


class GibbsProgram(StepProgram):
    """A sampler that sweeps over the sites of a discrete target.

    Each of `parts` has a function `make_state`: the tests that decide the sites, one for each group of sites, or the
    counts by which sites are drawn. `blocks` says how tests read blocks of a shuffled copy; None if they do not.
    """

    def __init__(
        self,
        target: DiscreteTarget,
        conditionals: CompiledConditionals,
        parts: Sequence[Any],
        step: Callable[..., int],
        records: Collection[str],
        attrs: Mapping[str, Any],
        *,
        blocks: BlocksOfSites | None = None,
        audited: bool = False,
        audit_every: int | None = None,
    ) -> None:
        self.target = target
        self.conditionals = conditionals
        self.parts = parts
        self.blocks = blocks
        n_obs = float(conditionals.n_terms.mean())  # terms per decision, not factors of the target
        super().__init__(
            records,
            {"n_obs": int(n_obs) if n_obs.is_integer() else n_obs, **attrs},
            not_filled=("accepted",),
            audited=audited,
            audit_every=audit_every,
        )
        self.loop = compile_chain(step, self.new_state(target.initial_point(), np.random.default_rng(0)))

    def new_state(self, theta: np.ndarray, rng: np.random.Generator | None = None) -> GibbsState:
        """Return the state of a chain at theta; nothing adapts, so tuning is burn-in. `rng` shuffles the copy."""
        clock = new_clock(0, self.audit_probability)
        state = new_state(self.conditionals, self.parts, theta, clock, self.blocks, rng)
        if "lp" in self.value_names:
            state.log_density[0] = self.target.log_density(theta)
        return state

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return the unnormalised log densities of the states `thetas` (k, D), shape (k,)."""
        return np.array([float(self.target.log_density(theta)) for theta in thetas])

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> CompiledChain:
        """Return a chain that starts at `theta`, a state of positive probability; `n_tune` is not used."""
        state = self.new_state(theta.copy(), streams.order)
        fixed: tuple[np.ndarray, ...] = ()
        if self.blocks is not None:
            order = state.evidence.order
            moves = (order.cursor[:, PERIOD] > 0).any()
            fixed = state.evidence.data[1:]  # views of the words
            fixed = fixed if moves else (*fixed, *order.rows)
        return self.chain(streams, state, fixed=fixed)

    def explain_failure(self, state: GibbsState) -> str:
        """Return a sentence that names a term of NaN or +inf, its site, and the states of all sites."""
        for site, n_states in enumerate(self.conditionals.n_states):
            for k in range(n_states):
                x = state.theta.copy()
                x[site] = k
                bad = np.flatnonzero(~(self.conditionals.terms_at(x, site) < math.inf))
                if bad.size:
                    more = f" and {bad.size - 1} more" if bad.size > 1 else ""
                    return f"term {bad[0]}{more} of site {site} is NaN or +inf at x = {x.astype(int).tolist()}"
        return f"the conditional of a site is not defined near x = {state.theta.astype(int).tolist()}"


def tested_program(
    target: DiscreteTarget,
    conditionals: CompiledConditionals,
    tests: tuple[CompiledTest, ...],
    scan: str,
    audit_every: int | None,
    blocks: BlocksOfSites | None,
) -> GibbsProgram:
    """Return the program of sweeps with sites that a test decides; an exact test has the fastest form there is."""
    test = tests[0]
    if conditionals.fields is not None:
        step = make_step(refresh_field, SCANS[scan], make_draw_by_field(logit_uniform))
    elif conditionals.n_states.max() > 2:
        step = make_step(prepare_nothing, SCANS[scan], draw_by_states)
    else:
        on_site = evidence_on if blocks is None else evidence_in_blocks
        step = make_step(prepare_nothing, SCANS[scan], draw_by_terms(logit_uniform, test, on_site))
    is_exact = test.log_likelihood is not None
    attrs: dict[str, Any] = {} if is_exact else {"data_order": "rows"}
    if blocks is not None:
        attrs = {"data_order": "blocks", "block_size": int(blocks.sizes[-1])}
    return GibbsProgram(
        target,
        conditionals,
        tests,
        step,
        (*test.records, "lp") if is_exact else test.records,
        attrs,
        blocks=blocks,
        audited=test.is_audited,
        audit_every=audit_every,
    )


def counted_program(
    target: DiscreteTarget, conditionals: CompiledConditionals, counts: CompiledCounts, scan: str
) -> GibbsProgram:
    """Return the program of sweeps with sites that are drawn given Poisson counts; nothing is audited."""
    step = make_step(prepare_nothing, SCANS[scan], counts.draw)
    attrs = {"setup_expected_reads": counts.expected_reads}
    return GibbsProgram(target, conditionals, (counts,), step, ("expected_reads",), attrs)
