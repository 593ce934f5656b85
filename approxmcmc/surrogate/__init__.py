"""Control variates: a cheap density in place of the prior, residuals in place of the terms; proposals by it."""

from approxmcmc.surrogate.control_variate import ControlVariate
from approxmcmc.surrogate.transition import SurrogateTransition

__all__ = ["ControlVariate", "SurrogateTransition"]
