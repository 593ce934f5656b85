"""A target's log density as JAX functions, translated from its PyMC model by PyTensor.

The likelihood, read row by row by `approxmcmc.interop`, becomes a function of chosen rows, which minibatch samplers
need. A model that cannot be separated into rows is translated as a whole, for samplers that read all data.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from approxmcmc.contracts import Target
from approxmcmc.errors import IncompatibleError
from approxmcmc.foreign.twin import once, twin_of

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
        """Return rows drawn with replacement."""
        import jax

        rows = jax.random.randint(key, (size,), 0, self.n_obs)
        return tuple(array[rows] for array in self.data)

    def refuse_whole(self, who: str) -> None:
        """Raise if the model was translated as a whole."""
        if self.log_terms is None:
            raise IncompatibleError(f"{who} needs a likelihood with a term for each row; {self.why_whole}")


@once
def density_of(target: Target) -> Density:
    """Return the log density of a target in double precision."""
    os.environ.setdefault("XLA_FLAGS", FLAGS)
    import jax
    import jax.numpy as jnp

    from approxmcmc.interop.graphs import merge_branches, over_flat, simplify
    from approxmcmc.interop.model import ModelOfPyMC
    from approxmcmc.interop.prior import log_prior_of

    jax.config.update("jax_enable_x64", True)  # PyTensor's translation needs it, and every other sampler uses it
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
