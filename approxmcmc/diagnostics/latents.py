"""Draw the effects that a target integrated out, for a finished run."""

import math
import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import LatentTarget, Target, as_labels
from approxmcmc.engine.files.whole_files import whole_folder
from approxmcmc.errors import CacheWarning, IncompatibleError, InvalidInputError, LeftOutWarning, warn
from approxmcmc.output.escapes import with_text_labels
from approxmcmc.output.reading import flat_draws
from approxmcmc.output.returned import ABSENT, beyond, with_labels

MOST_NUMBERS = 10**7  # groups times draws stored in a trace by default
# draws of groups in memory, and groups in a chunk of a folder
AT_ONCE = 1 << 21
CHUNK = 1 << 16
WHOLE: dict[str, Any] = {"consolidated": False, "write_empty_chunks": True}  # so that a missing chunk is a lost one
OWNER = "approxmcmc_target"  # attribute of a folder: the content of the target whose effects it holds
ADVICE = "amc.latents(trace, target, groups) draws them, for some groups or draws at a time"
SEED = 0x1A7E  # seed of draws of effects; differs from the run's seed


def latents(
    trace: xr.DataTree, target: Target, groups: Any = None, *, random_seed: int | np.random.Generator = 0
) -> xr.Dataset:
    """Draw the latent variables that a target integrated or summed out, one value for each draw of a trace.

    Parameters
    ----------
    trace
        Trace of a run on `target`, or on an expansion of it.
    target
        The target that integrates effects out: `targets.NormalGroups`, `targets.GroupedTarget`, or the target that
        `from_pymc` returned for a model with groups, or with discrete variables that are summed out.
    groups
        Labels of the wanted groups; None: all.
    random_seed
        Seed of the draws, or a generator.

    Returns
    -------
    xarray.Dataset
        ``effect``, dims (chain, draw, group), is added to the linear predictor of the group's rows. With random slopes
        it has the further axis ``effect_name``. For a PyMC model: its effects or discrete variables, and the
        deterministics that depend on them, under the model's names, dims and coords. Deterministics that together hold
        more than 1e8 numbers are left out, the largest first, with a warning.

    Raises
    ------
    IncompatibleError
        When the target does not integrate effects out.
    InvalidInputError
        When a label is unknown, or the trace lacks a variable.

    Notes
    -----
    Given theta the draws come independently from the conditional distribution of the effects given the data. So joint
    draws of theta and effects are draws of the joint posterior, as accurate as the draws of theta. For normal rows this
    distribution is normal; otherwise effects are drawn by rejection under tangents. Both are exact, but if a group has
    several effects and rows that are not normal, its draw is the last state of 8 Gibbs sweeps. Cost with random
    intercepts: about 0.3 us for each draw of a group's effect; with logit, 0.015 us more for each row of the group.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> effect, error = [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]
    >>> schools = amc.targets.NormalGroups(np.ones((8, 1)), effect, range(8), errors=error, prior_scale=20.0)
    >>> sampler = amc.MetropolisHastings(amc.RandomWalk([3.0, 1.0]), amc.ExactTest())
    >>> trace = amc.sample(schools, sampler, draws=100, chains=1, random_seed=1, progressbar=False)
    >>> dict(amc.latents(trace, schools, groups=[0, 3]).sizes)
    {'chain': 1, 'draw': 100, 'group': 2}
    """
    source = _source(target)
    if source is None:
        raise IncompatibleError(
            f"latents needs the target that integrates effects out, such as NormalGroups, found {target!r}; "
            "give the plain target of an expansion"
        )
    places = _places(source, groups)
    n_draws = trace["posterior"].sizes["chain"] * trace["posterior"].sizes["draw"]
    sizes = source.latent_sizes(places)
    if too_large := beyond(sizes, n_draws):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in too_large.items())
        message = f"latents leaves out deterministics of {target!r}: {reasons}. Draw them from a part of the trace"
        warn(message, LeftOutWarning)
    fitting = [name for name in sizes if name not in too_large]
    return _drawn(trace, target, source, places, np.random.default_rng(random_seed), fitting)


