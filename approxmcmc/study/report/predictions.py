"""What the recursion predicts for a sampler at the places where its chains went.

One decision of a sequential test depends on the data through mu_std = (Lambda - log u) / tau alone: Lambda the log
Metropolis-Hastings ratio of the proposal, tau = sqrt(N) times the standard deviation of its terms. Pairs of a stored
draw and a proposal from it give (Lambda, tau); `approxmcmc.acceptance.laws.recursion` gives the error and the share of
the data read at each mu_std; both are averaged over u and pairs.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.contracts import CompiledTarget, Target
from approxmcmc.engine.batches import full_terms
from approxmcmc.study.report.intervals import Interval, share_interval

if TYPE_CHECKING:
    import xarray as xr

LARGEST_MU_STD = 40.0
U_NODES = 64


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Log ratio Lambda and scale tau of proposals, each of shape (n_pairs,)."""

    log_ratio: np.ndarray
    tau: np.ndarray


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Predicted wrong-decision rate and share of the data read per decision, averaged over u and pairs."""

    wrong_rate: Interval
    data_fraction: Interval


def flat_draws(target: Target, trace: "xr.DataTree") -> np.ndarray:
    """Return the draws of a trace as flat theta, shape (chain * draw, dim), in the order of ``target.variables``."""
    posterior = trace["posterior"].to_dataset()
    arrays = [
        posterior[name]
        .transpose("chain", "draw", ...)
        .values.reshape(posterior.sizes["chain"] * posterior.sizes["draw"], -1)
        for name in target.variables.shapes
    ]
    return np.concatenate(arrays, axis=1)


def log_term_differences(target: Target, theta: np.ndarray, proposed: np.ndarray) -> np.ndarray:
    """Return l_i = log p(x_i | theta') - log p(x_i | theta), shape (n_obs,), with the target's own compiled terms."""
    return _differences(target.compile(), theta, proposed)


def _differences(compiled: CompiledTarget, theta: np.ndarray, proposed: np.ndarray) -> np.ndarray:
    before, after = (full_terms(compiled.log_terms, x, compiled.data, compiled.n_obs) for x in (theta, proposed))
    return after - before


def random_walk_pairs(
    target: Target, traces: Sequence["xr.DataTree"], scale: Any, *, n_pairs: int = 200, random_seed: int = 0
) -> Pairs:
    """Propose from draws spread evenly over the traces, and return (Lambda, tau) of every proposal.

    Parameters
    ----------
    target
        A target whose `compile` gives its terms.
    traces
        Draws to start from; evenly many of each.
    scale
        Standard deviation of the Gaussian random walk: a number or shape (dim,).
    """
    compiled = target.compile()
    rng = np.random.default_rng(random_seed)
    per_trace = -(-n_pairs // len(traces))
    starts = np.concatenate([_evenly(flat_draws(target, trace), per_trace) for trace in traces])
    log_ratio, tau = np.empty(len(starts)), np.empty(len(starts))
    for b, theta in enumerate(starts):
        proposed = theta + scale * rng.standard_normal(theta.shape)
        terms = _differences(compiled, theta, proposed)
        log_ratio[b] = compiled.log_prior(proposed) - compiled.log_prior(theta) + terms.sum()
        tau[b] = np.sqrt(terms.size) * terms.std(ddof=1)
    return Pairs(log_ratio, tau)


def predict(pairs: Pairs, *, epsilon: float, batch_size: int, n_obs: int, growth: float = 1.0) -> Prediction:
    """Average the recursion over u and over pairs; the interval is that of the mean over pairs."""
    from approxmcmc.acceptance.laws.recursion import sequential_test_error

    grid = np.concatenate([[0.0], np.geomspace(0.02, LARGEST_MU_STD, 90)])
    table = sequential_test_error(grid, epsilon=epsilon, batch_size=min(batch_size, n_obs), n_obs=n_obs, growth=growth)
    u = (np.arange(U_NODES) + 0.5) / U_NODES
    mu_std = np.abs((pairs.log_ratio[:, None] - np.log(u)) / pairs.tau[:, None])
    error = np.interp(mu_std, grid, np.ravel(table["error"].values)).mean(axis=1)
    fraction = np.interp(mu_std, grid, np.ravel(table["data_fraction"].values)).mean(axis=1)
    return Prediction(share_interval(error), share_interval(fraction))


def predict_setting(
    target: Target, traces: Sequence["xr.DataTree"], sampler: Mapping[str, Any], *, n_pairs: int = 200
) -> Prediction | None:
    """Return the prediction for a stored sampler, or None where the recursion does not speak of it.

    It speaks of a sequential t-test behind a random walk with fixed independent steps.
    """
    test, proposal = sampler.get("test") or {}, sampler.get("proposal") or {}
    if test.get("kind") != "SequentialTTest" or proposal.get("kind") != "RandomWalk" or not hasattr(target, "compile"):
        return None
    scale = proposal.get("scale", 1.0)
    scale = np.asarray(scale["array"] if isinstance(scale, Mapping) else scale, dtype=np.float64)
    if scale.ndim > 1 or proposal.get("target_acceptance") is not None:
        return None
    pairs = random_walk_pairs(target, traces, scale, n_pairs=n_pairs)
    return predict(
        pairs,
        epsilon=test["epsilon"],
        batch_size=test["batch_size"],
        n_obs=target.n_obs,
        growth=test.get("growth", 1.0),
    )


def _evenly(draws: np.ndarray, count: int) -> np.ndarray:
    return draws[np.linspace(0, len(draws) - 1, min(count, len(draws))).round().astype(int)]
