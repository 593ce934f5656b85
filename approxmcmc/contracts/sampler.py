"""How target, proposal and acceptance test make steps, and what is known of these steps."""

import abc
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from approxmcmc.contracts.chain import Chain, Program, Streams
from approxmcmc.errors import ApproxMCMCError, IncompatibleError


class CompiledCoupling(NamedTuple):
    """Two chains of one exact kernel that move together until they meet; each chain alone follows the kernel.

    ``move(rng, chains, shared, n_chains) -> status`` makes one step of both chains, or with ``n_chains=1`` only of the
    first, with the same random numbers. ``start(theta, log_likelihood)`` makes a chain at theta, a named tuple with
    `theta` and `proposed`; the log-likelihood is NaN if unknown. ``shared()`` makes the state that both chains use: the
    array `counts`, and the array `last_ratios` of the first chain's last log ratio and of the change of log density
    that this step proposed. ``density(chain)`` is the log density at the chain's state; None if the kernel does not
    compute it. `point` is an example of theta, with its shape and type; `cost_per_pass` is the number of likelihood and
    gradient evaluations in one pass over the data; `rule` is the acceptance rule, "metropolis" or "barker".
    """

    name: str
    move: Callable[..., int]
    start: Callable[[np.ndarray, float], Any]
    shared: Callable[[], Any]
    point: np.ndarray
    cost_per_pass: float
    rule: str
    density: Callable[..., float] | None = None


class TransitionMatrix(NamedTuple):
    """Transition probabilities of one step on n states.

    `probability` (n, n) has one row per state, which sums to 1. `decision` (n, n) is the probability of the decision
    that leads from one state to another, NaN if no decision does. `method` says how the probabilities of decisions were
    computed: "closed form" or "enumerate", which are exact; "gaussian", the approximation for many terms; or "lattice",
    which makes acceptance probabilities too low by at most `error`. `n_decisions` counts the decisions of such a step.
    """

    probability: np.ndarray
    decision: np.ndarray
    method: str
    n_decisions: int = 1
    error: float = 0.0


class Decision(NamedTuple):
    """One decision at a given state, replicated many times, next to the log ratio on all terms.

    `log_ratio` Lambda and `tau` = sqrt(N) S_l are those of all N terms, with S_l their standard deviation. `accepted`
    counts the replicated decisions that accepted. All replicated decisions together read `touched` terms. `rule` is the
    rule of the threshold.
    """

    log_ratio: float
    tau: float
    n_obs: int
    rule: str
    accepted: int
    touched: int


