"""References of tall data: long exact chains; in preset paper NUTS where it passes its checks in an hour."""

import dataclasses
import functools
import warnings
from typing import TYPE_CHECKING, Any

import approxmcmc as amc
from approxmcmc.errors import SamplingWarning
from approxmcmc.reference import ChainGates, GateReport, exact_chain_reference
from approxmcmc.reference.exact_chain import influential_rows_kernel, langevin_kernel
from approxmcmc.study.report import Table
from studies.tools.in_laplace_metric import laplace_of

if TYPE_CHECKING:
    import xarray as xr

    from approxmcmc.study.results import StudyResults

SEED = 2026
FRIENDLY = ("mnist_7v9", "ijcnn1")  # where NUTS passes its checks in an hour; preset paper uses it


@dataclasses.dataclass(frozen=True)
class Effort:
    """Draws of a reference, and the limits of its checks.

    `draws` and `tune` are for each of the four chains of a kernel; `thin` is the steps per draw of the second kernel,
    MALA, which checks the first one, surrogate transitions on influential rows.
    """

    draws: int
    tune: int
    thin: int
    gates: ChainGates


EFFORT = {
    "smoke": Effort(300, 200, 4, ChainGates(1.2, 50, 1.3, 20)),
    "quick": Effort(6000, 500, 1, ChainGates(1.01, 2000, 1.2, 50)),
    "published": Effort(6000, 500, 1, ChainGates(1.01, 2000, 1.2, 50)),
    "paper": Effort(5000, 2000, 20, ChainGates()),
}


@functools.cache
def reference_of(target: Any, name: str, preset: str) -> "xr.DataTree":
    """Return the reference of a data set, with the report on its checks."""
    effort = EFFORT.get(preset, EFFORT["paper"])
    how: dict[str, Any] = {"draws": effort.draws, "tune": effort.tune, "chains": 4, "random_seed": SEED}
    how |= {"enforce": False, "cores": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # the table of references has the same content, check by check
        if name in FRIENDLY and preset == "paper":
            return amc.reference_posterior(target, **how)
        kernel = influential_rows_kernel(target)
        second = langevin_kernel(laplace_of(target), effort.thin)
        return exact_chain_reference(target, kernel, second, gates=effort.gates, **how)


def references(results: "StudyResults") -> list[Table]:
    """Tabulate origin and checks of the references of all targets with finished cells."""
    import pandas as pd

    rows = []
    for name in dict.fromkeys(name for name, _ in results.traces()):
        target = results.target(name)
        reference = reference_of(results.target(name), name, results.preset)
        attrs = reference["posterior"].attrs
        moments = reference["reference_moments"]["beta"]
        report = GateReport.from_json(attrs["gates"])
        row = {
            "data": name,
            "rows": target.n_obs,
            "parameters": target.variables.size,
            "reference": attrs["method"],
            "largest error of a mean (sd)": float((moments.sel(moment="mcse") / moments.sel(moment="sd")).max()),
            "gates": "passed" if report.passed else f"FAILED: {'; '.join(map(str, report.failures))}",
        }
        rows.append(row)
    caption = (
        "The references of the runs. NUTS must pass its usual checks; a long exact chain must pass limits on R-hat "
        "and ESS, agree with a second exact kernel, and satisfy Stein's identities. Without a reference that passes "
        "its checks no run is validated."
    )
    return [Table("References", caption, pd.DataFrame(rows))]
