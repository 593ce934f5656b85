"""A race on the clock: exact steps, subsampling with and without each lever, NumPy, and other libraries.

``python studies/race.py --preset smoke|quick|paper [--peers] [--out FOLDER]`` writes race.json, race.csv and race.md.
All rivals sample one posterior, of a logistic regression with prior precision 10, from the same data, in one process.
They take turns: a round gives each the same CPU time, and what is told are medians over rounds of ratios within a
round, with the smallest and the largest. One estimator of the effective sample size, ArviZ's of the bulk, serves all.
Not a declared study, because cells of a study run apart from each other and here they must interleave.

``--peers`` adds the dependency group of that name. PyMHSS (0.1.5) is not in it: its target has no prior, hence it
cannot sample this posterior, and it asks for TensorFlow. NUTS is timed without its warm-up and compilation; set-up of
every rival is told apart. XLA and BLAS get one thread; time is the CPU time of the process with all its threads.
"""

import argparse
import csv
import dataclasses
import importlib.metadata
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import mnist_7v9_pca, synthetic_logistic
from approxmcmc.engine.streams import seed_sequences, streams

PRIOR_SCALE = 10**-0.5
TOUCHED = COUNT_NAMES.index("datapoints_touched")
FEWEST = 25  # effective draws in a round below which a rate is taken from another rival's mixing
MOST = 40_000  # steps in a round
WALK, PCN, MIXED = "random walk", "pCN(0)", "0.9 pCN(0) + 0.1 walk"
BASE, NUTS = "exact, walk", "nutpie NUTS"


@dataclasses.dataclass(frozen=True)
class Lap:
    """What one rival did in one round: its draws (steps, dim), data read per step, CPU seconds."""

    draws: np.ndarray
    data: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Rival:
    """A runner, ``run(steps) -> Lap``, what it proposes, the lever it pulls, and whose mixing stands in for its own."""

    name: str
    proposal: str
    lever: str
    make: Callable[[], Callable[[int], Lap]]
    same: str = ""  # the exact sampler with the same proposal and the same rule
    mixes_as: str = ""
    steps: int = 0  # in a round; 0 = as many as fit


@dataclasses.dataclass(frozen=True)
class Setting:
    """How long to race on a problem."""

    rounds: int
    seconds: float  # CPU seconds of a rival in a round
    reference: float  # CPU seconds of the exact chain
    accuracy: float  # CPU seconds of the rows whose bias is wanted
    tune: int  # of NUTS
    draws: int
    every_peer: bool = True  # or nutpie and SGLD alone, where NUTS takes long


