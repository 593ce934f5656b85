"""The tutorials run as they are printed."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "loo.md"]


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.filterwarnings("ignore")  # NUTS warns about short chains, which a page that is run often must have
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_from_top_to_bottom(path, capsys):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    scope = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(path), "exec"), scope)
    assert capsys.readouterr().out
