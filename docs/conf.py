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
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build"]
html_theme = "furo"
toc_object_entries_show_parents = "hide"
html_title = "approxmcmc"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
bibtex_bibfiles = ["refs.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

autodoc_typehints = "none"  # signatures show them
autodoc_member_order = "bysource"
autodoc_default_options = {  # what the roles owe to each other stands once, with the roles
    "exclude-members": ", ".join(
        [f"build{what}" for what in ("", "_proposal", "_test", "_unadjusted", "_simulator", "_estimator")]
        + [f"compile{what}" for what in ("", "_gradient", "_term_range", "_conditionals", "_log_prior")]
        + [
            "constant_data",
            "content_hash",
            "draw_start",
            "initial_point",
            "likelihood_bound",
            "members",
            "observed_data",
        ]
        + ["prior_scale", "proposes_states", "setup_attrs"]
    )
}
autosummary_generate = False  # the tables point to entries on the same page
napoleon_google_docstring = False
napoleon_use_rtype = False


def _number_references_apart(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str], /) -> None:
    """Give the numbered references of each docstring labels of their own: two docstrings share a page, and a [1]."""
    label = f"#{name.replace('.', '-').lower()}-"
    lines[:] = [re.sub(r"^\.\. \[(\d+)\] |\[(\d+)\]_", lambda found: _labelled(found, label), line) for line in lines]


def _labelled(found: re.Match[str], label: str) -> str:
    return f".. [{label}{found[1]}] " if found[1] else f"[{label}{found[2]}]_"


def _show_statistics_as_a_table(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str], /) -> None:
    """Give the statistics of a trace as a table: name, type, unit, meaning."""
    if name == "approxmcmc.output.SAMPLE_STATS":
        lines += ["", ".. list-table::", "   :header-rows: 1", "", "   * - name", "     - type", "     - unit"]
        lines += ["     - meaning"]
        for variable in obj:
            lines += [f"   * - ``{variable.name}``", f"     - {variable.dtype}", f"     - {variable.units}"]
            escaped = variable.meaning.replace("|", r"\|")  # else a substitution
            lines += [f"     - {escaped}"]


def setup(app: Any) -> None:
    """Connect to autodoc."""
    app.connect("autodoc-process-docstring", _show_statistics_as_a_table)
    app.connect("autodoc-process-docstring", _number_references_apart)
