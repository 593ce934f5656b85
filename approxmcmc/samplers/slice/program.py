"""The program of slice sampling: that of Metropolis-Hastings, with the step of a slice in place of a proposal."""

from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import AcceptanceTest, CompiledProposal, Target
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.samplers.metropolis_hastings.program import Audits, MetropolisHastingsProgram, data_schedule
from approxmcmc.samplers.slice.line import SliceState
from approxmcmc.samplers.slice.step import slice_step
from approxmcmc.targets.all_rows import AllRows


@compiled
def propose_nothing(
    rng: np.random.Generator, state: SliceState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Do nothing: a slice has comparisons instead of a proposal."""
    return 0.0


def slice_program(
    target: Target, make_line: Callable[[], SliceState], test: AcceptanceTest, audit_every: int | str | None
) -> MetropolisHastingsProgram:
    """Return the program of a slice sampler; ``make_line()`` makes the state of a chain's line."""
    compiled_test = test.build_test(target)
    rows = AllRows(target)
    return MetropolisHastingsProgram(
        rows,
        CompiledProposal(propose_nothing, make_line),
        compiled_test,
        audit_every,
        data_schedule(test, compiled_test, rows.compiled.n_obs),
        audits=Audits(None) if isinstance(audit_every, str) and compiled_test.is_audited else None,
        step=slice_step(compiled_test),
    )
