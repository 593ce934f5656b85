"""The biases of a study's settings, from audited draws: estimated once per setting, stored with the cells.

Once every cell of a setting has finished or failed, its finished chains, cut to the length of the shortest, are passed
to `approxmcmc.bias` as one run. A stored result belongs to a request, a hash of draws, sampler and settings, and is
reused while that hash is unchanged.
"""

import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from approxmcmc.contracts import WholeSampler
from approxmcmc.errors import ApproxMCMCError, SamplingWarning
from approxmcmc.output.reading import without_origin
from approxmcmc.study.bias_store import bias_report, bias_request, stored_bias, write_bias
from approxmcmc.study.declare import Bias, Declaration
from approxmcmc.study.json_files import is_intact
from approxmcmc.study.knobs import Setting
from approxmcmc.study.latest import latest
from approxmcmc.study.plan import Plan
from approxmcmc.study.record import BiasReport, Record, cause
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import xarray as xr


def make_biases(plan: Plan, store: Store) -> Iterator[BiasReport]:
    """Yield the bias report of each setting whose cells have all ended, some of them done.

    The biases are estimated first if there is no stored report on these draws and settings.
    """
    if plan.study.bias is None:
        return
    recorded = latest(plan, store.records())
    for target in plan.study.targets:
        for setting in plan.study.settings():
            cells = [cell for cell in plan.cells if (cell.target, cell.label) == (target, setting.label)]
            records = [recorded[cell.identity] for cell in cells if cell.identity in recorded]
            if len(records) == len(cells) and any(record["status"] == "done" for record in records):
                yield _stored_or_made(plan, store, target, setting, records)


def _stored_or_made(plan: Plan, store: Store, target: str, setting: Setting, records: Sequence[Record]) -> BiasReport:
    done = [record for record in records if record["status"] == "done"]
    request = bias_request(plan.study, target, setting, [record.get("draws_hash", "") for record in done])
    stored = bias_report(store, target, setting.label)
    if (
        stored is not None
        and stored["request"] == request["request"]
        and (stored["status"] != "done" or is_intact(lambda: stored_bias(store, target, setting.label)))
    ):
        return stored
    start = time.perf_counter()
    estimate: xr.Dataset | None = None
    try:
        run = as_one_run([store.trace(record["key"]) for record in done])
        estimate = _estimate(plan.study, target, setting, run, request["random_seed"])
        report: BiasReport = {**request, "status": "done", "error": None}
    except Exception as problem:  # an error is a result of the study; the other settings continue
        text = str(problem) if isinstance(problem, ApproxMCMCError) else traceback.format_exc()
        report = {**request, "status": "failed", "error": text}
    report["seconds"] = time.perf_counter() - start
    write_bias(store, report, estimate)
    return report


def _estimate(study: Declaration, name: str, setting: Setting, run: "xr.DataTree", seed: int) -> "xr.Dataset":
    from approxmcmc.couplings import bias

    asked = study.bias or Bias()
    target = study.target(name)
    sampler: Any = setting.sampler
    if asked.of is not None:
        target, sampler = asked.of(target, sampler)
        run = without_origin(run)  # the trace records the wrapped sampler and target of the study
    if isinstance(sampler, WholeSampler):
        sampler = None  # it has no steps to audit: the draws are judged as those from elsewhere
        run = without_origin(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # the verdict reports the same problems
        return bias(
            run,
            target,
            sampler,
            asked.estimands,
            kernel=None if asked.kernel is None else asked.kernel(target),
            max_steps=asked.max_steps,
            n_audits=asked.n_audits,
            seconds=asked.seconds,
            form=asked.form,
            random_seed=seed,
        )


def as_one_run(traces: "Sequence[xr.DataTree]") -> "xr.DataTree":
    """Return one-chain traces as the chains of one run, all cut to the length of the shortest."""
    import xarray as xr

    draws = min(trace["posterior"].sizes["draw"] for trace in traces)
    groups = {
        name: xr.concat(
            [
                trace[name].to_dataset().isel(draw=slice(draws)).assign_coords(chain=[chain])
                for chain, trace in enumerate(traces)
            ],
            "chain",
            combine_attrs="override",
        )
        for name in ("posterior", "sample_stats")
    }
    return xr.DataTree.from_dict(groups)


def bias_line(report: Mapping[str, Any], estimate: "xr.Dataset | None") -> str:
    """Return one line about the biases of a setting: the verdict, or why it is missing."""
    where = f"bias {report['target']} {report['label']}"
    if estimate is None:
        return f"{where}: {cause(report['error'])}"
    return f"{where}: {estimate['verdict'].item()} in {report['seconds']:.1f} s ({estimate['reasons'].item()})"
