r"""Targets made from a PyMC model, with the effects of its groups integrated out: in closed form, or by quadrature.

Each is compared with the model, at random points, group by group. By Bayes' rule
:math:`p(y_g) = p(y_g \mid u) p(u) / p(u \mid y_g)` for *every* u. So the log densities of the rows in the model, at
effects u drawn for all groups at once, must give the terms of the target. If the graph was misread, or groups are not
independent, the two differ.
"""

import abc
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import CompiledTarget, LatentTarget, WrittenWork, content_hash
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.families import Stack
from approxmcmc.families.normal import log_standard_normal
from approxmcmc.interop.attempts import NotPossibleError, Reason, attempt
from approxmcmc.interop.comparison import compare
from approxmcmc.interop.densities import log_densities, simplified_densities
from approxmcmc.interop.graphs import by_numpy, frozen, rebuild
from approxmcmc.interop.groups.candidates import GroupEffects, ModelOfGroups
from approxmcmc.interop.groups.coordinates import Coordinates, GlobalVariables
from approxmcmc.interop.groups.effects import EffectsOfModel, Named
from approxmcmc.interop.groups.predictor import (
    MOST_NUMBERS,
    FactorsGiven,
    FactorsOfModel,
    forms_of,
    labels_of_rows,
    n_effects_of,
    predictor_of,
    scale_of,
    scales_of,
    standard_effects,
)
from approxmcmc.interop.law import LawOfRows
from approxmcmc.interop.prior import PriorOfGraph
from approxmcmc.interop.returned import ReturnedByModel
from approxmcmc.interop.values import NO_TRACES, shape_of, size
from approxmcmc.interop.variables import labels_of_model
from approxmcmc.interop.walk import in_python
from approxmcmc.targets.groups.grouping import Grouping, grouping
from approxmcmc.targets.groups.normal_terms import NormalTerms, triangles
from approxmcmc.targets.groups.quadrature_terms import LARGEST_ERROR, NODES, QuadratureTerms
from approxmcmc.targets.tall_data import TallDataTarget

POINTS = 2  # at which a target is compared with its model
SPREAD = 0.3  # standard deviation of the random points around the initial point
MOST_EFFECTS = 12  # effects of a group; the cost of a term grows with their cube
MOST_COLUMNS = 400  # columns of the predictor besides effects; a term has as many second derivatives as their square
# With at most so many groups, effects of known scale stay parameters: they are coefficients with a normal prior, which
# trajectories sample well. 120 persons and 24 items took 6.5 CPU s with all parameters, and 11 s with the persons
# integrated out.
FEW_COEFFICIENTS = 300
DETERMINED = 10  # rows of a group that determine its effect, so that NUTS moves it well though it is centred
# effects of fewer groups, with more rows each, stay parameters: no quadrature
FEW_GROUPS = 20
MANY_ROWS = 100


