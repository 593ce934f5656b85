"""Couplings of exact kernels: each chain keeps its own law, and two that have met stay together."""

import functools
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Streams
from approxmcmc.couplings.kernels import coupling_of
from approxmcmc.engine.compiler.compile import config
from approxmcmc.errors import IncompatibleError
from approxmcmc.proposals.covariance import couple_noise
from approxmcmc.samplers.default_kernel import default_kernel
from tests.intractable import five_values
from tests.models import logistic
from tests.planting import plain

pytestmark = pytest.mark.recompiles
X0, Y0 = np.array([0.1, -0.2, 0.3]), np.array([0.25, 0.1, -0.1])


@functools.cache
def target():
    return logistic(25)


@functools.cache
def fit():
    return amc.laplace(target())


PROPOSALS = {
    "walk": lambda: amc.RandomWalk([0.1, 0.2, 0.3]),
    "walk, covariance": lambda: amc.RandomWalk(0.8, preconditioner=fit()),
    "independence": lambda: amc.proposals.Independence(fit()),
    "pCN": lambda: amc.proposals.PreconditionedCrankNicolson(0.6, fit()),
    "Langevin": lambda: amc.Langevin(0.05),
    "Langevin, covariance": lambda: amc.Langevin(0.6, preconditioner=fit()),
    "mixture": lambda: amc.proposals.Mixture(
        [amc.proposals.Independence(fit()), amc.RandomWalk(0.2)], weights=[0.5, 0.5]
    ),
}
each_proposal = pytest.mark.parametrize("name", PROPOSALS)
# Python cannot hand the kernels in a state to a compiled function; that of a chain, which can, is tested below.
each_proposal_by_hand = pytest.mark.parametrize(
    "name", [name for name in PROPOSALS if config.DISABLE_JIT or "Langevin" not in name]
)


class Both:
    """A proposal for two chains, from the same two points again and again."""

    def __init__(self, name):
        self.built = PROPOSALS[name]().build_proposal(target())
        self.count, self.noise = np.zeros(len(COUNT_NAMES), np.int64), np.empty((2, 3))

    def propose(self, rng, theta):
        out = np.empty(3)
        return out, self.built.propose(rng, self.built.make_state(), theta, out, self.count)

    def couple(self, rng, x, y):
        x_new, y_new, states = np.empty(3), np.empty(3), (self.built.make_state(), self.built.make_state())
        ratios = self.built.couple(rng, *states, x, y, x_new, y_new, self.noise, self.count)
        return x_new, y_new, ratios


@each_proposal_by_hand
def test_the_first_chain_proposes_as_ever(name):
    both = Both(name)
    for seed in range(5):
        alone, ratio = both.propose(np.random.default_rng(seed), X0)
        x_new, _, ratios = both.couple(np.random.default_rng(seed), X0, Y0)
        assert x_new.tobytes() == alone.tobytes() and ratios[0] == ratio


@each_proposal_by_hand
def test_chains_that_have_met_stay_together(name):
    both = Both(name)
    for seed in range(20):
        x_new, y_new, ratios = both.couple(np.random.default_rng(seed), X0, X0.copy())
        assert x_new.tobytes() == y_new.tobytes() and ratios[0] == pytest.approx(ratios[1], abs=1e-12)


@pytest.mark.thorough
@each_proposal_by_hand
def test_the_second_chain_has_its_own_law(name):
    """Means and covariances of y' - y against those of proposals from y alone; false fail 12 x 6e-7 for each."""
    both, rng, n = Both(name), np.random.default_rng(1), 800
    coupled = np.array([both.couple(rng, X0, Y0)[1] for _ in range(n)])
    alone = np.array([both.propose(rng, Y0)[0] for _ in range(n)])
    rows, columns = np.triu_indices(3)
    features = [np.hstack([v, (v[:, rows] - Y0[rows]) * (v[:, columns] - Y0[columns])]) for v in (coupled, alone)]
    error = np.sqrt(sum(f.var(axis=0) for f in features) / n)
    assert (np.abs(features[0].mean(axis=0) - features[1].mean(axis=0)) < 5.0 * error).all()


@each_proposal_by_hand
def test_the_density_ratio_of_the_second_chain(name):
    """log q(y|y') - log q(y'|y): as the same chain would have it that stands there and goes there."""
    both = Both(name)
    if name == "mixture":
        pytest.skip("the ratio is that of the member that proposed")
    ratio_of = RATIOS[name]
    for seed in range(10):
        x_new, y_new, ratios = both.couple(np.random.default_rng(seed), X0, Y0)
        assert ratios == pytest.approx((ratio_of(X0, x_new), ratio_of(Y0, y_new)), abs=1e-9)


