"""Effects of groups: their forms, and the codes by which rows read them.

A form adds variables and returns the effects: a term with an entry for each group, or with slopes a term for the
intercepts and one for the slopes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.random_models import laws, priors
from tests.random_models.models import RandomModel
from tests.random_models.terms import Term, call, constant, matmul, number


class Effects(NamedTuple):
    """Effects of `n_groups` groups; `parts` holds the intercepts, and the slopes if there are any."""

    n_groups: int
    parts: list[Term]


def centred(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add u ~ N(mu, s)."""
    mu = priors.location(model, "mu_u") if model.rarely(2) else number(0.0)
    s = priors.scale(model, "s")
    return [model.variable("u", laws.NORMAL, mu, s, shape=(n_groups,), dims=[dim])]


def scaled(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add z ~ N(0, 1) and the effects s z, as a deterministic or not."""
    s = priors.scale(model, "s")
    z = model.variable("z", laws.NORMAL, number(0.0), number(1.0), shape=(n_groups,), dims=[dim])
    if model.rarely(2):
        return [model.deterministic("u", s * z, [dim])]
    if model.rarely(2):
        mu = priors.location(model, "mu_u")
        return [model.deterministic("u", mu + s * z, [dim])]
    return [Term(f"({s.code} * {z.code})", (s * z).value)]


def known_scale(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add u ~ N(0, 0.8)."""
    return [model.variable("u", laws.NORMAL, number(0.0), number(0.8), shape=(n_groups,), dims=[dim])]


def of_group_predictor(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add u ~ N(a w, s), with a known number w of each group."""
    a, s = priors.location(model, "a_u"), priors.scale(model, "s")
    w = model.array("w", model.rng.normal(size=n_groups).round(2))
    return [model.variable("u", laws.NORMAL, a * w, s, shape=(n_groups,), dims=[dim])]


def heavy_tailed(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add effects with a Student-t distribution, which are not integrated out."""
    s = priors.scale(model, "s")
    return [model.variable("u", laws.STUDENT, number(4.0), number(0.0), s, shape=(n_groups,), dims=[dim])]


def two_vectors(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add independent intercepts and slopes."""
    scales = [priors.scale(model, "s"), priors.scale(model, "s_slope")]
    names = ["u", "slope"]
    return [
        model.variable(name, laws.NORMAL, number(0.0), s, shape=(n_groups,), dims=[dim])
        for name, s in zip(names, scales, strict=True)
    ]


def table(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add a table of intercepts and slopes, with a row for each group or a column for each group."""
    s = priors.scale(model, "s")
    effect = model.dim("effect", 2)
    if model.rarely(2):
        u = model.variable("u", laws.NORMAL, number(0.0), s, shape=(2, n_groups), dims=[effect, dim])
        return [u.row(0), u.row(1)]
    u = model.variable("u", laws.NORMAL, number(0.0), s, shape=(n_groups, 2), dims=[dim, effect])
    return [u.column(0), u.column(1)]


def correlated(model: RandomModel, n_groups: int, dim: str | None) -> list[Term]:
    """Add multivariate normal intercepts and slopes, with a known or an unknown covariance."""
    known = model.rarely(2)
    chol = model.array("chol", np.array([[0.9, 0.0], [0.3, 0.6]])) if known else _unknown_factor(model)
    effect = model.dim("effect", 2)
    if model.rarely(3):
        z = model.variable("z", laws.NORMAL, number(0.0), number(1.0), shape=(2, n_groups), dims=[effect, dim])
        u = matmul(chol, z)
        return [u.row(0), u.row(1)]
    mu = constant("np.zeros(2)", np.zeros(2))
    u = model.variable("u", laws.MULTIVARIATE, mu, chol, shape=(n_groups, 2), dims=[dim, effect])
    return [u.column(0), u.column(1)]


def _unknown_factor(model: RandomModel) -> Term:
    """Add LKJCholeskyCov, whose packed factor is the free variable, and return the factor as a matrix."""
    law = laws.Law(
        "LKJCholeskyCov",
        (),
        lambda packed: laws.lkj_of_two(packed, 2.0, 1.0),
        event_axes=1,
        more="n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2), compute_corr=False",
    )
    packed = model.variable("cov", law)
    model.free[packed.code] = model.free[packed.code]._replace(shape=(3,))
    return call("pm.expand_packed_triangular", lambda n, p: laws.unpacked(p), constant("2", 2), packed)


FORMS: list[Callable[[RandomModel, int, str | None], list[Term]]] = [
    centred,
    scaled,
    known_scale,
    of_group_predictor,
    two_vectors,
    table,
    correlated,
    heavy_tailed,
]


def effects(model: RandomModel) -> Effects:
    """Add effects of a random form."""
    n_groups = model.count(2, 5)
    dim = model.dim("group", n_groups)
    return Effects(n_groups, model.pick(FORMS)(model, n_groups, dim))


def nested(model: RandomModel, outer: Effects) -> tuple[Effects, Term]:
    """Add effects of groups within those of `outer`, centred at theirs; also return the outer group of each."""
    n_groups = model.count(2, 5)
    above = model.array("above", model.rng.integers(0, outer.n_groups, n_groups))
    s = priors.scale(model, "s_inner")
    dim = model.dim("inner", n_groups)
    u = model.variable("inner", laws.NORMAL, outer.parts[0].at(above), s, shape=(n_groups,), dims=[dim])
    return Effects(n_groups, [u]), above


def codes(model: RandomModel, n_groups: int, n: int) -> np.ndarray:
    """Return the group of each row: in any order, sorted, one row a group in places, or with groups without rows."""
    how = model.pick(["any order", "sorted", "cycled", "groups without rows", "one big group"])
    if how == "cycled":
        return np.arange(n) % n_groups
    if how == "groups without rows":
        return model.rng.integers(0, max(1, n_groups - 1), n)
    if how == "one big group":
        found = np.zeros(n, dtype=np.int64)
        found[: min(n_groups, n)] = np.arange(min(n_groups, n))
        return model.rng.permutation(found)
    found = model.rng.integers(0, n_groups, n)
    return np.sort(found) if how == "sorted" else found


def read(model: RandomModel, found: Effects, n: int) -> Term:
    """Return what rows read of effects: ``u[group]``, or ``u[group] + slope[group] * x``."""
    group = model.array("group", codes(model, found.n_groups, n))
    total = found.parts[0].at(group)
    for slopes in found.parts[1:]:
        total = total + slopes.at(group) * model.array("x_slope", model.rng.normal(size=n).round(2))
    return total
