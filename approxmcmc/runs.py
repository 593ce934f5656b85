"""One run, from its settings to its trace.

`sample` and `resume` both end here. A resumed run is set up like a new one, from the same starting points; then its
chains load their states from the checkpoint.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.audits.policy import FEWEST, audit_draws, time_for_draws
from approxmcmc.checkpoints.run_file import RunFile, described, plain, refuse_another_run
from approxmcmc.checkpoints.tables import columns_of
from approxmcmc.contracts import AnySampler, NamedDraws, SamplingResult, Target, Variables, WholeRun, WholeSampler
from approxmcmc.contracts.records import ENOUGH_AUDITS
from approxmcmc.diagnostics.convergence import LEAST_ESS, chains_agree, quality, smallest_ess
from approxmcmc.diagnostics.diagnose import attributes, findings, report
from approxmcmc.diagnostics.latents import with_latents
from approxmcmc.diagnostics.modes import starts_apart
from approxmcmc.engine.compiler.compilations import compiled_so_far
from approxmcmc.engine.compiler.identity import known_content
from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.engine.messages import tell
from approxmcmc.engine.streams import chain_seeds
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.any_model import in_terms_of
from approxmcmc.output.datatree import build_trace, named_trace
from approxmcmc.output.returned import with_deterministics
from approxmcmc.sampling.assembly import Settings, assemble
from approxmcmc.sampling.driver import run
from approxmcmc.sampling.goals import (
    KEPT_PER_EFFECTIVE,
    EffectiveDraws,
    FixedDraws,
    Goals,
    ThinnedDraws,
    affordable_thinning,
    most_thinning,
)
from approxmcmc.sampling.progress import progress, stage
from approxmcmc.sampling.recorder import Snapshot

TUNE = 1000  # steps of a chain if the user gives no number


class RunPlan(NamedTuple):
    """A planned run: the target in the form that its sampler needs, and all settings.

    `content` is the hash of the target, computed once because it takes seconds on large data; "" if it is unknown.
    `attrs`: the attributes of the trace about the choice of the sampler, empty if the user chose it. `compiled_before`:
    seconds that this process had spent compiling before the run. `complete` adds to a finished trace what the model
    returns besides the target's variables, before the trace is written to a checkpoint. `restarts`: how often each
    chain of another library was started anew, see `chain_seeds`.
    """

    target: Target
    sampler: Any
    settings: Settings
    content: str
    initvals: Any = None
    attrs: Mapping[str, Any] = {}
    compiled_before: float = 0.0
    complete: Callable[[xr.DataTree], xr.DataTree] = lambda trace: trace
    restarts: Sequence[int] = ()


def tuning_steps(sampler: AnySampler, target: Target) -> int:
    """Return the number of tuning steps if the user gave none."""
    return sampler.tuning_steps(target) if isinstance(sampler, WholeSampler) else TUNE


def make_plan(
    target: Target, sampler: Any, settings: Settings, initvals: Any, run_file: RunFile | None, *, say: bool
) -> RunPlan:
    """Return the plan of a run; if `sampler` is None, choose one, or rebuild the choice stored in the checkpoint.

    What is chosen or derived here is written into `run_file.made`. With `say`, the choice is logged.
    """
    if sampler is not None:
        if run_file:
            run_file.made |= {"tune": settings.tune, "candidate": None}
        # The hash raises if the model's data have changed: here, before any work.
        content = run_file.asked["target"]["content"] if run_file else _content(target, say=say)
        return RunPlan(target, sampler, settings, content, initvals)
    if run_file and run_file.begun:
        return _as_chosen(target, settings, run_file)
    from approxmcmc.design.choice import choose_sampler
    from approxmcmc.design.modes import started_elsewhere

    goal = "time_limit" if settings.target_ess is None else "target_ess"  # with both, the limit may only end the run
    wishes = {name: getattr(settings, name) for name in (goal, "max_bias", "chains")}
    steps = None if settings.draws is None or settings.target_ess else settings.draws * settings.thin
    stage("choosing a sampler")
    choice = choose_sampler(target, random_seed=_first(settings.seed), draws=steps, **wishes)
    if say:
        tell("%s", choice.sentence)
    settings = settings._replace(tune=choice.tune if settings.tune is None else settings.tune)
    content = _content(choice.target, say=say)
    starts = choice.initvals if initvals is None else initvals
    attrs = choice.attrs if initvals is None else {**choice.attrs, **started_elsewhere(choice.attrs)}
    if run_file:
        run_file.made |= {"tune": settings.tune, "candidate": choice.name, "attrs": plain(attrs)}
        run_file.made |= {"sampler": plain(choice.sampler.to_dict()), "target": described(choice.target)}
    return RunPlan(choice.target, choice.sampler, settings, content, starts, attrs)


def _content(target: Target, *, say: bool) -> str:
    """Return the hash of the target for its trace; "" if it cannot be known, which is logged with `say`."""
    content = known_content(target)
    if say and not content:
        tell(
            "%r: its functions refer to objects whose changes cannot be detected, so target_content_hash of the trace "
            'is ""; a checkpoint or a study would refuse this target',
            target,
        )
    return content


def _as_chosen(target: Target, settings: Settings, run_file: RunFile) -> RunPlan:
    """Return the plan with the sampler that was chosen when the run started, rebuilt without trials.

    Raises InvalidInputError if the rebuilt sampler or target differs from the stored one.
    """
    from approxmcmc.design.choice import made_again

    stored = run_file.made
    setting = made_again(target, stored["candidate"], random_seed=_first(settings.seed))
    sampler: Any = setting.sampler
    form = described(setting.target)
    now = {"sampler": sampler.to_dict(), "target": form}
    refuse_another_run(run_file.path, {name: stored[name] for name in now}, now)
    settings = settings._replace(tune=stored["tune"])
    return RunPlan(setting.target, sampler, settings, form["content"], attrs=stored["attrs"])


def _first(seed: Any) -> int:
    """Return the seed for the trials of `choose_sampler`: that of the trace, or the first if each chain has one."""
    return int(seed if isinstance(seed, int) else seed[0])


class Drawn(NamedTuple):
    """The chains of a run, before they become a trace.

    `as_trace` makes the trace with the attributes that it is given. `starts` (chains, dim) and `draws` (chains, draws,
    dim) are flat vectors. `attrs` are the attributes that only this kind of sampler has. `snapshot` is the last one of
    the chains, None if the run cannot be stored as finished.
    """

    as_trace: Callable[[Mapping[str, Any]], xr.DataTree]
    starts: np.ndarray
    draws: np.ndarray
    attrs: Mapping[str, Any]
    snapshot: Snapshot | None


def carry_out(plan: RunPlan, run_file: RunFile | None, *, cores: int, progressbar: bool) -> tuple[xr.DataTree, str]:
    """Run the chains, resuming from the file if it has states; return the trace and the text of its warning, or "".

    Raises what `sample` raises.
    """
    draw = _whole_chains if isinstance(plan.sampler, WholeSampler) else _chains_of_steps
    drawn = draw(plan, run_file, cores=cores, progressbar=progressbar)
    attrs = {
        **_origin(plan),
        "modes": json.dumps({"proof": plan.target.plain.why_one_mode}),
        "starts_apart": starts_apart(drawn.starts, drawn.draws),
        **plan.attrs,
        **plan.target.setup_attrs,  # cost of the set-up: the search for a mode, an expansion
        **drawn.attrs,
    }
    stage("checking the run")
    trace = drawn.as_trace(attrs)
    block = judge(trace)
    columns = columns_of(trace)
    trace = plan.complete(trace)
    if run_file and drawn.snapshot is not None:
        run_file.close(drawn.snapshot, trace, columns)
    return trace, block


def _chains_of_steps(plan: RunPlan, run_file: RunFile | None, *, cores: int, progressbar: bool) -> Drawn:
    """Run chains of single steps, and audit their draws."""
    target = plan.target
    settings = plan.settings
    initvals = plan.initvals
    tune = settings.tune or 0
    thin = settings.thin
    keep_warmup = not settings.discard_tuned_samples
    begun = run_file.begun if run_file else None
    audit_every = settings.audit_every
    if run_file and begun:
        with run_file.reading():
            audit_every, initvals = run_file.start()

    stage("setting up the chains")
    assembled = assemble(
        target,
        plan.sampler,
        seed=settings.seed,
        chains=settings.chains,
        tune=tune,
        audit_every=audit_every,
        initvals=initvals,
    )
    program = assembled.program
    running = assembled.chains
    if run_file and not begun:
        # A rate that "auto" found by the clock must not change when the run resumes.
        found_rate = program.attrs.get("audit_every") or audit_every
        run_file.made |= {"starts": assembled.points.tolist(), "audit_every": found_rate}

    weighted = "weight" in program.value_names
    goals = _goals(settings, target.variables, plan.attrs, weighted=weighted)
    began = limit_clock() - (begun.seconds if begun else 0.0)
    total = settings.chains * (tune + thin * goals.expected[0])
    checkpoints = run_file.checkpoints() if run_file else None
    with progress(
        total,
        show=progressbar,
        label=f"sampling {settings.chains} chains",
        time_limit=settings.time_limit,
        tune=settings.chains * tune,
        quality=None if weighted else quality(target.variables),
    ) as bar:
        try:
            result = run(
                program,
                running,
                dim=target.variables.size,
                draws=goals,
                tune=tune,
                thin=thin,
                cores=cores,
                time_limit=time_for_draws(settings.time_limit, running),
                keep_warmup=keep_warmup,
                progress=bar,
                begun=begun,
                checkpoints=checkpoints,
            )
        except InvalidInputError as error:
            if begun is None or run_file is None:
                raise
            raise InvalidInputError(f"{run_file.path}: {error}") from error
    stage("auditing decisions")
    deadline = None if settings.time_limit is None else began + settings.time_limit
    goal_attrs = goals.found(result.draws)
    fewest = ENOUGH_AUDITS if plan.attrs else FEWEST
    result = audit_draws(
        result,
        running,
        assembled.streams[0].audit,
        tune=tune,
        thin=result.attrs["thin"],
        deadline=deadline,
        fewest=fewest,
    )
    if not target.reads_rows:
        result = _without_rows(result)
    attrs = {
        "setup_compile_seconds": compiled_so_far().seconds - plan.compiled_before,
        "setup_start_seconds": assembled.start_seconds,
        "setup_likelihood_evaluations": assembled.evaluations * target.n_obs
        + sum(chain.start_evaluations for chain in running),
        **goal_attrs,
        **({"checkpoints": checkpoints.written, "checkpoint_seconds": checkpoints.seconds} if checkpoints else {}),
        **result.attrs,  # Gibbs replaces n_obs by the terms of one decision
    }

    def as_trace(attrs: Mapping[str, Any]) -> xr.DataTree:
        return build_trace(
            result._replace(attrs=attrs),
            variables=target.variables,
            observed_data=target.observed_data,
            constant_data=target.constant_data,
            keep_warmup=keep_warmup,
            settings=plan.sampler.to_dict(),
        )

    return Drawn(as_trace, assembled.points, result.draws, attrs, checkpoints.last if checkpoints else None)


def _whole_chains(plan: RunPlan, run_file: RunFile | None, *, cores: int, progressbar: bool) -> Drawn:
    """Run a sampler that draws all chains by itself; its checkpoint only holds the trace of a finished run."""
    target = plan.target
    sampler = plan.sampler
    settings = plan.settings
    if run_file:
        if run_file.begun:
            tell("%s: %r cannot resume a run, so the run starts again and repeats its draws", run_file.path, sampler)
        run_file.write(Snapshot(None, {}, 0.0, "", []))
    if not sampler.continues(target):
        settings = settings._replace(enough=None)
    shapes = Variables(dict(target.variables.shapes))
    goals = _goals(settings, shapes, plan.attrs, weighted=False)
    asked = WholeRun(
        goals=goals,
        tune=settings.tune or 0,
        thin=settings.thin,
        seeds=chain_seeds(settings.seed, settings.chains, plan.restarts),
        cores=cores,
        initvals=plan.initvals,
        time_limit=settings.time_limit,
        progressbar=progressbar,
        first_seeds=chain_seeds(settings.seed, settings.chains),
        restarted=[chain for chain, count in enumerate(plan.restarts) if count],
    )
    drawn = sampler.run(target, asked)
    keep_warmup = not settings.discard_tuned_samples

    def as_trace(attrs: Mapping[str, Any]) -> xr.DataTree:
        return named_trace(
            drawn.posterior,
            drawn.stats,
            variables=drawn.variables,
            tuning_totals=drawn.tuning_totals,
            attrs=attrs,
            settings=sampler.to_dict(),
            warmup_posterior=drawn.warmup_posterior if keep_warmup else None,
            warmup_stats=drawn.warmup_stats if keep_warmup else None,
            observed_data=target.observed_data,
            constant_data=target.constant_data,
        )

    stopped = drawn.attrs["stopped"]
    snapshot = None if stopped == "interrupt" else Snapshot(None, {}, 0.0, stopped, [])
    return Drawn(
        as_trace, _first_states(drawn, shapes), drawn.flat, {**goals.found(drawn.flat), **drawn.attrs}, snapshot
    )


def _first_states(drawn: NamedDraws, shapes: Variables) -> np.ndarray:
    """Return the first recorded state of each chain, shape (chains, dim); without a state shape (0, dim).

    Other libraries do not return starts. The state after one step has the names and the scale of the draws.
    """
    tuning = shapes.pack_draws({name: drawn.warmup_posterior[name][:, :1] for name in shapes.shapes})
    states = tuning if tuning.shape[1] else drawn.flat
    return states[:, 0] if states.shape[1] else np.empty((0, states.shape[2]))


def completing(own_target: Any, target: Target) -> Callable[[xr.DataTree], xr.DataTree]:
    """Return the function that completes a trace of `target`: effects, deterministics, and the variables of a formula.

    `own_target` is what the user gave as the model.
    """

    def complete(trace: xr.DataTree) -> xr.DataTree:
        with_deterministics(with_latents(trace, target), target.plain.returned)
        return in_terms_of(own_target, trace)

    return complete


def _origin(plan: RunPlan) -> dict[str, Any]:
    """Return the trace attributes on the seed, the target, and how far the sampled posterior is from the model's."""
    target = plan.target
    distance = plan.target.distance_to_model
    return {
        "n_obs": target.n_obs,
        "n_rows": target.n_rows or target.n_obs,
        "seed": plan.settings.seed,
        "target_content_hash": plan.content,
        "why_not_invariant": plan.sampler.why_not_invariant(target),
        "distance_to_model": math.nan if distance is None else distance,
    }


