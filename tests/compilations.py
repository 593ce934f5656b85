"""Which functions numba compiles while tests run, and which of them no later run finds on disk.

The session `tests` compiles for half a minute on an empty cache; its second run should compile nothing. So a test of
that session fails if it compiles a function of which no file is kept, unless it is marked `compiles_anew`.
"""

import threading

from numba.core import event

from approxmcmc.engine.compiler.disk_cache import ContentCache, cache_folder


class Compilations(event.Listener):
    """Record the functions that numba compiles from now on, each with its signature, without those that they call."""

    def __init__(self):
        self.compiled = []
        self._thread = threading.local()
        event.register("numba:compile", self)

    def on_start(self, compilation):
        """Begin a function, which may be called by one that is being compiled."""
        self._thread.depth = getattr(self._thread, "depth", 0) + 1

    def on_end(self, compilation):
        """End a function, and record it if it has compiled: `is_failed` of numba 0.68 is the wrong way round."""
        self._thread.depth -= 1
        details = compilation.data
        arguments = tuple(details["args"])
        if self._thread.depth == 0 and arguments in details["dispatcher"].overloads:
            result = details["return_type"]
            self.compiled.append((details["dispatcher"], arguments if result is None else result(*arguments)))

    def take_unkept(self):
        """Return the names of the functions that no file holds, of those compiled since the last call."""
        unkept = [dispatcher for dispatcher, signature in self.compiled if not is_kept(dispatcher, signature)]
        self.compiled = []
        return [dispatcher.py_func.__qualname__ for dispatcher in unkept]


def is_kept(dispatcher, signature):
    """Return whether a later process finds the code of a dispatcher for a signature on disk."""
    cache = getattr(dispatcher, "_cache", None)  # numba's blocks of Python code have none
    if not isinstance(cache, ContentCache):
        return False
    name = cache._file_name(signature, dispatcher.targetctx.codegen().magic_tuple())
    try:
        return (cache_folder() / name).exists()
    except FileNotFoundError:  # a test has no home, and so no folder
        return False


COMPILATIONS = Compilations()
