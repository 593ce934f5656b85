"""The content of the page, in order.

Notes, the answer, what to use, curves to explore, risk, how wrong, the study's own figures, estimated biases, published
numbers, design, cost, gold standard, census, machine, R-hat and ESS, error bounds, provenance.
"""

import dataclasses
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.diagnostics.moments import has_only_moments
from approxmcmc.study.budget import Budget
from approxmcmc.study.declare import Declaration
from approxmcmc.study.names import spelled
from approxmcmc.study.report import census, figures, tables
from approxmcmc.study.report.answer import answers, explanations, paragraph, reaching_table, use_table, without_gold
from approxmcmc.study.report.biases import bias_section, biases_of, sentence
from approxmcmc.study.report.bounds import bounds_section
from approxmcmc.study.report.cache import cached_pieces
from approxmcmc.study.report.document import Report
from approxmcmc.study.report.evidence import Contest, draws_of, gather
from approxmcmc.study.report.explorer import explorer
from approxmcmc.study.report.page_warnings import banners, cautions, limits
from approxmcmc.study.report.pieces import Figure, Note, Section, Table
from approxmcmc.study.report.published import published_section
from approxmcmc.study.report.scores import Scores, Verdicts, verdicts_of
from approxmcmc.study.report.svg import STYLE
from approxmcmc.study.report.wording import counted, data_order, naming

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults

BLIND = (
    "R-hat and effective sample size compare chains with each other. A biased sampler converges to its own stationary "
    "distribution, not to the posterior, so these statistics cannot see bias: good values here say nothing about the "
    "risk above."
)
AIMS = "Which setting has least risk at a given time, and what its approximation costs."
OWN_AIMS = "How far each setting is from what is known, and what it costs."
RISK = (
    "risk = bias² + variance of the running mean, relative to the gold standard; the estimate of bias² is corrected "
    "for the noise of the replicates and the error of the gold standard; intervals by bootstrap over replicates; "
)
OWN_PERFORMANCE = "the measures in the study's own figures; "
COUNTED = "data read per decision; wrong decisions found by audits."


def compose(results: "StudyResults") -> Report:
    """Return the report of a study from its finished cells."""
    with _style():
        gathered = _gather(results)
        verdicts = gathered.verdicts
        answer = (*answers(verdicts), *_unjudged(results, gathered)) or ("No cell is done yet.",)
        return Report(
            title=f"{results.study.name}: risk report",
            subtitle=f"Source: {results.study.reference or 'not stated'}. {_size(results)}",
            notes=(*_notes(results, gathered), *limits(verdicts.scores)),
            answer=(*answer, *paragraph("Caution", _cautions(results, gathered))),
            sections=(
                *use_sections(verdicts),
                *explorer_sections(verdicts.scores),
                *all_risk_sections(verdicts.scores),
                *_own_sections(results, gathered),
            ),
            worded=naming(labels_of(results), results.study.names),
        )


def _size(results: "StudyResults") -> str:
    """Return how much was run, in a sentence."""
    study = results.study
    size = f"{counted(study.replicates, 'chain')} of each setting, at most {_budget_in_words(study.budget)} per chain"
    return f"{size} (preset {results.preset} of the study)."


def write_report(results: "StudyResults", folder: str | os.PathLike[str]) -> Path:
    """Write the report of a study from its finished cells.

    Parameters
    ----------
    results
        Records, traces and gold standards of a study at one preset.
    folder
        Receives ``index.html``, ``figures/`` (SVG, PDF and CSV) and ``tables/`` (CSV and LaTeX);
        files of an earlier report under these names are replaced.

    Returns
    -------
    Path
        The page.
    """
    return compose(results).write(folder)


