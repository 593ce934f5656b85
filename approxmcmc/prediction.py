"""Predictions from a trace: the responses of new rows, their means, or their linear predictors, at every draw."""

import dataclasses
import functools
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import PredictiveTarget, RowsToPredict, as_labels
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.any_model import is_bambi, is_pymc
from approxmcmc.output.reading import flat_draws, refuse_weights

KINDS = {"mean": "y_mean", "response": "y", "predictor": "y_predictor"}
"""What is predicted, and the name of the variable that holds it."""

NUMBERS = 1 << 20  # predictors computed at a time by one thread: 8 MB
LARGEST = 1 << 31  # bytes of a prediction; more is an error, since a table of summaries is what users look at
ROW = "y_dim_0"  # the axis of rows of ``observed_data.y``, as ArviZ names it


@naming_the_arguments
def predict(
    trace: xr.DataTree,
    target: Any,
    rows: Any = None,
    *,
    kind: str = "mean",
    interval: float | None = None,
    draws: int | None = None,
    random_seed: Any = None,
    cores: int | None = None,
    **columns: Any,
) -> xr.DataTree:
    r"""Predict the responses of rows at the draws of a trace.

    .. math:: \text{predictor: } \eta_i(\theta_s), \quad \text{mean: } E(y_i \mid \theta_s), \quad
              \text{response: } y_i \sim p(\cdot \mid \theta_s).

    Parameters
    ----------
    trace
        Draws of the target, by any sampler.
    target
        A regression of `approxmcmc.targets`, such as ``LogisticRegression(X, y)``; a :class:`GLMTarget` or
        :class:`PredictorTarget` predicts by the functions of its arguments `mean` and `simulate`; a
        `targets.GroupedTarget` or `targets.NormalGroups` with the effects of groups, see Notes.
    rows
        New rows, as X of the target: a table with the same columns, in any order (others are ignored), or a matrix with
        as many columns; as `predictors` of a :class:`PredictorTarget`. None: the rows of the target.
    kind
        ``"mean"``, ``"response"`` or ``"predictor"``. Of classes, "mean" is the probability of each, and
        "response" an index into the labels of ``category``, as in ``observed_data``.
    interval
        None: the value at each draw. A probability, such as 0.94: mean, standard deviation and equal-tailed interval of
        each row over the draws; the result then has four numbers a row.
    draws
        Use only so many draws, evenly spread over the trace; None: all.
    random_seed
        Seed of ``kind="response"`` and of effects of groups: an int, a `numpy.random.Generator` or `SeedSequence`, or
        None.
    cores
        Threads; None: the number of processors. The result does not depend on it.
    **columns
        Further columns of new rows, such as ``offset=`` or ``weights=``, shape (n,); ``offsets=`` of a
        :class:`PredictorTarget`, by predictor; ``groups=``, labels, of a target of groups, and ``slopes=`` or
        ``errors=`` if it has them.

    Returns
    -------
    xarray.DataTree
        One group, ``predictions`` of new rows and ``posterior_predictive`` of the target's own, as in PyMC; join it by
        ``trace.update(predict(...))``. Its variable is ``y_mean``, ``y`` or ``y_predictor``, dims (chain, draw,
        y_dim_0) and ``category``, ``outcome`` or ``predictor``. With `interval`: (statistic, y_dim_0), the statistics
        ``mean``, ``sd``, ``lower`` and ``upper``. Rows of a pandas table have its index as labels.

    Raises
    ------
    InvalidInputError
        When new rows lack a column, hold a missing value, or a category that no row of the target had; when an argument
        is out of range, or the result would take more than 2 GB.
    IncompatibleError
        When the target cannot predict.

    Notes
    -----
    Rows in groups: at each draw the effect of a group that has rows in the target is drawn given theta and these rows,
    as by `approxmcmc.latents`; that of a new group, any other label, from its prior N(0, LL') given theta. All rows of
    a group have the same effect. The attributes ``n_new_groups`` and ``new_groups`` of the result name the new groups,
    so that a misspelt label is seen. A `NormalGroups` keeps no rows, so it needs `rows`.

    Guarantee: draws of the predictive distribution, as accurate as the draws of the trace. Models of PyMC and formulas
    of Bambi predict by themselves: ``pm.sample_posterior_predictive(trace, model)`` and ``formula.predict(trace)``
    take the traces of this library.

    References
    ----------
    Gelman et al. (2013), sections 6.3 and 14.3.

    Examples
    --------
    >>> import numpy as np, pandas as pd, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.normal(size=200), "sex": np.array(["f", "m"])[rng.integers(2, size=200)]})
    >>> target = amc.LogisticRegression(table, (table["age"] > 0).astype(int), intercept=True)
    >>> trace = amc.sample(target, draws=100, chains=2, random_seed=1, progressbar=False)
    >>> new = pd.DataFrame({"sex": ["m", "f"], "age": [-1.0, 1.0]})
    >>> amc.predict(trace, target, new).predictions["y_mean"].mean(("chain", "draw")).round(1).values
    array([0. , 1. ])
    """
    if kind not in KINDS:
        raise InvalidInputError(f"predict: kind must be one of {tuple(KINDS)}, found {kind!r}")
    if interval is not None and not 0.0 < interval < 1.0:
        raise InvalidInputError(
            f"predict: interval must be a probability between 0 and 1, such as 0.94, found {interval!r}"
        )
    predictive = _predictive_target(target).rows_to_predict(rows, **columns)
    if interval is not None and kind == "response" and predictive.responses_are_classes:
        raise InvalidInputError("predict: drawn classes have no mean and no interval; kind='mean' gives probabilities")
    thetas = flat_draws(trace, target)
    refuse_weights(trace, "predict")
    chosen = _spread(thetas.shape[1], None if draws is None else math.ceil(draws / thetas.shape[0]))
    thetas = thetas[:, chosen]
    chains, kept, _ = thetas.shape
    rng = np.random.default_rng(random_seed)
    axes_of_kinds = {
        "mean": predictive.axes,
        "response": predictive.response_axes,
        "predictor": predictive.predictor_axes,
    }
    axes = axes_of_kinds[kind]
    statistics = None if interval is None else _Summary(interval)
    _refuse_large(predictive.n_rows * math.prod(len(labels) for labels in axes.values()), chains * kept, statistics)
    flat = thetas.reshape(chains * kept, -1)
    predictive = predictive.at_draws(flat, rng, cores)
    values = _all_rows(predictive, flat, kind, axes, statistics, rng, cores)
    posterior = trace["posterior"].to_dataset()  # numbers chains and draws that have no labels
    coords = {ROW: np.arange(predictive.n_rows) if predictive.labels is None else as_labels(predictive.labels)}
    coords |= {name: as_labels(labels) for name, labels in axes.items()}
    if statistics is None:
        values = np.moveaxis(values, -1, 0).reshape(chains, kept, predictive.n_rows, *values.shape[1:-1])
        dims = ["chain", "draw", ROW, *axes]
        coords |= {"chain": posterior["chain"].to_numpy(), "draw": posterior["draw"].to_numpy()[chosen]}
    else:
        values = np.moveaxis(values, -1, 0)
        dims = ["statistic", ROW, *axes]
        coords["statistic"] = np.array(statistics.names)
    attrs: dict[str, Any] = {"kind": kind, "draws_used": chains * kept, **predictive.attrs}
    if interval is not None:
        attrs["interval"] = interval
    group = "posterior_predictive" if rows is None else "predictions"
    return xr.DataTree.from_dict({group: xr.Dataset({KINDS[kind]: (dims, values)}, coords, attrs)})


