"""The content of a function: a hash of its byte code, its constants and everything that it reads, at any depth.

Numba's own disk cache checks one file's time stamp. It serves stale code if a callee in another file changes. The hash
below follows every value that a function reads: globals, closures, defaults, attributes of modules and classes; in
jitted and plain functions, in functions defined inside others, in classes, and in numba's overloads. So an edit
anywhere below a kernel gives a new hash, and undoing it restores the old one. A value that cannot be hashed is an
error, and the kernel is not kept on disk.

Each piece of the hash starts with its kind and its length, so that no two structures give the same bytes.
"""

import collections
import dataclasses
import enum
import functools
import hashlib
import importlib.util
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
from numba import types as nb
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.typing.templates import builtin_registry
from numba.experimental.jitclass.base import JitClassType
from numba.experimental.structref import StructRefProxy
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from approxmcmc.contracts import Target, speaker
from approxmcmc.engine.compiler.libraries import Libraries, counted_by_name
from approxmcmc.engine.compiler.reads import Import, Path, reads_of
from approxmcmc.engine.compiler.type_names import spelled
from approxmcmc.errors import CompilationError

_PACKAGE = __name__.partition(".")[0]
# The content of each of the user's helpers when it was first seen; "" if it was compiled before.
_CONTENT_WHEN_COMPILED: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

_BY_TEXT = frozenset({int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented), range})
_ARRAYS = (np.ndarray, np.memmap, np.recarray)  # no other subclasses: a masked array has more than its values
_CONTAINERS = (tuple, list, dict, set, frozenset, np.generic, np.ndarray)
_HEAP_TYPE = 1 << 9  # Python's flag of classes that are not static in C
_MISSING = object()
OVERLOADS = 0  # stands for numba's overloads where a module has its id, which is never 0
# Functions that read variables by a name computed at run time: `_OF_MODULES` only if they get a module.
_BY_COMPUTED_NAMES = (eval, exec, globals, compile, __import__, importlib.import_module)
_OF_MODULES = (getattr, vars)
# Attributes of a class that do not change what its functions do, or that its other attributes follow from.
_OF_EVERY_NAMED_TUPLE = frozenset(vars(collections.namedtuple("_Empty", ()))) - {"_fields", "_field_defaults"}
_OF_EVERY_CLASS = frozenset(
    (
        *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "_abc_impl"),
        "__slotnames__",  # written by pickle
        *("__static_attributes__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        *("__orig_bases__", "__parameters__", "__type_params__", "__dataclass_fields__", "__dataclass_params__"),
    )
)
_DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    type(collections.namedtuple("_One", "field").field),  # type: ignore[attr-defined]  # mypy knows no such class
)


class UnknownContentError(CompilationError):
    """A function refers to an object with unknown content, so it must not be cached on disk.

    `reference` says which code refers to which object.
    """

    reference: str = ""


def content_id(function: Any, extra: Any = None, *, libraries: Libraries = counted_by_name) -> str:
    """Return a hash of `function` and everything it refers to, with `extra` (a plain value) mixed in.

    ``libraries(package)`` is the version by which the functions of a package count, None for a package whose functions
    are read: see `approxmcmc.engine.compiler.libraries`.

    Raises
    ------
    UnknownContentError
        When the function refers to an object whose changes cannot be detected: neither code, number, string, array,
        class, module nor a container of these.
    """
    return content_and_helpers(function, extra, libraries=libraries)[0]


def content_and_helpers(
    function: Any, extra: Any = None, *, libraries: Libraries = counted_by_name
) -> tuple[str, list["Helper"]]:
    """Return the hash as `content_id` does, and the user's numba-compiled functions among what it covers."""
    walk = Walk(libraries)
    try:
        walk.add(function)
        walk.finish()
    except RecursionError as error:
        raise UnknownContentError("a compiled function refers to objects nested too deeply to be read") from error
    walk.put("extra", repr(extra))
    return walk.digest.hexdigest(), walk.helpers


def known_content(target: Target) -> str:
    """Return `content_hash()` of a target, "" if it has a function with unknown content.

    For records, and for checks that the target is the recorded one. Whatever is found again by the hash, such as a
    checkpoint, a gold standard or a cell of a study, calls `content_hash`, which raises.
    """
    try:
        return target.content_hash()
    except UnknownContentError:
        return ""


