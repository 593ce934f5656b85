"""Targets with a cheap density in place of the prior and residuals in place of the terms; proposals by that density."""

from approxmcmc.surrogate.control_variate import ControlVariate
from approxmcmc.surrogate.core_rows import CoreRows
from approxmcmc.surrogate.transition import SurrogateTransition

__all__ = ["ControlVariate", "CoreRows", "SurrogateTransition"]
