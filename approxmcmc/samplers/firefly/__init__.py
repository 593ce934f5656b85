"""Firefly Monte Carlo: the sampler, its updates of theta and of z, and its likelihood bound."""

from approxmcmc.samplers.firefly.explicit_z import ExplicitZ
from approxmcmc.samplers.firefly.implicit_z import ImplicitZ
from approxmcmc.samplers.firefly.settings import Firefly

__all__ = ["ExplicitZ", "Firefly", "ImplicitZ"]
