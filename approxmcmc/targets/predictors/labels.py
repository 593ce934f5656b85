"""Names of a variable's entries, where its design has them: categories of codes, columns of a table."""

from typing import Any

from approxmcmc.sources import DataSource


def codes_of(design: Any) -> Any:
    """Return the codes of a categorical column of pandas; any other design as it is."""
    return getattr(design, "cat", design).codes if _categories(design) is not None else design


def labels_of(design: Any) -> tuple[str, ...]:
    """Return a name for each entry that a design asks for, or none.

    Examples
    --------
    >>> import numpy as np
    >>> from approxmcmc.sources import Arrays
    >>> labels_of(Arrays(np.ones((3, 2)), columns=("distance", "hour"))), labels_of(np.ones((3, 2)))
    (('distance', 'hour'), ())
    """
    if isinstance(design, DataSource):
        found = design.categories.get(design.columns[0], ()) if design.is_vector else design.columns
    else:
        found = _categories(design)
        found = getattr(design, "columns", ()) if found is None else found
    return tuple(str(label) for label in found)


def _categories(design: Any) -> Any:
    return getattr(getattr(design, "dtype", None), "categories", None)
