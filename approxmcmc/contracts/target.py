"""The interface that the engine needs of a posterior with a likelihood that is a product of terms."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.component import Plain, html_table
from approxmcmc.contracts.variables import Variables
from approxmcmc.contracts.work import TermWork, WrittenWork


class CompiledTarget(NamedTuple):
    """The compiled functions of a target, and the arrays that they read.

    ``log_terms(theta, data, order, lo, hi, out)`` writes log p(x_i | theta) for i in ``order[lo:hi]`` to ``out[:hi -
    lo]``; an empty `order` stands for the rows lo ... hi - 1 themselves. ``log_prior(theta)`` returns the log prior
    density, up to a constant; -inf outside the support.

    A target that evaluates a row at two thetas in less than twice the time provides `compile_at_both`, which returns
    ``log_terms_at_both(theta, proposed, data, lo, hi, current, candidate)``, compiled when a chain needs it. Over the
    rows lo ... hi - 1 in memory order it writes to ``current[:hi - lo]`` and ``candidate[:hi - lo]`` exactly the
    numbers that `log_terms` writes.

    `prior_rows` counts the rows of the data that `log_prior` reads, if it contains more than a prior. `term_tolerance`
    is the largest relative difference between two evaluations of a term, in different batches, that is only rounding.
    """

    log_terms: Any
    log_prior: Any
    data: tuple[np.ndarray, ...]
    n_obs: int
    compile_at_both: Callable[[], Any] | None = None
    prior_rows: int = 0
    term_tolerance: float = 1e-9


# Nats by which the log density of a target may differ from its model's without a warning: two densities within a factor
# of 1.02 of each other, so that an expectation moves by at most some hundredth of a posterior standard deviation.
LARGEST_DISTANCE_TO_MODEL = 0.01


class Target(abc.ABC):
    """A posterior distribution whose likelihood is a product of `n_obs` terms.

    A target derives from this class, sets `n_obs` and `variables`, and implements the three abstract methods;
    everything else has a default. Abilities that only some targets have are separate roles: `DifferentiableTarget`,
    `DiscreteTarget`, `TwinnedTarget` and so on.
    """

    n_obs: int
    """Number of terms N."""

    n_rows: int | None = None
    """Rows that the user gave, if a term is not a row; None: `n_obs`."""

    why_one_mode: str = ""
    """Why the posterior has one mode, such as a log density that is concave in theta; "" if no proof is known."""

    known_fit: Any = None
    """The `Laplace` approximation, if it was found when the target was made; else None."""

    compiles_prior: bool = False
    """Whether the log prior of each new model is compiled separately from the terms, which takes seconds."""

    mirrored: Sequence[int] = ()
    """Coordinates of theta in each of which the posterior is even: scales that are sampled with either sign."""

    reads_rows: bool = True
    """Whether reading a term reads rows of the data; False if numbers made at set-up replace the rows."""

    variables: Variables
    """Names and shapes of the parameters."""

    terms_are_likelihood: bool = True
    """Whether the terms add up to the whole log-likelihood; see `Population`."""

    why_no_terms: str = ""
    """Why the log density cannot be read term by term, so that only a `WholeSampler` can run it; "" if it can."""

    why_no_choice: str = ""
    """Why no sampler can be chosen for this target, so that its user must name one; "" if one can."""

    why_no_structure: str = ""
    """Why the model that the target was made from is compiled unchanged, without use of its structure; "" if not."""

    same_terms: bool = True
    """Whether every decision is about the same terms; see `Population`."""

    omitted_constants: np.ndarray | float = 0.0
    """The constants left out of log p(x_i | theta), shape (n_obs,) or one number; cross-validation adds them."""

    distance_to_model: float | None = 0.0
    """Largest difference of the target's log density from that of its model, apart from a constant; nats.

    At a distance d the two posterior densities lie within a factor exp(2 d) of each other. 0: the target is the model.
    None: it approximates a model, by quadrature for example, and no bound is known. Errors of samplers, see
    `Sampler.why_not_invariant`, do not include this distance.
    """

    @abc.abstractmethod
    def initial_point(self) -> np.ndarray:
        """Return the flat theta around which chains start; shape (dim,)."""

    @abc.abstractmethod
    def content_hash(self) -> str:
        """Return a hash of model and data, which is the same for equal targets in every process."""

    @abc.abstractmethod
    def compile(self) -> CompiledTarget:
        """Compile the target's functions; called at set-up, before the clock of a run starts."""

    def _repr_html_(self) -> str:
        """Show sizes and names in a notebook, without computing anything."""
        sizes = {"terms": f"{self.n_obs:,}", "parameters": f"{self.variables.size:,}"}
        rows = {name: Plain(text) for name, text in {**sizes, **self._in_words()}.items()}
        return html_table(repr(self), rows)

    def __str__(self) -> str:
        """Return the representation, the names of the parameters, and the prior: a line for each."""
        return "\n  ".join([repr(self), *(f"{name}: {text}" for name, text in self._in_words().items())])

    def _in_words(self) -> dict[str, str]:
        """Return labels or shape of each variable, and the prior if it is known in words."""
        variables = {name: self.variables.described(name) for name in self.variables.shapes}
        return variables | ({"prior": self.prior_text} if self.prior_text else {})

    @property
    def prior_text(self) -> str:
        """The prior in words, for people; "" if the target does not say."""
        return ""

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random theta at which a chain may start, shape (dim,), or None if the target offers none."""
        return None

    @property
    def term_work(self) -> TermWork:
        """The work of a term: by default two operations for each number of its data, and six for its gradient."""
        data = self.compile().data
        numbers = sum(array.size for array in data) / self.n_obs
        gradient = 6.0 * numbers if isinstance(self, DifferentiableTarget) else None
        return TermWork(2.0 * numbers, gradient, sum(array.nbytes for array in data) / self.n_obs)

    @property
    def written_work(self) -> WrittenWork:
        """The work of a gradient of the model as its user wrote it; by default six times the work of all terms."""
        plain = self.plain
        if plain is not self:
            return plain.written_work
        return WrittenWork(6.0 * self.n_obs * self.term_work.operations, self.variables.size, multiplies=True)

    summed: Any = None  # a `LatentTarget`
    """What draws the discrete variables that were summed out, if there are any."""

    returned: Any = None  # a `ReturnedVariables`
    """What computes the deterministics of the model from draws, if the target was made from a model."""

    @property
    def plain(self) -> "Target":
        """The target that this one wraps, with the same posterior and single rows as terms; else this target itself."""
        return self

    @property
    def normal_prior(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and precisions (0 if flat), shape (dim,) each, if the prior is normal and independent; else None."""
        return None

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, for the trace's group of that name."""
        return {}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """Predictors and other constants, for the trace's group of that name."""
        return {}

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Costs (``setup_*``) and other results of making the target, by name, for the trace's attributes."""
        return {}


