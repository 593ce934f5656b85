"""Importance sampling: independent draws of a proposal, weighted by the ratio of target and proposal.

    x_t ~ Q,    log w_t = log P~(x_t) - log Q(x_t),    E_P f is estimated by sum_t w_t f(x_t) / sum_t w_t,

with Q the proposal and P~ the density of the target P, which need not be normalised; mean w_t estimates its normalising
constant. There is no chain and no test: every draw evaluates all terms.

Reference: Owen (2013), Monte Carlo theory, methods and examples, chapter 9.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.api import with_its_warning
from approxmcmc.contracts import DiscreteTarget, DoublyIntractableTarget, SamplingResult, Target, Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.importance import importance_diagnostics
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.output.datatree import build_trace
from approxmcmc.targets.all_rows import AllRows


@naming_the_arguments
def importance_sampling(target: Any, proposal: Any, draws: int, *, random_seed: Any = None) -> xr.DataTree:
    """Draw independently from a proposal, and weight each draw by the ratio of target to proposal density.

    Parameters
    ----------
    target
        A target of the library, or a frozen distribution of `scipy.stats`.
    proposal
        A frozen distribution with ``rvs(size, random_state)`` and ``logpdf`` or ``logpmf``, over vectors of the
        target's length; for a Bayesian network ``network.ancestral()`` (likelihood weighting). It must cover the
        target.
    draws
        Number of draws.
    random_seed
        As in `sample`.

    Returns
    -------
    xarray.DataTree
        One chain. ``posterior`` holds the *unweighted* draws; ``sample_stats`` holds ``log_weight`` (unnormalised) and
        ``weight`` (they sum to 1), which `risk` and `importance_estimates` use. Attributes: ``ess``, ``pareto_k``,
        ``log_normalizer`` (log of the mean weight) and ``kl``, see `importance_diagnostics`. Averages of ``posterior``
        that ignore the weights, including ArviZ's, are averages under the proposal.

    Raises
    ------
    IncompatibleError
        When target or proposal lacks a method, or their dimensions differ.
    InvalidInputError
        When `draws` is not a positive integer, or every draw has density zero under the target.
    NotFiniteError
        When a weight is NaN or infinite.

    Notes
    -----
    Guarantee: consistent; the self-normalised estimate has a bias of order 1 / draws. About exp(KL(target || proposal))
    draws are needed: see `chatterjee_diaconis_bound`. A warning is issued if Pareto k exceeds 0.7.

    References
    ----------
    Owen (2013), chapter 9; Vehtari et al. (2024); Chatterjee and Diaconis (2018).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> network = amc.targets.alarm_network(J=1, M=1)
    >>> trace = amc.importance_sampling(network, network.ancestral(), 1000, random_seed=1)
    >>> amc.diagnostics.importance_estimates(trace)["A"].sizes["moment"]
    2
    """
    draws = checked_integer(draws, "draws")
    [sequence], seed = seed_sequences(random_seed, 1)
    result, variables = _weighted_draws(target, proposal, draws, streams(sequence).proposal)
    diagnostics = importance_diagnostics(result.stats["log_weight"])
    described = {"kind": "importance_sampling", "proposal": repr(proposal)}
    trace = build_trace(
        result._replace(attrs={**result.attrs, **diagnostics, "seed": seed}),
        variables=variables,
        observed_data=target.observed_data if isinstance(target, Target) else {},  # a scipy distribution has no data
        constant_data=target.constant_data if isinstance(target, Target) else {},
        keep_warmup=False,
        settings=described,
    )
    return with_its_warning(trace)


def _weighted_draws(
    target: Any, proposal: Any, draws: int, rng: np.random.Generator
) -> tuple[SamplingResult, Variables]:
    """Draw from the proposal and weight; return the draws and records as one chain, and the target's variables."""
    started = time.perf_counter()
    log_target, n_obs, variables = log_density_of(target)
    proposal_density = logpdf_of(proposal, "proposal")
    x = np.asarray(proposal.rvs(size=draws, random_state=rng), dtype=np.float64)
    log_proposal = np.asarray(proposal_density(x))
    states = x.reshape(draws, -1)
    if variables is None:
        variables = Variables({"x": () if states.shape[1] == 1 else (states.shape[1],)})
    if states.shape[1] != variables.size:
        raise IncompatibleError(
            f"importance_sampling: the proposal draws vectors of length {states.shape[1]}, {target!r} has "
            f"{variables.size} coordinates"
        )
    with np.errstate(invalid="ignore"):
        log_weight = log_target(states) - log_proposal.reshape(draws)
    _check(log_weight, states)
    shifted = np.exp(log_weight - log_weight.max())
    seconds = np.full((1, draws), (time.perf_counter() - started) / draws)
    counts = np.full((1, draws), n_obs, dtype=np.int64)
    stats = {
        "log_weight": log_weight[None],
        "weight": (shifted / shifted.sum())[None],
        "datapoints_touched": counts,
        "likelihood_evaluations": counts.copy(),
        "perf_counter_diff": seconds,
    }
    attrs = {"sampling_time": float(seconds.sum()), "tuning_steps": 0, "thin": 1, "stopped": "", "n_obs": n_obs}
    return SamplingResult(states[None], stats, None, None, {}, attrs), variables


def log_density_of(target: Any) -> tuple[Callable[[np.ndarray], np.ndarray], int, Variables | None]:
    """Return the function from states (n, dim) to log densities (n,), its number of terms, and the target's variables.

    A scipy distribution counts as one term and has no variables (None).
    """
    if isinstance(target, DiscreteTarget):
        return target.log_density, target.n_obs, target.variables
    if isinstance(target, DoublyIntractableTarget):  # raises if its normaliser is unknown
        return target.log_densities, target.n_obs, target.variables
    if isinstance(target, Target):
        return AllRows(target).log_densities, target.n_obs, target.variables
    log_density = logpdf_of(target, "target")
    return lambda states: np.asarray(log_density(states[:, 0] if states.shape[1] == 1 else states)).reshape(-1), 1, None


def logpdf_of(distribution: Any, argument: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the method ``logpdf`` or ``logpmf`` of a frozen `scipy.stats` distribution or a similar object.

    `argument` is "target" or "proposal"; only a proposal needs ``rvs``. Raises IncompatibleError if a method is
    missing.
    """
    if not hasattr(distribution, "rvs") and argument == "proposal":
        raise IncompatibleError(
            f"importance_sampling: the proposal needs rvs(size, random_state), found {distribution!r}"
        )
    for name in ("logpdf", "logpmf"):
        # frozen discrete distributions of scipy.stats have a logpdf that only raises
        if hasattr(distribution, name) and not (
            name == "logpdf" and hasattr(getattr(distribution, "dist", None), "_pmf")
        ):
            return getattr(distribution, name)
    needed = "a frozen scipy distribution" + ("" if argument == "proposal" else ", or a target of the library")
    raise IncompatibleError(f"importance_sampling: the {argument} must be {needed}; found {distribution!r}")


def _check(log_weight: np.ndarray, states: np.ndarray) -> None:
    bad = np.flatnonzero(np.isnan(log_weight) | (log_weight == np.inf))
    if bad.size:
        raise NotFiniteError(
            f"importance_sampling: the log weight of draw {bad[0]} is {log_weight[bad[0]]} at x = {states[bad[0]]}; "
            "target or proposal has no proper density there"
        )
    if not (log_weight > -np.inf).any():
        raise InvalidInputError(
            f"importance_sampling: none of {len(states)} draws has positive density under the target; "
            "the proposal must cover it"
        )
