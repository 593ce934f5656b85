"""One run, from its settings to its trace.

`sample` and `resume` both end here. A run that goes on is made as at first, from the same starting points, and then its
chains take up what the checkpoint holds: there is no other way to begin one.
"""

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import Sampler, SamplingResult, Target, Variables, WholeRun, WholeSampler
from approxmcmc.contracts.records import ENOUGH_AUDITS
from approxmcmc.diagnostics.convergence import LEAST_ESS
from approxmcmc.diagnostics.diagnose import attributes, findings, report
from approxmcmc.diagnostics.target_ess import chains_agree, smallest_ess
from approxmcmc.engine.compiler.work import compiled_so_far
from approxmcmc.engine.messages import tell
from approxmcmc.engine.streams import chain_seeds
from approxmcmc.errors import IncompatibleError
from approxmcmc.output.book import Book, described, plain, refuse_another_run
from approxmcmc.output.datatree import build_trace, named_trace
from approxmcmc.sampling.assembly import Settings, assemble
from approxmcmc.sampling.audits import FEWEST, audit_draws, time_for_draws
from approxmcmc.sampling.checkpoints import Snapshot
from approxmcmc.sampling.driver import run
from approxmcmc.sampling.goals import KEPT_PER_EFFECTIVE, EffectiveDraws, FixedDraws, Goals, ThinnedDraws, most_thinning
from approxmcmc.sampling.progress import progress

TUNE = 1000  # steps of a chain where the user asks for no number


class RunPlan(NamedTuple):
    """What is run: a target in the form that its sampler needs, all settings known, and what the choice is to tell.

    `content` is the hash of the target: seconds where there are many data, so that it is made once. `compiled_before`:
    seconds that this process had spent compiling when the run was asked for.
    """

    target: Target
    sampler: Any
    settings: Settings
    content: str
    initvals: Any = None
    attrs: Mapping[str, Any] = {}
    compiled_before: float = 0.0


def tuning_steps(sampler: Sampler, target: Target) -> int:
    """Return the tuning steps of a run whose user asked for no number."""
    return sampler.tuning_steps(target) if isinstance(sampler, WholeSampler) else TUNE


def make_plan(
    target: Target, sampler: Any, settings: Settings, initvals: Any, book: Book | None, *, say: bool
) -> RunPlan:
    """Return what is run; for a user who named no sampler, the one that is chosen, or was when the run began."""
    if sampler is not None:
        if book:
            book.made |= {"tune": settings.tune, "candidate": None}
        # A model that cannot be named is refused here, while nothing is lost.
        content = book.asked["target"]["content"] if book else target.content_hash()
        return RunPlan(target, sampler, settings, content, initvals)
    if book and book.begun:
        return _as_chosen(target, settings, book)
    from approxmcmc.design.choice import choose_sampler

    wanted = {name: getattr(settings, name) for name in ("time_limit", "target_ess", "bias", "chains")}
    steps = None if settings.draws is None or settings.target_ess else settings.draws * settings.thin
    choice = choose_sampler(target, random_seed=_first(settings.seed), draws=steps, **wanted)
    if say:
        tell("%s", choice.sentence)
    settings = settings._replace(tune=choice.tune if settings.tune is None else settings.tune)
    form = described(choice.target)
    if book:
        book.made |= {"tune": settings.tune, "candidate": choice.name, "attrs": plain(choice.attrs)}
        book.made |= {"sampler": plain(choice.sampler.to_dict()), "target": form}
    initvals = choice.initvals if initvals is None else initvals
    return RunPlan(choice.target, choice.sampler, settings, form["content"], initvals, choice.attrs)


