"""Arguments of public functions and settings of components: a value whose type does not fit its annotation raises.

Without this check a wrong value is often accepted and ignored: ``progressbar="no"`` would show a bar, ``thin=1.5`` be
used as 1 in one place and as 2 in another, and NumPy would drop imaginary parts. The check reads the annotations, so a
function needs only the decorator, a component nothing. Ranges, arrays and members of roles are checked by the function
itself.
"""

import contextlib
import dataclasses
import functools
import inspect
import numbers
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from approxmcmc.contracts.speaker import speaking
from approxmcmc.errors import WRONG_KIND, ApproxMCMCError, InvalidInputError, note_memory, note_values


def is_flag(value: Any) -> bool:
    """Return whether a value is True or False, of Python or NumPy."""
    return isinstance(value, (bool, np.bool_))


def is_number(value: Any) -> bool:
    """Return whether a value is one real number: of Python, NumPy, or an array without axes; no bool and no text."""
    if isinstance(value, numbers.Real):
        return not is_flag(value)
    return getattr(value, "ndim", None) == 0 and np.asarray(value).dtype.kind in "iuf"


def is_whole_number(value: Any) -> bool:
    """Return whether a value is one integer, or a float such as 5.0; whether floats will do, the function decides."""
    return is_number(value) and (isinstance(value, numbers.Integral) or float(value) % 1.0 == 0.0)


RULES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (is_flag, "True or False"),
    int: (is_whole_number, "an integer"),
    float: (is_number, "a number"),
    str: (lambda value: isinstance(value, str), "a text"),
    types.NoneType: (lambda value: value is None, "None"),
}


# Rules of annotations with parameters, such as ``Mapping[str, float]``, which say nothing of what the value holds.
RULES_OF_ORIGINS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    Mapping: (lambda value: isinstance(value, Mapping), "a mapping, such as a dict"),
    Callable: (callable, "a function"),
}

# What messages say of arguments that mean the same in every function: range and content too, not only the type.
RANGES = {
    "estimands": "a dict of name -> function of the posterior Dataset, or None",
    "prior_scale": "positive, one number for all parameters",
    "runs": "a dict of name -> trace or traces",
    "target_ess": "a positive number, or None",
    "time_limit": "positive seconds, or None",
}


def rules_of(annotation: Any) -> list[tuple[Callable[[Any], bool], str]]:
    """Return the rules of an annotation, of which a value must satisfy one; none if it allows other types too."""
    if get_origin(annotation) in (Union, types.UnionType):
        members = [rules_of(member) for member in get_args(annotation)]
        return [rule for rules in members for rule in rules] if all(members) else []
    if get_origin(annotation) in RULES_OF_ORIGINS:
        return [RULES_OF_ORIGINS[get_origin(annotation)]]
    if get_origin(annotation) is Literal:
        allowed = get_args(annotation)
        return [(lambda value: any(value is each or value == each for each in allowed), f"one of {allowed}")]
    return [RULES[annotation]] if isinstance(annotation, type) and annotation in RULES else []


def is_complex(value: Any) -> bool:
    """Return whether a value has imaginary parts, which no argument of the package takes."""
    return isinstance(value, (complex, np.complexfloating)) or getattr(getattr(value, "dtype", None), "kind", "") == "c"


def check_argument(owner: str, name: str, value: Any, annotation: Any) -> None:
    """Raise an InvalidInputError that names the argument, the value, and what is allowed, if its type does not fit."""
    if is_complex(value):
        raise InvalidInputError(f"{owner}: {name} must be real, found complex numbers, {value!r}")
    rules = rules_of(annotation)
    if rules and not any(fits(value) for fits, _ in rules):
        kinds = list(dict.fromkeys(text for fits, text in rules if not fits(None)))
        # A range is said of one kind of value: `prior_scale` of some targets is a mapping, too.
        of_one_kind = RANGES.get(name) if len(kinds) == 1 else None
        needed = of_one_kind or " or ".join(dict.fromkeys(text for _, text in rules))
        raise InvalidInputError(f"{owner}: {name} must be {needed}, found {value!r}")


def settings_of(component: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name."""
    return {field.name: getattr(component, field.name) for field in dataclasses.fields(component)}


def wrong_type(component: Any) -> tuple[str, InvalidInputError] | None:
    """Return the name of the first setting of a dataclass whose type does not fit, and its error; None if all fit."""
    owner = type(component).__name__
    settings = settings_of(component)
    for field in dataclasses.fields(component):
        try:
            check_argument(owner, field.name, settings[field.name], field.type)
        except InvalidInputError as error:
            note_values(error, owner, settings, "a setting")
            return field.name, error
    return None


def check_settings(component: Any) -> None:
    """Raise an InvalidInputError if a field of a dataclass has a value whose type does not fit."""
    if wrong := wrong_type(component):
        raise wrong[1]


@contextlib.contextmanager
def about(argument: str) -> Iterator[None]:
    """Put the name of an argument before errors of the package that lack it: one reader serves many functions."""
    try:
        yield
    except ApproxMCMCError as error:
        if f"`{argument}`" not in str(error):
            error.args = (f"`{argument}`: {error}",)
        raise


def naming_the_arguments[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that arguments of the wrong type raise, and errors of NumPy get a note with the arguments.

    The messages of its checks begin with its name, see `speaker`. A constructor speaks in the name of the class that is
    made, also if it is inherited.
    """
    signature = inspect.signature(function)
    names = tuple(signature.parameters)
    of_class = function.__name__ in ("__init__", "__new__")
    defined_in = function.__qualname__.rpartition(".")[0] if of_class else function.__name__
    annotations = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }

    def owner_of(args: tuple[Any, ...]) -> str:
        is_method = of_class and args and not isinstance(args[0], type)
        return type(args[0]).__name__ if is_method else defined_in

    def check(owner: str, arguments: Mapping[str, Any]) -> None:
        for name, value in arguments.items():  # in this order: of two wrong arguments the first is named
            if name not in annotations:
                continue
            if value is not signature.parameters[name].default:
                check_argument(owner, name, value, annotations[name])

    @functools.wraps(function)
    def named(*args: P.args, **kwargs: P.kwargs) -> R:
        owner = owner_of(args)
        arguments = dict(zip(names, args, strict=False)) | kwargs
        check(owner, arguments)
        if owner != defined_in:  # Python's own message would name the class that defines the constructor
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{owner}: {error}") from None
        try:
            with speaking(owner):
                return function(*args, **kwargs)
        except WRONG_KIND as error:
            if not isinstance(error, ApproxMCMCError):
                note_values(error, owner, arguments, "an argument")
            raise
        except MemoryError as error:
            note_memory(error, owner, arguments)
            raise

    return named