class CompiledGradient(NamedTuple):
    """The compiled gradients of a target, and the arrays that they read.

    ``add_gradient(theta, data, order, lo, hi, out)`` adds sum of grad log p(x_i | theta) over i in ``order[lo:hi]`` to
    `out`, shape (dim,). ``add_prior_gradient(theta, out)`` adds grad log p(theta). Proposals count the gradient of one
    term as one of ``gradient_evaluations``. `prior_rows` counts the rows of the data that `add_prior_gradient` reads.
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
        """Compile the gradients, or raise `IncompatibleError` with advice; called at set-up."""

    def compile_prior_gradient(self) -> Any:
        """Compile ``add_prior_gradient(theta, out)``, for modes; without gradients of terms if that is possible."""
        return self.compile_gradient().add_prior_gradient


class CompiledBound(NamedTuple):
    """Lower bounds 0 < B_i(theta) <= p(x_i | theta) of the terms, with a product in closed form.

    ``gaps(theta, data, order, lo, hi, out)`` writes log p(x_i | theta) - log B_i(theta) for i in ``order[lo:hi]``; it
    is a batch kernel like `CompiledTarget.log_terms`. ``log_bound(theta, sums)`` returns sum_i log B_i(theta) over all
    data in time independent of `n_obs`. ``add_gap_gradient(theta, data, order, lo, hi, weights, out)`` adds sum_k
    weights[k] grad gap_i with i = order[lo + k] to `out`, and ``add_bound_gradient(theta, sums, out)`` the gradient of
    `log_bound`; both None if the target has no gradients.
    """

    gaps: Any
    log_bound: Any
    data: tuple[np.ndarray, ...]
    sums: tuple[np.ndarray, ...]
    add_gap_gradient: Any = None
    add_bound_gradient: Any = None


class BoundedTarget(abc.ABC):
    """A target whose likelihood terms have collapsible lower bounds."""

    @property
    @abc.abstractmethod
    def bound_kinds(self) -> tuple[str, ...]:
        """The names of the bounds; empty for targets without bounds, as for some families of a regression."""

    @abc.abstractmethod
    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Compile the bound of one kind; `at` is the theta at which "tuned" and "taylor" touch the likelihood.

        Raises an `InvalidInputError` that lists the known kinds if `kind` is another.
        """


