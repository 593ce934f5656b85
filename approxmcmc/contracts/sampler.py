"""How target, proposal and acceptance test become a chain, and what comes out of it."""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from approxmcmc.contracts.compiled import CompiledCoupling
from approxmcmc.errors import IncompatibleError


class Streams(NamedTuple):
    """The random streams of one chain; an audit never shifts the chain, a test never shifts the proposals."""

    proposal: np.random.Generator
    uniform: np.random.Generator
    order: np.random.Generator
    audit: np.random.Generator
    start: np.random.Generator


class Auditor(abc.ABC):
    """Audits steps of a finished chain; it draws from the chain's stream for audits, and leaves the chain as it is."""

    @abc.abstractmethod
    def __call__(self, theta: np.ndarray, number: int) -> Mapping[str, float] | None:
        """Audit step `number` from theta, shape (dim,): return records by name, None where a log density was NaN."""

    @property
    def at_once(self) -> int:
        """How many audits should be asked for together, where a pass over the data may look at many."""
        return 1

    def of_many(self, thetas: np.ndarray, numbers: np.ndarray) -> Sequence[Mapping[str, float] | None]:
        """Audit steps from some thetas, shape (k, dim), with the random numbers of one after the other."""
        return [self(theta, int(number)) for theta, number in zip(thetas, numbers, strict=True)]


