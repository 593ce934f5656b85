"""Cost estimates (prices) of candidates: the user's goal, and the cost of each candidate to reach it.

    price = seconds to E effective draws: u + max(E s, n t),    or    risk at a `time_limit` T: error^2 + s / (T - u),

where s is the seconds for an effective draw, t the seconds for a step, n the smallest number of steps of a run, u the
seconds of all that is still to be done besides the draws, tuning and audits included, and error the predicted bias. The
risk is in squared posterior standard deviations. Seconds are those of counted work on one core (`work`): they depend
neither on a clock nor on the number of cores.
"""

import dataclasses
import math
import numbers
from typing import Any, NamedTuple

from approxmcmc.design.candidates import Candidate, Pairing
from approxmcmc.design.trial import Measured, Trial
from approxmcmc.errors import InvalidInputError
from approxmcmc.sampling.goals import ENOUGH

# Posterior standard deviations: less than most users can see. Messages suggest it if a biased sampler would save time.
USUAL_BIAS = 0.02
# Seconds. If a candidate finishes by then, no other is tried, because compiling another one takes longer. Short trials
# overrate chains that stick: for independent draws on MNIST they predicted .22 s, but the run took .84 s.
SOON = 0.2
TOO_BIASED = "predicted error above"  # beginning of the verdict of a candidate that is too biased
COLUMNS_OF_TRIAL = (
    "us_per_step",
    "measured_us_per_step",
    "data_per_step",
    "ess_per_step",
    "ess_per_second",
    "predicted_error",
    "compile_seconds",
)
COLUMNS = ("candidate", "exact", "verdict", "price", *COLUMNS_OF_TRIAL, "set_up_seconds", "trial_seconds")


class SearchGoal(NamedTuple):
    """The user's goal: effective draws or a time limit, the allowed bias, and the least number of steps."""

    target_ess: float
    time_limit: float | None
    max_bias: float
    fewest_steps: float = 0.0

    def price(self, set_up: float, per_draw: float, per_step: float, error: float = 0.0) -> float:
        """Return the seconds to the wanted draws, or the risk at the time limit, see the module.

        `set_up`, `per_draw` and `per_step` are seconds for set-up, an effective draw and a step; `error` is the bias.
        """
        if self.time_limit is None:
            return set_up + max(self.target_ess * per_draw, self.fewest_steps * per_step)
        seconds_left = self.time_limit - set_up
        return error**2 + per_draw / seconds_left if seconds_left > 0.0 else math.inf

    def seconds(self, per_draw: float, per_step: float) -> float:
        """Return the seconds that a sampler needs for the wanted draws, or the time limit."""
        return self.price(0.0, per_draw, per_step) if self.time_limit is None else self.time_limit

    @property
    def good_enough(self) -> float:
        """Cost below which the search stops; 0 under a time limit."""
        return SOON if self.time_limit is None else 0.0

    @property
    def unit(self) -> str:
        """The unit of the cost estimates."""
        if self.time_limit is None:
            steps = f" in at least {self.fewest_steps:g} steps" if self.fewest_steps else ""
            return f"seconds to {self.target_ess:g} effective draws{steps}"
        return f"risk at {self.time_limit:g} s, in squared posterior sd"


@dataclasses.dataclass
class CandidateState:
    """A candidate, its lower bound of cost (`lower_bound`), and what its trial found.

    `has_set_up` says whether the set-up may take much longer than its lower bound. `unfinished` is a trial that was cut
    short because a rival could be better. `set_up` and `trial` are seconds of counted work, `set_up_seconds` and
    `trial_seconds` seconds measured by the clock, for the table.
    """

    candidate: Candidate
    lower_bound: float
    has_set_up: bool
    verdict: str = ""
    price: float = math.nan
    setting: Pairing | None = None
    measured: Measured | None = None
    unfinished: Trial | None = None
    failure: Exception | None = None
    set_up: float = 0.0
    trial: float = 0.0
    set_up_seconds: float = 0.0
    trial_seconds: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether the sampler of the candidate is exact."""
        return self.candidate.exact

    def row(self) -> tuple[Any, ...]:
        """Return the candidate's row of the table, in the order of `COLUMNS`."""
        measured = self.measured
        of_trial: tuple[float, ...] = (math.nan,) * len(COLUMNS_OF_TRIAL)
        if measured is not None:
            of_trial = (
                measured.seconds_per_step * 1e6,
                measured.clock_seconds_per_step * 1e6,
                measured.data_per_step,
                measured.ess_per_step,
                1.0 / measured.seconds_per_draw,
                measured.error,
                measured.compile_seconds,
            )
        clock_seconds = self.set_up_seconds, self.trial_seconds
        return self.candidate.name, self.exact, self.verdict, self.price, *of_trial, *clock_seconds


def checked_goal(time_limit: Any, target_ess: Any, max_bias: Any, fewest_steps: float = 0.0) -> SearchGoal:
    """Return the user's goal, checked: `target_ess` or `time_limit`, not both."""
    if target_ess is not None and time_limit is not None:
        raise InvalidInputError(
            f"choose_sampler takes one goal: give target_ess={target_ess!r} or time_limit={time_limit!r}, not both"
        )
    if target_ess is not None and not 0.0 < target_ess < math.inf:
        raise InvalidInputError(f"choose_sampler: target_ess must be positive, found {target_ess!r}")
    if time_limit is not None and not time_limit > 0.0:
        raise InvalidInputError(f"choose_sampler: time_limit must be positive seconds, or None, found {time_limit!r}")
    if not (isinstance(max_bias, numbers.Real) and float(max_bias) >= 0.0):
        raise InvalidInputError(
            f"choose_sampler: max_bias must be 0 (exact samplers only) or a positive number of posterior standard "
            f"deviations, found {max_bias!r}"
        )
    goal = ENOUGH if target_ess is None else float(target_ess)
    return SearchGoal(goal, time_limit, float(max_bias), fewest_steps)
