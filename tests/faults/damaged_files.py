"""Every kind of file that the library reads back, and what can happen to a file: a table of kinds times faults.

A kind says how a good file is written and read back. Every fault is put to every file of every kind. Then reading must
raise an error of the library that names the file, or return what the good file holds (because it was written again, or
the fault changed nothing that counts). Any other value, and any other error, is a bug. A new kind of file is one entry
of `KINDS`.
"""

import collections
import contextlib
import copy
import gzip
import io
import itertools
import json
import os
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import xarray as xr

import approxmcmc as amc
from approxmcmc.checkpoints.tables import read_checkpoint
from approxmcmc.engine.files import mapped_files
from approxmcmc.engine.files.checksums import ADDED, add_checksum, checksum_of, with_checksum
from approxmcmc.engine.files.mapped_files import named_array
from approxmcmc.engine.files.paths import CACHE_VARIABLE
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.reference.cache import cached
from approxmcmc.study import published
from approxmcmc.study.bias_store import bias_path, bias_report, stored_bias, write_bias
from approxmcmc.study.json_files import write_bytes
from approxmcmc.study.plan import make_plan
from approxmcmc.study.record import planned_record
from approxmcmc.study.report import cache
from approxmcmc.study.report.pieces import Note, Table
from approxmcmc.study.report.published_files import pictures_to_bytes, to_bytes
from approxmcmc.study.store import Store, hash_of_draws
from tests.fakes import fake_trace
from tests.models import logistic
from tests.studies.toys import toy_study


class Kind(NamedTuple):
    """A kind of file.

    ``write(folder, which)`` writes good files, other ones for another `which`, and returns those that are damaged, by
    role. ``read(folder)`` reads them back, into values that can be compared as text. `named_by_user`: any good file may
    stand under the name. `forged` holds changes of the fields of a role, which get a right checksum afterwards.
    `not_yet_made`: roles whose absence means that nothing was made, so that it is no fault.
    """

    write: Callable[[Path, int], dict[str, Path]]
    read: Callable[[Path], Any]
    named_by_user: bool = False
    forged: Callable[[Path, Path], Iterator[tuple[str, bytes]]] | None = None
    not_yet_made: tuple[str, ...] = ()


# --- the kinds ---


def draws_of(which: int) -> xr.DataTree:
    """Return a trace that is the same in each call with the same number."""
    return fake_trace(np.random.default_rng(which).normal(size=(2, 40, 2)))


def values(tree: Any) -> Any:
    """Return all values and attributes of a tree or a dataset as text."""
    nodes = tree.subtree if isinstance(tree, xr.DataTree) else [tree]
    return [
        (str(name), array.dtype.kind, array.to_numpy().tolist())
        for node in nodes
        for name, array in sorted(node.variables.items())
    ] + [sorted((key, str(value)) for key, value in node.attrs.items()) for node in nodes]


def write_trace(folder: Path, which: int) -> dict[str, Path]:
    """Write a trace."""
    return {"trace": amc.save(draws_of(which), folder / "trace.nc")}


TARGET = logistic(12, 2)
SAMPLER = amc.MetropolisHastings(amc.RandomWalk(0.3), amc.ExactTest())
RUN: dict[str, Any] = {"draws": 20, "tune": 4, "chains": 2, "progressbar": False}


def write_finished(folder: Path, which: int) -> dict[str, Path]:
    """Write the checkpoint of a finished run."""
    amc.sample(TARGET, SAMPLER, checkpoint=folder / "run.nc", random_seed=which, **RUN)
    return {"checkpoint": folder / "run.nc"}


def read_finished(folder: Path) -> Any:
    """Return the trace and the state of a run."""
    found = read_checkpoint(folder / "run.nc")
    return values(amc.load(folder / "run.nc")), found.about, repr(found.snapshot)


