"""Look up a number of a study by its reference, for the roles ``{result}`` and ``{estimate}`` of pages."""

from approxmcmc.study.published import number_of
from approxmcmc.study.report.wording import NO_INTERVAL, estimate, estimate_text


def looked_up(text: str, *, interval: bool) -> str:
    """Return the number that a reference names, as text."""
    name, piece, *where, column = (part.strip() for part in text.split(";"))
    conditions = [(key.strip(), value.strip()) for key, _, value in (one.partition("=") for one in where)]
    value, lower, upper, spec = number_of(name, piece, conditions, column)
    if interval:
        return estimate_text(value, lower, upper, spec).replace(NO_INTERVAL, "").strip()
    centre, bracket = estimate(value, lower, upper, spec)
    scale = bracket.partition("]")[2].strip()
    return f"{centre} {scale}".strip() if scale else centre
