"""Settings of one member of a role."""

import dataclasses
import functools
import json
import reprlib
import sys
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, ClassVar, Self, cast

import numpy as np

from approxmcmc.contracts.arguments import check_settings, settings_of, wrong_type
from approxmcmc.contracts.speaker import speaking
from approxmcmc.errors import WRONG_KIND, ApproxMCMCError, note_values


class Component:
    """Settings of one member of a role: validated when made, comparable, printable, convertible to a plain dict.

    Subclasses are frozen dataclasses made with ``eq=False``: arrays among the settings would break the generated
    comparison, so equality and hash go through :meth:`to_dict`.
    """

    _registry: ClassVar[dict[str, type["Component"]]] = {}
    _homes: ClassVar[dict[str, set[str]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        homes = _homes_of(cls)
        if not homes & Component._homes.setdefault(cls.__name__, homes):
            registered = Component._registry[cls.__name__]
            raise TypeError(
                f"{cls.__module__}.{cls.__qualname__}: another component has the same name, "
                f"{registered.__module__}.{registered.__qualname__}, and stored settings identify a component only "
                "by its class name; rename one of the two"
            )
        Component._registry[cls.__name__] = cls
        if "__post_init__" in cls.__dict__:
            cls.__post_init__ = _naming_the_settings(cls.__post_init__)  # type: ignore[method-assign, assignment]  # wrapped

    def __post_init__(self) -> None:
        """Check the types of the settings; a subclass checks their ranges."""
        check_settings(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready values, with the class name under ``"kind"``.

        Fields with ``compare=False`` are left out, such as the cost of finding the settings.
        """
        fields = [f for f in dataclasses.fields(self) if f.compare]  # type: ignore[arg-type]  # each is a dataclass
        return {"kind": type(self).__name__, **{f.name: _plain(getattr(self, f.name)) for f in fields}}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Component":
        """Return the component with the settings `values`, as :meth:`to_dict` returns them.

        The module of its class must have been imported.
        """
        settings = dict(values)
        kind = settings.pop("kind")
        return Component._registry[kind](**{name: _revive(value) for name, value in settings.items()})

    @classmethod
    def found_in(cls, settings: Any) -> Self | None:
        """Rebuild the first component of this class inside nested settings, in the form of :meth:`to_dict`.

        None if they hold no such component, or if this version cannot build it. The module of its class must have been
        imported.
        """
        if isinstance(settings, Mapping):
            if issubclass(Component._registry.get(settings.get("kind", ""), object), cls):
                try:
                    return cast("Self", Component.from_dict(settings))
                except (KeyError, TypeError, ValueError):
                    return None
            settings = list(settings.values())
        if not isinstance(settings, (list, tuple)):
            return None
        return next((component for item in settings if (component := cls.found_in(item)) is not None), None)

    def _repr_html_(self) -> str:
        """Show the settings in a notebook, with nested components inside."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # as above
        return html_table(type(self).__name__, {f.name: getattr(self, f.name) for f in fields if f.repr})

    def __eq__(self, other: object) -> bool:
        """Return whether another component has the same class and equal settings."""
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Return a hash, equal for equal components."""
        return hash(json.dumps(self.to_dict(), sort_keys=True))


def _homes_of(cls: type) -> set[str]:
    """Return the name and the file of the module of a class.

    A class defined again, in a notebook cell that runs twice or in a study loaded under two names, has the same
    module name or file as the first one, and replaces it.
    """
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return {cls.__module__} if file is None else {cls.__module__, str(file)}


def _naming_the_settings(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap a check of settings: the types are checked too, and every error names the component and its settings.

    If the component's own check raises an error that names the setting of a wrong type, this error is kept, because it
    states the allowed range. The check may convert settings, so their types are checked first.
    """

    @functools.wraps(check)
    def checked(self: Any) -> None:
        settings = settings_of(self)
        setting_of_wrong_type = wrong_type(self)
        try:
            with speaking(type(self).__name__):
                check(self)
        except Exception as error:
            if setting_of_wrong_type is not None:
                name, type_error = setting_of_wrong_type
                if not (isinstance(error, ApproxMCMCError) and name in str(error)):
                    raise type_error from None
            if isinstance(error, WRONG_KIND) and not str(error).startswith(type(self).__name__):
                note_values(error, type(self).__name__, settings, "a setting")
            raise
        if setting_of_wrong_type is not None:
            _, type_error = setting_of_wrong_type
            raise type_error

    return checked


def _plain(value: Any) -> Any:
    if isinstance(value, Component):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _revive(value: Any) -> Any:
    if isinstance(value, Mapping) and "kind" in value:
        return Component.from_dict(value)
    if isinstance(value, Mapping) and "array" in value:
        return np.asarray(value["array"], dtype=np.float64)
    if isinstance(value, list):
        return tuple(_revive(item) for item in value)
    return value


_SHORT = reprlib.Repr(maxstring=60, maxother=120, maxlist=8, maxtuple=8)


class Plain(str):
    """Text shown in a table without quotes, in full."""

    __slots__ = ()


def html_table(title: str, rows: Mapping[str, Any]) -> str:
    """Return HTML for a table with the caption `title` and a row for each name and value in `rows`.

    A value with a method ``_repr_html_`` is inserted as HTML, all others as text.

    Examples
    --------
    >>> html_table("RandomWalk", {"scale": 0.1}).count("<tr>")
    1
    """
    cells = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td style="text-align: left">{_cell(value)}</td></tr>'
        for name, value in rows.items()
    )
    caption = f'<caption style="text-align: left; font-weight: bold">{escape(title)}</caption>'
    return f"<table>{caption}<tbody>{cells}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, Plain):
        return escape(value)
    shows_itself = getattr(value, "_repr_html_", None)
    return str(shows_itself()) if shows_itself is not None else escape(_SHORT.repr(value))
