"""Read traces, return tables: what a run cost, how often it decided wrongly, how far its averages are off."""

from approxmcmc.diagnostics.compare import compare_samplers
from approxmcmc.diagnostics.cost import cost_summary
from approxmcmc.diagnostics.decisions import clopper_pearson, wrong_decision_rate
from approxmcmc.diagnostics.diagnose import diagnose
from approxmcmc.diagnostics.discrete import (
    all_states,
    clique_error,
    clique_errors_over_draws,
    clique_noise_floor,
    clique_probabilities,
    empirical_conditional,
    influence_at,
    influence_bound,
    influence_matrix,
    random_cliques,
)
from approxmcmc.diagnostics.importance import (
    chatterjee_diaconis_bound,
    importance_diagnostics,
    importance_estimates,
)
from approxmcmc.diagnostics.latents import latents
from approxmcmc.diagnostics.loo import log_likelihood, loo_subsample
from approxmcmc.diagnostics.population import split_population
from approxmcmc.diagnostics.risk import risk

__all__ = [
    "all_states",
    "chatterjee_diaconis_bound",
    "clique_error",
    "clique_errors_over_draws",
    "clique_noise_floor",
    "clique_probabilities",
    "clopper_pearson",
    "compare_samplers",
    "cost_summary",
    "diagnose",
    "empirical_conditional",
    "importance_diagnostics",
    "importance_estimates",
    "influence_at",
    "influence_bound",
    "influence_matrix",
    "latents",
    "log_likelihood",
    "loo_subsample",
    "random_cliques",
    "risk",
    "split_population",
    "wrong_decision_rate",
]
