r"""How fast does the exact chain forget its start? Couplings with a lag, where no transition matrix can be had.

Chain X runs L steps ahead of chain Y; both start from pi_0. From then on the pair (X_{t+L}, Y_t) moves together by a
coupling that makes them meet, and stay equal once they have met, at time tau = inf{t >= L: X_t = Y_{t-L}}. Then

    d_v(law of X_t, pi) <= E[max(0, ceil((tau - L - t) / L))],

whose Monte Carlo mean over independent couplings is unbiased: an upper bound, for the law started at pi_0, up to its
bootstrap interval. A larger L is tighter. Couplings that have not met when they are cut off are counted as if they
met then, and the result says that it is then no bound.

- Random-walk Metropolis-Hastings: reflection-maximal coupling of the two proposals, and one u for both decisions.
- Gibbs: the maximal coupling of each conditional, one u for both chains, sites in the same order.
- A transition matrix: the maximal coupling of two rows.

What it is not: a statement about all starting points. (C, rho) fitted to the curve are *heuristic* inputs to B5.

Reference: Biswas, Jacob and Vanetti (2019), Estimating Convergence of Markov chains with L-Lag Couplings.
"""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.acceptance import ExactTest
from approxmcmc.acceptance.rules import RULES
from approxmcmc.bounds.acceptance_law import rule_of
from approxmcmc.bounds.finite import checked_matrix
from approxmcmc.bounds.statements import HEURISTIC, NOT_APPLICABLE, mitrophanov_factor
from approxmcmc.bounds.transition import walk_covariance
from approxmcmc.contracts import CompiledTarget, DiscreteTarget
from approxmcmc.engine.batches import BATCH, LOG_PRIOR, log_terms_type, memory_order, sum_terms
from approxmcmc.engine.bind import INDICES, MATRIX, VECTOR, bind, compiled, type_of
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import Gibbs, MetropolisHastings
from approxmcmc.sampling.initial import random_start
from approxmcmc.sampling.progress import progress

if TYPE_CHECKING:
    import xarray as xr

N_BOOTSTRAP = 1000
TIMES = 60  # at which the curve is reported
Meet = Callable[[np.random.Generator, np.ndarray, np.ndarray], int]


@compiled
def log_density_at(log_terms, log_prior, data, n_obs, theta, work):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return the unnormalised log posterior density on all data."""
    prior = log_prior(theta)
    if prior == -math.inf:
        return prior
    return prior + sum_terms(log_terms, theta, data, memory_order(), n_obs, work)


def _meet_walks(  # type: ignore[no-untyped-def]  # a template
    rng, log_terms, log_prior, data, n_obs, lower, inverse, x, y, x_new, y_new, z, xi, work, lag, max_steps
):
    """Return the meeting time of two lagged random walks; -1 if they have not met after `max_steps` steps of X."""
    dim = x.shape[0]
    x_density = log_density_at(log_terms, log_prior, data, n_obs, x, work)
    y_density = log_density_at(log_terms, log_prior, data, n_obs, y, work)
    for t in range(1, max_steps + 1):
        coupled = t > lag
        for j in range(dim):
            xi[j] = rng.standard_normal()
        square = change = 0.0
        for i in range(dim):
            x_new[i] = x[i]
            z[i] = 0.0
            for j in range(i + 1):
                x_new[i] += lower[i, j] * xi[j]
                z[i] += inverse[i, j] * (x[j] - y[j])
            square += z[i] * z[i]
            change += xi[i] * z[i]
        same = coupled and math.log(1.0 - rng.random()) <= -change - 0.5 * square
        for i in range(dim):
            y_new[i] = x_new[i] if same else y[i]
        if coupled and not same:
            for j in range(dim):  # reflect: xi - 2 (e'xi) e with e = z / |z|
                xi[j] -= 2.0 * change / square * z[j]
            for i in range(dim):
                for j in range(i + 1):
                    y_new[i] += lower[i, j] * xi[j]
        threshold = THRESHOLD(rng)  # type: ignore[name-defined]  # noqa: F821 (bound)
        proposed = log_density_at(log_terms, log_prior, data, n_obs, x_new, work)
        x_moves = threshold < proposed - x_density
        if coupled:
            other = proposed if same else log_density_at(log_terms, log_prior, data, n_obs, y_new, work)
            if threshold < other - y_density:
                y[:] = y_new
                y_density = other
        if x_moves:
            x[:] = x_new
            x_density = proposed
        if t >= lag:
            met = True
            for i in range(dim):
                met = met and x[i] == y[i]
            if met:
                return t
    return -1


@compiled
def log_odds(log_terms, data, first, n_terms, x, site, zero, one):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return L of a binary site, from all its terms."""
    data[0][0] = first[site]
    kept, total = x[site], 0.0
    for lo in range(0, n_terms[site], BATCH):
        hi = min(lo + BATCH, n_terms[site])
        x[site] = 0.0
        log_terms(x, data, memory_order(), lo, hi, zero)
        x[site] = 1.0
        log_terms(x, data, memory_order(), lo, hi, one)
        for i in range(hi - lo):
            total += one[i] - zero[i]
    x[site] = kept
    return total


