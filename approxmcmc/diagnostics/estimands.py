"""Functions of the draws whose posterior means are estimated: their values, their labels, their reference values.

An estimand is a function of the posterior Dataset (dims chain, draw, ...) that returns a DataArray (chain, draw, ...);
what is estimated is the posterior mean of each of its coordinates.
"""

import itertools
import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.diagnostics.control_variates import controlled
from approxmcmc.diagnostics.copies import copies_sentence
from approxmcmc.diagnostics.health import share_of_moves
from approxmcmc.diagnostics.moments import as_reference, described, has_only_moments
from approxmcmc.diagnostics.records import group
from approxmcmc.errors import GoldStandardError, InvalidInputError

Estimand = Callable[[xr.Dataset], xr.DataArray]

# Enough batches to estimate the correlations between coordinates; the size of their errors comes from ArviZ's MCSE.
_BATCHES = 50
ROUNDING = 1e-14  # relative spread of numbers that differ by rounding only


class Layout(NamedTuple):
    """Labels of an estimand's coordinates, and its dims other than chain and draw, in the labels' order."""

    labels: tuple[str, ...]
    dims: tuple[str, ...]


class Values(NamedTuple):
    """One estimand of one trace: values of shape (chain, draw, coordinate), and the layout of the coordinates."""

    values: np.ndarray
    layout: Layout


class Reference(NamedTuple):
    """A gold standard's values for K coordinates.

    `mean`, `mcse` and `sd` have shape (K,): posterior mean, its Monte Carlo standard error, posterior sd. The errors of
    the coordinates come from the same draws, so they are correlated: ``mcse * (g @ directions)`` with g ~ N(0, I) has
    these standard errors, and the correlations of the reference's batch means. `directions` (batches, K) has unit
    columns.
    """

    mean: np.ndarray
    mcse: np.ndarray
    sd: np.ndarray
    directions: np.ndarray


def resolve(estimands: Mapping[str, Estimand] | None, trace: xr.DataTree) -> dict[str, Estimand]:
    """Return the estimands by name; by default the posterior variables, each estimated by coordinate."""
    if estimands is None:
        return {str(name): operator.itemgetter(name) for name in group(trace, "posterior").data_vars}
    named = isinstance(estimands, Mapping)
    if not named or not estimands or not all(callable(function) for function in estimands.values()):
        kinds = {name: type(value).__name__ for name, value in estimands.items()} if named else type(estimands).__name__
        raise InvalidInputError(
            "`estimands` needs a dict of name -> function of the posterior Dataset, with at least one entry; found "
            f"{kinds}."
        )
    return dict(estimands)


def evaluate(name: str, function: Estimand, trace: xr.DataTree, dims: tuple[str, ...] | None = None) -> Values:
    """Evaluate an estimand on all draws of a trace.

    Parameters
    ----------
    name, function
        The estimand, and its name in errors and labels.
    trace
        A trace with a posterior.
    dims
        Order of the dims other than chain and draw. None, or if the result has other dims: the order of the result.
    """
    estimates = function(group(trace, "posterior"))
    if not isinstance(estimates, xr.DataArray) or not {"chain", "draw"} <= set(estimates.dims):
        shown = f"dims {estimates.dims}" if isinstance(estimates, xr.DataArray) else f"a {type(estimates).__name__}"
        raise InvalidInputError(
            f"The estimand {name!r} needs to return a DataArray with the dims 'chain' and 'draw'; found {shown}. "
            "Average only over other dims; the mean over draws is computed later."
        )
    extra = tuple(str(dim) for dim in estimates.dims if dim not in {"chain", "draw"})
    extra = dims if dims is not None and set(dims) == set(extra) else extra
    estimates = estimates.transpose("chain", "draw", *extra)
    ticks = [np.asarray(estimates[dim]).tolist() for dim in extra]  # 0, 1, ... for a dim without labels
    labels = tuple(f"{name}[{', '.join(map(str, tick))}]" for tick in itertools.product(*ticks)) if extra else (name,)
    values = np.asarray(estimates, dtype=np.float64).reshape(estimates.sizes["chain"], estimates.sizes["draw"], -1)
    return Values(values, Layout(labels, extra))


