"""The sampler for a user who named none: the lever that answers first, by what short trials measure.

1. The mode and the curvature there; where there is no mode, mean and covariance of an exact pilot chain.
2. Every candidate has a floor: seconds below which it cannot answer. The one with the lowest floor is tried first.
3. A trial measures seconds per step, effective draws per step, and the error of a test. That gives a *price*,

       seconds to `target_ess` effective draws,    or    risk at a `time_limit` T: error^2 + s / (T - set-up),

   s the seconds of an effective draw, the risk in squared posterior standard deviations.
4. A candidate whose floor is above the best price is not tried: branch and bound (Land and Doig 1960). Nor is any once
   the answer is near, or trials have taken their share of the budget.
5. Exact, where that is nearly as fast; else the fastest whose predicted error is allowed.
"""

import dataclasses
import math
import time
import warnings
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from approxmcmc.contracts import Target
from approxmcmc.design.candidates import Candidate, Setting, candidates
from approxmcmc.design.prices import COLUMNS, TOO_BIASED, Entry, Goal, checked_goal
from approxmcmc.design.survey import Situation, survey
from approxmcmc.design.trial import ENOUGH, Trial
from approxmcmc.engine.messages import detail
from approxmcmc.errors import ApproxMCMCError, IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.sampling.initial import start_law

NEARLY = 2.0  # times the price of the fastest that an exact sampler may ask
SHARE_OF_TRIALS = 0.15  # of the budget
SHARE_OF_TRIAL = 0.05  # of the seconds that a candidate would need
LEAST_TRIAL, LEAST_FOR_TRIALS = 0.1, 0.5  # seconds that nobody minds: for one, for all
PILOT_TUNE = (50, 1000)  # tuning steps of the run: ten autocorrelation times of the trial, within these


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """What `choose_sampler` chose, and why.

    Parameters
    ----------
    target
        The posterior, in the form that the sampler needs: the user's target, or its `CoreRows`.
    sampler
        What to run on it.
    initvals
        Where chains start, shape (chains, dim): where those of the trial were after a fixed number of steps.
    tune
        Tuning steps that suffice from there.
    table
        A `pandas.DataFrame` with a row for each candidate, the chosen one first.
    sentence
        One line for the user.
    attrs
        What the choice cost, its sentence and the table as JSON: for the trace.
    name
        The candidate's, as in the table.
    """

    target: Target
    sampler: Any
    initvals: np.ndarray
    tune: int
    table: pd.DataFrame
    sentence: str
    attrs: dict[str, Any]
    name: str

    def _repr_html_(self) -> str:
        """Show the sentence and the table of what was measured."""
        return f"<p>{escape(self.sentence)}</p>{self.table.to_html(index=False, float_format='{:.3g}'.format)}"


