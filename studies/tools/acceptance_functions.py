"""The acceptance functions of Metropolis and of Barker, and the condition on an acceptance function."""

from typing import Any

import numpy as np

from approxmcmc.acceptance.laws.probability import exact_probability
from approxmcmc.study.report import Figure
from approxmcmc.study.report.svg import COLOURS, subplots


def acceptance_functions(results: Any) -> list[Figure]:
    """Draw g(s) of both rules against the log ratio s; detailed balance requires g(s) = e^s g(-s) (Barker's lemma)."""
    import pandas as pd

    s = np.linspace(-6.0, 6.0, 241)
    data = pd.DataFrame({"log ratio": s, **{rule: exact_probability(s, rule) for rule in ("metropolis", "barker")}})
    figure, axis = subplots(figsize=(8.6, 3.8))
    axis.plot(s, data["metropolis"], color=COLOURS[0], label="Metropolis, min(1, exp s)")
    axis.plot(s, data["barker"], color=COLOURS[1], label="Barker, 1 / (1 + exp(-s))")
    axis.set(xlabel="log ratio s", ylabel="acceptance probability g(s)", ylim=(0.0, 1.05))
    axis.legend(fontsize=8, loc="upper left")
    caption = (
        "Any g with g(s) = exp(s) g(-s) leaves the posterior invariant. Metropolis' is the largest of them; Barker's "
        "is at least half as large, and smooth: it is the distribution function of a logistic variable, and the "
        "noise of a minibatch can be a part of this variable."
    )
    return [Figure("Acceptance functions", caption, figure, data)]
