r"""Bound how fast the exact chain forgets its start, by couplings with a lag; no transition matrix is needed.

Chain X runs L steps ahead of chain Y; both start from pi_0. From then on the pair (X_{t+L}, Y_t) moves together by a
coupling that makes them meet, and stay equal once they have met, at time tau = inf{t >= L: X_t = Y_{t-L}}. Then

    d_v(law of X_t, pi) <= E[max(0, ceil((tau - L - t) / L))],

d_v the total variation distance and pi the chain's stationary distribution. The mean of max(0, ...) over independent
couplings estimates the right side without bias. So it is an upper bound for the chain started at pi_0, up to its
bootstrap interval. A larger L gives a tighter bound. Couplings that have not met when they are stopped count as if they
met one step later; the result is then labelled "not applicable", because it is not a bound.

- Metropolis-Hastings: the proposal's coupling, and one u for both decisions. Normal proposals (random walks, MALA, pCN)
  are coupled by reflection, independent proposals are equal, both chains use the same member of a mixture.
- Gibbs: the maximal coupling of each conditional, one u for both chains, sites in the same order.
- Exchange: the proposal's coupling, one u, and the same auxiliary draw if both propose one point.
- A transition matrix: the maximal coupling of two rows.

The bound does not hold uniformly over starting points. So (C, rho) fitted to the curve are *heuristic* inputs to
Mitrophanov's bound, B5 of `bounds.statements`.

Reference: Biswas, Jacob and Vanetti (2019), Estimating Convergence of Markov chains with L-Lag Couplings.
"""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.finite import HEURISTIC, NOT_APPLICABLE, checked_matrix
from approxmcmc.bounds.statements import mitrophanov_factor
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.couplings.kernels import coupling_of
from approxmcmc.couplings.meeting import CoupledStates
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import InvalidInputError
from approxmcmc.sampling.assembly import start_law
from approxmcmc.sampling.progress import progress

if TYPE_CHECKING:
    import xarray as xr

N_BOOTSTRAP = 1000  # resamples of the couplings, for the interval
TIMES = 60  # points of the reported curve


