"""Biases on disk: values and a report for each setting, in a store's folder ``bias``; the report is written last."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from approxmcmc.contracts import content_hash
from approxmcmc.errors import InvalidInputError
from approxmcmc.study.declare import Bias, Declaration
from approxmcmc.study.json_files import LOST, not_whole, read_json, write_json
from approxmcmc.study.knobs import Setting
from approxmcmc.study.plan import describe, digest, function_id
from approxmcmc.study.record import BiasReport
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import xarray as xr


def bias_request(study: Declaration, target: str, setting: Setting, draws: Sequence[str]) -> BiasReport:
    """Return the inputs of a setting's bias estimate: target, sampler, draws, settings; with their hash and a seed."""
    asked = study.bias or Bias()
    request_fields: BiasReport = {
        "target": target,
        "label": setting.label,
        "target_hash": study.target(target).content_hash(),
        "sampler": describe(setting.sampler),
        "draws": sorted(draws),
        "settings": {
            "n_audits": asked.n_audits,
            "seconds": asked.seconds,
            "form": asked.form,
            "max_steps": asked.max_steps,
            **{name: function_id(getattr(asked, name)) for name in ("kernel", "of")},
            "estimands": {name: function_id(function) for name, function in (asked.estimands or {}).items()},
        },
    }
    request = digest("bias", json.loads(json.dumps(request_fields, default=str)))
    return {**request_fields, "request": request, "random_seed": int(request[:8], 16) >> 1}


def bias_path(store: Store, target: str, label: str) -> Path:
    """Return the file of a setting's report; the values are in the ``.nc`` file of the same name."""
    return store.folder / "bias" / f"{digest('bias', target, label)[:16]}.json"


def bias_report(store: Store, target: str, label: str) -> BiasReport | None:
    """Return the report on the biases of a setting; None if it was not made."""
    path = bias_path(store, target, label)
    needed = ("target", "label", "request", "status", "seconds")
    report = cast("BiasReport | None", read_json(path, *needed, fields=BiasReport))
    if report is not None and (report["target"], report["label"]) != (target, label):
        raise not_whole(path, f"it holds the report of {report['label']} on {report['target']}")
    return report


def write_bias(store: Store, report: BiasReport, estimate: "xr.Dataset | None") -> None:
    """Write the `estimate` of a setting's biases (None: they could not be estimated), then their report."""
    path = bias_path(store, report["target"], report["label"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.with_suffix(".nc").unlink(missing_ok=True)
    if estimate is not None:
        import xarray as xr

        from approxmcmc.output.files import write_tree

        write_tree(xr.DataTree(estimate), path.with_suffix(".nc"))
        report = {**report, "values_hash": _hash_of_values(estimate)}
    write_json(path, report)


def stored_bias(store: Store, target: str, label: str) -> "xr.Dataset | None":
    """Return the stored biases of a setting; None if they were not made or could not be estimated.

    Raises
    ------
    StudyError
        If their file is damaged or lost, or holds other values than its report says.
    """
    from approxmcmc.output.files import read_tree

    report = bias_report(store, target, label)
    if report is None or report["status"] != "done":
        return None
    path = bias_path(store, target, label).with_suffix(".nc")
    if not path.is_file():
        raise not_whole(path, LOST)
    try:
        estimate = read_tree(path).to_dataset()
    except InvalidInputError as error:
        raise not_whole(path, str(error)) from error
    if report.get("values_hash") != _hash_of_values(estimate):
        raise not_whole(path, "it does not hold the values of its report")
    return estimate


def _hash_of_values(estimate: "xr.Dataset") -> str:
    parts: list[Any] = []
    for name, values in sorted(estimate.data_vars.items()):
        is_number = values.dtype.kind in "biuf"  # text has another type once it was read from a file
        parts += [name, values.to_numpy() if is_number else values.to_numpy().astype(str).tolist()]
    return content_hash(*parts)
