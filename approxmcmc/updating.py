"""Draw from the posterior of data that have grown, from what is known of the data before."""

import dataclasses
import datetime
import json
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.api import sample
from approxmcmc.contracts import AnySampler, Component, Target, arrays_hashed_once
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.convergence import smallest_ess
from approxmcmc.diagnostics.drift import ATTRIBUTE, LIMIT, Fit, finding_of_fit, fit_of_block
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.identity import known_content
from approxmcmc.engine.messages import tell
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning, warn
from approxmcmc.expansion.influential_rows import READ_COST, TOLERATED
from approxmcmc.expansion.posterior import expansion_of
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.mode import laplace
from approxmcmc.output.reading import SAMPLER, TARGET, flat_draws, refuse_formula
from approxmcmc.runs import judge
from approxmcmc.sampling.assembly import ProvenStarts
from approxmcmc.surrogate import ControlVariate
from approxmcmc.targets.blocks import Grows
from approxmcmc.targets.regression import Regression

FEWEST_STEPS = 50  # fewest steps of tuning and burn-in
BURN_IN = 10.0  # autocorrelation times of the earlier run: e^-10 is left of the start
MOST_STEPS = 5000
TRIES = 100  # draws of the earlier posterior that are tried as starts
# Rows and pairs of states from which the variance of the residuals is estimated.
ROWS_LOOKED_AT = 512
PAIRS = 16
PASSES = 4  # passes over the data for a new centre: two or three for the mode, one for the expansion
REPAID = 10  # runs within which a new centre must save what it costs


class Updated(NamedTuple):
    """What `update` returns: the trace of the grown target, and the target itself, for the next rows."""

    trace: xr.DataTree
    target: Any


class Centre(NamedTuple):
    """Whether the centre of an expansion still serves.

    `moved` is the distance of the mode from the centre in posterior standard deviations, `reads` the rows that a
    decision needs, `reads_placed` the same when the centre was placed. `why` is the reason for a new centre, or "".
    """

    moved: float
    reads: float
    reads_placed: float
    why: str


