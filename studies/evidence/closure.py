"""What a piece of evidence used: the files that its entry modules import, at any depth, and a hash of their code.

A table is older than the code that draws it if this hash has changed. Comments, docstrings and layout do not count, as
in :func:`approxmcmc.engine.compiler.code_version.code_version`, which covers all code that draws; here only what a
piece imports counts, with the files of `studies` and `tests.bench` that made it.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from approxmcmc.engine.compiler.code_version import code_tokens

ROOT = Path(__file__).parents[2]
FOLDERS = ("approxmcmc", "studies", "tests/bench")


class Imports(ast.NodeVisitor):
    """Collect what a file imports when it is loaded or inside its functions, as (module, name or None).

    Imports under ``if TYPE_CHECKING:`` are never executed. After ``import package as p`` an attribute ``p.a.b`` counts
    as the name "a.b" of the package.
    """

    def __init__(self) -> None:
        self.found: set[tuple[str, str | None]] = set()
        self._aliases: dict[str, str] = {}
        self._chains: set[tuple[str, str]] = set()

    def visit_If(self, node: ast.If) -> None:
        """Visit what runs."""
        typing_only = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.orelse if typing_only else [*node.body, *node.orelse]:
            self.visit(statement)

    def visit_Import(self, node: ast.Import) -> None:
        """Record modules, and the names under which the file uses them."""
        self.found |= {(alias.name, None) for alias in node.names}
        self._aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Record names of modules."""
        self.found |= {(node.module or "", alias.name) for alias in node.names}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Record a chain of attributes of a name."""
        names: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            names.insert(0, base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            self._chains.add((base.id, ".".join(names)))
        else:
            self.visit(base)

    def all(self) -> set[tuple[str, str | None]]:
        """Return what was found, with the attributes of modules that have another name in the file."""
        return self.found | {(self._aliases[base], chain) for base, chain in self._chains if base in self._aliases}


@functools.cache
def imports_of(source: str) -> frozenset[tuple[str, str | None]]:
    """Return what a file imports, without what only type checkers read."""
    visitor = Imports()
    visitor.visit(ast.parse(source))
    return frozenset(visitor.all())


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the modules that each module imports; a package's name means its ``__init__`` file.

    ``from package import name`` is an import of the file that defines the name, where the package's own imports tell
    it: a file that takes its neighbour's class from their package needs the neighbour and not the package. Nor does a
    file need the packages that it lies in.
    """
    imports = {module: imports_of(source) for module, source in sources.items()}
    packages = {module.rpartition(".")[0] for module in sources}

    def origins_of(package: str, name: str) -> list[str]:
        return [module for module, given in imports.get(package, ()) if given == name]

    def homes(module: str, name: str | None) -> Iterator[str]:
        first, _, rest = (name or "").partition(".")
        if first and f"{module}.{first}" in sources:
            yield from homes(f"{module}.{first}", rest or None)
        elif first and module in packages and (origins := origins_of(module, first)):
            for origin in origins:
                yield from homes(origin, first)
        elif module in sources:
            yield module

    return {
        module: {home for imported in found for home in homes(*imported)} - {module}
        for module, found in imports.items()
    }


def sources_of(root: Path, folders: Iterable[str]) -> dict[str, str]:
    """Return the text of every file in some folders by the name under which it is imported."""
    texts = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            texts[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return texts


@functools.cache
def _sources() -> dict[str, str]:
    """Return all code that evidence may use; names of the package at its top level are found in its stub."""
    texts = sources_of(ROOT, FOLDERS)
    texts["approxmcmc"] = (ROOT / "approxmcmc/__init__.pyi").read_text(encoding="utf-8")
    texts["noxfile"] = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    return texts


@functools.cache
def _graph() -> dict[str, set[str]]:
    return import_graph(_sources())


def read_again() -> None:
    """Forget the sources: the next hash is that of the files as they are then."""
    for remembered in (_sources, _graph, _hash_of):
        remembered.cache_clear()


def closure(entries: Iterable[str]) -> list[str]:
    """Return the modules that some modules import, at any depth, and these modules, sorted.

    The package itself is left out: its file only resolves names.

    Raises
    ------
    ValueError
        If an entry is not a module of the folders `FOLDERS`.
    """
    graph = _graph()
    seen: set[str] = set()
    waiting = set(entries)
    if unknown := waiting - graph.keys():
        raise ValueError(f"no file of {', '.join(FOLDERS)} is the module {sorted(unknown)[0]}")
    while waiting:
        module = waiting.pop()
        seen.add(module)
        waiting |= graph[module] - seen - {"approxmcmc"}
    return sorted(seen - {"approxmcmc"})


@functools.cache
def _hash_of(module: str) -> str:
    digest = hashlib.blake2b(module.encode(), digest_size=16)
    for token in code_tokens(_sources()[module]):
        digest.update(token.encode() + b"\0")
    return digest.hexdigest()


def code_of(entries: Iterable[str]) -> str:
    """Return a hash of the code that some modules use, see :func:`closure`."""
    digest = hashlib.blake2b(digest_size=8)
    for module in closure(entries):
        digest.update(_hash_of(module).encode())
    return digest.hexdigest()
