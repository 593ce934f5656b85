"""Name the symmetry that maps one mode of a posterior to another: flipped signs, exchanged labels.

A factor model with terms ``load[g] * f[t]`` has the same density at (f, load) and at (-f, -load); a mixture of K
components has it at each permutation of their labels. Such a symmetry is a linear map G of theta with

    log p(G theta) = log p(theta)    for all theta.

From two modes that it connects, a candidate for G is read off: the signs and the permutation that bring the first mode
nearest to the second. It is a symmetry if the equation holds at random points; the map is linear and the density is not
constant, so an equation that does not hold everywhere fails at almost every point.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import Variables

POINTS = 4  # random points at which the equation is checked
ROUNDING = 1e-9  # relative difference of two sums of the same numbers in another order
NEAREST = 0.5  # largest distance between the mapped mode and the other one in any coordinate, in standard deviations
MOST_LABELS = 50  # a longer axis holds rows or groups; the cost of an assignment grows with the cube of the length

Values = Mapping[str, np.ndarray]


class Symmetry(NamedTuple):
    """A linear map of theta under which a log density does not change, and its name in words."""

    name: str
    apply: Callable[[np.ndarray], np.ndarray]


def symmetry_between(
    variables: Variables,
    log_density: Callable[[np.ndarray], float],
    first: np.ndarray,
    second: np.ndarray,
    sd: np.ndarray,
    rng: np.random.Generator,
) -> Symmetry | None:
    """Return the symmetry that maps the mode `first` to the mode `second`; None if no candidate passes the check.

    Parameters
    ----------
    variables
        Names and shapes of the parameters; labels are axes of equal length.
    log_density
        Returns the log posterior at theta, all rows included; called at most ``2 POINTS`` times for each candidate.
    first, second
        The modes; shape (dim,).
    sd
        Posterior standard deviations around `first`; shape (dim,).
    rng
        Draws the points of the check.
    """
    for candidate in _candidates(variables, first, second, sd):
        off = np.abs(candidate.apply(first) - second) / sd
        if off.max() <= NEAREST and _holds(candidate, log_density, first, sd, rng):
            return candidate
    return None


def _holds(
    candidate: Symmetry,
    log_density: Callable[[np.ndarray], float],
    at: np.ndarray,
    sd: np.ndarray,
    rng: np.random.Generator,
) -> bool:
    """Return whether the log density is the same at random points around `at` and at their images."""
    for _ in range(POINTS):
        theta = at + 2.0 * sd * rng.standard_normal(at.size)
        at_theta = log_density(theta)
        at_image = log_density(candidate.apply(theta))
        if not abs(at_theta - at_image) <= ROUNDING * (1.0 + abs(at_theta)):  # also if both are infinite
            return False
    return True


def _candidates(variables: Variables, first: np.ndarray, second: np.ndarray, sd: np.ndarray) -> Iterator[Symmetry]:
    """Yield maps that may take `first` to `second`: by signs of variables, then by labels on axes of each length."""
    parts = variables.content
    first_parts, second_parts, scale = (parts.unpack(theta) for theta in (first, second, sd))
    yield _symmetry(parts, first_parts, second_parts, {}, np.arange(0), np.ones(0))
    lengths = {n for shape in parts.shapes.values() for n in shape}
    # Weights of K components are K - 1 unconstrained numbers, so an axis of K - 1 may have K labels.
    lengths |= {n + 1 for n in lengths}
    for length in sorted(n for n in lengths if 1 < n <= MOST_LABELS):
        labelled = {name: _Axis(shape.index(length)) for name, shape in parts.shapes.items() if length in shape}
        weights = {name: _Axis(0, True) for name, shape in parts.shapes.items() if shape == (length - 1,)}
        choices_of_axes = [labelled] if labelled else []
        if weights:
            choices_of_axes.append(labelled | weights)
        for axes in choices_of_axes:
            order, signs = _assignment(first_parts, second_parts, scale, axes, length)
            yield _symmetry(parts, first_parts, second_parts, axes, order, signs)


class _Axis(NamedTuple):
    """The axis of a variable that holds labels; `is_simplex` if the last label's entry is minus the sum of the others.

    The latter is the case for the weights of components, as logarithms about their mean.
    """

    place: int
    is_simplex: bool = False

    def by_label(self, value: np.ndarray) -> np.ndarray:
        """Return the values of a variable by label; shape (labels, numbers)."""
        whole = np.append(value, -value.sum()) if self.is_simplex else value
        return np.moveaxis(whole, self.place, 0).reshape(whole.shape[self.place], -1)

    def image(self, value: np.ndarray, order: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Return the variable whose label k has ``signs[k]`` times the values that label ``order[k]`` has now."""
        if self.is_simplex:
            return np.append(value, -value.sum())[order][:-1]
        permuted = np.take(value, order, axis=self.place)
        shape_of_signs = [1] * value.ndim
        shape_of_signs[self.place] = -1
        return np.asarray(permuted * signs.reshape(shape_of_signs))