def _meet_sweeps(  # type: ignore[no-untyped-def]  # a template
    rng, log_terms, data, first, n_terms, x, y, work, lag, max_steps, systematic
):
    """Return the meeting time, in sweeps, of two lagged Gibbs samplers over binary sites; -1 if they have not met."""
    dim = x.shape[0]
    for t in range(1, max_steps + 1):
        for k in range(dim):
            site = k if systematic else int(rng.random() * dim)
            threshold = THRESHOLD(rng)  # type: ignore[name-defined]  # noqa: F821 (bound)
            at_x = log_odds(log_terms, data, first, n_terms, x, site, work[0], work[1])
            x[site] = 1.0 if threshold < at_x else 0.0
            if t > lag:
                at_y = log_odds(log_terms, data, first, n_terms, y, site, work[0], work[1])
                y[site] = 1.0 if threshold < at_y else 0.0
        if t >= lag:
            met = True
            for i in range(dim):
                met = met and x[i] == y[i]
            if met:
                return t
    return -1


def maximal_coupling(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the joint law of (X, Y), X ~ p, Y ~ q, with the largest chance to be equal; independent where they differ.

    Examples
    --------
    >>> joint = maximal_coupling(np.array([0.9, 0.1]), np.array([0.2, 0.8]))
    >>> joint.round(12).tolist()
    [[0.2, 0.7], [0.0, 0.1]]
    """
    both = np.minimum(p, q)
    left, joint = 1.0 - both.sum(), np.diag(both)
    return joint + np.outer(p - both, q - both) / left if left > 1e-15 else joint


def couplings(
    target: Any,
    sampler: Any = None,
    *,
    lag: int,
    n_couplings: int = 200,
    max_steps: int = 100_000,
    initvals: Any = None,
    confidence: float = 0.95,
    random_seed: Any = None,
    progressbar: bool = True,
) -> "xr.Dataset":
    """Bound the distance of the exact chain from its stationary law, step by step, by couplings with a lag.

    Parameters
    ----------
    target
        A target, or a transition matrix, shape (n, n).
    sampler
        `MetropolisHastings` with `RandomWalk`, or `Gibbs` on binary sites; None with a matrix. The *exact* chain is
        coupled: of an approximate test only the rule, Metropolis or Barker, is kept.
    lag
        L, in steps (sweeps of Gibbs); about the time that the chain needs to forget, or more.
    n_couplings
        Independent couplings.
    max_steps
        Steps of X after which a coupling is given up.
    initvals
        pi_0: an array (dim,) from which both chains start, or a function ``draw(rng) -> theta`` called for each chain;
        the number of a state for a matrix. None: the target's random starting points.
    confidence
        Of the bootstrap interval.
    random_seed, progressbar
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        `meeting_time` (coupling), in steps, tau; `tv_bound`, `tv_lower`, `tv_upper` (time): the bound's estimate and
        its bootstrap interval; it may exceed 1. `C`, `rho`: a geometric majorant C rho^t of the curve, C for the norm
        of signed measures, and `b5_factor`, what multiplies delta in B5, all labelled heuristic (`label_constants`).
        Attributes: `lag`, `unmet` (couplings given up; then `label` is "not applicable"), `seconds`, `steps`.

    Raises
    ------
    InvalidInputError
        When a number is out of range.
    IncompatibleError
        When there is no coupling for the sampler.

    Notes
    -----
    The bound is on the law of X_t started at pi_0, rigorous in expectation; the interval is Monte Carlo. Neither (C,
    rho) nor anything else here bounds a contraction coefficient: a random walk on R^d is not uniformly ergodic, its
    eta_k is 1 for every k.

    References
    ----------
    Biswas, Jacob and Vanetti (2019), equation 3; Jacob, O'Leary and Atchade (2020) for the reflection coupling.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> found = amc.bounds.couplings(
    ...     [[0.9, 0.1], [0.2, 0.8]], lag=5, initvals=0, n_couplings=50, random_seed=1, progressbar=False
    ... )
    >>> found.attrs["label"], found.attrs["unmet"]
    ('upper bound in expectation', 0)
    """
    for name, value, least in (("lag", lag, 1), ("n_couplings", n_couplings, 2), ("max_steps", max_steps, lag + 1)):
        if isinstance(value, bool) or int(value) != value or value < least:
            raise InvalidInputError(f"couplings: {name} must be a whole number >= {least}, found {value!r}")
    meet, draw_start = _prepared(target, sampler, initvals, lag, max_steps)
    [sequence], seed = seed_sequences(random_seed, 1)
    times = np.empty(n_couplings, dtype=np.int64)
    started = time.perf_counter()
    with progress(n_couplings, show=progressbar, label=f"coupling with lag {lag}", time_limit=None) as shown:
        for k in range(n_couplings):
            rng = np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, k)))
            met = meet(rng, draw_start(rng), draw_start(rng))
            times[k] = max_steps + 1 if met < 0 else met
            shown.update(k + 1)
    found = coupling_bound(times, lag, confidence=confidence, max_steps=max_steps)
    found.attrs |= {"seconds": time.perf_counter() - started, "steps": int(times.sum()), "seed": str(seed)}
    return found


def coupling_bound(
    meeting_times: Any, lag: int, *, times: Any = None, confidence: float = 0.95, max_steps: int | None = None
) -> "xr.Dataset":
    """Turn meeting times into the bound on total variation, with its bootstrap interval; see :func:`couplings`.

    Parameters
    ----------
    meeting_times
        tau of independent couplings, in steps.
    lag
        L.
    times
        Steps t at which the bound is wanted; None: some 60 up to the last at which it is positive.
    confidence
        Of the interval.
    max_steps
        Meeting times beyond it count as not met.
    """
    import xarray as xr

    tau = np.asarray(meeting_times, dtype=np.int64)
    last = max(1, int(tau.max()) - lag)
    times = np.unique(np.linspace(0, last, TIMES).astype(np.int64)) if times is None else np.asarray(times)
    each = np.maximum(0, -(-(tau[:, None] - lag - times) // lag)).astype(np.float64)
    bound = each.mean(axis=0)
    weights = np.random.default_rng(0).multinomial(len(tau), np.full(len(tau), 1.0 / len(tau)), size=N_BOOTSTRAP)
    tail = 0.5 * (1.0 - confidence)
    lower, upper = np.quantile(weights @ each / len(tau), [tail, 1.0 - tail], axis=0)
    unmet = 0 if max_steps is None else int((tau > max_steps).sum())
    C, rho = geometric_majorant(times, bound)
    usable = unmet == 0 and math.isfinite(C)
    found = xr.Dataset(
        {
            "meeting_time": ("coupling", tau, {"units": "steps", "long_name": "meeting time"}),
            "tv_bound": ("time", bound, {"units": "1", "long_name": "bound on total variation from stationarity"}),
            "tv_lower": ("time", lower),
            "tv_upper": ("time", upper),
            "C": C,
            "rho": rho,
            "b5_factor": mitrophanov_factor(C, rho) if usable else math.nan,
            "label_constants": HEURISTIC if usable else NOT_APPLICABLE,
        },
        coords={"time": ("time", times, {"units": "steps"})},
    )
    label = "upper bound in expectation" if unmet == 0 else NOT_APPLICABLE
    found.attrs |= {"lag": lag, "unmet": unmet, "label": label, "confidence": confidence}
    return found


def geometric_majorant(times: np.ndarray, bound: np.ndarray) -> tuple[float, float]:
    """Return (C, rho) with 2 bound <= C rho^t at the given times: the slope of log bound, raised until it covers.

    C is for the norm of signed measures, twice d_v. NaN with fewer than three positive points or no decay.
    """
    kept = (bound > 0.0) & (bound >= 0.01 * min(1.0, bound.max()))
    if kept.sum() < 3:
        return math.nan, math.nan
    slope = float(np.polyfit(times[kept], np.log(bound[kept]), 1)[0])
    if not slope < 0.0:
        return math.nan, math.nan
    positive = bound > 0.0
    rho = math.exp(slope)
    return 2.0 * float((bound[positive] * np.exp(-slope * times[positive])).max()), rho


def _prepared(
    target: Any, sampler: Any, initvals: Any, lag: int, max_steps: int
) -> tuple[Meet, Callable[[np.random.Generator], np.ndarray]]:
    """Return what makes one coupling, and what draws from pi_0."""
    if sampler is None:
        return _for_matrix(checked_matrix(target, "couplings: the matrix"), initvals, lag, max_steps)
    if isinstance(sampler, MetropolisHastings) and isinstance(sampler.proposal, RandomWalk):
        meet = _for_walk(target, sampler, lag, max_steps)
    elif isinstance(sampler, Gibbs) and isinstance(target, DiscreteTarget) and target.n_states.max() == 2:
        meet = _for_gibbs(target, sampler, lag, max_steps)
    else:
        raise IncompatibleError(
            "couplings knows random-walk Metropolis-Hastings, Gibbs on binary sites, and transition matrices; found "
            f"{sampler!r} on {target!r}"
        )
    if callable(initvals):
        return meet, lambda rng: np.array(initvals(rng), dtype=np.float64)
    if initvals is None:
        return meet, lambda rng: random_start(target, rng)
    start = np.asarray(initvals, dtype=np.float64)
    if start.shape != (target.variables.size,):
        raise InvalidInputError(
            f"couplings: initvals must have shape ({target.variables.size},) or be a function of a generator, found "
            f"shape {start.shape}"
        )
    return meet, lambda rng: start.copy()


def _for_walk(target: Any, sampler: MetropolisHastings, lag: int, max_steps: int) -> Meet:
    if sampler.proposal.target_acceptance is not None:
        raise IncompatibleError("couplings: a proposal that still adapts is no Markov chain; fix the scale")
    made: CompiledTarget = target.compile()
    lower = np.linalg.cholesky(walk_covariance(sampler.proposal, target))
    inverse = np.ascontiguousarray(np.linalg.inv(lower))
    rule = rule_of(sampler.test, conditional=False)
    dim, data = target.variables.size, type_of(made.data)
    signature = None if config.DISABLE_JIT else nb.int64(
        type_of(np.random.default_rng(0)), log_terms_type(data), LOG_PRIOR, data, nb.int64, MATRIX, MATRIX,
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, nb.int64, nb.int64,
    )  # fmt: skip
    kernel = bind(_meet_walks, signature, THRESHOLD=RULES[rule]["THRESHOLD"])

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        scratch = [np.empty(dim) for _ in range(4)]
        return int(
            kernel(
                rng, made.log_terms, made.log_prior, made.data, made.n_obs, lower, inverse, x, y, *scratch,
                np.empty(BATCH), lag, max_steps,
            )
        )  # fmt: skip

    return meet


def _for_gibbs(target: DiscreteTarget, sampler: Gibbs, lag: int, max_steps: int) -> Meet:
    if not isinstance(sampler.test, ExactTest):
        sampler = Gibbs(ExactTest(), scan=sampler.scan)
    conditionals = target.compile_conditionals(fields=False)
    data = (np.zeros(1, dtype=np.int64), *conditionals.tables)
    signature = None if config.DISABLE_JIT else nb.int64(
        type_of(np.random.default_rng(0)), log_terms_type(type_of(data)), type_of(data), INDICES, INDICES,
        VECTOR, VECTOR, MATRIX, nb.int64, nb.int64, nb.boolean,
    )  # fmt: skip
    kernel = bind(_meet_sweeps, signature, THRESHOLD=RULES["barker"]["THRESHOLD"])

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        return int(
            kernel(
                rng, conditionals.log_terms, data, conditionals.first, conditionals.n_terms, x, y, np.empty((2, BATCH)),
                lag, max_steps, sampler.scan == "systematic",
            )
        )  # fmt: skip

    return meet


def _for_matrix(
    matrix: np.ndarray, initvals: Any, lag: int, max_steps: int
) -> tuple[Meet, Callable[[np.random.Generator], np.ndarray]]:
    n = len(matrix)
    joint = {
        (i, j): maximal_coupling(matrix[i], matrix[j]).ravel().cumsum() for i in range(n) for j in range(n) if i != j
    }
    rows = matrix.cumsum(axis=1)

    def draw(rng: np.random.Generator, cumulative: np.ndarray) -> int:
        return int(min(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"), len(cumulative) - 1))

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        i, j = int(x[0]), int(y[0])
        for _ in range(lag):
            i = draw(rng, rows[i])
        for t in range(lag, max_steps + 1):
            if i == j:
                return t
            i, j = divmod(draw(rng, joint[i, j]), n)
        return -1

    if initvals is None:
        return meet, lambda rng: np.array([int(rng.random() * n)])
    if callable(initvals):
        return meet, lambda rng: np.atleast_1d(initvals(rng))
    if not 0 <= int(initvals) < n:
        raise InvalidInputError(f"couplings: initvals must be a state 0 ... {n - 1}, found {initvals!r}")
    return meet, lambda rng: np.array([int(initvals)])
