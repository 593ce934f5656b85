"""Traces made from plain arrays, for tests that need the output of a run but no run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import SamplingResult, Variables
from approxmcmc.output import build_trace


def fake_trace(
    draws: np.ndarray,
    *,
    stats: Mapping[str, Any] | None = None,
    name: str = "beta",
    labels: Sequence[Any] | None = None,
    seconds_per_draw: float = 1.0,
    datapoints_per_draw: int = 10,
    n_obs: int = 100,
    tuning: Mapping[str, Any] | None = None,
    warmup: np.ndarray | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Build a trace of one vector variable through `build_trace`.

    Parameters
    ----------
    draws
        Shape (chains, draws, dim), or (chains, draws) for one coordinate.
    stats
        Records by name, each of shape (chains, draws) or a scalar; they replace the defaults below, None removes one.
        Defaults: every draw takes `seconds_per_draw`, touches `datapoints_per_draw`, makes one decision of one round
        and is not audited.
    name, labels
        Name of the variable and labels of its dim ``coef``; default 0, 1, ...
    tuning
        Totals of the tuning steps by name, per chain or scalar.
    warmup
        Draws of the tuning steps; they share the default records.
    """
    draws = np.asarray(draws, dtype=np.float64)
    draws = draws[..., None] if draws.ndim == 2 else draws
    n_chains, n_draws, dim = draws.shape
    records: dict[str, Any] = {
        "accepted": True,
        "acceptance_rate": 0.5,
        "datapoints_touched": datapoints_per_draw,
        "likelihood_evaluations": 2 * datapoints_per_draw,
        "decisions_made": 1,
        "decision_rounds": 1,
        "decisions_audited": 0,
        "wrong_decisions": 0,
        "wrong_accepts": 0,
        "perf_counter_diff": seconds_per_draw,
        **(stats or {}),
    }
    records = {key: value for key, value in records.items() if value is not None}
    warm = None if warmup is None else np.asarray(warmup, dtype=np.float64).reshape(n_chains, -1, dim)
    result = SamplingResult(
        draws=draws,
        stats={key: np.array(np.broadcast_to(value, (n_chains, n_draws))) for key, value in records.items()},
        warmup_draws=warm,
        warmup_stats=None
        if warm is None
        else {key: np.broadcast_to(value, warm.shape[:2]) for key, value in records.items() if np.ndim(value) == 0},
        tuning_totals={key: np.broadcast_to(value, n_chains) for key, value in (tuning or {}).items()},
        attrs={
            "sampling_time": n_draws * seconds_per_draw,
            "tuning_steps": 0,
            "stopped": "",
            "n_obs": n_obs,
            "seed": 1,
            "thin": 1,
            **(attrs or {}),
        },
    )
    labels = list(range(dim)) if labels is None else list(labels)
    return build_trace(
        result,
        variables=Variables({name: (dim,)}, {name: ("coef",)}, {"coef": labels}),
        observed_data={},
        constant_data={},
        keep_warmup=warm is not None,
        settings={"kind": "Fake"},
    )


def autoregression(
    rng: np.random.Generator, shape: tuple[int, int], coefficient: float, shift: float | np.ndarray = 0.0
) -> np.ndarray:
    """Return stationary AR(1) chains x' = a x + sqrt(1 - a^2) z, unit variance, plus a shift; shape (chains, draws).

    Their integrated autocorrelation time is (1 + a)/(1 - a), so the mean of T draws has variance about that over T.
    """
    n_chains, n_draws = shape
    noise = np.sqrt(1 - coefficient**2) * rng.standard_normal((n_chains, n_draws))
    noise[:, 0] = rng.standard_normal(n_chains)
    chain = np.empty_like(noise)
    state = np.zeros(n_chains)
    for draw in range(n_draws):
        state = coefficient * state + noise[:, draw]
        chain[:, draw] = state
    return chain + shift
