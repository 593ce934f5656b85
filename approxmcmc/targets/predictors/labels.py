"""Names of a variable's entries, where its design has them: categories of codes, columns of a table."""

from typing import Any, NamedTuple

from approxmcmc.sources import DataSource


class Treatment(NamedTuple):
    """Effects of all levels of a column but the first, the reference level, whose effect is 0 (treatment coding).

    Parameters
    ----------
    column
        Codes, a categorical column of pandas, or a column of categories of a source, as `PredictorTarget` takes them.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> def loglik(eta, y):
    ...     return -0.5 * (y - eta) ** 2
    >>> predictors = {"mu": {"intercept": 1.0, "kind": amc.targets.Treatment(np.array([0, 1, 2, 0]))}}
    >>> amc.PredictorTarget(loglik, predictors, np.zeros(4)).variables.shapes
    {'intercept': (), 'kind': (2,)}
    """

    column: Any


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
