r"""Error bounds of noisy exchange, step by step, on a grid where the truth is known.

The ratio a(theta, theta') is estimated by a^ from N auxiliary draws at theta'. Three inequalities lead from the
distance of one step to the provable bound; each of them makes the bound looser:

    d_v(P^(theta, .), P(theta, .))  =   int h |E min(1, a^) - min(1, a)|    for bounds on stationary distributions
                                    <=  int h E|min(1, a^) - min(1, a)|       how often two coupled chains part
                                    <=  int h E|a^ - a|                       hypothesis (H2) of corollary 2.3
                                    <=  int h sd(a^)                          lemma 3.1, of order 1 / sqrt(N)

with P the kernel of the exact chain, P^ that of noisy exchange, and h(theta'|theta) the proposal. With data y of
distribution f(.|theta), statistics s_j and prior p, lemma 3.1 writes sd(a^) as

    N^(-1/2) [h(theta|theta') p(theta') q_theta'(y)] / [h(theta'|theta) p(theta) q_theta(y)]
        sqrt(Var_{y' ~ f(.|theta')} q_theta(y') / q_theta'(y')),        q_theta(y) = exp(sum_j theta_j s_j(y)).

Corollary 2.3: d_v(P^n, P^^n) <= (lambda + C rho^lambda / (1 - rho)) sup int h E|a^ - a|, for every number of steps n
and every start, if the exact chain is uniformly ergodic with (C, rho); lambda = max(1, ceil(-log C / log rho)). Theorem
3.2 gives constants for any proposal and prior that are bounded above and below on a bounded set; the resulting bounds
are astronomical.

The last two bounds are loose because they ignore min(1, .): a ratio of 10^6 with an error of 10^4 is still accepted.

Reference: Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, corollary 2.3 (section 2.1.1), lemma 3.1 and
theorem 3.2 (section 3.3, appendix A).
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.bounds.finite import (
    HEURISTIC,
    ONE_SIDED,
    RIGOROUS,
    contractions,
    grid_of_points,
    stationary_distribution,
    transition_matrix,
)
from approxmcmc.bounds.statements import bound_factors, mitrophanov_factor
from approxmcmc.contracts import ProposalSampler
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr


def law_of_ratios(target: Any, sampler: Any, grid: Any) -> Any:
    """Return the distribution of an `Exchange` sampler's estimated ratios at all pairs of grid points."""
    if not isinstance(sampler, ProposalSampler):
        raise IncompatibleError(f"the theory of noisy exchange is about Exchange, found {sampler!r}")
    return sampler.draws_law(target, grid_of_points(target, grid))


def noisy_exchange_errors(
    target: Any, sampler: Any, grid: Any, *, constants: tuple[float, float] | None = None
) -> "xr.Dataset":
    """Return the one-step error of noisy exchange from every point of a grid, and all bounds on it.

    Parameters
    ----------
    target
        A doubly intractable target whose statistics can be counted: `Ising` lattices up to 12 wide.
    sampler
        `Exchange` with `RandomWalk` and exact auxiliary draws.
    grid
        Points, shape (n,) for one parameter or (n, dim), inside the support of the prior.
    constants
        (C, rho) of corollary 2.3, for the norm of signed measures; None: the best constants that follow from the
        transition matrix of exact Metropolis-Hastings on the grid.

    Returns
    -------
    xarray.Dataset
        Dim ``state``, the starting point: `delta` (the truth), `mean_flip`, `mean_error`, `lemma_3_1`, in the order of
        the module's inequalities; `factor`, see :func:`mitrophanov_factor`; `corollary_2_3` = factor sup mean_error and
        `theorem_bound` = factor sup lemma_3_1, bounds on the distance d_v between the two chains' distributions after
        any number of steps from any start. All but `factor` have the attribute `label`: "rigorous", or, from three
        draws on and not for `lemma_3_1` and `theorem_bound`, "one-sided" (too large by at most 2 `lattice_error` per
        unit of min(1, a), or of a for mean_error; `mean_flip` is off by as much, either way). With `constants`,
        `corollary_2_3` and `theorem_bound` are "heuristic".

    Raises
    ------
    IncompatibleError
        When the sampler is not `Exchange` with exact draws, or the statistics cannot be counted.
    InvalidInputError
        When the grid has the wrong shape, or leaves the support of the prior.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), corollary 2.3 and lemma 3.1.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> spins = np.ones((4, 4), dtype=int)
    >>> spins[[0, 0, 3], [0, 3, 0]] = -1
    >>> target = amc.targets.Ising(spins, prior_bounds=(-0.4, 0.8))
    >>> found = noisy_exchange_errors(target, amc.Exchange(amc.RandomWalk(0.2)), np.linspace(-0.4, 0.8, 241))
    >>> round(float(found["delta"].max()), 4), round(float(found["lemma_3_1"].max()))
    (0.1248, 14387)
    """
    import xarray as xr

    law = law_of_ratios(target, sampler, grid)
    mean = law.expected_minima()
    exact = np.exp(np.minimum(mean.log_a, 0.0))
    label = ONE_SIDED if law.error > 0.0 else RIGOROUS
    losses = {
        "delta": (exact - mean.accepted, label, "one-step distance d_v(P^(theta, .), P(theta, .)): the truth"),
        "mean_flip": (exact + mean.accepted - 2.0 * mean.both_accept, label, "E|min(1, a^) - min(1, a)|"),
        "mean_error": (2.0 * (np.exp(mean.log_a) - mean.below_a), label, "E|a^ - a|, hypothesis (H2)"),
        "lemma_3_1": (law.standard_deviation_of_ratio(mean.log_a), RIGOROUS, "sd(a^), lemma 3.1"),
    }
    by_state = {
        name: ("state", (law.steps * np.abs(values)).sum(axis=1), {"long_name": text, "label": worth})
        for name, (values, worth, text) in losses.items()
    }
    errors = xr.Dataset(by_state, attrs={"lattice_error": law.error, "n_auxiliary": law.n_auxiliary})
    heuristic = constants is not None
    if constants:
        errors["factor"] = mitrophanov_factor(*constants)
    else:
        matrix = transition_matrix(target, sampler.exact_limit(target), grid).to_numpy()
        errors["factor"] = bound_factors(*contractions(matrix, stationary_distribution(matrix), 500))["b5"]
    for name, loss in (("corollary_2_3", "mean_error"), ("theorem_bound", "lemma_3_1")):
        worth = HEURISTIC if heuristic else errors[loss].attrs["label"]
        errors[name] = ((), float(errors["factor"] * errors[loss].max()), {"label": worth})
    return errors


