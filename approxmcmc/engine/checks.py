"""Check settings, write numbers for messages, and read arguments that are arrays or a normal approximation."""

import difflib
import reprlib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import InvalidInputError


def is_integer(value: Any, *, whole_floats: bool = False) -> bool:
    """Return whether a value is an int of Python or NumPy, not a bool; with `whole_floats` a float like 5.0 counts."""
    if isinstance(value, (float, np.floating)):
        return whole_floats and value % 1 == 0
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def checked_integer(value: Any, name: str, least: int = 1, *, needed: str = "", whole_floats: bool = False) -> int:
    """Return `value` as an int; it must be an integer of at least `least`; with `whole_floats` it may be like 5.0.

    Raises
    ------
    InvalidInputError
        When `value` is not such an integer. The message begins with the speaker and says that
        `name` must be `needed`, by default "an integer >= `least`".
    """
    if not (is_integer(value, whole_floats=whole_floats) and value >= least):
        owner = f"{speaker()}: " if speaker() else ""
        raise InvalidInputError(f"{owner}{name} must be {needed or f'an integer >= {least}'}, found {value!r}")
    return int(value)


def of_another_type(values: Mapping[str, Any], fields: type) -> list[str]:
    """Return a sentence for each value read from JSON whose type is not that of its field; missing fields are skipped.

    `fields` is a NamedTuple, TypedDict or dataclass. JSON has null for a float that is not finite, integers for some
    floats, lists for tuples and sequences, and objects for mappings.

    Examples
    --------
    >>> class Point(typing.TypedDict):
    ...     x: float
    ...     name: str | None
    >>> of_another_type({"x": 1, "name": 2}, Point)
    ['name must be str | None, found 2']
    """
    hints = typing.get_type_hints(fields)
    return [
        f"{name} must be {getattr(hint, '__name__', hint)}, found {reprlib.repr(values[name])}"
        for name, hint in hints.items()
        if name in values and not _is_json_of(values[name], hint)
    ]


def _is_json_of(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kinds: set[type] = set()
    for option in options:
        kind = typing.get_origin(option) or option
        kinds |= {float, int, types.NoneType} if kind is float else {list, tuple, dict} & _containers_of(kind) or {kind}
    return isinstance(value, tuple(kinds)) and (bool in kinds or not isinstance(value, bool))


def _containers_of(kind: type) -> set[type]:
    """Return the containers of JSON that stand for a field of this type."""
    if issubclass(kind, Mapping):
        return {dict}
    return {list, tuple} if issubclass(kind, Sequence) and kind is not str else set()


def show(theta: np.ndarray) -> str:
    """Return a parameter vector as text for messages."""
    return np.array2string(theta, precision=6, threshold=20)


def differences_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a line for each setting that differs, ``name: old -> new``; nested names are joined by dots."""
    before = dict(_flat(old))
    after = dict(_flat(new))
    lines = []
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            lines.append(f"{name}: {before[name]} -> nothing")
        elif name not in before:
            lines.append(f"{name}: nothing -> {after[name]}")
        elif before[name] != after[name]:
            lines.append(f"{name}: {before[name]} -> {after[name]}")
    return lines


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def mode_of(approximation: Any) -> np.ndarray:
    """Return ``approximation.mode``, or `approximation` itself if it has no such attribute, as a float64 copy."""
    return _copy(approximation, "mode")


def cov_of(approximation: Any) -> np.ndarray:
    """Return ``approximation.cov``, or `approximation` itself if it has no such attribute, as a float64 copy."""
    return _copy(approximation, "cov")


def is_approximation(value: Any) -> bool:
    """Return whether `value` is a normal approximation: an object with attributes `mode` and `cov`."""
    return _holds(value, "mode") and _holds(value, "cov")


def _copy(approximation: Any, name: str) -> np.ndarray:
    return np.array(getattr(approximation, name) if _holds(approximation, name) else approximation, dtype=np.float64)


def _holds(value: Any, name: str) -> bool:
    return hasattr(value, name) and not callable(getattr(value, name))  # a DataFrame has methods of these names


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown `name`: `name`, the most similar of the valid `names`, and all."""
    choices = list(names)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    guess = f"; did you mean {close[0]!r}?" if close else "."
    return f"{name!r}{guess} (There {'is' if len(choices) == 1 else 'are'}: {', '.join(choices) or 'none'}.)"
