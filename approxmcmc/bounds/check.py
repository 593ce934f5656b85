"""Compare measured distances with bounds, at several values of one knob of a sampler, and give a verdict for each.

For each value of the knob, measure the *distance* of the approximate stationary distribution from the posterior, and
compare it with every bound. The verdict follows from its confidence limits:

PASS           the upper limit of the distance is at most the bound
FAIL           the lower limit is above it: if the bound is rigorous, the theory or an implementation is wrong
INCONCLUSIVE   neither
no bound       the bound does not exist: a coefficient is unknown, or 1 as in total variation for every walk on R^d

A verdict is only as strong as its bound: a vacuous one (1 or more) passes at any distance, a heuristic one may fail.

There are two routes. If a transition matrix is available (a discrete target of at most 2048 states, or a `grid`),
:func:`approxmcmc.bounds.exact` computes the bounds B1 to B5 of `bounds.statements`. Otherwise Dobrushin's coefficient
is 1 or unknown: B1 to B3 do not exist, and B5 exists if `coupled` is given. B4 and the bounds W2 and W4 on the
Wasserstein distance then follow wrong decisions by coupled chains (`bounds.followed`); they exist on R^d.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
from approxmcmc.bounds.finite import (
    HEURISTIC,
    LARGEST_MATRIX,
    NOT_APPLICABLE,
    ONE_SIDED,
    RIGOROUS,
    VACUOUS,
    transition_matrix,
)
from approxmcmc.bounds.followed import perturbation
from approxmcmc.bounds.statements import exact, label_of
from approxmcmc.bounds.wasserstein import STEPS, contraction
from approxmcmc.contracts import DiscreteTarget, TestedSampler
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.couplings.measure import draws_of
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
OF_WASSERSTEIN = ("w2", "w4")
BOUNDS = ("b1", "b2", "b3", "b4", "b5", "b1_delta_max", "b2_delta_max", "b3_delta_max", "b5_delta_max", *OF_WASSERSTEIN)
STEPS_OF_CONTRACTION = (*STEPS, 100, 200)
PAIRS = 10
CHAINS_PER_PAIR = 30
FOLLOWED = ("b4", *OF_WASSERSTEIN)  # bounds that audits and coupled chains give


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
    n_audits: int = 400,
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
        Traces by value of the knob, if the chains have already run; each a trace, or a list of traces of single chains.
    coupled
        Output of :func:`couplings`: its heuristic (C, rho) are used in Mitrophanov's bound if there is no matrix.
    draws, tune, chains
        Arguments of `sample` for each value, used if no `traces` are given and draws are needed.
    n_pairs, replications
        Arguments of :func:`estimate_delta` for each value, used if there is no matrix; ``n_pairs=0`` skips it.
    n_audits
        Draws of each value whose decisions are audited and followed (:func:`perturbation`), used if there is no matrix;
        0 skips it. The norm is that of the reference's covariance; without a reference, of the Laplace approximation.
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
        :func:`exact`; w2 and w4, see :func:`perturbation`): `value`, `label`, `verdict`, `looseness`, and `premises`,
        what a bound rests on, or why it is missing. With dim `knob`: `distance`, `distance_lower`, `distance_upper`,
        `noise_floor`; the same for the Wasserstein distance, which w2 and w4 bound: `wasserstein`,
        `wasserstein_lower`, `wasserstein_upper`, `wasserstein_floor`; `tv` (from the matrices) with `label_tv`;
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
    with a marginal distance is a statement on marginals only. The Wasserstein distance is in posterior standard
    deviations, so a bound of 1 or more on it is not vacuous.

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
    followed = not finite and n_audits > 0
    if traces is None and draws > 0 and (reference is not None or enumerated or followed):
        first = seed if isinstance(seed, int) else seed[0]
        length = {"draws": draws, "tune": tune, "thin": 1, "chains": chains, "random_seed": first}
        traces = {
            value: run_kernel(target, variant, length, cores=1, progressbar=progressbar, audit_every="auto")
            for value, variant in settings.items()
        }
    exact_matrix = transition_matrix(target, limit, grid) if finite else None
    rows = []
    etas = None
    follow = Follow(target, limit, reference, n_audits, seed) if followed else None
    for value, variant in settings.items():
        if finite:
            check = _from_matrices(target, variant, exact_matrix, grid, method)
            if grid is not None and reference is not None:  # bounds are for the grid, the distance is not
                check["labels"] = {name: label_of(bound, heuristic=True) for name, bound in check["values"].items()}
            etas = check.pop("eta")
        else:
            check = _from_decisions(target, variant, coupled, n_pairs, replications, seed, progressbar)
        trace = None if traces is None else trace_of(traces, value, knob)
        if follow is not None:
            add_followed(check, follow(variant, trace))
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
        return "replicated decisions, audits and coupled chains; Dobrushin's coefficient is unknown, so no B1 to B3"
    if isinstance(target, DiscreteTarget):
        return "transition matrices on all states"
    return "transition matrices on the grid, a truncated state space; the chain on R^d itself has eta = 1"


def check_table(check: "xr.DataTree") -> "pd.DataFrame":
    """Return a table with one row per value of the knob and bound: value, label, verdict, looseness, distance, limits.

    The distance of a row is the one that its bound is on: total variation, or for w2 and w4 the Wasserstein distance.

    Parameters
    ----------
    check
        From :func:`check_bound`.
    """
    names = ["value", "label", "verdict", "looseness"]
    frame = check.dataset[names].to_dataframe().reset_index()
    by_value = ["distance", "distance_lower", "distance_upper", "noise_floor"]
    moved = ["wasserstein", "wasserstein_lower", "wasserstein_upper", "wasserstein_floor"]
    frame = frame.join(check.dataset[by_value + moved].to_dataframe(), on=check.attrs["knob"])
    of_wasserstein = frame["bound"].isin(OF_WASSERSTEIN)
    frame.loc[of_wasserstein, by_value] = frame.loc[of_wasserstein, moved].to_numpy()
    return frame.drop(columns=moved)


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


class Bounds(NamedTuple):
    """Values of bounds by name, their labels, and what they rest on."""

    values: dict[str, float]
    labels: dict[str, str]
    premises: dict[str, str]


def without(why: str) -> Bounds:
    """Return the bounds of `FOLLOWED` that do not exist, with the reason."""
    return Bounds(
        dict.fromkeys(FOLLOWED, math.nan), dict.fromkeys(FOLLOWED, NOT_APPLICABLE), dict.fromkeys(FOLLOWED, why)
    )


class Follow:
    """Bounds by audits and coupled chains (`bounds.followed`) for one setting after another of one exact chain.

    The contraction is that of the exact chain, so it is measured once, for pairs of draws of the first setting.
    """

    def __init__(self, target: Any, limit: Any, reference: Any, n_audits: int, seed: Any) -> None:
        self.target = target
        self.limit = limit
        self.metric = None if reference is None else covariance_of(reference, target)
        self.n_audits = n_audits
        self.seed = seed
        self.contracted: xr.Dataset | None = None

    def __call__(self, sampler: Any, trace: Any) -> Bounds:
        """Return the bounds of a sampler, from its trace or the traces of its chains."""
        if reads_all(sampler, self.target):
            nothing = dict.fromkeys(FOLLOWED, 0.0)
            return Bounds(
                nothing, dict.fromkeys(FOLLOWED, RIGOROUS), dict.fromkeys(FOLLOWED, "every decision reads all data")
            )
        if trace is None:
            return without("there are no draws to audit: give traces, or draws > 0")
        traces = list(trace) if isinstance(trace, (list, tuple)) else [trace]
        why = sampler.why_no_audits(self.target, draws_of(traces[0], self.target).adapted)
        if why:
            return without(f"decisions cannot be audited: {why}")
        if self.contracted is None:
            self.contracted = contraction(
                self.target,
                self.limit,
                traces[0],
                n_pairs=PAIRS,
                steps=STEPS_OF_CONTRACTION,
                metric=self.metric,
                replications=CHAINS_PER_PAIR,
                random_seed=self.seed,
            )
        followed_bounds = perturbation(
            traces,
            self.target,
            sampler,
            contracted=self.contracted,
            metric=self.metric,
            n_audits=self.n_audits,
            random_seed=self.seed,
        )
        values = {name: float(followed_bounds[name]) for name in FOLLOWED}
        labels = {name: str(followed_bounds[f"label_{name}"].item()) for name in FOLLOWED}
        if values["b4"] >= 1.0 and labels["b4"] != NOT_APPLICABLE:
            labels["b4"] = VACUOUS
        exists = {name: label != NOT_APPLICABLE for name, label in labels.items()}
        return Bounds(
            {name: value if exists[name] else math.nan for name, value in values.items()},
            labels,
            {name: str(followed_bounds[f"premises_{name}"].item()) for name in FOLLOWED},
        )


def add_followed(check: dict[str, Any], followed_bounds: Bounds) -> None:
    """Add bounds by audits to a row of results."""
    check["values"] |= followed_bounds.values
    check["labels"] |= followed_bounds.labels
    check["premises"] = followed_bounds.premises


def covariance_of(reference: Any, target: Any) -> np.ndarray:
    """Return the covariance matrix of the draws of a gold standard, in the order of the target's parameters."""
    draws = draws_of(reference, target).flat
    return np.atleast_2d(np.cov(draws, rowvar=False, ddof=0))


