"""Batch size and epsilon: the sequential test that reads the least data at an allowed error.

The error of the acceptance probability, Delta(Lambda, tau), and the data used are known for every sequential t-test
from a recursion (`acceptance.laws.recursion`). Pilot pairs (Lambda_b, tau_b) say which decisions a chain faces. So the
design is a small optimisation that evaluates no further likelihood terms: for each batch size (and boundary shape),
epsilon is raised until

    mean_b |Delta_b| = error  ("mean"),   or   max_b |Delta_b| = error  ("worst"),

both increasing in epsilon. The test that reads the least share of the data, on average over the pairs, wins.

Reference: Korattikara, Chen and Welling (2014), Austerity in MCMC Land, section 5.3 and its supplement; Wang and
Tsiatis (1987) for the boundaries.
"""

import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance import SequentialTTest
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.design.pairs import Pairs, collect_pairs
from approxmcmc.errors import InvalidInputError, SamplingWarning, warn

if TYPE_CHECKING:
    import pandas as pd

CRITERIA = ("mean", "worst")
BOUNDARIES = {"pocock": (0.5,), "wang_tsiatis": (0.5, 0.375, 0.25, 0.125, 0.0)}
BATCH_SHARES = (200, 100, 50, 20, 10, 5)  # N / batch size
SMALLEST_BATCH = 50  # the mean of so many skewed terms is nearly normal
SMALLEST_EPSILON = 1e-9
RESOLUTION = 1e-3  # tolerance of log epsilon: the error is then right to about a thousandth


@dataclasses.dataclass(frozen=True)
class DesignedTest:
    """The test that was found, its predicted error Delta and reads, and what the search cost.

    Parameters
    ----------
    test
        The `SequentialTTest` to use.
    error, worst_error
        Predicted mean and largest ``|Delta|`` over the pilot pairs.
    data_fraction
        Predicted share of the data that a decision reads.
    table
        A row for each test compared: batch_size, boundary_shape, epsilon, error, worst_error, data_fraction.
    log_ratio, tau
        Log ratio and scale of each pilot pair (see `Pairs`), shape (n_pairs,).
    setup_likelihood_evaluations, setup_seconds
        Cost of the pilot and the search: set-up, not part of any chain.
    """

    test: SequentialTTest
    error: float
    worst_error: float
    data_fraction: float
    table: "pd.DataFrame" = dataclasses.field(repr=False, compare=False)
    log_ratio: np.ndarray = dataclasses.field(repr=False, compare=False)
    tau: np.ndarray = dataclasses.field(repr=False, compare=False)
    setup_likelihood_evaluations: int = 0
    setup_seconds: float = 0.0


@naming_the_arguments
def design_test(
    target: Any,
    *,
    proposal: Any,
    error: float = 0.02,
    criterion: str = "mean",
    boundaries: str = "pocock",
    batch_sizes: Any = None,
    n_pairs: int = 500,
    tune: int = 200,
    initvals: Any = None,
    random_seed: Any = None,
) -> DesignedTest:
    r"""Find the sequential test that reads least data at an allowed error of the acceptance probability.

    Parameters
    ----------
    target, proposal
        Target and proposal of the chain that will use the test; the target may be a `ControlVariate`.
    error
        Allowed error of the acceptance probability, :math:`\Delta^*`, in (0, 1).
    criterion
        Which error over the pairs is allowed to be `error`: ``"mean"``, the mean of ``|Delta|``, or ``"worst"``, the
        largest.
    boundaries
        ``"pocock"``: equal critical values at all looks. ``"wang_tsiatis"``: shapes 0 to 1/2 compete; saves some per
        cent of the data at an equal mean error, at a larger worst error.
    batch_sizes
        Batch sizes to compare; default N/200 to N/5, at least 50, or N if that is less. They hardly matter once
        epsilon is matched.
    n_pairs, tune
        The pilot is an exact chain; its `n_pairs` steps after `tune` steps are used.
    initvals, random_seed
        As in :func:`sample`, of the pilot chain.

    Returns
    -------
    DesignedTest
        `test` goes into `MetropolisHastings`; the other attributes are its prediction and cost.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.
    NotFiniteError
        When no pilot pair has a finite log ratio.

    Warns
    -----
    SamplingWarning
        If the pilot was still climbing to the posterior.

    Notes
    -----
    Guarantee: the error is the allowed one in the Gaussian regime, for pairs like those of the pilot. This does not
    hold for heavy-tailed terms; audits of the chain detect them. If a datum has probability 0 at a proposal of the
    pilot, epsilon is 0. The pilot costs at most ``4 + tune + n_pairs`` passes.

    References
    ----------
    Korattikara, Chen and Welling (2014), section 5.3; Wang and Tsiatis (1987).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> found = amc.design.design_test(target, proposal=amc.RandomWalk(0.05), n_pairs=50, random_seed=1)
    >>> 0.0 < found.test.epsilon < 0.1 and found.data_fraction < 0.9
    True
    """
    _check(error, criterion, boundaries)
    pairs = collect_pairs(target, proposal, n_pairs=n_pairs, tune=tune, initvals=initvals, random_seed=random_seed)
    _warn_of_a_climb(pairs.rise, target.variables.size)
    return design_for_pairs(
        pairs, n_obs=target.n_obs, error=error, criterion=criterion, boundaries=boundaries, batch_sizes=batch_sizes
    )


