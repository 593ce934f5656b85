"""Checkpoints on disk: what a run needs to resume, and the trace of a finished run, in one netCDF file.

    checkpoint                 about: JSON text, everything but the arrays
    checkpoint/chain_0 ...     records (draws, counts, values); the chain's state, as one row of bytes
    posterior, sample_stats    the trace of a finished run

The file holds only data: numbers and text, no code and no pickle. It ends with a checksum, without which it is refused.
Writing a checkpoint takes CPU time from the chains.
So it is not compressed, and the thirty small arrays of a chain are one variable: 4 chains take 0.08 s of CPU time
instead of 0.3 s. The trace is not compressed either: compression saves 15 of 57 MB, and takes 0.60 s instead of 0.25 s.

Columns that the trace of a finished run shares with its records are stored once. The records of a chain are three
tables with a row for each draw: its coordinates, its counts (a column for each of `COUNT_NAMES`) and its values
(`VALUE_NAMES`). A trace has the first m of the n rows, and the columns that its sampler fills; the others usually hold
one number. So a table is stored as

    mark     (columns,)         for each column: 0 in the trace, 1 a single number, 2 neither
    first    (columns,)         the first row
    own      (m, columns marked 2)  their values
    rest     (n - m, columns)   rows cut off from the trace

and is rebuilt bit by bit. Of 150 MB, two chains of 60 000 draws of 50 parameters, 71 MB remain.
"""

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.contracts.arguments import is_number
from approxmcmc.contracts.speaker import speaking
from approxmcmc.engine.checks import checked_integer, of_another_type
from approxmcmc.engine.files.checksums import has_checksum, why_damaged
from approxmcmc.errors import InvalidInputError
from approxmcmc.output.files import CHECKPOINT, read_tree, without_checkpoint, write_tree
from approxmcmc.sampling.goals import Goal
from approxmcmc.sampling.recorder import RECORDS, Snapshot

FORMAT = 4
MOST_CHAINS = 100_000  # most chains of a run that has not begun: a forged number must not fill the memory
IN_TRACE = 0
ONE_NUMBER = 1
OWN = 2
PARTS = ("mark", "first", "own", "rest")
Piece = tuple[int, np.ndarray]
"""Columns of a table that the trace also holds: the index of the first column, and their values (rows, columns)."""

GROUPS = {"": ("posterior", "sample_stats"), "warmup_": ("warmup_posterior", "warmup_sample_stats")}


class Checkpoint(NamedTuple):
    """The content of a file: settings of the run, its state, and its trace (None if it has not finished)."""

    about: Mapping[str, Any]
    snapshot: Snapshot
    trace: xr.DataTree | None


def write_checkpoint(
    path: Path,
    about: Mapping[str, Any],
    snapshot: Snapshot,
    trace: xr.DataTree | None = None,
    columns: Sequence[tuple[str, int]] = (),
) -> None:
    """Write a checkpoint atomically; `about`, the settings of the run, must be storable as JSON.

    `columns` are those of the table of draws, see `columns_of`.

    Raises
    ------
    OSError
        When the file cannot be written.
    """
    split = [_split(chain) for chain in snapshot.chains]
    numbers = [part[0] for part in split]
    arrays = [part[1] for part in split]
    text = {"format": FORMAT, "about": about, "snapshot": snapshot._replace(chains=numbers)._asdict()}
    groups = {}
    if trace is not None:
        groups = {name: group.to_dataset() for name, group in trace.children.items()}
        text["columns"] = list(columns)
        arrays = [without_the_trace(own, trace, k, columns) for k, own in enumerate(arrays)]
    groups |= {f"{CHECKPOINT}/chain_{k}": _dataset(own) for k, own in enumerate(arrays)}
    groups[CHECKPOINT] = xr.Dataset({"about": ((), json.dumps(text))})
    write_tree(xr.DataTree.from_dict(groups), path, compressed=False)


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the content of a checkpoint file.

    Raises
    ------
    InvalidInputError
        When the file is not a checkpoint, or cannot be read.
    """
    tree = read_tree(path)
    if CHECKPOINT not in tree.children:
        raise InvalidInputError(
            f"{path} holds no checkpoint, only {sorted(tree.children)}: name a file that "
            "`sample(..., checkpoint=)` has written"
        )
    with _naming(path):
        text = json.loads(str(tree[CHECKPOINT].to_dataset()["about"].item()))
        written_as = text["format"]
    if written_as != FORMAT:
        raise InvalidInputError(
            f"{path} has format {written_as}, and this version reads format {FORMAT}. Resume it with the "
            "version that wrote it, or start a new run"
        )
    if not has_checksum(path):
        raise InvalidInputError(f"{path} is not read: {why_damaged(path)}. Copy it again, or start a new run")
    with _naming(path):
        return _from_tree(text, tree)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Raise InvalidInputError for every error: a forged field, which no checksum shows, may have any type."""
    try:
        with speaking(""):  # the sentence becomes a part of the message below
            yield
    except Exception as error:
        raise InvalidInputError(
            f"{path} holds no complete checkpoint ({error!r}). Copy it again, or remove it and start a new run"
        ) from error