def test_both_chains_make_the_step_that_tuning_has_found():
    built = amc.Langevin(0.05, target_acceptance=0.574).build_proposal(target())
    states, x_new, y_new = (built.make_state(), built.make_state()), np.empty(3), np.empty(3)
    for state in states:
        built.restore(state, {"step_size": 0.1})
    rest = X0, Y0, x_new, y_new, np.empty((2, 3)), np.zeros(len(COUNT_NAMES), np.int64)
    ratios = plain(built.couple)(np.random.default_rng(1), *states, *rest)
    expected = [langevin_ratio(here, there, 0.1, np.eye(3)) for here, there in ((X0, x_new), (Y0, y_new))]
    assert ratios == pytest.approx(expected, abs=1e-9)


def normal_ratio(here, there):
    def log_density(v):
        return -0.5 * (v - fit().mode) @ fit().precision @ (v - fit().mode)

    return log_density(here) - log_density(there)


def langevin_ratio(here, there, alpha, M):
    def gradient(theta):
        known, out = target().compile_gradient(), np.zeros(3)
        known.add_gradient(theta, known.data, np.empty(0, np.int64), 0, known.n_obs, out)
        known.add_prior_gradient(theta, out)
        return out

    def log_q(a, b):
        v = b - a - 0.5 * alpha * M @ gradient(a)
        return -0.5 * v @ np.linalg.solve(M, v) / alpha

    return log_q(there, here) - log_q(here, there)


RATIOS = {
    "walk": lambda here, there: 0.0,
    "walk, covariance": lambda here, there: 0.0,
    "independence": normal_ratio,
    "pCN": normal_ratio,
    "Langevin": lambda here, there: langevin_ratio(here, there, 0.05, np.eye(3)),
    "Langevin, covariance": lambda here, there: langevin_ratio(here, there, 0.6, fit().cov),
}


def test_reflection_is_maximal():
    """Two standard normals whose means are 1 apart are equal with probability 2 Phi(-1/2) = .617; 10 000 draws."""
    rng, same = np.random.default_rng(3), 0
    for _ in range(10_000):
        xi, z = rng.standard_normal(1), np.ones(1)
        before = xi.copy()
        if couple_noise(rng, xi, z):
            same += 1
            assert xi == before
        else:
            assert xi == -before
    assert abs(same / 10_000 - 0.6171) < 5.0 * math.sqrt(0.617 * 0.383 / 10_000)


def network():
    return amc.targets.BayesianNetwork({"a": [0.2, 0.5, 0.3], "b": [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]}, {"b": ["a"]})


EXACT = {
    "walk, metropolis": lambda: (target(), amc.MetropolisHastings(amc.RandomWalk(0.3), amc.ExactTest()), X0, Y0),
    "walk, barker": lambda: (target(), amc.MetropolisHastings(amc.RandomWalk(0.3), amc.ExactTest("barker")), X0, Y0),
    "sites": lambda: (
        network(), amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest("barker")), np.zeros(2), np.ones(2)
    ),
    "exchange": lambda: (five_values(), amc.Exchange(amc.RandomWalk(0.9)), np.array([0.4]), np.array([-0.6])),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_a_chain_alone_makes_the_steps_of_the_sampler(name):
    """X runs ahead as the exact chain does, bit for bit, when both read one stream."""
    of, sampler, start, other = EXACT[name]()
    program = sampler.build(of, audit_every=None)
    rng = np.random.default_rng(5)
    chain = program.start(start, Streams(rng, rng, rng, rng, rng), 0)
    draws = np.empty((20, start.size))
    chain.advance(20, 1, draws, np.empty((20, len(COUNT_NAMES)), np.int64), np.empty((20, len(VALUE_NAMES))))
    assert (draws[1:] != draws[:-1]).any()
    coupling = coupling_of(of, sampler)
    for steps in (1, 7, 20):
        found = coupling.meet(np.random.default_rng(5), start, other, steps, steps + 1)
        x = found.paths[0, 0] if found.time != steps else other  # which did not move, and X came there
        assert x.tobytes() == draws[steps - 1].tobytes()


@pytest.mark.parametrize("name", ["sites", "exchange"])
def test_discrete_and_intractable_chains_meet(name):
    of, sampler, x, y = EXACT[name]()
    coupling = coupling_of(of, sampler)
    found = [coupling.meet(np.random.default_rng(seed), x, y, 0, 2000) for seed in range(5)]
    assert all(each.met and (each.paths[0] != each.paths[1]).any(axis=1).all() for each in found)
    bound = amc.bounds.couplings(of, sampler, lag=20, n_couplings=20, random_seed=1, progressbar=False)
    assert bound.attrs["unmet"] == 0 and float(bound.meeting_time.min()) >= 20


@each_proposal
def test_coupled_chains_meet(name):
    coupling = coupling_of(target(), amc.MetropolisHastings(PROPOSALS[name](), amc.ExactTest()))
    for seed in range(3):
        found = coupling.meet(np.random.default_rng(seed), X0, Y0, 0, 3000)
        assert found.met and found.paths.shape == (2, found.time, 3)
        assert found.paths[:, 0].tolist() == [X0.tolist(), Y0.tolist()]
        assert (found.paths[0] != found.paths[1]).any(axis=1).all()  # every pair before the meeting is one that differs


