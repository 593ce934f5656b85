"""A sampler that runs whole chains by itself, such as NUTS of another library; its input and output."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from approxmcmc.contracts.sampler import Sampler
from approxmcmc.contracts.variables import Variables
from approxmcmc.errors import IncompatibleError


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


class NamedDraws(NamedTuple):
    """Draws by variable, (chain, draw, ...) each, with one record for each draw and the totals of tuning.

    `variables` names axes and labels. `flat` holds the draws that the goals of the run checked, shape (chains, draws,
    dim).
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
        """Return the tuning steps of a chain if the user gives no number."""

    @abc.abstractmethod
    def continues(self, target: Any) -> bool:
        """Return whether a run with too few effective draws continues; otherwise it starts again."""

    @abc.abstractmethod
    def run(self, target: Any, asked: WholeRun) -> NamedDraws:
        """Draw all chains.

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
