"""Check the bounds that a test relies on, using the terms at some pairs of states.

A bound limits the change of a term between *every* two states. So the check takes pairs of states at several distances
from the target's initial point. If the target has a pilot, it also takes pairs of the pilot's draws, because far from
the pilot an expansion has no finite bound. A true bound never fails, beyond rounding; a bound that is far too small
is very likely to fail. During a run a false bound would hardly be noticed: the smaller it is, the fewer rows the test
reads, and the fewer rows can show that it is false. So the chains of a target without a pilot also check the bound now
and then, at the states that they visit.
"""

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import (
    BoundedDifferencesTarget,
    BoundedTermsTarget,
    CompiledDifferenceBound,
    CompiledTarget,
    CompiledTermRange,
    DiscreteTarget,
    Target,
)
from approxmcmc.contracts.records import EVALUATIONS, VIOLATIONS
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import show
from approxmcmc.errors import InvalidInputError

# Standard deviations of the states around the initial point, and of the distance of two states.
SPREADS = (0.01, 0.1, 1.0, 10.0)
# draws of the pilot; a pair is a draw, and a point at this share of the way to the next
STARTS = 8
SHARES = (0.1, 1.0)
MOST_ROWS = 20_000  # rows checked, evenly spaced: two milliseconds a pair of states
# The bound of each target that was found true: a trial and its run build the same test.
_CHECKED: "weakref.WeakKeyDictionary[Any, CompiledDifferenceBound]" = weakref.WeakKeyDictionary()
ROUNDING = 1e-12  # rounding error of a difference, relative to the size of its terms: 4500 times the precision


def checked_differences(target: BoundedDifferencesTarget) -> CompiledDifferenceBound:
    """Return the target's bound on each of its terms, after checking it.

    Raises
    ------
    IncompatibleError
        When the target has no such bound.
    InvalidInputError
        When a term changes by more than its bound at one of the pairs of states; the message names the worst term.
    """
    bound = target.compile_difference_bound()
    if _CHECKED.get(target) is bound:
        return bound
    for pair in _evaluated(target, bound.reach, bound.numbers, _pairs(target)):
        allowed = bound.rates[pair.rows] * pair.bound
        worst, excess = _worst(pair.differences, allowed, pair.scales)
        if excess > 0.0:
            raise InvalidInputError(
                f"{speaker()}: the bound of the terms of {target!r} is false: between theta = {show(pair.theta)} "
                f"and {show(pair.proposed)} the term of datum {pair.rows[worst]} changes by "
                f"{abs(pair.differences[worst]):.4g}, and the "
                f"bound says {allowed[worst]:.4g} at most. Decisions would be wrong: give a larger bound, infinite "
                "if none is known, or use ExactTest"
            )
    _CHECKED[target] = bound
    return bound


def watch_differences(target: Any, bound: CompiledDifferenceBound) -> Callable[..., bool]:
    """Return ``check(start, theta, count)``, which adds a violation to `count` if the bound is false for this pair.

    `start` and `theta` are two states. `check` always returns True; it also counts the terms that it evaluates.
    """

    def check(start: np.ndarray, theta: np.ndarray, count: np.ndarray) -> bool:
        for pair in _evaluated(target, bound.reach, bound.numbers, [(start, theta)]):
            _, excess = _worst(pair.differences, bound.rates[pair.rows] * pair.bound, pair.scales)
            count[EVALUATIONS] += 2 * pair.rows.size  # each row at both states
            count[VIOLATIONS] += excess > 0.0
        return True

    return check


def _worst(differences: np.ndarray, allowed: np.ndarray, scales: np.ndarray) -> tuple[int, float]:
    """Return the index of the difference that exceeds its bound most, and by how much, minus what rounding explains.

    The excess is negative if all bounds hold; a NaN difference never exceeds its bound.
    """
    excess = np.nan_to_num(np.abs(differences) - allowed - ROUNDING * scales, nan=-np.inf)
    worst = int(np.argmax(excess))
    return worst, float(excess[worst])


def checked_range(target: BoundedTermsTarget) -> CompiledTermRange:
    """Return the target's bound on the range of its terms, after the same check as `checked_differences`."""
    bound = target.compile_term_range()
    for pair in _evaluated(target, bound.term_range, bound.numbers, _pairs(target)):
        finite = pair.differences[np.isfinite(pair.differences)]
        largest_range = np.ptp(finite) if finite.size else 0.0
        if largest_range > pair.bound + ROUNDING * pair.scales.max():
            raise InvalidInputError(
                f"{speaker()}: the range of the terms of {target!r} is false: between theta = {show(pair.theta)} "
                f"and {show(pair.proposed)} the changes of two terms differ by {largest_range:.4g}, and the bound says "
                f"{pair.bound:.4g} at most. Give an upper bound of the largest minus the smallest change over all "
                "data, or use ExactTest"
            )
    return bound


class EvaluatedPair(NamedTuple):
    """The differences l_i of some rows between the states theta and theta', and what a bound says of this pair.

    `bound` is M of a difference bound, C of a range, both as in `contracts`. `rows` are indices, `differences` their
    l_i, and `scales` the sizes to which rounding is relative: 1 plus the absolute terms at both states; (rows,) each.
    """

    theta: np.ndarray
    proposed: np.ndarray
    bound: float
    rows: np.ndarray
    differences: np.ndarray
    scales: np.ndarray


def _evaluated(
    target: Any,
    bound_of: Callable[..., float],
    numbers: np.ndarray,
    pairs: Iterable[tuple[np.ndarray, np.ndarray]],
) -> Iterator[EvaluatedPair]:
    """Yield the pairs with their differences; ``bound_of(theta, proposed, numbers)`` is their bound.

    Pairs without a finite bound or with prior density 0 are left out. No
    pair is yielded for a discrete target: its bounds are computed from its tables.
    """
    if isinstance(target, DiscreteTarget) or not isinstance(target, Target):
        return
    compiled = target.compile()
    rows = np.unique(np.linspace(0, compiled.n_obs - 1, MOST_ROWS).astype(np.int64))
    for theta, proposed in pairs:
        bound = bound_of(theta, proposed, numbers)
        if bound < np.inf and np.isfinite([compiled.log_prior(theta), compiled.log_prior(proposed)]).all():
            with np.errstate(all="ignore"):  # terms may overflow at distant states
                before = _terms(compiled, theta, rows)
                after = _terms(compiled, proposed, rows)
                differences = after - before
            scales = 1.0 + np.abs(before) + np.abs(after)
            yield EvaluatedPair(theta, proposed, bound, rows, differences, scales)


def _pairs(target: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of states at which to check bounds; these are the same in every run, so that results repeat."""
    centre = np.asarray(target.initial_point(), dtype=np.float64)
    rng = np.random.default_rng(0)
    for spread in SPREADS:
        theta = centre + spread * rng.standard_normal(centre.size)
        for length in SPREADS:
            yield theta, theta + length * rng.standard_normal(centre.size)
    starts = [start for start in (target.draw_start(rng) for _ in range(STARTS)) if start is not None]
    for (theta, other), share in itertools.product(itertools.pairwise(starts), SHARES):
        yield theta, theta + share * (other - theta)


def _terms(compiled: CompiledTarget, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    out = np.empty(rows.size)
    compiled.log_terms(theta, compiled.data, rows, 0, rows.size, out)
    return out
