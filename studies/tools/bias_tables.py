"""Tabulate biases estimated from draws: their agreement with known biases, and their cost."""

import math
from typing import Any

import numpy as np

from approxmcmc.study.biases import as_one_run
from approxmcmc.study.report import Table


def agreement(table: Any) -> dict[str, float]:
    """Return how well the column `bias` agrees with the known `gap`, both with limits and in posterior sds."""
    errors = [(table[f"{name}_upper"] - table[f"{name}_lower"]) / (2.0 * 1.96) for name in ("bias", "gap")]
    z = (table["bias"] - table["gap"]) / np.hypot(*errors)
    return {
        "rms bias (sd)": float(np.sqrt((table["bias"] ** 2).mean())),
        "rms gap (sd)": float(np.sqrt((table["gap"] ** 2).mean())),
        "correlation": float(np.corrcoef(table["bias"], table["gap"])[0, 1]),
        "error of a bias": float(errors[0].median()),
        "error of a gap": float(errors[1].median()),
        "rms z": float(np.sqrt((z**2).mean())),
    }


def cost(results: Any) -> list[Table]:
    """Tabulate the error of each estimated bias, its passes over the data, and those of an equally exact mean."""
    import pandas as pd
    from arviz import ess

    rows = []
    for target in results.study.targets:
        exact = results.traces().get((target, "exact"))
        rate = math.nan
        if exact:
            run = as_one_run(exact)["posterior"].to_dataset()
            sizes = ess(run)
            effective = np.median(np.concatenate([np.ravel(sizes[name].values) for name in sizes.data_vars]))
            rate = float(effective) / (run.sizes["chain"] * run.sizes["draw"])
        for setting in results.study.settings():
            estimate = results.bias(target, setting.label)
            if estimate is None or setting.label == "exact":
                continue
            relative = (
                estimate["variance_per_audit"] / estimate["posterior_sd"].where(estimate["posterior_sd"] > 0.0) ** 2
            )
            error = float(np.sqrt(relative.median() / estimate["n_audits"]))
            rows.append(
                {
                    "target": target,
                    "setting": setting.label,
                    "verdict": str(estimate["verdict"].item()),
                    "form": estimate.attrs["form"],
                    "error of a bias (sd)": error,
                    "passes": float(estimate["passes"]),
                    "passes of the exact chain": 1.0 / error**2 / rate if error > 0.0 else math.nan,
                    "seconds": float(estimate["seconds"]),
                }
            )
    caption = (
        "Median error of a bias, in posterior sds, and the passes over the data that it took, pilots included; and "
        "the steps, each a pass, that the exact chain of independent proposals would need for the same error of a "
        "mean (computed from the effective draws per step of the exact setting). The race page has the seconds of "
        "NUTS."
    )
    return [Table("Cost of a bias", caption, pd.DataFrame(rows), formats={"passes": ",.0f"})] if rows else []
