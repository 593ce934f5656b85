"""All models of the street by name; small ones, which cost little, first."""

from typing import Any

import numpy as np
import pymc as pm

from studies.street import factors, hierarchies, large, others, regressions, small

KINDS = {
    "small": small,
    "other": others,
    "regression": regressions,
    "hierarchy": hierarchies,
    "factors": factors,
    "large": large,
}
WRITTEN = {function.__name__: function for kind in KINDS.values() for function in kind.MODELS}
KIND = {function.__name__: name for name, kind in KINDS.items() for function in kind.MODELS}


def counts_before() -> None:
    """Write a model of geometric counts of two crossed factors with slopes.

    This and the next two models are not of the street: they are run first, to fill the caches of a used machine.
    """
    rng = np.random.default_rng(9)
    row = rng.integers(12, size=1500)
    column = rng.integers(8, size=1500)
    a = pm.Normal("a", shape=12)
    b = pm.Normal("b", 0.0, pm.HalfNormal("scale", 1.0), shape=8)
    slope = pm.LogNormal("slope", 0.0, 0.5, shape=8)
    p = pm.math.sigmoid(slope[column] * (a[row] - b[column]))
    pm.Geometric("y", p, observed=rng.geometric(0.4, size=1500))


def groups_before() -> None:
    """Write a model of normal rows of 40 groups."""
    rng = np.random.default_rng(9)
    group = rng.integers(40, size=800)
    x = rng.normal(size=800)
    a = pm.Normal("a", pm.Normal("mu"), pm.HalfNormal("tau", 1.0), shape=40)
    pm.Normal("y", a[group] + x * pm.Normal("slope"), pm.HalfNormal("noise", 1.0), observed=x + rng.normal(size=800))


def line_before() -> None:
    """Write a Weibull regression, which compiles the product X @ beta that most regressions of the street share."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(900, 3))
    kind = rng.integers(3, size=900)
    shapes = pm.HalfNormal("shapes", 2.0, shape=3)
    beta = pm.Normal("beta", shape=3)
    pm.Weibull("y", shapes[kind], pm.math.exp(X @ beta), observed=rng.weibull(1.5, size=900))


BEFORE = {function.__name__: function for function in (counts_before, groups_before, line_before)}


def model(name: str) -> Any:
    """Build the PyMC model of this name."""
    with pm.Model() as pymc_model:
        (WRITTEN | BEFORE)[name]()
    return pymc_model