def publishable(results: "StudyResults") -> dict[str, Any]:
    """Return what a published page holds beside the tables of the risks, from which it draws the rest.

    The keys: the sections that those tables do not make, the notes, the sentences on targets without risks, the
    families and names of settings, and for each target its exact setting, the draws of its gold standard, and the
    seconds of compilation.
    """
    with _style():
        gathered = _gather(results)
        return {
            "notes": [*_cautions(results, gathered), *_notes(results, gathered)],
            "told": _unjudged(results, gathered),
            "exact": {contest.target: contest.exact for contest in gathered.judged},
            "gold_draws": {contest.target: contest.gold_draws for contest in gathered.judged},
            "waits": {contest.target: contest.waits for contest in gathered.judged},
            "families": dict(results.study.kinds),
            "names": dict(results.study.names),
            "sections": _own_sections(results, gathered),
        }


def judged_sections(verdicts: Verdicts) -> list[Section]:
    """Return the sections that the tables of the risks make: what to use; by target risk, how wrong, numbers."""
    return [*use_sections(verdicts), *all_risk_sections(verdicts.scores)]


def use_sections(verdicts: Verdicts) -> list[Section]:
    """Return the section that says which setting to use at each budget, and how long each takes to a given error."""
    pieces = tuple(piece for piece in (use_table(verdicts), reaching_table(verdicts)) if piece is not None)
    return [Section("What to use", tuple(explanations(verdicts)), pieces=pieces)] if pieces else []


def explorer_sections(scores: Sequence[Scores]) -> list[Section]:
    """Return the section whose reader chooses what is drawn; it needs a browser, so only a page has it."""
    piece = explorer(scores)
    return [Section("Explore", pieces=(piece,))] if piece else []


def all_risk_sections(scores: Sequence[Scores]) -> list[Section]:
    """Return the sections on risk of all targets."""
    several = len(scores) > 1
    return [section for score in scores for section in risk_sections(score, several=several)]


def labels_of(results: "StudyResults") -> list[str]:
    """Return the labels that `names` may name: settings, samplers and targets."""
    return [*map(str, results.records["label"].unique()), *results.study.samplers, *results.study.targets]


def _own_sections(results: "StudyResults", gathered: "_Gathered") -> list[Section]:
    """Return the sections that are not made from the risks alone, in order."""
    return [
        *_own_figures(gathered),
        *bias_section(biases_of(results)),
        *published_section(results),
        design(results, gathered.contests),
        cost_section(results, gathered.contests),
        gold_section(results),
        census_section(results, gathered.judged),
        machine_section(results),
        Section(
            "R-hat and effective sample size", (BLIND,), pieces=tuple(map(tables.convergence_table, gathered.contests))
        ),
        *bounds_section(results),
        provenance(results),
    ]


@dataclasses.dataclass(frozen=True)
class _Gathered:
    """The evidence, the verdicts by the names of the study, and the output of the study's own analyses."""

    contests: Sequence[Contest]
    judged: Sequence[Contest]
    verdicts: Verdicts
    notes: tuple[str, ...]
    pictures: tuple[Figure | Table, ...]


def _style() -> Any:
    import matplotlib as mpl

    return mpl.rc_context(STYLE)


def _gather(results: "StudyResults") -> _Gathered:
    contests = gather(results)
    analysed = cached_pieces(results, "analyses", _analysed) if contests else []
    judged = [contest for contest in contests if contest.reference is not None]
    return _Gathered(
        contests,
        judged,
        verdicts_of([contest.named(results.study.names) for contest in judged]),
        tuple(piece.text for piece in analysed if isinstance(piece, Note)),
        tuple(piece for piece in analysed if not isinstance(piece, Note)),
    )


def _analysed(results: "StudyResults") -> list[Figure | Table | Note]:
    return [piece for analysis in results.study.analyses for piece in analysis(results)]


def _notes(results: "StudyResults", gathered: _Gathered) -> list[str]:
    return [*gathered.notes, *banners(results)]


