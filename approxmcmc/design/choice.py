"""Choose a sampler for a run that names none: the method that reaches the goal first, according to short trials.

0. If terms that each represent many rows give exactly the same likelihood, they replace the rows
   (`targets.compressed`).
1. Every candidate has a lower bound of its seconds of counted work. It includes the parts that the candidate needs
   first: the mode, a pilot chain, an expansion, compiled code. The candidate with the lowest bound is tried first. Only
   NUTS has no trial: its lower bound is an estimate of its cost, and counts as the cost.
2. A trial counts what a step reads, and measures effective draws per step and the error of a test. That gives a cost
   estimate, the *price*,

       seconds to E effective draws: u + max(E s, n t),    or    risk at a `time_limit` T: error^2 + s / (T - u),

   s the seconds of an effective draw, t those of a step, n the least number of steps of a run, u those of all that is
   still to be done besides the draws, error the predicted bias. The risk is in squared posterior standard deviations.
   Trials are short while a rival could be better, see `branch_and_bound`.
3. A candidate with a lower bound above the best price is not tried: branch and bound (Land and Doig 1960). Trials end
   when the best run is short, or trials have used their share of the budget.
4. The fastest whose predicted error is allowed is chosen, or an exact one that is nearly as fast.
5. Unless the posterior is known to have one mode, others are searched from far starts; some chains start in those that
   are found, see `modes`.

Seconds are those of the constants in `work`: the choice is a function of seed, model, versions and kind of processor.
"""

import dataclasses
import math
import time
import warnings
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from approxmcmc.contracts import Target, WholeSampler
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.design import nuts
from approxmcmc.design.branch_and_bound import (
    GIVEN_UP,
    NEARLY,
    NOT_TRIED,
    RELIABLE,
    WORTHWHILE,
    begin,
    best_of,
    contenders,
    count,
    initial_state,
    may_be_spared,
    measure,
    reassess,
    seconds_of_trials,
    tuning_steps,
    why_not_tried,
)
from approxmcmc.design.candidates import TALL, Pairing, candidates
from approxmcmc.design.modes import Search, as_record, search_modes, spread_starts
from approxmcmc.design.prices import COLUMNS, TOO_BIASED, USUAL_BIAS, CandidateState, SearchGoal, checked_goal
from approxmcmc.design.target_profile import TargetProfile, profile_target
from approxmcmc.engine.messages import first_clause
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError, SamplingWarning, warn
from approxmcmc.interop.any_model import as_target
from approxmcmc.output.shown_table import ShownTable
from approxmcmc.sampling.goals import FEWEST_DRAWS, MOST_THINNING
from approxmcmc.targets import compressed


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """The choice of `choose_sampler`, with its reasons.

    Parameters
    ----------
    target
        The posterior, in the form that the sampler needs: the user's target, its `targets.compressed` form, or the
        `ControlVariate` of either.
    sampler
        The sampler to run on `target`.
    initvals
        Where chains start, shape (chains, dim): the states of the trial after a fixed number of steps, or states
        around other modes, if a search found some. None if there was no trial.
    tune
        Number of tuning steps that suffice from `initvals`.
    table
        A `pandas.DataFrame` with a row for each candidate, the chosen one first.
    sentence
        One line for the user.
    attrs
        Attributes for the trace: the cost of the choice, its sentence, and the table as JSON.
    name
        Name of the candidate, as in the table.
    """

    target: Target
    sampler: Any
    initvals: np.ndarray | None
    tune: int
    table: pd.DataFrame
    sentence: str
    attrs: dict[str, Any]
    name: str

    def __repr__(self) -> str:
        """Show the sentence and the table of what was measured."""
        return f"{self.sentence}\n{ShownTable(self.table)!r}"

    def _repr_html_(self) -> str:
        """Show the sentence and the table of what was measured."""
        return f"<p>{escape(self.sentence)}</p>{ShownTable(self.table)._repr_html_()}"


