"""Surrogate transitions: propose by a chain on a cheap density; a test on the other rows accepts or rejects.

S(theta) is a surrogate of the posterior that costs few rows, P a transition that is reversible for S. From theta,
theta' = P(theta) has the density ratio

    q(theta | theta') / q(theta' | theta) = exp(S(theta) - S(theta')),

so the log Metropolis-Hastings ratio is R(theta') - R(theta), with R = log p(theta | x) - S the sum of the residuals of
the light rows. An acceptance test decides on it with all light rows or with a sample of them.

References: Liu (2001), section 9.4.3 (surrogate transition); Christen and Fox (2005).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.out_of_reach import evaluations_to_reject
from approxmcmc.contracts import CompiledProposal, CompiledSurrogate, Component, Proposal, SurrogateTarget, Target
from approxmcmc.contracts.records import TOUCHED
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.python_call import PythonCall
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.crank_nicolson import crank_nicolson
from approxmcmc.proposals.mixture import Mixture
from approxmcmc.proposals.random_walk import RandomWalk
from approxmcmc.surrogate.kernels import KERNELS
from approxmcmc.surrogate.moves import stay_if_out_of_reach

# For coupled chains: a random walk with steps of 1/20 sd in each of 25 directions is accepted nine times in ten, and
# two chains at a distance of 1/80 sd propose the same point nine times in ten.
MEETING_SCALE = 0.05
MEETING_SHARE = 0.25


class Ends(NamedTuple):
    """The last current point `here` and the last proposal `there`, (dim,) each, and `values` (2,), S at both.

    `evaluations_to_reject` searches the way from one to the other, see `approxmcmc.acceptance.out_of_reach`.
    """

    here: np.ndarray
    there: np.ndarray
    values: np.ndarray
    evaluations_to_reject: Callable[[], int]


class TransitionState(NamedTuple):
    """The state of the surrogate's moves, the number of transitions in one proposal, and the ends of the last one."""

    surrogate: Any
    steps: int
    ends: Ends


# These two get the few arrays that they read: a call that passes a whole state, 30 fields, takes .1 s to compile.


@compiled
def log_density_at(ends: Ends, log_density: Any, theta: np.ndarray) -> float:
    """Return S(theta) and store it; it is computed only if theta is neither the last current point nor proposal."""
    if not equal(theta, ends.here):
        ends.values[0] = ends.values[1] if equal(theta, ends.there) else log_density(theta)
        assign(ends.here, theta)
    return ends.values[0]


