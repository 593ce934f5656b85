"""The public `sample`: what a user asks for is checked here, and carried out in `runs`."""

import math
import numbers
import os
import warnings
from typing import Any

import xarray as xr

from approxmcmc.contracts import Sampler, Target, arrays_hashed_once
from approxmcmc.diagnostics.importance import importance_diagnostics
from approxmcmc.diagnostics.latents import with_latents
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.work import compiled_so_far
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.interop.any_model import as_target, in_terms_of
from approxmcmc.output.book import open_book, what_was_asked
from approxmcmc.output.datatree import build_trace
from approxmcmc.runs import carry_out, judge, make_plan, tuning_steps
from approxmcmc.samplers.importance import weighted_draws
from approxmcmc.sampling.assembly import Settings
from approxmcmc.sampling.goals import ENOUGH
from approxmcmc.sampling.progress import told_of_compiling
from approxmcmc.targets.names import check_names


def sample(
    target: Any,
    sampler: Any = None,
    *,
    draws: int | None = None,
    tune: int | None = None,
    chains: int = 4,
    cores: int | None = None,
    random_seed: Any = None,
    initvals: Any = None,
    thin: int = 1,
    time_limit: float | None = None,
    target_ess: float | None = None,
    bias: float | str | None = None,
    audit_every: Any = "auto",
    discard_tuned_samples: bool = True,
    progressbar: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
) -> xr.DataTree:
    """Draw from a posterior, and record what every step cost and how often it decided wrongly.

    Parameters
    ----------
    target
        The posterior: a member of `approxmcmc.targets`, such as ``targets.LogisticRegression(X, y)``, or a
        ``pymc.Model`` (see `from_pymc`), or a ``bambi.Model``, whose trace then has the variables of its formula.
    sampler
        How to sample it, such as ``MetropolisHastings(RandomWalk(0.01), SequentialTTest(epsilon=0.05))``. None: what
        answers first, by the trials of `choose_sampler`; a line on the terminal and the attribute ``chosen`` say what
        that is, the attribute ``choice`` holds the table.
    draws
        Draws to keep per chain. Kept draw t is the state after step ``tune + (t + 1) * thin``. None: without limit
        where `target_ess` is given, for which a number is a cap; else 1000. With neither sampler nor `time_limit`
        given, those 1000 are thinned by 1, 2, 4, ... until R-hat passes and they hold 400 effective ones of all chains,
        and 100 for each: cheap steps that say little each answer as well as expensive ones. They are thinned by 16 at
        the most, or up to 1024 as long as the steps of all chains take 60 seconds of counted work (see
        `choose_sampler`), whatever the clock says. The attribute ``thinned_by`` says by how much.
    tune
        Steps before the first kept draw, never thinned. Proposals that were asked to adapt do so here and are frozen
        after. None: 1000, or with a sampler of our choice as many as its trial asks for.
    chains
        Number of chains. Chain k depends on the seed and on k alone.
    cores
        Threads; None = as many as there are processors, at most one per chain. Never changes the draws.
    random_seed
        An int, a sequence with one int per chain, a `numpy.random.Generator` or `SeedSequence`, or None (the entropy is
        stored in the trace).
    initvals
        Starting values: None (a draw of the Laplace approximation where target or proposal was built on one; random
        states of a discrete target; otherwise the target's initial point plus U(-1, 1)), what `laplace` returned (a
        draw of it for each chain), a dict by variable, an array of shape (dim,) or (chains, dim), or a list of dicts.
    thin
        Steps per kept draw. Costs and decisions of dropped steps are added to the kept draw's.
    time_limit
        Seconds from the first step, tuning and audits included, compilation and set-up excluded. Chains advance in
        turn; the trace is cut to the shortest. Where "auto" audits are made the chains get ten elevenths of it.
    target_ess
        Go on until the smallest bulk and tail ESS over all variables, of all chains together, reach this number, or
        until `time_limit` or `draws` come first, of which a warning tells. ArviZ judges the draws at numbers of them
        that grow by factors of 1.25 to 4 (see the page on the architecture): without `time_limit` the draws are a
        function of the seed, the beginning of a longer run. A chain keeps at most 32 MB of draws and records; beyond
        that every second draw is dropped, evenly over the whole run, and its costs go to the next. The attribute
        ``thin`` has the steps between kept draws, ``thinned_by`` what this made of `thin`; ``smallest_ess``,
        ``ess_checks`` and ``ess_seconds`` say what was reached and what the checks took.
    bias
        For the choice of a sampler: ``"none"`` allows exact ones alone, a number that many posterior standard
        deviations; see `choose_sampler`.
    audit_every
        "auto": when the chains are done, steps from kept draws are looked at with all data, for a tenth of the sampling
        time: at least 100, or as many as fit into the sampling time again, but 20 (see the page on the architecture).
        They tell how far the test's acceptance probability is off, and whether the draws can be those of the
        posterior; a run that fails such a gate warns. An integer: each decision of an approximate test is audited
        with probability 1 / audit_every against the decision on all data with the same uniform; 1 = all. None = none.
        Draws and costs never depend on audits; how many "auto" makes depends on the clock. For Gibbs and the noisy
        family "auto" is an integer that they choose. Audits are outside every counter and every clock but `time_limit`.
    discard_tuned_samples
        False keeps the tuning steps in ``warmup_posterior`` and ``warmup_sample_stats``.
    progressbar
        A bar on a terminal, plain lines elsewhere. What takes more than a second to compile is told, too.
    checkpoint
        A netCDF file from which the run goes on. It is written when the run begins, at most every 30 s and for at most
        2 % of the time, and when the run ends or is interrupted; whole or not at all. Killed and called again with the
        same arguments the run goes on bit for bit; `random_seed=None` then takes the stored seed. Of a run that has
        ended, the trace is returned at once, and `resume` adds draws. A file of another target, sampler, seed, setting
        or version is refused, with both sides named; `cores` and `progressbar` may differ.

    Returns
    -------
    xarray.DataTree
        An ArviZ trace with groups ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data`` and, when
        kept, the warm-up. ``sample_stats`` holds, per draw, ``datapoints_touched``, ``likelihood_evaluations``,
        ``decisions_made``, ``decisions_audited``, ``wrong_decisions``, ``perf_counter_diff`` and more, each with its
        unit and meaning. The attributes of ``posterior`` tell what is wrong with the run: ``problems`` has the names of
        the checks of `diagnose` that fired, joined by commas, ``diagnosis`` their rows as JSON.

    Raises
    ------
    InvalidInputError
        When an argument is out of range, or `checkpoint` holds another run.
    IncompatibleError
        When target, proposal and test do not fit together.
    OSError
        When no checkpoint can be written where `checkpoint` says; raised before anything is drawn.
    SamplingError
        When no starting point has a finite log density, a log density was NaN (:class:`NotFiniteError`) or a function
        of the model raised an exception before a draw was kept. Later either stops the run, keeps the draws made and
        warns, naming theta, and the datum where that is known. A NaN where the density has fallen to nothing is no
        error but a rejected proposal, see ``out_of_reach`` on the page on the architecture.

    Warns
    -----
    SamplingWarning
        Once, with a line for each thing that is wrong with the run and the next thing to do, most serious first; see
        `diagnose`. R-hat and effective sample sizes are judged from 100 draws per chain on.

    Notes
    -----
    Ctrl-C returns what was drawn, with the attribute ``stopped="interrupt"``, and during audits those made; a time
    limit sets ``stopped="time_limit"``. Draws are reproducible on one machine: sums are vectorised, and their last bits
    depend on the processor.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> target = amc.targets.LogisticRegression(X, (X[:, 0] + rng.logistic(size=500) > 0).astype(int))
    >>> sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(epsilon=0.05, batch_size=50))
    >>> trace = amc.sample(target, sampler, draws=100, tune=100, chains=2, random_seed=1, progressbar=False)
    >>> dict(trace.posterior.sizes)
    {'chain': 2, 'draw': 100, 'coef': 2}
    """
    compiled_before = compiled_so_far().seconds
    given = target
    with told_of_compiling(progressbar):
        target = as_target(given)
    nothing_asked = sampler is None and draws is None and target_ess is None and time_limit is None
    if draws is None and target_ess is None:
        draws = 1000
    draws, tune = (
        None if value is None else checked_integer(value, name, 0) for value, name in ((draws, "draws"), (tune, "tune"))
    )
    chains, thin = (checked_integer(value, name, 1) for value, name in ((chains, "chains"), (thin, "thin")))
    cores, time_limit = checked_cores(cores, chains), checked_time_limit(time_limit)
    if audit_every is not None and not (isinstance(audit_every, str) and audit_every == "auto"):
        audit_every = checked_integer(audit_every, "audit_every")
    if target_ess is not None and not (isinstance(target_ess, numbers.Real) and 0 < target_ess < math.inf):
        raise InvalidInputError(
            f"target_ess must be a positive number of effective draws, or None, found {target_ess!r}"
        )
    if bias is not None and sampler is not None:
        raise InvalidInputError(
            f"bias={bias!r} is for the choice of a sampler, and one was given: {sampler!r}; leave one of the two out"
        )
    _check_roles(target, sampler)
    settings = Settings(
        draws=draws,
        tune=tuning_steps(sampler, target) if tune is None and sampler is not None else tune,
        chains=chains,
        thin=thin,
        seed=seed_sequences(random_seed, chains)[1],
        target_ess=target_ess,
        time_limit=time_limit,
        bias=bias,
        audit_every=audit_every,
        discard_tuned_samples=discard_tuned_samples,
        enough=ENOUGH if nothing_asked else None,
    )
    with arrays_hashed_once(), told_of_compiling(progressbar):  # the data do not change during this call
        book = None
        if checkpoint is not None:
            asked = what_was_asked(target, sampler, settings, initvals)
            book = open_book(checkpoint, asked, any_seed=random_seed is None)
            if book.trace is not None:
                return in_terms_of(given, with_latents(book.trace, target))
            settings = settings._replace(seed=book.asked["seed"])
        plan = make_plan(target, sampler, settings, initvals, book, say=progressbar)
        plan = plan._replace(compiled_before=compiled_before)
        trace, block = carry_out(plan, book, cores=cores, progressbar=progressbar)
    warn_of(block)
    return in_terms_of(given, with_latents(trace, target))


