"""Check how a run ended, whether its chains moved, and how many trajectories failed: R-hat does not show these."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding

SMALLEST_RUN = 50  # draws per chain
# A chain with reasonable steps moves in at least a tenth of them; with a share below this, it has hardly any draws.
HARDLY_ANY = 0.01
# A proposal out of reach is a wasted step, and many may hide a fault of the model; a tree cut short costs time only.
OFTEN = 0.05


def stopped(posterior: xr.Dataset) -> Finding:
    """Return the finding on how the run ended."""
    reason = posterior.attrs.get("stopped", "")
    draws = posterior.sizes["draw"]
    if reason == "failure":
        cause = posterior.attrs.get("failure", "The cause is unknown")
        sentence = f"sampling stopped after {draws} draws. {cause}. The draws made are kept"
        return Finding("end of the run", "failure", sentence, "evaluate the model there", draws)
    if not draws:
        sentence = f"sampling was stopped ({reason}) before the first draw was kept: the posterior group is empty"
        return Finding("end of the run", "failure", sentence, "give it more time, or fewer tuning steps", draws)
    if reason == "interrupt":
        sentence = f"sampling was interrupted; {draws} draws per chain are kept"
        return Finding("end of the run", "warning", sentence, value=draws)
    ended = "ended at its time limit with" if reason else "made all of its"
    every = int(posterior.attrs.get("thinned_by", 1))
    thinned = f", 1 in {every} of those made" if every > 1 else ""
    return Finding("end of the run", "ok", f"sampling {ended} {draws} draws per chain{thinned}", value=draws)


def chain_lengths(real: np.ndarray) -> list[Finding]:
    """Return the finding on chains of different lengths, shape (chain,); [] if they are equal."""
    if len(set(real.tolist())) < 2:
        return []
    shortest = int(real.min())
    sentence = f"the chains have {shortest} to {int(real.max())} draws; all checks read the first {shortest} of each"
    return [Finding("chain lengths", "ok", sentence, value=float(shortest))]


def movement(posterior: xr.Dataset) -> list[Finding]:
    """Return findings on the chains that never moved, and on those that hardly did.

    A chain of NUTS that rests has a step size that collapsed during tuning: its trajectories end where they start.
    """
    draws = posterior.sizes["draw"]
    if draws < SMALLEST_RUN:
        sentence = f"chains were not checked for movement: {SMALLEST_RUN} draws are needed, there are {draws}"
        return [Finding("movement", "not checked", sentence)]
    moves = share_of_moves(posterior)
    labels = posterior["chain"].values
    advice = "reduce the scale, tune it (target_acceptance), or start elsewhere"
    cause = "the steps are too large or the start is far off"
    if "nuts" in posterior.attrs:
        advice = _advice_for_nuts(posterior.attrs)
        cause = "the step size of its trajectories collapsed during tuning, or the start is far off"
    # A discrete posterior may put all its mass on one state; a continuous one cannot.
    continuous = any(variable.dtype.kind == "f" for variable in posterior.values())
    findings = []
    if stuck := labels[moves == 0.0].tolist():
        sentence = f"chain(s) {stuck} never moved in {draws} draws: {cause}"
        findings.append(
            Finding(
                "movement", "failure" if continuous else "warning", sentence, advice, 0.0, HARDLY_ANY, _named(stuck)
            )
        )
    if slow := labels[(moves > 0.0) & (moves < HARDLY_ANY)].tolist() if continuous else []:
        least = float(moves[moves > 0.0].min())
        sentence = f"chain(s) {slow} hardly moved: at the slowest in {least:.2%} of {draws} draws"
        findings.append(Finding("movement", "warning", sentence, advice, least, HARDLY_ANY, _named(slow)))
    least = float(moves.min())
    passed = Finding("movement", "ok", f"the slowest chain moved in {least:.0%} of its draws", "", least, HARDLY_ANY)
    return findings or [passed]


def _advice_for_nuts(attrs: Mapping[str, Any]) -> str:
    """Return what helps NUTS to move, without what this run has already."""
    settings = json.loads(attrs.get("inference_library_settings", "{}"))
    ways = ["give all variables scales of order 1"]
    if not settings.get("non_centred"):
        ways += ["write hierarchical effects as sigma * z with z ~ N(0, 1), amc.NUTS(non_centred=True)"]
    if attrs.get("adaptation") == "diag":
        ways += ['take scales from the draws alone, amc.NUTS(adaptation="draw_diag")']
    ways += [_higher_acceptance(settings), "tune longer (tune)", "start elsewhere (initvals)"]
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"


def _higher_acceptance(settings: Mapping[str, Any]) -> str:
    accept = float(settings.get("target_accept", 0.8))
    return f"raise target_accept, amc.NUTS(target_accept={(1.0 + accept) / 2.0:.3g})"


def undefined(stats: xr.Dataset) -> list[Finding]:
    """Return the finding on the share of proposals with an undefined log density; [] if the run does not count them.

    Such a proposal lies where the density has fallen by over 745 nats, see `acceptance/out_of_reach.py`;
    an undefined density anywhere else ends the chain.
    """
    if "out_of_reach" not in stats:
        return []
    rejected = int(stats["out_of_reach"].sum())
    proposals = int(stats["decisions_made"].sum()) or stats["out_of_reach"].size  # untested steps are no decisions
    if not rejected:
        return [Finding("out of reach", "ok", "the log density was defined at all proposals", "", 0.0, OFTEN)]
    share = rejected / proposals
    sentence = (
        f"the log density was NaN or +inf at {rejected} of {proposals} proposals ({share:.2g}), all out of reach of "
        "the posterior: they overflow, and were rejected"
    )
    advice = "reduce the scale or step size, or tune it (target_acceptance)" if share > OFTEN else ""
    return [Finding("out of reach", "warning" if share > OFTEN else "ok", sentence, advice, share, OFTEN)]


def share_of_moves(posterior: xr.Dataset) -> np.ndarray:
    """Return the share of each chain's draws, after the first, that differ from the draw before; shape (chain,)."""
    moved = np.zeros((posterior.sizes["chain"], max(posterior.sizes["draw"] - 1, 0)), dtype=bool)
    for variable in posterior.values():
        values = variable.to_numpy().reshape(*moved.shape[:1], posterior.sizes["draw"], -1)
        changes = values[:, 1:] != values[:, :-1]
        if values.dtype.kind in "fc":
            changes &= ~(np.isnan(values[:, 1:]) & np.isnan(values[:, :-1]))  # NaN differs from itself
        moved |= changes.any(axis=2)
    return moved.mean(axis=1)


