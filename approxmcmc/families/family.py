r"""A family: the distribution of a row's response given its linear predictor.

.. math:: \log p(y \mid \eta) = \text{term}(\eta, y, \text{size}, \text{shape}) + \text{constants}(y, \text{size})
          + \text{of\_row}(y, \text{size}, \text{shape}).

`size` is a second number of each row: the trials of a binomial distribution, 1 otherwise. `shape` is a positive number
that all rows share and that may be a parameter: the shape of a negative binomial or the standard deviation of a normal
distribution, 1 otherwise. A term leaves out summands without eta: `constants` are known, `of_row` depend on the shape.

Each family is one file of this room: its functions, what bounds them, and its counterpart in PyMC.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, closure


class Pair(NamedTuple):
    """Term and derivatives as functions of (eta, y), for rows without a size and a shape."""

    term: Callable[[float, float], float]
    derivatives: Callable[[float, float], tuple[float, float]]


class Minorant(NamedTuple):
    """Lower bounds of the terms of n rows that are quadratic in eta.

    ``gap(eta, *touch_i)`` is the term of row i minus its bound, and `slope` the derivative of the gap in eta. `touch`
    are three arrays (n,); `coefficients` those of eta^2, of eta, and the constants, each (n,). If rows have known
    `weights` (n,), the gap of row i is so many times ``gap(eta, *touch_i)``, and `coefficients` include them.
    """

    gap: Callable[..., float]
    slope: Callable[..., float]
    touch: tuple[np.ndarray, np.ndarray, np.ndarray]
    coefficients: tuple[np.ndarray, np.ndarray, np.ndarray]
    weights: np.ndarray | None = None

    def times(self, weights: np.ndarray) -> "Minorant":
        """Return the lower bounds of `weights` times the terms, of rows without weights."""
        quadratic, linear, constant = self.coefficients
        scaled = (weights * quadratic, weights * linear, weights * constant)
        return self._replace(coefficients=scaled, weights=weights)


class PyMCFamily(NamedTuple):
    """A family in PyMC: the name of its distribution, and the link: "logit", "probit", "cloglog", "log" or "identity".

    ``observe(name, eta, y, size, shape)`` adds the response to the PyMC model of the current context; y and the size
    may be containers of data. `dtype` is the type of a response, which a container must have: PyMC observes no graphs.
    """

    distribution: str
    link: str
    observe: Callable[..., Any]
    dtype: str = "float64"


class Form(NamedTuple):
    """How PyMC models write a family: the name of a distribution, and what its parameters must be, in words.

    ``read(graphs, *parameters)`` gets the graphs of the parameters, in the order of PyMC's `dist_params`, and what
    finds links and products in them (`interop.law.Graphs`). It returns the rows as this family, with the graphs of
    predictor and shape, or None if the parameters have another form.
    """

    distribution: str
    needs: str
    read: Callable[..., Any]


def no_slope(eta: float, y: float, size: float, shape: float) -> float:
    """Return 0, the slope in a shape that the family does not have."""
    return 0.0


def no_share(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return two zeros: no summand of the log density depends on a shape alone."""
    return 0.0, 0.0


def no_share_of_shape(shape: float) -> tuple[float, float]:
    """Return two zeros: `of_row` is not split."""
    return 0.0, 0.0


def no_constants(y: np.ndarray, size: np.ndarray) -> Any:
    """Return zeros: the terms of the family are whole log densities."""
    return np.zeros_like(y)


