"""Trials of candidates: which are tried, for how long, and which is the best so far.

A trial is short while a rival could be better, by its floor. It is resumed after all candidates were tried, if its
candidate may still be the best.
"""

import functools
import math
import time
import warnings

from approxmcmc.contracts.records import ENOUGH_AUDITS
from approxmcmc.design.candidates import Candidate
from approxmcmc.design.floors import seconds_without_light_rows
from approxmcmc.design.prices import Entry, Wanted
from approxmcmc.design.survey import FAILURES, Situation
from approxmcmc.design.trial import ENOUGH, Measured, Trial
from approxmcmc.engine.messages import detail
from approxmcmc.errors import ApproxMCMCError, SamplingWarning
from approxmcmc.sampling.assembly import start_law

# How the verdicts begin on a candidate that was not tried, and on one that was stopped before it was measured.
NOT_TRIED = "not tried"
GIVEN_UP = "given up"
PILOT_TUNE = (50, 1000)  # limits of the number of tuning steps of the run
NEARLY = 2.0  # an exact sampler may cost this many times the fastest
# Seconds: if an exact sampler needs less, a biased one, with its trial, audits and compilation, saves nothing.
WORTHWHILE = 2.0
SHARE_OF_TRIALS = 0.15  # of the budget
SHARE_OF_TRIAL = 0.05  # of the least seconds that the candidate, the best so far, or a rival by its floor needs
# negligible time, in seconds: for one trial, for all
LEAST_TRIAL = 0.25
LEAST_FOR_TRIALS = 1.0
# Least effective draws of a reliable trial. On a horseshoe of 63 parameters a walk seemed to give 4 effective draws in
# 6200 cheap steps, and would have been preferred to trajectories, whose trial gave 60; its run had R-hat 1.4.
TELLING = 15.0
# Factor by which a short trial may err: trials of 200 steps of influential rows on MNIST found .12, .40 and .98
# effective draws per step.
OFF_BY = 4.0


def enter(candidate: Candidate, known: Situation, goal: Wanted) -> Entry:
    """Return the entry of a candidate, with its lower bound of cost, and the reason if it does not fit the target."""
    return Entry(candidate, *floor_of(candidate, known, goal), candidate.why_not(known))


def look_again(entry: Entry, known: Situation, goal: Wanted) -> None:
    """Update the floor and the verdict of a candidate from all that is known now."""
    if entry.verdict:
        return
    entry.verdict = entry.candidate.why_not(known)
    if entry.verdict:
        entry.measured = entry.unfinished = None
    elif entry.measured is None or entry.candidate.is_counted:
        entry.floor, entry.has_set_up = floor_of(entry.candidate, known, goal)
        if entry.measured is not None:
            count(entry, known, goal)


def floor_of(candidate: Candidate, known: Situation, goal: Wanted) -> tuple[float, bool]:
    """Return the lower bound of cost, with trial and compilation, and whether the set-up may take much longer.

    The bound falls once another candidate has made a part that this one needs.
    """
    floor = candidate.floor(known)
    trial = 0.0 if candidate.is_counted else floor.trial
    set_up = floor.set_up + trial + known.seconds_of(candidate.law)
    set_up += known.seconds_to_compile(candidate.compiles(known)) + audits_of(candidate, known)
    return goal.price(set_up, floor.per_draw, floor.per_step), not floor.foretold


def audits_of(candidate: Candidate, known: Situation) -> float:
    """Return the seconds of the 50 audits that a biased run needs to estimate its bias; 0 for exact samplers."""
    return 0.0 if candidate.exact else known.audits.seconds(ENOUGH_AUDITS)


def spent(entries: list[Entry], best: Entry | None) -> float:
    """Return the seconds of counted work that trials have taken, except the set-up of the best candidate."""
    return sum(entry.trial + (entry.set_up if entry is not best else 0.0) for entry in entries)


def why_not_tried(entry: Entry, best: Entry | None, goal: Wanted, spent: float) -> str:
    """Return why a candidate need not be tried, or ""."""
    if not entry.exact and goal.max_bias == 0.0:
        return f"{NOT_TRIED}: it is biased, and only exact samplers are allowed"
    if best is None or best.measured is None:
        return ""
    # With fewer effective draws a trial is unreliable: in a funnel a trial of 6000 steps had 7 of them, and predicted
    # 400 in .3 s, far from the truth.
    if best.price < goal.near and best.measured.effective >= ENOUGH:
        return f"{NOT_TRIED}: {best.candidate.name} reaches the goal in {best.price:.1g} s"
    prefers = entry.exact != best.exact
    if prefers and best.exact and goal.time_limit is None and best.price < WORTHWHILE:
        return f"{NOT_TRIED}: it is biased, and {best.candidate.name} reaches the goal in {best.price:.1g} s"
    if entry.floor * (1.0 if not prefers else NEARLY if best.exact else 1.0 / NEARLY) >= best.price:
        return f"{NOT_TRIED}: it cannot cost less than {entry.floor:.2g}"
    # A trial without set-up takes SHARE_OF_TRIAL of the best price, and a predictable set-up is in the floor.
    budget = goal.seconds(best.measured.seconds_per_draw, best.measured.seconds_per_step)
    if entry.has_set_up and spent > max(SHARE_OF_TRIALS * budget, LEAST_FOR_TRIALS):
        return f"{NOT_TRIED}: trials have used their share of the budget"
    return ""


