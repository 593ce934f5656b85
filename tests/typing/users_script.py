"""What a user's type checker must know; the session `types` reads this file, and nothing runs it.

Each line that is wrong has an ignore with its error code, and mypy reports an ignore that is not needed: so a wrong
argument that passes is an error of that session.
"""

from typing import assert_type

import numpy as np
import xarray as xr

import approxmcmc as amc

X = np.zeros((10, 2))
y = np.zeros(10)

target = amc.targets.LogisticRegression(X, y)
walk = amc.RandomWalk(0.1)
sampler = amc.MetropolisHastings(walk, amc.SequentialTTest(epsilon=0.05))
assert_type(walk, amc.proposals.RandomWalk)
assert_type(sampler, amc.samplers.MetropolisHastings)
assert_type(amc.sample(target, sampler, draws=10), xr.DataTree)
assert_type(amc.__version__, str)

amc.sample(target, drws=3)  # type: ignore[call-arg]
amc.RandomWalk(target_acceptance="a third")  # type: ignore[arg-type]
amc.MetropolisHastings(walk, amc.ExactTest(), thin=3)  # type: ignore[call-arg]
amc.no_such_name  # type: ignore[attr-defined]  # noqa: B018 (an attribute is looked up)
