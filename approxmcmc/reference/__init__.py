"""Gold standards: NUTS behind quality gates, or a grid; cached by content."""

from approxmcmc.reference.gates import GateReport, GateResult, Gates, check_gates
from approxmcmc.reference.grid import grid_reference
from approxmcmc.reference.posterior import attach_reference, reference_posterior

__all__ = [
    "GateReport",
    "GateResult",
    "Gates",
    "attach_reference",
    "check_gates",
    "grid_reference",
    "reference_posterior",
]
