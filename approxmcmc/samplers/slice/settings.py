"""Slice sampling with any test that compares: exact on all data, or on minibatches.

References: Neal (2003), Slice sampling; DuBois, Korattikara, Welling and Smyth (2014), Approximate slice sampling for
Bayesian posterior inference.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import AcceptanceTest, Component, Sampler, Target
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.checks import check_continuous
from approxmcmc.samplers.metropolis_hastings.program import MetropolisHastingsProgram
from approxmcmc.samplers.slice.line import SliceState
from approxmcmc.samplers.slice.program import slice_program


@dataclasses.dataclass(frozen=True, eq=False)
class Slice(Component):
    """The move along a line: step out an interval and shrink it; for `SliceSampler` and `Firefly`.

    Parameters
    ----------
    width
        Length of the first interval, in the units of theta: a positive number, or one for every coordinate. About two
        posterior standard deviations work well; the result is valid for every width.
    max_steps
        The interval is stepped out to at most this many widths; at least 1.
    directions
        ``"sphere"``: width times a uniform direction of the sphere. ``"coordinates"``: one axis, drawn at random.

    Raises
    ------
    InvalidInputError
        When a width is not positive, `max_steps` is less than 1, or `directions` is unknown.
    IncompatibleError
        When the number of widths is not the target's dimension.

    Notes
    -----
    Steps are not rejected: ``acceptance_rate`` is 1, and ``accepted`` is False only if 200 shrinkings found no point,
    which only rounding, or a test with errors, can cause. Inside Firefly each evaluation of the joint density costs one
    evaluation of every bright likelihood; the records add them up.

    References
    ----------
    Neal (2003), Slice sampling, section 4 (stepping out and shrinkage).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.Slice(0.2)
    Slice(width=0.2, max_steps=8, directions='sphere')
    """

    width: Any = 1.0
    max_steps: int = 8
    directions: str = "sphere"

    def __post_init__(self) -> None:
        """Check signs and ranges."""
        width = np.array(self.width, dtype=np.float64)
        if width.ndim > 1 or not (np.isfinite(width).all() and np.all(width > 0.0)):
            raise InvalidInputError(f"Slice: width must be a positive number or a vector of them, found {self.width!r}")
        object.__setattr__(self, "width", width if width.ndim else float(width))
        checked_integer(self.max_steps, "max_steps", whole_floats=True)
        if self.directions not in ("sphere", "coordinates"):
            raise InvalidInputError(f'Slice: directions must be "sphere" or "coordinates", found {self.directions!r}')

    def draw_start(self, rng: np.random.Generator) -> None:
        """Return None: a slice offers no starting point, see `Proposal`."""

    def state_maker(self, dim: int) -> Callable[[], SliceState]:
        """Return the function that makes the state of a chain with `dim` parameters."""
        width = np.asarray(self.width)
        if width.ndim and width.size != dim:
            raise IncompatibleError(f"Slice: the target has {dim} parameters, {width.size} widths were given")
        widths = np.ascontiguousarray(np.broadcast_to(width, (dim,)))
        max_steps = int(self.max_steps)
        coordinates = int(self.directions == "coordinates")
        return lambda: SliceState(widths, max_steps, coordinates, np.empty(dim), np.full(1, math.nan))


@dataclasses.dataclass(frozen=True, eq=False)
class SliceSampler(Component, Sampler):
    r"""Slice sampling along random lines, with comparisons made by an acceptance test.

    Parameters
    ----------
    move
        The line and its first interval, see :class:`Slice`.
    test
        The test that decides whether a point lies in the slice: :class:`ExactTest`, :class:`SequentialTTest` or
        :class:`BernsteinTest`.

    Raises
    ------
    IncompatibleError
        When a setting has the wrong role, the test does not compare (a Poisson test, Barker's, one that changes along
        the chain), or the target is discrete.

    Notes
    -----
    With :math:`u \sim U(0, 1)` the slice contains the :math:`\theta'` for which

    .. math:: \log u < \log\frac{p(\theta')}{p(\theta)}
              + \sum_{i=1}^{N} \log\frac{p(x_i \mid \theta')}{p(x_i \mid \theta)} .

    An interval around theta is stepped out until both ends are found outside or it has its largest length, and shrunk
    until a point is found inside: about five comparisons, all with the same `u`.

    Guarantee: exact with :class:`ExactTest`; biased with an approximate test. The comparisons of one step read data
    independently. If an end is wrongly found outside, a part of the slice is cut off; if a point is wrongly found
    inside, it is accepted. The error has the order of the test's error times the number of comparisons. With an integer
    `audit_every` the trace counts wrong comparisons. No step size needs tuning: a width that is too large costs
    comparisons, not mixing, and so does one that is less than `max_steps` times too small.

    Records: ``decisions_made`` counts comparisons; ``datapoints_touched`` and ``likelihood_evaluations`` add them up.

    References
    ----------
    Neal (2003), section 4; DuBois, Korattikara, Welling and Smyth (2014).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> sampler = amc.samplers.SliceSampler(amc.samplers.Slice(0.2), amc.SequentialTTest(epsilon=0.01, batch_size=100))
    >>> trace = amc.sample(target, sampler, draws=100, tune=20, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["decisions_made"].mean() > 2)
    True
    """

    move: Any = dataclasses.field(default_factory=Slice)
    test: Any = dataclasses.field(default_factory=ExactTest)

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "a step makes a random number of comparisons on a random line",
        "coupling": "two chains would have to choose the same point from different slices",
    }

    def __post_init__(self) -> None:
        """Check that each setting has the right role."""
        if not isinstance(self.move, Slice):
            raise IncompatibleError(f"SliceSampler: move must be a Slice such as Slice(0.2), found {self.move!r}")
        if not (isinstance(self.test, AcceptanceTest) and self.test.only_compares and self.test.rule == "metropolis"):
            raise IncompatibleError(
                "SliceSampler: test must compare the log ratio with the threshold, as ExactTest(), SequentialTTest() "
                f"and BernsteinTest() do, found {self.test!r}"
            )

    @names_itself()
    def build(self, target: Target, *, audit_every: int | str | None = "auto") -> MetropolisHastingsProgram:
        """Check that target and test fit, compile them, and return the program that starts chains."""
        check_continuous(target)
        return slice_program(target, self.move.state_maker(target.variables.size), self.test, audit_every)

    def why_not_invariant(self, target: Target) -> str:
        """Return the test's reason; "" if comparisons are exact."""
        why: str = self.test.why_not_invariant(target.n_obs)
        return why