@naming_the_arguments
def update(
    trace: xr.DataTree,
    target: Target,
    rows: Any,
    *,
    block: str | None = None,
    sampler: Any = None,
    draws: int | None = None,
    tune: int | None = None,
    random_seed: Any = None,
    new_centre: bool | None = None,
    on_drift: Literal["warn", "raise"] = "warn",
    audit_every: Any = None,
    time_limit: float | None = None,
    target_ess: float | None = None,
    progressbar: bool = True,
) -> Updated:
    """Append rows to a target, and draw from the posterior of all rows, beginning from the draws before.

    Parameters
    ----------
    trace
        The trace of `target`, from `sample` or an earlier `update`.
    target
        The target of that trace: a regression, or a `ControlVariate` of one.
    rows
        The new rows, as arguments of ``target.append``: a dict, such as ``{"X": X, "y": y}``, or a tuple, ``(X, y)``.
    block
        The name of the rows, such as a day.
    sampler
        None: that of the trace. A normal approximation in its proposal that was `target.laplace` is replaced by that of
        the grown target.
    draws
        Draws of each chain; None: as many as the trace has, unless `target_ess` or `time_limit` is given.
    tune
        Steps before the first draw. None: ten autocorrelation times of the trace, 50 to 5000 steps; or as many as the
        trace has tuning steps, if its sampler adapts.
    new_centre
        Whether to expand a `ControlVariate` again, at a new centre. None: if that saves more than it costs, see Notes.
    on_drift
        What to do if the new rows do not fit the posterior of the earlier ones: ``"warn"``, or ``"raise"`` an error
        before anything is changed.
    random_seed, audit_every, time_limit, target_ess, progressbar
        As for `sample`. Audits read all rows, so the default is None.

    Returns
    -------
    Updated
        The pair (trace, target). The attribute ``updates`` of the trace's posterior holds the history as JSON: for each
        block its name, number of rows, hash, time, and fit; what was reused; and why a new centre was placed, if so.

    Raises
    ------
    InvalidInputError
        If the trace belongs to another target, the rows do not fit (see `append`), or do not fit the posterior and
        ``on_drift="raise"``.
    IncompatibleError
        If the target cannot grow, or the sampler of the trace cannot be made again.

    Warns
    -----
    SamplingWarning
        If the new rows do not fit the posterior of the earlier ones, before a draw is made; and as `sample`.

    Notes
    -----
    Guarantee: that of `sample` with the same sampler on ``target.append(*rows)``; with an exact test the posterior of
    all rows, whatever the centre. Chains start at draws of the earlier posterior where the new rows have positive
    probability. The density of the old rows is positive there, so no pass over them has to check it. Burn-in from such
    starts is short, because the posterior of all rows lies within that of the earlier ones, up to one or two standard
    deviations; R-hat of the run checks it, as of every run.

    A new centre costs about four passes over all rows. It is placed if the reads that it saves in ten runs like this
    one cost more, or if the expansion at the old centre has no maximum any more. The reads are estimated from the
    variance of the residuals of 512 random rows between 16 pairs of draws of the normal approximation.

    Fit: the score of the new rows at the earlier posterior mean is compared with what chance explains, a chi-squared
    statistic; below a probability of 1e-4 the rows do not fit (`diagnose` calls the check "fit of new rows").

    Examples
    --------
    >>> import approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(3000, 2, random_seed=1)
    >>> split = amc.ControlVariate(amc.LogisticRegression(X[:2500], y[:2500]))
    >>> proposal = amc.proposals.PreconditionedCrankNicolson(0.0, split.laplace)
    >>> sampler = amc.MetropolisHastings(proposal, amc.PoissonTest())
    >>> run = {"draws": 100, "tune": 50, "random_seed": 1, "progressbar": False}
    >>> trace = amc.sample(split, sampler, chains=2, **run)
    >>> trace, split = amc.update(trace, split, {"X": X[2500:], "y": y[2500:]}, block="Tuesday", **run)
    >>> split.blocks.names
    ['first', 'Tuesday']
    """
    plain = target.target if isinstance(target, ControlVariate) else target
    if not isinstance(plain, Grows) or not isinstance(target, Grows | ControlVariate):
        raise IncompatibleError(
            f"update needs a target that grows, a regression or its ControlVariate, found {target!r}"
        )
    refuse_formula(trace, "update")
    _refuse_other_target(trace, target)
    old_draws = flat_draws(trace, target)
    more = plain.rows_to_append(**rows) if isinstance(rows, Mapping) else plain.rows_to_append(*rows)
    name = plain.blocks.next_name() if block is None else block
    fit = _fit(more, old_draws) if isinstance(more, Regression) else None
    if fit is not None and fit.probability < LIMIT:
        finding = finding_of_fit(name, fit._asdict())
        if on_drift == "raise":
            raise InvalidInputError(f"update: {finding}. Nothing was changed")
        warn(f"update: {finding}", SamplingWarning)
    with arrays_hashed_once():
        grown: Any = target.joined(more, name)  # type: ignore[arg-type]  # both kinds take what `plain` has made
        chosen = _sampler_of(trace) if sampler is None else sampler
        chains = old_draws.shape[0]
        n_draws = old_draws.shape[1] if draws is None and target_ess is None and time_limit is None else draws
        n_tune = _tuning(trace, old_draws, target) if tune is None else checked_integer(tune, "tune", 0)
        centre = None
        passes = 0
        if isinstance(grown, ControlVariate):
            steps = chains * (n_tune + (old_draws.shape[1] if n_draws is None else n_draws))
            centre = _centre(target, grown, steps)
            if new_centre or (new_centre is None and centre.why):
                centre = centre._replace(why=centre.why or "new_centre=True")
                grown = _placed_anew(grown)
                passes = sum(int(grown.setup_attrs[key]) for key in grown.setup_attrs if key.endswith("_passes"))
                if progressbar:
                    sentence = "update: a new centre of the expansion, because %s; %d passes over %d rows"
                    tell(sentence, centre.why, passes, grown.target.n_obs)
            else:
                centre = centre._replace(why="")
            if sampler is None:
                chosen = with_new_fit(chosen, target.laplace, grown.laplace)  # type: ignore[attr-defined]
        starts = _starts(old_draws, more, random_seed)
        drawn = sample(
            grown,
            chosen,
            draws=n_draws,
            tune=n_tune,
            chains=chains,
            random_seed=random_seed,
            initvals=starts,
            audit_every=audit_every,
            time_limit=time_limit,
            target_ess=target_ess,
            progressbar=progressbar,
        )
    added = grown.blocks[-1]
    record = {
        "block": added.name,
        "rows": added.n_rows,
        "content": added.content,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "fit": None if fit is None else fit._asdict(),
        "rows_reused": int(plain.n_own_rows),
        "centre": None if centre is None else {**centre._asdict(), "passes": passes},
    }
    history = [*json.loads(trace["posterior"].attrs.get(ATTRIBUTE, "[]")), record]
    drawn["posterior"].attrs[ATTRIBUTE] = json.dumps(history)
    judge(drawn)  # again, with the fit of the new rows; the warning came before
    return Updated(drawn, grown)


