"""The public `sample`: check the arguments, then run the plan with `runs`."""

import math
import numbers
import os
from typing import Any

import xarray as xr

from approxmcmc.checkpoints.run_file import open_run_file, what_was_asked
from approxmcmc.contracts import AnySampler, Target, arrays_hashed_once
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import speaking
from approxmcmc.diagnostics.latents import refuse_folder, with_folder
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compilations import compiled_so_far
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning, warn
from approxmcmc.further_runs import run_until_checks_pass
from approxmcmc.interop.any_model import as_target
from approxmcmc.runs import carry_out, completing, judge, make_plan, tuning_steps
from approxmcmc.sampling.assembly import Settings
from approxmcmc.sampling.goals import ENOUGH
from approxmcmc.sampling.progress import stage, watching
from approxmcmc.targets.given import check_names


@naming_the_arguments
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
    max_bias: float = 0.0,
    audit_every: Any = "auto",
    discard_tuned_samples: bool = True,
    progressbar: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
) -> xr.DataTree:
    """Draw from a posterior, and record what every step cost and how often it decided wrongly.

    Parameters
    ----------
    target
        The posterior: a member of `approxmcmc.targets`, such as ``targets.LogisticRegression(X, y)``, a ``pymc.Model``
        (see `from_pymc`), or a ``bambi.Model`` (the trace then has the variables of its formula).
    sampler
        How to sample it, such as ``MetropolisHastings(RandomWalk(0.01), SequentialTTest(epsilon=0.05))``. None:
        `choose_sampler` compares candidates in short runs and takes the fastest. The choice is logged, unless
        `progressbar` is False, and stored in the attribute ``chosen``; the attribute ``choice`` holds the table of
        candidates. If the run then fails R-hat, an effective sample size, the check of movement or that of divergences,
        the chains run again: from new starts, with effects in their non-centred form, with smaller steps, with
        longer tuning, or by the next plan, while the further runs have together cost less than three times the first.
        The attribute ``further_runs`` lists them (see the page on traces). With `checkpoint`, no further run is made.
    draws
        Draws to keep per chain. Kept draw t is the state after step ``tune + (t + 1) * thin``. With `target_ess`, this
        is an upper limit, and None means no limit. Otherwise None means 1000. If neither `sampler` nor `time_limit` is
        given, these 1000 draws are thinned by 1, 2, 4, ... until R-hat passes and the draws hold 400 effective draws in
        total, or 100 times the number of chains if that is more, so that cheap, correlated steps also give enough
        information. The factor is at most 16, up to 1024 if the steps of all chains then take at most 60 seconds of
        counted work (see `choose_sampler`), and smaller if they would take more than 600; at most 4 for NUTS on a model
        that is not read row by row, because its work is not counted. The clock has no influence. The factor is also
        smaller if the chains seem to stay in different modes, or if trajectories of NUTS are far longer than expected.
        The attribute ``thinned_by`` gives the factor.
    tune
        Steps before the first kept draw, never thinned. Proposals that adapt do so during these steps and are frozen
        afterwards. None: 1000, with :class:`NUTS` its own default, or what the trial recommends if the library chose
        the sampler.
    chains
        Number of chains. The draws of chain k depend on the seed and on k, not on the number of chains.
    cores
        Threads. None: the number of processors, at most one per chain. The draws do not depend on it.
    random_seed
        An int, a sequence with one int per chain, a `numpy.random.Generator` or `SeedSequence`, or None (the entropy is
        stored in the trace).
    initvals
        Starting values: None, the result of `laplace` (each chain starts from a draw of it), a dict by variable, an
        array of shape (dim,) or (chains, dim), or a list with a dict for each chain. None means a draw of the Laplace
        approximation if the target or the proposal was built on one, a random state of a discrete target, and otherwise
        the target's initial point plus U(-1, 1), with :class:`NUTS` in pairs plus and minus U(-1, 1). If the library
        chooses the sampler, chains start where its trial ended, and some of them around other modes, if a search from
        far starts finds any.
    thin
        Steps per kept draw. The record of a kept draw adds up the costs and decisions of all its steps.
    time_limit
        Seconds, counted from the first step. Includes tuning and audits; excludes compilation and set-up. The limit and
        Ctrl-C are checked about every 50 ms, within thinned draws too, but not within a step, such as a sweep of
        `Gibbs` or a trajectory of `Hamiltonian`. Chains advance in turn, and the trace is cut to the shortest chain. If
        ``audit_every="auto"`` audits after the chains, the chains get ten elevenths of these seconds.
    target_ess
        Run until the smallest bulk and tail ESS over all variables (at most 500 coordinates), with all chains together,
        reaches this number, or until `time_limit` or `draws` is reached first (a warning says so). The ESS, defined as
        in ArviZ, is checked at draw counts that grow by factors of 1.25 to 4 (see the page on the engine), so without
        `time_limit` the draws depend only on the seed and are the beginning of a longer run. A chain keeps at most 32
        MB of draws and records, or more if that is less than 1000 draws or than 4 for each effective draw wanted of it;
        beyond that every second draw is dropped, evenly over the whole run, and its cost is added to the next.
        Attributes of the trace: ``thin``, the steps between kept draws; ``thinned_by``, the factor on the argument
        `thin`; ``smallest_ess``; ``ess_checks`` and ``ess_seconds``, the number of checks and their time.
    max_bias
        Only for the choice of a sampler: the bias that it may have, in posterior standard deviations. With 0, the
        default, only exact samplers are chosen; ``max_bias=0.02`` lets `choose_sampler` trade exactness for speed, and
        the attribute ``chosen`` says what that gained and what it may cost.
    audit_every
        "auto": after the chains finish, steps from kept draws are checked with all data (or a sixteenth, if a pass
        takes long and this is shown to be enough), for a tenth of the sampling time. At least 100 are planned, or, if
        these take longer than sampling did, as many as fit into the sampling time, but at least 20, or 50 if the
        library chose the sampler (see the page on the engine). Few draws, `time_limit` or Ctrl-C can make them fewer.
        These audits estimate the error of the test's acceptance probability, and check whether the draws can come from
        the posterior; a failed check warns. An integer: each decision of an approximate test is audited with
        probability 1 / audit_every, against the decision on all data with the same uniform; 1 audits all. None: no
        audits. Draws and costs do not depend on audits, except on how many fit into `time_limit`; the number of "auto"
        audits depends on the clock. For Gibbs and the noisy family "auto" is an integer that the sampler chooses.
        Audits are outside every counter and every clock but `time_limit`.
    discard_tuned_samples
        False keeps the tuning steps in ``warmup_posterior`` and ``warmup_sample_stats``.
    progressbar
        Show what the call does, from reading the model to checking the run: a bar on a terminal and in a notebook,
        plain lines elsewhere. It names the kernel that is being compiled, with an estimate from earlier calls on this
        machine, and the bulk ESS and R-hat of the draws so far. The last line says how long each stage took.
    checkpoint
        A netCDF file from which an interrupted run can resume. It is written at the start, then at most every 30 s and
        for at most 2 % of the time, and when the run ends or is interrupted. Each write is atomic. If the process is
        killed, the same call resumes the run bit for bit; `random_seed=None` then takes the stored seed. For a finished
        run the stored trace is returned at once; `resume` adds draws. A file of another target, sampler, seed, setting
        or version raises an error that names both sides; `cores` and `progressbar` may differ.

    Returns
    -------
    xarray.DataTree
        An ArviZ trace with groups ``posterior``, ``sample_stats``, ``observed_data``, ``constant_data`` and, when
        kept, the warm-up. Of a PyMC model ``posterior`` has the variables, dims and coords that ``pm.sample`` returns,
        of a Bambi model those that ``fit`` returns. ``sample_stats`` holds, per draw, ``datapoints_touched``,
        ``likelihood_evaluations``, ``decisions_made``, ``decisions_audited``, ``wrong_decisions``,
        ``perf_counter_diff`` and more, each with its unit and meaning. The attribute ``problems`` of ``posterior``
        names the checks of `diagnose` that failed, joined by commas; ``diagnosis`` holds their rows as JSON.

    Raises
    ------
    InvalidInputError
        When an argument is out of range, or `checkpoint` holds another run.
    IncompatibleError
        When target, proposal and test do not fit together.
    OSError
        When the checkpoint file cannot be written; raised before the first draw.
    SamplingError
        When no starting point has a finite log density, or when before the first kept draw a log density was NaN
        (:class:`NotFiniteError`) or a function of the model raised an exception. After the first kept draw, such a NaN
        or exception ends the run: the draws made are returned, and a warning names theta and, if known, the row. A NaN
        far outside the bulk of the posterior is a rejected proposal, not an error; see ``out_of_reach`` on the page on
        the engine.

    Warns
    -----
    SamplingWarning
        Once per run: the most serious problem first, a line for each, and what to do about it; see `diagnose`.
        R-hat and effective sample sizes are checked from 100 draws per chain on.
    LeftOutWarning
        When a variable of a PyMC model is not in the trace, because it is too large or cannot be computed.

    Notes
    -----
    Ctrl-C returns the draws made so far, with the attribute ``stopped="interrupt"``; during audits it keeps the audits
    made. A time limit sets ``stopped="time_limit"``. Draws are reproducible on one machine only: sums are vectorised,
    and their last bits depend on the processor.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=500) > 0).astype(int))
    >>> sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(epsilon=0.05, batch_size=50))
    >>> trace = amc.sample(target, sampler, draws=100, tune=100, chains=2, random_seed=1, progressbar=False)
    >>> dict(trace.posterior.sizes)
    {'chain': 2, 'draw': 100, 'coef': 2}
    """
    compiled_before = compiled_so_far().seconds
    own_target = target
    with watching(progressbar, type(own_target).__name__):
        stage("reading the model")
        target = as_target(own_target)
        nothing_asked = sampler is None and draws is None and target_ess is None and time_limit is None
        if draws is None and target_ess is None:
            draws = 1000
        draws, tune = (
            None if value is None else checked_integer(value, name, 0)
            for value, name in ((draws, "draws"), (tune, "tune"))
        )
        chains, thin = (checked_integer(value, name, 1) for value, name in ((chains, "chains"), (thin, "thin")))
        cores = checked_cores(cores, chains)
        time_limit = checked_time_limit(time_limit)
        if audit_every is not None and not (isinstance(audit_every, str) and audit_every == "auto"):
            audit_every = checked_integer(audit_every, "audit_every")
        if target_ess is not None and not (isinstance(target_ess, numbers.Real) and 0 < target_ess < math.inf):
            raise InvalidInputError(
                f"target_ess must be a positive number of effective draws, or None, found {target_ess!r}"
            )
        if max_bias != 0.0 and sampler is not None:
            raise InvalidInputError(
                f"max_bias={max_bias!r} only guides the choice of a sampler, and {sampler!r} was given; leave one of "
                "the two out"
            )
        _check_roles(target, sampler)
        refuse_folder(target)
        settings = Settings(
            draws=draws,
            tune=tuning_steps(sampler, target) if tune is None and sampler is not None else tune,
            chains=chains,
            thin=thin,
            seed=seed_sequences(random_seed, chains)[1],
            target_ess=target_ess,
            time_limit=time_limit,
            max_bias=max_bias,
            audit_every=audit_every,
            discard_tuned_samples=discard_tuned_samples,
            enough=ENOUGH if nothing_asked else None,
        )
        with arrays_hashed_once():  # the data do not change during this call
            run_file = None
            if checkpoint is not None:
                asked = what_was_asked(target, sampler, settings, initvals)
                run_file = open_run_file(checkpoint, asked, any_seed=random_seed is None)
                if run_file.trace is not None:
                    return with_folder(run_file.trace, target)
                settings = settings._replace(seed=run_file.asked["seed"])
            plan = make_plan(target, sampler, settings, initvals, run_file, say=progressbar)
            plan = plan._replace(compiled_before=compiled_before, complete=completing(own_target, target))
            if sampler is None and run_file is None:
                starts_given = initvals is not None
                trace, block = run_until_checks_pass(
                    plan, target, starts_given=starts_given, cores=cores, progressbar=progressbar
                )
            else:
                trace, block = carry_out(plan, run_file, cores=cores, progressbar=progressbar)
    warn_of(block)
    return trace


