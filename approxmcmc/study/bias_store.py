"""Biases on disk: figures and a report for each setting, in the folder ``bias`` of a store; the report comes last."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from approxmcmc.engine.whole_files import whole_file
from approxmcmc.study.json_files import read_json, write_json
from approxmcmc.study.plan import digest
from approxmcmc.study.record import BiasReport
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import xarray as xr


def bias_path(store: Store, target: str, label: str) -> Path:
    """Return the file of a setting's report; the figures lie beside it, as ``.nc``."""
    return store.folder / "bias" / f"{digest('bias', target, label)[:16]}.json"


def bias_report(store: Store, target: str, label: str) -> BiasReport | None:
    """Return what became of the biases of a setting, or None; without the figures that it promises it is none."""
    path = bias_path(store, target, label)
    report = cast("BiasReport | None", read_json(path, "request", "status", "seconds"))
    whole = report is not None and (report["status"] != "done" or path.with_suffix(".nc").is_file())
    return report if whole else None


def write_bias(store: Store, report: BiasReport, found: "xr.Dataset | None") -> None:
    """Write the biases of a setting, if they could be estimated, then their report."""
    path = bias_path(store, report["target"], report["label"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.with_suffix(".nc").unlink(missing_ok=True)
    if found is not None:
        with whole_file(path.with_suffix(".nc")) as temporary:
            found.to_netcdf(temporary, engine="netcdf4")
    write_json(path, report)


def stored_bias(store: Store, target: str, label: str) -> "xr.Dataset | None":
    """Return the stored biases of a setting, or None."""
    import xarray as xr

    report = bias_report(store, target, label)
    if report is None or report["status"] != "done":
        return None
    with xr.open_dataset(bias_path(store, target, label).with_suffix(".nc"), engine="netcdf4") as opened:
        return opened.load()
