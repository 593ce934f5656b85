"""The settings of a check of bounds: samplers along one knob, and the one exact chain that all approximate.

The knob may be anything that changes the sampler but not its exact limit: epsilon, the target variance of a
minibatch Barker test, a batch size, the number of auxiliary draws.

===========================  ============================================================
sampler                      its exact limit
===========================  ============================================================
`MetropolisHastings`         the same proposal with `ExactTest` of the same rule
`Gibbs`                      the same scan with `ExactTest`
`Exchange`                   Metropolis-Hastings with the exact ratio, N = infinity
===========================  ============================================================
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from approxmcmc.contracts import TestedSampler
from approxmcmc.errors import IncompatibleError, InvalidInputError


def settings_of(sampler: Any, epsilons: Sequence[float] | None) -> dict[float, Any]:
    """Return samplers by the value of their knob: those of a mapping, or one sampler at several epsilons.

    Raises
    ------
    InvalidInputError
        When there is no value, a value is not a finite number, or a mapping comes with epsilons.
    IncompatibleError
        When a single sampler is given and its test has no epsilon.
    """
    if not isinstance(sampler, Mapping):
        return _at_epsilons(sampler, epsilons)
    if epsilons is not None:
        raise InvalidInputError("check_bound: a dict of samplers has its values already; leave `epsilons` out.")
    if not sampler:
        raise InvalidInputError("check_bound needs at least one sampler in the dict.")
    for value in sampler:
        if isinstance(value, (str, bool)) or not math.isfinite(value):
            raise InvalidInputError(
                f"check_bound: the keys of the dict of samplers are values of the knob, finite numbers; found {value!r}"
            )
    return dict(sampler)


def _at_epsilons(sampler: Any, epsilons: Sequence[float] | None) -> dict[float, Any]:
    if not isinstance(sampler, TestedSampler) or sampler.with_epsilon(0.0) is None:
        raise IncompatibleError(
            f"check_bound varies the epsilon of a sampler's test, such as SequentialTTest; found {sampler!r}. Another "
            'knob needs a dict: check_bound(target, {10: sampler_10, 20: sampler_20}, knob="batch_size").'
        )
    if epsilons is None or len(epsilons) == 0:
        raise InvalidInputError("check_bound needs at least one epsilon.")
    return {epsilon: sampler.with_epsilon(epsilon) for epsilon in epsilons}


def common_limit(settings: Mapping[float, Any], target: Any) -> Any:
    """Return the exact sampler that all settings approximate; raise if they approximate different ones."""
    limits = [sampler.exact_limit(target) for sampler in settings.values()]
    other = next((limit for limit in limits if limit != limits[0]), None)
    if other is not None:
        raise IncompatibleError(
            f"check_bound: all samplers must approximate the same exact chain, found {limits[0]!r} and {other!r}; "
            "check "
            "proposals of different sizes one by one"
        )
    return limits[0]


def reads_all(sampler: Any, target: Any) -> bool:
    """Return whether every decision uses all data; a Gibbs conditional never has more terms than the target."""
    return isinstance(sampler, TestedSampler) and sampler.test.reads_all(target.n_obs)
