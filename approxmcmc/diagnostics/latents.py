"""The effects that a target integrated out, drawn for a finished run."""

from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import LatentTarget, Target
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.output.flat import flat_draws

EFFECT, GROUP = "effect", "group"


def latents(
    trace: xr.DataTree, target: Target, groups: Any = None, *, random_seed: int | np.random.Generator = 0
) -> xr.Dataset:
    """Draw the groups' effects that a target integrated out, one for each draw of a trace.

    Parameters
    ----------
    trace
        Draws of the target, or of an expansion of it.
    target
        The target that integrates: `targets.NormalGroups` or `targets.GroupedTarget`.
    groups
        Labels of the groups that are wanted; None: all.
    random_seed
        Seed of the draws, or a generator.

    Returns
    -------
    xarray.Dataset
        ``effect``, dims (chain, draw, group): what is added to the linear predictor of the group's rows. With random
        slopes it has the further axis ``effect_name``.

    Raises
    ------
    IncompatibleError
        When the target integrates nothing out.
    InvalidInputError
        When a label names no group, or the trace lacks a variable.

    Notes
    -----
    Given theta the draws are exact and independent, from the law of the effects given the data: joint draws of theta
    and effects are draws of the joint posterior, as good as those of theta. For normal rows that law is normal; else
    draws come by rejection under tangents. About 0.5 us for a row, a draw and a group.

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
    if not isinstance(target, LatentTarget):
        raise IncompatibleError(
            f"latents needs the target that integrates effects out, NormalGroups or GroupedTarget, found {target!r}; "
            "give the plain target of an expansion"
        )
    labels = target.group_labels
    wanted = labels if groups is None else np.atleast_1d(groups)
    places = np.minimum(np.searchsorted(labels, wanted), len(labels) - 1)
    unknown = [label for label, place in zip(wanted, places, strict=True) if labels[place] != label]
    if unknown:
        raise InvalidInputError(f"latents: the groups {unknown[:5]} are none of the {len(labels)} groups of {target!r}")
    thetas = flat_draws(trace, target)
    rng = np.random.default_rng(random_seed)
    found = target.draw_latents(rng, np.ascontiguousarray(thetas.reshape(-1, thetas.shape[2])), places)
    axes = target.latent_coords
    coords = {name: trace["posterior"].coords[name] for name in ("chain", "draw")}
    values = found.reshape(*thetas.shape[:2], *found.shape[1:])
    return xr.Dataset({EFFECT: (("chain", "draw", GROUP, *axes), values)}, {**coords, GROUP: wanted, **axes})
