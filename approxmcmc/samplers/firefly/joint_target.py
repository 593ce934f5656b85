"""What a gradient proposal of Firefly sees: the joint density of theta and z at fixed z, as a target of one term.

    grad log joint = grad log p + grad sum_i log B_i + sum_{i bright} grad gap_i / (1 - exp(-gap_i)).

Its gradient kernel reads the bright set from arrays that belong to one chain. So a chain builds its own proposal,
around its own arrays; the compiled code is shared.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledBound, CompiledGradient, DifferentiableTarget, Target
from approxmcmc.engine.compiler.compile import bind, type_of
from approxmcmc.engine.terms.batches import BATCH
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.firefly.bright import Bright

SMALLEST_GAP = 1e-300  # a bright datum's gap is positive; this keeps rounding from dividing by 0


class JointData(NamedTuple):
    """What the gradient reads: the bound's arrays, the bright set of a chain, and scratch for one batch."""

    data: Any
    sums: Any
    order: np.ndarray
    size: np.ndarray
    weights: np.ndarray


def make_add_joint_gradient(
    gaps: Callable[..., None], add_gap_gradient: Callable[..., None], add_bound_gradient: Callable[..., None]
) -> Callable[..., None]:
    """Return the gradient kernel of the joint density without the prior, its one term."""

    def add_joint_gradient(
        theta: np.ndarray, joint: JointData, unused_order: np.ndarray, lo: int, hi: int, out: np.ndarray
    ) -> None:
        data, order, weights = joint.data, joint.order, joint.weights
        add_bound_gradient(theta, joint.sums, out)
        for start in range(0, joint.size[0], BATCH):
            stop = min(start + BATCH, joint.size[0])
            gaps(theta, data, order, start, stop, weights)
            for k in range(stop - start):
                weights[k] = -1.0 / math.expm1(-max(SMALLEST_GAP, weights[k]))
            add_gap_gradient(theta, data, order, start, stop, weights, out)

    return add_joint_gradient


class JointTarget(DifferentiableTarget):
    """The joint density of one chain, as far as proposals look at a target."""

    def __init__(self, target: Target, bound: CompiledBound, bright: Bright) -> None:
        self.variables, self.n_obs = target.variables, 1
        self._target, self._bound, self._bright = target, bound, bright

    def initial_point(self) -> np.ndarray:
        """Return the target's; shape (dim,)."""
        return self._target.initial_point()

    def __repr__(self) -> str:
        """Name the target."""
        return f"Firefly on {self._target!r}"

    def compile_gradient(self) -> CompiledGradient:
        """Return the gradient of the log joint density; without the prior, its one term."""
        bound, bright = self._bound, self._bright
        if bound.add_gap_gradient is None or not isinstance(self._target, DifferentiableTarget):
            raise IncompatibleError(
                f"Firefly with a gradient proposal: the bound or the prior of {self._target!r} has no gradient; "
                "use RandomWalk or Slice"
            )
        data = JointData(bound.data, bound.sums, bright.order, bright.size, np.empty(BATCH))
        parts = bound.gaps, bound.add_gap_gradient, bound.add_bound_gradient
        kernel = bind(make_add_joint_gradient, *parts, signature=gradient_signature(type_of(data)))
        # The tuple is nested, where a target's is flat: only the kernel, which knows, looks into it.
        return CompiledGradient(kernel, self._target.compile_gradient().add_prior_gradient, data, 1)
