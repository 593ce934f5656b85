"""Every public callable refuses arguments of the wrong type with an error that names argument, value and what it needs.

The table is made from the signatures: each parameter annotated as bool, int, float, str, a mapping or a function, alone
or in a union, meets values of other types. A parameter without this check, whose wrong values are accepted or ignored,
fails.
"""

import dataclasses
import importlib
import inspect

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import Component
from approxmcmc.contracts.arguments import naming_the_arguments, rules_of
from approxmcmc.errors import InvalidInputError

ODD = ["no", b"no", True, 1.5, 1j, None, [1], {"a": 1}, object(), np.array(["a"]), np.array([1 + 1j, 2]), np.nan]
AUTHORS = ("engine", "contracts")  # records of code, made by authors of samplers


def callables(rooms):
    """Yield (name, function or class) of each public callable that has its own signature."""
    for room in rooms:
        module = importlib.import_module(f"approxmcmc.{room}")
        for name in getattr(module, "__all__", ()):
            public = getattr(module, name)
            is_class = inspect.isclass(public)
            if callable(public) and not (is_class and issubclass(public, BaseException)):
                yield f"{room}.{name}", public


def parameters(public):
    """Return the parameters of a callable; of a class, those of its `__init__`, which a private base may define."""
    if inspect.isclass(public) and public.__init__ is object.__init__:
        return []
    return list(inspect.signature(public).parameters.values())


def table(named):
    """Yield (name, callable, parameter, odd value) for each value that no rule of the parameter admits."""
    for name, public in named:
        for parameter in parameters(public):
            rules = rules_of(parameter.annotation)
            for value in ODD if rules else ():
                if value is not parameter.default and not any(fits(value) for fits, _ in rules):
                    yield name, public, parameter.name, value


def required_settings(public):
    """Return a value of the right type for each field without a default: settings are checked together."""
    fields = {
        field.name: field.type
        for field in dataclasses.fields(public)
        if field.default is field.default_factory is dataclasses.MISSING
    }
    values = (True, 1, 1.0, "a", {}, len)
    return {
        name: next((value for value in values if any(fits(value) for fits, _ in rules_of(kind))), None)
        for name, kind in fields.items()
    }


def accepted(rows):
    """Return the rows of a table whose value is not refused by name: (callable, parameter, value, what happened)."""
    left = []
    for name, public, parameter, value in rows:
        try:
            is_record = inspect.isclass(public) and dataclasses.is_dataclass(public)
            public(**{**(required_settings(public) if is_record else {}), parameter: value})
        except InvalidInputError as error:
            if parameter in str(error):
                continue
            left.append((name, parameter, repr(value), str(error)))
        except Exception as error:
            left.append((name, parameter, repr(value), f"{type(error).__name__}: {error}"))
        else:
            left.append((name, parameter, repr(value), "accepted"))
    return left


ROOMS = sorted(set(amc._ROOMS) - set(AUTHORS))
# Results, which the package makes: their fields are no arguments of a user.
RESULTS = {
    "datasets.Dataset",
    "datasets.Network",
    "design.Choice",
    "output.StatVariable",
    "reference.GateReport",
    "reference.GateResult",
    "study.Knob",
    "study.Setting",
    "study.Vary",
    "numerics.Mode",
}


@pytest.mark.parametrize("room", ROOMS)
def test_values_of_the_wrong_type_are_refused_by_name(room):
    named = [(name, public) for name, public in callables([room]) if name not in RESULTS]
    assert accepted(table(named)) == []


def test_the_table_is_long():
    """Hundreds of rows: an empty table would pass."""
    assert len(list(table(callables(ROOMS)))) > 2000


def unchecked(draws: int = 1, progressbar: bool = True) -> None:
    """Ignore an argument, as a planted fault."""


def test_an_ignored_argument_fails_the_table():
    left = accepted(table([("planted", unchecked)]))
    assert {(parameter, what) for _, parameter, _, what in left} == {("draws", "accepted"), ("progressbar", "accepted")}
    assert accepted(table([("mended", naming_the_arguments(unchecked))])) == []


def test_a_component_without_a_check_of_its_own_is_checked():
    @dataclasses.dataclass(frozen=True, eq=False)
    class PlantedSetting(Component):
        size: int = 1

    with pytest.raises(InvalidInputError, match="PlantedSetting: size must be an integer"):
        PlantedSetting(size=1.5)
