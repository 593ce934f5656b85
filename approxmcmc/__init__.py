"""Approximate and subsampling MCMC, with a record of what every step costs and how often decisions are wrong.

Names are resolved on first use, so ``import approxmcmc`` does not load the heavy libraries (PEP 562).
"""

import importlib
from pathlib import Path
from typing import Any

# At the top level are the verbs that lead from a model to its answer, every regression, the role `Target` and the
# target of one's own functions, `Study`, and one class for each textbook method. All other public names are in the
# `__all__` of a subpackage.
_HOMES = {
    "approxmcmc.acceptance": ("AlwaysAccept", "ExactTest", "MinibatchBarker", "PoissonTest", "SequentialTTest"),
    "approxmcmc.api": ("sample",),
    "approxmcmc.auditing": ("audit",),
    "approxmcmc.bounds": ("check_bound",),
    "approxmcmc.contracts": ("Target",),
    "approxmcmc.couplings": ("bias", "debias"),
    "approxmcmc.design": ("choose_sampler",),
    "approxmcmc.diagnostics": (
        "as_trace",
        "compare_samplers",
        "cost_summary",
        "diagnose",
        "latents",
        "risk",
    ),
    "approxmcmc.importance": ("importance_sampling",),
    "approxmcmc.interop.pymc": ("explain", "from_pymc"),
    "approxmcmc.leave_one_out": ("log_likelihood", "loo_subsample"),
    "approxmcmc.numerics": ("laplace",),
    "approxmcmc.output": ("load", "save"),
    "approxmcmc.prediction": ("posterior_predictive", "predict", "predicted"),
    "approxmcmc.plots": (
        "plot_bias",
        "plot_bound",
        "plot_calibration",
        "plot_influential_rows",
        "plot_cost",
        "plot_decisions",
        "plot_risk",
        "plot_statistic",
    ),
    "approxmcmc.proposals": ("Hamiltonian", "Langevin", "RandomWalk", "StochasticGradientLangevin"),
    "approxmcmc.reference": ("reference_posterior", "stein_discrepancy"),
    "approxmcmc.resuming": ("resume",),
    "approxmcmc.samplers": ("Exchange", "Firefly", "Gibbs", "MetropolisHastings"),
    "approxmcmc.surrogate": ("ControlVariate", "SurrogateTransition"),
    "approxmcmc.targets": (
        "FunctionTarget",
        "BetaRegression",
        "BinomialRegression",
        "CloglogRegression",
        "ExponentialRegression",
        "GammaRegression",
        "LinearRegression",
        "LogisticRegression",
        "NegativeBinomialRegression",
        "OrderedRegression",
        "PoissonRegression",
        "ProbitRegression",
        "RobustRegression",
        "SoftmaxRegression",
        "WeibullRegression",
    ),
    "approxmcmc.study": ("Study",),
    "approxmcmc.updating": ("update",),
    "approxmcmc.whole_chains": ("NUTS",),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = (
    "acceptance",
    "bounds",
    "contracts",
    "couplings",
    "datasets",
    "design",
    "diagnostics",
    "errors",
    "numerics",
    "output",
    "plots",
    "proposals",
    "reference",
    "samplers",
    "sources",
    "study",
    "surrogate",
    "targets",
    "whole_chains",
)

__all__ = sorted([*_NAMES, *_ROOMS])  # noqa: PLE0605 (a list, made from the table above)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"approxmcmc.{name}")
    if name == "__version__":
        from importlib import metadata  # takes longer than all of this file

        return metadata.version("approxmcmc")
    raise AttributeError(f"module 'approxmcmc' has no attribute {name!r}; {_where(name)}")


def _where(name: str) -> str:
    """Return the end of the message on an unknown name: the subpackages that export it, else all top-level names.

    No subpackage is imported, which takes 4 s for all: `hasattr` asks for unknown names, too, and shows no message.
    """
    rooms = [] if name.startswith("_") else _ROOMS
    rooms_with_name = [f"approxmcmc.{room}.{name}" for room in rooms if name in _exported(room)]
    return f"it is {' or '.join(rooms_with_name)}" if rooms_with_name else f"public names: {', '.join(__all__)}"


def _exported(room: str) -> list[str]:
    """Return the names in the `__all__` of a subpackage, read from its source; empty if it has no such list."""
    import ast

    path = Path(__file__).with_name(room) / "__init__.py"
    statements = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    lists = [
        statement.value
        for statement in statements
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
    ]
    names: list[str] = ast.literal_eval(lists[0]) if lists else []
    return names


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
