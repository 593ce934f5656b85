"""The interfaces that special methods need of a target: discrete states, simulations, estimates, effects of groups."""

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.target import Target
from approxmcmc.contracts.work import TermWork
from approxmcmc.errors import IncompatibleError


class MovableTerms(NamedTuple):
    """The terms of the sites' conditionals in rows that can be moved, so that contiguous rows can be in random order.

    `words` (rows, width), int64, has the rows of `CompiledConditionals.first` and `n_terms`, and a row holds everything
    that its term needs. The kernels read ``data = (base, *views(words))`` with ``base = [first[i], i]`` for site i, and
    write the terms of the rows lo ... hi - 1 of that site. ``log_terms(x, data, order, lo, hi, out)`` is as in
    `CompiledConditionals`; ``at_both(x, other, data, lo, hi, current, candidate)`` writes the terms at two states that
    differ at site i only.
    """

    log_terms: Any
    at_both: Any
    words: np.ndarray
    views: Callable[[np.ndarray], tuple[np.ndarray, ...]]


class CompiledConditionals(NamedTuple):
    """The conditionals of a discrete target: the terms of p(x_i | all others), site by site.

    ``log_terms(x, (base, *tables), order, lo, hi, out)`` writes log psi_n(x) for the terms n in ``order[lo:hi]`` of
    site i, if ``base[0] = first[i]``, the row of the site's first term. Site i has ``n_terms[i]`` terms and the states
    0 ... ``n_states[i] - 1``. `fields` holds (linear, pair, triple) if the target is binary with the log density

        sum_i linear_i x_i + sum_{i<j} pair_ij x_i x_j + sum_{i<j<k} triple_ijk x_i x_j x_k + const,

    `pair` and `triple` symmetric with zero diagonals. It is None for other log densities, and if the arrays would be
    too large. `compile_movable` returns the same terms in rows that can be moved, for tests that read blocks; None if
    the target has no such rows.
    """

    log_terms: Any
    tables: tuple[np.ndarray, ...]
    first: np.ndarray
    n_terms: np.ndarray
    n_states: np.ndarray
    fields: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    compile_movable: Callable[[], MovableTerms] | None = None

    def terms_at(self, x: np.ndarray, site: int) -> np.ndarray:
        """Return the terms of one site at the states `x` of all sites; shape (n_terms[site],)."""
        out = np.empty(self.n_terms[site])
        memory_order = np.empty(0, dtype=np.int64)
        self.log_terms(x, (self.first[site : site + 1], *self.tables), memory_order, 0, out.size, out)
        return out


