"""Compute the probability that a test accepts, given the terms of a pair of states, by the best available method.

A pair (theta, theta') gives differences l_i = log p(x_i|theta') - log p(x_i|theta), the exact log ratio Lambda = c +
sum l_i, c the log ratio of prior and proposal, and the scale tau = sqrt(N) S_l, S_l the standard deviation of the l_i.
A test that reads all data accepts with probability P(T(u) < Lambda), T(u) the random threshold; one that uses no ratio,
with probability 1. For other tests there are two methods:

``enumerate``  exact: enumerate all ways to draw the looks; for each the probability over u has a closed form. Tiny N.
``gaussian``   the regime of many terms, where the probability depends on Lambda and tau only.

The looks at n_1 < ... < n_J = N of N data, drawn without replacement, can be drawn in N! / prod_j (n_j - n_{j-1})!
equally likely ways. The probability given each way is averaged over all ways.
"""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import expit, logit

from approxmcmc.contracts import AcceptanceTest
from approxmcmc.errors import IncompatibleError, InvalidInputError

METHODS = ("auto", "enumerate", "gaussian")
MOST_ORDERS = 3000  # ways to draw the looks that "auto" enumerates

Order = tuple[tuple[int, ...], ...]  # the new data of each look


def exact_probability(log_ratio: np.ndarray, rule: str) -> np.ndarray:
    """Return min(1, exp(Lambda)) for the Metropolis rule, 1 / (1 + exp(-Lambda)) for Barker's."""
    return np.exp(np.minimum(log_ratio, 0.0)) if rule == "metropolis" else np.asarray(expit(log_ratio))


def threshold_at(u: np.ndarray, rule: str) -> np.ndarray:
    """Return T(u): log u for the Metropolis rule, log(u / (1 - u)) for Barker's."""
    return np.log(u) if rule == "metropolis" else np.asarray(logit(u))


def number_of_orders(looks: np.ndarray) -> float:
    """Return the number of ways to draw the looks, N! / prod (size of look)!."""
    sizes = np.diff(looks, prepend=0)
    log_count = math.lgamma(int(looks[-1]) + 1) - sum(math.lgamma(int(size) + 1) for size in sizes)
    return math.exp(log_count) if log_count < 700.0 else math.inf  # exp(710) overflows


def orders(looks: np.ndarray) -> Iterator[Order]:
    """Yield every way to draw the looks, each as a tuple with the indices of the new data of every look."""
    sizes = np.diff(looks, prepend=0).tolist()

    def draw(left: tuple[int, ...], sizes: list[int]) -> Iterator[Order]:
        if len(sizes) == 1:
            yield (left,)
            return
        for chosen in itertools.combinations(left, sizes[0]):
            rest = tuple(i for i in left if i not in chosen)
            for later in draw(rest, sizes[1:]):
                yield (chosen, *later)

    return draw(tuple(range(int(looks[-1]))), sizes)


def mean_over_orders(looks: np.ndarray, value_of: Callable[[Order], np.ndarray]) -> np.ndarray:
    """Return the mean of ``value_of(order)`` over every way to draw the looks."""
    total = np.zeros(())
    count = 0
    for order in orders(looks):
        total = total + value_of(order)
        count = count + 1
    return np.asarray(total / count)


def has_closed_form(test: AcceptanceTest, n_obs: int) -> bool:
    """Return whether a test on `n_obs` terms reads all of them, or accepts every proposal."""
    return not test.uses_ratio or test.reads_all(n_obs)


def best_method(test: AcceptanceTest, n_obs: int, method: str) -> str:
    """Return the method to use: "closed form" if there is one, else `method`; "auto" becomes one of the two others."""
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {METHODS}, found {method!r}.")
    if has_closed_form(test, n_obs):
        return "closed form"
    if method != "auto":
        return method
    looks = test.looks(n_obs)  # empty if the number of terms is random: then neither method applies
    return "enumerate" if looks.size and number_of_orders(looks) <= MOST_ORDERS else "gaussian"


def refuse_impossible_terms(test: AcceptanceTest, terms: np.ndarray) -> None:
    """Raise if a term or table entry is not finite, because a test that stops early may not read it."""
    if not np.isfinite(terms).all():
        raise IncompatibleError(
            "transition_matrix: every datum and table entry must have positive probability, found 0 in some state: "
            f"whether {test!r} rejects this state depends on which data it reads first. Use ExactTest, or "
            "estimate_delta, which replicates decisions"
        )


def refuse_unknown_law(test: AcceptanceTest, method: str) -> None:
    """Raise if `method` cannot compute the test's acceptance probability."""
    if reason := test.why_law_unknown(method):
        raise IncompatibleError(f"transition_matrix: {reason}")


def acceptance_probability(
    test: AcceptanceTest,
    differences: np.ndarray,
    log_rest: np.ndarray,
    *,
    method: str = "auto",
    conditional: bool = False,
) -> tuple[np.ndarray, str]:
    """Return the probability that a test accepts, for each pair, and the method that was used.

    Parameters
    ----------
    test
        A test with a computable acceptance probability, such as `ExactTest` or `SequentialTTest`.
    differences
        The terms log p(x_i|theta') - log p(x_i|theta) of every pair, shape (pairs, N).
    log_rest
        The log ratio of priors and proposal densities of every pair; shape (pairs,).
    method
        "enumerate", "gaussian", or "auto": enumerate if there are at most 3000 ways to draw the looks.
    conditional
        Whether the decision draws a site in Gibbs sampling; the threshold is then logit(u).

    Raises
    ------
    IncompatibleError
        When this method cannot compute the test's acceptance probability.
    """
    n_obs = differences.shape[1]
    rule = "barker" if conditional else test.rule
    differences = differences / test.temperature
    method = best_method(test, n_obs, method)
    if method == "enumerate":
        refuse_unknown_law(test, method)
        return test.enumerated_probability(differences, log_rest, rule), method
    log_ratio = log_rest + differences.sum(axis=1)
    tau = np.zeros(len(log_ratio)) if method == "closed form" else scales(differences)
    return gaussian_probability(test, log_ratio, tau, n_obs, rule), method


def scales(differences: np.ndarray) -> np.ndarray:
    """Return tau = sqrt(N) S_l of terms of shape (pairs, N), S_l their standard deviation; shape (pairs,)."""
    return np.asarray(math.sqrt(differences.shape[1]) * differences.std(axis=1, ddof=1))


def gaussian_probability(
    test: AcceptanceTest, log_ratio: np.ndarray, tau: np.ndarray, n_obs: int, rule: str
) -> np.ndarray:
    """Return the acceptance probability in the Gaussian regime; shape of `log_ratio`, tau as in `scales`.

    Raises
    ------
    IncompatibleError
        When the test stops by a rule that the regime does not cover.
    """
    if not test.uses_ratio:
        return np.ones(log_ratio.shape)
    if test.reads_all(n_obs):
        return exact_probability(log_ratio, rule)
    refuse_unknown_law(test, "gaussian")
    return test.gaussian_probability(log_ratio, tau, n_obs, rule)
