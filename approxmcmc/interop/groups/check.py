r"""Compare the integrated target with the model, at random points, group by group.

By Bayes' rule :math:`p(y_g) = p(y_g \mid u) p(u) / p(u \mid y_g)` for *every* u. So the log densities of the rows in
the model, at effects u drawn for all groups at once, must give the terms of the target. If the graph was misread, or
groups are not independent, the two differ.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt

from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.families.normal import log_standard_normal
from approxmcmc.interop.comparison import compare
from approxmcmc.interop.densities import log_densities, simplified_densities
from approxmcmc.interop.graphs import by_numpy, rebuild
from approxmcmc.interop.walk import in_python

POINTS = 2
SPREAD = 0.3  # standard deviation of the random points around the initial point


def compare_with_model(target: Any) -> None:
    """Raise `NotPossibleError` unless terms and log prior of `target` equal those of its model at two random points."""
    rng = np.random.default_rng(0)
    rows_and_prior = _densities(target)
    compiled = target.compile()
    for _ in range(POINTS):
        theta = target.initial_point() + rng.normal(scale=SPREAD, size=target.variables.size)
        own = full_terms(compiled.log_terms, theta, compiled.data, target.n_obs)
        u = np.zeros((target.groups.n_groups, target.n_effects))
        has_effect = target.grouping.labels < target.groups.n_groups
        drawn, log_density = target.at_random(rng, theta)
        u[target.grouping.labels[has_effect]] = drawn[has_effect]
        rows, prior = rows_and_prior(theta, u)
        by_group = np.add.reduceat(rows[target.grouping.order], target.grouping.start[:-1])
        normal = log_standard_normal(drawn)
        expected = by_group + normal - log_density
        compare(own, expected, _term_differs, sizes=np.abs(by_group) + np.abs(normal))
        compare(compiled.log_prior(theta), prior, _prior_differs)


def _term_differs(group: int, own: float, model: float) -> str:
    return f"the term of group {group} is {own:.6g}, and that of the model {model:.6g}"


def _prior_differs(_: int, own: float, model: float) -> str:
    return f"the log prior of the target is {own:.6g}, and that of the model {model:.6g}"


def _densities(target: Any) -> Any:
    """Return the function of (theta, u) that returns the model's log densities of rows, and its log prior."""
    model = target.source.model
    coordinates = target.coordinates
    effects = target.model_effects
    of_theta_and_u = {**coordinates.of, **effects.of}
    rows = pt.concatenate([terms.ravel() for terms in simplified_densities(model, model.observed_RVs)])
    with_jacobian = [v for v in coordinates.free if v not in coordinates.signed]
    terms = [term.sum() for term in log_densities(model, with_jacobian)]
    signed = list(coordinates.signed)
    terms += [term.sum() for term in log_densities(model, signed, jacobian=False)]
    terms += [coordinates.log_jacobian(v).sum() for v in signed if coordinates.signed[v] is not None]
    terms += [potential.sum() for potential in model.replace_rvs_by_values(model.potentials)]
    values = {}
    for variable, graph in of_theta_and_u.items():
        transform = model.rvs_to_transforms[variable]
        value = model.rvs_to_values[variable]
        [values[value]] = (
            [graph]
            if transform is None
            else rebuild([transform.forward(graph, *variable.owner.inputs)], of_theta_and_u)
        )
    rows, prior = coordinates.frozen(rebuild([rows, sum(terms)], values))
    function = in_python([coordinates.theta, effects.u], [by_numpy(rows), prior])

    def evaluate(theta: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, float]:
        rows, prior = function(theta, u)
        return rows, float(prior)

    return evaluate