def with_its_warning(trace: xr.DataTree) -> xr.DataTree:
    """Store the problems of a run in its trace, warn about them once, and return the same trace."""
    warn_of(judge(trace))
    return trace


def warn_of(block: str) -> None:
    """Issue `block`, the text of a run's problems, as a `SamplingWarning`; nothing if the text is empty."""
    if block:
        warn(block, SamplingWarning)


def checked_cores(cores: int | None, chains: int) -> int:
    """Return `cores`, checked to be a positive number; for None the number of processors, at most `chains`."""
    return min(chains, os.cpu_count() or 1) if cores is None else checked_integer(cores, "cores")


def checked_time_limit(time_limit: Any) -> float | None:
    """Return the time limit in seconds, checked; None means no limit."""
    if time_limit is not None and not (isinstance(time_limit, numbers.Real) and float(time_limit) > 0):
        raise InvalidInputError(f"time_limit must be positive seconds, or None, found {time_limit!r}")
    return None if time_limit is None else float(time_limit)


def _check_roles(target: Any, sampler: Any) -> None:
    if not isinstance(target, Target):
        raise IncompatibleError(
            f"sample needs a target such as approxmcmc.LogisticRegression(X, y), found {type(target).__name__}"
        )
    if not (sampler is None or isinstance(sampler, AnySampler)):
        raise IncompatibleError(
            "sample needs a sampler such as MetropolisHastings(RandomWalk(0.1), ExactTest()), "
            f"found {sampler!r} for target {target!r}"
        )
    with speaking(type(target).__name__):
        check_names(target.variables)
