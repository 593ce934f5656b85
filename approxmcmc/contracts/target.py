"""What the engine needs of a posterior whose likelihood is a product of terms."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from approxmcmc.contracts.variables import Variables


class CompiledTarget(NamedTuple):
    """What the engine needs of a target: compiled functions and the arrays that they read.

    ``log_terms(theta, data, order, lo, hi, out)`` writes log p(x_i | theta) for i in ``order[lo:hi]`` to ``out[:hi -
    lo]``; an empty `order` stands for the rows lo ... hi - 1 themselves. ``log_prior(theta)`` returns the log prior
    density, up to a constant; -inf outside the support.

    A target that evaluates a datum at two thetas in less than twice the time brings `compile_at_both`, which returns
    ``log_terms_at_both(theta, proposed, data, lo, hi, current, candidate)``, compiled when a chain asks for it. Over
    the rows lo ... hi - 1 as they lie it writes to ``current[:hi - lo]`` and ``candidate[:hi - lo]`` the very numbers
    that `log_terms` writes.
    """

    log_terms: Any
    log_prior: Any
    data: tuple[np.ndarray, ...]
    n_obs: int
    compile_at_both: Callable[[], Any] | None = None


@runtime_checkable
class Target(Protocol):
    """A posterior distribution whose likelihood is a product of `n_obs` terms."""

    @property
    def n_obs(self) -> int:
        """Number of terms N."""

    @property
    def variables(self) -> Variables:
        """Names and shapes of the parameters."""

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """What was observed, for the trace's group of that name."""

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """Predictors and other constants, for the trace's group of that name."""

    def initial_point(self) -> np.ndarray:
        """Return the flat theta around which chains start; shape (dim,)."""

    def content_hash(self) -> str:
        """Return a hash of model and data: equal targets, equal hash, in every process."""

    def compile(self) -> CompiledTarget:
        """Compile the target's functions; called once per `sample`, before the clock starts."""


class CompiledGradient(NamedTuple):
    """What a gradient proposal needs of a target: compiled functions and the arrays that they read.

    ``add_gradient(theta, data, order, lo, hi, out)`` adds sum of grad log p(x_i | theta) over i in ``order[lo:hi]`` to
    `out`, shape (dim,). ``add_prior_gradient(theta, out)`` adds grad log p(theta). A proposal hands both on in its
    parameters, and books a gradient of one term as one of ``gradient_evaluations``.
    """

    add_gradient: Any
    add_prior_gradient: Any
    data: tuple[np.ndarray, ...]
    n_obs: int


@runtime_checkable
class DifferentiableTarget(Protocol):
    """A target that knows the gradient of its log prior and of every term."""

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients, or raise `IncompatibleError` that says how to give them; called once per `sample`."""


class CompiledBound(NamedTuple):
    """What Firefly needs of a target: lower bounds 0 < B_i(theta) <= p(x_i | theta) whose product has a closed form.

    ``gaps(theta, data, order, lo, hi, out)`` writes log p(x_i | theta) - log B_i(theta) for i in ``order[lo:hi]``; it
    is a batch kernel as `CompiledTarget.log_terms` is. ``log_bound(theta, sums)`` returns sum_i log B_i(theta) over all
    data in time independent of `n_obs`. ``add_gap_gradient(theta, data, order, lo, hi, weights, out)`` adds sum_i
    weights[i - lo] grad gap_i to `out`, and ``add_bound_gradient(theta, sums, out)`` the gradient of `log_bound`; both
    None where the target has no gradients.
    """

    gaps: Any
    log_bound: Any
    data: tuple[np.ndarray, ...]
    sums: tuple[np.ndarray, ...]
    add_gap_gradient: Any = None
    add_bound_gradient: Any = None


@runtime_checkable
class BoundedTarget(Protocol):
    """A target whose likelihood terms have collapsible lower bounds."""

    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Compile the bound of one kind; `at` is the theta at which "tuned" and "taylor" touch the likelihood.

        Raises `InvalidInputError` with the kinds that there are. Called once per `sample`.
        """


class CompiledTermRange(NamedTuple):
    """What a concentration bound needs of a target: how far the terms of a decision lie apart at most.

    ``term_range(theta, proposed, numbers)`` returns C >= max_i l_i - min_i l_i over all data, l_i = log p(x_i | theta')
    - log p(x_i | theta); `numbers` is the float64 vector of constants that it reads.
    """

    term_range: Any
    numbers: np.ndarray


@runtime_checkable
class BoundedTermsTarget(Protocol):
    """A target that can bound the range of its log-likelihood differences between two states."""

    def compile_term_range(self) -> CompiledTermRange:
        """Compile the bound, or raise `IncompatibleError` that says how to give it; called once per `sample`."""


def content_hash(*parts: Any) -> str:
    """Return a short hash of strings, JSON-ready values and arrays (dtype, shape and bytes count)."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
        digest.update(b"\0")
    return digest.hexdigest()
