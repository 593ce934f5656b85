"""The program that the samplers of all rooms share: what a sampler bound to a target records, and how a chain starts.

A room derives its own program from `StepProgram`. It compiles the loop around its step, with the state of a chain as
the example of its types; makes the state of a chain that starts; and says why a step failed:

    self.loop = compile_chain(step, state)
    def start(self, theta, streams, n_tune): return self.chain(streams, state)
    def explain_failure(self, state): ...
"""

import abc
import functools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Program, Streams
from approxmcmc.contracts.records import AUDIT_COUNTS, CORE_COUNTS, COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.checks import show
from approxmcmc.sampling.chain import CompiledChain, Loop, WatchedChain, new_clock
from approxmcmc.targets.all_rows import AllRows


class StepProgram(Program):
    """A sampler of single steps, bound to a target.

    `records` are the names of counts and values that steps fill in addition to the core counts and the time of a draw,
    `not_filled` those of the core counts that they do not fill. If `audited`, a step audits its decision with
    probability 1 / `audit_every`; audits of finished chains, ``audit_every="auto"``, are not its business.
    """

    rows: AllRows
    loop: Loop

    def __init__(
        self,
        records: Collection[str],
        attrs: Mapping[str, Any],
        *,
        not_filled: Collection[str] = (),
        audited: bool = False,
        audit_every: int | str | None = None,
    ) -> None:
        in_steps = 0 if isinstance(audit_every, str) else audit_every or 0
        self.audit_probability = 1.0 / in_steps if audited and in_steps else 0.0
        filled = {*CORE_COUNTS, "perf_counter_diff", *records} - {*not_filled, *(() if audited else AUDIT_COUNTS)}
        self.count_names = [name for name in COUNT_NAMES if name in filled]
        self.value_names = [name for name in VALUE_NAMES if name in filled]
        self.attrs = {**attrs, **({"audit_every": in_steps} if audited else {})}

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return log prior + log-likelihood on all data at each of `thetas` (k, dim); shape (k,)."""
        return self.rows.log_densities(thetas)

    def first_fields(self, theta: np.ndarray, n_tune: int) -> dict[str, Any]:
        """Return the fields of a state that the loop over draws uses, for a chain at theta before its first step."""
        return {
            "theta": theta,
            "proposed": theta.copy(),
            "log_density": np.full(1, math.nan),
            "clock": new_clock(n_tune, self.audit_probability),
        }

    def chain(
        self, streams: Streams, state: Any, *, watch: Callable[..., bool] | None = None, **settings: Any
    ) -> CompiledChain:
        """Return the chain with this state, checked by `watch` while it runs; `settings` are as for `CompiledChain`."""
        new_chain = CompiledChain if watch is None else functools.partial(WatchedChain, watch)
        return new_chain(
            self.loop,
            streams,
            state,
            explain=lambda: self.explain_failure(state),
            **settings,
        )

    @abc.abstractmethod
    def explain_failure(self, state: Any) -> str:
        """Return why the last step of a chain failed, and at which theta."""


def undefined_prior(log_prior: float, theta: np.ndarray, name: str = "theta") -> str:
    """Return that the log prior is NaN or +inf at theta, which the message calls `name`; "" if it is neither."""
    if log_prior < math.inf:
        return ""
    return f"log prior is {'NaN' if math.isnan(log_prior) else '+inf'} at {name} = {show(theta)}"