class IntegratedOfPyMC(TallDataTarget, LatentTarget):
    """A PyMC model with the effects of its groups integrated out; they are drawn after the run."""

    source: ModelOfGroups
    groups: GroupEffects
    coordinates: Coordinates
    grouping: Grouping
    variables: GlobalVariables
    n_effects: int
    latents_wanted: Any = "auto"
    _hashed_data: Any = None
    _hash: str = ""

    draw_standard_effects: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
    """Function ``(rng, thetas, terms)`` that draws u given the rows; shape (thetas, terms, K)."""

    @property
    @abc.abstractmethod
    def how(self) -> str:
        """How effects are integrated out, in words."""

    def describe_model(self, source: ModelOfGroups, effects: GroupEffects) -> None:
        """Set names, prior and effects as the model has them; the subclass must have set `coordinates`."""
        self.source = source
        self.groups = effects
        self.n_rows = source.y.size
        coordinates = self.coordinates
        self.mirrored = sorted(coordinates.places[one] for one in coordinates.signed)
        self.prior = PriorOfGraph(
            coordinates.log_prior,
            coordinates.theta,
            coordinates.initial_point(),
            source.hash,
            "prior without effects",
        )
        self.variables = coordinates.describe()
        self.model_effects = EffectsOfModel(source.model, effects, coordinates, self.n_effects)

    @functools.cached_property
    def returned(self) -> ReturnedByModel:
        """What computes the model's deterministics from draws."""
        return ReturnedByModel(self.source.model)

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, after checking that the model's data are unchanged."""
        self.source.refuse_changed_data()
        return super().compile()

    def initial_point(self) -> np.ndarray:
        """Return the model's initial point; shape (dim,)."""
        return self.coordinates.initial_point()

    @property
    def written_work(self) -> WrittenWork:
        """The work of NUTS on the model with its effects."""
        return self.source.written_work

    @property
    def group_labels(self) -> np.ndarray:
        """The model's labels of all groups, also of those without rows."""
        return self.source.labels(self.groups)

    @property
    def group_dim(self) -> str:
        """The name that the model gives to the dimension of its groups."""
        [first, *_] = self.model_effects.roots
        assert first.axis is not None
        return self._dims_of(first)[first.axis]

    @property
    def latent_roots(self) -> Sequence[str]:
        """Names of the effects."""
        return [variable.name for variable in self.groups.axes]

    def coords_of_latents(self, groups: np.ndarray) -> Mapping[str, Sequence[Any]]:
        """Return the model's coords; all axes of groups have the labels of `groups`."""
        named = [*self.model_effects.roots, *self.model_effects.deterministics]
        axes = {self._dims_of(one)[one.axis]: list(self.group_labels[groups]) for one in named if one.axis is not None}
        return {**labels_of_model(self.source.model)[1], **axes}

    @property
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """The axis of the K numbers u of a group, labelled 0 ... K - 1; `name_latents` turns u into the effects."""
        return {"effect_number": range(self.n_effects)}

    def draw_latents(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return draws of u, shape (thetas, groups, K); for groups without rows from the prior.

        Draws are exact, except by quadrature with two effects of a group: then a draw is the last state of 8 Gibbs
        sweeps.
        """
        u = rng.standard_normal((len(thetas), len(groups), self.n_effects))
        places = np.minimum(np.searchsorted(self.grouping.labels, groups), len(self.grouping.labels) - 1)
        has_rows = self.grouping.labels[places] == groups
        u[:, has_rows] = self.draw_standard_effects(rng, thetas, places[has_rows])
        return u

    def latent_sizes(self, groups: np.ndarray) -> Mapping[str, int]:
        """Return how many numbers each deterministic of `groups` has in a draw.

        Deterministics without an axis of groups are left out unless `groups` holds all groups of the model.
        """
        complete = np.unique(groups).size == self.groups.n_groups
        sizes = {}
        for one in self.model_effects.deterministics:
            if one.axis is not None:
                sizes[one.name] = math.prod(one.shape) // self.groups.n_groups * len(groups)
            elif complete:
                sizes[one.name] = math.prod(one.shape)
        return sizes

    def name_latents(
        self, thetas: np.ndarray, drawn: np.ndarray, groups: np.ndarray, names: Collection[str] | None = None
    ) -> Mapping[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the effects and deterministics of `groups` by name, dims and values, from draws of u (`drawn`)."""
        names = self.latent_sizes(groups) if names is None else names
        computed = [one for one in self.model_effects.deterministics if one.name in names] if names else []
        named = [*self.model_effects.roots, *computed]
        values = self.model_effects.evaluate(named, thetas, drawn, groups)
        return {one.name: (self._dims_of(one), value) for one, value in zip(named, values, strict=True)}

    def _dims_of(self, one: Named) -> tuple[str, ...]:
        dims = self.source.model.named_vars_to_dims.get(one.name)
        return tuple(
            str(dims[axis]) if dims is not None and dims[axis] is not None else f"{one.name}_dim_{axis}"
            for axis in range(len(one.shape))
        )

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, under the names of their variables."""
        return self.source.observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The model's data containers without the observed ones."""
        return self.source.constant_data

    def content_hash(self) -> str:
        """Return a hash of model and data."""
        self.source.refuse_changed_data()
        if self._hashed_data is not self.data:
            signed = sorted(variable.name for variable in self.coordinates.signed)
            identity = type(self).__name__, self.prior.identity(), self._identity(), signed
            self._hash = content_hash(*identity, *self.data)
            self._hashed_data = self.data
        return self._hash

    def _identity(self) -> str:
        return ", ".join(variable.name for variable in self.groups.axes)

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Return what was integrated out, and faults (see `attempts`), for the trace's attributes."""
        return {"integrated": self.sentence, **self.source.fault_attrs}

    @property
    def sentence(self) -> str:
        """A sentence: the integrated effects, and the method."""
        signed = ", ".join(sorted(variable.name for variable in self.coordinates.signed))
        sign = f"; {signed} is sampled with either sign, and its absolute value is stored" if signed else ""
        return f"{self.groups.name} of {self.groups.n_groups} groups integrated out {self.how}{sign}"

    def to_pymc(self) -> Any:
        """Return the model itself, effects included: its posterior of the other parameters is the target's."""
        return self.source.model

    def __repr__(self) -> str:
        """Return the observed variable and the sizes as text."""
        sizes = f"{self.source.y.size} rows in {self.n_obs} groups, dim={self.variables.size}"
        return f"{type(self).__name__}({self.source.rows.name}: {sizes}; without {self.groups.name})"


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
    rows, prior = frozen(rebuild([rows, sum(terms)], values))
    function = in_python([coordinates.theta, effects.u], [by_numpy(rows), prior])

    def evaluate(theta: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, float]:
        rows, prior = function(theta, u)
        return rows, float(prior)

    return evaluate


class NormalGroupsOfPyMC(IntegratedOfPyMC, FactorsGiven, NormalTerms):
    """Normal rows of a PyMC model in groups, whose effects are integrated out in closed form."""

    how = "in closed form"

    def __init__(self, source: ModelOfGroups, effects: GroupEffects) -> None:
        shape = source.y.shape
        self.n_effects = n_effects_of(source.values, effects)
        if self.n_effects > MOST_EFFECTS:
            raise NotPossibleError(f"{effects.name}: {self.n_effects} effects of one group are above {MOST_EFFECTS}")
        factors = FactorsOfModel(self.n_effects)
        known = standard_effects(source.values, factors, effects)
        mean, noise = forms_of(source.values, factors, known, source.parameters)
        found = predictor_of(mean, self.n_effects, shape)
        errors, scale = scale_of(noise, self.n_effects, shape)
        p = found.X.shape[1]
        self.n_columns = found.Z.shape[1]
        self.knows_noise = scale is None
        self.grouping = grouping(labels_of_rows(effects), source.y.size)
        self.n_obs = len(self.grouping.labels)
        if self.n_obs * (p + self.n_columns + 1) ** 2 > MOST_NUMBERS:
            raise NotPossibleError(
                f"{effects.name}: {self.n_obs} groups with {p + self.n_columns} columns need more than "
                f"{MOST_NUMBERS:,} numbers"
            )
        noise_products = [] if scale is None else [(p + self.n_columns * self.n_effects, 1.0, scale)]
        L = [(p + j, weight, rest) for j, weight, rest in found.L]
        signed = scales_of(source.model, effects.axes, factors, L, [*found.beta, *noise_products])
        self.coordinates = Coordinates(source.model, effects.axes, signed)
        logs = [*[False] * (p + self.n_columns * self.n_effects), *([] if scale is None else [True])]
        table = self.link_of(factors, [*found.beta, *L, *noise_products], logs)
        rows = np.column_stack([found.Z, found.X, source.y.ravel() - found.offset]) / errors[:, None]
        counts = np.ones(source.y.size)
        log_errors = np.log(errors)
        if source.observed.weight is not None:  # N(r; 0, s^2)^w is the density of w rows with the residual r
            counts = source.observed.weight
            log_errors = source.observed.weight * log_errors
            rows *= np.sqrt(counts)[:, None]
        sums = [np.add.reduceat(one[self.grouping.order], self.grouping.start[:-1]) for one in (counts, -log_errors)]
        self.data = triangles([rows], self.grouping), np.column_stack(sums), *table
        self.describe_model(source, effects)
        compare_with_model(self)


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


@NO_TRACES
def integrated(model: Any, *, always: bool = False) -> IntegratedOfPyMC:
    """Return a model as a target whose largest possible set of group effects is integrated out.

    `model` is a ``pm.Model``, or a `ModelOfGroups`. `always`: also if that is expected to save nothing.

    Raises
    ------
    NotPossibleError
        When no effects can be integrated out; the message says why, variable by variable.
    """
    source = model if isinstance(model, ModelOfGroups) else ModelOfGroups(model)
    reasons = list(source.reasons)
    for effects in source.sets:
        target = attempt(functools.partial(_without, source, effects, always=always), source.faults)
        if not isinstance(target, Reason):
            return target
        reasons.append(f"{effects.name}: {target.sentence}")
    raise NotPossibleError("; ".join(reasons))


def _without(source: ModelOfGroups, effects: GroupEffects, *, always: bool) -> IntegratedOfPyMC:
    """Return the model without one set of effects."""
    if set(source.model.free_RVs) <= set(effects.axes):
        raise NotPossibleError("no parameters would remain to sample")
    if source.law is None:
        return NormalGroupsOfPyMC(source, effects)
    if not always and effects.n_groups < FEW_GROUPS and source.y.size > MANY_ROWS * effects.n_groups:
        raise NotPossibleError(
            f"integrating out {effects.n_groups} groups of {source.y.size // effects.n_groups} rows would "
            f"leave too few terms to sample (fewer than {FEW_GROUPS}); integrate=True integrates them out "
            "anyway"
        )
    if not always and nuts_moves(source, effects):
        _refuse_if_many_effects_remain(source, effects)
    return QuadratureGroupsOfPyMC(source, effects, source.law, always=always)


def _refuse_if_many_effects_remain(source: ModelOfGroups, effects: GroupEffects) -> None:
    """Raise if L effects of crossed factors would remain, and L^2 is above the number of groups.

    The terms are then too few for a normal approximation at the mode (see `TargetProfile.why_no_mode`), so trajectories
    sample the model with or without the integrated effects, and a gradient of an integral evaluates each row at eight
    nodes or more. A Hessian of all parameters must not be too large.
    """
    sizes = {v: size(shape_of(source.model, v)) for v in source.model.free_RVs}
    remain = sum(sizes[v] for one in source.sets if one is not effects for v in one.axes)
    if remain**2 > effects.n_groups and sum(sizes.values()) ** 2 <= MOST_NUMBERS:
        raise NotPossibleError(
            f"{remain} effects of other factors would remain, too many for the terms of {effects.n_groups} groups (at "
            "most their square root), so trajectories with all effects cost less; integrate=True integrates them out "
            "anyway"
        )


def nuts_moves(source: ModelOfGroups, effects: GroupEffects) -> bool:
    """Return whether NUTS meets no funnel: effects are not centred, or rows determine them.

    Effects are centred if their location or scale has parameters (Betancourt and Girolami 2015). With twelve hospitals
    of one row each, centred, trajectories diverged in four of six runs. If each row has effects of several sets, such
    as subjects and items, rows determine only their sum: of 60 subjects and 40 items, centred, 4000 draws of NUTS were
    worth 50 independent ones.
    """
    above = set(ancestors([parent for variable in effects.axes for parent in variable.owner.inputs]))
    is_determined = len(source.sets) == 1 and source.y.size >= DETERMINED * effects.n_groups
    return is_determined or not above & set(source.model.free_RVs)
