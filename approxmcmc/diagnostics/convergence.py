r"""Check convergence and the number of effective draws: split R-hat, bulk and tail ESS, and a target ESS.

The statistics are those of `rank_statistics`. The limits 1.01 of R-hat and 100 of the ESS per chain come from Vehtari,
Gelman, Simpson, Carpenter and Buerkner (2021) and from PyMC; the limit of R-hat is wider if chance explains more
(`r_hat_limit`). Both are checked from 100 draws per chain on. The statistics show how chains move in their stationary
distribution; they cannot show that it is biased.
"""

import itertools
import json
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import special

from approxmcmc.contracts import Finding, Variables, Verdict
from approxmcmc.diagnostics.finite import not_finite
from approxmcmc.diagnostics.health import share_of_moves
from approxmcmc.diagnostics.rank_statistics import bulk_ess, rank_r_hat, tail_ess
from approxmcmc.output.returned import DETERMINISTICS

FEWEST_DRAWS = 100  # per chain, as in PyMC: with fewer no chain can hold LEAST_ESS, and R-hat is mostly noise
# limit of R-hat; share of runs with converged chains that may exceed it
LARGEST_R_HAT = 1.01
BY_CHANCE = 0.05
CHAINS_APART = 1.1  # limit of R-hat above which the chains are in different places
LEAST_ESS = 100  # per chain
# Longer chains are thinned to 1250 to 2500 draws. Verdicts hardly change: if ESS is below 100 per chain, the
# autocorrelation time is over 12 of the thinned draws. For 2 x 20 000 draws of 54 parameters this takes .3 s instead of
# 1 to 2.5 s.
MOST_DRAWS = 2500
MOST_PARAMETERS = 500  # most parameters to check, evenly spaced; each takes half a millisecond
NAMED = 3  # most parameters that a sentence names


class Statistic(NamedTuple):
    """A statistic of each parameter: ``of(draws)`` computes it, `digits` is its number format in sentences.

    `sign` is 1 if large values are bad, -1 if small ones are.
    """

    name: str
    of: Callable[[np.ndarray], np.ndarray]
    sign: int
    digits: str


R_HAT = Statistic("R-hat", rank_r_hat, 1, ".4g")
BULK = Statistic("bulk ESS", bulk_ess, -1, ".0f")
TAIL = Statistic("tail ESS", tail_ess, -1, ".0f")


class Sample(NamedTuple):
    """The draws to check (chain, draw, parameter), a label for each parameter, and a note on what was left out."""

    draws: np.ndarray
    labels: list[str]
    note: str


def convergence(posterior: xr.Dataset, *, weighted: bool = False) -> list[Finding]:
    """Check R-hat, bulk and tail ESS of the parameters; of more than 500, of 500 evenly spaced ones.

    Parameters
    ----------
    posterior
        Draws, dims (chain, draw, ...).
    weighted
        Whether the draws carry weights, which these statistics ignore.

    Returns
    -------
    list of Finding
        One for each of the three; R-hat of a single chain is ``"not checked"``. If none can be computed, one finding
        that says why. A parameter with the same value in all draws of all chains is left out, and so is one with draws
        that are not finite, on which `finite` reports.
    """
    if reason := _why_not(posterior, weighted):
        cut_short = posterior.attrs.get("stopped") == "time_limit" and posterior.sizes["draw"] < FEWEST_DRAWS
        verdict: Verdict = "warning" if cut_short else "not checked"  # a user who wants few draws needs no warning
        advice = "give it more time" if cut_short else ""
        return [Finding("convergence", verdict, f"R-hat and ESS were not checked: {reason}", advice)]
    sample = drawn(posterior)
    chains = posterior.sizes["chain"]
    if not sample.labels:
        if not_finite(posterior):
            sentence = "R-hat and ESS were not checked: no parameter that moves has only finite draws"
            return [Finding("convergence", "not checked", sentence)]
        return [Finding("convergence", "ok", "no parameter moves: R-hat and ESS do not apply")]
    measures = (R_HAT, BULK, TAIL) if chains > 1 else (BULK, TAIL)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains stuck at different values: R-hat is infinite
        values = {measure: np.atleast_1d(measure.of(sample.draws)) for measure in measures}
    r_hat = float(np.max(values.get(R_HAT, 1.0)))
    advice = _advice(r_hat, LEAST_ESS * chains / float(min(values[BULK].min(), values[TAIL].min())), posterior)
    limits = {R_HAT: r_hat_limit(float(values[BULK].min()), chains, len(sample.labels))}
    limits |= dict.fromkeys((BULK, TAIL), float(LEAST_ESS * chains))
    findings = [_judged(measure, each, limits[measure], sample, advice) for measure, each in values.items()]
    if chains == 1:
        sentence = "R-hat was not checked: it compares chains, and there is only one"
        findings.append(Finding("R-hat", "not checked", sentence, "run 4 chains"))
    elif not r_hat <= CHAINS_APART:
        findings[0] = findings[0]._replace(verdict="failure")
    return findings


