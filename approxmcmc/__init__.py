"""Approximate and subsampling MCMC: what every step costs, how often it decides wrongly, and whether that pays.

Names are resolved on first use, so ``import approxmcmc`` does not load the heavy libraries (PEP 562).
"""

import importlib
import importlib.metadata
from typing import Any

_HOMES = {
    "approxmcmc.acceptance": (
        "AlwaysAccept",
        "AnnealedEpsilon",
        "BernsteinTest",
        "CheapestExactTest",
        "DelayedAcceptance",
        "ExactTest",
        "FactorizedTest",
        "MinibatchBarker",
        "PoissonTest",
        "SequentialTTest",
        "TunaTest",
    ),
    "approxmcmc.acceptance.annealing_rule": ("annealing_schedule",),
    "approxmcmc.acceptance.laws.barker_law": ("minibatch_barker_error_bound",),
    "approxmcmc.acceptance.laws.correction": ("correction_distribution",),
    "approxmcmc.acceptance.laws.recursion": ("acceptance_probability_error",),
    "approxmcmc.api": ("importance_sampling", "sample"),
    "approxmcmc.auditing": ("audit",),
    "approxmcmc.bounds": ("check_bound",),
    "approxmcmc.samplers.gibbs.replication": ("realised_conditional",),
    "approxmcmc.couplings": ("bias", "debias"),
    "approxmcmc.design": ("choose_sampler", "design_sgld", "design_test", "plan_annealing", "robbins_monro"),
    "approxmcmc.diagnostics": (
        "chatterjee_diaconis_bound",
        "compare_samplers",
        "cost_summary",
        "diagnose",
        "importance_estimates",
        "latents",
        "log_likelihood",
        "loo_subsample",
        "risk",
    ),
    "approxmcmc.nuts.settings": ("NUTS",),
    "approxmcmc.interop.pymc": ("explain", "from_pymc"),
    "approxmcmc.output": ("load", "save"),
    "approxmcmc.plots": (
        "plot_bias",
        "plot_bound",
        "plot_calibration",
        "plot_core_rows",
        "plot_cost",
        "plot_decisions",
        "plot_risk",
        "plot_statistic",
    ),
    "approxmcmc.proposals": (
        "AdaptiveDirection",
        "DecreasingStep",
        "Hamiltonian",
        "Independence",
        "Langevin",
        "Mixture",
        "PreconditionedCrankNicolson",
        "RandomWalk",
        "SingleSite",
        "StochasticGradientFisherScoring",
        "StochasticGradientHamiltonian",
        "StochasticGradientLangevin",
        "StochasticGradientNoseHoover",
        "StochasticGradientZigZag",
    ),
    "approxmcmc.reference": ("Gates", "reference_posterior", "stein_discrepancy"),
    "approxmcmc.resuming": ("resume",),
    "approxmcmc.samplers": (
        "BouncyParticle",
        "Exchange",
        "ExplicitZ",
        "Firefly",
        "Gibbs",
        "ImplicitZ",
        "MALAExchange",
        "MetropolisHastings",
        "NoisyLangevin",
        "NoisyMetropolisHastings",
        "PoissonGibbs",
        "PseudoMarginal",
        "Slice",
        "SliceSampler",
        "ZigZag",
    ),
    "approxmcmc.targets.auxiliary": ("Auxiliary",),
    "approxmcmc.surrogate": ("ControlVariate", "CoreRows", "SurrogateTransition"),
    "approxmcmc.targets": ("GLMTarget", "PredictorTarget", "Target", "laplace"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = (
    "acceptance",
    "bounds",
    "datasets",
    "design",
    "diagnostics",
    "engine",
    "errors",
    "foreign",
    "output",
    "plots",
    "presets",
    "proposals",
    "reference",
    "samplers",
    "sources",
    "study",
    "surrogate",
    "targets",
)

__all__ = sorted([*_NAMES, *_ROOMS])  # noqa: PLE0605 (a list, made from the table above)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module("approxmcmc.samplers.presets" if name == "presets" else f"approxmcmc.{name}")
    if name == "__version__":
        return importlib.metadata.version("approxmcmc")
    raise AttributeError(f"module 'approxmcmc' has no attribute {name!r}; public names: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