def _as_chosen(target: Target, settings: Settings, book: Book) -> RunPlan:
    """Return the choice that a run was begun with, made again without trials."""
    from approxmcmc.design.choice import made_again

    made = book.made
    setting = made_again(target, made["candidate"], random_seed=_first(settings.seed))
    sampler: Any = setting.sampler
    form = described(setting.target)
    now = {"sampler": sampler.to_dict(), "target": form}
    refuse_another_run(book.path, {name: made[name] for name in now}, now)
    settings = settings._replace(tune=made["tune"])
    return RunPlan(setting.target, sampler, settings, form["content"], attrs=made["attrs"])


def _first(seed: Any) -> int:
    """Return the seed of the trials: it follows from the one that the trace stores."""
    return int(seed if isinstance(seed, int) else seed[0])


def carry_out(plan: RunPlan, book: Book | None, *, cores: int, progressbar: bool) -> tuple[xr.DataTree, str]:
    """Make the chains of a run, let them go on where its book says, and return the trace and what is wrong with it.

    Raises what `sample` raises.
    """
    if isinstance(plan.sampler, WholeSampler):
        return _carry_out_whole(plan, book, cores=cores, progressbar=progressbar)
    target, sampler, settings, _, initvals, chosen, compiled_before = plan
    tune, thin, keep_warmup = settings.tune or 0, settings.thin, not settings.discard_tuned_samples
    begun = book.begun if book else None
    audit_every = settings.audit_every
    if book and begun:
        audit_every, initvals = book.made["audit_every"], np.array(book.made["starts"])

    made = assemble(
        target,
        sampler,
        seed=settings.seed,
        chains=settings.chains,
        tune=tune,
        audit_every=audit_every,
        initvals=initvals,
    )
    program, running = made.program, made.chains
    if book and not begun:
        # A rate that "auto" has found by the clock must not change when the run goes on.
        found_rate = program.attrs.get("audit_every") or audit_every
        book.made |= {"starts": made.points.tolist(), "audit_every": found_rate}

    goals = _goals(settings, target.variables, chosen, weighted="weight" in program.value_names)
    began = time.perf_counter() - (begun.seconds if begun else 0.0)
    total = settings.chains * (tune + thin * goals.expected[0])
    checkpoints = book.checkpoints() if book else None
    with progress(
        total, show=progressbar, label=f"sampling {settings.chains} chains", time_limit=settings.time_limit
    ) as bar:
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
    deadline = None if settings.time_limit is None else began + settings.time_limit
    found = goals.found(result.draws)
    fewest = ENOUGH_AUDITS if chosen else FEWEST
    result = audit_draws(
        result, running, made.streams[0].audit, tune=tune, thin=result.attrs["thin"], deadline=deadline, fewest=fewest
    )
    if not target.reads_rows:
        result = _without_rows(result)
    attrs = {
        **_origin(plan),
        "setup_compile_seconds": compiled_so_far().seconds - compiled_before,
        "setup_start_seconds": made.start_seconds,
        "setup_likelihood_evaluations": made.evaluations * target.n_obs
        + sum(chain.start_evaluations for chain in running),
        **chosen,
        **found,
        **({"checkpoints": checkpoints.written, "checkpoint_seconds": checkpoints.seconds} if checkpoints else {}),
        **target.setup_attrs,  # what was paid before: the search for a mode, an expansion
    }
    trace = build_trace(
        result._replace(attrs={**attrs, **result.attrs}),  # Gibbs knows better what one decision can read
        variables=target.variables,
        observed_data=target.observed_data,
        constant_data=target.constant_data,
        keep_warmup=keep_warmup,
        settings=sampler.to_dict(),
    )
    block = judge(trace)
    if book and checkpoints and checkpoints.last:
        book.close(checkpoints.last, trace)
    return trace, block


