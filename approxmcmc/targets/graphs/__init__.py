"""Exponential random graphs: the target, its statistics, its simulators, and exact answers on small graphs."""

from approxmcmc.targets.graphs.ergm import ERGM
from approxmcmc.targets.graphs.statistics import GraphStatistic, degree_statistic, register_statistic

__all__ = ["ERGM", "GraphStatistic", "degree_statistic", "register_statistic"]
