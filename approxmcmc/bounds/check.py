"""Compare measured distances with bounds, at several values of one knob of a sampler, and give a verdict for each.

For each value of the knob, measure the *distance* of the approximate stationary distribution from the posterior, and
compare it with every bound. The verdict follows from its confidence limits:

PASS           the upper limit of the distance is at most the bound
FAIL           the lower limit is above it: if the bound is rigorous, the theory or an implementation is wrong
INCONCLUSIVE   neither
no bound       the bound does not exist, because a contraction coefficient is unknown or 1 (every random walk on R^d)

A verdict is only as strong as its bound: a vacuous one (1 or more) passes at any distance, a heuristic one may fail.

There are two routes. If a transition matrix is available (a discrete target of at most 2048 states, or a `grid`),
:func:`approxmcmc.bounds.exact` computes the bounds B1 to B5 of `bounds.statements`. Otherwise the contraction
coefficient is 1 or unknown: B1 to B4 do not exist, and B5 exists if `coupled` is given.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.chains import (
    common_limit,
    joined_groups,
    measured_distance,
    reads_all,
    settings_of,
    trace_of,
)
from approxmcmc.bounds.delta import estimate_delta
from approxmcmc.bounds.distance import Distance
from approxmcmc.bounds.finite import HEURISTIC, LARGEST_MATRIX, NOT_APPLICABLE, ONE_SIDED, RIGOROUS, transition_matrix
from approxmcmc.bounds.statements import exact, label_of
from approxmcmc.contracts import DiscreteTarget, TestedSampler
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import IncompatibleError
from approxmcmc.reference.exact_chain import run_kernel

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

PASS = "PASS"
FAIL = "FAIL"
INCONCLUSIVE = "INCONCLUSIVE"
NO_BOUND = "no bound"
VERDICTS = (PASS, FAIL, INCONCLUSIVE, NO_BOUND)
BOUNDS = ("b1", "b2", "b3", "b4", "b5", "b1_delta_max", "b2_delta_max", "b3_delta_max", "b5_delta_max")


def verdict_of(distance: Distance, bound: float) -> str:
    """Return the verdict on one bound; a NaN bound is "no bound", unknown limits are "INCONCLUSIVE"."""
    if math.isnan(bound):
        return NO_BOUND
    if distance.upper <= bound:
        return PASS
    return FAIL if distance.lower > bound else INCONCLUSIVE


@naming_the_arguments
def check_bound(
    target: Any,
    sampler: Any,
    *,
    epsilons: Sequence[float] | None = None,
    knob: str = "epsilon",
    reference: Any = None,
    grid: Any = None,
    traces: Mapping[float, Any] | None = None,
    coupled: "xr.Dataset | None" = None,
    draws: int = 2000,
    tune: int = 500,
    chains: int = 4,
    n_pairs: int = 60,
    replications: int = 500,
    method: str = "auto",
    confidence: float = 0.95,
    random_seed: Any = None,
    progressbar: bool = True,
) -> "xr.DataTree":
    """Compare the distance of an approximate stationary distribution from the posterior with the bounds of the theory.

    Parameters
    ----------
    target
        As in `sample`.
    sampler
        `MetropolisHastings` or `Gibbs` whose test has an `epsilon`; or, for any other knob, a dict from the knob's
        values to samplers that all approximate one exact chain: ``{n: amc.Exchange(walk, n) for n in (1, 2, 5)}``.
    epsilons
        With one sampler: values of epsilon; each replaces the epsilon of the sampler's test.
    knob
        Meaning of the dict's keys, such as "target_variance": the name of the dim.
    reference
        A gold standard (DataTree with a posterior) for marginal distances. None: NUTS is not run; the distance is
        computed from the transition matrices, or between the draws and the enumerated distribution; with neither it is
        unknown (NaN).
    grid
        Points for :func:`transition_matrix`; discrete targets need none.
    traces
        Traces by value of the knob, if the chains have already run.
    coupled
        Output of :func:`couplings`: its heuristic (C, rho) are used in Mitrophanov's bound if there is no matrix.
    draws, tune, chains
        Arguments of `sample` for each value, used if no `traces` are given and draws are needed.
    n_pairs, replications
        Arguments of :func:`estimate_delta` for each value, used if there is no matrix; ``n_pairs=0`` skips it.
    method
        Argument of :func:`transition_matrix`.
    confidence
        Level of the limits of each distance.
    random_seed, progressbar
        As in `sample`.

    Returns
    -------
    xarray.DataTree
        At the root, with dims `knob` and ``bound`` (b1 ... b5, and all but b4 also with Delta_max for delta, see
        :func:`exact`): `value`, `label`, `verdict`, `looseness`. With dim `knob`: `distance`, `distance_lower`,
        `distance_upper`, `noise_floor`, `wasserstein` and its noise floor, `tv` (from the matrices) with `label_tv`,
        `delta`, `delta_max` with `label_delta_max`. With dim ``k``: ``eta``, the contraction of k exact steps, if there
        is a matrix. Groups ``posterior`` and ``sample_stats`` hold the draws, with `knob` as first dim.
        :func:`check_table` makes a DataFrame.

    Raises
    ------
    IncompatibleError
        When the sampler's test has no epsilon, samplers of a dict approximate different exact chains, or no transition
        matrix of a needed kernel can be computed.
    InvalidInputError
        When there is no value to check, or `traces` lacks one.

    Notes
    -----
    A transition matrix in the Gaussian regime describes the sampler approximately, and a matrix on a grid describes a
    truncated state space; so bounds from these matrices are labelled heuristic as statements on the sampler. For noisy
    exchange with three or more draws the computed delta is slightly too large: `b4` and `tv` are then heuristic, the
    other bounds rigorous. `looseness` is bound / `tv` if matrices give the truth, otherwise bound / distance if the
    distance is above its noise. A heuristic `tv` outside the interval of the distance does not count as the truth. PASS
    with a marginal distance is a statement on marginals only.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> field = amc.targets.BinaryMRF.random_triples(6, scale=0.3, random_seed=0)
    >>> found = amc.check_bound(
    ...     field,
    ...     amc.Gibbs(amc.SequentialTTest(0.1, 5)),
    ...     epsilons=[0.0, 0.1],
    ...     draws=500,
    ...     chains=2,
    ...     random_seed=1,
    ...     progressbar=False,
    ... )
    >>> str(found["verdict"].sel(epsilon=0.0, bound="b3").values)
    'INCONCLUSIVE'
    """
    import xarray as xr

    settings = settings_of(sampler, epsilons)
    limit = common_limit(settings, target)
    finite = grid is not None or (
        isinstance(target, DiscreteTarget) and math.prod(target.n_states.tolist()) <= LARGEST_MATRIX
    )
    _, seed = seed_sequences(random_seed, 1)
    enumerated = isinstance(target, DiscreteTarget) and finite
    if traces is None and draws > 0 and (reference is not None or enumerated):
        first = seed if isinstance(seed, int) else seed[0]
        length = {"draws": draws, "tune": tune, "thin": 1, "chains": chains, "random_seed": first}
        traces = {
            value: run_kernel(target, variant, length, cores=1, progressbar=progressbar, audit_every="auto")
            for value, variant in settings.items()
        }
    exact_matrix = transition_matrix(target, limit, grid) if finite else None
    rows = []
    etas = None
    for value, variant in settings.items():
        if finite:
            check = _from_matrices(target, variant, exact_matrix, grid, method)
            if grid is not None and reference is not None:  # bounds are for the grid, the distance is not
                check["labels"] = {name: label_of(bound, heuristic=True) for name, bound in check["values"].items()}
            etas = check.pop("eta")
        else:
            check = _from_decisions(target, variant, coupled, n_pairs, replications, seed, progressbar)
        trace = None if traces is None else trace_of(traces, value, knob)
        rows.append(check | measured_distance(target, trace, reference, check, enumerated, confidence))
    root = _root(rows, list(settings), knob)
    if etas is not None:
        root["eta"] = etas
    root.attrs = {
        "sampler": repr(sampler),
        "target": repr(target),
        "knob": knob,
        "seed": str(seed),
        "confidence": confidence,
        "distance_source": rows[0]["source"],
        "route": _route(target, finite),
    }
    groups = {"/": root, **(joined_groups(traces, list(settings), knob) if traces else {})}
    return xr.DataTree.from_dict(groups)


def _route(target: Any, finite: bool) -> str:
    if not finite:
        return "replicated decisions; no contraction coefficient is available, so B1 to B4 do not exist"
    if isinstance(target, DiscreteTarget):
        return "transition matrices on all states"
    return "transition matrices on the grid, a truncated state space; the chain on R^d itself has eta = 1"


def check_table(check: "xr.DataTree") -> "pd.DataFrame":
    """Return a table with one row per value of the knob and bound: value, label, verdict, looseness, distance, limits.

    Parameters
    ----------
    check
        From :func:`check_bound`.
    """
    names = ["value", "label", "verdict", "looseness"]
    frame = check.dataset[names].to_dataframe().reset_index()
    by_value = ["distance", "distance_lower", "distance_upper", "noise_floor"]
    return frame.join(check.dataset[by_value].to_dataframe(), on=check.attrs["knob"])


def _from_matrices(target: Any, sampler: Any, T: Any, grid: Any, method: str) -> dict[str, Any]:
    T_hat = transition_matrix(target, sampler, grid, method=method)
    bounds = exact(T, T_hat)
    worth = T_hat.attrs["label"]
    # The delta of a one-sided matrix is too large, and b4 averages over its stationary distribution, not the sampler's.
    of_delta, of_law = (HEURISTIC if worth in worse else RIGOROUS for worse in ((HEURISTIC,), (HEURISTIC, ONE_SIDED)))
    values = {name: float(bounds[name]) for name in BOUNDS if name in bounds}
    return {
        "values": values,
        "labels": {
            name: label_of(value, heuristic=(of_law if name == "b4" else of_delta) == HEURISTIC)
            for name, value in values.items()
        },
        "tv": float(bounds["tv"]),
        "label_tv": of_law,
        "delta": float(bounds["delta"]),
        "delta_max": float(bounds["delta_max"]),
        "label_delta_max": of_delta,
        "stationary": bounds["stationary"].to_numpy(),
        "eta": bounds["eta"],
    }


def _from_decisions(
    target: Any, sampler: Any, coupled: Any, n_pairs: int, replications: int, seed: Any, show: bool
) -> dict[str, Any]:
    """Return a row of results without a matrix: Delta_max from replicated decisions, and B5 if `coupled` is given.

    Delta_max is 0 if every decision reads all data, NaN if ``n_pairs=0``.
    """
    if not isinstance(sampler, TestedSampler):
        raise IncompatibleError(f"check_bound: {sampler!r} has no acceptance test; give grid=, a grid of states")
    delta_max = math.nan
    label = NOT_APPLICABLE
    if reads_all(sampler, target):
        delta_max = 0.0
        label = RIGOROUS
    elif n_pairs > 0:
        decided = estimate_delta(
            target, sampler, n_pairs=n_pairs, replications=replications, random_seed=seed, progressbar=show
        )
        delta_max = float(decided["delta_max"])
        label = HEURISTIC
    factor = math.nan if coupled is None else float(coupled["b5_factor"])
    bound = factor * sampler.decisions_per_step(target) * delta_max
    return {
        "values": {"b5_delta_max": bound},
        "labels": {"b5_delta_max": label_of(bound, heuristic=True)},
        "tv": math.nan,
        "label_tv": NOT_APPLICABLE,
        "delta": math.nan,
        "delta_max": delta_max,
        "label_delta_max": label,
    }


def _root(rows: list[dict[str, Any]], settings: list[float], knob: str) -> "xr.Dataset":
    import xarray as xr

    values = np.array([[row["values"].get(name, math.nan) for name in BOUNDS] for row in rows])
    labels = [[row["labels"].get(name, NOT_APPLICABLE) for name in BOUNDS] for row in rows]
    verdicts = [[verdict_of(row["distance"], value) for value in line] for row, line in zip(rows, values, strict=True)]
    distances = np.array([row["distance"] for row in rows])
    # Divide by the truth if the matrices give it, otherwise by the distance, unless noise alone explains the distance.
    tv = np.array([row["tv"] for row in rows])
    refuted = np.array([row["label_tv"] == HEURISTIC for row in rows]) & (
        (tv < distances[:, 1]) | (tv > distances[:, 2])
    )
    measured = np.where(distances[:, 1] > 0.0, distances[:, 0], np.nan)
    truth = np.where(np.isnan(tv) | refuted, measured, tv)
    truth = np.where(truth > 0.0, truth, np.nan)
    looseness = values / truth[:, None]
    table = (knob, "bound")
    data: dict[str, Any] = {
        "value": (table, values, {"long_name": "bound on the distance", "units": "1"}),
        "label": (table, labels),
        "verdict": (table, verdicts),
        "looseness": (table, looseness, {"long_name": "bound / truth", "units": "1"}),
    }
    for column, name in enumerate(("distance", "distance_lower", "distance_upper", "noise_floor")):
        data[name] = (knob, distances[:, column])
    for name in ("wasserstein", "wasserstein_floor", "tv", "label_tv", "delta", "delta_max", "label_delta_max"):
        data[name] = (knob, [row[name] for row in rows])
    return xr.Dataset(data, coords={knob: settings, "bound": list(BOUNDS)})
