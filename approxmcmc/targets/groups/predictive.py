r"""Rows in groups whose responses are predicted: an effect of its group is added to the predictor of each row.

.. math:: \eta_{gi} = x_{gi}' \beta + \text{offset}_{gi} + z_{gi}' b_g .

At each draw of theta the effect of a group that the target has rows of is drawn given theta and these rows, so that
(theta, b_g) is a draw of the joint posterior. A group without rows has the effect :math:`b_g \sim N(0, LL')` of its
prior given theta. All rows of a group share its effect.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np

from approxmcmc.contracts import LatentTarget, RowsToPredict
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.numerics import LARGEST_LOG
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.family import Family
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.groups.grouping import Grouping, grouping
from approxmcmc.targets.groups.variables import GroupVariables
from approxmcmc.targets.new_rows import in_memory, parts_of_new_rows
from approxmcmc.targets.predictors.assemble import PredictorPart, assemble
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.family import PredictsResponses

NUMBERS = 1 << 18  # effects drawn at a time by one thread
LARGEST = 1 << 31  # bytes of the effects of all groups at all draws
NAMED = 20  # new groups whose labels the result holds


class GroupsOfRows(NamedTuple):
    """The groups of some rows: their labels, their places among the groups of the target, and the group of each row.

    The place of a group without rows in the target is -1.
    """

    labels: np.ndarray
    places: np.ndarray
    of_row: np.ndarray


def groups_of_new_rows(target: LatentTarget, groups: Any, n_rows: int) -> GroupsOfRows:
    """Return the groups of new rows by their labels.

    Raises
    ------
    InvalidInputError
        If labels are not given, are missing in a row, or are texts where those of the target are numbers.
    """
    if groups is None:
        raise InvalidInputError(
            f"{speaker()}: the new rows need groups=, the label of each row's group; a label that no row of the target "
            "has is a new group, whose effect is drawn from its prior"
        )
    new = grouping(groups, n_rows)
    known_labels = target.group_labels.tolist()
    labels = new.labels.tolist()
    for of_which, others in ((labels, known_labels), (known_labels, labels)):
        if all(isinstance(label, str) for label in of_which) and not any(isinstance(label, str) for label in others):
            raise InvalidInputError(
                f"{speaker()}: groups of the new rows are {labels[:3]} ..., those of the target {known_labels[:3]} "
                "...: texts are never equal to numbers, so every group would be a new one; give labels of one type"
            )
    place_of = {label: place for place, label in enumerate(known_labels)}
    places = np.array([place_of.get(label, -1) for label in labels], dtype=np.int64)
    return GroupsOfRows(new.labels, places, _codes(new))


def own_groups(own: Grouping) -> GroupsOfRows:
    """Return the groups of the target's own rows, which are sorted by group."""
    n_groups = len(own.labels)
    return GroupsOfRows(own.labels, np.arange(n_groups), np.repeat(np.arange(n_groups), own.sizes))


def _codes(groups: Grouping) -> np.ndarray:
    """Return the index of each row's group."""
    codes = np.empty(len(groups.order), dtype=np.int64)
    codes[groups.order] = np.repeat(np.arange(len(groups.labels)), groups.sizes)
    return codes


def design_of_new_rows(target: Any, rows: Any, offset: np.ndarray | None) -> Design:
    """Return the design of new rows, a table or matrix as X of the target, and their offset; None: 0."""
    parts = parts_of_new_rows(rows, target.columns, target.reference_levels, has_intercept=target.has_intercept)
    if offset is not None:
        parts.append(PredictorPart(None, offset[:, None]))
    return assemble({"eta": parts}, target.columns, len(rows))


def numbers_of_rows(values: Any, name: str, n: int) -> np.ndarray | None:
    """Return n numbers of the user's as floats; None if `values` is None."""
    if values is None:
        return None
    array = checked_array(in_memory(values), name).astype(np.float64, copy=False)
    if array.shape != (n,):
        raise InvalidInputError(f"{speaker()}: {name} must hold {n} numbers, one for each new row, found {array.shape}")
    return array


class ResponsesInGroups(PredictsResponses):
    """Mean and draws of responses of a family; the second predictor is the logarithm of the shape, 0 without one."""

    def __init__(self, family: Family) -> None:
        self.family = family

    def shape_at(self, eta: np.ndarray) -> np.ndarray:
        """Return the exponential of the second predictor."""
        return np.exp(np.clip(eta[1], -LARGEST_LOG, LARGEST_LOG))


