"""One door for draws from anywhere: files, arrays and results of other libraries become traces of one form.

The form is a DataTree with a group ``posterior``, dims (chain, draw, ...), and a group ``sample_stats``, which may have
no variables. A trace of this library already has it.

Chains of different lengths are padded with NaN, and the attribute ``draws_per_chain`` of ``posterior`` holds their
lengths. The attribute ``replicate`` says what is one independent estimate with a time of its own: each chain, or the
trace as a whole, if its chains depend on each other, as the walkers of an ensemble do. `replicates` turns both into
traces in which each chain is a replicate and every draw is real.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target, Variables
from approxmcmc.contracts.arguments import about, naming_the_arguments
from approxmcmc.diagnostics.clock import RECORD, with_clock
from approxmcmc.diagnostics.cmdstan import read_cmdstan
from approxmcmc.diagnostics.library_results import UNNAMED, is_states, library_result
from approxmcmc.diagnostics.moments import GROUP, described, has_only_moments
from approxmcmc.diagnostics.records import LENGTHS, group, lengths, tuning_totals
from approxmcmc.engine.extras import extra
from approxmcmc.errors import ApproxMCMCWarning, InvalidInputError, warn
from approxmcmc.output import load

Traces = Any  # what `as_list` takes: one trace or several, in any form that `as_trace` takes

REPLICATE = "replicate"
REPLICATES = ("chain", "trace")
ENSEMBLES = ("emcee", "zeus")  # libraries whose chains are walkers that depend on each other
SHOWN = 4  # most names in a message


@naming_the_arguments
def as_trace(
    draws: Any,
    target: Any = None,
    *,
    seconds: Any = None,
    warmup_seconds: Any = None,
    replicate: str | None = None,
) -> xr.DataTree:
    """Return draws from anywhere as a trace, which every function of this library accepts.

    Parameters
    ----------
    draws
        One of:

        - a trace: an xarray.DataTree, an InferenceData of older ArviZ, or the path of a netCDF file or Zarr folder;
        - the path of a CSV file that CmdStan wrote, or a list of them, one for each chain: the draws after the
          warm-up, with the seconds that CmdStan states;
        - a dict of arrays by variable, shape (chain, draw, ...), or (draw, ...) for one chain; or of such dicts by
          group (``posterior``, ``sample_stats``);
        - an array of flat thetas, shape (chain, draw, dim) or (draw, dim);
        - a list of chains, each in one of these forms, of any lengths;
        - a finished ``MCMC`` of numpyro, with the extra fields that it collected; an ``EnsembleSampler`` of emcee;
          the states of blackjax (an object with a field ``position``, leading axes (draw,) or (draw, chain)), or what a
          loop of blackjax returns, ``(states, infos)``.
    target
        Target, or a trace, whose names, shapes and labels the draws get. Variables are matched by name and coordinates
        by label. If one of the two has no labels of its own (0, 1, ..., or x0, x1, ...), coordinates are matched by
        position. If the names differ but the numbers of each draw are as many as the target's, they are matched in
        order, with a warning. None: the names of the draws; those of an array are ``theta``.
    seconds, warmup_seconds
        Seconds of the draws and of the warm-up, in the forms of ``clock`` and ``warmup_seconds`` of
        :func:`approxmcmc.risk`. For an ensemble, those of the whole run.
    replicate
        ``"chain"``: each chain is an independent estimate. ``"trace"``: the chains together are one, in one time, as
        the walkers of an ensemble are. None: as the trace records; "trace" for emcee and zeus and for ensemble kernels
        of numpyro (AIES, ESS), else "chain".

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` and ``sample_stats``, and all other groups of a trace. A trace that has this form already
        is returned as it is. Shorter chains are padded with NaN.

    Raises
    ------
    InvalidInputError
        If the draws have an unknown form, or do not fit the target.

    Warns
    -----
    ApproxMCMCWarning
        If variables or labelled coordinates are matched by position.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> chains = [np.zeros((100, 2)), np.ones((80, 2))]  # of a sampler of your own, one stopped earlier
    >>> trace = amc.as_trace(chains, seconds=[2.0, 1.6])
    >>> trace["posterior"].attrs["draws_per_chain"]
    [100, 80]
    """
    if replicate not in (None, *REPLICATES):
        raise InvalidInputError(f"`replicate` must be one of {list(REPLICATES)} or None; found {replicate!r}.")
    template = _template(target)
    with about("draws"):
        tree = _tree(draws, template)
    if template is not None:
        tree = _named_as(tree, template, strict=True, in_order=True)
    tree = with_clock(tree, _rectangular(seconds, tree["posterior"].sizes["draw"]), warmup_seconds)
    if replicate is not None and replicate != replicate_of(tree):
        posterior = tree["posterior"].to_dataset()
        tree = _replaced(tree, posterior=posterior.assign_attrs({REPLICATE: replicate}))
    return tree


def one_trace(trace: Any, what: str = "trace") -> xr.DataTree:
    """Return a trace in any form of `as_trace`; `what` is the name of the argument in messages."""
    with about(what):
        return _tree(trace, None, what)


def _rectangular(seconds: Any, draws: int) -> Any:
    """Return seconds of each draw, given by chain, padded with 0; other forms as they are."""
    if not isinstance(seconds, (list, tuple)) or any(np.ndim(each) != 1 for each in seconds):
        return seconds
    chains = [np.asarray(each, dtype=np.float64) for each in seconds]
    return np.stack([np.pad(each, (0, max(draws - len(each), 0))) for each in chains])


def as_list(traces: Traces, *, what: str = "traces", like: xr.DataTree | None = None) -> list[xr.DataTree]:
    """Return one trace or several, in any form of `as_trace`, as a list of traces.

    Parameters
    ----------
    traces, what
        The traces, and the name of the argument in messages.
    like
        A trace whose labels those of unlabelled coordinates become.
    """
    listed = list(traces) if _is_several(traces) else [traces]
    if not listed:
        raise InvalidInputError(
            f"`{what}` needs one trace (xarray.DataTree) or a list of them; found an empty list. Pass what `sample`, "
            "`load` or `as_trace` returned."
        )
    # The caller says what is wrong with a `like` that is not a trace.
    is_trace = isinstance(like, xr.DataTree) and ("posterior" in like.children or has_only_moments(like))
    template = _template(like) if is_trace else None
    with about(what):
        trees = [_tree(each, template, what=what) for each in listed]
    return trees if template is None else [_named_as(tree, template, strict=False, in_order=False) for tree in trees]


def aligned(
    traces: Sequence[xr.DataTree], reference: xr.DataTree, names: Iterable[str]
) -> tuple[list[xr.DataTree], xr.DataTree]:
    """Return traces and reference with the variables `names` alone, and the reference's order of coordinates."""
    group_name = GROUP if has_only_moments(reference) else "posterior"
    of_reference = _replaced(reference, **{group_name: reference[group_name].to_dataset()[list(names)]})
    template = _template(of_reference)
    assert template is not None
    return [_named_as(tree, template, strict=False, in_order=True) for tree in traces], of_reference


def trace_of(draws: Any, target: Target) -> xr.DataTree:
    """Return draws of a target in any form of `as_trace` as a trace with the target's order of coordinates.

    A trace must have the target's names: that of another model with as many parameters is an error of the user.
    """
    template = target.variables
    return _named_as(_tree(draws, template), template, strict=not isinstance(draws, xr.DataTree), in_order=True)


def replicates(traces: Sequence[xr.DataTree]) -> list[xr.DataTree]:
    """Return traces in which each chain is one replicate and every draw is real.

    The chains of an ensemble become one chain: its draws are those of all walkers, in the order of their steps, and
    each takes its share of the seconds of a step. Chains of different lengths become traces of their own.
    """
    chains: list[xr.DataTree] = []
    for trace in traces:
        chains.extend(_of_equal_lengths(_interleaved(trace) if replicate_of(trace) == "trace" else trace))
    return chains


def replicate_of(trace: xr.DataTree) -> str:
    """Return whether each ``"chain"`` of a trace is a replicate, or the ``"trace"`` as a whole."""
    attrs = trace["posterior"].attrs
    stats = trace["sample_stats"].attrs if "sample_stats" in trace.children else {}
    library = str(attrs.get("inference_library", stats.get("inference_library", "")))
    return str(attrs.get(REPLICATE, "trace" if library in ENSEMBLES else "chain"))


def weights_of(trace: xr.DataTree) -> np.ndarray | None:
    """Return the weights of the draws, shape (chain, draw), from ``weight`` or ``log_weight``; None without either.

    Raises
    ------
    InvalidInputError
        If a weight is NaN, negative or infinite.
    """
    stats = group(trace, "sample_stats")
    if "weight" in stats:
        weights = np.asarray(stats["weight"], dtype=np.float64)
        valid = np.isfinite(weights) & (weights >= 0.0)
    elif "log_weight" in stats:
        logs = np.asarray(stats["log_weight"], dtype=np.float64)
        valid = ~np.isnan(logs) & (logs < np.inf)
        weights = np.exp(logs - np.max(logs, initial=-np.inf, where=valid))
    else:
        return None
    if not valid.all():
        chain, draw = np.argwhere(~valid)[0]
        raise InvalidInputError(
            f"The weights of the draws must be finite and not negative; that of chain {chain}, draw {draw} is not."
        )
    return weights


# --- forms ---


def _is_several(traces: Any) -> bool:
    if isinstance(traces, (xr.DataTree, xr.Dataset, np.ndarray, str, os.PathLike, Mapping)):
        return False
    is_one = is_states(traces) or hasattr(traces, "__array__") or callable(_groups_of(traces))
    return isinstance(traces, Iterable) and not is_one


def _groups_of(draws: Any) -> Any:
    """Return the method that lists the groups of an InferenceData of older ArviZ, else None."""
    return getattr(draws, "groups", None) if hasattr(draws, "posterior") else None


def _tree(draws: Any, template: Variables | None, what: str = "draws") -> xr.DataTree:
    """Return draws in any form as a tree with the groups ``posterior`` and ``sample_stats``."""
    if isinstance(draws, (str, os.PathLike)):
        draws = _read(Path(draws))
    if isinstance(draws, xr.DataTree):
        return _complete(draws, what)
    if not isinstance(draws, xr.Dataset) and callable(_groups_of(draws)):
        names = [name.strip("/") for name in draws.groups()]
        return _complete(xr.DataTree.from_dict({name: draws[name] for name in names}), what)
    if isinstance(draws, Mapping) and isinstance(draws.get("posterior"), (Mapping, xr.Dataset)):
        groups = {str(name): _dataset(values, template) for name, values in draws.items()}
        return _complete(xr.DataTree.from_dict(groups), what)
    if isinstance(draws, (list, tuple)) and not is_states(draws):
        if not draws:
            raise InvalidInputError(f"`{what}` needs at least one chain; found an empty list.")
        return _joined([_tree(chain, template, what) for chain in draws])
    return _complete(_foreign(draws, template, what), what)


def _read(path: Path) -> xr.DataTree:
    if path.suffix == ".csv":
        return read_cmdstan(path)
    if not path.is_dir():
        return load(path)
    with extra("sources", "A trace in a Zarr folder"):
        import zarr  # noqa: F401 (xarray reads with it)
    # Without consolidated metadata, which a folder may lack: xarray would warn.
    try:
        return xr.open_datatree(path, engine="zarr", consolidated=False).load()
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"The folder {str(path)!r} contains no trace in the format of Zarr; {error}."
        ) from error


def _foreign(draws: Any, template: Variables | None, what: str) -> xr.DataTree:
    """Return arrays, or a finished result of another library, as a tree."""
    if isinstance(draws, (Mapping, xr.Dataset, np.ndarray)):
        posterior = _dataset(draws, template)
        if not isinstance(draws, xr.Dataset):
            _warn_of_swapped_axes(posterior)
        return xr.DataTree.from_dict({"posterior": posterior})
    result = library_result(draws, template)
    if result is not None:
        attrs = {"inference_library": result.library} | ({REPLICATE: "trace"} if result.is_ensemble else {})
        groups = {"posterior": _dataset(result.values, template).assign_attrs(attrs)}
        if result.records:
            groups["sample_stats"] = _dataset(result.records, None)
        return xr.DataTree.from_dict(groups)
    if hasattr(draws, "__array__"):  # an array of JAX or PyTorch
        return xr.DataTree.from_dict({"posterior": _dataset(np.asarray(draws), template)})
    raise InvalidInputError(
        f"`{what}`: a trace is needed, an xarray.DataTree such as `sample` and `load` return, or a path, a dict of "
        "arrays, an array, a list of chains, or a result of numpyro, emcee or blackjax; found a "
        f"{type(draws).__name__}."
    )


def _warn_of_swapped_axes(posterior: xr.Dataset) -> None:
    chains = posterior.sizes.get("chain", 0)  # an empty dict has no axes, and is refused as a trace without draws
    draws = posterior.sizes.get("draw", 0)
    if chains > draws > 0:
        warn(
            f"Arrays need the axes (chain, draw, ...), so these are {chains} chains of {draws} draws. If they are one "
            "chain, give them a first axis: `values[None]`; if draws come first, swap the axes.",
            ApproxMCMCWarning,
        )


def _dataset(values: Any, template: Variables | None) -> xr.Dataset:
    """Return arrays, or flat thetas, as a Dataset with the dims chain and draw."""
    if isinstance(values, xr.Dataset):
        return values
    if not isinstance(values, Mapping):
        values = _unpacked(np.asarray(values), template)
    arrays = {}
    for name, each in values.items():
        array = np.asarray(each)
        shape = template.shapes.get(name) if template is not None else None
        if array.ndim == 1 or (shape is not None and array.shape[1:] == tuple(shape)):
            array = array[None]
        if array.ndim < 2:
            raise InvalidInputError(
                f"a trace is needed, or arrays (chain, draw, ...) by variable; found {name!r} of shape {array.shape}."
            )
        arrays[str(name)] = (("chain", "draw", *(f"{name}_dim_{k}" for k in range(array.ndim - 2))), array)
    if len({array.shape[:2] for _, array in arrays.values()}) > 1:
        raise InvalidInputError(
            "All variables need equally many chains and draws; found the shapes "
            f"{ {name: array.shape for name, (_, array) in arrays.items()} }. Chains of a list may have any lengths."
        )
    dataset = xr.Dataset(arrays)
    return dataset.assign_coords(
        {dim: np.arange(dataset.sizes[dim]) for dim in ("chain", "draw") if dim in dataset.dims}
    )


def _unpacked(thetas: np.ndarray, template: Variables | None) -> dict[str, np.ndarray]:
    size = None if template is None else template.size
    if size == 1 and (thetas.ndim < 2 or thetas.shape[-1] != 1):
        thetas = thetas[..., None]
    if thetas.ndim == 2:
        thetas = thetas[None]
    if thetas.ndim != 3 or (size is not None and thetas.shape[-1] != size):
        needed = "dim" if size is None else size
        raise InvalidInputError(
            f"An array of draws needs the shape (chain, draw, {needed}) or (draw, {needed}); found {thetas.shape}."
        )
    return {UNNAMED: thetas} if template is None else template.unpack(thetas)


def _complete(tree: xr.DataTree, what: str) -> xr.DataTree:
    """Return a tree with the dims chain and draw in ``posterior`` and ``sample_stats``, adding what is missing."""
    if "posterior" not in tree.children:
        raise InvalidInputError(f"`{what}` needs a trace with a group 'posterior'; found {sorted(tree.children)}.")
    posterior = tree["posterior"].to_dataset()
    changed = {}
    if "draw" not in posterior.dims:
        raise InvalidInputError(
            f"The group 'posterior' needs the dims 'chain' and 'draw'; found {list(posterior.dims)}."
        )
    if "chain" not in posterior.dims:
        posterior = changed["posterior"] = posterior.drop_vars("chain", errors="ignore").expand_dims(chain=[0])
    unlabelled = {dim: np.arange(posterior.sizes[dim]) for dim in ("chain", "draw") if dim not in posterior.coords}
    if unlabelled:
        posterior = changed["posterior"] = posterior.assign_coords(unlabelled)
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else None
    if stats is None or not {"chain", "draw"} <= set(stats.dims):
        places = {dim: np.asarray(posterior[dim]) for dim in ("chain", "draw")}
        if stats is not None and "draw" in stats.dims and posterior.sizes["chain"] == 1:
            changed["sample_stats"] = stats.drop_vars("chain", errors="ignore").expand_dims(chain=places["chain"])
        else:
            changed["sample_stats"] = xr.Dataset(coords=places, attrs={} if stats is None else stats.attrs)
    return _replaced(tree, **changed) if changed else tree


def _replaced(tree: xr.DataTree, **groups: xr.Dataset) -> xr.DataTree:
    return xr.DataTree.from_dict({**tree.to_dict(), **{f"/{name}": dataset for name, dataset in groups.items()}})


# --- joining and splitting ---


def _joined(trees: Sequence[xr.DataTree]) -> xr.DataTree:
    """Return the chains of several traces as one trace; shorter chains are padded with NaN."""
    if len(trees) == 1:
        return trees[0]
    n_chains = [tree["posterior"].sizes["chain"] for tree in trees]
    starts = np.cumsum([0, *n_chains])
    groups = {}
    for name in ("posterior", "sample_stats"):
        parts = [group(tree, name) for tree in trees]
        shared = [each for each in parts[0].data_vars if all(each in part for part in parts)]
        placed = [
            part[shared].assign_coords(chain=np.arange(n) + start, draw=np.arange(part.sizes["draw"]))
            for part, n, start in zip(parts, n_chains, starts[:-1], strict=True)
        ]
        groups[name] = xr.concat(placed, "chain", join="outer", combine_attrs="drop_conflicts")
    if len(set(groups["posterior"].data_vars)) < max(len(tree["posterior"].data_vars) for tree in trees):
        raise InvalidInputError(
            "Chains of one trace need the same variables; found "
            f"{[sorted(map(str, tree['posterior'].data_vars)) for tree in trees]}."
        )
    sizes = np.concatenate([lengths(tree) for tree in trees])
    if len(set(sizes.tolist())) > 1:
        groups["posterior"].attrs[LENGTHS] = sizes.tolist()
    totals = [total for tree in trees if (total := tuning_totals(tree, RECORD)) is not None]
    if len(totals) == len(trees):
        groups["sample_stats"].attrs[f"tuning_{RECORD}"] = np.concatenate(totals).tolist()
    return xr.DataTree.from_dict(groups)


def _of_equal_lengths(trace: xr.DataTree) -> list[xr.DataTree]:
    posterior = group(trace, "posterior")
    real = lengths(trace)
    if (real == posterior.sizes["draw"]).all():
        return [trace]
    cut = []
    for length in sorted(set(real.tolist())):
        chains = np.flatnonzero(real == length)
        pieces = {
            name: group(trace, name).isel(chain=chains, draw=slice(None, length))
            for name in ("posterior", "sample_stats")
        }
        totals = tuning_totals(trace, RECORD)
        if totals is not None:
            pieces["sample_stats"].attrs[f"tuning_{RECORD}"] = np.asarray(totals)[chains].tolist()
        pieces["posterior"].attrs.pop(LENGTHS, None)
        cut.append(xr.DataTree.from_dict(pieces))
    return cut


def _interleaved(trace: xr.DataTree) -> xr.DataTree:
    """Return an ensemble as one chain of all its draws, step by step."""
    walkers = group(trace, "posterior").sizes["chain"]
    if walkers == 1:
        return trace
    steps = int(lengths(trace).min())
    groups = {}
    for name in ("posterior", "sample_stats"):
        dataset = group(trace, name).isel(draw=slice(None, steps))
        variables = {}
        for key, variable in dataset.data_vars.items():
            if {"chain", "draw"} <= set(variable.dims):
                ordered = variable.transpose("draw", "chain", ...).to_numpy()
                if key in _CLOCKS:  # other records, such as data touched, are each walker's
                    of_the_step = ordered.max(axis=1, keepdims=True)
                    ordered = np.repeat(of_the_step / walkers, walkers, axis=1)
                dims = [dim for dim in variable.dims if dim not in ("chain", "draw")]
                variables[key] = (("chain", "draw", *dims), ordered.reshape(1, steps * walkers, *ordered.shape[2:]))
        coords = {key: each for key, each in dataset.coords.items() if not {"chain", "draw"} & set(each.dims)}
        places = {"chain": [0], "draw": np.arange(steps * walkers)}
        groups[name] = xr.Dataset(variables, coords={**places, **coords}, attrs=dataset.attrs)
    groups["posterior"].attrs[REPLICATE] = "chain"
    groups["posterior"].attrs.pop(LENGTHS, None)
    for clock in _CLOCKS:
        totals = tuning_totals(trace, clock)
        if totals is not None:
            groups["sample_stats"].attrs[f"tuning_{clock}"] = [float(np.max(totals))]
    return xr.DataTree.from_dict(groups)


_CLOCKS = (RECORD, "thread_time_diff")


# --- names ---


def _template(target: Any) -> Variables | None:
    """Return names, shapes and labels of a target's variables, or of a trace's."""
    if target is None:
        return None
    if isinstance(target, xr.DataTree) and ("posterior" in target.children or has_only_moments(target)):
        posterior = described(target)
        variables = {str(name): variable.dims[2:] for name, variable in posterior.data_vars.items()}
        return Variables(
            {name: tuple(posterior.sizes[dim] for dim in dims) for name, dims in variables.items()},
            {name: tuple(map(str, dims)) for name, dims in variables.items()},
            {str(dim): np.asarray(posterior[dim]).tolist() for dims in variables.values() for dim in dims},
        )
    if isinstance(target, Target):
        return target.variables
    raise InvalidInputError(
        f"`target` needs a target or a trace; found {type(target).__name__}. Of a PyMC model or a formula, "
        "`amc.from_pymc` makes a target."
    )


def _named_as(tree: xr.DataTree, template: Variables, *, strict: bool, in_order: bool) -> xr.DataTree:
    """Return a trace with the names and labels of `template`; the same one if it has them.

    Parameters
    ----------
    tree, template
        The trace, and the names, shapes and labels.
    strict
        Match other names by their order, and raise if that does not fit. Otherwise what does not fit stays as it is,
        and the caller says what is missing.
    in_order
        Give coordinates with the labels of `template` its order, too.
    """
    before = posterior = tree["posterior"].to_dataset()
    missing = [name for name in template.shapes if name not in posterior]
    if missing and strict:
        posterior = _renamed(posterior, template)
    for name, shape in template.shapes.items():
        if name not in posterior:
            continue
        variable = posterior[name].transpose("chain", "draw", ...)
        if variable.shape[2:] != tuple(shape):
            if strict:
                raise InvalidInputError(
                    f"{name!r} needs the shape {tuple(shape)} in each draw; found {variable.shape[2:]}."
                )
            continue
        posterior = _labelled(posterior, variable, template, in_order=in_order)
    return tree if posterior is before else _replaced(tree, posterior=posterior)


def _renamed(posterior: xr.Dataset, template: Variables) -> xr.Dataset:
    """Return the numbers of each draw, in their order, under the names of `template`; with a warning."""
    arrays = [variable.transpose("chain", "draw", ...) for variable in posterior.data_vars.values()]
    names = [str(name) for name in posterior.data_vars]
    flat = [array.to_numpy().reshape(*array.shape[:2], -1) for array in arrays]
    size = sum(array.shape[2] for array in flat)
    if size != template.size:
        raise InvalidInputError(
            f"The draws need the variables {dict(template.shapes)} (name: shape); found "
            f"{ {name: array.shape[2:] for name, array in zip(names, arrays, strict=True)} }. Rename them: "
            "trace['posterior'].to_dataset().rename(...)."
        )
    warn(
        f"The draws have the variables {_some(names)} in place of {_some(template.shapes)}: their numbers were matched "
        "in order. Rename them if this order is wrong.",
        ApproxMCMCWarning,
    )
    renamed = _dataset(template.unpack(np.concatenate(flat, axis=2)), template)
    places = {dim: np.asarray(posterior[dim]) for dim in ("chain", "draw")}
    return renamed.assign_coords(places).assign_attrs(posterior.attrs)


def _labelled(posterior: xr.Dataset, variable: xr.DataArray, template: Variables, *, in_order: bool) -> xr.Dataset:
    """Return the posterior with the labels of `template` on one variable, matched by label or by position.

    If it has the same labels in another order, they get the order of the template only if `in_order` is set.
    """
    name = str(variable.name)
    dims = template.dims.get(name, tuple(map(str, variable.dims[2:])))
    if len(dims) != variable.ndim - 2:
        return posterior
    labels = {}
    for own_dim, dim, size in zip(variable.dims[2:], dims, variable.shape[2:], strict=True):
        own = np.asarray(variable[own_dim]).tolist()
        template_labels = list(template.coords.get(dim, range(size)))
        if own == template_labels:
            continue
        if sorted(map(str, own)) == sorted(map(str, template_labels)):
            if not in_order:
                continue
            places = {str(label): k for k, label in enumerate(own)}
            variable = variable.isel({own_dim: [places[str(label)] for label in template_labels]})
        elif not _is_invented(own) and not _is_invented(template_labels):
            return posterior  # other labels: the caller says so
        elif not _is_invented(own):
            pairs = _some([f"{a} as {b}" for a, b in zip(own, template_labels, strict=True)])
            warn(
                f"The coordinates of {name!r} are matched by position: {pairs}. The target has no labels of its own.",
                ApproxMCMCWarning,
            )
        labels[own_dim] = dim, template_labels
    if not labels:
        return posterior
    renamed = variable.drop_vars([dim for dim in labels if dim in variable.coords])
    renamed = renamed.rename({old: new for old, (new, _) in labels.items() if old != new})
    renamed = renamed.assign_coords({new: (new, template_labels) for new, template_labels in labels.values()})
    unused = [dim for dim in labels if dim in posterior.coords and _is_only_of(posterior, dim, name)]
    return posterior.drop_vars([name, *unused]).assign({name: renamed})[list(posterior.data_vars)]


def _is_only_of(posterior: xr.Dataset, dim: Any, name: str) -> bool:
    return not any(dim in posterior[other].dims for other in posterior.data_vars if other != name)


def _is_invented(labels: Sequence[Any]) -> bool:
    """Return whether labels are those that a library gives to unlabelled columns."""
    numbers = [str(k) for k in range(len(labels))]
    texts = [str(label) for label in labels]
    return texts in (numbers, [f"x{k}" for k in numbers])


def _some(names: Iterable[Any]) -> str:
    listed = list(map(str, names))
    return ", ".join(listed[:SHOWN]) + (f", ... ({len(listed)} in all)" if len(listed) > SHOWN else "")
