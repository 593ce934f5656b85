"""The public `sample`: the one place where all rooms meet."""

import math
import numbers
import os
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import xarray as xr

from approxmcmc.contracts import Program, Sampler, Target
from approxmcmc.diagnostics.diagnose import attributes, findings, report
from approxmcmc.diagnostics.importance import importance_diagnostics
from approxmcmc.diagnostics.target_ess import smallest_ess
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.output.datatree import build_trace
from approxmcmc.samplers.importance import weighted_draws
from approxmcmc.sampling.audits import audit_draws, time_for_draws
from approxmcmc.sampling.driver import run
from approxmcmc.sampling.goals import KEPT_PER_EFFECTIVE, EffectiveDraws, FixedDraws, Goals
from approxmcmc.sampling.initial import start_law, starting_points
from approxmcmc.sampling.progress import progress
from approxmcmc.targets.names import check_names

if TYPE_CHECKING:
    from approxmcmc.design.choice import Choice


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
) -> xr.DataTree:
    """Draw from a posterior, and record what every step cost and how often it decided wrongly.

    Parameters
    ----------
    target
        The posterior: a member of `approxmcmc.targets`, such as ``targets.LogisticRegression(X, y)``, or a
        ``pymc.Model`` (see `from_pymc`).
    sampler
        How to sample it, such as ``MetropolisHastings(RandomWalk(0.01), SequentialTTest(epsilon=0.05))``. None: what
        answers first, by the trials of `choose_sampler`; a line on the terminal and the attribute ``chosen`` say what
        that is, the attribute ``choice`` holds the table.
    draws
        Draws to keep per chain. Kept draw t is the state after step ``tune + (t + 1) * thin``. None: 1000, and without
        limit where `target_ess` is given; a number is then a cap.
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
        A bar on a terminal, plain lines elsewhere.

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
        When an argument is out of range.
    IncompatibleError
        When target, proposal and test do not fit together.
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
    target = as_target(target)
    if draws is None and target_ess is None:
        draws = 1000
    draws, tune = (
        None if value is None else checked_integer(value, name, 0) for value, name in ((draws, "draws"), (tune, "tune"))
    )
    chains, thin = (checked_integer(value, name, 1) for value, name in ((chains, "chains"), (thin, "thin")))
    cores = min(chains, os.cpu_count() or 1) if cores is None else checked_integer(cores, "cores")
    if audit_every is not None and not (isinstance(audit_every, str) and audit_every == "auto"):
        audit_every = checked_integer(audit_every, "audit_every")
    if time_limit is not None and not (isinstance(time_limit, numbers.Real) and time_limit > 0):
        raise InvalidInputError(f"time_limit must be positive seconds, or None, found {time_limit!r}")
    if target_ess is not None and not (isinstance(target_ess, numbers.Real) and 0 < target_ess < math.inf):
        raise InvalidInputError(
            f"target_ess must be a positive number of effective draws, or None, found {target_ess!r}"
        )
    if bias is not None and sampler is not None:
        raise InvalidInputError(
            f"bias={bias!r} is for the choice of a sampler, and one was given: {sampler!r}; leave one of the two out"
        )
    sequences, seed = seed_sequences(random_seed, chains)
    chosen: Mapping[str, Any] = {}
    if sampler is None and isinstance(target, Target):  # the trials' seed follows from the one that the trace stores
        wanted = {"time_limit": time_limit, "target_ess": target_ess, "bias": bias, "chains": chains, "cores": cores}
        choice = _choose_sampler(target, seed, say=progressbar, **wanted)
        target, sampler, chosen = choice.target, choice.sampler, choice.attrs
        initvals = choice.initvals if initvals is None else initvals
        tune = choice.tune if tune is None else tune
    tune = 1000 if tune is None else tune
    _check_roles(target, sampler)
    content = target.content_hash()  # before the run: a model that cannot be named is refused while nothing is lost

    started = time.perf_counter()
    program = sampler.build(target, audit_every=audit_every)
    compiled = time.perf_counter()
    own = [streams(sequence) for sequence in sequences]
    points, evaluations = starting_points(program, target.variables, start_law(target, sampler), initvals, own)
    running = [program.start(theta, own_streams, tune) for theta, own_streams in zip(points, own, strict=True)]
    ready = time.perf_counter()

    goals = _goals(draws, target_ess, chains, target, program)
    total, began = chains * (tune + thin * goals.expected[0]), time.perf_counter()
    with progress(total, show=progressbar, label=f"sampling {chains} chains", time_limit=time_limit) as bar:
        result = run(
            program,
            running,
            dim=target.variables.size,
            draws=goals,
            tune=tune,
            thin=thin,
            cores=cores,
            time_limit=time_for_draws(time_limit, running),
            keep_warmup=not discard_tuned_samples,
            progress=bar,
        )
    deadline = None if time_limit is None else began + time_limit
    found = goals.found(result.draws)
    result = audit_draws(result, running, own[0].audit, tune=tune, thin=result.attrs["thin"], deadline=deadline)
    attrs = {
        "n_obs": target.n_obs,
        "seed": seed,
        "target_content_hash": content,
        "setup_compile_seconds": compiled - started,
        "setup_start_seconds": ready - compiled,
        "setup_likelihood_evaluations": evaluations * target.n_obs + sum(chain.start_evaluations for chain in running),
        **chosen,
        **found,
        **target.setup_attrs,  # what was paid before: the search for a mode, an expansion
    }
    trace = build_trace(
        result._replace(attrs={**attrs, **result.attrs}),  # Gibbs knows better what one decision can read
        variables=target.variables,
        observed_data=target.observed_data,
        constant_data=target.constant_data,
        keep_warmup=not discard_tuned_samples,
        settings=sampler.to_dict(),
    )
    return told(trace)


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
    found = findings(trace)
    trace["posterior"].attrs.update(attributes(found))
    if block := report(found):
        warnings.warn(block, SamplingWarning, stacklevel=3)
    return trace


def _goals(draws: int | None, target_ess: float | None, chains: int, target: Target, program: Program) -> Goals:
    """Return how long the chains run: to an ESS as ArviZ sees it in the target's variables, or `draws` each."""
    if target_ess is None:
        assert draws is not None
        return FixedDraws(draws)
    if "weight" in program.value_names:
        raise IncompatibleError(
            "sample: target_ess counts draws of equal weight, and this sampler weighs its draws; give draws= "
            "or time_limit="
        )
    measure = smallest_ess(target.variables, KEPT_PER_EFFECTIVE * target_ess / chains)
    most = math.inf if draws is None else draws
    return EffectiveDraws(target_ess, most, chains=chains, dim=target.variables.size, smallest_ess=measure)