def cached_by_content(maxsize: int) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like `functools.lru_cache`, for functions that make kernels from a user's functions.

    Compiled code keeps the values of the globals and closures that it read. Here a function counts as another one if
    such a value has changed, whereas `functools.lru_cache` would return the code made with the old value.
    """

    def decorate(make: Callable[..., Any]) -> Any:
        @functools.lru_cache(maxsize=maxsize)
        def remembered(contents: Any, *arguments: Any) -> Any:
            return make(*arguments)

        @functools.wraps(make)
        def cached(*arguments: Any) -> Any:
            return remembered(_contents(arguments), *arguments)

        cached.cache_clear = remembered.cache_clear  # type: ignore[attr-defined]  # as lru_cache has it
        return cached

    return decorate


class Helper:
    """A numba-compiled function of the user, or an overload: `place` identifies it, `is_compiled` before this walk.

    Its code keeps the globals of its first compilation, even if they have changed.
    """

    def __init__(self, place: Any, content: Any, is_compiled: bool) -> None:
        self.place = place
        self.content = content
        self.is_compiled = is_compiled

    def is_stale(self) -> bool:
        """Return whether its code may be older than its source.

        It is not if it was not yet compiled when first seen, and has had the same content since.
        """
        try:
            content = content_id(self.content)
        except UnknownContentError:
            return True
        return bool(_CONTENT_WHEN_COMPILED.setdefault(self.place, "" if self.is_compiled else content) != content)


def any_stale(helpers: Iterable[Helper]) -> bool:
    """Return whether the code of any helper may be older than its source; each is recorded as seen."""
    stale = [helper.is_stale() for helper in helpers]  # a list, because every helper must be recorded
    return any(stale)


def record_helpers(function: Any) -> None:
    """Record the content of the helpers that `function` calls, before anything compiles them."""
    try:
        any_stale(content_and_helpers(function)[1])
    except UnknownContentError:
        return  # a function that is never kept on disk


def _contents(value: Any) -> Any:
    """Return hashes of the user's functions in an argument, in the structure of tuples and dataclasses that holds them.

    None stands for everything else, functions of this package included, because these never change. A function that
    cannot be hashed gives a new object, which equals nothing, so it is compiled again.
    """
    if isinstance(value, tuple):
        return tuple(_contents(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(_contents(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, types.FunctionType) and not _is_ours(value):
        try:
            return content_id(value)
        except UnknownContentError:
            return object()
    return None


def _is_ours(function: Any) -> bool:
    """Return whether a function or a class belongs to this package."""
    return (function.__module__ or "").partition(".")[0] == _PACKAGE


class Walk:
    """One walk through a function and all that it reads: `digest` is the hash so far."""

    def __init__(self, libraries: Libraries) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self.helpers: list[Helper] = []
        self._libraries = libraries
        self._met: dict[int, tuple[int, Any]] = {}  # number and object, by its id; the object must stay alive
        self._names: set[str] = set()  # of all attributes that code of this walk may read
        self._modules: list[types.ModuleType] = []  # the user's, passed on as values: any function may read them
        self._computes_names = False
        self._reading: list[str] = []  # names of functions, classes and variables on the way, for messages

    def put(self, *pieces: str | bytes) -> None:
        """Add pieces to the hash, each with its length."""
        for piece in pieces:
            data = piece.encode() if isinstance(piece, str) else piece
            self.digest.update(b"%d:%b" % (len(data), data))

    def _enter(self, name: str) -> None:
        """Begin to read a function, a class or a variable of this name."""
        self._reading.append(name)

    def _leave(self) -> None:
        self._reading.pop()

    def finish(self) -> None:
        """Add what code reads by attribute: of modules that are passed on, and of values whose types are overloaded.

        Every such attribute counts whose name occurs in the code; its value may contain further names.
        """
        added: set[tuple[int, str]] = set()
        while True:
            owners = [(id(module), vars(module)) for module in self._modules]
            owners.append((OVERLOADS, _overloads(*_size_of_registry()).of_attributes))
            further = [
                (key, name, values[name])
                for key, values in owners
                for name in sorted(self._names & values.keys())
                if (key, name) not in added
            ]
            if not further:
                break
            for key, name, value in further:
                added.add((key, name))
                if key == OVERLOADS and not self._of_the_user(value):
                    continue
                self.put("attribute", name)
                if key == OVERLOADS:
                    self._add_overloads(value)
                else:
                    self._add_named(name, value)
        if self._modules and self._computes_names:
            self._refuse(self._modules[0], "a module that getattr or vars may read; write the attribute's name")

    def add(self, value: Any) -> None:
        """Add the content of a value; of an object met before, only its number.

        The number separates f(x) + g(x) + f(x) from f(x) + g(x) + g(x).
        """
        kind = type(value)
        if kind in _BY_TEXT:
            self.put(kind.__name__, repr(value))
        elif isinstance(value, tuple):
            self._add_tuple(value)
        elif isinstance(value, (np.generic, np.ndarray)):
            self._add_array(value)
        elif isinstance(value, np.dtype):
            self.put("dtype", repr(value))
        elif kind in (set, frozenset):
            self.put(kind.__name__, *sorted(content_id(item, libraries=self._libraries) for item in value))
        elif id(value) in self._met:
            self.put("met before", str(self._met[id(value)][0]))
        else:
            self._met[id(value)] = len(self._met), value
            self._add_object(value)

    def _add_object(self, value: Any) -> None:
        if any(value is function for function in _BY_COMPUTED_NAMES):
            self._refuse(value, "which reads variables by computed names")
        self._computes_names |= any(value is function for function in _OF_MODULES)
        parts = _PARTS.get(type(value))
        add = next((add for kinds, add in _WAYS if isinstance(value, kinds)), None)
        if parts is not None:
            self._add_parts(type(value).__qualname__, *parts(value))
        elif add is not None:
            add(self, value)
        elif type(value) in _DESCRIPTORS:
            self.put("descriptor", type(value).__qualname__)
        else:
            self._add_builtin(value)

    def _add_builtin(self, value: Any) -> None:
        """Add a function of a library written in C, or a method bound to an object."""
        name = self._name_in_library(value)
        if name is not None:
            self.put("of a library", name)
            self._add_overloads_of(value)
        elif isinstance(value, types.MethodType):
            self._add_parts("method", value.__func__, value.__self__)
        elif isinstance(value, types.BuiltinFunctionType):
            self._add_parts("builtin method", value.__name__, value.__self__)
        else:
            self._add_other(value)

    def _add_other(self, value: Any) -> None:
        """Add an object of any other type: kernels cannot use it."""
        self._refuse(value)

    def _add_parts(self, kind: str, *parts: Any) -> None:
        self.put(kind, str(len(parts)))
        for part in parts:
            self.add(part)

    def _add_tuple(self, value: tuple[Any, ...]) -> None:
        if type(value) is not tuple:
            if not hasattr(value, "_fields"):
                self._refuse(value)
            self.add(type(value))
        self._add_parts("tuple", *value)

    def _add_array(self, value: Any) -> None:
        if value.dtype.hasobject or not (isinstance(value, np.generic) or type(value) in _ARRAYS):
            self._refuse(value)
        order = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        self.put("array", repr(value.dtype), str(value.shape), order, np.ascontiguousarray(value).tobytes())

    def _add_function(self, function: types.FunctionType) -> None:
        home = function.__globals__.get("__name__") or ""
        # Functions of `speaker` choose the first words of messages, by a variable that no result depends on.
        library = "" if home == speaker.__name__ else self._libraries(home.partition(".")[0])
        self._enter(function.__qualname__)
        if library is not None:
            self.put("function of a library", library, home, function.__code__.co_qualname)
            if self._name_in_library(function) is None:  # made by the library around something of the user
                self._add_parts("closure", *_closure(function).values())
        else:
            self.put("function")
            self._add_code(function.__code__, function, _closure(function))
            self._add_parts("defaults", function.__defaults__, function.__kwdefaults__)
            # `functools.wraps` copies both from another function; neither changes what a call returns.
            copied = ("__wrapped__", "__signature__")
            attributes = {name: value for name, value in vars(function).items() if name not in copied}
            self._add_parts("attributes", *(part for item in attributes.items() for part in item))
        self._add_overloads_of(function)
        self._leave()

    def _add_code(self, code: types.CodeType, function: types.FunctionType, closure: Mapping[str, Any]) -> None:
        reads = reads_of(code)
        arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
        self.put("code", code.co_code, code.co_exceptiontable, repr(arguments), repr(names))
        self._names.update(code.co_names)
        self.put(str(len(reads.constants)))
        for constant in reads.constants:
            if isinstance(constant, types.CodeType):
                self._add_code(constant, function, closure)
            else:
                self.add(constant)
        for path in reads.paths:
            self._add_path(path, function, closure)
        for statement in reads.imports:
            self._add_import(statement, function)

    def _add_path(self, path: Path, function: types.FunctionType, closure: Mapping[str, Any]) -> None:
        if path.is_cell:
            value = closure.get(path.name, _MISSING)  # a variable of an outer function whose call makes it: no value
        else:
            value = function.__globals__.get(path.name, _MISSING)
            if value is _MISSING:
                value = function.__builtins__.get(path.name, _MISSING)  # type: ignore[attr-defined]  # typeshed lacks it
        attributes = list(path.attributes)
        self.put("path", path.name, *attributes)
        name = path.name
        while isinstance(value, types.ModuleType) and attributes:
            module = value
            attribute = attributes.pop(0)
            name = f"{name}.{attribute}"
            value = getattr(module, attribute, _MISSING)
            library = self._libraries(module.__name__.partition(".")[0])
            if library is not None and not _is_plain(value) and self._belongs_to_library(value):
                self.put("of a library", library, module.__name__, attribute)
                if not isinstance(value, types.ModuleType):
                    self._add_overloads_of(value)
                    return
        self._add_named(name, value)

    def _add_named(self, name: str, value: Any) -> None:
        """Add the value of a variable, called `name` in messages; a variable without a value counts as such."""
        if value is _MISSING:
            self.put("no value")
            return
        self._enter(name)
        self.add(value)
        self._leave()

    def _add_import(self, statement: Import, function: types.FunctionType) -> None:
        package = function.__globals__.get("__package__") or ""
        dots = "." * statement.level
        name = importlib.util.resolve_name(dots + statement.module, package) if dots else statement.module
        library = self._libraries(name.partition(".")[0])
        self.put("import", name, *statement.names)
        if library is not None:
            self.put("of a library", library)
            return
        module = self._imported(name)
        if not statement.names:
            self.add(sys.modules.get(name.partition(".")[0], module))
            self.add(module)
        for attribute in statement.names:
            submodule = sys.modules.get(f"{name}.{attribute}", _MISSING)
            self._add_named(f"{name}.{attribute}", getattr(module, attribute, submodule))

    def _imported(self, name: str) -> types.ModuleType:
        """Return a module of the user that code imports when it runs."""
        module = sys.modules.get(name)
        if module is None:
            self._refuse(name, f"the import of {name}, which is not imported yet; import it at the top of the file")
        return module

    def _add_member(self, member: enum.Enum) -> None:
        self._add_parts("member", type(member), member.name, member.value)

    def _add_module(self, module: types.ModuleType) -> None:
        library = self._libraries(module.__name__.partition(".")[0])
        self.put("module", module.__name__, library or "")
        if library is None:
            if "__getattr__" in vars(module):
                self._refuse(module, "a module that computes its attributes; write the attribute's name")
            self._modules.append(module)

    def _add_jitted(self, function: Any) -> None:
        signatures = [] if function._can_compile else [spelled(nb.Tuple(each)) for each in function.overloads]
        self._add_parts(
            "jitted", _ordered(function.targetoptions), _ordered(function.locals), signatures, function.py_func
        )
        if not _is_ours(function.py_func):
            self.helpers.append(Helper(function, function, bool(function.overloads)))

    def _add_numba_ufunc(self, function: Any) -> None:
        if isinstance(function, GUFunc):
            builder = function.gufunc_builder
            self._add_parts("gufunc", builder.py_func, builder.signature, _ordered(builder.targetoptions))
            self.helpers.append(Helper(function, builder.py_func, is_compiled=True))
        else:
            dispatcher = function._dispatcher
            signatures = [str(each) for each in dispatcher.overloads] if function._frozen else []
            options = _ordered(dispatcher.targetoptions)
            self._add_parts("ufunc", dispatcher.py_func, options, signatures, repr(function.identity))
            self.helpers.append(Helper(dispatcher, dispatcher.py_func, bool(dispatcher.overloads)))

    def _add_numba_type(self, value: Any) -> None:
        if isinstance(value, (nb.ClassInstanceType, nb.ClassType)):
            class_type = getattr(value, "class_type", value)
            self.put("numba type", type(value).__name__)
            self._add_jitclass(class_type)
        elif isinstance(value, nb.DeferredType):
            self._refuse(value)
        else:
            self.put("numba type", type(value).__name__, spelled(value))

    def _add_jitclass(self, class_type: Any) -> None:
        self._add_parts(
            "jitclass",
            class_type.class_name,
            dict(class_type.struct),
            dict(class_type.jit_methods),
            dict(class_type.jit_props),
            dict(class_type.jit_static_methods),
        )

    def _add_class(self, value: Any) -> None:
        self.put("class", self._home_of(value), value.__qualname__)
        self._add_overloads_of(value)
        if isinstance(value, JitClassType):
            self._add_jitclass(value.class_type)
            return
        if not value.__flags__ & _HEAP_TYPE or (name := self._name_in_library(value)) is not None:
            self.put("of a library", "" if not value.__flags__ & _HEAP_TYPE else str(name))
            return
        if _is_ours(value) and not issubclass(value, (tuple, enum.Enum)):
            return  # kernels read no other classes, and a target's class, which a method names by super(), is large
        if issubclass(value, StructRefProxy):
            self._refuse(value, "a structref, whose type is not part of it")
        left_out = _OF_EVERY_CLASS
        if "_fields" in vars(value) and issubclass(value, tuple):
            left_out |= _OF_EVERY_NAMED_TUPLE
        attributes = vars(value)
        if isinstance(value, enum.EnumType):
            self._add_parts("members", *((name, value[name].value) for name in value.__members__))
            attributes = {name: each for name, each in attributes.items() if _is_written_in_enum(name, value)}
        self._enter(value.__qualname__)
        self._add_parts("bases", type(value), *value.__bases__)
        for name, attribute in attributes.items():
            if name not in left_out:
                self.put("attribute", name)
                self._add_named(name, attribute)
        self._leave()

    def _home_of(self, kind: type) -> str:
        """Return the module by which a stored kernel finds a class again."""
        return kind.__module__ or ""

    def _add_overloads_of(self, function: Any) -> None:
        self._add_overloads(_overloads(*_size_of_registry()).of_functions.get(id(function), ()))

    def _of_the_user(self, templates: Iterable[Any]) -> list[Any]:
        """Return the overloads of packages that are read.

        Those of a library follow from its version. Without this, the import of a library that declares some, such as
        PyTensor's numba code, would change the content of every function that NumPy is called in.
        """
        return [template for template in templates if self._libraries(_home(template).partition(".")[0]) is None]

    def _add_overloads(self, templates: Iterable[Any]) -> None:
        """Add the user's numba overloads of a function or a method."""
        for template in self._of_the_user(templates):
            function = getattr(template, "_overload_func", None)
            if function is None:
                self._refuse(template, "a function with types declared by numba's lower-level interface")
            package = (function.__globals__.get("__name__") or "").partition(".")[0]
            typed = str(template.key) if hasattr(template, "_attr") else ""  # the type that has the attribute
            self.put("overload", typed, str(getattr(template, "_inline", "")))
            self._add_parts("options", _ordered(getattr(template, "_jit_options", {})))
            self.add(function)
            if package != _PACKAGE:
                self.helpers.append(Helper(function, function, bool(getattr(template, "_impl_cache", True))))

    def _belongs_to_library(self, value: Any) -> bool:
        """Return whether a value found in a library is the library's, not a function that the user put there."""
        if isinstance(value, types.ModuleType):
            return self._libraries(value.__name__.partition(".")[0]) is not None
        if isinstance(value, Dispatcher):
            value = value.py_func
        if isinstance(value, types.FunctionType):
            return self._libraries((value.__globals__.get("__name__") or "").partition(".")[0]) is not None
        home = getattr(value if isinstance(value, type) else type(value), "__module__", None)
        return self._libraries((home or "").partition(".")[0]) is not None

    def _name_in_library(self, value: Any) -> str | None:
        """Return name and version of an object that a library has under its own name, None for any other."""
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        homes = [getattr(value, "__module__", None)]
        if isinstance(value, np.ufunc):  # have no module
            homes = ["numpy", "scipy.special"]
        for home in filter(None, homes):
            library = self._libraries(str(home).partition(".")[0])
            member: Any = sys.modules.get(str(home)) if isinstance(name, str) and library is not None else None
            for part in str(name).split("."):
                member = getattr(member, part, None)
            if member is not None and (member is value or (isinstance(value, types.MethodType) and member == value)):
                return f"{home}.{name} {library}"
        return None

    def _refuse(self, value: Any, reason: str = "") -> NoReturn:
        kind = type(value)
        what = reason or f"an object of type {kind.__module__}.{kind.__qualname__}, whose changes cannot be detected"
        where = ": ".join(self._reading) or "a compiled function"
        error = UnknownContentError(
            f"{where} refers to {what}; refer to numbers and arrays, or pass data through the data argument"
        )
        error.reference = f"{where} refers to {what}"
        raise error


