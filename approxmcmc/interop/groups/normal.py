"""A normal hierarchy of a PyMC model, with its effects integrated out in closed form."""

import numpy as np

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups.candidates import GroupEffects, ModelOfGroups
from approxmcmc.interop.groups.check import compare_with_model
from approxmcmc.interop.groups.coordinates import Coordinates
from approxmcmc.interop.groups.factors import FactorsGiven, scales_of
from approxmcmc.interop.groups.forms import FactorsOfModel, forms_of
from approxmcmc.interop.groups.predictor import (
    labels_of_rows,
    n_effects_of,
    predictor_of,
    scale_of,
    standard_effects,
)
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.targets.groups.grouping import grouping
from approxmcmc.targets.groups.normal_terms import NormalTerms, triangles

MOST_NUMBERS = 60_000_000  # numbers in the triangles of all groups
MOST_EFFECTS = 12  # effects of a group; the cost of a term grows with their cube


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
