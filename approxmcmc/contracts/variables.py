"""The content of a flat vector theta."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST_LABELS = 12  # most labels of a variable that a notebook shows


def as_labels(labels: Sequence[Any]) -> np.ndarray:
    """Return the labels of an axis as an array of one axis, as `pm.sample` stores them.

    NumPy makes a table of a list of tuples, such as the labels of a pandas MultiIndex; they become objects here.

    Examples
    --------
    >>> as_labels(["a", "b"]).shape, as_labels([("a", 1), ("b", 2)]).shape
    ((2,), (2,))
    """
    labels_of_axis = [tuple(label) if isinstance(label, list) else label for label in labels]
    labels_of_axis = ["None" if label is None else label for label in labels_of_axis]  # a file has no None
    if not any(isinstance(label, (tuple, np.ndarray)) for label in labels_of_axis):
        return np.array(labels_of_axis)
    array = np.empty(len(labels_of_axis), dtype=object)
    for index, label in enumerate(labels_of_axis):
        array[index] = label
    return array


@dataclasses.dataclass(frozen=True)
class Variables:
    """Names, shapes and labels of the parameters that a flat vector theta holds, in order.

    Parameters
    ----------
    shapes
        Shape of each variable by name; their sizes add up to the dimension of theta.
    dims
        Names of the axes of each variable, for those that have labelled axes.
    coords
        Labels of each axis by name.
    dtype
        NumPy name of the type that the trace stores; ``"int64"`` for discrete variables. A chain's theta is float64.
    defaults
        Values for variables that a dict of starting values leaves out.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    coords: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    dtype: str = "float64"
    defaults: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> int:
        """Length of theta."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def content(self) -> "Variables":
        """The parts of theta itself, by name and shape, before any transform that `unpack` makes."""
        return Variables(self.shapes)

    def labels(self) -> list[str]:
        """Return the name of every coordinate of theta, such as "mu" or "beta[x1]"."""
        names = []
        for name, shape in self.shapes.items():
            axes = [self.coords.get(axis, range(n)) for axis, n in zip(self.dims.get(name, ()), shape, strict=False)]
            axes = axes if len(axes) == len(shape) else [range(n) for n in shape]
            places = [", ".join(map(str, ticks)) for ticks in itertools.product(*axes)]
            names += [f"{name}[{ticks}]" for ticks in places] if shape else [name]
        return names

    def described(self, name: str) -> str:
        """Return the labels of a variable with one labelled axis, or else its shape; for a notebook.

        >>> Variables({"beta": (2,), "s": ()}, {"beta": ("coef",)}, {"coef": ["age", "km"]}).described("beta")
        'age, km'
        """
        shape = self.shapes[name]
        axes = self.dims.get(name, ())
        if len(shape) == 1 and len(axes) == 1 and axes[0] in self.coords:
            labels = [str(label) for label in self.coords[axes[0]]]
            more = f" and {len(labels) - MOST_LABELS:,} more" if len(labels) > MOST_LABELS else ""
            return ", ".join(labels[:MOST_LABELS]) + more
        return f"shape {shape}" if shape else "scalar"

    def unpack(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Split the last axis of `theta` into variables; leading axes (chain, draw) stay."""
        pieces = {}
        start = 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            pieces[name] = theta[..., start:stop].reshape((*theta.shape[:-1], *shape))
            start = stop
        return pieces

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Join the values of all variables, given by name, into one flat float64 theta; the inverse of `unpack`."""
        return np.concatenate([np.ravel(np.asarray(values[name], dtype=np.float64)) for name in self.shapes])

    def pack_draws(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Join draws by name, with leading axes (chain, draw), into flat thetas; shape (chain, draw, size)."""
        pieces = [
            values[name].reshape(*values[name].shape[:2], math.prod(values[name].shape[2:])) for name in self.shapes
        ]
        return np.concatenate(pieces, axis=2).astype(np.float64)

    def with_signs(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return thetas (..., size) with random signs for the numbers whose sign neither `unpack` nor the density uses.

        Packed draws, which have only one of the signs, thus become draws from the whole space. Here: no such numbers.
        """
        return theta
