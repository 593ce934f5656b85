"""Find a study by name or path, and read it.

A study's file may import its neighbours by the name of their folder, such as ``from studies.tools import mnist``,
wherever the command is run: loading appends the folder above that folder to the module search path.
"""

import functools
import hashlib
import importlib.util
import sys
from pathlib import Path

from approxmcmc.engine.checks import nearest
from approxmcmc.errors import StudyError
from approxmcmc.study.declare import Declaration

STUDIES = Path("studies")


def study_files(folder: Path = STUDIES) -> list[Path]:
    """Return the files of a folder that may declare a study."""
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))


def find_study(name: str) -> Path:
    """Return the file of a study: a path, with or without ``.py``, or a name in ``./studies``.

    Raises
    ------
    StudyError
        If no study has this name; the message has the most similar name.
    """
    for candidate in (Path(name), Path(f"{name}.py"), STUDIES / f"{name}.py"):
        if candidate.is_file():
            return candidate
    names = [path.stem for path in study_files()]
    raise StudyError(f"There is no study {nearest(Path(name).stem, names)} A path to a file works too.")


def load_study(path: Path) -> Declaration:
    """Return the study that a file declares as ``study``; read once per process and content.

    Raises
    ------
    StudyError
        If the file does not declare a study.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise StudyError(f"There is no study file {path}.")
    return _load(path, hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest())


@functools.cache
def _load(path: Path, content: str) -> Declaration:
    if (above := str(path.parent.parent)) not in sys.path:
        sys.path.append(above)
    # Not by its content: an edit would make other classes and functions of the parts that it leaves alone.
    name = f"approxmcmc_study_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=8).hexdigest()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise StudyError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # Not by the loader: it takes compiled code of an earlier version with the same size and second.
        exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    study = getattr(module, "study", None)
    if not isinstance(study, Declaration):
        raise StudyError(f"{path.name} needs a global `study = Study(...)`; found {type(study).__name__}.")
    return study