def _named(chains: list[int]) -> str:
    return ", ".join(f"chain {chain}" for chain in chains)


def trajectories(stats: xr.Dataset, settings: Mapping[str, Any]) -> list[Finding]:
    """Return the findings on trajectories; empty for a sampler without trajectories.

    A divergence is a trajectory with an energy error above 1000: the step size is too large for the curvature there,
    and the draws may miss the region (Betancourt 2017). One divergence is enough to warn.
    """
    findings = []
    if "diverging" in stats:
        findings.append(_divergences(stats["diverging"], settings))
    if "reached_max_treedepth" in stats:
        findings.append(_cut_short(stats["reached_max_treedepth"]))
    return findings


def _divergences(diverging: xr.DataArray, settings: Mapping[str, Any]) -> Finding:
    number = int(diverging.sum())
    draws = diverging.size
    if not number:
        return Finding("divergences", "ok", "no trajectory diverged", "", 0.0, 0.0)
    per_chain = diverging.sum("draw")
    where = _named(diverging["chain"].to_numpy()[per_chain.to_numpy() > 0].tolist())
    advice = (
        f"{_higher_acceptance(settings)}, or write hierarchical effects in the other form, sigma * z with z ~ N(0, 1) "
        "in place of N(0, sigma), amc.NUTS(non_centred=True), or the reverse"
    )
    sentence = f"{number} of {draws} trajectories diverged: the draws may miss part of the posterior"
    return Finding("divergences", "warning", sentence, advice, float(number), 0.0, where)


def _cut_short(reached: xr.DataArray) -> Finding:
    share = float(reached.mean())
    sentence = f"{share:.2g} of the trajectories reached the largest tree depth before they turned around"
    advice = "give variables scales of order 1, or raise tune" if share > OFTEN else ""
    return Finding("tree depth", "warning" if share > OFTEN else "ok", sentence, advice, share, OFTEN)