def forged_checkpoints(folder: Path, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield checkpoints with a field that `sample` never writes."""
    tree = xr.open_datatree(path, engine="netcdf4").load()
    tree.close()
    text = json.loads(tree["checkpoint"]["about"].item())
    for where, value in [*FORGED_FIELDS.items(), *((name, MISSING) for name in REMOVED_FIELDS)]:
        other = copy.deepcopy(text)
        *parents, last = where.split(".")
        place = other
        for name in parents:
            place = place[int(name) if isinstance(place, list) else name]
        if value is MISSING:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
        tree["checkpoint"]["about"] = xr.Variable((), json.dumps(other))
        tree.to_netcdf(folder / "forged.nc", engine="netcdf4")
        add_checksum(folder / "forged.nc")
        yield f"{where} = {value}", (folder / "forged.nc").read_bytes()


MISSING = object()
REMOVED_FIELDS = ("about.asked.sampler", "about.asked.target", "about.made.starts", "snapshot.seconds", "columns")
FORGED_FIELDS: dict[str, Any] = {
    "format": 99,
    "about": [],
    "about.asked": None,
    "about.asked.chains": 10**9,
    "about.asked.draws": "x",
    "about.asked.thin": 0,
    "about.asked.every": -1,
    "about.asked.seed": -1,
    "about.asked.target_ess": "x",
    "about.asked.audit_every": {},
    "about.asked.discard_tuned_samples": 3,
    "about.asked.sampler": {"kind": "Nothing"},
    "about.asked.sampler.kind": "RandomWalk",
    "about.asked.sampler.proposal": 1,
    "about.made": 5,
    "about.made.tune": -5,
    "about.made.starts": [[0.0]],
    "about.made.audit_every": "x",
    "snapshot.seconds": "x",
    "snapshot.chains": {},
    "snapshot.chains.0.done": "x",
    "snapshot.chains.0.every": 0,
    "snapshot.chains.0.begun": "x",
    "snapshot.chains.0.seconds.0": "x",
    "snapshot.chains.0.seconds.1": None,
    "snapshot.chains.0.layout": [["x", "|O", 10**9]],
    "snapshot.chains.0.streams": {},
    "snapshot.chains.0.streams.proposal": {"bit_generator": "MT19937"},
    "snapshot.chains.0.numbers": None,
}


def resume_finished(folder: Path) -> Any:
    """Return the first draws of a run that is resumed by a few."""
    longer = amc.resume(folder / "run.nc", TARGET, draws=2, progressbar=False)
    return longer["posterior"].isel(draw=slice(20)).to_dataset().drop_attrs().to_dict()


def write_cell(folder: Path, which: int) -> dict[str, Path]:
    """Write a finished cell; the second and the first of a study, so that their keys differ."""
    plan = make_plan(toy_study(), "paper")
    store, cell, draws = Store(folder), plan.cells[0], draws_of(which)
    store.accept_plan(plan)
    facts = {"study": "toy", "which": which}
    record = {**planned_record(cell, plan), "status": "done", "error": None, "warnings": [], "wall_seconds": 1.5}
    record |= {"draws": 40, "noisy": False, "draws_hash": hash_of_draws(draws), "command": "approxmcmc retry toy"}
    store.write_cell({**record, "provenance": store.write_provenance(facts)}, draws)
    if which != 1:
        other = {**record, "key": plan.cells[1].key}
        store.write_cell(other, draws)
        cell = plan.cells[1]
    place = store.cell_folder(cell.key)
    [provenance] = [path for path in folder.glob("provenance/*") if json.loads(path.read_bytes())["which"] == which]
    return {"record": place / "record.json", "draws": place / "draws.nc", "provenance": provenance}


def read_cell(folder: Path) -> Any:
    """Return the record, the draws and the provenance of the first cell."""
    store, key = Store(folder), make_plan(toy_study(), "paper").cells[0].key
    return store.records()[key], values(store.trace(key)), store.provenance()


def write_plan(folder: Path, which: int) -> dict[str, Path]:
    """Write a plan."""
    Store(folder).accept_plan(make_plan(toy_study(seed=which), "paper"))
    return {"plan": folder / "plan.json"}


def read_plan(folder: Path) -> Any:
    """Accept the plan again, as a run does, and return it."""
    store = Store(folder)
    try:
        return store.accept_plan(make_plan(toy_study(seed=1), "paper")), store.plan()
    except ApproxMCMCError as error:  # names the store: which of its files says the other plan is clear
        raise type(error)(f"{error} plan.json") from error


def write_gold(folder: Path, which: int) -> dict[str, Path]:
    """Write the gold standard of a target."""
    name, draws = ("plain", "other")[which - 1], draws_of(which)
    report = {"target": name, "request": "r", "status": "accepted", "gates": [], "seconds": 1.0, "error": None}
    Store(folder).write_gold(name, {**report, "draws_hash": hash_of_draws(draws)}, draws)
    return {"report": folder / "gold" / f"{name}.json", "draws": folder / "gold" / f"{name}.nc"}


def read_gold(folder: Path) -> Any:
    """Return the gold standard and its report."""
    store = Store(folder)
    return store.gold_report("plain"), values(store.gold("plain"))


def write_bias_of(folder: Path, which: int) -> dict[str, Path]:
    """Write the biases of a setting."""
    found = xr.Dataset({"bias": ("estimand", [1.0, 0.5 * which]), "verdict": "small"}, {"estimand": ["a", "b"]})
    report = {"target": "plain", "label": f"walk{which}", "request": "r", "status": "done", "seconds": 1.0}
    write_bias(Store(folder), report, found)
    path = bias_path(Store(folder), "plain", f"walk{which}")
    return {"report": path, "values": path.with_suffix(".nc")}


def read_bias(folder: Path) -> Any:
    """Return the biases of a setting and their report."""
    store = Store(folder)
    return bias_report(store, "plain", "walk1"), values(stored_bias(store, "plain", "walk1"))


def write_cached_gold(folder: Path, which: int) -> dict[str, Path]:
    """Write a gold standard to the user's cache."""
    cached(f"key{which}", folder, lambda: draws_of(which))
    return {"reference": folder / f"key{which}.nc"}


def read_cached_gold(folder: Path) -> Any:
    """Return the draws of the gold standard, from the cache or made again."""
    return values(cached("key1", folder, lambda: draws_of(1))["posterior"].to_dataset().drop_attrs())


def rows_of(which: int) -> np.ndarray:
    """Return rows of a source."""
    return np.random.default_rng(which).normal(size=(50, 3))


def write_rows(folder: Path, which: int) -> dict[str, Path]:
    """Write the rows of a source."""
    named_array(folder / f"rows{which}.npy", (50, 3), np.dtype(float), [rows_of(which)], purpose="Arrays")
    return {"rows": folder / f"rows{which}.npy"}


def read_rows(folder: Path) -> Any:
    """Return the rows of a source, as a new process would read them."""
    mapped_files._checked.clear()
    return named_array(folder / "rows1.npy", (50, 3), np.dtype(float), [rows_of(1)], purpose="Arrays").tolist()


def write_published(folder: Path, which: int) -> dict[str, Path]:
    """Write the published results of a study."""
    name = f"study{which}"
    table = to_bytes(pd.DataFrame({"piece": "risk", "target": "a", "risk": np.arange(30.0) * which}))
    pictures = pictures_to_bytes({"risk": f'<svg xmlns="http://www.w3.org/2000/svg"><desc>{which}</desc></svg>'})
    words = {"study": name, "sections": [], "table": checksum_of(table), "pictures": checksum_of(pictures)}
    files = {
        "text": folder / f"{name}.json",
        "table": folder / f"{name}.csv.gz",
        "pictures": folder / f"{name}.pictures.gz",
    }
    write_bytes(files["text"], with_checksum(json.dumps(words)))
    write_bytes(files["table"], table)
    write_bytes(files["pictures"], pictures)
    return files


def read_published(folder: Path) -> Any:
    """Return the published results of a study."""
    with mock.patch.object(published, "FOLDER", str(folder.resolve())):
        words, table = published.read_published("study1")
    return words, table.to_csv()


def kept_pieces(folder: Path, which: int) -> list[Any]:
    """Return the pieces of an analysis, from the store or made again."""
    results: Any = types.SimpleNamespace(source="study.py", store=Store(folder))
    made = [Table("Rows", "Words.", pd.DataFrame({"a": [1.5, which]})), Note("Look.")]
    with mock.patch.object(cache, "_state", return_value="state"):
        return [str(vars(piece)) for piece in cache.cached_pieces(results, f"analysis{which}", lambda results: made)]


def write_analysis(folder: Path, which: int) -> dict[str, Path]:
    """Write the output of an analysis."""
    kept_pieces(folder, which)
    return {"pieces": folder / "pieces" / f"analysis{which}.json"}


def kernel_and_uses(number: float, folder: Path) -> tuple[Any, int]:
    """Return a kernel that adds a number, and how often it was read from the folder: 0 or 1."""
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import kernel

    def add(x: float) -> float:
        return x + number

    with mock.patch.dict(os.environ, {CACHE_VARIABLE: str(folder)}):
        made = kernel(add, nb.float64(nb.float64))
        return made, sum(made.stats.cache_hits.values())


def write_kernel(folder: Path, which: int) -> dict[str, Path]:
    """Write the machine code of a kernel."""
    kernel_and_uses(float(which), folder)
    [path] = (folder / "kernels").glob("*.nbc")
    (folder / "as_written").write_bytes(path.read_bytes())
    return {"kernel": path}


def read_kernel(folder: Path) -> Any:
    """Return what the kernel returns, and whether its file was used though it was not as written.

    The second is needed because a process may hold machine code of the same name already, and would call that.
    """
    found = b"".join(path.read_bytes() for path in (folder / "kernels").glob("*.nbc"))
    is_as_written = found == (folder / "as_written").read_bytes()
    made, uses = kernel_and_uses(1.0, folder)
    return made(2.0), bool(uses) and not is_as_written


def forged_kernels(folder: Path, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield kernels with a field of another type, or that claim to be large, and with a right checksum."""
    content = path.read_bytes()[:-ADDED]
    line, _, code = content.partition(b"\n")
    header = json.loads(line)
    for field, value in FORGED_HEADER.items():
        forged = folder / "forged"
        forged.write_bytes(json.dumps({**header, field.partition(" ")[0]: value}).encode() + b"\n" + code)
        add_checksum(forged, path.name)
        yield f"{field} = {value}", forged.read_bytes()
        forged.unlink()


FORGED_HEADER: dict[str, Any] = {
    "library": "x",
    "sizes": [10**15, 10**15],
    "sizes of a part": [10, 10],
    "function": {},
    "environments": None,
}

KINDS = {
    "trace": Kind(write_trace, lambda folder: values(amc.load(folder / "trace.nc")), named_by_user=True),
    "checkpoint": Kind(write_finished, read_finished, named_by_user=True),
    "resumed run": Kind(write_finished, resume_finished, named_by_user=True, forged=forged_checkpoints),
    "cell": Kind(write_cell, read_cell, not_yet_made=("record", "provenance")),
    "plan": Kind(write_plan, read_plan, not_yet_made=("plan",)),
    "gold standard": Kind(write_gold, read_gold, not_yet_made=("report",)),
    "bias": Kind(write_bias_of, read_bias, not_yet_made=("report",)),
    "cached gold standard": Kind(write_cached_gold, read_cached_gold),
    "rows of a source": Kind(write_rows, read_rows),
    "published results": Kind(write_published, read_published),
    "cached analysis": Kind(write_analysis, lambda folder: kept_pieces(folder, 1)),
    "kernel": Kind(write_kernel, read_kernel, forged=forged_kernels),
}
COMPILED = {"kernel"}  # kinds that need the compiler


# --- the faults ---


def flipped(good: bytes, rng: np.random.Generator, times: int) -> Iterator[tuple[str, bytes]]:
    """Yield the file with one bit changed, at random places."""
    for bit in rng.integers(8 * len(good), size=times):
        content = bytearray(good)
        content[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit} flipped", bytes(content)


def cut(good: bytes, rng: np.random.Generator, times: int) -> Iterator[tuple[str, bytes]]:
    """Yield the first bytes of the file."""
    for length in [0, len(good) - 1, *rng.integers(1, len(good), size=max(0, times - 2))][:times]:
        yield f"cut after {length} of {len(good)} bytes", good[:length]


def of_another_version(path: Path, good: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the file as a version without checksums would have written it."""
    if path.suffix == ".json":
        content = json.loads(good)
        del content["checksum"]
        yield "without a checksum", json.dumps(content).encode()
    elif path.suffix != ".gz":  # its checksum is in the text beside it
        yield "without a checksum", good[:-ADDED]


def of_wrong_types(path: Path, good: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a JSON file with each field in turn replaced by a value of another type."""
    if path.suffix == ".json":
        content = json.loads(good)
        del content["checksum"]
        for name, value in content.items():
            other = {"x": 1} if value is None or isinstance(value, (str, int, float)) else "x"
            yield f"{name} = {other}", with_checksum(json.dumps({**content, name: other}))


def claiming(path: Path, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield small files that claim to be large, with a right checksum."""
    large = folder / "large"
    if path.suffix == ".json":
        yield "lists nested 100 000 deep", with_checksum('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")
    elif path.suffix == ".nc":
        import netCDF4

        with netCDF4.Dataset(large, "w") as file:
            for name in ("posterior", "checkpoint"):
                group = file.createGroup(name)
                group.createDimension("chain", 2)
                group.createDimension("draw", 10**10)
                group.createVariable("beta", "f8", ("chain", "draw"), zlib=True, chunksizes=(1, 1000))
        add_checksum(large)
        yield "2e10 numbers", large.read_bytes()
    elif path.suffix == ".npy":
        content = io.BytesIO()
        np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 3)})
        large.write_bytes(content.getvalue())
        add_checksum(large, path.stem)
        yield "1e12 rows", large.read_bytes()
    elif path.suffix == ".gz":
        yield "100 MB of zeros in 100 kB", gzip.compress(bytes(100_000_001))
    large.unlink(missing_ok=True)


# --- the table ---


def outcome(kind: Kind, folder: Path, path: Path, good: Any) -> str:
    """Return what reading a damaged file does: "refused", "as before", or what is wrong with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = kind.read(folder)
        except (ApproxMCMCError, FileNotFoundError) as error:
            stem = path.name.partition(".")[0]
            return "refused" if path.name in str(error) or stem in str(error) else f"it is not named: {error}"
        except BaseException as error:  # pragma: no cover  # a bug
            return f"a raw {type(error).__name__}: {error}"
    return "as before" if repr(found) == repr(good) else "USED: other values were returned"


@contextlib.contextmanager
def good_files(kind: Kind) -> Iterator[tuple[Path, dict[str, Path], Any, dict[str, bytes]]]:
    """Write the files of a kind; yield their folder, paths, values, and files of the kind that hold other values."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        folder = Path(name)
        paths = kind.write(folder, 1)
        others = {role: path.read_bytes() for role, path in kind.write(Path(other), 2).items()}
        yield folder, paths, kind.read(folder), others


def table(name: str, rng: np.random.Generator, *, flips: int, cuts: int) -> tuple[collections.Counter[str], list[str]]:
    """Put every fault to every file of a kind; return the number of each outcome, and the bugs found."""
    kind = KINDS[name]
    counts: collections.Counter[str] = collections.Counter()
    bugs: list[str] = []
    with good_files(kind) as (folder, paths, good, others):
        state = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for role, path in paths.items():
            content = path.read_bytes()
            faults = itertools.chain(
                flipped(content, rng, flips),
                cut(content, rng, cuts),
                [] if role in kind.not_yet_made else [("removed", None)],
                [] if kind.named_by_user else [("another good file", others[role])],
                of_another_version(path, content),
                of_wrong_types(path, content),
                claiming(path, folder),
                kind.forged(folder, path) if kind.forged else [],
            )
            for fault, damaged in faults:
                path.unlink() if damaged is None else path.write_bytes(damaged)
                found = outcome(kind, folder, path, good)
                counts[found if found in ("refused", "as before") else "bug"] += 1
                if found not in ("refused", "as before"):
                    bugs.append(f"{name}, {role}, {fault}: {found}")
                for place, whole in state.items():  # resuming a run, or making a file again, changes files
                    place.write_bytes(whole)
    return counts, bugs