class DiscreteTarget(Target):
    """A distribution over sites with finitely many states, log p(x) = sum of terms that depend on a few sites each.

    Its theta holds the states 0, 1, ... of all sites as float64 numbers.
    """

    n_states: np.ndarray
    """Number of states of every site; int64, shape (dim,)."""

    @abc.abstractmethod
    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random state at which a chain may start; shape (dim,)."""

    @abc.abstractmethod
    def log_density(self, states: np.ndarray) -> np.ndarray:
        """Return the unnormalised log density of states of shape (..., dim); -inf outside the support."""

    @abc.abstractmethod
    def conditional(self, states: np.ndarray, site: int) -> np.ndarray:
        """Return p(x_site = k | all others) for each k, at states of shape (n, dim); shape (n, n_states[site])."""

    @abc.abstractmethod
    def compile_conditionals(self, *, fields: bool) -> CompiledConditionals:
        """Compile the conditionals; with ``fields=True`` also compute `CompiledConditionals.fields`, if possible."""


class Simulator(NamedTuple):
    """How to draw auxiliary data: a compiled function, and a factory of the state that it reads and writes.

    ``simulate(rng, theta, state, statistics, count)`` draws y' at theta and writes s(y') to `statistics`, shape (dim,).
    It adds to the counts "auxiliary_updates" (sites or dyads visited) and "statistic_evaluations" of `count`. A state
    is a named tuple and belongs to one chain; read-only tables may be shared. `exact` is True if y' follows the model
    exactly, False if it is the last state of a finite Markov chain.
    """

    simulate: Callable[..., None]
    make_state: Callable[[], Any]
    exact: bool


class DoublyIntractableTarget(Target):
    """A posterior p(theta) exp(sum_j theta_j s_j(y)) / Z(theta) with a normaliser Z too expensive for every step.

    Samplers simulate instead: they draw data y' from the model and use the statistics s(y').
    """

    @property
    def term_work(self) -> TermWork:
        """No work: its likelihood is not a sum of terms that a step could evaluate."""
        return TermWork(0.0, None, 0.0)

    @property
    @abc.abstractmethod
    def observed_statistics(self) -> np.ndarray:
        """The statistics s(y) of the observed data; float64, shape (dim,)."""

    @abc.abstractmethod
    def compile_log_prior(self) -> Any:
        """Return the compiled ``log_prior(theta) -> float``."""

    @abc.abstractmethod
    def build_simulator(self, auxiliary: Any) -> "Simulator":
        """Return the simulator for an auxiliary setting ("auto", "exact", `AuxiliaryChain`), or raise."""

    def statistic_counts(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return all values of s(y), shape (k, dim), and the log number of data sets y with each; None if unknown."""
        return None

    @abc.abstractmethod
    def log_normalizer(self, theta: np.ndarray) -> float | None:
        """Return log Z(theta) if it can be computed, else None."""

    @abc.abstractmethod
    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return the unnormalised log posterior density of each row of `thetas`; raise if Z is unknown."""


class CompiledEstimator(NamedTuple):
    """A random estimate of a likelihood: a compiled function, and the data that it reads.

    `of` is "likelihood": ``estimate(rng, theta, data)`` returns the log of an unbiased estimate of p(y|theta); or
    "ratio": ``estimate(rng, theta, proposed, data)`` estimates log p(y|theta') - log p(y|theta). One call reads
    `n_terms` of the target's `n_obs` terms.
    """

    estimate: Callable[..., float]
    of: str
    data: tuple[np.ndarray, ...]
    n_terms: int


class EstimatedTarget(Target):
    """A posterior with a likelihood that is known only through random estimates."""

    @property
    def term_work(self) -> TermWork:
        """No work: its likelihood is not a sum of terms that a step could evaluate."""
        return TermWork(0.0, None, 0.0)

    @abc.abstractmethod
    def compile_log_prior(self) -> Any:
        """Return the compiled ``log_prior(theta) -> float``."""

    @abc.abstractmethod
    def build_estimator(self) -> CompiledEstimator:
        """Return the compiled estimator."""

    @abc.abstractmethod
    def log_likelihood(self, theta: np.ndarray) -> float | None:
        """Return log p(y|theta), up to a constant, if it can be computed, else None; for audits."""


EFFECT = "effect"
GROUP = "group"


class LatentTarget(abc.ABC):
    """What draws the latent variables of groups that a target integrated or summed out, for given parameters."""

    @property
    @abc.abstractmethod
    def group_labels(self) -> np.ndarray:
        """Labels of all groups, shape (G,), with groups that have no rows if the target knows such groups."""

    @property
    @abc.abstractmethod
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """Labels of the axes of one group's effect, by name; empty for a scalar effect."""

    latents_wanted: Any = None
    """Groups whose effects `sample` stores: None, "auto" (all, if few), labels, or the path of a folder for all."""

    @abc.abstractmethod
    def draw_latents(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return a draw of the effects of `groups`, positions in `group_labels`, at each row of `thetas`.

        Shape (thetas, groups, ...), with the axes of one effect last. Draws are exact, unless a group has several
        effects and rows that are not normal: then each draw is the last state of a few sweeps of a Gibbs sampler.
        """

    def latent_sizes(self, groups: np.ndarray) -> Mapping[str, int]:
        """Return the numbers in a draw of each deterministic that can be computed from the effects of `groups`."""
        return {}

    def name_latents(
        self, thetas: np.ndarray, drawn: np.ndarray, groups: np.ndarray, names: Collection[str] | None = None
    ) -> Mapping[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return `drawn`, the result of `draw_latents`, by variable name: dims, and values of shape (thetas, ...).

        `names` are the deterministics to add, keys of `latent_sizes`; None: all.
        """
        return {EFFECT: ((GROUP, *self.latent_coords), drawn)}

    def coords_of_latents(self, groups: np.ndarray) -> Mapping[str, Sequence[Any]]:
        """Return labels of the axes of the variables of `name_latents`; axes of groups have the labels of `groups`."""
        return {GROUP: list(self.group_labels[groups]), **self.latent_coords}

    @property
    def group_dim(self) -> str:
        """Name of the axis of groups."""
        return GROUP

    @property
    def latent_roots(self) -> Sequence[str]:
        """Names of the effects themselves, from which a model computes all other group variables."""
        return [EFFECT]


class TwinnedTarget(abc.ABC):
    """A target that can be written as a PyMC model, the source of gold standards."""

    pymc_model: Callable[[], Any] | None = None
    """The user's function that returns the model, if there is one."""

    @abc.abstractmethod
    def content_hash(self) -> str:
        """Return a hash of model and data."""

    @abc.abstractmethod
    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, or raise `IncompatibleError` that says why it has none."""


def pymc_model_of(target: Any) -> Any:
    """Return the PyMC model of a target.

    Raises
    ------
    IncompatibleError
        When the target has none.
    """
    if not isinstance(target, TwinnedTarget):
        raise IncompatibleError(
            f"{type(target).__name__} has no PyMC model, which gold standards and samplers of other libraries need; "
            "use a target with the method `to_pymc()` (`contracts.TwinnedTarget`)"
        )
    return target.to_pymc()
