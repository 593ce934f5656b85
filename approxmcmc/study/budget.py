"""The budget of one chain of a study."""

import dataclasses

from approxmcmc.contracts.arguments import check_settings
from approxmcmc.engine.checks import is_integer
from approxmcmc.errors import StudyError

LARGEST_NUMBER_OF_DRAWS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Budget:
    """The budget of one chain: a number of draws, seconds, or both (the first one reached ends the chain).

    Parameters
    ----------
    seconds
        Processor seconds of the cell from the first step, tuning included, compilation and set-up excluded, so that a
        chain on a busy core draws as much as any other. Samplers in JAX count wall-clock seconds.
    draws
        Draws kept after tuning; with `seconds` alone, at most a million.

    Notes
    -----
    A budget of draws is bit-reproducible. A budget of seconds fixes the time, not the draws; the record keeps the
    number of draws, so that ``approxmcmc verify`` can repeat them exactly.
    """

    seconds: float | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.draws is not None and not is_integer(self.draws):
            raise StudyError(f"Budget needs `draws`, an integer; found {self.draws!r}.")
        if self.seconds is None and self.draws is None:
            raise StudyError("Budget needs `seconds`, `draws` or both; found neither.")
        if self.seconds is not None and not self.seconds > 0:
            raise StudyError(f"Budget needs `seconds` > 0; found {self.seconds}.")
        if self.draws is not None and self.draws < 1:
            raise StudyError(f"Budget needs `draws` >= 1; found {self.draws}.")

    @property
    def most_draws(self) -> int:
        """The argument ``draws`` of `sample`: the budget's draws, or a million if it has only seconds."""
        return LARGEST_NUMBER_OF_DRAWS if self.draws is None else self.draws
