"""Slice sampling with any test that compares: exact on all data, or on minibatches.

References: Neal (2003), Slice sampling; DuBois, Korattikara, Welling and Smyth (2014), Approximate slice sampling for
Bayesian posterior inference.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.acceptance.metropolis import REJECT, UNDECIDED, decision_on, log_ratio_of
from approxmcmc.acceptance.out_of_reach import is_out_of_reach
from approxmcmc.contracts import (
    AcceptanceTest,
    CompiledProposal,
    CompiledTest,
    Component,
    DiscreteTarget,
    Sampler,
    Streams,
    Target,
)
from approxmcmc.contracts.records import ACCEPTANCE_RATE, DECISIONS, EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.order import settle
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.decision import make_decision
from approxmcmc.samplers.metropolis_hastings.program import Audits, MetropolisHastingsProgram, data_schedule
from approxmcmc.samplers.metropolis_hastings.step import MetropolisHastingsState, unknown_log_likelihood
from approxmcmc.samplers.slice.line import Slice, SliceState, draw_direction, make_slice_move, place_on_line
from approxmcmc.sampling.chain import FAILED, MOVED
from approxmcmc.targets.all_rows import AllRows


@compiled
def keep_nothing(test: object, total: float) -> None:
    """Do nothing: the test caches no sum."""


def slice_step(test: CompiledTest) -> Callable[..., int]:
    """Return the step that moves along a line, where each comparison with the slice's level is made by the test."""
    tell = test.log_likelihood or unknown_log_likelihood
    keep = test.keep_log_likelihood or keep_nothing
    move = make_slice_move(make_is_inside(make_decision(test)), make_forget(keep))
    return make_step(move, test.threshold, tell)


@cached_by_content(maxsize=16)
def make_is_inside(decide: Callable[..., tuple[int, float]]) -> Callable[..., int]:
    """Return the function that decides whether theta + t direction, the proposed state, lies in the slice.

    It returns ACCEPT, REJECT or UNDECIDED, see `approxmcmc.acceptance.metropolis`.
    """

    def is_inside(
        streams: Streams,
        state: MetropolisHastingsState,
        t: float,
        threshold: float,
        count: np.ndarray,
        value: np.ndarray,
    ) -> int:
        place_on_line(state.proposal, state.theta, t, state.proposed)
        log_prior = state.log_prior_of(state.proposed)
        count[TOUCHED] += state.prior_rows
        count[EVALUATIONS] += state.prior_rows
        log_rest = log_ratio_of(0.0, state.log_prior[0], log_prior)
        if not log_rest > -math.inf:  # undefined, or outside the support, and so outside the slice
            inside = decision_on(threshold, log_rest)
            count[DECISIONS] += 1
        else:
            inside, _ = decide(streams, state.clock, state.evidence, threshold, log_rest, state.test, count, value)
        if inside == UNDECIDED and is_out_of_reach(
            state.looks_to_reject, state.evidence.n_obs, state.prior_rows, count
        ):
            return REJECT  # far below the slice
        return inside

    return compiled(is_inside)


@cached_by_content(maxsize=16)
def make_forget(keep: Callable[..., None]) -> Callable[..., None]:
    """Return the function that ends a comparison without a move: it restores the cached terms and sums at theta."""

    def forget(state: MetropolisHastingsState) -> None:
        settle(state.evidence.order, False)
        keep(state.test, state.proposal.kept[0])

    return compiled(forget)


@cached_by_content(maxsize=16)
def make_step(
    move: Callable[..., int], draw_threshold: Callable[..., float], tell: Callable[..., float]
) -> Callable[..., int]:
    """Return the compiled step, ``step(streams, state, count, value) -> status``."""

    def step(streams: Streams, state: MetropolisHastingsState, count: np.ndarray, value: np.ndarray) -> int:
        threshold = draw_threshold(streams.uniform)
        draw_direction(streams.proposal, state.proposal)
        state.proposal.kept[0] = tell(state.test)
        status = move(streams, state, threshold, count, value)
        if status == FAILED:
            return FAILED
        if status == MOVED:
            settle(state.evidence.order, True)
            assign(state.theta, state.proposed)
            state.log_prior[0] = state.log_prior_of(state.theta)
        value[ACCEPTANCE_RATE] = 1.0
        state.log_density[0] = state.log_prior[0] + tell(state.test)
        return status

    return compiled(inline="always")(step)