def _cautions(results: "StudyResults", gathered: _Gathered) -> list[str]:
    """Return the warnings that can change the answer."""
    orders = gathered.verdicts.orders.items()
    return cautions(results, gathered.contests, {(target, order.best) for (target, _), order in orders if order.best})


def _unjudged(results: "StudyResults", gathered: _Gathered) -> list[str]:
    """Return sentences on the estimated biases, and on targets without risks; equal sentences appear once."""
    options = {"gold_wanted": results.study.gold is not None, "own_figures": bool(gathered.pictures)}
    biases = biases_of(results)
    sentences = [text for contest in gathered.contests if (text := sentence(contest.target, biases))]
    for contest in gathered.contests:
        if contest.reference is None or not contest.estimands:
            sentences += without_gold(spelled(contest.target, results.study.names), **options)
    return list(dict.fromkeys(sentences))


def _own_figures(gathered: _Gathered, title: str = "The study's own figures") -> list[Section]:
    return [Section(title, pieces=gathered.pictures)] if gathered.pictures else []


def design(results: "StudyResults", contests: Sequence[Contest]) -> Section:
    """Return the design as Morris, White and Crowther (2019) order it: aims, data, estimands, methods, performance."""
    study = results.study
    others = "".join(f", on {target} {_budget_in_words(own)}" for target, own in study.budgets.items())
    budget = f"at most {_budget_in_words(study.budget)} per chain, on the clock that its sampler reads{others}"
    kept = counted(study.thin, "step")
    chains = counted(study.replicates, "chain")
    terms = (
        ("Aims", f"{OWN_AIMS if study.gold is None else AIMS} Source: {study.reference}."),
        (
            "Data",
            "; ".join(
                f"{spelled(c.target, study.names)}, N = {counted(results.target(c.target).n_obs, 'term')}"
                for c in contests
            ),
        ),
        ("Data order", data_order(contests, study.names) or "no cell is done yet"),
        ("Estimands", estimands_in_words(study)),
        ("Methods", "; ".join(spelled(setting.label, study.names) for setting in study.settings())),
        ("Performance", (OWN_PERFORMANCE if study.gold is None else RISK) + COUNTED),
        ("Budget", f"{budget}, {counted(study.tune, 'tuning step')}, {kept} for each draw that is kept"),
        ("Replicates", f"{chains} of each setting, interleaved in blocks; study seed {study.seed}"),
    )
    return Section("Design", terms=terms)


def _budget_in_words(budget: Budget) -> str:
    limits = {"draws": "draws", "seconds": "s of sampling"}
    return " or ".join(f"{value:,g} {limits[name]}" for name, value in dataclasses.asdict(budget).items() if value)


def estimands_in_words(study: Declaration) -> str:
    """Return a description of the estimands; for a function that makes them, its docstring."""
    if callable(study.estimands):
        summary = (inspect.getdoc(study.estimands) or study.estimands.__name__).splitlines()[0]
        summary = re.sub(r"^Return (\w+: )?(.)", lambda match: match[2].upper(), summary)
        return f"{summary} Averaged over coordinates: {', '.join(study.average_over) or 'none'}."
    averaged = {
        name: " (averaged over its coordinates)" if name in study.average_over else "" for name in study.estimands or {}
    }
    return "; ".join(f"{name.replace('_', ' ')}{how}" for name, how in averaged.items()) or (
        "means, variances and tail probabilities of all coordinates, in posterior standard deviations"
    )


def risk_sections(scores: Scores, *, several: bool) -> list[Section]:
    """Return the sections on risk of one target; without curves only those of numbers."""
    suffix = f", {scores.target}" if several else ""
    curves = []
    if scores.over_time is not None and len(scores.over_time):
        drawn = figures.risk_against_time(scores), figures.risk_with_setup(scores), figures.risk_against_data(scores)
        curves = [
            Section(f"Risk{suffix}", pieces=tuple(piece for piece in drawn if piece is not None)),
            Section(f"Bias and variance{suffix}", pieces=(figures.bias_and_variance(scores),)),
        ]
    departures = tables.departures_table(scores)
    return [
        *curves[:1],
        *([Section(f"How wrong{suffix}", pieces=(departures,))] if departures else []),
        *curves[1:],
        Section(f"Risk table{suffix}", pieces=(tables.risk_table(scores),)),
    ]