def r_hat_limit(ess: float, chains: int, parameters: int) -> float:
    """Return the R-hat that the worst of several parameters exceeds in one run of 20 if all chains have converged.

    The ``m = 2 chains`` halves hold ``ess / m`` effective draws each. Their means differ by chance:
    ``1 + (R-hat^2 - 1) ess / m`` times ``m - 1`` is nearly chi-squared with ``m - 1`` degrees of freedom, and the
    rank-normalised R-hat is the larger of two such statistics. In simulations (settings of 2 to 8 chains, 110 to 1000
    draws, 1 or 20 parameters, 150 runs each) 3 % to 11 % of the runs exceeded this limit; with four chains of 110 draws
    of 20 parameters 81 % exceeded 1.01. The limit is never below 1.01. An ESS below 100 per chain is reported by its
    own check and counts as 100 here.

    >>> round(r_hat_limit(440, 4, 20), 4), r_hat_limit(4000, 4, 20)
    (1.0215, 1.01)
    """
    halves = 2 * chains
    ratio = special.chdtri(halves - 1, BY_CHANCE / (2 * parameters)) / (halves - 1)
    by_chance = math.sqrt(1.0 + (ratio - 1.0) * halves / max(ess, LEAST_ESS * chains))
    return max(LARGEST_R_HAT, by_chance)


def drawn(posterior: xr.Dataset, most_draws: int = MOST_DRAWS) -> Sample:
    """Return the draws to check: chains thinned to at most `most_draws`, at most 500 of the parameters that move.

    Deterministics of the model are left out: one with a number for each row would crowd out the parameters.
    """
    every = math.ceil(posterior.sizes["draw"] / most_draws)
    arrays = []
    labels = []
    computed = json.loads(posterior.attrs.get(DETERMINISTICS, "[]"))
    sampled = [name for name in posterior if name not in computed] or list(posterior)
    for name, variable in posterior[sampled].isel(draw=slice(None, None, every)).items():
        arrays.append(variable.to_numpy().reshape(*variable.shape[:2], -1))
        ticks = itertools.product(*(variable[dim].to_numpy().tolist() for dim in variable.dims[2:]))
        labels += [f"{name}[{', '.join(map(str, tick))}]" if tick else str(name) for tick in ticks]
    draws = np.concatenate(arrays, axis=2)
    with np.errstate(invalid="ignore"):
        spread = np.ptp(draws, axis=(0, 1))
    [moving] = np.nonzero((spread > 0.0) & np.isfinite(spread))
    judged = moving[:: math.ceil(len(moving) / MOST_PARAMETERS) or 1]
    notes = [f"1 draw in {every}"] if every > 1 else []
    notes += [f"{len(judged)} of {len(moving)} parameters"] if len(judged) < len(moving) else []
    note = f" (judged on {' and '.join(notes)})" if notes else ""
    return Sample(draws[..., judged].astype(np.float64), [labels[k] for k in judged], note)


def _why_not(posterior: xr.Dataset, weighted: bool) -> str:
    """Return why the draws cannot be checked, or an empty string."""
    draws = posterior.sizes["draw"]
    if weighted:
        return "the draws carry weights"
    if draws < FEWEST_DRAWS:
        return f"{FEWEST_DRAWS} draws per chain are needed, found {draws}"
    if not share_of_moves(posterior).all():
        return "a chain never moved"
    return ""


def _judged(measure: Statistic, values: np.ndarray, limit: float, sample: Sample, advice: str) -> Finding:
    """Return the finding on one measure: its `values` of all parameters are compared with `limit`, the worst named."""
    order = np.argsort(-measure.sign * values)
    worst = float(values[order[0]])
    beyond = ~(measure.sign * values <= measure.sign * limit)
    named = order[: min(NAMED, max(beyond.sum(), 1))]
    figures = ", ".join(f"{sample.labels[k]} {values[k]:{measure.digits}}" for k in named)
    names = ", ".join(sample.labels[k] for k in named)
    if not beyond.any():
        return Finding(measure.name, "ok", f"worst {measure.name}: {figures}{sample.note}", "", worst, limit, names)
    more = f" and {beyond.sum() - len(named)} more" if beyond.sum() > len(named) else ""
    side = f"above {limit:.4g}" if measure is R_HAT else f"below {limit:.0f} ({LEAST_ESS} per chain)"
    sentence = f"{measure.name} is {side} for {beyond.sum()} of {len(values)} parameters: {figures}{more}"
    return Finding(measure.name, "warning", sentence, advice, worst, limit, names + more)


def _advice(r_hat: float, shortage: float, posterior: xr.Dataset) -> str:
    """Return advice on how much longer to run, `shortage` times as long, but at least twice.

    ESS grows in proportion to the draws, and R-hat - 1 shrinks as fast.
    """
    times = max(2.0, shortage)
    draws_needed = times * posterior.sizes["draw"]
    unit = 10 ** max(int(math.log10(draws_needed)) - 1, 0)
    by_time = posterior.attrs.get("stopped") == "time_limit"
    longer = f"run it {times:.2g} times as long" if by_time else f"take draws={math.ceil(draws_needed / unit) * unit:_}"
    if r_hat <= CHAINS_APART:
        return f"{longer}, or a proposal that mixes better"
    return (
        f"do not use these draws: {longer} at least, let the chains tune longer, or take a proposal that mixes better"
    )


