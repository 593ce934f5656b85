"""Tables of the session: the tests of each module, and the mutants that are equivalent to the module."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "approxmcmc"
STORE = ROOT / "results" / "mutants"
ROOMS = ("acceptance", "audits", "bounds", "proposals", "samplers")
ALONE = ("importance.py", "diagnostics/risk.py", "sampling/chain.py", "surrogate/transition.py")
ANY = "any module"


def read(name):
    """Return a table of this folder."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def mapped_tests():
    """Return the tests of each module, without the shared ones: those of the table, else those that name the module."""
    table = read("modules.toml")["tests"]
    return table | {module: files_naming(module) for module in modules() if module not in table}


def files_naming(module):
    """Return the test files that contain the name of a module or of a public class that it defines."""
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    words = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in (name_of(module), *classes)))
    files = [file for folder in ("unit", "oracle") for file in sorted((ROOT / "tests" / folder).rglob("test_*.py"))]
    return [file.relative_to(ROOT).as_posix() for file in files if words.search(file.read_text(encoding="utf-8"))]


def shared_tests():
    """Return the tests that are run for every module."""
    return read("modules.toml")["shared"]


def files_of(tests):
    """Return the files of these tests, in their order."""
    return list(dict.fromkeys(test.split("::")[0] for test in tests))


def name_of(module):
    """Return the name by which a module is imported."""
    return ".".join(("approxmcmc", *Path(module).with_suffix("").parts))


def modules():
    """Return the modules that must have tests in the table."""
    files = [file for room in ROOMS for file in sorted((PACKAGE / room).rglob("*.py")) if file.name != "__init__.py"]
    return [*(str(file.relative_to(PACKAGE)) for file in files), *ALONE]


def listed_modules():
    """Return the modules with equivalent mutants."""
    return set(read("equivalent.toml")) - {ANY}


def equivalents(module, survivors):
    """Return the listed mutants of a module, (function, line, line of the mutant), as often as listed.

    Of those listed for any module the ones that have survived count.
    """
    table = read("equivalent.toml")
    anywhere = {(line, mutant) for rows in table[ANY].values() for line, mutant, _ in rows}
    by_function = table.get(module, {}).items()
    listed = Counter((function, line, mutant) for function, rows in by_function for line, mutant, _ in rows)
    return listed + Counter({mutant: n for mutant, n in survivors.items() if mutant[1:] in anywhere})
