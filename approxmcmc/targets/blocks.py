"""Targets that grow: rows arrive in blocks, such as days, and blocks can be removed.

    log p(theta | blocks 1 ... B) = log p(theta) + sum_b sum_{i in block b} log p(x_i | theta).

A target that grows remembers its blocks: their names, their numbers of rows, and hashes of their content. Whatever was
computed for the rows of a block stays valid when other blocks come or go.
"""

import abc
import copy
import functools
from typing import Any, NamedTuple, Self

import numpy as np

from approxmcmc.contracts import content_hash
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.sources import DataSource
from approxmcmc.sources.parts import leaves

FIRST = "first"
"""The name of the rows that a target was made of."""


class Block(NamedTuple):
    """Rows that came together: a name, such as a day; their number; a hash of their content.

    `files` are the files that they were read from, each as (name, size in bytes, time of modification in ns), as text;
    empty for rows in memory.
    """

    name: str
    n_rows: int
    content: str
    files: tuple[tuple[str, int, str], ...] = ()


class Blocks(tuple[Block, ...]):
    """The blocks of a target, in the order of its rows."""

    @property
    def names(self) -> list[str]:
        """The names of the blocks."""
        return [block.name for block in self]

    @property
    def ends(self) -> np.ndarray:
        """The first row of each block, then the number of rows; int64, shape (blocks + 1,)."""
        return np.concatenate([[0], np.cumsum([block.n_rows for block in self])]).astype(np.int64)

    def place(self, name: str) -> int:
        """Return the index of a block; raise if there is no block of this name, or it is the only one."""
        if name not in self.names:
            raise InvalidInputError(f"{speaker()}: there is no block {name!r}; the blocks are {self.names}")
        if len(self) == 1:
            raise InvalidInputError(f"{speaker()}: {name!r} is the only block, and a target needs rows")
        return self.names.index(name)

    def with_block(self, block: Block) -> "Blocks":
        """Return the blocks and one more; raise if its name is taken or its rows are there already.

        The same rows twice are nearly always a mistake: a file that was read again, a job that ran twice.
        """
        if block.name in self.names:
            raise InvalidInputError(
                f"{speaker()}: there is a block {block.name!r} already; give the new rows another name"
            )
        same = [stored.name for stored in self if stored.content == block.content]
        if same:
            raise InvalidInputError(
                f"{speaker()}: the rows of block {block.name!r} are those of block {same[0]!r}, which would count "
                "twice; if they really came twice, append them together with other rows"
            )
        return Blocks((*self, block))

    def without(self, k: int) -> "Blocks":
        """Return the blocks without the k-th."""
        return Blocks((*self[:k], *self[k + 1 :]))

    def next_name(self) -> str:
        """Return a name for a block without one: its number, counted from 1."""
        number = len(self)
        while str(number) in self.names:
            number += 1
        return str(number)


def files_of(rows: Any) -> tuple[tuple[str, int, str], ...]:
    """Return the files that `rows` (nested arguments) were read from, if they hold a source that knows its files."""
    file_lists = [leaf.files for leaf in leaves(rows) if isinstance(leaf, DataSource) and leaf.files]
    return file_lists[0] if file_lists else ()


