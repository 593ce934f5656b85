"""Data of a target that were changed in place after it was made: an error instead of another posterior.

A target shares contiguous arrays with the user, because a copy of tall data may not fit into memory. A target that
remembers numbers computed from its rows would then mix two data sets, and any other would sample another posterior than
the one that it was checked for.
"""

import zlib
from typing import Any

import numpy as np

from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.errors import InvalidInputError

READ_WHOLE = 1 << 22  # bytes; 4 MB take 4 ms
MOST_ROWS = 4096  # rows that are read of a larger array, spread evenly


def fingerprint(array: Any) -> int:
    """Return a checksum of an array's shape and of its bytes: of `MOST_ROWS` rows if it is larger than `READ_WHOLE`.

    An array with fewer rows is read whole. 0 for an array mapped from a file, whose rows would be read from the disk,
    and for values that are not arrays. Raises `InvalidInputError` for an array of objects: its bytes are addresses,
    which stay the same when an object changes.
    """
    if not isinstance(array, np.ndarray) or is_mapped(array):
        return 0
    if array.dtype.hasobject:
        raise InvalidInputError(
            f"data must hold numbers, found an array of dtype {array.dtype}, in which a change in place cannot be "
            "seen; convert or encode it first"
        )
    of_shape = zlib.crc32(repr(array.shape).encode())
    if array.nbytes > READ_WHOLE and len(array) > MOST_ROWS:
        array = array[np.linspace(0, len(array) - 1, MOST_ROWS).astype(np.int64)]
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"", of_shape)


class NotesItsData:
    """A mixin for targets with arrays in `data`: notes their checksums when they are set."""

    data: tuple[np.ndarray, ...]
    _as_made: tuple[int, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; with `data`, note the checksums."""
        super().__setattr__(name, value)
        if name == "data":
            super().__setattr__("_as_made", tuple(map(fingerprint, value)))

    def refuse_changed_data(self, name: str = "") -> None:
        """Raise `InvalidInputError` if the checksum of an array in `data` has changed since the target was made.

        A change in a row of a large array that `fingerprint` does not read, or in a file, is not seen. `name`: what the
        message calls the target, by default its class.
        """
        changed = [f"data[{k}]" for k, array in enumerate(self.data) if fingerprint(array) != self._as_made[k]]
        if changed:
            raise InvalidInputError(
                f"{name or type(self).__name__}: its data were changed in place after the target was made, see "
                f"{' and '.join(changed)}; make the target again from the new values, or give it copies, X.copy() and "
                "y.copy()"
            )
