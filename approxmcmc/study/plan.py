"""Expand a study into cells: each is one chain, with a key and seeds derived from its content.

The *identity* of a cell is the hash of everything that determines the distribution of its draws: study name and seed,
content of the target, settings of the sampler, budget, tuning, thinning, starting rule and replicate. The *key* hashes
identity and code version, and names the folder of the cell. Neither depends on the preset or on the position in the
plan, so a study that grows keeps its cells.

Seeds are hashes, too. The seed of the chain comes from the identity, so a change of code leaves it unchanged. The seed
of the starting point comes from (study seed, target, replicate), so all settings of one block start at one point,
unless a proposal provides a start, as in `sample`.
"""

import dataclasses
import hashlib
import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.contracts import AnySampler, Target, TwinnedTarget, WholeSampler
from approxmcmc.engine.checks import differences_of, nearest
from approxmcmc.engine.compiler.code_version import code_version
from approxmcmc.engine.compiler.libraries import installed_version
from approxmcmc.engine.compiler.python_code import CodeContent, code_content
from approxmcmc.errors import ApproxMCMCWarning, StudyError, warn
from approxmcmc.interop.model_hash import twin_id
from approxmcmc.sampling.assembly import start_law
from approxmcmc.study.declare import Declaration
from approxmcmc.study.knobs import Setting
from approxmcmc.study.machine import LIBRARIES

if TYPE_CHECKING:
    import pandas as pd

MOST_PIECES = 12  # most pieces of changed code that a message names
SEED_BITS = 52  # exact as a float, so that tables do not round it


@dataclasses.dataclass(frozen=True)
class Cell:
    """One chain of a study.

    Parameters
    ----------
    key
        Hash of identity and code version; names the cell's folder.
    identity
        Hash of everything that determines the distribution of the draws.
    target, sampler_name, label, knobs, sampler
        The target's name and the setting (:class:`approxmcmc.study.Setting`).
    replicate
        From 0; also the index of the block in which the cell runs.
    order_in_block
        Position in that block, after shuffling by the study's seed.
    seed, start_seed
        Seed of the chain, and of its starting point, which all settings of a block share.
    """

    key: str
    identity: str
    target: str
    sampler_name: str
    label: str
    knobs: Mapping[str, Any]
    sampler: AnySampler
    replicate: int
    order_in_block: int
    seed: int
    start_seed: int

    def starting_point(self, study: Declaration, target: Target) -> np.ndarray:
        """Return the theta of shape (dim,) where the chain starts.

        It is the same for every chain of this block and target, unless a proposal provides its own start.
        """
        rng = np.random.default_rng(self.start_seed)
        if study.start is not None:
            return np.asarray(study.start(target, rng), dtype=np.float64)
        return start_law(target, self.sampler)(rng)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cells of a study at one preset, in running order.

    Parameters
    ----------
    study
        The study, with the preset applied.
    preset
        Name of the preset.
    code_version
        Version of the code that makes the draws; part of every key.
    design
        Content of the cells in readable form; stored with them, to show what changed.
    cells
        The cells, block by block.
    """

    study: Declaration
    preset: str
    code_version: str
    design: Mapping[str, Any]
    cells: tuple[Cell, ...]

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per cell."""
        import pandas as pd

        columns = ["key", "target", "sampler_name", "label", "knobs", "replicate", "order_in_block", "seed"]
        return pd.DataFrame([{name: getattr(cell, name) for name in columns} for cell in self.cells], columns=columns)


