"""Samplers of other libraries on the same posterior: nutpie, and blackjax and numpyro by `approxmcmc.whole_chains`."""

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc import whole_chains
from approxmcmc.whole_chains.jax_chain import CAPACITY, JaxSampler
from studies.race.problems import Lap, Problem, cpu_seconds
from studies.race.rivals import Rival

NUTPIE = "nutpie NUTS"


def in_laplace_metric(problem: Problem) -> Any:
    """Return the posterior as a PyMC model of phi: beta = mode + L phi, with L L' the Laplace covariance."""
    import pymc as pm

    with pm.Model() as model:
        phi = pm.Flat("phi", shape=problem.dim)
        beta = pm.Deterministic("beta", problem.fit.mode + problem.fit.cholesky @ phi)
        pm.Potential("prior", -0.5 * (beta**2).sum() / problem.target.prior.scale**2)
        pm.Bernoulli("y", logit_p=problem.X @ beta, observed=np.asarray(problem.y, dtype=np.int32))
    return model


def nutpie_nuts(problem: Problem, *, tune: int, draws: int, whitened: bool = False) -> Callable[[int], Lap]:
    """Return nutpie's NUTS: a new run in every round; the warm-up's share of its time is subtracted."""
    import nutpie

    model = in_laplace_metric(problem) if whitened else problem.target.to_pymc()
    compiled = nutpie.compile_pymc_model(model)
    seeds = iter(range(1, 1000))
    settings = {"chains": 1, "cores": 1, "progress_bar": False, "save_warmup": True}
    nutpie.sample(compiled, draws=5, tune=5, seed=0, **settings)  # compiles

    def run(steps: int) -> Lap:
        began = time.process_time()
        trace = nutpie.sample(compiled, draws=steps, tune=tune, seed=next(seeds), **settings)
        seconds = time.process_time() - began
        kept, warm = (float(trace[group]["n_steps"].sum()) for group in ("sample_stats", "warmup_sample_stats"))
        draws = trace["posterior"]["beta"].values[0]
        return Lap(draws, kept / steps * len(problem.y), seconds * kept / (kept + warm))

    return run


def jax_chain(problem: Problem, sampler: JaxSampler) -> Callable[[int], Lap]:
    """Return a chain of blackjax or numpyro that starts at the mode and continues in each round."""
    program = sampler.program(problem.target)
    chain = program.start(1, problem.fit.mode)

    def run(steps: int) -> Lap:
        chunks: list[Any] = []
        sizes = [CAPACITY] * (steps // CAPACITY) + [steps % CAPACITY] * (steps % CAPACITY > 0)
        seconds = cpu_seconds(lambda: chunks.extend(map(chain.advance, sizes)))
        gradients = np.concatenate([chunk.gradients for chunk in chunks])
        return Lap(np.concatenate([chunk.draws for chunk in chunks]), float(gradients.mean()) * program.rows, seconds)

    return run


def careful_step(problem: Problem) -> float:
    """Return a fifth of the smallest variance of the posterior: a tenth of the largest stable step of SGLD."""
    return 0.2 * float(np.linalg.eigvalsh(problem.fit.cov)[0])


def peers(problem: Problem, *, tune: int, draws: int, every: bool = True) -> list[Rival]:
    """Return the rivals of other libraries, or only nutpie and blackjax's SGLD if `every` is False."""

    def nuts(name: str, *, whitened: bool = False) -> Rival:
        make = functools.partial(nutpie_nuts, problem, tune=tune, draws=draws, whitened=whitened)
        return Rival(name, "NUTS", "gradients on all data", make, steps=draws)

    def jax(name: str, proposal: str, lever: str, sampler: JaxSampler, steps: int = 0) -> Rival:
        return Rival(name, proposal, lever, lambda: jax_chain(problem, sampler), steps=steps)

    sgld = whole_chains.BlackjaxSGLD(careful_step(problem), batch_size=500, tune=0, thin=1)
    rivals = [
        nuts(NUTPIE),
        nuts(f"{NUTPIE}, whitened", whitened=True),
        jax("blackjax SGLD", "Langevin", "subsampling, gradients", sgld),
    ]
    if every:
        gradients = "gradients on all data"
        proxy = "gradients on a subset, control variates"
        rivals.append(jax("blackjax NUTS", "NUTS", gradients, whole_chains.BlackjaxNUTS(tune=tune), draws))
        rivals.append(jax("numpyro NUTS", "NUTS", gradients, whole_chains.NumPyroNUTS(tune=tune), draws))
        rivals.append(
            jax("numpyro HMC-ECS", "NUTS", proxy, whole_chains.NumPyroHMCECS(batch_size=100, tune=tune), draws)
        )
    return rivals