def smallest_ess(variables: Variables, judged_at_least: float) -> Callable[[np.ndarray, float], float]:
    """Return a function ``measure(draws, enough)`` of flat draws, shape (chains, draws, dim).

    It returns the smallest bulk or tail ESS of the parameters that move, or of 500 of them, computed from at most 2500
    draws per chain, or `judged_at_least` if that is more. A bulk ESS below `enough` is returned without computing the
    tail ESS, which takes twice as long. 0 if no parameter moves, or with fewer than 4 draws.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> bool(1000.0 < smallest_ess(Variables({"beta": (2,)}), 0)(draws, 0.0) < 3000.0)
    True
    """
    most_draws = max(MOST_DRAWS, math.ceil(judged_at_least))

    def measure(draws: np.ndarray, enough: float) -> float:
        if draws.shape[1] < 4:
            return 0.0
        sample = _moving(variables, draws, most_draws)
        if not sample.labels:
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):  # chains stuck at different values
            least = float(np.min(BULK.of(sample.draws)))
            if least >= enough:
                least = min(least, float(np.min(TAIL.of(sample.draws))))
        return 0.0 if math.isnan(least) else least

    return measure


def quality(variables: Variables) -> Callable[[np.ndarray], str]:
    """Return a function ``note(draws)`` of flat draws, shape (chains, draws, dim): their smallest bulk ESS and R-hat.

    The note is "" with fewer than 4 draws or if no parameter moves.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> quality(Variables({"beta": (2,)}))(draws)
    'bulk ESS 1712, R-hat 1.001'
    """

    def note(draws: np.ndarray) -> str:
        sample = _moving(variables, draws, MOST_DRAWS) if draws.shape[1] >= 4 else None
        if sample is None or not sample.labels:
            return ""
        with np.errstate(divide="ignore", invalid="ignore"):  # chains stuck at different values
            ess = f"bulk ESS {np.min(BULK.of(sample.draws)):.0f}"
            return ess if len(draws) == 1 else f"{ess}, R-hat {np.max(R_HAT.of(sample.draws)):.4g}"

    return note


def chains_agree(variables: Variables) -> Callable[[np.ndarray], bool]:
    """Return a function that says whether flat draws, shape (chains, draws, dim), pass `convergence`'s R-hat check.

    A single chain passes.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> agree = chains_agree(Variables({"beta": (2,)}))
    >>> agree(draws), agree(draws + np.arange(4)[:, None, None])
    (True, False)
    """

    def agree(draws: np.ndarray) -> bool:
        sample = _moving(variables, draws, MOST_DRAWS)
        chains = draws.shape[0]
        if chains == 1 or not sample.labels:
            return True
        with np.errstate(divide="ignore", invalid="ignore"):
            r_hat = float(np.max(R_HAT.of(sample.draws)))
            ess = float(np.min(BULK.of(sample.draws)))
        return r_hat <= r_hat_limit(ess, chains, len(sample.labels))

    return agree


def _moving(variables: Variables, draws: np.ndarray, most_draws: int) -> Sample:
    """Return the `Sample` of flat draws, shape (chains, draws, dim), that `convergence` would check."""
    values = variables.unpack(draws[:, :: math.ceil(draws.shape[1] / most_draws)].astype(variables.dtype))
    dims = {name: [f"{name}_{axis}" for axis in range(array.ndim - 2)] for name, array in values.items()}
    arrays = {name: (("chain", "draw", *dims[name]), array) for name, array in values.items()}
    return drawn(xr.Dataset(arrays), most_draws)


def effective(posterior: xr.Dataset) -> list[Finding]:
    """Return a finding on whether the run reached its target ESS, and what ended it earlier; [] without a target."""
    attrs = posterior.attrs
    if "target_ess" not in attrs:
        return []
    target_ess = float(attrs["target_ess"])
    ess = float(attrs["smallest_ess"])
    sentence = f"the smallest bulk or tail ESS is {ess:.0f}, of target_ess={target_ess:g}"
    if ess >= target_ess:
        return [Finding("target ESS", "ok", sentence, "", ess, target_ess)]
    at_limit = "the limit draws= came first", "raise draws"
    if "most_draws" in attrs:
        at_limit = "the chains started in several modes and hardly leave them, so more draws would not help", ""
    cause, more = {
        "": at_limit,
        "time_limit": ("the time limit came first", "give it more time"),
        "interrupt": ("the run was interrupted", ""),
    }.get(attrs["stopped"], ("the run failed", ""))
    times = f" ({target_ess / ess:.2g} times as much)" if more and ess > 0.0 else ""
    return [Finding("target ESS", "warning", f"{sentence}: {cause}", f"{more}{times}", ess, target_ess)]
