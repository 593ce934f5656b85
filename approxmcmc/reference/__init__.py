"""Gold standards with quality gates: NUTS, a long exact chain, or a grid; cached by content."""

from approxmcmc.reference.attach import attach_reference
from approxmcmc.reference.chain_gates import ChainGates
from approxmcmc.reference.discrepancy import stein_discrepancy
from approxmcmc.reference.exact_chain import Kernel, exact_chain_reference
from approxmcmc.reference.gates import GateReport, GateResult, Gates, check_gates
from approxmcmc.reference.grid import grid_reference
from approxmcmc.reference.posterior import reference_posterior

__all__ = [
    "ChainGates",
    "GateReport",
    "GateResult",
    "Gates",
    "Kernel",
    "attach_reference",
    "check_gates",
    "exact_chain_reference",
    "grid_reference",
    "reference_posterior",
    "stein_discrepancy",
]
