"""Leave-one-out cross-validation: compute only those likelihoods that ArviZ reads.

ArviZ keeps the log-likelihood of every row at every draw in one array, 32 GB for a million rows and 4000 draws. Here
the array is lazy: only the parts that are read are computed. A target evaluates single rows. A PyMC model, also one
that `from_pymc` cannot translate, evaluates all rows of a draw by the function that `pm.compute_log_likelihood`
compiles.
"""

import itertools
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from approxmcmc.contracts import (
    DiscreteTarget,
    DoublyIntractableTarget,
    EstimatedTarget,
    PointwiseLikelihood,
    Target,
    TwinnedTarget,
)
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.any_model import is_pymc, without_formula
from approxmcmc.output.reading import flat_draws, refuse_formula, refuse_weights

# variable and axis of a target's rows, in both groups that ArviZ reads
NAME = "terms"
ROW = "row"
_WITHOUT_ROWS = (DiscreteTarget, DoublyIntractableTarget, EstimatedTarget)


def log_likelihood(trace: xr.DataTree, target: Any) -> xr.DataTree:
    r"""Return the trace with the group ``log_likelihood`` that ArviZ reads, :math:`\log p(x_i \mid \theta_s)`.

    Parameters
    ----------
    trace
        Draws of the target, by any sampler of the library.
    target
        The target whose terms are the log-likelihoods of the rows: the plain target if the chains ran on an expansion
        of it, such as ``ControlVariate(target)``. Or a ``pymc.Model``; any library may then have made the trace.

    Returns
    -------
    xarray.DataTree
        A copy of `trace` with two new groups, which replace groups of the same names: ``log_likelihood`` with the
        variable ``terms``, dims (chain, draw, row), in nats, and ``observed_data`` with the rows' indices as ``terms``.
        The first is lazy: this call costs a pass over the draws; reading m rows costs m terms at every draw.
        ``az.loo(tree)`` reads all rows. For a PyMC model, both groups have the model's observed variables instead of
        ``terms``; reading any rows of a variable costs all its rows at every draw.

    Raises
    ------
    IncompatibleError
        When the terms are not the likelihood of single rows: expansions, discrete, doubly intractable and estimated
        targets, and models with one log density for all rows, such as a time series.
    InvalidInputError
        When the trace lacks a variable of the target or comes from a Bambi formula, or its draws carry weights, which
        ArviZ would ignore.

    Notes
    -----
    If the terms leave out a constant of the likelihood, every elpd is shifted by it; comparisons of models need
    densities of the same data with their constants. The target's ``omitted_constants`` are added to the terms:
    `from_pymc` sets them, and so can you. If a PyMC model has millions of rows, `loo_subsample` with the target
    ``amc.from_pymc(model, integrate=False)`` reads only the sampled rows.

    References
    ----------
    Vehtari, Gelman and Gabry (2017).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> target = amc.targets.GLMTarget(lambda eta, y: -0.5 * (y - eta) ** 2, [[1.0], [2.0], [3.0]], [1.0, 2.0, 4.0])
    >>> trace = amc.sample(target, amc.MetropolisHastings(amc.RandomWalk(0.3), amc.ExactTest()), draws=200)
    >>> dict(amc.log_likelihood(trace, target).log_likelihood.terms.sizes)
    {'chain': 4, 'draw': 200, 'row': 3}
    """
    parts = _parts(trace, target)
    groups: dict[str, dict[str, xr.DataArray]] = {"log_likelihood": {}, "observed_data": {}}
    draws = {name: trace["posterior"].coords[name] for name in ("chain", "draw")}
    for name, part in parts.items():
        lazy = indexing.LazilyIndexedArray(_LogLikelihood(part, tuple(axis.size for axis in draws.values())))
        axes = ("chain", "draw", *part.observed.dims)
        labels = {**draws, **part.observed.coords}
        groups["log_likelihood"][name] = xr.DataArray(xr.Variable(axes, lazy), labels, name=name)
        groups["observed_data"][name] = part.observed
    whole = trace.copy()
    for group, held in groups.items():
        whole[group] = xr.DataTree(xr.Dataset(held))
    return whole