def make_plan(study: Declaration, preset: str) -> Plan:
    """Return the cells of a study at a preset; makes its targets, runs nothing."""
    study = study.with_preset(preset)
    hashes = {name: study.target(name).content_hash() for name in study.targets}
    settings = study.settings()
    own = {setting.label: content for setting in settings if (content := own_code(setting.sampler)) is not None}
    own_ids = {label: content.id for label, content in own.items()}
    if study.start is not None:
        own["start()"] = code_of(study.start)  # no label of a sampler has parentheses
    common = {
        "study": study.name,
        "seed": study.seed,
        "budget": dataclasses.asdict(study.budget),
        "tune": study.tune,
        "thin": study.thin,
        "audit_every": study.audit_every,
        "start": function_id(study.start),
    }
    design = {
        **common,
        "replicates": study.replicates,
        **study.own_budgets,
        "targets": hashes,
        "samplers": {setting.label: describe(setting.sampler) for setting in settings},
        "code": {label: {"all": content.id, **content.pieces} for label, content in own.items()},
    }
    code = code_version()
    cells: list[Cell] = []
    for replicate in range(study.replicates):
        block = [
            _cell(study, common, name, hashes[name], setting, own_ids.get(setting.label), replicate, code)
            for name in hashes
            for setting in settings
        ]
        block.sort(key=lambda cell: digest("order", study.seed, cell.replicate, cell.identity))
        cells += [dataclasses.replace(cell, order_in_block=index) for index, cell in enumerate(block)]
    return Plan(study, preset, code, design, tuple(cells))


def _cell(
    study: Declaration,
    common: Mapping[str, Any],
    target: str,
    target_hash: str,
    setting: Setting,
    code_id: str | None,
    replicate: int,
    code: str,
) -> Cell:
    content_of_cell = {**common, "budget": dataclasses.asdict(study.budget_of(target))}
    content_of_cell |= {"target": target_hash, "sampler": describe(setting.sampler), "replicate": replicate}
    if isinstance(setting.sampler, WholeSampler):
        content_of_cell["foreign"] = {"twin": twin_of(study.target(target)), "run": code_id}
    elif code_id is not None:
        content_of_cell["code"] = code_id
    identity = digest("cell", content_of_cell)
    return Cell(
        key=digest("key", identity, code),
        identity=identity,
        target=target,
        sampler_name=setting.sampler_name,
        label=setting.label,
        knobs=setting.knobs,
        sampler=setting.sampler,
        replicate=replicate,
        order_in_block=0,
        seed=_seed("chain", identity),
        start_seed=_seed("start", study.seed, target, replicate),
    )


def twin_of(target: Target) -> str | None:
    """Return a hash of the code of a target's PyMC model, which other libraries sample; None if it has none."""
    return twin_id(target) or function_id(target.pymc_model) if isinstance(target, TwinnedTarget) else None


def select(cells: Sequence[Cell], only: str | None) -> list[Cell]:
    """Return the cells selected by a filter such as ``"sampler=austerity,epsilon=0.05,replicate=0"``.

    Conditions are joined by commas and must all hold. They name ``target``, ``sampler``, ``label``, ``replicate``,
    ``key`` (a beginning is enough) or a knob; numbers compare as numbers.

    Raises
    ------
    StudyError
        If a condition is not ``name=value``, has an unknown name, or selects no cell.
    """
    kept = list(cells)
    for condition in _conditions(only or ""):
        name, separator, value = condition.partition("=")
        columns = sorted(
            {"target", "sampler", "label", "replicate", "key", *(knob for cell in cells for knob in cell.knobs)}
        )
        if not separator or name.strip() not in columns:
            raise StudyError(
                f"A filter is NAME=VALUE, joined by commas; {condition!r} names {nearest(name.strip(), columns)}"
            )
        kept = [cell for cell in kept if _matches(cell, name.strip(), value.strip())]
        if not kept:
            raise StudyError(
                f"No cell is left after the filter {condition!r} of {only!r}. `approxmcmc plan` shows them."
            )
    return kept


def _conditions(text: str) -> list[str]:
    # A label contains commas between brackets: "label=walk[scale=1.0, epsilon=0.0],replicate=0".
    parts = [""]
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def _matches(cell: Cell, name: str, text: str) -> bool:
    if name == "key":
        return cell.key.startswith(text)
    value = cell.sampler_name if name == "sampler" else cell.knobs.get(name, getattr(cell, name, None))
    if str(value) == text:
        return True
    try:
        return value is not None and float(value) == float(text)
    except (TypeError, ValueError):
        return False