def posterior_predictive(
    trace: xr.DataTree, target: Any, *, draws: int | None = None, random_seed: Any = None
) -> xr.DataTree:
    """Draw replicated responses of the target's own rows, for checks of the model: group ``posterior_predictive``.

    Parameters
    ----------
    trace, target, draws, random_seed
        As in :func:`approxmcmc.predict`.

    Returns
    -------
    xarray.DataTree
        The group ``posterior_predictive`` with the variable ``y``, and the group ``observed_data`` of the trace, as
        ``az.plot_ppc_dist`` reads them.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> target = amc.LinearRegression(np.ones((20, 1)), np.arange(20.0), prior_scale=10.0)
    >>> trace = amc.sample(target, draws=100, chains=2, random_seed=1, progressbar=False)
    >>> dict(amc.posterior_predictive(trace, target, random_seed=1).posterior_predictive.y.sizes)
    {'chain': 2, 'draw': 100, 'y_dim_0': 20}
    """
    tree = predict(trace, target, kind="response", draws=draws, random_seed=random_seed)
    if "observed_data" in trace.children:
        tree["observed_data"] = trace["observed_data"].copy()
    return tree


def predicted(target: Any, rows: Any = None, *, kind: str = "mean", **columns: Any) -> "PredictedRows":
    """Return predictions as an estimand of `risk`, `bias`, `compare_samplers` and studies.

    Parameters
    ----------
    target
        A target that predicts, as in :func:`approxmcmc.predict`; or a function without arguments that makes it, such as
        one of the targets of a study, which is called at the first draws.
    rows, **columns
        As in :func:`approxmcmc.predict`.
    kind
        ``"mean"`` or ``"predictor"``: drawn responses are no function of theta.

    Returns
    -------
    PredictedRows
        A function of the posterior Dataset that returns the prediction of each row, dims (chain, draw, y_dim_0, ...).

    Raises
    ------
    InvalidInputError
        If `kind` is another one. When it is called: as :func:`approxmcmc.predict`.
    IncompatibleError
        When it is called: if the target draws effects of groups, which are no functions of theta.

    Notes
    -----
    A study knows it by the content of target, rows and columns. For many rows take their mean, because each is an
    estimand: ``lambda posterior: amc.predicted(target, rows)(posterior).mean("y_dim_0")``.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> target = amc.LogisticRegression(X, (X[:, 0] > rng.logistic(size=500)).astype(int))
    >>> traces = [amc.sample(target, draws=200, chains=1, random_seed=k, progressbar=False) for k in range(3)]
    >>> chances = amc.predicted(target, [[1.0, 0.0], [-1.0, 0.0]])
    >>> dict(chances(traces[0]["posterior"].to_dataset()).sizes)
    {'chain': 1, 'draw': 200, 'y_dim_0': 2}
    >>> compared = amc.compare_samplers({"default": traces}, traces[0], estimands={"chance": chances})
    """
    if kind not in ("mean", "predictor"):
        raise InvalidInputError(
            f"predicted: an estimand is a function of theta, so kind must be 'mean' or 'predictor', found {kind!r}"
        )
    if not (hasattr(rows, "columns") and hasattr(rows, "index") and hasattr(rows, "to_numpy")):
        return PredictedRows(target, rows, None, kind, columns)
    of_table = {name: np.asarray(rows[name]) for name in rows.columns}
    return PredictedRows(target, of_table, rows.index.tolist(), kind, columns)


