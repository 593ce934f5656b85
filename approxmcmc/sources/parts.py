"""Parts of a target's rows on the workers of a Dask cluster; each part is a target.

A target that was given sources keeps them. A worker reads its rows from the sources, and puts them into a copy of the
target without rows. So passes over all rows contain no code for clusters: they are the target's usual passes, made for
each part.
"""

import copy
import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledTarget, Target
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.dask_client import active_client
from approxmcmc.engine.terms.partitions import Partitions, spans
from approxmcmc.errors import ClusterWarning, IncompatibleError, warn
from approxmcmc.sources.base import DataSource


def each(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return a copy of nested tuples and mappings, with ``function(leaf)`` in the place of each leaf.

    Examples
    --------
    >>> each(abs, {"a": (-1, -2), "b": -3})
    {'a': (1, 2), 'b': 3}
    """
    if isinstance(structure, Mapping):
        return {name: each(function, value) for name, value in structure.items()}
    if isinstance(structure, tuple):
        values = (each(function, value) for value in structure)
        return type(structure)(*values) if hasattr(structure, "_fields") else tuple(values)
    return function(structure)


def leaves(structure: Any) -> Iterator[Any]:
    """Yield the values in nested tuples and mappings that are themselves neither tuple nor mapping."""
    if isinstance(structure, (Mapping, tuple)):
        for value in structure.values() if isinstance(structure, Mapping) else structure:
            yield from leaves(value)
    else:
        yield structure


class MadeOfRows:
    """A mixin for targets with rows that may come from sources."""

    given: Any = None
    """The data as given, in tuples and mappings, with sources for the arrays read from them; None without sources."""
    by_row: tuple[str, ...] = ("data",)
    """Names of attributes with an entry for each row, or with objects that have such attributes."""

    @property
    def cuts(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of terms, and of rows in the sources, at which parts may begin; ascending, from 0 to all."""
        offsets = next(_by_row(self)).offsets
        return offsets, offsets

    def without_rows(self) -> Any:
        """Return the target without its rows, for `with_rows`; small, because it is sent to every worker."""
        bare = copy.copy(self)
        for name in ("given", *self.by_row):
            vars(bare).pop(name, None)
        return bare

    def with_rows(self, given: Any, n_obs: int) -> Target:
        """Return this model with other data: as :attr:`given`, with arrays of `n_obs` rows in place of the sources."""
        raise IncompatibleError(f"{type(self).__name__} cannot be made of other rows")


class Recipe(NamedTuple):
    """A target without its rows, the sources of these rows, and the first row of each part by its first term.

    Where a term is a row, `first_rows` may be empty.
    """

    target: Any
    given: Any
    first_rows: Mapping[int, int]


class Part:
    """The target of some rows, the index of its first term, and values that passes store here."""

    def __init__(self, target: Target, first_row: int) -> None:
        self.target = target
        self.first_row = first_row
        self._kept: dict[Any, Any] = {}

    def keep(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``make(target, *arguments)``, computed once on the worker that holds this part."""
        if (make, arguments) not in self._kept:
            self._kept[make, arguments] = make(self.target, *arguments)
        return self._kept[make, arguments]

    def __len__(self) -> int:
        """Return the number of terms."""
        return self.target.n_obs

    def __getstate__(self) -> dict[str, Any]:
        """Drop stored values: compiled code cannot be sent."""
        return {**self.__dict__, "_kept": {}}


def recipe_of(target: MadeOfRows) -> Recipe:
    """Return what `make_part` needs to make parts of a target; small, because it is sent to every worker."""
    return Recipe(target.without_rows(), target.given, dict(_starts(target)))


def _starts(target: MadeOfRows) -> Iterator[tuple[int, int]]:
    """Yield the first term and the first row of each part, and the numbers of all terms and rows."""
    terms, rows = target.cuts
    for row in (0, *(hi for _, hi in spans(rows))):
        yield int(terms[np.searchsorted(rows, row)]), row


def make_part(recipe: Recipe, lo: int, hi: int) -> Part:
    """Return the part with the terms lo ... hi - 1, whose rows are read from the sources of `recipe`.

    The arrays are read-only, like arrays mapped from a file, so that the same cached kernels fit them.
    """

    def rows_of(value: Any) -> Any:
        if not isinstance(value, DataSource) or len(value) != _n_rows(recipe.target):
            return value
        rows = value.rows(recipe.first_rows.get(lo, lo), recipe.first_rows.get(hi, hi))
        rows.flags.writeable = False
        return rows

    return Part(recipe.target.with_rows(each(rows_of, recipe.given), hi - lo), lo)


_known: "weakref.WeakKeyDictionary[Target, tuple[Any, Partitions]]" = weakref.WeakKeyDictionary()


def parts_of(target: Target) -> Partitions | None:
    """Return the parts of a target on the cluster of the active client; they are read once, and kept with the target.

    None if no client is active, or if this process has to read the data.

    Raises
    ------
    IncompatibleError
        If the terms of a part differ from the terms of the same rows in this process.

    Warns
    -----
    ClusterWarning
        If the data are on disk, and this process has to make the passes although a client is active.
    """
    client = active_client()
    if client is None:
        return None
    data = getattr(target, "data", None)
    of, made_before = _known.get(target, (None, None))
    if made_before is not None and made_before.client is client and of is data:
        return made_before
    if reason := why_here(target):
        if any(is_mapped(array) for array in target.compile().data):
            warn(f"{target!r}: {reason}", ClusterWarning)
        return None
    assert isinstance(target, MadeOfRows)
    recipe = recipe_of(target)
    parts = Partitions(client, make_part, recipe, list(itertools.pairwise(recipe.first_rows)))
    _compare_ends(target, parts)
    _known[target] = data, parts
    return parts


def why_here(target: Target) -> str:
    """Return why this process has to make the passes over a target's rows; empty if workers can make them."""
    beginning = "this process makes the passes over all data itself, though a Dask client is active: "
    if not target.terms_are_likelihood:
        kind = type(target).__name__
        return beginning + f"the terms of a {kind} need its expansion of each row, which is stored here"
    if not isinstance(target, MadeOfRows):
        kind = type(target).__name__
        return (
            beginning + f"a {kind} cannot be sent to workers; write the model as a PredictorTarget or a FunctionTarget"
        )
    if not target.reads_rows:
        return (
            "no pass over all rows is left for workers: this process computed what replaces the rows when it made the "
            f"{type(target).__name__}, and steps read none"
        )
    if target.given is None:
        return beginning + "its data did not come from sources; give arrays as approxmcmc.sources.Arrays(array)"
    if not all(isinstance(array, DataSource) for array in _by_row(target)):
        return beginning + "some of its data are arrays; give these as approxmcmc.sources.Arrays(array), too"
    if len(spans(target.cuts[1])) == 1 < len(spans(next(_by_row(target)).offsets)):
        return beginning + "rows of one group lie far apart; sort the rows by group, as frame.set_index in Dask does"
    return ""


def _by_row(target: Any) -> Iterator[Any]:
    """Yield the arguments of a target that have an entry for each row."""
    return (leaf for leaf in leaves(target.given) if np.ndim(leaf) and len(leaf) == _n_rows(target))


def _n_rows(target: Any) -> int:
    return target.n_rows or target.n_obs


def _compare_ends(target: Target, parts: Partitions) -> None:
    """Compare the first and the last term of each part with the terms of the same rows in this process.

    A term that depends on its row number, or on neighbouring rows, differs in a part; and a path may lead to other
    files on another machine.
    """
    dim = target.variables.size
    compiled = target.compile()
    theta = target.initial_point() + 0.1 * np.sin(1.0 + np.arange(dim))  # a theta at which terms differ from each other
    ends = np.array([(lo, hi - 1) for lo, hi in parts.where]).ravel()
    expected = np.empty(ends.size)
    compiled.log_terms(theta, compiled.data, ends, 0, ends.size, expected)
    terms_of_parts = dict(parts.map(terms_at_ends, theta))
    for k, rows in enumerate(parts.where):
        rounding = {"rtol": compiled.term_tolerance, "atol": 1e-3 * compiled.term_tolerance}
        if not np.allclose(terms_of_parts[k], expected[2 * k : 2 * k + 2], **rounding, equal_nan=True):
            raise IncompatibleError(
                f"{target!r}: the terms of rows {rows[0]} and {rows[1] - 1} are {expected[2 * k : 2 * k + 2]} here and "
                f"{terms_of_parts[k]} on a worker, which only reads rows {rows[0]} to {rows[1] - 1}. "
                "Either a term depends on more than its own row, and passes must be made without a Dask client, "
                "or the source leads to other data there"
            )


def terms_at_ends(part: Part, theta: np.ndarray) -> np.ndarray:
    """Return the first and the last term of a part."""
    compiled = part.keep(compiled_of)
    out = np.empty(2)
    compiled.log_terms(theta, compiled.data, np.array([0, len(part) - 1]), 0, 2, out)
    return out


def compiled_of(target: Target) -> CompiledTarget:
    """Return the compiled target, as a function for `Part.keep`."""
    return target.compile()