def _drawn(
    trace: xr.DataTree,
    target: Target,
    source: LatentTarget,
    places: np.ndarray,
    rng: np.random.Generator,
    names: Collection[str],
) -> xr.Dataset:
    """Return draws of the effects of the groups at `places`, and the deterministics `names`, with dims and labels."""
    thetas = flat_draws(trace, target)
    flat = np.ascontiguousarray(thetas.reshape(thetas.shape[0] * thetas.shape[1], thetas.shape[2]))
    drawn = source.draw_latents(rng, flat, places)
    named = {
        name: (("chain", "draw", *dims), value.reshape(*thetas.shape[:2], *value.shape[1:]))
        for name, (dims, value) in source.name_latents(flat, drawn, places, names).items()
    }
    coords = {name: trace["posterior"].coords[name] for name in ("chain", "draw")}
    return with_labels(xr.Dataset(named, coords), source.coords_of_latents(places))


def with_latents(trace: xr.DataTree, target: Target) -> xr.DataTree:
    """Add the effects that a target integrated out to a finished trace, as the target's `latents_wanted` says.

    The trace is returned, changed in place. "auto": the effects of all groups are stored in ``posterior`` if groups
    times draws are at most 10^7, otherwise none are drawn. Labels of groups: the effects of these groups are stored in
    a group ``latents``. A folder: the effects of all groups are written there. If ``posterior`` does not hold the
    effects, it holds one NaN per draw under the name of every effect, so that PyMC fails on that name when it is given
    the trace; without the name, PyMC would silently draw the missing variable from its prior.

    Warns
    -----
    LeftOutWarning
        When the effects are too many, or cannot be drawn or written. The draws of the parameters are never lost.
    """
    plain = target.plain
    source = _source(plain)
    if source is None or source.latents_wanted is None:
        return trace
    posterior = trace["posterior"].to_dataset()
    request = source.latents_wanted
    n_numbers = len(source.group_labels) * posterior.sizes["chain"] * posterior.sizes["draw"]
    rng = np.random.default_rng([SEED, zlib.crc32(str(posterior.attrs.get("seed")).encode())])
    is_news = False
    try:
        if isinstance(request, str) and request == "auto":
            if n_numbers <= MOST_NUMBERS:
                everywhere = np.arange(len(source.group_labels))
                drawn = _drawn(trace, plain, source, everywhere, rng, [])
                trace["posterior"] = posterior.assign(drawn).assign_attrs(latents="all groups")
                return trace
            is_news = True
            where = f"not drawn: {n_numbers} numbers are above {MOST_NUMBERS:.0e}; {ADVICE}"
        elif isinstance(request, str):
            where = f"all groups are in {request}"
            write_latents(trace, plain)
        else:
            where = "the groups asked for are in the group latents of the trace"
            trace["latents"] = xr.DataTree(latents(trace, plain, request, random_seed=rng))
    except KeyboardInterrupt:
        is_news = True
        where = f"not drawn: interrupted; {ADVICE}"
    except Exception as error:  # of any kind: the draws of the parameters must not be lost
        is_news = True
        said = str(error).strip().partition("\n")[0]
        where = f"not drawn: {type(error).__name__}: {said}; {ADVICE}"
    if is_news:
        names = ", ".join(source.latent_roots)
        warn(f"the trace lacks {names} and what depends on it: {where}", LeftOutWarning)
    missing = xr.DataArray(np.full((posterior.sizes["chain"], posterior.sizes["draw"]), np.nan), dims=("chain", "draw"))
    missing.attrs |= {"long_name": where, ABSENT: where}
    absent = dict.fromkeys(source.latent_roots, missing)
    trace["posterior"] = posterior.assign(absent).assign_attrs(latents=where)
    return trace


