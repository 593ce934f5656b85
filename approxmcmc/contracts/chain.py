"""A sampler bound to a target, the chains that it starts, and the audits of their steps."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


class Streams(NamedTuple):
    """The random streams of one chain, one per purpose, so audits and tests use no random numbers of the proposal."""

    proposal: np.random.Generator
    uniform: np.random.Generator
    order: np.random.Generator
    audit: np.random.Generator
    start: np.random.Generator


class Auditor(abc.ABC):
    """Audits steps of a finished chain with the chain's stream for audits; it does not change the chain."""

    @abc.abstractmethod
    def __call__(self, theta: np.ndarray, number: int) -> Mapping[str, float] | None:
        """Audit step `number` from theta, shape (dim,): return records by name, None if a log density was NaN."""

    @property
    def at_once(self) -> int:
        """Best number of audits in one call of :meth:`of_many`; above 1 if one pass over the data serves several."""
        return 1

    @property
    def share(self) -> float:
        """Share of all rows that an audit reads; 1 unless this auditor comes from :meth:`on_few_rows`."""
        return 1.0

    def on_few_rows(self) -> "Auditor":
        """Return an auditor that reads a random part of the rows if the audits so far show that this is enough.

        Otherwise return this auditor.
        """
        return self

    def of_many(self, thetas: np.ndarray, numbers: np.ndarray) -> Sequence[Mapping[str, float] | None]:
        """Return the results of the audits of steps `numbers` from `thetas`, (k, dim), as k calls would."""
        return [self(theta, int(number)) for theta, number in zip(thetas, numbers, strict=True)]


class Chain(Protocol):
    """One running Markov chain; owned by one thread at a time."""

    @property
    def streams(self) -> Streams:
        """The random streams of the chain."""

    @property
    def memory(self) -> Mapping[str, Any]:
        """The state of the chain by name: the arrays that steps change, and the plain numbers, which set-up fixed.

        With it and the random streams, a chain that was started in the same way resumes the run.
        """

    @property
    def start_evaluations(self) -> int:
        """Number of likelihood terms evaluated when the chain started."""

    @property
    def proposed(self) -> np.ndarray | None:
        """The last proposal, shape (dim,); None if steps make no proposal."""

    def advance(self, steps: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make `steps` steps, which need not be whole draws: the next call completes an unfinished draw.

        Each `thin`-th state since the start is written to the next row of `draws`, and records of the `thin` steps up
        to it to `counts` and `values`. All calls that share a draw have the same `thin`. Return the number of steps
        made. It is below `steps` only if a log density was NaN or a check of the chain failed: see
        :meth:`explain_failure`; the draws are then those that these steps complete.
        """

    @property
    def auditor(self) -> Callable[[np.ndarray], Auditor] | None:
        """A factory of auditors of the finished chain from its kept draws, shape (draws, dim); None: no audits."""

    def adapted(self) -> Mapping[str, float]:
        """Return the tuned values, such as step sizes, by name; they are stored with the trace."""

    def explain_failure(self) -> str:
        """Return why the chain stopped: which row, prior or proposal was NaN, or which check failed; at which theta."""


class Program(abc.ABC):
    """A sampler bound to a target: compiled, ready to start chains."""

    count_names: Sequence[str]
    """Names of the integer records that this sampler fills."""

    value_names: Sequence[str]
    """Names of the float records that this sampler fills."""

    attrs: Mapping[str, Any]
    """Results and costs of set-up, for the trace's attributes."""

    @abc.abstractmethod
    def start(self, theta: np.ndarray, streams: "Streams", n_tune: int) -> Chain:
        """Start a chain at `theta` with the random numbers of `streams`; it adapts in its first `n_tune` steps only."""

    @abc.abstractmethod
    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return the unnormalised log posterior density on all data at each row of `thetas` (k, dim); shape (k,)."""

    def auditor_of(
        self,
        adapted: Mapping[str, float],
        draws: np.ndarray,
        rng: np.random.Generator,
        shuffled_by: np.random.Generator | None = None,
    ) -> Auditor | None:
        """Return an auditor of a chain's stored draws, shape (draws, dim).

        `adapted` is what the chain's `Chain.adapted` returned. The audits draw from `rng`. `shuffled_by` is a fresh
        copy of the stream with which the first chain of the run shuffled its data, None if unknown. The default returns
        None, for steps that are exact or that are audited during the run.
        """
        return None
