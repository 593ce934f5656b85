"""Whole runs: their draws as plain arrays, and samplers of other libraries that make all steps of a chain."""

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from approxmcmc.contracts.component import Component
from approxmcmc.contracts.sampler import Sampler
from approxmcmc.contracts.special_target import pymc_model_of
from approxmcmc.contracts.variables import Variables
from approxmcmc.errors import ApproxMCMCError, IncompatibleError

if TYPE_CHECKING:
    import xarray as xr


class WholeRun(NamedTuple):
    """The input of a `WholeSampler`; each setting is that of `sample`.

    `seeds` holds one integer for each chain. `goals` says how many draws are kept, see `sampling.goals`; `time_limit`
    is in seconds from the first step. `initvals` is None, or what `sample` accepts.
    """

    goals: Any
    tune: int
    thin: int
    seeds: Sequence[int]
    cores: int
    initvals: Any = None
    time_limit: float | None = None
    progressbar: bool = False


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


class WholeSampler(Sampler):
    """A sampler with chains run by another library; it needs a PyMC model, and makes no single steps."""

    @abc.abstractmethod
    def tuning_steps(self, target: Any) -> int:
        """Return the number of tuning steps of a chain if the user gives none."""

    def why_not(self, target: Any) -> str:
        """Return why this sampler cannot run on `target`: it has no PyMC model that the library takes; "" if it can."""
        try:
            pymc_model_of(target)
            self.continues(target)
        except ApproxMCMCError as refusal:
            return str(refusal)
        return ""

    @abc.abstractmethod
    def continues(self, target: Any) -> bool:
        """Return whether a run with too few effective draws continues; otherwise it starts again."""

    @abc.abstractmethod
    def run(self, target: Any, asked: WholeRun) -> NamedDraws:
        """Draw all chains as `asked` says, and return the draws.

        Raises
        ------
        IncompatibleError
            When the target has no PyMC model that this sampler takes.
        SamplingError
            When no chain can start; the message has PyMC's diagnosis.
        """

    def build(self, target: Any, *, audit_every: int | str | None) -> NoReturn:
        """Raise: there are no single steps to compile or to audit."""
        raise IncompatibleError(
            f"{self!r} runs whole chains in another library; single steps cannot be run, audited or coupled "
            f"on {target!r}; audit its draws with sampler=None"
        )


class ForeignSampler(Component, abc.ABC):
    """Settings of a sampler with one method, `run`, which draws one chain and times it.

    Subclasses are frozen dataclasses made with ``eq=False``, like every component. A `Study` can compare them with the
    samplers of this library; they need no proposal, test or program.
    """

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return None: a chain starts where the other chains of its block start."""
        return None

    @abc.abstractmethod
    def run(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> "xr.DataTree":
        """Draw one chain.

        Parameters
        ----------
        target
            The posterior, a `Target`.
        seconds
            Wall-clock limit from the first step, warm-up included, compilation and set-up excluded; None: no limit.
        draws
            Most draws to keep, after warm-up.
        seed
            A non-negative integer below 2^52.
        initial
            Start of the chain: a flat theta of the target, shape (dim,).

        Returns
        -------
        DataTree
            One chain: ``posterior`` with the target's variables, ``sample_stats`` with the record ``perf_counter_diff``
            (the seconds of each kept draw) and the attributes ``tuning_perf_counter_diff`` (seconds of warm-up),
            ``setup_compile_seconds``, ``sampling_time`` (warm-up and draws) and ``clock`` (how draws were timed);
            ``gradient_evaluations``, ``likelihood_evaluations`` and ``datapoints_touched`` if available.
            :func:`approxmcmc.whole_chains.chain_trace` makes it. If `run` raises, the cell of a study counts as failed,
            with the error as its reason.
        """
