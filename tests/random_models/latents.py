"""Discrete latent variables: states of rows or of groups, which the library sums out."""

import numpy as np

from tests.random_models import laws, priors
from tests.random_models.effects import codes
from tests.random_models.models import RandomModel
from tests.random_models.terms import Term, constant, number, sigmoid


def state_of_rows(model: RandomModel, n: int) -> Term:
    """Add a state of each row, and return the location of its state."""
    return _locations(model).at(_states(model, n))


def state_of_groups(model: RandomModel, n: int) -> Term:
    """Add a state of each group of rows, and return the location of the state of each row's group."""
    n_groups = model.count(2, 4)
    states = _states(model, n_groups)
    group = model.array("class_of_row", codes(model, n_groups, n))
    return _locations(model).at(states.at(group))


def outlier(model: RandomModel, n: int) -> Term:
    """Add an indicator of outliers, and return a shift of those rows."""
    shift = priors.location(model, "shift")
    return shift * _states(model, n)


def _locations(model: RandomModel) -> Term:
    return priors.location(model, "m", shape=(2,), dims=[model.dim("state", 2)])


def _states(model: RandomModel, n: int) -> Term:
    dim = model.dim("unit", n)
    how = model.pick(["known", "unknown", "predicted", "categorical"])
    if how == "categorical":
        w = constant("np.array([0.3, 0.7])", np.array([0.3, 0.7]))
        if model.rarely(2):
            w = model.variable("w", laws.DIRICHLET, constant("np.ones(2)", np.ones(2)), shape=(2,))
        return model.variable("k", laws.CATEGORICAL, w, shape=(n,), dims=[dim])
    if how == "predicted":
        a = priors.location(model, "a_k")
        x = model.array("x_k", model.rng.normal(size=n).round(2))
        return model.variable("k", laws.BERNOULLI, sigmoid(a * x), shape=(n,), dims=[dim])
    p = number(0.3) if how == "known" else priors.fraction(model, "p_k")
    return model.variable("k", laws.BERNOULLI, p, shape=(n,), dims=[dim])


LATENTS = [state_of_rows, state_of_groups, outlier]