class UniformBound(NamedTuple):
    """Natural logarithms of 1 - rho, of the one-step error, and of the bound of theorem 3.2 with C = 2."""

    log_gap: float
    log_one_step: float
    log_bound: float


@naming_the_arguments
def uniform_exchange_bound(
    n_auxiliary: int,
    *,
    largest_theta: float,
    largest_statistic: float,
    volume: float,
    prior_constant: float,
    proposal_constant: float,
) -> UniformBound:
    r"""Return the constants of theorem 3.2: noisy exchange on a bounded set, for any model.

    With kappa = exp(T S), prior density 1/c_p <= p <= c_p and proposal density 1/c_h <= h <= c_h on a set of volume V,

        C = 2,    rho = 1 - V / (c_p^2 c_h^3 kappa^4),    int h E|a^ - a| <= c_p^2 c_h^2 kappa^4 / sqrt(N).

    The constants (C, rho) follow because h min(1, a) is at least 1 / (c_p^2 c_h^3 kappa^4), the one-step error from
    lemma 3.1. The distance d_v of the two chains' distributions after any number of steps from any start is at most the
    one-step error times :func:`mitrophanov_factor` of C and rho.

    Parameters
    ----------
    n_auxiliary
        N.
    largest_theta, largest_statistic
        T, the largest norm of theta in the set, and S, the largest norm of the statistics s(y) over all data y.
    volume
        V, the volume of the set in units of theta.
    prior_constant, proposal_constant
        c_p, c_h >= 1, bounds on the two densities and on their reciprocals.

    Returns
    -------
    UniformBound
        Natural logarithms of 1 - rho, of the one-step error and of the bound; a bound with logarithm 0 or more is
        vacuous.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or the constants contradict each other (1 - rho would exceed 1).

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), theorem 3.2, section 3.3 and appendix A.

    Examples
    --------
    >>> found = uniform_exchange_bound(
    ...     100, largest_theta=0.8, largest_statistic=24, volume=1.2, prior_constant=1.2, proposal_constant=3.3e7
    ... )
    >>> round(found.log_bound / math.log(10.0))
    104
    """
    log_kappa = largest_theta * largest_statistic
    sizes = min(largest_theta, largest_statistic)
    constants = min(prior_constant, proposal_constant)
    if not (n_auxiliary >= 1 and sizes >= 0.0 and volume > 0.0 and constants >= 1.0):
        raise InvalidInputError(
            "uniform_exchange_bound needs n_auxiliary >= 1, volume > 0, largest_theta, largest_statistic >= 0 and "
            f"constants >= 1; found {n_auxiliary}, {volume}, {largest_theta}, {largest_statistic}, {prior_constant}, "
            f"{proposal_constant}"
        )
    if volume > proposal_constant:
        raise InvalidInputError(
            f"uniform_exchange_bound: volume={volume} is impossible: a proposal density of at least 1 / "
            f"proposal_constant on the whole set implies volume <= proposal_constant, found {proposal_constant}"
        )
    log_p = math.log(prior_constant)
    log_h = math.log(proposal_constant)
    log_gap = math.log(volume) - 2.0 * log_p - 3.0 * log_h - 4.0 * log_kappa
    log_one_step = 2.0 * log_p + 2.0 * log_h + 4.0 * log_kappa - 0.5 * math.log(n_auxiliary)
    return UniformBound(log_gap, log_one_step, _log_factor(log_gap) + log_one_step)


def _log_factor(log_gap: float) -> float:
    """Return log(lambda + C rho^lambda / (1 - rho)) for C = 2, from `log_gap` = log(1 - rho).

    For a gap 1 - rho below 2e-12 the limit for small gaps is used, log((1 + log 2) / gap).
    """
    if log_gap > -27.0:
        return math.log(mitrophanov_factor(2.0, -math.expm1(log_gap)))
    return math.log(1.0 + math.log(2.0)) - log_gap
