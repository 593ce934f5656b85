r"""Estimate the error of one decision of a real sampler: replicate decisions at pairs that the chain visits.

At a pair (x, x') the exact acceptance probability P_a is computed from all data. Of M independent decisions of the
test, each with a new u and new subsets, K accept. With B pairs and the confidence 1 - alpha for all of them together,
Clopper and Pearson's interval [lo, hi] at level 1 - alpha/B gives

    U_b = max(|lo - P_a|, |hi - P_a|).

Statements that can be made:

sampled    max_b U_b bounds the largest error over the *sampled* pairs with probability 1 - alpha: rigorous.
quantile   for independent pairs, at most a share s of the pair distribution errs by more than max_b U_b, with
           probability 1 - (1 - s)^B - alpha: rigorous; 0.9505 - alpha for B = 299, s = 0.01.
supremum   max_b U_b is taken for Delta_max, the largest error over all pairs: heuristic; Theorem 1 needs Delta_max.
model      the largest error of the Gaussian regime at the sampled pairs: heuristic, without sampling noise.
mean       mean_b |K/M - P_a| estimates E|Delta| from above (its own noise is not subtracted): with Hoeffding's
           inequality, for independent pairs, a rigorous upper limit, which the bound B4 of `bounds.statements` may use
           in place of E delta.

References: Clopper and Pearson (1934); Korattikara, Chen and Welling (2014), Austerity in MCMC Land, theorem 1.
"""

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance.laws.probability import exact_probability, gaussian_probability
from approxmcmc.bounds.finite import HEURISTIC, NOT_APPLICABLE, RIGOROUS
from approxmcmc.contracts import AcceptanceTest, Decision, TestedSampler
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.sampling.assembly import assemble, make_steps
from approxmcmc.sampling.progress import progress

if TYPE_CHECKING:
    import xarray as xr

MOST_STEPS = 2000  # steps in one call of the chain, which take some 10 to 100 ms


def quantile_confidence(n_pairs: int, share: float) -> float:
    """Return the probability that at most a `share` of a distribution exceeds the largest of its independent draws.

    The number of draws is `n_pairs`.

    Examples
    --------
    >>> round(quantile_confidence(299, 0.01), 4)
    0.9505
    """
    return -math.expm1(n_pairs * math.log1p(-share))


