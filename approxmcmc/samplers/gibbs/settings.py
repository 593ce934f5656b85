"""Gibbs sampling of discrete targets, exact or with the acceptance tests of Metropolis-Hastings.

A sweep visits every site once, or D random sites, and draws each from its conditional. For a binary site

    x_i = 1  iff  logit(u) < L_i,    L_i = sum_n l_n,    l_n = log psi_n(x_i = 1, rest) - log psi_n(x_i = 0, rest),

the sum over the factors psi_n that contain the site (the papers say "pairs": a factor of three sites has two others).
An acceptance test decides whether a sum of terms is above a threshold, here logit(u), and may decide after a few terms.

References: Geman and Geman (1984); Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, sections 5
and 6.3; in the conference version (2014) supplement F.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.acceptance.exact import exact_twin_of
from approxmcmc.acceptance.rules import logit_uniform
from approxmcmc.contracts import (
    AcceptanceTest,
    CompiledConditionals,
    CompiledCoupling,
    CompiledTest,
    Component,
    Decision,
    DiscreteTarget,
    Program,
    Streams,
    TestedSampler,
    TransitionMatrix,
)
from approxmcmc.contracts.records import AUDIT_COUNTS, CORE_COUNTS
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.gibbs.law import couple_gibbs, replicate_sites, sweep_matrix
from approxmcmc.samplers.gibbs.state import GibbsState, build_tests, new_state
from approxmcmc.samplers.gibbs.step import (
    SCANS,
    draw_by_states,
    draw_by_terms,
    make_draw_by_field,
    make_sweep,
    prepare_nothing,
    refresh_field,
)
from approxmcmc.sampling.chain import CompiledChain, compile_chain, names_recorded, new_clock

CONDITIONALS = ("auto", "terms")


@dataclasses.dataclass(frozen=True, eq=False)
class Gibbs(Component, TestedSampler):
    """Draw one site after the other from its conditional; one step is a sweep of D decisions.

    Parameters
    ----------
    test
        The test that decides a binary site: :class:`ExactTest`, :class:`SequentialTTest`, :class:`MinibatchBarker`.
        Sites with more than two states need :class:`ExactTest`. The rule of an exact test does not matter, because a
        conditional is drawn with threshold logit(u).
    scan
        ``"systematic"``: sites 0, 1, ..., D - 1. ``"random"``: D sites drawn uniformly with replacement.
    conditional
        ``"auto"``: an exact test uses the fastest exact form that the target has: a binary field with up to three sites
        per factor caches the log odds of all sites, and updates them when a site flips. ``"terms"``: sum all terms at
        every decision, as an approximate test would.

    Raises
    ------
    InvalidInputError
        When `scan` or `conditional` is unknown.
    IncompatibleError
        When the target is not discrete, or the test reads blocks or cannot decide its sites; raised before it runs.

    Notes
    -----
    Guarantee: exact with :class:`ExactTest`. With another test each conditional has the error of the test, so the
    stationary distribution is biased; the error of one sweep is at most D times the largest error of a conditional.

    Records: a sweep adds up its D decisions. Every decision of an exact test touches all terms of its site, even if
    they are cached. Evaluations: each term read is evaluated at every state of the site, so twice at a binary site; in
    the fast form twice for the terms of a site that flips, and not otherwise.
    ``accepted`` and ``acceptance_rate`` are not written. ``lp`` is written if the test is exact.

    The stored states are int64.

    References
    ----------
    Geman and Geman (1984); Korattikara, Chen and Welling (2013), preprint, sections 5 and 6.3.

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
        """Check the names, and that `test` is an `AcceptanceTest`."""
        for name, value, known in (("scan", self.scan, tuple(SCANS)), ("conditional", self.conditional, CONDITIONALS)):
            if value not in known:
                raise InvalidInputError(f"Gibbs: {name} must be one of {known}, found {value!r}")
        if isinstance(self.test, type) or not isinstance(self.test, AcceptanceTest):
            raise IncompatibleError(
                f"Gibbs: test must be an acceptance test such as SequentialTTest(epsilon=0.05), found {self.test!r}"
            )

    def build(self, target: DiscreteTarget, *, audit_every: int | str | None = "auto") -> "GibbsProgram":
        """Check that target and test fit, compile both, and return the program that starts chains."""
        if not isinstance(target, DiscreteTarget):
            raise IncompatibleError(
                f"Gibbs needs a discrete target such as targets.BinaryMRF or targets.BayesianNetwork, found "
                f"{target!r}; sample it with MetropolisHastings"
            )
        if self.test.order == "blocks":
            raise IncompatibleError(
                f"Gibbs reads the factors of a site one by one in a random order, and {self.test!r} reads blocks; "
                'give the test order="rows"'
            )
        exact = isinstance(self.test, ExactTest)
        conditionals = target.compile_conditionals(fields=exact and self.conditional == "auto")
        tests = build_tests(self.test, target, conditionals)
        if isinstance(audit_every, str):
            most = int(conditionals.n_terms.max())
            audit_every = max(50, round(20 * most / int(self.test.looks(most)[0])))
        return GibbsProgram(target, conditionals, tests, self.scan, audit_every)

    def why_not_invariant(self, target: DiscreteTarget) -> str:
        """Return the test's reason, at a site where the test is not exact; "" if all sites are exact."""
        if self.test.leaves_invariant(target.n_obs):  # so it is exact with the fewer terms of a site too
            return ""
        sizes = np.unique(target.compile_conditionals(fields=False).n_terms)
        return next((why for size in sizes if (why := self.test.why_not_invariant(int(size)))), "")

    def exact_twin(self, target: DiscreteTarget) -> "Gibbs":
        """Return the sweep with sites drawn from their exact conditionals."""
        return dataclasses.replace(self, test=exact_twin_of(self.test))

    def coupling(self, target: DiscreteTarget, adapted: Mapping[str, float] | None = None) -> CompiledCoupling:
        """Return the coupling of two chains that draw the same sites with the same u; raise unless sites are binary."""
        if not isinstance(target, DiscreteTarget) or target.n_states.max() > 2:
            return super().coupling(target, adapted)
        conditionals = target.compile_conditionals(fields=False)
        tests = build_tests(exact_twin_of(self.test), target, conditionals)
        return couple_gibbs(target, conditionals, tests, self.scan)

    def transition_matrix(
        self, target: Any, states: np.ndarray, *, method: str = "auto", site: int | None = None
    ) -> TransitionMatrix:
        """Return the transition matrix of one sweep, or of the update of one `site`; `states` must be all states."""
        if not isinstance(target, DiscreteTarget):
            raise IncompatibleError(f"transition_matrix: Gibbs needs a discrete target, found {target!r}")
        conditionals = None
        if not isinstance(self.test, ExactTest):
            conditionals = target.compile_conditionals(fields=False)
            build_tests(self.test, target, conditionals)  # two states, and enough terms
        return sweep_matrix(target, conditionals, self.test, self.scan, states, method, site)

    def replicate(
        self, target: Any, program: Any, chain: Any, states: np.ndarray, replications: int, streams: Streams
    ) -> Iterator[Decision]:
        """Yield one `Decision` for each of `states`: repeated decisions on one random site; x_i = 1 is accepted."""
        return replicate_sites(target, self.test, states, replications, streams)

    def decisions_per_step(self, target: Any) -> int:
        """Return the number of decisions in a sweep, which is the number of sites."""
        return int(target.n_states.size)


