"""Who computes the cells: this process, or workers of Dask. An engine yields finished cells, and decides nothing."""

from approxmcmc.study.engines.job import Finished, Job

__all__ = ["Finished", "Job"]