def describe(sampler: Any) -> dict[str, Any]:
    """Return the settings of a sampler as a plain dict, with its class under ``kind``.

    Raises
    ------
    StudyError
        If it has no ``to_dict``, which is needed to distinguish samplers.
    """
    if not hasattr(sampler, "to_dict"):
        raise StudyError(
            "A study needs samplers with `to_dict()`, from which cells get their keys; found a "
            f"{type(sampler).__name__}. Use a sampler of approxmcmc.samplers, or derive yours from "
            "approxmcmc.contracts.Component."
        )
    return {name: _readable(value) for name, value in sampler.to_dict().items()}


def _readable(value: Any) -> Any:
    """Return a setting in JSON's types; a function or an object, whose content `own_code` reads, by its name."""
    if isinstance(value, Mapping):
        return {str(name): _readable(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(inner) for inner in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def what_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a line for each difference of two designs; for code of the user, the functions that differ."""
    lines = differences_of({**old, "code": {}}, {**new, "code": {}})
    return [*lines, *(f"code of {label}: {pieces}" for label, pieces in edited_code(old, new).items())]


def edited_code(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels whose code, written by the user, differs in two designs, with the functions that differ."""
    codes = (old.get("code", {}), new.get("code", {}))
    edited = {}
    for label in dict.fromkeys([*codes[0], *codes[1]]):
        before, after = (code.get(label, {}) for code in codes)
        names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
        pieces = [name for name in names if name != "all"]
        if names and before and after:
            edited[label] = ", ".join(pieces[:MOST_PIECES]) or "the order of its parts"
    return edited


def digest(*parts: Any) -> str:
    """Return the blake2b hash of JSON-ready values, as 32 hexadecimal digits; the order of keys does not matter."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _seed(*parts: Any) -> int:
    return int(digest(*parts), 16) >> (128 - SEED_BITS)


def function_id(function: Callable[..., Any] | None) -> str | None:
    """Return a hash of a user's function and of all that it reads; the name of a function of this package."""
    return None if function is None else code_of(function).id


def own_code(sampler: Any) -> CodeContent | None:
    """Return the content of the user's classes and functions in a sampler; None if it has only those of this package.

    A sampler has components, such as a proposal, and any of them may be the user's.
    """
    return code_of(sampler) if _has_own_code(sampler) else None


def _has_own_code(value: Any) -> bool:
    if value is None or isinstance(value, (str, numbers.Number, np.generic, np.ndarray)):
        return False
    if isinstance(value, (list, tuple)):
        return any(map(_has_own_code, value))
    if isinstance(value, Mapping):
        return any(map(_has_own_code, value.values()))
    if not _is_ours(value if hasattr(value, "__qualname__") else type(value)):
        return True
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    # A field without a part in comparisons, such as the cost of a pilot run, is not a setting.
    return any(_has_own_code(getattr(value, field.name, None)) for field in dataclasses.fields(value) if field.compare)


def code_of(value: Any) -> CodeContent:
    """Return the content of a function, a class or an object of the user; a function of this package has its name.

    Warns
    -----
    ApproxMCMCWarning
        If the code reads an object whose changes cannot be detected.
    """
    if hasattr(value, "__qualname__") and _is_ours(value):
        return CodeContent(f"{value.__module__}.{value.__qualname__}", {}, ())
    content = code_content(value, libraries=_version_that_counts)
    for sentence in content.unknown:
        warn(
            f"A study knows a sampler or function of yours by its code and everything that this code reads, but "
            f"{sentence}. It counts by its type alone: after a change of it, name another store.",
            ApproxMCMCWarning,
        )
    return content


def _is_ours(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").startswith("approxmcmc.")


def _version_that_counts(package: str) -> str | None:
    """Return "" also for libraries whose versions the provenance of each record holds.

    The samplers of this package that call them count so, too.
    """
    return "" if package.lower().replace("_", "-") in LIBRARIES else installed_version(package)
