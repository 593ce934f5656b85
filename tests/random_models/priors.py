"""Parameters: locations, scales, fractions and shapes, each with a random prior."""

from typing import Any

from tests.random_models import laws
from tests.random_models.models import RandomModel
from tests.random_models.terms import Term, number


def location(model: RandomModel, stem: str, *, shape: tuple[int, ...] = (), dims: Any = None) -> Term:
    """Add real parameters."""
    prior = model.pick(
        [
            (laws.NORMAL, 0.0, 1.0),
            (laws.NORMAL, 0.5, 2.0),
            (laws.STUDENT, 4.0, 0.0, 1.0),
            (laws.LAPLACE, 0.0, 0.7),
            (laws.LOGISTIC, 0.1, 0.5),
            (laws.CAUCHY, 0.0, 0.5),
            (laws.UNIFORM, -2.0, 3.0),
        ]
    )
    return _with(model, stem, prior, shape, dims)


def scale(model: RandomModel, stem: str, *, shape: tuple[int, ...] = (), dims: Any = None) -> Term:
    """Add positive parameters."""
    prior = model.pick(
        [
            (laws.HALF_NORMAL, 1.0),
            (laws.EXPONENTIAL, 1.5),
            (laws.GAMMA, 2.0, 2.0),
            (laws.INVERSE_GAMMA, 3.0, 2.0),
            (laws.HALF_CAUCHY, 0.5),
            (laws.LOG_NORMAL, -0.3, 0.5),
            (laws.UNIFORM, 0.0, 2.0),
            (laws.TRUNCATED, 0.5, 1.0, 0.0, 4.0),
        ]
    )
    return _with(model, stem, prior, shape, dims)


def fraction(model: RandomModel, stem: str) -> Term:
    """Add a parameter between 0 and 1."""
    return _with(model, stem, model.pick([(laws.BETA, 1.0, 1.0), (laws.BETA, 2.0, 3.0), (laws.UNIFORM, 0.0, 1.0)]))


def _with(model: RandomModel, stem: str, prior: Any, shape: tuple[int, ...] = (), dims: Any = None) -> Term:
    law, *arguments = prior
    return model.variable(stem, law, *map(number, arguments), shape=shape, dims=dims)