# What the objects of some types consist of.
_PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: iter,
    dict: lambda value: itertools.chain.from_iterable(value.items()),
    types.MappingProxyType: lambda value: itertools.chain.from_iterable(value.items()),
    functools.partial: lambda value: (value.func, value.args, value.keywords),
    functools.cached_property: lambda value: (value.func,),
    functools._lru_cache_wrapper: lambda value: (value.__wrapped__,),
    staticmethod: lambda value: (value.__func__,),
    classmethod: lambda value: (value.__func__,),
    property: lambda value: (value.fget, value.fset, value.fdel),
    _Intrinsic: lambda value: (value._defn,),
}
# How other objects are added.
_WAYS: tuple[tuple[Any, Callable[[Walk, Any], None]], ...] = (
    (types.FunctionType, Walk._add_function),
    (Dispatcher, Walk._add_jitted),
    (type, Walk._add_class),
    (types.ModuleType, Walk._add_module),
    (enum.Enum, Walk._add_member),
    (nb.Type, Walk._add_numba_type),
    ((DUFunc, GUFunc), Walk._add_numba_ufunc),
)


class _Overloads:
    """The user's numba overloads: templates by the id of the function, and by the name of the attribute or method."""

    def __init__(self) -> None:
        self.of_functions: dict[int, list[Any]] = {}
        self.of_attributes: dict[str, list[Any]] = {}
        for function, numba_type in builtin_registry.globals:
            for template in getattr(numba_type, "templates", ()):
                if not _is_numbas(template):
                    self.of_functions.setdefault(id(function), []).append(template)
        for template in builtin_registry.attributes:
            if hasattr(template, "_overload_func") and not _is_numbas(template):
                self.of_attributes.setdefault(template._attr, []).append(template)


