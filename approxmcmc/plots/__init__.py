"""ArviZ-style plots: risk against time or data, cost against its knob, distance beside its bounds, biases."""

from approxmcmc.plots.bias import plot_bias
from approxmcmc.plots.bound import plot_bound
from approxmcmc.plots.cost import cost_table, plot_cost
from approxmcmc.plots.risk import plot_risk

__all__ = ["cost_table", "plot_bias", "plot_bound", "plot_cost", "plot_risk"]
