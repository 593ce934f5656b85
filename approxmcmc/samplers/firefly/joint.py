"""What a gradient proposal of Firefly sees: the joint density of theta and z at fixed z, as a target of one term.

    grad log joint = grad log p + grad sum_i log B_i + sum_{i bright} grad gap_i / (1 - exp(-gap_i)).

Its gradient kernel reads the bright set from arrays that belong to one chain. So a chain builds its own proposal,
around its own arrays; the compiled code is shared.
"""

import math

import numpy as np
from numba import config

from approxmcmc.contracts import CompiledBound, CompiledGradient, DifferentiableTarget, Target
from approxmcmc.engine.batches import BATCH
from approxmcmc.engine.compile import bind, type_of
from approxmcmc.engine.gradients import gradient_signature
from approxmcmc.errors import IncompatibleError

LEAST_GAP = 1e-300  # a bright datum's gap is positive; this keeps rounding from dividing by 0


def _add_joint_gradient(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    own_data, sums, bright, size = data
    ADD_BOUND_GRADIENT(theta, sums, out)  # noqa: F821 (bound)
    weights = np.empty(BATCH)
    for start in range(0, size[0], BATCH):
        stop = min(start + BATCH, size[0])
        GAPS(theta, own_data, bright, start, stop, weights)  # noqa: F821 (bound)
        for k in range(stop - start):
            weights[k] = -1.0 / math.expm1(-max(LEAST_GAP, weights[k]))
        ADD_GAP_GRADIENT(theta, own_data, bright, start, stop, weights, out)  # noqa: F821 (bound)


class JointTarget(DifferentiableTarget):
    """The joint density of one chain, as far as proposals look at a target."""

    def __init__(self, target: Target, bound: CompiledBound, order: np.ndarray, size: np.ndarray) -> None:
        self.variables, self.n_obs = target.variables, 1
        self._target, self._bound = target, bound
        self._bright = (order, size)

    def initial_point(self) -> np.ndarray:
        """Return the target's; shape (dim,)."""
        return self._target.initial_point()

    def __repr__(self) -> str:
        """Name the target."""
        return f"Firefly on {self._target!r}"

    def compile_gradient(self) -> CompiledGradient:
        """Return the gradient of the log joint density; without the prior, its one term."""
        bound = self._bound
        if bound.add_gap_gradient is None or not isinstance(self._target, DifferentiableTarget):
            raise IncompatibleError(
                f"Firefly with a gradient proposal: the bound or the prior of {self._target!r} has no gradient; "
                "use RandomWalk or Slice"
            )
        data = (bound.data, bound.sums, *self._bright)
        kernel = bind(
            _add_joint_gradient,
            None if config.DISABLE_JIT else gradient_signature(type_of(data)),
            GAPS=bound.gaps,
            ADD_GAP_GRADIENT=bound.add_gap_gradient,
            ADD_BOUND_GRADIENT=bound.add_bound_gradient,
        )
        # The tuple is nested, where a target's is flat: only the kernel, which knows, looks into it.
        return CompiledGradient(kernel, self._target.compile_gradient().add_prior_gradient, data, 1)  # type: ignore[arg-type]
