"""The file of a run: its settings, what was derived from them, and its current state.

A run resumes only if target, sampler, seed, settings and versions are those that it began with; otherwise the error
shows both sides of each difference.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.checkpoints.tables import Checkpoint, read_checkpoint, write_checkpoint
from approxmcmc.checkpoints.when import Checkpoints
from approxmcmc.contracts import LatentTarget, Target, Variables, content_hash
from approxmcmc.contracts.speaker import speaking
from approxmcmc.engine.checks import checked_integer, differences_of, of_another_type
from approxmcmc.engine.compiler.code_version import code_version, version
from approxmcmc.engine.files.whole_files import remove_leftovers
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import CheckpointWarning, InvalidInputError, warn
from approxmcmc.sampling.assembly import Settings, as_points
from approxmcmc.sampling.recorder import Snapshot


@dataclasses.dataclass
class RunFile:
    """The file of a run: its settings, what was derived from them, and its current state.

    `asked` is the result of `what_was_asked`, and must be equal when the run resumes. `made` was derived from it when
    the run began: the sampler and the tuning steps, which may have been chosen, the rate of audits, the starting
    points. `begun` is the last snapshot of the chains, None for a new run; `trace` is None until the run has finished.
    """

    path: Path
    asked: Mapping[str, Any]
    made: dict[str, Any] = dataclasses.field(default_factory=dict)
    begun: Snapshot | None = None
    trace: xr.DataTree | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Raise InvalidInputError that names the file for every error that a value from the file causes."""
        try:
            with speaking(""):  # the sentence becomes a part of the message below
                yield
        except Exception as error:  # a forged value may have any type
            raise InvalidInputError(
                f"{self.path} holds a checkpoint that does not fit this run: {error}. Copy it again, or remove it and "
                "start a new run"
            ) from error

    def settings(self) -> Settings:
        """Return the settings of the run in the file, checked as `sample` checks its arguments."""
        others = ("target", "returned", "sampler", "initvals", "version")
        settings = Settings(**{name: value for name, value in self.asked.items() if name not in others})
        settings = settings._replace(tune=self.made["tune"])
        if wrong := of_another_type(settings._asdict(), Settings):
            raise InvalidInputError("; ".join(wrong))
        for name, least in {"chains": 1, "thin": 1, "every": 1, "draws": 0, "tune": 0}.items():
            value = getattr(settings, name)
            if value is not None or least:
                checked_integer(value, name, least)
        for name in ("target_ess", "time_limit", "enough"):
            value = getattr(settings, name)
            if value is not None and not value > 0:
                raise InvalidInputError(f"{name} must be a positive number or None, found {value!r}")
        if settings.draws is None and settings.target_ess is None:
            raise InvalidInputError("draws and target_ess are both None")
        _check_audit_every(settings.audit_every)
        seed_sequences(settings.seed, settings.chains)
        return settings

    def start(self) -> tuple[int | str | None, np.ndarray]:
        """Return the rate of audits and the starting points, shape (chains, dim), with which the chains were made."""
        audit_every = self.made["audit_every"]
        starts = np.array(self.made["starts"], dtype=float)
        _check_audit_every(audit_every)
        if starts.ndim != 2 or len(starts) != self.asked["chains"] or not np.isfinite(starts).all():
            raise InvalidInputError(f"the starting points of {self.asked['chains']} chains have shape {starts.shape}")
        return audit_every, starts

    def checkpoints(self) -> Checkpoints:
        """Return the object that writes the checkpoints of this run."""
        return Checkpoints(self.write)

    def write(
        self, snapshot: Snapshot, trace: xr.DataTree | None = None, columns: Sequence[tuple[str, int]] = ()
    ) -> None:
        """Write the settings, the snapshot and the trace of a finished run to the file, atomically.

        `columns`: see `tables.columns_of`.
        """
        write_checkpoint(self.path, {"asked": self.asked, "made": self.made}, snapshot, trace, columns)

    def close(self, snapshot: Snapshot, trace: xr.DataTree, columns: Sequence[tuple[str, int]]) -> None:
        """Write the final snapshot and the trace of a finished run; warn if that fails, so that no draw is lost."""
        try:
            self.write(snapshot, trace, columns)
        except (
            OSError,
            TypeError,
            ValueError,
            NotImplementedError,
        ) as error:  # types unknown to netCDF
            warn(f"the trace could not be written to {self.path}: {error}", CheckpointWarning)