def _root(rows: list[dict[str, Any]], settings: list[float], knob: str) -> "xr.Dataset":
    import xarray as xr

    values = np.array([[row["values"].get(name, math.nan) for name in BOUNDS] for row in rows])
    labels = [[row["labels"].get(name, NOT_APPLICABLE) for name in BOUNDS] for row in rows]
    verdicts = [
        [
            verdict_of(row["moved" if name in OF_WASSERSTEIN else "distance"], value)
            for name, value in zip(BOUNDS, line, strict=True)
        ]
        for row, line in zip(rows, values, strict=True)
    ]
    premises = [[row.get("premises", {}).get(name, "") for name in BOUNDS] for row in rows]
    distances = np.array([row["distance"] for row in rows])
    moved = np.array([row["moved"] for row in rows])
    # Divide by the truth if the matrices give it, otherwise by the distance, unless noise alone explains the distance.
    tv = np.array([row["tv"] for row in rows])
    refuted = np.array([row["label_tv"] == HEURISTIC for row in rows]) & (
        (tv < distances[:, 1]) | (tv > distances[:, 2])
    )
    measured, measured_move = (np.where(columns[:, 1] > 0.0, columns[:, 0], np.nan) for columns in (distances, moved))
    truth = np.where(np.isnan(tv) | refuted, measured, tv)
    truth = np.where(truth > 0.0, truth, np.nan)
    truths = np.where(np.isin(BOUNDS, OF_WASSERSTEIN), measured_move[:, None], truth[:, None])
    looseness = values / truths
    table = (knob, "bound")
    data: dict[str, Any] = {
        "value": (table, values, {"long_name": "bound on the distance", "units": "1"}),
        "label": (table, labels),
        "verdict": (table, verdicts),
        "looseness": (table, looseness, {"long_name": "bound / truth", "units": "1"}),
        "premises": (table, premises),
    }
    for column, name in enumerate(("distance", "distance_lower", "distance_upper", "noise_floor")):
        data[name] = (knob, distances[:, column])
    for column, name in enumerate(("wasserstein", "wasserstein_lower", "wasserstein_upper", "wasserstein_floor")):
        data[name] = (knob, moved[:, column], {"units": "posterior sd"})
    for name in ("tv", "label_tv", "delta", "delta_max", "label_delta_max"):
        data[name] = (knob, [row[name] for row in rows])
    return xr.Dataset(data, coords={knob: settings, "bound": list(BOUNDS)})