def write_latents(trace: xr.DataTree, target: Target) -> None:
    """Write the effects of all groups as float32 to the target's folder, which appears once it is complete.

    Chunks are not compressed: that would save 7 % of the folder, and take three times as long as writing it. Each has a
    CRC, so that Zarr raises on a damaged one, and none is left out, so that a missing one is seen. The folder's
    attribute `OWNER` is the content of the target, by which a later run of it recognises its own folder.
    """
    from zarr.codecs import Crc32cCodec

    posterior = trace["posterior"].to_dataset()
    source = _source(target)
    assert source is not None
    rng = np.random.default_rng([SEED, zlib.crc32(str(posterior.attrs.get("seed")).encode())])
    sizes = posterior.sizes
    n_groups = len(source.group_labels)
    places = np.arange(n_groups)
    names = _for_the_folder(source, sizes["chain"] * sizes["draw"])
    step = max(1, AT_ONCE // (sizes["chain"] * n_groups))
    chunks = {
        "chain": sizes["chain"],
        "draw": step,
        source.group_dim: math.ceil(n_groups / math.ceil(n_groups / CHUNK)),
    }
    with whole_folder(Path(source.latents_wanted)) as unfinished:
        for lo in range(0, max(1, sizes["draw"]), step):
            piece = xr.DataTree.from_dict({"posterior": posterior.isel(draw=slice(lo, lo + step))})
            drawn = _drawn(piece, target, source, places, rng, names).astype(np.float32)
            if lo == 0:
                codecs = {"compressors": [Crc32cCodec()]}
                encoding: dict[Any, dict[str, Any]] = {name: dict(codecs) for name in drawn.variables}
                for name, variable in drawn.data_vars.items():
                    lengths = (chunks.get(str(dim), drawn.sizes[dim]) for dim in variable.dims)
                    encoding[name]["chunks"] = tuple(max(1, length) for length in lengths)
                owned = with_text_labels(drawn).assign_attrs({OWNER: target.content_hash()})
                owned.to_zarr(unfinished, mode="w", encoding=encoding, **WHOLE)
            else:
                with_text_labels(drawn).to_zarr(unfinished, append_dim="draw", **WHOLE)
            os.utime(unfinished)


def with_folder(trace: xr.DataTree, target: Target) -> xr.DataTree:
    """Write the effects of a finished run again if their folder, or a chunk in it, is missing; return the trace.

    Warns
    -----
    CacheWarning
        When chunks are missing, because xarray reads them as NaN.
    """
    source = _source(target.plain)
    latents = None if source is None else source.latents_wanted
    if not isinstance(latents, str) or latents == "auto":
        return trace
    lost = _lost_chunks(Path(latents)) if os.path.lexists(latents) else []
    if lost:
        warn(
            f"{latents} is written again: chunks of {', '.join(lost)} are missing, which would read as NaN",
            CacheWarning,
        )
    if lost or not os.path.lexists(latents):
        write_latents(trace, target.plain)
    return trace


def _lost_chunks(folder: Path) -> list[str]:
    """Return the names of arrays that lack chunks."""
    import zarr

    arrays = sorted(zarr.open_group(folder, mode="r").arrays())
    return [name for name, array in arrays if array.nchunks_initialized < array.nchunks]


def _for_the_folder(source: LatentTarget, n_draws: int) -> list[str]:
    """Return the deterministics that are written with the effects: those not larger than them, and those that fit."""
    sizes = source.latent_sizes(np.arange(len(source.group_labels)))
    n_effects = len(source.group_labels) * math.prod(len(labels) for labels in source.latent_coords.values())
    too_large = beyond(sizes, n_draws)
    return [name for name, size in sizes.items() if size <= n_effects or name not in too_large]


def refuse_folder(target: Target) -> None:
    """Raise, before a run, if the folder that its effects are written to holds anything but effects of this target.

    Raises
    ------
    InvalidInputError
        When the folder was not written by a run of this target.
    """
    source = _source(target.plain)
    latents = None if source is None else source.latents_wanted
    if not isinstance(latents, str) or latents == "auto" or not os.path.lexists(latents):
        return
    try:
        with xr.open_zarr(latents, consolidated=False) as earlier:
            owner = earlier.attrs.get(OWNER)
    except Exception:  # zarr and xarray raise errors of many kinds at other files
        owner = None
    if owner is None or owner != target.plain.content_hash():
        whose = "was not written by a run of this library" if owner is None else "holds the effects of another model"
        raise InvalidInputError(
            f"latents={latents!r} {whose}, so it is not replaced; remove it, or name another folder"
        )


def _source(target: Target) -> LatentTarget | None:
    """Return what draws the latent variables that a target integrated or summed out, if there are any."""
    return target if isinstance(target, LatentTarget) else target.summed


def _places(target: LatentTarget, groups: Any) -> np.ndarray:
    """Return the indices of the groups with the labels `groups`; None: of all groups."""
    labels = target.group_labels
    if groups is None:
        return np.arange(len(labels))
    place_of = {label: position for position, label in enumerate(labels.tolist())}
    is_one = isinstance(groups, (str, tuple)) or not np.iterable(groups)
    wanted_labels = as_labels([groups] if is_one else groups).tolist()
    unknown = [label for label in wanted_labels if label not in place_of]
    if unknown:
        raise InvalidInputError(
            f"latents: groups needs labels of the {len(labels)} groups of {target!r}; found {unknown[:5]}"
        )
    return np.array([place_of[label] for label in wanted_labels], dtype=np.int64)