class Grows(abc.ABC):
    """A mixin for targets of rows that grow by blocks.

    Subclasses implement `rows_to_append`, which makes the target of new rows alone, `_join_rows`, which puts its rows
    behind those of this target, and `_leave_out`, which leaves some out.
    """

    given: Any
    n_obs: int
    _blocks: Blocks = Blocks()
    _noted_hash: str = ""
    """The hash of a target that has not grown, from its last computation: `append` then reads no row for it."""
    _stored_hash: str = ""
    """The hash of a target that was read from a folder and has not grown: its rows are as they were written."""
    _files: tuple[tuple[str, int, str], ...] = ()

    @property
    def terms_are_rows(self) -> bool:
        """Whether each row is a term, and terms of old rows stay the same when rows come or go."""
        return True

    @property
    def n_own_rows(self) -> int:
        """Number of rows, which is the number of terms unless these stand for rows."""
        return self.n_obs

    @abc.abstractmethod
    def content_hash(self) -> str:
        """Return a hash of model and data."""

    @abc.abstractmethod
    def refuse_changed_data(self, name: str = "") -> None:
        """Raise if the data were changed in place."""

    @property
    def blocks(self) -> Blocks:
        """Blocks of rows, in their order; one, called "first", unless rows were appended."""
        if self._blocks:
            return self._blocks
        content = self._noted_hash or self.content_hash()
        return Blocks((Block(FIRST, self.n_own_rows, content, self._files or files_of(self.given)),))

    def append(self, *rows: Any, block: str | None = None, **columns: Any) -> Self:
        """Return the target of all rows: those of this target, then new ones; this target stays as it is.

        Parameters
        ----------
        *rows, **columns
            The new rows: the arguments of the constructor that have a value for each row, such as ``X, y, offset=...``.
            A table is matched by the names of its columns, and may have them in another order.
        block
            The name of these rows, such as a day, for `remove` and for messages. None: the number of the block.

        Returns
        -------
        Target
            A target with the same variables and prior. Its log density is that of a target made of all rows. Old rows
            are neither read nor evaluated. They are copied when there is no room for new ones behind them: at the
            first time, then whenever their number has grown by a half.

        Raises
        ------
        InvalidInputError
            If the rows do not fit: a column is missing; a category, class or group of categories is new, because the
            target has no parameter for it; numbers would be rounded to the type of the old ones; an offset or sizes are
            missing, or new; the name of the block is taken; or the rows are those of an earlier block.
        IncompatibleError
            If the target cannot be made of other rows.

        Notes
        -----
        A column that was constant until now, such as an indicator without a row, has had a coefficient under the prior
        all the time, so nothing is special. The hash of the content is made of the hashes of the blocks, so that no
        old row is read for it: it differs from the hash of a target made of all rows at once.

        Examples
        --------
        >>> import numpy as np, approxmcmc as amc
        >>> X, y = amc.datasets.synthetic_logistic(300, 2)
        >>> target = amc.LogisticRegression(X[:200], y[:200]).append(X[200:], y[200:], block="Tuesday")
        >>> target, target.blocks.names
        (LogisticRegression(n_obs=300, dim=2), ['first', 'Tuesday'])
        >>> target.remove("first")
        LogisticRegression(n_obs=100, dim=2)
        """
        more = self.rows_to_append(*rows, **columns)
        return self.joined(more, block)

    def rows_to_append(self, *rows: Any, **columns: Any) -> Self:
        """Return the target of new rows alone, with the variables and the prior of this one; see `append`."""
        raise IncompatibleError(f"{type(self).__name__} cannot be made of other rows, so no rows can be appended")

    @names_itself("append to {}")
    def joined(self, more: Self, block: str | None = None) -> Self:
        """Return the target of the rows of this target and those of `more`, which `rows_to_append` has made."""
        blocks = self.blocks
        name = blocks.next_name() if block is None else str(block)
        added = Block(name, more.n_own_rows, more.content_hash(), more._files)
        blocks = blocks.with_block(added)
        self.refuse_changed_data(speaker())
        joined = copy.copy(self)
        joined._blocks = blocks
        joined._forget()
        joined._join_rows(more)
        return joined

    @names_itself("remove from {}")
    def remove(self, block: str) -> Self:
        """Return the target without the rows of a block, such as the oldest day, or rows whose use was withdrawn.

        Nothing is subtracted: what is known of each block is kept apart, so the result is as exact as a target that
        never had these rows. Rows behind the block are copied, unless it is the first or the last one.

        Raises
        ------
        InvalidInputError
            If there is no block of this name, or it is the only one.
        """
        blocks = self.blocks
        k = blocks.place(block)
        lo, hi = map(int, blocks.ends[k : k + 2])
        rest = copy.copy(self)
        rest._blocks = blocks.without(k)
        rest._forget()
        rest._leave_out(lo, hi)
        return rest

    def _start_anew(self, files: tuple[tuple[str, int, str], ...]) -> None:
        """Make a copy of the target ready for other rows, which come from these files."""
        self._blocks = Blocks()
        self._files = files
        self._forget()

    def _forget(self) -> None:
        """Drop what a copy of the target knows of all rows; subclasses add what they store."""
        self._noted_hash = ""
        self._stored_hash = ""
        self.given = None
        for name in [
            name for name in vars(self) if isinstance(getattr(type(self), name, None), functools.cached_property)
        ]:
            del vars(self)[name]

    def _join_rows(self, more: Self) -> None:
        """Put the rows of `more` behind the own ones, in a copy of the target."""
        raise IncompatibleError(f"{type(self).__name__} cannot be made of other rows, so no rows can be appended")

    def _leave_out(self, lo: int, hi: int) -> None:
        """Leave out the rows lo ... hi - 1, in a copy of the target."""
        raise IncompatibleError(f"{type(self).__name__} cannot be made of other rows, so no rows can be removed")

    def _hash_of_blocks(self, *of_model: Any) -> str:
        """Return the hash of a target that has grown, from those of its blocks."""
        return content_hash(type(self).__name__, "blocks", [list(block[1:3]) for block in self._blocks], *of_model)