@naming_the_arguments
def choose_sampler(
    target: Any,
    *,
    time_limit: float | None = None,
    target_ess: float | None = None,
    max_bias: float = 0.0,
    draws: int | None = None,
    chains: int = 4,
    random_seed: Any = None,
) -> Choice:
    """Return the sampler that reaches the goal first, and the table of what was measured.

    Parameters
    ----------
    target
        A target of the library, a ``pymc.Model``, or a ``bambi.Model``.
    time_limit
        Seconds of sampling that the user has; the choice then minimises the predicted risk at their end.
    target_ess
        Wanted effective draws of every parameter, in place of `time_limit`. If neither is given, 400.
    max_bias
        The bias that a sampler may have, in posterior standard deviations. With 0, only exact samplers are tried. With
        more, the fastest sampler whose predicted error is smaller is taken, or an exact one that needs at most twice
        its time. ``choice.sentence`` then says what the exact ones would have cost.
    draws
        Number of steps that each chain makes at least: kept draws times the thinning interval. None: only as many as
        the effective draws need.
    chains
        Number of chains of the run that follows.
    random_seed
        Seed of the trials.

    Returns
    -------
    Choice
        Give ``choice.target``, ``choice.sampler`` and ``initvals=choice.initvals`` to `sample`; if `sample` is given no
        sampler, it does all of this itself.

    Raises
    ------
    InvalidInputError
        When an argument is out of range, or `time_limit` and `target_ess` are both given.
    IncompatibleError
        If no candidate fits the target; the message gives a reason for each, such as a density that is NaN, infinite
        or improper.

    Warns
    -----
    SamplingWarning
        If a pilot found that the posterior may be improper, and a sampler is chosen nevertheless.

    Notes
    -----
    Costs are seconds of counted work (terms, gradients, products of matrices, compilation for a new model), computed
    with constants of the library. With a `random_seed` the choice is the same in every run on one kind of processor.
    The column ``measured_us_per_step`` and the columns of seconds are clock times, and do not affect the choice.
    `predicted_error` is the mean absolute error of the test's acceptance probability times steps per effective draw,
    which is of the size of the bias of the worst parameter, or above it. The cost of a sampler that was not tried is
    its lower bound, and its verdict says so.

    References
    ----------
    Land and Doig (1960), for branch and bound.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(2000, 3)
    >>> choice = amc.choose_sampler(amc.LogisticRegression(X, y), random_seed=1)
    >>> choice.table["verdict"].iloc[0], bool(choice.table["exact"].iloc[0])
    ('chosen', True)
    """
    goal = checked_goal(time_limit, target_ess, max_bias, chains * (draws or 0))
    seed = _seed(random_seed)
    began = time.perf_counter()
    target = as_target(target)
    if isinstance(target, Target) and target.why_no_terms:
        return _only_nuts(target)
    if target.why_no_choice:
        raise IncompatibleError(f"choose_sampler: {target.why_no_choice}. Name a sampler")
    target = compressed(target)
    profile = profile_target(target, seed, chains)
    states = [initial_state(candidate, profile, goal) for candidate in candidates(target)]
    while waiting := [state for state in states if not state.verdict and state.measured is None]:
        best = best_of(states, goal)
        # Among candidates that finish soon, the first in the table: it has less to compile.
        state = min(waiting, key=lambda state: state.lower_bound if best else max(state.lower_bound, goal.good_enough))
        state.verdict = why_not_tried(state, best, goal, seconds_of_trials(states, best))
        if not state.verdict and state.candidate.is_counted:
            count(state, profile, goal)
        elif not state.verdict and best and best.unfinished and may_be_spared(state, best):
            measure(best, best.unfinished, profile, goal, best, math.inf)
        elif not state.verdict and (trial := begin(state, profile, goal, best, seed)):
            rival_price = min((other.lower_bound for other in waiting if other is not state), default=math.inf)
            measure(state, trial, profile, goal, best, rival_price)
        if isinstance(state.failure, NotFiniteError):
            profile.undefined.append(state.candidate.name)
        for other in states:
            reassess(other, profile, goal)
    while unfinished := contenders(states, goal):
        for state, trial in unfinished:
            measure(state, trial, profile, goal, best_of(states, goal), math.inf)
        for other in states:
            reassess(other, profile, goal)
    chosen = best_of(states, goal)
    if chosen is None:
        reasons = "; ".join(f"{state.candidate.name}: {state.verdict}" for state in states)
        advice = "Name a sampler"
        if goal.max_bias == 0.0 and not all(state.exact for state in states):
            advice += f", or allow a bias, such as max_bias={USUAL_BIAS:g}"
        raise IncompatibleError(f"choose_sampler: nothing fits {target!r}. {reasons}. {advice}")
    if profile.alarm:
        warn(f"choose_sampler: {profile.alarm}", SamplingWarning)
    _judge(states, chosen, goal)
    searched = time.perf_counter()
    search = _search_modes(chosen, profile)
    seconds = searched - began, time.perf_counter() - searched
    return _choice(states, chosen, profile, goal, search, *seconds)


