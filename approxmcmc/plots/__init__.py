"""ArviZ-style plots: risk against time or data, cost against the knob that buys it, distance beside its bounds."""

from approxmcmc.plots.bound import plot_bound
from approxmcmc.plots.cost import cost_table, plot_cost
from approxmcmc.plots.risk import plot_risk

__all__ = ["cost_table", "plot_bound", "plot_cost", "plot_risk"]