class RowsInGroups(RowsToPredict):
    """Rows with a predictor that includes the effect of their group, and the logarithm of a shape or of a scale.

    Parameters
    ----------
    target
        What draws the effects of groups that have rows.
    family
        The family of the rows.
    design
        The design of the predictor without effects; its parameters are the first of theta.
    groups
        The groups of the rows of `design`.
    order
        Where row i of the result is among the rows of `design`; None: at i.
    slopes
        Numbers that multiply the effects of a group after its first, (n, effects - 1); None if there is one effect.
    size
        The second number of each row; None: 1.
    log_shape
        Known part of the logarithm of the shape or scale, one number or (n,).
    labels
        Labels of the rows.
    """

    draws_effects = True

    def __init__(
        self,
        target: Any,
        family: Family,
        design: Design,
        groups: GroupsOfRows,
        *,
        order: np.ndarray | None = None,
        slopes: np.ndarray | None = None,
        size: np.ndarray | None = None,
        log_shape: Any = 0.0,
        labels: Sequence[Any] | None = None,
    ) -> None:
        self.target = target
        self.given_effects = ResponsesInGroups(family)
        self.design = design
        self.groups = groups
        self.order = order
        self.slopes = slopes
        self.size = size
        self.log_shape = log_shape
        self.labels = labels
        self.n_rows = design.n_rows
        self.effects: np.ndarray = np.empty(0)
        self._zeros = np.zeros(design.dim)

    @property
    def attrs(self) -> Mapping[str, Any]:  # type: ignore[override]  # a constant of other rows
        """The number of groups of which the target has no rows, and the labels of the first."""
        is_new = self.groups.places < 0
        if not is_new.any():
            return {}
        return {
            "n_new_groups": int(is_new.sum()),
            "new_groups": [str(label) for label in self.groups.labels[is_new][:NAMED].tolist()],
        }

    def at_draws(self, thetas: np.ndarray, rng: np.random.Generator, cores: int | None) -> Self:
        """Return these rows with an effect of each group at each of m thetas, stored as (effects, groups, m)."""
        variables: GroupVariables = self.target.variables
        n_groups = len(self.groups.places)
        n_bytes = 8 * n_groups * len(thetas) * variables.n_effects
        if n_bytes > LARGEST:
            raise InvalidInputError(
                f"predict: the effects of {n_groups} groups at {len(thetas)} draws take {n_bytes / 2**30:.1f} GiB; "
                "give draws=100, or predict fewer groups at a time"
            )
        effects = np.empty((variables.n_effects, n_groups, len(thetas)))
        step = max(1, NUMBERS // len(thetas))
        blocks = [slice(lo, lo + step) for lo in range(0, n_groups, step)]

        def fill(block: slice, rng: np.random.Generator) -> None:
            effects[:, block] = np.moveaxis(self._draw(thetas, rng, self.groups.places[block]), (2, 1, 0), (0, 1, 2))

        streams = rng.spawn(len(blocks))
        fill(blocks[0], streams[0])  # alone, so that kernels are compiled once
        with ThreadPoolExecutor(cores or os.cpu_count()) as threads:
            list(threads.map(fill, blocks[1:], streams[1:]))
        drawn = copy.copy(self)
        drawn.effects = effects
        return drawn

    def _draw(self, thetas: np.ndarray, rng: np.random.Generator, places: np.ndarray) -> np.ndarray:
        """Return effects of the groups at `places` of the target, -1 for a new group; shape (thetas, groups, effects).

        A new group's is L u with u standard normal.
        """
        variables: GroupVariables = self.target.variables
        effects = np.empty((len(thetas), len(places), variables.n_effects))
        is_new = places < 0
        if not is_new.all():
            drawn = self.target.draw_latents(rng, thetas, places[~is_new])
            effects[:, ~is_new] = drawn.reshape(len(thetas), -1, variables.n_effects)
        if is_new.any():
            u = rng.standard_normal((len(thetas), int(is_new.sum()), variables.n_effects))
            effects[:, is_new] = np.einsum("tij,tgj->tgi", variables.cholesky(thetas), u)
        return effects

    def predictors(self, thetas: np.ndarray, rows: slice) -> np.ndarray:
        """Return predictor and log shape of some rows at the m thetas of `at_draws`; shape (2, rows, m)."""
        at = self._places(rows)
        variables: GroupVariables = self.target.variables
        coefficients = thetas[:, : self.design.dim]
        group = self.groups.of_row[at]
        predictors = np.empty((2, len(group), len(thetas)))
        eta, log_shape = predictors
        np.add(self.design.times(coefficients.T, at)[0], self.design.eta(self._zeros, at).T, out=eta)
        eta += self.effects[0, group]
        for k in range(1, variables.n_effects):
            assert self.slopes is not None
            eta += self.slopes[at, k - 1, None] * self.effects[k, group]
        log_shape[:] = np.broadcast_to(self.log_shape, self.n_rows)[at, None]
        if variables.positive is not None:
            log_shape += thetas[:, -1]
        return predictors

    def means(self, predictors: np.ndarray, rows: slice) -> np.ndarray:
        """Return the expected responses given the effects; shape (rows, m)."""
        return self.given_effects.mean(predictors, self._sizes(rows))

    def responses(self, predictors: np.ndarray, rows: slice, rng: np.random.Generator) -> np.ndarray:
        """Draw responses given the effects; shape (rows, m)."""
        return self.given_effects.simulate(rng, predictors, self._sizes(rows))

    def _places(self, rows: slice) -> Any:
        """Return where some rows of the result are among those of the design."""
        return rows if self.order is None else self.order[rows]

    def _sizes(self, rows: slice) -> np.ndarray:
        """Return the sizes of some rows, shape (rows, 1), or the one number 1."""
        return np.ones(()) if self.size is None else self.size[self._places(rows), None]