class CompiledTermRange(NamedTuple):
    """The interface of concentration bounds: the largest distance between the terms of a decision.

    ``term_range(theta, proposed, numbers)`` returns C >= max_i l_i - min_i l_i over all data, l_i = log p(x_i | theta')
    - log p(x_i | theta); `numbers` is the float64 vector of constants that it reads.
    """

    term_range: Any
    numbers: np.ndarray


class BoundedTermsTarget(abc.ABC):
    """A target that can bound the range of its log-likelihood differences between two states."""

    @abc.abstractmethod
    def compile_term_range(self) -> CompiledTermRange:
        """Compile the bound, or raise `IncompatibleError` that says how to provide it."""


class CompiledDifferenceBound(NamedTuple):
    """The interface of exact subsampling: a bound of every single log-likelihood difference.

    abs(l_i) <= rates[i] * reach(theta, proposed, numbers) for all data i and all pairs of states, l_i = log p(x_i |
    theta') - log p(x_i | theta). ``reach`` is symmetric in the two states, and infinite if no bound is known. `rates`
    are positive, shape (n_obs,); `numbers` is the float64 vector of constants that `reach` reads. `reaches` are values
    of `reach` at typical pairs of posterior states, for predictions; empty if unknown. `classes` are the rows in
    classes of nearly equal rates, if they are known; else None.
    """

    reach: Any
    numbers: np.ndarray
    rates: np.ndarray
    reaches: np.ndarray
    classes: Any = None


class BoundedDifferencesTarget(abc.ABC):
    """A target that can bound each of its log-likelihood differences between two states."""

    @abc.abstractmethod
    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile the bound, or raise `IncompatibleError` that says how to provide it."""


class ExpandableTarget(abc.ABC):
    """A target whose terms have second-order expansions in closed form."""

    @abc.abstractmethod
    def expansion(self, order: int) -> Any:
        """Return the object that expands the terms to this order, 1 or 2: one of those in `approxmcmc.expansion`."""


class CompiledSurrogate(NamedTuple):
    """A target's surrogate: a log density close to that of the posterior that costs few rows.

    ``move(rng, state, theta, count) -> acceptance`` makes one transition in place that is reversible for the surrogate,
    and counts in `count` what it read; ``move_both(rng, state, other, x, y, count)`` moves two chains together, so that
    they approach each other. ``make_state()`` returns the tuned state of a new chain. Other code reads these members of
    the state: ``log_density(theta)``, the log density of the surrogate; `value`, this density at theta after a move;
    and `n_rows`, the number of rows that one evaluation reads. `normal_law` holds mean and covariance of a normal
    distribution that is drawn from directly instead, the surrogate or its approximation; else None. `cov` is the
    surrogate's covariance, shape (dim, dim).
    """

    move: Callable[..., float]
    move_both: Callable[..., None]
    make_state: Callable[[], Any]
    normal_law: tuple[np.ndarray, np.ndarray] | None
    cov: np.ndarray


class SurrogateTarget(abc.ABC):
    """A target with a cheap surrogate of its posterior to propose moves."""

    @abc.abstractmethod
    def compile_surrogate(self, kernel: str) -> CompiledSurrogate:
        """Compile the surrogate, and tune one of `approxmcmc.surrogate.kernels.KERNELS` on it."""