def evaluate_reference(name: str, function: Estimand, reference: xr.DataTree, like: Layout) -> Reference:
    """Return the reference's values for the coordinates of `like`, in their order.

    A reference with a group `scores` (see :func:`approxmcmc.reference.exact_chain_reference`) has gradients at some of
    its draws, which serve as control variates; for each coordinate the mean with the smaller error is returned.

    Raises
    ------
    GoldStandardError
        If the reference lacks what the estimand reads, or has other coordinates, or its error cannot be estimated.
    """
    reference = as_reference(reference)
    if has_only_moments(reference):
        return _of_moments(name, function, reference, like)
    if not isinstance(reference, xr.DataTree) or "posterior" not in reference.children:
        raise GoldStandardError(
            f"`reference` needs a DataTree with a group 'posterior'; found {type(reference).__name__}. "
            "`reference_posterior(target)` makes one; a table of moments also serves."
        )
    if "sample_stats" in reference.children and {"weight", "log_weight"} & set(reference["sample_stats"].data_vars):
        raise GoldStandardError(
            "The draws of `reference` carry weights, as those of importance sampling do: their plain mean is not the "
            "posterior's. Resample them by weight, or use `reference_posterior(target)`."
        )
    values = _matched(name, function, reference, like)
    _check_reference(reference, like.labels, values)
    plain = _moments(name, values, values)
    if "scores" not in reference.children:
        return plain
    scores = reference["scores"].to_dataset()
    values = values[:, scores["at_draw"].to_numpy()]
    without_noise = controlled(values, scores["theta"].to_numpy(), scores["score"].to_numpy())
    precise = _moments(name, without_noise, values)
    better = precise.mcse < plain.mcse
    return Reference(*(np.where(better, ours, theirs) for ours, theirs in zip(precise, plain, strict=True)))


def _matched(name: str, function: Estimand, reference: xr.DataTree, like: Layout) -> np.ndarray:
    """Return the values of an estimand of a reference, (chain, draw, coordinate), in the order of `like`."""
    try:
        values = evaluate(name, function, reference, like.dims)
    except (KeyError, AttributeError) as error:
        raise GoldStandardError(
            f"The estimand {name!r} needs a variable that the reference lacks ({error}); it holds "
            f"{sorted(map(str, reference['posterior'].data_vars))}. Compare with a reference of the same model."
        ) from error
    labels = values.layout.labels
    if labels != like.labels and sorted(labels) != sorted(like.labels):
        missing = [label for label in like.labels if label not in set(labels)]
        surplus = [label for label in labels if label not in set(like.labels)]
        raise GoldStandardError(
            f"The estimand {name!r} has {len(like.labels)} coordinates in the traces and {len(labels)} in the "
            f"reference; the reference lacks {_some(missing)} and has in addition {_some(surplus)}. "
            "Traces and reference need the same shapes and the same coordinate labels."
        )
    position = {label: k for k, label in enumerate(labels)}
    return values.values[..., [position[label] for label in like.labels]]


def _of_moments(name: str, function: Estimand, reference: xr.DataTree, like: Layout) -> Reference:
    """Return the reference's values from a table of moments.

    A variable has its own; the standard estimands know theirs (`of_moments`). The errors of different coordinates are
    taken as independent: their correlations are unknown.
    """
    if isinstance(function, operator.itemgetter):
        rows = _matched(name, function, xr.DataTree.from_dict({"posterior": described(reference)}), like)[0]
        mean, sd, mcse, _ = rows
    elif hasattr(function, "of_moments"):
        mean, sd, mcse = function.of_moments()
    else:
        raise GoldStandardError(
            f"The estimand {name!r} needs draws of the gold standard, and this one has only moments. Use the default "
            "estimands, `standard_estimands`, or a reference with draws."
        )
    signs = np.random.default_rng(0).integers(0, 2, (_BATCHES, len(mean)))
    return Reference(mean, mcse, sd, (2.0 * signs - 1.0) / np.sqrt(_BATCHES))


