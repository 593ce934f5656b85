r"""Runs made because an earlier one failed its checks: which they were, and whether chains of the others saw more.

A chain that stayed in a place of its own may have been lost, far below the posterior, or it may have found another
mode. A later run from new starts, in which all chains agree, does not decide this. The mass of the place does: if the
chain's draws there are nearly normal, the integral of the density around them has the logarithm

.. math:: E[\log \pi] + \tfrac12 \log\det \Sigma + \text{constant},

with the mean and the covariance of its draws. Parameters that are positive in all draws count by their logarithms, as
the log density that NUTS records does. A place is negligible if its log mass lies more than 15 + d / 4 nats below, with
d parameters: e^-15 of the mass, and a quarter of a nat of each parameter for the error of the estimate. A place that is
not negligible, and that no chain of the kept run has reached, is reported.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.convergence import drawn
from approxmcmc.diagnostics.health import HARDLY_ANY, share_of_moves
from approxmcmc.diagnostics.modes import ADVICE_ON_MODES

ATTRIBUTE = "further_runs"
NAME = "further runs"
APART = 1.0  # standard deviations beyond the range of other draws
DEPTH = 15.0
DEPTH_PER_PARAMETER = 0.25
SHRINKAGE = 1e-6  # factor on correlations, so that the determinant of dependent parameters, as of a simplex, is not 0


def negligible_depth(parameters: int) -> float:
    """Return how far, in nats, the log mass of a negligible place lies below that of the others; see the module."""
    return DEPTH + DEPTH_PER_PARAMETER * parameters


class LogMasses(NamedTuple):
    """The log mass around each chain, up to a constant, shape (chains,), and the largest of chains that move.

    NaN if the trace does not record the log density.
    """

    of_chains: np.ndarray
    largest: float


def log_masses(trace: xr.DataTree, draws: np.ndarray, positive: np.ndarray) -> LogMasses:
    """Return the log masses around the chains of a trace.

    `draws` (chains, draws, parameters) are those of the trace, and `positive` (parameters,) says which parameters count
    by their logarithms. A chain that hardly moves has no volume of its own. It gets the largest of the others, which
    bounds its mass from above, so other chains are not compared with it.
    """
    stats = trace["sample_stats"]
    if "lp" not in stats:
        return LogMasses(np.full(len(draws), math.nan), math.nan)
    values = np.where(positive, np.log(np.where(positive, draws, 1.0)), draws)
    volumes = np.array([_log_volume(chain) for chain in values])
    still = share_of_moves(trace["posterior"].to_dataset()) < HARDLY_ANY
    if still.all():
        return LogMasses(np.full(len(draws), math.nan), math.nan)
    volumes[still] = volumes[~still].max()
    masses = stats["lp"].mean("draw").to_numpy().astype(np.float64) + volumes
    return LogMasses(masses, float(masses[~still].max()))


def _log_volume(values: np.ndarray) -> float:
    """Return half the log determinant of the covariance of draws, shape (draws, parameters)."""
    sd = values.std(axis=0)
    moving = sd > 0.0
    standardized = (values[:, moving] - values[:, moving].mean(axis=0)) / sd[moving]
    correlations = (1.0 - SHRINKAGE) * standardized.T @ standardized / len(values) + SHRINKAGE * np.eye(moving.sum())
    return float(np.log(sd[moving]).sum() + 0.5 * np.linalg.slogdet(correlations)[1])


def depths_of_places(trace: xr.DataTree) -> np.ndarray:
    """Return how far the log mass around each chain lies below the largest, in nats, shape (chains,).

    0 for a chain that is not apart from the chain of largest mass: two chains that each see a part of one funnel have
    parts of very different mass.
    """
    draws = drawn(trace["posterior"].to_dataset()).draws
    masses = log_masses(trace, draws, (draws > 0.0).all(axis=(0, 1)))
    if math.isnan(masses.largest):
        return np.full(len(draws), math.nan)
    heaviest = draws[[int(np.argmax(masses.of_chains == masses.largest))]]
    is_apart = (distances(draws, heaviest) > APART).any(axis=1)
    return np.where(is_apart, masses.largest - masses.of_chains, 0.0)


def distances(draws: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how far each chain lies beyond the range of the draws `others`, in their sd, shape (chains, parameters).

    Both arrays have shape (chains, draws, parameters). A negative distance means that the ranges overlap.
    """
    sd = others.std(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):  # a parameter that does not move in `others`
        above = (draws.min(axis=1) - others.max(axis=(0, 1))) / sd
        under = (others.min(axis=(0, 1)) - draws.max(axis=1)) / sd
    return np.nan_to_num(np.fmax(above, under), nan=0.0)


