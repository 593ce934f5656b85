"""Families of settings: all values of one sampler's knobs, shown as one entry on pages with many settings.

``test[epsilon=0.05]`` belongs to the family ``test``. With many settings, pictures draw the best member of each family
in full and the others as thin lines of the same colour, and sentences give the number of members.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from approxmcmc.study.report.wording import enumeration

if TYPE_CHECKING:
    import pandas as pd

FEW = 10  # settings with distinguishable lines, and few enough to name in a sentence


def family(label: str) -> str:
    """Return the name of a setting without its values in brackets.

    Examples
    --------
    >>> family("test[epsilon=0.05]"), family("nuts")
    ('test', 'nuts')
    """
    return label.partition("[")[0].rstrip()


def in_words(labels: Sequence[str]) -> str:
    """Join names for a sentence; if there are many, those of one family are given as a count.

    Examples
    --------
    >>> in_words(["a", "b[x=1]"])
    'a and b[x=1]'
    >>> in_words(["a", *(f"b[x={k}]" for k in range(10))])
    'a and b (10 settings)'
    """
    if len(labels) <= FEW:
        return enumeration(list(labels))
    counts: dict[str, list[str]] = {}
    for label in labels:
        counts.setdefault(family(label), []).append(label)
    return enumeration([
        members[0] if len(members) == 1 else f"{name} ({len(members)} settings)" for name, members in counts.items()
    ])  # fmt: skip


def drawn_in_full(labels: Sequence[str], exact: str | None, at_last_budget: "pd.DataFrame") -> Mapping[str, str]:
    """Return the settings that a picture draws in full, each with its name in the legend.

    With few settings all of them; with many the exact one, and from each family the member with least risk at the end.

    Parameters
    ----------
    labels
        The settings.
    exact
        The exact setting; None if no setting is exact.
    at_last_budget
        A row for each setting, with its `risk`, indexed by setting.
    """
    if len(labels) <= FEW:
        return {label: label for label in labels}
    members: dict[str, list[str]] = {}
    for label in labels:
        if label != exact:
            members.setdefault(family(label), []).append(label)
    risk = at_last_budget.risk.fillna(float("inf"))
    best_of_family = {
        min(group, key=lambda label: risk.get(label, float("inf"))): len(group) for group in members.values()
    }
    named = {label: label if n == 1 else f"{label}, best of {n}" for label, n in best_of_family.items()}
    return {label: named.get(label, label) for label in labels if label in named or label == exact}