def _size_of_registry() -> tuple[int, int]:
    """Return a key of numba's overloads, which only grow in number."""
    return len(builtin_registry.globals), len(builtin_registry.attributes)


@functools.lru_cache(maxsize=1)
def _overloads(n_functions: int, n_attributes: int) -> _Overloads:
    return _Overloads()


def _home(template: Any) -> str:
    """Return the module in which an overload is written; "" for code that `exec` runs."""
    function = getattr(template, "_overload_func", None)
    home = template.__module__ if function is None else function.__globals__.get("__name__")
    return home or ""


def _is_numbas(template: Any) -> bool:
    return _home(template).partition(".")[0] == "numba"


def _closure(function: types.FunctionType) -> dict[str, Any]:
    """Return the values of the closure's variables by name; a variable without a value is missing."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    return values


def _is_plain(value: Any) -> bool:
    return value is _MISSING or type(value) in _BY_TEXT or isinstance(value, _CONTAINERS)


def _is_written_in_enum(name: str, kind: Any) -> bool:
    """Return whether a function among the attributes of an enumeration was written in its class."""
    value = vars(kind)[name]
    if name in kind.__members__ or name.startswith("_"):
        return False
    return isinstance(value, (types.FunctionType, staticmethod, classmethod, property))


def _ordered(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))
