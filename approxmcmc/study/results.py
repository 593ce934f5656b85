"""The results of a study in a store: records of all planned cells, their traces, and the gold standards."""

import collections
import dataclasses
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.contracts import Target
from approxmcmc.errors import StudyError
from approxmcmc.study.bias_store import bias_report, bias_request, stored_bias
from approxmcmc.study.declare import Declaration
from approxmcmc.study.gold import stored_gold
from approxmcmc.study.latest import command_arguments, latest
from approxmcmc.study.plan import Plan, make_plan
from approxmcmc.study.record import COLUMNS, BiasReport, GoldReport, planned_record
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from approxmcmc.study.report.document import Report


@dataclasses.dataclass(frozen=True, eq=False)
class StudyResults:
    """The results of a study at one preset, finished or not.

    Parameters
    ----------
    study
        The study, with the preset applied.
    preset
        Name of the preset.
    plan
        The cells.
    store
        The folder of the results.
    code_version
        Version of the code that drew the cells; `records` holds only cells of this version.
    source
        The study's file as the user named it; "" if it has none.
    """

    study: Declaration
    preset: str
    plan: Plan
    store: Store
    code_version: str
    source: str = ""

    @staticmethod
    def open(
        study: Declaration, preset: str, base: Path, *, allow_stale: bool = False, source: str = ""
    ) -> "StudyResults":
        """Return the results below `base`.

        Only finished cells of one version of the code are used: the current version, or an earlier one if no cell is
        current.

        Raises
        ------
        StudyError
            If the finished cells come from different code versions. `allow_stale` takes those of the current version,
            or else of the version with most cells.
        """
        plan = make_plan(study, preset)
        store = Store.of(base, study.name, preset)
        counts = collections.Counter(
            record["code_version"] for record in latest(plan, store.records()).values() if record["status"] == "done"
        )
        if len(counts) > 1 and not allow_stale:
            drawn = ", ".join(f"{count} by {version}" for version, count in sorted(counts.items()))
            raise StudyError(
                f"The finished cells in {store.folder} come from different versions of the code ({drawn}; the current "
                f"one is {plan.code_version}), and results of two versions do not mix. `approxmcmc run` computes the "
                "stale cells again."
            )
        version = plan.code_version
        if counts and version not in counts:
            version = _version_with_most_cells(plan, store)
        return StudyResults(plan.study, preset, plan, store, version, source)

    @functools.cached_property
    def records(self) -> "pd.DataFrame":
        """One row per planned cell in running order; status ``missing`` if it has no record."""
        import pandas as pd

        stored = {
            identity: record
            for identity, record in latest(self.plan, self.store.records(), prefer=self.code_version).items()
            if record["code_version"] == self.code_version
        }
        rows = [
            {**planned_record(cell, self.plan), **stored.get(cell.identity, {"status": "missing"})}
            for cell in self.plan.cells
        ]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    @property
    def stale(self) -> bool:
        """Whether the results come from an earlier version of the code."""
        return self.code_version != self.plan.code_version

    def traces(self) -> dict[tuple[str, str], list["xr.DataTree"]]:
        """Return the traces of finished cells by (target, label), in the order of replicates."""
        traces: dict[tuple[str, str], list[xr.DataTree]] = {}
        done = self.records[self.records["status"] == "done"]
        by_setting = {key: group.sort_values("replicate")["key"] for key, group in done.groupby(["target", "label"])}
        for target in self.study.targets:  # in the order declared
            for setting in self.study.settings():
                if (target, setting.label) in by_setting:
                    keys = by_setting[target, setting.label]
                    traces[target, setting.label] = [self._trace(str(key)) for key in keys]
        return traces

    def reference(self, target_name: str) -> "xr.DataTree | None":
        """Return the gold standard of a target; None if it is missing, outdated, or was refused by a gate."""
        return self._gold.get(target_name)

    def gold_report(self, target_name: str) -> GoldReport | None:
        """Return status, gates, command, settings and seconds of a target's gold standard; None if not made yet."""
        return self.store.gold_report(target_name)

    def bias(self, target_name: str, label: str) -> "xr.Dataset | None":
        """Return the biases that :func:`approxmcmc.bias` estimated for a setting from these draws; None if unknown."""
        return None if self.bias_report(target_name, label) is None else stored_bias(self.store, target_name, label)

    def bias_report(self, target_name: str, label: str) -> BiasReport | None:
        """Return the report on the biases of a setting; None if it is missing or of other draws or settings."""
        report = None if self.study.bias is None else bias_report(self.store, target_name, label)
        if report is None:
            return None
        done = self.records[self.records["status"].eq("done") & self.records["target"].eq(target_name)]
        draws = done.loc[done["label"].eq(label), "draws_hash"].tolist()
        [setting] = [each for each in self.study.settings() if each.label == label]
        fits = report["request"] == bias_request(self.study, target_name, setting, draws)["request"]
        return report if fits else None

    def report(self, path: str | os.PathLike[str] | None = None) -> "Report":
        """Return the report: answer, tables and figures, which a notebook shows as the page.

        Parameters
        ----------
        path
            Folder that receives the page ``index.html``, its figures and its tables; None: nothing is written.
        """
        if path is not None:
            self._report.write(path)
        return self._report

    def table(self, title: str) -> "pd.DataFrame":
        """Return the rows of a table of the report, or those that one of its figures draws, by title."""
        return self._report.table(title)

    def figure(self, title: str) -> Any:
        """Return a figure of the report by title, which its `savefig` writes as SVG, PDF or PNG."""
        return self._report.figure(title)

    @functools.cached_property
    def _report(self) -> "Report":
        from approxmcmc.study.report.content import compose

        return compose(self)

    def target(self, name: str) -> Target:
        """Return a target of the study."""
        return self.study.target(name)

    @property
    def provenance(self) -> dict[str, Any]:
        """Code, machine and software of the records by name; facts that differ between runs are named with the run.

        Runs whose file of facts was lost are named, too.
        """
        used = set(self.records["provenance"].dropna())
        machines = {name: facts for name, facts in self.store.provenance().items() if name in used}
        lost = {f"{name}: provenance": "its file was lost" for name in sorted(used - machines.keys())}
        first = next(iter(machines.values()), {})
        common = {
            fact: value for fact, value in first.items() if all(facts.get(fact) == value for facts in machines.values())
        }
        apart = {
            f"{name}: {fact}": value
            for name, facts in machines.items()
            for fact, value in facts.items()
            if fact not in common
        }
        return common | apart | lost

    @property
    def command(self) -> str:
        """The command that makes missing cells and the page; finished cells are read, not run again."""
        return f"approxmcmc run {self._arguments}"

    def rerun_command(self, key: str) -> str:
        """Return the command that runs one cell again."""
        return f"approxmcmc retry {self._arguments} --cell {key}"

    @property
    def _arguments(self) -> str:
        return command_arguments(self.source or self.study.name, self.preset, self.store)

    @functools.cached_property
    def _gold(self) -> dict[str, "xr.DataTree"]:
        stored = {name: stored_gold(self.study, self.preset, name, self.store) for name in self.study.targets}
        return {name: tree for name, tree in stored.items() if tree is not None}

    @functools.cached_property
    def _read(self) -> dict[str, "xr.DataTree"]:
        return {}

    def _trace(self, key: str) -> "xr.DataTree":
        if key not in self._read:
            self._read[key] = self.store.trace(key)
        return self._read[key]


def _version_with_most_cells(plan: Plan, store: Store) -> str:
    """Return the version of the code that finished most of the planned cells; several may have finished one cell."""
    planned = {cell.identity for cell in plan.cells}
    counts = collections.Counter(
        record["code_version"]
        for record in store.records().values()
        if record["identity"] in planned and record["status"] == "done"
    )
    return max(counts, key=lambda version: (counts[version], version))