def _choose_sampler(target: Any, seed: Any, *, say: bool, **wanted: Any) -> "Choice":
    """Return the sampler for a user who named none, and say so."""
    from approxmcmc.design.choice import choose_sampler

    choice = choose_sampler(target, random_seed=seed if isinstance(seed, int) else seed[0], **wanted)
    if say:
        print(f"approxmcmc: {choice.sentence}")  # noqa: T201 (the user asked for progress, and has to know this)
    return choice


def as_target(target: Any) -> Any:
    """Return a PyMC model as a target, anything else as it is; `pymc` is not imported to find out."""
    if any(kind.__name__ == "Model" and kind.__module__.startswith("pymc.") for kind in type(target).__mro__):
        from approxmcmc.interop.pymc import from_pymc

        return from_pymc(target)
    return target


def _check_roles(target: Any, sampler: Any) -> None:
    if not isinstance(target, Target):
        raise IncompatibleError(
            f"sample needs a target such as approxmcmc.targets.LogisticRegression(X, y), found {type(target).__name__}"
        )
    if not isinstance(sampler, Sampler):
        raise IncompatibleError(
            "sample needs a sampler such as MetropolisHastings(RandomWalk(0.1), ExactTest()), "
            f"found {sampler!r} for target {target!r}"
        )
    check_names(target.variables, who=type(target).__name__)
