"""Branch and bound over candidates: which are tried, for how long, and which is the best so far.

A trial is short while a rival could be better, by its lower bound. It is resumed after all candidates were tried, if
its candidate may still be the best.
"""

import functools
import math
import time
import warnings

from approxmcmc.contracts.records import ENOUGH_AUDITS
from approxmcmc.design.candidates import Candidate
from approxmcmc.design.lower_bounds import seconds_without_light_rows
from approxmcmc.design.prices import CandidateState, SearchGoal
from approxmcmc.design.target_profile import FAILURES, TargetProfile
from approxmcmc.design.trial import ENOUGH, Measured, Trial
from approxmcmc.engine.messages import detail
from approxmcmc.errors import ApproxMCMCError, SamplingWarning
from approxmcmc.sampling.assembly import start_law
from approxmcmc.sampling.progress import stage

# How the verdicts begin on a candidate that was not tried, and on one that was stopped before it was measured.
NOT_TRIED = "not tried"
GIVEN_UP = "given up"
PILOT_TUNE = (50, 1000)  # limits of the number of tuning steps of the run
NEARLY = 2.0  # an exact sampler may cost this many times the fastest
# Seconds: if an exact sampler needs less, a biased one, with its trial, audits and compilation, saves nothing.
WORTHWHILE = 2.0
SHARE_OF_TRIALS = 0.15  # share of the budget that all trials may take
# What one trial may take: a share of the least seconds that the candidate, the best so far, or a rival by its lower
# bound needs.
SHARE_OF_TRIAL = 0.05
# Negligible time, in seconds: for one trial, for all.
LEAST_TRIAL = 0.25
LEAST_FOR_TRIALS = 1.0
# Least effective draws of a reliable trial. On a horseshoe of 63 parameters a walk seemed to give 4 effective draws in
# 6200 cheap steps, and would have been preferred to trajectories, whose trial gave 60; its run had R-hat 1.4.
RELIABLE = 15.0
# Factor by which a short trial may err: trials of 200 steps of influential rows on MNIST found .12, .40 and .98
# effective draws per step.
OFF_BY = 4.0


def initial_state(candidate: Candidate, profile: TargetProfile, goal: SearchGoal) -> CandidateState:
    """Return the state of a candidate before its trial: its lower bound of cost, or why it does not fit the target."""
    return CandidateState(candidate, *lower_bound_of(candidate, profile, goal), candidate.why_not(profile))


def reassess(state: CandidateState, profile: TargetProfile, goal: SearchGoal) -> None:
    """Update the lower bound and the verdict of a candidate from all that is known now."""
    if state.verdict:
        return
    state.verdict = state.candidate.why_not(profile)
    if state.verdict:
        state.measured = state.unfinished = None
    elif state.measured is None or state.candidate.is_counted:
        state.lower_bound, state.has_set_up = lower_bound_of(state.candidate, profile, goal)
        if state.measured is not None:
            count(state, profile, goal)


def lower_bound_of(candidate: Candidate, profile: TargetProfile, goal: SearchGoal) -> tuple[float, bool]:
    """Return the lower bound of cost, with trial and compilation, and whether the set-up may take much longer.

    The bound falls once another candidate has made a part that this one needs.
    """
    lower_bound = candidate.lower_bound(profile)
    trial = 0.0 if candidate.is_counted else lower_bound.trial
    set_up = lower_bound.set_up + trial + profile.seconds_of(candidate.approximation)
    set_up += profile.seconds_to_compile(candidate.compiles(profile)) + audits_of(candidate, profile)
    return goal.price(set_up, lower_bound.per_draw, lower_bound.per_step), not lower_bound.is_predictable


def audits_of(candidate: Candidate, profile: TargetProfile) -> float:
    """Return the seconds of the 50 audits that a biased run needs to estimate its bias; 0 for exact samplers."""
    return 0.0 if candidate.exact else profile.audits.seconds(ENOUGH_AUDITS)


