"""The content of code that Python runs: a user's sampler, estimand or rule for starting points, in a study.

It is read as the code of kernels is (`approxmcmc.engine.compiler.identity`), with four differences, because such code
may use every object of Python:

- An object counts by its class and its content: a target by its hash, a dataclass by its fields, any other by the
  parts from which ``pickle`` would rebuild it.
- A class of the user counts by what is written in it, not by the name of its module, which differs between a script,
  a notebook and a study's file.
- A module that a function imports when it runs is imported.
- An object without readable content does not end the reading. It counts by its type and is listed, for a warning.
"""

import copyreg
import dataclasses
import hashlib
import importlib
import logging
import sys
import threading
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.engine.compiler.identity import UnknownContentError, Walk
from approxmcmc.engine.compiler.libraries import Libraries
from approxmcmc.engine.compiler.reads import Path

# Libraries with objects that pickle writes alike in every process. Graphs of PyTensor, for example, have numbers that
# depend on what the process made before.
_PICKLED_ALIKE = frozenset({"numpy", "scipy", "pandas", "pyarrow", "approxmcmc"})
_GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState)
_WITHOUT_CONTENT = (logging.Logger, type(threading.Lock()), type(threading.RLock()))
# Variables of a module that say where it is.
_WHEREABOUTS = frozenset({"__name__", "__file__", "__package__", "__spec__", "__loader__", "__path__", "__cached__"})


class CodeContent(NamedTuple):
    """What a piece of code consists of.

    Parameters
    ----------
    id
        Hash of all of it.
    pieces
        Hash of each function, class and variable by name, without what these read in turn; names what has changed.
    unknown
        A sentence for each object with unknown content.
    """

    id: str
    pieces: dict[str, str]
    unknown: tuple[str, ...]


def code_content(value: Any, *, libraries: Libraries) -> CodeContent:
    """Return the content of a function, a class or an object, and of everything that its code reads.

    Parameters
    ----------
    value
        The function, class or object.
    libraries
        Return the version by which the functions of a package count, None for a package whose functions are read.

    Raises
    ------
    UnknownContentError
        If objects are nested too deeply to be read.
    """
    walk = _WalkOfPython(libraries)
    try:
        walk.add(value)
        walk.finish()
        walk.put("extra", repr(None))  # so that a function that a kernel could call has the hash that a kernel gives it
    except RecursionError as error:
        raise UnknownContentError("the code refers to objects nested too deeply to be read") from error
    pieces = {name: digest.hexdigest() for name, digest in walk.pieces.items() if digest is not None}
    return CodeContent(walk.digest.hexdigest(), pieces, tuple(dict.fromkeys(walk.unknown)))


class _WalkOfPython(Walk):
    def __init__(self, libraries: Libraries) -> None:
        super().__init__(libraries)
        self.pieces: dict[str, Any] = {}  # a digest by name; None while nothing was put under the name
        self.unknown: list[str] = []

    def put(self, *pieces: str | bytes) -> None:
        super().put(*pieces)
        # The number of an object met before depends on what was read earlier, so it says nothing about this piece.
        if self._reading and pieces[0] != "met before":
            name = self._reading[-1]
            digest = self.pieces[name] = self.pieces.get(name) or hashlib.blake2b(digest_size=8)
            for piece in pieces:
                data = piece.encode() if isinstance(piece, str) else piece
                digest.update(b"%d:%b" % (len(data), data))

    def add(self, value: Any) -> None:
        depth = len(self._reading)
        try:
            super().add(value)
        except UnknownContentError as refusal:
            del self._reading[depth:]
            self.unknown.append(refusal.reference or str(refusal))
            self.put("unknown", type(value).__module__, type(value).__qualname__)

    def finish(self) -> None:
        try:
            super().finish()
        except UnknownContentError as refusal:
            self.unknown.append(refusal.reference or str(refusal))

    def _add_path(self, path: Path, function: types.FunctionType, closure: Any) -> None:
        if path.name in _WHEREABOUTS:
            self.put("path", path.name)
        else:
            super()._add_path(path, function, closure)

    def _add_array(self, value: Any) -> None:
        if value.dtype.hasobject and isinstance(value, np.ndarray):
            self.put("array", repr(value.dtype), str(value.shape))
            self._add_parts("items", *value.ravel().tolist())
        else:
            super()._add_array(value)

    def _add_other(self, value: Any) -> None:
        kind = type(value)
        home = kind.__module__.partition(".")[0]
        if isinstance(value, _GENERATORS):
            self._refuse(value, "a random generator, whose state changes with every use; make one from `seed`")
        elif isinstance(value, _WITHOUT_CONTENT):
            self.put("without content", kind.__qualname__)
        elif isinstance(value, Target):
            self.put("target", value.content_hash())
        elif dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value) if field.compare]
            self._add_parts("dataclass", kind, *names, *(getattr(value, name, None) for name in names))
        elif hasattr(value, "__wrapped__"):  # such as a function that JAX compiles
            self._add_parts("wrapped", kind, value.__wrapped__)
        elif home in _PICKLED_ALIKE or home in sys.stdlib_module_names or self._libraries(home) is None:
            self._add_pickled(value)
        else:
            self._refuse(value)

    def _add_pickled(self, value: Any) -> None:
        """Add the parts from which ``pickle`` would rebuild an object."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # the object's own code says that it cannot be pickled, by whatever error
            self._refuse(value)
        if isinstance(reduced, str):
            self.put("global", reduced)
            return
        rebuild, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if rebuild is copyreg.__newobj__:  # type: ignore[attr-defined]  # typeshed lacks it
            rebuild = "new"
        self._add_parts("object", type(value), rebuild, arguments, state, _listed(items), _listed(pairs))

    def _home_of(self, kind: type) -> str:
        home = kind.__module__ or ""
        return home if self._libraries(home.partition(".")[0]) is not None else ""

    def _imported(self, name: str) -> types.ModuleType:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            return types.ModuleType(name)  # without code, until it is installed
        except Exception as error:  # whatever the module raises
            self._refuse(name, f"the import of {name}, which raises {type(error).__name__}: {error}")


def _listed(items: Iterable[Any] | None) -> list[Any] | None:
    return None if items is None else list(items)
