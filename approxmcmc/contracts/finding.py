"""What a check of a finished run found.

One type stands behind the warning of `sample`, the table of `diagnose` and the attributes of a trace. It lies among the
roles because an acceptance test has findings of its own (`AcceptanceTest.problems`).
"""

import math
from typing import Literal, NamedTuple, get_args

Verdict = Literal["failure", "warning", "not checked", "ok"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # most serious first


class Finding(NamedTuple):
    """One check of a finished run, and what it says.

    `check` is its name, such as ``"R-hat"``. `verdict` is ``"failure"`` (take these draws for no sample of the
    posterior), ``"warning"`` (something is wrong with them), ``"not checked"`` (the run cannot tell) or ``"ok"``.
    `finding` is a plain sentence without its full stop, `advice` the next thing to do, if any. `value` and `limit` are
    what was measured and where the check fires, NaN for a check that is no number; `where` names the parameters or
    chains concerned.

    Examples
    --------
    >>> print(Finding("pilot", "warning", "3 of 50 steps were accepted", "reduce the scale"))
    3 of 50 steps were accepted; reduce the scale
    """

    check: str
    verdict: Verdict
    finding: str
    advice: str = ""
    value: float = math.nan
    limit: float = math.nan
    where: str = ""

    @property
    def fires(self) -> bool:
        """Whether the user has to know."""
        return self.verdict in ("failure", "warning")

    def __str__(self) -> str:
        """Say what was found and what to do, as one sentence."""
        return f"{self.finding}; {self.advice}" if self.advice else self.finding
