"""Whole runs: their draws as plain arrays, and samplers of other libraries that make all steps of a chain."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.component import Component
from approxmcmc.contracts.sampler import AnySampler
from approxmcmc.contracts.variables import Variables


class WholeRun(NamedTuple):
    """The input of a `WholeSampler`; each setting is that of `sample`.

    `seeds` holds one integer for each chain; `restarted` names the chains that have new seeds because they were lost,
    and `first_seeds` holds the seeds before, which are those of all others. `goals` says how many draws are kept, see
    `sampling.goals`; `time_limit` is in seconds from the first step. `initvals` is None, or what `sample` accepts.
    """

    goals: Any
    tune: int
    thin: int
    seeds: Sequence[int]
    cores: int
    initvals: Any = None
    time_limit: float | None = None
    progressbar: bool = False
    first_seeds: Sequence[int] = ()
    restarted: Sequence[int] = ()


class SamplingResult(NamedTuple):
    """Plain arrays of a finished run; `approxmcmc.output` turns them into a DataTree.

    `draws` has shape (chains, draws, dim); every entry of `stats` has shape (chains, draws); `warmup_draws` and
    `warmup_stats` have the same form over tuning steps, or are None. `tuning_totals` holds, per chain, the sums over
    tuning steps.
    """

    draws: np.ndarray
    stats: Mapping[str, np.ndarray]
    warmup_draws: np.ndarray | None
    warmup_stats: Mapping[str, np.ndarray] | None
    tuning_totals: Mapping[str, np.ndarray]
    attrs: Mapping[str, Any]


class NamedDraws(NamedTuple):
    """Draws by variable, shape (chain, draw, ...) each, with the records of each draw and their totals over tuning.

    `variables` names axes and labels. `flat` holds the draws as flat vectors, which the goals of the run check; shape
    (chains, draws, dim).
    """

    variables: Variables
    posterior: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray]
    warmup_posterior: Mapping[str, np.ndarray]
    warmup_stats: Mapping[str, np.ndarray]
    tuning_totals: Mapping[str, np.ndarray]
    flat: np.ndarray
    attrs: Mapping[str, Any]


class WholeSampler(Component, AnySampler):
    """A sampler that makes whole chains, of another library or of your own; no single step can be run or audited.

    Subclasses are frozen dataclasses made with ``eq=False``, like every component. To draw one chain at a time, derive
    from `whole_chains.ChainSampler`.
    """

    def why_not(self, target: Any) -> str:
        """Return ""; a subclass that needs a PyMC model, or terms, says so."""
        return ""

    def why_no_audits(self, target: Any, adapted: Any) -> str:
        """Return why decisions cannot be audited: other code makes them."""
        return f"{type(self).__name__} makes whole chains, and its decisions are not known; audit with sampler=None"

    def tuning_steps(self, target: Any) -> int:
        """Return the number of tuning steps of a chain if the user gives none: the setting `tune`, 0 without one."""
        return int(getattr(self, "tune", 0))

    def continues(self, target: Any) -> bool:
        """Return whether a run with too few effective draws continues; otherwise it starts again."""
        return False

    @abc.abstractmethod
    def run(self, target: Any, asked: WholeRun) -> NamedDraws:
        """Draw all chains as `asked` says, and return the draws.

        Raises
        ------
        IncompatibleError
            When the target lacks what this sampler needs, such as a PyMC model.
        SamplingError
            When no chain can start.
        """