def design_for_pairs(
    pairs: Any,
    *,
    n_obs: int,
    error: float = 0.02,
    criterion: str = "mean",
    boundaries: str = "pocock",
    batch_sizes: Any = None,
    weights: Any = None,
    thresholds: str = "student",
) -> DesignedTest:
    """Find, as `design_test` does, the test that reads least data at an allowed error Delta, for given pairs.

    Parameters
    ----------
    pairs
        `Pairs`, or a tuple (log_ratio, tau): log ratios and scales, shape (n_pairs,) each.
    n_obs
        Number of data N.
    error, criterion, boundaries, batch_sizes
        As for `design_test`.
    weights
        Weights of the pairs, shape (n_pairs,). None: equal, and pairs with an infinite log ratio are left out.
    thresholds
        As in `sequential_test_error`.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, shapes differ, weights are negative or all 0, or no log ratio is finite.

    Examples
    --------
    >>> found = design_for_pairs(([-1.0, 0.0, 1.0], [1.0, 1.0, 1.0]), n_obs=10_000, error=0.02, batch_sizes=[500])
    >>> round(found.test.epsilon, 4), round(found.data_fraction, 3)
    (0.0144, 0.65)
    """
    import pandas as pd

    _check(error, criterion, boundaries)
    began = time.perf_counter()
    log_ratio, tau, weight = _checked_pairs(pairs, weights)
    # A pair with a datum of probability 0 has an infinite scale, and log ratio -inf: that datum decides, and a subset
    # may miss it. `_checked_pairs` leaves such pairs out, so all are asked.
    impossible = bool(np.isinf(np.asarray(pairs[1], dtype=np.float64)).any())
    sizes = _batch_sizes(batch_sizes, n_obs)
    rows = []
    for shape in BOUNDARIES[boundaries]:
        for batch_size in sizes:
            settings = {"batch_size": batch_size, "boundary_shape": shape}
            outcome = _Outcome(log_ratio, tau, weight, {**settings, "n_obs": n_obs, "thresholds": thresholds})
            epsilon = 0.0 if impossible else _largest_epsilon(outcome, error, criterion)
            rows.append({**settings, "epsilon": epsilon, **outcome(epsilon)})
    table = pd.DataFrame(rows)
    best = table.loc[table["data_fraction"].idxmin()]
    test = SequentialTTest(
        epsilon=float(best["epsilon"]),
        batch_size=int(best["batch_size"]),
        boundary_shape=float(best["boundary_shape"]),
    )
    evaluations, seconds = (pairs.likelihood_evaluations, pairs.seconds) if isinstance(pairs, Pairs) else (0, 0.0)
    return DesignedTest(
        test,
        float(best["error"]),
        float(best["worst_error"]),
        float(best["data_fraction"]),
        table,
        log_ratio,
        tau,
        evaluations,
        seconds + time.perf_counter() - began,
    )


