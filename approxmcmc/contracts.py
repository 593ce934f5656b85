"""The roles of the library and what each promises to the others.

A sampler is *target x proposal x acceptance test*. The three rooms never import each other; they meet through the
protocols below. This file imports nothing of ours, so that every room can import it.

A component (proposal, test, sampler) is a frozen dataclass of plain settings. What it computes with is a *compiled
part*: a plain Python function that the engine binds into a chain template, and the tuple of numbers and arrays which
that function reads. Settings travel between processes and into files; compiled parts never do.
"""

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

# Columns of the integer and float records that a chain template fills for every kept draw. The output room names and
# documents each of them in its schema; the order here is the order in memory.
CORE_COUNTS = (
    "datapoints_touched",
    "likelihood_evaluations",
    "decisions_made",
    "decision_rounds",
    "decisions_audited",
    "wrong_decisions",
    "wrong_accepts",
    "accepted",
)
OPTIONAL_COUNTS = (  # written by the samplers and parts that declare them
    "gradient_evaluations",
    "bound_evaluations",
    "auxiliary_updates",
    "statistic_evaluations",
    "bright_count",
    "dark_proposals",
    "tolerance_stops",
    "range_violations",
)
COUNT_NAMES = CORE_COUNTS + OPTIONAL_COUNTS
VALUE_NAMES = (
    "acceptance_rate",
    "perf_counter_diff",
    "lp",
    "max_term_ratio",
    "audited_mu_std",
    "log_ratio_variance",
    "term_skewness",
    "skewness_ratio",
    "audit_acceptance_error",
    "audit_acceptance_noise",
    "epsilon",
    "weight",
)