FEWEST_DRAWS = 4  # fewest draws of a chain for halves and an estimate of an autocorrelation


def _check_reference(reference: xr.DataTree, labels: tuple[str, ...], values: np.ndarray) -> None:
    """Raise if the error of the mean of these values, (chain, draw, coordinate), cannot be estimated."""
    chains, draws, _ = values.shape
    advice = "The Monte Carlo error of a reference cannot be estimated"
    if draws < FEWEST_DRAWS:
        raise GoldStandardError(
            f"{advice} from {chains} chain{'s' * (chains > 1)} of {draws} draw{'s' * (draws != 1)}; it needs at least "
            f"{FEWEST_DRAWS} draws of each, and a useful one has thousands."
        )
    if not np.isfinite(values).all():
        chain, draw, k = np.argwhere(~np.isfinite(values))[0]
        raise GoldStandardError(
            f"{advice}: {labels[k]} is not finite ({values[chain, draw, k]}) in chain {chain}, draw {draw}. Use a "
            "reference, and an estimand, that is finite at every draw."
        )
    posterior = group(reference, "posterior")
    if sentence := copies_sentence([posterior]):
        raise GoldStandardError(f"{advice}: {sentence}. Use a reference whose chains have seeds of their own.")
    continuous = posterior[[name for name, variable in posterior.data_vars.items() if variable.dtype.kind == "f"]]
    stuck = share_of_moves(continuous) == 0.0
    if stuck.any() and any(np.ptp(variable.to_numpy()) > 0.0 for variable in continuous.data_vars.values()):
        raise GoldStandardError(
            f"{advice}: chain {int(np.argmax(stuck))} never moved in {draws} draws. Use a reference whose chains have "
            "converged."
        )


def _moments(name: str, values: np.ndarray, estimand: np.ndarray) -> Reference:
    """Return the mean of `values` with its error, and the sd of the estimand, which has the same posterior mean."""
    import arviz_stats as az  # imported late: it takes .6 s, and only a reference needs it

    chains, draws, _ = values.shape
    dataset = xr.Dataset({"f": (("chain", "draw", "coordinate"), values)})
    mcse = np.asarray(az.mcse(dataset, method="mean")["f"])
    # Equal numbers have no spread, whatever the rounding of their mean.
    sd = np.where(np.ptp(estimand, axis=(0, 1)) == 0.0, 0.0, estimand.std(axis=(0, 1)))
    mcse = np.where(np.ptp(values, axis=(0, 1)) <= ROUNDING * np.abs(values).max(axis=(0, 1)), 0.0, mcse)
    if not np.all(np.isfinite(mcse)):
        raise GoldStandardError(
            f"The Monte Carlo error of {name!r} cannot be estimated from the reference, which has {chains} chains of "
            f"{draws} draws. Use a longer reference, and an estimand that is finite at its draws."
        )
    per_chain = np.array_split(np.arange(draws), min(max(2, _BATCHES // chains), draws))
    batch_means = np.concatenate([values[:, batch].mean(axis=1) for batch in per_chain])
    deviations = batch_means - batch_means.mean(axis=0)
    lengths = np.sqrt((deviations**2).sum(axis=0))
    return Reference(values.mean(axis=(0, 1)), mcse, sd, deviations / np.where(lengths > 0, lengths, 1.0))


def _some(labels: list[str]) -> str:
    return ", ".join(labels[:5]) + (f", ... ({len(labels)} in all)" if len(labels) > 5 else "") or "none"