@dataclasses.dataclass
class Problem:
    """One posterior, its Laplace approximation and its control variate."""

    name: str
    X: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        """Find the mode and expand there; the seconds are the set-up of all that uses either."""
        self.target = amc.targets.LogisticRegression(self.X, self.y, prior_scale=PRIOR_SCALE)
        began = time.process_time()
        self.residuals = amc.ControlVariate(self.target)
        self.setup_seconds = time.process_time() - began
        self.fit = self.residuals.laplace
        self.dim = self.fit.mode.size
        walk = amc.RandomWalk(2.38 / math.sqrt(self.dim), preconditioner=self.fit)
        pcn = amc.PreconditionedCrankNicolson(0.0, self.fit)
        self.proposals = {WALK: walk, PCN: pcn, MIXED: amc.Mixture([pcn, walk], weights=[0.9, 0.1])}

    def chain(self, proposal: str, test: Any, *, residuals: bool = False, seed: int = 1) -> Callable[[int], Lap]:
        """Return a running chain of this library, started in the Laplace approximation."""
        target = self.residuals if residuals else self.target
        program = amc.MetropolisHastings(self.proposals[proposal], test).build(target, audit_every=None)
        chain = program.start(self.fit.draw(np.random.default_rng(seed)), streams(seed_sequences(seed, 1)[0][0]), 0)

        def run(steps: int) -> Lap:
            draws, values = np.empty((steps, self.dim)), np.empty((steps, len(VALUE_NAMES)))
            counts = np.empty((steps, len(COUNT_NAMES)), np.int64)
            seconds = cpu_seconds(lambda: chain.advance(steps, 1, draws, counts, values))
            return Lap(draws, counts[:, TOUCHED].mean(), seconds)

        return run


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, all threads together."""
    began = time.process_time()
    work()
    return time.process_time() - began


def numpy_walk(problem: Problem) -> Callable[[int], Lap]:
    """Return the exact random walk in plain NumPy; BLAS on one thread."""
    X, y, rng = problem.X, np.asarray(problem.y, float), np.random.default_rng(1)
    L = 2.38 / math.sqrt(problem.dim) * problem.fit.cholesky

    def log_density(theta: np.ndarray) -> float:
        eta = X @ theta
        return float(y @ eta - np.logaddexp(0.0, eta).sum() - 0.5 * theta @ theta / PRIOR_SCALE**2)

    state = [problem.fit.draw(rng)]
    here = [log_density(state[0])]

    def run(steps: int) -> Lap:
        draws = np.empty((steps, problem.dim))

        def walk() -> None:
            for k in range(steps):
                proposed = state[0] + L @ rng.standard_normal(problem.dim)
                there = log_density(proposed)
                if math.log(1.0 - rng.random()) < there - here[0]:
                    state[0], here[0] = proposed, there
                draws[k] = state[0]

        return Lap(draws, len(y), cpu_seconds(walk))

    return run


def our_rivals(problem: Problem, first_look: int = 500) -> list[Rival]:
    """Return exact steps and tests of this library; `first_look` is that of tests without control variates."""
    n_obs = problem.target.n_obs

    def t_test(proposal: str, epsilon: float, order: str) -> Callable[[], Callable[[int], Lap]]:
        return lambda: problem.chain(proposal, amc.SequentialTTest(epsilon, first_look, order=order))

    def residual_test(proposal: str, epsilon: float) -> Callable[[], Callable[[int], Lap]]:
        looks = amc.SequentialTTest(epsilon, 64 if n_obs < 300_000 else 32, growth=2.0, tol=0.05)
        return lambda: problem.chain(proposal, looks, residuals=True)

    def barker() -> Callable[[int], Lap]:
        return problem.chain(WALK, amc.MinibatchBarker())

    def exact(proposal: str) -> Callable[[], Callable[[int], Lap]]:
        return lambda: problem.chain(proposal, amc.ExactTest())

    pcn, mixed = f"exact, {PCN}", "exact, mixture"
    like = {name: f"control variates, {name}, .01" for name in (WALK, PCN)} | {MIXED: "control variates, mixture, .01"}
    both = "control variates, proposal"
    return [
        Rival(BASE, WALK, "none: the weak baseline", exact(WALK), BASE, like[WALK]),
        Rival(pcn, PCN, "proposal", exact(PCN), pcn, like[PCN]),
        Rival(mixed, MIXED, "proposal", exact(MIXED), mixed, like[MIXED]),
        Rival("NumPy exact, walk", WALK, "no compilation", lambda: numpy_walk(problem), BASE, like[WALK]),
        Rival("t-test .05, rows, walk", WALK, "subsampling", t_test(WALK, 0.05, "rows"), BASE, like[WALK]),
        Rival("t-test .05, walk", WALK, "subsampling, blocks", t_test(WALK, 0.05, "auto"), BASE, like[WALK]),
        Rival("t-test .05, pCN(0)", PCN, "subsampling, blocks, proposal", t_test(PCN, 0.05, "auto"), pcn, like[PCN]),
        Rival("minibatch Barker, walk", WALK, "subsampling, blocks", barker, BASE, like[WALK]),
        Rival(like[WALK], WALK, "control variates", residual_test(WALK, 0.01), BASE),
        *(
            Rival(f"control variates, {name}, {label}", proposal, both, residual_test(proposal, float(label)), same)
            for name, proposal, same in ((PCN, PCN, pcn), ("mixture", MIXED, mixed))
            for label in (".01", ".05")
        ),
    ]


def nutpie_nuts(problem: Problem, *, tune: int, draws: int) -> Callable[[int], Lap]:
    """Return nutpie's NUTS: a fresh run in every round; its warm-up is taken off in proportion to leapfrog steps."""
    import nutpie

    compiled, seeds = nutpie.compile_pymc_model(problem.target.to_pymc()), iter(range(1, 1000))
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
        return -0.5 * beta @ beta / PRIOR_SCALE**2

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
        beta = numpyro.sample("beta", dist.Normal(0.0, PRIOR_SCALE).expand([problem.dim]).to_event(1))
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


