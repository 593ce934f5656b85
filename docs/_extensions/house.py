"""The directive `house`: the rooms of the package as floors of a house, drawn from their imports.

Each line of the directive is `room: phrase` and says what the room is for. A room lies one floor above the highest room
that it imports, so that the picture always agrees with the code.
"""

import ast
import functools
import html
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "approxmcmc"
WIDTH, HEIGHT, GAP = 900, 52, 6
SHADES = ("#dbe7f3", "#e8eef5")  # of the floors, in turn


def imports_of_rooms(package):
    """Return the rooms that each room imports; imports for type checkers alone are left out."""
    files = [path for path in package.rglob("*.py") if path.parent != package or path.name != "__init__.py"]
    found = {path.relative_to(package).with_suffix("").parts[0]: set() for path in files}
    for path in files:
        room = path.relative_to(package).with_suffix("").parts[0]
        pending = list(ast.parse(path.read_text(encoding="utf-8")).body)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package.name}."):
                found[room].add(node.module.split(".")[1])
            pending += ast.iter_child_nodes(node)
        found[room].discard(room)
    return found


def floors(imports):
    """Return the rooms of each floor, the ground floor first."""

    @functools.cache
    def floor(room):
        return 1 + max(map(floor, imports[room]), default=-1)

    return [sorted(room for room in imports if floor(room) == k) for k in range(1 + max(map(floor, imports)))]


def draw(levels, phrases):
    """Return the house as SVG."""
    height = len(levels) * (HEIGHT + GAP) + GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">']
    for k, rooms in enumerate(reversed(levels)):
        y, wide = GAP + k * (HEIGHT + GAP), (WIDTH - GAP) / len(rooms) - GAP
        for j, room in enumerate(rooms):
            x = GAP + j * (wide + GAP)
            parts.append(
                f'<rect x="{x:.0f}" y="{y}" width="{wide:.0f}" height="{HEIGHT}" rx="4" fill="{SHADES[k % 2]}"/>'
            )
            lines = textwrap.wrap(phrases[room], int(wide / 5.8), max_lines=2)
            texts = [(room, 'font-weight="bold" font-size="13"'), *((line, 'font-size="11"') for line in lines)]
            for i, (text, look) in enumerate(texts):
                at = f'x="{x + wide / 2:.0f}" y="{y + 17 + 14 * i}" text-anchor="middle" fill="#1c2733"'
                parts.append(f"<text {at} {look}>{html.escape(text)}</text>")
    return "\n".join([*parts, "</svg>"])


def setup(app):
    """Register the directive."""
    from docutils import nodes
    from sphinx.util.docutils import SphinxDirective

    class House(SphinxDirective):
        has_content = True

        def run(self):
            phrases = dict(line.split(": ", 1) for line in self.content)
            imports = imports_of_rooms(PACKAGE)
            if phrases.keys() != imports.keys():
                raise self.error(
                    "the lines of the directive and the folders of the package name different rooms: "
                    f"{sorted(phrases.keys() ^ imports.keys())}"
                )
            return [nodes.raw("", draw(floors(imports), phrases), format="html")]

    app.add_directive("house", House)
    return {"parallel_read_safe": True}
