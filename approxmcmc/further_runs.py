"""Further runs after failed checks, if the user named no sampler: a run should end in an answer, not in a warning.

The first run is the one that `choose_sampler` plans. If it passes its checks, nothing else happens. Otherwise the first
step of this list that applies changes the plan, and the chains run again, until a run passes or no step applies:

1. `in_other_form`: NUTS samples effects with an unknown scale as location + scale z.
2. `start_elsewhere`: chains of NUTS that hardly moved, or stayed in a place of negligible mass, start at new points,
   by themselves. No start is taken from where other chains are.
3. `with_smaller_steps`: NUTS with a higher target_accept; the first step if divergences are the only problem.
4. `with_longer_tuning`: NUTS with four times the tuning steps.
5. `by_next_plan`: the next exact candidate of the choice.

Chains that stay in different places, none of negligible mass, are in different modes. No step removes a mode, so no
further run is made, and the warning names the chains.

Further runs begin while they have together made fewer than `SHARE` times the evaluations of the first one, so the
draws are a function of the seed. Under a `time_limit` they get the seconds that are left. The run with the fewest
problems is kept. The trace attribute ``further_runs`` lists all runs, and the places of their chains that the kept run
has not reached (`diagnostics.further_runs`).

`whole_chains.by_nutpie` starts all chains again within a run if one does not move at the end of tuning, also if the
user named NUTS. A further run takes the adaptation that this led to, and does not search it again.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target, pymc_model_of
from approxmcmc.design.branch_and_bound import NOT_TRIED
from approxmcmc.design.choice import made_again
from approxmcmc.diagnostics.convergence import drawn
from approxmcmc.diagnostics.further_runs import ATTRIBUTE, depths_of_places, negligible_depth, places_not_reached
from approxmcmc.diagnostics.health import HARDLY_ANY, share_of_moves
from approxmcmc.diagnostics.modes import places_of_chains
from approxmcmc.engine.messages import tell
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.runs import RunPlan, carry_out, judge, tuning_steps
from approxmcmc.whole_chains.settings import NUTS

SHARE = 3.0  # largest number of evaluations of terms, in multiples of those of the first run
NEW_STARTS = "new starts"
MOST_STARTS = 3  # runs with new starts; of chains that are each lost with probability 1/4, one in 256 is left
SMALLER_STEPS = 0.98  # target_accept; that of the choice is .9
LONGER_TUNING = 4
# A candidate is run next if its estimated seconds are at most so many times those of the first, or so many seconds.
NEXT_COSTS = 10.0
NEXT_SECONDS = 10.0
LEAST_SECONDS = 1.0  # shortest time limit that is worth a further run
FEW = 0.1  # effective draws for each draw, below which the sampler is the reason for few effective draws
MENDABLE = {"R-hat", "bulk ESS", "tail ESS", "movement", "divergences"}  # checks
WORK = ("likelihood_evaluations", "gradient_evaluations")  # records, the first that a trace has


class Attempt(NamedTuple):
    """A finished run: what it changed, in words, its plan and its trace; or the error that it raised, and no trace."""

    change: str
    plan: RunPlan
    trace: xr.DataTree | None
    error: str = ""

    @property
    def posterior(self) -> xr.Dataset:
        """The draws, with the attributes of the run."""
        assert self.trace is not None
        return self.trace["posterior"].to_dataset()

    @property
    def failed_checks(self) -> list[dict[str, Any]]:
        """The rows of `diagnose` of the failed checks."""
        return list(json.loads(self.posterior.attrs["diagnosis"]))

    @property
    def to_mend(self) -> set[str]:
        """The failed checks for which another run may help.

        Too few effective draws are not among them if the user asked for few draws.
        """
        sizes = self.posterior.sizes
        enough = FEW * sizes["chain"] * sizes["draw"]
        names = {row["check"] for row in self.failed_checks}
        of_few_draws = {row["check"] for row in self.failed_checks if "ESS" in row["check"] and row["value"] >= enough}
        return (MENDABLE & names) - of_few_draws

    @property
    def seconds(self) -> float:
        """Seconds of sampling."""
        return 0.0 if self.trace is None else float(self.posterior.attrs["sampling_time"])

    @property
    def evaluations(self) -> float:
        """Evaluations of terms, tuning included; draws if the trace counts no evaluations."""
        if self.trace is None:
            return 0.0
        stats = self.trace["sample_stats"]
        name = next((name for name in WORK if name in stats), None)
        if name is None:
            return float(stats.sizes["chain"] * stats.sizes["draw"])
        return float(stats[name].sum()) + float(np.sum(stats.attrs.get(f"tuning_{name}", 0.0)))

    @property
    def severity(self) -> tuple[float, float, int, float, float]:
        """Rank among runs, lower is better: chains that do not move, failures, failed checks, R-hat, divergences."""
        if self.trace is None:
            return math.inf, 0.0, 0, 0.0, 0.0
        failures = sum(row["verdict"] == "failure" for row in self.failed_checks)
        values = {row["check"]: row.get("value", 0.0) for row in self.failed_checks}
        figures = values.get("R-hat", 1.0), values.get("divergences", 0.0)
        return float("movement" in values), failures, len(self.failed_checks), *figures


class Change(NamedTuple):
    """The next step: what it changes, in words, and the changed plan."""

    sentence: str
    plan: RunPlan


Run = Callable[[RunPlan], tuple[xr.DataTree, str]]


def run_until_checks_pass(
    plan: RunPlan, target: Target, *, starts_given: bool, cores: int, progressbar: bool
) -> tuple[xr.DataTree, str]:
    """Run a plan that the library chose, and further ones while checks fail; return the kept trace and its warning.

    `target` is the user's; `starts_given` says whether the user gave initvals.
    """

    def run(plan: RunPlan) -> tuple[xr.DataTree, str]:
        return carry_out(plan._replace(complete=lambda trace: trace), None, cores=cores, progressbar=progressbar)

    trace, block = mended(plan, target, run, starts_given=starts_given, say=progressbar)
    return plan.complete(trace), block


def mended(plan: RunPlan, target: Target, run: Run, *, starts_given: bool, say: bool) -> tuple[xr.DataTree, str]:
    """Return the kept trace, not completed, and its warning; see `run_until_checks_pass`."""
    trace, block = run(plan)
    last = Attempt("as chosen", plan, trace)
    attempts = [last]
    while may_run_again(attempts):
        within = last._replace(plan=within_the_limit(last.plan, attempts))
        change = next_change(within, target, [attempt.change for attempt in attempts], starts_given=starts_given)
        if change is None:
            break
        if say:
            tell("%s: the chains run again, %s", ", ".join(sorted(last.to_mend)), change.sentence)
        try:
            trace, _ = run(change.plan)
        except ApproxMCMCError as error:  # such as no start with a finite density: the runs made are kept
            attempts.append(Attempt(change.sentence, change.plan, None, str(error).partition("\n")[0]))
            continue
        last = Attempt(change.sentence, change.plan, trace)
        attempts.append(last)
    if len(attempts) == 1:
        return trace, block
    kept = min(attempts, key=lambda attempt: attempt.severity)
    assert kept.trace is not None
    others = [attempt for attempt in attempts if attempt is not kept]
    for group in ("posterior", "sample_stats"):
        kept.trace[group].attrs[ATTRIBUTE] = json.dumps([_record(attempt, kept) for attempt in attempts])
        kept.trace[group].attrs["setup_further_seconds"] = sum(attempt.seconds for attempt in others)
        kept.trace[group].attrs["setup_further_evaluations"] = sum(attempt.evaluations for attempt in others)
    return kept.trace, judge(kept.trace)


def may_run_again(attempts: list[Attempt]) -> bool:
    """Return whether there is work and time for another run, and the last one was not stopped."""
    first, *others = attempts
    last = next(attempt for attempt in reversed(attempts) if attempt.trace is not None)
    if last.posterior.attrs["stopped"] in ("interrupt", "failure"):
        return False
    limit = within_the_limit(first.plan, attempts).settings.time_limit
    spent = sum(attempt.evaluations for attempt in others)
    return spent < SHARE * first.evaluations and (limit is None or limit > LEAST_SECONDS)


def within_the_limit(plan: RunPlan, attempts: list[Attempt]) -> RunPlan:
    """Return the plan with the seconds that the runs have left of the time limit, if there is one."""
    limit = attempts[0].plan.settings.time_limit
    if limit is None:
        return plan
    left = limit - sum(attempt.seconds for attempt in attempts)
    return plan._replace(settings=plan.settings._replace(time_limit=left))


def next_change(last: Attempt, target: Target, changes: list[str], *, starts_given: bool) -> Change | None:
    """Return the first step that applies after a run, None if no step applies; `changes` are those made before."""
    if not last.to_mend:
        return None
    lost = lost_chains(last)
    if not lost and "R-hat" in last.to_mend and places_of_chains(drawn(last.posterior)):
        return None  # modes: no step removes one

    def with_new_starts(last: Attempt) -> Change | None:
        restarted = sum(change.startswith(NEW_STARTS) for change in changes)
        may_start = lost and not starts_given and restarted < MOST_STARTS
        return start_elsewhere(last, lost, restarted + 1) if may_start else None

    steps: list[Callable[[Attempt], Change | None]]
    steps = [in_other_form, with_new_starts, with_smaller_steps, with_longer_tuning]
    if last.to_mend == {"divergences"}:
        steps = [with_smaller_steps, in_other_form]
    for step in steps:
        change = step(last)
        if change is not None and (change.sentence not in changes or step is with_new_starts):
            return change
    return by_next_plan(last, target, changes)


def lost_chains(attempt: Attempt) -> dict[int, str]:
    """Return the chains that hardly moved, or stayed where the posterior has little mass, with the reason for each."""
    assert attempt.trace is not None
    below = depths_of_places(attempt.trace)
    limit = negligible_depth(len(drawn(attempt.posterior).labels))
    lost = {}
    for chain, share in enumerate(share_of_moves(attempt.posterior)):
        if share < HARDLY_ANY:
            lost[chain] = f"chain {chain} hardly moved"
        elif below[chain] > limit:
            lost[chain] = f"chain {chain} stayed in a place with about e^-{below[chain]:.3g} of the mass"
    return lost


def start_elsewhere(last: Attempt, lost: Mapping[int, str], count: int) -> Change | None:
    """Return the plan with new seeds and starts for the `lost` chains of NUTS; the others keep theirs.

    `count` numbers the new starts of the call, so that none comes twice.
    """
    plan = last.plan
    if not isinstance(plan.sampler, NUTS):
        return None
    chains = plan.settings.chains
    before = plan.restarts or (0,) * chains
    restarts = tuple(count if chain in lost else before[chain] for chain in range(chains))
    adaptation = last.posterior.attrs.get("adaptation") or None
    sampler = dataclasses.replace(plan.sampler, adaptation=adaptation)
    sentence = f"{NEW_STARTS} of chains {sorted(lost)} ({'; '.join(lost.values())})"
    return Change(sentence, plan._replace(sampler=sampler, restarts=restarts))


def in_other_form(last: Attempt) -> Change | None:
    """Return the plan with effects of an unknown scale in their non-centred form; None without NUTS or effects."""
    sampler = last.plan.sampler
    if not isinstance(sampler, NUTS) or sampler.non_centred:
        return None
    from approxmcmc.interop.non_centred import centred_effects

    effects = [variable.name for variable in centred_effects(pymc_model_of(last.plan.target))]
    if not effects:
        return None
    plan = last.plan._replace(sampler=dataclasses.replace(sampler, non_centred=True))
    return Change(f"non-centred effects {', '.join(effects)}", plan)


def with_smaller_steps(last: Attempt) -> Change | None:
    """Return the plan with a higher target_accept; None if no trajectory of NUTS diverged."""
    sampler = last.plan.sampler
    if not isinstance(sampler, NUTS) or "divergences" not in last.to_mend or sampler.target_accept >= SMALLER_STEPS:
        return None
    plan = last.plan._replace(sampler=dataclasses.replace(sampler, target_accept=SMALLER_STEPS))
    return Change(f"target_accept={SMALLER_STEPS}", plan)


def with_longer_tuning(last: Attempt) -> Change | None:
    """Return the plan with more tuning steps of NUTS; None for other samplers."""
    settings = last.plan.settings
    if not isinstance(last.plan.sampler, NUTS) or settings.tune is None:
        return None
    tune = LONGER_TUNING * settings.tune
    sentence = f"{LONGER_TUNING} times the tuning steps"
    return Change(sentence, last.plan._replace(settings=settings._replace(tune=tune)))


def by_next_plan(last: Attempt, target: Target, changes: list[str]) -> Change | None:
    """Return the plan of the cheapest exact candidate that has not run; None if each costs too much."""
    table = json.loads(last.plan.attrs.get("choice", "[]"))
    if not table or table[0]["price"] is None:
        return None
    rivals = [
        row
        for row in table[1:]
        if row["exact"]
        and (row["verdict"] == "slower" or row["verdict"].startswith(NOT_TRIED))
        and row["price"] is not None
        and row["price"] <= max(NEXT_COSTS * table[0]["price"], NEXT_SECONDS)
        and _by(row["candidate"]) not in changes
    ]
    settings = last.plan.settings
    seed = settings.seed if isinstance(settings.seed, int) else settings.seed[0]
    for name in [row["candidate"] for row in sorted(rivals, key=lambda row: row["price"])]:
        try:
            pairing = made_again(target, name, random_seed=int(seed))
        except ApproxMCMCError:  # a candidate that was not tried may turn out impossible
            continue
        sentence = f"{name}, because earlier runs failed their checks; first choice: {last.plan.attrs['chosen']}"
        plan = last.plan._replace(
            target=pairing.target,
            sampler=pairing.sampler,
            settings=settings._replace(tune=tuning_steps(pairing.sampler, pairing.target)),
            initvals=None,
            attrs={**last.plan.attrs, "chosen": sentence},
            restarts=(),
        )
        return Change(_by(name), plan)
    return None


def _by(name: str) -> str:
    return f"the next plan, {name}"


def _record(attempt: Attempt, kept: Attempt) -> dict[str, Any]:
    """Return a run as JSON can hold it."""
    if attempt.trace is None:
        return {"change": attempt.change, "error": attempt.error, "problems": "", "kept": False}
    assert kept.trace is not None
    places = []
    if attempt is not kept:
        comparable = _density_of(attempt.plan) == _density_of(kept.plan)
        places = places_not_reached(attempt.trace, kept.trace, comparable=comparable)
    return {
        "change": attempt.change,
        "problems": attempt.posterior.attrs["problems"],
        "kept": attempt is kept,
        "sampler": attempt.plan.sampler.to_dict(),
        "restarts": list(attempt.plan.restarts),
        "evaluations": attempt.evaluations,
        "seconds": attempt.seconds,
        "not_reached": places,
    }


def _density_of(plan: RunPlan) -> tuple[Any, ...]:
    """Return what the recorded log density depends on: target, sampler and the form of effects."""
    return id(plan.target), type(plan.sampler), getattr(plan.sampler, "non_centred", False)
