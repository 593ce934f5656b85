"""The mode of a posterior, and normal approximations of it."""

from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.mode import Mode, find_mode, laplace

__all__ = ["Laplace", "Mode", "find_mode", "laplace"]
