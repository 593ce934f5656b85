"""Regressions: rows that depend on theta only through K linear predictors."""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import (
    BoundedTarget,
    CompiledBound,
    CompiledDifferenceBound,
    CompiledTarget,
    CompiledTermRange,
    ExpandableTarget,
    Target,
    TermWork,
)
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.compile import type_of
from approxmcmc.engine.files.grown_arrays import followed_by, without_rows
from approxmcmc.engine.terms.batches import Data, log_terms_type
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.engine.terms.term_range import distance_range
from approxmcmc.errors import IncompatibleError
from approxmcmc.expansion.linear import LinearExpansion
from approxmcmc.expansion.predictors import PredictorExpansion
from approxmcmc.targets.blocks import Grows
from approxmcmc.targets.likelihood_bounds import bound_of_design, check_kind
from approxmcmc.targets.predictors.classes import DenseClasses
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.family import FamilyLikelihood
from approxmcmc.targets.predictors.forms import AnyRows, DenseRows, FormOfRows, around
from approxmcmc.targets.predictors.kernels import add_residual_gradient, residuals
from approxmcmc.targets.predictors.likelihood import RowLikelihood, ScalarLikelihood
from approxmcmc.targets.predictors.weighted import weighted_rows
from approxmcmc.targets.tall_data import TallDataTarget

FORMS: tuple[FormOfRows, ...] = (DenseRows(), DenseClasses(), AnyRows())  # the first that fits is taken
# By the order of a derivative that a likelihood does not bound: its name, and the argument that gives a bound.
UNKNOWN_BOUNDS = {
    2: ("second", "second_derivative_bound="),
    3: ("third", "third_derivative_bound=, a number or a function of (eta, y, reach)"),
}


