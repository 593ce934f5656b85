"""The acceptance test in stored settings, such as those of a trace."""

from typing import Any

from approxmcmc.contracts import AcceptanceTest


def stored_test(settings: Any) -> AcceptanceTest | None:
    """Rebuild the acceptance test of a sampler from its settings, in the form of `Component.to_dict`.

    None if they hold no test, or if this version cannot build it. A class is found by its name once its module has been
    imported: those of this room have been, because a room is imported with all its members.
    """
    return AcceptanceTest.found_in(settings)
