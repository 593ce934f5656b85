"""Published numbers: what a paper printed of a setting, which measure of ours it stands beside, and whether it may.

A number that another machine made is set beside ours and not subtracted from it. Its ratio to another setting's, made
on one machine, is.
"""

import dataclasses
import math
from collections.abc import Collection

from approxmcmc.errors import StudyError


@dataclasses.dataclass(frozen=True)
class PaperValue:
    """A published number, and the row of ours that it belongs to.

    Parameters
    ----------
    value
        The number, in `unit`.
    unit
        Of both numbers: ``"steps per second"``, ``"1"`` for a share or a parameter.
    printed
        Where it is printed: ``"table 1"``, ``"figure 3, legend"``.
    measure
        What it measures: a measure of the study's, or ``"steps per second"``, ``"acceptance"``, ``"data per
        decision"``, ``"wrong decisions"``.
    setting
        Label of the setting that it was measured for.
    target
        Name of the target; may be left out where a study has one.
    relative_to
        Label of another setting: the value is the ratio of the two settings' measures.
    machine
        Whether the value depends on the machine and its code, as speeds do: then it is shown and not compared.
    differs
        What else differs between the two experiments, in words; shown beside the difference.

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
        """Check the value and the words."""
        if not math.isfinite(self.value):
            raise StudyError(f"A published value needs a finite `value`; found {self.value!r}.")
        for field in ("unit", "printed", "measure", "setting"):
            if not getattr(self, field):
                raise StudyError(f"The published value {self.value} needs `{field}`; found nothing. Say it in words.")

    def check(
        self, study: str, name: str, *, measures: Collection[str], settings: Collection[str], targets: Collection[str]
    ) -> None:
        """Raise StudyError where a value names what the study does not have; the message names what it has."""
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
