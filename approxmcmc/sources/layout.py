"""The local file of a source: its rows one after the other, mapped by all who read them at random.

A file is named by what its data are: one for a data set, shared by chains, runs and processes. It is written whole or
not at all, and its room is claimed before the first row is read.
"""

from collections.abc import Iterable

import numpy as np

from approxmcmc.engine.mapped_files import claim_room
from approxmcmc.engine.messages import detail, tell
from approxmcmc.engine.paths import user_cache
from approxmcmc.engine.trusted import why_not_trusted
from approxmcmc.engine.whole_files import whole_file
from approxmcmc.errors import InvalidInputError

TOLD = 10**8  # bytes: what takes a second or more


def laid_out(
    name: str, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray], *, who: str
) -> np.ndarray:
    """Return an array that is mapped, read-only, from the file of this name; where it is missing, write the blocks.

    Raises
    ------
    InvalidInputError
        When there is no room for the file, or another user may have written it.
    """
    path = user_cache("laid_out_rows") / f"{name}.npy"
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    if not path.exists():
        (tell if n_bytes >= TOLD else detail)("%s: %.3g GB are laid out once in %s", who, n_bytes / 1e9, path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary, temporary.open("wb") as file:
            header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]  # its type asks for more
            claim_room(file.fileno(), file.tell() + n_bytes, path.parent, who=who)
            for block in blocks:
                file.write(block.data)
    if why := why_not_trusted(path):
        raise InvalidInputError(f"{who}: its file {path.name} is not read: {why}")
    return np.asarray(np.load(path, mmap_mode="r"))
