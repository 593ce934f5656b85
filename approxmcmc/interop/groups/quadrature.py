"""A hierarchy of a PyMC model whose rows are not normal, with its effects integrated out by quadrature."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors

from approxmcmc.families import Stack
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups.candidates import GroupEffects, ModelOfGroups
from approxmcmc.interop.groups.check import compare_with_model
from approxmcmc.interop.groups.coordinates import Coordinates
from approxmcmc.interop.groups.factors import FactorsGiven, scales_of
from approxmcmc.interop.groups.forms import FactorsOfModel, forms_of
from approxmcmc.interop.groups.predictor import labels_of_rows, n_effects_of, predictor_of, scale_of, standard_effects
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.links import LawOfRows
from approxmcmc.targets.groups.grouping import grouping
from approxmcmc.targets.groups.quadrature_terms import LARGEST_ERROR, NODES, QuadratureTerms

MOST_COLUMNS = 400  # columns of the predictor besides effects; a term has as many second derivatives as their square
# With at most so many groups, effects of known scale stay parameters: they are coefficients with a normal prior, which
# trajectories sample well. 120 persons and 24 items took 6.5 CPU s with all parameters, and 11 s with the persons
# integrated out.
FEW_COEFFICIENTS = 300


class QuadratureGroupsOfPyMC(IntegratedOfPyMC, FactorsGiven, QuadratureTerms):
    """Rows of a PyMC model in groups, whose effects are integrated out by adaptive quadrature."""

    def __init__(self, source: ModelOfGroups, effects: GroupEffects, law: LawOfRows, *, always: bool = False) -> None:
        shape = source.y.shape
        values = source.values
        self.n_effects = n_effects_of(values, effects)
        assert law.family is not None
        self.stack = Stack(*law.families)
        self.family_name = " and ".join(family.name for family in law.families)
        if self.n_effects not in NODES:
            n_nodes = NODES[2][0] ** self.n_effects
            raise NotPossibleError(
                f"{self.n_effects} effects of a group need at least {n_nodes} nodes; at most two effects are supported"
            )
        factors = FactorsOfModel(self.n_effects)
        known = standard_effects(values, factors, effects)
        mean = sum_of_forms(forms_of(values, factors, known, law.predictors), shape)
        found = predictor_of(mean, self.n_effects, shape)
        if not always and effects.n_groups <= FEW_COEFFICIENTS and not any(rest for _, _, rest in found.L):
            raise NotPossibleError(
                f"the scale of {effects.n_groups} effects is known: coefficients with a prior need no quadrature; "
                "integrate=True integrates them out"
            )
        offset = found.offset + log_exposure(law, source)
        has_offset = bool(offset.any())
        p = found.X.shape[1]
        X = np.column_stack([found.X, offset]) if has_offset else found.X
        self.n_columns = found.Z.shape[1]
        columns = X.shape[1]
        if columns > MOST_COLUMNS:
            raise NotPossibleError(f"its predictor has {columns} columns besides the effects, above {MOST_COLUMNS}")
        products = [*found.beta, *((columns + j, weight, rest) for j, weight, rest in found.L)]
        n_products = columns + self.n_columns * self.n_effects
        shapes: list[Any] = []
        if law.shape is not None:
            if set(effects.axes) & set(ancestors([law.shape])):
                raise NotPossibleError(f"the shape of {self.family_name} rows (alpha or sigma) depends on the effects")
            [form] = forms_of(values, factors, known, [law.shape])
            weights, parameter = scale_of(form, self.n_effects, values.shape(law.shape))
            if np.ptp(weights) > 0.0:
                raise NotPossibleError(f"the shape of {self.family_name} rows (alpha or sigma) differs from row to row")
            shapes = [(n_products, weights[0], parameter or ())]
        offsets = [(p, 1.0, ())] if has_offset else []
        signed = scales_of(source.model, effects.axes, factors, products[len(found.beta) :], [*found.beta, *shapes])
        self.coordinates = coordinates = Coordinates(source.model, effects.axes, signed)
        table = self.link_of(
            factors,
            [*products, *offsets, *shapes],
            [*[False] * n_products, *[True] * len(shapes)],
        )
        self.grouping = grouping(labels_of_rows(effects), source.y.size)
        size = np.ones(source.y.size)
        if law.trials is not None:
            size = np.ascontiguousarray(np.broadcast_to(values.of[law.trials], shape), dtype=np.float64).ravel()
        self.arrange(found.Z, X, source.y.ravel(), size, self.grouping, table, law.weight, law.code)
        self.is_clipped = law.is_clipped
        self.describe_model(source, effects)
        self.center = coordinates.initial_point()
        compare_with_model(self)
        self.place()
        if not self.accuracy.nats <= LARGEST_ERROR:
            raise NotPossibleError(
                f"the quadrature's error of {self.accuracy.nats:.2g} nats with {self.n_nodes} nodes is above "
                f"{LARGEST_ERROR}"
            )

    @property
    def scale_coordinates(self) -> list[int]:
        """Indices in theta of scales of effects that may have either sign; the accuracy is checked along them."""
        return list(self.mirrored)

    def initial_point(self) -> np.ndarray:
        """Return the theta around which the nodes were placed, near the mode; shape (dim,)."""
        return self.center.copy()

    @property
    def how(self) -> str:
        """How effects are integrated out, in words, and what was left out of the model."""
        clip = ", without the model's clip of probabilities at 0 and 1" if self.is_clipped else ""
        return f"by quadrature ({self.n_nodes} nodes, error {self.accuracy.nats:.1g} nats){clip}"

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: what was integrated out, and how, with the number of nodes and the error."""
        return {**IntegratedOfPyMC.setup_attrs.fget(self), **QuadratureTerms.setup_attrs.fget(self)}  # type: ignore[attr-defined]

    def at_random(self, rng: np.random.Generator, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return standard normal u for each group, and their log density given the rows according to the target.

        This is the log density of rows and u, by the family and the predictor found, minus the target's integral.
        """
        u = rng.standard_normal((self.n_obs, self.n_effects))
        return u, self.log_joint(theta, u) - self.own_terms(theta)


def sum_of_forms(forms: list[Any], shape: tuple[int, ...]) -> Any:
    """Return the form of the sum of graphs with these forms, over rows of `shape`."""
    total: dict[Any, Any] = {}
    for one in forms:
        for monomial, array in one.items():
            total[monomial] = total.get(monomial, np.zeros(shape)) + array
    return total


def log_exposure(law: LawOfRows, source: ModelOfGroups) -> Any:
    """Return the log of the product of the known factors of each row's mean, (n,); raise if one is not positive."""
    total = np.zeros(source.y.shape)
    for graph in law.exposures:
        known = np.asarray(source.values.of[graph], dtype=np.float64)
        if not (known > 0.0).all():
            raise NotPossibleError("a known factor of the mean is not positive")
        total = total + np.log(known)
    return total.ravel()
