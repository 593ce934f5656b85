"""Tables that a user reads: every text in full, no empty column, few digits.

pandas cuts texts after 50 characters and hides columns that do not fit, so that the advice of a check, or the reason
why a candidate was not tried, is not seen.
"""

import math
import textwrap
from typing import Any

import pandas as pd

LONG = 30  # characters; longer texts are written below their row
WIDTH = 120
SHOWN_WHOLE = 100  # rows; longer tables are shown by pandas


class ShownTable(pd.DataFrame):
    """A `pandas.DataFrame` that shows its texts in full. What is selected or computed from it is a plain DataFrame.

    Examples
    --------
    >>> ShownTable({"check": ["R-hat"], "limit": [1.01], "where": [""], "finding": ["R-hat is below " + "9" * 30]})
       check  limit
    0  R-hat   1.01
         finding: R-hat is below 999999999999999999999999999999
    """

    @property
    def _constructor(self) -> Any:
        """The class of selections and results."""
        return pd.DataFrame

    def __repr__(self) -> str:
        """Show short entries in columns, and long texts below their row."""
        if not 0 < len(self) <= SHOWN_WHOLE:
            return repr(pd.DataFrame(self))
        filled = filled_columns(self)
        long = [name for name in filled if filled[name].map(lambda entry: len(_text(entry))).max() > LONG]
        table = filled.drop(columns=long).to_string(float_format=_number, na_rep="", line_width=None)
        lines = table.splitlines()
        head = len(lines) - len(filled)
        shown = lines[:head]
        for line, (_, row) in zip(lines[head:], filled.iterrows(), strict=True):
            shown.append(line)
            for name in long:
                if text := _text(row[name]):
                    wrapped = textwrap.wrap(f"{name}: {text}", WIDTH, initial_indent=" " * 5, subsequent_indent=" " * 7)
                    shown += wrapped
        return "\n".join(shown)

    def _repr_html_(self) -> str:
        """Show the filled columns, with texts in full."""
        if not 0 < len(self) <= SHOWN_WHOLE:
            return str(pd.DataFrame(self)._repr_html_())
        with pd.option_context("display.max_colwidth", None):
            return str(filled_columns(self).to_html(float_format=_number, na_rep=""))


def filled_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table without columns in which every entry is missing or an empty text."""
    filled = [name for name in table if any(_text(entry) for entry in table[name])]
    return pd.DataFrame(table)[filled]


def _text(entry: Any) -> str:
    """Return an entry as text; "" if it is missing."""
    return "" if entry is None or (isinstance(entry, float) and math.isnan(entry)) else str(entry)


def _number(value: float) -> str:
    return f"{value:.4g}"
