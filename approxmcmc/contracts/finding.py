"""What a check of a finished run found.

The warning of `sample`, the table of `diagnose` and the attributes of a trace all use one type. It is among the roles
because acceptance tests return findings too (`AcceptanceTest.problems`).
"""

import math
from typing import Literal, NamedTuple, get_args

Verdict = Literal["failure", "warning", "not checked", "ok"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # most serious first


class Finding(NamedTuple):
    """The result of one check of a finished run.

    `check` is its name, such as ``"R-hat"``. `verdict` is ``"failure"`` (do not use these draws as a sample of the
    posterior), ``"warning"`` (they have a problem), ``"not checked"`` (the run lacks what the check needs) or ``"ok"``.
    `finding` is a plain sentence without its full stop, `advice` the next thing to do, if any. `value` and `limit` are
    the measured value and the limit beyond which the check fails, NaN for a check without a number; `where` names the
    parameters or chains concerned.

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
        """Whether the verdict is "failure" or "warning", so that the user must be warned."""
        return self.verdict in ("failure", "warning")

    def __str__(self) -> str:
        """Return the finding and the advice as one sentence."""
        return f"{self.finding}; {self.advice}" if self.advice else self.finding
