"""What is kept beside the session: the tests of each module, and the mutants that nothing can tell from it."""

import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "approxmcmc"
ROOMS = ("acceptance", "bounds", "proposals", "samplers")
ALONE = ("diagnostics/risk.py",)


def read(name):
    """Return a table of this folder."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def mapped_tests():
    """Return the test files of each module."""
    return read("modules.toml")["tests"]


def modules():
    """Return the modules that must have tests in the table."""
    files = [file for room in ROOMS for file in sorted((PACKAGE / room).rglob("*.py")) if file.name != "__init__.py"]
    return [*(str(file.relative_to(PACKAGE)) for file in files), *ALONE]


def equivalents():
    """Return for each module the equivalent mutants as (function, line, line of the mutant), as often as listed."""
    return {
        module: Counter((one["in"], one["line"], one["mutant"]) for one in several)
        for module, several in read("equivalent.toml").items()
    }
