"""What a finished run should be warned about: stops, stuck chains, what its test and its expansion say of it."""

import json

import numpy as np
import xarray as xr

import approxmcmc.acceptance  # noqa: F401 (a trace names the class of its test, and classes are known once imported)
from approxmcmc.contracts import AcceptanceTest
from approxmcmc.diagnostics.expansion_gates import expansion_problems
from approxmcmc.diagnostics.gates import gates

SMALLEST_RUN = 50


def problems(trace: xr.DataTree) -> list[str]:
    """Return one sentence for each thing about `trace` that deserves a second look; empty for a clean run."""
    stats, posterior = trace["sample_stats"].dataset, trace["posterior"].dataset
    settings = json.loads(posterior.attrs.get("inference_library_settings", "{}"))
    test = AcceptanceTest.found_in(settings)
    sentences = [sentence for sentence in (_stopped(posterior), _stuck(posterior)) if sentence]
    sentences += [] if test is None else test.problems(stats)
    sentences += [gate.sentence for gate in gates(stats) if gate.fires and gate.name != "audits"]
    return sentences + expansion_problems(posterior.attrs, settings)


def _stopped(posterior: xr.Dataset) -> str | None:
    stopped, draws = posterior.attrs.get("stopped", ""), posterior.sizes["draw"]
    if stopped == "failure":
        return f"sampling stopped after {draws} draws. {posterior.attrs['failure']}. The draws made are kept"
    if stopped and not draws:
        return f"sampling was stopped ({stopped}) before the first draw was kept: the posterior group is empty"
    if stopped == "interrupt":
        return f"sampling was interrupted; {draws} draws per chain are kept"
    return None


def _stuck(posterior: xr.Dataset) -> str | None:
    if posterior.sizes["draw"] < SMALLEST_RUN:
        return None
    moved = sum(
        (values != values.isel(draw=0)).sum([d for d in values.dims if d != "chain"]) for values in posterior.values()
    )
    stuck = [int(chain) for chain, moves in zip(posterior["chain"].values, np.asarray(moved), strict=True) if not moves]
    if not stuck:
        return None
    return (
        f"chain(s) {stuck} never moved in {posterior.sizes['draw']} draws: the steps are too large or the start is far "
        "off; reduce the scale, tune it (target_acceptance), or start elsewhere. R-hat and ESS then mean nothing"
    )
