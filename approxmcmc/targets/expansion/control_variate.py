"""Taylor control variates: the same posterior, with terms that hardly vary near its mode.

    log p(theta | x) = log p(theta) + sum_i log p(x_i | theta)
                     = [log p(theta) + Q(theta)] + sum_i r_i(theta),

w_i the second-order expansion of term i at theta_hat, Q = sum_i w_i and r_i = log p(x_i | theta) - w_i(theta). Q is a
quadratic function that costs d^2 multiplications and no data. It joins the prior; the r_i are the terms, of the order
of |theta - theta_hat|^3, and a test on a few of them decides what a test on thousands of the old ones did. The linear
part of Q is kept wherever theta_hat lies, so that the posterior is the same at any theta_hat, mode or not.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import (
    BoundedTermsTarget,
    CompiledGradient,
    CompiledTarget,
    CompiledTermRange,
    DifferentiableTarget,
    Target,
    TwinnedTarget,
    content_hash,
)
from approxmcmc.engine.approximation import mode_of
from approxmcmc.engine.batches import LOG_PRIOR
from approxmcmc.engine.compile import kernel
from approxmcmc.engine.term_range import remainder_range
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.expansion.quadratic import Quadratic, empty_rows, inverse, is_positive_definite
from approxmcmc.targets.laplace_approximation import Laplace
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.mode import Mode, laplace
from approxmcmc.targets.posterior import Posterior

PAIRS, PAIR_ROWS = 16, 512  # of the look at set-up at how much smaller the variance gets


def _add_expansion(log_prior: Any, center: np.ndarray, sums: Quadratic) -> Callable[[np.ndarray], float]:
    """Return theta -> log p(theta) + Q(theta); the arrays become constants of the compiled function."""
    value, gradient, hessian = sums

    def log_prior_and_expansion(theta: np.ndarray) -> float:
        dim = theta.shape[0]
        product = np.zeros(dim)
        for j in range(dim):  # row by row: sums keep their order, and still vectorise
            delta = theta[j] - center[j]
            for k in range(dim):
                product[k] += hessian[j, k] * delta
        total = 0.0
        for j in range(dim):
            total += (theta[j] - center[j]) * (gradient[j] + 0.5 * product[j])
        return log_prior(theta) + (value + total)

    return log_prior_and_expansion


class ControlVariate(Target, DifferentiableTarget, BoundedTermsTarget, TwinnedTarget):
    """A target with the same posterior, whose terms are the residuals of a Taylor expansion.

    Parameters
    ----------
    target
        A target with continuous parameters. Generalised linear models are expanded in closed form, 4 numbers per datum;
        others by their gradient or by differences, 1 + d + d (d + 1) / 2 numbers per datum.
    at
        Where to expand: ``"mode"`` finds it; or an array of shape (dim,), a `Mode`, or a `Laplace` approximation.
    order
        2, or 1 for the gradient alone: less memory, and terms of the order of ``|theta - theta_hat|^2``.
    memory_limit
        Bytes that the numbers per datum may take.

    Attributes
    ----------
    center
        theta_hat; shape (dim,).
    laplace
        N(theta_hat + H^-1 g, H^-1), the normal law that the expansion of the posterior is, g its gradient at theta_hat;
        None where the posterior bends up there.
    distance_to_mode
        Length of the gradient at theta_hat in posterior standard deviations, which is about the distance to the mode.
    variance_ratio
        Var r / var l over data, l_i and r_i the old and new log-likelihood differences between two draws of the
        Laplace approximation; the median of 16 pairs on at most 512 data. Above 0.5 control variates hurt.

    Raises
    ------
    IncompatibleError
        For a discrete target, or one that is a ControlVariate.
    InvalidInputError
        When there is no mode, the numbers need more memory than allowed, or `at` has the wrong shape.
    NotFiniteError
        When a term has no finite value and derivatives at theta_hat.

    Notes
    -----
    Guarantee: the posterior is that of `target`, exactly, at any theta_hat. How many terms a test reads depends on
    theta_hat: far from the mode there is nothing to win, and a run warns. At the mode the terms that a sequential test
    reads at a tuned step do not grow with N, about 500 for 50 parameters. Set-up is booked as ``setup_mode_seconds``,
    ``setup_mode_passes``, ``setup_expansion_seconds`` and ``setup_expansion_passes``. Memory: one copy of the data is
    not made; the numbers per datum are.

    References
    ----------
    Bardenet, Doucet and Holmes (2017), section 7; Quiroz, Kohn, Villani and Tran (2019).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> target = amc.ControlVariate(amc.targets.LogisticRegression(X, rng.random(5000) < 1 / (1 + np.exp(X[:, 0]))))
    >>> proposal = amc.PreconditionedCrankNicolson(0.0, target.laplace)
    >>> sampler = amc.MetropolisHastings(proposal, amc.SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0))
    >>> trace = amc.sample(target, sampler, draws=200, tune=100, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["datapoints_touched"].mean() < 1000)
    True
    """

    terms_are_likelihood = False  # but its residuals: a temperature that divides them would leave the expansion whole

    def __init__(self, target: Target, at: Any = "mode", *, order: int = 2, memory_limit: float = 4e9) -> None:
        if isinstance(target, ControlVariate):
            raise IncompatibleError("ControlVariate: the target is a ControlVariate already; give it the plain target")
        if order not in (1, 2):
            raise InvalidInputError(f"ControlVariate: order must be 1 or 2, found {order!r}")
        if isinstance(at, str) and at != "mode":
            raise InvalidInputError(f'ControlVariate: at must be "mode", an array or a Laplace object, found {at!r}')
        self.target, self.order = target, order
        self.n_obs, self.variables = target.n_obs, target.variables
        self.at_mode = isinstance(at, str)
        found = laplace(target) if self.at_mode else at
        self.center = mode_of(found)
        if self.center.shape != (target.variables.size,):
            raise InvalidInputError(
                f"ControlVariate: at must have shape ({target.variables.size},), found {self.center.shape}"
            )
        self._mode_cost = (found.seconds, found.passes) if isinstance(found, (Laplace, Mode)) else (0.0, 0)
        began = time.perf_counter()
        posterior = Posterior(target, order)
        self._expansion = posterior.expansion
        self._numbers = empty_rows(target.n_obs, self._expansion.columns, memory_limit)
        self._sums = self._expansion.at(self.center, self._numbers)
        curvature = posterior if order == 2 else Posterior(target)
        here = self._sums + posterior.prior_at(self.center) if order == 2 else curvature.at(self.center)
        self.laplace, self.distance_to_mode = self._approximate(here)
        self._compiled: CompiledTarget | None = None
        self._content = ""  # of the plain target, when it was compiled
        self.variance_ratio = self._compare_variances()
        passes = self._expansion.passes + (0 if order == 2 else curvature.expansion.passes)
        self._expansion_cost = (time.perf_counter() - began, passes)

    def _approximate(self, here: Quadratic) -> tuple[Laplace | None, float]:
        """Return the Laplace approximation, and the distance to the mode; None and infinity where it bends up."""
        if not is_positive_definite(-here.hessian):
            return None, float("inf")
        cov = inverse(-here.hessian)
        step = cov @ here.gradient
        distance = float(np.sqrt(max(here.gradient @ step, 0.0)))
        seconds, passes = self._mode_cost
        return Laplace(self.center + step, cov, distance, passes, seconds), distance

    def _compare_variances(self) -> float:
        """Return the median of var r / var l between two draws of the Laplace approximation; NaN without one."""
        if self.laplace is None:
            return float("nan")
        rng = np.random.default_rng(0)  # of set-up alone: equal targets show equal numbers
        rows = np.sort(rng.choice(self.n_obs, min(self.n_obs, PAIR_ROWS), replace=False))
        plain, ours, ratios = self._plain, self.compile(), []
        for _ in range(PAIRS):
            ends = [self.draw_start(rng) for _ in range(2)]
            variances = []
            for compiled in (ours, plain):
                terms = np.empty((2, rows.size))
                for theta, out in zip(ends, terms, strict=True):
                    compiled.log_terms(theta, compiled.data, rows, 0, rows.size, out)
                variances.append(np.var(terms[1] - terms[0]))
            ratios.append(variances[0] / variances[1] if variances[1] > 0.0 else 0.0)
        return float(np.median(ratios))

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """What was observed."""
        return self.target.observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The plain target's constants, and mode and covariance of the Laplace approximation."""
        fit = {} if self.laplace is None else {"laplace_mode": self.laplace.mode, "laplace_cov": self.laplace.cov}
        return {**self.target.constant_data, **fit}

    @property
    def setup_attrs(self) -> Mapping[str, float]:
        """What set-up cost and found, for the trace's attributes."""
        (mode_seconds, mode_passes), (seconds, passes) = self._mode_cost, self._expansion_cost
        return {
            "setup_mode_seconds": mode_seconds,
            "setup_mode_passes": mode_passes,
            "setup_expansion_seconds": seconds,
            "setup_expansion_passes": passes,
            "setup_distance_to_mode": self.distance_to_mode,
            "setup_variance_ratio": self.variance_ratio,
        }

    def initial_point(self) -> np.ndarray:
        """Return the mode of the Laplace approximation, or theta_hat without one; shape (dim,)."""
        return self.center.copy() if self.laplace is None else self.laplace.mode.copy()

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of the Laplace approximation, or U(-1, 1) around theta_hat without one; shape (dim,)."""
        if self.laplace is None:
            return self.center + rng.uniform(-1.0, 1.0, size=self.center.size)
        return self.laplace.draw(rng)

    def content_hash(self) -> str:
        """Return a hash of model, data and theta_hat."""
        return content_hash("ControlVariate", self.target.content_hash(), self.order, self.center)

    @property
    def _plain(self) -> CompiledTarget:
        return self.target.compile()

    def compile(self) -> CompiledTarget:
        """Compile the residual terms, and the prior with the sum of the expansions; once for this object.

        Raises
        ------
        InvalidInputError
            When data or functions of the plain target are others than those that were expanded.
        """
        content = self.target.content_hash()
        if self._compiled is not None and content != self._content:
            raise InvalidInputError(
                f"{self!r}: the data of {self.target!r}, or numbers that its functions read, were changed after the "
                "expansion was made; make a new target and a new ControlVariate"
            )
        if self._compiled is None:
            self._content = content
            plain = self._plain
            density = _add_expansion(plain.log_prior, self.center, self._sums)
            # The sums are constants of this kernel and belong to one data set: nothing to keep on disk.
            log_prior = kernel(density, LOG_PRIOR.signature, cache=False)
            residuals = self._expansion.compile_residuals(plain, self.center, self._numbers)
            self._compiled = residuals._replace(log_prior=log_prior)
        return self._compiled

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients of the plain target; prior and terms add up to the same posterior."""
        if not isinstance(self.target, DifferentiableTarget):
            raise IncompatibleError(f"{self!r}: {self.target!r} has no gradient; give grad_loglik")
        return self.target.compile_gradient()

    def compile_term_range(self) -> CompiledTermRange:
        """Compile a bound of the range of the residuals, for `BernsteinTest`: a bounded third derivative gives one."""
        linear = self.target if isinstance(self.target, LinearTarget) else None
        if linear is None or linear.third_derivative_bound is None or self.order != 2:
            raise IncompatibleError(
                f"{self!r} does not bound its terms: that takes order=2 and a generalised linear model with a known "
                "third_derivative_bound; BernsteinTest needs range=<number> or range='observed' (no guarantee)"
            )
        reach = linear.third_derivative_bound * linear.largest_row_norm() ** 3
        return CompiledTermRange(remainder_range(), np.concatenate([[reach], self.center]))

    def to_pymc(self) -> Any:
        """Return the plain target's PyMC twin."""
        return self.target.to_pymc()  # type: ignore[attr-defined]  # told by the plain target where there is none

    def __repr__(self) -> str:
        """Name the target, the order of the expansion, and its distance from the mode."""
        order = "" if self.order == 2 else ", order=1"
        return f"ControlVariate({self.target!r}, distance_to_mode={self.distance_to_mode:.2g}{order})"
