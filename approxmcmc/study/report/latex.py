r"""Tables as LaTeX, for a paper: the cells of the page, an estimate and its interval in one.

The lines are those of `booktabs`: the document needs ``\usepackage{booktabs}``, and includes a file by ``\input``.
"""

import re
from collections.abc import Callable

from approxmcmc.study.report.cells import table_view
from approxmcmc.study.report.pieces import Table

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
    "−": r"\ensuremath{-}",
    "×": r"\ensuremath{\times}",
    "∞": r"\ensuremath{\infty}",
    "±": r"\ensuremath{\pm}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
}
RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def latex(text: str) -> str:
    r"""Return a text for LaTeX: special characters are escaped, and signs of mathematics are commands.

    Examples
    --------
    >>> print(latex("t_test: 50 % & 2.5×10⁻⁷"))
    t\_test: 50 \% \& 2.5\ensuremath{\times}10\ensuremath{^{-7}}
    """
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    return re.sub("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda power: rf"\ensuremath{{^{{{power[0].translate(RAISED)}}}}}", escaped)


def latex_table(piece: Table, worded: Callable[[str], str] = str) -> str:
    """Return a table as a ``tabular`` of LaTeX; `worded` replaces labels by names."""
    view = table_view(piece, worded)
    alignment = "".join("r" if column["numeric"] else "l" for column in view["columns"])
    headings = [latex(column["heading"].strip()) for column in view["columns"]]
    rows = [[latex(" ".join(filter(None, (cell["text"], cell["interval"])))) for cell in row] for row in view["rows"]]
    lines = [" & ".join(cells) + r" \\" for cells in (headings, *rows)]
    begin = rf"\begin{{tabular}}{{{alignment}}}"
    return "\n".join([begin, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])