@naming_the_arguments
def estimate_delta(
    target: Any,
    sampler: Any,
    *,
    n_pairs: int = 299,
    replications: int = 2000,
    states: Any = None,
    tune: int = 1000,
    thin: int = 10,
    confidence: float = 0.95,
    share: float = 0.01,
    initvals: Any = None,
    random_seed: Any = None,
    progressbar: bool = True,
) -> "xr.Dataset":
    """Estimate the error of an approximate test's acceptance probabilities, with confidence limits.

    Parameters
    ----------
    target, sampler
        A target and the `MetropolisHastings` or `Gibbs` sampler whose decisions are replicated.
    n_pairs, replications
        Number B of pairs (for Gibbs: of states, each with a site to update), and number M of decisions at each pair.
    states
        Independent states, shape (n_pairs, dim), such as draws of a gold standard. None: states of one chain, `thin`
        steps apart after `tune` steps; they are dependent, and the statements that need independence become heuristic.
    confidence
        1 - alpha, the probability that all intervals hold at once (union bound).
    share
        s of the quantile statement.
    initvals, random_seed, progressbar
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        Dim ``pair``: `log_ratio`; `tau`, the scale of the terms; `accepted`, how many of the M decisions accepted;
        `exact`, the exact acceptance probability; `realised` = accepted / M; `error` = realised - exact with its
        limits `error_lower` and `error_upper`; `error_bound`, the larger of their absolute values; `error_model`, the
        error in the Gaussian regime.
        Scalars, each with a ``label_``: `delta_sampled`, `delta_quantile` (with `quantile_confidence`), `delta_max`,
        `delta_max_model`, `mean_error`, `mean_error_upper`; and `mean_error_interval` (limit), a 95 % interval of
        `mean_error` over pairs. Attributes: `datapoints_touched` and `seconds`, the cost of the replications, and
        `likelihood_evaluations_exact`, the cost of `exact`.

    Raises
    ------
    IncompatibleError
        When the sampler is neither Metropolis-Hastings nor Gibbs with a test, or the test changes during a run.
    InvalidInputError
        When a number is out of range or `states` has the wrong shape.

    Notes
    -----
    Nothing here bounds the supremum over all pairs: `delta_max` is always labelled heuristic.

    A test that reads blocks is replicated with fresh rows, so its errors are averages over partitions of the data. A
    run with 150 blocks or more reads one partition only, which adds an error at each pair: on Covertype with 186 blocks
    its rms is .014; the rms error of the test is .043. Audits of the run include this error.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> field = amc.targets.BinaryMRF.random_triples(8, scale=0.3, random_seed=0)
    >>> found = amc.bounds.estimate_delta(
    ...     field, amc.Gibbs(amc.SequentialTTest(0.2, 5)), n_pairs=20, replications=50, random_seed=1, progressbar=False
    ... )
    >>> str(found["label_delta_sampled"].values), str(found["label_delta_max"].values)
    ('rigorous', 'heuristic')
    """
    _check(n_pairs, replications, confidence, share)
    if isinstance(sampler, TestedSampler) and not sampler.test.is_homogeneous:
        raise IncompatibleError(
            "estimate_delta: the test must be the same at every step, but an annealed test errs differently in each "
            f"epoch, found {sampler.test!r}; estimate the error at one epsilon at a time, with SequentialTTest"
        )
    _, seed = seed_sequences(random_seed, 1)
    assembled = assemble(target, sampler, seed=seed, chains=1, tune=tune, initvals=initvals)
    [chain] = assembled.chains
    [own] = assembled.streams
    program = assembled.program
    points = None if states is None else np.asarray(states, dtype=np.float64)
    if points is None:
        visited = visited_states(chain, tune, n_pairs, thin, target.variables.size)
    elif points.shape == (n_pairs, target.variables.size):
        visited = points
    else:
        raise InvalidInputError(
            f"estimate_delta: states must have shape ({n_pairs}, {target.variables.size}), found {points.shape}"
        )
    started = time.perf_counter()
    with progress(n_pairs, show=progressbar, label=f"deciding {replications} times", time_limit=None) as shown:
        decisions = []
        for decision in sampler.replicate(target, program, chain, visited, replications, own):
            decisions.append(decision)
            shown.update(len(decisions))
    table = table_of_decisions(sampler.test, decisions)
    estimate = _judged(table, replications, confidence, share, independent=points is not None)
    estimate.attrs |= {
        "datapoints_touched": sum(decision.touched for decision in decisions),
        "likelihood_evaluations_exact": 2 * sum(decision.n_obs for decision in decisions),
        "seconds": time.perf_counter() - started,
        "replications": replications,
        "confidence": confidence,
        "seed": str(seed),
        "sampler": repr(sampler),
    }
    return estimate


