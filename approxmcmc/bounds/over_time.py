r"""Bound the distance of two chains' distributions after n steps from the same start, for every n and every start.

With T the exact transition matrix, T^ the approximate one and S_0 the stationary distribution of T, it follows from
T^^n - T^n = sum_{k < n} T^^(n - 1 - k) (T^ - T) T^k, for any start mu,

    b3   d_v(mu T^^n, mu T^n)  <=  delta sum_{k < n} eta_k                                every start
    b4                         <=  sum_{k < n} E_{mu T^^(n - 1 - k)}[delta(x)] eta_k      average-case, this start
    b5                         <=  min(n, lambda + C rho^lambda / (1 - rho)) delta        Mitrophanov, corollary 2.3

with delta(x) = d_v(T^(x, .), T(x, .)), delta its largest value, eta_0 = 1, eta_k the contraction of k exact steps, and
C, rho and lambda as in `statements`.
As n grows, b3 and b4 become the bounds on the distance of the stationary distributions. T converges to the posterior,
so

    d_v(mu T^^n, S_0)  <=  d_v(mu T^n, S_0) + b3,        and the first term is at most eta_n.

Reference: Mitrophanov (2005), theorem 3.1 and corollary 3.1; Alquier, Friel, Everitt and Boland (2016), theorem 2.1 and
corollary 2.3, which hold for every n and start.

The step at which the ideal and the noisy chain first differ has a known distribution on a grid. Both chains start at
theta, propose the same theta' and use the same u: the ideal chain compares u with min(1, a), a the ratio of Metropolis
and Hastings, the noisy chain with min(1, a^), a^ its estimate. They separate at the first step tau at which one accepts
and the other does not. Until then they are one chain, with the kernel

    K(theta, theta') = h(theta'|theta) E min(1, a, a^)  (both accept),    K(theta, theta) = the rest where both reject,

whose rows lack d(theta) = int h E|min(1, a^) - min(1, a)|. So P(tau > n) = (K^n 1)(theta), E tau = ((I - K)^-1
1)(theta). With d = sup d(theta), the lower bounds are P(tau > n) >= (1 - d)^n and E tau >= 1 / d.

The time tau does not measure bias. The exchange algorithm, N = 1, is exact, and yet differs from the ideal chain
soonest.

Reference: Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, remark 2.2, which names the coupling of
Nicholls, Fox and Muir Watt (2012), Coupled MCMC with a Randomized Acceptance Probability.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.finite import (
    HEURISTIC,
    RIGOROUS,
    checked_matrix,
    contraction,
    contractions,
    row_distances,
    stationary_distribution,
)
from approxmcmc.bounds.noisy_exchange import law_of_ratios
from approxmcmc.bounds.statements import bound_factors
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray as xr


@naming_the_arguments
def over_time(T: Any, T_hat: Any, *, start: Any = None, n_steps: int = 100) -> "xr.Dataset":
    """Return the distance of two chains' distributions after each number of steps, and its bounds.

    Parameters
    ----------
    T, T_hat
        Exact and approximate transition matrix, as for :func:`exact`.
    start
        Distribution mu of the start: probabilities, shape (n,), or the index of a state. None: the worst state,
        chosen anew for each number of steps.
    n_steps
        Largest number of steps.

    Returns
    -------
    xarray.Dataset
        Dim ``step``, 0 to `n_steps`: `tv`, d_v of the two distributions (the truth), `b3`, `b4`, `b5`; `to_posterior`,
        d_v of the approximate chain's distribution from the exact chain's stationary distribution, and
        `to_posterior_bound`. With ``start=None``, each is the largest over all starts. The bounds are
        statements on the two matrices, rigorous up to rounding.

    Raises
    ------
    InvalidInputError
        When a matrix is not stochastic, or the start is not a distribution on its states.

    Notes
    -----
    Cost: at each step, matrix products and the distances of all pairs of rows: about 3 ms with 241 states, 3 s with
    2048. `b5` takes further steps, at most the larger of 500 and `n_steps`, until the chain has forgotten its start.

    Examples
    --------
    >>> found = over_time([[0.9, 0.1], [0.2, 0.8]], [[0.88, 0.12], [0.2, 0.8]], start=0, n_steps=50)
    >>> found["tv"].values[[1, 50]].round(4).tolist(), found["b3"].values[[1, 50]].round(4).tolist()
    ([0.02, 0.0417], [0.02, 0.0667])
    """
    import xarray as xr

    checked_integer(n_steps, "n_steps")
    matrix = checked_matrix(T, "T")
    matrix_hat = checked_matrix(T_hat, "T_hat")
    if matrix.shape != matrix_hat.shape:
        sizes = f"{len(matrix)} and {len(matrix_hat)} states"
        raise InvalidInputError(f"T and T_hat must act on the same states; found {sizes}.")
    now = now_hat = starts = _starts(start, len(matrix))
    stationary = stationary_distribution(matrix)
    one_step = row_distances(matrix, matrix_hat)
    etas = [1.0]
    power = np.eye(len(matrix))
    errors = []
    rows = []
    for step in range(n_steps + 1):
        rows.append((row_distances(now_hat, now), row_distances(now_hat, stationary), row_distances(now, stationary)))
        errors.append(now_hat @ one_step)  # E delta(x), one for each start
        if step < n_steps:
            now = now @ matrix
            now_hat = now_hat @ matrix_hat
            power = power @ matrix
            etas.append(min(contraction(power), 1.0))
    tv, far, exact_far = (np.array(column).max(axis=1) for column in zip(*rows, strict=True))
    delta = one_step.max()
    b3 = delta * np.concatenate([[0.0], np.cumsum(etas[:-1])])
    b4 = [np.convolve(each, etas)[:n_steps] for each in np.array(errors).T]
    factor = bound_factors(*contractions(matrix, stationary, max(n_steps, 500)))["b5"]
    return xr.Dataset(
        {
            "tv": ("step", tv, {"long_name": "d_v of the two distributions: the truth", "units": "1"}),
            "b3": ("step", b3, {"long_name": "delta sum_{k < n} eta_k, every start", "units": "1"}),
            "b4": ("step", np.concatenate([[0.0], np.max(b4, axis=0)]), {"long_name": "average-case", "units": "1"}),
            "b5": (
                "step",
                delta * np.fmin(np.arange(n_steps + 1.0), factor),
                {"long_name": "Mitrophanov", "units": "1"},
            ),
            "to_posterior": ("step", far, {"long_name": "d_v of the approximate distribution from S_0", "units": "1"}),
            "to_posterior_bound": ("step", exact_far + b3, {"long_name": "exact chain's distance + b3", "units": "1"}),
        },
        coords={"step": np.arange(n_steps + 1)},
        attrs={"starts": len(starts), "delta": float(delta), "factor_b5": math.nan if math.isnan(factor) else factor},
    )


def _starts(start: Any, n: int) -> np.ndarray:
    """Return the starting distributions, one in each row: `start`, or all single states if it is None."""
    if start is None:
        return np.eye(n)
    if np.ndim(start) == 0:
        if not 0 <= int(start) < n:
            raise InvalidInputError(f"over_time: start must be a state 0 ... {n - 1} or probabilities, found {start!r}")
        return np.eye(n)[[int(start)]]
    law = np.asarray(start, dtype=np.float64)
    if law.shape != (n,) or law.min() < 0.0 or abs(law.sum() - 1.0) > 1e-9:
        raise InvalidInputError(f"over_time: start must hold {n} probabilities that sum to 1, found shape {law.shape}")
    return law[None, :]


@naming_the_arguments
def first_difference(target: Any, sampler: Any, grid: Any, *, n_steps: int = 200) -> "xr.Dataset":
    """Return the distribution of the first step at which exact Metropolis-Hastings and noisy exchange differ.

    Parameters
    ----------
    target, sampler, grid
        As for :func:`noisy_exchange_errors`.
    n_steps
        Largest n for which P(tau > n) is returned; tau is that first step.

    Returns
    -------
    xarray.Dataset
        Dim ``state``, the common start: `flip`, the probability that the two decisions differ in the first step, and
        `mean`, E tau in steps. Dims ``state`` and ``step``, from 0 to `n_steps`: `survival`, P(tau > n). With d the
        largest `flip`: `lower_bound` of `survival`, (1 - d)^n, with dim ``step``, and scalar `mean_lower_bound`, 1 / d.
        `law`, the posterior on the grid, can weight the starts. Attribute `label`: "rigorous" up to two draws,
        otherwise "heuristic", because each acceptance probability has an error of at most `acceptance_error`.

    Raises
    ------
    IncompatibleError
        When the sampler is not `Exchange` with exact auxiliary draws, or the statistics cannot be counted.
    InvalidInputError
        When the grid has the wrong shape, or `n_steps` is not a positive integer.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), remark 2.2; Nicholls, Fox and Muir Watt (2012).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> target = amc.targets.Ising(np.ones((3, 3), dtype=int), prior_bounds=(0.0, 0.6))
    >>> found = first_difference(target, amc.Exchange(amc.RandomWalk(0.2)), np.linspace(0.0, 0.6, 31))
    >>> bool((found["mean"] >= found["mean_lower_bound"]).all())
    True
    """
    import xarray as xr

    checked_integer(n_steps, "n_steps")
    draws = law_of_ratios(target, sampler, grid)
    mean = draws.expected_minima()
    h = draws.steps
    flip = (h * (np.exp(np.minimum(mean.log_a, 0.0)) + mean.accepted - 2.0 * mean.both_accept)).sum(axis=1)
    together = h * mean.both_accept
    np.fill_diagonal(together, 0.0)
    np.fill_diagonal(together, 1.0 - flip - together.sum(axis=1))
    survival = [np.ones(len(flip))]
    for _ in range(n_steps):
        survival.append(together @ survival[-1])
    log_law = draws.model.log_density()
    law = np.exp(log_law - log_law.max())
    steps = np.arange(n_steps + 1)
    differences = xr.Dataset(
        {
            "flip": ("state", flip, {"long_name": "probability that the two decisions differ", "units": "1"}),
            "mean": ("state", np.linalg.solve(np.eye(len(flip)) - together, np.ones(len(flip))), {"units": "steps"}),
            "survival": (("state", "step"), np.array(survival).T, {"long_name": "P(tau > n)", "units": "1"}),
            "lower_bound": ("step", (1.0 - flip.max()) ** steps),
            "mean_lower_bound": 1.0 / flip.max(),
            "law": ("state", law / law.sum()),
        },
        coords={"step": steps},
    )
    differences.attrs = {"label": HEURISTIC if draws.error else RIGOROUS, "acceptance_error": draws.error}
    return differences
