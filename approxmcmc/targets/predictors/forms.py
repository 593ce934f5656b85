"""How the rows of a regression are stored, and which kernels read them: the fastest that its design allows.

A predictor that is one dense block needs X and y only, and one loop over the columns of X. Classes that share the
columns of X read each row once for all classes. Every other design is read in the general way of `kernels`.
"""

import abc
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import type_of
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.terms.batches import (
    Data,
    linear_batch_kernel,
    linear_kernel_at_both,
    log_terms_at_both_type,
    log_terms_type,
)
from approxmcmc.engine.terms.gradients import gradient_signature, linear_gradient_kernel
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.kernels import FunctionOfPredictors, add_gradient, log_terms, terms_at_both
from approxmcmc.targets.predictors.likelihood import RowLikelihood, ScalarLikelihood

Responses = tuple[np.ndarray, ...]


class FormOfRows(abc.ABC):
    """A way to store rows, without state, and the kernels that read rows stored so."""

    @abc.abstractmethod
    def fits(self, likelihood: RowLikelihood, design: Design, responses: Responses) -> bool:
        """Return whether rows of this likelihood and design can be stored so."""

    @abc.abstractmethod
    def data(self, design: Design, responses: Responses) -> Data:
        """Return the arrays that the kernels read."""

    @abc.abstractmethod
    def predictor_data(self, design: Design, data: Data) -> Data:
        """Return `data`, those of the target or some rows of them, as (*arrays of a design, *responses)."""

    @abc.abstractmethod
    def log_terms(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the terms."""

    @abc.abstractmethod
    def at_both(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Callable[[], Any] | None:
        """Return what compiles the kernel that evaluates rows at two thetas; None if there is no such kernel."""

    @abc.abstractmethod
    def gradients(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the gradients of the terms."""


class AnyRows(FormOfRows):
    """Rows of any design: data are the arrays of the design, then the responses."""

    def fits(self, likelihood: RowLikelihood, design: Design, responses: Responses) -> bool:
        """Return True."""
        return True

    def data(self, design: Design, responses: Responses) -> Data:
        """Return the arrays of the design, then the responses."""
        return (*design.arrays, *responses)

    def predictor_data(self, design: Design, data: Data) -> Data:
        """Return `data` unchanged."""
        return data

    def log_terms(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the terms: predictors first, then the terms as functions of them."""
        return around(likelihood, log_terms, "terms", responses, log_terms_type(type_of(data)).signature)

    def at_both(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Callable[[], Any] | None:
        """Return what compiles the kernel that evaluates rows at two thetas."""
        signature = log_terms_at_both_type(type_of(data)).signature
        return functools.partial(around, likelihood, terms_at_both, "terms", responses, signature)

    def gradients(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the gradients: slopes in the predictors, then sums over rows."""
        return around(likelihood, add_gradient, "slopes", responses, gradient_signature(type_of(data)))


class DenseRows(FormOfRows):
    """Rows of one dense predictor x_i' theta and one response: data are (X, y).

    A fused dot product for each row, then one vectorised loop over the batch: a row of 50 columns costs about 20 ns.
    """

    def fits(self, likelihood: RowLikelihood, design: Design, responses: Responses) -> bool:
        """Return whether the predictor is one dense block, and the likelihood a function of it and one response."""
        return isinstance(likelihood, ScalarLikelihood) and likelihood.n_responses == 1 and design.is_dense

    def data(self, design: Design, responses: Responses) -> Data:
        """Return (X, y)."""
        return design.X, *responses

    def predictor_data(self, design: Design, data: Data) -> Data:
        """Return (X, y) as the arrays of a design and y."""
        X, y = data
        return X, np.empty((len(X), 0), dtype=np.int32), *design.arrays[2:], y

    def log_terms(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the terms."""
        return linear_batch_kernel(_scalar(likelihood).loglik, data)

    def at_both(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Callable[[], Any] | None:
        """Return what compiles the kernel that evaluates rows at two thetas."""
        return functools.partial(linear_kernel_at_both, _scalar(likelihood).loglik, data)

    def gradients(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the gradients."""
        return linear_gradient_kernel(_scalar(likelihood).derivatives, data)


def _scalar(likelihood: RowLikelihood) -> ScalarLikelihood:
    assert isinstance(likelihood, ScalarLikelihood)
    return likelihood


def around(
    likelihood: RowLikelihood, function: Callable[..., Any], name: str, responses: Responses, signature: Any
) -> Any:
    """Return `function` of `kernels`, compiled around the batch function `name` of the likelihood."""
    of_rows = likelihood.compile(name, responses)
    return _around(function, signature, likelihood.n_predictors, of_rows)


@functools.lru_cache(maxsize=64)  # a target is compiled for each part that uses it, twenty times in a choice
def _around(function: Callable[..., Any], signature: Any, n_predictors: int, of_rows: Callable[..., Any]) -> Any:
    return with_context(function, signature, FunctionOfPredictors(n_predictors, of_rows), fastmath=True)
