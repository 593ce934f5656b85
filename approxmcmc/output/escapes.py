"""What netCDF cannot hold: labels that are objects become text, and names of other characters are escaped.

A netCDF name has 1 to 255 bytes, begins with a letter, a digit or an underscore, ends with no space, and has no control
characters. PyMC and xarray allow others, such as "<b>", "." or 300 letters. A file holds them escaped, and the
attribute `NAMES` of the group has the names themselves, so that `load` returns them.
"""

import hashlib
import json
import unicodedata
import urllib.parse
from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr

NAMES = "escaped_names"  # attribute of a group: JSON, the name by its escape
LONGEST = 255  # bytes of a name in netCDF
SHOWN = 60  # characters of a name that an escape shows


def is_storable(name: str) -> bool:
    """Return whether netCDF holds a name unchanged.

    Examples
    --------
    >>> [is_storable(name) for name in ("beta", "1|site_sigma", "a b", "<b>", ".", "", "x" * 300)]
    [True, True, True, False, False, False, False]
    """
    if not name or len(name.encode()) > LONGEST or unicodedata.normalize("NFC", name) != name:
        return False
    first = name[0] == "_" or (name[0].isascii() and name[0].isalnum()) or not name[0].isascii()
    return first and not name.endswith(" ") and all(character.isprintable() for character in name) and "/" not in name


def escaped(name: str) -> str:
    """Return another name for one that netCDF cannot hold: its first characters, quoted, and a hash."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"escaped_{urllib.parse.quote(name[:SHOWN], safe='')[: LONGEST - 30]}_{digest}"


def with_storable_names(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset with all names of variables and axes escaped that netCDF cannot hold."""
    names = [name for name in {*dataset.variables, *dataset.dims} if not is_storable(str(name))]
    if not names:
        return dataset
    escapes: dict[Hashable, str] = {name: escaped(str(name)) for name in names}
    text = json.dumps({escape: str(name) for name, escape in escapes.items()}, sort_keys=True)
    return dataset.rename(escapes).assign_attrs({NAMES: text})


def with_own_names(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset as it was before `with_storable_names`."""
    if NAMES not in dataset.attrs:
        return dataset
    present = {*dataset.variables, *dataset.dims}
    names = {escape: name for escape, name in json.loads(dataset.attrs[NAMES]).items() if escape in present}
    own = dataset.rename(names)
    own.attrs = {name: value for name, value in dataset.attrs.items() if name != NAMES}
    return own


def with_text_labels(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset in which labels that files cannot hold, such as tuples, intervals or dates, are text."""
    texts = {
        name: (variable.dims, _as_text(variable.to_numpy()), variable.attrs)
        for name, variable in dataset.variables.items()
        if variable.dtype.kind == "O" and not all(map(_is_text, variable.to_numpy().ravel().tolist()))
    }
    labels = {name: text for name, text in texts.items() if name in dataset.coords}
    return dataset.assign({name: text for name, text in texts.items() if name not in labels}).assign_coords(labels)


def _is_text(label: Any) -> bool:
    """Return whether xarray writes a label as text: a string, or a missing one."""
    return isinstance(label, str) or label is None or (isinstance(label, float) and np.isnan(label))


def _as_text(labels: np.ndarray) -> np.ndarray:
    texts = np.empty(labels.shape, dtype=object)
    texts.ravel()[:] = [str(label) for label in labels.ravel().tolist()]
    return texts.astype(str)