def choose_sampler(
    target: Any,
    *,
    time_limit: float | None = None,
    target_ess: float | None = None,
    bias: float | str | None = None,
    chains: int = 4,
    cores: int = 1,
    random_seed: Any = None,
) -> Choice:
    """Return the sampler that answers first, and the table of what was measured.

    Parameters
    ----------
    target
        A target of the library.
    time_limit
        Seconds of sampling that the user has; the choice then minimises the predicted risk at their end.
    target_ess
        Effective draws wanted of every parameter. With neither, 400.
    bias
        ``"none"`` allows exact samplers alone, a number that many posterior standard deviations. None: 0.02, and an
        exact sampler wherever one needs at most twice the time of the fastest.
    chains, cores
        Of the run that follows.
    random_seed
        Of the trials.

    Returns
    -------
    Choice
        Give ``choice.target``, ``choice.sampler`` and ``initvals=choice.initvals`` to `sample`, which does all of
        this itself where it is given no sampler.

    Raises
    ------
    InvalidInputError
        When an argument is out of range, or the target's initial point has no finite log density.
    IncompatibleError
        When no candidate fits the target.
    NotFiniteError
        When a term or the prior is NaN or infinite on the way to the mode, or in a pilot.

    Notes
    -----
    Prices are measured, so that a choice between two that are equally fast may differ from run to run; what is drawn
    depends on the seed and on the choice alone. `predicted_error` is E|alpha^ - alpha| times steps per effective draw,
    which is of the size of the bias of the worst parameter, or above it. A sampler that was not tried has its floor as
    price, and its verdict says so.

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
    goal = checked_goal(time_limit, target_ess, bias, min(chains, cores))
    seed, began = _seed(random_seed), time.perf_counter()
    known = survey(target, seed)
    entries = [_entry(one, known, goal) for one in candidates(target)]
    while waiting := [entry for entry in entries if not entry.verdict and entry.measured is None]:
        best = _best(entries, goal)
        for entry in waiting:
            entry.floor, entry.has_set_up = _floor(entry.candidate, known, goal)
        # Who can answer soon needs no better floor: then the first in the table, with less to compile.
        entry = min(waiting, key=lambda entry: entry.floor if best else max(entry.floor, goal.near))
        entry.verdict = _why_not_tried(entry, best, goal, _spent(entries, best))
        if not entry.verdict and (trial := _trial(entry, known, goal, best, chains, seed)):
            hope = min((other.floor for other in waiting if other is not entry), default=math.inf)
            _measure(entry, trial, goal, best, hope)
    while unfinished := _contenders(entries, goal):
        for entry, trial in unfinished:
            _measure(entry, trial, goal, _best(entries, goal), math.inf)
    chosen = _best(entries, goal)
    if chosen is None:
        reasons = "; ".join(f"{entry.candidate.name}: {entry.verdict}" for entry in entries)
        raise IncompatibleError(f"choose_sampler: nothing fits {target!r}. {reasons}. Name a sampler")
    _judge(entries, chosen, goal)
    return _choice(entries, chosen, known, goal, time.perf_counter() - began)


def made_again(target: Target, name: str, *, random_seed: Any = None) -> Setting:
    """Return the candidate that was chosen, by its name and the seed of the choice; nothing is tried."""
    known = survey(target, _seed(random_seed))
    candidate = next((one for one in candidates(target) if one.name == name), None)
    if candidate is None:
        raise InvalidInputError(f"choose_sampler: {target!r} has no candidate {name!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # as in the trial
        return candidate.make(known)


def _seed(random_seed: Any) -> int:
    """Return a seed for trials, apart from the one of the run that follows."""
    return int(np.random.SeedSequence(random_seed, spawn_key=(0x7121,)).generate_state(1)[0])


def _entry(candidate: Candidate, known: Situation, goal: Goal) -> Entry:
    """Return a candidate with its price at best, and why a target cannot have it."""
    return Entry(candidate, *_floor(candidate, known, goal), candidate.why_not(known))


def _floor(candidate: Candidate, known: Situation, goal: Goal) -> tuple[float, bool]:
    """Return the price at best, and whether a set-up may take longer; less once another one has made what it needs."""
    floor = candidate.floor(known)
    return goal.price(floor.set_up, floor.per_draw), floor.set_up > 0.0 and not floor.foretold


def _spent(entries: list[Entry], best: Entry | None) -> float:
    """Return the seconds that trials have taken; the set-up of the best is not lost."""
    return sum(entry.trial_seconds + (entry.set_up_seconds if entry is not best else 0.0) for entry in entries)


def _why_not_tried(entry: Entry, best: Entry | None, goal: Goal, spent: float) -> str:
    """Return why a candidate need not be tried, or nothing."""
    if not entry.exact and goal.bias == 0.0:
        return "not tried: it is biased, and exact was asked for"
    if best is None or best.measured is None:
        return ""
    # With fewer effective draws a trial promises nothing: 7 of 6000 in a funnel made 400 in .3 s, and were far from it.
    if best.price < goal.near and best.measured.effective >= ENOUGH:
        return f"not tried: {best.candidate.name} answers in {best.price:.1g} s"
    prefers = goal.prefers_exact and entry.exact != best.exact
    if entry.floor * (1.0 if not prefers else NEARLY if best.exact else 1.0 / NEARLY) >= best.price:
        return f"not tried: it cannot ask less than {entry.floor:.2g}"
    # A trial without set-up takes SHARE_OF_TRIAL of the best price, and a set-up that is foretold is in the floor.
    if entry.has_set_up and spent > max(
        SHARE_OF_TRIALS * goal.seconds(best.measured.seconds_per_draw), LEAST_FOR_TRIALS
    ):
        return "not tried: trials have taken their share of the budget"
    return ""


def _trial(entry: Entry, known: Situation, goal: Goal, best: Entry | None, chains: int, seed: int) -> Trial | None:
    """Make the candidate and burn its chains in; an entry that failed, or is much too slow, says why."""

    def hopeless(seconds_per_step: float) -> bool:
        return best is not None and goal.price(0.0, seconds_per_step) > NEARLY * best.price

    detail("trying %s", entry.candidate.name)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # of a core too large: its price tells
            entry.setting = entry.candidate.make(known)
            entry.set_up_seconds = time.perf_counter() - began
            law = entry.setting.law or known.fit
            draw = law.draw if law else start_law(entry.setting.target, entry.setting.sampler)
            trial = Trial(entry.setting, draw, chains=chains, random_seed=seed, hopeless=hopeless)
    except ApproxMCMCError as error:
        entry.verdict = f"not possible: {error}"
        return None
    entry.trial_seconds = time.perf_counter() - began - entry.set_up_seconds - trial.compile_seconds
    if trial.gave_up:
        entry.verdict = "given up after a few steps: each takes too long"
        return None
    return trial


def _measure(entry: Entry, trial: Trial, goal: Goal, best: Entry | None, hope: float) -> None:
    """Let a trial go on as long as that is worth something; `hope` is the price that a rival may ask at best.

    A trial that hope has cut short is kept, and goes on where no rival was better.
    """

    def worth(seconds_per_draw: float) -> float:
        fastest = min(seconds_per_draw, best.measured.seconds_per_draw if best and best.measured else math.inf)
        budget = goal.seconds(fastest)
        return max(SHARE_OF_TRIAL * (budget if goal.time_limit else min(budget, hope)), LEAST_TRIAL)

    began = time.perf_counter()
    try:
        found = trial.measure(worth, audited=not entry.exact)
    except ApproxMCMCError as error:
        entry.verdict, entry.measured, entry.unfinished = f"not possible: {error}", None, None
        return
    entry.trial_seconds += time.perf_counter() - began
    entry.measured, entry.price = found, goal.price(0.0, found.seconds_per_draw, found.error)
    entry.unfinished = trial if math.isfinite(hope) else None


def _contenders(entries: list[Entry], goal: Goal) -> list[tuple[Entry, Trial]]:
    """Return the trials that were cut short, of those that may still be the best: a short trial is off by a factor."""
    best = _best(entries, goal)
    near = NEARLY * best.price if best else 0.0
    return [(entry, entry.unfinished) for entry in entries if entry.unfinished and entry.price <= near]


def _best(entries: list[Entry], goal: Goal) -> Entry | None:
    """Return the cheapest of those that were tried and are allowed; an exact one where it is nearly as cheap."""
    allowed = [entry for entry in entries if entry.measured is not None and entry.measured.error <= goal.bias]
    exact = [entry for entry in allowed if entry.exact]
    cheapest = min(allowed, key=lambda entry: entry.price, default=None)
    if goal.prefers_exact and exact and cheapest is not None:
        nearest = min(exact, key=lambda entry: entry.price)
        return nearest if nearest.price <= NEARLY * cheapest.price else cheapest
    return cheapest


def _judge(entries: list[Entry], chosen: Entry, goal: Goal) -> None:
    """Write the verdicts of those that were tried."""
    for entry in entries:
        if entry is chosen:
            entry.verdict = "chosen"
        elif entry.measured is not None and not entry.measured.error <= goal.bias:
            entry.verdict = f"{TOO_BIASED} the allowed {goal.bias:g}"
        elif entry.measured is not None:
            entry.verdict = "slower" if entry.price >= chosen.price else "faster, but biased, and by less than twice"
        elif math.isnan(entry.price):
            entry.price = entry.floor


def _choice(entries: list[Entry], chosen: Entry, known: Situation, goal: Goal, seconds: float) -> Choice:
    """Put the answer together."""
    setting, found = chosen.setting, chosen.measured
    assert setting is not None and found is not None
    ranked = sorted(entries, key=lambda entry: (entry is not chosen, entry.measured is None, entry.price))
    table = pd.DataFrame([entry.row() for entry in ranked], columns=COLUMNS)
    table.attrs["price"] = goal.unit
    rivals = [entry for entry in ranked[1:] if entry.measured is not None]
    beside = f"; {rivals[0].candidate.name} {rivals[0].price:.2g}" if rivals else "; no rival could be faster"
    guarantee = "exact" if chosen.exact else f"biased, by up to about {found.error:.2g} posterior sd"
    sentence = f"{chosen.candidate.name} ({guarantee}): {goal.unit} about {chosen.price:.2g}{beside}"
    fit = known.fit
    attrs = {
        "setup_mode_seconds": fit.seconds if fit else 0.0,
        "setup_mode_passes": fit.passes if fit else 0,
        "setup_design_seconds": seconds - (fit.seconds if fit else 0.0),
        "chosen": sentence,
        "choice": table.to_json(orient="records"),
    }
    low, high = PILOT_TUNE
    tune = int(np.clip(10.0 * found.memory, low, high))
    name = chosen.candidate.name
    return Choice(setting.target, setting.sampler, found.starts, tune, table, sentence, attrs, name)
