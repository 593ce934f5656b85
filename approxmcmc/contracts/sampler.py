"""How target, proposal and acceptance test become a chain, and what comes out of it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from approxmcmc.contracts.compiled import CompiledProposal, CompiledTest
from approxmcmc.contracts.target import Target


@runtime_checkable
class Proposal(Protocol):
    """Where to go: draws theta' from ``q(.|theta)`` and knows ``log q(theta|theta') - log q(theta'|theta)``."""

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Check that the target has what this proposal needs, and compile it.

        A proposal may have a method `build_unadjusted` beside: it returns what serves a test that asks for no density
        ratio, cheaper where the ratio costs gradients.
        """


@runtime_checkable
class AcceptanceTest(Protocol):
    """Is the sum of the log-ratio terms above the threshold, and how few terms answer it? This role decides."""

    def build_test(self, target: Target) -> CompiledTest:
        """Check that the target has what this test needs, and compile it."""


class Streams(NamedTuple):
    """The random streams of one chain; an audit never shifts the chain, a test never shifts the proposals."""

    proposal: np.random.Generator
    uniform: np.random.Generator
    order: np.random.Generator
    audit: np.random.Generator
    start: np.random.Generator


class Chain(Protocol):
    """One Markov chain in flight; owned by one thread at a time.

    A chain that evaluates terms of the likelihood when it starts says how many in ``start_evaluations``.
    """

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps, write every `thin`-th state and the summed records; return the draws written.

        Fewer than `n_draws` come back only when a log density was NaN; :meth:`explain_failure` then says where.
        """

    def adapted(self) -> Mapping[str, float]:
        """Return what tuning has settled on, by name; stored with the trace."""

    def explain_failure(self) -> str:
        """Say which datum, prior or proposal made the log density NaN, and at which theta."""


class Program(Protocol):
    """A sampler bound to a target: compiled, ready to start chains."""

    count_names: Sequence[str]
    value_names: Sequence[str]
    attrs: Mapping[str, Any]

    def start(self, theta: np.ndarray, streams: "Streams", n_tune: int) -> Chain:
        """Start a chain at `theta`; it adapts during its first `n_tune` steps and never after."""

    def log_density(self, theta: np.ndarray) -> float:
        """Return the unnormalised log posterior density at `theta`, on all data."""


@runtime_checkable
class Sampler(Protocol):
    """How target, proposal and test make one step."""

    def build(self, target: Target, *, audit_every: int | str | None) -> Program:
        """Check the pairing, compile it, return the program that starts chains; "auto" leaves the rate to it."""


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
