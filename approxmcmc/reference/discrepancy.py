r"""Kernel Stein discrepancies of draws from a posterior, from gradients only: for ranking settings.

In whitened coordinates phi = L^-1 theta, with scores g = L' grad log pi(theta), the Stein kernel of a kernel k is

    k_0(x, y) = g(x)'g(y) k + g(x)' d_y k + g(y)' d_x k + tr d_x d_y k,    k(x, y) = (1 + |x - y|^2)^(-1/2),

and E k_0(X, X') over independent draws of a distribution is the squared discrepancy of this distribution: 0 only for
the posterior. k_0 is linear in either score, so independent minibatches at the two draws leave the mean over pairs
unbiased.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.linalg import solve_triangular

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.checks import checked_integer, cov_of
from approxmcmc.errors import InvalidInputError
from approxmcmc.numerics import laplace
from approxmcmc.output.reading import flat_draws
from approxmcmc.reference.stein import gradient_of, minibatch_scores, scores_of

if TYPE_CHECKING:
    import pandas as pd

ROWS = 500  # rows of the matrix of pairs computed at a time
QUANTILE = 1.96  # normal quantile of 95 % intervals


@naming_the_arguments
def stein_discrepancy(
    traces: xr.DataTree | Mapping[str, xr.DataTree],
    target: Any,
    *,
    minibatch: int | None = None,
    draws: int = 1000,
    metric: Any = None,
    statistic: str = "U",
    random_seed: int = 0,
) -> "pd.DataFrame":
    r"""Estimate squared kernel Stein discrepancies of draws from the posterior, with error bars.

    .. math:: S^2 = E\, k_0(X, X') = E[\delta(X)'\, \delta(X')\, k(X, X')], \qquad
              \delta = L' (\nabla \log \pi - \nabla \log q),

    for independent X, X' from the distribution q of the draws, and the inverse multiquadric kernel k in whitened
    coordinates (Gorham and Mackey 2017). The estimate needs neither the normaliser nor another sampler.

    Parameters
    ----------
    traces
        A trace with the variables of the target, from any source, or a dict of name -> trace, to be ranked.
    target
        A target with gradients.
    minibatch
        Number of data for the gradient at a draw, redrawn without replacement for each draw (the stochastic discrepancy
        of Gorham, Raj and Mackey 2020, section 3); None: all data.
    draws
        Largest number of draws used, evenly spaced over all chains of a trace. They should be far enough apart to be
        nearly independent: similar neighbours raise the discrepancy.
    metric
        The whitening: a covariance (dim, dim), or a Laplace approximation. None: ``laplace(target)``. All traces share
        it, because only discrepancies in one metric can be compared.
    statistic
        ``"U"``: the mean over pairs of different draws, which is unbiased and may be negative. ``"V"``: the mean over
        all pairs, never negative; too large by E k_0(X, X) / draws, and with minibatches also by their noise.
    random_seed
        Seed of the minibatches; an integer.

    Returns
    -------
    pandas.DataFrame
        A row per trace, in the order given. ``squared``: the estimate. ``error``: its standard error; ``lower``,
        ``upper``: a 95 % interval. ``draws``: number of draws used. ``gradient_evaluations``: number of gradients of
        single terms.

    Raises
    ------
    InvalidInputError
        When a number is out of range, a trace lacks a variable of the target, or its draws carry weights.
    IncompatibleError
        When the target has no gradients.

    Notes
    -----
    The discrepancy detects errors of a tenth of a posterior standard deviation or more, in regions where there are
    draws. Use it to *rank* settings, such as step sizes of SGLD, with differences larger than the error.

    The discrepancy does not detect a bias of .01 posterior standard deviations, which is below the error at any
    affordable number of draws, or modes that the draws have missed. It has no sign and does not separate estimands.
    `bias` gives signed intervals for each estimand, `audit` a test.

    The standard error comes from Hoeffding's decomposition of a U-statistic, and assumes independent draws. If the
    discrepancy is 0 the error is overestimated, by up to a half.

    References
    ----------
    Gorham and Mackey (2017) for the kernel; Liu, Lee and Jordan (2016) for the identity and the U-statistic; Gorham,
    Raj and Mackey (2020) for minibatches.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0.3 * np.random.default_rng(1).normal(size=500))
    >>> fit = amc.laplace(target)
    >>> walk = amc.RandomWalk(1.2, preconditioner=fit)
    >>> runs = {
    ...     str(epsilon): amc.sample(
    ...         target,
    ...         amc.MetropolisHastings(walk, amc.SequentialTTest(epsilon, batch_size=50)),
    ...         draws=2000,
    ...         tune=100,
    ...         chains=2,
    ...         random_seed=1,
    ...         audit_every=None,
    ...         progressbar=False,
    ...     )
    ...     for epsilon in (0.01, 0.4)
    ... }  # doctest: +SKIP
    >>> amc.stein_discrepancy(runs, target)[["squared", "error"]]  # doctest: +SKIP
    """
    import pandas as pd

    if statistic not in ("U", "V"):
        raise InvalidInputError(f"stein_discrepancy: statistic must be 'U' or 'V', found {statistic!r}")
    n_draws = checked_integer(draws, "draws", 3)
    seed = checked_integer(random_seed, "random_seed", 0)
    if not isinstance(traces, Mapping):  # a DataTree is a Mapping too
        raise InvalidInputError(
            f"stein_discrepancy: needs a trace, or a dict of name -> trace, found a {type(traces).__name__}"
        )
    gradient = gradient_of(target)
    if minibatch is not None and checked_integer(minibatch, "minibatch") > gradient.n_obs:
        raise InvalidInputError(f"stein_discrepancy: minibatch must be at most {gradient.n_obs}, found {minibatch}")
    L = np.linalg.cholesky(cov_of(laplace(target) if metric is None else metric))
    rows = {}
    for name, trace in ({"": traces} if isinstance(traces, xr.DataTree) else traces).items():
        rng = np.random.default_rng(seed)
        states = target.variables.with_signs(_spaced(trace, target, n_draws), rng)
        read = gradient.n_obs if minibatch is None else minibatch
        slopes = scores_of(target, states) if minibatch is None else minibatch_scores(gradient, states, read, rng)
        discrepancy = pairwise(solve_triangular(L, states.T, lower=True).T, slopes @ L)
        rows[name] = {
            **discrepancy.estimate(statistic),
            "draws": len(states),
            "gradient_evaluations": read * len(states),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _spaced(trace: Any, target: Any, n_draws: int) -> np.ndarray:
    """Return at most `n_draws` draws of a trace, evenly spaced over all chains; shape (draws, dim)."""
    carried = trace["sample_stats"].data_vars if isinstance(trace, xr.DataTree) and "sample_stats" in trace else {}
    if {"weight", "log_weight"} & set(carried):
        raise InvalidInputError(
            "stein_discrepancy: the draws carry weights, and pairs of draws would have to; resample them, or use a "
            "constant step size"
        )
    states = flat_draws(trace, target).reshape(-1, target.variables.size)
    if len(states) < 3:
        raise InvalidInputError(f"stein_discrepancy: 3 draws are needed, the trace has {len(states)}")
    return states[np.linspace(0, len(states) - 1, min(n_draws, len(states))).round().astype(np.int64)]


class KernelSums(NamedTuple):
    """Means of k_0 over pairs of n draws.

    `rows` (n,) holds for each draw x the mean of k_0(x, x') over the other draws x', `square` the mean of k_0^2 over
    pairs of different draws, `diagonal` the mean of k_0(x, x).
    """

    rows: np.ndarray
    square: float
    diagonal: float

    def estimate(self, statistic: str) -> dict[str, float]:
        """Return the estimate by the statistic "U" or "V", its standard error, and its 95 % interval.

        The variance of a U-statistic of degree 2 is (4 (n - 2) a + 2 b) / (n (n - 1)), with a the variance of the
        projection E[k_0(x, X')] and b the variance of k_0; if the draws follow the posterior, a = 0.
        """
        n = len(self.rows)
        mean = float(self.rows.mean())
        b = max(self.square - mean**2, 0.0)
        a = max(float(self.rows.var(ddof=1)) - b / (n - 1), 0.0)  # rows are means over n - 1 draws
        error = np.sqrt((4.0 * (n - 2) * a + 2.0 * b) / (n * (n - 1)))
        squared = mean if statistic == "U" else mean + (self.diagonal - mean) / n
        return {
            "squared": squared,
            "error": float(error),
            "lower": squared - QUANTILE * error,
            "upper": squared + QUANTILE * error,
        }


def pairwise(phi: np.ndarray, g: np.ndarray) -> KernelSums:
    """Return the means of k_0 over all pairs of states `phi` with scores `g`, both whitened, of shape (n, dim)."""
    n = len(phi)
    sums = np.empty(n)
    square = 0.0
    diagonal = (g**2).sum(axis=1) + phi.shape[1]
    for start in range(0, n, ROWS):
        block = slice(start, start + ROWS)
        values = stein_kernel(phi[block], g[block], phi, g)
        values[np.arange(len(values)), np.arange(start, start + len(values))] = 0.0
        sums[block] = values.sum(axis=1)
        square += float((values**2).sum())
    return KernelSums(sums / (n - 1), square / (n * (n - 1)), float(diagonal.mean()))


def stein_kernel(x: np.ndarray, g_x: np.ndarray, y: np.ndarray, g_y: np.ndarray) -> np.ndarray:
    r"""Return k_0 of all pairs, shape (n_x, n_y), of states (n, dim) with scores g.

    With r = x - y and q = 1 + r'r, k = q^(-1/2): d_x k = -q^(-3/2) r = -d_y k, and tr d_x d_y k = dim q^(-3/2) -
    3 q^(-5/2) r'r.
    """
    squared = np.maximum((x**2).sum(1)[:, None] + (y**2).sum(1) - 2.0 * x @ y.T, 0.0)
    q = 1.0 + squared
    # (g(x) - g(y))'r, each part by one matrix product
    along = (g_x * x).sum(1)[:, None] - g_x @ y.T - x @ g_y.T + (g_y * y).sum(1)
    return (g_x @ g_y.T + (along + x.shape[1] - 3.0 * squared / q) / q) / np.sqrt(q)