def loo_subsample(trace: xr.DataTree, target: Any, observations: int | np.ndarray = 1000, **options: Any) -> Any:
    r"""Estimate the leave-one-out predictive density of all rows from a few rows: ``az.loo_subsample`` for a target.

    .. math:: \widehat{\mathrm{elpd}} = \sum_{i=1}^N \ell_i(\bar\theta)
              + \frac{N}{m} \sum_{i \in S} \bigl[\mathrm{elpd}_{\mathrm{loo}, i} - \ell_i(\bar\theta)\bigr]

    with the log-likelihood of each row at the posterior mean, one pass over the data, and Pareto-smoothed importance
    sampling on the m rows of a simple random sample S.

    Parameters
    ----------
    trace, target
        As in :func:`approxmcmc.log_likelihood`.
    observations
        The number of rows m (more than there are means all rows), or an array of indices of rows. ``az.compare`` can
        compare models if both calls used the same rows, or the same number and the same ``seed``.
    **options
        Passed to ``az.loo_subsample``, such as ``seed`` and ``pointwise``.

    Returns
    -------
    arviz_stats.ELPDData
        ``elpd`` in nats; its standard error ``se``; ``subsampling_se``, the part of it due to the sample of rows; and
        the effective number of parameters ``p``. ``warning`` is True if a Pareto k is too large for a row. ``elpd_i``
        holds a value for every row, and their sum is ``elpd``: a row outside S has its term of the first sum, plus the
        mean of the brackets. To use more rows, call again with more `observations`.

    Raises
    ------
    IncompatibleError, InvalidInputError
        As :func:`approxmcmc.log_likelihood`; also if the log-likelihood of a sampled row is the same at all draws.

    Notes
    -----
    Guarantee: unbiased over the choice of rows, given PSIS of every row; the noise of the choice is small if the
    posterior is narrow around its mean. The draws are taken as draws of the posterior: the bias of a biased sampler is
    in the result, and no Pareto k shows it.

    References
    ----------
    Magnusson, Riis Andersen, Jonasson and Vehtari (2019), sections 2 and 3.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(n=500, d=3, seed=1)
    >>> target = amc.LogisticRegression(X, y, prior_scale=1.0)
    >>> trace = amc.sample(target, amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), random_seed=1)
    >>> amc.loo_subsample(trace, target, observations=100).n_data_points
    500
    """
    import arviz_stats as az  # imported late, because only needed once there are draws

    parts = _parts(trace, target)
    name = options.setdefault("var_name", next(iter(parts)) if len(parts) == 1 else None)
    if name not in parts:
        raise InvalidInputError(f"loo_subsample: var_name must be one of {list(parts)}, found {name!r}")

    def at_the_mean(observed: xr.DataArray, data: xr.DataTree) -> xr.DataArray:
        return observed.copy(data=parts[name].at_mean())

    rows = min(observations, parts[name].observed.size) if isinstance(observations, int) else observations
    defaults = {"method": "plpd", "log_lik_fn": at_the_mean}
    try:
        return _with_all_rows(az.loo_subsample(log_likelihood(trace, target), rows, **{**defaults, **options}))
    except ValueError as error:
        if "All tail values are the same" not in str(error):
            raise
        raise IncompatibleError(
            "loo_subsample: a sampled row has the same log-likelihood at all draws, such as a row whose predictors are "
            "all 0, and ArviZ fits no tail to equal values; give observations= the indices of other rows"
        ) from error


def _with_all_rows(estimate: Any) -> Any:
    """Fill ``elpd_i`` of the rows that were not sampled, so that the values of all rows sum to ``elpd``.

    ArviZ leaves NaN there. Its weights by stacking, the default of ``az.compare``, maximise a sum over all rows: with
    NaN the optimiser stops where it starts, at equal weights. Differences of elpd are computed from sampled rows alone.
    """
    if estimate.elpd_i is not None:
        correction = (estimate.elpd_i - estimate.elpd_loo_approx).mean()  # over the sampled rows: mean() skips NaN
        estimate.elpd_i = estimate.elpd_i.fillna(estimate.elpd_loo_approx + correction)
    return estimate