def _from_tree(text: Mapping[str, Any], tree: xr.DataTree) -> Checkpoint:
    trace = without_checkpoint(tree) if len(tree.children) > 1 else None
    state = dict(text["snapshot"])
    chains = []
    for k, numbers in enumerate(state.pop("chains")):
        arrays = {str(name): array.to_numpy() for name, array in tree[f"{CHECKPOINT}/chain_{k}"].data_vars.items()}
        if trace is not None:
            arrays = with_the_trace(arrays, trace, k, text["columns"])
        chains.append(_join(numbers, arrays))
        _check_progress(chains[-1])
    goal = state.pop("goal")
    snapshot = Snapshot(**state, goal=None if goal is None else Goal(*goal), chains=chains)
    goal_fields = {} if snapshot.goal is None else snapshot.goal._asdict()
    if wrong := [*of_another_type(state, Snapshot), *of_another_type(goal_fields, Goal)]:
        raise ValueError("; ".join(wrong))
    about = {name: dict(text["about"][name]) for name in ("asked", "made")}
    _check_number_of_chains(about["asked"]["chains"], len(chains), trace)
    return Checkpoint(about, snapshot, trace)


def _check_progress(chain: Mapping[str, Any]) -> None:
    """Raise unless the numbers of rows, steps and seconds of a chain are possible, and its tables have as many rows."""
    for name, least in (("done", 0), ("thin", 1)):
        tuning, drawing = chain[name]
        checked_integer(tuning, name, least)
        checked_integer(drawing, name, least)
    checked_integer(chain["every"], "every")
    checked_integer(chain["begun"], "begun", 0)
    elapsed, on_processor = chain["seconds"]
    if not (is_number(elapsed) and is_number(on_processor)):
        raise ValueError(f"the seconds of a chain must be two numbers, found {chain['seconds']!r}")
    rows = {name: len(chain[name]) for name in RECORDS}
    if set(rows.values()) != {chain["done"][1]}:
        raise ValueError(f"a chain has made {chain['done'][1]} draws, and its tables have {rows} rows")


def _check_number_of_chains(n_chains: Any, n_states: int, trace: xr.DataTree | None) -> None:
    """Raise if the settings name another number of chains than the file holds.

    The chains of a `WholeSampler` have no states, and no trace before their end: then any reasonable number is right.
    """
    held = n_states if trace is None else trace["posterior"].sizes["chain"]
    if n_chains != held and not (held == 0 and checked_integer(n_chains, "chains") <= MOST_CHAINS):
        raise ValueError(f"the settings name {n_chains!r} chains, and the file holds {held}")
    if n_states not in (0, held):
        raise ValueError(f"the trace has {held} chains, and {n_states} have a state")


