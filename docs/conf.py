"""Sphinx settings. Every build works offline; a warning is an error (``python3 -m nox -s docs``)."""

import re
from importlib.metadata import version as version_of
from typing import Any

import approxmcmc

for _name in approxmcmc.__all__:  # autodoc leaves out what fails to import, without a word
    getattr(approxmcmc, _name)

project = "approxmcmc"
author = "the approxmcmc developers"
copyright = author
release = version_of("approxmcmc")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "approxmcmc"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
bibtex_bibfiles = ["refs.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

autodoc_typehints = "none"  # signatures show them
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False


def _number_references_apart(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str], /) -> None:
    """Give the numbered references of each docstring labels of their own: two docstrings share a page, and a [1]."""
    label = f"#{name.replace('.', '-').lower()}-"
    lines[:] = [re.sub(r"^\.\. \[(\d+)\] |\[(\d+)\]_", lambda found: _labelled(found, label), line) for line in lines]


def _labelled(found: re.Match[str], label: str) -> str:
    return f".. [{label}{found[1]}] " if found[1] else f"[{label}{found[2]}]_"


def setup(app: Any) -> None:
    """Connect to autodoc."""
    app.connect("autodoc-process-docstring", _number_references_apart)
