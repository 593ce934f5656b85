"""A sampler of another library on the tall-data suite, added with one class: the stretch move of emcee.

Goodman and Weare (2010), Ensemble samplers with affine invariance, in the implementation of Foreman-Mackey, Hogg, Lang
and Goodman (2013). emcee comes with the extra `foreign`: without it the cells fail with that reason.
"""

import dataclasses
import functools
import time
from typing import Any

import numpy as np

from approxmcmc.engine.extras import extra
from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.study import Budget, Gold
from approxmcmc.whole_chains import ChainSampler, chain_trace
from studies import tall_data
from studies.tools import gold


@dataclasses.dataclass(frozen=True, eq=False)
class EmceeStretch(ChainSampler):
    """The stretch move of emcee on a logistic regression: an ensemble of walkers is one chain.

    Parameters
    ----------
    walkers
        Number of walkers of the ensemble, divided by the dimension.
    """

    walkers: int = 2

    def draw_chain(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> Any:
        """Draw until the limit of seconds or draws; each step moves all walkers, and gives a draw for each."""
        with extra("foreign", "The stretch move"):
            import emcee

        def log_density(theta: np.ndarray) -> np.ndarray:
            eta = theta @ target.X.T
            prior = -0.5 * (theta**2).sum(axis=-1) / target.prior.scale**2
            density: np.ndarray = eta @ target.y - np.logaddexp(0.0, eta).sum(axis=-1) + prior
            return density

        count = self.walkers * initial.size
        ensemble = emcee.EnsembleSampler(count, initial.size, log_density, vectorize=True)
        rng = np.random.default_rng(seed)
        walkers = emcee.State(initial + 0.01 * rng.standard_normal((count, initial.size)), random_state=_legacy(seed))
        thetas = []
        ends = [time.perf_counter()]
        began = limit_clock()
        while len(thetas) * count < draws and (seconds is None or limit_clock() - began < seconds):
            walkers = next(ensemble.sample(walkers, iterations=1, store=False))
            thetas.append(walkers.coords.copy())
            ends.append(time.perf_counter())
        kept = np.reshape(thetas, (-1, initial.size))
        return chain_trace(self, target, kept, seconds=np.repeat(np.diff(ends) / count, count))


def _legacy(seed: int) -> Any:
    return np.random.RandomState(seed % 2**32).get_state()


RIVALS = {"emcee_stretch": EmceeStretch()}
study = dataclasses.replace(
    tall_data.study.with_preset("published"),
    name="rivals",
    reference="The tall-data suite of this library; Goodman and Weare (2010), section 2",
    names={
        "core_exact": "influential rows (exact)",
        "emcee_stretch": "stretch move of emcee",
        "laplace": "Laplace",
        "mala": "MALA",
        "t_test": "t-test",
    },
    samplers=tall_data.chosen("mala core_exact t_test laplace") | RIVALS,
    kinds={name: tall_data.KINDS.get(name, "a rival") for name in [*tall_data.SAMPLERS, *RIVALS]},
    presets={
        "quick": {
            "targets": {"logistic": functools.partial(tall_data.dense, 2000)},
            "budget": Budget(seconds=2.0),
            "replicates": 5,
            "gold": Gold(chains=4, draws=5000),
        },
        "published": {
            "like": "quick",
            "budget": Budget(seconds=4.0),
            "gold": dataclasses.replace(gold.BY_CORE_ROWS, draws=30_000),
        },
    },
)