def _split(chain: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a chain's snapshot in two parts: what JSON can store, and its arrays."""
    arrays = {name: value for name, value in chain.items() if isinstance(value, np.ndarray)}
    memory = chain["memory"]
    kept = {name: np.ascontiguousarray(leaf) for name, leaf in memory.items() if isinstance(leaf, np.ndarray)}
    pieces = [leaf.reshape(-1).view(np.uint8) for leaf in kept.values()]
    arrays["memory"] = np.concatenate(pieces) if pieces else np.empty(0, np.uint8)
    plain = {name: value for name, value in chain.items() if name not in arrays}
    plain["layout"] = [(name, leaf.dtype.str, leaf.size) for name, leaf in kept.items()]
    plain["numbers"] = {name: _plain(leaf) for name, leaf in memory.items() if name not in kept}
    return plain, arrays


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _join(plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the snapshot of a chain that `_split` has split."""
    chain = {**plain, **arrays}
    memory = chain.pop("numbers")
    column = 0
    for name, kind, size in chain.pop("layout"):
        width = np.dtype(kind).itemsize * size
        memory[name] = np.frombuffer(chain["memory"][column : column + width].tobytes(), kind)
        column += width
    return {**chain, "memory": memory}


def _dataset(arrays: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return a Dataset with the arrays as variables that share no dimensions."""
    variables = {
        name: xr.Variable([f"{name}_{k}" for k in range(array.ndim)], array, encoding={"_FillValue": None})
        for name, array in arrays.items()
    }
    return xr.Dataset(variables)


def without_the_trace(
    arrays: Mapping[str, np.ndarray], trace: xr.DataTree, chain: int, columns: Sequence[tuple[str, int]]
) -> dict[str, np.ndarray]:
    """Return the arrays of the snapshot of the chain with the index `chain`, with each table split into four parts.

    The parts are those of the module's text; they leave out what the trace holds. `columns`: see `columns_of`.
    """
    left = dict(arrays)
    for name, held in _tables(trace, chain, columns).items():
        table = left.pop(name)
        left |= {f"{name}_{part}": array for part, array in zip(PARTS, _split_table(table, *held), strict=True)}
    return left


def with_the_trace(
    arrays: Mapping[str, np.ndarray], trace: xr.DataTree, chain: int, columns: Sequence[tuple[str, int]]
) -> dict[str, np.ndarray]:
    """Return the arrays that `without_the_trace` split, whole again."""
    whole = dict(arrays)
    for name, held in _tables(trace, chain, columns).items():
        mark, first, own, rest = (whole.pop(f"{name}_{part}") for part in PARTS)
        whole[name] = _join_table(mark, first, own, rest, *held)
    return whole


def columns_of(trace: xr.DataTree) -> list[tuple[str, int]]:
    """Return the sampled variables, each with its number of columns in the table of draws, in their order there.

    `trace` is that of the sampler, before other variables are computed from its draws. A variable that is stored
    transformed may have another number of columns in the table; its numbers then differ from those of the table, too.
    """
    return [(str(name), math.prod(variable.shape[2:])) for name, variable in trace["posterior"].to_dataset().items()]


def _tables(trace: xr.DataTree, chain: int, columns: Sequence[tuple[str, int]]) -> dict[str, tuple[int, list[Piece]]]:
    """Return the number of common rows and the common columns of each table of a chain that the trace also holds.

    `chain` is the index of the chain; the result is by the name of the table.
    """
    tables: dict[str, tuple[int, list[Piece]]] = {}
    for phase, (draws, stats) in GROUPS.items():
        if draws in trace.children:
            rows = trace[draws].sizes["draw"]
            tables[f"{phase}draws"] = rows, _side_by_side(trace[draws].to_dataset(), chain, columns)
            for kind, names, dtype in (("counts", COUNT_NAMES, np.int64), ("values", VALUE_NAMES, np.float64)):
                variables = {j: trace[stats][name] for j, name in enumerate(names) if name in trace[stats].data_vars}
                tables[f"{phase}{kind}"] = (
                    rows,
                    [(j, held.to_numpy()[chain, :, None].astype(dtype, copy=False)) for j, held in variables.items()],
                )
    return tables


def _side_by_side(draws: xr.Dataset, chain: int, columns: Sequence[tuple[str, int]]) -> list[Piece]:
    """Return the draws of each variable as columns of the table of draws, in which the variables stand side by side.

    A variable of a formula may be missing in the trace, or have another shape there.
    """
    ends = itertools.accumulate(width for _, width in columns)
    pieces = []
    for (name, width), end in zip(columns, ends, strict=True):
        if name in draws and math.prod(draws[name].shape[2:]) == width:
            values = draws[name].to_numpy()[chain]
            pieces.append((end - width, values.reshape(len(values), width).astype(float, copy=False)))
    return pieces


def _split_table(
    table: np.ndarray, rows: int, pieces: Sequence[Piece]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    part = table[:rows]
    first = table[0] if len(table) else np.zeros_like(table, shape=table.shape[1:])
    mark = np.full(len(first), OWN, np.int8)
    for start, held in _inside(pieces, len(first)):
        columns = slice(start, start + held.shape[1])
        mark[columns][(_bits(part[:, columns]) == _bits(held)).all(axis=0)] = IN_TRACE
    others = np.flatnonzero(mark == OWN)
    mark[others[(_bits(part[:, others]) == _bits(first[others])).all(axis=0)]] = ONE_NUMBER
    return mark, first, part[:, mark == OWN], table[rows:]


def _join_table(
    mark: np.ndarray, first: np.ndarray, own: np.ndarray, rest: np.ndarray, rows: int, pieces: Sequence[Piece]
) -> np.ndarray:
    table = np.concatenate([np.broadcast_to(first, (rows, len(first))), rest])
    for start, held in _inside(pieces, len(first)):
        inside = np.flatnonzero(mark[start : start + held.shape[1]] == IN_TRACE)
        table[:rows, start + inside] = held[:, inside]
    table[:rows, mark == OWN] = own
    return table


def _inside(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Return the pieces that lie inside a table of so many columns; others belong to transformed variables."""
    return [(start, held) for start, held in pieces if start + held.shape[1] <= width]


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, so that NaN equals itself and -0.0 differs from 0.0."""
    return array.view(np.int64)
