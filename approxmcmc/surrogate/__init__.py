"""Surrogates: a cheap density in the prior's place, the terms that it leaves, and proposals that move as it moves."""

from approxmcmc.surrogate.control_variate import ControlVariate
from approxmcmc.surrogate.core_rows import CoreRows
from approxmcmc.surrogate.transition import SurrogateTransition

__all__ = ["ControlVariate", "CoreRows", "SurrogateTransition"]
