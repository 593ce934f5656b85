"""In which order the decisions of a study read the data, in words, as the traces say it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from approxmcmc.study.report.wording import counted

if TYPE_CHECKING:
    from approxmcmc.study.report.evidence import Contest


def data_order(contests: "Iterable[Contest]") -> str:
    """Return which settings read fresh random rows, which blocks of a shuffled copy, and which neither.

    The name of the target stands with a setting where there are several.
    """
    contests = list(contests)
    listed: dict[str, list[str]] = {}
    for contest in contests:
        for label, traces in contest.traces.items():
            name = f"{label} on {contest.target}" if len(contests) > 1 else label
            listed.setdefault(words(traces[0]["posterior"].attrs), []).append(name)
    if len(listed) == 1:
        return f"{next(iter(listed))} (all settings)"
    return "; ".join(f"{order}: {', '.join(labels)}" for order, labels in listed.items())


def words(attrs: Mapping[Any, Any]) -> str:
    """Return the order of the data that the attributes of a trace name.

    Examples
    --------
    >>> words({"data_order": "rows"})
    'fresh random rows for every decision'
    >>> words({"data_order": "blocks", "block_size": 512})
    "blocks of 512 rows of the chain's own shuffled copy"
    """
    order = attrs.get("data_order")
    if order == "rows":
        return "fresh random rows for every decision"
    if order == "blocks":
        return f"blocks of {counted(int(attrs['block_size']), 'row')} of the chain's own shuffled copy"
    return "no random subset: decisions read all data as they lie, what the sampler itself draws, or nothing"
