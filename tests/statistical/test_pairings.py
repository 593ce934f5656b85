"""Every pairing that claims to leave its target's law invariant, by joint draws of parameters and data.

See `tests.pairings.law` for what is compared and `tests.pairings.table` for what is paired. One comparison fails beyond
6.2 standard errors, 5.6e-10; some 180 pairings with 6 to 21 functions each make fewer than 3000: 2e-6 for the family by the
normal law, and the tails of means of thousands of independent replicates are at most a few times those.

Power, .999 each, asserted from the standard errors that were found: a posterior variance off by 10 %; means off by .016
posterior standard deviations. That is what a walk, an independence sampler, pCN and Langevin steps are off by, at least,
where 3 % of the acceptances upwards are lost (measured: .034, .016, .025, .036; Hamiltonian trajectories, which cross
the posterior at once: .0116, so that they are run longer). `tests/unit/test_pairings.py` plants bugs.
"""

import functools

import pytest

from tests.pairings.law import SEEN, Z, data_sets, judge
from tests.pairings.table import GROUPS, pairings, world_of

pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit]
MEANS = {"Hamiltonian": 0.0116 / SEEN}  # standard errors that are aimed at
MEAN, VARIANCE, MOST = 0.016 / SEEN, 0.1 / SEEN, 40_000


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
def test_pairings_leave_the_joint_law_invariant(group, seed):
    of_this_seed, wrong = functools.partial(data_sets, seed=seed), []
    goals = MEANS.get(group, MEAN), VARIANCE
    for number, pairing in enumerate(pairings(group)):
        world = world_of(pairing, of_this_seed)
        if world is None:
            continue
        verdict = judge(world, pairing.sampler, seed + number, data_seed=seed, goals=goals, most=MOST)
        print(f"{pairing} on {world}: {verdict}", flush=True)
        if verdict.worst > Z or verdict.of("mean") > 1.2 * goals[0] or verdict.of("variance") > 1.2 * goals[1]:
            wrong.append(f"{pairing} on {world}: {verdict}")
    assert not wrong, "\n".join(wrong)