class Regression(TallDataTarget, Grows, BoundedTarget, ExpandableTarget):
    r"""A likelihood, a design, and a prior: the only class of rows with linear predictors.

    .. math:: \log p(y_i \mid \theta) = f(\eta_{i1} \dots \eta_{iK}; y_i), \quad \eta = \text{design}(\theta).

    The likelihood is a family or a function of the user's. The design says which entries of theta each row adds up: a
    dense block of columns, coded columns, offsets, entries that all rows share. All that samplers ask for follows from
    the two: gradients, expansions, bounds of derivatives and of single terms, minorants. Subclasses set `likelihood`,
    `prior` and `variables`, and call `_set_rows`.

    With known weights term i is w_i f(eta_i1 ... eta_iK; y_i). Then `likelihood` and `responses` are those of the
    weighted rows, and `unweighted_responses` those without the weights.
    """

    by_row = ("data", "design", "responses", "unweighted_responses", "weights")
    likelihood: RowLikelihood
    design: Design
    responses: tuple[np.ndarray, ...]
    unweighted_responses: tuple[np.ndarray, ...]
    weights: np.ndarray | None
    form: FormOfRows

    def _set_rows(self, design: Design, responses: tuple[np.ndarray, ...], weights: np.ndarray | None = None) -> None:
        """Store the rows in the first of `FORMS` that fits; `weights` multiply their terms, shape (n,)."""
        self.unweighted_responses = responses
        self.weights = weights
        if weights is not None:
            self.likelihood, responses = weighted_rows(self.likelihood.single, responses, weights)
        self.design = design
        self.responses = responses
        self.n_obs = design.n_rows
        self.form = next(form for form in FORMS if form.fits(self.likelihood, design, responses))
        self.data = self.form.data(design, responses)

    # --- blocks of rows that come and go ---

    def _join_rows(self, more: Self) -> None:
        """Put the rows of `more` behind the own ones."""
        pairs = zip(self.unweighted_responses, more.unweighted_responses, strict=True)
        responses = tuple(followed_by(*pair) for pair in pairs)
        self.likelihood = self.likelihood.single.covering(more.unweighted_responses)
        weights = None
        if self.weights is not None:
            assert more.weights is not None
            weights = followed_by(self.weights, more.weights)
        self._set_rows(self.design.followed_by(more.design), responses, weights)

    def _leave_out(self, lo: int, hi: int) -> None:
        """Leave out the rows lo ... hi - 1."""
        responses = tuple(without_rows(response, lo, hi) for response in self.unweighted_responses)
        weights = None if self.weights is None else without_rows(self.weights, lo, hi)
        self._set_rows(self.design.without(lo, hi), responses, weights)

    def some_rows(self, rows: np.ndarray) -> Self:
        """Return the target of the rows with these indices alone, which are copied."""
        subset = copy.copy(self)
        subset._start_anew(())
        design = self.design
        X, codes = (np.ascontiguousarray(array[rows]) for array in (design.X, design.codes))
        chosen = Design(design.dim, X, codes, design.weight_columns, design.predictors)
        responses = tuple(np.ascontiguousarray(response[rows]) for response in self.unweighted_responses)
        subset._set_rows(chosen, responses, None if self.weights is None else self.weights[rows])
        return subset

    def content_hash(self) -> str:
        """Return a hash of model and data; of model and hashes of the blocks, if rows were appended."""
        if self._blocks:
            return self._hash_of_blocks(self._identity(), self.prior.identity())
        self._noted_hash = self._stored_hash or super().content_hash()
        return self._noted_hash

    @property
    def is_dense(self) -> bool:
        """Whether rows are (x_i, y_i) with the one predictor x_i' theta, so that their expansion has two numbers."""
        return isinstance(self.form, DenseRows)

    @property
    def X(self) -> np.ndarray:  # noqa: N802  # the design matrix, called X in the arguments too
        """The dense columns of the design, shape (n, p)."""
        return self.design.X

    @property
    def y(self) -> np.ndarray:
        """The first of the responses, as kernels read it, shape (n,): y, or a complex number with a size or weight."""
        return self.responses[0]

    @property
    def scalar(self) -> ScalarLikelihood:
        """The likelihood, if it is given by a function of one row."""
        assert isinstance(self.likelihood, ScalarLikelihood)
        return self.likelihood

    # --- terms and gradients ---

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, with the form that evaluates a row at two thetas, if there is one."""
        at_both = self.form.at_both(self.likelihood, self.responses, self.data)
        return super().compile()._replace(compile_at_both=at_both)

    def _log_terms(self) -> Any:
        return self.form.log_terms(self.likelihood, self.responses, self.data)

    def _term_gradients(self) -> Any:
        return self.form.gradients(self.likelihood, self.responses, self.data)

    def predictor_data(self, data: Data) -> Data:
        """Return the arrays `data`, which are those of the target or some rows of them, as (*design, *responses)."""
        return self.form.predictor_data(self.design, data)

    @property
    def term_work(self) -> TermWork:
        """Operations of a term: those of the sums that are its predictors, and those of the likelihood of a row."""
        work = self.likelihood.work()
        added = self.design.additions
        stored = sum(array.nbytes for array in self.data if array.shape[:1] == (self.n_obs,)) / self.n_obs
        assert work.gradient is not None
        return work._replace(operations=work.operations + added, gradient=work.gradient + 2.0 * added, bytes=stored)

    def _identity(self) -> str:
        return self.likelihood.identity()

    # --- expansions ---

    def expansion(self, order: int) -> LinearExpansion | PredictorExpansion:
        """Return the expansion: two numbers per row for one dense predictor, else in the predictors of each row."""
        return LinearExpansion(self, order) if self.is_dense else PredictorExpansion(self, order)

    def residual_kernel(self, data: Data) -> Any:
        """Compile the terms minus their quadratics, which the last array of the data holds."""
        return around(self.likelihood, residuals, "terms", self.responses, log_terms_type(type_of(data)).signature)

    def residual_gradient_kernel(self, data: Data) -> Any:
        """Compile the gradients of these residuals."""
        signature = gradient_signature(type_of(data))
        return around(self.likelihood, add_residual_gradient, "slopes", self.responses, signature)

    # --- bounds, of rows with one predictor ---

    @property
    def knows_derivatives(self) -> bool:
        """Whether derivatives of the likelihood are exact, and not differences."""
        return self.likelihood.knows_derivatives

    def row_norms(self) -> np.ndarray:
        """Return the ||x_i||, lengths of the gradients of the predictors; shape (n_obs,)."""
        return self.design.row_norms()

    def longest_gradients(self) -> np.ndarray | None:
        """Return upper bounds of the lengths of the terms' gradients; shape (n_obs,), None if they are unknown."""
        slopes = self.likelihood.derivative_bounds(1, self.responses)
        return None if slopes is None else slopes * self.row_norms()

    @property
    def why_unbounded(self) -> str:
        """Why no number bounds the slopes of a family's terms, and no quadratic lies below them, for all theta.

        "" if the likelihood is a function of the user's, whose bounds the user may know.
        """
        single = self.likelihood.single
        if self.design.n_predictors > 1:
            return (
                "its terms fall exponentially in the logarithm of a shape, of a scale or of a distance of cutpoints"
                if single.bounds_forms
                else ""
            )
        if not isinstance(single, FamilyLikelihood) or single.family.twin is None:
            return ""
        return "the slopes of its terms grow without limit in their predictor"

    @property
    def why_no_quadratic(self) -> str:
        """Why no quadratic in theta lies below the terms of a family; "" if the likelihood is the user's."""
        if self.design.n_predictors > 1 or not self.why_unbounded:
            return self.why_unbounded
        return "its terms fall exponentially in their predictor"

    def compile_term_range(self) -> CompiledTermRange:
        """Compile the bound ``2 max_i slope_bound_i ||x_i|| ||theta' - theta||`` of `CompiledTermRange`."""
        lengths = self.longest_gradients()
        if lengths is None and self.why_unbounded:
            raise IncompatibleError(
                f"{type(self).__name__} does not bound its terms, and no bound holds for all theta, because "
                f"{self.why_unbounded}; the residuals of a ControlVariate of it have bounds near its centre, or give "
                "BernsteinTest range='observed', without a guarantee"
            )
        if lengths is None:
            return super().compile_term_range()
        return CompiledTermRange(distance_range(), np.array([lengths.max()]))

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile ``slope_bound_i ||x_i|| ||theta' - theta||``, which bounds the change of term i."""
        lengths = self.longest_gradients()
        if lengths is None and self.why_unbounded:
            raise IncompatibleError(
                f"{type(self).__name__} does not bound its terms one by one, which exact subsampling needs, and no "
                f"bound holds for all theta, because {self.why_unbounded}; the residuals of a ControlVariate of it "
                "have bounds near its centre: use PoissonTest with these, or ExactTest"
            )
        if lengths is None:
            return super().compile_difference_bound()
        distance = np.array([0.5])  # the range is twice the number times the distance
        return CompiledDifferenceBound(distance_range(), distance, lengths, np.empty(0))

    def forms_within(
        self, order: int, eta: np.ndarray, rows: Any, covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of the directional derivatives of some rows, see `RowLikelihood.forms_within`.

        For one predictor they are those of the derivative in it, times a power of its standard deviation.
        """
        responses = self.responses_of(rows)
        if self.design.n_predictors > 1:
            return self.likelihood.forms_within(order, eta, responses, covariances, radius)
        variances = covariances[:, 0, 0]
        spread = np.sqrt(variances)
        bounds = self.likelihood.derivative_within(order, eta[0], responses, spread * radius)
        if bounds is None:
            name, argument = UNKNOWN_BOUNDS[order]
            raise IncompatibleError(
                f"{type(self).__name__} does not bound its {name} derivative, which exact subsampling of an expansion "
                f"of order {order - 1} needs; give a GLMTarget {argument}"
            )
        return bounds * (variances if order == 2 else spread * variances)

    def responses_of(self, rows: Any) -> tuple[np.ndarray, ...]:
        """Return the responses of some rows, a slice or indices, in memory."""
        return tuple(np.array(response[rows]) for response in self.responses)

    @property
    def bound_kinds(self) -> tuple[str, ...]:
        """The names of the lower bounds of the likelihood, for `Firefly`."""
        return self.likelihood.bound_kinds(self.responses)

    @names_itself()
    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Return the lower bound `kind` of the likelihood; a tuned one touches it at the theta `at`."""
        check_kind(kind, self.bound_kinds, at)
        eta_0 = np.zeros(self.n_obs) if at is None else self.design.of_all_rows(at)[0]
        return bound_of_design(self.design, self.likelihood.minorant(kind, self.responses, eta_0))

    # --- what a trace shows ---

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The responses, y or y_0, y_1 and so on."""
        if len(self.unweighted_responses) == 1:
            return {"y": self.unweighted_responses[0].real}
        return {f"y_{k}": response for k, response in enumerate(self.unweighted_responses)}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The dense columns "X" as kernels read them, and the "codes" of the design and "weights" if there are any."""
        codes = {"codes": self.design.codes} if self.design.codes.size else {}
        return {"X": self.design.X, **codes, **({} if self.weights is None else {"weights": self.weights})}

    def __repr__(self) -> str:
        """Show the sizes."""
        predictors = "1 predictor" if self.design.n_predictors == 1 else f"{self.design.n_predictors} predictors"
        return f"{type(self).__name__}(n_obs={self.n_obs}, {predictors}, dim={self.variables.size})"


def dense(target: Target) -> Regression | None:
    """Return the target if it is a regression with one dense predictor x_i' theta, else None."""
    return target if isinstance(target, Regression) and target.is_dense else None


def has_one_predictor(target: Target) -> bool:
    """Return whether the target is a regression with one predictor, whatever its design and likelihood."""
    return isinstance(target, Regression) and target.design.n_predictors == 1


def bounded(target: Target) -> Regression | None:
    """Return the target if it is a regression with one predictor whose likelihood bounds its derivatives, else None."""
    if not isinstance(target, Regression) or not has_one_predictor(target):
        return None
    return target if target.likelihood.bounds_derivatives else None


def with_bounded_residuals(target: Target) -> Regression | None:
    """Return the target if it is a regression that bounds the residuals of its expansions, else None.

    Its derivatives must be exact.
    """
    if has_one_predictor(target):
        regression = bounded(target)
    else:
        regression = target if isinstance(target, Regression) and target.likelihood.bounds_forms else None
    return regression if regression is not None and regression.knows_derivatives else None
