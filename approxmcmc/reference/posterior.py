"""The gold standard of a target: NUTS, checked by quality gates, cached by content."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target, TwinnedTarget, Variables, content_hash
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import GoldStandardError, IncompatibleError, InvalidInputError, SamplingWarning, warn
from approxmcmc.interop.model_hash import model_hash, twin_id
from approxmcmc.reference.cache import cached
from approxmcmc.reference.gates import DEFAULT_GATES, GateReport, Gates, judge
from approxmcmc.reference.nuts import run_nuts
from approxmcmc.reference.summary import Estimands, Summary, moments_dataset, summarize_all
from approxmcmc.whole_chains.settings import preferred

# Gates that can pass with more draws, and the factor by which draws fall short; more draws do not remove divergences.
LENGTH_GATES: dict[str, Callable[[float, Gates], float]] = {
    "bulk_ess": lambda value, gates: gates.min_bulk_ess / value,
    "tail_ess": lambda value, gates: gates.min_tail_ess / value,
    "relative_mcse": lambda value, gates: (value / gates.max_relative_mcse) ** 2,
}
MAX_EXTENSIONS = 2
DRAWS_STEP = 500
SAFETY_FACTOR = 1.3
DESCRIBED_BY = (
    "method", "content_hash", "command", "seed", "gates", "gates_passed", "versions", "sampling_time", "wall_seconds",
)  # fmt: skip


@naming_the_arguments
def reference_posterior(
    target: Any,
    *,
    draws: int = 2000,
    tune: int = 1000,
    chains: int = 10,
    random_seed: int = 0,
    gates: Gates = DEFAULT_GATES,
    enforce: bool = True,
    estimands: Estimands | None = None,
    max_draws: int | None = None,
    total_draws: int | None = None,
    target_accept: float = 0.8,
    cache_dir: str | os.PathLike[str] | None = None,
    cores: int | None = None,
    progressbar: bool = False,
) -> xr.DataTree:
    """Return a gold standard: draws of NUTS that passed every quality gate, with their moments and MCSE.

    Parameters
    ----------
    target
        A ``pm.Model``, or a target with ``to_pymc()`` and ``content_hash()``.
    draws, tune, chains
        Kept and tuning draws per chain, and the number of chains.
    random_seed
        An integer, so that the gold standard can be repeated.
    gates
        Limits on R-hat, divergences, ESS, E-BFMI and MCSE.
    enforce
        Whether to raise if draws fail a gate. If not, they are returned with the report and a warning, and are not
        extended.
    estimands
        The quantities to estimate: functions of the posterior Dataset that return (chain, draw, ...) arrays, by name.
        None = every coordinate of every variable.
    max_draws
        If only ESS or MCSE fail, NUTS runs again, at most twice, with the number of draws per chain that should
        suffice, up to this number; None = 5 times `draws`. The result equals one run of the final length.
    total_draws
        Number of draws of all chains together. Until it is reached, NUTS runs further sets of `chains` chains of as
        many draws, each with seeds of its own; every set is cached, so that a longer gold standard continues a shorter
        one. The gates judge all chains together. None: one set.
    target_accept
        Acceptance rate at which NUTS aims when it tunes its step size. A larger value means smaller steps, fewer
        divergences and, for nearly normal posteriors, a smaller ESS for the same number of draws.
    cache_dir
        Folder of the cache; None = the environment variable ``APPROXMCMC_CACHE_DIR``, or the user's cache folder.
    cores
        Chains that run at once; None = as many as there are processors. It does not change the draws.
    progressbar
        Whether to show progress.

    Returns
    -------
    xarray.DataTree
        Groups `posterior`, `sample_stats`, the data groups, and `reference_moments`: every variable and estimand with
        a leading dim `moment` of (mean, sd, mcse); mcse is the Monte Carlo standard error of the mean.
        Attributes of `posterior` and `reference_moments`: `method` ("NUTS"), `content_hash` (of model and data),
        `command` (repeats the draws), `gates` (JSON, see :class:`GateReport`), `gates_passed`, `versions`, `seed`,
        `sampling_time` (s, of the chains alone) and `wall_seconds` (s, compilation included).

    Raises
    ------
    GoldStandardError
        If a gate fails and `enforce` holds; the message names each, with its worst value, where it was found, and the
        limit.
    IncompatibleError
        If the target has no PyMC twin, or its model has discrete parameters.
    InvalidInputError
        If a number is out of range, or an estimand does not return one array per draw.

    Notes
    -----
    Guarantee: asymptotically exact; the MCSE estimates the remaining error. No gate detects a mode that no chain found.

    Draws are cached under a hash of the content of model and data, draws, tune, chains, seed, sampler and
    target_accept. Gates and estimands are evaluated again on every call. A model with content that cannot be hashed (a
    black-box operation) is not cached.

    Examples
    --------
    >>> reference = amc.reference_posterior(target, random_seed=1)  # doctest: +SKIP
    >>> reference["reference_moments"]["beta"].sel(moment="mean")  # doctest: +SKIP
    """
    for name, count in (("draws", draws), ("tune", tune), ("chains", chains)):
        checked_integer(count, name, needed="a positive integer")
    if not isinstance(gates, Gates):
        raise InvalidInputError(f"reference_posterior: gates must be Gates(...), found {gates!r}.")
    if not isinstance(random_seed, (int, np.integer)):
        raise InvalidInputError(
            "reference_posterior: random_seed must be an integer, so that the draws can be repeated; found "
            f"{random_seed!r}."
        )
    content, key, make_model = _identify(target)
    how = {"cores": cores, "progressbar": progressbar}
    longest = max(draws, 5 * draws if max_draws is None else max_draws)
    for extensions_left in reversed(range(MAX_EXTENSIONS + 1)):
        settings = {
            "draws": int(draws),
            "tune": int(tune),
            "chains": int(chains),
            "random_seed": int(random_seed),
            "nuts": preferred(),
            "target_accept": float(target_accept),
        }
        tree = _draw(key, settings, make_model, cache_dir, **how)
        if isinstance(target, Target):
            tree["posterior"] = xr.DataTree(_labelled(tree["posterior"].to_dataset(), target.variables))
        tree["posterior"].attrs |= {
            "method": "NUTS",
            "content_hash": content or "",
            "command": _command(settings | {"nuts": tree["posterior"].attrs.get("nuts", settings["nuts"])}),
            "seed": int(random_seed),
        }
        report = _judge_and_describe(tree, gates, estimands)
        n_draws_needed = min(_draws_needed(report, gates, draws), longest)
        if report.passed or not enforce or not extensions_left or n_draws_needed <= draws:
            break
        draws = n_draws_needed
    sets = math.ceil((total_draws or 0) / (draws * chains))
    if sets > 1:
        further = [
            _draw(key, settings | {"random_seed": _seed_of_set(random_seed, k)}, make_model, cache_dir, **how)
            for k in range(1, sets)
        ]
        tree = _together([tree, *further])
        report = _judge_and_describe(tree, gates, estimands)
    if not report.passed:
        _complain(report, settings, enforce=enforce)
    return tree


def _identify(target: Any) -> tuple[str | None, str | None, Callable[[], Any]]:
    """Return the content hash, the model's part of the cache key, and a function that makes the PyMC model.

    The key is None if the model cannot be cached; for a ``pm.Model`` the hash is then None too.
    """
    if isinstance(target, TwinnedTarget):
        target_hash = target.content_hash()
        twin = twin_id(target)
        key = None if twin is None else content_hash(type(target).__qualname__, target_hash, twin)
        return target_hash, key, target.to_pymc
    import pymc as pm

    if isinstance(target, pm.Model):
        content = model_hash(target)
        return content, content, lambda: target
    raise IncompatibleError(
        "reference_posterior needs a pymc.Model, or a target that is a `contracts.TwinnedTarget`, with `to_pymc()` and "
        "`content_hash()`; found "
        f"{type(target).__name__}. Write its model in PyMC, or pass your own draws as the reference."
    )


def _draw(
    key: str | None,
    settings: dict[str, Any],
    make_model: Callable[[], Any],
    cache_dir: str | os.PathLike[str] | None,
    **how: Any,
) -> xr.DataTree:
    """Return the draws of one run, from the cache if possible; a model without a key cannot be cached."""

    def compute() -> xr.DataTree:
        return run_nuts(make_model(), settings, **how)

    return compute() if key is None else cached(content_hash(key, settings), cache_dir, compute)


def _seed_of_set(random_seed: int, k: int) -> int:
    """Return the seed of the k-th further set of chains."""
    return int(np.random.SeedSequence([abs(int(random_seed)), k]).generate_state(1)[0] >> 1)


def _together(sets: Sequence[xr.DataTree]) -> xr.DataTree:
    """Return the chains of several sets as one gold standard, with the attributes and labels of the first."""
    first = sets[0]
    groups = {f"/{name}": group.to_dataset() for name, group in first.children.items()}
    chains = first["posterior"].sizes["chain"]
    for name in ("posterior", "sample_stats"):
        if name not in first.children:
            continue
        parts = [tree[name].to_dataset() for tree in sets]
        # A further set comes from PyMC with numbers in place of the target's labels; the shapes are the same.
        like = [part.assign_coords(chain=np.arange(chains) + k * chains) for k, part in enumerate(parts)]
        renamed = [_relabelled(part, like[0]) for part in like]
        groups[f"/{name}"] = xr.concat(renamed, "chain", combine_attrs="override")
    attrs = groups["/posterior"].attrs
    for name in ("sampling_time", "wall_seconds", "seconds_to_make"):
        if name in attrs:
            attrs[name] = float(sum(tree["posterior"].attrs.get(name, 0.0) for tree in sets))
    attrs["sets_of_chains"] = len(sets)
    return xr.DataTree.from_dict(groups)


def _relabelled(part: xr.Dataset, like: xr.Dataset) -> xr.Dataset:
    """Return the arrays of a dataset under the dims and labels of another of the same shapes."""
    places = {dim: part[dim] for dim in ("chain", "draw")}
    arrays = {name: (variable.dims, part[name].to_numpy()) for name, variable in like.data_vars.items()}
    return xr.Dataset(arrays, coords={**like.coords, **places}, attrs=part.attrs)


def _labelled(posterior: xr.Dataset, variables: Variables) -> xr.Dataset:
    """Return the posterior with the target's names and labels for axes that PyMC has only numbered."""
    named = dict(posterior.data_vars)
    for name, axes in variables.dims.items():
        unnamed = tuple(f"{name}_dim_{k}" for k in range(len(axes)))
        variable = named.get(name)
        if variable is not None and variable.dims[2:] == unnamed and variable.shape[2:] == variables.shapes[name]:
            labels = {axis: list(variables.coords[axis]) for axis in axes if axis in variables.coords}
            bare = variable.drop_vars(unnamed, errors="ignore")
            named[name] = bare.rename(dict(zip(unnamed, axes, strict=True))).assign_coords(labels)
    return xr.Dataset(named, attrs=posterior.attrs)


