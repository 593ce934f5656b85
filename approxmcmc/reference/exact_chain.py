"""Make the gold standard of a target that is too slow for NUTS: a long exact chain, confirmed by two checks."""

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any

import xarray as xr

from approxmcmc.acceptance import ExactTest
from approxmcmc.audits.policy import audit_draws
from approxmcmc.contracts import DifferentiableTarget, Target, content_hash
from approxmcmc.contracts.arguments import check_settings, naming_the_arguments
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import GoldStandardError, IncompatibleError, InvalidInputError, SamplingWarning, warn
from approxmcmc.numerics import Laplace, laplace
from approxmcmc.output.datatree import build_trace
from approxmcmc.proposals import Langevin, Mixture, PreconditionedCrankNicolson, RandomWalk
from approxmcmc.reference.cache import cached
from approxmcmc.reference.chain_gates import ChainGates, judge_chains
from approxmcmc.reference.posterior import describe
from approxmcmc.reference.scored_draws import scored_draws_of
from approxmcmc.reference.stein import BATCHES, stein_deviations
from approxmcmc.reference.summary import Estimands
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.sampling.assembly import assemble
from approxmcmc.sampling.driver import run
from approxmcmc.sampling.progress import progress
from approxmcmc.surrogate import ControlVariate, SurrogateTransition


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An exact sampler, the form of the posterior on which it runs, and its steps per draw.

    Parameters
    ----------
    sampler
        A sampler that leaves the posterior invariant, such as ``MetropolisHastings(proposal, ExactTest())``, or with
        :class:`PoissonTest`, which reads few rows.
    form
        The same posterior with other terms, such as a `ControlVariate` of the target; None = the target itself.
    thin
        Steps per kept draw: use more for a kernel that mixes slowly.
    """

    sampler: Any
    form: Target | None = None
    thin: int = 1

    def __post_init__(self) -> None:
        """Check the types of the settings."""
        check_settings(self)


def langevin_kernel(fit: Laplace, thin: int = 1) -> Kernel:
    """Return Metropolis-Hastings with Langevin steps (MALA) in the metric of a Laplace approximation."""
    step_size = 1.65**2 / fit.mode.size ** (1 / 3)  # Roberts and Rosenthal (1998), for a normal target
    return Kernel(
        MetropolisHastings(Langevin(step_size, preconditioner=fit, target_acceptance=0.574), ExactTest()), thin=thin
    )


def influential_rows_kernel(target: Target) -> Kernel:
    """Return the kernel of surrogate transitions on a `ControlVariate` of a target, tested on all rows.

    It is fast if a few rows are heavy.
    """
    return Kernel(MetropolisHastings(SurrogateTransition(), ExactTest()), ControlVariate(target, always_read="auto"))


def mixture_kernel(fit: Laplace, thin: int = 1) -> Kernel:
    """Return Metropolis-Hastings that proposes at random a draw of a Laplace approximation or a random-walk step."""
    walk = RandomWalk(2.38 / math.sqrt(fit.mode.size), preconditioner=fit)
    return Kernel(MetropolisHastings(Mixture([PreconditionedCrankNicolson(0.0, fit), walk]), ExactTest()), thin=thin)


def run_kernel(
    target: Target,
    sampler: Any,
    settings: Mapping[str, int],
    *,
    cores: int | None,
    progressbar: bool,
    audit_every: int | str | None = None,
) -> xr.DataTree:
    """Return the trace of chains of a sampler; `settings` holds draws, tune, thin, chains and random_seed.

    `audit_every` is that of `sample`. `cores` is the number of threads; None for one for each chain, but no more than
    there are processors.

    Raises
    ------
    KeyboardInterrupt
        If the chains stopped early: by an interrupt, or at a NaN after the first kept draw.
    SamplingError
        If a log density was NaN before a draw was kept.
    """
    draws, tune, thin, chains = (settings[name] for name in ("draws", "tune", "thin", "chains"))
    assembled = assemble(
        target, sampler, seed=settings["random_seed"], chains=chains, tune=tune, audit_every=audit_every
    )
    total = chains * (tune + thin * draws)
    with progress(total, show=progressbar, label=f"sampling {chains} chains", time_limit=None) as bar:
        result = run(
            assembled.program,
            assembled.chains,
            dim=target.variables.size,
            draws=draws,
            tune=tune,
            thin=thin,
            cores=cores or min(chains, os.cpu_count() or 1),
            time_limit=None,
            keep_warmup=False,
            progress=bar,
        )
    if result.attrs["stopped"]:
        # An interrupted reference run is not a gold standard: do not cache it.
        raise KeyboardInterrupt(f"the chains were stopped after {result.draws.shape[1]} of {draws} draws")
    return build_trace(
        audit_draws(result, assembled.chains, assembled.streams[0].audit, tune=tune, thin=thin),
        variables=target.variables,
        observed_data={},
        constant_data={},
        keep_warmup=False,
        settings=sampler.to_dict(),
    )


METHOD = "long exact chain"
SCORED_DRAWS = 2000  # draws of all chains together; each costs a gradient on all data
DEFAULT_CHAIN_GATES = ChainGates()


@naming_the_arguments
def exact_chain_reference(
    target: Any,
    kernel: Kernel | None = None,
    second: Kernel | None = None,
    *,
    draws: int = 5000,
    tune: int = 1000,
    chains: int = 4,
    second_draws: int | None = None,
    scored_draws: int = SCORED_DRAWS,
    random_seed: int = 0,
    gates: ChainGates = DEFAULT_CHAIN_GATES,
    enforce: bool = True,
    estimands: Estimands | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    cores: int | None = None,
    progressbar: bool = False,
) -> xr.DataTree:
    """Return a gold standard without NUTS: long exact chains that passed every gate, with their moments and MCSE.

    For tall data on which NUTS takes more than an hour. In place of NUTS's own diagnostics, two checks confirm the
    chain: a second exact kernel that agrees within Monte Carlo error, and Stein's identities.

    Parameters
    ----------
    target
        A target with gradients.
    kernel
        The kernel of the chains; None = Langevin steps in the metric of the Laplace approximation, exact test.
    second
        The kernel of the chains that confirm the first; None = a random mixture of independent draws of the Laplace
        approximation and random-walk steps, exact test. It makes as many chains and tuning steps as the first.
    draws, tune, chains
        As in `sample`.
    second_draws
        Draws of the second kernel's chains, which need to confirm the first and not to reach its error; None = `draws`.
    scored_draws
        Draws of all chains, at least 20 of each, at which the gradient on all data is computed, evenly spaced: for
        Stein's identities, and as control variates, with which `risk` and studies estimate posterior means and
        variances more precisely than all draws do. About ten draws per control variate are needed, of which there are d
        linear and d (d + 1) / 2 quadratic ones.
    random_seed
        An integer, so that the gold standard can be repeated.
    gates
        Limits on R-hat and ESS of both kernels' chains, on their differences, and on the deviations from Stein's
        identities.
    enforce
        Whether to raise if draws fail a gate. If not, they are returned with the report and a warning.
    estimands
        As in `reference_posterior`.
    cache_dir
        Folder of the cache; None = the environment variable ``APPROXMCMC_CACHE_DIR``, or the user's cache folder.
    cores
        Chains that run at once; None = as many as there are processors. It does not change the draws.
    progressbar
        Whether to show a bar.

    Returns
    -------
    xarray.DataTree
        As `reference_posterior` returns, with the attribute `method` "long exact chain" and, instead of a `command`,
        `kernel` and `second_kernel`. Group `scores`: `theta` and `score`, the gradients of log pi, of dims (chain,
        at_draw, parameter); left out if Stein's identities fail, because then these gradients would bias the moments.

    Raises
    ------
    GoldStandardError
        If a gate fails and `enforce` holds.
    IncompatibleError
        If the target has no gradients.
    InvalidInputError
        If a number is out of range, a kernel is not exact, or a form is another posterior than the target's.

    Notes
    -----
    Guarantee: asymptotically exact; the MCSE estimates the remaining error. Neither the second kernel nor Stein's
    identities detect a mode that no chain found. Draws of both kernels are cached by content; gates are evaluated again
    on every call.

    Examples
    --------
    >>> from approxmcmc.reference.exact_chain import influential_rows_kernel
    >>> reference = amc.reference.exact_chain_reference(target, influential_rows_kernel(target))  # doctest: +SKIP
    >>> reference["reference_moments"].attrs["method"]  # doctest: +SKIP
    'long exact chain'
    """
    counts = {"draws": (draws, BATCHES), "tune": (tune, 0), "chains": (chains, 1)}
    fewer = checked_integer(draws if second_draws is None else second_draws, "second_draws", BATCHES)
    settings = {name: checked_integer(value, name, least) for name, (value, least) in counts.items()}
    settings["random_seed"] = checked_integer(random_seed, "random_seed", 0)
    scored = checked_integer(scored_draws, "scored_draws", 1)
    if not isinstance(target, Target) or not isinstance(target, DifferentiableTarget):
        raise IncompatibleError(
            "A long exact chain is checked by Stein's identities, which need a target with gradients; found "
            f"{target!r}. Use `reference_posterior`, or give the target its gradients."
        )
    if kernel is None or second is None:
        fit = laplace(target)
        kernel = kernel or langevin_kernel(fit)
        second = second or mixture_kernel(fit)
    for each in (kernel, second):
        _check(target, each)
    how: dict[str, Any] = {"cache_dir": cache_dir, "cores": cores, "progressbar": progressbar}
    tree = _draw(target, kernel, settings, **how)
    other = _draw(target, second, settings | {"random_seed": settings["random_seed"] + 1, "draws": fewer}, **how)
    scores = scored_draws_of(target, tree["posterior"].to_dataset(), scored, cache_dir)
    deviations = stein_deviations(scores["theta"].to_numpy(), scores["score"].to_numpy())
    report, summaries = judge_chains(
        tree["posterior"].to_dataset(), other["posterior"].to_dataset(), deviations, gates, estimands
    )
    tree["posterior"].attrs |= {
        "method": METHOD,
        "content_hash": target.content_hash(),
        "seed": settings["random_seed"],
        "kernel": repr(kernel.sampler),
        "second_kernel": repr(second.sampler),
        "seconds_to_make": sum(each["posterior"].attrs.get("seconds_to_make", 0.0) for each in (tree, other)),
    }
    describe(tree, report, summaries)
    if not any(failure.gate.startswith("stein") for failure in report.failures):
        tree["scores"] = xr.DataTree(scores)  # control variates have mean 0 only if the identities hold
    if not report.passed:
        _complain(report, settings, enforce=enforce)
    return tree


def _check(target: Target, kernel: Kernel) -> None:
    """Raise if a kernel's chains have another stationary distribution than the target's posterior."""
    form = target if kernel.form is None else kernel.form
    if form.variables != target.variables:
        raise InvalidInputError(
            f"The form {form!r} needs the variables of {target!r}; found others, so it is another posterior. Make the "
            "form from this target."
        )
    if form is not target and form.distance_to_model not in (0.0, target.distance_to_model):
        raise InvalidInputError(
            f"The form {form!r} approximates its model (distance_to_model={form.distance_to_model}, in nats): it is "
            f"another posterior than that of {target!r}. Leave it out."
        )
    why = kernel.sampler.why_not_invariant(form)
    if why:
        raise InvalidInputError(
            f"A long exact chain needs a sampler that leaves the posterior invariant: {why}. Use ExactTest(), or a "
            "test of exact subsampling such as PoissonTest()."
        )


def _draw(target: Target, kernel: Kernel, settings: dict[str, int], *, cache_dir: Any, **how: Any) -> xr.DataTree:
    """Return the chains of a kernel, from the cache if possible."""
    form = target if kernel.form is None else kernel.form
    settings = {**settings, "thin": checked_integer(kernel.thin, "thin")}
    key = content_hash(METHOD, target.content_hash(), form.content_hash(), kernel.sampler.to_dict(), settings)
    return cached(key, cache_dir, lambda: run_kernel(form, kernel.sampler, settings, **how))


def _complain(report: Any, settings: dict[str, int], *, enforce: bool) -> None:
    failures = "; ".join(map(str, report.failures))
    message = (
        f"The long exact chain of {settings['chains']} x {settings['draws']} draws fails {len(report.failures)} of "
        f"{len(report.results)} gates: {failures}."
    )
    if enforce:
        raise GoldStandardError(
            f"{message} R-hat and ESS need more draws or steps (`draws`, `Kernel(thin=...)`) or a kernel that mixes "
            "better; a second kernel that disagrees says that one of the two kernels is wrong or has not converged, "
            "and failed identities of Stein say this of the first kernel. `enforce=False` returns these draws with the "
            "report."
        )
    warn(f"{message} Errors measured with it include its own.", SamplingWarning)
