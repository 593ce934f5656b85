"""Samplers that draw one chain at a time: one method, which a study calls for a cell, and `sample` for each chain."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import xarray as xr

from approxmcmc.contracts import NamedDraws, Target, Variables, WholeRun, WholeSampler
from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.sampling.assembly import as_points, random_start

TUNING = "tuning_"  # begins the names of attributes that hold totals over tuning steps
# Attributes of the trace of a chain that are those of the run.
OF_THE_RUN = ("approximation", "clock", "setup_compile_seconds", "thin", "tuning_steps")


class ChainSampler(WholeSampler):
    """Settings of a sampler with one method, `draw_chain`, which draws one chain and times it.

    Subclasses are frozen dataclasses made with ``eq=False``, like every component. A `Study` can compare them with the
    samplers of this library, and `sample` runs one chain after the other; they need no proposal, test or program. A
    setting `tune` is the number of tuning steps of a chain, a setting `thin` the number of steps for each kept draw.
    """

    @abc.abstractmethod
    def draw_chain(
        self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray
    ) -> xr.DataTree:
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
            :func:`approxmcmc.whole_chains.chain_trace` makes it. If this method raises, the cell of a study counts as
            failed, with the error as its reason.
        """

    def run(self, target: Any, asked: WholeRun) -> NamedDraws:
        """Draw all chains, one after the other; each has an equal share of the time that is left.

        Raises
        ------
        IncompatibleError
            When the number of draws depends on the draws, as with `target_ess`.
        InvalidInputError
            When `tune` or `thin` is given and the sampler has no such setting.
        """
        draws = asked.goals.first().draws
        if draws != asked.goals.most:
            raise IncompatibleError(
                f"{type(self).__name__} makes a given number of draws: give draws= in place of target_ess="
            )
        sampler = self._with_steps(target, asked)
        chains = len(asked.seeds)
        deadline = None if asked.time_limit is None else limit_clock() + asked.time_limit
        traces = []
        for chain, (seed, point) in enumerate(zip(asked.seeds, self._starts(target, asked), strict=True)):
            seconds = None if deadline is None else max((deadline - limit_clock()) / (chains - chain), 0.0)
            traces.append(sampler.draw_chain(target, seconds=seconds, draws=draws, seed=seed, initial=point))
        return stacked(traces, target)

    def _with_steps(self, target: Any, asked: WholeRun) -> Self:
        """Return the sampler with the tuning steps and the thinning that the user asked for."""
        changes = {}
        if asked.tune != self.tuning_steps(target):
            changes["tune"] = asked.tune
        if asked.thin != 1:
            changes["thin"] = asked.thin * int(getattr(self, "thin", 1))
        settings = {field.name for field in dataclasses.fields(self)}  # type: ignore[arg-type]  # see Component
        if without := changes.keys() - settings:
            raise InvalidInputError(f"{self!r} has no setting {', '.join(sorted(without))}: leave it out of sample()")
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]  # see Component

    def _starts(self, target: Any, asked: WholeRun) -> np.ndarray:
        """Return the start of each chain, shape (chains, dim); random ones without initvals, see `random_start`."""
        rngs = [np.random.default_rng(seed) for seed in asked.seeds]
        initvals = asked.initvals
        if initvals is None:
            return np.array([random_start(target, rng, self) for rng in rngs])
        if callable(getattr(initvals, "draw", None)):
            return np.array([initvals.draw(rng) for rng in rngs])
        return as_points(initvals, target.variables, len(rngs))


def stacked(traces: Sequence[xr.DataTree], target: Target) -> NamedDraws:
    """Return the chains of several traces of one chain each, cut to the shortest."""
    kept = min(trace["posterior"].sizes["draw"] for trace in traces)
    shapes = Variables(dict(target.variables.shapes))
    posterior = {
        name: np.concatenate([trace["posterior"][name].to_numpy()[:, :kept] for trace in traces])
        for name in shapes.shapes
    }
    records = [trace["sample_stats"] for trace in traces]
    stats = {
        name: np.concatenate([record[name].to_numpy()[:, :kept] for record in records])
        for name in map(str, records[0].data_vars)
    }
    totals = {
        name.removeprefix(TUNING): np.concatenate([np.atleast_1d(record.attrs[name]) for record in records])
        for name in map(str, records[0].attrs)
        if name.startswith(TUNING) and name not in OF_THE_RUN
    }
    return NamedDraws(
        variables=target.variables,
        posterior=posterior,
        stats=stats,
        warmup_posterior={name: values[:, :0] for name, values in posterior.items()},
        warmup_stats={name: values[:, :0] for name, values in stats.items()},
        tuning_totals=totals,
        flat=shapes.pack_draws(posterior),
        attrs={
            **{name: records[0].attrs[name] for name in OF_THE_RUN if name in records[0].attrs},
            "sampling_time": sum(float(record.attrs["sampling_time"]) for record in records),
            "stopped": next((record.attrs["stopped"] for record in records if record.attrs["stopped"]), ""),
        },
    )
