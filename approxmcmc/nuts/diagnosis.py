"""Why a model cannot start: PyMC's own diagnosis, variable by variable."""

import contextlib
import io
from typing import Any

import numpy as np

SHOWN = 1500  # characters of PyMC's text


def why_no_start(model: Any, error: Exception) -> str:
    """Return PyMC's diagnosis of a model from which no chain could start, and what to do.

    The log density of each variable at the model's initial point comes from ``model.point_logps``; where one of them is
    not finite, ``model.debug`` shows its parameters there.
    """
    said = str(error).strip().partition("\n")[0]
    try:
        point = model.initial_point()
        logps = model.point_logps(point)
    except Exception as problem:  # of any kind, from the user's operations
        return f"NUTS cannot start: {said}. The model's initial point cannot be evaluated: {problem}"
    wrong = [name for name, value in logps.items() if not np.isfinite(value)]
    table = ", ".join(f"{name} {value}" for name, value in logps.items())
    if not wrong:
        return (
            f"NUTS cannot start: {said}. At the model's initial point all log densities are finite ({table}), so look "
            "at its gradient and at points near it: model.debug(fn='dlogp'); or give initvals inside the support"
        )
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(Exception):  # optional, and may fail too
        model.debug(point)
    return (
        f"NUTS cannot start: {said}. The log density of {', '.join(wrong)} is not finite at the model's initial point: "
        f"{table}. Correct the data or the prior of {wrong[0]}, or give initvals inside the support. PyMC's "
        f"model.debug() says:\n{text.getvalue().strip()[:SHOWN]}"
    )
