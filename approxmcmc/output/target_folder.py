"""Targets on disk: one folder with the rows, the numbers of each row, and what is known of them.

A small netCDF file, ``state.nc``, describes the model, the blocks, the sums at the centre, and the other files, which
hold bare numbers (`approxmcmc.engine.files.rows_file`). Rows are written first, then ``state.nc`` is replaced as a
whole; so after a kill the folder holds the target before or the new one. Nothing is pickled.
"""

import contextlib
import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.files.rows_file import RowsFile, read_rows, write_rows
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.output.files import read_tree, write_tree
from approxmcmc.surrogate.control_variate import ControlVariate, StateOfControlVariate
from approxmcmc.targets.blocks import Block, Blocks
from approxmcmc.targets.described import described, model_of, with_rows_of
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.stands_for_rows import StandsForRows
from approxmcmc.targets.statistics.blocks import OutcomeOfBlock
from approxmcmc.targets.statistics.least_squares import LeastSquares
from approxmcmc.targets.statistics.target import NormalStatistics

STATE = "state.nc"
LOCK = "lock"
FORMAT = 1


def save_target(target: Any, folder: str | os.PathLike[str]) -> Path:
    """Write a target to a folder; see `approxmcmc.save`."""
    folder = Path(folder)
    plain = target.target if isinstance(target, ControlVariate) else target
    if isinstance(plain, StandsForRows) and not isinstance(plain, NormalStatistics):
        raise IncompatibleError(
            f"save: {plain!r} merges equal rows; save its target of single rows, target.plain, and merge again"
        )
    if not isinstance(plain, Regression | NormalStatistics):
        raise IncompatibleError(f"save: a regression or its ControlVariate can be stored in a folder, found {target!r}")
    rows: Any = plain.plain if isinstance(plain, NormalStatistics) else plain
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"Cannot save to {folder}: the folder {folder.parent} does not exist. Create it first.")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"Cannot save a target to {folder}: it is a file. Name a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / STATE).exists() and not (folder / LOCK).exists():
        raise InvalidInputError(f"Cannot save a target to {folder}: it holds other files. Name a new or empty folder.")
    description = described(plain)
    model_of(description, None if description["made"] else plain)  # raises if the model cannot be made again
    arrays = {"X": rows.design.X, "codes": rows.design.codes}
    arrays |= {f"response_{k}": response for k, response in enumerate(rows.unweighted_responses)}
    arrays |= {} if rows.weights is None else {"weights": rows.weights}
    small: dict[str, np.ndarray] = {}
    expansion = None
    if isinstance(target, ControlVariate):
        expansion, small, by_row = target.state()
        arrays |= by_row
    if isinstance(plain, NormalStatistics):
        small |= _arrays_of_outcomes(plain)
    folder.mkdir(exist_ok=True)
    with _locked(folder):
        stored_files = _known_files(folder)
        files = {
            name: write_rows(folder, name, array, stored_files.get(name))
            for name, array in arrays.items()
            if array.size
        }
        contents = {
            "format": FORMAT,
            "target": description,
            "n_rows": rows.n_obs,
            "blocks": [list(block) for block in rows.blocks],
            "has_grown": bool(rows._blocks),
            "content": rows.content_hash(),
            "types": {name: array.dtype.str for name, array in arrays.items()},
            "shapes": {name: list(array.shape[1:]) for name, array in arrays.items()},
            "files": {name: list(file) for name, file in files.items()},
            "expansion": expansion,
        }
        flat = {name: ((f"{name}_0",), np.ravel(array)) for name, array in small.items() if array.size}
        shapes = {name: list(array.shape) for name, array in small.items()}
        types = {name: array.dtype.str for name, array in small.items()}
        contents |= {"small_shapes": shapes, "small_types": types}
        tree = xr.DataTree.from_dict({"target": xr.Dataset(flat, attrs={"contents": json.dumps(contents)})})
        write_tree(tree, folder / STATE)
        named = {file.name for file in files.values()}
        for path in folder.glob("*.rows"):
            if path.name not in named:
                path.unlink()
    return folder


