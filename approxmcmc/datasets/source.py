"""Find the arrays of a data set: in the user's folder, in the user's cache, or by a download.

All places give the same arrays, verified by their checksum.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from approxmcmc.datasets import downloads
from approxmcmc.datasets.dataset import Dataset, checksum
from approxmcmc.datasets.downloads import DATA_VARIABLE, cache_folder, data_folder, read_arrays
from approxmcmc.engine.files.paths import CACHE_VARIABLE
from approxmcmc.errors import DatasetError, DatasetWarning, InvalidInputError

Arrays = tuple[np.ndarray, ...]


def as_they_are(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return the arrays of a file in the order of their declaration."""
    return tuple(arrays.values())


@dataclasses.dataclass(frozen=True)
class Download:
    """A possible download.

    `place` is its name in `Source.find`, `fetch` the function ``module:name`` that fetches the arrays of the file, and
    `origin` their origin, for messages.
    """

    place: str
    fetch: str
    origin: str


@dataclasses.dataclass(frozen=True)
class Source:
    """The declaration of a data set's arrays.

    Attributes
    ----------
    title
        Name of the data in messages.
    file_name
        A ``.npz`` file, in the user's folder and in the cache.
    arrays
        Names of the arrays in it.
    sha256
        Checksum of the output of `decode`; see `approxmcmc.datasets.dataset.checksum`.
    decode
        Converts the arrays in the file to those to work with.
    download
        A download of the data, if there is one.
    """

    title: str
    file_name: str
    arrays: tuple[str, ...]
    sha256: str
    decode: Callable[[Mapping[str, np.ndarray]], Arrays] = as_they_are
    download: Download | None = None

    def find(self, source: str = "auto") -> tuple[Arrays, str]:
        """Return the arrays from the first place that has them, and the name of that place.

        Parameters
        ----------
        source
            One place, or "auto": folder, cache and download, in this order.

        Raises
        ------
        InvalidInputError
            When the data set has no such place.
        DatasetError
            When no place has the data, or the user's folder has other content under their name.
        """
        places = ("folder", "cache", *([self.download.place] if self.download else []))
        if source not in ("auto", *places):
            raise InvalidInputError(f"source must be one of {('auto', *places)}, found {source!r}.")
        asked = places if source == "auto" else (source,)
        folder, cached, answer = data_folder(), cache_folder() / self.file_name, "not asked"
        if "folder" in asked and folder is not None and (folder / self.file_name).exists():
            return self._read(folder / self.file_name), f"{self.file_name} in the folder of {DATA_VARIABLE}"
        if "cache" in asked and cached.exists():
            try:
                return self._read(
                    cached
                ), f"the user's cache{f', from {self.download.origin}' if self.download else ''}"
            except DatasetError as error:
                warnings.warn(f"{error} It is ignored.", DatasetWarning, stacklevel=3)
        if self.download is not None and self.download.place in asked:
            try:
                downloads.download(cached, self.download.fetch, insist=source != "auto")
                return self._read(cached), f"{self.download.origin}, kept in {cached}"
            except DatasetError as error:
                answer = str(error)
        raise DatasetError(
            f"{self.title} was not found (source={source!r}). Looked at: (1) the folder of {DATA_VARIABLE}: "
            f"{'the variable is not set' if folder is None else folder / self.file_name}; (2) the user's cache: "
            f"{cached}; (3) {f'{self.download.origin}: {answer}' if self.download else 'there is no download'}. "
            f"Put {self.file_name} into one of the two folders (set {DATA_VARIABLE} or {CACHE_VARIABLE})"
            f"{', or connect to the network and try again' if self.download else ''}, or use allow_synthetic=True, or "
            "synthetic_stand_in(), if real data are not needed."
        )

    def _read(self, path: Path) -> Arrays:
        arrays = self.decode(read_arrays(path, self.arrays))
        found = checksum(*arrays)
        if found != self.sha256:
            raise DatasetError(
                f"{path} does not hold {self.title}: the checksum of its arrays is {found}, needed is {self.sha256}. "
                "Replace or remove the file."
            )
        return arrays


def or_stand_in(load: Callable[[], Dataset], stand_in: Callable[[], Dataset], *, allow_synthetic: bool) -> Dataset:
    """Return the real data; if they are not available, warn and return their stand-in, or raise if not allowed.

    Raises
    ------
    DatasetError
        When the data are not available and `allow_synthetic` is False.
    """
    try:
        return load()
    except DatasetError as error:
        if not allow_synthetic:
            raise
        warnings.warn(f"a synthetic stand-in replaces the data. {error}", DatasetWarning, stacklevel=3)
        return stand_in()
