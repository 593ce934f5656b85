r"""Measure how an exact chain contracts a Wasserstein distance, by coupled chains; no transition matrix is needed.

With the norm of a metric matrix S, d(x, y) = sqrt((x - y)' S^-1 (x - y)), and W the Wasserstein distance of order 1
that belongs to d, the contraction of m exact steps is

    tau_m = sup over x != y of W(P^m(x, .), P^m(y, .)) / d(x, y).

Dobrushin's coefficient eta_m is the same number for the distance d(x, y) = 1 if x != y. It is 1 for a random walk on
R^d; tau_m may be below 1. For one pair (x, y) it lies between two means, of any coupling (X_m, Y_m) of the two chains:

    E[f(X_m) - f(Y_m)] / d(x, y)  <=  W(P^m(x, .), P^m(y, .)) / d(x, y)  <=  E d(X_m, Y_m) / d(x, y),

where f is the projection on the direction from y to x, whose slope is 1 in the norm. The upper mean of the pairs is an
estimate of tau_m for all pairs only if the pairs are the worst; the lower one is a lower bound of tau_m in any case.

- reflection: the coupling of :func:`approxmcmc.bounds.couplings`, whose chains can meet;
- synchronous: both chains use the same random numbers. They need not meet, but come closer if the kernel contracts.
  Reflected chains from a near pair meet or part widely, so their mean distance is noisier.

References: Rudolf and Schweizer (2018), Perturbation theory for Markov chains via Wasserstein distance, Bernoulli 24;
Ollivier (2009), Ricci curvature of Markov chains on metric spaces, J. Funct. Anal. 256.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import stdtrit

from approxmcmc.bounds.finite import HEURISTIC, NOT_APPLICABLE
from approxmcmc.contracts import DiscreteTarget
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import speaker
from approxmcmc.couplings.kernels import coupling_of
from approxmcmc.couplings.measure import draws_of
from approxmcmc.couplings.meeting import Coupling, far_pairs
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.diagnostics.records import check_confidence
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import InvalidInputError
from approxmcmc.numerics.mode import laplace

if TYPE_CHECKING:
    import xarray as xr

STEPS = (1, 2, 5, 10, 20, 50)
REFLECTION = "reflection"
SYNCHRONOUS = "synchronous"
COUPLINGS = {"both": (REFLECTION, SYNCHRONOUS), REFLECTION: (REFLECTION,), SYNCHRONOUS: (SYNCHRONOUS,)}
NEAR = 0.5  # distance of pairs of states that are near each other


class Norm:
    """The norm sqrt(z' S^-1 z) of a covariance matrix S (dim, dim)."""

    def __init__(self, covariance: np.ndarray) -> None:
        self.covariance = covariance
        self.lower = np.linalg.cholesky(covariance)

    def whitened(self, difference: np.ndarray) -> np.ndarray:
        """Return L^-1 z for each row z of `difference` (..., dim)."""
        flat = difference.reshape(-1, difference.shape[-1])
        return np.asarray(solve_triangular(self.lower, flat.T, lower=True).T.reshape(difference.shape))

    def __call__(self, difference: np.ndarray) -> np.ndarray:
        """Return the norm of each row of `difference` (..., dim)."""
        return np.asarray(np.linalg.norm(self.whitened(difference), axis=-1))


def norm_of(target: Any, metric: Any) -> Norm:
    """Return the norm of a covariance matrix; None: that of the Laplace approximation, or of 1 for discrete states.

    Raises
    ------
    InvalidInputError
        When the matrix is not a covariance of the target's parameters, or the posterior has no mode.
    """
    dim = target.variables.size
    if metric is None:
        return Norm(np.eye(dim) if isinstance(target, DiscreteTarget) else np.asarray(laplace(target.plain).cov))
    covariance = np.atleast_2d(np.asarray(metric, dtype=np.float64))
    needs = f"{speaker()}: metric must be a covariance matrix of shape ({dim}, {dim}), symmetric and positive definite"
    if covariance.shape != (dim, dim) or not np.isfinite(covariance).all():
        raise InvalidInputError(f"{needs}, found shape {covariance.shape}")
    try:
        return Norm(covariance)
    except np.linalg.LinAlgError:
        raise InvalidInputError(f"{needs}, found eigenvalues from {np.linalg.eigvalsh(covariance)[0]:.3g}") from None


def checked_steps(steps: Sequence[int]) -> np.ndarray:
    """Return numbers of steps as an increasing array of positive integers."""
    return np.unique([checked_integer(step, "steps") for step in steps])


@naming_the_arguments
def contraction(
    target: Any,
    sampler: Any,
    pairs: Any,
    *,
    n_pairs: int = 20,
    steps: Sequence[int] = STEPS,
    metric: Any = None,
    coupling: str = "both",
    replications: int = 100,
    confidence: float = 0.975,
    random_seed: Any = None,
) -> "xr.Dataset":
    r"""Estimate how m exact steps contract the Wasserstein distance of pairs of states, between two limits.

    .. math:: \tau_m = \sup_{x \ne y} \frac{W(P^m(x, \cdot), P^m(y, \cdot))}{d(x, y)}, \qquad
              d(x, y) = \sqrt{(x - y)^\top S^{-1} (x - y)} .

    Parameters
    ----------
    target, sampler
        As in :func:`couplings`: the exact chain of the sampler is coupled.
    pairs
        Pairs of distinct states, shape (n_pairs, 2, dim); or a trace, from whose draws pairs are chosen.
    n_pairs
        Number of pairs of draws of a trace, some of them extreme. Every second pair is moved to a distance of 0.5,
        except for discrete states.
    steps
        Numbers of steps m.
    metric
        S, shape (dim, dim). None: the covariance of the Laplace approximation; for discrete states, 1.
    coupling
        ``"reflection"``: proposals are coupled so that chains meet. ``"synchronous"``: both chains use the same random
        numbers. ``"both"``: of the two limits for a pair and a number of steps the better one, at half of the level.
    replications
        Coupled chains for each pair and coupling, at least 2.
    confidence
        Level at which the limits of all pairs and steps hold together (Bonferroni). The default leaves half of 5 % to
        the error that :func:`perturbation` divides by 1 - tau.
    random_seed
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        With dims ``pair`` and ``step``: `ratio`, the mean of d(X_m, Y_m) / d(x, y); `ratio_upper`, its upper limit; and
        `ratio_lower`, the lower limit of the projection's mean. With dim ``pair``: `separation`, d(x, y). With dim
        ``step``: `tau_estimate`, `tau` and `tau_lower`, the largest of these over the pairs; ``label_tau``.

    Raises
    ------
    IncompatibleError
        When there is no coupling for the sampler.
    InvalidInputError
        When an argument is out of range, or the two states of a pair are equal.
    NotFiniteError
        When a log density is NaN along a chain.

    Notes
    -----
    `tau_lower` bounds the contraction over all pairs from below: a claimed coefficient under it is refuted.
    `tau` bounds the contraction of *these* pairs from above; as a statement on all pairs it is heuristic. The limits
    are those of Student's t for means over the replications. The upper one is at least the limit of the share of chains
    still apart (Clopper and Pearson 1934) times the limit of their mean ratio, because rare chains make means skewed.

    References
    ----------
    Rudolf and Schweizer (2018), definition 2.1 and theorem 3.1; Ollivier (2009).

    Examples
    --------
    Crank-Nicolson steps with the posterior as reference are an autoregression: m steps contract by rho^m.

    >>> import numpy as np, approxmcmc as amc
    >>> y = np.random.default_rng(0).normal(size=50)
    >>> target = amc.targets.LinearRegression(np.ones((50, 1)), y, sigma=1.0)
    >>> proposal = amc.proposals.PreconditionedCrankNicolson(0.5, amc.laplace(target))
    >>> walk = amc.MetropolisHastings(proposal, amc.ExactTest())
    >>> pairs = amc.laplace(target).mode + np.array([[[0.0], [0.5]]])
    >>> found = amc.bounds.contraction(target, walk, pairs, steps=[1, 2], coupling="synchronous", random_seed=1)
    >>> found["tau_estimate"].values.round(6).tolist()
    [0.5, 0.25]
    """
    if coupling not in COUPLINGS:
        raise InvalidInputError(f"contraction: coupling must be one of {tuple(COUPLINGS)}, found {coupling!r}")
    check_confidence(confidence)
    replications = checked_integer(replications, "replications", 2)
    lengths = checked_steps(steps)
    norm = norm_of(target, metric)
    [sequence], seed = seed_sequences(random_seed, 1)
    states = _states(target, pairs, n_pairs, norm, np.random.default_rng(sequence))
    separation = norm(states[:, 0] - states[:, 1])
    if not (separation > 0.0).all():
        raise InvalidInputError(
            f"contraction: the states of a pair must differ, but pair {int(np.argmin(separation))} is equal"
        )
    chains = coupling_of(target, sampler)
    level = 1.0 - (1.0 - confidence) / len(COUPLINGS[coupling])
    found = best_of(
        [
            ratios(
                _differences(chains, states, lengths, replications, sequence, kind == SYNCHRONOUS),
                states[:, 0] - states[:, 1],
                norm,
                level,
            )
            for kind in COUPLINGS[coupling]
        ]
    )
    dataset = as_contraction(found, lengths, separation)
    dataset.attrs |= {"coupling": coupling, "replications": replications, "confidence": confidence, "seed": str(seed)}
    return dataset


def _states(target: Any, pairs: Any, n_pairs: int, norm: Norm, rng: np.random.Generator) -> np.ndarray:
    """Return pairs of states (n_pairs, 2, dim), given or chosen from the draws of a trace."""
    import xarray as xr

    if isinstance(pairs, xr.DataTree):
        n_states = checked_integer(n_pairs, "n_pairs")
        near = not isinstance(target, DiscreteTarget)
        return pairs_of(draws_of(pairs, target).flat, n_states, norm, rng, near=near)
    states = np.asarray(pairs, dtype=np.float64)
    if states.ndim != 3 or states.shape[1:] != (2, target.variables.size) or len(states) == 0:
        raise InvalidInputError(
            f"contraction: pairs must be a trace or have shape (n_pairs, 2, {target.variables.size}), found "
            f"{states.shape}"
        )
    return states


def pairs_of(draws: np.ndarray, n_pairs: int, norm: Norm, rng: np.random.Generator, *, near: bool) -> np.ndarray:
    """Return pairs of distinct draws (n_pairs, 2, dim), far apart or random; with `near`, every second is moved.

    A norm measures lengths of paths, so a contraction that holds for near pairs everywhere holds for all pairs; far
    pairs show regions that a chain crosses slowly. A moved pair keeps its first state and its direction.
    """
    pairs: list[np.ndarray] = []
    while len(pairs) < n_pairs:
        for a, b in far_pairs(draws, rng):
            x = draws[a]
            y = draws[b]
            if np.array_equal(x, y):
                continue
            if near and len(pairs) % 2:
                y = x + NEAR / float(norm(y - x)) * (y - x)
            pairs.append(np.stack([x, y]))
    return np.stack(pairs[:n_pairs])


def _differences(
    chains: Coupling,
    states: np.ndarray,
    lengths: np.ndarray,
    replications: int,
    sequence: np.random.SeedSequence,
    synchronous: bool,
) -> np.ndarray:
    """Return X_m - Y_m of all couplings, shape (pair, replication, step, dim)."""
    longest = int(lengths[-1])
    apart = np.zeros((len(states), replications, len(lengths), states.shape[2]))
    for pair, (x, y) in enumerate(states):
        for k in range(replications):
            own = np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, pair, k))
            if synchronous:
                paths = chains.side_by_side(own, x, y, longest)
                apart[pair, k] = (paths[0] - paths[1])[lengths - 1]
                continue
            # The recorded paths hold the states before each step until the chains meet, the start among them.
            meeting = chains.meet(np.random.default_rng(own), x, y, 0, longest + 1)
            reached = lengths < meeting.paths.shape[1]
            apart[pair, k, reached] = (meeting.paths[0] - meeting.paths[1])[lengths[reached]]
    return apart


