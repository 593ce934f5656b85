"""A preset is a method by name: the pairing and the defaults that it stands for."""

import pytest

import approxmcmc as amc
from approxmcmc import presets

ONE = (500, None, None)  # batch_size, preconditioner, control_variate
EXPECTED = {
    "random_walk_metropolis": (amc.RandomWalk(1.0), amc.ExactTest()),
    "austerity": (amc.RandomWalk(1.0), amc.SequentialTTest(0.01, 500, 1.0)),
    "minibatch_barker": (amc.RandomWalk(1.0), amc.MinibatchBarker(1.0, 100)),
    "tuna": (amc.RandomWalk(1.0), amc.TunaTest(0.0)),
    "scalable_metropolis_hastings": (amc.RandomWalk(1.0), amc.FactorizedTest()),
    "scalable_subsampling": (amc.RandomWalk(1.0), amc.DelayedAcceptance(amc.PoissonTest())),
    "mala": (amc.Langevin(1.0), amc.ExactTest()),
    "sgld": (amc.StochasticGradientLangevin(0.3, *ONE), amc.AlwaysAccept()),
    "corrected_sgld": (amc.StochasticGradientLangevin(0.3, *ONE), amc.SequentialTTest(0.01, 500)),
    "sghmc": (amc.StochasticGradientHamiltonian(0.3, 1.0, 500, 1), amc.AlwaysAccept()),
    "sg_zigzag": (amc.StochasticGradientZigZag(0.3, 10, 1), amc.AlwaysAccept()),
    "amagold": (amc.StochasticGradientHamiltonian(0.3, 1.0, 500, 10), amc.ExactTest()),
}
NEED_A_STEP = ("sgld", "corrected_sgld", "sghmc", "sg_zigzag", "amagold")


@pytest.mark.parametrize("name", EXPECTED)
def test_the_defaults(name):
    given = (0.3,) if name in NEED_A_STEP else ()
    assert getattr(presets, name)(*given) == amc.MetropolisHastings(*EXPECTED[name])


def test_the_slice_sampler():
    assert presets.minibatch_slice() == amc.SliceSampler(amc.Slice(1.0), amc.SequentialTTest(0.01, 500))
    found = presets.minibatch_slice(0.2, epsilon=0.1, batch_size=7)
    assert found == amc.SliceSampler(amc.Slice(0.2), amc.SequentialTTest(0.1, 7))


@pytest.mark.parametrize(
    ("found", "proposal", "test"),
    [
        (presets.tuna(0.2, chi=0.3), amc.RandomWalk(0.2), amc.TunaTest(0.3)),
        (presets.mala(0.2, target_acceptance=0.6), amc.Langevin(0.2, target_acceptance=0.6), amc.ExactTest()),
        (
            presets.corrected_sgld(0.2, epsilon=0.1, batch_size=7, test_batch_size=9),
            amc.StochasticGradientLangevin(0.2, 7),
            amc.SequentialTTest(0.1, 9),
        ),
        (
            presets.sghmc(0.2, 3.0, batch_size=7, preconditioner=[1.0, 2.0]),
            amc.StochasticGradientHamiltonian(0.2, 3.0, 7, 1, [1.0, 2.0]),
            amc.AlwaysAccept(),
        ),
        (
            presets.amagold(0.2, 3.0, steps=4, batch_size=7),
            amc.StochasticGradientHamiltonian(0.2, 3.0, 7, 4),
            amc.ExactTest(),
        ),
        (presets.sg_zigzag(0.2, batch_size=7, steps=4), amc.StochasticGradientZigZag(0.2, 7, 4), amc.AlwaysAccept()),
    ],
    ids=lambda each: type(each).__name__,
)
def test_settings_go_where_they_belong(found, proposal, test):
    assert found == amc.MetropolisHastings(proposal, test)


def test_every_preset_is_here():
    mine = {name for name, each in vars(presets).items() if getattr(each, "__module__", "") == presets.__name__}
    assert mine == {*EXPECTED, "minibatch_slice"}
