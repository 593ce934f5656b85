"""A target's log density as JAX functions, and chains of JAX kernels on it.

PyTensor translates the density from the target's PyMC model. The likelihood, read row by row by `approxmcmc.interop`,
becomes a function of chosen rows, which minibatch samplers need. A model that cannot be separated into rows is
translated as a whole, for samplers that read all data. Chains are compiled before the clock starts, run and timed in
chunks of about a tenth of a second.
"""

import abc
import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.extras import extra
from approxmcmc.errors import IncompatibleError
from approxmcmc.output.clock import spread
from approxmcmc.whole_chains.trace import LibrarySampler, chain_trace
from approxmcmc.whole_chains.twin import KEPT, once, twin_of

# One thread, like every other sampler of a study; XLA reads this when it first compiles.
FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Density(NamedTuple):
    """JAX functions of the model's unconstrained vector.

    ``log_prior(theta)``; ``log_terms(theta, rows)`` with one number for each row; ``log_density(theta)`` on all data.
    `data` holds the arrays of all rows, for minibatches. `why_whole` says why there are no terms.
    """

    log_density: Callable[..., Any]
    log_prior: Callable[..., Any] | None
    log_terms: Callable[..., Any] | None
    data: tuple[Any, ...]
    n_obs: int
    why_whole: str

    def batch(self, key: Any, size: int) -> tuple[Any, ...]:
        """Return the data of `size` rows drawn with replacement, an array for each array of the data."""
        import jax

        rows = jax.random.randint(key, (size,), 0, self.n_obs)
        return tuple(array[rows] for array in self.data)

    def refuse_whole(self) -> None:
        """Raise if the model has no terms of single rows."""
        if self.log_terms is None:
            raise IncompatibleError(f"{speaker()} needs a likelihood with a term for each row; {self.why_whole}")


@once
def density_of(target: Target) -> Density:
    """Return the log density of a target as JAX functions in double precision."""
    os.environ.setdefault("XLA_FLAGS", FLAGS)
    import jax
    import jax.numpy as jnp

    from approxmcmc.interop.graphs import merge_branches, over_flat, simplify
    from approxmcmc.interop.model import ModelOfPyMC
    from approxmcmc.interop.prior import log_prior_of

    # PyTensor's translation needs double precision, and all other samplers use it.
    jax.config.update("jax_enable_x64", True)
    twin = twin_of(target)
    try:
        source = ModelOfPyMC(twin.model, None, scale_effects=False)
        [terms] = source.over_flat([source.rows.terms()])
        prior = log_prior_of(source)
    except IncompatibleError as error:
        [graph] = over_flat([twin.model.logp()], twin.theta, twin.values, twin.start)
        whole = _translate([twin.theta], simplify(graph))
        return Density(whole, None, None, (), target.n_obs, str(error))
    of_rows = _translate([source.theta, *source.rows.inputs], merge_branches(simplify(terms)))
    log_prior = _translate([source.theta], simplify(prior))
    data = tuple(jnp.asarray(array) for array in source.rows.data)

    def log_terms(theta: Any, rows: Sequence[Any]) -> Any:
        return of_rows(theta, *rows)

    def log_density(theta: Any) -> Any:
        return log_prior(theta) + log_terms(theta, data).sum()

    return Density(log_density, log_prior, log_terms, data, source.rows.n_obs, "")


def _translate(inputs: Sequence[Any], graph: Any) -> Callable[..., Any]:
    """Return a PyTensor graph as a JAX function of its inputs."""
    from pytensor.compile.mode import get_mode
    from pytensor.graph.fg import FunctionGraph
    from pytensor.link.jax.dispatch import jax_funcify

    whole = FunctionGraph(inputs=list(inputs), outputs=[graph], clone=True)
    get_mode("JAX").optimizer.rewrite(whole)
    function = jax_funcify(whole)
    return lambda *values: function(*values)[0]


CAPACITY = 4096  # draws in a chunk
CHUNK_SECONDS = 0.1
CLOCK = "chunks of draws are timed; the seconds of a chunk are spread over its draws by their gradients"


class JaxKernel(NamedTuple):
    """A library's sampler as functions that JAX compiles.

    ``warm(key, theta) -> (state, gradients)`` warms a chain up, ``step(key, state) -> (state, gradients)`` makes a
    step, ``position(state)`` returns its theta. Gradients are counted, each on `rows` data.
    """

    warm: Callable[..., Any]
    step: Callable[..., Any]
    position: Callable[..., Any]
    rows: int


class Chunk(NamedTuple):
    """Draws, shape (n, dim) in the model's unconstrained vector, the gradients of each, and the total seconds."""

    draws: np.ndarray
    gradients: np.ndarray
    seconds: float


