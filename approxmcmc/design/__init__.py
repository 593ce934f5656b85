"""Choose a sampler or its settings from a pilot: sequential tests, SGLD, schedules of epsilon, covariances of steps."""

from approxmcmc.design.annealing import plan_annealing
from approxmcmc.design.choice import Choice, choose_sampler
from approxmcmc.design.sequential_test import design_test
from approxmcmc.design.stochastic_approximation import robbins_monro
from approxmcmc.design.stochastic_gradient import design_sgld

__all__ = ["Choice", "choose_sampler", "design_sgld", "design_test", "plan_annealing", "robbins_monro"]