def seconds_of_trials(states: list[CandidateState], best: CandidateState | None) -> float:
    """Return the seconds of counted work that trials have taken, except the set-up of the best candidate."""
    return sum(state.trial + (state.set_up if state is not best else 0.0) for state in states)


def why_not_tried(
    state: CandidateState, best: CandidateState | None, goal: SearchGoal, seconds_of_trials: float
) -> str:
    """Return why a candidate need not be tried, or ""."""
    if not state.exact and goal.max_bias == 0.0:
        return f"{NOT_TRIED}: it is biased, and only exact samplers are allowed"
    if best is None or best.measured is None:
        return ""
    # With fewer effective draws a trial is unreliable: in a funnel a trial of 6000 steps had 7 of them, and predicted
    # 400 in .3 s, far from the truth.
    if best.price < goal.good_enough and best.measured.effective >= ENOUGH:
        return f"{NOT_TRIED}: {best.candidate.name} reaches the goal in {best.price:.1g} s"
    is_biased_rival = best.exact and not state.exact
    is_exact_rival = state.exact and not best.exact
    if is_biased_rival and goal.time_limit is None and best.price < WORTHWHILE:
        return f"{NOT_TRIED}: it is biased, and {best.candidate.name} reaches the goal in {best.price:.1g} s"
    least_price = state.lower_bound
    if is_biased_rival:
        least_price *= NEARLY
    elif is_exact_rival:
        least_price /= NEARLY
    if least_price >= best.price:
        return f"{NOT_TRIED}: it cannot cost less than {state.lower_bound:.2g}"
    # A trial without set-up takes SHARE_OF_TRIAL of the best price, and a predictable set-up is in the lower bound.
    budget = goal.seconds(best.measured.seconds_per_draw, best.measured.seconds_per_step)
    if state.has_set_up and seconds_of_trials > max(SHARE_OF_TRIALS * budget, LEAST_FOR_TRIALS):
        return f"{NOT_TRIED}: trials have used their share of the budget"
    return ""


def count(state: CandidateState, profile: TargetProfile, goal: SearchGoal) -> None:
    """Make a candidate whose cost is counted without a trial, or record why it is not possible."""
    try:
        state.setting = state.candidate.make(profile)
    except FAILURES as error:
        state.verdict = why_not_possible(error)
        state.failure = error
        return
    lower_bound = state.candidate.lower_bound(profile)
    state.price = state.lower_bound
    state.set_up = lower_bound.set_up
    state.measured = Measured(lower_bound.per_draw, math.nan, 1.0, 0.0, lower_bound.set_up, None, 1.0, math.inf)


def begin(
    state: CandidateState, profile: TargetProfile, goal: SearchGoal, best: CandidateState | None, seed: int
) -> Trial | None:
    """Make the candidate, burn its chains in, and return the trial.

    None if the candidate failed or is much too slow; its verdict then says so.
    """
    candidate = state.candidate

    def hopeless(seconds_per_step: float) -> bool:
        return best is not None and goal.price(0.0, seconds_per_step, seconds_per_step) > NEARLY * best.price

    detail("trying %s", candidate.name)
    stage(f"choosing a sampler: trying {candidate.name}")
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            # Ignore the warning of too many influential rows: their cost shows that.
            warnings.simplefilter("ignore", SamplingWarning)
            state.set_up = candidate.lower_bound(profile).set_up
            parts = candidate.compiles(profile)
            state.setting = candidate.make(profile)
            profile.compiled.update(parts)
            state.set_up_seconds = time.perf_counter() - began
            fit = state.setting.fit
            trial = Trial(
                state.setting,
                fit.draw if fit else start_law(state.setting.target, state.setting.sampler),
                chains=profile.chains,
                random_seed=seed,
                price=functools.partial(candidate.seconds, profile),
                audits=profile.audits,
                hopeless=hopeless,
            )
    except FAILURES as error:
        state.verdict = why_not_possible(error)
        state.failure = error
        return None
    state.trial_seconds = trial.clock_seconds
    state.trial = trial.counted_seconds
    if trial.gave_up:
        state.verdict = f"{GIVEN_UP} after a few steps: each takes too long"
        return None
    return trial