def _refuse_other_target(trace: xr.DataTree, target: Target) -> None:
    """Raise if the trace says that it was made on another target."""
    recorded = trace["posterior"].attrs.get(TARGET, "")
    if recorded and recorded != known_content(target):
        raise InvalidInputError(
            f"update: the trace was made on another target than {target!r}, or on other data; pass the target that "
            "`sample` had, or that the last `update` returned"
        )


# --- do the new rows fit? ---


def _fit(more: Regression, draws: np.ndarray) -> Fit:
    """Return how well new rows fit the posterior that `draws` (chains, draws, dim) come from: one pass over them."""
    flat = draws.reshape(-1, draws.shape[-1])
    mean = flat.mean(axis=0)
    cov = np.atleast_2d(np.cov(flat.T)) if len(flat) > 1 else np.zeros((mean.size, mean.size))
    expansion = expansion_of(more, 2)
    quadratic = expansion.at(mean)
    return fit_of_block(quadratic.gradient, quadratic.hessian, _outer(more, mean), cov, more.variables.labels())


def _outer(more: Regression, theta: np.ndarray) -> np.ndarray:
    """Return the sum over rows of g_i g_i', with g_i the gradient of a term at theta."""
    compiled = more.likelihood.compile("slopes", more.responses)
    dim = theta.size
    total = np.zeros((dim, dim))
    step = more.design.rows_per_summed_block
    for lo in range(0, more.n_obs, step):
        rows = slice(lo, min(lo + step, more.n_obs))
        eta = more.design.eta(theta, rows)
        slopes = np.empty(eta.shape)
        compiled(eta, more.responses, np.empty(0, dtype=np.int64), rows.start, rows.stop, slopes)
        total += more.design.hessian(slopes[:, None] * slopes[None], rows)
    return total


# --- does the centre still serve? ---


def _centre(old: Any, grown: ControlVariate, steps: int) -> Centre:
    """Return whether the centre still serves for so many steps."""
    if grown.laplace is None:
        return Centre(math.inf, math.inf, math.nan, "the expansion at the old centre has no maximum any more")
    placed = reads_of_residuals(old) if old.reads_when_placed is None else old.reads_when_placed
    grown.reads_when_placed = placed
    now = reads_of_residuals(grown)
    lost = REPAID * steps * READ_COST * max(now - placed, 0.0)
    price = PASSES * grown.target.n_obs
    moved = grown.distance_to_mode
    why = ""
    if lost > price:
        why = (
            f"a decision needs {now:.3g} rows, and {placed:.3g} when the centre was placed: {REPAID} such runs would "
            f"read more than the {PASSES} passes that a new centre takes"
        )
    return Centre(moved, now, placed, why)


def reads_of_residuals(split: ControlVariate) -> float:
    """Return about how many light rows a decision between two posterior draws must read.

    That is N^2 var(r) / .15^2, with r the change of a residual, from `ROWS_LOOKED_AT` rows and `PAIRS` pairs of draws
    of the normal approximation: the error of the sum of all residuals is then .15.
    """
    assert split.laplace is not None
    rng = np.random.default_rng(0)  # equal targets show equal numbers
    n = split.n_obs
    rows = np.sort(rng.choice(n, min(n, ROWS_LOOKED_AT), replace=False, shuffle=False))
    compiled = split.compile()
    terms = np.empty((2, rows.size))
    variances = []
    for _ in range(PAIRS):
        for out in terms:
            compiled.log_terms(split.laplace.draw(rng), compiled.data, rows, 0, rows.size, out)
        variances.append(np.var(terms[1] - terms[0]))
    return float(n**2 * np.median(variances) / TOLERATED**2)