class AnySampler(abc.ABC):
    """A sampler of a target: a `Sampler`, which makes single steps, or a `WholeSampler`, which makes whole chains."""

    @abc.abstractmethod
    def why_not(self, target: Any) -> str:
        """Return why this sampler cannot run on `target`, and what to do; "" if it can.

        It is the message of the error that `sample` raises before it draws.
        """

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random theta at which a chain may start, shape (dim,), or None if the sampler offers none."""
        return None

    # --- its law ---

    def why_not_invariant(self, target: Any) -> str:
        """Return why a step after tuning does not leave the distribution of `target` invariant, and its known error.

        "" if it does. How far the target itself is from the model that it approximates is not included
        (`Target.distance_to_model`).
        """
        return f"{type(self).__name__} does not say whether its steps leave a target invariant"

    def leaves_invariant(self, target: Any) -> bool:
        """Return whether a step after tuning leaves the distribution of `target` invariant."""
        return not self.why_not_invariant(target)

    def why_no_audits(self, target: Any, adapted: Sequence[Mapping[str, float]]) -> str:
        """Return why `bias` cannot audit decisions of chains and start couplings where they are wrong; "" if it can.

        `adapted` holds the tuned values of each chain. An audit compares a decision with the one on all data; a
        coupling of :meth:`exact_twin` then measures what a wrong decision changes.
        """
        return f"{type(self).__name__} has no audited steps"


class Sampler(AnySampler):
    """How target, proposal and test make one step."""

    scope: ClassVar[Mapping[str, str]] = {}
    """By the name of a method that only some samplers have: why this one does not have it, or on which targets it does.

    For `transition_matrix`, `coupling`, `replicate` and `draws_law`; refusals show it.
    """

    @abc.abstractmethod
    def build(self, target: Any, *, audit_every: int | str | None) -> Program:
        """Check the pairing, compile it, and return the program that starts chains.

        With an integer `audit_every` a step audits its decision with probability 1 / audit_every; None: no audits.
        "auto": chains whose `auditor` is not None are audited after they finish. Raises if the target is not
        of the kind needed.
        """

    def why_not(self, target: Any) -> str:
        """Return why this sampler cannot run on `target`, and what to do; "" if it can.

        It is the message of the error that `sample` raises before it draws. The sampler is built as for a run, so its
        kernels are compiled or read from the cache of kernels; nothing is drawn.

        Examples
        --------
        >>> import numpy as np, approxmcmc as amc
        >>> rng = np.random.default_rng(0)
        >>> target = amc.PoissonRegression(rng.normal(size=(100, 2)), rng.poisson(1.0, size=100))
        >>> amc.Firefly(amc.RandomWalk(0.1)).why_not(target).partition(",")[0]
        'Firefly needs a lower bound of every likelihood term'
        """
        try:
            self.build(target, audit_every=None)
        except ApproxMCMCError as refusal:
            return str(refusal)
        return ""

    def exact_twin(self, target: Any) -> "Sampler":
        """Return the sampler that decides the same steps on all data, which leaves `target` invariant, or raise."""
        raise IncompatibleError(f"no exact twin of {self!r} is known; name a sampler that leaves {target!r} invariant")

    def coupling(self, target: Any, adapted: Mapping[str, float] | None = None) -> CompiledCoupling:
        """Return two coupled chains of :meth:`exact_twin`, or raise; `adapted` holds the tuned values of a chain."""
        raise IncompatibleError(
            f"couplings: no coupling is known for {self!r} on {target!r}{self._why_without('coupling')}"
        )

    def transition_matrix(
        self, target: Any, states: np.ndarray, *, method: str = "auto", site: int | None = None
    ) -> TransitionMatrix:
        """Return the transition matrix on `states` (n, dim); that of one site if steps sweep over sites.

        For a discrete target these must be all its states, the last site changing fastest. Otherwise they are a grid:
        the matrix is that of a chain which proposes only grid points, in proportion to the proposal's density. `method`
        says how decisions are computed: "enumerate", "gaussian", or "auto", which enumerates if that is cheap.

        Raises
        ------
        IncompatibleError
            When the transition probabilities are unknown; in this base class always.
        """
        raise IncompatibleError(
            f"transition_matrix: the transition probabilities of {self!r} are unknown"
            f"{self._why_without('transition_matrix')}"
        )

    def decisions_per_step(self, target: Any) -> int:
        """Return how many decisions one step makes."""
        return 1

    def replicate(
        self, target: Any, program: Program, chain: Chain, states: np.ndarray, replications: int, streams: Streams
    ) -> Iterator[Decision]:
        """Yield, for each of `states` (n, dim), one decision as `chain` would make it, repeated `replications` times.

        `chain` was started by `program`, which this sampler built for `target`. Each repetition has a new u and new
        subsets, from `streams`.

        Raises
        ------
        IncompatibleError
            When decisions cannot be made at a given state; in this base class always.
        """
        raise IncompatibleError(
            f"estimate_delta: decisions of {self!r} cannot be replicated{self._why_without('replicate')}"
        )

    def exact_limit(self, target: Any) -> "Sampler":
        """Return the sampler that this one approximates: its exact twin, or its limit of many auxiliary draws."""
        return self.exact_twin(target)

    def draws_law(self, target: Any, states: np.ndarray) -> Any:
        """Return the distribution of the auxiliary draws of a step from each row of `states` (n, dim).

        Raises
        ------
        IncompatibleError
            When steps draw no auxiliary data, or their distribution is unknown; in this base class always.
        """
        raise IncompatibleError(
            f"{self!r} has no auxiliary draws of known distribution{self._why_without('draws_law')}"
        )

    def _why_without(self, method: str) -> str:
        """Return the end of a refusal: why this sampler lacks a method, and which samplers have it."""
        has_it = _has(type(self), method)
        why = "" if has_it else self.scope.get(method, "")
        others = [
            cls.__name__ + (f" ({cls.scope[method]})" if method in cls.scope else "")
            for cls in sorted(_subclasses(Sampler), key=lambda cls: cls.__name__)
            if _has(cls, method) and not inspect.isabstract(cls)
        ]
        return (f": {why}" if why else "") + (f"; possible with {', '.join(others)}" if others else "")


def _has(sampler: type[Sampler], method: str) -> bool:
    """Return whether a class of samplers defines a method that the base class refuses."""
    return getattr(sampler, method) is not getattr(Sampler, method)


def _subclasses(cls: type[Any]) -> set[type[Any]]:
    """Return the classes that derive from `cls`, at any depth, as far as they have been imported."""
    return {subclass for child in cls.__subclasses__() for subclass in (child, *_subclasses(child))}


class TestedSampler(Sampler):
    """A sampler with decisions made by the acceptance test in its setting `test`."""

    test: Any

    def with_epsilon(self, epsilon: float) -> Self | None:
        """Return the same sampler at another epsilon of its test; None for a test without epsilon."""
        test = self.test.with_epsilon(epsilon)
        return None if test is None else dataclasses.replace(self, test=test)  # type: ignore[type-var]  # see Component


class ProposalSampler(Sampler):
    """A sampler with steps that begin with the proposal in its setting `proposal`."""

    proposal: Any

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return the start that the proposal offers."""
        start: np.ndarray | None = self.proposal.draw_start(rng)
        return start
