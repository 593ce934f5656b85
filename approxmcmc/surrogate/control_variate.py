"""Control variates: the same posterior, with a quadratic in place of most of each term; influential rows stay whole.

    log p(theta | x) = S(theta) + sum_{i light} r_i(theta),    r_i(theta) = log p(x_i | theta) - w_i(theta),
    S(theta) = log p(theta) + sum_{i light} w_i(theta) + sum_{i always read} log p(x_i | theta),

with w_i a quadratic close to the term of row i near the mode. S replaces the prior, and the r_i are the new terms. The
sum of the w_i is one quadratic function, which costs d^2 multiplications and reads no data. The r_i are of the order of
|theta - theta_hat|^3, so a test that reads a sample of terms needs few of them where it needed thousands of the old
terms. The linear part of each w_i is kept, so the posterior is the same at any theta_hat, mode or not.

A few rows of a rare category may not be close to any quadratic. A sample of rows misses them, so these influential rows
are always read: S contains their terms unchanged. With w_i = 0 this is stratified sampling.
"""

import copy
import functools
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import (
    BoundedDifferencesTarget,
    BoundedTermsTarget,
    CompiledDifferenceBound,
    CompiledGradient,
    CompiledSurrogate,
    CompiledTarget,
    CompiledTermRange,
    DifferentiableTarget,
    SurrogateTarget,
    Target,
    TwinnedTarget,
    content_hash,
    pymc_model_of,
)
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.checks import mode_of
from approxmcmc.engine.files.grown_arrays import followed_by, without_rows
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.row_classes import known_classes, row_classes, with_more_rows
from approxmcmc.engine.terms.shuffled import check_rows_are_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning, warn
from approxmcmc.expansion.bounds import (
    BoundOfRows,
    bound_of_rows,
    changes_between,
    range_in_space,
    range_of_differences,
    rates_of_rows,
    reach_of,
    residual_range,
)
from approxmcmc.expansion.influential_rows import (
    LARGEST_SHARE,
    LARGEST_SPREAD,
    rows_far_out,
    rows_named,
    rows_that_pay,
    rows_that_vary,
)
from approxmcmc.expansion.posterior import Posterior, expansion_of
from approxmcmc.expansion.quadratic import Quadratic, Survey, empty_rows, inverse, is_positive_definite
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.mode import Mode, laplace
from approxmcmc.surrogate.blocks import RowsOfBlock, SumsOfBlocks, left_of_light, spread_of, total as sum_of
from approxmcmc.surrogate.kernels import kernel_named, run
from approxmcmc.surrogate.moves import SurrogateState
from approxmcmc.surrogate.pilot import FIRST_STEP, TUNING_STEPS, ExpandedRows, Pilot, PilotRun, normal_pilot, run_pilot
from approxmcmc.surrogate.surrogate import Surrogate, gradient_or_none, rows_of, taken
from approxmcmc.targets.blocks import Blocks, Grows
from approxmcmc.targets.regression import Regression, bounded, has_one_predictor, with_bounded_residuals
from approxmcmc.targets.stands_for_rows import StandsForRows

PLACES = ("mode", "pilot")
PAIRS = 16  # pairs of states at which variances of terms are compared
PAIR_ROWS = 512  # largest number of rows of which they are compared


class StateOfControlVariate(NamedTuple):
    """What a `ControlVariate` knows besides its plain target: values for JSON, arrays, and arrays with light rows."""

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]
    by_row: dict[str, np.ndarray]