@compiled
def end_transition(
    ends: Ends, value: np.ndarray, n_rows: int, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Store the proposal `out` with S there, and return S(theta) - S(theta'); NaN if S is undefined within reach.

    `value` (1,) is S at `out`, which reads `n_rows` rows.
    """
    before = ends.values[0]
    assign(ends.there, out)
    stay_if_out_of_reach(value, ends.evaluations_to_reject, n_rows, theta, out, before, count)
    assign(ends.there, out)
    ends.values[1] = value[0]
    return before - value[0]


@cached_by_content(maxsize=16)
def make_propose(move: Callable[..., float]) -> Callable[..., float]:
    """Return the proposal kernel: ``state.steps`` transitions `move` from theta to theta', written to `out`.

    The kernel returns S(theta) - S(theta'), the log of the ratio of proposal densities.
    """

    def propose(
        rng: np.random.Generator, state: TransitionState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
    ) -> float:
        surrogate = state.surrogate
        surrogate.value[0] = log_density_at(state.ends, surrogate.log_density, theta)
        assign(out, theta)
        for _ in range(state.steps):
            move(rng, surrogate, out, count)
        return end_transition(state.ends, surrogate.value, surrogate.n_rows, theta, out, count)

    return compiled(propose)


@cached_by_content(maxsize=16)
def make_couple(move_both: Callable[..., None]) -> Callable[..., tuple[float, float]]:
    """Return the kernel that proposes for two chains by ``state.steps`` transitions with the same random numbers.

    It writes the proposals to `x_new` and `y_new`, and returns S(x) - S(x_new) and S(y) - S(y_new).
    """

    def couple(
        rng: np.random.Generator,
        state: TransitionState,
        other: TransitionState,
        x: np.ndarray,
        y: np.ndarray,
        x_new: np.ndarray,
        y_new: np.ndarray,
        noise: np.ndarray,
        count: np.ndarray,
    ) -> tuple[float, float]:
        at_x = state.surrogate
        at_y = other.surrogate
        at_x.value[0] = log_density_at(state.ends, at_x.log_density, x)
        at_y.value[0] = log_density_at(other.ends, at_y.log_density, y)
        assign(x_new, x)
        assign(y_new, y)
        for _ in range(state.steps):
            move_both(rng, at_x, at_y, x_new, y_new, count)
        log_q_x = end_transition(state.ends, at_x.value, at_x.n_rows, x, x_new, count)
        log_q_y = end_transition(other.ends, at_y.value, at_y.n_rows, y, y_new, count)
        return log_q_x, log_q_y

    return compiled(couple)


@cached_by_content(maxsize=16)
def make_move_freely(move: Callable[..., float]) -> Callable[..., float]:
    """Return the proposal kernel for a chain without a test, which also adds n_rows to ``datapoints_touched``."""
    propose = make_propose(move)

    def move_freely(
        rng: np.random.Generator, state: TransitionState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
    ) -> float:
        count[TOUCHED] += state.surrogate.n_rows
        return propose(rng, state, theta, out, count)

    return compiled(move_freely)


@dataclasses.dataclass(frozen=True, eq=False)
class SurrogateTransition(Component, Proposal):
    """Propose by a transition of the target's surrogate: a Hamiltonian trajectory, and slices in its wall directions.

    Parameters
    ----------
    kernel
        How to move: ``"hmc"``, a trajectory of 2.2 posterior standard deviations, ``"mala"``, a Langevin step, or
        ``"walk"``, a step of a random walk. With ``"+walls"`` this move is made in the complement of the wall
        directions, and each wall direction has a slice update. All kernels are reversible for the surrogate.
    steps
        Number of transitions in one proposal. More than one is faster if a decision costs as much as several
        transitions, as with :class:`ExactTest` on wide data; "mala" and "walk" need many to move as far as one "hmc".

    Raises
    ------
    InvalidInputError
        When there is no such kernel, or `steps` is not a positive integer.
    IncompatibleError
        When the target has no surrogate; give it to :class:`ControlVariate` first.

    Notes
    -----
    Guarantee: with :class:`ExactTest` or :class:`PoissonTest` (without a test `MetropolisHastings` takes the cheaper
    one) exact for the target's posterior, whatever the surrogate; a bad surrogate costs speed. With
    :class:`AlwaysAccept` the surrogate, or its normal approximation, is sampled, which is biased by its error. The
    transition is reversible: each move leaves S invariant, and their order is random. Step and metric are tuned by the
    target's pilot, never while sampling. If no row is always read and S has a normal approximation,
    proposals are independent draws of that, whatever the kernel. Cost: about ten passes over the influential rows,
    counted in ``gradient_evaluations`` and ``likelihood_evaluations``; in ``datapoints_touched`` they count once.

    References
    ----------
    Liu (2001), Monte Carlo Strategies in Scientific Computing, section 9.4.3; Christen and Fox (2005); Neal (2003).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(2000, 2)), np.arange(2000) < 4])
    >>> y = (rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))) | (X[:, 2] == 1)
    >>> target = amc.ControlVariate(amc.LogisticRegression(X, y, prior_scale=5.0), always_read="auto")
    >>> sampler = amc.MetropolisHastings(amc.SurrogateTransition())
    >>> trace = amc.sample(target, sampler, draws=200, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["accepted"].mean() > 0.7)
    True
    """

    error_untested = "untested transitions sample the surrogate, and are biased by its error"

    leaves_little = True

    kernel: str = "hmc+walls"
    steps: int = 1

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.kernel not in KERNELS:
            raise InvalidInputError(
                f"SurrogateTransition: kernel must be one of {', '.join(KERNELS)}, found {self.kernel!r}"
            )
        object.__setattr__(self, "steps", checked_integer(self.steps, "steps"))

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal."""
        return self._compile(target, make_propose)

    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the chain that samples the surrogate itself."""
        return self._compile(target, make_move_freely)

    def with_meetings(self, target: Target) -> Proposal:
        """Return this proposal mixed with short random-walk steps, by which coupled chains can meet exactly.

        Surrogate transitions only bring chains close. If proposals are independent draws of a normal distribution,
        return the proposal itself.
        """
        surrogate = _surrogate_of(target, self.kernel)
        if surrogate.normal_law is not None:
            return self
        walk = RandomWalk(MEETING_SCALE, preconditioner=surrogate.cov)
        return Mixture([self, walk], weights=[1.0 - MEETING_SHARE, MEETING_SHARE])

    @names_itself()
    def _compile(self, target: Target, make: Callable[..., Callable[..., float]]) -> CompiledProposal:
        compiled_surrogate = _surrogate_of(target, self.kernel)
        if compiled_surrogate.normal_law is not None:
            center, cov = compiled_surrogate.normal_law
            return crank_nicolson(0.0, center, cov, target)
        dim = target.variables.size

        def make_state() -> Any:
            here, there = np.full((2, dim), np.nan)  # a NaN equals nothing
            surrogate = compiled_surrogate.make_state()
            to_reject = PythonCall(lambda: evaluations_to_reject(surrogate.log_density, here, there))
            return TransitionState(surrogate, self.steps, Ends(here, there, np.empty(2), to_reject))

        couple = make_couple(compiled_surrogate.move_both)
        records = ("gradient_evaluations", "out_of_reach")
        return CompiledProposal(make(compiled_surrogate.move), make_state, couple=couple, records=records)


def _surrogate_of(target: Target, kernel: str) -> CompiledSurrogate:
    """Return the surrogate of a target; raise if it has none."""
    if not isinstance(target, SurrogateTarget):
        raise IncompatibleError(
            f"SurrogateTransition: {target!r} has no surrogate; give it to ControlVariate first, "
            'ControlVariate(target, always_read="auto")'
        )
    return target.compile_surrogate(kernel)
