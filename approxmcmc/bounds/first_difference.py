r"""When do the ideal chain and the noisy one first differ? The distribution of that time, on a grid.

Both chains start at theta, propose the same theta' and compare the same u with their own acceptance probability: the
ideal one with min(1, a), the noisy one with min(1, a^). They part at the first step tau at which one accepts and the
other does not. Until then they are one chain, with the kernel

    K(theta, theta') = h(theta'|theta) E min(1, a, a^)  (both accept),    K(theta, theta) = the rest where both reject,

whose rows lack d(theta) = int h E|min(1, a^) - min(1, a)|. So P(tau > n) = (K^n 1)(theta), E tau = ((I - K)^-1
1)(theta), and, with d = sup d(theta), P(tau > n) >= (1 - d)^n and E tau >= 1 / d: the lower bound.

The time says nothing about bias. The exchange algorithm, N = 1, is exact, and differs from the ideal chain soonest.

Reference: Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, remark 2.2, which names the coupling of
Nicholls, Fox and Muir Watt (2012), Coupled MCMC with a Randomized Acceptance Probability.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.noisy_exchange import law_of_ratios
from approxmcmc.bounds.statements import HEURISTIC, RIGOROUS
from approxmcmc.engine.checks import checked_integer

if TYPE_CHECKING:
    import xarray as xr


def first_difference(target: Any, sampler: Any, grid: Any, *, n_steps: int = 200) -> "xr.Dataset":
    """Return the distribution of the first step at which exact Metropolis-Hastings and noisy exchange differ.

    Parameters
    ----------
    target, sampler, grid
        As for :func:`noisy_exchange_errors`.
    n_steps
        Steps n for which P(tau > n) is returned.

    Returns
    -------
    xarray.Dataset
        Dim ``state``, the common start: `flip`, d(theta), and `mean`, E tau in steps. Dims ``state`` and ``step``, from
        0 to `n_steps`: `survival`, P(tau > n). Dim ``step``: `lower_bound`, (1 - d)^n; scalar `mean_lower_bound`,
        1 / d. `law`, the posterior on the grid, averages over starts. Attribute `label`: "rigorous" up to two draws,
        else "heuristic", off by the error of an acceptance probability that `acceptance_error` limits.

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

    checked_integer(n_steps, "n_steps", who="first_difference")
    draws = law_of_ratios(target, sampler, grid)
    mean, h = draws.expected_minima(), draws.steps
    flip = (h * (np.exp(np.minimum(mean.log_a, 0.0)) + mean.accepted - 2.0 * mean.both_accept)).sum(axis=1)
    together = h * mean.both_accept
    np.fill_diagonal(together, 0.0)
    np.fill_diagonal(together, 1.0 - flip - together.sum(axis=1))
    survival = [np.ones(len(flip))]
    for _ in range(n_steps):
        survival.append(together @ survival[-1])
    log_law = draws.model.log_density()
    law, steps = np.exp(log_law - log_law.max()), np.arange(n_steps + 1)
    found = xr.Dataset(
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
    found.attrs = {"label": HEURISTIC if draws.error else RIGOROUS, "acceptance_error": draws.error}
    return found
