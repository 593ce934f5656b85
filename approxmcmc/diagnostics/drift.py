r"""Whether new rows fit the posterior of the rows before them.

With the score of a block of rows, the gradient U of its log-likelihood at the posterior mean of the earlier rows, with
its variance G and minus its Hessian J, and with the earlier posterior's covariance Sigma,

.. math:: U' (V + J \Sigma J)^{-1} U \sim \chi^2_r, \quad V = \max(J, G),

if the rows follow the law of the earlier ones; r is the rank of J. V is the larger of J and G in each direction of the
whitened score, so rows that vary more than the model allows, every day alike, raise no alarm. A changed code, another
unit or a broken sensor moves the score: the test asks how far the new rows would pull the posterior, compared with what
chance explains.

`update` stores the result for each block in an attribute of the trace.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from approxmcmc.contracts import Finding

ATTRIBUTE = "updates"
# Smallest probability that is not reported: of 365 days that all fit, one is reported with probability .036.
LIMIT = 1e-4
NAME = "fit of new rows"
SMALLEST = 1e-12  # relative size of an eigenvalue of J that is 0 up to rounding
ADVICE = (
    "compare these rows with the earlier ones (codes, units, missing values); if they are wrong, take them out: "
    "target.remove(block)"
)


class Fit(NamedTuple):
    """How well a block of rows fits the earlier posterior.

    `statistic` is chi^2 with `rank` degrees of freedom, `probability` that of a larger one by chance; `worst` is the
    parameter with the largest departure, `departure` its score in standard deviations.
    """

    statistic: float
    rank: int
    probability: float
    worst: str
    departure: float


def fit_of_block(
    score: np.ndarray, hessian: np.ndarray, outer: np.ndarray, cov: np.ndarray, labels: Sequence[str]
) -> Fit:
    """Return how well a block fits the earlier posterior.

    Parameters
    ----------
    score
        Gradient of the block's log-likelihood at the earlier posterior mean; shape (dim,).
    hessian
        Its Hessian there; shape (dim, dim).
    outer
        Sum of g_i g_i' over the rows, with g_i the gradient of a term; shape (dim, dim).
    cov
        Covariance of the earlier posterior; shape (dim, dim).
    labels
        Names of the parameters.
    """
    scale = np.sqrt(np.maximum(np.diag(outer), np.finfo(float).tiny))  # units of the score, for the rank
    values, vectors = np.linalg.eigh(-hessian / np.outer(scale, scale))
    said = values > SMALLEST * max(values.max(initial=0.0), SMALLEST)
    rank = int(said.sum())
    if not rank:
        return Fit(0.0, 0, 1.0, "", 0.0)
    whiten = vectors[:, said] / np.sqrt(values[said]) / scale[:, None]
    of_rows, turned = np.linalg.eigh(whiten.T @ outer @ whiten)
    whiten = whiten @ turned
    moved = whiten.T @ hessian  # J Sigma J in whitened coordinates
    variance = np.diag(np.maximum(of_rows, 1.0)) + moved @ cov @ moved.T
    whitened = whiten.T @ score
    statistic = float(whitened @ np.linalg.solve(variance, whitened))
    departures = score / np.sqrt(np.diag(np.maximum(outer, -hessian)) + np.diag(hessian @ cov @ hessian) + 1e-300)
    worst = int(np.argmax(np.abs(departures)))
    return Fit(statistic, rank, float(chdtrc(rank, statistic)), labels[worst], float(departures[worst]))


def finding_of_fit(block: str, fit: Mapping[str, Any]) -> Finding:
    """Return the finding on one block."""
    numbers = {"value": fit["probability"], "limit": LIMIT, "where": f"block {block}"}
    chance = f"chance alone makes such a departure with probability {fit['probability']:.2g}"
    if fit["probability"] >= LIMIT:
        sentence = f"the rows of block {block!r} fit the posterior of the earlier rows: {chance}"
        return Finding(NAME, "ok", sentence, **numbers)
    sentence = (
        f"the rows of block {block!r} do not fit the posterior of the earlier rows: {chance} (limit: {LIMIT:g}). The "
        f"score of {fit['worst']} is off by {fit['departure']:.3g} standard deviations"
    )
    return Finding(NAME, "warning", sentence, ADVICE, **numbers)


def drift(attrs: Mapping[str, Any]) -> list[Finding]:
    """Return the findings on the blocks that a trace was updated with: those that do not fit, and the last one."""
    records = json.loads(attrs.get(ATTRIBUTE, "[]"))
    tested = [(record["block"], record["fit"]) for record in records if record.get("fit")]
    findings = [finding_of_fit(block, fit) for block, fit in tested]
    return [finding for k, finding in enumerate(findings) if finding.fires or k == len(findings) - 1]
