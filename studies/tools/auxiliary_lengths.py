"""How long auxiliary chains must be: mean statistics after n updates and after 64 000, at draws of theta."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts.records import COUNT_NAMES
from approxmcmc.study.report import Table
from approxmcmc.study.report.intervals import mean_interval

LONGEST = 64_000


def auxiliary_lengths(
    target: Any, thetas: np.ndarray, names: Sequence[str], lengths: Sequence[int], *, repeats: int, random_seed: int
) -> Table:
    """Tabulate mean statistics at `thetas`, shape (n, dim), as differences from those of the longest chains.

    `lengths` holds numbers of updates; `repeats` graphs are drawn for each theta and length.
    """
    import pandas as pd

    rng = np.random.default_rng(random_seed)
    far = statistics_after(target, thetas, LONGEST, repeats, rng)
    rows = []
    for n_updates in lengths:
        missing = (statistics_after(target, thetas, n_updates, repeats, rng) - far).mean(axis=1) / far.std(axis=(0, 1))
        row: dict[str, Any] = {"updates": n_updates}
        for name, shifts in zip(names, missing.T, strict=True):
            row |= mean_interval(shifts).columns(name)
        rows.append(row)
    caption = (
        f"Statistics of auxiliary graphs after so many updates from the observed graph, minus those after {LONGEST:,}, "
        f"in standard deviations of the latter: means over {len(thetas)} draws of the reference with {repeats} graphs "
        "each, Student intervals over draws. A difference from 0 biases the posterior: a chain that is too short "
        "stays near the observed graph."
    )
    return Table("How long the auxiliary chains must be", caption, pd.DataFrame(rows))


def statistics_after(
    target: Any, thetas: np.ndarray, n_updates: int, repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the statistics of auxiliary graphs after `n_updates` updates, shape (len(thetas), repeats, dim)."""
    simulator = target.build_simulator(amc.targets.AuxiliaryChain(n_updates, "observed"))
    state = simulator.make_state()
    count = np.zeros(len(COUNT_NAMES), dtype=np.int64)
    after = np.zeros((len(thetas), repeats, thetas.shape[1]))
    for theta, graphs in zip(thetas, after, strict=True):
        for statistics in graphs:
            simulator.simulate(rng, theta, state, statistics, count)
    return after
