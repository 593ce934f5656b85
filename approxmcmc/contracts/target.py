"""What the engine needs of a posterior whose likelihood is a product of terms."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from approxmcmc.contracts.shown import Plain, html_table
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

    `prior_rows` counts the rows of the data that `log_prior` reads, where it stands for more than a prior.
    """

    log_terms: Any
    log_prior: Any
    data: tuple[np.ndarray, ...]
    n_obs: int
    compile_at_both: Callable[[], Any] | None = None
    prior_rows: int = 0


class TermWork(NamedTuple):
    """What a term of a target takes, counted and never timed, so that a choice that follows from it is repeatable.

    `operations` are scalar ones, of a term, `gradient` those of its gradient, None where the target has none; `bytes`
    of data are read for it. `code` says who wrote it: the ``"library"``, whose kernels are compiled once per machine, a
    user in ``"python"``, or PyTensor, from a ``"graph"``; these are compiled for each new model.
    """

    operations: float
    gradient: float | None
    bytes: float
    code: Literal["library", "python", "graph"] = "library"


class Target(abc.ABC):
    """A posterior distribution whose likelihood is a product of `n_obs` terms.

    A target derives from this class, sets `n_obs` and `variables`, and writes the three abstract methods; everything
    else has a default. What only some targets can do are roles of their own: `DifferentiableTarget`, `DiscreteTarget`,
    `TwinnedTarget` and so on.
    """

    n_obs: int
    """Number of terms N."""

    n_rows: int | None = None
    """Rows that the user gave, where a term is not a row; None: `n_obs`."""

    reads_rows: bool = True
    """Whether who reads a term reads rows of the data; False where numbers made at set-up stand for them."""

    variables: Variables
    """Names and shapes of the parameters."""

    terms_are_likelihood: bool = True
    """Whether the terms add up to the whole log-likelihood; see `Population`."""

    why_no_terms: str = ""
    """Why its log density cannot be read term by term, so that only a `WholeSampler` takes it; "" where it can."""

    same_terms: bool = True
    """Whether every decision is about the same terms; see `Population`."""

    omitted_constants: np.ndarray | float = 0.0
    """What the terms leave out of log p(x_i | theta), shape (n_obs,) or one number; cross-validation adds it."""

    distance_to_model: float | None = 0.0
    """How far its log density lies from that of the model that it stands for, beyond a constant, at most; nats.

    At a distance d the two posterior densities lie within a factor exp(2 d) of each other. 0: it is the model; None: it
    approximates one, by a quadrature say, and no bound is known. A sampler that leaves this target's law invariant
    knows nothing of it.
    """

    @abc.abstractmethod
    def initial_point(self) -> np.ndarray:
        """Return the flat theta around which chains start; shape (dim,)."""

    @abc.abstractmethod
    def content_hash(self) -> str:
        """Return a hash of model and data: equal targets, equal hash, in every process."""

    @abc.abstractmethod
    def compile(self) -> CompiledTarget:
        """Compile the target's functions; called once per `sample`, before the clock starts."""

    def _repr_html_(self) -> str:
        """Show sizes and names in a notebook; nothing is computed for it."""
        shapes = {name: f"shape {shape}" if shape else "scalar" for name, shape in self.variables.shapes.items()}
        variables = ", ".join(f"{name} ({shape})" for name, shape in shapes.items())
        sizes = {"terms": Plain(f"{self.n_obs:,}"), "parameters": Plain(f"{self.variables.size:,}")}
        return html_table(repr(self), {**sizes, "variables": Plain(variables)})

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random theta where a chain may start, shape (dim,), or None: the target knows of none."""
        return None

    @property
    def term_work(self) -> TermWork:
        """What a term takes: by default two operations for each number of its data, and three times that a gradient."""
        data = self.compile().data
        numbers = sum(array.size for array in data) / self.n_obs
        gradient = 6.0 * numbers if isinstance(self, DifferentiableTarget) else None
        return TermWork(2.0 * numbers, gradient, sum(array.nbytes for array in data) / self.n_obs)

    @property
    def plain(self) -> "Target":
        """The same posterior, a row a term: this target, unless its terms expand another's or stand for rows."""
        return self

    @property
    def normal_prior(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and precisions, shape (dim,) each, where the prior is independent normal, 0 where flat; else None."""
        return None

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """What was observed, for the trace's group of that name."""
        return {}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """Predictors and other constants, for the trace's group of that name."""
        return {}

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """What making the target cost and found, as ``setup_*``, for the trace's attributes."""
        return {}


class CompiledGradient(NamedTuple):
    """What a gradient proposal needs of a target: compiled functions and the arrays that they read.

    ``add_gradient(theta, data, order, lo, hi, out)`` adds sum of grad log p(x_i | theta) over i in ``order[lo:hi]`` to
    `out`, shape (dim,). ``add_prior_gradient(theta, out)`` adds grad log p(theta). A proposal hands both on in its
    parameters, and books a gradient of one term as one of ``gradient_evaluations``. `prior_rows` counts the rows of the
    data that `add_prior_gradient` reads.
    """

    add_gradient: Any
    add_prior_gradient: Any
    data: tuple[np.ndarray, ...]
    n_obs: int
    prior_rows: int = 0


class DifferentiableTarget(abc.ABC):
    """A target that knows the gradient of its log prior and of every term."""

    @abc.abstractmethod
    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients, or raise `IncompatibleError` that says how to give them; called once per `sample`."""

    def compile_prior_gradient(self) -> Any:
        """Compile ``add_prior_gradient(theta, out)`` alone, where that needs no gradient of the terms; for modes."""
        return self.compile_gradient().add_prior_gradient


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


class BoundedTarget(abc.ABC):
    """A target whose likelihood terms have collapsible lower bounds."""

    @abc.abstractmethod
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


class BoundedTermsTarget(abc.ABC):
    """A target that can bound the range of its log-likelihood differences between two states."""

    @abc.abstractmethod
    def compile_term_range(self) -> CompiledTermRange:
        """Compile the bound, or raise `IncompatibleError` that says how to give it; called once per `sample`."""


class CompiledDifferenceBound(NamedTuple):
    """What exact subsampling needs of a target: a bound of every single log-likelihood difference.

    abs(l_i) <= rates[i] * reach(theta, proposed, numbers) for all data i and all pairs of states, l_i = log p(x_i |
    theta') - log p(x_i | theta). ``reach`` is symmetric in the two states, and infinite where no bound is known.
    `rates` are positive, shape (n_obs,); `numbers` is the float64 vector of constants that `reach` reads. `reaches` are
    the values of `reach` at pairs of states as the posterior has them, for predictions; empty where none are known.
    """

    reach: Any
    numbers: np.ndarray
    rates: np.ndarray
    reaches: np.ndarray


class BoundedDifferencesTarget(abc.ABC):
    """A target that can bound each of its log-likelihood differences between two states."""

    @abc.abstractmethod
    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile the bound, or raise `IncompatibleError` that says how to give it."""


class CompiledSurrogate(NamedTuple):
    """What a proposal needs of a target's surrogate, a log density near that of the posterior that costs few rows.

    ``move(rng, state, theta, count) -> acceptance`` makes one transition in place that is reversible for the surrogate,
    and books in `count` what it read; ``move_both(rng, state, other, x, y, count)`` makes one of two chains together,
    so that they come near each other. ``make_state()`` returns its state for a new chain, tuned. Of its members others
    read ``log_density(theta)``, the surrogate; `value`, one number, the surrogate at theta, which a move finds and
    leaves; and `n_core`, the number of rows that it reads. `normal_law` holds mean and covariance where the surrogate
    is a normal law, which can be drawn from, else None. `cov` is the covariance of its draws, (dim, dim).
    """

    move: Callable[..., float]
    move_both: Callable[..., None]
    make_state: Callable[[], Any]
    normal_law: tuple[np.ndarray, np.ndarray] | None
    cov: np.ndarray


class SurrogateTarget(abc.ABC):
    """A target that offers a cheap surrogate of its posterior, to move by."""

    @abc.abstractmethod
    def compile_surrogate(self, kernel: str) -> CompiledSurrogate:
        """Compile the surrogate, and tune one of `approxmcmc.surrogate.kernels.KERNELS` on it."""


class TwinnedTarget(abc.ABC):
    """A target that can write itself as a PyMC model, from which gold standards come."""

    pymc_model: Callable[[], Any] | None = None
    """The user's function that returns the model, where there is one."""

    @abc.abstractmethod
    def content_hash(self) -> str:
        """Return a hash of model and data."""

    @abc.abstractmethod
    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, or raise `IncompatibleError` that says why there is none."""