class Component:
    """Settings of one member of a role: validated when made, comparable, printable, convertible to a plain dict.

    Subclasses are frozen dataclasses made with ``eq=False``: arrays among the settings would break the generated
    comparison, so equality and hash go through :meth:`to_dict`.
    """

    _registry: ClassVar[dict[str, type["Component"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Component._registry[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready values, with the class name under ``"kind"``."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return {"kind": type(self).__name__, **{f.name: _plain(getattr(self, f.name)) for f in fields}}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Component":
        """Rebuild a component from what :meth:`to_dict` returned."""
        settings = dict(values)
        kind = settings.pop("kind")
        return Component._registry[kind](**{name: _revive(value) for name, value in settings.items()})

    def __eq__(self, other: object) -> bool:
        """Two components are equal when they are of one class and have equal settings."""
        return isinstance(other, Component) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Equal components hash alike."""
        return hash(json.dumps(self.to_dict(), sort_keys=True))


def _plain(value: Any) -> Any:
    if isinstance(value, Component):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _revive(value: Any) -> Any:
    if isinstance(value, Mapping) and "kind" in value:
        return Component.from_dict(value)
    if isinstance(value, Mapping) and "array" in value:
        return np.asarray(value["array"], dtype=np.float64)
    if isinstance(value, list):
        return tuple(_revive(item) for item in value)
    return value


@dataclasses.dataclass(frozen=True)
class Variables:
    """Names, shapes and labels of the parameters that a flat vector theta holds, in order.

    Parameters
    ----------
    shapes
        Shape of each variable by name; their sizes add up to the dimension of theta.
    dims
        Names of the axes of each variable, for those that have labelled axes.
    coords
        Labels of each axis by name.
    dtype
        NumPy name of the type that the trace stores; ``"int64"`` for discrete variables. A chain's theta is float64.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    coords: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    dtype: str = "float64"

    @property
    def size(self) -> int:
        """Length of theta."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def labels(self) -> list[str]:
        """Return the name of every coordinate of theta, such as "mu" or "beta[x1]"."""
        names = []
        for name, shape in self.shapes.items():
            axes = [self.coords.get(axis, range(n)) for axis, n in zip(self.dims.get(name, ()), shape, strict=False)]
            axes = axes if len(axes) == len(shape) else [range(n) for n in shape]
            places = [", ".join(map(str, place)) for place in itertools.product(*axes)]
            names += [f"{name}[{place}]" for place in places] if shape else [name]
        return names

    def unpack(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Split the last axis of `theta` into variables; leading axes (chain, draw) stay."""
        pieces, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            pieces[name] = theta[..., start:stop].reshape(*theta.shape[:-1], *shape)
            start = stop
        return pieces

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Join variables given by name into one flat float64 vector."""
        return np.concatenate([np.ravel(np.asarray(values[name], dtype=np.float64)) for name in self.shapes])


class CompiledTarget(NamedTuple):
    """What the engine needs of a target: compiled functions and the arrays that they read.

    ``log_terms(theta, data, order, lo, hi, out)`` writes log p(x_i | theta) for i in ``order[lo:hi]`` to ``out[:hi -
    lo]``; an empty `order` stands for the rows lo ... hi - 1 themselves. ``log_prior(theta)`` returns the log prior
    density, up to a constant; -inf outside the support.
    """

    log_terms: Any
    log_prior: Any
    data: tuple[np.ndarray, ...]
    n_obs: int


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


class CompiledConditionals(NamedTuple):
    """What Gibbs needs of a discrete target: the terms of p(x_i | all others), site by site.

    ``log_terms(x, (base, *tables), order, lo, hi, out)`` writes log psi_n(x) for the terms n in ``order[lo:hi]`` of
    the site whose first row is ``base[0] = first[i]``; site i has ``n_terms[i]`` terms and the states 0 ...
    ``n_states[i] - 1``. `fields` holds (linear, pair, triple) where the log density of a binary target is

        sum_i linear_i x_i + sum_{i<j} pair_ij x_i x_j + sum_{i<j<k} triple_ijk x_i x_j x_k + const,

    `pair` and `triple` symmetric with zero diagonals; None where it is not of this form or the tables would be large.
    """

    log_terms: Any
    tables: tuple[np.ndarray, ...]
    first: np.ndarray
    n_terms: np.ndarray
    n_states: np.ndarray
    fields: tuple[np.ndarray, np.ndarray, np.ndarray] | None


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


class Part(NamedTuple):
    """A compiled part of a chain template: what to bind by name, and what it reads and writes.

    `functions` maps names of the template's globals to plain functions and constants. `params` is a tuple of scalars
    and arrays, read only. The state is a float64 array that belongs to one chain; `make_state` returns a fresh one,
    and `describe` tells what it has learnt. `records` names the members of `OPTIONAL_COUNTS` and `VALUE_NAMES` that it
    fills. A compiled kernel among the parameters reaches the template as a function pointer. `attrs` says what set-up
    cost, as ``setup_*``.
    """

    functions: Mapping[str, Any]
    params: tuple[Any, ...]
    make_state: Callable[[], np.ndarray]
    describe: Callable[[np.ndarray], Mapping[str, float]] = lambda state: {}
    records: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = {}


@runtime_checkable
class DiscreteTarget(Target, Protocol):
    """A distribution over sites with finitely many states, log p(x) = sum of terms that depend on a few sites each.

    Its theta holds the states 0, 1, ... of all sites as float64 numbers.
    """

    @property
    def n_states(self) -> np.ndarray:
        """Number of states of every site; int64, shape (dim,)."""

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random state in which a chain may start; shape (dim,)."""

    def log_density(self, states: np.ndarray) -> np.ndarray:
        """Return the unnormalised log density of states of shape (..., dim); -inf outside the support."""

    def compile_conditionals(self, *, fields: bool) -> CompiledConditionals:
        """Compile the conditionals; `fields` says whether the fast form is wanted instead of the terms."""


@runtime_checkable
class DoublyIntractableTarget(Protocol):
    """A posterior p(theta) exp(theta's(y)) / Z(theta) whose normaliser Z nobody can afford at every step.

    What samplers do instead is simulate: draw y' from the model at theta, and look at s(y').
    """

    @property
    def variables(self) -> Variables:
        """Names and shapes of theta, which has one entry per statistic."""

    @property
    def observed_statistics(self) -> np.ndarray:
        """s(y); float64, shape (dim,)."""

    def compile_log_prior(self) -> Any:
        """Return the compiled ``log_prior(theta) -> float``."""

    def build_simulator(self, auxiliary: Any) -> "Simulator":
        """Return the simulator that an auxiliary setting ("auto", "exact", `Auxiliary`) stands for, or refuse."""

    def log_normalizer(self, theta: np.ndarray) -> float | None:
        """Return log Z(theta) where it can be computed, else None."""


class CompiledEstimator(NamedTuple):
    """A random estimate that stands in for a likelihood: a plain function that a template binds, and what it reads.

    `of` is "likelihood": ``estimate(rng, theta, data)`` returns the log of an unbiased estimate of p(y|theta); or
    "ratio": ``estimate(rng, theta, proposed, data)`` estimates log p(y|theta') - log p(y|theta). One call reads
    `n_terms` of the `n_obs` terms of the likelihood.
    """

    estimate: Callable[..., float]
    of: str
    data: tuple[np.ndarray, ...]
    n_terms: int


@runtime_checkable
class EstimatedTarget(Protocol):
    """A posterior whose likelihood is known through random estimates alone."""

    @property
    def variables(self) -> Variables:
        """Names and shapes of theta."""

    def compile_log_prior(self) -> Any:
        """Return the compiled ``log_prior(theta) -> float``."""

    def build_estimator(self) -> CompiledEstimator:
        """Return the estimator; called once per `sample`."""

    def log_likelihood(self, theta: np.ndarray) -> float | None:
        """Return log p(y|theta), up to a constant, where it can be computed, else None; for audits."""


@runtime_checkable
class Proposal(Protocol):
    """Where to go: draws theta' from q(.|theta) and knows log q(theta|theta') - log q(theta'|theta)."""

    def build_proposal(self, target: Target) -> Part:
        """Check that the target has what this proposal needs, and return the part that proposes.

        A proposal may have a method `build_unadjusted` beside: it returns the part for a test that asks for no density
        ratio, cheaper where the ratio costs gradients. A part may bind ``WEIGHT(params, state) -> float``, the weight
        of the draw just made, and then names "weight" among its records.
        """


@runtime_checkable
class AcceptanceTest(Protocol):
    """Is the sum of the log-ratio terms above the threshold, and how few terms answer it? This role decides."""

    def build_test(self, target: Target) -> Part:
        """Check that the target has what this test needs, and return the part that decides."""


class Simulator(NamedTuple):
    """How to draw auxiliary data: a plain function that a template binds, and what it reads and writes.

    ``simulate(rng, theta, params, state, statistics, count)`` draws y' at theta and writes s(y') to `statistics`, shape
    (dim,). It adds to the counts "auxiliary_updates" (sites or dyads visited) and "statistic_evaluations" of `count`.
    `state` is a tuple of scratch arrays that belongs to one chain; `exact` says whether draws are exact or the end
    of a finite Markov chain.
    """

    simulate: Callable[..., None]
    params: tuple[Any, ...]
    make_state: Callable[[], tuple[np.ndarray, ...]]
    exact: bool


class Chain(Protocol):
    """One Markov chain in flight; owned by one thread at a time."""

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps, write every `thin`-th state and the summed records; return the draws written.

        Fewer than `n_draws` come back only when a log density was NaN; :meth:`explain_failure` then says where.
        """

    def adapted(self) -> Mapping[str, float]:
        """Return what tuning has settled on, by name; stored with the trace."""

    def explain_failure(self) -> str:
        """Say which datum, prior or proposal made the log density NaN, and at which theta."""


class Program(Protocol):
    """A sampler bound to a target: compiled, ready to start chains."""

    count_names: Sequence[str]
    value_names: Sequence[str]
    attrs: Mapping[str, Any]

    def start(self, theta: np.ndarray, streams: "Streams", n_tune: int) -> Chain:
        """Start a chain at `theta`; it adapts during its first `n_tune` steps and never after."""

    def log_density(self, theta: np.ndarray) -> float:
        """Return the unnormalised log posterior density at `theta`, on all data."""


class Streams(NamedTuple):
    """The random streams of one chain; an audit never shifts the chain, a test never shifts the proposals."""

    proposal: np.random.Generator
    uniform: np.random.Generator
    order: np.random.Generator
    audit: np.random.Generator
    start: np.random.Generator


@runtime_checkable
class Sampler(Protocol):
    """How target, proposal and test make one step."""

    def build(self, target: Target, *, audit_every: int | str | None) -> Program:
        """Check the pairing, compile it, return the program that starts chains; "auto" leaves the rate to it."""


class SamplingResult(NamedTuple):
    """Plain arrays of a finished run; the output room turns them into a DataTree.

    `draws` has shape (chains, draws, dim); every entry of `stats` has shape (chains, draws); `warmup_draws` and
    `warmup_stats` likewise over tuning steps, or None. `tuning_totals` holds, per chain, the sums over tuning steps.
    """

    draws: np.ndarray
    stats: Mapping[str, np.ndarray]
    warmup_draws: np.ndarray | None
    warmup_stats: Mapping[str, np.ndarray] | None
    tuning_totals: Mapping[str, np.ndarray]
    attrs: Mapping[str, Any]


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