def ratios(apart: np.ndarray, at_start: np.ndarray, norm: Norm, confidence: float) -> dict[str, np.ndarray]:
    """Return `ratio`, `ratio_upper` and `ratio_lower` by (pair, step), with limits that hold together.

    Parameters
    ----------
    apart
        X_m - Y_m, shape (pair, replication, step, dim).
    at_start
        x - y of each pair, shape (pair, dim).
    """
    n_pairs, replications, n_steps, _ = apart.shape
    tail = 0.5 * (1.0 - confidence) / (n_pairs * n_steps)
    direction = norm.whitened(at_start)
    separation = np.linalg.norm(direction, axis=-1)[:, None, None]
    relative = norm.whitened(apart) / separation[..., None]
    lengths = np.linalg.norm(relative, axis=-1)
    projected = (relative * (direction[:, None, None] / separation[..., None])).sum(axis=-1)
    quantile = float(stdtrit(replications - 1, 1.0 - tail))
    upper = lengths.mean(axis=1) + quantile * lengths.std(axis=1, ddof=1) / np.sqrt(replications)
    hidden = _limit_with_rare_chains(lengths, tail)
    lower = projected.mean(axis=1) - quantile * projected.std(axis=1, ddof=1) / np.sqrt(replications)
    return {"ratio": lengths.mean(axis=1), "ratio_upper": np.maximum(upper, hidden), "ratio_lower": lower}


