"""What is known of a target before trials, and what is computed on demand: mode, pilot, influential rows.

Each of these is computed once, when a candidate that needs it is tried. Costs are counted work (`work`).
"""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import Target, TermWork, WrittenWork
from approxmcmc.design.memory import of_matrices, why_rows_too_large, why_too_large
from approxmcmc.design.normal_by_pilot import BY_WALK, gradients_of_pilot, normal_by_pilot, numbers_of_metric
from approxmcmc.design.work import AUDITED, PRODUCT, STEP, TRANSITION, AuditSeconds, Light, Rates, compilation, rates_of
from approxmcmc.errors import ApproxMCMCError, IncompatibleError, SamplingWarning
from approxmcmc.expansion.general import ExpandsItself
from approxmcmc.numerics import Laplace, laplace
from approxmcmc.numerics.sparse_normal import NormalFit
from approxmcmc.surrogate import ControlVariate
from approxmcmc.surrogate.pilot import STEPS, run_pilot
from approxmcmc.targets.regression import Regression

# Errors that may end a set-up: a density that is NaN, infinite or improper, a singular matrix, too little memory.
FAILURES = (ApproxMCMCError, ArithmeticError, MemoryError, np.linalg.LinAlgError, ValueError)

EXPANSION_PASSES = 10  # passes over the data, if terms have linear predictors; the survey is the most expensive one
NEWTON_STEPS = 4  # typical number of passes over all data in the search for the mode
CLIMB = 40  # gradients of BFGS before the Newton steps
ONE_BY_ONE = 20.0  # cost of a gradient of a single row by PyTensor's code, in evaluations of a term
BLAS = 0.1e-9  # seconds of a multiply-add of large matrices


class ImproperError(IncompatibleError):
    """A pilot found that a posterior seems improper."""


