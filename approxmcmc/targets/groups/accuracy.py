"""Estimate the error of a quadrature over the posterior, in nats, by comparison with twice as many nodes.

Errors of quadrature fall geometrically in the number of nodes, so the difference between K and 2 K nodes is nearly the
error of K. A posterior depends only on how the error, summed over groups, changes with theta.

A normal approximation at the mode does not see a heavy tail: with five groups of equal rows and a half-Cauchy scale,
where 8 nodes err by 1e-6 nats in its reach, they err by .07 nats over a tenth of the posterior. So nodes and Newton
steps are added until tails are accurate, too. If they do not suffice, an error in a tail counts by the share of the
posterior that lies there, since it changes no more than that share.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.expansion.posterior import Posterior
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.targets.groups.linked import WITHOUT_WARNINGS

DRAWS = 8  # points at which the error is compared, besides the mean and those along scales
WIDER = 1.5  # factor of the standard deviations from which they are drawn: errors grow away from the mode
ALONG_SCALE = 3.0  # standard deviations from the mean to the points along a scale
DROP = 0.5 * ALONG_SCALE**2  # nats below the mode at that many standard deviations of a normal distribution
FARTHEST = 2.0**8  # times the first distance
MOST_GROUPS = 4000  # up to so many groups, all are checked
MANY_STEPS = 30  # Newton steps in a group of the reference with twice as many nodes: far more than it needs
MOST_STEPS = 8  # to which Newton steps are doubled if nodes alone do not suffice


class Accuracy(NamedTuple):
    """The largest change of the summed error over the points checked, and how many groups were checked.

    In tails the change is multiplied by the share of the posterior that lies there.
    """

    nats: float
    n_groups: int


def judge(target: Any, fit: Laplace | None, limit: float | None, nodes: Sequence[int]) -> Accuracy:
    """Return the accuracy of a target's quadrature, after more nodes are set until the error is at most `limit` nats.

    The target gets the first number among `nodes` that suffices. If none does, Newton steps are doubled while there are
    fewer than 8. With ``limit=None`` the target is unchanged. `fit` is an approximate posterior, or None to make one.
    """
    fit = fit or _normal_fit(target)
    n_obs = target.n_obs
    groups = np.arange(n_obs)
    if n_obs > MOST_GROUPS:
        # A fixed seed, and no stream of a chain: equal targets are judged alike, and no draw depends on this sample.
        groups = np.sort(np.random.default_rng(0).choice(n_obs, MOST_GROUPS, replace=False))
    near = points(fit, target.scale_coordinates)
    far, shares = points_of_tails(target, fit, groups)
    thetas = np.vstack([near, far])
    weights = np.concatenate([np.ones(len(near)), shares])
    changes = changes_of_error(target, thetas, groups)
    while limit is not None and changes.max() > limit and target.n_nodes < nodes[-1]:
        target.set_rule(n_nodes=min(n for n in nodes if n > target.n_nodes))
        changes = changes_of_error(target, thetas, groups)
    while limit is not None and changes.max() > limit and target.n_steps < MOST_STEPS:
        target.set_rule(n_steps=2 * target.n_steps)
        changes = changes_of_error(target, thetas, groups)
    matters = weights > 0.0  # an infinite change where there is no posterior is no error, and inf * 0 would be NaN
    return Accuracy(float((weights[matters] * changes[matters]).max()), len(groups))


def points(fit: Laplace, scales: Sequence[int]) -> np.ndarray:
    """Return the mean of `fit`, 8 draws from a wider one, and points 3 standard deviations away along each of `scales`.

    `scales` are the indices in theta of scales of effects; the points have shape (points, dim).
    """
    noise = np.random.default_rng(1).standard_normal((DRAWS, fit.mode.size))
    ends = np.zeros((2 * len(scales), fit.mode.size))
    for index, j in enumerate(scales):
        ends[2 * index : 2 * index + 2, j] = ALONG_SCALE * np.sqrt(fit.cov[j, j]) * np.array([1.0, -1.0])
    return np.asarray(fit.mode + np.vstack([np.zeros((1, fit.mode.size)), WIDER * noise @ fit.cholesky.T, ends]))


def points_of_tails(target: Any, fit: Laplace, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points farther out along scales of effects with heavy tails, such as those of a Cauchy prior, and shares.

    From 3 standard deviations of `fit` on the distance is doubled while the log posterior is less than 4.5 nats below
    that at the mode, where it would be for a normal distribution. `groups` represent all groups.

    The share of a point at the distance r is the mass between r / 2 and r, about f(r) r / 2 with the density f,
    relative to the mass f(0) sd sqrt(2 pi) of the bulk; at most 1.
    """
    better = _with_more_nodes(target)  # 16 nodes may err by several nats for a scale of 10
    log_prior = target.compile().log_prior
    sampled_share = len(groups) / target.n_obs

    def log_density(theta: np.ndarray) -> float:
        return float(log_prior(theta) + terms_of(better, theta[None], groups).sum() / sampled_share)

    highest = log_density(fit.mode)
    thetas = []
    shares = []
    for j in target.scale_coordinates:
        first = ALONG_SCALE * np.sqrt(fit.cov[j, j])
        for direction in (1.0, -1.0):
            distance = first
            theta = fit.mode.copy()
            theta[j] += direction * distance
            drop = highest - log_density(theta)
            while drop < DROP and distance < FARTHEST * first:
                distance *= 2.0
                theta = fit.mode.copy()
                theta[j] += direction * distance
                drop = highest - log_density(theta)
                thetas.append(theta)
                # f(r) / f(0) = exp(-drop) and r = deviations sd, so f(r) r / 2 over f(0) sd sqrt(2 pi) is this share.
                deviations = ALONG_SCALE * distance / first
                shares.append(min(1.0, math.exp(-drop) * deviations / math.sqrt(8.0 * math.pi)))
    return np.array(thetas).reshape((-1, fit.mode.size)), np.array(shares)


