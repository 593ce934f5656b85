"""Parts of a linear predictor without effects: each adds its parameters and returns a term with an entry per row."""

from tests.random_models import laws, priors
from tests.random_models.effects import codes
from tests.random_models.models import RandomModel
from tests.random_models.terms import Term, exp, matmul, number


def intercept(model: RandomModel, n: int) -> Term:
    """Add an intercept."""
    return priors.location(model, "a")


def dense(model: RandomModel, n: int) -> Term:
    """Add a matrix times coefficients; a column may be constant, a multiple of another, or an indicator."""
    p = model.count(1, 3)
    X = model.rng.normal(size=(n, p)).round(2)
    odd = model.pick(["", "ones", "zeros", "copy", "indicator"])
    if odd == "copy" and p > 1:
        X[:, -1] = 2.0 * X[:, 0]
    elif odd == "indicator":
        X[:, -1] = model.rng.integers(0, 2, n)
    elif odd in ("ones", "zeros"):
        X[:, -1] = odd == "ones"
    b = priors.location(model, "b", shape=(p,), dims=[model.dim("x", p)])
    return matmul(model.array("X", X), b)


def column(model: RandomModel, n: int) -> Term:
    """Add a coefficient times a covariate."""
    return priors.location(model, "c") * model.array("x", model.rng.normal(size=n).round(2))


def coded(model: RandomModel, n: int) -> Term:
    """Add coefficients of categories, read by codes."""
    k = model.count(2, 4)
    f = priors.location(model, "f", shape=(k,), dims=[model.dim("level", k)])
    return f.at(model.array("level", codes(model, k, n)))


def interaction(model: RandomModel, n: int) -> Term:
    """Add slopes of categories: a coefficient for each code, times a covariate."""
    return coded(model, n) * model.array("x", model.rng.normal(size=n).round(2))


def offset(model: RandomModel, n: int) -> Term:
    """Add a known number for each row."""
    return model.array("offset", model.rng.normal(size=n).round(2))


def bent(model: RandomModel, n: int) -> Term:
    """Add a product that is not linear in its parameter: exp(c) x."""
    c = model.variable("c", laws.NORMAL, number(0.0), number(0.5))
    return exp(c) * model.array("x", model.rng.normal(size=n).round(2))


PARTS = [intercept, dense, column, coded, interaction, offset, bent]
