"""Choose a sampler for a run that names none: the method that reaches the goal first, according to short trials.

0. If terms that each represent many rows give exactly the same likelihood, they replace the rows
   (`targets.compressed`).
1. Every candidate has a floor, which is a lower bound of its seconds of counted work. It includes the parts that the
   candidate needs first: the mode, a pilot chain, an expansion, compiled code. The lowest floor is tried first. Only
   NUTS has no trial: its floor is an estimate of its cost, and counts as the cost.
2. A trial counts what a step reads, and measures effective draws per step and the error of a test. That gives a cost
   estimate, the *price*,

       seconds to E effective draws: u + max(E s, n t),    or    risk at a `time_limit` T: error^2 + s / (T - u),

   s the seconds of an effective draw, t those of a step, n the least number of steps of a run, u those of all that is
   still to be done besides the draws, error the predicted bias. The risk is in squared posterior standard deviations.
   Trials are short while a rival could be better, see `contest`.
3. A candidate with a floor above the best price is not tried: branch and bound (Land and Doig 1960). Trials end when
   the best run is short, or trials have used their share of the budget.
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
from approxmcmc.design.candidates import TALL, Pairing, candidates
from approxmcmc.design.contest import (
    GIVEN_UP,
    NEARLY,
    NOT_TRIED,
    TELLING,
    WORTHWHILE,
    begin,
    best_of,
    contenders,
    count,
    enter,
    look_again,
    may_be_spared,
    measure,
    spent,
    tuning_steps,
    why_not_tried,
)
from approxmcmc.design.modes import Search, as_record, search_modes, spread_starts
from approxmcmc.design.prices import COLUMNS, TOO_BIASED, USUAL_BIAS, Entry, Wanted, checked_goal
from approxmcmc.design.survey import Situation, survey
from approxmcmc.engine.messages import first_clause
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError, SamplingWarning, warn
from approxmcmc.interop.any_model import as_target
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

    def _repr_html_(self) -> str:
        """Show the sentence and the table of what was measured."""
        return f"<p>{escape(self.sentence)}</p>{self.table.to_html(index=False, float_format='{:.3g}'.format)}"


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
    its floor, and its verdict says so.

    References
    ----------
    Land and Doig (1960), for branch and bound.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(2000, 3)
    >>> choice = amc.choose_sampler(amc.targets.LogisticRegression(X, y), random_seed=1)
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
    known = survey(target, seed, chains)
    entries = [enter(one, known, goal) for one in candidates(target)]
    while waiting := [entry for entry in entries if not entry.verdict and entry.measured is None]:
        best = best_of(entries, goal)
        # Among candidates that finish soon, the first in the table: it has less to compile.
        entry = min(waiting, key=lambda entry: entry.floor if best else max(entry.floor, goal.near))
        entry.verdict = why_not_tried(entry, best, goal, spent(entries, best))
        if not entry.verdict and entry.candidate.is_counted:
            count(entry, known, goal)
        elif not entry.verdict and best and best.unfinished and may_be_spared(entry, best):
            measure(best, best.unfinished, known, goal, best, math.inf)
        elif not entry.verdict and (trial := begin(entry, known, goal, best, seed)):
            hope = min((other.floor for other in waiting if other is not entry), default=math.inf)
            measure(entry, trial, known, goal, best, hope)
        if isinstance(entry.failure, NotFiniteError):
            known.undefined.append(entry.candidate.name)
        for other in entries:
            look_again(other, known, goal)
    while unfinished := contenders(entries, goal):
        for entry, trial in unfinished:
            measure(entry, trial, known, goal, best_of(entries, goal), math.inf)
        for other in entries:
            look_again(other, known, goal)
    chosen = best_of(entries, goal)
    if chosen is None:
        reasons = "; ".join(f"{entry.candidate.name}: {entry.verdict}" for entry in entries)
        advice = "Name a sampler"
        if goal.max_bias == 0.0 and not all(entry.exact for entry in entries):
            advice += f", or allow a bias, such as max_bias={USUAL_BIAS:g}"
        raise IncompatibleError(f"choose_sampler: nothing fits {target!r}. {reasons}. {advice}")
    if known.alarm:
        warn(f"choose_sampler: {known.alarm}", SamplingWarning)
    _judge(entries, chosen, goal)
    searched = time.perf_counter()
    search = _search_modes(chosen, known)
    seconds = searched - began, time.perf_counter() - searched
    return _choice(entries, chosen, known, goal, search, *seconds)


def made_again(target: Target, name: str, *, random_seed: Any = None) -> Pairing:
    """Return target and sampler of the candidate `name`, without trials; `random_seed` must be that of the choice."""
    if target.why_no_terms:
        return Pairing(target, nuts.sampler(target))
    target = compressed(target)
    known = survey(target, _seed(random_seed))
    candidate = next((one for one in candidates(target) if one.name == name), None)
    if candidate is None:
        raise InvalidInputError(f"choose_sampler: {target!r} has no candidate {name!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # as in the trial
        return candidate.make(known)


def _seed(random_seed: Any) -> int:
    """Return a seed for trials that differs from the seed of the run that follows."""
    return int(np.random.SeedSequence(random_seed, spawn_key=(0x7121,)).generate_state(1)[0])


def _judge(entries: list[Entry], chosen: Entry, goal: Wanted) -> None:
    """Write the verdicts of the candidates that were tried; set the price of the others to their floor."""
    for entry in entries:
        if entry is chosen:
            entry.verdict = "chosen"
        elif entry.measured is not None and not entry.measured.error <= goal.max_bias:
            entry.verdict = f"{TOO_BIASED} the allowed {goal.max_bias:g}"
        elif entry.measured is not None and entry.price >= chosen.price:
            entry.verdict = "slower"
        elif entry.measured is not None and entry.measured.effective < TELLING:
            entry.verdict = f"its trial had only {entry.measured.effective:.0f} effective draws"
        elif entry.measured is not None:
            entry.verdict = "biased, and faster by less than a factor of two"
        elif math.isnan(entry.price):
            entry.price = entry.floor


def _search_modes(chosen: Entry, known: Situation) -> Search | None:
    """Return what a search for other modes found; None if there is one, or if chains do not start at draws of a law."""
    setting = chosen.setting
    assert setting is not None
    law = setting.law or known.seen or next(iter(known.laws()), None)
    if known.target.plain.why_one_mode or chosen.candidate.is_counted or law is None:
        return None
    return search_modes(known.target, setting, law, known)


def _choice(
    entries: list[Entry],
    chosen: Entry,
    known: Situation,
    goal: Wanted,
    search: Search | None,
    seconds: float,
    seconds_of_search: float,
) -> Choice:
    """Return the choice of the entry `chosen`, with table and sentence.

    The choice took so many `seconds`, the search for other modes `seconds_of_search`.
    """
    setting = chosen.setting
    found = chosen.measured
    assert setting is not None and found is not None
    starts = found.starts
    of_modes: dict[str, Any] = {}
    if search is not None and starts is not None:
        starts, chains_of_modes = spread_starts(starts, search.others)
        of_modes = {
            "modes": as_record(search, chains_of_modes),
            "setup_modes_seconds": seconds_of_search,
            "setup_modes_passes": search.passes,
        }
        if search.apart:
            steps = max(goal.target_ess / found.ess_per_step / known.chains, FEWEST_DRAWS)
            of_modes["most_draws"] = MOST_THINNING * math.ceil(steps)
    ranked = sorted(entries, key=lambda entry: (entry is not chosen, entry.measured is None, entry.price))
    table = pd.DataFrame([entry.row() for entry in ranked], columns=COLUMNS)
    table.attrs["price"] = goal.unit
    beside = _rivals(ranked[1:], chosen, goal, known) + _trade(entries, chosen, goal)
    guarantee = "exact" if chosen.exact else f"biased, by up to about {found.error:.2g} posterior sd"
    sentence = f"{chosen.candidate.name} ({guarantee}), estimated {goal.unit}: {chosen.price:.2g}; {beside}"
    sentence += _summed(known.target)
    taken = sum(law.seconds for law in known.laws())
    attrs = {
        "setup_mode_seconds": taken,
        "setup_mode_passes": sum(law.passes for law in known.laws()),
        "setup_design_seconds": seconds - taken,
        "counted_seconds_per_step": found.seconds_per_step,
        "chosen": sentence,
        "choice": table.to_json(orient="records"),
        **of_modes,
    }
    tune = tuning_steps(found)
    if isinstance(setting.sampler, WholeSampler):
        tune = setting.sampler.tuning_steps(setting.target)
    name = chosen.candidate.name
    return Choice(setting.target, setting.sampler, starts, tune, table, sentence, attrs, name)


def _rivals(others: list[Entry], chosen: Entry, goal: Wanted, known: Situation) -> str:
    """Return what is known of the candidates that were not chosen, as the end of the sentence about the choice.

    `others` are in the order of the table: those with a cost first, the cheapest first. The cost of a candidate that
    was not tried is a lower bound, so one with a bound below the cost of the chosen one may be faster.
    """
    allowed = [entry for entry in others if entry.exact or goal.max_bias > 0.0]
    costed = [entry for entry in allowed if entry.measured is not None]
    untried = [entry for entry in allowed if entry.measured is None and entry.verdict.startswith(NOT_TRIED)]
    parts = []
    if slower := [entry for entry in costed if entry.price >= chosen.price]:
        parts.append(f"next best: {slower[0].candidate.name}, {slower[0].price:.2g}")
    for entry in costed:
        if entry.price < chosen.price:
            parts.append(f"{entry.candidate.name}, {entry.price:.2g}, was not taken: {entry.verdict}")
    if faster := [entry for entry in untried if entry.price < chosen.price]:
        bounds = ", ".join(f"{entry.candidate.name} (at least {entry.price:.2g})" for entry in faster)
        parts.append(f"not tried, and possibly faster: {bounds}")
    if parts:
        return "; ".join(parts)
    kind = "candidate" if len(allowed) == len(others) else "exact candidate"
    given_up = any(entry.verdict.startswith(GIVEN_UP) for entry in allowed)
    sentence = f"no other {kind} could be faster" if untried or given_up else f"no other {kind} is possible"
    return sentence + (nuts.why_alone(known) if chosen.candidate.is_counted else "")


def _trade(entries: list[Entry], chosen: Entry, goal: Wanted) -> str:
    """Return what a bias gained, or could gain, as the end of the sentence about the choice; "" if that is little."""
    others = [entry for entry in entries if entry.exact != chosen.exact and not math.isnan(entry.price)]
    other = min(others, key=lambda entry: entry.price, default=None)
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
    others = [(one.name, one.exact, f"not possible: {why}") for one in TALL if not one.is_counted]
    rows = [(name, True, "chosen"), *others]
    table = pd.DataFrame([(*row, *[math.nan] * (len(COLUMNS) - len(row))) for row in rows], columns=COLUMNS)
    sentence = f"{name} (exact): {why}{_summed(target)}"
    attrs = {"chosen": sentence, "choice": table.to_json(orient="records")}
    return Choice(target, sampler, None, sampler.tuning_steps(target), table, sentence, attrs, name)
