"""What users give a target: arrays and numbers in tuples and mappings, sources or not, and names for coordinates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from approxmcmc.contracts import Variables
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import DataSource, as_source


def each(function: Callable[[Any], Any], given: Any) -> Any:
    """Return the same tuples and mappings, with ``function(leaf)`` in the place of each leaf.

    Examples
    --------
    >>> each(abs, {"a": (-1, -2), "b": -3})
    {'a': (1, 2), 'b': 3}
    """
    if isinstance(given, Mapping):
        return {name: each(function, value) for name, value in given.items()}
    if isinstance(given, tuple):
        values = (each(function, value) for value in given)
        return type(given)(*values) if hasattr(given, "_fields") else tuple(values)
    return function(given)


def leaves(given: Any) -> Iterator[Any]:
    """Yield all values that are neither tuple nor mapping."""
    if isinstance(given, (Mapping, tuple)):
        for value in given.values() if isinstance(given, Mapping) else given:
            yield from leaves(value)
    else:
        yield given


def with_sources(given: Any) -> Any:
    """Return the same arguments with sources for Dask collections and Zarr arrays; others are unchanged."""

    def known(leaf: Any) -> Any:
        source = as_source(leaf)
        return leaf if source is None else source

    return each(known, given)


def kept(given: Any) -> Any:
    """Return the arguments that a target keeps: all of them if one is a source, else None."""
    return given if any(isinstance(leaf, DataSource) for leaf in leaves(given)) else None


def named_variables(
    dim: int,
    names: Sequence[str] | None,
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
    *,
    who: str,
) -> Variables:
    """Return the variables in a theta of length `dim`: one name for all of it, a name per scalar, or names with `dims`.

    Raises
    ------
    InvalidInputError
        If a name occurs twice or is reserved, `dims` has a key that is not a variable, an axis has no labels, or the
        sizes do not add up to `dim`.
    """
    vector = names is None or isinstance(names, str) or len(names) == 1 < dim
    names = ("theta",) if names is None else (names,) if isinstance(names, str) else tuple(names)
    labelled = {name: tuple([axes] if isinstance(axes, str) else axes) for name, axes in dims.items()}
    _check_names(names, labelled, coords, who=who)
    unknown = [axis for axes in labelled.values() for axis in axes if axis not in coords]
    if unknown and len(names) > 1:
        raise InvalidInputError(f"{who}: dims name the axes {unknown}, which have no entry in coords")
    if vector:
        shapes = {names[0]: tuple(len(coords[axis]) for axis in labelled.get(names[0], ()) if axis in coords) or (dim,)}
    else:
        shapes = {name: tuple(len(coords[axis]) for axis in labelled.get(name, ())) for name in names}
    variables = Variables(shapes, labelled, {axis: list(labels) for axis, labels in coords.items()})
    check_names(variables, who=who)
    if variables.size != dim:
        raise InvalidInputError(
            f"{who}: the variables {dict(shapes)} hold {variables.size} numbers, dim is {dim}; "
            "give one name, a name per scalar, or dims and coords that add up"
        )
    return variables


def check_names(variables: Variables, *, who: str) -> None:
    """Raise on names that the trace needs for its axes: xarray would drop such a variable silently.

    Raises
    ------
    InvalidInputError
        If a name is not a string, is "chain" or "draw", or is the name of an axis.
    """
    axes = {axis for name in variables.shapes for axis in variables.dims.get(name, ())}
    taken = {"chain", "draw"}
    wrong = [name for name in variables.shapes if not isinstance(name, str) or name in taken | axes]
    if wrong := [*wrong, *sorted(axes & taken)]:
        raise InvalidInputError(
            f"{who}: variables and their axes need names of their own, strings other than 'chain' and 'draw', which "
            f"are axes of every trace; rename {wrong}"
        )


def _check_names(
    names: Sequence[Any], dims: Mapping[str, Sequence[Any]], coords: Mapping[str, Sequence[Any]], *, who: str
) -> None:
    """Raise on names that would be silently dropped or mixed up."""
    if wrong := [name for name in names if names.count(name) > 1]:
        raise InvalidInputError(f"{who}: var_names must be different, found {wrong}")
    if wrong := [name for name in dims if name not in names]:
        raise InvalidInputError(f"{who}: dims name {wrong}, the variables are {list(names)}")
    if wrong := [axis for axis, labels in coords.items() if isinstance(labels, str) or not hasattr(labels, "__len__")]:
        raise InvalidInputError(f"{who}: coords must hold a sequence of labels for each axis, see {wrong}")