class ControlVariate(
    Target, DifferentiableTarget, BoundedTermsTarget, BoundedDifferencesTarget, TwinnedTarget, SurrogateTarget
):
    """The same posterior, with the residuals of an expansion as terms, and influential rows read in every decision.

    Parameters
    ----------
    target
        A target with continuous parameters. Generalised linear models are expanded in closed form, 2 numbers per datum;
        so are likelihoods of K linear predictors (`PredictorTarget`, softmax regression), 1 + 2 K + K (K + 1) / 2;
        others by their gradient or by differences, 1 + d + d (d + 1) / 2.
    at
        Where to expand: ``"mode"``, which is computed; ``"pilot"``, the mean of a short chain on few rows (the mode if
        the chain is not needed), which is more central if the posterior is skewed; an array of shape (dim,) or a
        `Mode`, unless `always_read` is given; or a `Laplace` approximation, such as the attribute `pilot` of another
        `ControlVariate` of this target. None: ``"mode"``, or ``"pilot"`` if `always_read` is given.
    always_read
        Rows that every decision reads: None, no row; ``"auto"`` finds the influential rows, see Notes; or the indices
        of the rows, integers; or booleans, one for each row of `target`.
    order
        2; 1 for the gradient only: less memory, and terms of the order of ``|theta - theta_hat|^2``, without
        `always_read`; or 0, with `always_read` only: the terms of the other rows are unchanged. That is stratified
        sampling, all influential rows and a sample of the others.
    averaged
        Average slope and curvature over the posterior's normal approximation, instead of using Taylor's coefficients.
        This gives the best quadratic in mean square. For generalised linear models of order 2, expanded at a place with
        a width (not at an array or a `Mode`). Terms vary two to five times less. Rows with a predictor that varies much
        keep Taylor's coefficients. None: where it is possible if `always_read` is given, else False.
    memory_limit
        Bytes that the numbers per datum may take.

    Attributes
    ----------
    always_read
        Indices of the rows that are always read, in the data of `target`; int64, shape (n_rows,).
    n_obs
        Number of the other rows, the light ones: the terms that a test may sample.
    center
        theta_hat; shape (dim,).
    laplace
        The normal distribution for proposals and starts. If no row is always read, N(theta_hat + H^-1 g, H^-1), given
        by the expansion of the log posterior, which has the gradient g and the Hessian -H at theta_hat. If rows are
        always read, or with ``order=0``, the pilot's normal distribution. If the expansion has no maximum, the pilot's
        with `always_read`, otherwise None.
    pilot
        Mean and covariance of the pilot or of the Laplace approximation at which terms were expanded, with some draws;
        None if `at` is only a point.
    surrogate
        S, compiled.
    distance_to_mode
        Length of the gradient of the expansion at theta_hat in posterior standard deviations, which is about the
        distance to the mode; meaningless at a pilot's mean; infinity without a maximum; NaN if rows are always read.
    spread
        Standard deviation over the pilot's draws of the sum of the light residuals, or an upper bound of it; NaN unless
        these draws were used, for `always_read` or `averaged`.
    reads_when_placed
        About how many light rows a decision had to read when the centre was placed, as `update` has found; else None.

    Raises
    ------
    IncompatibleError
        For a discrete target; for a `ControlVariate`; if ``averaged=True`` comes with another target than a generalised
        linear model, or another order than 2; or if `always_read` comes with ``order=1``.
    InvalidInputError
        When there is no mode, the numbers need more memory than allowed, `at` or `always_read` cannot be used, or
        ``order=0`` comes without `always_read`.
    NotFiniteError
        When a term has no finite value and derivatives at theta_hat.

    Warns
    -----
    SamplingWarning
        When ``always_read="auto"`` finds more than a third of the rows. Then all rows but one are always read: exact,
        but no faster than the plain target.

    Notes
    -----
    Guarantee: the posterior is that of `target`, exactly, at any theta_hat and for any `always_read`. The error of the
    decisions depends on the test: with :class:`ExactTest` the chain is exact; with a sequential test the light rows
    decide how large it is. How many terms a test reads depends on theta_hat: far from the mode there is no gain, and a
    run warns. At the mode the number of terms that a sequential test reads at a tuned step does not grow with N: about
    500 for 50 parameters.

    With ``always_read="auto"`` the influential rows are the union of three sets. *Variance*: the fewest rows without
    which the light residuals together have a standard deviation of at most 0.3 over draws of the pilot. *Walls*, in a
    generalised linear model (for other targets see the page on influential rows): rows of which the linear predictor
    has a posterior variance above 1/2, in squared units of its scale, and the quadratic is off by more than 1/8 nat at
    50 standard deviations on either side (at 6 if these are more than a twelfth of all rows). Ranking by residuals
    alone would miss rows that forbid a half-space, because their residual is zero at every draw. *Cost*: rows that cost
    less if every step reads them than if a test samples them. With ``order=0`` they are the walls and the rows with
    outlying terms. Data without heavy rows have no influential rows.

    Averaged coefficients are averages over the normal distribution of the pilot's draws (Price 1958), or Taylor's if
    these at least halve the variance of the residuals over the draws. Each evaluation of S reads the influential rows:
    `datapoints_touched` and `likelihood_evaluations` count these reads. The trace records the cost of set-up:
    ``setup_mode_seconds`` and ``setup_mode_passes``, or ``setup_pilot_...`` with a pilot, and
    ``setup_expansion_seconds`` and ``setup_expansion_passes``. Memory: the numbers per datum are stored in addition;
    data are copied only if rows are always read, without these rows.

    References
    ----------
    Bardenet, Doucet and Holmes (2017), section 7; Quiroz, Kohn, Villani and Tran (2019); Price (1958).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> target = amc.ControlVariate(amc.LogisticRegression(X, rng.random(5000) < 1 / (1 + np.exp(X[:, 0]))))
    >>> proposal = amc.proposals.PreconditionedCrankNicolson(0.0, target.laplace)
    >>> sampler = amc.MetropolisHastings(proposal, amc.SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0))
    >>> trace = amc.sample(target, sampler, draws=200, tune=100, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["datapoints_touched"].mean() < 1000)
    True

    Three rows of a rare category, all with the response 1, are influential:

    >>> rare = np.arange(5000) < 3
    >>> X = np.column_stack([X, rare / rare.std()])
    >>> y = (rng.random(5000) < 1 / (1 + np.exp(-X[:, 0]))) | rare
    >>> target = amc.ControlVariate(amc.LogisticRegression(X, y), always_read="auto")
    >>> bool(set(target.always_read) >= {0, 1, 2}), len(target.always_read) < 50
    (True, True)
    """

    terms_are_likelihood = False  # terms are residuals: a temperature would divide these and not the expansion

    @naming_the_arguments
    def __init__(
        self,
        target: Target,
        at: Any = None,
        *,
        always_read: Any = None,
        order: int = 2,
        averaged: bool | None = None,
        memory_limit: float = 4e9,
    ) -> None:
        if isinstance(target, ControlVariate):
            raise IncompatibleError("ControlVariate: the target is a ControlVariate already; give it the plain target")
        self.target = target
        self.variables = target.variables
        self.n_rows = target.n_rows or target.n_obs
        self.distance_to_model = target.distance_to_model
        self.order = order
        self._names_rows = always_read is not None
        self._finds_rows = isinstance(always_read, str)
        self._memory_limit = memory_limit
        self._check_order()
        self.averaged = self._averages(averaged)
        self._content = target.content_hash()  # `compile` raises if it is another by then

        expanded = self._place(at, memory_limit)
        began = time.perf_counter()
        posterior = Posterior(target, order=1 if order == 1 else 2)
        self._expansion = posterior.expansion
        survey: Survey | None
        if expanded is not None and self._names_rows and averaged is None:
            numbers, survey = expanded
            total = survey.total
        else:
            columns = self._expansion.columns
            numbers = empty_rows(target.n_obs, columns, memory_limit, mapped=self._expansion.mapped)
            survey, total = self._expand(numbers)

        is_read = self._rows_to_read(always_read, survey)
        self.always_read = np.flatnonzero(is_read)
        self.n_obs = target.n_obs - len(self.always_read)
        # Indices of the light rows; None if these are all rows, which then keep their order and are not copied.
        self._light = np.flatnonzero(~is_read) if self.always_read.size else None
        names = tuple(target.blocks.names) if isinstance(target, Grows) and target.terms_are_rows else ()
        light = self._light_sum(total, numbers)
        of_curvature = expansion_of(target, 2) if order == 1 else None
        curvature = None if of_curvature is None else of_curvature.at(self.center)
        self._prior_at_center = posterior.prior_at(self.center)
        of_all = SumsOfBlocks(names, light, curvature, *self._left(survey, is_read))
        self._sums: tuple[SumsOfBlocks, ...] = (of_all,)
        self._numbers = numbers if self._light is None else taken(numbers, self._light)
        self._light_rows: tuple[np.ndarray, ...] | None = None
        self._bound: CompiledDifferenceBound | None = None
        self._bound_of_rows: BoundOfRows | None = None
        self.reads_when_placed: float | None = None
        self._settle()
        passes = self._expansion.passes + (0 if of_curvature is None else of_curvature.passes)
        self._expansion_cost = (time.perf_counter() - began, passes)

    def _settle(self) -> None:
        """Set what follows from the sums of the blocks: S, the normal approximation, and the spread."""
        light = sum_of([part.light for part in self._sums])
        self.spread = spread_of(self._sums)
        self.surrogate = Surrogate(self.target, self.center, light, self.always_read)
        terms = light if self.order != 1 else sum_of([part.curvature for part in self._sums if part.curvature])
        self.laplace, self.distance_to_mode = self._approximate(terms + self._prior_at_center)
        self._tuned: dict[str, float] = {}  # log of the tuned step, by the kernel's name
        self._compiled: CompiledTarget | None = None
        vars(self).pop("variance_ratio", None)

    # --- set-up ---

    def _check_order(self) -> None:
        """Raise unless the order is 0, 1 or 2, and fits to the rows that are always read."""
        if self.order not in (0, 1, 2):
            raise InvalidInputError(f"ControlVariate: order must be 0, 1 or 2, found {self.order!r}")
        if self.order == 0 and not self._names_rows:
            raise InvalidInputError(
                "ControlVariate: order=0 leaves the terms unchanged, so it needs rows that are always read; give "
                'always_read="auto", or order=2'
            )
        if self.order == 1 and self._names_rows:
            raise IncompatibleError(
                "ControlVariate: rows are light if a quadratic replaces them, so always_read needs order=2, or order=0 "
                "for stratified sampling; found order=1"
            )

    def _averages(self, averaged: bool | None) -> bool:
        """Return whether coefficients are averages; raise if that is wanted but not possible."""
        is_possible = self.order == 2 and has_one_predictor(self.target)
        if averaged and not is_possible:
            raise IncompatibleError(
                "ControlVariate: averaged coefficients take order=2 and a generalised linear model; found "
                f"order={self.order} and {self.target!r}; leave averaged out"
            )
        return (is_possible and self._names_rows) if averaged is None else bool(averaged)

    def _place(self, at: Any, memory_limit: float) -> ExpandedRows | None:
        """Set `center`, `pilot`, `at_pilot` and the cost of finding them; return rows that a pilot has expanded."""
        if at is None:
            at = "pilot" if self._names_rows else "mode"
        if isinstance(at, str) and at not in PLACES:
            raise InvalidInputError(
                f'ControlVariate: at must be "mode", "pilot", an array or a Laplace object, found {at!r}'
            )
        if isinstance(at, str):
            at = laplace(self.target) if at == "mode" else run_pilot(self.target, memory_limit)
        expanded = None
        if isinstance(at, PilotRun):
            expanded = at.expanded
            at = at.pilot
        self.center = mode_of(at)
        if self.center.shape != (self.variables.size,):
            raise InvalidInputError(
                f"ControlVariate: at must have shape ({self.variables.size},), found {self.center.shape}"
            )
        if not isinstance(at, Laplace) and (self._names_rows or self.averaged):
            raise InvalidInputError(
                "ControlVariate: averaged coefficients and always_read need the width of the posterior, which a point "
                'does not show; give at="pilot", at="mode" or a Laplace approximation'
            )
        self.at_pilot = isinstance(at, Pilot)
        self.pilot: Pilot | None = None
        if isinstance(at, Laplace):
            self.pilot = at if isinstance(at, Pilot) and len(at.draws) else normal_pilot(at)
        self._place_cost = (at.seconds, at.passes) if isinstance(at, (Laplace, Mode)) else (0.0, 0)
        return expanded

    def _expand(self, numbers: np.ndarray) -> tuple[Survey | None, Quadratic]:
        """Write each row's coefficients; return the survey, if rows or averages need one, and the sum of quadratics."""
        if not (self._names_rows or self.averaged):
            return None, self._expansion.expand(self.center, numbers)
        assert self.pilot is not None
        survey = self._expansion.survey(
            self.center, self.pilot.cholesky, self.pilot.draws, numbers, averaged=self.averaged
        )
        return survey, survey.total

    def _rows_to_read(self, always_read: Any, survey: Survey | None) -> np.ndarray:
        """Return which rows are always read; booleans (rows,)."""
        if always_read is None:
            return np.zeros(self.target.n_obs, dtype=bool)
        if isinstance(always_read, str) and always_read == "auto":
            assert survey is not None
            return self._influential(survey)
        return rows_named(always_read, self.target.n_obs)

    def _influential(self, survey: Survey) -> np.ndarray:
        """Return which rows are influential; if these are too many, warn and return all rows but one."""
        if self.order == 2:
            is_read = survey.walls | rows_that_vary(survey, LARGEST_SPREAD) | rows_that_pay(survey)
        else:
            assert self.pilot is not None
            is_read = survey.walls | rows_far_out(self._expansion.terms_at(self.pilot.draws))
        n_read = int(is_read.sum())
        n_rows = len(is_read)
        if n_read > LARGEST_SHARE * n_rows:
            warn(
                f"ControlVariate: {n_read} of {n_rows} rows are influential (limit: {LARGEST_SHARE:.0%}), so every "
                f"decision reads all {n_rows} rows. This is exact, and no faster than the plain target with ExactTest; "
                "merge rare categories, drop columns that separate the classes, or give a narrower prior",
                SamplingWarning,
            )
            is_read[:] = True
            is_read[np.argmin(survey.spreads()) if survey.spreads else 0] = False  # a target needs at least one term
        return is_read

    def _light_sum(self, total: Quadratic, numbers: np.ndarray) -> Quadratic:
        """Return the sum of the quadratics of the light rows; `total` is the sum over all rows."""
        dim = len(self.center)
        if self.order == 0:
            return Quadratic(0.0, np.zeros(dim), np.zeros((dim, dim)))
        if not self.always_read.size:
            return total
        return total - self._expansion.total(self.center, numbers, self.always_read)

    def _left(self, survey: Survey | None, is_read: np.ndarray) -> tuple[np.ndarray | None, float]:
        """Return the light residuals at the pilot's draws, (draws,), or None, and the sum of their deviations."""
        if survey is None or self.order == 0:
            return None, float("nan")
        return left_of_light(survey, is_read), survey.deviations

    # --- blocks of rows that come and go ---

    @property
    def blocks(self) -> Blocks:
        """Blocks of rows, those of the plain target."""
        return self._growing().blocks

    def _growing(self) -> Any:
        """Return the plain target, whose rows come in blocks; raise if it is of another kind."""
        if not isinstance(self.target, Grows):
            raise IncompatibleError(
                f"{self!r}: rows can be appended to a ControlVariate of a regression, whose terms are its rows; found "
                f"{self.target!r}. Append the rows to that target, if it can, and make a new ControlVariate"
            )
        return self.target

    def append(self, *rows: Any, block: str | None = None, **columns: Any) -> "ControlVariate":
        """Return the control variates of all rows, old and new, at the same centre.

        Only the new rows are expanded. Shared with this object: the centre, the pilot, sums of values, gradients and
        Hessians at the centre, the coefficients and bounds of old rows, their classes for exact subsampling, and the
        rows that are always read. The posterior is that of all rows, exactly; `laplace` follows from the new sums.
        `update` says whether the centre still serves.

        Parameters
        ----------
        *rows, block, **columns
            As for the method `append` of the plain target.

        Notes
        -----
        With ``always_read="auto"`` new rows are always read if they are walls, or if their residuals vary so much that
        the limit of the spread would be exceeded; rows that were named by their indices stay the only ones. If rows are
        always read, the light rows are copied at the first time. If equal rows are merged (`DistinctRows`), or
        sufficient statistics replace the rows, all terms are expanded again at the same centre: there are few of them.

        Examples
        --------
        >>> import numpy as np, approxmcmc as amc
        >>> X, y = amc.datasets.synthetic_logistic(1000, 2)
        >>> split = amc.ControlVariate(amc.LogisticRegression(X[:900], y[:900]))
        >>> grown = split.append(X[900:], y[900:], block="Tuesday")
        >>> grown.n_obs, bool((grown.center == split.center).all())
        (1000, True)
        """
        return self.joined(self._growing().rows_to_append(*rows, **columns), block)

    def joined(self, more: Any, block: str | None = None) -> "ControlVariate":
        """Return the control variates of the rows of this target and those of `more`, from `rows_to_append`."""
        old = self._growing()
        target = old.joined(more, block)
        if not target.terms_are_rows:
            return self._expanded_again(target)
        began = time.perf_counter()
        added = self._expand_block(more, target.blocks[-1].name, target.n_obs)
        grown = copy.copy(self)
        light = np.flatnonzero(~added.is_read)
        if added.is_read.any() or self._light is not None:
            before = np.arange(old.n_obs) if self._light is None else self._light
            grown._light = followed_by(before, old.n_obs + light)
            new_rows = rows_of(more.data, more.n_obs, light)
            grown._light_rows = tuple(
                followed_by(stored, new) if whole.shape[:1] == (more.n_obs,) else stored
                for stored, new, whole in zip(self._rows_of_light(), new_rows, more.data, strict=True)
            )
        grown.always_read = np.concatenate([self.always_read, old.n_obs + np.flatnonzero(added.is_read)])
        grown._numbers = followed_by(self._numbers, added.numbers[light])
        grown._sums = (*self._sums, added.sums)
        grown._take_target(target)
        grown._bound = self._bound_with(more, added.numbers[light], light, grown)
        grown._expansion_cost = (time.perf_counter() - began, 0)  # no pass over all rows
        return grown

    def _take_target(self, target: Any) -> None:
        """Make a copy of this object that of a plain target with other rows, at the same centre."""
        self.target = target
        self.n_rows = target.n_obs
        self.n_obs = target.n_obs - len(self.always_read)
        self._content = target.content_hash()
        self._expansion = expansion_of(target, 1 if self.order == 1 else 2)
        self._settle()

    def _expanded_again(self, target: Any) -> "ControlVariate":
        """Return control variates of another plain target at the same place, with all terms expanded."""
        at = self.center if self.pilot is None or not (self._names_rows or self.averaged) else self.pilot
        return ControlVariate(
            target,
            at=at,
            always_read="auto" if self._names_rows else None,
            order=self.order,
            averaged=self.averaged,
            memory_limit=self._memory_limit,
        )

    def _rows_of_light(self) -> tuple[np.ndarray, ...]:
        """Return the arrays of the light rows; they are copied once if some rows are always read."""
        plain = self.target.compile()
        return self._light_data(plain) if self._light_rows is None else self._light_rows

    def _expand_block(self, more: Regression, name: str, n_total: int) -> RowsOfBlock:
        """Expand the rows of a new block at the centre: one pass over them."""
        expansion = expansion_of(more, 1 if self.order == 1 else 2)
        needed = 8.0 * n_total * expansion.columns
        if needed > self._memory_limit and not is_mapped(self._numbers):
            raise InvalidInputError(
                f"{self!r}: the numbers per datum of {n_total} rows take {needed / 1e9:.3g} GB, over memory_limit = "
                f"{self._memory_limit / 1e9:.3g} GB"
            )
        numbers = np.empty((more.n_obs, expansion.columns))
        survey: Survey | None = None
        if self._names_rows or self.averaged:
            assert self.pilot is not None
            # If the bounds of old rows have no room for averaged coefficients, those of new ones are Taylor's, too.
            averaged = self.averaged and (self._bound_of_rows is None or self._bound_of_rows.is_averaged)
            pilot = self.center, self.pilot.cholesky, self.pilot.draws
            survey = expansion.survey(*pilot, numbers, averaged=averaged)
            whole = survey.total
        else:
            whole = expansion.expand(self.center, numbers)
        is_read = self._influential_in_block(survey, expansion, more.n_obs / n_total)
        light = whole
        if self.order == 0:
            light = self._sums[0].light
        elif is_read.any():
            light = whole - expansion.total(self.center, numbers, np.flatnonzero(is_read))
        curvature = expansion_of(more, 2).at(self.center) if self.order == 1 else None
        sums = SumsOfBlocks((name,), light, curvature, *self._left(survey, is_read))
        return RowsOfBlock(sums, numbers, is_read)

    def _influential_in_block(self, survey: Survey | None, expansion: Any, share: float) -> np.ndarray:
        """Return which rows of a new block are always read, booleans; the block has this share of all rows."""
        if survey is None or not self._finds_rows:
            return np.zeros(expansion.n_rows, dtype=bool)
        if self.order == 0:
            assert self.pilot is not None
            return survey.walls | rows_far_out(expansion.terms_at(self.pilot.draws))
        return survey.walls | rows_that_vary(survey, LARGEST_SPREAD * np.sqrt(share))

    def _bound_with(
        self, more: Regression, numbers: np.ndarray, light: np.ndarray, grown: "ControlVariate"
    ) -> CompiledDifferenceBound | None:
        """Return the bounds of old and new light rows, if those of the old ones are known."""
        bound = self._bound
        where = self._bound_of_rows
        if bound is None or where is None or not light.size:
            return bound
        averaged = self.averaged and where.is_averaged
        rows = None if light.size == more.n_obs else light
        places = [where.farthest]
        units = where.units
        [rates], _ = rates_of_rows(more, self.order, numbers, rows, self.center, units, places, averaged=averaged)
        return bound._replace(
            rates=followed_by(bound.rates, rates),
            classes=with_more_rows(bound.classes, rates),
            reaches=changes_between(grown._pilot_for("how far bounds must hold")[2], bound.reach, bound.numbers),
        )

    @names_itself("remove from {}")
    def remove(self, block: str) -> "ControlVariate":
        """Return the control variates without the rows of a block, at the same centre.

        The sums of the block are dropped, not subtracted. If the block was there when the centre was placed, the sums
        of the blocks that came with it are computed again from their coefficients: one pass over these rows.
        """
        old = self._growing()
        blocks = old.blocks
        k = blocks.place(block)
        lo, hi = map(int, blocks.ends[k : k + 2])
        target = old.remove(block)
        if not target.terms_are_rows:
            return self._expanded_again(target)
        rest = copy.copy(self)
        first, last = (lo, hi) if self._light is None else np.searchsorted(self._light, [lo, hi])
        if first == 0 and last == self.n_obs:
            raise InvalidInputError(f"{self!r}: all light rows are in block {block!r}, and a target needs one at least")
        n_gone = hi - lo
        if self._light is not None:
            kept = without_rows(self._light, first, last)
            rest._light = np.where(kept < lo, kept, kept - n_gone)
            rest._light_rows = tuple(
                without_rows(rows, first, last) if rows.shape[:1] == (self.n_obs,) else rows
                for rows in self._rows_of_light()
            )
        read = self.always_read[(self.always_read < lo) | (self.always_read >= hi)]
        rest.always_read = np.where(read < lo, read, read - n_gone)
        rest._numbers = without_rows(self._numbers, first, last)
        rest._sums = self._sums_without(block, lo, hi)
        rest._take_target(target)
        if self._bound is not None:
            rates = without_rows(self._bound.rates, first, last)
            rest._bound = self._bound._replace(rates=rates, classes=row_classes(rates))
        rest._expansion_cost = (0.0, 0)
        return rest

    def _sums_without(self, block: str, lo: int, hi: int) -> tuple[SumsOfBlocks, ...]:
        """Return the sums of all other blocks; those of blocks with a common sum are computed again."""
        [index] = [k for k, part in enumerate(self._sums) if block in part.names]
        part = self._sums[index]
        others = (*self._sums[:index], *self._sums[index + 1 :])
        names = tuple(name for name in part.names if name != block)
        if not names:
            return others
        blocks = self.blocks
        ends = dict(zip(blocks.names, zip(blocks.ends[:-1], blocks.ends[1:], strict=True), strict=True))
        rows = np.concatenate([np.arange(*ends[name]) for name in names])
        rows = np.setdiff1d(rows, self.always_read)
        where = rows if self._light is None else np.searchsorted(self._light, rows)
        removed = self._growing().some_rows(rows)
        light = part.light
        if self.order > 0:
            order = np.arange(len(rows))
            light = expansion_of(removed, self.order).total(self.center, self._numbers[where], order)
        curvature = expansion_of(removed, 2).at(self.center) if self.order == 1 else None
        remaining = SumsOfBlocks(names, light, curvature, None, float("nan"))  # the spread is then unknown
        return (*self._sums[:index], remaining, *self._sums[index + 1 :])

    def _approximate(self, quadratic: Quadratic) -> tuple[Laplace | None, float]:
        """Return the attributes `laplace` and `distance_to_mode`; `quadratic`: the log posterior at the centre."""
        if self.always_read.size or self.order == 0:
            return self.pilot, float("nan")
        if not is_positive_definite(-quadratic.hessian):
            return (self.pilot if self._names_rows else None), float("inf")
        cov = inverse(-quadratic.hessian)
        step = cov @ quadratic.gradient
        distance = float(np.sqrt(max(quadratic.gradient @ step, 0.0)))
        seconds, passes = self._place_cost
        return Laplace(self.center + step, cov, distance, passes, seconds), distance

    @functools.cached_property
    def variance_ratio(self) -> float:
        """Var r / var l over light rows, above 0.5 of which control variates increase the cost.

        l_i and r_i are the differences of the old and the new terms between two draws for starts; the median of 16
        pairs on at most 512 rows. NaN if `laplace` is None.
        """
        if self.laplace is None:
            return float("nan")
        rng = np.random.default_rng(0)  # equal targets show equal numbers
        rows = np.sort(rng.choice(self.n_obs, min(self.n_obs, PAIR_ROWS), replace=False))
        ours = self.compile()
        plain = self.target.compile()
        ratios = []
        for _ in range(PAIRS):
            ends = [self.draw_start(rng) for _ in range(2)]
            variances = []
            for compiled, places in ((ours, rows), (plain, rows if self._light is None else self._light[rows])):
                terms = np.empty((2, rows.size))
                for theta, out in zip(ends, terms, strict=True):
                    compiled.log_terms(theta, compiled.data, places, 0, rows.size, out)
                variances.append(np.var(terms[1] - terms[0]))
            ratios.append(variances[0] / variances[1] if variances[1] > 0.0 else 0.0)
        return float(np.median(ratios))

    # --- kept between processes ---

    def state(self) -> "StateOfControlVariate":
        """Return all that is known besides the plain target, for `approxmcmc.save`."""
        bound = self._bound
        arrays: dict[str, np.ndarray] = {"center": self.center, "always_read": self.always_read}
        if self.pilot is not None:
            arrays |= {"pilot_mode": self.pilot.mode, "pilot_cov": self.pilot.cov, "pilot_draws": self.pilot.draws}
        by_row = {"numbers": self._numbers}
        if self._light is not None:
            by_row["light"] = self._light
        if bound is not None and self._bound_of_rows is not None:
            by_row |= {"rates": bound.rates, "rows_by_class": bound.classes.rows}
            arrays |= {"units": self._bound_of_rows.units, "reaches": bound.reaches}
            arrays |= {"class_bounds": bound.classes.bounds, "class_starts": bound.classes.starts}
        for k, part in enumerate(self._sums):
            for name, quadratic in (("light", part.light), ("curvature", part.curvature)):
                if quadratic is not None:
                    arrays[f"{name}_{k}"] = np.concatenate(
                        [[quadratic.value], quadratic.gradient, quadratic.hessian.ravel()]
                    )
            if part.left is not None:
                arrays[f"left_{k}"] = part.left
        pilot = self.pilot
        numbers = {
            "order": self.order,
            "averaged": self.averaged,
            "names_rows": self._names_rows,
            "finds_rows": self._finds_rows,
            "at_pilot": self.at_pilot,
            "memory_limit": self._memory_limit,
            "place_cost": list(self._place_cost),
            "expansion_cost": list(self._expansion_cost),
            "pilot": None if pilot is None else [pilot.decrement, pilot.passes, pilot.seconds],
            "blocks": [[list(part.names), part.deviations] for part in self._sums],
            "bound": None if self._bound_of_rows is None else list(self._bound_of_rows[1:]),
            "reads_when_placed": self.reads_when_placed,
        }
        return StateOfControlVariate(numbers, arrays, by_row)

    @classmethod
    def of_state(cls, target: Any, state: "StateOfControlVariate") -> "ControlVariate":
        """Return the control variates of a plain target, from their stored state; no row is read."""
        numbers, arrays, by_row = state
        restored = cls.__new__(cls)
        restored.target = target
        restored.variables = target.variables
        restored.distance_to_model = target.distance_to_model
        restored.order = numbers["order"]
        restored.averaged = numbers["averaged"]
        restored._names_rows = numbers["names_rows"]
        restored._finds_rows = numbers["finds_rows"]
        restored._memory_limit = numbers["memory_limit"]
        restored._place_cost = tuple(numbers["place_cost"])
        restored.reads_when_placed = numbers["reads_when_placed"]
        restored.center = arrays["center"]
        restored.always_read = arrays["always_read"]
        restored.at_pilot = numbers["at_pilot"]
        restored.pilot = None
        if numbers["pilot"] is not None:
            draws = arrays["pilot_draws"]
            restored.pilot = Pilot(arrays["pilot_mode"], arrays["pilot_cov"], *numbers["pilot"], draws=draws)
        restored._light = by_row.get("light")
        restored._light_rows = None
        restored._numbers = by_row["numbers"]
        dim = len(restored.center)

        def quadratic(name: str) -> Quadratic:
            values = arrays[name]
            return Quadratic(float(values[0]), values[1 : 1 + dim], values[1 + dim :].reshape(dim, dim))

        restored._sums = tuple(
            SumsOfBlocks(
                tuple(names),
                quadratic(f"light_{k}"),
                quadratic(f"curvature_{k}") if restored.order == 1 else None,
                arrays.get(f"left_{k}"),
                deviations,
            )
            for k, (names, deviations) in enumerate(numbers["blocks"])
        )
        restored._prior_at_center = Posterior(target, 1 if restored.order == 1 else 2).prior_at(restored.center)
        restored._bound = None
        restored._bound_of_rows = None
        restored._take_target(target)
        restored._expansion_cost = tuple(numbers["expansion_cost"])
        if numbers["bound"] is not None and "rates" in by_row:
            farthest, is_averaged = numbers["bound"]
            restored._bound_of_rows = BoundOfRows(arrays["units"], farthest, is_averaged)
            kernel, constants = reach_of(target, restored.order, restored.center, restored._bound_of_rows)
            classes = known_classes(arrays["class_bounds"], arrays["class_starts"], by_row["rows_by_class"])
            restored._bound = CompiledDifferenceBound(kernel, constants, by_row["rates"], arrays["reaches"], classes)
        return restored

    # --- the role of a target ---

    @property
    def plain(self) -> Target:
        """The target whose terms were expanded."""
        return self.target

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data of the plain target."""
        return self.target.observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The plain target's constants, and mode and covariance of the normal approximation."""
        fit = {} if self.laplace is None else {"laplace_mode": self.laplace.mode, "laplace_cov": self.laplace.cov}
        return {**self.target.constant_data, **fit}

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Return cost and results of set-up for the trace, in addition to the target's attributes."""
        start = "pilot" if self.at_pilot else "mode"
        seconds_of_place, passes_of_place = self._place_cost
        seconds, passes = self._expansion_cost
        attrs: dict[str, Any] = {
            **self.target.setup_attrs,
            f"setup_{start}_seconds": seconds_of_place,
            f"setup_{start}_passes": passes_of_place,
            "setup_expansion_seconds": seconds,
            "setup_expansion_passes": passes,
        }
        if self._names_rows:
            attrs |= {"setup_influential_rows": len(self.always_read), "setup_light_spread": self.spread}
            return attrs
        if len(self._sums) > 1:  # rows came since the centre was placed, and `update` decides whether it still serves
            attrs["setup_distance_from_mode"] = self.distance_to_mode
        elif not self.at_pilot:
            attrs["setup_distance_to_mode"] = self.distance_to_mode
        attrs["setup_variance_ratio"] = self.variance_ratio
        return attrs

    def initial_point(self) -> np.ndarray:
        """Return the mode of the normal approximation, or the centre without one; shape (dim,)."""
        return self.center.copy() if self.laplace is None else self.laplace.mode.copy()

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of the normal approximation, or U(-1, 1) around the centre without one; shape (dim,)."""
        if self.laplace is None:
            return self.center + rng.uniform(-1.0, 1.0, size=self.center.size)
        return self.laplace.draw(rng)

    def to_pymc(self) -> Any:
        """Return the plain target's PyMC twin."""
        return pymc_model_of(self.target)

    def content_hash(self) -> str:
        """Return a hash of plain target, theta_hat, kind of the expansion, and rows that are always read."""
        kind = ("averaged",) if self.averaged else ()
        rows = (self.always_read,) if self.always_read.size else ()
        return content_hash("ControlVariate", self.target.content_hash(), self.order, self.center, *kind, *rows)

    def compile(self) -> CompiledTarget:
        """Compile the light terms and S, the density that replaces the prior; once for this object.

        Raises
        ------
        InvalidInputError
            When data or functions of the plain target have changed since the expansion was made.
        """
        if self.target.content_hash() != self._content:
            raise InvalidInputError(
                f"{self!r}: the data of {self.target!r}, or numbers that its functions read, were changed after the "
                "expansion was made; make a new target and a new ControlVariate"
            )
        if self._compiled is None:
            self._compiled = self._compile(self.target.compile())
        return self._compiled

    def _compile(self, plain: CompiledTarget) -> CompiledTarget:
        light = plain._replace(
            data=self._light_data(plain),
            n_obs=self.n_obs,
            log_prior=self.surrogate.log_density,
            prior_rows=len(self.always_read),
        )
        is_copied = self._light is not None and self._light_rows is None  # rows that have grown are not read here
        if is_copied:
            self._check_rows(plain, light.data)
        if self.order == 0:
            return light
        if is_copied:  # the rows are copied anyway, so the copy may as well be sparse
            light = light._replace(data=self._expansion.packed(light.data))
        return self._expansion.compile_residuals(light, self.center, self._numbers)

    def _light_data(self, plain: CompiledTarget | CompiledGradient) -> tuple[np.ndarray, ...]:
        """Return the arrays of the plain target for the light rows: the arrays themselves if all rows are light."""
        if self._light_rows is not None:
            return self._light_rows
        return plain.data if self._light is None else rows_of(plain.data, plain.n_obs, self._light)

    def _check_rows(self, plain: CompiledTarget, copy: tuple[np.ndarray, ...]) -> None:
        """Raise if terms depend on more than their own row."""
        assert self._light is not None
        try:
            check_rows_are_terms(plain, copy, self._light, self.center)
        except IncompatibleError as error:
            raise IncompatibleError(
                "ControlVariate: with always_read each term must depend only on its own row of the arrays with n_obs "
                f"rows, and some terms of {self.target!r} depend on more; use the plain target"
            ) from error

    # --- what some proposals and tests need ---

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients of S and of the light rows' terms."""
        plain = gradient_or_none(self.target)
        if plain is None:
            raise IncompatibleError(f"{self!r}: {self.target!r} has no gradient; give grad_loglik")
        light = plain._replace(data=self._light_data(plain), n_obs=self.n_obs)
        if self.order > 0:
            light = self._expansion.compile_residual_gradients(light, self.center, self._numbers)
        return light._replace(add_prior_gradient=self.surrogate.add_gradient, prior_rows=len(self.always_read))

    def compile_surrogate(self, kernel: str) -> CompiledSurrogate:
        """Compile proposals from S with the kernel of this name, the pilot's metric, and a step that is tuned on S.

        The step is tuned at the first call for a kernel. If no row is always read, mean and covariance of `laplace` are
        returned instead of a state, and nothing is tuned.
        """
        moves = kernel_named(kernel)
        if self.laplace is None:
            raise IncompatibleError(
                f'{self!r}: the expanded posterior has no maximum, so nothing can be proposed from it; expand at="mode"'
            )
        if self.laplace is not self.pilot:
            normal = self.laplace.mode, self.laplace.cov
            return CompiledSurrogate(moves.move, moves.move_both, lambda: None, normal, self.laplace.cov)
        assert self.pilot is not None
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
        """Compile a bound of the range of the light terms, for `BernsteinTest`.

        If no number bounds the third derivatives, it is infinite outside the ball in which bounds of single terms hold.
        """
        several = None if has_one_predictor(self.target) else with_bounded_residuals(self.target)
        if several is not None and several.likelihood.forms_are_global and self.order == 2:
            return range_in_space(several, self._numbers, self._light, self._pilot_for("how far residuals spread"))
        linear = bounded(self.target)
        bounds = None if linear is None else linear.likelihood.derivative_bounds(3, linear.responses)
        if linear is None or bounds is None or self.order != 2:
            return self._range_within_radius()
        constant_bound = linear.likelihood.third_derivative_bound
        bound = float(bounds.max()) if constant_bound is None else constant_bound
        return residual_range(linear, bound, self._numbers, self._light, self._pilot_for("how far residuals spread"))

    def _with_bounds(self, refusal: str, remedy: str) -> Regression:
        """Return the target, whose residuals have bounds; raise with a refusal and a remedy if they have none."""
        if isinstance(self.target, StandsForRows) and not self.target.reads_rows:
            raise IncompatibleError(
                f"{self!r}: {self.target.found}, so a test has no rows to leave out; use ExactTest with "
                "the plain target"
            )
        linear = with_bounded_residuals(self.target)
        if linear is None:
            raise IncompatibleError(
                f"{self!r} {refusal} a regression of the library, or a GLMTarget with exact derivatives, "
                f"derivatives_eta=; {remedy}"
            )
        return linear

    def _range_within_radius(self) -> CompiledTermRange:
        """Compile the bound of the range that follows from the bounds of single light terms; raise without these."""
        remedy = "BernsteinTest needs range=<number> or range='observed' (no guarantee)"
        linear = self._with_bounds("does not bound its terms: that takes", remedy)
        if self.order == 0:
            return linear.compile_term_range()
        return range_of_differences(self.compile_difference_bound())

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile the bounds of the light terms, one by one; see `approxmcmc.expansion.bounds`."""
        linear = self._with_bounds("does not bound its residuals one by one: exact subsampling needs", "use ExactTest")
        if self.order == 0:
            whole = linear.compile_difference_bound()
            return whole if self._light is None else whole._replace(rates=whole.rates[self._light])
        if self._bound is None:  # two passes, for all samplers of this object
            pilot = self._pilot_for("how far bounds must hold")
            rows = (self._numbers, self._light, pilot)
            bound, self._bound_of_rows = bound_of_rows(linear, self.order, *rows, averaged=self.averaged)
            self._bound = bound._replace(classes=row_classes(bound.rates))
        return self._bound

    def _pilot_for(self, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the centre, and Cholesky factor and draws of the normal approximation; raise without one."""
        if self.laplace is None:
            raise IncompatibleError(
                f'{self!r}: the expanded posterior has no maximum, so it is unknown {what}; expand at="mode"'
            )
        fit = self.laplace if isinstance(self.laplace, Pilot) else normal_pilot(self.laplace)
        return self.center, fit.cholesky, fit.draws

    def __repr__(self) -> str:
        """Name the target, the order of the expansion, and its distance from the mode or the rows always read."""
        kind = "" if self.order == 2 else f", order={self.order}"
        if self._names_rows:
            return f"ControlVariate({self.target!r}, always_read={len(self.always_read)} rows{kind})"
        kind += ", averaged=True" if self.averaged else ""
        return f"ControlVariate({self.target!r}, distance_to_mode={self.distance_to_mode:.2g}{kind})"
