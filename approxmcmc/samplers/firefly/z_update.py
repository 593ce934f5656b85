"""The role of an update of z, the indicators of the bright data, at fixed theta."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class CompiledZUpdate(NamedTuple):
    """An update of z, compiled.

    ``update(rng, theta, joint, bright, state, count) -> bool`` moves data in and out of the bright set, so that the law
    of z given theta stays, and returns whether every gap that it met was a number >= 0. ``make_state(expected_bright,
    n_obs)`` returns the state of a chain that starts where so many data are bright on average. ``adapt(state, n_bright,
    step)`` learns from a tuning step, None where there is nothing to learn, and `describe` tells what was learnt.
    """

    update: Callable[..., bool]
    make_state: Callable[[float, int], Any]
    adapt: Callable[..., None] | None = None
    describe: Callable[[Any], Mapping[str, float]] = lambda state: {}


class ZUpdate(abc.ABC):
    """How Firefly moves z."""

    @abc.abstractmethod
    def build_z_update(self) -> CompiledZUpdate:
        """Compile the update."""
