"""Draws in the CSV files that CmdStan writes, one file for each chain.

A file has comments that begin with ``#``, a row of names and a row for each draw. Names that end with two underscores
are records of the sampler (``lp__``, ``n_leapfrog__``); the others are parameters, an entry of an array by its indices
from 1, such as ``beta.2`` or ``L.2.1``. Rows before the comment "Adaptation terminated" are warm-up, which CmdStan
writes if asked (``save_warmup``). The last comments state the seconds of warm-up and sampling.

Reference: Stan Development Team, CmdStan User's Guide, chapter "Stan CSV File Format".
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.diagnostics.clock import with_clock
from approxmcmc.errors import ApproxMCMCWarning, InvalidInputError, warn

NAMES_OF_RECORDS = {  # ArviZ's names of the sampler's records, by CmdStan's
    "lp__": "lp",
    "accept_stat__": "acceptance_rate",
    "stepsize__": "step_size",
    "treedepth__": "tree_depth",
    "n_leapfrog__": "n_steps",
    "divergent__": "diverging",
    "energy__": "energy",
}
END_OF_WARMUP = "Adaptation terminated"
SECONDS = re.compile(r"([\d.eE+-]+) seconds \((Warm-up|Sampling)\)")
SETTING = re.compile(r"#\s*(\w+) = (\S+)")


def read_cmdstan(path: Path) -> xr.DataTree:
    """Return the draws after the warm-up in a file of CmdStan, as a trace of one chain with the seconds of the file.

    Raises
    ------
    InvalidInputError
        If the file is not one that CmdStan's method ``sample`` has written, or an entry of an array is missing.

    Warns
    -----
    ApproxMCMCWarning
        If the file ends early: its run was stopped, or still goes on.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if not text.endswith("\n"):  # the last line was cut off, perhaps inside its last number
        lines = lines[:-1]
    settings = {match[1]: match[2] for line in lines if (match := SETTING.match(line))}
    names = next((line.split(",") for line in lines if line and not line.startswith("#")), [])
    if "lp__" not in names or settings.get("method", "sample") != "sample":
        raise InvalidInputError(
            f"{str(path)!r} needs to be a CSV file that CmdStan's method `sample` has written; found the method "
            f"{settings.get('method', 'unknown')!r} and the columns {names[:4]}."
        )
    table = _draws(path, lines, names)
    seconds = {phase: float(number) for number, phase in SECONDS.findall("\n".join(lines))}
    if "Sampling" not in seconds:
        n_requested = settings.get("num_samples", "an unknown number of")
        warn(
            f"The file {str(path)!r} ends before CmdStan states the seconds of the run: {len(table)} draws after the "
            f"warm-up, of {n_requested}, were read. The run was stopped, or still goes on.",
            ApproxMCMCWarning,
        )
    records: dict[str, np.ndarray] = {}
    parameters: dict[str, np.ndarray] = {}
    for name, column in zip(names, table.T, strict=True):
        if name.endswith("__"):
            records[NAMES_OF_RECORDS.get(name, name)] = column
        else:
            parameters[name] = column
    if "diverging" in records:
        records["diverging"] = records["diverging"] > 0
    tree = xr.DataTree.from_dict({"posterior": _dataset(_arrays(parameters)), "sample_stats": _dataset(records)})
    tree["posterior"].attrs |= {"inference_library": "stan"}
    return with_clock(tree, seconds.get("Sampling"), seconds.get("Warm-up"))


def _draws(path: Path, lines: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Return the rows after the warm-up, shape (draw, column)."""
    ends = [k for k, line in enumerate(lines) if line.startswith("#") and END_OF_WARMUP in line]
    head = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
    start = max([head, *ends]) + 1  # some programs write the comments of the adaptation above the names
    rows = [line.split(",") for line in lines[start:] if line and not line.startswith("#")]
    if rows and len(rows[-1]) < len(names):  # the run was stopped while it wrote this row
        rows = rows[:-1]
    bad_row = next((row for row in rows if len(row) != len(names)), None)
    if bad_row is not None:
        raise InvalidInputError(
            f"A row of {str(path)!r} needs {len(names)} numbers, one for each name; found {len(bad_row)} in one."
        )
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    except ValueError as error:
        raise InvalidInputError(f"The rows of {str(path)!r} need numbers; {error}.") from error


def _arrays(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns of each variable as one array (draw, ...); the indices of a column follow its name."""
    entries: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
    for name, values in columns.items():
        variable, *indices = name.split(".")
        if not all(index.isdigit() for index in indices):  # an entry of a tuple, or part of a complex number
            variable = name
            indices = []
        entries.setdefault(variable, {})[tuple(int(index) - 1 for index in indices)] = values
    return {variable: _array(variable, by_indices) for variable, by_indices in entries.items()}


def _array(variable: str, entries: Mapping[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """Return the entries of one variable, each of shape (draw,), by indices from 0; () for a scalar."""
    is_scalar = () in entries
    shape = () if is_scalar else tuple(np.max(list(entries), axis=0) + 1)
    if len(entries) != np.prod(shape, dtype=int):
        raise InvalidInputError(f"{variable!r} needs {shape} entries, one for each place; found {len(entries)}.")
    n_draws = len(next(iter(entries.values())))
    array = np.empty((n_draws, *shape))
    for position, values in entries.items():
        entry: tuple[Any, ...] = (slice(None), *position)
        array[entry] = values
    return array


def _dataset(arrays: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return arrays (draw, ...) of one chain as a Dataset."""
    variables = {
        name: (("chain", "draw", *(f"{name}_dim_{k}" for k in range(array.ndim - 1))), array[None])
        for name, array in arrays.items()
    }
    n_draws = len(next(iter(arrays.values()))) if arrays else 0
    return xr.Dataset(variables, coords={"chain": [0], "draw": np.arange(n_draws)})