class Chain(Protocol):
    """One Markov chain in flight; owned by one thread at a time."""

    @property
    def streams(self) -> Streams:
        """Its random streams."""

    @property
    def memory(self) -> Mapping[str, Any]:
        """What its steps change, by name: arrays that may be overwritten; and the numbers that its set-up fixed.

        With the states of its streams this is all that a chain needs to go on, if it is started at first as it was.
        """

    @property
    def start_evaluations(self) -> int:
        """Terms of the likelihood that were evaluated when the chain started."""

    @property
    def proposed(self) -> np.ndarray | None:
        """Where the last step was about to go, shape (dim,); None where steps make no proposal."""

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps, write every `thin`-th state and the summed records; return the draws written.

        Fewer than `n_draws` come back only when a log density was NaN; :meth:`explain_failure` then says where.
        """

    @property
    def auditor(self) -> Callable[[np.ndarray], Auditor] | None:
        """What makes an auditor of the finished chain from its kept draws, shape (draws, dim); None: no audits."""

    def adapted(self) -> Mapping[str, float]:
        """Return what tuning has settled on, by name; stored with the trace."""

    def explain_failure(self) -> str:
        """Say which datum, prior or proposal made the log density NaN, and at which theta."""


class Program(Protocol):
    """A sampler bound to a target: compiled, ready to start chains."""

    @property
    def count_names(self) -> Sequence[str]:
        """Names of the integer records that this sampler fills."""

    @property
    def value_names(self) -> Sequence[str]:
        """Names of the float records that this sampler fills."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """What set-up found and cost, for the trace's attributes."""

    def start(self, theta: np.ndarray, streams: "Streams", n_tune: int) -> Chain:
        """Start a chain at `theta`; it adapts during its first `n_tune` steps and never after."""

    def auditor_of(
        self,
        adapted: Mapping[str, float],
        draws: np.ndarray,
        rng: np.random.Generator,
        shuffled_by: np.random.Generator | None = None,
    ) -> Auditor | None:
        """Return what audits stored draws of a chain, shape (draws, dim), that had adapted as `Chain.adapted` said.

        `rng` is that of the audits; `shuffled_by` is the stream, at its beginning, by which the first chain of the run
        shuffled its data, None where it is not known. None where a step has no audit of its own: it is exact, or is
        audited while it is made.
        """

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return the unnormalised log posterior density at each of some thetas, shape (k, dim), on all data."""


class TransitionMatrix(NamedTuple):
    """The law of one step on finitely many states, n in number.

    `probability` (n, n) has one row per state, which sums to 1. `decision` (n, n) is the probability of the decision
    that leads from one state to another, NaN where there is none. `method` is how decisions were computed: "closed
    form" or "enumerate", which are exact; "gaussian", the regime of many terms; or "lattice", by which acceptance is
    too low by at most `error`.
    """

    probability: np.ndarray
    decision: np.ndarray
    method: str
    n_decisions: int = 1
    error: float = 0.0


class Decision(NamedTuple):
    """One decision made again and again at the place where a chain stands, beside what all terms say of it.

    `log_ratio` Lambda and `tau` = sqrt(N) S_l are those of all N terms; `accepted` of the replicated decisions were yes
    after `touched` terms; `rule` is that of the threshold.
    """

    log_ratio: float
    tau: float
    n_obs: int
    rule: str
    accepted: int
    touched: int


class Sampler(abc.ABC):
    """How target, proposal and test make one step."""

    @abc.abstractmethod
    def build(self, target: Any, *, audit_every: int | str | None) -> Program:
        """Check the pairing, compile it, and return the program that starts chains.

        With an integer a step audits its decision with probability 1 / audit_every. "auto" leaves audits to the
        program: chains with an auditor are audited when they are done, for a tenth of their time. A sampler refuses a
        target that is not of the kind which it needs.
        """

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random theta where a chain may start, shape (dim,), or None: the sampler knows of none."""
        return None

    # --- its law ---

    def why_not_invariant(self, target: Any) -> str:
        """Say why a step after tuning does not leave the law of `target` invariant, and what is known of the error.

        "" where it does. The law is the target's own: how far it lies from a model that it stands for, the target tells
        (`Target.distance_to_model`).
        """
        return f"{type(self).__name__} does not tell whether its steps leave the law of a target invariant"

    def leaves_invariant(self, target: Any) -> bool:
        """Return whether a step after tuning leaves the law of `target` invariant."""
        return not self.why_not_invariant(target)

    def exact_twin(self, target: Any) -> "Sampler":
        """Return the sampler with this one's steps, decided on all data, or refuse: its law is that of `target`."""
        raise IncompatibleError(f"no exact twin of {self!r} is known; name a sampler that leaves {target!r} invariant")

    def coupling(self, target: Any, adapted: Mapping[str, float] | None = None) -> CompiledCoupling:
        """Return two coupled chains of its exact twin, or refuse; `adapted` is what tuning has settled on."""
        raise IncompatibleError(
            f"couplings: no coupling is known for {self!r} on {target!r}; it is for Metropolis-Hastings, with "
            "SingleSite on discrete states, Gibbs on binary sites, and Exchange on doubly intractable targets"
        )

    def why_no_audits(self, target: Any, adapted: Sequence[Mapping[str, float]]) -> str:
        """Say why decisions of its chains cannot be held against coupled chains of its exact twin; "" where they can.

        `adapted` says what the tuning of each chain has settled on. Where they can, programs of the sampler have
        auditors, and their steps are those that `coupling` makes.
        """
        return "only Metropolis-Hastings has audited steps"

    def transition_matrix(
        self, target: Any, states: np.ndarray, *, method: str = "auto", site: int | None = None
    ) -> TransitionMatrix:
        """Return the law of one step from each of some states, shape (n, dim), to each; of one site, where steps sweep.

        Where the target has discrete states, they are all of them, the last site changing fastest. Elsewhere they are a
        grid, on which the chain is another one: proposals to points beside it are rejected. `method` is how decisions
        are computed, "enumerate", "gaussian", or "auto": the first where it is cheap.

        Raises
        ------
        IncompatibleError
            When the law of a step is not known; here always.
        """
        raise IncompatibleError(
            f"transition_matrix: the law of a step of {self!r} is not known; MetropolisHastings, Gibbs and Exchange "
            "give theirs"
        )

    def decisions_per_step(self, target: Any) -> int:
        """Return how many decisions one step makes."""
        return 1

    def replicate(
        self, target: Any, program: Program, chain: Chain, states: np.ndarray, replications: int, streams: Streams
    ) -> Iterator[Decision]:
        """Yield one decision, made again and again, for each of some states, shape (n, dim), as `chain` faces it.

        `chain` was started by `program`, which this sampler built for `target`. Each decision has a new u and subsets
        of its own.

        Raises
        ------
        IncompatibleError
            When decisions cannot be made at a place that is given; here always.
        """
        raise IncompatibleError(
            f"estimate_delta: decisions of {self!r} cannot be replicated; MetropolisHastings and Gibbs can replicate "
            "theirs"
        )

    def exact_limit(self, target: Any) -> "Sampler":
        """Return the sampler that this one approximates, or refuse: its exact twin, or infinitely many draws."""
        return self.exact_twin(target)

    def draws_law(self, target: Any, states: np.ndarray) -> Any:
        """Return the law of the auxiliary draws behind a step from each of some states, shape (n, dim).

        Raises
        ------
        IncompatibleError
            When steps draw no auxiliary data, or their law is not known; here always.
        """
        raise IncompatibleError(f"{self!r} makes no auxiliary draws whose law is known; Exchange and NoisyLangevin do")


class TestedSampler(Sampler):
    """A sampler whose decisions are those of the acceptance test that is its setting of that name."""

    test: Any

    def with_epsilon(self, epsilon: float) -> Self | None:
        """Return the same sampler at another epsilon of its test; None for a test that has no epsilon to set."""
        test = self.test.with_epsilon(epsilon)
        return None if test is None else dataclasses.replace(self, test=test)  # type: ignore[type-var]  # see Component


class ProposalSampler(Sampler):
    """A sampler whose steps begin with the proposal that is its setting of that name."""

    proposal: Any

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return what the proposal offers."""
        start: np.ndarray | None = self.proposal.draw_start(rng)
        return start


class SamplingResult(NamedTuple):
    """Plain arrays of a finished run; the output room turns them into a DataTree.

    `draws` has shape (chains, draws, dim); every entry of `stats` has shape (chains, draws); `warmup_draws` and
    `warmup_stats` likewise over tuning steps, or None. `tuning_totals` holds, per chain, the sums over tuning steps.
    """

    draws: np.ndarray
    stats: Mapping[str, np.ndarray]
    warmup_draws: np.ndarray | None
    warmup_stats: Mapping[str, np.ndarray] | None
    tuning_totals: Mapping[str, np.ndarray]
    attrs: Mapping[str, Any]
