"""Surrogates: a cheap density that replaces the prior, the residual terms, and proposals that sample the surrogate."""

from approxmcmc.surrogate.control_variate import ControlVariate
from approxmcmc.surrogate.core_rows import CoreRows
from approxmcmc.surrogate.transition import SurrogateTransition

__all__ = ["ControlVariate", "CoreRows", "SurrogateTransition"]
