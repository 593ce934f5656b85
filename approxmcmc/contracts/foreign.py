"""A sampler that makes its chain by itself: from another library, or written by the user."""

import abc
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.contracts.component import Component

if TYPE_CHECKING:
    import xarray as xr


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
            :func:`approxmcmc.foreign.chain_trace` makes it. If `run` raises, the cell of a study counts as failed, with
            the error as its reason.
        """
