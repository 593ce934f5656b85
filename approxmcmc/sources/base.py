"""The role of a source: rows of named columns, read block by block."""

import abc
import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import content_hash
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.files.mapped_files import named_array
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.errors import InvalidInputError

LARGEST = np.iinfo(np.int64).max


class DataSource(abc.ABC):
    """A table, or a column of one, with rows that are read block by block.

    ``source["y"]`` is one column, of shape (n,); ``source[["x0", "x1"]]`` a table of two, of shape (n, 2). Targets
    accept either in place of an array. They write the rows once to a local file in the package's cache folder, which
    later runs reuse; the file is mapped, and is never in memory as a whole.

    Attributes
    ----------
    columns
        Names of the columns, as text.
    offsets
        First row of each block, then the number of rows; int64, shape (n_blocks + 1,).

    Notes
    -----
    Floats keep their type, float32 or float64; integers and booleans are read as int64; several columns get the type
    that holds all of them. A column of categories, or of text, is read alone, as codes 0, 1, ... of its labels. A
    subclass sets `columns` and `offsets`, and implements `_read`, which reads a block, and `_types`.

    Examples
    --------
    >>> import numpy as np
    >>> from approxmcmc.sources import Arrays
    >>> table = Arrays(np.arange(6.0).reshape(3, 2), columns=("a", "b"))
    >>> table["b"].shape, table["b"].read(0)
    ((3,), array([1., 3., 5.]))
    """

    columns: tuple[str, ...]
    offsets: np.ndarray
    is_vector: bool = False
    ones: str | None = None
    """Name of the added first column of ones; None without one."""
    files: tuple[tuple[str, int, str], ...] = ()
    """The files that hold the rows, in their order: name, size in bytes, modification time in ns; empty if unknown."""
    _wanted: np.dtype | None = None

    @abc.abstractmethod
    def _read(self, block: int) -> np.ndarray:
        """Return the selected columns of a block; shape (rows, columns), categories as codes."""

    @abc.abstractmethod
    def _types(self) -> Sequence[np.dtype]:
        """Return the type of each selected column; codes are integers."""

    def fingerprint(self) -> str:
        """Return a text that changes when the data change; by default a hash of all values, which reads them all."""
        return content_hash(*(content_hash(self.read(block)) for block in range(len(self.offsets) - 1)))

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]:
        """Labels of the selected columns with categories, in the order of their codes."""
        return {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows: (n,) for a column, (n, p) for a table."""
        return (len(self),) if self.is_vector else (len(self), len(self.columns))

    @property
    def ndim(self) -> int:
        """Number of axes: 1 for a column, 2 for a table."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of the rows: float32, float64 or int64."""
        common = np.result_type(*self._types()) if self._wanted is None else self._wanted
        if common.kind in "iub":
            return np.dtype(np.int64)
        return np.dtype(np.float32 if common.itemsize <= 4 else np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in the local file."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.offsets[-1])

    def __getitem__(self, names: str | Sequence[str]) -> Self:
        """Return a source of one column, or of a table of several; raise if a name is unknown."""
        columns = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in columns if name not in self.columns]
        if unknown or not columns:
            raise InvalidInputError(f"{self!r}: no columns {unknown or columns}; there are {list(self.columns)}")
        chosen = copy.copy(self)
        chosen.columns = columns
        chosen.is_vector = isinstance(names, str)
        return chosen

    def astype(self, dtype: Any) -> Self:
        """Return a source of the same rows as numbers of another type."""
        other = copy.copy(self)
        other._wanted = np.dtype(dtype)
        return other

    def with_ones(self, name: str) -> Self:
        """Return a source of the table with an additional first column of ones, called `name`."""
        other = copy.copy(self)
        other.columns = (name, *self.columns)
        other.ones = name
        return other

    def read(self, block: int) -> np.ndarray:
        """Return the rows of a block, in memory.

        Raises
        ------
        InvalidInputError
            When a value is missing in a column of integers, an integer is beyond int64, or the block has another shape
            than when the source was opened.
        """
        if self.ones is not None:
            bare = copy.copy(self)
            bare.columns = self.columns[1:]
            bare.ones = None
            rows = bare.read(block)
            return np.concatenate([np.ones((len(rows), 1), rows.dtype), rows], axis=1)
        array = np.asarray(self._read(block))
        if array.dtype.kind == "u" and array.size and array.max() > LARGEST:
            raise InvalidInputError(
                f"{self!r}: integers must be at most {LARGEST}, the largest int64; block {block} holds {array.max()}. "
                "Store the column as float64"
            )
        expected = int(self.offsets[block + 1] - self.offsets[block])
        if array.shape != (expected, len(self.columns)):
            raise InvalidInputError(
                f"{self!r}: block {block} needs shape {(expected, len(self.columns))}, found {array.shape}; the data "
                "have changed since the source was opened: open it again"
            )
        if self.dtype.kind == "i" and array.dtype.kind == "f":
            raise InvalidInputError(
                f"{self!r}: block {block} has missing values in a column of integers; drop or impute these rows"
            )
        return np.ascontiguousarray(array[:, 0] if self.is_vector else array, dtype=self.dtype)

    def rows(self, lo: int, hi: int) -> np.ndarray:
        """Return the rows lo ... hi - 1, in memory, from the blocks that contain them."""
        first, last = np.searchsorted(self.offsets, [lo, hi - 1], side="right") - 1
        blocks = np.concatenate([self.read(block) for block in range(first, last + 1)])
        return blocks[lo - self.offsets[first] : hi - self.offsets[first]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the rows as an array mapped from the local file; the first call writes that file."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            return self.astype(dtype).__array__(copy=copy)
        parts = self.fingerprint(), list(self.columns), self.ones, self.is_vector, self.dtype.str, len(self)
        blocks = (self.read(block) for block in range(len(self.offsets) - 1))
        path = user_cache("laid_out_rows") / f"{content_hash(*parts)}.npy"
        rows = named_array(path, self.shape, self.dtype, blocks, purpose=repr(self))
        return rows.copy() if copy else rows

    def __repr__(self) -> str:
        """Show the kind of source, the number of rows and the first columns."""
        names = ", ".join(self.columns[:4]) + (", ..." if len(self.columns) > 4 else "")
        return f"{type(self).__name__}({len(self)} rows, {names})"


def column_names(given_names: Sequence[str] | None, width: int) -> tuple[str, ...]:
    """Return `given_names` as the names of `width` columns; None: x0, x1, ...

    Raises
    ------
    InvalidInputError
        When there are not `width` names, or a name occurs twice.
    """
    names = tuple(f"x{j}" for j in range(width)) if given_names is None else tuple(str(name) for name in given_names)
    if len(names) != width or len(set(names)) != width:
        raise InvalidInputError(f"{speaker()}: {width} columns need as many different names, found {list(names)}")
    return names


def check_numbers(types: Mapping[str, np.dtype]) -> None:
    """Raise if a type is not numeric; `types` are the types of columns by name."""
    wrong = {name: str(dtype) for name, dtype in types.items() if dtype.kind not in "fiub"}
    if wrong:
        raise InvalidInputError(
            f"{speaker()}: columns must hold numbers, categories or text, found {wrong}; leave these out"
        )


def check_alone(categories: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raise if a table of several `columns` has one with categories; the keys of `categories` are their names."""
    coded = [name for name in columns if name in categories]
    if coded and len(columns) > 1:
        raise InvalidInputError(
            f"{speaker()}: a table of several columns needs numbers, and {coded} hold categories; read each of these "
            f"alone, source[{coded[0]!r}], as a term of a PredictorTarget, and select the other columns for X"
        )


def as_labels(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the labels of a column, given those of each block: in their order if all blocks agree, else sorted."""
    lists = [tuple(labels) for labels in values]
    if all(labels == lists[0] for labels in lists):
        return lists[0]
    return tuple(sorted({label for labels in lists for label in labels}))