class _LogLikelihood(BackendArray):
    """Log-likelihoods by chain, draw and row, computed when read.

    The values of the last read are cached, because ArviZ reads the same rows three times.
    """

    def __init__(self, rows: PointwiseLikelihood, draws: tuple[int, ...]) -> None:
        self.rows = rows
        self.shape = (*draws, *rows.observed.shape)
        self.dtype = np.dtype(np.float64)
        self.places: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * len(self.shape)
        self.values = np.empty(0)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the values at an outer key; an axis indexed by one integer is dropped."""
        asked = [np.arange(size)[part] for size, part in zip(self.shape, key, strict=True)]
        places = [np.ascontiguousarray(np.atleast_1d(part)) for part in asked]
        if not all(map(np.array_equal, places, self.places)):
            self.places, self.values = places, self._compute(*places)
        return self.values.reshape([size for part in asked for size in part.shape]).copy()

    def _compute(self, chains: np.ndarray, draws: np.ndarray, *rows: np.ndarray) -> np.ndarray:
        out = np.empty([chains.size, draws.size, *(axis.size for axis in rows)])
        for position, (chain, draw) in zip(np.ndindex(out.shape[:2]), itertools.product(chains, draws), strict=True):
            out[position] = self.rows.at_draw(chain, draw, rows)
        return out


def _parts(trace: xr.DataTree, target: Any) -> dict[str, PointwiseLikelihood]:
    """Return the log-likelihoods of single rows by name: of a target (``terms``), or of each observed PyMC variable."""
    refuse_weights(trace, "ArviZ's cross-validation")
    if isinstance(target, Target) and not target.why_no_terms:
        return {NAME: _of_target(trace, _of_rows(trace, target))}
    model = target.to_pymc() if isinstance(target, TwinnedTarget) else without_formula(target)
    if not is_pymc(model):
        raise IncompatibleError(f"leave-one-out cross-validation needs a target or a pm.Model, found {model!r}")
    from approxmcmc.interop.log_likelihood import pointwise_likelihoods  # imported late, because it loads PyMC

    refuse_formula(trace, "The PyMC model")
    return pointwise_likelihoods(model, trace["posterior"].to_dataset())


def _of_target(trace: xr.DataTree, target: Target) -> PointwiseLikelihood:
    compiled = target.compile()
    thetas = flat_draws(trace, target)
    constants = np.broadcast_to(target.omitted_constants, target.n_obs)

    def at_draw(chain: int, draw: int, rows: tuple[np.ndarray, ...]) -> np.ndarray:
        [places] = rows
        out = np.empty(rows[0].size)
        compiled.log_terms(thetas[chain, draw], compiled.data, places, 0, places.size, out)
        return out + constants[places]

    def at_mean() -> np.ndarray:
        posterior = trace["posterior"].to_dataset()[list(target.variables.shapes)].mean(("chain", "draw"))
        theta = target.variables.pack({str(name): mean.to_numpy() for name, mean in posterior.data_vars.items()})
        return full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs) + constants

    numbers = np.arange(target.n_obs)
    return PointwiseLikelihood(xr.DataArray(numbers, {ROW: numbers}, ROW), at_draw, at_mean)


def _of_rows(trace: xr.DataTree, target: Target) -> Target:
    """Return the target with single rows as terms: the plain target if a term of `target` represents several rows."""
    if isinstance(target, _WITHOUT_ROWS) or not target.terms_are_likelihood:
        raise IncompatibleError(
            "leave-one-out cross-validation needs a target whose terms are the log-likelihoods of single rows, found "
            f"{target!r}; give the plain target of an expansion"
        )
    if missing := sorted(set(target.variables.shapes) - set(trace["posterior"].data_vars)):
        raise InvalidInputError(f"the trace lacks {', '.join(missing)} of {target!r}; give the target that was sampled")
    return target.plain
