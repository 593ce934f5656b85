"""Taylor control variates: the same posterior, with terms that hardly vary near its mode.

    log p(theta | x) = log p(theta) + sum_i log p(x_i | theta)
                     = [log p(theta) + Q(theta)] + sum_i r_i(theta),

with w_i the second-order expansion of term i at theta_hat, Q = sum_i w_i and r_i = log p(x_i | theta) - w_i(theta). Q
is a quadratic function that costs d^2 multiplications and reads no data. Q is added to the log prior. The r_i are the
new terms, of the order of |theta - theta_hat|^3, so a test that reads a sample of terms needs few of them where it
needed thousands of the old terms. The linear part of Q is kept wherever theta_hat lies, so the posterior is the same at
any theta_hat, mode or not.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import (
    CompiledDifferenceBound,
    CompiledGradient,
    CompiledTarget,
    CompiledTermRange,
    DifferentiableTarget,
    Target,
    content_hash,
)
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.checks import mode_of
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.terms.batches import LOG_PRIOR
from approxmcmc.engine.terms.term_range import remainder_range
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.surrogate.difference_bounds import expansion_bound
from approxmcmc.surrogate.expanded import ExpandedTarget
from approxmcmc.surrogate.pilot import Pilot, Surveyed, normal_pilot
from approxmcmc.targets.expansion.quadratic import Quadratic, empty_rows, inverse, is_positive_definite
from approxmcmc.targets.laplace_approximation import Laplace
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.mode import Mode
from approxmcmc.targets.posterior import Posterior

PAIRS, PAIR_ROWS = 16, 512  # pairs of states, and largest number of rows, at which set-up compares variances of terms


class PriorAndExpansion(NamedTuple):
    """Q, by its centre, value (1,), gradient and Hessian, and the target's log prior."""

    center: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    log_prior: Any


def log_prior_and_expansion(theta: np.ndarray, known: PriorAndExpansion) -> float:
    """Return log p(theta) + Q(theta)."""
    center, gradient, hessian, dim = known.center, known.gradient, known.hessian, theta.shape[0]
    product = np.zeros(dim)
    for j in range(dim):  # row by row: sums keep their order, and still vectorise
        delta = theta[j] - center[j]
        for k in range(dim):
            product[k] += hessian[j, k] * delta
    total = 0.0
    for j in range(dim):
        total += (theta[j] - center[j]) * (gradient[j] + 0.5 * product[j])
    return known.log_prior(theta) + (known.value[0] + total)


