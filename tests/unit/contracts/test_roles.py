"""What the roles promise by default, and the small helpers that every room shares."""

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc import proposals, samplers, surrogate
from approxmcmc.contracts import (
    CompiledProposal,
    CompiledTarget,
    Component,
    Population,
    Proposal,
    Sampler,
    Target,
    Variables,
)
from approxmcmc.contracts.speaker import speaking
from approxmcmc.engine.checks import checked_integer, cov_of, is_approximation, is_integer, mode_of
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import equal
from approxmcmc.engine.terms.batches import batch_kernel, prior_kernel
from approxmcmc.errors import IncompatibleError, InvalidInputError

NO_MOVE = ("DecreasingStep",)  # a setting of proposals
NO_STEP = ("Slice", "ImplicitResampling", "ExplicitResampling")  # settings of Firefly and of SliceSampler


def _loglik(theta, data, i):
    return -0.5 * (data[0][i] - theta[0]) ** 2


def _flat(theta):
    return 0.0


class Normal(Target):
    """A target of a user's: what its role requires and no more."""

    def __init__(self):
        self.x = np.linspace(-1.0, 1.0, 20)
        self.n_obs, self.variables = self.x.size, Variables({"mu": ()})

    def initial_point(self):
        return np.zeros(1)

    def content_hash(self):
        return "normal"

    def compile(self):
        return CompiledTarget(batch_kernel(_loglik, (self.x,)), prior_kernel(_flat), (self.x,), self.n_obs)


@compiled
def _propose(rng, state, theta, out, count):
    out[0] = theta[0] + rng.standard_normal()
    return 0.0


class Walk(Component, Proposal):
    """A user's proposal is checked in the same way."""

    def build_proposal(self, target):
        return CompiledProposal(_propose, lambda: np.zeros(1))

    def to_dict(self):
        return {"kind": "Walk"}


@pytest.mark.parametrize("name", [name for name in proposals.__all__ if name not in NO_MOVE])
def test_every_proposal_plays_its_role(name):
    assert issubclass(getattr(proposals, name), Proposal)


def test_a_surrogate_transition_is_a_proposal():
    assert issubclass(surrogate.SurrogateTransition, Proposal)


@pytest.mark.parametrize("name", [name for name in samplers.__all__ if name not in NO_STEP])
def test_every_sampler_plays_its_role(name):
    role = getattr(samplers, name)
    assert not isinstance(role, type) or issubclass(role, Sampler)


@pytest.mark.recompiles
@pytest.mark.parametrize(
    "test",
    [
        amc.ExactTest(),
        pytest.param(amc.SequentialTTest(0.05, 5), marks=pytest.mark.recompiles),
        amc.acceptance.AlwaysAccept(),
    ],
)
def test_the_defaults_of_the_roles_are_enough_to_sample(test):
    sampler = amc.MetropolisHastings(Walk(), test)
    trace = amc.sample(Normal(), sampler, draws=10, tune=0, chains=1, random_seed=1, progressbar=False)
    assert dict(trace.posterior.sizes) == {"chain": 1, "draw": 10}
    assert "observed_data" not in trace or not trace["observed_data"].data_vars


def test_what_has_the_methods_but_not_the_role_is_refused():
    class Alike:
        build_proposal = Walk.build_proposal

    with pytest.raises(IncompatibleError, match="proposal must be a proposal"):
        amc.MetropolisHastings(Alike(), amc.ExactTest())
    with pytest.raises(IncompatibleError, match="proposal must be a proposal"):
        amc.MetropolisHastings(amc.RandomWalk, amc.ExactTest())


def test_a_mixture_of_mixtures_names_all_members_and_offers_the_first_start():
    walk, jump = amc.RandomWalk(0.1, target_acceptance=0.3), amc.proposals.Independence([5.0], cov=[1e-9])
    mixture = amc.proposals.Mixture([amc.proposals.Mixture([walk, amc.RandomWalk(1.0)]), jump])
    assert mixture.members[0] is walk
    assert len(mixture.members) == 3
    assert mixture.draw_start(np.random.default_rng(0)) == pytest.approx([5.0])
    assert amc.proposals.Mixture([walk, walk]).draw_start(np.random.default_rng(0)) is None
    with pytest.raises(IncompatibleError, match=r"target_acceptance=0\.3 tunes"):
        amc.MetropolisHastings(mixture, amc.acceptance.AlwaysAccept()).build(Normal())


def test_the_terms_of_a_site_have_no_sum_to_be_kept():
    annealed = amc.acceptance.AnnealedEpsilon((0.1, 0.0), (10,), amc.SequentialTTest(batch_size=5))
    with pytest.raises(IncompatibleError, match="give Gibbs a SequentialTTest"):
        annealed.build_test(Population(20, same_terms=False))
    assert amc.SequentialTTest(0.1, 5).build_test(Population(20)).is_audited


def test_approximations_and_arrays():
    fit = amc.numerics.Laplace([1.0, 2.0], np.eye(2))
    frame = pd.DataFrame(np.diag([1.0, 4.0]))  # whose cov and mode are methods
    assert is_approximation(fit)
    assert not is_approximation(frame)
    assert mode_of(fit).tolist() == mode_of([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert cov_of(frame).tolist() == [[1.0, 0.0], [0.0, 4.0]]
    assert mode_of(fit) is not fit.mode


@pytest.mark.parametrize("value", [True, 2.5, np.float64(2.0), "2", None, np.array([2, 3]), np.nan])
def test_no_integers(value):
    assert not is_integer(value)


def test_integers():
    assert checked_integer(np.int32(7), "n") == checked_integer(7.0, "n", whole_floats=True) == 7
    for value in (6, 7.5, np.inf, np.nan):
        with pytest.raises(InvalidInputError, match=r"^Toy: n must be an integer >= 7, found "), speaking("Toy"):
            checked_integer(value, "n", 7, whole_floats=True)


def test_equal_vectors():
    x = np.array([0.0, 1.0, 2.0])
    assert equal(x, x.copy())
    assert not equal(x, np.array([0.0, 1.0, 3.0]))
    assert not equal(np.array([np.nan]), np.array([np.nan]))
    assert equal(np.array([0.0]), np.array([-0.0]))


def test_a_target_around_one_without_a_pymc_model_says_whose_is_missing():
    bounded = amc.targets.BoundedLikelihood(Normal(), _gap, _bound, np.ones(1))
    with pytest.raises(IncompatibleError, match="Normal has no PyMC model"):
        bounded.to_pymc()


def _gap(theta, data, i):
    return 0.0


def _bound(theta, sums):
    return 0.0