def _placed_anew(split: ControlVariate) -> ControlVariate:
    """Return control variates of the same target with all settings, at a new centre."""
    at: Any = None
    if not split._names_rows:
        start = split.center if split.laplace is None else split.laplace.mode
        at = laplace(split.target, start=start)
    return ControlVariate(
        split.target,
        at=at,
        always_read="auto" if split._names_rows else None,
        order=split.order,
        averaged=split.averaged if not split._names_rows else None,
        memory_limit=split._memory_limit,
    )


# --- sampler and starts ---


def _sampler_of(trace: xr.DataTree) -> AnySampler:
    """Return the sampler of a trace, made of its recorded settings."""
    recorded = trace["posterior"].attrs.get(SAMPLER)
    try:
        sampler = Component.from_dict(json.loads(recorded or "null"))
        if not isinstance(sampler, AnySampler):
            raise TypeError(f"{sampler!r} is no sampler")
    except Exception as error:  # from the checks of any class
        raise IncompatibleError(
            f"update: the sampler of the trace, {recorded}, cannot be made again ({error!r}); give sampler="
        ) from error
    return sampler


def with_new_fit(component: Any, old: Laplace | None, new: Laplace | None) -> Any:
    """Return a component with the normal approximation `new` in every place where it, or a part of it, has `old`."""
    if old is None or new is None:
        return component
    if isinstance(component, tuple | list):
        return type(component)(with_new_fit(part, old, new) for part in component)
    if not dataclasses.is_dataclass(component) or isinstance(component, type | Laplace):
        return _fit_in_place_of(component, old, new)
    settings = {field.name: getattr(component, field.name) for field in dataclasses.fields(component) if field.init}
    replaced = {name: with_new_fit(value, old, new) for name, value in settings.items()}
    changed = {name: value for name, value in replaced.items() if value is not settings[name]}
    return dataclasses.replace(component, **changed) if changed else component


def _fit_in_place_of(value: Any, old: Laplace, new: Laplace) -> Any:
    """Return the part of the new approximation for the same part of the old one; any other value unchanged."""
    if isinstance(value, Laplace):
        is_old = np.array_equal(value.mode, old.mode) and np.array_equal(value.cov, old.cov)
        return new if is_old else value
    if isinstance(value, np.ndarray):
        for mine, theirs in ((old.mode, new.mode), (old.cov, new.cov), (old.cholesky, new.cholesky)):
            if np.array_equal(value, mine):
                return theirs
    return value


def _tuning(trace: xr.DataTree, draws: np.ndarray, target: Target) -> int:
    """Return the number of steps before the first draw: ten autocorrelation times, or the tuning of an adaptive run."""
    attrs = trace["posterior"].attrs
    if any(str(name).startswith("adapted_") for name in attrs):
        return int(attrs.get("tuning_steps", FEWEST_STEPS))
    effective = smallest_ess(target.variables, draws.shape[1])(draws, 0.0)
    steps = draws.shape[0] * draws.shape[1] * int(attrs.get("thin", 1))
    of_one = steps / effective if effective > 0.0 and math.isfinite(effective) else MOST_STEPS / BURN_IN
    return int(min(max(BURN_IN * of_one, FEWEST_STEPS), MOST_STEPS))


def _starts(draws: np.ndarray, more: Any, random_seed: Any) -> ProvenStarts:
    """Return a start for each chain: a draw of the earlier posterior where all new rows have positive probability.

    The old rows have positive probability at every such draw.
    """
    rng = np.random.default_rng(random_seed if isinstance(random_seed, int) else 0)
    compiled = more.compile()
    terms = np.empty(more.n_obs)
    order = np.empty(0, dtype=np.int64)
    points = []
    for chain in draws:
        for _ in range(TRIES):
            theta = np.ascontiguousarray(chain[rng.integers(len(chain))])
            compiled.log_terms(theta, compiled.data, order, 0, more.n_obs, terms)
            if np.isfinite(terms).all() and np.isfinite(compiled.log_prior(theta)):
                points.append(theta)
                break
        else:
            raise InvalidInputError(
                f"update: at {TRIES} draws of the earlier posterior some new rows have probability 0, or a density "
                "that is not finite; compare the new rows with the earlier ones"
            )
    return ProvenStarts(np.array(points))