def _without_rows(result: SamplingResult) -> SamplingResult:
    """Return the result with ``datapoints_touched`` set to 0: a target without rows evaluates terms, but no data."""

    def untouched(stats: Any) -> Any:
        return stats and {**stats, "datapoints_touched": np.zeros_like(stats["datapoints_touched"])}

    return result._replace(
        stats=untouched(result.stats),
        warmup_stats=untouched(result.warmup_stats),
        tuning_totals=untouched(result.tuning_totals),
    )


def judge(trace: xr.DataTree) -> str:
    """Store the problems of a run in its trace; return the text of the warning, "" without problems."""
    all_findings = findings(trace)
    trace["posterior"].attrs.update(attributes(all_findings))
    return report(all_findings)


def _goals(settings: Settings, variables: Variables, chosen: Mapping[str, Any], *, weighted: bool) -> Goals:
    """Return the goals that say when chains stop: after `draws` each, thinned until they suffice, or at `target_ess`.

    The ESS is the smallest over `variables`. `chosen` holds the trace attributes about the choice of the sampler, with
    the cost of a step; with `weighted` draws a `target_ess` raises IncompatibleError.
    """
    if settings.target_ess is None:
        assert settings.draws is not None
        if settings.enough is not None:
            enough = max(settings.enough, LEAST_ESS * settings.chains)
            steps = settings.draws * settings.thin
            work = chosen.get("counted_seconds_per_step", math.inf), steps * settings.chains
            measures = smallest_ess(variables, settings.draws), chains_agree(variables)
            return ThinnedDraws(settings.draws, enough, *measures, most_thinning(*work), affordable_thinning(*work))
        return FixedDraws(settings.draws, settings.every)
    if weighted:
        raise IncompatibleError(
            "sample: target_ess counts draws of equal weight, and this sampler weights its draws; give draws= "
            "or time_limit="
        )
    chains = settings.chains
    target_ess = settings.target_ess
    measure = smallest_ess(variables, KEPT_PER_EFFECTIVE * target_ess / chains)
    most = math.inf if settings.draws is None else settings.draws
    if settings.draws is None and settings.time_limit is None:
        most = chosen.get("most_draws", math.inf)  # chains in modes apart never have many effective draws
    return EffectiveDraws(target_ess, most, chains=chains, dim=variables.size, smallest_ess=measure)
