"""With what probability does a test accept, given the terms of a pair of states? For every member of the role.

A pair (x, x') gives differences l_i = log p(x_i|x') - log p(x_i|x), the exact log ratio Lambda = c + sum l_i and the
scale tau = sqrt(N) S_l. The answer comes by one of two methods:

``enumerate``  exact: all ways to draw the looks, each with the probability over u in closed form. A look with mean m
               and limit w stops for thresholds beyond m -+ w, so the thresholds that are still open form an interval,
               and those that accept are intervals too. For tiny N.
``gaussian``   the regime of many terms, where Lambda and tau say all: the recursion of `acceptance_probability_error`
               for sequential tests, the smoothed correction distribution for the minibatch Barker test.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from approxmcmc.acceptance import AlwaysAccept, ExactTest, MinibatchBarker, SequentialTTest
from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.acceptance.laws.looks import critical_values, look_sizes
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error
from approxmcmc.errors import IncompatibleError, InvalidInputError

METHODS = ("auto", "enumerate", "gaussian")
MOST_ORDERS = 3000  # ways to draw the looks that "auto" enumerates
UNKNOWN_LAW = (
    "transition_matrix: the acceptance probability of {test!r} is not known in closed form; use ExactTest, "
    "SequentialTTest, MinibatchBarker or AlwaysAccept, or estimate_delta, which replicates decisions"
)
LEAST_SPREAD = 1e-6  # as in the kernel of the minibatch Barker test


def exact_probability(log_ratio: np.ndarray, rule: str) -> np.ndarray:
    """Return min(1, exp(Lambda)) or 1 / (1 + exp(-Lambda))."""
    return np.exp(np.minimum(log_ratio, 0.0)) if rule == "metropolis" else np.asarray(expit(log_ratio))


def decides_exactly(test: Any, n_obs: int) -> bool:
    """Return whether a test of a ratio always reads all `n_obs` data."""
    never_stops = isinstance(test, SequentialTTest) and test.epsilon == 0.0
    return isinstance(test, ExactTest) or never_stops or getattr(test, "batch_size", 0) >= n_obs


def rule_of(test: Any, *, conditional: bool) -> str:
    """Return whose rule a test applies: a conditional of Gibbs is decided with Barker's, whatever the test."""
    if conditional or isinstance(test, MinibatchBarker):
        return "barker"
    return test.rule if isinstance(test, ExactTest) else "metropolis"


def refuse_impossible_terms(test: Any, terms: np.ndarray) -> None:
    """Refuse log-likelihood terms, or entries of tables, that are -inf: a test that stops early may not see them."""
    if not np.isfinite(terms).all():
        raise IncompatibleError(
            f"transition_matrix: in some state a datum, or a table, has probability 0; whether {test!r} rejects it "
            "hangs on who is read first, which the laws here leave out. Use ExactTest, or estimate_delta, which "
            "replicates decisions"
        )


def acceptance_probability(
    test: Any, differences: np.ndarray, log_rest: np.ndarray, *, method: str = "auto", conditional: bool = False
) -> tuple[np.ndarray, str]:
    """Return the probability that a test accepts, for each pair, and the method that was used.

    Parameters
    ----------
    test
        `ExactTest`, `SequentialTTest`, `MinibatchBarker` or `AlwaysAccept`.
    differences
        l_i of every pair, shape (pairs, N).
    log_rest
        c of every pair, log ratio of priors and proposal densities; shape (pairs,).
    method
        "enumerate", "gaussian", or "auto": enumerate where there are at most 3000 ways to draw the looks.
    conditional
        The decision is a conditional of Gibbs: threshold logit(u).

    Raises
    ------
    IncompatibleError
        When the law of the test is not known by this method.
    """
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {METHODS}, found {method!r}.")
    n_obs = differences.shape[1]
    rule = rule_of(test, conditional=conditional)
    differences = differences / getattr(test, "temperature", 1.0)
    log_ratio = log_rest + differences.sum(axis=1)
    if isinstance(test, AlwaysAccept):
        return np.ones(len(log_ratio)), "closed form"
    if decides_exactly(test, n_obs):
        return exact_probability(log_ratio, rule), "closed form"
    if not isinstance(test, (SequentialTTest, MinibatchBarker)):
        raise IncompatibleError(UNKNOWN_LAW.format(test=test))
    looks = look_sizes(n_obs, test.batch_size, getattr(test, "growth", 1.0))
    if method == "auto":
        method = "enumerate" if number_of_orders(looks) <= MOST_ORDERS else "gaussian"
    if method == "enumerate":
        if isinstance(test, SequentialTTest):
            return _enumerate_sequential(test, differences, log_rest, looks, rule), method
        return _enumerate_barker(test, differences, log_rest, looks, rule), method
    tau = math.sqrt(n_obs) * differences.std(axis=1, ddof=1)
    return gaussian_probability(test, log_ratio, tau, n_obs, rule), method