def importance_sampling(target: Any, proposal: Any, draws: int, *, random_seed: Any = None) -> xr.DataTree:
    """Draw independently from a proposal, and weight the draws by target over proposal.

    Parameters
    ----------
    target
        A target of the library, or a frozen law of `scipy.stats`.
    proposal
        A frozen law with ``rvs(size, random_state)`` and ``logpdf`` or ``logpmf``, over vectors of the target's length;
        for a Bayesian network ``network.ancestral()`` (likelihood weighting). It must cover the target.
    draws
        Number of draws.
    random_seed
        As in `sample`.

    Returns
    -------
    xarray.DataTree
        One chain. ``posterior`` holds the *unweighted* draws; ``sample_stats`` holds ``log_weight`` (unnormalised) and
        ``weight`` (they sum to 1), which `risk` and `importance_estimates` use. Attributes: ``ess``, ``pareto_k``,
        ``log_normalizer`` (log of the mean weight) and ``kl``, see `importance_diagnostics`. Averages of ``posterior``
        that ignore the weights, ArviZ's among them, are those of the proposal.

    Raises
    ------
    IncompatibleError
        When target or proposal lacks a method, or their dimensions differ.
    InvalidInputError
        When `draws` is out of range, or no draw has positive density under the target.
    NotFiniteError
        When a weight is NaN or infinite.

    Notes
    -----
    Guarantee: consistent; the self-normalised estimate has a bias of order 1 / draws. About exp(KL(target || proposal))
    draws are needed: see `chatterjee_diaconis_bound`. A warning is given where Pareto k exceeds 0.7.

    References
    ----------
    Owen (2013), chapter 9; Vehtari et al. (2024); Chatterjee and Diaconis (2018).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> network = amc.targets.alarm_network(J=1, M=1)
    >>> trace = amc.importance_sampling(network, network.ancestral(), 1000, random_seed=1)
    >>> amc.importance_estimates(trace)["A"].sizes["moment"]
    2
    """
    draws = checked_integer(draws, "draws")
    [sequence], seed = seed_sequences(random_seed, 1)
    result, variables = weighted_draws(target, proposal, draws, streams(sequence).proposal)
    found = importance_diagnostics(result.stats["log_weight"])
    described = {"kind": "importance_sampling", "proposal": repr(proposal)}
    trace = build_trace(
        result._replace(attrs={**result.attrs, **found, "seed": seed}),
        variables=variables,
        observed_data=target.observed_data if isinstance(target, Target) else {},  # a law of scipy has none
        constant_data=target.constant_data if isinstance(target, Target) else {},
        keep_warmup=False,
        settings=described,
    )
    return told(trace)