MakeMinorant = Callable[[np.ndarray, np.ndarray, float, np.ndarray], Minorant]
Bound = Callable[[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray], np.ndarray]
Partials = tuple[np.ndarray, ...]
PartialBounds = Callable[[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], Partials]


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """The functions of one distribution, see the module.

    Parameters
    ----------
    name
        The name that users type.
    term, derivatives
        Functions of (eta, y, size, shape): the term, and its first two derivatives in eta.
    constants
        ``constants(y, size)`` of arrays: the known summands without eta.
    support, fits
        The possible responses, in words; and ``fits(y, size)``, which of the responses in an array are possible.
    pair
        Term and derivatives as functions of (eta, y); None: those above with size 1 and shape 1.
    in_shape, of_row
        For a family with a shape: the slope of `term` in log(shape); and ``of_row(y, size, shape)``, the summand of the
        log density without eta, and its slope in log(shape).
    of_response, of_shape
        `of_row` as a sum of ``of_response(y, size, shape)`` and ``of_shape(shape)``, two numbers each: rows that share
        a shape share the second, which is computed once. None: `of_row` is not split.
    merges_rows
        What the rows of a group with one shared effect save: True if they are equivalent to one row (Poisson), False if
        they share exponentials (logit), None if nothing; see `targets.groups.row_sums`.
    predictor_scale
        Change of eta over which the second derivative changes much, such as 1 for a logit; None if it has no scale.
    slope_bound, second_derivative_bound, third_derivative_bound
        Upper bounds of the absolute derivatives in eta over all rows of size 1 and all eta; None if there are none.
    slope_within, second_derivative_within, third_derivative_within
        ``within(eta, y, size, shape, reach)`` of arrays: upper bounds of the absolute derivatives of each row over
        abs(t - eta) <= reach; None if unknown.
    minorants
        By the name of a bound of `Firefly`, ``minorant(y, size, shape, eta_0)``: lower bounds of the terms, which touch
        them at eta_0; the minorant named "untuned" reads no eta_0.
    mean
        ``mean(eta, size, shape)`` of arrays: the expected responses; None if they are unknown or do not exist.
    simulate
        ``simulate(rng, eta, size, shape)`` draws responses; None if the family cannot.
    twin
        The family in PyMC; None if it has none.
    knows_derivatives
        Whether `derivatives` are exact, and not differences.
    is_concave
        Whether every term is known to be concave in eta, for any response and shape.
    second_in_shape
        For a family with a shape: the second derivatives of the log density in eta and log(shape), and twice in
        log(shape), as a function of (eta, y, size, shape); None if unknown.
    partials_within
        For a family with a shape: ``partials_within(order, eta, y, log_shape, reach, reach_of_shape)`` of arrays, order
        2 or 3: upper bounds of the absolute partial derivatives of the log density in eta and s = log(shape), in the
        order eta eta, eta s, s s, or eta eta eta ... s s s. They hold where eta and s differ from the given ones by at
        most the two reaches; s and its reach stay within the limits of `bounded_exp`. inf and NaN: no bound. None if
        unknown.
    """

    name: str
    term: Callable[..., float]
    derivatives: Callable[..., tuple[float, float]]
    constants: Callable[[np.ndarray, np.ndarray], Any]
    support: str
    fits: Callable[[np.ndarray, np.ndarray], Any]
    pair: Pair | None = None
    in_shape: Callable[..., float] = no_slope
    of_row: Callable[..., tuple[float, float]] = no_share
    of_response: Callable[..., tuple[float, float]] | None = None
    of_shape: Callable[[float], tuple[float, float]] | None = None
    merges_rows: bool | None = None
    predictor_scale: float | None = None
    slope_bound: float | None = None
    second_derivative_bound: float | None = None
    third_derivative_bound: float | None = None
    slope_within: Bound | None = None
    second_derivative_within: Bound | None = None
    third_derivative_within: Bound | None = None
    minorants: Mapping[str, MakeMinorant] = dataclasses.field(default_factory=dict)
    mean: Callable[[np.ndarray, np.ndarray, float], np.ndarray] | None = None
    simulate: Callable[..., np.ndarray] | None = None
    twin: PyMCFamily | None = None
    knows_derivatives: bool = True
    is_concave: bool = False
    second_in_shape: Callable[..., tuple[float, float]] | None = None
    partials_within: PartialBounds | None = None

    @property
    def has_shape(self) -> bool:
        """Whether the distribution has a shape."""
        return self.of_row is not no_share

    @property
    def split_row(self) -> tuple[Callable[..., tuple[float, float]], Callable[[float], tuple[float, float]]]:
        """The functions `of_response` and `of_shape`; `of_row` and zeros if it is not split."""
        if self.of_response is None or self.of_shape is None:
            return self.of_row, no_share_of_shape
        return self.of_response, self.of_shape

    def of_pair(self, shape: float = 1.0) -> Pair:
        """Return term and derivatives as functions of (eta, y), for rows of size 1 and this known shape."""
        if self.pair is not None and shape == 1.0:
            return self.pair
        term = closure(make_pair, self.term, shape, fastmath=BATCH_FASTMATH)
        return Pair(term, closure(make_pair, self.derivatives, shape, fastmath=BATCH_FASTMATH))

    def of_sized(self, shape: float = 1.0) -> Pair:
        """Return term and derivatives as functions of (eta, y + i size), for rows of this known shape."""
        term = closure(make_sized, self.term, shape, fastmath=BATCH_FASTMATH)
        return Pair(term, closure(make_sized, self.derivatives, shape, fastmath=BATCH_FASTMATH))


def make_pair(function: Callable[..., Any], shape: float) -> Callable[..., Any]:
    """Return a function of (eta, y) that calls `function` of (eta, y, size, shape) with size 1."""

    def pair(eta: float, y: float) -> Any:
        return function(eta, y, 1.0, shape)

    return pair


def make_sized(function: Callable[..., Any], shape: float) -> Callable[..., Any]:
    """Return a function of eta and a complex number y + i size that calls `function` of (eta, y, size, shape)."""

    def of_sized(eta: float, row: complex) -> Any:
        return function(eta, row.real, row.imag, shape)

    return of_sized


def make_of_pair(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (eta, y, size, shape) that calls `function` of (eta, y)."""

    def of_four(eta: float, y: float, size: float, shape: float) -> Any:
        return function(eta, y)

    return of_four
