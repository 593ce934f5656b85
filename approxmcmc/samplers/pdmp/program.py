"""A process bound to a target: the split energy, which all chains share, and how a chain starts."""

import numpy as np
from scipy.linalg import solve_triangular

from approxmcmc.contracts import Streams, Target
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import as_python
from approxmcmc.numerics import Laplace
from approxmcmc.samplers.pdmp.rows import ORDERS, RATE, scratch
from approxmcmc.samplers.pdmp.split import BOUNDS, CHECKS, ROUNDING, rows_of, split
from approxmcmc.samplers.pdmp.step import Dynamics, PDMPState, new_flight, pdmp_step, row_rate, shell_of
from approxmcmc.samplers.program import StepProgram
from approxmcmc.sampling.chain import CompiledChain, compile_chain
from approxmcmc.targets.all_rows import AllRows

RECORDS = ("gradient_evaluations", "events", "row_events", "expected_reads")
NOT_FILLED = ("accepted", "likelihood_evaluations", "decision_rounds")
PREDICTION_DRAWS = 1000  # of the normal approximation


class PDMPProgram(StepProgram):
    """A process bound to a target."""

    def __init__(self, target: Target, fit: Laplace, dynamics: Dynamics, *, setting: float, spacing: float) -> None:
        self.dynamics = dynamics
        self.setting = setting
        self.spacing = spacing
        self.sampler = speaker()
        rows = rows_of(target, fit, dynamics.norm)
        self.read = rows.read
        self.n_predictors = rows.target.design.n_predictors
        self.split = split(rows)
        self.rows = AllRows(target)
        sizes = np.diff(self.split.first)
        attrs = {
            "setup_mode_seconds": fit.seconds,
            "setup_mode_passes": fit.passes,
            "setup_expansion_passes": 1 + CHECKS,
            "setup_expected_reads": self.expected_reads(),
            **{f"setup_rows_of_order_{order}": int(sizes[order]) for order in range(ORDERS)},
        }
        super().__init__(RECORDS, attrs, not_filled=NOT_FILLED)
        self.loop = compile_chain(pdmp_step(dynamics, rows.read), self.new_state(fit.mode.copy(), 0))

    def expected_reads(self) -> float:
        """Predict the mean number of rows that a draw reads, from their bounds at draws of the normal approximation."""
        rng = np.random.default_rng(0)
        dim = self.split.center.size
        radii = np.square(rng.standard_normal((PREDICTION_DRAWS, dim))).sum(axis=1)
        speed = np.ones(PREDICTION_DRAWS)
        if self.dynamics.norm == 2:  # the rates are proportional to the speed
            speed = np.sqrt(np.square(rng.standard_normal((PREDICTION_DRAWS, dim))).sum(axis=1))
        last = len(self.split.limits) - 1
        shell = as_python(shell_of)
        shells = [min(shell(self.split.limits, squared), last) for squared in radii]
        totals = self.split.totals[shells]
        rate_of = as_python(row_rate)
        rates = [v * rate_of(*known) for v, *known in zip(speed, totals, radii, strict=True)]
        return self.spacing * float(np.mean(rates))

    def new_state(self, theta: np.ndarray, n_tune: int) -> PDMPState:
        """Return the state of a chain at theta, before it has a velocity."""
        position = solve_triangular(self.split.cholesky, theta - self.split.center, lower=True)
        return PDMPState(
            **self.first_fields(theta, n_tune),
            flight=new_flight(position, self.split.curvature, self.setting),
            split=self.split,
            spacing=self.spacing,
            row=np.empty(1, dtype=np.int64),
            weight=np.empty(1),
            scratch=scratch(self.n_predictors, position.size),
        )

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> CompiledChain:
        """Start a chain at `theta` with a random velocity; nothing adapts, so tuning is burn-in."""
        state = self.new_state(theta.copy(), n_tune)
        as_python(self.dynamics.start)(streams.start, state.flight)
        return self.chain(streams, state)

    def explain_failure(self, state: PDMPState) -> str:
        """Return which row's slope is NaN, or larger than its bound, and where."""
        split_of = self.split
        position = state.flight.position
        radius = np.linalg.norm(position)
        shell = as_python(shell_of)(split_of.limits, radius**2)
        if shell == len(split_of.limits):
            return (
                f"the chain is more than {np.sqrt(split_of.limits[-1]):.3g} standard deviations from the fit, where "
                f"bounds of residuals are too large or infinite, at theta = {show(state.proposed)}: the posterior is "
                "not near the normal approximation; use MetropolisHastings with an ExactTest"
            )
        places = range(len(split_of.records))
        read = as_python(self.read)
        slopes = np.array([read(split_of, place, position, state.scratch)[0] for place in places])
        orders = np.repeat(np.arange(ORDERS), np.diff(split_of.first))
        ceilings = split_of.factors[shell, orders] * split_of.records[:, RATE] * radius**orders
        bad = np.flatnonzero(~(np.abs(slopes) <= ceilings + ROUNDING))
        worst = bad[np.argmax(np.nan_to_num(np.abs(slopes[bad]) - ceilings[bad], nan=np.inf))] if bad.size else 0
        return (
            f"the slope of the residual of datum {split_of.rows[worst]} is {slopes[worst]:.4g} where its bound is "
            f"{ceilings[worst]:.4g}, and so for {bad.size} of {len(slopes)} data, at theta = {show(state.proposed)}: "
            f"{self.sampler} is exact only if {BOUNDS[orders[worst]]} of the target is a true bound; give a larger one"
        )
