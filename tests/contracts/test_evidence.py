"""Every number of the documentation is drawn by a piece of evidence, and its page says by which version of the code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from studies.evidence import ledger, stamps
from studies.evidence.closure import closure, import_graph
from studies.evidence.draw import alone, draw
from studies.evidence.pieces import MIXED, PUBLISHED, Piece, Step, pages, pieces

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DRAWN_ELSEWHERE = {"pages.css", "austerity_mnist_risk.svg"}  # a style; a picture of a published study, see test_results


def test_every_file_of_numbers_is_drawn_by_one_piece():
    drawn = [path for piece in pieces().values() for path in piece.files]
    shipped = [path for path in (ROOT / PUBLISHED).iterdir() if path.is_file() and path.suffix != ".py"]
    static = [path for path in (DOCS / "_static").iterdir() if path.name not in DRAWN_ELSEWHERE]
    files = [path.relative_to(ROOT).as_posix() for path in (*shipped, *static, DOCS / "minutes.toml")]
    assert sorted(drawn) == sorted(files)


def test_every_piece_with_a_page_is_found_on_it():
    on_pages = {piece.name for shown in pages(DOCS).values() for piece in shown}
    assert pieces().keys() - on_pages == {"minutes"}  # shown by README


def test_only_the_pages_that_are_named_mix_versions():
    mixed = {page for page, shown in pages(DOCS).items() if len(stamps.versions_on(shown)) > 1}
    assert mixed == set(MIXED)


@pytest.mark.thorough
def test_every_piece_has_code():
    for piece in pieces().values():
        assert set(piece.entries) <= set(closure(piece.entries)), piece.name
    assert "approxmcmc.samplers.firefly.settings" in closure(["studies.firefly"])
    assert "approxmcmc.samplers.firefly.settings" not in closure(["studies.race.__main__"])


def test_attributes_of_a_package_lead_to_their_files():
    sources = {
        "p": "from p.a import f as f\nfrom p import room as room",
        "p.a": "def f(): ...",
        "p.room": "from p.room.one import One\nfrom p.room.two import Two",
        "p.room.one": "",
        "p.room.two": "",
        "user": "import p as q\nq.f()\nq.room.Two().name.other()",
    }
    assert import_graph(sources)["user"] == {"p", "p.a", "p.room.two"}


# --- a piece is drawn ---

WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
FAIL = "import pathlib, sys; sys.exit(pathlib.Path(sys.argv[1]).exists())"


def made_up(*steps):
    """Return a piece that writes `docs/table.csv` from two parts."""
    steps = (Step(("python", "-c", "print('head')"), "head"), *(Step(("python", "-c", *step)) for step in steps))
    return Piece("made_up", steps, {"docs/table.csv": ("head", "rows")}, ("studies.evidence.closure",), "table", 1.0)


@pytest.fixture
def root(tmp_path):
    """Return the root of a tree with an old table."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/table.csv").write_text("old")
    return tmp_path


@pytest.mark.thorough
def test_a_piece_that_stops_half_way_leaves_the_old_file_and_goes_on(root):
    stop = root / "stop"
    stop.touch()
    piece = made_up((WRITE, "{out}/rows", "row\n"), (FAIL, str(stop)))
    with pytest.raises(subprocess.CalledProcessError):
        draw(piece, root)
    assert (root / "docs/table.csv").read_text() == "old"
    assert stamps.origin_of(piece, root) == stamps.Origin()
    [head] = root.rglob("head")
    head.write_text("kept\n")  # a step with an output is not run again
    stop.unlink()
    draw(piece, root)
    assert (root / "docs/table.csv").read_text() == "kept\nrow\n"
    origin = stamps.origin_of(piece, root)
    assert not stamps.why_stale(piece, origin)
    assert origin.date and "cores" in origin.machine


@pytest.mark.thorough
def test_a_stamp_is_of_its_files_and_of_its_code(root):
    piece = made_up((WRITE, "{out}/rows", "row\n"))
    draw(piece, root)
    origin = stamps.origin_of(piece, root)
    assert ledger.line_of_page([piece]).startswith("*The numbers of this page are of a version that was not recorded")
    [path] = (root / stamps.STAMPS).iterdir()
    stamp = json.loads(path.read_text())
    path.write_text(json.dumps(stamp | {"code": "another"}))
    assert stamps.why_stale(piece, stamps.origin_of(piece, root)) == "the code has changed since"
    path.write_text(json.dumps(stamp))
    assert stamps.origin_of(piece, root) == origin
    (root / "docs/table.csv").write_text("written by hand")
    assert stamps.origin_of(piece, root) == stamps.Origin()


def test_two_processes_do_not_draw_at_once(root):
    with alone(root), pytest.raises(BlockingIOError), alone(root):
        pass
    with alone(root):
        pass


def test_a_line_says_version_and_date(monkeypatch):
    known = stamps.Origin(version="0123456789abcdef", code="c", date="2026-11-28")
    monkeypatch.setattr(ledger, "origin_of", lambda piece: known)
    assert ledger.line_of_page([made_up()]).startswith(
        "*The numbers of this page are of version `01234567` of the code, 28 November 2026: "
    )


@pytest.mark.thorough
def test_the_list_names_every_piece():
    run = subprocess.run(
        [sys.executable, "-m", "studies.evidence", "--list", "street", "scale"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["street", "scale", "2"]
