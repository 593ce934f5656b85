"""Generalised linear models: terms that depend on theta only through eta_i = x_i' theta.

The fast form of the library: a fused dot product for each row, then one vectorised loop of ``loglik_eta(eta, y)``
over the batch. A datum costs about 20 ns at 50 coefficients, a quarter of a general per-datum function.
"""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import (
    CompiledDifferenceBound,
    CompiledTarget,
    CompiledTermRange,
    ExpandableTarget,
    TermWork,
    Variables,
)
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.compiler.operations import operations
from approxmcmc.engine.terms.batches import linear_batch_kernel, linear_kernel_at_both
from approxmcmc.engine.terms.gradients import linear_gradient_kernel
from approxmcmc.engine.terms.term_range import distance_range
from approxmcmc.errors import IncompatibleError
from approxmcmc.expansion.linear import LinearExpansion
from approxmcmc.families.family import Family
from approxmcmc.families.user import numerical_derivatives
from approxmcmc.targets.given import check_same_index, design_matrix, design_source, kept, response_source
from approxmcmc.targets.tall_data import TallDataTarget

ONE = np.ones(())  # size of a row without trials


class LinearTarget(TallDataTarget, ExpandableTarget):
    """Base class of generalised linear models: X, y, coefficient names, and the batch kernel of ``loglik_eta``."""

    family: Family | None = None
    """The library's family of the rows; None for a user's function."""
    _loglik_eta: Callable[[float, float], float]
    _derivatives_eta: Callable[[float, float], tuple[float, float]] | None = None
    slope_bound: float | None = None
    """Upper bound of abs(d log p(y_i | eta) / d eta) over all data and eta; None if it is unknown."""
    second_derivative_bound: float | None = None
    """Upper bound of abs(d^2 log p(y_i | eta) / d eta^2), None if unknown; for residuals of first-order expansions."""
    third_derivative_bound: float | None = None
    """Upper bound of abs(d^3 log p(y_i | eta) / d eta^3), None if unknown; for residuals of second-order expansions."""
    by_row = ("data", "X", "y")
    predictor_scale: float | None = None
    """Change of eta over which the second derivative changes much, such as 1 for a logit; None if it has no scale."""

    @property
    def derivatives_eta(self) -> Callable[[float, float], tuple[float, float]]:
        """The function ``derivatives(eta, y)`` that returns the first two derivatives of ``loglik_eta`` in eta."""
        return self._derivatives_eta or numerical_derivatives(self._loglik_eta)

    @property
    def knows_derivatives(self) -> bool:
        """Whether `derivatives_eta` are exact, and not differences."""
        return self._derivatives_eta is not None

    def _set_family(self, family: Family) -> None:
        """Take terms, derivatives and their bounds from a family."""
        self.family = family
        self._loglik_eta, self._derivatives_eta = family.of_pair()
        self.predictor_scale, self.slope_bound = family.predictor_scale, family.slope_bound
        self.second_derivative_bound = family.second_derivative_bound
        self.third_derivative_bound = family.third_derivative_bound

    def _set_data(self, X: Any, y: Any, *, intercept: bool, coef_names: Sequence[str] | None) -> None:
        who = type(self).__name__
        check_same_index(who, X=X, y=y)
        X, y = design_source(X, intercept=intercept), response_source(y)
        self.given = kept((X, y))
        self.X, y, labels = design_matrix(X, y, intercept=intercept, coef_names=coef_names, who=who)
        self.y = self.responses(y.astype(np.float64, copy=False))
        self.data, self.n_obs = (self.X, self.y), len(y)
        self.variables = Variables({"beta": (len(labels),)}, {"beta": ("coef",)}, {"coef": labels})

    @staticmethod
    def responses(y: np.ndarray) -> np.ndarray:
        """Return the responses in the form that the likelihood needs; shape (n,)."""
        return y

    def with_rows(self, given: tuple[np.ndarray, np.ndarray], n_obs: int) -> Self:
        """Return this model with other data: `given` is (X, y), X of floats with the columns of this model's X."""
        other = copy.copy(self)
        other.X, other.y, other.given = given[0], self.responses(given[1]), None
        other.data, other.n_obs = (other.X, other.y), n_obs
        return other

    @property
    def term_work(self) -> TermWork:
        """Operations of a term: a dot product and a function of it; a gradient takes one more pass over the row."""
        columns, bytes_of_row = self.X.shape[1], float(self.X[:1].nbytes + self.y[:1].nbytes)
        term, slope = operations(self._loglik_eta), operations(self.derivatives_eta)
        ours = (self._loglik_eta.__module__ or "").startswith(__name__.partition(".")[0] + ".")
        return TermWork(columns + term, 2.0 * columns + slope, bytes_of_row, "library" if ours else "python")

    def _log_terms(self) -> Any:
        return linear_batch_kernel(self._loglik_eta, self.data)

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, with the form that evaluates a row at two thetas."""
        at_both = functools.partial(linear_kernel_at_both, self._loglik_eta, self.data)
        return super().compile()._replace(compile_at_both=at_both)

    def _term_gradients(self) -> Any:
        return linear_gradient_kernel(self.derivatives_eta, self.data)

    def expansion(self, order: int) -> LinearExpansion:
        """Return the expansion with two numbers per row."""
        return LinearExpansion(self, order)

    def compile_term_range(self) -> CompiledTermRange:
        """Compile the bound ``2 slope_bound max_i ||x_i|| ||theta' - theta||`` of `CompiledTermRange`."""
        if self.slope_bound is None:
            return super().compile_term_range()
        return CompiledTermRange(distance_range(), np.array([self.longest_gradients().max()]))

    def largest_row_norm(self) -> float:
        """Return max_i ||x_i||."""
        return float(self.row_norms().max())

    def row_norms(self) -> np.ndarray:
        """Return the ||x_i||; shape (n_obs,)."""
        squares = (np.square(rows, dtype=np.float64).sum(axis=1) for rows in pieces(self.X))
        return np.sqrt(np.concatenate(list(squares)))

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile ``slope_bound ||x_i|| ||theta' - theta||``, which bounds the change of term i."""
        if self.slope_bound is None:
            return super().compile_difference_bound()
        distance = np.array([0.5])  # the range is twice the number times the distance
        return CompiledDifferenceBound(distance_range(), distance, self.longest_gradients(), np.empty(0))

    def longest_gradients(self) -> np.ndarray:
        """Return upper bounds of the lengths of the terms' gradients, ``slope_bound ||x_i||``; shape (n_obs,)."""
        assert self.slope_bound is not None
        return self.slope_bound * self.row_norms()

    def second_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return upper bounds of abs(d^2 log p(y_i | t) / dt^2) over abs(t - eta_i) <= reach_i; shape (rows,)."""
        if self.family is not None and self.family.second_derivative_within is not None:
            return self.family.second_derivative_within(eta, y, ONE, 1.0, reach)
        if self.second_derivative_bound is None:
            raise IncompatibleError(
                f"{type(self).__name__} does not bound its second derivative, which exact subsampling of a "
                "first-order expansion needs; give a GLMTarget second_derivative_bound="
            )
        return np.full(len(eta), self.second_derivative_bound)

    def third_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return upper bounds of abs(d^3 log p(y_i | t) / dt^3) over abs(t - eta_i) <= reach_i; shape (rows,)."""
        if self.family is not None and self.family.third_derivative_within is not None:
            return self.family.third_derivative_within(eta, y, ONE, 1.0, reach)
        if self.third_derivative_bound is None:
            raise IncompatibleError(
                f"{type(self).__name__} does not bound its third derivative, which exact subsampling of an expansion "
                "needs; give a GLMTarget third_derivative_bound=, a number or a function of (eta, y, reach)"
            )
        return np.full(len(eta), self.third_derivative_bound)

    def _identity(self) -> str:
        return content_id(self._loglik_eta)

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels; an error if there is none."""
        if self.family is None or self.family.twin is None:
            return super().to_pymc()
        import pymc as pm

        if self.prior.function is not None:
            name = type(self).__name__
            raise IncompatibleError(f"{name}: a prior given as a function has no PyMC twin; use prior_scale")
        with pm.Model(coords={"coef": self.variables.coords["coef"]}) as model:
            flat = np.isinf(self.prior.scale)
            beta = pm.Flat("beta", dims="coef") if flat else pm.Normal("beta", 0.0, self.prior.scale, dims="coef")
            self.family.twin.observe("y", np.asarray(self.X, np.float64) @ beta, self.y)
        return model

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The responses y."""
        return {"y": self.y}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The predictors X, with the column of ones if there is an intercept."""
        return {"X": self.X}

    def __repr__(self) -> str:
        """Show the model and its size."""
        return f"{type(self).__name__}(n_obs={self.n_obs}, dim={self.variables.size})"


def pieces(X: np.ndarray, rows: int = 65_536) -> Iterator[np.ndarray]:
    """Yield runs of rows of an array, so that data larger than memory are never copied as a whole."""
    return (X[start : start + rows] for start in range(0, len(X), rows))
