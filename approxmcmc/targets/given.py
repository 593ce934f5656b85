"""Arguments of users, sources or not: arrays and numbers in tuples and mappings."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

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