@dataclasses.dataclass(frozen=True, eq=False)
class PredictedRows:
    """The function of the posterior that :func:`approxmcmc.predicted` returns; its fields are what was given.

    A table is kept as its columns and its index, so that equal tables have equal content, however pandas stores them.
    """

    target: Any
    given: Any
    index: Sequence[Any] | None
    kind: str
    columns: Mapping[str, Any]

    def __call__(self, posterior: xr.Dataset) -> xr.DataArray:
        """Return the predictions at all draws; dims (chain, draw, y_dim_0, ...)."""
        target = self.target if isinstance(self.target, PredictiveTarget) else _made(self.target)
        if _predictive_target(target).rows_to_predict(self.rows, **self.columns).draws_effects:
            raise IncompatibleError(
                f"predicted: {target!r} draws effects of groups for a prediction, so it is no function of theta; use "
                "an estimand of its parameters"
            )
        trace = xr.DataTree.from_dict({"posterior": posterior})
        predictions = predict(trace, target, self.rows, kind=self.kind, **self.columns)
        [group] = predictions.children.values()
        return group.to_dataset()[KINDS[self.kind]]

    @property
    def rows(self) -> Any:
        """The rows as they were given, a table made anew from its columns."""
        if self.index is None:
            return self.given
        import pandas as pd

        return pd.DataFrame(self.given, index=self.index)


@functools.lru_cache(maxsize=8)
def _made(factory: Any) -> Any:
    """Return the target that a function makes, once; anything else unchanged."""
    return factory() if callable(factory) else factory


