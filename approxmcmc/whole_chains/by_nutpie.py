"""NUTS of nutpie: each chain is a separate sampler, in a thread that runs and pauses on demand.

A chain is a function of its seed, of its starting point, and of the adaptation. Its draws do not depend on when it
pauses, nor on how many more are to come, so a short run equals the beginning of a longer one, bit by bit.

nutpie takes the scale of a coordinate from its draws and their gradients, sd(draws) / sd(gradients). Where the density
has a long tail that is nearly exponential, as the logarithm of a hazard with a Gamma(.01, .01) prior and no event, the
gradient hardly varies: the scale grows without bound, the step size falls to 1e-59, and the chain makes 1023 leapfrog
steps a draw without moving. Such a chain is seen at the end of tuning, and all chains start again with scales from the
draws alone. (Of 60 patients in 25 such intervals, 4 chains of 1000 draws: R-hat 3.9 after 75 CPU seconds with nutpie's
scales, 1.006 after 42 with those of the draws.)
"""

import dataclasses
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.engine.extras import extra
from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.engine.messages import tell
from approxmcmc.whole_chains.nuts_draws import RECORDS, NUTSJob, RawDraws, mean_leapfrogs, records_of
from approxmcmc.whole_chains.starts import flat, mirrored_starts

POLL = 0.002  # seconds between two looks at the chains
SLICE = 0.2  # seconds that a chain runs before a slower one takes its core
REPORTED = 20  # milliseconds between two reports of a chain
RESERVED = 2**27  # bytes of a chain's draws: nutpie reserves memory for all possible draws
AWAY = 1e-3  # standard deviation of new starts around a given one that nutpie does not accept
# nutpie's names of what scales are taken from: the draws and their gradients, or the draws alone
BY_GRADIENTS = "diag"
BY_DRAWS = "draw_diag"
FEWEST_STILL = 50  # tuning steps to judge: a chain that moves in a tenth of them moves in none of 50 with p = .005
CLOCK = "the total, spread over draws by their leapfrog steps"


@dataclasses.dataclass(frozen=True, eq=False)
class NutpieModel:
    """A model that nutpie has compiled, and the seconds that this took."""

    made: Any
    seconds: float


def compile_model(model: Any, names: Sequence[str] | None) -> NutpieModel:
    """Return a model compiled by nutpie, with the variables `names`, None for all; raise any error of compilation.

    Labels of axes are replaced by numbers, because nutpie refuses some that PyMC accepts, such as tuples, intervals and
    dates. The trace gets the model's labels from the target. Without nutpie: `MissingExtraError`.
    """
    import pandas as pd

    with extra("nutpie", "NUTS by nutpie"):
        import nutpie

    began = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model, var_names=None if names is None else list(names))
    numbers = {axis: pd.RangeIndex(len(compiled.coords[axis])) for axis in model.coords}
    return NutpieModel(
        dataclasses.replace(compiled, _coords={**compiled.coords, **numbers}), time.perf_counter() - began
    )


class NutpieChain:
    """Chain number `k` of a job, which nutpie ends after `most` draws; its thread begins at the first `run`.

    The chain starts at `first`, an unconstrained point. `seconds` includes the seconds of the chains that it replaces,
    and `steps_before` is the number of their leapfrog steps.
    """

    def __init__(self, job: NUTSJob, compiled: Any, first: np.ndarray, k: int, most: int, adaptation: str) -> None:
        self._job = job
        self._most = most
        self._adaptation = adaptation
        self._seed = job.seeds[k]
        instead = compiled.initial_point_func if job.starts is None else near(first)
        self._compiled = dataclasses.replace(compiled, initial_point_func=at_first(first, instead))
        self._sampler: Any = None
        self._ended: xr.DataTree | None = None  # all draws: nutpie hands out those of an ended chain once
        self._reported = 0
        self._since = 0.0
        self.seconds = 0.0
        self.steps_before = 0

    def run(self) -> None:
        """Start or resume the chain."""
        import nutpie

        if self._since:
            return
        if self._sampler is not None:
            self._since = time.perf_counter()
            self._sampler.resume()
            return
        job = self._job
        began = time.perf_counter()
        self._sampler = nutpie.sample(
            self._compiled,
            draws=self._most,
            tune=job.tune,
            chains=1,
            cores=1,
            seed=self._seed,
            target_accept=job.target_accept,
            adaptation=self._adaptation,
            progress_bar=False,
            progress_callback=self._note,
            progress_rate=REPORTED,
            blocking=False,
        )
        self._since = began  # set last: a chain that nutpie could not make has nothing to pause

    def pause(self) -> None:
        """Pause the chain's thread."""
        if self._since:
            self.seconds += time.perf_counter() - self._since
            self._since = 0.0
            if not self.is_done:
                self._sampler.pause()

    @property
    def is_done(self) -> bool:
        """Whether the chain has ended, or failed."""
        if self._ended is not None:
            return True
        try:
            return self._sampler is not None and bool(self._sampler.is_finished)
        except TimeoutError:  # version 0.16 raises this while the chain runs
            return False

    @property
    def made(self) -> float:
        """Number of steps made, as last reported; infinite once the chain has ended."""
        return np.inf if self.is_done else self._reported

    def _note(self, progress: Any) -> None:
        self._reported = progress[0].finished_draws

    def draws(self) -> xr.DataTree:
        """Return the draws so far; raise the error of a chain that failed."""
        if self._sampler is None:  # the run ended before this chain began
            self.run()
            self.pause()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found chain dimension to be longer", UserWarning)
            if not self.is_done:
                return self._sampler.inspect()
            if self._ended is None:
                self._ended = self._sampler.wait()
            return self._ended

    def replaces(self, other: "NutpieChain") -> None:
        """Take over what a chain has cost that ends and is drawn again."""
        tree = other.draws()
        steps_made = (tree[name]["n_steps"].sum() for name in ("warmup_sample_stats", "sample_stats"))
        self.seconds = other.seconds
        self.steps_before = other.steps_before + int(sum(steps_made))

    def end(self) -> None:
        """Stop the chain's thread."""
        if self._sampler is not None and not self.is_done:
            self._sampler.cancel()


