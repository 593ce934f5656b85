"""Every pairing that claims to leave its target's law invariant, by joint draws of parameters and data.

See `tests.pairings.law` for what is compared and `tests.pairings.table` for what is paired. One comparison fails beyond
6.2 standard errors, 5.6e-10; some 200 pairings with 6 to 21 functions each make fewer than 3000: 2e-6 for the family by
the normal law, and the tails of means of thousands of independent replicates are at most a few times those.

Power, .999 each, from the standard errors that are found: a posterior variance off by 10 %, asserted; means off by .016
posterior standard deviations where that takes at most 14 000 replicates of 800 steps, .032 asserted. Where 3 % of the
acceptances upwards are lost a walk is off by .034, Langevin steps by .036, pCN by .025, an independence sampler by .016
(measured); Hamiltonian trajectories, which cross the posterior at once, by .0116, and so are run longer. That loss is
seen in the decisions of each test themselves, whatever the proposal, and in those of exchange, of Firefly, in the turns
of piecewise deterministic samplers, and in the moves of samplers that keep draws: see `tests.pairings.balance`.
"""

import functools
import sys

import pytest

import approxmcmc as amc
from approxmcmc.samplers.auxiliary_variable import program, settings
from approxmcmc.samplers.auxiliary_variable.step import make_step
from approxmcmc.samplers.pdmp.bouncy_particle import BOUNCY
from approxmcmc.samplers.pdmp.program import PDMPProgram
from approxmcmc.samplers.pdmp.zigzag import ZIGZAG
from tests.examples import LAPLACE
from tests.pairings.balance import (
    LOST,
    balance_of,
    balance_of_firefly,
    balance_of_flights,
    balance_of_moves,
    balances,
    begin_with_estimate,
    begin_with_new_draws,
)
from tests.pairings.bugs import BUGS, BuggyTest, LosingZ, late, lopsided, lopsided_move, propose_pinned_lopsided
from tests.pairings.law import SEEN, Z, data_sets, judge
from tests.pairings.table import FORMS, GROUPS, INVARIANT, pairings, world_of

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.needs_jit,
    pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning"),
]
MEANS = {"Hamiltonian": 0.0116 / SEEN}  # standard errors that are aimed at
MEAN, VARIANCE, MOST = 0.016 / SEEN, 0.1 / SEEN, 14_000


@pytest.mark.parametrize("group", GROUPS)
def test_pairings_leave_the_joint_law_invariant(group, seed):
    of_this_seed, wrong = functools.partial(data_sets, seed=seed), []
    goals = MEANS.get(group, MEAN), VARIANCE
    for number, pairing in enumerate(pairings(group)):
        world = world_of(pairing, of_this_seed)
        if world is None:
            continue
        verdict = judge(world, pairing.sampler, seed + number, data_seed=seed, goals=goals, most=MOST)
        sys.stdout.write(f"{pairing} on {world}: {verdict}\n")
        if verdict.worst > Z or verdict.of("mean") > 2.0 * MEAN or verdict.of("variance") > 1.1 * VARIANCE:
            wrong.append(f"{pairing} on {world}: {verdict}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("test", INVARIANT, ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_acceptance_probabilities_balance(form, test, seed):
    for excess, error in balances(form, test, seed):
        sys.stdout.write(f"{test} on {form}: {excess:.4f} +- {error:.4f}\n")
        assert abs(excess) < Z * error
        assert SEEN * error < LOST


@pytest.mark.parametrize("test", [amc.ExactTest(), amc.acceptance.PoissonTest()], ids=repr)
def test_acceptances_that_are_lost_in_one_direction_are_seen(test, seed):
    lost = balances("ControlVariate", BuggyTest(test, "decide", lopsided), seed)
    assert max(abs(excess) / error for excess, error in lost) > Z


@pytest.mark.parametrize("world", ["ERGM", "Ising"])
def test_exchange_balances(world, seed):
    excess, error = balance_of(world, amc.Exchange, seed)
    assert abs(excess) < Z * error
    excess, error = balance_of(world, amc.Exchange, seed, propose_pinned_lopsided)
    assert abs(excess) > Z * error


def firefly(update):
    """Return the sampler; its proposal is pinned."""
    return amc.Firefly(amc.RandomWalk(0.1), bound="untuned", z_update=update)


@pytest.mark.parametrize(
    "update", [amc.samplers.ImplicitResampling(0.3), amc.samplers.ExplicitResampling(0.3)], ids=repr
)
def test_firefly_balances_and_keeps_the_law_of_bright_rows(update, seed):
    for excess, error in balance_of_firefly("LogisticRegression", firefly(update), seed):
        assert abs(excess) < Z * error


def test_losses_of_firefly_are_seen(seed):
    lost = balance_of_firefly(
        "LogisticRegression", firefly(amc.samplers.ImplicitResampling(0.3)), seed, propose_pinned_lopsided
    )[0]
    assert abs(lost.excess) > Z * lost.error
    lost = balance_of_firefly("LogisticRegression", firefly(LosingZ(amc.samplers.ImplicitResampling(0.3))), seed)[1]
    assert abs(lost.excess) > Z * lost.error


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "3 % late"])
@pytest.mark.parametrize(("dynamics", "setting"), [(ZIGZAG, 0.0), (BOUNCY, 0.5)], ids=["zigzag", "bouncy"])
def test_turns_balance(dynamics, setting, wrong, seed):
    flown = dynamics._replace(plan=late(dynamics.plan)) if wrong else dynamics
    settings = {"setting": setting, "who": "a process"}
    build = lambda target, spacing: PDMPProgram(target, LAPLACE, flown, spacing=spacing, **settings)  # noqa: E731
    excess, error = balance_of_flights("LogisticRegression", build, seed)
    assert (abs(excess) > Z * error) is wrong


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "3 % lost upwards"])
@pytest.mark.parametrize(
    ("world", "sampler", "begin"),
    [
        ("ERGM", amc.samplers.MALAExchange(0.2, n_auxiliary=2), begin_with_new_draws),
        ("Ising", amc.samplers.MALAExchange(0.2, n_auxiliary=2), begin_with_new_draws),
        ("EstimatedLikelihood", amc.samplers.PseudoMarginal(amc.RandomWalk(0.5)), begin_with_estimate),
    ],
    ids=["MALAExchange, ERGM", "MALAExchange, Ising", "PseudoMarginal"],
)
def test_moves_up_and_down_balance(world, sampler, begin, wrong, seed, monkeypatch):
    if wrong:
        for module in (program, settings):
            monkeypatch.setattr(module, "make_step", lambda move, *rest: make_step(lopsided_move(move), *rest))
    excess, error = balance_of_moves(world, sampler, begin, seed)
    sys.stdout.write(f"{sampler!r} on {world}: {excess:.4f} +- {error:.4f}\n")
    assert (abs(excess) > Z * error) is wrong


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_rejected(name, seed):
    world, sampler = BUGS[name]
    verdict = judge(world, sampler, seed, data_seed=seed, goals=(MEAN, VARIANCE), most=MOST)
    sys.stdout.write(f"{name}: {verdict}\n")
    assert verdict.worst > Z, verdict
