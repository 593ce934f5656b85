r"""Which setting is best at a budget? Bias and asymptotic variance of an average, from transition matrices.

The mean of f over n steps of a chain with the stationary distribution S_e has, in the long run,

    risk = bias^2 + v / n,      bias = E_{S_e} f - E_{S_0} f,      v = lim n Var(mean of f over n steps),

with S_0 the exact distribution. A budget B pays for n = B / c steps at a cost c each, so that risk(B) = bias^2 + c v /
B. The best setting depends on the budget: cheap, biased settings are best at small budgets, expensive, exact settings
at large ones. The starting point is ignored: it changes the bias by d / n for some d, and so the risk by d^2 / n^2 + 2
bias d / n. The first is small relative to v / n, the second relative to bias^2, if n is large.

For noisy exchange the variance usually exceeds that of the ideal chain, because with fewer auxiliary draws fewer
proposals are accepted. Andrieu and Vihola prove this for the pseudo-marginal chain; for noisy chains Alquier, Friel,
Everitt and Boland (2016), section 5, name the question as future work. Here the answer is a linear solve for each
matrix.
"""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.finite import asymptotic_variance, checked_matrix, stationary_distribution
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray as xr

NAMES = ("bias", "asymptotic_variance", "cost", "risk", "best", "budget")


@naming_the_arguments
def long_run_risk(
    T: Any,
    settings: Mapping[Any, Any],
    values: Any,
    *,
    costs: Mapping[Any, float],
    budgets: Any,
    knob: str = "setting",
) -> "xr.Dataset":
    """Return the long-run risk of an average under each setting of a sampler, and the best setting at each budget.

    Parameters
    ----------
    T
        Exact transition matrix; its stationary distribution has the right mean.
    settings
        Transition matrices of the sampler by the value of its knob, such as N of noisy exchange, or a tuple of
        settings.
    values
        f by state, shape (n,).
    costs
        Cost c of one step for each key of `settings`, in any unit.
    budgets
        Budgets B in the same unit, shape (m,).
    knob
        Meaning of the keys; it becomes the name of the dim. Not "budget", and not the name of a variable of the
        result.

    Returns
    -------
    xarray.Dataset
        Dim `knob`: `bias`, `asymptotic_variance` (of the average, per step), `cost`. Dims `knob`, ``budget``: `risk`.
        Dim ``budget``: `best`, the value of the knob with the smallest risk. Exact for the matrices as the number of
        steps grows.

    Raises
    ------
    InvalidInputError
        When a matrix is not stochastic, or of another size than `T`; `values` has another length; a setting has no
        positive cost; a budget is not positive; or `knob` is a name of the result.

    Examples
    --------
    >>> T, fast = [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.45, 0.55]]
    >>> found = long_run_risk(T, {1: T, 2: fast}, [0.0, 1.0], costs={1: 1.0, 2: 1.0}, budgets=[10.0, 1e5])
    >>> found["best"].values.tolist()
    [2, 1]
    """
    import xarray as xr

    if knob in NAMES:
        raise InvalidInputError(f"long_run_risk: knob must differ from the names {NAMES} in the result, found {knob!r}")
    keys = list(settings)
    budgets = np.asarray(budgets, dtype=np.float64)
    price = np.array([costs[key] for key in keys if key in costs], dtype=np.float64)
    if not keys or len(price) != len(keys) or not (price > 0.0).all() or not (budgets > 0.0).all():
        raise InvalidInputError(
            f"long_run_risk needs one positive cost for each setting {keys} and positive budgets, found {dict(costs)}"
        )
    if budgets.ndim != 1:
        raise InvalidInputError(f"long_run_risk: budgets must have shape (m,), found shape {budgets.shape}")
    exact = checked_matrix(T, "T")
    f = np.asarray(values, dtype=np.float64)
    if f.shape != exact.shape[:1]:
        raise InvalidInputError(
            f"long_run_risk: values must hold one number for each of the {len(exact)} states of T, "
            f"found shape {f.shape}"
        )
    exact_mean = float(stationary_distribution(exact) @ f)
    bias = np.empty(len(keys))
    variance = np.empty(len(keys))
    for k, key in enumerate(keys):
        matrix = checked_matrix(settings[key], f"the matrix of {knob} = {key}")
        if matrix.shape != exact.shape:
            raise InvalidInputError(
                f"long_run_risk: the matrix of {knob} = {key} must have the shape {exact.shape} of T, "
                f"found {matrix.shape}"
            )
        stationary = stationary_distribution(matrix)
        bias[k] = float(stationary @ f) - exact_mean
        variance[k] = asymptotic_variance(matrix, stationary, f)
    labels = _labels(keys)
    risk = bias[:, None] ** 2 + (price * variance)[:, None] / budgets
    return xr.Dataset(
        {
            "bias": (knob, bias, {"long_name": "long-run bias of the average"}),
            "asymptotic_variance": (knob, variance, {"long_name": "n times the variance of the average of n steps"}),
            "cost": (knob, price, {"long_name": "cost of a step"}),
            "risk": ((knob, "budget"), risk, {"long_name": "squared bias + variance at the budget"}),
            "best": ("budget", labels[risk.argmin(axis=0)]),
        },
        coords={knob: (knob, labels), "budget": budgets},
    )


def _labels(keys: Sequence[Any]) -> np.ndarray:
    """Return keys as an array of shape (len(keys),): of objects, unless all are numbers, or all are strings.

    NumPy would make a second axis of tuples, and text of numbers beside strings.
    """
    is_plain = all(isinstance(key, Number) for key in keys) or all(isinstance(key, str) for key in keys)
    return np.array(keys) if is_plain else np.fromiter(keys, dtype=object, count=len(keys))