def draw(job: NUTSJob, compiled: NutpieModel, adaptation: str | None = None) -> RawDraws:
    """Draw chains by nutpie.

    `adaptation` is nutpie's name of what scales are taken from. None: from draws and gradients, and if a chain does not
    move at the end of tuning, all chains start again with scales from the draws alone.

    Raises
    ------
    RuntimeError
        When a chain cannot start, or fails; the message is nutpie's.
    """
    began = time.perf_counter()
    deadline = np.inf if job.seconds is None else limit_clock() + job.seconds
    draws = job.draws
    most = _most(job, compiled, draws)
    by = adaptation or BY_GRADIENTS
    chains = list[NutpieChain]()
    stopped = ""
    polling = 0.0
    firsts = _starts(job)
    try:
        chains = _instead(chains, job, compiled, firsts, most, by)
        if adaptation is None and (still := _still(chains, job, deadline)):
            tell(
                "NUTS by nutpie: chain(s) %s did not move in the last quarter of tuning, with scales from draws and "
                "gradients. All chains start again, with scales from the draws alone",
                still,
            )
            by = BY_DRAWS
            chains = _instead(chains, job, compiled, firsts, most, by)
        while True:
            stopped = _advance(chains, job, draws, deadline)
            ended = time.perf_counter()
            trees = [chain.draws() for chain in chains]
            longer = 0
            if not stopped:
                leapfrogs = mean_leapfrogs(_joined(trees, "sample_stats", draws))
                longer = job.more(_joined(trees, "posterior", draws), leapfrogs)
            if not longer:
                break
            draws = longer
            if draws > most:  # longer chains start again, with the same draws at the beginning
                most = _most(job, compiled, draws)
                chains = _instead(chains, job, compiled, firsts, most, by)
            polling = polling + time.perf_counter() - ended
    except KeyboardInterrupt:
        stopped = "interrupt"
        ended = time.perf_counter()
        trees = [chain.draws() for chain in chains]
    finally:
        _end(chains)
    return _raw(chains, trees, draws, compiled.seconds, ended - began - polling, stopped, by)


