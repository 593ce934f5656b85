"""Samplers of this library whose timed run includes set-up, as a timed run of NUTS includes its warm-up.

Other studies exclude set-up from the time. In comparisons with other libraries this would favour our samplers, because
mode, curvature, influential rows and trials have the purpose of a warm-up. Compilation is excluded for all.
"""

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.numerics import Laplace
from approxmcmc.whole_chains import ChainSampler
from studies.tools.in_laplace_metric import UNIT, InLaplaceMetric, control_variate, influential_rows, laplace_of

_ONE_CHAIN: dict[str, Any] = {"chains": 1, "cores": 1, "progressbar": False}


def on_the_clock(draw: Callable[[int], Any], draws: int, *parts: str) -> Any:
    """Return the trace of `draw(draws)`, whose tuning time includes the named parts of its set-up.

    The function first makes one draw, to compile all code, and then the run that is timed.
    """
    began = time.perf_counter()
    first = draw(1)
    waited = time.perf_counter() - began - float(first["sample_stats"].attrs["sampling_time"])
    before = time.perf_counter()
    own = time.process_time()
    trace = draw(draws)
    share = (time.process_time() - own) / (time.perf_counter() - before)
    attrs = trace["sample_stats"].attrs
    setup = sum(float(attrs.get(f"setup_{part}_seconds", 0.0)) for part in parts)
    for record, seconds in (("perf_counter_diff", setup), ("thread_time_diff", share * setup)):
        if f"tuning_{record}" in attrs:  # NUTS measures wall-clock time only
            attrs[f"tuning_{record}"] = [float(np.sum(attrs[f"tuning_{record}"])) + seconds]
    attrs["sampling_time"] = float(attrs["sampling_time"]) + setup
    attrs["setup_compile_seconds"] = max(waited - setup, 0.0)
    attrs["clock"] = "each draw timed; set-up is in the tuning"
    return trace


@dataclasses.dataclass(frozen=True, eq=False)
class OnTheClock(ChainSampler):
    """A sampler in the metric of the Laplace approximation; its time includes mode, pilot and expansion.

    Parameters
    ----------
    sampler
        The sampler, which is made when its target is known.
    thin
        Steps for each kept draw.
    tune
        Tuning steps.
    """

    sampler: InLaplaceMetric
    thin: int = 1
    tune: int = 500

    def to_dict(self) -> dict[str, Any]:
        """Return the settings of the sampler and of this class."""
        return {**self.sampler.to_dict(), "on_the_clock": True, "thin": self.thin, "tune": self.tune}

    def draw_chain(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> Any:
        """Draw one chain."""

        def draw(count: int) -> Any:
            for cached_function in (laplace_of, control_variate, influential_rows):  # made anew, and timed
                cached_function.cache_clear()
            form, sampler = self.sampler.unwrapped(target)
            trace = amc.sample(
                form,
                sampler,
                draws=count,
                tune=self.tune if count > 1 else 0,
                thin=self.thin,
                initvals=initial,
                audit_every=None,
                **_ONE_CHAIN,
                random_seed=seed,
                time_limit=seconds,
            )
            attrs = trace["sample_stats"].attrs
            if not {"setup_mode_seconds", "setup_pilot_seconds"} & attrs.keys():  # the metric is the only set-up
                attrs["setup_mode_seconds"] = laplace_of(target).seconds
            return trace

        return on_the_clock(draw, draws, "mode", "pilot", "expansion")


@dataclasses.dataclass(frozen=True, eq=False)
class OurChoice(ChainSampler):
    """The default sampler that `sample` chooses; its time includes the trials of the choice.

    Parameters
    ----------
    max_bias
        As in `approxmcmc.choose_sampler`. The chain starts where the choice says.
    thin
        Steps for each kept draw.
    """

    max_bias: float = 0.0
    thin: int = 1

    def draw_chain(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> Any:
        """Choose a sampler, and draw one chain."""

        def draw(count: int) -> Any:
            how = {**_ONE_CHAIN, "random_seed": seed, "time_limit": seconds}
            trace = amc.sample(target, draws=count, thin=self.thin, max_bias=self.max_bias, **how)
            attrs = trace["sample_stats"].attrs
            compiled = sum(row["compile_seconds"] or 0.0 for row in json.loads(attrs["choice"]))
            attrs["setup_design_seconds"] = max(attrs["setup_design_seconds"] - compiled, 0.0)
            return trace

        return on_the_clock(draw, draws, "mode", "design")


@dataclasses.dataclass(frozen=True, eq=False)
class InScale(ChainSampler):
    """A sampler of another library whose settings follow from the scale of the posterior.

    Parameters
    ----------
    recipe
        Makes it from the Laplace approximation, whose time is not counted: a user would try step sizes instead.
    """

    recipe: Callable[[Laplace], ChainSampler]

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for a standard normal target of one dimension."""
        return {**self.recipe(UNIT).to_dict(), "recipe": self.recipe.__name__}

    def draw_chain(self, target: Any, **how: Any) -> Any:
        """Make the sampler, and draw one chain."""
        return self.recipe(laplace_of(target)).draw_chain(target, **how)