def peers(problem: Problem, setting: Setting) -> list[Rival]:
    """Return the rivals of other libraries."""
    tune, draws = setting.tune, setting.draws

    def nuts(name: str, lever: str, make: Callable[..., Any], **settings: Any) -> Rival:
        return Rival(name, "NUTS", lever, lambda: make(problem, tune=tune, draws=draws, **settings), steps=draws)

    gradients, proxy = "gradients on all data", "gradients on a subset, control variates"
    found = [
        nuts(NUTS, gradients, nutpie_nuts),
        Rival("blackjax SGLD", "Langevin", "subsampling, gradients", lambda: blackjax_sgld(problem)),
    ]
    if setting.every_peer:
        found += [nuts("blackjax NUTS", gradients, blackjax_nuts), nuts("numpyro NUTS", gradients, numpyro_runner)]
        found.append(nuts("numpyro HMC-ECS", proxy, numpyro_runner, subset=100))
    return found


def effective_samples(draws: np.ndarray) -> np.ndarray:
    """Return ArviZ's effective sample size of the bulk for each coefficient; shape (dim,)."""
    import arviz as az
    import xarray as xr

    return az.ess(xr.Dataset({"beta": (("chain", "draw", "coef"), draws[None])}), method="bulk")["beta"].values


@dataclasses.dataclass(frozen=True)
class Reference:
    """Mean, standard deviation and effective draws per coefficient, of a long exact chain."""

    mean: np.ndarray
    sd: np.ndarray
    effective: np.ndarray


def exact_reference(problem: Problem, seconds: float) -> Reference:
    """Run the exact step with the mixture proposal; a seed of its own."""
    run = problem.chain(MIXED, amc.ExactTest(), seed=99)
    per_step = run(20).seconds / 20
    draws = run(max(400, int(seconds / per_step))).draws
    return Reference(draws.mean(axis=0), draws.std(axis=0, ddof=1), effective_samples(draws))


LONG = Setting(rounds=11, seconds=5.0, reference=300.0, accuracy=60.0, tune=1000, draws=1000)
BRIEF = Setting(rounds=3, seconds=0.4, reference=12.0, accuracy=3.0, tune=150, draws=80, every_peer=False)
PRESETS = {
    "smoke": {"smoke": Setting(rounds=3, seconds=0.05, reference=0.5, accuracy=0.1, tune=50, draws=50)},
    "quick": {
        "mnist": Setting(rounds=5, seconds=0.6, reference=25.0, accuracy=8.0, tune=300, draws=200),
        "1e5_50": BRIEF,
        "1e5_10": BRIEF,
        "1e6_50": BRIEF,
    },
    "paper": dict.fromkeys(("mnist", "1e5_10", "1e5_50", "1e6_50"), LONG),
}


def problem_named(name: str) -> Problem:
    """Return MNIST, its stand-in where the images cannot be had, or generated data."""
    if name == "mnist":
        data = mnist_7v9_pca(n_components=50, allow_synthetic=True)
        return Problem(data.name, data.X_train, data.y_train)
    n_obs, dim = (2000, 5) if name == "smoke" else (int(float(part)) for part in name.split("_"))
    return Problem(f"synthetic, N = {n_obs}, d = {dim}", *synthetic_logistic(n_obs, dim, seed=0))


def steps_in(run: Callable[[int], Lap], seconds: float) -> int:
    """Return how many steps take about `seconds`, at most `MOST`; the steps made to find out are burn-in."""
    steps, lap = 10, run(10)
    while lap.seconds < 0.1 * seconds and steps < MOST:
        steps *= 3
        lap = run(steps)
    return int(np.clip(seconds * len(lap.draws) / lap.seconds, 10, MOST))