def _limit_with_rare_chains(lengths: np.ndarray, tail: float) -> np.ndarray:
    """Return the upper limit of the share of chains still apart times that of their mean ratio, by (pair, step).

    A mean over chains of which few are still apart has a skewed error, which Student's t ignores. The ratio of fewer
    than two such chains has no limit of its own: that after fewer steps is used; infinite without one.
    """
    replications = lengths.shape[1]
    apart = lengths > 0.0
    count = apart.sum(axis=1)
    at_least_two = np.maximum(count, 2)
    mean = lengths.sum(axis=1) / at_least_two
    spread = np.sqrt(np.maximum((lengths**2).sum(axis=1) - at_least_two * mean**2, 0.0) / (at_least_two - 1))
    seen = np.where(
        count >= 2, mean + stdtrit(at_least_two - 1, 1.0 - 0.5 * tail) * spread / np.sqrt(at_least_two), np.inf
    )
    for m in range(1, lengths.shape[2]):
        seen[:, m] = np.where(count[:, m] >= 2, seen[:, m], seen[:, m - 1])
    share = clopper_pearson(count, np.full(count.shape, replications), 1.0 - tail)[1]
    return np.where(count < replications, share * seen, 0.0)


def best_of(ratios: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return for each pair and step the smallest upper limit, with its mean, and the largest lower limit."""
    uppers = np.stack([each["ratio_upper"] for each in ratios])
    best = uppers.argmin(axis=0)[None]
    return {
        "ratio": np.take_along_axis(np.stack([each["ratio"] for each in ratios]), best, axis=0)[0],
        "ratio_upper": uppers.min(axis=0),
        "ratio_lower": np.max([each["ratio_lower"] for each in ratios], axis=0),
    }


def as_contraction(ratios: dict[str, np.ndarray], lengths: np.ndarray, separation: np.ndarray) -> "xr.Dataset":
    """Return ratios by (pair, step) and their largest values over the pairs as a Dataset."""
    import xarray as xr

    largest = {"tau_estimate": "ratio", "tau": "ratio_upper", "tau_lower": "ratio_lower"}
    contracts = ratios["ratio_upper"].max(axis=0) < 1.0
    return xr.Dataset(
        {
            **{name: (("pair", "step"), values) for name, values in ratios.items()},
            "separation": ("pair", separation, {"long_name": "distance of the pair"}),
            **{name: ("step", ratios[source].max(axis=0)) for name, source in largest.items()},
            "label_tau": ("step", np.where(contracts, HEURISTIC, NOT_APPLICABLE)),
        },
        coords={"step": ("step", lengths, {"units": "exact steps"})},
    )
