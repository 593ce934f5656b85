"""Equations as MathML, which browsers draw without a script.

Docutils translates TeX; a command that docutils does not know gives a warning with the place of the equation, hence an
error of the build.
"""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

_log = logging.getLogger(__name__)

# TeX puts a thin space between the name of a function and an argument without brackets; MathML puts none.
_FUNCTION = re.compile(r"\\(log|exp|det|dim|Pr|sup|inf|max|min)(?=\s*(?:\\(?![bB]ig|left|[,;!{])|[A-Za-z]))")

# The bars of an absolute value, as docutils writes them: a browser takes them for a relation, with space around.
_BARS = {'<mo class="mathopen">|</mo>': "prefix", "<mo>|</mo>": "postfix"}


def _mathml(node: nodes.Element, tex: str, *, display: bool) -> str:
    try:
        drawn = str(tex2mathml(_FUNCTION.sub(r"\\\1\,", tex), as_block=display))
    except MathError as problem:
        _log.warning("%s in the equation %s", problem, tex, location=node)
        return ""
    for bar, form in _BARS.items():
        drawn = drawn.replace(bar, f'<mo form="{form}">|</mo>')
    return drawn


def _inline(page: Any, node: nodes.math) -> None:
    page.body.append(_mathml(node, node.astext(), display=False))
    raise nodes.SkipNode


def _display(page: Any, node: nodes.math_block) -> None:
    page.body.append(page.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        page.body.append(f'<span class="eqno">({get_node_equation_number(page, node)})</span>')
    for equation in filter(str.strip, node.astext().split("\n\n")):
        environment = pick_math_environment(equation)
        wrapped = rf"\begin{{{environment}}}{equation}\end{{{environment}}}" if r"\\" in equation else equation
        page.body.append(_mathml(node, wrapped, display=True))
    page.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Make Sphinx write the equations of HTML pages as MathML."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