def log(text: str) -> None:
    """Say on the standard error how far the race is."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


@dataclasses.dataclass(frozen=True)
class Score:
    """What is kept of a lap."""

    steps: int
    seconds: float
    data: float
    mean: np.ndarray
    effective: np.ndarray

    @staticmethod
    def of(lap: Lap) -> "Score":
        """Return the figures of a lap; its draws are dropped."""
        return Score(len(lap.draws), lap.seconds, lap.data, lap.draws.mean(axis=0), effective_samples(lap.draws))


@dataclasses.dataclass(frozen=True)
class Results:
    """The scores of all rivals on one problem, and the figures made of them."""

    rivals: Mapping[str, Rival]
    scores: Mapping[str, list[Score]]  # the first `rounds` interleaved, more where a bias was measured longer
    setup: Mapping[str, float]
    reference: Reference
    rounds: int

    def borrows(self, name: str) -> bool:
        """Say whether rounds were too short to see how a rival mixes, and another's mixing must stand in."""
        few = np.median([score.effective.min() for score in self.scores[name]]) < FEWEST
        return bool(few and self.rivals[name].mixes_as in self.scores)

    def speed(self, name: str) -> np.ndarray:
        """Return steps per CPU second, round by round."""
        return np.array([score.steps / score.seconds for score in self.scores[name][: self.rounds]])

    def rate(self, name: str) -> np.ndarray:
        """Return min-ESS per CPU second, round by round."""
        scores = self.scores[self.rivals[name].mixes_as if self.borrows(name) else name]
        mixing = np.array([score.effective.min() / score.steps for score in scores])
        return self.speed(name) * (np.median(mixing) if self.borrows(name) else mixing[: self.rounds])

    def versus(self, name: str, other: str) -> tuple[float, float, float] | None:
        """Return the ratio of min-ESS per second to another rival's."""
        return spread(self.rate(name) / self.rate(other)) if other in self.scores else None

    def against_reference(self, name: str) -> dict[str, float]:
        """Return the shift of means in posterior standard deviations, its noise, and risks.

        bias^2 is the mean over coefficients of shift^2 - noise^2; its upper limit adds two standard errors, the noise
        taken to be normal. Risk after t seconds is bias^2 + mean of 1 / (ESS per second * t), burn-in left out.
        """
        scores = self.scores[name]
        steps = np.array([score.steps for score in scores])
        seconds = sum(score.seconds for score in scores)
        source = self.scores[self.rivals[name].mixes_as if self.borrows(name) else name]
        effective = sum(s.effective for s in source) / sum(s.steps for s in source) * steps.sum()
        mean = np.average([score.mean for score in scores], axis=0, weights=steps)
        shift = (mean - self.reference.mean) / self.reference.sd
        noise = np.sqrt(1.0 / effective + 1.0 / self.reference.effective)
        maxima = np.abs(np.random.default_rng(0).standard_normal((4000, noise.size)) * noise).max(axis=1)
        bias_squared = float(np.mean(shift**2 - noise**2))
        upper = bias_squared + 2.0 * math.sqrt(float(np.mean(2.0 * noise**4)) / noise.size)
        variance = float(np.mean(seconds / effective))
        return {
            "max_shift": float(np.abs(shift).max()),
            "max_shift_if_unbiased": float(np.quantile(maxima, 0.95)),
            "bias": math.sqrt(max(bias_squared, 0.0)),
            "bias_upper": math.sqrt(max(upper, 0.0)),
            "risk_1s": max(bias_squared, 0.0) + variance,
            "risk_10s": max(bias_squared, 0.0) + variance / 10.0,
            "effective_draws": float(effective.min()),
        }

    def row(self, name: str) -> dict[str, Any]:
        """Return all figures of one rival."""
        rival = self.rivals[name]
        same = rival.same in self.scores
        return {
            "rival": name,
            "proposal": rival.proposal,
            "lever": rival.lever,
            "us_per_step": 1e6 * float(np.median(1.0 / self.speed(name))),
            "data_per_step": float(np.median([score.data for score in self.scores[name]])),
            "ess_per_second": float(np.median(self.rate(name))),
            "ess_borrowed": self.borrows(name),
            "steps_vs_same": spread(self.speed(name) / self.speed(rival.same)) if same else None,
            "ess_vs_same": self.versus(name, rival.same),
            "ess_vs_walk": self.versus(name, BASE),
            "ess_vs_nuts": self.versus(name, NUTS),
            **self.against_reference(name),
            "setup_seconds": self.setup[name],
        }


def spread(ratios: np.ndarray) -> tuple[float, float, float]:
    """Return median, smallest and largest."""
    return float(np.median(ratios)), float(ratios.min()), float(ratios.max())


def race(problem: Problem, rivals: Iterable[Rival], setting: Setting) -> Results:
    """Let the rivals take turns."""
    named = {rival.name: rival for rival in rivals}
    runners, steps, setup = {}, {}, {}
    for name, rival in named.items():
        log(f"set up {name}")
        began = time.process_time()
        runners[name] = rival.make()
        setup[name] = time.process_time() - began
        steps[name] = rival.steps or steps_in(runners[name], setting.seconds)
    scores: dict[str, list[Score]] = {name: [] for name in named}
    for turn in range(setting.rounds):
        log(f"round {turn + 1} of {setting.rounds}")
        for name, run in runners.items():
            scores[name].append(Score.of(run(steps[name])))
    for name in (name for name, rival in named.items() if rival.lever.startswith("control variates, proposal")):
        while sum(score.seconds for score in scores[name]) < setting.accuracy:
            scores[name].append(Score.of(runners[name](steps[name])))
    log("reference")
    return Results(named, scores, setup, exact_reference(problem, setting.reference), setting.rounds)


