"""Base class of the targets made from a PyMC model with integrated effects."""

import abc
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import CompiledTarget, LatentTarget, WrittenWork, content_hash
from approxmcmc.interop.groups.candidates import GroupEffects, ModelOfGroups
from approxmcmc.interop.groups.coordinates import Coordinates, GlobalVariables
from approxmcmc.interop.groups.effects import EffectsOfModel, Named
from approxmcmc.interop.prior import PriorOfGraph
from approxmcmc.interop.returned import ReturnedByModel
from approxmcmc.interop.variables import labels_of_model
from approxmcmc.targets.groups.grouping import Grouping
from approxmcmc.targets.tall_data import TallDataTarget


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
