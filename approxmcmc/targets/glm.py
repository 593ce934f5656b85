"""A user's generalised linear model: one function of predictor and response, with its derivatives and bounds."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.user import of_user
from approxmcmc.targets.checks import CHECKED_ROWS, check_compiles, check_gradient, plain_function
from approxmcmc.targets.family_regression import FamilyRegression
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.predictive import ResponsesOfUser, RowsOfDesign

BOUNDS = ("slope_bound", "second_derivative_bound", "third_derivative_bound")
STEP = 0.5  # of the grid, and of the differences
GRID = np.arange(-6.0, 6.0 + STEP, STEP)  # predictors at which given bounds are checked
ROUNDING = 16.0 * np.finfo(np.float64).eps  # relative rounding error of a term


class GLMTarget(FamilyRegression):
    """A user-defined generalised linear model: log p(y_i | theta) = loglik_eta(x_i' theta, y_i).

    Parameters
    ----------
    loglik_eta
        ``loglik_eta(eta, y) -> float``, plain Python, compiled here. `approxmcmc.engine.numerics.softplus` and
        `log_sigmoid` keep the loop over data vectorised.
    X, y, intercept, coef_names
        As for :class:`LogisticRegression`; y is any array of numbers of shape (n,).
    prior_scale, prior, offset, weights
        As for :class:`LogisticRegression`.
    derivatives_eta
        ``derivatives_eta(eta, y) -> (first, second)``, the derivatives of `loglik_eta` in eta, for gradients, modes and
        expansions. None: five-point differences.
    slope_bound
        Upper bound of abs(d loglik_eta / d eta) for all eta and all y in the data, for `BernsteinTest` and
        `PoissonTest`.
    second_derivative_bound
        Upper bound of abs(d^2 loglik_eta / d eta^2), for `PoissonTest` on a `ControlVariate` of order 1.
    third_derivative_bound
        Upper bound of abs(d^3 loglik_eta / d eta^3), for `BernsteinTest` and `PoissonTest` on a `ControlVariate`.
        If no bound holds for all eta, a function ``bound(eta, y, reach)`` of arrays, which returns upper
        bounds over abs(t - eta) <= reach, for `PoissonTest`; ``lambda eta, y, reach: np.exp(eta + reach)`` for Poisson
        regression.
    mean, simulate
        Functions of arrays of predictors, for :func:`approxmcmc.predict`: ``mean(eta)`` returns the expected responses,
        ``simulate(rng, eta)`` draws responses with a `numpy.random.Generator`; both with the shape of `eta`. None: the
        target predicts its predictors only.
    pymc_model
        A function that returns the same posterior as a `pymc.Model`, for gold standards.

    Raises
    ------
    InvalidInputError, CompilationError
        If data or function cannot be used, or a bound is false: it is compared with differences of the function at eta
        from -6 to 6, for at most eight of the responses. The function is compiled when the target is made.

    Examples
    --------
    Poisson regression with a log link:

    >>> import math, numpy as np, approxmcmc as amc
    >>> X = np.ones((10, 1))
    >>> amc.targets.GLMTarget(lambda eta, y: y * eta - math.exp(eta), X, np.arange(10.0))
    GLMTarget(n_obs=10, dim=1)
    """

    @naming_the_arguments
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
        offset: Any = None,
        weights: Any = None,
        derivatives_eta: Callable[[float, float], tuple[float, float]] | None = None,
        slope_bound: float | None = None,
        second_derivative_bound: float | None = None,
        third_derivative_bound: float | Callable[..., np.ndarray] | None = None,
        mean: Callable[[np.ndarray], Any] | None = None,
        simulate: Callable[[np.random.Generator, np.ndarray], Any] | None = None,
        pymc_model: Callable[[], Any] | None = None,
    ) -> None:
        self.responses_of_user = ResponsesOfUser(mean, simulate)
        loglik = plain_function(loglik_eta, "loglik_eta")
        if derivatives_eta is not None:
            derivatives_eta = plain_function(derivatives_eta, "derivatives_eta")
        self.pymc_model = pymc_model
        third = None if callable(third_derivative_bound) else third_derivative_bound
        within = _within(third_derivative_bound) if callable(third_derivative_bound) else None
        bounds = (slope_bound, second_derivative_bound, third)
        for name, bound in zip(BOUNDS, bounds, strict=True):
            if bound is not None and not 0.0 < bound < math.inf:
                raise InvalidInputError(f"GLMTarget: {name} must be positive and finite, found {bound!r}")
        family = dataclasses.replace(
            of_user(loglik, derivatives_eta),
            slope_bound=slope_bound,
            second_derivative_bound=second_derivative_bound,
            third_derivative_bound=third,
            third_derivative_within=within,
        )
        super().__init__(
            family,
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
            weights=weights,
        )
        arguments = (0.25, float(self._y[0]))
        check_compiles(loglik, "loglik_eta", arguments, "loglik_eta(eta, y) -> float")
        for response in self._some_responses():
            self._refuse_false_bounds(response)

    def _rows_of(self, design: Design, *, size: np.ndarray | None, labels: list[Any] | None = None) -> RowsOfDesign:
        """Return rows to predict, by the functions of the user's."""
        return RowsOfDesign(design, self.responses_of_user, labels=labels)

    def settings_without_rows(self) -> None:
        """Return None: the likelihood is a function of the user's."""
        return

    def rows_to_append(self, X: Any, y: Any, *, offset: Any = None, weights: Any = None, **columns: Any) -> Self:
        """Return the target of new rows alone; raise if a given bound is false for their responses."""
        more = super().rows_to_append(X, y, offset=offset, weights=weights, **columns)
        for response in more._some_responses():
            more._refuse_false_bounds(response)
        return more

    @property
    def _y(self) -> np.ndarray:
        """The responses, shape (n,)."""
        return self.unweighted_responses[0]

    def _some_responses(self) -> np.ndarray:
        """Return at most eight values of y, spread over a sample of about 1000 rows."""
        values = np.unique(self._y[:: max(1, self.n_obs // 1000)]).astype(np.float64)
        return np.unique(values[np.linspace(0, len(values) - 1, CHECKED_ROWS).astype(int)])

    def _refuse_false_bounds(self, y: float) -> None:
        """Raise if differences exceed a bound: an n-th difference over h^n is the n-th derivative at some eta between.

        So a true bound always passes, up to rounding.
        """
        family = self._single.family
        third = family.third_derivative_bound or family.third_derivative_within
        given_bounds = [bound is not None for bound in (family.slope_bound, family.second_derivative_bound, third)]
        if not any(given_bounds):
            return
        with np.errstate(all="ignore"):
            terms = np.array([self._term_or_nan(eta, y) for eta in GRID.tolist()])
        for order in (k for k, is_known in enumerate(given_bounds, 1) if is_known):
            centers = GRID[: GRID.size - order] + 0.5 * order * STEP
            name, bounds = self._bounds_around(order, centers, y)
            derivatives = np.abs(np.diff(terms, order)) / STEP**order
            # A difference of order n adds 2^n rounding errors of terms.
            rounding = ROUNDING * (2.0 / STEP) ** order * np.abs(terms).max(initial=0.0, where=np.isfinite(terms))
            excess = np.nan_to_num(derivatives - bounds - rounding, nan=0.0, posinf=0.0)
            worst = int(np.argmax(excess))
            if excess[worst] > 0.0:
                raise InvalidInputError(
                    f"GLMTarget: {name} is not a bound of derivative {order} of loglik_eta: near eta = "
                    f"{centers[worst]:g}, at y = {y:g}, it is {derivatives[worst]:.4g} where the bound says "
                    f"{bounds[worst]:.4g}; decisions that rely on it would be wrong silently. Give a larger bound"
                )

    def _bounds_around(self, order: int, centers: np.ndarray, y: float) -> tuple[str, np.ndarray]:
        """Return the name of the bound of the derivative `order`, and bounds within order * STEP / 2 of each center."""
        if order == 3:
            reach = np.full(centers.size, 0.5 * order * STEP)
            bounds = self._single.derivative_within(order, centers, (np.full(centers.size, y),), reach)
            assert bounds is not None
            return "third_derivative_bound", bounds
        name = BOUNDS[order - 1]
        return name, np.full(centers.size, getattr(self._single, name))

    def _term_or_nan(self, eta: float, y: float) -> float:
        """Return ``loglik_eta(eta, y)``, or NaN if the user's function cannot be evaluated there."""
        try:
            return float(self._single.loglik(eta, y))
        except (ArithmeticError, ValueError):
            return math.nan

    def _term_gradients(self) -> Any:
        if self.knows_derivatives:
            for y in np.unique(self._y[:: max(1, self.n_obs // CHECKED_ROWS)])[:CHECKED_ROWS]:
                self._check_slope(float(y))
        return super()._term_gradients()

    @names_itself()
    def _check_slope(self, y: float) -> None:
        def add_slope(eta: np.ndarray, out: np.ndarray) -> None:
            out[0] += self._single.derivatives(eta[0], y)[0]

        name = f"the first of derivatives_eta at y = {y:g}"
        at = np.array([0.25])
        check_gradient(lambda eta: self._single.loglik(eta[0], y), add_slope, at, name, ["eta"])

    def to_pymc(self) -> Any:
        """Return the `pymc.Model` that the user supplied."""
        return self.pymc_model() if self.pymc_model is not None else super().to_pymc()


def _within(bound: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return the user's function ``bound(eta, y, reach)`` as that of a family, with a check of what it returns."""

    def within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
        bounds = np.asarray(bound(eta, y, reach), dtype=np.float64)
        is_bound = (bounds >= 0.0) & (bounds < math.inf)
        if bounds.shape != eta.shape or not np.all(is_bound | np.isinf(reach)):
            raise InvalidInputError(
                "GLMTarget: third_derivative_bound(eta, y, reach) must return a finite bound, at least 0, for each of "
                f"{len(eta)} rows, found {bounds!r}"
            )
        return bounds

    return within
