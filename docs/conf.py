"""Sphinx settings. Every build works offline, and so do its pages; a warning is an error (``python3 -m nox -s docs``).

Links into the pages of other libraries need their inventories, which are fetched: they are made where
APPROXMCMC_DOCS_LINKS is set, as on GitHub, and are plain text elsewhere.
"""

import os
import re
import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import arviz as az

import approxmcmc

sys.path[:0] = [str(Path(__file__).with_name("_extensions")), str(Path(__file__).parents[1])]

for _name in approxmcmc.__all__:  # autodoc leaves out modules that fail to import, and does not warn
    getattr(approxmcmc, _name)

project = "approxmcmc"
author = "the approxmcmc developers"
copyright = author
release = version_of("approxmcmc")

extensions = [
    "capabilities",
    "plans",
    "house",
    "mathml",
    "results",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build", "_generated", "examples"]  # _generated: tables that pages include
html_static_path = ["_static"]
html_css_files = ["pages.css"]
templates_path = ["_templates"]
intersphinx_mapping = {
    "arviz": ("https://python.arviz.org/en/stable/", None),
    "numba": ("https://numba.readthedocs.io/en/stable/", None),
    "numpy": ("https://numpy.org/doc/stable/", None),
    "pandas": ("https://pandas.pydata.org/docs/", None),
    "pymc": ("https://www.pymc.io/projects/docs/en/stable/", None),
    "python": ("https://docs.python.org/3/", None),
    "xarray": ("https://docs.xarray.dev/en/stable/", None),
}
if not os.environ.get("APPROXMCMC_DOCS_LINKS"):
    intersphinx_mapping = {}
html_theme = "furo"
toc_object_entries_show_parents = "hide"
html_title = "approxmcmc"

sphinx_gallery_conf = {
    "examples_dirs": ["examples/tutorials", "examples/plots"],
    "gallery_dirs": ["learn", "gallery"],
    "filename_pattern": r"\.py$",  # all scripts run; the page of an unchanged script keeps its output
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "reset_modules": (),  # without this line the style is lost after the first page
    "image_srcset": ["2x"],
    "backreferences_dir": "gallery/used",  # a page of the reference shows the pictures that use its function
    "doc_module": ("approxmcmc",),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # a page that loads scripts from elsewhere
}


def _warning(message: Any, category: type[Warning], *place: Any) -> str:
    """Return a warning as pages show it: without the path of the script, which is another one on each computer."""
    return f"{category.__name__}: {message}\n"


myst_enable_extensions = ["dollarmath", "colon_fence"]
html_math_renderer = "mathml"
myst_heading_anchors = 3
bibtex_bibfiles = ["refs.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

autodoc_typehints = "none"  # signatures show them
autodoc_member_order = "bysource"
autodoc_default_options = {  # the contract of a role is documented once, with the role
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
autosummary_generate = True  # a page for each entry of the tables of api.rst
autosummary_filename_map = {  # files whose names differ in case alone are one file on some systems
    f"approxmcmc.{name}": f"approxmcmc.{name}-capital" for name in ("datasets.TALL_DATA", "study.Knob", "study.Vary")
}
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
            escaped = variable.meaning.replace("|", r"\|")  # |name| would be a substitution
            lines += [f"     - {escaped}"]


def setup(app: Any) -> None:
    """Connect to autodoc; give all pictures one style, and warnings no paths."""
    az.style.use("arviz-variat")
    warnings.formatwarning = _warning
    app.connect("autodoc-process-docstring", _show_statistics_as_a_table)
    app.connect("autodoc-process-docstring", _number_references_apart)