def why_not_possible(error: Exception) -> str:
    """Return the verdict of a candidate whose set-up or trial failed."""
    reason = str(error) if isinstance(error, ApproxMCMCError) else f"{type(error).__name__}: {error}"
    return f"not possible: {reason}"


def measure(
    state: CandidateState,
    trial: Trial,
    profile: TargetProfile,
    goal: SearchGoal,
    best: CandidateState | None,
    rival_price: float,
) -> None:
    """Continue a trial while it can change the choice, and write the results to `state`.

    `best` is the best candidate so far, `rival_price` the lowest cost that a rival may have. A trial that it may have
    cut short is kept, and is resumed if no rival was better. Under a time limit costs are risks: every trial has its
    share of the limit, and none is cut.
    """
    rival_price = math.inf if goal.time_limit else rival_price

    def worth(seconds_per_draw: float) -> float:
        fastest = min(seconds_per_draw, best.measured.seconds_per_draw if best and best.measured else math.inf)
        return max(SHARE_OF_TRIAL * min(goal.seconds(fastest, 0.0), rival_price), LEAST_TRIAL)

    try:
        measured = trial.measure(worth, audited=not state.exact)
    except FAILURES as error:
        state.verdict = why_not_possible(error)
        state.failure = error
        state.measured = None
        state.unfinished = None
        return
    state.trial_seconds = state.trial_seconds + trial.clock_seconds
    state.trial = trial.counted_seconds
    left = audits_of(state.candidate, profile) + profile.chains * tuning_steps(measured) * measured.seconds_per_step
    price = goal.price(left, measured.seconds_per_draw, measured.seconds_per_step, measured.error)
    state.measured = measured
    state.price = price
    if state.candidate.approximation == "pilot" and measured.effective >= RELIABLE:
        profile.trajectories.append(measured.seconds_per_step)
    if "expansion" in state.candidate.parts and measured.effective >= RELIABLE:
        profile.transitions.append(
            seconds_without_light_rows(profile, measured.seconds_per_step, measured.data_per_step)
            / measured.ess_per_step
        )
    state.unfinished = trial if math.isfinite(rival_price) and measured.effective < ENOUGH else None


def tuning_steps(measured: Measured) -> int:
    """Return the tuning steps of a run from the trial's states: ten autocorrelation times, from 50 to 1000."""
    low, high = PILOT_TUNE
    return min(max(int(10.0 * measured.memory), low), high)


def may_be_spared(state: CandidateState, best: CandidateState) -> bool:
    """Return whether a longer trial of `best` could show that the candidate of `state` cannot be cheaper."""
    return OFF_BY * state.lower_bound >= best.price


def contenders(states: list[CandidateState], goal: SearchGoal) -> list[tuple[CandidateState, Trial]]:
    """Return the unfinished trials of candidates that may still be the best; none if a reliable best has no rival."""
    best = best_of(states, goal)
    near = OFF_BY * best.price if best else 0.0
    rivals = [state for state in states if state is not best and state.measured and state.price <= near]
    is_reliable = best is not None and best.measured is not None and best.measured.effective >= RELIABLE
    if is_reliable and not rivals:
        return []
    return [(state, state.unfinished) for state in states if state.unfinished and state.price <= near]


def best_of(states: list[CandidateState], goal: SearchGoal) -> CandidateState | None:
    """Return the cheapest allowed candidate with a cost; an exact one if it is nearly as cheap.

    Candidates with reliable trials come first: chains that hardly move all seem to have the same few effective draws.
    """
    allowed = [state for state in states if state.measured is not None and state.measured.error <= goal.max_bias]
    allowed = [state for state in allowed if state.measured and state.measured.effective >= RELIABLE] or allowed
    exact = [state for state in allowed if state.exact]
    cheapest = min(allowed, key=lambda state: state.price, default=None)
    if exact and cheapest is not None:
        nearest = min(exact, key=lambda state: state.price)
        return nearest if nearest.price <= NEARLY * cheapest.price else cheapest
    return cheapest