def gaussian_probability(test: Any, log_ratio: np.ndarray, tau: np.ndarray, n_obs: int, rule: str) -> np.ndarray:
    """Return the probability of acceptance in the Gaussian regime, where Lambda and tau say all; shape of `log_ratio`.

    Raises
    ------
    IncompatibleError
        When the test stops by a rule that the regime does not describe.
    """
    exact = exact_probability(log_ratio, rule)
    if decides_exactly(test, n_obs):
        return exact
    if isinstance(test, MinibatchBarker):
        # Lambda* + X_nc has the law N(Lambda, sigma^2) at whatever b the test stops, and at b = N Barker's own rule.
        if test.temperature != 1.0 or test.max_error is not None:
            raise IncompatibleError(
                f"transition_matrix: the Gaussian regime describes MinibatchBarker without temperature and max_error, "
                f"found {test!r}; use method='enumerate' on tiny data"
            )
        correction = correction_distribution(math.sqrt(test.target_variance), test.correction)
        found = np.zeros(log_ratio.shape)
        for atom, weight in zip(correction.atoms, correction.weights, strict=True):
            found += weight * ndtr((log_ratio + atom) / correction.sigma)
        last = (n_obs - 1) // test.batch_size * test.batch_size  # the last look that leaves something unread
        stops = tau**2 * (1.0 / last - 1.0 / n_obs) * n_obs < test.target_variance
        return np.where(stops, found, exact)
    if not isinstance(test, SequentialTTest):
        raise IncompatibleError(UNKNOWN_LAW.format(test=test))
    if test.tol > 0.0:
        raise IncompatibleError(
            f"transition_matrix: the recursion knows no stop by tolerance, found {test!r}; use tol=0, or "
            "method='enumerate' on tiny data"
        )
    flat, place = np.unique(np.stack([log_ratio.ravel(), tau.ravel()]).round(14), axis=1, return_inverse=True)
    error = acceptance_probability_error(
        flat[0], flat[1], epsilon=test.epsilon, batch_size=test.batch_size, n_obs=n_obs, growth=test.growth,
        boundary_shape=test.boundary_shape, rule=rule,
    )["error"].values  # fmt: skip
    return np.asarray(exact + error[place.ravel()].reshape(exact.shape))


def number_of_orders(looks: np.ndarray) -> float:
    """Return in how many ways the data fall into the looks: N! / prod (size of look)!."""
    sizes = np.diff(looks, prepend=0)
    log_count = math.lgamma(int(looks[-1]) + 1) - sum(math.lgamma(int(size) + 1) for size in sizes)
    return math.exp(log_count) if log_count < 700.0 else math.inf


def orders(looks: np.ndarray) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every way to draw the looks: the data that are new at each of them."""
    sizes = np.diff(looks, prepend=0).tolist()

    def draw(left: tuple[int, ...], sizes: list[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
        if len(sizes) == 1:
            yield (left,)
            return
        for chosen in itertools.combinations(left, sizes[0]):
            rest = tuple(i for i in left if i not in chosen)
            for later in draw(rest, sizes[1:]):
                yield (chosen, *later)

    return draw(tuple(range(int(looks[-1]))), sizes)


def _threshold_cdf(value: np.ndarray, rule: str) -> np.ndarray:
    """Return P(threshold < value), threshold log u or logit u."""
    return exact_probability(value, rule)


def _enumerate_sequential(
    test: SequentialTTest, differences: np.ndarray, log_rest: np.ndarray, looks: np.ndarray, rule: str
) -> np.ndarray:
    n_obs = differences.shape[1]
    critical = np.append(critical_values(looks, test.epsilon, shape=test.boundary_shape), 0.0)
    total, count = np.zeros(len(differences)), 0
    for order in orders(looks):
        count += 1
        seen: tuple[int, ...] = ()
        low, high = np.full(len(differences), -np.inf), np.full(len(differences), np.inf)  # mu_0 not yet decided
        for new, limit in zip(order, critical, strict=True):
            seen += new
            n, part = len(seen), differences[:, list(seen)]
            mean = part.mean(axis=1)
            error = part.std(axis=1, ddof=1) / math.sqrt(n) * math.sqrt(1.0 - n / n_obs)
            # limit * 0 = 0 also where the limit is infinite: all terms seen are equal, and only the last look decides.
            half = np.zeros(len(mean)) if n == n_obs else np.where(math.isinf(limit), np.inf, limit * error)
            by_tolerance = math.isfinite(limit) and n < n_obs and test.tol > 0.0
            half = np.where(by_tolerance & (n_obs * error <= test.tol), 0.0, half)
            accepts = np.minimum(high, mean - half)
            mass = _threshold_cdf(n_obs * accepts + log_rest, rule) - _threshold_cdf(n_obs * low + log_rest, rule)
            total += np.where(accepts > low, mass, 0.0)
            low, high = np.maximum(low, mean - half), np.minimum(high, mean + half)
            high = np.maximum(high, low)
    return total / count


def _enumerate_barker(
    test: MinibatchBarker, differences: np.ndarray, log_rest: np.ndarray, looks: np.ndarray, rule: str
) -> np.ndarray:
    if test.max_error is not None:
        raise IncompatibleError(f"transition_matrix: enumeration knows no max_error, found {test!r}; leave it out")
    n_obs = differences.shape[1]
    correction = correction_distribution(math.sqrt(test.target_variance), test.correction)
    total, count = np.zeros(len(differences)), 0
    for order in orders(looks):
        count += 1
        seen: tuple[int, ...] = ()
        found = np.full(len(differences), np.nan)
        for new in order:
            seen += new
            n, part = len(seen), differences[:, list(seen)]
            estimate = log_rest + n_obs * part.mean(axis=1)
            variance = n_obs**2 * part.var(axis=1, ddof=1) / n * (1.0 - n / n_obs)
            spread = np.maximum(np.sqrt(np.maximum(test.target_variance - variance, 0.0)), LEAST_SPREAD)
            smooth = ndtr((estimate[:, None] + correction.atoms) / spread[:, None]) @ correction.weights
            answer = exact_probability(estimate, rule) if n == n_obs else smooth
            stops = np.isnan(found) & ((variance < test.target_variance) | (n == n_obs))
            found = np.where(stops, answer, found)
        total += found
    return total / count
