"""Mode and curvature of a doubly intractable posterior by stochastic approximation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import approxmcmc as amc
from approxmcmc.contracts import DoublyIntractableTarget
from approxmcmc.study.report import Table

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults


def mode_and_curvature(
    results: "StudyResults", auxiliary: Any, names: Sequence[str], *, random_seed: int, **used: Sequence[float]
) -> Table:
    """Tabulate mode and inverse curvature (as standard deviations); `used` holds further columns, by name."""
    import pandas as pd

    n_steps = 2000 if results.preset == "smoke" else 20_000
    target = results.target(next(iter(results.study.targets)))
    assert isinstance(target, DoublyIntractableTarget)
    fit = amc.design.robbins_monro(
        target, auxiliary=auxiliary, n_steps=n_steps, n_curvature=n_steps // 5, random_seed=random_seed
    )
    columns = {name.replace("_", " "): list(values) for name, values in used.items()}
    data = pd.DataFrame({"statistic": list(names), "mode": fit.mode, "sd": fit.sd, **columns})
    caption = (
        f"Mode by {n_steps:,} Robbins-Monro steps, and standard deviations of the inverse curvature there from "
        f"{n_steps // 5:,} graphs, as the paper shapes its steps; auxiliary chains of {auxiliary.n_updates:,} updates. "
        "The other columns are the rounded values that shape the steps of this study."
    )
    return Table("Mode and curvature", caption, data)