def _most(job: NUTSJob, compiled: NutpieModel, draws: int) -> int:
    """Return the draws after which nutpie ends a chain: at least `wanted`, and more where memory allows."""
    return max(draws, min(job.most, RESERVED // (8 * (compiled.made.n_expanded + len(RECORDS)))))


def _instead(
    chains: Sequence[NutpieChain],
    job: NUTSJob,
    compiled: NutpieModel,
    firsts: Sequence[np.ndarray],
    most: int,
    adaptation: str,
) -> list[NutpieChain]:
    """Return new chains of at most `most` draws in place of `chains`, which end."""
    new = [NutpieChain(job, compiled.made, first, k, most, adaptation) for k, first in enumerate(firsts)]
    for chain, old in zip(new, chains, strict=False):  # `chains` is empty the first time
        chain.replaces(old)
    _end(chains)
    return new


def _still(chains: Sequence[NutpieChain], job: NUTSJob, deadline: float) -> list[int]:
    """Run all chains to the end of tuning; return the numbers of those that did not move in its last quarter.

    This quarter is judged if it has at least `FEWEST_STILL` steps, and tuning ended before `deadline`.
    """
    steps = job.tune // 4
    if steps < FEWEST_STILL or _advance(chains, job, 0, deadline):
        return []
    return [k for k, chain in enumerate(chains) if _never_moves(chain, slice(job.tune - steps, job.tune))]


def _never_moves(chain: NutpieChain, steps: slice) -> bool:
    """Return whether a chain stays at one point in these steps of tuning."""
    values = chain.draws()["warmup_posterior"].to_dataset().isel(chain=0, draw=steps)
    return all(bool((value == value.isel(draw=0)).all()) for value in values.data_vars.values())


def _end(chains: Sequence[NutpieChain]) -> None:
    for chain in chains:
        chain.end()


def _advance(chains: Sequence[NutpieChain], job: NUTSJob, draws: int, deadline: float) -> str:
    """Run all chains to `draws` draws each, `cores` at a time; return "time_limit" if that comes first, else ""."""
    steps = job.tune + draws
    running = list[NutpieChain]()
    since = 0.0
    turn = SLICE if job.seconds is None else min(SLICE, job.seconds / (4 * len(chains)))
    try:
        while behind := [chain for chain in chains if chain.made < steps]:
            now = time.perf_counter()
            if limit_clock() >= deadline:
                return "time_limit"
            if now - since > turn or not all(chain in behind for chain in running):
                running = sorted(behind, key=lambda chain: chain.made)[: job.cores]
                since = now
                for chain in chains:
                    if chain not in running:
                        chain.pause()
                for chain in running:
                    chain.run()
            job.tick(int(sum(min(chain.made, steps) for chain in chains)))
            time.sleep(POLL)
        return ""
    finally:
        for chain in chains:
            chain.pause()


def _raw(
    chains: Sequence[NutpieChain],
    trees: Sequence[xr.DataTree],
    most: int,
    compile_seconds: float,
    wall_seconds: float,
    stopped: str,
    adaptation: str,
) -> RawDraws:
    """Return the draws of all chains, cut to the shortest and to `most` draws, with records and seconds.

    The seconds of a chain are spread over its steps in proportion to their gradients. The first step of tuning counts
    those of the chains that were drawn before in its place, too.
    """
    kept = min(most, *(tree["posterior"].sizes["draw"] for tree in trees))
    stats = records_of(_joined(trees, "sample_stats", kept))
    tuned = min(tree["warmup_posterior"].sizes["draw"] for tree in trees)
    warmup_stats = records_of(_joined(trees, "warmup_sample_stats", tuned))
    seconds = []
    warmup_seconds = []
    for chain, tree in zip(chains, trees, strict=True):
        groups = tree["warmup_sample_stats"], tree["sample_stats"]
        steps = [group["n_steps"].to_numpy()[0].astype(np.int64) for group in groups]
        steps[0][:1] += chain.steps_before
        rate = chain.seconds / max(float(steps[0].sum() + steps[1].sum()), 1.0)
        warmup_seconds.append(rate * steps[0][:tuned])
        seconds.append(rate * steps[1][:kept])
    warmup_stats["n_steps"] = warmup_stats["n_steps"].astype(np.int64)
    warmup_stats["n_steps"][:, :1] += np.array([[chain.steps_before] for chain in chains])
    return RawDraws(
        _joined(trees, "posterior", kept),
        stats,
        np.array(seconds),
        _joined(trees, "warmup_posterior", tuned),
        warmup_stats,
        np.array(warmup_seconds),
        compile_seconds,
        wall_seconds,
        CLOCK,
        stopped,
        adaptation=adaptation,
    )


def _joined(trees: Sequence[xr.DataTree], group: str, draws: int) -> xr.Dataset:
    """Return the first `draws` draws of each chain in the group named `group`, joined along the dim chain."""
    datasets = [tree[group].to_dataset().isel(draw=slice(draws)) for tree in trees]
    numbered = [dataset.assign_coords(chain=[k]) for k, dataset in enumerate(datasets)]
    return xr.concat(numbered, dim="chain", join="exact", data_vars="all", combine_attrs="drop")


def _starts(job: NUTSJob) -> list[np.ndarray]:
    """Return the unconstrained start of each chain: the given one, or one of a mirrored pair."""
    if job.starts is None:
        return [
            flat(job.model, start) for start in mirrored_starts(job.model, job.seeds, job.first_seeds, job.restarted)
        ]
    return [flat_start(job.model, start, seed) for start, seed in zip(job.starts, job.seeds, strict=True)]


def at_first(start: np.ndarray, instead: Callable[[int], np.ndarray]) -> Callable[[int], np.ndarray]:
    """Return the function of a seed that gives nutpie `start` or, if nutpie rejects it, points of `instead`.

    nutpie rejects a start where the log density is not finite. It scales its first step by the gradient, so it also
    rejects a start where an entry of the gradient is 0, as at a residual of 0.
    """
    tries = itertools.count()
    return lambda seed: instead(seed) if next(tries) else start


def near(start: np.ndarray) -> Callable[[int], np.ndarray]:
    """Return the function of a seed that draws a point near `start`."""
    return lambda seed: start + np.random.default_rng(seed).normal(scale=AWAY, size=start.shape)


def flat_start(model: Any, values: Any, seed: int) -> np.ndarray:
    """Return the unconstrained start of a model, from values of some free variables by name."""
    from pymc.initial_point import make_initial_point_fn

    overrides = {model[name]: np.asarray(value) for name, value in values.items()}
    point = make_initial_point_fn(model=model, overrides=overrides, return_transformed=True)(seed)
    return flat(model, point)