def count(entry: Entry, known: Situation, goal: Wanted) -> None:
    """Make a candidate whose cost is counted without a trial, or record why it is not possible."""
    try:
        entry.setting = entry.candidate.make(known)
    except FAILURES as error:
        entry.verdict = why_not_possible(error)
        entry.failure = error
        return
    floor = entry.candidate.floor(known)
    entry.price = entry.floor
    entry.set_up = floor.set_up
    entry.measured = Measured(floor.per_draw, math.nan, 1.0, 0.0, floor.set_up, None, 1.0, math.inf)


def begin(entry: Entry, known: Situation, goal: Wanted, best: Entry | None, seed: int) -> Trial | None:
    """Make the candidate, burn its chains in, and return the trial.

    None if the candidate failed or is much too slow; its verdict then says so.
    """
    candidate = entry.candidate

    def hopeless(seconds_per_step: float) -> bool:
        return best is not None and goal.price(0.0, seconds_per_step, seconds_per_step) > NEARLY * best.price

    detail("trying %s", candidate.name)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            # Ignore the warning of too many influential rows: their cost shows that.
            warnings.simplefilter("ignore", SamplingWarning)
            entry.set_up = candidate.floor(known).set_up
            parts = candidate.compiles(known)
            entry.setting = candidate.make(known)
            known.compiled.update(parts)
            entry.set_up_seconds = time.perf_counter() - began
            law = entry.setting.law
            trial = Trial(
                entry.setting,
                law.draw if law else start_law(entry.setting.target, entry.setting.sampler),
                chains=known.chains,
                random_seed=seed,
                price=functools.partial(candidate.seconds, known),
                audits=known.audits,
                hopeless=hopeless,
            )
    except FAILURES as error:
        entry.verdict = why_not_possible(error)
        entry.failure = error
        return None
    entry.trial_seconds = trial.clock_seconds
    entry.trial = trial.spent
    if trial.gave_up:
        entry.verdict = f"{GIVEN_UP} after a few steps: each takes too long"
        return None
    return trial


def why_not_possible(error: Exception) -> str:
    """Return the verdict of a candidate whose set-up or trial failed."""
    reason = str(error) if isinstance(error, ApproxMCMCError) else f"{type(error).__name__}: {error}"
    return f"not possible: {reason}"


def measure(entry: Entry, trial: Trial, known: Situation, goal: Wanted, best: Entry | None, hope: float) -> None:
    """Continue a trial while it can change the choice, and write the results to `entry`.

    `best` is the best candidate so far, `hope` the lowest cost that a rival may have. A trial that `hope` may have cut
    short is kept, and is resumed if no rival was better. Under a time limit costs are risks: every trial has its share
    of the limit, and none is cut.
    """
    hope = math.inf if goal.time_limit else hope

    def worth(seconds_per_draw: float) -> float:
        fastest = min(seconds_per_draw, best.measured.seconds_per_draw if best and best.measured else math.inf)
        return max(SHARE_OF_TRIAL * min(goal.seconds(fastest, 0.0), hope), LEAST_TRIAL)

    try:
        found = trial.measure(worth, audited=not entry.exact)
    except FAILURES as error:
        entry.verdict = why_not_possible(error)
        entry.failure = error
        entry.measured = None
        entry.unfinished = None
        return
    entry.trial_seconds = entry.trial_seconds + trial.clock_seconds
    entry.trial = trial.spent
    left = audits_of(entry.candidate, known) + known.chains * tuning_steps(found) * found.seconds_per_step
    price = goal.price(left, found.seconds_per_draw, found.seconds_per_step, found.error)
    entry.measured = found
    entry.price = price
    if entry.candidate.law == "pilot" and found.effective >= TELLING:
        known.trajectories.append(found.seconds_per_step)
    if "expansion" in entry.candidate.parts and found.effective >= TELLING:
        known.transitions.append(
            seconds_without_light_rows(known, found.seconds_per_step, found.data_per_step) / found.ess_per_step
        )
    entry.unfinished = trial if math.isfinite(hope) and found.effective < ENOUGH else None


def tuning_steps(found: Measured) -> int:
    """Return the tuning steps of a run from the trial's states: ten autocorrelation times, from 50 to 1000."""
    low, high = PILOT_TUNE
    return min(max(int(10.0 * found.memory), low), high)


def may_be_spared(entry: Entry, best: Entry) -> bool:
    """Return whether a longer trial of `best` could show that the candidate of `entry` cannot be cheaper."""
    return OFF_BY * entry.floor >= best.price


def contenders(entries: list[Entry], goal: Wanted) -> list[tuple[Entry, Trial]]:
    """Return the unfinished trials of candidates that may still be the best; none if a reliable best has no rival."""
    best = best_of(entries, goal)
    near = OFF_BY * best.price if best else 0.0
    rivals = [entry for entry in entries if entry is not best and entry.measured and entry.price <= near]
    is_told = best is not None and best.measured is not None and best.measured.effective >= TELLING
    if is_told and not rivals:
        return []
    return [(entry, entry.unfinished) for entry in entries if entry.unfinished and entry.price <= near]


def best_of(entries: list[Entry], goal: Wanted) -> Entry | None:
    """Return the cheapest allowed candidate with a cost; an exact one if it is nearly as cheap.

    Candidates with reliable trials come first: chains that hardly move all seem to have the same few effective draws.
    """
    allowed = [entry for entry in entries if entry.measured is not None and entry.measured.error <= goal.max_bias]
    allowed = [entry for entry in allowed if entry.measured and entry.measured.effective >= TELLING] or allowed
    exact = [entry for entry in allowed if entry.exact]
    cheapest = min(allowed, key=lambda entry: entry.price, default=None)
    if exact and cheapest is not None:
        nearest = min(exact, key=lambda entry: entry.price)
        return nearest if nearest.price <= NEARLY * cheapest.price else cheapest
    return cheapest
