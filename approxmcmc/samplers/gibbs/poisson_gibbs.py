"""Gibbs sampling with Poisson counts of factors: exact, without reading all factors.

Reference: Zhang and De Sa (2019), Poisson-minibatching for Gibbs sampling with convergence rate guarantees.
"""

import dataclasses
import math

import numpy as np

from approxmcmc.contracts import CompiledConditionals, Component, DiscreteTarget, Program, Sampler, Streams
from approxmcmc.contracts.records import AUDIT_COUNTS, CORE_COUNTS
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.gibbs.poisson_counts import counts_maker, draw_by_counts
from approxmcmc.samplers.gibbs.state import GibbsState, new_state
from approxmcmc.samplers.gibbs.step import SCANS, make_sweep, prepare_nothing
from approxmcmc.sampling.chain import CompiledChain, compile_chain, names_recorded, new_clock


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

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.rate is not None and not 0.0 < self.rate < math.inf:
            raise InvalidInputError(f"PoissonGibbs: rate must be positive and finite, or None, found {self.rate!r}")
        if self.scan not in SCANS:
            raise InvalidInputError(f"PoissonGibbs: scan must be one of {tuple(SCANS)}, found {self.scan!r}")

    def expected_reads(self, target: DiscreteTarget) -> float:
        """Return the mean number of terms that a sweep reads.

        Examples
        --------
        >>> import approxmcmc as amc
        >>> field = amc.targets.BinaryMRF.random_triples(12, scale=0.01, random_seed=0)
        >>> 1.0 < amc.samplers.PoissonGibbs(rate=1.0).expected_reads(field) / 12 < 4.0
        True
        """
        conditionals = _conditionals(target)
        return float(counts_maker(conditionals, self.rate, who="PoissonGibbs")().expected.sum())

    def build(self, target: DiscreteTarget, *, audit_every: int | str | None = None) -> "PoissonGibbsProgram":
        """Check that the target fits, compile, and return the program that starts chains; nothing is audited."""
        return PoissonGibbsProgram(target, _conditionals(target), self)

    def why_not_invariant(self, target: DiscreteTarget) -> str:
        """Return "": the sampler is exact, because the conditionals given the counts are exact."""
        return ""


def _conditionals(target: DiscreteTarget) -> CompiledConditionals:
    if not isinstance(target, DiscreteTarget):
        raise IncompatibleError(
            f"PoissonGibbs needs a discrete target such as targets.BinaryMRF or targets.BayesianNetwork, found "
            f"{target!r}; sample it with MetropolisHastings"
        )
    return target.compile_conditionals(fields=False)


class PoissonGibbsProgram(Program):
    """A `PoissonGibbs` sampler bound to a target."""

    def __init__(self, target: DiscreteTarget, conditionals: CompiledConditionals, settings: PoissonGibbs) -> None:
        self.target = target
        self.conditionals = conditionals
        self.make_counts = counts_maker(conditionals, settings.rate, who="PoissonGibbs")
        self.count_names, self.value_names = names_recorded(
            {*CORE_COUNTS} - {"accepted", *AUDIT_COUNTS}, {"perf_counter_diff", "expected_reads"}
        )
        n_obs = float(conditionals.n_terms.mean())
        self.attrs = {
            "n_obs": int(n_obs) if n_obs.is_integer() else n_obs,
            "setup_expected_reads": float(self.make_counts().expected.sum()),
        }
        sweep = make_sweep(prepare_nothing, SCANS[settings.scan], draw_by_counts(settings.metropolised))
        self.loop = compile_chain(sweep, self.new_state(target.initial_point()))

    def new_state(self, theta: np.ndarray) -> GibbsState:
        """Return the state of a chain at theta; nothing adapts, so tuning is burn-in."""
        state = new_state(self.conditionals, (), theta, new_clock(0))
        return state._replace(tests=(self.make_counts(),))

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return the unnormalised log densities of the states `thetas` (k, D), shape (k,)."""
        return np.array([float(self.target.log_density(theta)) for theta in thetas])

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> CompiledChain:
        """Return a chain that starts at `theta`, a state of positive probability; `n_tune` is not used."""
        return CompiledChain(self.loop, streams, self.new_state(theta.copy()), explain=lambda: "no update can fail")
