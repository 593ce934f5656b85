"""Published numbers: the value printed for a setting, the measure to compare it with, and whether they are comparable.

A number from another machine is shown next to ours, and not subtracted from it. Its ratio to another setting's number
from the same machine is compared.
"""

import dataclasses
import math
from collections.abc import Collection

from approxmcmc.errors import StudyError


@dataclasses.dataclass(frozen=True)
class PaperValue:
    """A published number, and the measure of ours that it is compared with.

    Parameters
    ----------
    value
        The number, in `unit`.
    unit
        Unit of both numbers: ``"steps per second"``, ``"1"`` for a share or a parameter.
    printed
        Place in the paper: ``"table 1"``, ``"figure 3, legend"``.
    measure
        Name of the measure: one of the study's, or ``"steps per second"``, ``"acceptance"``, ``"data per decision"``,
        ``"wrong decisions"``.
    setting
        Label of the setting that it was measured for.
    target
        Name of the target; optional if the study has only one.
    relative_to
        Label of another setting: the value is the ratio of the two settings' measures.
    machine
        Whether the value depends on the machine and its code, as speeds do: then it is shown but not compared.
    differs
        What else differs between the two experiments, in words; shown with the difference.

    Raises
    ------
    StudyError
        If the value is not finite, or `unit`, `printed`, `measure` or `setting` is empty.

    Examples
    --------
    >>> value = PaperValue(75484 / 400, "steps per second", "figure 3", measure="steps per second", setting="exact")
    >>> value.value
    188.71
    """

    value: float
    unit: str
    printed: str
    measure: str = dataclasses.field(kw_only=True)
    setting: str = dataclasses.field(kw_only=True)
    target: str = dataclasses.field(default="", kw_only=True)
    relative_to: str = dataclasses.field(default="", kw_only=True)
    machine: bool = dataclasses.field(default=False, kw_only=True)
    differs: str = dataclasses.field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Check the value and the texts."""
        if not math.isfinite(self.value):
            raise StudyError(f"A published value needs a finite `value`; found {self.value!r}.")
        for field in ("unit", "printed", "measure", "setting"):
            if not getattr(self, field):
                raise StudyError(f"The published value {self.value} needs `{field}`; found an empty text.")

    def check(
        self, study: str, name: str, *, measures: Collection[str], settings: Collection[str], targets: Collection[str]
    ) -> None:
        """Raise StudyError if a value names something that the study lacks; the message lists the valid names."""
        known = {"measure": measures, "setting": settings}
        if self.relative_to:
            known["relative_to"] = settings
        if self.target or len(targets) > 1:
            known["target"] = targets
        for field, names in known.items():
            if getattr(self, field) not in names:
                raise StudyError(
                    f"Study {study!r}: the published value {name!r} needs `{field}`, one of {list(names)}; found "
                    f"{getattr(self, field)!r}."
                )
