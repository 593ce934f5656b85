"""Read traces, return tables: what a run cost, how often it decided wrongly, how far its averages are off."""

from approxmcmc.diagnostics.compare import compare_samplers
from approxmcmc.diagnostics.cost import cost_summary
from approxmcmc.diagnostics.decisions import clopper_pearson, wrong_decision_rate
from approxmcmc.diagnostics.diagnose import diagnose
from approxmcmc.diagnostics.importance import (
    chatterjee_diaconis_bound,
    importance_diagnostics,
    importance_estimates,
)
from approxmcmc.diagnostics.latents import latents
from approxmcmc.diagnostics.moments import as_reference
from approxmcmc.diagnostics.records import split_population
from approxmcmc.diagnostics.risk import risk
from approxmcmc.diagnostics.traces import as_trace

__all__ = [
    "as_reference",
    "as_trace",
    "chatterjee_diaconis_bound",
    "clopper_pearson",
    "compare_samplers",
    "cost_summary",
    "diagnose",
    "importance_diagnostics",
    "importance_estimates",
    "latents",
    "risk",
    "split_population",
    "wrong_decision_rate",
]
