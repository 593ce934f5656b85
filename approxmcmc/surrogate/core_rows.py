"""Core rows: influential rows are always read; the other rows are replaced by a quadratic, and their residuals sampled.

    log p(theta | x) = S(theta) + sum_{i light} r_i(theta),
    S(theta) = log p(theta) + sum_{i light} w_i(theta) + sum_{i core} log p(x_i | theta),

w_i is a quadratic fitted to the term of light row i, and r_i = log p(x_i | theta) - w_i(theta). S replaces the prior;
the r_i are the terms. With w_i = 0 this is stratified sampling: all core rows and a sample of light rows.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import (
    CompiledDifferenceBound,
    CompiledGradient,
    CompiledSurrogate,
    CompiledTarget,
    CompiledTermRange,
    SurrogateTarget,
    Target,
    content_hash,
)
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.terms.shuffled import check_rows_are_terms
from approxmcmc.errors import IncompatibleError, SamplingWarning, warn
from approxmcmc.surrogate.difference_bounds import expansion_bound, residual_range
from approxmcmc.surrogate.expanded import ExpandedTarget
from approxmcmc.surrogate.kernels import kernel_named, run
from approxmcmc.surrogate.moves import SurrogateState
from approxmcmc.surrogate.pilot import FIRST_STEP, TUNING_STEPS, Surveyed, gradient_or_none
from approxmcmc.surrogate.surrogate import Surrogate, rows_of, taken
from approxmcmc.targets.expansion.core_rule import (
    LARGEST_SHARE,
    LARGEST_SPREAD,
    rows_far_out,
    rows_named,
    rows_that_pay,
    rows_that_vary,
)
from approxmcmc.targets.expansion.quadratic import Quadratic, Survey, empty_rows, inverse, is_positive_definite
from approxmcmc.targets.laplace_approximation import Laplace
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.posterior import Posterior


class CoreRows(ExpandedTarget, SurrogateTarget):
    """The same posterior, with influential rows read in every decision, and small terms for the other rows.

    Parameters
    ----------
    target
        A target with continuous parameters: a generalised linear model, 2 numbers per datum; a likelihood of K linear
        predictors (`PredictorTarget`, softmax regression), 1 + 2 K + K (K + 1) / 2; or any other whose terms have
        derivatives, 1 + d + d (d + 1) / 2.
    core
        ``"auto"`` chooses the rows, see Notes; or their indices, integers of shape (n_core,); or booleans, one for each
        row of `target`, True for core rows.
    at
        Where to expand: ``"pilot"``, the mean of a short chain; ``"mode"``; or a `Laplace` approximation, such as the
        attribute `pilot` of another `CoreRows` of this target.
    expand
        False keeps the light terms unchanged: stratified sampling, all core rows and a sample of light rows.
    memory_limit
        Bytes that the numbers per datum may take.

    Attributes
    ----------
    core
        Indices of the rows that are always read, in the data of `target`; int64, shape (n_core,).
    n_obs
        Number of light rows, the terms that a test may sample.
    pilot
        The pilot's mean, covariance and some of its draws.
    laplace
        The normal distribution for proposals and starts: if the core is empty and light rows are expanded, an
        approximation of S, which is exact if the prior is normal; otherwise the pilot's normal distribution.
    surrogate
        S, compiled.
    spread
        Standard deviation over pilot draws of the sum of the light residuals, or an upper bound of it.

    Raises
    ------
    IncompatibleError
        For a discrete target, or one that is expanded already.
    InvalidInputError
        When there is no mode, the numbers need more memory than allowed, or `core` or `at` cannot be used.

    Warns
    -----
    SamplingWarning
        When ``core="auto"`` finds more than a third of the rows. Then all rows but one become core rows, and every
        decision reads all data: exact, but no faster than the plain target.

    Notes
    -----
    Guarantee: the posterior is that of `target`, exactly, for any core. The error of the decisions depends on the test:
    with :class:`ExactTest` the chain is exact; with a sequential test the light rows decide how large it is.

    With ``core="auto"`` the core is the union of three sets. *Variance*: the fewest rows without which the light
    residuals together have a standard deviation of at most 0.3 over draws of the pilot. *Walls*, in a generalised
    linear model (for other targets see the page on core rows): rows of which the linear predictor has a posterior
    variance above 1/2, in squared units of its scale, and the quadratic is off by more than 1/8 nat at 50 standard
    deviations on either side (at 6 if these are more than a twelfth of all rows). Ranking by residuals alone would miss
    rows that forbid a half-space, because their residual is zero at every draw. *Cost*: rows that cost less if every
    step reads them than if a test samples them. With ``expand=False`` the core is the walls and the rows with outlying
    terms. On data without heavy rows the core is empty.

    In a generalised linear model the coefficients of light rows are averages over the normal distribution of the
    pilot's draws (Price 1958), or Taylor's if these at least halve the variance of the residuals over the draws. In
    other models they are Taylor's. Each evaluation of S reads the core: `datapoints_touched` and
    `likelihood_evaluations` count these reads.

    References
    ----------
    Bardenet, Doucet and Holmes (2017), section 7; Price (1958).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> rare = np.arange(5000) < 3  # three rows of a category, all with the response 1
    >>> X = np.column_stack([rng.normal(size=(5000, 2)), rare / rare.std()])
    >>> y = (rng.random(5000) < 1 / (1 + np.exp(-X[:, 0]))) | rare
    >>> target = amc.CoreRows(amc.targets.LogisticRegression(X, y))
    >>> bool(set(target.core) >= {0, 1, 2}), len(target.core) < 50
    (True, True)
    """

    @naming_the_arguments
    def __init__(
        self, target: Target, core: Any = "auto", at: Any = "pilot", *, expand: bool = True, memory_limit: float = 4e9
    ) -> None:
        super().__init__(target)
        self.expand = bool(expand)
        found = self._place(at, memory_limit)
        known = found if isinstance(found, Surveyed) else Surveyed(self._pilot(found))
        self.pilot = known.pilot
        began = time.perf_counter()
        self.center, posterior = self.pilot.mode, Posterior(target)
        self._expansion = posterior.expansion
        numbers, survey = known.numbers, known.survey
        if numbers is None or survey is None:
            numbers = empty_rows(target.n_obs, self._expansion.columns, memory_limit, mapped=self._expansion.mapped)
            law = self.center, self.pilot.cholesky, self.pilot.draws
            survey = self._expansion.survey(*law, numbers, averaged=True)
        by_rule = isinstance(core, str) and core == "auto"
        in_core = self._choose(survey) if by_rule else rows_named(core, self.target.n_obs)
        self.core, self.n_obs = np.flatnonzero(in_core), int((~in_core).sum())
        # Without a core all rows are light and keep their order: nothing is copied.
        self._light: Any = np.flatnonzero(~in_core) if self.core.size else slice(None)
        self._rows: Any = self._light if self.core.size else None  # rows with bounds: None means all
        self._numbers = taken(numbers, self._light)
        nothing = Quadratic(0.0, np.zeros(len(self.center)), np.zeros((len(self.center),) * 2))
        light, left = survey.total if self.expand else nothing, survey.left
        if self.core.size and self.expand:
            light = light - self._expansion.total(self.center, numbers, self.core)
        if self.core.size and left is not None and survey.residuals_of is not None:
            left = left - survey.residuals_of(self.core).sum(axis=0)
        self.spread = survey.deviations if left is None else float(left.std(ddof=1))
        del numbers, survey
        self.surrogate = Surrogate(target, target.compile(), gradient_or_none(target), self.center, light, self.core)
        self.laplace: Laplace = self._normal_law(light + posterior.prior_at(self.center))
        self._tuned: dict[str, float] = {}  # log of the tuned step, by the kernel's name
        self._bound: CompiledDifferenceBound | None = None
        self._cost = (time.perf_counter() - began, self._expansion.passes)

    def _choose(self, survey: Survey) -> np.ndarray:
        """Return a mask of the core rows; if these are too many, warn and return all rows but one."""
        if self.expand:
            core = survey.walls | rows_that_vary(survey, LARGEST_SPREAD) | rows_that_pay(survey)
        else:
            core = survey.walls | rows_far_out(self._expansion.terms_at(self.pilot.draws))
        n_core, n_rows = int(core.sum()), len(core)
        if n_core > LARGEST_SHARE * n_rows:
            warn(
                f"CoreRows: {n_core} of {n_rows} rows can matter much (limit: {LARGEST_SHARE:.0%}), so every decision "
                f"reads all {n_rows} rows. This is exact, and no faster than the plain target with ExactTest; merge "
                "rare categories, drop columns that separate the classes, or give a narrower prior",
                SamplingWarning,
            )
            core[:] = True
            core[np.argmin(survey.spreads()) if survey.spreads else 0] = False  # a target needs at least one term
        return core

    def _normal_law(self, here: Quadratic) -> Laplace:
        """Return a normal approximation of S if the core is empty and rows are expanded; otherwise the pilot.

        `here` is the quadratic of the light rows and the prior at the centre. The pilot is returned, too, if this
        quadratic has no maximum.
        """
        if self.core.size or not self.expand or not is_positive_definite(-here.hessian):
            return self.pilot
        cov = inverse(-here.hessian)
        return Laplace(self.center + cov @ here.gradient, cov, 0.0, self.pilot.passes, self.pilot.seconds)

    def _compile(self, plain: CompiledTarget) -> CompiledTarget:
        data = rows_of(plain.data, plain.n_obs, self._light)
        if self.core.size:
            self._check_rows(plain, data)
        light = plain._replace(
            data=data, n_obs=self.n_obs, log_prior=self.surrogate.log_density, prior_rows=len(self.core)
        )
        if not self.expand:
            return light
        packed = light._replace(data=self._expansion.packed(data))
        return self._expansion.compile_residuals(packed, self.center, self._numbers)

    def _check_rows(self, plain: CompiledTarget, copy: tuple[np.ndarray, ...]) -> None:
        """Raise if terms depend on more than their own row."""
        try:
            check_rows_are_terms(plain, copy, self._light, self.center)
        except IncompatibleError as error:
            raise IncompatibleError(
                "CoreRows: each term must depend only on its own row of the arrays with n_obs rows, and some terms of "
                f"{self.target!r} depend on more; use the plain target"
            ) from error

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients of the surrogate S and of the light rows' terms."""
        plain = gradient_or_none(self.target)
        if plain is None:
            raise IncompatibleError(f"{self!r}: {self.target!r} has no gradient; give grad_loglik")
        light = plain._replace(data=rows_of(plain.data, plain.n_obs, self._light), n_obs=self.n_obs)
        if self.expand:
            light = self._expansion.compile_residual_gradients(light, self.center, self._numbers)
        return light._replace(add_prior_gradient=self.surrogate.add_gradient, prior_rows=len(self.core))

    def compile_surrogate(self, kernel: str) -> CompiledSurrogate:
        """Compile proposals from S with the kernel of this name, the pilot's metric, and a step that is tuned on S.

        The step is tuned at the first call for a kernel. If `laplace` approximates S, its mean and covariance are
        returned instead of a state, and nothing is tuned.
        """
        moves = kernel_named(kernel)
        if self.laplace is not self.pilot:
            law = self.laplace.mode, self.laplace.cov
            return CompiledSurrogate(moves.move, moves.move_both, lambda: None, law, self.laplace.cov)
        directions = self.surrogate.directions(self.pilot.cholesky, across_walls=moves.across_walls)
        if kernel not in self._tuned:
            state = self.surrogate.new_state(directions, moves.length, FIRST_STEP)
            run(np.random.default_rng(2), moves, state, self.pilot.draws[-1], TUNING_STEPS)
            self._tuned[kernel] = float(state.log_step[0])
        step = self._tuned[kernel]

        def make_state() -> SurrogateState:
            return self.surrogate.new_state(directions, moves.length, step)

        return CompiledSurrogate(moves.move, moves.move_both, make_state, None, self.pilot.cov)

    def compile_term_range(self) -> CompiledTermRange:
        """Compile a bound of the range of the light terms, for `BernsteinTest`; see `residual_range`."""
        linear = self.target if isinstance(self.target, LinearTarget) else None
        bound = None if linear is None else linear.third_derivative_bound
        if linear is None or bound is None or not self.expand:
            raise IncompatibleError(
                f"{self!r} does not bound its terms: that takes an expansion and a generalised linear model with a "
                "known third_derivative_bound; BernsteinTest needs range=<number> or range='observed' (no guarantee)"
            )
        return residual_range(linear, bound, self._numbers, self._rows, (self.center, self.pilot.cholesky))

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile the bounds of the light terms, one by one; see `approxmcmc.surrogate.difference_bounds`."""
        plain = self._linear_target()
        if not self.expand:
            whole = plain.compile_difference_bound()
            return whole._replace(rates=whole.rates[self._light])
        if self._bound is None:  # two passes, for all samplers of this object
            law = self.center, self.pilot.cholesky, self.pilot.draws
            self._bound = expansion_bound(plain, 2, self._numbers, self._rows, law, averaged=True)
        return self._bound

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Return cost and results of set-up for the trace, in addition to the target's attributes."""
        seconds, passes = self._cost
        return {
            **self.target.setup_attrs,
            "setup_pilot_seconds": self.pilot.seconds,
            "setup_pilot_passes": self.pilot.passes,
            "setup_expansion_seconds": seconds,
            "setup_expansion_passes": passes,
            "setup_core_rows": len(self.core),
            "setup_light_spread": self.spread if self.expand else float("nan"),
        }

    def content_hash(self) -> str:
        """Return a hash of model, data, centre and core."""
        return content_hash("CoreRows", self.target.content_hash(), self.expand, self.center, self.core)

    def __repr__(self) -> str:
        """Name the target and the size of the core."""
        plain = "" if self.expand else ", expand=False"
        return f"CoreRows({self.target!r}, core={len(self.core)} rows{plain})"
