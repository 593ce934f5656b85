"""Slice sampling along random directions, as an update of theta inside Firefly."""

import dataclasses
from typing import Any

import numpy as np

from approxmcmc.contracts import Component, Part, Target
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import IncompatibleError, InvalidInputError


def _no_proposal(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    return 0.0


def _keep(params, state, acceptance, step):  # type: ignore[no-untyped-def]  # bound into a template
    pass


@dataclasses.dataclass(frozen=True, eq=False)
class Slice(Component):
    """Draw theta from the slice of the joint density along a random direction; for `Firefly`.

    Parameters
    ----------
    width
        Length of the first interval, in the units of theta: a positive number, or one for every coordinate. About two
        posterior standard deviations do well; the law is right for every width.
    max_steps
        Stepping out stops after this many widths, at least 1.

    Raises
    ------
    InvalidInputError
        When a width is not positive, or `max_steps` is less than 1.
    IncompatibleError
        When the number of widths is not the target's dimension.

    Notes
    -----
    The direction is width times a uniform direction of the sphere. Each evaluation of the joint density costs one
    evaluation of every bright likelihood; the records add them up. There is nothing to reject: ``acceptance_rate`` is
    1, and ``accepted`` False only where 200 shrinkings found no point, which rounding alone can bring about.

    References
    ----------
    Neal (2003), Slice sampling, section 4 (stepping out and shrinkage).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.Firefly(amc.Slice(0.2))
    Firefly(proposal=Slice(width=0.2, max_steps=8), bound='tuned', z_update=ImplicitZ(q='auto', q_bright=1.0, \
skips=True), at=None)
    """

    width: Any = 1.0
    max_steps: int = 8

    def __post_init__(self) -> None:
        """Check signs and ranges."""
        width = np.array(self.width, dtype=np.float64)
        if width.ndim > 1 or not (np.isfinite(width).all() and np.all(width > 0.0)):
            raise InvalidInputError(f"Slice: width must be a positive number or a vector of them, found {self.width!r}")
        object.__setattr__(self, "width", width if width.ndim else float(width))
        checked_integer(self.max_steps, "max_steps", who="Slice", whole_floats=True)

    def draw_start(self, rng: np.random.Generator) -> None:
        """Offer no start, see `Proposal`."""

    def build_slice(self, target: Target) -> Part:
        """Return the part that Firefly binds: the widths, and the number of steps."""
        dim, width = target.variables.size, np.asarray(self.width)
        if width.ndim and width.size != dim:
            raise IncompatibleError(f"Slice: the target has {dim} parameters, {width.size} widths were given")
        widths = np.ascontiguousarray(np.broadcast_to(width, (dim,)))
        functions = {"PROPOSE": _no_proposal, "ADAPT": _keep}
        return Part(functions, (widths, int(self.max_steps)), lambda: np.zeros(1))
