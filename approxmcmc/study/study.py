"""The class `Study` of authors and notebooks: a declaration that plans, runs and opens its own results."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.study.declare import Declaration
from approxmcmc.study.plan import make_plan
from approxmcmc.study.results import StudyResults
from approxmcmc.study.run import run_study

if TYPE_CHECKING:
    import pandas as pd


class Study(Declaration):
    """A declared grid of chains, and the analyses of it.

    Parameters
    ----------
    name
        Names the folder of the results; lower-case letters, digits, ``_`` and ``-``.
    reference
        The published experiment: authors, year, section, figures.
    targets
        Functions without arguments that make a target; called when first needed, once per process.
    samplers
        Samplers by name, each a sampler or a family made by :func:`vary`.
    budget
        Budget of each chain.
    budgets
        Budgets of targets that need another one, by the target's name.
    estimands
        Functions of the posterior Dataset (dims chain, draw, ...), by name; or a function of the gold standard's
        posterior that returns them. None: :func:`standard_estimands`, the means, variances and tail probabilities of
        all coordinates in posterior standard deviations, each averaged over the coordinates. The page judges settings
        by the average over all coordinates of all estimands, each error in posterior standard deviations.
    average_over
        Estimands that are averaged over their coordinates before the intervals are computed.
    tune, thin, audit_every
        As in :func:`approxmcmc.sample`.
    replicates
        Independent chains of every setting. Replicate r of all settings forms block r: it runs together, in an order
        shuffled by `seed`, and starts from one common point, unless a proposal provides its own start.
    gold
        How the gold standards are made; None for none.
    seed
        Root of every seed.
    start
        ``start(target, rng) -> theta`` of shape (dim,), the common starting point of one block. None: as in `sample`,
        the start that target or proposal provides, or else the target's initial point plus U(-1, 1) per coordinate.
    baseline
        Label of the setting that others are compared with; None for an exact one, of those the one with the fewest
        looks at data in a decision.
    names
        Names of settings and targets for readers, by label; a family's name replaces the part of a label before the
        bracket.
    analyses
        Functions of the results that return figures and tables of the report.
    bounds
        Error bounds that the report checks, by name: mappings with ``target`` and ``sampler``, names of the study, and
        further arguments of :func:`approxmcmc.check_bound`. The sampler is a family with the knob ``epsilon``, or the
        knob named by ``knob``. The distance is measured between its finished cells and the gold standard.
    measures
        Functions of a one-chain trace that return one number, by name. `paper_values` may use them in addition to
        ``"steps per second"``, ``"acceptance"``, ``"data per decision"`` and ``"wrong decisions"``.
    paper_values
        Published numbers by name, each a :class:`PaperValue`; the report compares them with ours, with the interval
        over replicates and the difference.
    bias
        How biases are estimated without a gold standard (:class:`Bias`); None for none.
    kinds
        The kind of each setting, where the page is to show who wins on each target; settings of one kind share a
        colour.
    presets
        Fields to replace, by preset: ``smoke`` (minutes; gates are reported, not enforced), ``quick``, ``paper``. If
        ``paper`` is not listed, it is the study without replacements.

    Raises
    ------
    StudyError
        If a name cannot be a file name, a field is empty or out of range, a bound or a published value names something
        that the study lacks, or a preset replaces an unknown field.

    Examples
    --------
    >>> study = Study(
    ...     name="walks",
    ...     targets={"spam": make_target},
    ...     samplers={"austerity": vary(make_sampler, epsilon=knob(0.0, 0.05))},
    ...     budget=Budget(seconds=60),
    ...     presets={"smoke": dict(budget=Budget(draws=200), replicates=2)},
    ... )  # doctest: +SKIP
    >>> results = study.run(preset="smoke")  # doctest: +SKIP
    >>> results.records[["label", "replicate", "status", "wall_seconds"]]  # doctest: +SKIP
    """

    def plan(self, preset: str | None = None) -> "pd.DataFrame":
        """Return the cells, one row each, in running order; makes the targets, runs nothing."""
        return make_plan(self, preset or self.default_preset).to_frame()

    def run(
        self,
        preset: str | None = None,
        store: str | os.PathLike[str] = "results",
        *,
        engine: str | None = None,
        **options: Any,
    ) -> StudyResults:
        """Run the missing cells, and return the results.

        Parameters
        ----------
        preset
            Name of a preset; None for ``quick`` if it exists, else ``paper``.
        store
            Folder in which ``<study>-<preset>`` stores plan, cells, gold standards and report.
        engine
            ``"serial"``, ``"processes"`` or ``"dask"``. None is "dask" with ``scheduler=``, "processes" with ``jobs=``,
            else "serial".
        **options
            Further arguments of :func:`approxmcmc.study.run.run_study`, such as ``jobs`` or ``only``.

        Raises
        ------
        StudyError
            If the store holds another plan under this name, or an option has an unknown value.
        """
        run_study(self, preset or self.default_preset, store, engine=engine, **options)
        return self.results(preset, store)

    def results(self, preset: str | None = None, store: str | os.PathLike[str] = "results") -> StudyResults:
        """Return the results of this study in a store, finished or not."""
        return StudyResults.open(self, preset or self.default_preset, Path(store))