def _checked_pairs(pairs: Any, weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log ratios, scales, and weights that sum to 1; without weights only of pairs with a finite log ratio."""
    log_ratio, tau = (np.asarray(part, dtype=np.float64) for part in pairs[:2])
    if log_ratio.ndim != 1 or tau.shape != log_ratio.shape:
        raise InvalidInputError(
            "design_for_pairs: log_ratio and tau must have one shape (n_pairs,), found "
            f"{log_ratio.shape} and {tau.shape}"
        )
    if weights is None:
        inside = np.isfinite(log_ratio)
        if not inside.any():
            raise InvalidInputError(
                f"design_for_pairs: no log ratio is finite, of {log_ratio.size} pairs; give pairs whose proposals have "
                "a positive density"
            )
        return log_ratio[inside], tau[inside], np.full(inside.sum(), 1.0 / inside.sum())
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != log_ratio.shape or not (np.isfinite(weight).all() and weight.min() >= 0.0 < weight.sum()):
        raise InvalidInputError(
            f"design_for_pairs: weights must be finite and at least 0, one of them positive, of shape "
            f"{log_ratio.shape}, found {weights!r}"
        )
    return log_ratio, tau, weight / weight.sum()


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """Error and reads of a test with these settings at the pairs, as a function of epsilon."""

    log_ratio: np.ndarray
    tau: np.ndarray
    weight: np.ndarray
    settings: dict[str, Any]

    def __call__(self, epsilon: float) -> dict[str, float]:
        error = acceptance_probability_error(self.log_ratio, self.tau, epsilon=epsilon, **self.settings)
        size = np.abs(error["error"].values)
        return {
            "error": float(self.weight @ size),
            "worst_error": float(size.max()),
            "data_fraction": float(self.weight @ error["data_fraction"].values),
        }


def _largest_epsilon(outcome: _Outcome, error: float, criterion: str) -> float:
    """Return the epsilon whose mean or worst Delta is `error`.

    0 if even `SMALLEST_EPSILON` has a larger one, 0.5 if even 0.5 has a smaller one.
    """
    from scipy.optimize import brentq

    name = "error" if criterion == "mean" else "worst_error"

    def excess(log_epsilon: float) -> float:
        return math.log(max(outcome(math.exp(log_epsilon))[name], 1e-300) / error)

    low = math.log(SMALLEST_EPSILON)
    high = math.log(0.5)
    if excess(high) <= 0.0:
        return 0.5
    if excess(low) >= 0.0:
        return 0.0
    return math.exp(brentq(excess, low, high, xtol=RESOLUTION))


def _warn_of_a_climb(rise: float, dim: int) -> None:
    """Warn if the log density still rose during the pilot: decisions are then easy, so epsilon becomes too large.

    The log density at draws of a normal distribution in d dimensions has standard deviation sqrt(d/2), and the
    difference of two such values sqrt(d).
    """
    if rise > 10.0 + 5.0 * math.sqrt(dim):
        warn(
            f"design_test: the log density rose by {rise:.3g} during the pilot, so the pilot had not converged. Its "
            "decisions are easier than those of a converged chain, and epsilon may be far too large. Use initvals near "
            "the mode (find_mode), more tune, or longer steps",
            SamplingWarning,
        )


def _batch_sizes(asked: Any, n_obs: int) -> list[int]:
    if asked is not None:
        if not len(asked):
            raise InvalidInputError("design_test: batch_sizes must hold at least one number, found none")
        return [int(size) for size in asked]
    sizes = {max(2, min(n_obs, max(SMALLEST_BATCH, round(n_obs / share)))) for share in BATCH_SHARES}
    return sorted(sizes)


def _check(error: float, criterion: str, boundaries: str) -> None:
    if not 0.0 < error < 1.0:
        raise InvalidInputError(f"design_test: error must lie between 0 and 1, found {error!r}")
    if criterion not in CRITERIA:
        raise InvalidInputError(f"design_test: criterion must be one of {CRITERIA}, found {criterion!r}")
    if boundaries not in BOUNDARIES:
        raise InvalidInputError(f"design_test: boundaries must be one of {tuple(BOUNDARIES)}, found {boundaries!r}")
