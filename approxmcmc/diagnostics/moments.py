r"""Gold standards that are known by their moments: a table of means and standard deviations with their errors.

A closed form, a published summary such as posteriordb's, or :func:`arviz_stats.summary` has for each coordinate the
posterior mean m and standard deviation s, and their standard errors e(m) and e(s). Of the functions of a posterior that
samplers are judged by, three follow from these:

.. math:: E\,\theta = m \pm e(m), \qquad E \frac{\theta - m}{s} = 0 \pm \frac{e(m)}{s}, \qquad
          E \Bigl(\frac{\theta - m}{s}\Bigr)^2 = 1 \pm \frac{2\, e(s)}{s} .

Tails and other functions need draws. Such a gold standard is a trace with the group ``reference_moments`` alone, in the
form in which gold standards that have draws keep theirs: each variable with a leading dim ``moment``.
"""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from approxmcmc.contracts.arguments import about
from approxmcmc.errors import GoldStandardError

if TYPE_CHECKING:
    import pandas as pd

GROUP = "reference_moments"
MOMENTS = ("mean", "sd", "mcse", "mcse_sd")
COLUMNS = {"mean": "mean", "sd": "sd", "mcse": "mcse_mean", "mcse_sd": "mcse_sd"}
LABEL = re.compile(r"(?P<name>[^\[]+)(\[(?P<ticks>[^\]]*)\])?")


def as_reference(reference: Any) -> Any:
    """Return a gold standard as a trace: the trace itself, or one that holds the moments of a table.

    Parameters
    ----------
    reference
        A trace; or a table with one row per coordinate, whose labels are ``"beta[x1]"`` or ``"beta[0]"``, and the
        columns ``mean``, ``sd``, ``mcse_mean`` and, if known, ``mcse_sd``: a DataFrame, or a dict with these columns
        and ``names``, as posteriordb has it; or a dict of variable -> dict of arrays with the names of these columns.
        A closed form has ``mcse_mean=0.0``. Without ``mcse_sd`` the error of a standard deviation is taken to be that
        of independent normal draws, ``mcse_mean`` over the root of 2. Anything else is returned as it is.

    Raises
    ------
    GoldStandardError
        If a column is missing, a number is not finite or negative, or the coordinates of a variable have gaps.

    Examples
    --------
    >>> exact = as_reference({"beta": {"mean": [0.5, -0.5], "sd": [0.1, 0.2], "mcse_mean": 0.0}})
    >>> exact["reference_moments"]["beta"].sel(moment="sd").values.tolist()
    [0.1, 0.2]
    """
    is_of_xarray = isinstance(reference, (xr.DataTree, xr.Dataset))  # mappings, too
    if is_of_xarray or not (isinstance(reference, Mapping) or hasattr(reference, "columns")):
        return reference
    with about("reference"):
        if hasattr(reference, "columns"):
            variables = _of_rows(reference, "the table")
        elif "names" in reference:
            import pandas as pd

            columns = {name: values for name, values in reference.items() if name != "names"}
            variables = _of_rows(pd.DataFrame(columns, index=list(reference["names"])), "the table")
        else:
            variables = {str(name): _of_arrays(str(name), columns) for name, columns in reference.items()}
        if not variables:
            raise GoldStandardError("A table of moments needs at least one coordinate; it is empty.")
    return xr.DataTree.from_dict({GROUP: xr.Dataset(variables, coords={"moment": list(MOMENTS)})})


def has_only_moments(reference: Any) -> bool:
    """Return whether a gold standard has moments and no draws."""
    return isinstance(reference, xr.DataTree) and "posterior" not in reference.children and GROUP in reference.children


def described(reference: xr.DataTree) -> xr.Dataset:
    """Return the posterior of a gold standard; of one that has only moments, these in the form of draws.

    They give names, shapes and labels of the variables.
    """
    if not has_only_moments(reference):
        return reference["posterior"].to_dataset()
    return in_form_of_draws(reference[GROUP].to_dataset())


def in_form_of_draws(moments: xr.Dataset) -> xr.Dataset:
    """Return moments as one chain of four "draws", those of `MOMENTS`.

    Without the error of the standard deviation, it is taken as in `as_reference`.
    """
    if "mcse_sd" not in moments["moment"]:
        moments = xr.concat(
            [moments, moments.sel(moment=["mcse"]).assign_coords(moment=["mcse_sd"]) / math.sqrt(2.0)], "moment"
        )
    return moments.sel(moment=list(MOMENTS)).rename(moment="draw").expand_dims("chain").drop_vars("draw")


