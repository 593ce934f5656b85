"""Samplers of other libraries on the same posterior: nutpie, blackjax, numpyro."""

import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from studies.race.problems import Lap, Problem, cpu_seconds
from studies.race.rivals import Rival

NUTPIE = "nutpie NUTS"


def in_laplace_metric(problem: Problem) -> Any:
    """Return the posterior as a PyMC model of phi, beta = mode + L phi, L L' the covariance of the Laplace law."""
    import pymc as pm

    with pm.Model() as model:
        phi = pm.Flat("phi", shape=problem.dim)
        beta = pm.Deterministic("beta", problem.fit.mode + problem.fit.cholesky @ phi)
        pm.Potential("prior", -0.5 * (beta**2).sum() / problem.target.prior.scale**2)
        pm.Bernoulli("y", logit_p=problem.X @ beta, observed=np.asarray(problem.y, dtype=np.int32))
    return model


def nutpie_nuts(problem: Problem, *, tune: int, draws: int, whitened: bool = False) -> Callable[[int], Lap]:
    """Return nutpie's NUTS: a fresh run in every round; its warm-up is taken off in proportion to leapfrog steps."""
    import nutpie

    model = in_laplace_metric(problem) if whitened else problem.target.to_pymc()
    compiled, seeds = nutpie.compile_pymc_model(model), iter(range(1, 1000))
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


def jax_model(problem: Problem) -> tuple[Any, Any, Any, Any]:
    """Return X, y, log prior and log-likelihood of one datum, in double precision as this library computes."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def log_prior(beta: Any) -> Any:
        return -0.5 * beta @ beta / problem.target.prior.scale**2

    def log_likelihood(beta: Any, datum: Any) -> Any:
        x, y = datum
        eta = x @ beta
        return y * eta - jax.nn.softplus(eta)

    return jnp.asarray(problem.X, float), jnp.asarray(problem.y, float), log_prior, log_likelihood


def scanned(step: Callable[..., Any], state: Any, chunk: int, position: Callable[[Any], Any]) -> Callable[[int], Lap]:
    """Return a runner of chunks of a compiled scan of ``step(state, key) -> state, data``."""
    import jax

    def one(state: Any, key: Any) -> Any:
        state, data = step(state, key)
        return state, (position(state), data)

    scan = jax.jit(lambda state, key: jax.lax.scan(one, state, jax.random.split(key, chunk)))
    held = [state, jax.random.key(1)]

    def advance() -> tuple[np.ndarray, np.ndarray]:
        held[1], key = jax.random.split(held[1])
        held[0], (draws, data) = scan(held[0], key)
        return np.asarray(draws), np.asarray(data)

    def run(steps: int) -> Lap:
        found: list[Any] = []
        seconds = cpu_seconds(lambda: found.extend(advance() for _ in range(-(-steps // chunk))))
        return Lap(np.concatenate([d for d, _ in found]), float(np.mean([n for _, n in found])), seconds)

    run(chunk)  # compiles
    return run


def blackjax_sgld(problem: Problem, batch: int = 500) -> Callable[[int], Lap]:
    """Return SGLD in one scan; its step is a tenth of the largest that a normal posterior of this curvature bears."""
    import blackjax
    import jax

    X, y, log_prior, log_likelihood = jax_model(problem)
    n_obs = len(y)
    kernel = blackjax.sgld(blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, n_obs))
    size = 0.2 * float(np.linalg.eigvalsh(problem.fit.cov)[0])

    def step(beta: Any, key: Any) -> Any:
        rows_key, noise_key = jax.random.split(key)
        rows = jax.random.randint(rows_key, (batch,), 0, n_obs)
        return kernel.step(noise_key, beta, (X[rows], y[rows]), size), batch

    return scanned(step, jax.numpy.asarray(problem.fit.mode), 2000, lambda beta: beta)


def blackjax_nuts(problem: Problem, *, tune: int, draws: int) -> Callable[[int], Lap]:
    """Return blackjax's NUTS after window adaptation, one scan a round."""
    import blackjax
    import jax

    X, y, log_prior, _ = jax_model(problem)

    def log_density(beta: Any) -> Any:
        eta = X @ beta
        return log_prior(beta) + y @ eta - jax.nn.softplus(eta).sum()

    warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = warmup.run(jax.random.key(0), jax.numpy.asarray(problem.fit.mode), num_steps=tune)
    kernel = blackjax.nuts(log_density, **parameters)

    def step(state: Any, key: Any) -> Any:
        state, info = kernel.step(key, state)
        return state, info.num_integration_steps * len(problem.y)

    return scanned(step, state, draws, lambda state: state.position)


def numpyro_runner(problem: Problem, *, tune: int, draws: int, subset: int | None = None) -> Callable[[int], Lap]:
    """Return numpyro's NUTS, or with a subset HMC-ECS around it, its Taylor proxy at the mode."""
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import HMCECS, MCMC, NUTS

    X, y, *_ = jax_model(problem)

    def model(X: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0.0, problem.target.prior.scale).expand([problem.dim]).to_event(1))
        with numpyro.plate("N", len(y), subsample_size=subset):
            rows, labels = (numpyro.subsample(values, event_dim=k) for values, k in ((X, 1), (y, 0)))
            numpyro.sample("y", dist.Bernoulli(logits=rows @ beta), obs=labels)

    mode = {"beta": jax.numpy.asarray(problem.fit.mode)}
    inner = NUTS(model, init_strategy=numpyro.infer.init_to_value(values=mode))
    kernel = HMCECS(inner, num_blocks=10, proxy=HMCECS.taylor_proxy(mode)) if subset else inner
    mcmc = MCMC(kernel, num_warmup=tune, num_samples=draws, progress_bar=False)
    mcmc.warmup(jax.random.key(0), X, y)

    def run(steps: int) -> Lap:
        def advance() -> None:
            mcmc.run(mcmc.post_warmup_state.rng_key, X, y, extra_fields=("num_steps",) if not subset else ())
            jax.block_until_ready(mcmc.last_state)

        seconds = cpu_seconds(advance)
        data = len(y) * float(np.mean(mcmc.get_extra_fields()["num_steps"])) if not subset else math.nan
        mcmc.post_warmup_state = mcmc.last_state
        return Lap(np.asarray(mcmc.get_samples()["beta"]), data, seconds)

    run(draws)  # compiles
    return run


def peers(problem: Problem, *, tune: int, draws: int, every: bool = True) -> list[Rival]:
    """Return the rivals of other libraries, or with `every` False nutpie and SGLD alone."""

    def nuts(name: str, lever: str, make: Callable[..., Any], **settings: Any) -> Rival:
        return Rival(name, "NUTS", lever, lambda: make(problem, tune=tune, draws=draws, **settings), steps=draws)

    gradients, proxy = "gradients on all data", "gradients on a subset, control variates"
    found = [
        nuts(NUTPIE, gradients, nutpie_nuts),
        nuts(f"{NUTPIE}, whitened", gradients, nutpie_nuts, whitened=True),
        Rival("blackjax SGLD", "Langevin", "subsampling, gradients", lambda: blackjax_sgld(problem)),
    ]
    if every:
        found += [nuts("blackjax NUTS", gradients, blackjax_nuts), nuts("numpyro NUTS", gradients, numpyro_runner)]
        found.append(nuts("numpyro HMC-ECS", proxy, numpyro_runner, subset=100))
    return found
