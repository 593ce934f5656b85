"""A short run of a candidate: cost of a step, effective draws per step, and error of its acceptance probability.

Chains burn in for a fixed number of steps, then run for levels that double, until the ESS is enough or a budget is
spent. With n steps of all chains, s seconds of counted work (`work`) a step, and the smallest bulk ESS over parameters,

    seconds per effective draw = s n / ESS,    accumulated error = E|alpha^ - alpha| n / ESS,

where alpha^ is the test's acceptance probability and alpha the exact one.

Measured seconds are for the table only, not for the choice. In a short run a sampler that mixes badly looks slightly
better than it is: n steps of a chain that has not moved count as one effective draw.
"""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.audits.policy import FEWEST_OF_PILOT, on_few_rows
from approxmcmc.design.candidates import Pairing
from approxmcmc.design.work import AuditSeconds, Counted
from approxmcmc.diagnostics.convergence import BULK
from approxmcmc.diagnostics.gates import distance
from approxmcmc.sampling.assembly import assemble, make_steps

BURN_IN = 50  # steps of each chain, in which proposals adapt
GLANCE = 5  # steps after which a candidate that is much too slow is given up
LEVELS = (50, 100, 200, 400, 800)  # steps of each chain
ENOUGH = 100.0  # effective draws; the seconds of one are then known to about 20 %
FEWEST_AUDITS = 20
MOST_AUDITS = 100
MOST_PARAMETERS = 50  # evenly spaced ones, for the ESS: each takes about half a millisecond


class Measured(NamedTuple):
    """Results of a trial, per step of one chain: seconds of counted work, data touched, effective draws.

    `error` is the accumulated error, 0 for an exact sampler, NaN if it was not measured. `starts`, shape (chains, dim),
    holds the states of the chains after a fixed number of steps, None without a trial. `memory` is the number of steps
    per effective draw in the first level, `effective` the number of effective draws of the whole trial. Seconds with
    `clock` in their name were measured, for the table.
    """

    seconds_per_step: float
    data_per_step: float
    ess_per_step: float
    error: float
    compile_seconds: float
    starts: np.ndarray | None
    memory: float
    effective: float
    clock_seconds_per_step: float = math.nan

    @property
    def seconds_per_draw(self) -> float:
        """Seconds of counted work for an effective draw, on one thread."""
        return self.seconds_per_step / self.ess_per_step


class Trial:
    """Chains of one candidate, compiled and burnt in; `measure` continues them.

    ``price(counted)`` returns the seconds of counted work, ``hopeless(seconds_per_step)`` whether to give up. `gave_up`
    says whether the trial gave up, `spent` is the counted seconds of all steps and audits.

    Raises
    ------
    NotFiniteError
        When a chain cannot start or a log density is NaN.
    """

    def __init__(
        self,
        setting: Pairing,
        draw_start: Callable[[np.random.Generator], np.ndarray],
        *,
        chains: int,
        random_seed: int,
        price: Callable[[Counted], float],
        audits: AuditSeconds,
        hopeless: Callable[[float], bool],
    ) -> None:
        self.dim = setting.target.variables.size
        run = assemble(
            setting.target,
            setting.sampler,
            seed=random_seed,
            chains=chains,
            tune=BURN_IN,
            audit_every="auto",
            draw_start=draw_start,
        )
        self.chains = run.chains
        self.compile_seconds = run.compile_seconds
        self.draws = np.empty((chains, 0, self.dim))
        self.price = price
        self.audits = audits
        self.counted_seconds = 0.0
        self.seconds = 0.0
        self.touched = 0.0
        self.clock_seconds = 0.0
        self.levels = iter(LEVELS)
        self.ess = math.nan
        self.memory = 0.0
        self.gave_up = False
        self._burn_in(hopeless)

    def _burn_in(self, hopeless: Callable[[float], bool]) -> None:
        """Burn the chains in; give up after `GLANCE` steps if `hopeless` is true of the counted seconds of a step."""
        self._advance(GLANCE)
        if hopeless(self.seconds / self.draws[..., 0].size):
            self.gave_up = True
            return
        self._advance(BURN_IN - GLANCE)
        self.starts = self.draws[:, -1].copy()
        self._forget()

    def measure(self, worth: Callable[[float], float], *, audited: bool) -> Measured:
        """Run level after level, then audit some steps if `audited`; return the results.

        Levels end when there are enough effective draws, or twice the counted seconds so far are more than
        ``worth(seconds per effective draw)``. A second call continues the trial.
        """
        for steps in self.levels:
            self._advance(steps)
            self.ess = self._ess()
            self.memory = self.memory or self.draws[..., 0].size / self.ess
            if self.ess >= ENOUGH or 2.0 * self.seconds > worth(self.seconds / self.ess):
                break
        n_steps = self.draws[..., 0].size
        return Measured(
            self.seconds / n_steps,
            self.touched / n_steps,
            self.ess / n_steps,
            self._accumulated_error(worth(self.seconds / self.ess)) if audited else 0.0,
            self.compile_seconds,
            self.starts,
            self.memory,
            self.ess,
            self.clock_seconds / n_steps,
        )

    def _accumulated_error(self, seconds: float) -> float:
        """Audit as many steps as some seconds allow; return E|alpha^ - alpha| times steps per effective draw."""
        makers = [chain.auditor for chain in self.chains]
        auditors = [make(draws) for make, draws in zip(makers, self.draws, strict=True) if make is not None]
        if not auditors:
            return math.nan
        errors: list[float] = []
        noises: list[float] = []
        for _ in range(int(min(max(self.audits.within(seconds), FEWEST_AUDITS), MOST_AUDITS))):
            k = len(errors) % len(auditors)
            if len(errors) == FEWEST_OF_PILOT and self.audits.read_few_rows:
                auditors = list(on_few_rows(auditors))
            draw = len(errors) * self.draws.shape[1] // MOST_AUDITS
            audited = auditors[k](self.draws[k, draw], BURN_IN + draw)
            if audited is None:
                return math.nan
            errors.append(audited["audit_acceptance_error"])
            noises.append(audited["audit_acceptance_noise"])
        self.counted_seconds += self.audits.seconds(len(errors))
        off = max(float(distance(np.array(errors), np.array(noises)).mean()), 0.0)
        return off * self.draws[..., 0].size / self.ess

    def _advance(self, steps: int) -> None:
        """Make so many steps of each chain, in turn."""
        rows = []
        for chain in self.chains:
            began = time.thread_time()
            made_steps = make_steps(chain, steps, self.dim, message="a trial run stopped")
            self.clock_seconds += time.thread_time() - began
            counted = Counted.of(made_steps.counts)
            took = self.price(counted)
            self.seconds = self.seconds + took
            self.counted_seconds = self.counted_seconds + took
            self.touched += counted.touched
            rows.append(made_steps.draws)
        self.draws = np.concatenate([self.draws, np.array(rows)], axis=1)

    def _forget(self) -> None:
        self.draws = self.draws[:, :0]
        self.seconds = 0.0
        self.touched = 0.0
        self.clock_seconds = 0.0

    def _ess(self) -> float:
        """Return the smallest bulk ESS, at least 1; a parameter that never moved counts as 1."""
        parameters = self.draws[..., :: math.ceil(self.dim / MOST_PARAMETERS)]
        with np.errstate(divide="ignore", invalid="ignore"):
            ess = np.atleast_1d(BULK.of(parameters))
        return float(np.nan_to_num(ess, nan=1.0).min(initial=self.draws[..., 0].size).clip(1.0))
