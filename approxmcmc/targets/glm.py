"""A generalised linear model of the user's: one function of predictor and response, and what is known of it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.checks import CHECKED_ROWS, check_compiles, check_gradient, plain_function
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.tall_data import Prior


class GLMTarget(LinearTarget):
    """A generalised linear model of the user's: log p(y_i | theta) = loglik_eta(x_i' theta, y_i).

    Parameters
    ----------
    loglik_eta
        ``loglik_eta(eta, y) -> float``, plain Python, compiled here. `approxmcmc.engine.numerics.softplus` and
        `log_sigmoid` keep the loop over data vectorised.
    X, y, intercept, coef_names
        As for :class:`LogisticRegression`; y is any array of numbers of shape (n,).
    prior_scale, prior
        As for :class:`LogisticRegression`.
    derivatives_eta
        ``derivatives_eta(eta, y) -> (first, second)``, the derivatives of `loglik_eta` in eta, for gradients, modes and
        expansions. None: five-point differences.
    slope_bound
        Upper bound of abs(d loglik_eta / d eta) for all eta and all y in the data, for `BernsteinTest` and
        `PoissonTest`.
    second_derivative_bound
        Upper bound of the size of its second derivative, for `PoissonTest` on a `ControlVariate` of order 1.
    third_derivative_bound
        Upper bound of the size of its third derivative, for `BernsteinTest` and `PoissonTest` on a `ControlVariate` or
        `CoreRows`. Where there is none for all eta, a function ``bound(eta, y, reach)`` of arrays, which returns upper
        bounds over abs(t - eta) <= reach, for `PoissonTest`; ``lambda eta, y, reach: np.exp(eta + reach)`` for Poisson
        regression.
    pymc_model
        A function that returns the same posterior as a `pymc.Model`, for gold standards.

    Raises
    ------
    InvalidInputError, CompilationError
        When data or function cannot be used; the function is compiled when the target is made.

    Examples
    --------
    Poisson regression with a log link:

    >>> import math, numpy as np, approxmcmc as amc
    >>> X = np.ones((10, 1))
    >>> amc.GLMTarget(lambda eta, y: y * eta - math.exp(eta), X, np.arange(10.0))
    GLMTarget(n_obs=10, dim=1)
    """

    def __init__(
        self,
        loglik_eta: Callable[[float, float], float],
        X: Any,
        y: Any,
        *,
        prior_scale: float = 1.0,
        intercept: bool = False,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        derivatives_eta: Callable[[float, float], tuple[float, float]] | None = None,
        slope_bound: float | None = None,
        second_derivative_bound: float | None = None,
        third_derivative_bound: float | Callable[..., np.ndarray] | None = None,
        pymc_model: Callable[[], Any] | None = None,
    ) -> None:
        self._loglik_eta = plain_function(loglik_eta, "loglik_eta", who="GLMTarget")
        if derivatives_eta is not None:
            self._derivatives_eta = plain_function(derivatives_eta, "derivatives_eta", who="GLMTarget")
        self._set_data(X, y, intercept=intercept, coef_names=coef_names)
        self.prior = Prior(prior_scale, prior, who="GLMTarget")
        self._third_derivative_within = third_derivative_bound if callable(third_derivative_bound) else None
        third = None if callable(third_derivative_bound) else third_derivative_bound
        bounds = {
            "slope_bound": slope_bound,
            "second_derivative_bound": second_derivative_bound,
            "third_derivative_bound": third,
        }
        for name, bound in bounds.items():
            if bound is not None and not 0.0 < bound < math.inf:
                raise InvalidInputError(f"GLMTarget: {name} must be positive and finite, found {bound!r}")
        self.slope_bound, self.second_derivative_bound, self.third_derivative_bound = bounds.values()
        self.pymc_model = pymc_model
        arguments = (0.25, float(self.y[0]))
        check_compiles(self._loglik_eta, "loglik_eta", arguments, "loglik_eta(eta, y) -> float", who="GLMTarget")

    def _term_gradients(self) -> Any:
        if self._derivatives_eta is not None:
            for y in np.unique(self.y[:: max(1, self.n_obs // CHECKED_ROWS)])[:CHECKED_ROWS]:
                self._check_slope(float(y))
        return super()._term_gradients()

    def _check_slope(self, y: float) -> None:
        def add_slope(eta: np.ndarray, out: np.ndarray) -> None:
            out[0] += self.derivatives_eta(eta[0], y)[0]

        name, at = f"the first of derivatives_eta at y = {y:g}", np.array([0.25])
        check_gradient(lambda eta: self._loglik_eta(eta[0], y), add_slope, at, name, ["eta"], who="GLMTarget")

    def third_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return what the user's function says, or the bound that holds everywhere."""
        if self._third_derivative_within is None:
            return super().third_derivative_within(eta, y, reach)
        bounds = np.asarray(self._third_derivative_within(eta, y, reach), dtype=np.float64)
        if bounds.shape != eta.shape or not np.all((bounds >= 0.0) & (bounds < math.inf)):
            raise InvalidInputError(
                "GLMTarget: third_derivative_bound(eta, y, reach) must return a finite bound, at least 0, for each of "
                f"{len(eta)} rows, found {bounds!r}"
            )
        return bounds

    def to_pymc(self) -> Any:
        """Return the `pymc.Model` that the user supplied."""
        return self.pymc_model() if self.pymc_model is not None else super().to_pymc()
