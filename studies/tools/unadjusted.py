"""What unadjusted Langevin steps of several sizes show: slow mixing, the error of the step, or a chain that runs away.

On a normal law with covariance C, steps theta' = theta - a/2 (theta - m) + N(0, a C) have the variance

    C / (1 - a/4),

forget in about 2/a steps and are stable for a < 4. On another law they are stable where 4/a exceeds the largest
curvature of the log density in the metric of C, and may leave for good where it does not.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.study.report import Table

if TYPE_CHECKING:
    import xarray as xr

    from approxmcmc.study.results import StudyResults

FAR = 10.0  # posterior standard deviations from the posterior mean: nothing of the posterior is there
SMALL = 0.1  # a step whose own error, 2.5 % of a variance, is below what such chains can measure


def unadjusted_steps(
    results: "StudyResults", mean: np.ndarray, sd: np.ndarray, *, kind: str, tuned: str, remark: str = ""
) -> Table:
    """Tabulate what each step size of an unadjusted sampler shows.

    Parameters
    ----------
    mean, sd
        Of the posterior, or of what stands in for it.
    kind, tuned
        Names of the sampler in the study: the unadjusted one, with the knob ``step_size``, and the one with a test
        whose tuned step it is to take.
    remark
        Ends the caption.
    """
    import pandas as pd

    traces, rows = results.traces(), []
    for setting in results.study.settings():
        for target in results.study.targets:
            found = traces.get((target, setting.label))
            if found and setting.sampler_name == kind:
                rows.append({"setting": setting.label} | _row(setting.sampler.step_size, found, mean, sd))
    sizes = [step for (_, label), found in traces.items() if label.startswith(tuned) for step in _tuned_steps(found)]
    caption = (
        "Unadjusted Langevin by step size a, in units of the shape of the steps. On a normal law the step alone "
        "multiplies variances by 1 / (1 - a/4), and the chain forgets in 2/a steps. far off: draws more than "
        f"{FAR:g} posterior standard deviations from the posterior mean in some coordinate. sd ratio: of the others, "
        f"over the posterior's; mean over coordinates. {tuned} tuned its own steps to "
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
        shows = "the runaway: no test brings it back, and its moments are those of the way out"
    elif step < SMALL:
        shows = f"slow mixing, and hardly the error of the step, {inflation - 1.0:.1%} of a variance"
    else:
        shows = f"the error of the step, {inflation - 1.0:.0%} of a variance on a normal law"
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


def share_beyond_curvature(weight: "xr.DataArray", cov: np.ndarray, limits: Mapping[float, str]) -> str:
    """Return a sentence: the posterior mass of a grid in two dimensions whose curvature forbids each step size.

    The curvature is the largest eigenvalue of L' H L, with H the negative Hessian of the log density by central
    differences and cov = L L'. A step a is unstable where it exceeds 4 / a.
    """
    curvature = _largest_curvature(weight, cov)
    known = np.isfinite(curvature)
    mass = weight.to_numpy()[known] / weight.to_numpy()[known].sum()
    shares = [f"{mass[curvature[known] > 4.0 / step].sum():.0%} for {name}" for step, name in limits.items()]
    return f"Share of the posterior where the step is beyond the stability limit 4 / curvature: {', '.join(shares)}."


def _largest_curvature(weight: "xr.DataArray", cov: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        log_density = np.log(weight.to_numpy())
        x, y = (weight[name].to_numpy() for name in weight.dims)
        first = np.gradient(log_density, x, y)
        second = [np.gradient(part, x, y) for part in first]
    hessian = -np.array([[second[i][j] for j in range(2)] for i in range(2)])
    L = np.linalg.cholesky(cov)
    seen = np.einsum("ki,ijab,jl->abkl", L.T, hessian, L)
    out = np.full(log_density.shape, np.nan)
    whole = np.isfinite(seen).all(axis=(2, 3))
    out[whole] = np.linalg.eigvalsh(0.5 * (seen[whole] + np.swapaxes(seen[whole], -1, -2)))[:, -1]
    return out