def _judge_and_describe(tree: xr.DataTree, gates: Gates, estimands: Estimands | None) -> GateReport:
    """Return the report of the gates on the draws; the report and the moments are also written into the tree."""
    posterior = tree["posterior"].to_dataset()
    variables = summarize_all(posterior, None)
    chosen = None if estimands is None else summarize_all(posterior, estimands)
    report = judge(tree, gates, variables, chosen)
    describe(tree, report, {**variables, **(chosen or {})})
    return report


def describe(tree: xr.DataTree, report: GateReport, summaries: Mapping[str, Summary]) -> None:
    """Write the report of the gates, and the moments of variables and estimands, into a gold standard."""
    attrs = tree["posterior"].attrs
    attrs |= {"gates": report.to_json(), "gates_passed": int(report.passed)}
    described = {name: attrs[name] for name in DESCRIBED_BY if name in attrs}
    tree["reference_moments"] = xr.DataTree(moments_dataset(summaries, described))


def _draws_needed(report: GateReport, gates: Gates, draws: int) -> int:
    """Return how many draws per chain should pass the gates; 0 if more draws cannot."""
    failed = {result.gate: result.value for result in report.failures}
    if not failed.keys() <= LENGTH_GATES.keys() or not all(0 < value < math.inf for value in failed.values()):
        return 0
    shortfall = max(
        (LENGTH_GATES[gate](value, gates) for gate, value in failed.items()),
        default=0.0,
    )
    return DRAWS_STEP * math.ceil(SAFETY_FACTOR * shortfall * draws / DRAWS_STEP)


def _command(settings: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{name}={settings[name]!r}" for name in ("draws", "tune", "chains", "random_seed"))
    sampler = f"amc.NUTS(target_accept={settings['target_accept']!r}, backend={settings['nuts']!r})"
    return f"amc.sample(target, {sampler}, {arguments})"


def _complain(report: GateReport, settings: Mapping[str, Any], *, enforce: bool) -> None:
    failures = "; ".join(map(str, report.failures))
    message = (
        f"The gold standard of {settings['chains']} chains of {settings['draws']} draws fails {len(report.failures)} "
        f"of {len(report.results)} gates: {failures}."
    )
    if enforce:
        raise GoldStandardError(
            f"{message} Divergences and a low bfmi need a larger target_accept or another parametrisation, R-hat "
            "longer tuning or a search for several modes, ESS and MCSE more draws (`draws`, `max_draws`). "
            "`enforce=False` returns these draws with the report."
        )
    warn(f"{message} Errors measured with it include its own.", SamplingWarning)