def _predictive_target(target: Any) -> PredictiveTarget:
    """Return the target, or raise with what predicts in its place."""
    if isinstance(target, PredictiveTarget):
        return target
    if is_pymc(target):
        raise IncompatibleError(
            "predict: a PyMC model predicts by itself: pm.sample_posterior_predictive(trace, model); for new rows "
            "pm.set_data, and then the same with predictions=True"
        )
    if is_bambi(target):
        raise IncompatibleError("predict: a formula predicts by itself: formula.predict(trace, data=rows)")
    raise IncompatibleError(
        f"predict: {target!r} does not know how its rows come about; the regressions of approxmcmc.targets do. Compute "
        "predictions from the draws: trace.posterior"
    )


def _spread(n_draws: int, n_wanted: int | None) -> np.ndarray:
    """Return the indices of the wanted number of draws, evenly spread."""
    if n_wanted is None or n_wanted >= n_draws:
        return np.arange(n_draws)
    if n_wanted < 1:
        raise InvalidInputError(f"predict: draws must be positive, found {n_wanted}")
    return np.linspace(0, n_draws - 1, n_wanted).round().astype(np.int64)


class _Summary:
    """Mean, standard deviation and equal-tailed interval over the last axis."""

    names = ("mean", "sd", "lower", "upper")

    def __init__(self, interval: float) -> None:
        self.tails = (0.5 * (1.0 - interval), 0.5 * (1.0 + interval))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the four statistics on a last axis."""
        ordered = np.sort(values, axis=-1)  # 8 ns a number; np.quantile takes 20
        lower, upper = (_of_ordered(ordered, tail) for tail in self.tails)
        return np.stack([values.mean(axis=-1), values.std(axis=-1, ddof=1), lower, upper], axis=-1)


def _of_ordered(values: np.ndarray, probability: float) -> np.ndarray:
    """Return the quantile of sorted values by linear interpolation, as `np.quantile`."""
    place = probability * (values.shape[-1] - 1)
    before = math.floor(place)
    after = min(before + 1, values.shape[-1] - 1)
    return values[..., before] + (place - before) * (values[..., after] - values[..., before])


def _refuse_large(n_numbers: int, n_draws: int, summary: _Summary | None) -> None:
    n_bytes = 8 * n_numbers * (n_draws if summary is None else len(_Summary.names))
    if n_bytes <= LARGEST:
        return
    advice = "predict fewer rows at a time"
    if summary is None:
        advice = "give interval=0.94 for a mean and an interval of each row, or draws=100"
    raise InvalidInputError(
        f"predict: {n_numbers} numbers at each of {n_draws} draws take {n_bytes / 2**30:.1f} GiB; {advice}"
    )


def _all_rows(
    rows: RowsToPredict,
    thetas: np.ndarray,
    kind: str,
    axes: Mapping[str, Sequence[Any]],
    summary: _Summary | None,
    rng: np.random.Generator,
    cores: int | None,
) -> np.ndarray:
    """Return the prediction of all rows, block by block; shape (rows, *axes, draws or statistics).

    Each block has a generator of its own, so that the result does not depend on the number of threads.
    """
    size = max(1, NUMBERS // len(thetas))
    blocks = [slice(lo, min(lo + size, rows.n_rows)) for lo in range(0, rows.n_rows, size)]
    last = len(thetas) if summary is None else len(_Summary.names)
    values = np.empty((rows.n_rows, *(len(labels) for labels in axes.values()), last))
    streams = rng.spawn(len(blocks))

    def fill(block: slice, rng: np.random.Generator) -> None:
        predictors = rows.predictors(thetas, block)
        if kind == "predictor":
            by_draw = rows.locations(predictors)
        elif kind == "mean":
            by_draw = rows.means(predictors, block)
        else:
            by_draw = rows.responses(predictors, block, rng)
        by_draw = np.moveaxis(by_draw, -2, 0)  # rows first
        values[block] = by_draw if summary is None else summary(by_draw)

    with ThreadPoolExecutor(cores or os.cpu_count()) as threads:
        list(threads.map(fill, blocks, streams))
    return values
