"""Unadjusted Langevin steps of several sizes: slow mixing, discretisation error, or a chain that diverges.

On a normal distribution with covariance C, steps theta' = theta - a/2 (theta - m) + N(0, a C) have the variance

    C / (1 - a/4),

have correlations over about 2/a steps and are stable for a < 4. On another distribution they are stable where 4/a
exceeds the largest curvature of the log density in the metric of C; elsewhere the chain may diverge.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.study.report import Table

if TYPE_CHECKING:
    import xarray as xr

    from approxmcmc.study.results import StudyResults

FAR = 10.0  # posterior standard deviations from the posterior mean, where the posterior has no mass
SMALL = 0.1  # a step whose discretisation error, 2.5 % of a variance, is too small for such chains to measure


def unadjusted_steps(
    results: "StudyResults", mean: np.ndarray, sd: np.ndarray, *, kind: str, tuned: str, remark: str = ""
) -> Table:
    """Tabulate correlation times, inflated variances and far-off draws of an unadjusted sampler by step size.

    Parameters
    ----------
    mean, sd
        Of the posterior, or of the reference chain in its place.
    kind, tuned
        Names of two samplers of the study: the unadjusted one, with the knob ``step_size``, and the one with a test,
        whose tuned steps the caption lists.
    remark
        Ends the caption.
    """
    import pandas as pd

    traces = results.traces()
    rows = []
    for setting in results.study.settings():
        for target in results.study.targets:
            chains = traces.get((target, setting.label))
            if chains and setting.sampler_name == kind:
                rows.append({"setting": setting.label} | _row(float(setting.knobs["step_size"]), chains, mean, sd))
    sizes = [step for (_, label), chains in traces.items() if label.startswith(tuned) for step in _tuned_steps(chains)]
    caption = (
        "Unadjusted Langevin by step size a, in units of the shape of the steps. On a normal distribution the step "
        "alone multiplies variances by 1 / (1 - a/4), and correlations last about 2/a steps. far off: draws more "
        "than "
        f"{FAR:g} posterior standard deviations from the posterior mean in some coordinate. sd ratio: sd of the other "
        f"draws over the posterior's; mean over coordinates. {tuned} tuned its own steps to "
        f"{', '.join(f'{size:.2f}' for size in sizes) or 'nothing yet'}. {remark}"
    )
    formats = {"draws far off": ".1%"}
    return Table("Noisy Langevin: what each step size shows", caption.strip(), pd.DataFrame(rows), formats=formats)


def _row(step: float, traces: Any, mean: np.ndarray, sd: np.ndarray) -> dict[str, Any]:
    draws = [trace["posterior"]["theta"].to_numpy().reshape(-1, len(mean)) for trace in traces]
    distance = [np.abs((theta - mean) / sd).max(axis=1) for theta in draws]
    near = np.concatenate([theta[apart <= FAR] for theta, apart in zip(draws, distance, strict=True)])
    far_off = float(np.mean([np.mean(apart > FAR) for apart in distance]))
    inflation = 1.0 / (1.0 - step / 4.0) if step < 4.0 else np.inf
    memory = 2.0 / step
    if far_off:
        shows = "divergence: the chain leaves the posterior, and its moments mean nothing"
    elif step < SMALL:
        shows = f"slow mixing; the discretisation error is small, {inflation - 1.0:.1%} of a variance"
    else:
        shows = f"discretisation error, {inflation - 1.0:.0%} of a variance on a normal distribution"
    return {
        "step a": step,
        "variance by the step": inflation,
        "forgets in": memory,
        "steps": sum(
            len(theta) * int(t["sample_stats"].attrs.get("thin", 1)) for theta, t in zip(draws, traces, strict=True)
        ),
        "draws far off": far_off,
        "farthest draw, in sd": max(float(apart.max()) for apart in distance),
        "sd ratio": float(np.mean(near.std(axis=0) / sd)) if len(near) > 1 else np.nan,
        "what it shows": shows,
    }


def _tuned_steps(traces: Any) -> list[float]:
    return [float(step) for trace in traces for step in np.atleast_1d(trace["posterior"].attrs["adapted_step_size"])]


def largest_curvature(log_density: Callable[[np.ndarray], float], theta: np.ndarray, cov: np.ndarray) -> float:
    """Return the largest eigenvalue of -H of the log density at theta, in the metric cov = L L': of -L' H L.

    Second differences along the columns of L, a hundredth of a standard deviation apart.
    """
    L = 0.01 * np.linalg.cholesky(cov)
    h = 0.01
    dim = len(theta)
    H = np.empty((dim, dim))
    for i in range(dim):
        for j in range(i + 1):
            signs = [(a, b, log_density(theta + a * L[:, i] + b * L[:, j])) for a in (-1, 1) for b in (-1, 1)]
            H[i, j] = H[j, i] = sum(a * b * value for a, b, value in signs) / (4.0 * h * h)
    return float(np.linalg.eigvalsh(-H)[-1])


def points_of(weight: "xr.DataArray", count: int) -> np.ndarray:
    """Return points of a grid, spread evenly over its mass, shape (count, dims)."""
    mass = np.cumsum(weight.to_numpy().ravel())
    places = np.searchsorted(mass / mass[-1], (np.arange(count) + 0.5) / count)
    where = np.unravel_index(places, weight.shape)
    return np.stack([weight[name].to_numpy()[k] for name, k in zip(weight.dims, where, strict=True)], axis=1)


def beyond_stability(
    log_density: Callable[[np.ndarray], float], points: np.ndarray, cov: np.ndarray, steps: Sequence[float]
) -> str:
    """Return a sentence: the share of a posterior's points where each step size is above 4 / curvature."""
    curvature = np.array([largest_curvature(log_density, theta, cov) for theta in points])
    shares = [f"{np.mean(curvature * step > 4.0):.0%} for a = {step:g}" for step in steps]
    return (
        f"Share of {len(points)} points of the posterior where a step is beyond the stability limit 4 / curvature: "
        f"{', '.join(shares)}; median curvature {np.median(curvature):.2g}, largest {curvature.max():.2g}."
    )
