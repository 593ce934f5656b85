"""The public `sample`: the one place where all rooms meet."""

import numbers
import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import xarray as xr

from approxmcmc.contracts import DiscreteTarget, Sampler, Target
from approxmcmc.diagnostics.diagnose import attributes, findings, report
from approxmcmc.diagnostics.importance import importance_diagnostics
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.output.datatree import build_trace
from approxmcmc.samplers.importance import weighted_draws
from approxmcmc.sampling.audits import audit_draws, time_for_draws
from approxmcmc.sampling.driver import run
from approxmcmc.sampling.initial import start_law, starting_points
from approxmcmc.sampling.progress import progress
from approxmcmc.targets.names import check_names


def sample(
    target: Any,
    sampler: Any = None,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    random_seed: Any = None,
    initvals: Any = None,
    thin: int = 1,
    time_limit: float | None = None,
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
        How to sample it, such as ``MetropolisHastings(RandomWalk(0.01), SequentialTTest(epsilon=0.05))``. None: a
        random walk scaled by the curvature at the mode, with the sequential test that a pilot run designs for an
        acceptance error of 0.02; or, where that one would read too much of the data, the exact test, with Langevin
        steps (MALA) where the target has a gradient. A line on the terminal
        and the attribute ``chosen`` say which (see `bounds.default_sampler`).
    draws
        Draws to keep per chain. Kept draw t is the state after step ``tune + (t + 1) * thin``.
    tune
        Steps before the first kept draw, never thinned. Proposals that were asked to adapt do so here and are frozen
        after.
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
        warns, naming theta, and the datum where that is known.

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
    counts = {"draws": (draws, 0), "tune": (tune, 0), "chains": (chains, 1), "thin": (thin, 1)}
    draws, tune, chains, thin = (checked_integer(value, name, least) for name, (value, least) in counts.items())
    cores = min(chains, os.cpu_count() or 1) if cores is None else checked_integer(cores, "cores")
    if audit_every is not None and not (isinstance(audit_every, str) and audit_every == "auto"):
        audit_every = checked_integer(audit_every, "audit_every")
    if time_limit is not None and not (isinstance(time_limit, numbers.Real) and time_limit > 0):
        raise InvalidInputError(f"time_limit must be positive seconds, or None, found {time_limit!r}")
    sequences, seed = seed_sequences(random_seed, chains)
    chosen: Mapping[str, Any] = {}
    if sampler is None:  # the pilot's seed follows from the one that the trace stores
        pilot_seed = seed if isinstance(seed, int) else seed[0]
        sampler, initvals, chosen = _choose_sampler(target, initvals, pilot_seed, say=progressbar)
    _check_roles(target, sampler)
    content = target.content_hash()  # before the run: a model that cannot be named is refused while nothing is lost

    started = time.perf_counter()
    program = sampler.build(target, audit_every=audit_every)
    compiled = time.perf_counter()
    own = [streams(sequence) for sequence in sequences]
    points, evaluations = starting_points(program, target.variables, start_law(target, sampler), initvals, own)
    running = [program.start(theta, own_streams, tune) for theta, own_streams in zip(points, own, strict=True)]
    ready = time.perf_counter()

    total, began = chains * (tune + thin * draws), time.perf_counter()
    with progress(total, show=progressbar, label=f"sampling {chains} chains", time_limit=time_limit) as bar:
        result = run(
            program,
            running,
            dim=target.variables.size,
            draws=draws,
            tune=tune,
            thin=thin,
            cores=cores,
            time_limit=time_for_draws(time_limit, running),
            keep_warmup=not discard_tuned_samples,
            progress=bar,
        )
    deadline = None if time_limit is None else began + time_limit
    result = audit_draws(result, running, own[0].audit, tune=tune, thin=thin, deadline=deadline)
    attrs = {
        "n_obs": target.n_obs,
        "seed": seed,
        "target_content_hash": content,
        "setup_compile_seconds": compiled - started,
        "setup_start_seconds": ready - compiled,
        "setup_likelihood_evaluations": evaluations * target.n_obs + sum(chain.start_evaluations for chain in running),
        **chosen,
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


def _choose_sampler(target: Any, initvals: Any, random_seed: int, *, say: bool) -> tuple[Any, Any, Mapping[str, Any]]:
    """Return the default sampler, where its chains start, and what the choice cost."""
    from approxmcmc.design.default_sampler import default_sampler

    if not isinstance(target, Target) or isinstance(target, DiscreteTarget):
        raise IncompatibleError(
            f"sample: for {type(target).__name__} there is no default sampler; name one, such as Gibbs(ExactTest()) "
            "for discrete states"
        )
    chosen = default_sampler(target, random_seed=random_seed)
    if say:
        print(f"approxmcmc: {chosen.sentence}")  # noqa: T201 (the user asked for progress, and has to know this)
    return chosen.sampler, chosen.laplace if initvals is None else initvals, chosen.attrs


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
