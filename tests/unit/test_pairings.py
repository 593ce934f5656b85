"""The law of pairings on a small scale, what it rejects, and that no component is left out of it.

`tests/statistical/test_pairings.py` judges all pairings at full size. Here are few replicates, enough for gross bugs:
means off by .25 standard deviations and variances by a third are seen with power .999. False alarms: abs(z) > 6.2,
5.6e-10 for each comparison.
"""

import functools
import re
import warnings

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import rules
from approxmcmc.contracts import AcceptanceTest, DiscreteTarget, Proposal, Sampler, Target as TargetRole
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.firefly import implicit_resampling
from approxmcmc.samplers.pdmp import zigzag
from tests.examples import PROPOSALS, SAMPLERS, TARGETS, TESTS
from tests.pairings import law
from tests.pairings.bugs import BUGS
from tests.pairings.law import Z, judge
from tests.pairings.table import FIELDS, GROUPS, pairings, world_of
from tests.pairings.worlds import WORLDS
from tests.planting import plain, plant

pytestmark = [pytest.mark.recompiles, pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")]
FEW = {"first": 120, "draws": 30, "thin": 4}
GROSS = [name for name in BUGS if name.startswith(("a proposal", "a mixture", "an estimate"))]
WALK = amc.RandomWalk(0.5)
RIGHT = {
    "every row": ("LogisticRegression", amc.MetropolisHastings(WALK, amc.ExactTest())),
    "few rows": ("ControlVariate", amc.MetropolisHastings(WALK, amc.acceptance.PoissonTest())),
    "bright rows": ("BoundedLikelihood", amc.Firefly(WALK, bound="own", z_update=amc.samplers.ImplicitResampling(0.9))),
    "events": ("LogisticRegression", SAMPLERS["ZigZag"][0]),
    "sites": ("BinaryMRF", amc.Gibbs()),
    "auxiliary data": ("ERGM", amc.Exchange(WALK)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RIGHT)
def test_a_pairing_leaves_the_joint_law_invariant(name, seed):
    world, sampler = RIGHT[name]
    verdict = judge(world, sampler, seed, **FEW)
    assert verdict.worst < Z, verdict


@pytest.mark.thorough
@pytest.mark.parametrize("name", GROSS)
def test_a_bug_is_rejected(name, seed):
    world, sampler = BUGS[name]
    verdict = judge(world, sampler, seed, **{**FEW, "first": 300})
    assert verdict.worst > Z, verdict


def softened():
    """Return logit(u), but 7/10 of it."""

    def soft(rng):
        u = rng.random()
        return 0.7 * np.log(u / (1.0 - u))

    return soft


PLANTED = {  # wrong functions in the place of right ones
    "bright rows": {
        implicit_resampling.go_bright_probability: lambda gap, q, q_bright: 0.1 * min(1.0, np.expm1(gap) / q)
    },
    "events": {zigzag.plan: lambda rng, flight: 0.7 * plain(zigzag.plan)(rng, flight)},
    "sites": {rules.logit_uniform: softened()},
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_rejected(name, seed, monkeypatch):
    plant(monkeypatch, PLANTED[name])
    world, sampler = RIGHT[name]
    verdict = judge(world, sampler, seed, **{**FEW, "first": 300})
    assert verdict.worst > Z, verdict


@pytest.mark.thorough
@pytest.mark.parametrize("name", FIELDS)
def test_a_matrix_leaves_the_law_of_its_states_invariant(name):
    """The transition matrix of each exact pairing that knows it, to rounding; of each site where steps sweep."""
    target, posterior = law.data_sets(name, 0)[0]
    shown = 0
    for pairing in (*pairings("SingleSite"), *pairings("Gibbs")):
        if world_of(pairing._replace(worlds=(name,)), functools.partial(law.data_sets, seed=0)) is None:
            continue
        for site in (None, *range(target.n_states.size)):
            try:
                matrix = pairing.sampler.transition_matrix(target, posterior.points, site=site)
            except (IncompatibleError, InvalidInputError):
                continue  # no matrix is known, of sweeps that begin anywhere or of tests that draw counts
            shown += 1
            np.testing.assert_allclose(posterior.weights @ matrix.probability, posterior.weights, atol=1e-13)
    assert shown >= 4


# -------------------------------------------------------------------------------------------------- nothing is left out


@functools.cache
def judged():
    """Return all pairings that are judged at full size, with their worlds, from few points of each prior."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(law, "POINTS", 64)
        worlds = {}

        def data_sets(world):
            if world not in worlds:
                made = WORLDS[world]
                theta = made.points(np.random.default_rng(0), 1)[0]
                worlds[world] = [(made.target(made.draw_data(np.random.default_rng(0), theta)), None)]
            return worlds[world]

        found = [(pairing, world_of(pairing, data_sets)) for group in GROUPS for pairing in pairings(group)]
    return [(pairing, world) for pairing, world in found if world is not None]


def parts(settings):
    """Yield all components among the settings of one, itself first."""
    yield settings
    for value in vars(settings).values():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, (Proposal, AcceptanceTest, Sampler)):
                yield from parts(item)


def reasons():
    """Yield each legal pairing of examples that does not leave the law invariant, and why."""
    walk = amc.RandomWalk(0.3)
    targets = {name: make() for name, make in TARGETS.items()}
    tested = [amc.MetropolisHastings(walk, test) for tests in TESTS.values() for test in tests]
    untested = [
        amc.MetropolisHastings(move, amc.acceptance.AlwaysAccept()) for moves in PROPOSALS.values() for move in moves
    ]
    for sampler in [*tested, *untested, *(each for samplers in SAMPLERS.values() for each in samplers)]:
        for target in targets.values():
            if isinstance(target, DiscreteTarget) and isinstance(sampler, amc.MetropolisHastings):
                continue
            try:
                sampler.build(target, audit_every=None)
            except (IncompatibleError, InvalidInputError):
                continue
            if why := sampler.why_not_invariant(target):
                yield sampler, target, why


@pytest.mark.thorough
def test_what_is_not_invariant_says_why_and_how_far_off():
    """The sentence names an error and what becomes of it, or that nothing is known."""
    found = list(reasons())
    assert len({type(part).__name__ for sampler, _, _ in found for part in parts(sampler)}) > 12
    for sampler, target, why in found:
        assert len(why) > 30, (sampler, target, why)
        assert re.search(r"bias|err|off by|vanish|divided|invariant from|known|sample the", why), (sampler, target, why)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("role", "examples"), [("proposal", PROPOSALS), ("test", TESTS), ("sampler", SAMPLERS), ("target", TARGETS)]
)
def test_every_component_is_judged_or_says_why_not(role, examples):
    """A new component that claims to leave the law invariant, alone or in a pairing, must be among the pairings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        met = {type(part).__name__ for pairing, _ in judged() for part in parts(pairing.sampler)}
        met |= {world for _, world in judged()}
        excused = {type(part).__name__ for sampler, target, _ in reasons() for part in (*parts(sampler), target)}
    missing = set(examples) - met
    assert missing <= excused, f"no {role} pairing of {missing - excused}: give it a world in tests/pairings/worlds.py"


@pytest.mark.thorough
def test_all_proposals_and_tests_meet_and_meet_all_forms():
    """Pairwise coverage of proposal, test and form, of what does not refuse each other."""
    pairs = [
        (type(p.sampler.proposal).__name__, type(p.sampler.test).__name__, world)
        for p, world in judged()
        if isinstance(p.sampler, amc.MetropolisHastings) and p.group in PROPOSALS
    ]
    moves, tests = {pair[0] for pair in pairs}, {pair[1] for pair in pairs} - {"MinibatchBarker", "SequentialTTest"}
    for move in moves - {"SingleSite"}:
        assert {pair[1] for pair in pairs if pair[0] == move} >= tests, move
        forms = {pair[2] for pair in pairs if pair[0] == move}
        assert forms >= (
            {"ControlVariate, influential rows"}
            if move == "SurrogateTransition"
            else {"LogisticRegression", "ControlVariate, influential rows"}
        ), move
    for test in tests:
        assert len({pair[2] for pair in pairs if pair[1] == test}) > 2, test


def test_every_world_is_a_target_of_the_examples():
    assert set(WORLDS) <= set(TARGETS)
    assert all(issubclass(type(made), TargetRole) for made in (make() for make in TARGETS.values()))
