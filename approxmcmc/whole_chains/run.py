"""A run of NUTS on a target: its model, its starting points, its goals, and the records of its draws."""

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import NamedDraws, Target, Variables, WholeRun, pymc_model_of
from approxmcmc.engine.compiler.identity import known_content
from approxmcmc.engine.messages import tell
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingError
from approxmcmc.interop.nuts_seconds import LEAPFROGS
from approxmcmc.sampling.assembly import as_points
from approxmcmc.sampling.goals import Goal
from approxmcmc.sampling.progress import progress, stage
from approxmcmc.whole_chains import by_nutpie, by_pymc
from approxmcmc.whole_chains.nuts_draws import NUTSJob, RawDraws, named_draws

KEPT = 3  # compiled models in the cache: a study or a notebook uses one model repeatedly
MOST = 2**31  # draws of a chain that runs until `more` returns 0
_compiled: dict[Any, by_nutpie.NutpieModel] = {}
SHOWN = 1500  # most characters of the output of `model.debug` in a message


def draw_chains(
    target: Any,
    asked: WholeRun,
    library: str,
    *,
    target_accept: float,
    adaptation: str | None,
    non_centred: bool,
    insist: bool,
) -> NamedDraws:
    """Draw all chains by `library`; if nutpie cannot compile the model, by PyMC, or with `insist` raise its error.

    The other settings are those of `NUTS`.

    Raises
    ------
    IncompatibleError
        When target and model do not fit together.
    InvalidInputError
        When `initvals` do not fit the model.
    SamplingError
        When no chain can start.
    """
    model = pymc_model_of(target)
    if non_centred:
        from approxmcmc.interop.non_centred import non_centred as in_other_form

        model = in_other_form(model)
    names = _names(target, model)
    goal: Goal = asked.goals.first()
    shapes = Variables(dict(target.variables.shapes))

    def flat(posterior: xr.Dataset, goal: Goal) -> np.ndarray:
        every = asked.thin * goal.every
        kept = posterior.isel(draw=slice(every - 1, goal.draws * asked.thin, every))
        return shapes.pack_draws(
            {name: kept[name].transpose("chain", "draw", ...).to_numpy() for name in shapes.shapes}
        )

    def more(posterior: xr.Dataset, leapfrogs: float) -> int:
        nonlocal goal
        asked.goals.steps_cost(leapfrogs / (LEAPFROGS * shapes.size**0.25))
        longer = asked.goals.after(goal, lambda: flat(posterior, goal))
        if longer is None:
            return 0
        goal = longer
        steps, note = asked.goals.expected
        bar.expect(len(asked.seeds) * (asked.tune + asked.thin * steps), note)
        return goal.draws * asked.thin

    starts = _starts(asked, target, model)
    compiled = _compile(target, model, names, non_centred, insist=insist) if library == "nutpie" else None
    library = "pymc" if compiled is None else library
    tune = len(asked.seeds) * asked.tune
    total = tune + len(asked.seeds) * asked.thin * asked.goals.expected[0]
    label = f"NUTS by {library}, {len(asked.seeds)} chains"
    with progress(
        total, show=asked.progressbar, label=label, time_limit=asked.time_limit, tune=len(asked.seeds) * asked.tune
    ) as bar:
        job = NUTSJob(
            model=model,
            shapes=shapes.shapes,
            names=names,
            seeds=asked.seeds,
            starts=starts,
            draws=goal.draws * asked.thin,
            more=more,
            most=int(min(asked.goals.most * asked.thin, MOST)),
            tune=asked.tune,
            target_accept=target_accept,
            cores=asked.cores,
            seconds=asked.time_limit,
            tick=bar.update,
            first_seeds=asked.first_seeds,
            restarted=asked.restarted,
        )
        raw = _draw(job, compiled, adaptation)
    flat_draws = flat(raw.posterior, goal._replace(draws=raw.posterior.sizes["draw"] // asked.thin))
    attrs = {"nuts": library, "adaptation": raw.adaptation}
    return named_draws(raw, target, asked, asked.thin * goal.every, flat_draws, attrs)


def _draw(job: NUTSJob, compiled: by_nutpie.NutpieModel | None, adaptation: str | None) -> RawDraws:
    """Draw by nutpie if it has compiled the model, else by PyMC."""
    try:
        return by_pymc.draw(job) if compiled is None else by_nutpie.draw(job, compiled, adaptation)
    except (RuntimeError, by_pymc.start_error()) as error:
        raise SamplingError(why_no_start(job.model, error)) from error


def _compile(
    target: Target, model: Any, names: Sequence[str], non_centred: bool, *, insist: bool
) -> by_nutpie.NutpieModel | None:
    """Return the model of a target compiled by nutpie, cached by content and form; None if nutpie cannot compile it.

    With `insist` the error of nutpie is raised instead.
    """
    key = known_content(target) or object(), tuple(names), non_centred  # an object equals no other: compiled again
    if key not in _compiled:
        stage("compiling the model for nutpie")
        try:
            compiled = by_nutpie.compile_model(model, names)
        except Exception as error:
            # PyTensor raises errors of many kinds at operations without a gradient, or that it cannot compile.
            if insist:
                raise
            first = str(error).strip().partition("\n")[0]
            tell("NUTS by PyMC: nutpie cannot compile the model (%s: %s)", type(error).__name__, first)
            return None
        while len(_compiled) >= KEPT:
            _compiled.pop(next(iter(_compiled)))
        _compiled[key] = compiled
    return _compiled[key]


def _names(target: Target, model: Any) -> Sequence[str]:
    """Return the names of the target's variables; raise if the model lacks one."""
    names_of_model = {variable.name for variable in (*model.free_RVs, *model.deterministics)}
    if missing := [name for name in target.variables.shapes if name not in names_of_model]:
        raise IncompatibleError(
            f"The PyMC model of {target!r} needs all variables of the target; it has {sorted(names_of_model)} and "
            f"lacks {missing}. Give the model's variables the names of the target's"
        )
    return list(target.variables.shapes)


def _starts(asked: WholeRun, target: Any, model: Any) -> list[Mapping[str, Any]] | None:
    """Return the starting values of each chain, by the names of the model's free variables; None without initvals."""
    initvals = asked.initvals
    chains = len(asked.seeds)
    if initvals is None:
        return None
    free = {variable.name for variable in model.free_RVs}
    if target.why_no_terms:
        starts = [initvals] * chains if isinstance(initvals, Mapping) else initvals
        named = isinstance(starts, (list, tuple)) and all(isinstance(start, Mapping) for start in starts)
        if not named or len(starts) != chains or any(set(start) - free for start in starts):
            raise InvalidInputError(
                f"initvals of a whole model are a dict by the variables {sorted(free)}, or a list of {chains} dicts, "
                f"one for each chain; found {initvals!r:.300}"
            )
        return list(starts)
    if callable(getattr(initvals, "draw", None)):
        initvals = np.array([initvals.draw(np.random.default_rng(seed)) for seed in asked.seeds])
    named_points = target.variables.unpack(as_points(initvals, target.variables, chains))
    return [{name: value[k] for name, value in named_points.items() if name in free} for k in range(chains)]


def why_no_start(model: Any, error: Exception) -> str:
    """Return PyMC's diagnosis of a model from which no chain could start, and what to do.

    The log density of each variable at the model's initial point comes from ``model.point_logps``; where one of them is
    not finite, ``model.debug`` shows its parameters there.
    """
    said = str(error).strip().partition("\n")[0]
    try:
        point = model.initial_point()
        logps = model.point_logps(point)
    except Exception as problem:  # of any kind, from the user's operations
        return f"NUTS cannot start: {said}. The model's initial point cannot be evaluated: {problem}"
    wrong = [name for name, value in logps.items() if not np.isfinite(value)]
    table = ", ".join(f"{name} {value}" for name, value in logps.items())
    if not wrong:
        return (
            f"NUTS cannot start: {said}. At the model's initial point all log densities are finite ({table}), so look "
            "at its gradient and at points near it: model.debug(fn='dlogp'); or give initvals inside the support"
        )
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(Exception):  # optional, and may fail too
        model.debug(point)
    return (
        f"NUTS cannot start: {said}. The log density of {', '.join(wrong)} is not finite at the model's initial point: "
        f"{table}. Correct the data or the prior of {wrong[0]}, or give initvals inside the support. PyMC's "
        f"model.debug() says:\n{text.getvalue().strip()[:SHOWN]}"
    )
