"""The declaration of a study: targets x samplers x knobs x replicates, one frozen object per published experiment.

A declaration says what is compared, not how it is run. Its cells are all combinations

    targets x (samplers x values of their knobs) x replicates,

one Markov chain each. A preset (``smoke``, ``quick``, ``published``, ``paper``) changes a study by replacing fields by
name; with ``"like": "quick"`` it replaces those of another preset too.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from xarray import DataTree

from approxmcmc.contracts import AnySampler, Target
from approxmcmc.contracts.arguments import check_settings
from approxmcmc.diagnostics.moments import as_reference, described
from approxmcmc.diagnostics.standard import standard_of
from approxmcmc.engine.checks import is_integer, nearest
from approxmcmc.errors import InvalidInputError, StudyError
from approxmcmc.study.budget import Budget
from approxmcmc.study.json_files import check_name
from approxmcmc.study.knobs import Setting, Vary
from approxmcmc.study.measures import MEASURES, Measure, PaperValue
from approxmcmc.study.names import spelled

FULL_PRESET = "paper"
LIKE = "like"  # key of a preset: the name of another preset, whose fields it starts from


def _check_callable(declared: Any, *fields: str) -> None:
    for field in fields:
        value = getattr(declared, field)
        if value is not None and not callable(value):
            raise InvalidInputError(f"{type(declared).__name__}: {field} must be a function or None, found {value!r}")


@dataclasses.dataclass(frozen=True)
class Gold:
    """Settings of gold standards, which NUTS or the function `by` makes, with quality gates; or references that exist.

    Parameters
    ----------
    chains, draws, tune
        Settings of each gold standard.
    gates
        Quality gates (:class:`approxmcmc.reference.Gates`, or those that `by` accepts); None for the strict ones.
    by
        The function that makes them if NUTS takes too long, with the signature of
        :func:`approxmcmc.reference.exact_chain_reference`; None for :func:`approxmcmc.reference_posterior`.
    total_draws
        Number of draws of all chains together, to which NUTS continues: see :func:`approxmcmc.reference_posterior`. A
        page that cannot order settings says how many would do. None: one set of chains.
    given
        References that exist, in place of chains: a trace or a table of moments
        (:func:`approxmcmc.diagnostics.as_reference`), or a dict of them by target. `Study(gold=...)` also takes them as
        they are. None: gold standards are made.

    Examples
    --------
    >>> from approxmcmc.reference import exact_chain_reference
    >>> Gold(chains=4, draws=5000, by=exact_chain_reference).draws
    5000
    """

    chains: int = 10
    draws: int = 2500
    tune: int = 1000
    gates: Any = None
    by: Callable[..., Any] | None = None
    total_draws: int | None = None
    given: Any = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_settings(self)
        _check_callable(self, "by")
        if self.total_draws is not None and self.by is not None:
            raise StudyError(
                "Gold: `total_draws` continues chains of NUTS; gold standards that `by` makes take more `draws`."
            )

    def given_for(self, target: str) -> Any:
        """Return the given reference of a target as a trace; None if the gold standard is made by chains."""
        return None if self.given is None else self.given[target]


@dataclasses.dataclass(frozen=True)
class Bias:
    """How :func:`approxmcmc.bias` estimates biases from the draws themselves, once for each setting.

    Parameters
    ----------
    n_audits, seconds
        Per setting; None: the default of `bias`.
    form, max_steps
        As in `bias`.
    kernel
        ``kernel(target)`` returns the exact sampler to couple, or (target, exact sampler); None: the default of `bias`.
    of
        ``of(target, sampler) -> (target, sampler)`` unwraps a study's samplers that are built for each target; None if
        they are samplers of the library.
    estimands
        As in `bias`; None: parameters, their squares about the mean, and the log density.

    Raises
    ------
    StudyError
        If a number is out of range.
    """

    n_audits: int | None = None
    seconds: float | None = None
    form: str = "auto"
    max_steps: int = 2000
    kernel: Callable[..., Any] | None = None
    of: Callable[..., Any] | None = None
    estimands: Mapping[str, Callable[..., Any]] | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        _check_callable(self, "kernel", "of")
        for name in ("n_audits", "seconds", "max_steps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise StudyError(f"Bias needs `{name}` > 0, or None; found {value!r}.")


@dataclasses.dataclass(frozen=True, eq=False)
class Declaration:
    """A grid of chains, and the analyses of it: the fields of :class:`approxmcmc.Study`, checked.

    This file does not import the code that plans, runs and reads a study, so that all of that code can import it.
    `Study` adds only methods, no fields.

    Raises
    ------
    StudyError
        If a name cannot name a file, a field is empty or out of range, a sampler is invalid, or a preset replaces an
        unknown field.
    """

    name: str
    targets: Mapping[str, Callable[[], Target]]
    samplers: Mapping[str, Any]
    budget: Budget
    budgets: Mapping[str, Budget] = dataclasses.field(default_factory=dict)
    reference: str = ""
    estimands: Mapping[str, Callable[..., Any]] | Callable[[Any], Mapping[str, Callable[..., Any]]] | None = None
    average_over: tuple[str, ...] = ()
    tune: int = 0
    thin: int = 1
    audit_every: int | str | None = "auto"
    replicates: int = 8
    gold: Any = Gold()
    seed: int = 0
    start: Callable[..., Any] | None = None
    baseline: str | None = None
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    analyses: tuple[Callable[..., Any], ...] = ()
    bounds: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    measures: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    paper_values: Mapping[str, PaperValue] = dataclasses.field(default_factory=dict)
    bias: Bias | None = None
    kinds: Mapping[str, str] = dataclasses.field(default_factory=dict)
    presets: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "gold", self._with_given_references())
        self._check_kinds()
        check_name("study", self.name)
        for kind, members in (("target", self.targets), ("sampler", self.samplers)):
            if not members:
                raise StudyError(f"Study {self.name!r} needs at least one {kind}; found none.")
            for name in members:
                check_name(kind, name)
        for field, least in (("replicates", 1), ("tune", 0), ("thin", 1)):
            if getattr(self, field) < least:
                raise StudyError(f"Study {self.name!r} needs {field} >= {least}; found {getattr(self, field)}.")
        self._check_budgets()
        self._check_estimands()
        self._check_samplers()
        self._check_labels()
        self._check_baseline()
        self._check_bounds()
        self._check_paper_values()
        self._check_presets()

    def _with_given_references(self) -> Any:
        """Return the field `gold` with its given references as traces, by target."""
        gold = self.gold
        if gold is None or (isinstance(gold, Gold) and gold.given is None):
            return gold
        references = gold.given if isinstance(gold, Gold) else gold
        if not (isinstance(references, Mapping) and references and set(references) <= set(self.targets)):
            references = dict.fromkeys(self.targets, references)
        if missing := sorted(set(self.targets) - set(references)):
            raise StudyError(
                f"Study {self.name!r}: `gold` gives references of {sorted(references)}, and none of {missing}. Give "
                "one for each target, or settings: Gold(...)."
            )
        if len({id(reference) for reference in references.values()}) < len(self.targets):
            raise StudyError(
                f"Study {self.name!r}: one reference cannot be that of several targets; `gold` needs a dict of "
                f"references by target, {sorted(self.targets)}."
            )
        traces = {name: as_reference(reference) for name, reference in references.items()}
        if not all(isinstance(trace, DataTree) for trace in traces.values()):
            return gold  # another value, which `_check_kinds` refuses
        return dataclasses.replace(gold if isinstance(gold, Gold) else Gold(), given=traces)

    def _check_kinds(self) -> None:
        """Check the types of fields that are objects or whole numbers; all other checks may rely on them."""
        for field in ("replicates", "tune", "thin", "seed"):
            if not is_integer(getattr(self, field)):
                raise InvalidInputError(f"Study: {field} must be an integer, found {getattr(self, field)!r}")
        for field, kind in (("budget", Budget), ("gold", Gold | None), ("bias", Bias | None)):
            if not isinstance(getattr(self, field), kind):
                needed = getattr(kind, "__name__", str(kind).replace(f"{__name__}.", ""))
                raise InvalidInputError(f"Study: {field} must be {needed}(...), found {getattr(self, field)!r}")
        for name, factory in self.targets.items():
            if not callable(factory):
                raise InvalidInputError(
                    f"Study: targets[{name!r}] must be a function that returns the target, such as `lambda: target`, "
                    f"found {factory!r}"
                )
        if isinstance(self.analyses, str) or not isinstance(self.analyses, Sequence):
            raise InvalidInputError(f"Study: analyses must be a tuple of functions, found {self.analyses!r}")
        if not (self.audit_every in (None, "auto") or (is_integer(self.audit_every) and int(self.audit_every) >= 1)):
            raise InvalidInputError(
                f'Study: audit_every must be "auto", an integer >= 1 or None, found {self.audit_every!r}'
            )
        _check_callable(self, "start")

    def _check_budgets(self) -> None:
        unknown = sorted(set(self.budgets) - set(self.targets))
        if unknown:
            raise StudyError(
                f"Study {self.name!r}: `budgets` names {unknown}, which are not among its targets "
                f"{sorted(self.targets)}."
            )

    def _check_estimands(self) -> None:
        if callable(self.estimands):  # their names are known only with the gold standard
            return
        unknown = set(self.average_over) - set(self.estimands or {})
        if unknown:
            raise StudyError(
                f"Study {self.name!r}: `average_over` names {sorted(unknown)}, which are not among the estimands "
                f"{sorted(self.estimands or {})}."
            )

    def _check_samplers(self) -> None:
        for label, sampler in ((setting.label, setting.sampler) for setting in self.settings()):
            if not isinstance(sampler, AnySampler):
                description = (
                    f"the class {sampler.__name__}, not an object" if isinstance(sampler, type) else repr(sampler)
                )
                raise StudyError(
                    f"Study {self.name!r}: {label!r} needs a sampler of approxmcmc, your own derived from "
                    f"approxmcmc.whole_chains.ChainSampler, or `vary(...)` of a function that returns one; found "
                    f"{description}."
                )

    def _check_labels(self) -> None:
        labels = [setting.label for setting in self.settings()]
        for what, spellings in (("labels", labels), ("names", [spelled(label, self.names) for label in labels])):
            twice = sorted({label for label in spellings if spellings.count(label) > 1})
            if twice:
                raise StudyError(f"Study {self.name!r} needs different {what} for its settings; found {twice} twice.")

    def _check_baseline(self) -> None:
        labels = [setting.label for setting in self.settings()]
        if self.baseline is not None and self.baseline not in labels:
            raise StudyError(
                f"Study {self.name!r}: `baseline` needs the label of a setting, or None; unknown: "
                f"{nearest(str(self.baseline), labels)}"
            )

    def _check_bounds(self) -> None:
        for name, declared in self.bounds.items():
            for kind, members in (("target", self.targets), ("sampler", self.samplers)):
                if declared.get(kind) not in members:
                    raise StudyError(
                        f"Study {self.name!r}: the bound {name!r} needs `{kind}`, one of {sorted(members)}; found "
                        f"{declared.get(kind)!r}."
                    )

    def _check_paper_values(self) -> None:
        taken = sorted(set(self.measures) & set(MEASURES))
        if taken:
            raise StudyError(f"Study {self.name!r}: every study has the measures {taken}; give yours other names.")
        allowed_names = {
            "measures": [*MEASURES, *self.measures],
            "settings": [setting.label for setting in self.settings()],
            "targets": list(self.targets),
        }
        for name, value in self.paper_values.items():
            value.check(self.name, name, **allowed_names)

    def _check_presets(self) -> None:
        replaceable = [field.name for field in dataclasses.fields(self) if field.name not in ("name", "presets")]
        for preset, overrides in self.presets.items():
            check_name("preset", preset)
            if overrides.get(LIKE, preset) not in self.presets:
                raise StudyError(
                    f"Preset {preset!r} builds on the unknown preset {nearest(overrides[LIKE], list(self.presets))}"
                )
            for field in set(overrides) - {LIKE}:
                if field not in replaceable:
                    raise StudyError(
                        f"Preset {preset!r} replaces a field that no study has: {nearest(field, replaceable)}"
                    )

    @property
    def preset_names(self) -> list[str]:
        """The presets in the order declared; ``paper`` is last if it is the study without replacements."""
        return [*self.presets, *([] if FULL_PRESET in self.presets else [FULL_PRESET])]

    @property
    def default_preset(self) -> str:
        """``quick`` if it exists, else ``paper``."""
        return "quick" if "quick" in self.presets else FULL_PRESET

    def with_preset(self, preset: str) -> Self:
        """Return the study with the fields that a preset replaces.

        Raises
        ------
        StudyError
            If there is no such preset; the message names the nearest one.
        """
        if preset not in self.preset_names:
            raise StudyError(f"Study {self.name!r} has no preset {nearest(preset, self.preset_names)}")
        overrides = dict(self.presets.get(preset, {}))
        base = self.with_preset(overrides.pop(LIKE)) if LIKE in overrides else self
        return dataclasses.replace(base, **overrides)

    @property
    def own_budgets(self) -> dict[str, Any]:
        """The budgets of single targets as an entry of a JSON file; no entry if all targets have the same."""
        own = {name: dataclasses.asdict(budget) for name, budget in self.budgets.items()}
        return {"budgets": own} if own else {}

    def budget_of(self, target: str) -> Budget:
        """Return the budget of each chain on a target."""
        return self.budgets.get(target, self.budget)

    def settings(self) -> list[Setting]:
        """Return every sampler with its knobs fixed, in the order declared."""
        return [
            setting
            for name, member in self.samplers.items()
            for setting in (member.settings(name) if isinstance(member, Vary) else [Setting(name, name, {}, member)])
        ]

    def target(self, name: str) -> Target:
        """Return a target; it is made on first use and cached in the process."""
        if name not in self.targets:
            raise StudyError(f"Study {self.name!r} has no target {nearest(name, self.targets)}")
        return _made(self.targets[name])


def estimands_of(study: Any, reference: Any) -> Mapping[str, Callable[..., Any]]:
    """Return a study's estimands by name, given a target's gold standard.

    By default they are :func:`~approxmcmc.study.standard_estimands`.
    """
    if study.estimands and not callable(study.estimands):
        named: Mapping[str, Callable[..., Any]] = study.estimands
        return named
    if not study.estimands:
        return standard_of(reference)
    functions: Mapping[str, Callable[..., Any]] = study.estimands(described(reference))
    return functions


def is_averaged(study: Any, estimand: str) -> bool:
    """Return whether errors of an estimand are averaged over its coordinates; the default estimands always are."""
    return not study.estimands or estimand in (study.average_over or ())


@functools.cache
def _made(factory: Callable[[], Target]) -> Target:
    target = factory()
    if not isinstance(target, Target):
        raise StudyError(
            "A study's target must derive from approxmcmc.contracts.Target, as those of approxmcmc.targets do: nothing "
            "runs without its initial_point(), content_hash() and compile(). "
            f"{getattr(factory, '__name__', factory)}() returned a {type(target).__name__}."
        )
    return target
