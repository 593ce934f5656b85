"""Targets that can be made of other rows: what lets a worker of a Dask cluster make one of the rows that it holds."""

import copy
from typing import Any

from approxmcmc.contracts import Target
from approxmcmc.errors import IncompatibleError


class MadeOfRows:
    """A target, mixed in, whose rows may come from sources."""

    given: Any = None
    """Sources in the place of the data, in tuples and mappings, where some of these came from sources."""
    by_row: tuple[str, ...] = ("data",)
    """Attributes that have a place for each row, or hold what has."""

    def without_rows(self) -> Any:
        """Return what `with_rows` can be asked of, small: it travels to every worker."""
        bare = copy.copy(self)
        for name in ("given", *self.by_row):
            vars(bare).pop(name, None)
        return bare

    def with_rows(self, given: Any, n_obs: int) -> Target:
        """Return the model of other rows: arrays, as `given` has sources, with so many rows."""
        raise IncompatibleError(f"{type(self).__name__} cannot be made of other rows")