def _carry_out_whole(plan: RunPlan, book: Book | None, *, cores: int, progressbar: bool) -> tuple[xr.DataTree, str]:
    """Let a sampler draw all chains by itself. Its file holds the finished trace; what was interrupted starts again."""
    target, sampler, settings, _, initvals, chosen, _ = plan
    if book:
        if book.begun:
            tell("%s: %r cannot take up a run, so that it starts again and repeats its draws", book.path, sampler)
        book.write(Snapshot(None, {}, 0.0, "", []))
    if not sampler.continues(target):
        settings = settings._replace(enough=None)
    goals = _goals(settings, Variables(dict(target.variables.shapes)), chosen, weighted=False)
    asked = WholeRun(
        goals=goals,
        tune=settings.tune or 0,
        thin=settings.thin,
        seeds=chain_seeds(settings.seed, settings.chains),
        cores=cores,
        initvals=initvals,
        time_limit=settings.time_limit,
        progressbar=progressbar,
    )
    drawn = sampler.run(target, asked)
    keep_warmup = not settings.discard_tuned_samples
    trace = named_trace(
        drawn.posterior,
        drawn.stats,
        variables=drawn.variables,
        tuning_totals=drawn.tuning_totals,
        attrs={**_origin(plan), **chosen, **goals.found(drawn.flat), **target.setup_attrs, **drawn.attrs},
        settings=sampler.to_dict(),
        warmup_posterior=drawn.warmup_posterior if keep_warmup else None,
        warmup_stats=drawn.warmup_stats if keep_warmup else None,
        observed_data=target.observed_data,
        constant_data=target.constant_data,
    )
    block = judge(trace)
    if book and drawn.attrs["stopped"] != "interrupt":
        book.close(Snapshot(None, {}, 0.0, drawn.attrs["stopped"], []), trace)
    return trace, block


def _origin(plan: RunPlan) -> dict[str, Any]:
    """Return what a trace says of its seed, its target, and how far its law lies from the model's."""
    target, distance = plan.target, plan.target.distance_to_model
    return {
        "n_obs": target.n_obs,
        "n_rows": target.n_rows or target.n_obs,
        "seed": plan.settings.seed,
        "target_content_hash": plan.content,
        "why_not_invariant": plan.sampler.why_not_invariant(target),
        "distance_to_model": math.nan if distance is None else distance,
    }


def _without_rows(result: SamplingResult) -> SamplingResult:
    """Return the result of a run whose terms are made of no rows: what it touched were terms, not data."""

    def untouched(stats: Any) -> Any:
        return stats and {**stats, "datapoints_touched": np.zeros_like(stats["datapoints_touched"])}

    return result._replace(
        stats=untouched(result.stats),
        warmup_stats=untouched(result.warmup_stats),
        tuning_totals=untouched(result.tuning_totals),
    )


def judge(trace: xr.DataTree) -> str:
    """Write what is wrong with a run into its trace; return the words for a warning, empty where all is well."""
    found = findings(trace)
    trace["posterior"].attrs.update(attributes(found))
    return report(found)


def _goals(settings: Settings, variables: Variables, chosen: Mapping[str, Any], *, weighted: bool) -> Goals:
    """Return how long the chains run: to an ESS as ArviZ sees it in these variables, or `draws` each."""
    if settings.target_ess is None:
        assert settings.draws is not None
        if settings.enough is not None:
            enough, steps = max(settings.enough, LEAST_ESS * settings.chains), settings.draws * settings.thin
            longest = most_thinning(chosen.get("counted_seconds_per_step", math.inf), steps * settings.chains)
            measures = smallest_ess(variables, settings.draws), chains_agree(variables)
            return ThinnedDraws(settings.draws, enough, *measures, longest)
        return FixedDraws(settings.draws, settings.every)
    if weighted:
        raise IncompatibleError(
            "sample: target_ess counts draws of equal weight, and this sampler weighs its draws; give draws= "
            "or time_limit="
        )
    chains, wanted = settings.chains, settings.target_ess
    measure = smallest_ess(variables, KEPT_PER_EFFECTIVE * wanted / chains)
    most = math.inf if settings.draws is None else settings.draws
    return EffectiveDraws(wanted, most, chains=chains, dim=variables.size, smallest_ess=measure)