@compiled
def propose_nothing(
    rng: np.random.Generator, state: SliceState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Do nothing: a slice has comparisons instead of a proposal."""
    return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class SliceSampler(Component, Sampler):
    r"""Slice sampling along random lines, with comparisons made by an acceptance test.

    Parameters
    ----------
    move
        The line and its first interval, see :class:`Slice`.
    test
        The test that decides whether a point lies in the slice: :class:`ExactTest`, :class:`SequentialTTest` or
        :class:`BernsteinTest`.

    Raises
    ------
    IncompatibleError
        When a setting has the wrong role, the test does not compare (a Poisson test, Barker's, one that changes along
        the chain), or the target is discrete.

    Notes
    -----
    With :math:`u \sim U(0, 1)` the slice contains the :math:`\theta'` for which

    .. math:: \log u < \log\frac{p(\theta')}{p(\theta)}
              + \sum_{i=1}^{N} \log\frac{p(x_i \mid \theta')}{p(x_i \mid \theta)} .

    An interval around theta is stepped out until both ends are found outside or it has its largest length, and shrunk
    until a point is found inside: about five comparisons, all with the same `u`.

    Guarantee: exact with :class:`ExactTest`; biased with an approximate test. The comparisons of one step read data
    independently. If an end is wrongly found outside, a part of the slice is cut off; if a point is wrongly found
    inside, it is accepted. The error has the order of the test's error times the number of comparisons. With an integer
    `audit_every` the trace counts wrong comparisons. No step size needs tuning: a width that is too large costs
    comparisons, not mixing, and so does one that is less than `max_steps` times too small.

    Records: ``decisions_made`` counts comparisons; ``datapoints_touched`` and ``likelihood_evaluations`` add them up.

    References
    ----------
    Neal (2003), section 4; DuBois, Korattikara, Welling and Smyth (2014).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> sampler = amc.samplers.SliceSampler(amc.samplers.Slice(0.2), amc.SequentialTTest(epsilon=0.01, batch_size=100))
    >>> trace = amc.sample(target, sampler, draws=100, tune=20, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["decisions_made"].mean() > 2)
    True
    """

    move: Any = dataclasses.field(default_factory=Slice)
    test: Any = dataclasses.field(default_factory=ExactTest)

    def __post_init__(self) -> None:
        """Check that each setting has the right role."""
        if not isinstance(self.move, Slice):
            raise IncompatibleError(f"SliceSampler: move must be a Slice such as Slice(0.2), found {self.move!r}")
        if not (isinstance(self.test, AcceptanceTest) and self.test.compares and self.test.rule == "metropolis"):
            raise IncompatibleError(
                "SliceSampler: test must compare the log ratio with the threshold, as ExactTest(), SequentialTTest() "
                f"and BernsteinTest() do, found {self.test!r}"
            )

    def build(self, target: Target, *, audit_every: int | str | None = "auto") -> MetropolisHastingsProgram:
        """Check that target and test fit, compile them, and return the program that starts chains."""
        if isinstance(target, DiscreteTarget):
            raise IncompatibleError(f"SliceSampler: {target!r} has discrete states; use Gibbs")
        test = self.test.build_test(target)
        line = CompiledProposal(propose_nothing, self.move.state_maker(target.variables.size))
        rows = AllRows(target)
        return MetropolisHastingsProgram(
            rows,
            line,
            test,
            audit_every,
            data_schedule(self.test, test, rows.compiled.n_obs),
            audits=Audits(None) if isinstance(audit_every, str) and test.is_audited else None,
            step=slice_step(test),
        )

    def why_not_invariant(self, target: Target) -> str:
        """Return the test's reason; "" if comparisons are exact."""
        why: str = self.test.why_not_invariant(target.n_obs)
        return why
