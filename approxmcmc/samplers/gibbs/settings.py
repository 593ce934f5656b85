"""Gibbs sampling of discrete targets, exact or with the acceptance tests of Metropolis-Hastings.

A sweep visits every site once, or D random sites, and draws each from its conditional. For a binary site

    x_i = 1  iff  logit(u) < L_i,    L_i = sum_n l_n,    l_n = log psi_n(x_i = 1, rest) - log psi_n(x_i = 0, rest),

the sum over the factors psi_n that contain the site (the papers say "pairs": a factor of three sites has two others).
An acceptance test decides whether a sum of terms is above a threshold, here logit(u), and may decide after a few terms.

`PoissonGibbs` draws a site given Poisson counts of its terms, and reads only terms with a count above 0.

References: Geman and Geman (1984); Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, sections 5
and 6.3; in the conference version (2014) supplement F. Zhang and De Sa (2019), Poisson-minibatching for Gibbs sampling
with convergence rate guarantees.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.acceptance.exact import exact_twin_of
from approxmcmc.contracts import (
    CompiledConditionals,
    CompiledCoupling,
    Component,
    Decision,
    DiscreteTarget,
    Sampler,
    Streams,
    TestedSampler,
    TransitionMatrix,
)
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.checks import check_discrete, check_test
from approxmcmc.samplers.gibbs.coupling import couple
from approxmcmc.samplers.gibbs.distribution import transition_matrix
from approxmcmc.samplers.gibbs.poisson_counts import CompiledCounts, compile_counts
from approxmcmc.samplers.gibbs.program import GibbsProgram, counted_program, tested_program
from approxmcmc.samplers.gibbs.replication import replicate_sites
from approxmcmc.samplers.gibbs.state import blocks_of_sites, build_tests
from approxmcmc.samplers.gibbs.step import SCANS

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
        When the target is not discrete, or the test cannot decide its sites; raised before it runs.

    Notes
    -----
    Guarantee: exact with :class:`ExactTest`. With another test each conditional has the error of the test, so the
    stationary distribution is biased; the error of one sweep is at most D times the largest error of a conditional.

    Records: a sweep adds up its D decisions. Every decision of an exact test touches all terms of its site, even if
    they are cached. Another test reads the terms of a site in the order that its `order` names: ``"rows"``, or
    ``"blocks"`` of a copy of all terms, which each chain shuffles site by site; ``"auto"`` is blocks from 10 000 terms
    of a site on. Evaluations: each term read is evaluated at every state of the site, so twice at a binary site; in
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

    scope: ClassVar[Mapping[str, str]] = {"coupling": "on binary sites"}

    def __post_init__(self) -> None:
        """Check the names, and that `test` is an `AcceptanceTest`."""
        for name, value, choices in (
            ("scan", self.scan, tuple(SCANS)),
            ("conditional", self.conditional, CONDITIONALS),
        ):
            if value not in choices:
                raise InvalidInputError(f"Gibbs: {name} must be one of {choices}, found {value!r}")
        check_test(self.test)

    @names_itself()
    def build(self, target: DiscreteTarget, *, audit_every: int | str | None = "auto") -> GibbsProgram:
        """Check that target and test fit, compile both, and return the program that starts chains."""
        check_discrete(target)
        exact = self.test.sums_all_terms
        conditionals = target.compile_conditionals(fields=exact and self.conditional == "auto")
        tests = build_tests(self.test, target, conditionals)
        if isinstance(audit_every, str):
            most = int(conditionals.n_terms.max())
            audit_every = max(50, round(20 * most / int(self.test.looks(most)[0])))
        blocks = blocks_of_sites(self.test, tests[0], target, conditionals)
        return tested_program(target, conditionals, tests, self.scan, audit_every, blocks)

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
        return couple(target, conditionals, tests, self.scan)

    @names_itself("transition_matrix: {}")
    def transition_matrix(
        self, target: Any, states: np.ndarray, *, method: str = "auto", site: int | None = None
    ) -> TransitionMatrix:
        """Return the transition matrix of one sweep, or of the update of one `site`; `states` must be all states."""
        check_discrete(target)
        conditionals = None
        if not self.test.sums_all_terms:
            conditionals = target.compile_conditionals(fields=False)
            build_tests(self.test, target, conditionals)  # two states, and enough terms
        return transition_matrix(target, conditionals, self.test, self.scan, states, method, site)

    def replicate(
        self, target: Any, program: Any, chain: Any, states: np.ndarray, replications: int, streams: Streams
    ) -> Iterator[Decision]:
        """Yield one `Decision` for each of `states`: repeated decisions on one random site; x_i = 1 is accepted."""
        return replicate_sites(target, self.test, states, replications, streams)

    def decisions_per_step(self, target: Any) -> int:
        """Return the number of decisions in a sweep, which is the number of sites."""
        return int(target.n_states.size)


@dataclasses.dataclass(frozen=True, eq=False)
class PoissonGibbs(Component, Sampler):
    r"""Draw one site after the other given Poisson counts of its terms; one step is a sweep of D updates.

    Parameters
    ----------
    rate
        :math:`\lambda`, the mean number of counts added for each site, positive. None: :math:`L_i^2`, so that the noise
        of the log odds is at most of order 1.
    metropolised
        True: propose another state and accept by Metropolis's rule given the counts (PoissonMH), which moves more often
        if sites have two states. False: draw from all states given the counts (Poisson-Gibbs).
    scan
        As for :class:`Gibbs`.

    Raises
    ------
    InvalidInputError
        When `rate` is not positive, or `scan` unknown.
    IncompatibleError
        When the target is not discrete, or a table holds the probability 0; raised before anything runs.

    Notes
    -----
    With terms :math:`\phi_n(x_i) \in [0, M_n]` of site `i`, minus the part that does not depend on its state, and
    :math:`L_i = \sum_n M_n`,

    .. math:: s_n \sim \mathrm{Poisson}\left(\lambda M_n / L_i + \phi_n(x_i)\right), \qquad
              p(x_i = k \mid s) \propto \prod_n \left(\lambda M_n / L_i + \phi_n(k)\right)^{s_n} .

    Guarantee: exact, for every `rate`: the counts are auxiliary variables, and p(x) is the marginal of the joint
    distribution.
    Cost: :math:`\lambda + L_i` terms for each site on average, drawn with replacement, each at all of its states;
    ``expected_reads`` and ``setup_expected_reads`` are their sums over a sweep. The sampler is cheaper than
    :class:`Gibbs` if the energies :math:`L_i` of the sites are small compared with their numbers of terms. A small
    `rate` makes the log odds given the counts noisy, with a variance of at most about :math:`L_i^2 / \lambda`, and the
    chain slow.

    ``accepted``, ``acceptance_rate`` and ``lp`` are not written. The stored states are int64.

    References
    ----------
    Zhang and De Sa (2019), algorithms 2 and 4.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> field = amc.targets.BinaryMRF.random_triples(12, scale=0.01, random_seed=0)
    >>> sampler = amc.samplers.PoissonGibbs()
    >>> trace = amc.sample(field, sampler, draws=50, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["datapoints_touched"].mean() < 12 * 55)
    True
    """

    rate: float | None = None
    metropolised: bool = False
    scan: str = "systematic"

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "the counts of a site have infinitely many values",
        "coupling": "two chains would have to draw the same counts, too",
    }

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.rate is not None and not 0.0 < self.rate < math.inf:
            raise InvalidInputError(f"PoissonGibbs: rate must be positive and finite, or None, found {self.rate!r}")
        if self.scan not in SCANS:
            raise InvalidInputError(f"PoissonGibbs: scan must be one of {tuple(SCANS)}, found {self.scan!r}")

    @names_itself()
    def expected_reads(self, target: DiscreteTarget) -> float:
        """Return the mean number of terms that a sweep reads.

        Examples
        --------
        >>> import approxmcmc as amc
        >>> field = amc.targets.BinaryMRF.random_triples(12, scale=0.01, random_seed=0)
        >>> 1.0 < amc.samplers.PoissonGibbs(rate=1.0).expected_reads(field) / 12 < 4.0
        True
        """
        check_discrete(target)
        return self._counts(target.compile_conditionals(fields=False)).expected_reads

    @names_itself()
    def build(self, target: DiscreteTarget, *, audit_every: int | str | None = None) -> GibbsProgram:
        """Check that the target fits, compile, and return the program that starts chains; nothing is audited."""
        check_discrete(target)
        conditionals = target.compile_conditionals(fields=False)
        return counted_program(target, conditionals, self._counts(conditionals), self.scan)

    def why_not_invariant(self, target: DiscreteTarget) -> str:
        """Return "": the sampler is exact, because the conditionals given the counts are exact."""
        return ""

    @names_itself()
    def _counts(self, conditionals: CompiledConditionals) -> CompiledCounts:
        return compile_counts(conditionals, self.rate, self.metropolised)