COLUMNS = (
    "sampler", "lever", "µs per step", "data per step", "min-ESS/s", "steps/s: exact, same proposal",
    "min-ESS/s: exact, same proposal", "exact walk", "NUTS (nutpie)", "max shift (95 % if unbiased)", "bias (upper)",
    "risk at 1 s",
)  # fmt: skip
FEWEST_FOR_MOMENTS = 100  # effective draws; of fewer neither shift, bias nor risk is told


def markdown(title: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return one problem's table, as it stands in the documentation."""
    lines = [f"## {title}", "", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for row in rows:
        moments = (
            f"{row['max_shift']:.3f} ({row['max_shift_if_unbiased']:.3f})",
            f"{row['bias']:.3f} ({row['bias_upper']:.3f})",
            two_digits(row["risk_1s"]),
        )
        cells = [
            row["rival"], row["lever"], two_digits(row["us_per_step"]),
            "" if math.isnan(row["data_per_step"]) else f"{row['data_per_step']:.0f}",
            f"{two_digits(row['ess_per_second'])}{'*' if row['ess_borrowed'] else ''}",
            *(_ratio(row[name]) for name in ("steps_vs_same", "ess_vs_same", "ess_vs_walk", "ess_vs_nuts")),
            *(moments if row["effective_draws"] >= FEWEST_FOR_MOMENTS else ("–",) * len(moments)),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def two_digits(value: float) -> str:
    """Return a number with two significant digits, without an exponent from 0.001 on."""
    text = f"{value:.1e}"
    return text if 0.0 < abs(value) < 1e-3 else f"{float(text):g}" if abs(value) < 1e6 else f"{float(text):.0f}"


def _ratio(values: tuple[float, float, float] | None) -> str:
    if values is None:
        return ""
    middle, low, high = (two_digits(value) for value in values)
    return middle if middle == low == high else f"{middle} [{low}, {high}]"


def versions() -> dict[str, str]:
    """Return the versions of what raced."""
    found = {}
    for name in ("numpy", "numba", "arviz", "pymc", "nutpie", "jax", "jaxlib", "blackjax", "numpyro"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def run(preset: str, folder: Path, *, with_peers: bool = False, only: Iterable[str] = ()) -> dict[str, Any]:
    """Race on every problem of a preset, write race.json, race.csv and race.md, and return what race.json holds."""
    found: dict[str, Any] = {"preset": preset, "versions": versions(), "results": []}
    folder.mkdir(parents=True, exist_ok=True)
    for name in tuple(only) or PRESETS[preset]:
        problem, setting = problem_named(name), PRESETS[preset][name]
        log(f"{problem.name}: expansion took {problem.setup_seconds:.2f} s")
        rivals = our_rivals(problem, first_look=min(500, len(problem.y) // 10))
        if with_peers:
            rivals += peers(problem, setting)
        with threadpool_limits(1):
            results = race(problem, rivals, setting)
        found["results"].append(
            {
                "problem": problem.name,
                "setting": dataclasses.asdict(setting),
                "expansion_seconds": problem.setup_seconds,
                "reference_effective_draws": float(results.reference.effective.min()),
                "rows": [results.row(rival) for rival in results.rivals],
            }
        )
        write(found, folder)
    return found


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Write the three files anew, so that an interrupted race leaves what it has."""
    (folder / "race.json").write_text(json.dumps(found, indent=1))
    (folder / "race.md").write_text("\n".join(markdown(r["problem"], r["rows"]) for r in found["results"]))
    with (folder / "race.csv").open("w", newline="") as file:
        rows = [{"problem": result["problem"], **row} for result in found["results"] for row in result["rows"]]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Read the command line and race."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="quick")
    parser.add_argument("--problem", action="append", default=[], help="race on this one alone, such as mnist, 1e5_50")
    parser.add_argument("--peers", action="store_true", help="add the samplers of other libraries")
    parser.add_argument("--out", type=Path, default=Path("results/race"))
    given = parser.parse_args()
    run(given.preset, given.out, with_peers=given.peers, only=given.problem)
    sys.stdout.write((given.out / "race.md").read_text())


if __name__ == "__main__":
    main()
