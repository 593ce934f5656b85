"""ArviZ-style plots: risk, cost, decisions, calibration of a test, influential rows, bounds, biases."""

from approxmcmc.plots.bias import plot_bias
from approxmcmc.plots.bound import plot_bound
from approxmcmc.plots.cost import cost_table, plot_cost
from approxmcmc.plots.decisions import plot_calibration, plot_decisions
from approxmcmc.plots.influential_rows import plot_influential_rows
from approxmcmc.plots.risk import plot_risk
from approxmcmc.plots.statistic import plot_statistic

__all__ = [
    "cost_table",
    "plot_bias",
    "plot_bound",
    "plot_calibration",
    "plot_cost",
    "plot_decisions",
    "plot_influential_rows",
    "plot_risk",
    "plot_statistic",
]
