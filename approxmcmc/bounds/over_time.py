r"""How far apart are two chains after n steps from the same start? Bounds for every n and every start.

From T^^n - T^n = sum_{k < n} T^^(n - 1 - k) (T^ - T) T^k, for any start mu,

    b3   d_v(mu T^^n, mu T^n)  <=  delta sum_{k < n} eta_k                                every start
    b4                         <=  sum_{k < n} E_{mu T^^(n - 1 - k)}[delta(x)] eta_k      average-case, this start
    b5                         <=  min(n, lambda + C rho^lambda / (1 - rho)) delta        Mitrophanov, corollary 2.3

with delta(x) = d_v(T^(x, .), T(x, .)), delta its largest value, eta_0 = 1 and eta_k the contraction of k exact steps.
As n grows, b3 and b4 become the bounds of the stationary laws. T converges to the posterior, so

    d_v(mu T^^n, S_0)  <=  d_v(mu T^n, S_0) + b3,        and the first term is at most eta_n.

Reference: Mitrophanov (2005), theorem 3.1 and corollary 3.1; Alquier, Friel, Everitt and Boland (2016), theorem 2.1 and
corollary 2.3, which hold for every n and start.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.finite import checked_matrix, contraction, contractions, row_distances, stationary_law
from approxmcmc.bounds.statements import bound_factors
from approxmcmc.contracts.naming import naming_the_arguments
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
        Law mu of the start: probabilities, shape (n,), or the number of a state. None: the worst state, for each
        number of steps anew.
    n_steps
        Largest number of steps.

    Returns
    -------
    xarray.Dataset
        Dim ``step``, 0 to `n_steps`: `tv`, d_v of the two laws (the truth), `b3`, `b4`, `b5`; `to_posterior`, d_v of
        the approximate chain's law from the exact chain's stationary law, and `to_posterior_bound`. With ``start=None``
        `b4` takes the largest E delta over all starts. The bounds are about the two matrices, rigorous up to rounding.

    Raises
    ------
    InvalidInputError
        When a matrix is not stochastic, or the start is not a distribution on its states.

    Notes
    -----
    Matrix products of all states for each step: 100 steps take about 0.1 s with 241 states and a minute with 2048.

    Examples
    --------
    >>> found = over_time([[0.9, 0.1], [0.2, 0.8]], [[0.88, 0.12], [0.2, 0.8]], start=0, n_steps=50)
    >>> found["tv"].values[[1, 50]].round(4).tolist(), found["b3"].values[[1, 50]].round(4).tolist()
    ([0.02, 0.0417], [0.02, 0.0667])
    """
    import xarray as xr

    checked_integer(n_steps, "n_steps", who="over_time")
    matrix, matrix_hat = checked_matrix(T, "T"), checked_matrix(T_hat, "T_hat")
    if matrix.shape != matrix_hat.shape:
        raise InvalidInputError(f"T and T_hat must act on the same states; found {len(matrix)} and {len(matrix_hat)}.")
    now = now_hat = starts = _starts(start, len(matrix))
    law, one_step = stationary_law(matrix), row_distances(matrix, matrix_hat)
    etas = [1.0]
    power, errors, rows = np.eye(len(matrix)), [], []
    for step in range(n_steps + 1):
        rows.append((row_distances(now_hat, now), row_distances(now_hat, law), row_distances(now, law)))
        errors.append(now_hat @ one_step)  # E delta(x), one for each start
        if step < n_steps:
            now, now_hat, power = now @ matrix, now_hat @ matrix_hat, power @ matrix
            etas.append(min(contraction(power), 1.0))
    tv, far, exact_far = (np.array(column).max(axis=1) for column in zip(*rows, strict=True))
    delta = one_step.max()
    b3 = delta * np.concatenate([[0.0], np.cumsum(etas[:-1])])
    b4 = [np.convolve(each, etas)[:n_steps] for each in np.array(errors).T]
    factor = bound_factors(*contractions(matrix, law, max(n_steps, 500)))["b5"]
    return xr.Dataset(
        {
            "tv": ("step", tv, {"long_name": "d_v of the two laws: the truth", "units": "1"}),
            "b3": ("step", b3, {"long_name": "delta sum_{k < n} eta_k, every start", "units": "1"}),
            "b4": ("step", np.concatenate([[0.0], np.max(b4, axis=0)]), {"long_name": "average-case", "units": "1"}),
            "b5": (
                "step",
                delta * np.fmin(np.arange(n_steps + 1.0), factor),
                {"long_name": "Mitrophanov", "units": "1"},
            ),
            "to_posterior": ("step", far, {"long_name": "d_v of the approximate law from S_0", "units": "1"}),
            "to_posterior_bound": ("step", exact_far + b3, {"long_name": "exact chain's distance + b3", "units": "1"}),
        },
        coords={"step": np.arange(n_steps + 1)},
        attrs={"starts": len(starts), "delta": float(delta), "factor_b5": math.nan if math.isnan(factor) else factor},
    )


def _starts(start: Any, n: int) -> np.ndarray:
    """Return the starting distributions, one per row."""
    if start is None:
        return np.eye(n)
    if np.ndim(start) == 0:
        if not 0 <= int(start) < n:
            raise InvalidInputError(f"over_time: start must be a state 0 ... {n - 1} or a law on them, found {start!r}")
        return np.eye(n)[[int(start)]]
    law = np.asarray(start, dtype=np.float64)
    if law.shape != (n,) or law.min() < 0.0 or abs(law.sum() - 1.0) > 1e-9:
        raise InvalidInputError(f"over_time: start must hold {n} probabilities that sum to 1, found shape {law.shape}")
    return law[None, :]
