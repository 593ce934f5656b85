"""Did the chains look at more than one mode? Where they started, and what a search from far starts found.

R-hat compares chains. Chains that start near each other agree also if they all miss a mode, so R-hat is evidence of
one mode only if the starts were overdispersed (Gelman and Rubin 1992), or if a search from far starts found no other
mode, or if the posterior is known to have one.

If R-hat fails, the chains may be in different modes, or mix slowly. They are in different modes if their draws of a
parameter have no value in common although no chain drifts; then more draws do not help.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.convergence import Sample, drawn

NAME = "modes"
# Least standard deviation of the starts of the chains, in posterior standard deviations of a parameter, at which the
# starts count as overdispersed. For draws of the posterior itself it is about 1, and below 3 for the largest of 50
# parameters in four chains.
OVERDISPERSED = 3.0
# Largest distance between the means of the two halves of a chain, in its standard deviations, at which it counts as
# staying in one place. The path of a random walk is below it in 28 % of all cases, four such paths in .6 %; a chain of
# 100 effective draws is always below it (2.5 standard errors).
DRIFT = 0.5
ADVICE_ON_MODES = (
    "report each mode by itself, or give a prior that excludes one; weights need a sampler that jumps between modes"
)
APART = "start them apart: leave initvals out, or give each chain its own, such as draws of the prior"


def starts_apart(starts: np.ndarray, draws: np.ndarray) -> float:
    """Return the largest ratio, over parameters, of the standard deviation of the starts to that within chains.

    `starts` has shape (chains, dim), `draws` (chains, draws, dim). NaN if there is one chain, or no parameter moves.
    The standard deviation of all draws would grow with the distance of modes in which the chains stay.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 100, 2))
    >>> round(starts_apart(np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 0.0], [9.0, 0.0]]), draws), 1)
    5.2
    """
    if len(starts) < 2 or not draws.shape[1]:
        return math.nan
    spread = np.sqrt(draws.var(axis=1).mean(axis=0))
    moves = spread > 0.0
    if not moves.any():
        return math.nan
    return float((starts.std(axis=0, ddof=1)[moves] / spread[moves]).max())


def modes(posterior: xr.Dataset, mixing: Iterable[Finding]) -> list[Finding]:
    """Return the finding on modes; [] if the states are discrete, or nothing is known of the starts and chains agree.

    `mixing` are the findings of `convergence`: whether the chains agree.
    """
    if not any(variable.dtype.kind == "f" for variable in posterior.values()):
        return []
    record = json.loads(posterior.attrs.get("modes", "{}"))
    if record.get("proof"):
        return [Finding(NAME, "ok", f"the posterior has one mode: {record['proof']}")]
    if record.get("others"):
        return [_several(record, mixing)]
    disagree = any(finding.check == "R-hat" and finding.fires for finding in mixing)
    if disagree and (places := places_of_chains(drawn(posterior))):
        return [_in_places(places)]
    if record.get("searches"):
        return [_one(record)]
    return [_by_starts(record, posterior)] if "modes" in posterior.attrs else []


class Places(NamedTuple):
    """The places in which chains stay: groups of chains, by the draws of the parameter that separates them most."""

    parameter: str
    groups: list[list[int]]


def places_of_chains(sample: Sample) -> Places | None:
    """Return the groups of chains whose draws have no value in common; None if there is one group, or a chain drifts.

    The parameter is the one with the largest ratio of the standard deviation between chains to that within chains. The
    ranges of its draws, one for each chain, are the intervals that overlap within a group.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 1))
    >>> places_of_chains(Sample(draws + np.array([-9.0, 9.0, 9.0, -9.0])[:, None, None], ["beta"], ""))
    Places(parameter='beta', groups=[[0, 3], [1, 2]])
    >>> places_of_chains(Sample(draws, ["beta"], ""))
    """
    between = sample.draws.mean(axis=1).std(axis=0)
    within = np.sqrt(sample.draws.var(axis=1).mean(axis=0))
    k = int(np.argmax(between / np.maximum(within, 1e-300)))
    draws = sample.draws[:, :, k]
    first, second = np.array_split(draws, 2, axis=1)
    if (np.abs(first.mean(axis=1) - second.mean(axis=1)) > DRIFT * draws.std(axis=1)).any():
        return None
    groups: list[list[int]] = []
    largest = -math.inf
    for chain in np.argsort(draws.min(axis=1), kind="stable").tolist():
        if draws[chain].min() > largest:
            groups.append([])
        groups[-1].append(chain)
        largest = max(largest, float(draws[chain].max()))
    return Places(sample.labels[k], [sorted(group) for group in groups]) if len(groups) > 1 else None


def _in_places(places: Places) -> Finding:
    """Return the finding on chains that stay in several places."""
    *others, last = [f"chain{'s' if len(group) > 1 else ''} {', '.join(map(str, group))}" for group in places.groups]
    sentence = (
        f"{'; '.join(others)} and {last} have no value of {places.parameter} in common, and none of them drifts: they "
        "are in different modes and do not move between them, so the draws do not have the weights of the modes"
    )
    advice = (
        "if a symmetry connects the modes, such as a sign or exchanged labels, remove it; else "
        f"{ADVICE_ON_MODES}. Starts nearer to each other would only hide modes"
    )
    return Finding(NAME, "warning", sentence, advice, len(places.groups), 1.0, places.parameter)


def _several(record: Mapping[str, Any], mixing: Iterable[Finding]) -> Finding:
    """Return the finding on a run whose chains started in several modes."""
    others = record["others"]
    sentence = f"searches from {record['searches']} far starts found {_counted(len(others), 'other mode')}: "
    sentence += "; ".join(_described(mode) for mode in others)
    disagree = any(finding.check == "R-hat" and finding.fires for finding in mixing)
    compared = any(finding.check == "R-hat" and finding.verdict != "not checked" for finding in mixing)
    missed = [mode for mode in others if not (mode["chains"] or mode["is_left"])]
    if not (disagree or missed) and compared:
        return Finding(NAME, "ok", f"{sentence}. The chains agree", "", 1 + len(others))
    if record.get("starts_given"):
        sentence += ". The chains started at the given initvals: R-hat does not compare modes that none of them reached"
    elif disagree:
        sentence += (
            ". The chains disagree: they move between the modes seldom or never, so the draws do not have the weights "
            "of the modes"
        )
    elif missed:
        sentence += f". No chain started in {len(missed)} of them, so R-hat says nothing about {_it(missed)}"
    advice = (
        "remove the symmetry, such as by a positive loading or ordered labels, or use only quantities that it leaves "
        "unchanged"
        if all(mode["symmetry"] for mode in others)
        else ADVICE_ON_MODES
    )
    return Finding(NAME, "warning", sentence, advice, 1 + len(others), 1.0, _where(others))


def _described(mode: Mapping[str, Any]) -> str:
    """Return one other mode in words."""
    if mode["symmetry"]:
        what = f"the same density with {mode['symmetry']}"
    elif mode["log_mass"] is not None:
        what = f"about {math.exp(min(mode['log_mass'], 700.0)):.2g} times the mass of the first"
    else:
        what = f"a log density {mode['log_density']:+.3g} from that of the first"
    chains = f", where chains {mode['chains']} started" if mode["chains"] else ""
    chains += ", from which a chain moved to the first" if mode["is_left"] else ""
    return f"{what}, {mode['distance']:.3g} posterior sd away{chains}"


def _one(record: Mapping[str, Any]) -> Finding:
    """Return the finding on a run whose search found no other mode."""
    ended = record["searches"] - record["unfinished"]
    if not ended:
        sentence = f"one mode looked at: none of {record['searches']} searches from far starts reached the posterior"
        return Finding(NAME, "not checked", sentence, APART, 1)
    sentence = f"{ended} of {record['searches']} searches from far starts ended in the mode of the chains"
    if record["left_out"] is not None:
        sentence += f"; another mode has only about {math.exp(record['left_out']):.1g} times its mass"
        sentence = sentence.replace("ended in the mode of the chains", "ended, all others in the mode of the chains")
    return Finding(NAME, "ok", sentence, "", 1, 1.0)


def _by_starts(record: Mapping[str, Any], posterior: xr.Dataset) -> Finding:
    """Return the finding on a run without a search: whether its starts were overdispersed."""
    chains = posterior.sizes["chain"]
    apart = float(posterior.attrs.get("starts_apart", math.nan))
    if apart >= OVERDISPERSED:
        sentence = (
            f"R-hat compares the modes that the {chains} chains reached from starts with a standard deviation of up to "
            f"{apart:.3g} posterior sd; no other modes were searched"
        )
        return Finding(NAME, "ok", sentence, "", apart, OVERDISPERSED)
    if chains == 1:
        return Finding(NAME, "not checked", "one mode looked at: there is one chain", "run 4 chains from far starts")
    if math.isnan(apart):
        sentence = "one mode looked at: the trace does not hold how far from each other the chains started"
    else:
        sentence = (
            "one mode looked at: the starts of the chains had a standard deviation of at most "
            f"{apart:.2g} posterior sd, so chains that agree would miss the same modes"
        )
    if record.get("failure"):
        sentence += f"; a search for other modes failed: {record['failure']}"
    return Finding(NAME, "not checked", sentence, APART, apart, OVERDISPERSED)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _it(modes: list[Any]) -> str:
    return "it" if len(modes) == 1 else "them"


def _where(others: list[Mapping[str, Any]]) -> str:
    return ", ".join(f"chain {chain}" for mode in others for chain in mode["chains"])
