"""Compiled kernels on disk, named by their content.

One file per kernel: its name is the hash of the kernel's content (see `identity`), its signature, the processor, and
the versions of Python (3.13, say, whose releases share their byte code), numba and llvmlite. A file is therefore never
stale, only unused, and two processes that write the same file write the same kernel. Kernels that came with the package
are read if this processor has none of its own (see `shipped`). This file uses private parts of numba:
`Dispatcher._cache`, `CompileResult._reduce` and `_rebuild`, `Environment._memo`, `codegen().magic_tuple()`. If any of
them fails, kernels are compiled again in every process, which costs seconds and changes no result.

A file holds machine code, so it is read only if no other user can have written it (see `read_trusted`). It is a line of
JSON, the object code, LLVM's intermediate code and a checksum, which covers the file's name: a damaged file, or another
kernel's file under this name, is compiled anew. So it need not be flushed to disk. Nothing in it is a pickle.
"""

import contextlib
import importlib.metadata
import json
import re
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba import types as nb
from numba.core import compiler
from numba.core.caching import _Cache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.funcdesc import FunctionDescriptor

from approxmcmc.engine.compiler.identity import UnknownContentError, any_stale, content_and_helpers, content_id
from approxmcmc.engine.compiler.shipped import read_shipped
from approxmcmc.engine.compiler.type_names import spelled
from approxmcmc.engine.files.checksums import ADDED, why_damaged
from approxmcmc.engine.files.paths import UntrustedFileError, make_private, read_trusted, user_cache
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.engine.messages import detail
from approxmcmc.errors import CacheWarning, warn

# How a kernel links its callees, see `callees`, and how it is named, see `_name_by_content`; part of the file name.
SYMBOLS = "internal, by content, with constants"


LETTERS = 100  # most letters of a function's name in the name of its file


def cache_folder() -> Path:
    """Return the folder of compiled kernels."""
    return user_cache("kernels")


def _environment(modname: str, consts: list[Any], name: str) -> Environment:
    """Return numba's environment called `name`, as numba does, but without importing the module `modname`.

    Equal functions of different modules share a file, so the module that compiled first may be missing, or may be a
    script with side effects. Only object mode would read its globals, and object mode is not used here.
    """
    environment = lookup_environment(name)
    if environment is None:
        environment = Environment._memo[name] = Environment({"__name__": modname})
        environment.consts[:] = consts
        environment.env_name = name
    return environment


# What numba's descriptor of a function consists of, apart from its types, which a process has already.
_DESCRIPTION = (
    *("native", "modname", "qualname", "unique_name", "doc", "args", "kws", "mangled_name", "env_name", "inline"),
    *("noalias", "abi_tags", "uid"),
)


def _constants(environment: Environment) -> list[list[Any]]:
    """Return the constants of an environment as JSON: plain values, and the NumPy dtypes that PyTensor's code holds.

    Raises `TypeError` for another Python object: only a pickle could hold it, and a pickle runs code when it is read.
    """
    written = []
    for constant in environment.consts:
        if constant is None or type(constant) in (bool, int, float, str):
            written.append(["plain", constant])
        elif isinstance(constant, np.dtype) and not constant.hasobject and constant.names is None:
            written.append(["dtype", constant.str])
        else:
            raise TypeError(f"a constant of type {type(constant).__name__}")
    return written


def _constant(kind: str, value: Any) -> Any:
    """Return the constant that `_constants` wrote as JSON."""
    return np.dtype(value) if kind == "dtype" else value


# The results of a kernel that is compiled for the types of its arguments, and kept with the type of its result.
_RESULTS = {str(result): result for result in (nb.none, nb.boolean, nb.int32, nb.int64, nb.float32, nb.float64)}


def _arguments(sig: Any) -> tuple[Any, ...]:
    """Return the types of the arguments of a signature, which may be a tuple of them."""
    return sig if isinstance(sig, tuple) else sig.args  # type: ignore[no-any-return]  # numba's signature has no types


def _packed(sig: Any, data: Any) -> bytes | None:
    """Return a compiled kernel as bytes; None if it holds Python objects, or has another type than `sig` asks for."""
    descriptor = data.fndesc
    environments = [data.environment, *data._find_referenced_environments()]
    if data.lifted or data.objectmode or data.reload_init:
        return None
    result = data.signature.return_type
    if str(result) not in _RESULTS if isinstance(sig, tuple) else sig.return_type != result:
        return None
    try:
        constants = [_constants(each) for each in environments]
    except TypeError:
        return None
    name, kind, (machine_code, intermediate_code) = data.library.serialize_using_object_code()
    header = {
        "library": [name, kind],
        "result": str(result),
        "sizes": [len(machine_code), len(intermediate_code)],
        "function": {field: getattr(descriptor, field) for field in _DESCRIPTION},
        "environments": [
            [each.globals.get("__name__"), written, each.env_name]
            for each, written in zip(environments, constants, strict=True)
        ],
    }
    return json.dumps(header).encode() + b"\n" + machine_code + intermediate_code


def _unpacked(stored: bytes, sig: Any, target_context: Any) -> Any:
    """Return the kernel that `_packed` made bytes of, with the types of `sig`; the bytes end with a checksum."""
    line, _, code = stored.partition(b"\n")
    header = json.loads(line)
    first, second = header["sizes"]
    if first + second + ADDED != len(code):
        raise ValueError(f"it claims {first + second} bytes of code, and has {len(code) - ADDED}")
    if isinstance(sig, tuple):
        sig = _RESULTS[header["result"]](*sig)
    descriptor = FunctionDescriptor.__new__(FunctionDescriptor)
    for field, value in header["function"].items():
        setattr(descriptor, field, tuple(value) if isinstance(value, list) else value)
    descriptor.modname = __name__  # numba imports this module
    descriptor.argtypes = tuple(sig.args)
    descriptor.restype = sig.return_type
    descriptor.typemap = descriptor.calltypes = descriptor.global_dict = None
    environment, *others = (
        _environment(module, [_constant(kind, value) for kind, value in written], name)
        for module, written, name in header["environments"]
    )
    library = (*header["library"], (code[:first], code[first : first + second]))
    return compiler.CompileResult._rebuild(
        target_context, library, descriptor, environment, sig, False, (), "", (), tuple(others)
    )


