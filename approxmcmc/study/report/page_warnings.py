"""Warnings on a page: those that can change the answer, and notes on the gold standard, the clocks and the machine."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from approxmcmc.diagnostics.risk import copies_of
from approxmcmc.reference.gates import Gates
from approxmcmc.study.cell import CLAIMS
from approxmcmc.study.declare import Gold
from approxmcmc.study.names import spelled
from approxmcmc.study.report.census import GATES, census_table, numbers, warnings_table
from approxmcmc.study.report.clocks import LEAST_CPU_SHARE, PROCESSOR, clock_of, cpu_share
from approxmcmc.study.report.evidence import Contest
from approxmcmc.study.report.families import in_words
from approxmcmc.study.report.intervals import LEAST_REPLICATES
from approxmcmc.study.report.scores import Scores
from approxmcmc.study.report.wording import counted, enumeration, number

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults

# Ratio of two settings' shares of a core above which the page warns: then some cells ran at another time than the
# others, when the machine was less or more busy.
LARGEST_UNEQUAL_SHARE = 1.5


def cautions(
    results: "StudyResults", contests: Sequence[Contest], recommended: Collection[tuple[str, str]]
) -> list[str]:
    """Return the warnings that can change the answer, which stand beside it.

    They are on gold standards that failed a gate, replicates that are copies, old code, doubtful seconds, missing
    cells, and warnings of the samplers; of a recommended setting, a pair of names of target and setting, what it
    warned of.
    """
    sentences = _failed_gates(results, contests) + copies_of_replicates(contests)
    if results.stale:
        sentences.append("An earlier version of the code drew these cells.")
    sentences += _doubtful_clocks(results)
    census = census_table(results).data
    planned, done = (int(census[name].sum()) if len(census) else 0 for name in ("planned", "done"))
    if done < planned:
        sentences.append(
            f"{planned - done} of {planned} planned cells have no result; the table of cells below lists them."
        )
    return sentences + _of_samplers(results, recommended)


def _of_samplers(results: "StudyResults", recommended: Collection[tuple[str, str]]) -> list[str]:
    """Return what recommended settings warned of, and which others warned."""
    table = warnings_table(results)
    if table is None:
        return []
    sentences = []
    others: dict[str, None] = {}
    for row in table.data.to_dict("records"):
        target, setting = (spelled(row[name], results.study.names) for name in ("target", "setting"))
        if (target, setting) in recommended:
            text = row["such as"].rstrip(".")
            sentences.append(f"{row['cells']} cells of {setting} on {target} warned, such as: {text}.")
        else:
            others[setting] = None
    if others:
        sentences.append(f'{in_words(list(others))} warned; the table "{table.title}" says of what.')
    return sentences


def banners(results: "StudyResults") -> list[str]:
    """Return the notes on all numbers of the page: on looser gates, earlier code, clocks and the machine."""
    sentences = []
    looser = looser_gold(results.study.gold)
    if looser:
        text = f"The gates of the gold standard are looser than the strict ones: {looser}."
        sentences.append(" ".join([text, *_strict_failures(results)]))
    earlier = int(results.records["drawn_by"].notna().sum())
    if earlier:
        sentences.append(
            f"An earlier version of the code drew {earlier} of these cells; the version of the others repeats their "
            "first draws bit for bit."
        )
    census = census_table(results).data
    noisy, planned = (int(census[name].sum()) if len(census) else 0 for name in ("noisy", "planned"))
    share = cpu_share(results)
    if clock_of(results) == PROCESSOR:
        sentences.append(
            f"Times are processor times, because the median cell had {share:.0%} of a core and other programs used the "
            f"rest. {_noise(results, noisy, planned)}".rstrip()
        )
    else:
        if share >= LEAST_CPU_SHARE:
            sentences.append(f"Times are those of the wall clock, because the median cell had {share:.0%} of a core.")
        sentences += _shared_wall(results, noisy, planned, share)
    return sentences


def _shared_wall(results: "StudyResults", noisy: int, planned: int, share: float) -> list[str]:
    """Return warnings about wall-clock seconds: noisy cells, a busy machine, unequal shares of a core."""
    sentences = []
    if noisy:
        sentences.append(
            f"{noisy} of {planned} cells are noisy: the machine's speed drifted while they ran. Trust the figures "
            "against data read more than those against time."
        )
    if share < LEAST_CPU_SHARE:
        sentences.append(
            f"The median cell had {share:.0%} of a core, so its wall-clock time includes time given to other programs. "
            "Settings were interleaved, so ratios are less affected than seconds."
        )
    return sentences + _unequal_shares(results)


def _failed_gates(results: "StudyResults", contests: Sequence[Contest]) -> list[str]:
    sentences = []
    for contest in contests:
        report = results.gold_report(contest.target) or {}
        failed = [gate["gate"] for gate in report.get("gates", []) if not gate["passed"]]
        if failed:
            refused = "and was refused" if report.get("status") == "refused" else "and is used anyway"
            target = spelled(contest.target, results.study.names)
            sentences.append(f"The gold standard of {target} failed {enumeration(failed)} {refused}.")
    return sentences


def copies_of_replicates(contests: Sequence[Contest]) -> list[str]:
    """Return a warning for each setting with replicates that are copies, as of a sampler that ignores its seed."""
    return [
        f"Replicates of {label} on {contest.target} have the same draws: they are one replicate, and its intervals are "
        "too narrow. The sampler must draw its random numbers from the seed that it gets."
        for contest in contests
        for label, traces in contest.traces.items()
        if traces and copies_of(traces)
    ]


def _doubtful_clocks(results: "StudyResults") -> list[str]:
    """Return a warning that names the settings whose samplers report other seconds than their cells took."""
    if "warnings" not in results.records:
        return []
    doubtful: dict[str, int] = {}
    for cell in results.records.itertuples():
        listed = cell.warnings if isinstance(cell.warnings, (list, tuple)) else []
        if any(text.startswith(CLAIMS) for text in listed):
            doubtful[str(cell.label)] = doubtful.get(str(cell.label), 0) + 1
    if not doubtful:
        return []
    cells = enumeration([f"{label} in {counted(count, 'cell')}" for label, count in doubtful.items()])
    return [
        (
            f"Times are doubtful: the sampler reports other seconds than its cell took, {cells}. Its curve against "
            "time, and comparisons with it, may be wrong; the table of warnings has both numbers."
        )
    ]


def _noise(results: "StudyResults", noisy: int, planned: int) -> str:
    """Return a sentence on noisy cells and on how much the speed of the machine varied; "" without noisy cells."""
    if not noisy:
        return ""
    done = results.records[results.records.status == "done"]
    probes = [seconds for name in ("probe_before", "probe_after") for seconds in numbers(done[name]) if seconds > 0.0]
    return (
        f"{noisy} of {planned} cells are noisy: a fixed piece of work took {number(min(probes))} to "
        f"{number(max(probes))} wall seconds. Processor times vary less, but also with the load: the chance in the "
        "verdicts is that of the chains, and what the load of the machine adds to times is not in it."
    )


def _strict_failures(results: "StudyResults") -> list[str]:
    """Return a sentence for each gold standard that fails strict gates, with the numbers found."""
    strict = dataclasses.asdict(Gates())
    sentences = []
    for target in results.study.targets:
        gates = (results.gold_report(target) or {}).get("gates", [])
        failures = []
        for gate in gates:
            for end, sign in (("max", 1.0), ("min", -1.0)):
                limit = strict.get(f"{end}_{gate['gate']}")
                if limit is not None and gate["value"] is not None and sign * (gate["value"] - limit) > 0.0:
                    failures.append(
                        f"{GATES.get(gate['gate'], gate['gate'])} {number(gate['value'])} (strict: {number(limit)})"
                    )
        if failures:
            name = spelled(target, results.study.names)
            sentences.append(
                f"That of {name} fails strict gates, {enumeration(failures)}: do not read differences of the size of "
                "its error, the square root of the floor in the table of risks."
            )
    return sentences


def looser_gold(gold: Gold | None) -> str:
    """Return which gates of a gold standard are looser than the strict ones; "" for none.

    Examples
    --------
    >>> from approxmcmc.reference import Gates
    >>> looser_gold(Gold(gates=Gates(max_r_hat=1.05)))
    'R-hat at most 1.05 instead of 1.01'
    """
    if gold is None or gold.gates is None:
        return ""
    strict = dataclasses.asdict(type(gold.gates)())
    asked = dataclasses.asdict(gold.gates)
    looser = [n for n in strict if (asked[n] < strict[n] if n.startswith("min_") else asked[n] > strict[n])]
    ends = {"min": "at least", "max": "at most"}
    parts = {name: name.split("_", 1) for name in looser}
    return ", ".join(
        f"{GATES.get(parts[name][1], parts[name][1])} {ends.get(parts[name][0], '')} {asked[name]:g} instead of "
        f"{strict[name]:g}"
        for name in looser
    )


def _unequal_shares(results: "StudyResults") -> list[str]:
    """Return a warning for each target with settings whose cells ran under different loads of the machine."""
    done = results.records[results.records.status == "done"]
    sentences = []
    for target, cells in done.groupby("target", sort=False):
        wall = cells.groupby("label")["wall_seconds"].sum()
        shares = (cells.groupby("label")["cpu_seconds"].sum() / wall)[wall > 0.0].astype(float)
        if len(shares) and shares.max() > LARGEST_UNEQUAL_SHARE * shares.min():
            sentences.append(
                f"On {target} the cells of {shares.idxmax()} had {shares.max():.0%} of a core, those of "
                f"{shares.idxmin()} {shares.min():.0%}: their seconds are not comparable. Draw both again in one run."
            )
    return sentences


def limits(scores: Sequence[Scores]) -> list[str]:
    """Return a sentence on settings with too few replicates for intervals and verdicts."""
    chains = {(score.target, name): count for score in scores for name, count in score.replicates.items()}
    few = [count for count in chains.values() if count < LEAST_REPLICATES]
    if not few:
        return []
    which = "" if len(few) == len(chains) else f" {len(few)} of {len(chains)} settings on a target have so few."
    needed = f"there are no intervals and no verdicts: {LEAST_REPLICATES} are needed."
    return [f"With {counted(max(few), 'chain')} or fewer {needed}{which}"]
