"""The exchange algorithm, and noisy exchange: the ratio of normalisers is estimated from auxiliary data at theta'.

    log a = (theta' - theta)'s(y) + log p(theta')/p(theta) + log q ratio + log (1/N) sum_k exp((theta - theta')'s(y'_k))

with y'_k drawn from the model at theta'. With N = 1 and exact draws the chain leaves the posterior invariant (Murray,
Ghahramani and MacKay 2006); with N = infinity it would be Metropolis-Hastings; in between it is biased (Alquier,
Friel, Everitt and Boland 2016, algorithms 6 and 7).
"""

import dataclasses
from typing import Any

import numpy as np

from approxmcmc.contracts import Component, DoublyIntractableTarget, Part, Proposal, ProposalSampler, Simulator
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.noisy.chain import NoisyProgram, NoisyStep, follow_proposal, keep_nothing, with_part
from approxmcmc.samplers.noisy.doubly_intractable import (
    EVALUATIONS,
    RECORDS,
    TOUCHED,
    check_target,
    log_likelihood_of,
    log_normalizer_ratio,
    log_ratio_of_observed,
)


def estimate_from_fresh_draws(  # type: ignore[no-untyped-def]  # bound into the template
    rng, params, memory, theta, proposed, count
):
    """Draw auxiliary data at theta' and estimate log p(y|theta') - log p(y|theta) from them."""
    observed, simulator_params = params[1], params[2]
    simulator_state, drawn = memory[1], memory[2]
    for k in range(drawn.shape[0]):
        SIMULATE(rng, proposed, simulator_params, simulator_state, drawn[k], count)  # noqa: F821 (bound)
    count[TOUCHED] += 1
    count[EVALUATIONS] += 1
    return log_ratio_of_observed(theta, proposed, observed) + log_normalizer_ratio(theta, proposed, drawn)


@dataclasses.dataclass(frozen=True, eq=False)
class Exchange(Component, ProposalSampler):
    """Metropolis-Hastings for p(theta) exp(theta's(y)) / Z(theta), without Z: auxiliary data are drawn at theta'.

    Parameters
    ----------
    proposal
        Where to go: :class:`RandomWalk`, or :class:`AdaptiveDirection` for a population of chains.
    n_auxiliary
        Auxiliary draws N of one decision. 1 is the exchange algorithm, more is noisy exchange.
    auxiliary
        How they are drawn: ``"exact"``, ``Auxiliary(n_updates, start)`` (the end of a Markov chain), or ``"auto"``:
        exact where the target can.

    Raises
    ------
    InvalidInputError
        When `n_auxiliary` is not a positive integer.
    IncompatibleError
        When the target cannot simulate, or not in the way that `auxiliary` asks for; raised before anything runs.

    Notes
    -----
    Guarantee: exact with ``n_auxiliary=1`` and exact draws. With draws from the end of a Markov chain it is biased by
    what that chain lacks of convergence, at any N. With N > 1 it is biased even then: the one-step error is of order
    1 / sqrt(N), but the bias is 0 at N = 1, largest at a few draws, and vanishes again as N grows.

    Records: ``auxiliary_updates`` counts sites or dyads visited. The observed data are one datum, read whole by each
    decision. Where the target knows its normaliser, audits compare with the exact ratio at the same theta' and u; the
    flips they count are noise and no bias: the exact sampler has most of them.

    References
    ----------
    Murray, Ghahramani and MacKay (2006); Alquier, Friel, Everitt and Boland (2016), section 3.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.Exchange(amc.RandomWalk(0.2), n_auxiliary=50).n_auxiliary
    50
    """

    proposal: Any
    n_auxiliary: int = 1
    auxiliary: Any = "auto"

    def __post_init__(self) -> None:
        """Check the role of the proposal and the number of draws."""
        check_proposal(self.proposal, "Exchange")
        object.__setattr__(self, "n_auxiliary", checked_integer(self.n_auxiliary, "n_auxiliary", who="Exchange"))

    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        check_target(target, "Exchange")
        simulator = target.build_simulator(self.auxiliary)
        proposal: Part = self.proposal.build_proposal(target)
        step = self._step(target, simulator, proposal)
        start = np.asarray(target.initial_point(), dtype=np.float64)  # type: ignore[attr-defined]  # a Target, too
        return NoisyProgram(step, target.compile_log_prior(), start, log_likelihood_of(target), audit_every)

    def _step(self, target: DoublyIntractableTarget, simulator: Simulator, proposal: Part) -> NoisyStep:
        dim = target.variables.size
        functions = {
            "MOVE": with_part(follow_proposal, "PROPOSE", proposal.functions["PROPOSE"]),
            "ESTIMATE": with_part(estimate_from_fresh_draws, "SIMULATE", simulator.simulate),
            "KEEP": keep_nothing,
            "ADAPT": proposal.functions["ADAPT"],
        }

        def make_memory(theta: np.ndarray, streams: Any) -> tuple[Any, ...]:
            return (proposal.make_state(), simulator.make_state(), np.empty((self.n_auxiliary, dim)))

        params = (proposal.params, target.observed_statistics, simulator.params)
        records = (*RECORDS, *proposal.records)
        return NoisyStep(functions, params, make_memory, proposal.describe, records, decides=True, n_obs=1)


def check_proposal(proposal: Any, who: str) -> None:
    """Refuse what is not a proposal."""
    if not isinstance(proposal, Proposal):
        raise IncompatibleError(f"{who}: proposal must be a proposal such as RandomWalk(scale=0.1), found {proposal!r}")
