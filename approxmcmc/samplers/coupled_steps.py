"""One step of two coupled Metropolis chains: proposals drawn together, one threshold for both decisions.

    (x', y') by the proposal's own coupling,  one u with its threshold T;  X moves iff T < Lambda(x, x'),  Y iff T <
    Lambda(y, y').

If each chain proposes the other's state, as on the sites of a discrete target, they meet iff exactly one of them moves.
Y then uses 1 - u, which makes a meeting as likely as possible.

A step of X alone is the sampler's step, with the same random numbers and the same rule for undefined densities. What is
computed at a point that both chains propose, terms or auxiliary data, serves both.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT, UNDECIDED, decision_on
from approxmcmc.contracts import CompiledProposal, Proposal
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import equal
from approxmcmc.errors import IncompatibleError
from approxmcmc.sampling.chain import FAILED, STAYED


@compiled
def trade_places(x: Any, y: Any) -> bool:
    """Return whether each chain proposes the other's value in every coordinate that changes."""
    for j in range(x.theta.shape[0]):
        changes = x.proposed[j] != x.theta[j] or y.proposed[j] != y.theta[j]
        if changes and (x.proposed[j] != y.theta[j] or y.proposed[j] != x.theta[j]):
            return False
    return True


@compiled
def unmirrored(threshold: float) -> float:
    """Return the threshold: chains that trade places use the same u."""
    return threshold


@cached_by_content(maxsize=64)
def make_coupled_step(
    propose: Callable[..., float],
    couple: Callable[..., tuple[float, float]],
    draw_threshold: Callable[..., float],
    mirror: Callable[[float], float],
    weigh: Callable[..., float],
    is_unreachable: Callable[..., bool],
    go_there: Callable[..., None],
    knows_density: bool,
) -> Callable[..., int]:
    """Return ``step(rng, chains, shared, n_chains) -> status``: a step of both chains, or of X alone if n_chains = 1.

    A chain is a named tuple with the fields `theta`, `proposed` and `proposal`; `shared` has `counts`, `noise` and
    `last_ratios`. ``weigh(rng, shared, chain, log_q_ratio, again)`` returns Lambda of the chain's proposal; if `again`,
    the last call was made at the same theta'. ``is_unreachable(shared, chain)`` decides on a proposal with an undefined
    Lambda, and ``go_there(chain)`` moves a chain to its proposal. The status is FAILED if a chain is undecided,
    otherwise STAYED, whether a chain moved or not. If `knows_density`, Lambda without the log q ratio is the change of
    the log density.
    """

    def decided(shared: Any, chain: Any, threshold: float, log_ratio: float) -> int:
        decision = decision_on(threshold, log_ratio)
        return REJECT if decision == UNDECIDED and is_unreachable(shared, chain) else decision

    decided = compiled(decided)

    def step(rng: np.random.Generator, chains: Any, shared: Any, n_chains: int) -> int:
        x, y = chains
        log_q_x = log_q_y = 0.0
        if n_chains == 1:
            log_q_x = propose(rng, x.proposal, x.theta, x.proposed, shared.counts)
        else:
            log_q_x, log_q_y = couple(
                rng, x.proposal, y.proposal, x.theta, y.theta, x.proposed, y.proposed, shared.noise, shared.counts
            )
        threshold = draw_threshold(rng)
        log_ratio_x = weigh(rng, shared, x, log_q_x, False)
        decision_x = decided(shared, x, threshold, log_ratio_x)
        decision_y = REJECT
        if n_chains == 1:
            shared.last_ratios[0] = log_ratio_x
            if knows_density:
                shared.last_ratios[1] = log_ratio_x - log_q_x
        else:
            log_ratio_y = weigh(rng, shared, y, log_q_y, equal(x.proposed, y.proposed))
            decision_y = decided(shared, y, mirror(threshold) if trade_places(x, y) else threshold, log_ratio_y)
        if UNDECIDED in (decision_x, decision_y):
            return FAILED
        if decision_x == ACCEPT:
            go_there(x)
        if decision_y == ACCEPT:
            go_there(y)
        return STAYED

    return compiled(step)


def coupling_of_proposal(
    settings: Proposal, built: CompiledProposal, adapted: Mapping[str, float] | None = None
) -> Callable[..., tuple[float, float]]:
    """Return the compiled function that proposes for two chains together; `built` is the compiled proposal.

    Raises
    ------
    IncompatibleError
        When the proposal has no coupling, or still adapts.
    """
    if adapted is None and any(member.target_acceptance is not None for member in settings.members):
        raise IncompatibleError(
            "couplings: the proposal must not adapt, as the chain is then not Markov; fix the scale"
        )
    if built.couple is None or built.settle is not None:
        raise IncompatibleError(
            f"couplings: no coupling is known for {settings!r}; use RandomWalk, Langevin, Independence, "
            "PreconditionedCrankNicolson, SurrogateTransition, SingleSite or a mixture of them"
        )
    return built.couple
