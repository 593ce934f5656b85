"""Families of samplers: a factory, its arguments, and knobs that take several values each.

The settings of a family are all combinations of its knobs, in the order of declaration.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from approxmcmc.contracts import AnySampler
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import StudyError


@dataclasses.dataclass(frozen=True)
class Knob:
    """Values of one argument, combined with those of the other knobs. Made by :func:`knob`."""

    values: tuple[Any, ...]


def knob(*values: Any) -> Knob:
    """Return the values of an argument of :func:`vary`, in order.

    Raises
    ------
    StudyError
        If there are no values, or one is given twice.

    Examples
    --------
    >>> knob(0.0, 0.01, 0.05).values
    (0.0, 0.01, 0.05)
    """
    if not values or len({repr(value) for value in values}) < len(values):
        raise StudyError(f"knob(...) needs one or more different values; found {values!r}. Name each value once.")
    return Knob(values)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One sampler of a study with every knob fixed.

    Parameters
    ----------
    sampler_name
        Name under which the study declares the sampler.
    label
        The name, with the values of the knobs that vary: ``austerity[epsilon=0.05]``.
    knobs
        The values of these knobs by name.
    sampler
        The sampler.
    """

    sampler_name: str
    label: str
    knobs: Mapping[str, Any]
    sampler: AnySampler


@dataclasses.dataclass(frozen=True)
class Vary:
    """A family of samplers: a factory and its arguments, some of them knobs. Made by :func:`vary`."""

    factory: Callable[..., AnySampler]
    arguments: Mapping[str, Any]

    def settings(self, name: str) -> list[Setting]:
        """Return one setting per combination of knob values; the last knob changes fastest."""
        names = [argument for argument, value in self.arguments.items() if isinstance(value, Knob)]
        settings = []
        for combination in itertools.product(*(self.arguments[argument].values for argument in names)):
            knobs = dict(zip(names, combination, strict=True))
            sampler = self.factory(**{**self.arguments, **knobs})
            values = ", ".join(f"{argument}={value!r}" for argument, value in knobs.items())
            settings.append(Setting(name, f"{name}[{values}]" if values else name, knobs, sampler))
        return settings


@naming_the_arguments
def vary(factory: Callable[..., AnySampler], **arguments: Any) -> Vary:
    """Declare samplers ``factory(**arguments)``, where every :func:`knob` among the arguments takes each of its values.

    Raises
    ------
    StudyError
        If a knob called ``epsilon`` leaves out 0: at 0 an approximate sampler must agree with the exact one, which is a
        free correctness test.

    Examples
    --------
    >>> family = vary(dict, epsilon=knob(0.0, 0.1), batch_size=500)
    >>> [setting.label for setting in family.settings("austerity")]
    ['austerity[epsilon=0.0]', 'austerity[epsilon=0.1]']
    """
    epsilon = arguments.get("epsilon")
    if isinstance(epsilon, Knob) and 0 not in epsilon.values:
        raise StudyError(
            "A knob `epsilon` needs 0 among its values: at 0 the sampler must agree with the exact one, a free "
            f"correctness test. Found {epsilon.values}; add 0.0."
        )
    return Vary(factory, dict(arguments))