class JaxProgram:
    """A kernel and its warm-up, both compiled ahead of time for one target and its sampler's settings."""

    def __init__(self, kernel: JaxKernel, dim: int, thin: int) -> None:
        import jax
        import jax.numpy as jnp

        def advance(state: Any, key: Any, done: Any, n: Any) -> Any:
            def draw(i: Any, carry: Any) -> Any:
                state, draws, counts = carry

                def step(j: Any, inner: Any) -> Any:
                    state, count = inner
                    state, gradients = kernel.step(jax.random.fold_in(key, (done + i) * thin + j), state)
                    return state, count + gradients

                state, count = jax.lax.fori_loop(0, thin, step, (state, jnp.zeros(())))
                return state, draws.at[i].set(kernel.position(state)), counts.at[i].set(count)

            blank = jnp.zeros((CAPACITY, dim)), jnp.zeros(CAPACITY)
            return jax.lax.fori_loop(0, n, draw, (state, *blank))

        began = time.perf_counter()
        key = jax.random.key(0)
        theta = jnp.zeros(dim)
        self.rows = kernel.rows
        self._warm = jax.jit(kernel.warm).lower(key, theta).compile()
        state, _ = jax.eval_shape(kernel.warm, key, theta)
        self._advance = jax.jit(advance).lower(state, key, *2 * [jnp.asarray(0)]).compile()
        self.compile_seconds = time.perf_counter() - began

    def start(self, seed: int, theta: np.ndarray) -> "JaxChain":
        """Start a chain at an unconstrained vector, and run its warm-up."""
        return JaxChain(self._warm, self._advance, seed, theta)


class JaxChain:
    """A running chain of a JAX kernel."""

    def __init__(self, warm: Any, advance: Any, seed: int, theta: np.ndarray) -> None:
        import jax

        self._key, key = jax.random.split(jax.random.key(seed))
        began = time.perf_counter()
        self._state, gradients = jax.block_until_ready(warm(key, jax.numpy.asarray(theta)))
        self.warmup_seconds = time.perf_counter() - began
        self.warmup_gradients = float(gradients)
        self._advance = advance
        self._done = 0

    def advance(self, n: int) -> Chunk:
        """Make the next n draws, at most `CAPACITY`."""
        import jax

        # The random key depends on the step's number, so the size of chunks, which depends on the clock, changes no
        # draw.
        done = jax.numpy.asarray(self._done)
        steps = jax.numpy.asarray(n)
        began = time.perf_counter()
        self._state, draws, counts = jax.block_until_ready(self._advance(self._state, self._key, done, steps))
        seconds = time.perf_counter() - began
        self._done = self._done + n
        return Chunk(np.asarray(draws)[:n].copy(), np.asarray(counts)[:n].copy(), seconds)


class JaxSampler(LibrarySampler):
    """A sampler made of JAX functions; a subclass implements only `kernel`.

    Every subclass has the settings `tune`, the steps of its warm-up, and `thin`, the steps per kept draw.
    """

    tune: int
    thin: int

    @abc.abstractmethod
    def kernel(self, target: Target, density: Density) -> JaxKernel:
        """Return warm-up and step of this sampler on a log density."""

    def program(self, target: Target) -> JaxProgram:
        """Return the compiled sampler; cached, so that the next chain of a study does not compile again."""
        with extra("foreign", type(self).__name__):
            return _program(self, target)

    def draw_chain(
        self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray
    ) -> xr.DataTree:
        """Draw one chain; see :class:`approxmcmc.whole_chains.ChainSampler`."""
        program = self.program(target)
        twin = twin_of(target)
        chain = program.start(seed, twin.unconstrain(initial))
        chunks: list[Chunk] = []
        spent = chain.warmup_seconds
        draws_made = 0
        n = 1
        while draws_made < draws and (seconds is None or spent < seconds):
            chunk = chain.advance(min(n, draws - draws_made))
            chunks.append(chunk)
            spent = spent + chunk.seconds
            draws_made = draws_made + len(chunk.draws)
            n = int(np.clip(n * CHUNK_SECONDS / chunk.seconds, 1, min(4 * n, CAPACITY)))
        vectors = np.concatenate([np.empty((0, twin.dim)), *(chunk.draws for chunk in chunks)])
        return chain_trace(
            self,
            target,
            twin.constrain(vectors),
            seconds=np.concatenate([np.empty(0), *(spread(chunk.seconds, chunk.gradients) for chunk in chunks)]),
            warmup_seconds=chain.warmup_seconds,
            compile_seconds=program.compile_seconds,
            gradients=np.concatenate([np.empty(0), *(chunk.gradients for chunk in chunks)]),
            rows_per_gradient=program.rows,
            warmup_gradients=chain.warmup_gradients,
            warmup_steps=self.tune,
            clock=CLOCK,
            stopped="" if draws_made >= draws else "time_limit",
        )


@functools.lru_cache(maxsize=KEPT)
def _program(sampler: JaxSampler, target: Target) -> JaxProgram:
    density, translation_seconds = density_of(target)
    program = JaxProgram(sampler.kernel(target, density), twin_of(target).dim, sampler.thin)
    program.compile_seconds += translation_seconds
    return program