@naming_the_arguments
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
    """Bound the distance of the exact chain from its stationary distribution, step by step, by couplings with a lag.

    Parameters
    ----------
    target
        A target, or a transition matrix, shape (n, n).
    sampler
        `MetropolisHastings` with `RandomWalk`, `Langevin`, `PreconditionedCrankNicolson`, `Independence`, a mixture of
        them, `SurrogateTransition` (mixed with short steps of a walk, so that chains can meet), or `SingleSite` on
        discrete states; `Gibbs` on binary sites; `Exchange`; None with a matrix. The *exact* chain is coupled: an
        approximate test is replaced by the exact test with the same rule, Metropolis or Barker, and noisy exchange by
        exchange with one exact draw.
    lag
        L, in steps (sweeps of Gibbs); choose about the time in which the chain forgets its start, or more.
    n_couplings
        Independent couplings.
    max_steps
        Steps of X, the chain that is ahead, after which a coupling is stopped.
    initvals
        pi_0: an array (dim,) from which both chains start, or a function ``draw(rng) -> theta`` called for each chain;
        for a matrix, the index of a state or such a function. None: the target's random starting points; for a matrix,
        a state drawn with equal probabilities.
    confidence
        Level of the bootstrap interval.
    random_seed, progressbar
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        `meeting_time` (coupling), in steps, tau; `tv_bound`, `tv_lower`, `tv_upper` (time): the bound's estimate and
        its bootstrap interval; it may exceed 1. `C`, `rho`: a geometric majorant C rho^t of the curve, C for the norm
        of signed measures, and `b5_factor`, the factor of delta in the bound B5 of :func:`exact`, all labelled
        heuristic, or "not applicable" if they cannot be computed (`label_constants`).
        Attributes: `lag`, `unmet` (couplings that did not meet; then `label` is "not applicable"), `seconds`, `steps`.

    Raises
    ------
    InvalidInputError
        When a number is out of range.
    IncompatibleError
        When there is no coupling for the sampler.

    Notes
    -----
    The bound is on the distribution of X_t started at pi_0, rigorous in expectation; the interval is Monte Carlo.
    Nothing here bounds a contraction coefficient: a random walk on R^d is not uniformly ergodic, and its coefficient
    after k steps is 1 for every k.

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
        checked_integer(value, name, least, whole_floats=True)
    meet, draw_start = _prepared(target, sampler, initvals)
    [sequence], seed = seed_sequences(random_seed, 1)
    times = np.empty(n_couplings, dtype=np.int64)
    started = time.perf_counter()
    with progress(n_couplings, show=progressbar, label=f"coupling with lag {lag}", time_limit=None) as shown:
        for k in range(n_couplings):
            rng = np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, k)))
            met = meet(rng, draw_start(rng), draw_start(rng), lag, max_steps)
            times[k] = max_steps + 1 if met < 0 else met
            shown.update(k + 1)
    bound = coupling_bound(times, lag, confidence=confidence, max_steps=max_steps)
    bound.attrs |= {"seconds": time.perf_counter() - started, "steps": int(times.sum()), "seed": str(seed)}
    return bound


@naming_the_arguments
def coupling_bound(
    meeting_times: Any, lag: int, *, times: Any = None, confidence: float = 0.95, max_steps: int | None = None
) -> "xr.Dataset":
    """Compute the Dataset that :func:`couplings` returns, without `seconds`, `steps` and `seed`, from meeting times.

    ``tv_upper`` at time t is at least the upper limit of the share of couplings with tau > L + t (Clopper and Pearson
    1934).

    Parameters
    ----------
    meeting_times
        tau of independent couplings, in steps.
    lag
        L, in steps.
    times
        Steps t at which to compute the bound; None: about 60 steps from 0 to the first at which the bound is 0.
    confidence
        Level of the interval.
    max_steps
        Meeting times beyond it count as not met; None: all couplings have met.
    """
    import xarray as xr

    tau = np.asarray(meeting_times, dtype=np.int64)
    last = max(1, int(tau.max()) - lag)
    times = np.unique(np.linspace(0, last, TIMES).astype(np.int64)) if times is None else np.asarray(times)
    # max(0, ceil((tau - L - t) / L)) of each coupling at each time; ceil(x / L) = -(-x // L) of integers.
    summands = np.maximum(0, -(-(tau[:, None] - lag - times) // lag)).astype(np.float64)
    bound = summands.mean(axis=0)
    # A bootstrap by how often each coupling is drawn, with a fixed seed: the same couplings give the same interval.
    weights = np.random.default_rng(0).multinomial(len(tau), np.full(len(tau), 1.0 / len(tau)), size=N_BOOTSTRAP)
    tail = 0.5 * (1.0 - confidence)
    lower, upper = np.quantile(weights @ summands / len(tau), [tail, 1.0 - tail], axis=0)
    # A bootstrap of zeros is zero and ignores rare couplings that have not met yet, so use the limit of their share.
    upper = np.maximum(upper, clopper_pearson((summands > 0.0).sum(axis=0), len(tau), confidence)[1])
    unmet = 0 if max_steps is None else int((tau > max_steps).sum())
    C, rho = geometric_majorant(times, bound)
    usable = unmet == 0 and math.isfinite(C)
    dataset = xr.Dataset(
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
    dataset.attrs |= {"lag": lag, "unmet": unmet, "label": label, "confidence": confidence}
    return dataset


def geometric_majorant(times: np.ndarray, bound: np.ndarray) -> tuple[float, float]:
    """Return (C, rho) with 2 bound <= C rho^t at the given times: a line is fitted to log bound, then raised.

    C is for the norm of signed measures, twice d_v. Only points of at least 0.01 min(1, largest bound) enter the fit.
    Both are NaN with fewer than three such points, or if the fitted line does not fall.
    """
    fitted = (bound > 0.0) & (bound >= 0.01 * min(1.0, bound.max()))
    if fitted.sum() < 3:
        return math.nan, math.nan
    slope = float(np.polyfit(times[fitted], np.log(bound[fitted]), 1)[0])
    if not slope < 0.0:
        return math.nan, math.nan
    positive = bound > 0.0
    rho = math.exp(slope)
    return 2.0 * float((bound[positive] * np.exp(-slope * times[positive])).max()), rho


Meet = Callable[[np.random.Generator, np.ndarray, np.ndarray, int, int], int]


def _prepared(target: Any, sampler: Any, initvals: Any) -> tuple[Meet, Callable[[np.random.Generator], np.ndarray]]:
    """Return a function that runs one coupling and returns tau (negative: not met), and a function that draws pi_0."""
    if sampler is None:
        matrix = checked_matrix(target, "couplings: the matrix")
        return CoupledStates(matrix).meeting_time, _state_to_start_in(initvals, len(matrix))
    coupling = coupling_of(target, sampler)

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, lag: int, max_steps: int) -> int:
        return coupling.meet(rng, x, y, lag, max_steps, record=False).time

    if callable(initvals):
        return meet, lambda rng: np.array(initvals(rng), dtype=np.float64)
    if initvals is None:
        return meet, start_law(target, sampler)
    start = np.asarray(initvals, dtype=np.float64)
    if start.shape != (target.variables.size,):
        raise InvalidInputError(
            f"couplings: initvals must have shape ({target.variables.size},) or be a function of a generator, found "
            f"shape {start.shape}"
        )
    return meet, lambda rng: start.copy()


def _state_to_start_in(initvals: Any, n: int) -> Callable[[np.random.Generator], np.ndarray]:
    if initvals is None:
        return lambda rng: np.array([int(rng.random() * n)])
    if callable(initvals):
        return lambda rng: np.atleast_1d(initvals(rng))
    if not 0 <= int(initvals) < n:
        raise InvalidInputError(f"couplings: initvals must be a state 0 ... {n - 1}, found {initvals!r}")
    return lambda rng: np.array([int(initvals)])
