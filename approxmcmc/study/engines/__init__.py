"""Engines compute the cells, in this process or on Dask workers. They yield finished cells and take no decisions."""

from approxmcmc.study.engines.job import Finished, Job

__all__ = ["Finished", "Job"]