def places_not_reached(earlier: xr.DataTree, kept: xr.DataTree, *, comparable: bool) -> list[dict[str, Any]]:
    """Return the chains of an earlier run that lie outside all draws of the kept one, in the parameter furthest away.

    A chain lies outside if all of its draws are more than a standard deviation beyond the range of the kept draws.
    ``below`` is the distance, in nats, of its log mass from the largest of its run, and also of the kept run if their
    log densities are `comparable`; None if it is unknown.
    """
    before = drawn(earlier["posterior"].to_dataset())
    after = drawn(kept["posterior"].to_dataset())
    common = [label for label in before.labels if label in set(after.labels)]
    if not common:
        return []
    old = before.draws[:, :, [before.labels.index(label) for label in common]]
    new = after.draws[:, :, [after.labels.index(label) for label in common]]
    distance = distances(old, new)
    positive = (old > 0.0).all(axis=(0, 1)) & (new > 0.0).all(axis=(0, 1))
    masses = log_masses(earlier, old, positive)
    top = masses.largest
    if comparable:
        top = max(top, log_masses(kept, new, positive).largest)
    places = []
    for chain in np.nonzero((distance > APART).any(axis=1))[0].tolist():
        k = int(np.argmax(distance[chain]))
        below = float(top - masses.of_chains[chain])
        places.append(
            {
                "chain": chain,
                "parameter": common[k],
                "mean": float(old[chain, :, k].mean()),
                "below": below if math.isfinite(below) else None,
                "limit": negligible_depth(len(common)),
            }
        )
    return places


def further_runs(posterior: xr.Dataset, *, others_fail: bool) -> list[Finding]:
    """Return the findings on the runs of a trace that several runs led to; [] if there was one run.

    `others_fail` says whether another check of the kept run failed.
    """
    runs = json.loads(posterior.attrs.get(ATTRIBUTE, "[]"))
    if len(runs) < 2:
        return []
    kept = next(k for k, run in enumerate(runs) if run["kept"])
    sentence = "; ".join(_described(k, run) for k, run in enumerate(runs))
    if others_fail:
        sentence = f"{len(runs)} runs were made, and none passed all checks: {sentence}. Run {kept} is kept"
        findings = [Finding(NAME, "warning", sentence, "", len(runs))]
    else:
        findings = [Finding(NAME, "ok", f"{len(runs)} runs were made: {sentence}. Run {kept} is kept", "", len(runs))]
    places = [
        (k, unreached) for k, run in enumerate(runs) for unreached in run.get("not_reached", []) if _counts(unreached)
    ]
    if places:
        sentence = "; ".join(_place(k, unreached) for k, unreached in places)
        sentence = f"earlier chains stayed in places that no draw of this run has reached: {sentence}"
        findings.append(Finding("places not reached", "warning", sentence, ADVICE_ON_MODES, len(places), 0.0))
    return findings


def _counts(unreached: Mapping[str, Any]) -> bool:
    """Return whether a place is not negligible; an unknown mass counts."""
    return unreached["below"] is None or unreached["below"] <= unreached["limit"]


def _described(number: int, run: Mapping[str, Any]) -> str:
    """Return one run in words."""
    end = run.get("error") or (f"failed {run['problems']}" if run["problems"] else "passed")
    return f"run {number}, {run['change']}, {end}"


def _place(number: int, unreached: Mapping[str, Any]) -> str:
    """Return one place in words."""
    mass = "of unknown mass" if unreached["below"] is None else f"with about e^-{unreached['below']:.3g} of the mass"
    return f"chain {unreached['chain']} of run {number} at {unreached['parameter']} = {unreached['mean']:.3g}, {mass}"