def _of_arrays(name: str, columns: Any) -> xr.DataArray:
    if not isinstance(columns, Mapping):
        raise GoldStandardError(
            f"A table of moments needs a dict with `mean`, `sd` and `mcse_mean` for each variable; that of {name!r} is "
            f"a {type(columns).__name__}."
        )
    values = _checked(columns, repr(name))
    return xr.DataArray(values, dims=("moment", *(f"{name}_dim_{k}" for k in range(values.ndim - 1))))


def _of_rows(table: "pd.DataFrame", what: str) -> dict[str, xr.DataArray]:
    """Return the moments of each variable of a table with one row per coordinate."""
    rows: dict[str, dict[tuple[str, ...], int]] = {}
    for row, label in enumerate(map(str, table.index)):
        match = LABEL.fullmatch(label)
        if match is None:
            raise GoldStandardError(f"A table of moments needs labels such as 'beta[x1]'; found {label!r}.")
        ticks = match["ticks"]
        key = tuple(tick.strip() for tick in ticks.split(",")) if ticks is not None else ()
        if key in rows.setdefault(match["name"].strip(), {}):
            raise GoldStandardError(f"A table of moments needs each coordinate once; {label!r} is there twice.")
        rows[match["name"].strip()][key] = row
    values = _checked({name: table[name].to_numpy() for name in table.columns if name in (*MOMENTS, "mcse_mean")}, what)
    return {name: _variable(name, places, values) for name, places in rows.items()}


def _variable(name: str, places: Mapping[tuple[str, ...], int], values: np.ndarray) -> xr.DataArray:
    """Return one variable, (moment, ...), with the labels of its axes in the order of the table."""
    axes = [list(dict.fromkeys(ticks)) for ticks in zip(*places, strict=True)] if places.keys() != {()} else []
    if math.prod(map(len, axes)) != len(places):
        raise GoldStandardError(
            f"A table of moments needs all coordinates of a variable; {name!r} has {len(places)} rows and axes of "
            f"{[len(axis) for axis in axes]} labels."
        )
    array = np.empty((len(MOMENTS), *map(len, axes)))
    positions = [{tick: k for k, tick in enumerate(axis)} for axis in axes]
    for ticks, column in places.items():
        index: tuple[Any, ...] = tuple(position[tick] for position, tick in zip(positions, ticks, strict=True))
        array[(slice(None), *index)] = values[:, column]
    dims = [f"{name}_dim_{k}" for k in range(len(axes))]
    labels = {dim: _labels(axis) for dim, axis in zip(dims, axes, strict=True)}
    return xr.DataArray(array, dims=("moment", *dims), coords=labels)


def _labels(ticks: list[str]) -> list[Any]:
    """Return labels of an axis; numbers from 1 on, as Stan counts, become numbers from 0 on, as ArviZ counts."""
    if not all(tick.isdecimal() for tick in ticks):
        return ticks
    numbers = [int(tick) for tick in ticks]
    return [number - 1 for number in numbers] if sorted(numbers) == list(range(1, len(numbers) + 1)) else numbers


def _checked(columns: Mapping[str, Any], what: str) -> np.ndarray:
    """Return the moments as one array (moment, ...) of finite numbers."""
    numbers = {str(name): np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    if "mcse" in numbers:
        numbers.setdefault("mcse_mean", numbers["mcse"])
    missing = [name for name in ("mean", "sd", "mcse_mean") if name not in numbers]
    if missing:
        raise GoldStandardError(
            f"A table of moments needs `mean`, `sd` and `mcse_mean`, the standard error of the mean (0.0 of a closed "
            f"form); {what} lacks {missing} and has {sorted(numbers)}."
        )
    numbers.setdefault("mcse_sd", numbers["mcse_mean"] / math.sqrt(2.0))
    arrays = np.broadcast_arrays(*(numbers[COLUMNS[moment]] for moment in MOMENTS))
    values = np.stack(arrays)
    if not np.isfinite(values).all() or (values[1:] < 0.0).any() or (values[1] == 0.0).any():
        raise GoldStandardError(
            f"A table of moments needs finite means, standard deviations above 0 and standard errors of at least 0; "
            f"{what} has others."
        )
    return values
