"""The compiled steps of Firefly: the bright set, the joint density at fixed z, the updates of z, the slice.

Every datum has z_i in {0, 1}, bright where 1. With gap_i = log p(x_i|theta) - log B_i(theta) >= 0 the odds of
brightness given theta are

    P(z_i = 1) / P(z_i = 0) = (L_i - B_i) / B_i = exp(gap_i) - 1,

and log(exp(gap) - 1) = gap + log1mexp(gap), -inf where the bound touches, is all that the steps need of a datum:

    log joint = log p(theta) + sum_i log B_i(theta) + sum_{i bright} log(exp(gap_i) - 1).

Summed over z this is the posterior. The bright set is a permutation of all data with the bright ones in front
(`order`), the place of every datum in it (`position`), the number of bright ones (`size`), and their log odds at
the current theta by place (`log_odds`): inserting and deleting is O(1).
"""

import math

import numpy as np

from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine.batches import BATCH
from approxmcmc.engine.compile import compiled
from approxmcmc.engine.numerics import log1mexp
from approxmcmc.engine.vectors import assign

TOUCHED = COUNT_NAMES.index("datapoints_touched")
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
BOUNDS = COUNT_NAMES.index("bound_evaluations")
DARK = COUNT_NAMES.index("dark_proposals")

Q, Q_BRIGHT, MEAN_BRIGHT = 0, 1, 2  # what a z-update knows: its settings, and the running mean of the bright count
MOST_GAP = 700.0  # exp(700) = 1e304; any larger gap makes the same decisions
LEAST_GAP = -1e-6  # rounding makes gaps of -1e-9; what lies lower is a bound above the likelihood
LARGEST_SHRINKS = 200  # of a slice: 2^-200 of its first length is no length at all


@compiled
def log_odds_of(gap: float) -> float:
    """Return log(exp(gap) - 1); -inf where bound and likelihood touch, NaN where the bound lies above or gap is NaN."""
    if gap > 0.0:
        return gap + log1mexp(gap)
    return -math.inf if gap >= LEAST_GAP else math.nan


@compiled
def go_dark_probability(log_odds, q, q_bright):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return min(1, q r / (q_bright (1 - r))), r = B / L: 1 for a bright datum whose gap has become 0."""
    return math.exp(min(0.0, math.log(q / q_bright) - log_odds))


@compiled
def go_bright_probability(gap, q, q_bright):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return min(1, q_bright (1 - r) / (q r)), r = B / L."""
    return min(1.0, q_bright * math.expm1(min(gap, MOST_GAP)) / q)


# ------------------------------------------------------------------------------------------------------ the bright set


@compiled
def make_bright(bright, datum, log_odds_of_datum):  # type: ignore[no-untyped-def]  # a kernel helper
    """Move a dark datum to the end of the bright ones."""
    order, position, size, log_odds = bright
    place, end = position[datum], size[0]
    other = order[end]
    order[end], order[place] = datum, other
    position[datum], position[other] = end, place
    log_odds[end] = log_odds_of_datum
    size[0] += 1


@compiled
def make_dark(bright, place):  # type: ignore[no-untyped-def]  # a kernel helper
    """Take the bright datum at a place out; the last bright one fills the place."""
    order, position, size, log_odds = bright
    last = size[0] - 1
    datum, other = order[place], order[last]
    order[place], order[last] = other, datum
    position[other], position[datum] = place, last
    log_odds[place] = log_odds[last]
    size[0] = last


@compiled
def fill_gaps(gaps, theta, data, order, n, out):  # type: ignore[no-untyped-def]  # a kernel helper
    """Write the gaps of the data ``order[:n]``, batch by batch."""
    for lo in range(0, n, BATCH):
        hi = min(lo + BATCH, n)
        gaps(theta, data, order, lo, hi, out[lo:hi])


