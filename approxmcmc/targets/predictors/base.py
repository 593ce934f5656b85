"""Base class of targets in which each row depends on theta through a few linear predictors."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import CompiledTarget, ExpandableTarget, TermWork
from approxmcmc.engine.compiler.compile import type_of
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.terms.batches import Data, log_terms_at_both_type, log_terms_type
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.expansion.predictors import PredictorExpansion
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.kernels import (
    OfRows,
    add_gradient,
    add_residual_gradient,
    log_terms,
    residuals,
    terms_at_both,
)
from approxmcmc.targets.predictors.likelihood import RowLikelihood
from approxmcmc.targets.tall_data import TallDataTarget


class PredictorsTarget(TallDataTarget, ExpandableTarget):
    """A target whose terms are ``likelihood(eta_i1 ... eta_iK, responses_i)``, eta the predictors of a `Design`.

    Subclasses set `design`, `likelihood` and `responses`; those with their own kernels override the methods that make
    them.
    """

    design: Design
    likelihood: RowLikelihood
    responses: tuple[np.ndarray, ...]

    def predictor_data(self, data: Data) -> Data:
        """Return the arrays `data`, which are those of the target or some rows of them, as (*design, *responses)."""
        return data

    def batch_kernel(self, function: Callable[..., Any], name: str, signature: Any) -> Any:
        """Return `function` of `kernels`, compiled around the batch function `name` of the likelihood."""
        of_rows = self.likelihood.compile(name, self.responses)
        return _around(function, signature, self.likelihood.n_predictors, of_rows)

    def compile(self) -> CompiledTarget:
        """Compile terms and prior, with the form that evaluates a row at two thetas."""
        return super().compile()._replace(compile_at_both=self._terms_at_both)

    @property
    def term_work(self) -> TermWork:
        """Operations of a term: those of the sums that are its predictors, and those of the likelihood of a row."""
        work, added = self.likelihood.work(), self.design.additions
        stored = sum(array.nbytes for array in self.data if array.shape[:1] == (self.n_obs,)) / self.n_obs
        assert work.gradient is not None
        return work._replace(operations=work.operations + added, gradient=work.gradient + 2.0 * added, bytes=stored)

    def _log_terms(self) -> Any:
        return self.batch_kernel(log_terms, "terms", log_terms_type(type_of(self.data)).signature)

    def _terms_at_both(self) -> Any:
        return self.batch_kernel(terms_at_both, "terms", log_terms_at_both_type(type_of(self.data)).signature)

    def _term_gradients(self) -> Any:
        return self.batch_kernel(add_gradient, "slopes", gradient_signature(type_of(self.data)))

    def expansion(self, order: int) -> PredictorExpansion:
        """Return the expansion in the predictors of each row."""
        return PredictorExpansion(self, order)

    def residual_kernel(self, data: Data) -> Any:
        """Compile the terms minus their quadratics, which the last array of the data holds."""
        return self.batch_kernel(residuals, "terms", log_terms_type(type_of(data)).signature)

    def residual_gradient_kernel(self, data: Data) -> Any:
        """Compile the gradients of these residuals."""
        return self.batch_kernel(add_residual_gradient, "slopes", gradient_signature(type_of(data)))

    def _identity(self) -> str:
        return self.likelihood.identity()

    def __repr__(self) -> str:
        """Show the sizes."""
        K, dim = self.design.n_predictors, self.variables.size
        return f"{type(self).__name__}(n_obs={self.n_obs}, {K} predictor{'s' if K > 1 else ''}, dim={dim})"


@functools.lru_cache(maxsize=64)  # a target is compiled for each part that uses it, twenty times in a choice
def _around(function: Callable[..., Any], signature: Any, n_predictors: int, of_rows: Callable[..., Any]) -> Any:
    return with_context(function, signature, OfRows(n_predictors, of_rows), fastmath=True)
