"""A study that costs nothing to run: a random walk in plain NumPy under the names that a study needs."""

import dataclasses
import os
import time
from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.contracts import CompiledTarget, Component, Program, Sampler, Target, Variables, content_hash
from approxmcmc.study import Budget, Study, knob, vary

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class ToyTarget(Target):
    """A target in name; `size` makes two of them different."""

    size: int = 2

    @property
    def n_obs(self) -> int:
        return 100

    @property
    def variables(self) -> Variables:
        return Variables({"beta": (self.size,)})

    def initial_point(self) -> np.ndarray:
        return np.zeros(self.size)

    def content_hash(self) -> str:
        return content_hash("toy", self.size)

    def compile(self) -> CompiledTarget:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, eq=False)
class ToySampler(Component, Sampler):
    """A sampler in name; `fault` says what goes wrong."""

    epsilon: float = 0.0
    fault: str = ""

    def build(self, target: ToyTarget, *, audit_every: int | None) -> Program:
        raise NotImplementedError


def toy_sample(target, sampler, *, draws, tune, random_seed, initvals, thin, time_limit, **ignored) -> "xr.DataTree":
    """Stand in for `approxmcmc.sample`: draws depend on the seed and the starting point alone."""
    from tests.fakes import fake_trace

    if sampler.fault == "raises":
        raise RuntimeError("the toy broke")
    if sampler.fault == "dies":
        os._exit(1)
    if sampler.fault == "once" and log_call(random_seed) == 1:
        raise RuntimeError("the toy broke once")
    if "TOY_SECONDS" in os.environ:
        time.sleep(float(os.environ["TOY_SECONDS"]))
    log_call(random_seed)
    kept = 0 if sampler.fault == "nothing" else draws
    walk = initvals + np.random.default_rng(random_seed).normal(size=(kept, target.size)).cumsum(axis=0)
    if sampler.fault == "nan":
        walk[-1, 0] = np.nan
    stopped = {"interrupt": "interrupt", "no number": "failure"}.get(sampler.fault, "")
    tuning = {"datapoints_touched": [7 * tune], "decisions_made": [tune]}
    attrs = {"setup_compile_seconds": 0.5, "stopped": stopped, "tuning_steps": tune, "thin": thin}
    return fake_trace(walk[None], seconds_per_draw=1e-6, tuning=tuning, attrs=attrs)


def log_call(seed: int) -> int:
    """Note a call in the file that TOY_LOG names; return how often this seed has been called."""
    if "TOY_LOG" not in os.environ:
        return 0
    with open(os.environ["TOY_LOG"], "a+", encoding="utf-8") as stream:
        stream.write(f"{seed}\n")
        stream.flush()
        stream.seek(0)
        return stream.read().split().count(str(seed))


def quiet_probe() -> float:
    """Return the same seconds always."""
    return 0.05


def toy_study(**changes) -> Study:
    """Return a study of one target, three settings and two replicates, without a gold standard."""
    fields = {
        "name": "toy",
        "targets": {"plain": ToyTarget},
        "samplers": {"walk": vary(ToySampler, epsilon=knob(0.0, 0.05, 0.2))},
        "budget": Budget(draws=20),
        "tune": 5,
        "replicates": 2,
        "gold": None,
        "seed": 1,
        "presets": {"smoke": {"replicates": 1}},
    }
    return Study(**{**fields, **changes})
