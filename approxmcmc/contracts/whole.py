"""A sampler that runs whole chains by itself, such as NUTS of another library, and what it is asked and answers."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from approxmcmc.contracts.sampler import Sampler
from approxmcmc.contracts.variables import Variables
from approxmcmc.errors import IncompatibleError


class WholeRun(NamedTuple):
    """What a `WholeSampler` is asked for; each setting is that of `sample`.

    `seeds` holds one integer for each chain. `goals` says how many draws are kept, see `sampling.goals`; `time_limit`
    are seconds from the first step. `initvals` is None, or what `sample` takes.
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

    `variables` names axes and labels. `flat` is what the goals of the run judged, shape (chains, draws, dim).
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
    """A sampler whose chains another library runs; it reads a target as a PyMC model, and makes no single step."""

    @abc.abstractmethod
    def tuning_steps(self, target: Any) -> int:
        """Return the tuning steps of a chain where the user asks for no number."""

    @abc.abstractmethod
    def continues(self, target: Any) -> bool:
        """Return whether a run whose draws say too little goes on; otherwise it would start again."""

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
        """Refuse: there are no single steps to compile or to audit."""
        raise IncompatibleError(
            f"{self!r} makes whole chains by another library, and no single step of it can be run, audited or coupled "
            f"on {target!r}; judge its draws with sampler=None"
        )
