"""Without the libraries of an extra, what needs them says which extra to install."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from approxmcmc.datasets.uci import fetch_samples
from approxmcmc.engine.extras import EXTRAS, extra
from approxmcmc.errors import MissingExtraError
from approxmcmc.study.engines import check_dask
from approxmcmc.study.report.document import Report
from approxmcmc.whole_chains import by_nutpie


@pytest.mark.parametrize(
    ("library", "named", "use"),
    [
        ("sklearn", "downloads", fetch_samples),
        ("distributed", "studies", check_dask),
        ("nutpie", "nutpie", lambda: by_nutpie.compile_model(None, None)),
    ],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, library, named, use):
    loaded = [name for name in sys.modules if name.startswith(f"{library}.")]  # by other tests
    for name in (library, *loaded):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=re.escape(f'pip install "approxmcmc[{named}]"')):
        use()


def test_a_report_without_jinja_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"A report needs jinja2.*approxmcmc\[studies\]"):
        Report("", "", (), (), ()).write(tmp_path)


def test_a_library_that_is_broken_is_not_called_missing():
    with pytest.raises(ModuleNotFoundError, match="no_such_library") as caught, extra("studies", "A report"):
        import no_such_library  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)


def test_the_table_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, libraries in EXTRAS.items():
        listed = {re.match(r"[\w-]+", line)[0] for line in project["optional-dependencies"][name]}
        assert set(libraries.values()) == listed - {"approxmcmc"}