@compiled
def log_joint(  # type: ignore[no-untyped-def]  # a kernel helper
    gaps, log_bound, log_prior, data, sums, theta, bright, log_odds, parts, count
):
    """Return log p(theta, z); write log prior and log bound to `parts`, and the log odds of the bright data."""
    order, _, size, _ = bright
    parts[0] = log_prior(theta)
    if parts[0] == -math.inf:
        return -math.inf
    parts[1] = log_bound(theta, sums)
    fill_gaps(gaps, theta, data, order, size[0], log_odds)
    total = 0.0
    for k in range(size[0]):
        log_odds[k] = log_odds_of(log_odds[k])
        total += log_odds[k]
    count[BOUNDS] += 1
    count[EVALUATIONS] += size[0]
    return parts[0] + parts[1] + total


@compiled
def current_log_joint(bright, parts):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return the log joint density at the current theta and z, from what is kept."""
    _, _, size, log_odds = bright
    total = 0.0
    for k in range(size[0]):
        total += log_odds[k]
    return parts[0] + parts[1] + total


# ------------------------------------------------------------------------------------------------------- updates of z


@compiled
def darken(rng, bright, q, q_bright):  # type: ignore[no-untyped-def]  # a kernel helper
    """Let every bright datum go dark or stay, from its kept odds."""
    _, _, size, log_odds = bright
    for place in range(size[0] - 1, -1, -1):  # downwards: the datum that fills a place has had its turn
        if q_bright < 1.0 and rng.random() >= q_bright:
            continue
        if rng.random() < go_dark_probability(log_odds[place], q, q_bright):
            make_dark(bright, place)


@compiled
def brighten(rng, gaps, theta, data, bright, candidates, n, candidate_gaps, q, q_bright):  # type: ignore[no-untyped-def]  # as above
    """Let every candidate, dark in the snapshot, go bright or stay; -1 where a gap is NaN or negative."""
    fill_gaps(gaps, theta, data, candidates, n, candidate_gaps)
    for k in range(n):
        gap, u = candidate_gaps[k], rng.random()
        if not gap >= LEAST_GAP:
            return -1
        # exp(gap) - 1 <= gap / (1 - gap): where even that is too little, most of the time, no exponential is needed.
        if gap < 1.0 and u >= q_bright * gap / (q * (1.0 - gap)):
            continue
        if u < go_bright_probability(gap, q, q_bright):
            make_bright(bright, candidates[k], log_odds_of(gap))
    return n


@compiled
def skip_over_dark(rng, order, first_dark, q, candidates):  # type: ignore[no-untyped-def]  # as above
    """Choose every dark datum with probability q, by jumps of geometric length; return how many were chosen."""
    rate = -math.log1p(-q) if q < 1.0 else math.inf
    n, place = 0, first_dark - 1
    while True:
        jump = rng.standard_exponential() / rate  # its whole part is geometric on 0, 1, 2, ...
        if jump >= order.shape[0] - 1 - place:
            return n
        place += 1 + int(jump)
        candidates[n] = order[place]
        n += 1


@compiled
def scan_dark(rng, order, first_dark, q, candidates):  # type: ignore[no-untyped-def]  # as above
    """Choose every dark datum with probability q, one after the other; return how many were chosen."""
    n = 0
    for place in range(first_dark, order.shape[0]):
        if rng.random() < q:
            candidates[n] = order[place]
            n += 1
    return n


@compiled
def finish_implicit(  # type: ignore[no-untyped-def]  # a kernel helper
    rng, gaps, theta, data, bright, work, settings, first_dark, n, count
):
    """Brighten the `n` candidates among the data that were dark from `first_dark` on, and book the update."""
    _, candidates, candidate_gaps, _ = work
    count[TOUCHED] += first_dark + n
    count[EVALUATIONS] += n
    count[DARK] += n
    return brighten(rng, gaps, theta, data, bright, candidates, n, candidate_gaps, settings[Q], settings[Q_BRIGHT])


@compiled
def update_by_skips(rng, gaps, theta, data, bright, work, settings, count):  # type: ignore[no-untyped-def]  # as above
    """Update z: bright data go dark or stay, dark data reached by geometric skips go bright or stay."""
    order, _, size, _ = bright
    first_dark = size[0]  # the snapshot: darkening moves data within order[:first_dark] and leaves the dark ones alone
    darken(rng, bright, settings[Q], settings[Q_BRIGHT])
    n = skip_over_dark(rng, order, first_dark, settings[Q], work[1])
    return finish_implicit(rng, gaps, theta, data, bright, work, settings, first_dark, n, count)


@compiled
def update_by_scan(rng, gaps, theta, data, bright, work, settings, count):  # type: ignore[no-untyped-def]  # as above
    """Update z as `update_by_skips` does, with a uniform for every dark datum."""
    order, _, size, _ = bright
    first_dark = size[0]
    darken(rng, bright, settings[Q], settings[Q_BRIGHT])
    n = scan_dark(rng, order, first_dark, settings[Q], work[1])
    return finish_implicit(rng, gaps, theta, data, bright, work, settings, first_dark, n, count)


@compiled
def update_explicit(rng, gaps, theta, data, bright, work, settings, count):  # type: ignore[no-untyped-def]  # as above
    """Draw z_i afresh for ceil(fraction N) data picked with replacement; one picked twice is drawn once."""
    order, position, size, log_odds = bright
    _, candidates, candidate_gaps, picked = work
    n_obs, first_dark = order.shape[0], size[0]
    n_dark, n_bright = 0, 0  # picked dark data fill the front of `candidates`, bright ones its end
    for _ in range(math.ceil(settings[Q] * n_obs)):
        datum = int(rng.random() * n_obs)
        if picked[datum]:
            continue
        picked[datum] = 1
        if position[datum] < first_dark:
            n_bright += 1
            candidates[n_obs - n_bright] = datum
        else:
            candidates[n_dark] = datum
            n_dark += 1
    for k in range(n_obs - n_bright, n_obs):
        datum = candidates[k]
        picked[datum] = 0
        if rng.random() < 1.0 / (1.0 + math.exp(min(MOST_GAP, log_odds[position[datum]]))):
            make_dark(bright, position[datum])
    fill_gaps(gaps, theta, data, candidates, n_dark, candidate_gaps)
    for k in range(n_dark):
        picked[candidates[k]] = 0
        if not candidate_gaps[k] >= LEAST_GAP:
            return -1
        if rng.random() < -math.expm1(-max(0.0, candidate_gaps[k])):
            make_bright(bright, candidates[k], log_odds_of(candidate_gaps[k]))
    count[TOUCHED] += n_dark + n_bright
    count[EVALUATIONS] += n_dark
    count[DARK] += n_dark
    return n_dark


# ------------------------------------------------------------------------------------------------- slice on the joint


@compiled
def slice_step(  # type: ignore[no-untyped-def]  # a kernel helper
    rng, gaps, log_bound, log_prior, data, sums, widths, max_steps, theta, proposed, bright, log_odds, parts, count
):
    """Draw theta from the slice of the joint density along a random direction; 1 where it moved, -1 where NaN was met.

    Neal (2003), figures 3 and 5: an interval of length 1 (in units of the direction) is stepped out and shrunk.
    """
    direction, log_height = np.empty(theta.shape[0]), current_log_joint(bright, parts) - rng.standard_exponential()
    kept = parts.copy()
    length = 0.0
    for j in range(theta.shape[0]):
        direction[j] = rng.standard_normal()
        length += direction[j] * direction[j]
    for j in range(theta.shape[0]):
        direction[j] *= widths[j] / math.sqrt(length)
    left = -rng.random()
    right = left + 1.0
    out_left = int(rng.random() * max_steps)
    out_right = max_steps - 1 - out_left
    for side in range(2):
        for _ in range(out_right if side else out_left):
            t = right if side else left
            for j in range(theta.shape[0]):
                proposed[j] = theta[j] + t * direction[j]
            inside = log_joint(gaps, log_bound, log_prior, data, sums, proposed, bright, log_odds, parts, count)
            if math.isnan(inside):
                return -1
            if inside <= log_height:
                break
            left -= 0.0 if side else 1.0
            right += 1.0 if side else 0.0
    for _ in range(LARGEST_SHRINKS):
        t = left + rng.random() * (right - left)
        for j in range(theta.shape[0]):
            proposed[j] = theta[j] + t * direction[j]
        inside = log_joint(gaps, log_bound, log_prior, data, sums, proposed, bright, log_odds, parts, count)
        if math.isnan(inside):
            return -1
        if inside > log_height:
            return 1
        left, right = (t, right) if t < 0.0 else (left, t)
    assign(parts, kept)
    return 0