def made_again(target: Target, name: str, *, random_seed: Any = None) -> Pairing:
    """Return target and sampler of the candidate `name`, without trials; `random_seed` must be that of the choice."""
    if target.why_no_terms:
        return Pairing(target, nuts.sampler(target))
    target = compressed(target)
    profile = profile_target(target, _seed(random_seed))
    candidate = next((each for each in candidates(target) if each.name == name), None)
    if candidate is None:
        raise InvalidInputError(f"choose_sampler: {target!r} has no candidate {name!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # as in the trial
        return candidate.make(profile)


def _seed(random_seed: Any) -> int:
    """Return a seed for trials that differs from the seed of the run that follows."""
    return int(np.random.SeedSequence(random_seed, spawn_key=(0x7121,)).generate_state(1)[0])


def _judge(states: list[CandidateState], chosen: CandidateState, goal: SearchGoal) -> None:
    """Write the verdicts of the candidates that were tried; set the price of the others to their lower bound."""
    for state in states:
        if state is chosen:
            state.verdict = "chosen"
        elif state.measured is not None and not state.measured.error <= goal.max_bias:
            state.verdict = f"{TOO_BIASED} the allowed {goal.max_bias:g}"
        elif state.measured is not None and state.price >= chosen.price:
            state.verdict = "slower"
        elif state.measured is not None and state.measured.effective < RELIABLE:
            state.verdict = f"its trial had only {state.measured.effective:.0f} effective draws"
        elif state.measured is not None:
            state.verdict = "biased, and faster by less than a factor of two"
        elif math.isnan(state.price):
            state.price = state.lower_bound


def _search_modes(chosen: CandidateState, profile: TargetProfile) -> Search | None:
    """Return what a search for other modes found; None if there is one, or if chains do not start at draws of a fit."""
    setting = chosen.setting
    assert setting is not None
    fit = setting.fit or profile.seen or next(iter(profile.fits()), None)
    if profile.target.plain.why_one_mode or chosen.candidate.is_counted or fit is None:
        return None
    return search_modes(profile.target, setting, fit, profile)


def _choice(
    states: list[CandidateState],
    chosen: CandidateState,
    profile: TargetProfile,
    goal: SearchGoal,
    search: Search | None,
    seconds: float,
    seconds_of_search: float,
) -> Choice:
    """Return the choice of the candidate `chosen`, with table and sentence.

    The choice took so many `seconds`, the search for other modes `seconds_of_search`.
    """
    setting = chosen.setting
    measured = chosen.measured
    assert setting is not None and measured is not None
    starts = measured.starts
    of_modes: dict[str, Any] = {}
    if search is not None and starts is not None:
        starts, chains_of_modes = spread_starts(starts, search.others)
        of_modes = {
            "modes": as_record(search, chains_of_modes),
            "setup_modes_seconds": seconds_of_search,
            "setup_modes_passes": search.passes,
        }
        if search.apart:
            steps = max(goal.target_ess / measured.ess_per_step / profile.chains, FEWEST_DRAWS)
            of_modes["most_draws"] = MOST_THINNING * math.ceil(steps)
    ranked = sorted(states, key=lambda state: (state is not chosen, state.measured is None, state.price))
    table = ShownTable([state.row() for state in ranked], columns=COLUMNS)
    table.attrs["price"] = goal.unit
    beside = _rivals(ranked[1:], chosen, goal, profile) + _trade(states, chosen, goal)
    guarantee = "exact" if chosen.exact else f"biased, by up to about {measured.error:.2g} posterior sd"
    # What a trial compiled is not part of its cost; the cost of NUTS is counted with its compilation.
    compiled = "" if chosen.candidate.is_counted or goal.time_limit is not None else ", without compilation"
    sentence = f"{chosen.candidate.name} ({guarantee}), estimated {goal.unit}{compiled}: {chosen.price:.2g}; {beside}"
    sentence += _summed(profile.target)
    taken = sum(fit.seconds for fit in profile.fits())
    attrs = {
        "setup_mode_seconds": taken,
        "setup_mode_passes": sum(fit.passes for fit in profile.fits()),
        "setup_design_seconds": seconds - taken,
        "counted_seconds_per_step": measured.seconds_per_step,
        "chosen": sentence,
        "choice": table.to_json(orient="records"),
        **of_modes,
    }
    tune = tuning_steps(measured)
    if isinstance(setting.sampler, WholeSampler):
        tune = setting.sampler.tuning_steps(setting.target)
    name = chosen.candidate.name
    return Choice(setting.target, setting.sampler, starts, tune, table, sentence, attrs, name)


def _rivals(others: list[CandidateState], chosen: CandidateState, goal: SearchGoal, profile: TargetProfile) -> str:
    """Return what is known of the candidates that were not chosen, as the end of the sentence about the choice.

    `others` are in the order of the table: those with a cost first, the cheapest first. The cost of a candidate that
    was not tried is a lower bound, so one with a bound below the cost of the chosen one may be faster.
    """
    allowed = [state for state in others if state.exact or goal.max_bias > 0.0]
    costed = [state for state in allowed if state.measured is not None]
    untried = [state for state in allowed if state.measured is None and state.verdict.startswith(NOT_TRIED)]
    parts = []
    if slower := [state for state in costed if state.price >= chosen.price]:
        parts.append(f"next best: {slower[0].candidate.name}, {slower[0].price:.2g}")
    for state in costed:
        if state.price < chosen.price:
            parts.append(f"{state.candidate.name}, {state.price:.2g}, was not taken: {state.verdict}")
    if faster := [state for state in untried if state.price < chosen.price]:
        bounds = ", ".join(f"{state.candidate.name} (at least {state.price:.2g})" for state in faster)
        parts.append(f"not tried, and possibly faster: {bounds}")
    if parts:
        return "; ".join(parts)
    kind = "candidate" if len(allowed) == len(others) else "exact candidate"
    given_up = any(state.verdict.startswith(GIVEN_UP) for state in allowed)
    sentence = f"no other {kind} could be faster" if untried or given_up else f"no other {kind} is possible"
    return sentence + (nuts.why_alone(profile) if chosen.candidate.is_counted else "")


def _trade(states: list[CandidateState], chosen: CandidateState, goal: SearchGoal) -> str:
    """Return what a bias gained, or could gain, as the end of the sentence about the choice; "" if that is little."""
    others = [state for state in states if state.exact != chosen.exact and not math.isnan(state.price)]
    other = min(others, key=lambda state: state.price, default=None)
    if other is None:
        return ""
    at_least = "" if other.measured is not None else "at least "
    if not chosen.exact:
        return f"; the best exact one, {other.candidate.name}: {at_least}{other.price:.2g}"
    would_pay = NEARLY * other.price < chosen.price and (goal.time_limit is not None or chosen.price > WORTHWHILE)
    if goal.max_bias > 0.0 or not would_pay:
        return ""
    return f"; if a small bias is allowed, max_bias={USUAL_BIAS:g}, {other.candidate.name}: {at_least}{other.price:.2g}"


def _summed(target: Target) -> str:
    """Return what was summed out of the model of a target, as the end of a sentence."""
    return f"; {target.plain.summed.sentence}" if target.plain.summed is not None else ""


def _only_nuts(target: Target) -> Choice:
    """Return NUTS for a model that cannot be read row by row, and why no other candidate fits it."""
    sampler = nuts.sampler(target)
    name = nuts.name(target)
    why = first_clause(target.why_no_terms)
    others = [(member.name, member.exact, f"not possible: {why}") for member in TALL if not member.is_counted]
    rows = [(name, True, "chosen"), *others]
    table = ShownTable([(*row, *[math.nan] * (len(COLUMNS) - len(row))) for row in rows], columns=COLUMNS)
    sentence = f"{name} (exact): {why}{_summed(target)}"
    attrs = {"chosen": sentence, "choice": table.to_json(orient="records")}
    return Choice(target, sampler, None, sampler.tuning_steps(target), table, sentence, attrs, name)