def what_was_asked(target: Target, sampler: Any, settings: Settings, initvals: Any) -> dict[str, Any]:
    """Return the arguments and versions on which the draws of a run depend, as a dict that JSON can store."""
    return {
        "target": described(target),
        "returned": stored_variables(target),
        "sampler": None if sampler is None else plain(sampler.to_dict()),
        **plain(settings._asdict()),
        "initvals": _start_described(initvals, target.variables, settings.chains),
        "version": versions(),
    }


def described(target: Target) -> dict[str, Any]:
    """Return the class, the number of terms and the content hash of a target; the hash reads all its data."""
    return {"kind": type(target).__name__, "n_obs": plain(target.n_obs), "content": target.content_hash()}


def stored_variables(target: Target) -> dict[str, Any]:
    """Return which effects and deterministics the user wants in the trace of a finished run."""
    whole = target.plain
    latents = whole if isinstance(whole, LatentTarget) else whole.summed
    returned = whole.returned
    return {
        "latents": None if latents is None else plain(latents.latents_wanted),
        "deterministics": None if returned is None else plain(returned.wanted),
    }


def versions() -> dict[str, str]:
    """Return the versions of this package, with a hash of its code, of NumPy and of Numba: they affect draws."""
    library = f"{version('approxmcmc')}, code {code_version()}"
    return {"approxmcmc": library, **{name: version(name) for name in ("numpy", "numba")}}


def open_run_file(path: str | os.PathLike[str], asked: Mapping[str, Any], *, any_seed: bool) -> RunFile:
    """Return the file of the run with the settings `asked`: the one in the file, or a new one if there is no file.

    The settings in the file must equal `asked`; with `any_seed` the seed may differ, and the seed in the file is used.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        When the folder does not exist, or `path` is a folder.
    InvalidInputError
        When the file holds another run, or no checkpoint, or `path` is not the name of a file.
    """
    if not isinstance(path, (str, os.PathLike)) or str(path) == "" or "\0" in str(path):
        raise InvalidInputError(f"checkpoint must be the name of a file, or None, found {path!r}")
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint: the folder {path.parent} does not exist. Create it first")
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint: {path} is a folder. Name a file, as {path / 'run.nc'}")
    remove_leftovers(path)  # the temporary file of a process that was killed while it wrote
    if not path.exists():
        return RunFile(path, asked)
    checkpoint = read_checkpoint(path)
    if any_seed:
        asked = {**asked, "seed": checkpoint.about["asked"].get("seed")}
    refuse_another_run(path, checkpoint.about["asked"], asked)
    return run_file_of(path, checkpoint)


def run_file_of(path: Path, checkpoint: Checkpoint) -> RunFile:
    """Return the file of a checkpoint that was read."""
    return RunFile(
        path, checkpoint.about["asked"], dict(checkpoint.about["made"]), checkpoint.snapshot, checkpoint.trace
    )


def refuse_another_run(path: Path, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise if the settings `stored` in a checkpoint differ from those `asked` for; the error shows each difference."""
    if lines := differences_of(stored, plain(asked)):
        shown = "\n".join(f"  {line}" for line in lines)
        raise InvalidInputError(
            f"{path} is the checkpoint of a run with other arguments. In the file -> in this call:\n{shown}\n"
            "To resume that run, repeat its call; for a new run, name another file, or remove this one"
        )


def _check_audit_every(value: Any) -> None:
    if value is not None and value != "auto":
        checked_integer(value, "audit_every")


def plain(value: Any) -> Any:
    """Return a value as it would be read back from JSON: a tuple becomes a list, an array nested lists."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _start_described(initvals: Any, variables: Variables, chains: int) -> str | None:
    """Return a hash of the starting values, None without `initvals`.

    Of a distribution its settings are hashed, because each chain draws from it with the chain's random stream.
    """
    if initvals is None:
        return None
    if callable(getattr(initvals, "draw", None)):
        return content_hash(initvals.to_dict() if hasattr(initvals, "to_dict") else repr(initvals))
    return content_hash(as_points(initvals, variables, chains))