def cost_section(results: "StudyResults", contests: Sequence[Contest]) -> Section:
    """Return the section with two tables for all targets: the cost of decisions, and seconds."""
    makers = tables.cost_table, tables.seconds_table
    by_target = [{contest.target: table(results, contest) for contest in contests} for table in makers]
    costs, seconds = (tables.over_targets(tables_of) if tables_of else None for tables_of in by_target)
    kept = [costs] if costs and tables.tells_costs(costs.data) else []
    return Section("Cost", pieces=(*kept, *([seconds] if seconds else [])))


def gold_section(results: "StudyResults") -> Section:
    """Return the section on gold standards: their gates, their status, and the commands that make them again."""
    if results.study.gold is None:
        instead = " Its own figures say what the chains are compared with." if results.study.analyses else ""
        return Section("Gold standard", (f"The study has no gold standard.{instead}",))
    reports = {name: results.gold_report(name) for name in results.study.targets}
    names = results.study.names
    text = tuple(_fate(spelled(name, names), report, results.reference(name)) for name, report in reports.items())
    table = census.gates_table(reports)
    commands = tuple(str(report["command"]) for report in reports.values() if report and report.get("command"))
    return Section("Gold standard", text, pieces=(table,) if table else (), commands=commands)


def _fate(name: str, report: Mapping[str, Any] | None, reference: Any) -> str:
    if report is None:
        return f"{name}: no gold standard has been made."
    if "given" in report.get("settings", {}):
        what = "by its moments" if has_only_moments(reference) else f"with {draws_of(reference):,} draws"
        return f"{name}: the study gives the reference, {what}."
    if report["status"] == "accepted" and reference is None:
        return (
            f"{name}: the stored gold standard is damaged, or the study has changed since; the next run makes another."
        )
    origin = f"{name}: {report['status']}, made in {report['seconds']:.0f} s"
    if reference is None or "scores" not in reference.children:
        return f"{origin}."
    scored = reference["scores"].sizes["chain"] * reference["scores"].sizes["at_draw"]
    return f"{origin}. Gradients at {scored:,} of its draws serve as control variates for means and variances."


def census_section(results: "StudyResults", judged: Sequence[Contest]) -> Section:
    """Return the section with the census, all failures, and the risks if failures count as infinite risk."""
    failures = census.failures_table(results)
    warned = census.warnings_table(results)
    text = () if failures else ("Every cell that ran has a result, so no risk depends on how failed cells count.",)
    sensitive = map(tables.sensitivity_table, judged) if failures else ()
    pieces = [census.census_table(results), failures, *sensitive, warned]
    return Section("Census", text, pieces=tuple(piece for piece in pieces if piece is not None))


def machine_section(results: "StudyResults") -> Section:
    """Return the section on the machine: speed probes, and the share of a core that cells got."""
    figure = figures.machine_health(results.records)
    return Section("Machine", pieces=(*([figure] if figure else []), census.machine_table(results)))


def provenance(results: "StudyResults") -> Section:
    """Return the section on provenance, with the command that makes the page again."""
    facts = {name: value for name, value in results.provenance.items() if value not in (None, "", {}, [])}
    return Section(
        "Provenance",
        ("The command that makes this page again. Finished cells are read, not repeated.",),
        terms=tuple((name.replace("_", " "), _words(value)) for name, value in facts.items()),
        commands=(results.command,),
    )


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items() if item not in (None, ""))
    if isinstance(value, (list, tuple)):
        return "; ".join(_words(item) for item in value)
    return str(value)
