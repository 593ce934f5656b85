"""Did a run reach its target ESS? Measured during the run, reported at its end."""

import math
from collections.abc import Callable

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding, Variables
from approxmcmc.diagnostics.convergence import BULK, MOST_DRAWS, R_HAT, TAIL, Sample, drawn, r_hat_limit


def smallest_ess(variables: Variables, judged_at_least: float) -> Callable[[np.ndarray, float], float]:
    """Return a function ``measure(draws, enough)`` of flat draws, shape (chains, draws, dim).

    It returns the smallest bulk or tail ESS of the parameters that move, computed from 2500 draws per chain, or from
    `judged_at_least` if that is more. A bulk ESS below `enough` is returned at once, because tail ESS takes twice as
    long. 0 if no parameter moves, or with fewer than 4 draws.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> bool(1000.0 < smallest_ess(Variables({"beta": (2,)}), 0)(draws, 0.0) < 3000.0)
    True
    """
    most_draws = max(MOST_DRAWS, math.ceil(judged_at_least))

    def measure(draws: np.ndarray, enough: float) -> float:
        if draws.shape[1] < 4:
            return 0.0
        sample = _judged(variables, draws, most_draws)
        if not sample.labels:
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):  # chains stuck at different values
            least = float(np.min(BULK.of(sample.draws)))
            if least >= enough:
                least = min(least, float(np.min(TAIL.of(sample.draws))))
        return 0.0 if math.isnan(least) else least

    return measure


def chains_agree(variables: Variables) -> Callable[[np.ndarray], bool]:
    """Return a function that says whether flat draws, shape (chains, draws, dim), pass `convergence`'s R-hat check.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> agree = chains_agree(Variables({"beta": (2,)}))
    >>> agree(draws), agree(draws + np.arange(4)[:, None, None])
    (True, False)
    """

    def agree(draws: np.ndarray) -> bool:
        sample, chains = _judged(variables, draws, MOST_DRAWS), draws.shape[0]
        if chains == 1 or not sample.labels:
            return True
        with np.errstate(divide="ignore", invalid="ignore"):
            r_hat, ess = float(np.max(R_HAT.of(sample.draws))), float(np.min(BULK.of(sample.draws)))
        return r_hat <= r_hat_limit(ess, chains, len(sample.labels))

    return agree


def _judged(variables: Variables, draws: np.ndarray, most_draws: int) -> Sample:
    """Return flat draws, shape (chains, draws, dim), in the form in which `convergence` checks them."""
    values = variables.unpack(draws[:, :: math.ceil(draws.shape[1] / most_draws)].astype(variables.dtype))
    dims = {name: [f"{name}_{axis}" for axis in range(array.ndim - 2)] for name, array in values.items()}
    arrays = {name: (("chain", "draw", *dims[name]), array) for name, array in values.items()}
    return drawn(xr.Dataset(arrays), most_draws)


def effective(posterior: xr.Dataset) -> list[Finding]:
    """Report whether the run reached its target ESS, if it had one, and what ended it earlier."""
    attrs = posterior.attrs
    if "target_ess" not in attrs:
        return []
    wanted, ess = float(attrs["target_ess"]), float(attrs["smallest_ess"])
    told = f"the smallest bulk or tail ESS is {ess:.0f}, of target_ess={wanted:g}"
    if ess >= wanted:
        return [Finding("target ESS", "ok", told, "", ess, wanted)]
    cause, more = {
        "": ("the limit draws= came first", "raise draws"),
        "time_limit": ("the time limit came first", "give it more time"),
        "interrupt": ("the run was interrupted", ""),
    }.get(attrs["stopped"], ("the run failed", ""))
    times = f" ({wanted / ess:.2g} times as much)" if more and ess > 0.0 else ""
    return [Finding("target ESS", "warning", f"{told}: {cause}", f"{more}{times}", ess, wanted)]
