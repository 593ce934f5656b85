"""Read traces, return tables: what a run cost, how often it decided wrongly, how far its averages are off."""

from approxmcmc.diagnostics.compare import compare_samplers
from approxmcmc.diagnostics.cost import cost_summary
from approxmcmc.diagnostics.decisions import clopper_pearson, wrong_decision_rate
from approxmcmc.diagnostics.risk import risk

__all__ = ["clopper_pearson", "compare_samplers", "cost_summary", "risk", "wrong_decision_rate"]