class GibbsProgram(Program):
    """A Gibbs sampler bound to a target."""

    def __init__(
        self,
        target: DiscreteTarget,
        conditionals: CompiledConditionals,
        tests: tuple[CompiledTest, ...],
        scan: str,
        audit_every: int | None,
    ) -> None:
        self.target = target
        self.conditionals = conditionals
        self.tests = tests
        test = tests[0]
        self.audit_probability = 1.0 / audit_every if test.is_audited and audit_every else 0.0
        self.count_names, self.value_names = names_recorded(
            {*CORE_COUNTS, *test.records} - {"accepted", *(() if test.is_audited else AUDIT_COUNTS)},
            {"perf_counter_diff", *test.records, *(() if test.log_likelihood is None else ("lp",))},
        )
        n_obs = float(conditionals.n_terms.mean())
        self.attrs = {
            "n_obs": int(n_obs) if n_obs.is_integer() else n_obs,  # terms per decision, not factors of the target
            **({"audit_every": audit_every or 0} if test.is_audited else {}),
            **({"data_order": "rows"} if test.log_likelihood is None else {}),
        }
        if conditionals.fields is not None:
            sweep = make_sweep(refresh_field, SCANS[scan], make_draw_by_field(logit_uniform))
        elif conditionals.n_states.max() > 2:
            sweep = make_sweep(prepare_nothing, SCANS[scan], draw_by_states)
        else:
            sweep = make_sweep(prepare_nothing, SCANS[scan], draw_by_terms(logit_uniform, test))
        self.loop = compile_chain(sweep, self.new_state(target.initial_point()))

    def new_state(self, theta: np.ndarray) -> GibbsState:
        """Return the state of a chain at theta; nothing adapts, so tuning is burn-in."""
        return new_state(self.conditionals, self.tests, theta, new_clock(0, self.audit_probability))

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return the unnormalised log densities of the states `thetas` (k, D), shape (k,)."""
        return np.array([float(self.target.log_density(theta)) for theta in thetas])

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> CompiledChain:
        """Return a chain that starts at `theta`, a state of positive probability; `n_tune` is not used."""
        state = self.new_state(theta.copy())
        state.log_density[0] = self.target.log_density(theta)
        return CompiledChain(self.loop, streams, state, explain=lambda: self.explain_failure(state))

    def explain_failure(self, state: GibbsState) -> str:
        """Return a sentence that names a term of NaN or +inf, its site, and the states of all sites."""
        for site, n_states in enumerate(self.conditionals.n_states):
            for k in range(n_states):
                x = state.theta.copy()
                x[site] = k
                bad = np.flatnonzero(~(self.conditionals.terms_at(x, site) < math.inf))
                if bad.size:
                    more = f" and {bad.size - 1} more" if bad.size > 1 else ""
                    return f"term {bad[0]}{more} of site {site} is NaN or +inf at x = {x.astype(int).tolist()}"
        return f"the conditional of a site is not defined near x = {state.theta.astype(int).tolist()}"
