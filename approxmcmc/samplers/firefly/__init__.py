"""Firefly Monte Carlo: the sampler, its updates of theta and of z, and the bound that it stands on."""

from approxmcmc.samplers.firefly.firefly import Firefly
from approxmcmc.samplers.firefly.slice import Slice
from approxmcmc.samplers.firefly.z import ExplicitZ, ImplicitZ

__all__ = ["ExplicitZ", "Firefly", "ImplicitZ", "Slice"]