def _with_more_nodes(target: Any) -> Any:
    better = copy.copy(target)
    better.set_rule(n_nodes=2 * target.n_nodes, n_steps=MANY_STEPS)
    return better


@WITHOUT_WARNINGS
def changes_of_error(target: Any, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the absolute changes of sum_g (l_K - l_2K), over all groups, from the first theta to each, in nats.

    If `groups` are a sample, the sum is estimated, and two standard errors are added. A group that both sums call
    impossible has no error: the posterior is 0 there. A change that is not a number is infinite.
    """
    sums = terms_of(target, thetas, groups)
    better = terms_of(_with_more_nodes(target), thetas, groups)
    sampled_share = len(groups) / target.n_obs
    error = np.where(np.isneginf(sums) & np.isneginf(better), 0.0, sums - better)
    change = error - error[0]
    # Two standard errors of the sum over the sample, without replacement; 0 if all groups are in it.
    noise = 2.0 * np.sqrt(1.0 - sampled_share) * change.std(axis=1) * np.sqrt(len(groups))
    total = (np.abs(change.sum(axis=1)) + noise) / sampled_share
    return np.where(np.isnan(total), np.inf, total)


@WITHOUT_WARNINGS
def terms_of(target: Any, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the terms of `groups` at each of `thetas`; shape (thetas, groups)."""
    compiled = target.compile()
    terms = np.empty((len(thetas), len(groups)))
    for theta, out in zip(thetas, terms, strict=True):
        compiled.log_terms(theta, compiled.data, groups, 0, len(groups), out)
    return terms


def _normal_fit(target: Any) -> Laplace:
    """Return a normal distribution around the target's centre, with the size of the log posterior's curvature there."""
    values, vectors = np.linalg.eigh(-Posterior(target).at(target.center).hessian)
    cov = (vectors / np.maximum(np.abs(values), 1e-8)) @ vectors.T
    return Laplace(target.center, cov)