class ControlVariate(ExpandedTarget):
    """A target with the same posterior, whose terms are the residuals of a Taylor expansion.

    Parameters
    ----------
    target
        A target with continuous parameters. Generalised linear models are expanded in closed form, 2 numbers per datum;
        so are likelihoods of K linear predictors (`PredictorTarget`, softmax regression), 1 + 2 K + K (K + 1) / 2;
        others by their gradient or by differences, 1 + d + d (d + 1) / 2.
    at
        Where to expand: ``"mode"``, which is computed; ``"pilot"``, the mean of a short chain on few rows (the mode if
        the chain is not needed), which is more central if the posterior is skewed; or an array of shape (dim,), a
        `Mode`, or a `Laplace` approximation.
    order
        2, or 1 for the gradient only: less memory, and terms of the order of ``|theta - theta_hat|^2``.
    averaged
        Average slope and curvature over the posterior's normal approximation, instead of using Taylor's coefficients.
        This gives the best quadratic in mean square. For generalised linear models, with ``at="pilot"``, ``"mode"`` or
        a `Laplace`. Terms vary two to five times less. Rows with a predictor that varies much keep Taylor's
        coefficients; for such rows see :class:`CoreRows`.
    memory_limit
        Bytes that the numbers per datum may take.

    Attributes
    ----------
    center
        theta_hat; shape (dim,).
    laplace
        N(theta_hat + H^-1 g, H^-1), the normal distribution given by the expansion of the log posterior, which has the
        gradient g and the Hessian -H at theta_hat; None if the expansion has no maximum.
    distance_to_mode
        Length of the gradient of the expansion at theta_hat in posterior standard deviations, which is about the
        distance to the mode; meaningless at a pilot's mean; infinity if `laplace` is None.
    variance_ratio
        Var r / var l over data, with l_i and r_i the differences of the old and the new terms between two draws of the
        Laplace approximation; the median of 16 pairs on at most 512 data. Above 0.5 control variates increase the cost.
        NaN if `laplace` is None.

    Raises
    ------
    IncompatibleError
        For a discrete target, for a `ControlVariate` or `CoreRows`, or if `averaged` comes with another target than a
        generalised linear model, or with ``order=1``.
    InvalidInputError
        When there is no mode, the numbers need more memory than allowed, or `at` has the wrong shape.
    NotFiniteError
        When a term has no finite value and derivatives at theta_hat.

    Notes
    -----
    Guarantee: the posterior is that of `target`, exactly, at any theta_hat. How many terms a test reads depends on
    theta_hat: far from the mode there is no gain, and a run warns. At the mode the number of terms that a sequential
    test reads at a tuned step does not grow with N: about 500 for 50 parameters. The trace records the cost of set-up
    as ``setup_mode_seconds``, ``setup_mode_passes``, ``setup_expansion_seconds`` and ``setup_expansion_passes``.
    Memory: the data are not copied; the numbers per datum are stored in addition.

    References
    ----------
    Bardenet, Doucet and Holmes (2017), section 7; Quiroz, Kohn, Villani and Tran (2019).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> target = amc.ControlVariate(amc.targets.LogisticRegression(X, rng.random(5000) < 1 / (1 + np.exp(X[:, 0]))))
    >>> proposal = amc.proposals.PreconditionedCrankNicolson(0.0, target.laplace)
    >>> sampler = amc.MetropolisHastings(proposal, amc.SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0))
    >>> trace = amc.sample(target, sampler, draws=200, tune=100, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["datapoints_touched"].mean() < 1000)
    True
    """

    @naming_the_arguments
    def __init__(
        self, target: Target, at: Any = "mode", *, order: int = 2, averaged: bool = False, memory_limit: float = 4e9
    ) -> None:
        super().__init__(target)
        if order not in (1, 2):
            raise InvalidInputError(f"ControlVariate: order must be 1 or 2, found {order!r}")
        if averaged and not (order == 2 and isinstance(target, LinearTarget)):
            raise IncompatibleError(
                "ControlVariate: averaged coefficients take order=2 and a generalised linear model; found "
                f"order={order} and {target!r}; leave averaged out"
            )
        self.order, self.averaged, self.n_obs = order, bool(averaged), target.n_obs
        self.at_mode = isinstance(at, str) and at == "mode"
        found = self._place(at, memory_limit)
        found = found.pilot if isinstance(found, Surveyed) else found
        self.at_pilot = isinstance(found, Pilot)
        self.center = mode_of(found)
        if self.center.shape != (target.variables.size,):
            raise InvalidInputError(
                f"ControlVariate: at must have shape ({target.variables.size},), found {self.center.shape}"
            )
        self._mode_cost = (found.seconds, found.passes) if isinstance(found, (Laplace, Mode)) else (0.0, 0)
        began = time.perf_counter()
        posterior = Posterior(target, order)
        self._expansion = posterior.expansion
        self._numbers = empty_rows(target.n_obs, self._expansion.columns, memory_limit, mapped=self._expansion.mapped)
        self._sums = self._expand(found)
        curvature = posterior if order == 2 else Posterior(target)
        here = self._sums + posterior.prior_at(self.center) if order == 2 else curvature.at(self.center)
        self.laplace, self.distance_to_mode = self._approximate(here)
        self.variance_ratio = self._compare_variances()
        passes = self._expansion.passes + (0 if order == 2 else curvature.expansion.passes)
        self._expansion_cost = (time.perf_counter() - began, passes)

    def _expand(self, found: Any) -> Quadratic:
        """Write each row's coefficients of the expansion, and return the sum of the rows' quadratics."""
        if not self.averaged:
            return self._expansion.expand(self.center, self._numbers)
        pilot = self._pilot(found)
        survey = self._expansion.survey(self.center, pilot.cholesky, pilot.draws, self._numbers, averaged=True)
        return survey.total

    def _approximate(self, here: Quadratic) -> tuple[Laplace | None, float]:
        """Return the Laplace approximation and the distance to the mode; None and infinity if there is no maximum."""
        if not is_positive_definite(-here.hessian):
            return None, float("inf")
        cov = inverse(-here.hessian)
        step = cov @ here.gradient
        distance = float(np.sqrt(max(here.gradient @ step, 0.0)))
        seconds, passes = self._mode_cost
        return Laplace(self.center + step, cov, distance, passes, seconds), distance

    def _compare_variances(self) -> float:
        """Return the attribute `variance_ratio`; NaN without a Laplace approximation."""
        if self.laplace is None:
            return float("nan")
        rng = np.random.default_rng(0)  # for set-up only: equal targets show equal numbers
        rows = np.sort(rng.choice(self.n_obs, min(self.n_obs, PAIR_ROWS), replace=False))
        plain, ours, ratios = self.target.compile(), self.compile(), []
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
    def setup_attrs(self) -> Mapping[str, Any]:
        """Return cost and results of set-up for the trace, in addition to the target's attributes."""
        (mode_seconds, mode_passes), (seconds, passes) = self._mode_cost, self._expansion_cost
        return {
            **self.target.setup_attrs,
            "setup_mode_seconds": mode_seconds,
            "setup_mode_passes": mode_passes,
            "setup_expansion_seconds": seconds,
            "setup_expansion_passes": passes,
            **({} if self.at_pilot else {"setup_distance_to_mode": self.distance_to_mode}),
            "setup_variance_ratio": self.variance_ratio,
        }

    def content_hash(self) -> str:
        """Return a hash of the plain target, theta_hat, and the kind of the expansion."""
        kind = ("averaged",) if self.averaged else ()
        return content_hash("ControlVariate", self.target.content_hash(), self.order, self.center, *kind)

    def _compile(self, plain: CompiledTarget) -> CompiledTarget:
        value, gradient, hessian = self._sums
        known = PriorAndExpansion(self.center, np.array([value]), gradient, hessian, plain.log_prior)
        log_prior = with_context(log_prior_and_expansion, LOG_PRIOR.signature, known)
        residuals = self._expansion.compile_residuals(plain, self.center, self._numbers)
        return residuals._replace(log_prior=log_prior)

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients of the plain target's prior and terms; the sum is the same as with residuals."""
        if not isinstance(self.target, DifferentiableTarget):
            raise IncompatibleError(f"{self!r}: {self.target!r} has no gradient; give grad_loglik")
        return self.target.compile_gradient()

    def compile_term_range(self) -> CompiledTermRange:
        """Compile a bound of the range of the residuals, for `BernsteinTest`.

        Raise unless order is 2, coefficients are Taylor's, and the model has a known bound of the third derivative.
        """
        linear = self.target if isinstance(self.target, LinearTarget) else None
        if linear is None or linear.third_derivative_bound is None or self.order != 2 or self.averaged:
            raise IncompatibleError(
                f"{self!r} does not bound its terms: that takes order=2, Taylor coefficients and a linear model with a "
                "known third_derivative_bound; BernsteinTest needs range=<number> or range='observed' (no guarantee)"
            )
        reach = linear.third_derivative_bound * linear.largest_row_norm() ** 3
        return CompiledTermRange(remainder_range(), np.concatenate([[reach], self.center]))

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile the bounds of the residuals, one by one; see `approxmcmc.surrogate.difference_bounds`."""
        plain = self._linear_target()
        if self.laplace is None:
            raise IncompatibleError(
                f"{self!r}: the expanded posterior has no maximum, so it is unknown how far bounds must hold; "
                'expand at="mode"'
            )
        law = self.center, self.laplace.cholesky, normal_pilot(self.laplace).draws
        return expansion_bound(plain, self.order, self._numbers, None, law, averaged=self.averaged)

    def __repr__(self) -> str:
        """Name the target, the order of the expansion, and its distance from the mode."""
        kind = ("" if self.order == 2 else ", order=1") + (", averaged=True" if self.averaged else "")
        return f"ControlVariate({self.target!r}, distance_to_mode={self.distance_to_mode:.2g}{kind})"