def told(trace: xr.DataTree) -> xr.DataTree:
    """Write what is wrong with a run into its trace, and warn of it once."""
    warn_of(judge(trace), stacklevel=4)
    return trace


def warn_of(block: str, *, stacklevel: int = 3) -> None:
    """Warn the caller of a public function of what is wrong with a run, where anything is."""
    if block:
        warnings.warn(block, SamplingWarning, stacklevel=stacklevel)


def checked_cores(cores: int | None, chains: int) -> int:
    """Return the number of threads: as many as there are processors, and at most one per chain, where none is given."""
    return min(chains, os.cpu_count() or 1) if cores is None else checked_integer(cores, "cores")


def checked_time_limit(time_limit: Any) -> float | None:
    """Return seconds, or None for no limit."""
    if time_limit is not None and not (isinstance(time_limit, numbers.Real) and float(time_limit) > 0):
        raise InvalidInputError(f"time_limit must be positive seconds, or None, found {time_limit!r}")
    return None if time_limit is None else float(time_limit)


def _check_roles(target: Any, sampler: Any) -> None:
    if not isinstance(target, Target):
        raise IncompatibleError(
            f"sample needs a target such as approxmcmc.targets.LogisticRegression(X, y), found {type(target).__name__}"
        )
    if not (sampler is None or isinstance(sampler, Sampler)):
        raise IncompatibleError(
            "sample needs a sampler such as MetropolisHastings(RandomWalk(0.1), ExactTest()), "
            f"found {sampler!r} for target {target!r}"
        )
    check_names(target.variables, who=type(target).__name__)
