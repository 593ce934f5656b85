"""One chain with its clock, in the form of the library's own traces."""

import dataclasses
import math
import numbers
from collections.abc import Mapping

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.identity import known_content
from approxmcmc.errors import InvalidInputError
from approxmcmc.output.clock import spread
from approxmcmc.output.datatree import named_trace
from approxmcmc.whole_chains.chain_by_chain import ChainSampler

EACH_DRAW = "each draw timed"
FITTED = "the fit is timed; its draws cost nothing"


@naming_the_arguments
def chain_trace(
    sampler: ChainSampler,
    target: Target,
    draws: Mapping[str, np.ndarray] | np.ndarray,
    *,
    seconds: np.ndarray | float,
    warmup_seconds: float = 0.0,
    compile_seconds: float = np.nan,
    gradients: np.ndarray | None = None,
    rows_per_gradient: int | None = None,
    warmup_gradients: float = 0.0,
    warmup_steps: int = 0,
    clock: str = EACH_DRAW,
    stopped: str = "",
    stats: Mapping[str, np.ndarray] | None = None,
    approximation: bool = False,
) -> xr.DataTree:
    """Return one chain as a trace of the library.

    Parameters
    ----------
    sampler, target
        The sampler and the target of the chain.
    draws
        Kept draws: an array of flat thetas of the target, shape (n, dim), or arrays of shape (n, ...) by variable.
    seconds
        Seconds of each kept draw, shape (n,); or of all together, which are spread over the draws in proportion to
        `gradients`, or evenly if these are unknown.
    warmup_seconds, compile_seconds
        Seconds of the warm-up, and of compilation before it.
    gradients
        Gradients of the log density in each kept draw, shape (n,).
    rows_per_gradient
        Data that one gradient reads; None: all.
    warmup_gradients, warmup_steps
        Totals of the warm-up.
    clock
        How draws were timed, in words, for reports; set automatically if `seconds` is one number, and for
        approximations.
    stopped
        ``"time_limit"`` if the chain ended at its time limit.
    stats
        More records of each draw, such as ``diverging``.
    approximation
        Whether the draws are independent draws of a distribution fitted to the posterior, all available after the fit.
        A curve of risk against time then has a single point.

    Raises
    ------
    InvalidInputError
        When the arrays do not fit each other or the target's variables.

    Examples
    --------
    >>> thetas, spent = np.zeros((10, 3)), np.full(10, 0.1)  # doctest: +SKIP
    >>> chain_trace(self, target, thetas, seconds=spent, warmup_seconds=2.0)  # doctest: +SKIP
    """
    named = target.variables.unpack(np.asarray(draws)) if not isinstance(draws, Mapping) else draws
    posterior = {name: np.asarray(named[name])[None] for name in target.variables.shapes if name in named}
    n_draws = next(iter(posterior.values())).shape[1] if posterior else 0
    counts = None if gradients is None else np.asarray(gradients, dtype=np.float64)
    records: dict[str, np.ndarray] = {name: np.asarray(values)[None] for name, values in (stats or {}).items()}
    if np.ndim(seconds) == 0:
        clock = "the total, spread over draws " + ("evenly" if counts is None else "by their gradients")
        seconds = spread(float(seconds), np.ones(n_draws) if counts is None else counts)
    records["perf_counter_diff"] = np.asarray(seconds, dtype=np.float64)[None]
    totals = {"perf_counter_diff": [warmup_seconds]}
    if counts is not None:
        rows = target.n_obs if rows_per_gradient is None else rows_per_gradient
        for name in ("gradient_evaluations", "likelihood_evaluations", "datapoints_touched"):
            records[name] = np.rint(counts * rows).astype(np.int64)[None]
            totals[name] = [round(warmup_gradients * rows)]
    wrong = {name: values.shape for name, values in records.items() if values.shape[:2] != (1, n_draws)}
    if wrong:
        raise InvalidInputError(
            f"chain_trace of {type(sampler).__name__}: {n_draws} draws need records of shape ({n_draws},); found "
            f"{ {name: shape[1:] for name, shape in wrong.items()} }. Return one entry per kept draw."
        )
    return named_trace(
        posterior,
        records,
        variables=target.variables,
        tuning_totals=totals,
        attrs={
            "n_obs": target.n_obs,
            "target_content_hash": known_content(target),
            "thin": getattr(sampler, "thin", 1),
            "tuning_steps": warmup_steps,
            "sampling_time": warmup_seconds + float(records["perf_counter_diff"].sum()),
            "setup_compile_seconds": compile_seconds,
            "clock": FITTED if approximation else clock,
            "approximation": approximation,
            "stopped": stopped,
            "why_not_invariant": sampler.why_not_invariant(target),
        },
        settings=sampler.to_dict(),
    )


class LibrarySampler(ChainSampler):
    """A sampler whose settings, the fields of its dataclass, are counts, positive numbers or words."""

    def __post_init__(self) -> None:
        """Raise unless counts are positive integers (`tune` may be 0), numbers are positive, and words are strings.

        Raises
        ------
        InvalidInputError
            The message names the setting.
        """
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            if field.type in (int, "int"):
                checked_integer(value, field.name, 0 if field.name == "tune" else 1)
            elif field.type in (float, "float"):
                if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 < float(value) < math.inf:
                    raise InvalidInputError(f"{speaker()}: {field.name} must be a positive number, found {value!r}")
            elif not isinstance(value, str):
                raise InvalidInputError(f"{speaker()}: {field.name} must be a word, found {value!r}")
