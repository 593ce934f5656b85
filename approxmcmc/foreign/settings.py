"""Validation of the settings of all samplers of other libraries."""

import dataclasses
import math
import numbers

from approxmcmc.contracts import ForeignSampler
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import InvalidInputError


class LibrarySampler(ForeignSampler):
    """A sampler with settings that are counts, positive numbers or words; subclasses are dataclasses of them."""

    def __post_init__(self) -> None:
        """Raise unless counts are positive integers and numbers are positive.

        Raises
        ------
        InvalidInputError
            The message names the setting.
        """
        who = type(self).__name__
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            if field.type in (int, "int"):
                checked_integer(value, field.name, 0 if field.name == "tune" else 1, who=who)
            elif field.type in (float, "float"):
                if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 < float(value) < math.inf:
                    raise InvalidInputError(f"{who}: {field.name} must be a positive number, found {value!r}")
            elif not isinstance(value, str):
                raise InvalidInputError(f"{who}: {field.name} must be a word, found {value!r}")