@naming_the_arguments
def load_target(folder: str | os.PathLike[str], *, model: Any = None, check: bool | None = None) -> Any:
    """Read a target from its folder; see `approxmcmc.load`."""
    folder = Path(folder)
    if not (folder / STATE).is_file():
        raise FileNotFoundError(
            f"There is no target in {folder}: it has no {STATE}; `save(target, folder)` writes one."
        )
    node = read_tree(folder / STATE)["target"].to_dataset()
    contents = json.loads(node.attrs["contents"])
    if contents["format"] != FORMAT:
        raise InvalidInputError(f"{folder} was written by another version, in format {contents['format']}")
    small = {
        name: node[name].to_numpy().astype(contents["small_types"][name]).reshape(shape)
        if name in node
        else np.empty(shape, contents["small_types"][name])
        for name, shape in contents["small_shapes"].items()
    }
    files = {name: RowsFile.of_json(values) for name, values in contents["files"].items()}
    by_row = {}
    for name, shape in contents["shapes"].items():
        if name in files:
            by_row[name] = read_rows(folder, files[name], check=check)
        else:  # rows without numbers of this kind
            n = contents["n_rows"] if name in ("X", "codes") else 0
            by_row[name] = np.empty((n, *shape), contents["types"][name])
    description = contents["target"]
    restored = model_of(description, model)
    of_rows = restored.plain if isinstance(restored, NormalStatistics) else restored
    responses = tuple(by_row.pop(f"response_{k}") for k in range(description["n_responses"]))
    rows = with_rows_of(
        of_rows, description, by_row.pop("X"), by_row.pop("codes"), responses, by_row.pop("weights", None)
    )
    blocks = Blocks(
        Block(name, n_rows, content, tuple((path, size, time) for path, size, time in paths))
        for name, n_rows, content, paths in contents["blocks"]
    )
    if contents["has_grown"]:
        rows._blocks = blocks
    else:
        rows._stored_hash = contents["content"]
        rows._noted_hash = contents["content"]
        rows._files = blocks[0].files
    plain = _with_outcomes(restored, rows, small, len(blocks)) if isinstance(restored, NormalStatistics) else rows
    if contents["expansion"] is None:
        return plain
    return ControlVariate.of_state(plain, StateOfControlVariate(contents["expansion"], small, by_row))


def _known_files(folder: Path) -> dict[str, RowsFile]:
    """Return the files that a folder has; none if it has no target, or a damaged one, which is then written anew."""
    if not (folder / STATE).is_file():
        return {}
    try:
        contents = json.loads(read_tree(folder / STATE)["target"].attrs["contents"])
    except (InvalidInputError, KeyError, ValueError):
        return {}
    return {name: RowsFile.of_json(values) for name, values in contents["files"].items()}


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Context in which no other process writes to the folder; it waits for one that does."""
    with (folder / LOCK).open("ab") as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, also by a kill
        yield


# --- sufficient statistics ---


def _arrays_of_outcomes(target: NormalStatistics) -> dict[str, np.ndarray]:
    """Return what is known of each block and outcome, as arrays by name."""
    arrays: dict[str, np.ndarray] = {}
    for b, outcomes in enumerate(target._of_blocks):
        for k, outcome in enumerate(outcomes):
            start = f"outcome_{b}_{k}"
            arrays |= {
                f"{start}_entries": outcome.entries,
                f"{start}_center": outcome.fit.center,
                f"{start}_root": outcome.fit.root,
                f"{start}_scale": outcome.scale_weights,
                f"{start}_numbers": np.array(
                    [outcome.fit.squares, outcome.fit.passes, outcome.constant, outcome.n_rows], dtype=np.float64
                ),
            }
    return arrays


def _with_outcomes(statistics: NormalStatistics, rows: Any, arrays: dict[str, np.ndarray], n_blocks: int) -> Any:
    """Return the target of statistics with these rows, whose statistics are stored."""
    n_outcomes = len(statistics._of_blocks[0])
    of_blocks = []
    for b in range(n_blocks):
        outcomes = []
        for k in range(n_outcomes):
            start = f"outcome_{b}_{k}"
            squares, passes, constant, n_rows = arrays[f"{start}_numbers"].tolist()
            fit = LeastSquares(arrays[f"{start}_center"], arrays[f"{start}_root"], squares, int(passes))
            entries = arrays[f"{start}_entries"]
            outcomes.append(OutcomeOfBlock(entries, fit, constant, int(n_rows), arrays[f"{start}_scale"]))
        of_blocks.append(outcomes)
    restored = copy.copy(statistics)
    restored._rows = rows
    restored.n_rows = rows.n_obs
    restored._of_blocks = tuple(of_blocks)
    restored._add_up()
    return restored
