"""Names for the coordinates of theta, where the user gives them."""

from collections.abc import Mapping, Sequence
from typing import Any

from approxmcmc.contracts import Variables
from approxmcmc.errors import InvalidInputError


def named_variables(
    dim: int,
    names: Sequence[str] | None,
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
    *,
    who: str,
) -> Variables:
    """Return what a theta of length `dim` holds: one name for all of it, a name per scalar, or names with `dims`.

    Raises
    ------
    InvalidInputError
        When an axis has no labels, or the sizes do not add up to `dim`; the message starts with `who`.
    """
    vector = names is None or isinstance(names, str) or len(names) == 1 < dim
    names = ("theta",) if names is None else (names,) if isinstance(names, str) else tuple(names)
    labelled = {name: tuple([axes] if isinstance(axes, str) else axes) for name, axes in dims.items()}
    unknown = [axis for axes in labelled.values() for axis in axes if axis not in coords]
    if unknown and len(names) > 1:
        raise InvalidInputError(f"{who}: dims name the axes {unknown}, which have no entry in coords")
    if vector:
        shapes = {names[0]: tuple(len(coords[axis]) for axis in labelled.get(names[0], ()) if axis in coords) or (dim,)}
    else:
        shapes = {name: tuple(len(coords[axis]) for axis in labelled.get(name, ())) for name in names}
    variables = Variables(shapes, labelled, {axis: list(labels) for axis, labels in coords.items()})
    if variables.size != dim:
        raise InvalidInputError(
            f"{who}: the variables {dict(shapes)} hold {variables.size} numbers, dim is {dim}; "
            "give one name, a name per scalar, or dims and coords that add up"
        )
    return variables
