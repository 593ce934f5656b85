"""Predict error and data use of a sampler from the theory of its test, at stored draws of its chains.

In the Gaussian regime one decision depends on the data through mu_std = (Lambda - T(u)) / tau alone: Lambda the log
Metropolis-Hastings ratio of the proposal, T(u) the threshold, tau = sqrt(N) times the standard deviation of the terms.
Pairs of a stored draw and a proposal from it give (Lambda, tau); the test's `decision_law` gives the error and the
share of the data read at each mu_std; both are averaged over u and pairs.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.contracts import AcceptanceTest, Target
from approxmcmc.design.pairs import Pairs, pairs_from
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.output.reading import flat_draws
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.study.report.intervals import Interval, share_interval

if TYPE_CHECKING:
    import xarray as xr

U_NODES = 64


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Predicted wrong-decision rate and share of the data read per decision, averaged over u and pairs."""

    wrong_rate: Interval
    data_fraction: Interval


def log_term_differences(target: Target, theta: np.ndarray, proposed: np.ndarray) -> np.ndarray:
    """Return l_i = log p(x_i | theta') - log p(x_i | theta), shape (n_obs,), with the target's own compiled terms."""
    compiled = target.compile()
    before, after = (full_terms(compiled.log_terms, x, compiled.data, compiled.n_obs) for x in (theta, proposed))
    return after - before


def predict_setting(
    target: Target, traces: Sequence["xr.DataTree"], sampler: Mapping[str, Any], *, n_pairs: int = 200
) -> Prediction | None:
    """Return the prediction for a sampler, given by its settings, from its proposals at draws spread over the traces.

    Return None if the sampler is not Metropolis-Hastings, if the distribution of the test's decisions is unknown, or if
    the proposal adapts during the run, because then its settings do not determine its steps.
    """
    stored = MetropolisHastings.found_in(sampler)
    if stored is None or not isinstance(target, Target) or stored.test.decision_law(np.zeros(1), target.n_obs) is None:
        return None
    proposal = stored.proposal.build_proposal(target)
    if proposal.describe(proposal.make_state()) or "weight" in proposal.records:
        return None
    per_trace = math.ceil(n_pairs / len(traces))
    draws = np.concatenate(
        [_evenly(flat_draws(trace, target).reshape(-1, target.variables.size), per_trace) for trace in traces]
    )
    return predict(stored.test, pairs_from(draws, target, proposal, np.random.default_rng(0)), target.n_obs)


def predict(test: AcceptanceTest, pairs: Pairs, n_obs: int) -> Prediction | None:
    """Return the predicted error and data use of a test, averaged over u and pairs; None if they are unknown.

    Pairs with an infinite log ratio (outside the support of the prior, or a datum of probability 0) are left out.
    """
    u = (np.arange(U_NODES) + 0.5) / U_NODES
    threshold = np.log(u) if test.rule == "metropolis" else np.log(u) - np.log1p(-u)
    distance = pairs.log_ratio[pairs.inside, None] - threshold
    tau = np.broadcast_to(pairs.tau[pairs.inside, None], distance.shape)
    mu_std = np.divide(distance, tau, out=np.full_like(distance, np.inf), where=tau > 0.0)
    law = test.decision_law(mu_std, n_obs)
    if law is None or not pairs.inside.any():
        return None
    return Prediction(share_interval(law.error.mean(axis=1)), share_interval(law.data_fraction.mean(axis=1)))


def _evenly(draws: np.ndarray, count: int) -> np.ndarray:
    return draws[np.linspace(0, len(draws) - 1, min(count, len(draws))).round().astype(int)]
