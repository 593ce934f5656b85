"""Gradients of log pi at some draws of a chain: for Stein's identities, and as control variates."""

import os
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import content_hash
from approxmcmc.output.reading import flat_draws
from approxmcmc.reference.cache import cached
from approxmcmc.reference.stein import BATCHES, scores_of


def scored_draws_of(
    target: Any, posterior: xr.Dataset, number: int, cache_dir: str | os.PathLike[str] | None
) -> xr.Dataset:
    """Return about `number` evenly spaced draws in the target's theta, and the gradients of log pi there.

    Each gradient is computed on all data; they are cached by content.

    Returns
    -------
    xarray.Dataset
        `theta` and `score`, dims (chain, at_draw, parameter); the coordinate `at_draw` numbers the draws of the
        posterior from 0. Each chain has at least `BATCHES` of them.
    """
    draws = posterior.sizes["draw"]
    step = min(max(1, posterior.sizes["chain"] * draws // number), draws // BATCHES)
    at_draw = np.arange(0, draws, step)
    theta = flat_draws(xr.DataTree.from_dict({"posterior": posterior.isel(draw=at_draw)}), target)
    theta = target.variables.with_signs(theta, np.random.default_rng(0))

    def scored() -> xr.DataTree:
        dims = ("chain", "at_draw", "parameter")
        arrays = {"theta": (dims, theta), "score": (dims, scores_of(target, theta))}
        return xr.DataTree.from_dict({"posterior": xr.Dataset(arrays, {"at_draw": at_draw})})

    return cached(content_hash("scores", target.content_hash(), theta), cache_dir, scored)["posterior"].to_dataset()
