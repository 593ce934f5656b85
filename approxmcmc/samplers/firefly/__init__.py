"""Firefly Monte Carlo: the sampler, its updates of theta and of z, and its likelihood bound."""

from approxmcmc.samplers.firefly.explicit_resampling import ExplicitResampling
from approxmcmc.samplers.firefly.implicit_resampling import ImplicitResampling
from approxmcmc.samplers.firefly.settings import Firefly

__all__ = ["ExplicitResampling", "Firefly", "ImplicitResampling"]
