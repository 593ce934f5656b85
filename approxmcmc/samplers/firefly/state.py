"""What a chain of Firefly keeps."""

from typing import Any, NamedTuple

import numpy as np

from approxmcmc.samplers.chain import Clock
from approxmcmc.samplers.firefly.bright import Bright
from approxmcmc.samplers.firefly.joint_density import Factors, JointDensity


class FireflyState(NamedTuple):
    """A chain of Firefly: where theta is and wants to go, and which data are bright.

    `joint` is the joint density, `current` and `candidate` its summands at `theta` and at `proposed`; the log odds of
    `current` are those of `bright`, one array under two names. `proposal` is the state of what moves theta, a proposal
    or a slice, `z` that of what moves z. Nobody evaluates the posterior: `log_density` stays NaN.
    """

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Clock
    joint: JointDensity
    current: Factors
    candidate: Factors
    bright: Bright
    proposal: Any
    z: Any