@dataclasses.dataclass(frozen=True, eq=False)
class TargetProfile:
    """What is known of a target before trials, and what is computed on demand.

    Parameters
    ----------
    target
        The posterior.
    seed
        Seed of pilot chains.
    chains
        Number of chains of the run that follows.
    compiled
        Parts of the model that candidates have compiled so far: "terms", "gradient", "expansion", "trajectory".
    undefined
        Candidates that met a density that is NaN or infinite.
    trajectories
        Seconds of a trajectory in the metric of the pilot, after trials have found steps that are short enough.
    transitions
        Seconds of an effective draw of influential rows without its light rows, after a trial has measured them.
    """

    target: Target
    seed: int = 0
    chains: int = 4
    compiled: set[str] = dataclasses.field(default_factory=set)
    undefined: list[str] = dataclasses.field(default_factory=list)
    trajectories: list[float] = dataclasses.field(default_factory=list)
    transitions: list[float] = dataclasses.field(default_factory=list)
    _found: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def dim(self) -> int:
        """Length of theta."""
        return int(self.target.variables.size)

    @functools.cached_property
    def term_work(self) -> TermWork:
        """The work of a term, counted once."""
        return self.target.term_work

    @functools.cached_property
    def rates(self) -> Rates:
        """Seconds of a term and of its gradient, by counted work."""
        return rates_of(self.term_work)

    @functools.cached_property
    def written_work(self) -> WrittenWork:
        """The work of NUTS on the model as it is written."""
        return self.target.written_work

    @functools.cached_property
    def pass_seconds(self) -> float:
        """Seconds to evaluate all terms once."""
        return self.target.n_obs * self.rates.term

    @functools.cached_property
    def gradient_seconds(self) -> float:
        """Seconds to evaluate the gradients of all terms once; NaN without a gradient."""
        return self.target.n_obs * self.rates.gradient

    @property
    def audits(self) -> AuditSeconds:
        """The seconds that audits of this target take."""
        return AuditSeconds(2.0 * self.pass_seconds, AUDITED * self.target.n_obs)

    @property
    def has_gradient(self) -> bool:
        """Whether the terms have a gradient."""
        return not math.isnan(self.gradient_seconds)

    @property
    def has_predictors(self) -> bool:
        """Whether terms are functions of linear predictors, so that an expansion has few numbers per row."""
        return isinstance(self.target, Regression)

    @functools.cached_property
    def why_no_mode(self) -> str:
        """Why the mode does not describe the posterior, if that is known before the mode is searched; else "".

        A Laplace approximation of d parameters by N rows errs by about d^2 / N nats (Shun and McCullagh 1995). Under
        independent normal priors the error is usually far smaller; in a hierarchy it is not, so a pilot is needed.
        """
        target = self.target
        dim = self.dim
        n_obs = target.n_obs if target.reads_rows else target.n_rows or 0  # count rows even if statistics replace them
        if target.normal_prior is not None or n_obs >= dim**2:
            return ""
        return f"{n_obs} terms are too few for a normal approximation of {dim} parameters at the mode"

    # --- normal approximations of the posterior, each made once ---

    @property
    def mode(self) -> Laplace:
        """The normal approximation at the mode.

        Raises
        ------
        IncompatibleError
            When a mode would not describe the posterior; the errors of a failed search are raised as they are.
        """
        if self.why_no_mode:
            raise IncompatibleError(self.why_no_mode)
        return self._once("mode", lambda: laplace(self.target))  # type: ignore[no-any-return]  # kept as Any

    @property
    def pilot(self) -> NormalFit:
        """The normal approximation by a pilot chain, whether there is a mode or not."""
        return self._once("pilot", self._run_pilot)  # type: ignore[no-any-return]  # kept beside an error

    @property
    def fit(self) -> NormalFit:
        """The normal approximation at the mode, or by a pilot if no mode was found."""
        try:
            return self.mode
        except FAILURES:  # which `why_no_expansion` names
            return self.pilot

    @property
    def why_no_expansion(self) -> str:
        """The reason if no mode was found to expand at; "" before the search."""
        failed = self._found.get("mode")
        return self.why_no_mode or (str(failed) if isinstance(failed, Exception) else "")

    @property
    def alarm(self) -> str:
        """The pilot's message about a posterior that seems improper; else ""."""
        failed = self._found.get("pilot")
        return str(failed) if isinstance(failed, ImproperError) else ""

    @property
    def influential_rows(self) -> ControlVariate:
        """The posterior with its influential rows, shared by the candidates that only differ in the test."""
        return self._once(  # type: ignore[no-any-return]  # kept as Any
            "influential rows",
            lambda: ControlVariate(self.target, always_read="auto", at=run_pilot(self.target, fit=self.mode)),
        )

    @functools.cached_property
    def light(self) -> Light:
        """The light rows of the influential rows, counted once."""
        return Light.of(self.influential_rows, self.target)

    @property
    def seen(self) -> Laplace | None:
        """The normal approximation from the pilot of the influential rows; None before they are made."""
        influential = self._found.get("influential rows")
        return influential.pilot if isinstance(influential, ControlVariate) else None

    @property
    def metric_numbers(self) -> float:
        """Numbers that a product with the metric of the pilot reads."""
        return numbers_of_metric(self.target, self._found.get("pilot"))

    def has(self, name: str) -> bool:
        """Return whether the "mode", the "pilot" or the "influential rows" have been computed, or have failed."""
        return name in self._found

    def fits(self) -> list[NormalFit]:
        """Return the normal approximations computed so far."""
        return [fit for fit in self._found.values() if isinstance(fit, NormalFit)]

    def _run_pilot(self) -> NormalFit:
        """Run a pilot; raise if the posterior seems improper."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", SamplingWarning)
            try:
                return normal_by_pilot(self.target, random_seed=self.seed)
            except SamplingWarning as improper:
                raise ImproperError(str(improper)) from improper

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return ``make()``, computed once under this name; if it failed, raise the same error again."""
        if name not in self._found:
            try:
                self._found[name] = make()
            except FAILURES as error:
                self._found[name] = error
        value = self._found[name]
        if isinstance(value, Exception):
            raise value
        return value

    def seconds_of(self, approximation: str) -> float:
        """Return the seconds to compute the "mode", "pilot" or "fit" after compilation; 0 for "" or if it is known."""
        missing = self._missing(approximation)
        if not missing:
            return 0.0
        return self._mode_seconds if missing == "mode" else self._pilot_seconds

    def parts_of(self, approximation: str) -> frozenset[str]:
        """Return the parts that the "mode", "pilot" or "fit" needs compiled; none for "" or if it is known."""
        if not (missing := self._missing(approximation)):
            return frozenset()
        if missing == "mode" and self.has_predictors:
            return frozenset({"terms", "expansion"})
        if not self.has_gradient:
            return frozenset({"terms"})
        return frozenset({"terms", "gradient"} if missing == "mode" else {"terms", "gradient", "trajectory"})

    def _missing(self, approximation: str) -> str:
        """Return which of "mode" and "pilot" is still to be computed, or ""; a "fit" needs one of the two."""
        if approximation == "fit":
            approximation = "pilot" if self.why_no_expansion else "mode"
        return (
            ""
            if self.has(approximation) or (approximation == "mode" and self.target.known_fit is not None)
            else approximation
        )

    def seconds_to_compile(self, parts: frozenset[str]) -> float:
        """Return the seconds to compile those of `parts` that no candidate has compiled yet."""
        return compilation(self.term_work.code, parts - self.compiled, compiles_prior=self.target.compiles_prior)

    @property
    def _pilot_seconds(self) -> float:
        if not self.has_gradient:
            return sum(BY_WALK.rounds) * (self.pass_seconds + STEP + PRODUCT * self.dim**2)
        return gradients_of_pilot(self.target) * (self.gradient_seconds + 2.0 * PRODUCT * self.metric_numbers)

    @property
    def _mode_seconds(self) -> float:
        dim = self.dim
        n_obs = self.target.n_obs
        solved = NEWTON_STEPS * BLAS * dim**3
        if self.has_predictors:
            return NEWTON_STEPS * (self.pass_seconds + n_obs * BLAS * self._columns**2) + solved
        if self.has_gradient:
            return (CLIMB + NEWTON_STEPS * (2 + 2 * dim)) * self.gradient_seconds + solved
        return (2 * dim * CLIMB + NEWTON_STEPS * dim**2) * self.pass_seconds + solved

    @property
    def _columns(self) -> int:
        """Number of summands in the predictors of a row."""
        return int(self.target.design.additions if isinstance(self.target, Regression) else self.dim)

    @functools.cached_property
    def expansion_seconds(self) -> float:
        """Lower bound of the seconds to find influential rows: expand every row, run the chain of the pilot."""
        dim = self.dim
        n_obs = self.target.n_obs
        chain = 0.0
        if self.target.normal_prior is None:  # otherwise there may be no influential row, and no pilot chain
            chain = sum(STEPS) * TRANSITION * dim**0.25 * 3.0 * PRODUCT * dim**2
        if self.has_predictors or isinstance(self.target, ExpandsItself):
            return EXPANSION_PASSES * self.pass_seconds + chain
        if not self.has_gradient:
            return dim**2 * self.pass_seconds + chain
        by_pytensor = self.term_work.code in ("graph", "matrices")
        single = ONE_BY_ONE * self.rates.term if by_pytensor else self.rates.gradient
        return 2.0 * dim * n_obs * single + chain

    @property
    def why_no_covariance(self) -> str:
        """Return why a covariance would take too much memory, or ""."""
        return why_too_large(of_matrices(self.dim, self.chains))

    @property
    def why_no_rows(self) -> str:
        """Return why rows cannot be expanded, or "": a density that is not finite, or too little memory."""
        if self.undefined:
            return f"a density is not finite ({self.undefined[0]}), which an expansion of the rows would not detect"
        return why_rows_too_large(self.target, self.chains)


def profile_target(target: Any, seed: int, chains: int = 4) -> TargetProfile:
    """Return what is known of a target before anything is evaluated; `seed` is for pilots, `chains` for the run."""
    if not isinstance(target, Target):
        raise IncompatibleError(f"choose_sampler needs a target or a pm.Model, found {type(target).__name__}")
    return TargetProfile(target, seed, chains)
