"""NUTS of nutpie: Rust, with a mass matrix from draws and gradients."""

import dataclasses
import time
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
from approxmcmc.engine.extras import extra
from approxmcmc.foreign.settings import LibrarySampler
from approxmcmc.foreign.trace import chain_trace
from approxmcmc.foreign.twin import once, twin_of

POLL = 0.002  # s between two looks at the clock


@dataclasses.dataclass(frozen=True, eq=False)
class NutpieNUTS(LibrarySampler):
    """The no-U-turn sampler of nutpie on all data.

    Guarantee: asymptotically exact. nutpie times no single draw: its total, warm-up included, is spread over the steps
    by their leapfrog steps, each of which is one gradient on all data.

    Parameters
    ----------
    tune
        Warm-up draws.
    adaptation
        Of the mass matrix: ``"diag"``, ``"low_rank"`` or ``"draw_diag"``.
    target_accept
        Acceptance rate that the step size is tuned to.

    Raises
    ------
    MissingExtraError
        When nutpie is not installed.
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    A. Seyboldt, E. L. Carlson, B. Carpenter (2026), preconditioning HMC by minimizing Fisher divergence.

    Examples
    --------
    >>> amc.foreign.NutpieNUTS(tune=500)
    NutpieNUTS(tune=500, adaptation='diag', target_accept=0.8)
    """

    tune: int = 400
    adaptation: str = "diag"
    target_accept: float = 0.8

    def run(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> xr.DataTree:
        """Draw one chain; see :class:`approxmcmc.contracts.ForeignSampler`."""
        with extra("foreign", "NutpieNUTS"):
            import nutpie

        compiled, compile_seconds = _compiled(target)
        start = twin_of(target).unconstrain(initial)
        compiled = dataclasses.replace(compiled, initial_point_func=lambda _: start)
        began = time.perf_counter()
        running = nutpie.sample(
            compiled,
            draws=draws,
            tune=self.tune,
            chains=1,
            cores=1,
            seed=seed,
            progress_bar=False,
            blocking=False,
            adaptation=self.adaptation,
            target_accept=self.target_accept,
        )
        try:
            while not (finished := _is_finished(running)):
                if seconds is not None and time.perf_counter() - began >= seconds:
                    break
                time.sleep(POLL)
            if not finished:
                running.pause()
            spent = time.perf_counter() - began
            tree = running.wait() if finished else running.abort()
        except KeyboardInterrupt:
            running.cancel()
            raise
        kept, warm = (tree[group]["n_steps"].values[0] for group in ("sample_stats", "warmup_sample_stats"))
        all_steps = max(float(kept.sum() + warm.sum()), 1.0)
        return chain_trace(
            self,
            target,
            {name: tree["posterior"][name].values[0] for name in target.variables.shapes},
            seconds=spent * float(kept.sum()) / all_steps,
            warmup_seconds=spent * float(warm.sum()) / all_steps,
            compile_seconds=compile_seconds,
            gradients=kept,
            warmup_gradients=float(warm.sum()),
            warmup_steps=len(warm),
            stopped="" if finished else "time_limit",
            stats={"diverging": tree["sample_stats"]["diverging"].values[0]},
        )


def _is_finished(running: Any) -> bool:
    try:
        return bool(running.is_finished)
    except TimeoutError:  # so version 0.16 says that it is not
        return False


@once
def _compiled(target: Target) -> Any:
    import nutpie

    return nutpie.compile_pymc_model(twin_of(target).model)