def visited_states(chain: Any, tune: int, n_draws: int, thin: int, dim: int) -> np.ndarray:
    """Advance a chain and return every `thin`-th state after `tune` steps, shape (n_draws, dim)."""
    kept = []
    for rows, every, keep_them in ((tune, 1, False), (n_draws, thin, True)):
        done = 0
        while done < rows:
            n = min(rows - done, max(1, MOST_STEPS // every))
            draws = make_steps(chain, n, dim, thin=every, message="estimate_delta: the chain failed").draws
            done += n
            if keep_them:
                kept.append(draws)
    return np.concatenate(kept)


def table_of_decisions(test: AcceptanceTest, decisions: Sequence[Decision]) -> dict[str, list[float]]:
    """Return columns with one entry for each decision, by name.

    `log_ratio`; `tau`, the scale of its terms; `exact`, the exact acceptance probability; `accepted`, how many of the
    replications accepted; `error_model`, the test's error of that probability in the Gaussian regime.
    """
    names = ("log_ratio", "tau", "exact", "accepted", "error_model")
    rows = [(d.log_ratio, d.tau, *_probabilities(test, d)) for d in decisions]
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def _probabilities(test: AcceptanceTest, decision: Decision) -> tuple[float, float, float]:
    """Return the exact acceptance probability, how many replications accepted, and the error in the Gaussian regime.

    That error is the acceptance probability that holds if batch means are normal, minus the exact one; NaN if unknown.
    For a test that always accepts it is 1 - exact.
    """
    log_ratio, tau, n_obs, rule, accepted, _ = decision
    exact = float(exact_probability(np.array([log_ratio]), rule)[0])
    if not test.uses_ratio:
        return exact, accepted, 1.0 - exact
    if not math.isfinite(log_ratio):  # the Gaussian regime does not cover data of probability 0
        return exact, accepted, 0.0 if tau == 0.0 else math.nan
    try:
        model = gaussian_probability(test, np.array([log_ratio]), np.array([tau]), n_obs, rule)
    except IncompatibleError:
        return exact, accepted, math.nan
    return exact, accepted, float(model[0]) - exact


def _check(n_pairs: int, replications: int, confidence: float, share: float) -> None:
    for name, value, least in (("n_pairs", n_pairs, 1), ("replications", replications, 1)):
        checked_integer(value, name, least, whole_floats=True)
    for name, level in (("confidence", confidence), ("share", share)):
        if not 0.0 < level < 1.0:
            raise InvalidInputError(f"estimate_delta: {name} must lie strictly between 0 and 1, found {level!r}")


def _judged(
    table: dict[str, list[float]], replications: int, confidence: float, share: float, *, independent: bool
) -> "xr.Dataset":
    import xarray as xr

    columns = {name: np.asarray(values, dtype=np.float64) for name, values in table.items()}
    n_pairs = len(columns["exact"])
    alpha = 1.0 - confidence
    lower, upper = clopper_pearson(columns["accepted"], np.full(n_pairs, replications), 1.0 - alpha / n_pairs)
    error = columns["accepted"] / replications - columns["exact"]
    limits = [lower - columns["exact"], upper - columns["exact"]]
    # A proposal outside the support is rejected before any test runs, so it cannot be decided wrongly.
    certain = (columns["log_ratio"] == -math.inf) & (columns["tau"] == 0.0)
    limits = [np.where(certain, 0.0, limit) for limit in limits]
    bound = np.maximum(*np.abs(limits))
    size = np.abs(error)
    spread = 1.96 * size.std(ddof=1) / math.sqrt(n_pairs) if n_pairs > 1 else math.nan
    iid = RIGOROUS if independent else HEURISTIC
    has_model = np.isfinite(columns["error_model"]).any()
    scalars = {
        "delta_sampled": (bound.max(), RIGOROUS, "largest error over the sampled pairs, upper confidence limit"),
        "delta_quantile": (bound.max(), iid, f"exceeded by at most a share {share:g} of pairs, upper confidence limit"),
        "delta_max": (bound.max(), HEURISTIC, "largest error over all pairs, estimated from the sampled pairs"),
        "delta_max_model": (
            np.nanmax(np.abs(columns["error_model"])) if has_model else math.nan,
            HEURISTIC if has_model else NOT_APPLICABLE,
            "largest error at the sampled pairs in the Gaussian regime",
        ),
        "mean_error": (size.mean(), HEURISTIC, "mean absolute error over pairs, biased upwards by its own noise"),
        "mean_error_upper": (
            min(1.0, size.mean() + math.sqrt(math.log(1.0 / alpha) / (2.0 * n_pairs))),
            iid,
            "upper confidence limit of the mean absolute error (Hoeffding)",
        ),
    }
    data: dict[str, Any] = {name: ("pair", values) for name, values in columns.items()}
    data |= {"realised": ("pair", columns["accepted"] / replications), "error": ("pair", error)}
    data |= {"error_lower": ("pair", limits[0]), "error_upper": ("pair", limits[1]), "error_bound": ("pair", bound)}
    for name, (value, label, text) in scalars.items():
        data[name] = ((), float(value), {"long_name": text, "units": "1", "label": label})
        data[f"label_{name}"] = label
    data["mean_error_interval"] = ("limit", [size.mean() - spread, size.mean() + spread])
    data["quantile_confidence"] = quantile_confidence(n_pairs, share) - alpha
    return xr.Dataset(data, coords={"limit": ["lower", "upper"]})
