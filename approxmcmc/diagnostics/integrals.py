"""Check how far the sampled density lies from its model, where a target replaces an integral by a sum over nodes."""

from collections.abc import Mapping
from typing import Any

from approxmcmc.contracts import LARGEST_DISTANCE_TO_MODEL, Finding


def distance_to_model(attrs: Mapping[str, Any]) -> list[Finding]:
    """Return the finding on the error of the target's quadrature, in nats; [] if the target has none.

    An exact sampler is exact for the sum over nodes, so no other check of the draws shows this error.
    """
    if "setup_quadrature_nats" not in attrs:
        return []
    nats = float(attrs["setup_quadrature_nats"])
    limit = LARGEST_DISTANCE_TO_MODEL
    sentence = (
        f"with {attrs['setup_quadrature_nodes']} nodes the log density differs by {nats:.2g} nats from that of the "
        "model whose effects are integrated"
    )
    if nats <= limit:
        return [Finding("quadrature", "ok", sentence, value=nats, limit=limit)]
    sentence += f" (limit: {limit:g}): the draws follow another posterior, however exact the sampler"
    advice = "leave out n_nodes=, or give more nodes, a prior without a heavy tail of sigma, or sample the effects"
    return [Finding("quadrature", "warning", sentence, advice, nats, limit)]
