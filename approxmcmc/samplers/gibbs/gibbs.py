"""Gibbs sampling of discrete targets, exact or with the acceptance tests of Metropolis-Hastings.

A sweep visits every site once and draws it from its conditional. For a binary site

    x_i = 1  iff  logit(u) < L_i,    L_i = sum_n l_n,    l_n = log psi_n(x_i = 1, rest) - log psi_n(x_i = 0, rest),

the sum over the terms that hold the site ("pairs", where every term is a table of three sites). That is the question
of an acceptance test: is a sum of terms above a threshold? So every test serves here, with threshold logit(u) and
nothing beside the terms (c = 0), and may answer after a few terms.

References: Geman and Geman (1984); Korattikara, Chen and Welling (2014), Austerity in MCMC Land, section 6.4 and
supplement F.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.acceptance import ExactTest
from approxmcmc.acceptance.rules import logit_uniform
from approxmcmc.contracts import (
    CORE_COUNTS,
    COUNT_NAMES,
    VALUE_NAMES,
    AcceptanceTest,
    CompiledConditionals,
    Component,
    DiscreteTarget,
    Part,
    Population,
    Sampler,
    Streams,
)
from approxmcmc.engine.batches import BATCH, log_terms_type
from approxmcmc.engine.compile import COUNTS, INDICES, MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.order import rows_order
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.gibbs.sweep import FIELDS, STATES, TERMS, advance
from approxmcmc.samplers.metropolis_hastings_step import AUDIT_COUNTS, audit

SCANS = ("systematic", "random")
CONDITIONALS = ("auto", "terms")
NO_BLOCKS = rows_order(0)[1:]  # sites have few terms, and read them by row


@dataclasses.dataclass(frozen=True, eq=False)
class Gibbs(Component, Sampler):
    """Draw one site after the other from its conditional; one step is a sweep of D decisions.

    Parameters
    ----------
    test
        How a binary site is decided: :class:`ExactTest`, :class:`SequentialTTest`, :class:`MinibatchBarker`. Sites with
        more than two states need :class:`ExactTest`. The rule of an exact test does not matter: a conditional is drawn
        with threshold logit(u).
    scan
        ``"systematic"``: sites 0, 1, ..., D - 1. ``"random"``: D sites drawn uniformly with replacement.
    conditional
        ``"auto"``: an exact test uses the fastest exact form that the target has: a binary field with up to three
        sites per factor keeps the log odds of all sites, and updates them when a site flips. ``"terms"``: add up all
        terms at every decision, as an approximate test would.

    Raises
    ------
    InvalidInputError
        When `scan` or `conditional` is unknown.
    IncompatibleError
        When the target is not discrete, or the test cannot decide its sites; raised before anything runs.

    Notes
    -----
    Guarantee: exact with :class:`ExactTest`. With another test each conditional is off by what the test errs, and so is
    the stationary law; one sweep is off by at most D times the largest error of a conditional.

    Records: a sweep adds up its D decisions. Every decision of an exact test touches all terms of its site, however
    they are cached. Evaluations: 2 per term read; in the fast form 2 per term of a site that flips, and none otherwise.
    ``accepted`` and ``acceptance_rate`` are not written. ``lp`` is, where the test is exact.

    The stored states are int64.

    References
    ----------
    Geman and Geman (1984); Korattikara, Chen and Welling (2014), section 6.4.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> field = amc.targets.BinaryMRF.random_triples(12, scale=0.1, random_seed=0)
    >>> trace = amc.sample(
    ...     field, amc.Gibbs(amc.SequentialTTest(0.05, 20)), draws=50, chains=1, random_seed=1, progressbar=False
    ... )
    >>> int(trace.sample_stats["decisions_made"][0, 0])
    12
    """

    test: Any = dataclasses.field(default_factory=ExactTest)
    scan: str = "systematic"
    conditional: str = "auto"

    def __post_init__(self) -> None:
        """Check the names and the role of the test."""
        for name, value, known in (("scan", self.scan, SCANS), ("conditional", self.conditional, CONDITIONALS)):
            if value not in known:
                raise InvalidInputError(f"Gibbs: {name} must be one of {known}, found {value!r}")
        if isinstance(self.test, type) or not isinstance(self.test, AcceptanceTest):
            raise IncompatibleError(
                f"Gibbs: test must be an acceptance test such as SequentialTTest(epsilon=0.05), found {self.test!r}"
            )

    def build(self, target: DiscreteTarget, *, audit_every: int | str | None = "auto") -> "GibbsProgram":
        """Check the pairing, compile it, and return the program that starts chains."""
        if not isinstance(target, DiscreteTarget):
            raise IncompatibleError(
                f"Gibbs needs a discrete target such as targets.BinaryMRF or targets.BayesianNetwork, found "
                f"{target!r}; sample it with MetropolisHastings"
            )
        conditionals = target.compile_conditionals(fields=self._is_exact and self.conditional == "auto")
        sizes, group_of = np.unique(conditionals.n_terms, return_inverse=True)
        tests = self._build_tests(target, conditionals, sizes)
        if isinstance(audit_every, str):
            most = int(conditionals.n_terms.max())
            audit_every = max(50, round(20 * most / getattr(self.test, "batch_size", most)))
        return GibbsProgram(target, conditionals, tests, group_of.astype(np.int64), self.scan, audit_every)

    @property
    def _is_exact(self) -> bool:
        return isinstance(self.test, ExactTest)

    def _build_tests(
        self, target: DiscreteTarget, conditionals: CompiledConditionals, sizes: np.ndarray
    ) -> tuple[Part, ...]:
        """Return one test for each number of terms that a site can have."""
        kind = type(self.test).__name__
        if not self._is_exact and conditionals.n_states.max() > 2:
            site = int(np.argmax(conditionals.n_states))
            raise IncompatibleError(
                f"Gibbs: {kind} decides between two states, site {site} of {target!r} has "
                f"{conditionals.n_states[site]}; use ExactTest"
            )
        if not self._is_exact and sizes[0] < 2:
            site = int(np.argmin(conditionals.n_terms))
            raise IncompatibleError(
                f"Gibbs: {kind} needs at least 2 terms per site, site {site} of {target!r} has {sizes[0]}; "
                "use ExactTest"
            )
        tests = tuple(self.test.build_test(Population(int(size), same_terms=False)) for size in sizes)
        if not tests[0].functions["USES_RATIO"]:
            raise IncompatibleError(
                f"Gibbs: {kind} ignores the terms, and a conditional is made of them; use ExactTest"
            )
        return tests


class GibbsProgram:
    """A Gibbs sampler bound to a target; see the protocol `Program`."""

    def __init__(
        self,
        target: DiscreteTarget,
        conditionals: CompiledConditionals,
        tests: tuple[Part, ...],
        group_of: np.ndarray,
        scan: str,
        audit_every: int | None,
    ) -> None:
        self.target, self.conditionals, self.group_of = target, conditionals, group_of
        self.test, self.test_params = tests[0], tuple(test.params for test in tests)
        audited = bool(self.test.functions["AUDITED"])
        exact = bool(self.test.functions["CACHES_LIKELIHOOD"])
        self.audit_probability = 1.0 / audit_every if audited and audit_every else 0.0
        written = {*CORE_COUNTS, *self.test.records} - {"accepted", *(() if audited else AUDIT_COUNTS)}
        self.count_names = [name for name in COUNT_NAMES if name in written]
        recorded = {"perf_counter_diff", *self.test.records, *(("lp",) if exact else ())}
        self.value_names = [name for name in VALUE_NAMES if name in recorded]
        n_obs = float(conditionals.n_terms.mean())
        self.attrs: Mapping[str, Any] = {
            "n_obs": int(n_obs) if n_obs.is_integer() else n_obs,  # terms per decision, not factors of the target
            **({"audit_every": audit_every or 0} if audited else {}),
        }
        form = STATES if conditionals.n_states.max() > 2 else TERMS
        form = FIELDS if conditionals.fields is not None else form
        empty = (np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0)))
        self.coefficients = conditionals.fields or empty
        constants = {"FORM": form, "SYSTEMATIC": scan == "systematic"}
        parts = {"AUDIT": audit, **self.test.functions, "THRESHOLD": logit_uniform, **constants}
        self.kernel = bind(advance, self._signature(), **parts)

    def _signature(self) -> Any:
        if config.DISABLE_JIT:
            return None
        generator = type_of(np.random.default_rng(0))
        data = type_of((np.zeros(1, dtype=np.int64), *self.conditionals.tables))
        return nb.int64(
            nb.UniTuple(generator, 4), log_terms_type(data), data, INDICES, INDICES, INDICES, INDICES,
            type_of(self.coefficients), type_of(self.test_params), VECTOR,
            VECTOR, VECTOR, VECTOR, VECTOR, INDICES, INDICES, type_of(NO_BLOCKS), MATRIX,
            nb.int64, nb.int64, nb.float64, MATRIX, COUNTS, MATRIX,
        )  # fmt: skip

    def log_density(self, theta: np.ndarray) -> float:
        """Return the unnormalised log density of a state."""
        return float(self.target.log_density(theta))

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> "GibbsChain":
        """Start a chain at a state of positive probability; nothing adapts, so tuning is burn-in."""
        return GibbsChain(self, theta, streams)


class GibbsChain:
    """One chain in flight; see the protocol `Chain`."""

    def __init__(self, program: GibbsProgram, theta: np.ndarray, streams: Streams) -> None:
        self.program, self.streams = program, streams
        self.x, self.other = theta.copy(), theta.copy()
        self.fields = np.zeros(theta.size)
        self.log_density = np.array([program.log_density(theta)])
        self.data = (np.zeros(1, dtype=np.int64), *program.conditionals.tables)  # the first one says which site
        sizes = np.unique(program.conditionals.n_terms)
        self.orders = np.concatenate([np.arange(size) for size in sizes])
        self.order_start = np.cumsum(sizes) - sizes
        self.work = np.empty((3, BATCH))
        self.test_state = program.test.make_state()
        self.sweeps = 0
        self.start_evaluations, self.proposed = 0, None  # a site is drawn, not proposed

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` sweeps and record every `thin`-th state."""
        program, streams = self.program, self.streams
        made = program.kernel(
            (streams.proposal, streams.uniform, streams.order, streams.audit),
            program.conditionals.log_terms, self.data, program.conditionals.first, program.conditionals.n_terms,
            program.conditionals.n_states, program.group_of, program.coefficients, program.test_params,
            self.test_state, self.x, self.other, self.fields, self.log_density, self.orders, self.order_start,
            NO_BLOCKS, self.work, self.sweeps, thin, program.audit_probability, draws[:n_draws], counts[:n_draws],
            values[:n_draws],
        )  # fmt: skip
        self.sweeps += n_draws * thin
        return int(made)

    def adapted(self) -> Mapping[str, float]:
        """Return nothing: Gibbs has nothing to tune."""
        return {}

    def explain_failure(self) -> str:
        """Say where the chain stood; tables are checked before, so that this should not happen."""
        return f"a term was NaN near x = {self.x.astype(int).tolist()}"
