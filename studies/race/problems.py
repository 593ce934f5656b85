"""The posteriors of the race, and chains of this library on them."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import mnist_7v9_pca, synthetic_logistic
from approxmcmc.engine.streams import seed_sequences, streams

PRIOR_SCALE = 10**-0.5
TOUCHED = COUNT_NAMES.index("datapoints_touched")
WALK = "random walk"
PCN = "pCN(0)"
MIXED = "0.9 pCN(0) + 0.1 walk"


@dataclasses.dataclass(frozen=True)
class Lap:
    """The result of one rival in one round: draws (steps, dim), data read per step, CPU seconds."""

    draws: np.ndarray
    data: float
    seconds: float


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call over all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


@dataclasses.dataclass
class Problem:
    """One posterior, its Laplace approximation and its control variate."""

    name: str
    X: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        """Find the mode and expand there; `setup_seconds` is the CPU time of both."""
        self.target = amc.targets.LogisticRegression(self.X, self.y, prior_scale=PRIOR_SCALE)
        began = time.process_time()
        self.residuals = amc.ControlVariate(self.target)
        self.setup_seconds = time.process_time() - began
        self.fit = self.residuals.laplace
        self.dim = self.fit.mode.size
        walk = amc.RandomWalk(2.38 / math.sqrt(self.dim), preconditioner=self.fit)
        pcn = amc.proposals.PreconditionedCrankNicolson(0.0, self.fit)
        self.proposals = {WALK: walk, PCN: pcn, MIXED: amc.proposals.Mixture([pcn, walk], weights=[0.9, 0.1])}

    def chain(self, proposal: str, test: Any, *, residuals: bool = False, seed: int = 1) -> Callable[[int], Lap]:
        """Start a chain at a draw of the Laplace approximation, as in `chain_of`; `residuals`: on control variates."""
        target = self.residuals if residuals else self.target
        sampler = amc.MetropolisHastings(self.proposals[proposal], test)
        return chain_of(sampler, target, self.fit.draw(np.random.default_rng(seed)), seed=seed)


def chain_of(sampler: Any, target: Any, start: np.ndarray, *, seed: int) -> Callable[[int], Lap]:
    """Start a chain of this library; return ``run(steps) -> Lap``, which continues the chain in each call."""
    program = sampler.build(target, audit_every=None)
    chain = program.start(start.copy(), streams(seed_sequences(seed, 1)[0][0]), 0)

    def run(steps: int) -> Lap:
        draws = np.empty((steps, start.size))
        values = np.empty((steps, len(VALUE_NAMES)))
        counts = np.empty((steps, len(COUNT_NAMES)), np.int64)
        seconds = cpu_seconds(lambda: chain.advance(steps, 1, draws, counts, values))
        return Lap(draws, counts[:, TOUCHED].mean(), seconds)

    return run


def problem_named(name: str) -> Problem:
    """Return MNIST, its stand-in if the images are not available, or generated data."""
    if name == "mnist":
        data = mnist_7v9_pca(n_components=50, allow_synthetic=True)
        return Problem(data.name, data.X_train, data.y_train)
    n_obs, dim = (2000, 5) if name == "smoke" else (int(float(part)) for part in name.split("_"))
    return Problem(f"synthetic, N = {n_obs}, d = {dim}", *synthetic_logistic(n_obs, dim, seed=0))
