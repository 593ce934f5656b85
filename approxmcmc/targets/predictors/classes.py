"""Rows of K classes that share the columns of X: eta_ik = x_i' beta_k, theta = (beta_1 ... beta_K); data are (X, y).

A row is read once for all classes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled, kernel, type_of
from approxmcmc.engine.terms.batches import Data, datum_at, log_terms_type
from approxmcmc.engine.terms.gradients import ROWS, gradient_signature
from approxmcmc.families.categorical import write_slopes, write_terms
from approxmcmc.targets.predictors.closed_form import SoftmaxLikelihood
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.forms import FormOfRows, Responses
from approxmcmc.targets.predictors.likelihood import RowLikelihood


class DenseClasses(FormOfRows):
    """Rows of a softmax whose classes share all columns of X."""

    def fits(self, likelihood: RowLikelihood, design: Design, responses: Responses) -> bool:
        """Return whether each class has all columns of X, and the entries of theta that follow those of the last."""
        p = design.X.shape[1]
        return (
            isinstance(likelihood, SoftmaxLikelihood)
            and not design.codes.size
            and design.dim == design.n_predictors * p
            and all(
                predictor.columns == (0, p)
                and not predictor.shared
                and list(predictor.places) == list(range(k * p, (k + 1) * p))
                for k, predictor in enumerate(design.predictors)
            )
        )

    def data(self, design: Design, responses: Responses) -> Data:
        """Return (X, y)."""
        return design.X, *responses

    def predictor_data(self, design: Design, data: Data) -> Data:
        """Return (X, y) as the arrays of a design with columns that all classes share, followed by y."""
        X, y = data
        return X, np.empty((len(X), 0), dtype=np.int32), *design.arrays[2:], y

    def log_terms(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the terms."""
        return kernel(terms_of_classes, log_terms_type(type_of(data)).signature, fastmath=BATCH_FASTMATH)

    def at_both(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Callable[[], Any] | None:
        """Return None: there is no kernel that evaluates a row at two thetas."""
        return None

    def gradients(self, likelihood: RowLikelihood, responses: Responses, data: Data) -> Any:
        """Compile the batch kernel of the gradients."""
        return kernel(add_gradient_of_classes, gradient_signature(type_of(data)), fastmath=BATCH_FASTMATH)


@compiled(fastmath=set(BATCH_FASTMATH))
def predict_classes(theta: np.ndarray, X: np.ndarray, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write x_i' beta_k to ``out[k, :hi - lo]`` for all classes k."""
    p = X.shape[1]
    for position in range(lo, hi):
        row = datum_at(order, position)
        for k in range(out.shape[0]):
            eta = 0.0
            for j in range(p):
                eta += X[row, j] * theta[k * p + j]
            out[k, position - lo] = eta


def terms_of_classes(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the terms of the rows ``order[lo:hi]``."""
    X, y = data
    eta = np.empty((theta.shape[0] // X.shape[1], hi - lo))
    predict_classes(theta, X, order, lo, hi, eta)
    write_terms(eta, y, order, lo, hi, np.empty((2, hi - lo)), out)


def add_gradient_of_classes(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Add the sum of the gradients of the terms of ``order[lo:hi]``."""
    X, y = data
    p = X.shape[1]
    eta = np.empty((theta.shape[0] // p, ROWS))
    work = np.empty((2, ROWS))
    for start in range(lo, hi, ROWS):  # rows are read twice; so few stay in the first-level cache until the second time
        stop = min(start + ROWS, hi)
        predict_classes(theta, X, order, start, stop, eta)
        write_slopes(eta, y, order, start, stop, work, eta)
        for position in range(start, stop):
            row = datum_at(order, position)
            for k in range(eta.shape[0]):
                slope = eta[k, position - start]
                for j in range(p):
                    out[k * p + j] += slope * X[row, j]
