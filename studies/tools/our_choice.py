"""What `sample` draws for a user who names no sampler, as a setting of a study; its trials stand on the clock."""

import dataclasses
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import ForeignSampler


@dataclasses.dataclass(frozen=True, eq=False)
class OurChoice(ForeignSampler):
    """The sampler that `choose_sampler` takes for the target, within its bias; it starts where the choice says."""

    bias: float | str | None = None

    def run(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> Any:
        """Choose, and draw one chain."""
        trace = amc.sample(
            target,
            draws=draws,
            chains=1,
            cores=1,
            random_seed=seed,
            time_limit=seconds,
            bias=self.bias,
            progressbar=False,
        )
        attrs = trace["sample_stats"].attrs
        trials = float(attrs.get("setup_mode_seconds", 0.0)) + float(attrs.get("setup_design_seconds", 0.0))
        attrs["tuning_perf_counter_diff"] = [float(np.sum(attrs["tuning_perf_counter_diff"])) + trials]
        attrs["sampling_time"] = float(attrs["sampling_time"]) + trials
        attrs["clock"] = "each draw timed, after the choice with its trials"
        return trace
