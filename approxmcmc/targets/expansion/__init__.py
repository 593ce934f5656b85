"""Control variates: a target whose terms are what an expansion leaves of another target's terms."""

from approxmcmc.targets.expansion.control_variate import ControlVariate
from approxmcmc.targets.expansion.core_rows import CoreRows

__all__ = ["ControlVariate", "CoreRows"]
