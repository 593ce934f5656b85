"""One cell after the other in this process: what a debugger wants, and the most quiet way to measure time."""

from collections.abc import Iterator, Sequence

from approxmcmc.study.engines.job import Finished, Job
from approxmcmc.study.plan import Cell, Plan


def run(job: Job, plan: Plan, cells: Sequence[Cell]) -> Iterator[Finished]:
    """Yield the cells as they end, in the order given."""
    for cell in cells:
        yield job.perform(cell.key, plan)