def test_unmet_chains_are_told():
    coupling = coupling_of(target(), amc.MetropolisHastings(amc.RandomWalk(0.01), amc.ExactTest()))
    found = coupling.meet(np.random.default_rng(0), X0, Y0, 0, 5)
    assert not found.met and found.paths.shape == (2, 5, 3)


def test_one_pass_for_a_common_proposal():
    coupling = coupling_of(target(), amc.MetropolisHastings(amc.proposals.Independence(fit()), amc.ExactTest()))
    found = coupling.meet(np.random.default_rng(0), X0, Y0, 0, 100)
    assert found.passes == found.time


class TestSurrogate:
    """Chains that move by the surrogate of influential rows: a category of four equal responses makes a wall."""

    @functools.cached_property
    def split(self):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=(300, 2)), np.arange(300) < 4])
        y = (rng.random(300) < 1.0 / (1.0 + np.exp(-X[:, 0]))) | (X[:, 2] == 1)
        return amc.ControlVariate(amc.targets.LogisticRegression(X, y.astype(int), prior_scale=5.0), always_read="auto")

    @pytest.mark.thorough
    @pytest.mark.skipif(not config.DISABLE_JIT, reason="kernels in a state are for compiled callers")
    def test_together_they_move_as_one_does(self):
        known = self.split.compile_surrogate("hmc+walls")
        assert known.normal_law is None
        count, start = np.zeros(len(COUNT_NAMES), np.int64), self.split.pilot.draws[0]

        def at_start():
            state = known.make_state()
            state.value[0] = state.log_density(start)
            return state

        for seed in range(5):
            alone, x, y = start.copy(), start.copy(), start.copy()
            known.move(np.random.default_rng(seed), at_start(), alone, count)
            known.move_both(np.random.default_rng(seed), at_start(), at_start(), x, y, count)
            assert alone.tobytes() == x.tobytes() == y.tobytes()

    @pytest.mark.thorough
    @pytest.mark.skipif(not config.DISABLE_JIT, reason="kernels in a state are for compiled callers")
    def test_together_they_are_weighed_as_one_is(self):
        proposal, start = amc.SurrogateTransition().build_proposal(self.split), self.split.pilot.draws[0]
        count, ends, noise = np.zeros(len(COUNT_NAMES), np.int64), np.empty((3, start.size)), np.empty((2, start.size))
        states = [proposal.make_state() for _ in range(3)]
        alone = proposal.propose(np.random.default_rng(1), states[0], start, ends[0], count)
        both = proposal.couple(np.random.default_rng(1), *states[1:], start, start.copy(), *ends[1:], noise, count)
        assert both == pytest.approx((alone, alone)) and abs(alone) > 0.01
        np.testing.assert_array_equal(ends[1:], ends[[0, 0]])

    @pytest.mark.thorough
    def test_short_steps_let_them_meet_where_transitions_never_do(self):
        mixed = amc.SurrogateTransition().with_meetings(self.split)
        assert isinstance(mixed, amc.proposals.Mixture) and isinstance(mixed.proposals[1], amc.RandomWalk)
        all_light, proposal = amc.ControlVariate(target(), always_read=[], at="mode"), amc.SurrogateTransition()
        assert proposal.with_meetings(all_light) is proposal  # draws from a normal law, the same for both

    @pytest.mark.thorough
    def test_they_meet(self):
        coupling = coupling_of(self.split, amc.MetropolisHastings(amc.SurrogateTransition()))
        start = self.split.pilot.draws
        found = [coupling.meet(np.random.default_rng(k), start[k], start[-1 - k], 0, 300) for k in range(3)]
        assert all(each.met for each in found)


def test_an_intractable_model_without_exact_draws_is_refused():
    ring = np.roll(np.eye(20, dtype=int), 1, axis=0)
    graph = amc.targets.ERGM(ring + ring.T, ("edges", "triangles"), prior_scale=5.0)
    with pytest.raises(IncompatibleError, match="so biases and bounds are not available"):
        coupling_of(graph, amc.Exchange(amc.RandomWalk(0.1)))


def test_what_has_no_coupling_is_refused():
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1, target_acceptance=0.3), amc.ExactTest())
    with pytest.raises(IncompatibleError, match="must not adapt"):
        coupling_of(target(), sampler)
    sgld = amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(0.01, batch_size=10), amc.acceptance.AlwaysAccept()
    )
    with pytest.raises(IncompatibleError, match="no coupling is known"):
        coupling_of(target(), sgld)
    mixed = amc.MetropolisHastings(amc.proposals.Mixture([amc.RandomWalk(0.1), sgld.proposal]), amc.ExactTest())
    with pytest.raises(IncompatibleError, match="no coupling is known"):
        coupling_of(target(), mixed)


def test_default_kernel_of_expanded_terms_is_that_of_the_plain_target():
    assert default_kernel(amc.ControlVariate(target()), X0[None])[0] is target()