def _assignment(
    first: Values, second: Values, scale: Values, axes: Mapping[str, _Axis], length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return order and signs of the labels that bring `first` nearest to `second`; shape (length,) each.

    Variables that share the axis move together: label k of all of them gets the values of label ``order[k]``.
    """
    from scipy.optimize import linear_sum_assignment

    costs = np.zeros((2, length, length))  # by sign, label of the image, label now
    for name, axis in axes.items():
        now = axis.by_label(first[name])
        image = axis.by_label(second[name])
        spread = np.abs(_Axis(axis.place).by_label(scale[name]))
        other_sign = -1.0
        if axis.is_simplex:
            sd_of_last = np.sqrt(np.square(spread).sum(axis=0))  # of minus the sum of the others, if independent
            spread = np.vstack([spread, sd_of_last])
            other_sign = 1.0  # weights keep their sign, whatever that of the other variables
        for k, sign in enumerate((1.0, other_sign)):
            costs[k] += np.square((image[:, None] - sign * now[None]) / spread[None]).sum(axis=2)
    _, order = linear_sum_assignment(costs.min(axis=0))
    signs = np.where(costs[1, np.arange(length), order] < costs[0, np.arange(length), order], -1.0, 1.0)
    return order, signs


def _symmetry(
    parts: Variables, first: Values, second: Values, axes: Mapping[str, _Axis], order: np.ndarray, signs: np.ndarray
) -> Symmetry:
    """Return the map by labels on `axes`, and by the signs that bring each other variable nearest to `second`."""
    flipped = {
        name: -1.0 if np.linalg.norm(second[name] + first[name]) < np.linalg.norm(second[name] - first[name]) else 1.0
        for name in parts.shapes
        if name not in axes
    }

    def apply(theta: np.ndarray) -> np.ndarray:
        values = parts.unpack(theta)
        for name, sign in flipped.items():
            values[name] = sign * values[name]
        for name, axis in axes.items():
            values[name] = axis.image(values[name], order, signs)
        return parts.pack(values)

    names_of_flipped = [name for name, sign in flipped.items() if sign < 0.0]
    return Symmetry(_in_words(names_of_flipped, list(axes), order, signs), apply)


def _in_words(flipped: list[str], labelled: list[str], order: np.ndarray, signs: np.ndarray) -> str:
    """Return a map in words."""
    words = []
    moved_labels = np.flatnonzero(order != np.arange(len(order))).tolist()
    flipped_labels = np.flatnonzero(signs < 0.0).tolist()
    if moved_labels:
        words.append(f"the labels {_listed(moved_labels)} of {_listed(labelled)} exchanged")
    if flipped_labels:
        words.append(f"the signs of {_listed(labelled)} flipped at labels {_listed(flipped_labels)}")
    if flipped:
        words.append(f"the sign{'s' if len(flipped) > 1 else ''} of {_listed(flipped)} flipped")
    return ", and ".join(words)


def _listed(names: list[str] | list[int]) -> str:
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last
