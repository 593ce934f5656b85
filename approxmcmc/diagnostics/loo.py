"""Leave-one-out cross-validation on tall data: compute the likelihood of only those rows that ArviZ reads.

ArviZ keeps the log-likelihood of every row at every draw in one array, 32 GB for a million rows and 4000 draws. Here
the array is lazy: only the parts that are read are computed.
"""

import itertools
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from approxmcmc.contracts import CompiledTarget, DiscreteTarget, DoublyIntractableTarget, EstimatedTarget, Target
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.output.reading import flat_draws

NAME, ROW = "terms", "row"  # of the variable and its axis, in both groups that ArviZ reads
_WITHOUT_ROWS = (DiscreteTarget, DoublyIntractableTarget, EstimatedTarget)


def log_likelihood(trace: xr.DataTree, target: Target) -> xr.DataTree:
    r"""Return the trace with the group ``log_likelihood`` that ArviZ reads, :math:`\log p(x_i \mid \theta_s)`.

    Parameters
    ----------
    trace
        Draws of the target, by any sampler of the library.
    target
        The target with the likelihood as its terms: the plain target if the chains ran on an expansion of it,
        ``amc.from_pymc(model)`` for a PyMC model.

    Returns
    -------
    xarray.DataTree
        The same groups, and two more: ``log_likelihood`` with the variable ``terms``, dims (chain, draw, row), in nats,
        and ``observed_data`` with the row numbers under the same name. The first is lazy: a call costs a pass over the
        draws; reading m rows costs m terms at every draw. ``az.loo(tree)`` reads all of them.

    Raises
    ------
    IncompatibleError
        When the terms are not the likelihood of single rows: expansions, discrete and doubly intractable targets.
    InvalidInputError
        When the trace lacks a variable of the target, or its draws carry weights, which ArviZ would ignore.

    Notes
    -----
    If a likelihood is written up to a constant, every elpd is shifted by it; comparisons of models need densities of
    the same data with their constants. The target's ``omitted_constants`` are added: `from_pymc` sets them if its terms
    leave constants out, and so can you.

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
    target = _of_rows(trace, target)
    terms = indexing.LazilyIndexedArray(_Terms(target.compile(), flat_draws(trace, target), _constants(target)))
    draws = {name: trace["posterior"].coords[name] for name in ("chain", "draw")}
    rows = np.arange(target.n_obs)
    whole = trace.copy()
    whole["log_likelihood"] = xr.DataTree(xr.Dataset({NAME: (("chain", "draw", ROW), terms)}, {**draws, ROW: rows}))
    whole["observed_data"] = xr.DataTree(xr.Dataset({NAME: (ROW, rows)}, {ROW: rows}))
    return whole


def loo_subsample(trace: xr.DataTree, target: Target, observations: int | np.ndarray = 1000, **options: Any) -> Any:
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
        The number of rows m, at most all, or the rows themselves. ``az.compare`` can compare models with the same rows
        or the same seed.
    **options
        Of ``az.loo_subsample``, such as ``seed`` and ``pointwise``.

    Returns
    -------
    arviz_stats.ELPDData
        ``elpd`` in nats; its standard error ``se``; ``subsampling_se``, the part of it due to the sample of rows; and
        the effective number of parameters ``p``. ``warning`` is True if a Pareto k is too large for a row.

    Raises
    ------
    IncompatibleError, InvalidInputError
        As :func:`approxmcmc.log_likelihood`.

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
    >>> target = amc.targets.LogisticRegression(X, y, prior_scale=1.0)
    >>> trace = amc.sample(target, amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), random_seed=1)
    >>> amc.loo_subsample(trace, target, observations=100).n_data_points
    500
    """
    import arviz_stats as az  # imported late, as in `convergence`: only needed once there are draws

    target = _of_rows(trace, target)
    compiled = target.compile()

    def at_the_mean(observed: xr.DataArray, data: xr.DataTree) -> xr.DataArray:
        theta = target.variables.pack({str(name): mean.to_numpy() for name, mean in data.posterior.data_vars.items()})
        terms = full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)
        return observed.copy(data=terms + target.omitted_constants)

    rows = min(observations, compiled.n_obs) if isinstance(observations, int) else observations
    given = {"var_name": NAME, "method": "plpd", "log_lik_fn": at_the_mean}
    return az.loo_subsample(log_likelihood(trace, target), rows, **{**given, **options})


class _Terms(BackendArray):
    """Terms by (chain, draw, row), computed when read; the last ones are cached: ArviZ reads them three times."""

    def __init__(self, compiled: CompiledTarget, thetas: np.ndarray, constants: np.ndarray) -> None:
        self.compiled, self.thetas, self.constants = compiled, thetas, constants
        self.shape, self.dtype = (*thetas.shape[:2], compiled.n_obs), np.dtype(np.float64)
        self.places, self.values = [np.empty(0, dtype=np.int64)] * 3, np.empty((0, 0, 0))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the values at an outer key; an axis indexed by one integer is dropped."""
        asked = [np.arange(size)[part] for size, part in zip(self.shape, key, strict=True)]
        places = [np.ascontiguousarray(np.atleast_1d(part)) for part in asked]
        if not all(map(np.array_equal, places, self.places)):
            self.places, self.values = places, self._compute(*places)
        return self.values.reshape([size for part in asked for size in part.shape]).copy()

    def _compute(self, chains: np.ndarray, draws: np.ndarray, rows: np.ndarray) -> np.ndarray:
        out = np.empty((chains.size, draws.size, rows.size))
        for place, (chain, draw) in zip(np.ndindex(out.shape[:2]), itertools.product(chains, draws), strict=True):
            self.compiled.log_terms(self.thetas[chain, draw], self.compiled.data, rows, 0, rows.size, out[place])
        return out + self.constants[rows]


def _constants(target: Target) -> np.ndarray:
    return np.broadcast_to(target.omitted_constants, target.n_obs)


def _of_rows(trace: xr.DataTree, target: Target) -> Target:
    """Return the target with single rows as terms: the plain target if a term of `target` represents several rows."""
    foreign = not isinstance(target, Target) or isinstance(target, _WITHOUT_ROWS)
    if foreign or not target.terms_are_likelihood:
        raise IncompatibleError(
            "leave-one-out cross-validation needs a target whose terms are the log-likelihoods of single rows, found "
            f"{target!r}; give the plain target of an expansion, and `amc.from_pymc(model)` of a model of PyMC"
        )
    missing = sorted(set(target.variables.shapes) - set(trace["posterior"].data_vars))
    if missing:
        raise InvalidInputError(f"the trace lacks {', '.join(missing)} of {target!r}; give the target that was sampled")
    if "sample_stats" in trace.children and "weight" in trace["sample_stats"]:
        raise InvalidInputError(
            "the draws of this trace carry weights, which ArviZ's cross-validation would ignore; resample them first"
        )
    return target.plain