class ContentCache(_Cache):
    """The cache of one dispatcher, with numba's cache interface."""

    def __init__(self, name: str, digest: str) -> None:
        self._name = name
        self._digest = digest
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """Folder of the files; empty without a home folder, where nothing is cached."""
        try:
            return str(cache_folder())
        except FileNotFoundError:
            return ""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel for a signature, or None if it is missing or unreadable."""
        target_context.refresh()
        try:
            name, stored = self._stored(sig, target_context.codegen().magic_tuple())
            if stored is None:
                return None
            if why := why_damaged(stored, content=name):
                raise ValueError(why)
            return _unpacked(stored, sig, target_context)
        except Exception as error:  # a damaged or foreign file is a cache miss
            warn(f"compiled kernel {self._name} could not be read back ({error!r}); compiling", CacheWarning)
            return None

    def _stored(self, sig: Any, native: tuple[Any, ...]) -> tuple[str, bytes | None]:
        """Return name and bytes of the kernel from the cache folder, else of one that the wheel brought, else None."""
        with contextlib.suppress(FileNotFoundError):
            path = cache_folder() / self._file_name(sig, native)
            try:
                return path.name, read_trusted(path)
            except UntrustedFileError as error:
                warn(f"compiled kernels on disk are not used: {error}", CacheWarning)
        names: list[str] = []

        def file_name(processor: tuple[Any, ...]) -> str:
            names.append(self._file_name(sig, processor))
            return names[-1]

        brought = read_shipped(file_name, native)
        return (names[-1] if names else ""), brought

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the compiled kernel atomically; a full or read-only disk only loses the cache."""
        if data.library.has_dynamic_globals or any(not lifted.can_cache for lifted in data.lifted):
            return
        packed = _packed(sig, data)
        if packed is None:
            return
        with contextlib.suppress(OSError):
            path = cache_folder() / self._file_name(sig, data.codegen.magic_tuple())
            make_private(path.parent)
            with whole_file(path, durable=False, checksum=True, content=path.name, private=True) as temporary:
                temporary.write_bytes(packed)
            detail("compiled %s, kept in %s", self._name, path.parent)

    def _file_name(self, sig: Any, processor: tuple[Any, ...]) -> str:
        arguments = [spelled(argument) for argument in _arguments(sig)]
        of_any_result = ("of any result",) if isinstance(sig, tuple) else ()
        return f"{self._name}-{content_id(None, (self._digest, arguments, processor, *of_any_result))}.nbc"

    def enable(self) -> None:
        """Change nothing that is read: the cache is always on (numba calls this)."""
        self._enabled = True

    def disable(self) -> None:
        """Change nothing that is read: the cache cannot be turned off (numba calls this)."""
        self._enabled = False

    def flush(self) -> None:
        """Remove the files of all compiled functions of this name, whatever their content (numba calls this)."""
        for path in cache_folder().glob(f"{self._name}-*.nbc"):
            path.unlink(missing_ok=True)


def read_kept(name: str, content: str, asked: Any) -> Any:
    """Return the kernel on disk with this name, content and signature, or None; nothing is compiled.

    The kernel's Python function is a stub: the source is not needed again.
    """
    arguments = ", ".join(f"argument_{k}" for k in range(len(asked.args)))
    stub = eval(f"lambda {arguments}: None")
    stub.__name__ = name
    dispatcher = numba.njit(stub)
    install(dispatcher, content)
    with global_compiler_lock:
        overload = dispatcher._cache.load_overload(asked, dispatcher.targetctx)
    if overload is None:
        return None
    dispatcher.add_overload(overload)
    dispatcher._cache_hits[asked] += 1
    dispatcher.disable_compile()
    return dispatcher


def install(dispatcher: Any, content: str | None = None) -> None:
    """Let `dispatcher` load and store its code on disk, named by `content` or, without it, by a hash of all its parts.

    Do nothing if a part cannot be hashed, or is a user's helper with code that may be older than its source.
    """
    versions = (sys.version_info[:2], numba.__version__, importlib.metadata.version("llvmlite"), SYMBOLS)
    with contextlib.suppress(UnknownContentError, AttributeError):
        # "<lambda>" is not a valid file name everywhere, nor is a name of more than 255 bytes.
        name = re.sub(r"\W", "_", dispatcher.py_func.__name__, flags=re.ASCII)[:LETTERS]
        if content:
            digest = content_id(None, (content, versions))
        else:
            digest, helpers = content_and_helpers(dispatcher, versions)
            if any_stale(helpers):
                return
        _name_by_content(dispatcher, digest)
        dispatcher._cache = ContentCache(name, digest)


def _name_by_content(dispatcher: Any, digest: str) -> None:
    """Make `digest` a part of the names of the dispatcher's machine code.

    Numba numbers names by process, so two files, written by different processes, may hold different functions of one
    name. A process that reads both finds the code of a function pointer by this name, and would call one for the other.
    """
    function = dispatcher.py_func
    named = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    named.__module__ = function.__module__
    named.__qualname__ = f"{function.__qualname__}_{digest}"
    dispatcher.py_func = dispatcher._compiler.py_func = named
