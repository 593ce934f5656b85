"""Every pairing of target, proposal, test and sampler: it runs and keeps its books, or a sentence refuses it.

Members are taken from the rooms, so that a new one without an example fails here, and one with an example is paired
with everything. Chains run as plain Python.
"""

import dataclasses
import math

import numba
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import approxmcmc as amc
from approxmcmc import acceptance, proposals, samplers, surrogate, targets
from approxmcmc.acceptance import barker_decision
from approxmcmc.contracts import (
    COUNT_NAMES,
    VALUE_NAMES,
    AcceptanceTest,
    DifferentiableTarget,
    DiscreteTarget,
    DoublyIntractableTarget,
    EstimatedTarget,
    Proposal,
    Sampler,
    SurrogateTarget,
)
from approxmcmc.contracts import Target as TargetRole
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests import langevin as book
from tests.models import logistic
from tests.planting import plant
from tests.unit.test_bayesian_network import weather
from tests.unit.test_mrf import mixed

N, EDGE = 12, 0.25
X = np.random.default_rng(0).normal(size=(N, 2))
SPINS = np.where(np.random.default_rng(1).random((3, 3)) < 0.5, -1, 1)


def log_poisson(eta, y):
    """Return a log density whose derivatives are taken by differences."""
    return y * eta - np.exp(eta)


term = numba.njit(book.loglik)


def no_gap(theta, data, i):
    """Return a lower bound of `book.loglik` that touches it."""
    return term(theta, data, i)


def log_bound(theta, sums):
    """Return the sum of the terms of `book.loglik`."""
    (sums,) = sums
    return -0.5 * (sums[0] - 2.0 * (sums[1] * theta[0] + sums[2] * theta[1]) + N * (theta[0] ** 2 + theta[1] ** 2))


@numba.njit
def estimate(rng, theta, data):
    """Return a noisy log-likelihood."""
    return -0.5 * ((theta - data[0][0]) ** 2).sum() + 0.1 * rng.standard_normal()


def estimate_ratio(rng, theta, proposed, data):
    """Return a noisy log ratio."""
    return estimate(rng, proposed, data) - estimate(rng, theta, data)


def user_target(loglik=book.loglik):
    """Return two normal means from functions of the user's, which know all that a target can."""
    return amc.Target(
        loglik, book.logprior, data=X, n_obs=N, dim=2, grad_loglik=book.grad_loglik, grad_logprior=book.grad_logprior,
        term_range=lambda theta, proposed: 10.0 * np.abs(proposed - theta).sum(), initial_point=np.zeros(2),
        difference_bound=(np.full(N, 10.0), lambda theta, proposed: np.abs(proposed - theta).sum()),
    )  # fmt: skip


def friends():
    """Return a model of a graph of six nodes."""
    graph = np.zeros((6, 6), dtype=int)
    for i, j in ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (1, 5)):
        graph[i, j] = graph[j, i] = 1
    return amc.targets.ERGM(graph, ["edges", "two_stars"], prior_scale=1.0)


FIT = {"center": np.zeros(2), "cov": 0.1 * np.eye(2)}
PROPOSALS = {
    "AdaptiveDirection": [amc.AdaptiveDirection(0.4, n_members=5)],
    "Hamiltonian": [amc.Hamiltonian(0.2), amc.Hamiltonian(0.2, preconditioner=[1.0, 2.0], target_acceptance=0.8)],
    "Independence": [amc.Independence(np.zeros(2), 0.1 * np.eye(2))],
    "Langevin": [amc.Langevin(0.05), amc.Langevin(0.05, cov=np.eye(2), target_acceptance=0.6)],
    "Mixture": [
        amc.Mixture([amc.RandomWalk(0.1), amc.Langevin(0.05), amc.RandomWalk(0.3, target_acceptance=0.4)]),
        amc.Mixture([amc.RandomWalk(0.1), amc.PreconditionedCrankNicolson(0.5, **FIT)]),
    ],
    "PreconditionedCrankNicolson": [amc.PreconditionedCrankNicolson(0.5, **FIT)],
    "RandomWalk": [amc.RandomWalk(0.3), amc.RandomWalk(0.3, target_acceptance=0.4), amc.RandomWalk(0.1 * np.eye(2))],
    "SingleSite": [amc.SingleSite()],
    "StochasticGradientFisherScoring": [amc.StochasticGradientFisherScoring(0.1, 6, np.ones(2))],
    "StochasticGradientHamiltonian": [
        amc.StochasticGradientHamiltonian(0.02, 20.0, 4, steps=2, control_variate=[0.1, 0.2]),
        amc.StochasticGradientHamiltonian(0.05, 1.0, 4, gradient_noise=None),
    ],
    "StochasticGradientLangevin": [
        amc.StochasticGradientLangevin(0.05, 4),
        amc.StochasticGradientLangevin(amc.DecreasingStep(0.05), 4, control_variate=[0.1, 0.2]),
    ],
    "StochasticGradientNoseHoover": [amc.StochasticGradientNoseHoover(0.05, 1.0, 4)],
    "StochasticGradientZigZag": [amc.StochasticGradientZigZag(0.05, 4, steps=2)],
    "SurrogateTransition": [amc.SurrogateTransition(), amc.SurrogateTransition("walk", steps=2)],
}
EARLY = amc.SequentialTTest(0.2, 4)
TESTS = {
    "AlwaysAccept": [amc.AlwaysAccept()],
    "AnnealedEpsilon": [amc.AnnealedEpsilon((0.1, 0.0), steps=(3,), test=EARLY)],
    "BernsteinTest": [amc.BernsteinTest(0.1, 4), amc.BernsteinTest(0.1, 4, range="observed", order="blocks")],
    "CheapestExactTest": [amc.CheapestExactTest()],
    "DelayedAcceptance": [
        amc.DelayedAcceptance(amc.ExactTest("barker")),
        amc.DelayedAcceptance(amc.PoissonTest()),
        amc.DelayedAcceptance(amc.SequentialTTest(0.2, 4, order="blocks")),
    ],
    "ExactTest": [amc.ExactTest(), amc.ExactTest("barker")],
    "FactorizedTest": [amc.FactorizedTest()],
    "MinibatchBarker": [amc.MinibatchBarker(batch_size=5), amc.MinibatchBarker(batch_size=4, order="blocks")],
    "PoissonTest": [amc.PoissonTest()],
    "SequentialTTest": [EARLY, amc.SequentialTTest(0.2, 4, 1.5, tol=0.05, order="blocks")],
    "TunaTest": [amc.TunaTest(0.01)],
}
LAPLACE = amc.targets.Laplace(np.zeros(2), 0.1 * np.eye(2))
SAMPLERS = {  # those with a setting `proposal` or `test` are paired with all of them
    "BouncyParticle": [amc.BouncyParticle(LAPLACE)],
    "Exchange": [amc.Exchange(amc.RandomWalk(0.1), n_auxiliary=2, auxiliary=amc.targets.Auxiliary(20))],
    "Firefly": [
        amc.Firefly(amc.RandomWalk(0.1), bound="untuned", z_update=amc.ImplicitZ(0.3)),
        amc.Firefly(amc.RandomWalk(0.1), bound="own", z_update=amc.ExplicitZ(0.3)),
        amc.Firefly(amc.Slice(0.5), bound="untuned"),
    ],
    "Gibbs": [amc.Gibbs(), amc.Gibbs(scan="random")],
    "MALAExchange": [amc.MALAExchange(0.1, noisy=True, n_auxiliary=2)],
    "MetropolisHastings": [amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())],
    "NoisyLangevin": [amc.NoisyLangevin(0.1)],
    "NoisyMetropolisHastings": [amc.NoisyMetropolisHastings(amc.RandomWalk(0.1))],
    "PoissonGibbs": [amc.PoissonGibbs(), amc.PoissonGibbs(3.0, metropolised=True, scan="random")],
    "PseudoMarginal": [amc.PseudoMarginal(amc.RandomWalk(0.1)), amc.PseudoMarginal(amc.RandomWalk(0.1), refresh=True)],
    "SliceSampler": [amc.SliceSampler(amc.Slice(0.5))],
    "ZigZag": [amc.ZigZag(LAPLACE)],
}
TARGETS = {
    "BayesianNetwork": weather,
    "BinaryMRF": mixed,
    "BoundedLikelihood": lambda: amc.targets.BoundedLikelihood(
        user_target(), no_gap, log_bound, np.array([(X**2).sum(), *X.sum(axis=0)])
    ),
    "ControlVariate": lambda: amc.ControlVariate(logistic(N, 2)),
    "CoreRows": lambda: amc.CoreRows(logistic(N, 2), core=[0, 5], at="mode"),
    "ERGM": friends,
    "EstimatedLikelihood": lambda: amc.targets.EstimatedLikelihood(estimate, book.logprior, dim=2, data=X),
    "EstimatedRatio": lambda: amc.targets.EstimatedRatio(estimate_ratio, book.logprior, dim=2, data=X),
    "GLMTarget": lambda: amc.targets.GLMTarget(log_poisson, X, np.ones(N), prior_scale=1.0),
    "GaussianMixture": lambda: amc.targets.GaussianMixture.simulated(N, random_seed=1),
    "Ising": lambda: amc.targets.Ising(SPINS, prior_scale=1.0),
    "LogisticRegression": lambda: logistic(N, 2),
    "PredictorTarget": lambda: amc.PredictorTarget(
        log_poisson, {"eta": {"beta": X[:, :1], "intercept": 1.0}}, np.ones(N)
    ),
    "PseudoLikelihood": lambda: amc.targets.PseudoLikelihood(friends()),
    "RobustRegression": lambda: amc.targets.RobustRegression(X, X[:, 0], df=3.0, prior_scale=1.0),
    "SoftmaxRegression": lambda: amc.targets.SoftmaxRegression(X[:, :1], np.arange(N) % 2, prior_scale=1.0),
    "Target": user_target,
}


# Targets that know no range of their terms.
UNBOUNDED = (
    "BayesianNetwork",
    "BinaryMRF",
    "BoundedLikelihood",
    "GLMTarget",
    "GaussianMixture",
    "PredictorTarget",
    "SoftmaxRegression",
)
# Targets that know no bound of their single terms; a factor's is its range.
WITHOUT_DIFFERENCES = tuple(name for name in UNBOUNDED if name not in ("BayesianNetwork", "BinaryMRF"))
# Tests that need a bound of every single term.
THINNED = (amc.FactorizedTest, amc.PoissonTest, amc.TunaTest)


def members(role):
    """Return the names of the classes that play a role, wherever they live."""
    rooms = (acceptance, proposals, samplers, surrogate, targets)
    found = [(name, getattr(room, name)) for room in rooms for name in room.__all__]
    return {name for name, each in found if isinstance(each, type) and issubclass(each, role)}


@pytest.mark.parametrize(
    ("role", "examples"),
    [(Proposal, PROPOSALS), (AcceptanceTest, TESTS), (Sampler, SAMPLERS), (TargetRole, TARGETS)],
    ids=["proposals", "acceptance", "samplers", "targets"],
)
def test_every_member_has_an_example(role, examples):
    assert members(role) == set(examples)


def variants(name):
    """Yield (description, function that makes the sampler) for every setting of its parts."""
    for example in SAMPLERS[name]:
        roles = {field.name for field in dataclasses.fields(example)}
        tests = [test for each in TESTS.values() for test in each] if "test" in roles else [None]
        moves = [move for each in PROPOSALS.values() for move in each] if "proposal" in roles else [None]
        if not isinstance(getattr(example, "proposal", amc.RandomWalk()), Proposal):
            moves = [None]  # Slice stands in its place
        for move in moves:
            for test in tests:
                parts = {"proposal": move, "test": test}
                yield example, {role: part for role, part in parts.items() if part is not None}


class Run:
    """One chain, and what it has recorded."""

    def __init__(self, program, theta, seed):
        self.chain = program.start(theta, streams(seed_sequences(seed, 1)[0][0]), 4)
        self.program, self.draws = program, np.empty((0, theta.size))
        self.counts, self.values = np.empty((0, len(COUNT_NAMES)), np.int64), np.empty((0, len(VALUE_NAMES)))

    def advance(self, *pieces, thin=1):
        """Make so many draws, piece by piece, until one fails."""
        for n in pieces:
            draws = np.empty((n, self.draws.shape[1]))
            counts, values = np.empty((n, len(COUNT_NAMES)), np.int64), np.empty((n, len(VALUE_NAMES)))
            done = self.chain.advance(n, thin, draws, counts, values)
            self.draws = np.vstack([self.draws, draws[:done]])
            self.counts = np.vstack([self.counts, counts[:done]])
            self.values = np.vstack([self.values, values[:done]])
            if done < n:
                break
        return self

    def count(self, name):
        """Return one column of the counts."""
        return self.counts[:, COUNT_NAMES.index(name)]

    def value(self, name):
        """Return one column of the values."""
        return self.values[:, VALUE_NAMES.index(name)]


def assert_same(one, other, n=None):
    """Two runs recorded the same, seconds apart."""
    timeless = [k for k, name in enumerate(VALUE_NAMES) if name != "perf_counter_diff"]
    np.testing.assert_array_equal(one.draws[:n], other.draws[:n])
    np.testing.assert_array_equal(one.counts[:n], other.counts[:n])
    np.testing.assert_array_equal(one.values[:n, timeless], other.values[:n, timeless])


def assert_books_are_kept(run, sampler, n_obs, thin):
    """Counts are within bounds, whatever the sampler; those of Metropolis-Hastings within tight ones."""
    assert (run.counts >= 0).all()
    assert np.isfinite(run.draws).all()
    assert set(run.count("accepted")) <= {0, 1}
    assert (run.count("wrong_accepts") <= run.count("wrong_decisions")).all()
    assert (run.count("wrong_decisions") <= run.count("decisions_audited")).all()
    assert (run.count("decisions_audited") <= run.count("decisions_made")).all()
    rate = run.value("acceptance_rate")
    assert ((rate >= 0.0) & (rate <= 1.0 + 1e-12)).all()
    recorded = {*run.program.count_names, *run.program.value_names}
    for name in COUNT_NAMES:
        assert name in (*recorded, "accepted") or not run.count(name).any(), f"{name} is written, and not declared"
    if not isinstance(sampler, amc.MetropolisHastings):
        return
    touched, evaluated = run.count("datapoints_touched"), run.count("likelihood_evaluations")
    gradients, decided = run.count("gradient_evaluations"), run.count("decisions_made")
    is_free = isinstance(sampler.test, amc.AlwaysAccept)
    by_surrogate = isinstance(sampler.proposal, amc.SurrogateTransition)
    undecided = (gradients > 0) | (is_free and by_surrogate)  # a walk of the surrogate reads its core
    assert (touched <= n_obs * (decided + thin * undecided)).all()
    if not by_surrogate:  # which evaluates the core many times
        assert (evaluated <= 2 * n_obs * decided).all()
    assert (evaluated + gradients >= touched).all()
    assert (decided == (0 if is_free else thin)).all()
    assert (run.count("decision_rounds") <= n_obs * decided).all()


def build(example, parts, target, audit_every=2):
    """Return sampler and program of a pairing; None where a sentence refuses it, which names a party."""
    try:
        sampler = dataclasses.replace(example, **parts)
        return sampler, sampler.build(target, audit_every=audit_every)
    except (IncompatibleError, InvalidInputError) as refusal:
        sentence = str(refusal)
    parties = [example, *parts.values(), *getattr(parts.get("proposal"), "members", ())]
    names = {type(each).__name__ for each in parties} | {each.__name__ for each in type(target).__mro__}
    assert any(name in sentence for name in names), f"{example!r}, {parts}, {target!r}: {sentence}"
    assert len(sentence) > 40
    return None


GRADIENTS = (
    amc.Hamiltonian,
    amc.Langevin,
    amc.StochasticGradientFisherScoring,
    amc.StochasticGradientHamiltonian,
    amc.StochasticGradientLangevin,
    amc.StochasticGradientNoseHoover,
    amc.StochasticGradientZigZag,
)
# Without a density ratio.
UNCORRECTED = (
    amc.StochasticGradientFisherScoring,
    amc.StochasticGradientNoseHoover,
    amc.StochasticGradientZigZag,
)


def must_run(parts, target):
    """Return whether Metropolis-Hastings has no reason to refuse a pairing, as the documentation has them."""
    move, test = parts["proposal"], parts["test"]
    if isinstance(target, (DoublyIntractableTarget, EstimatedTarget)):
        return False
    if move.proposes_states != isinstance(target, DiscreteTarget) or isinstance(move, amc.AdaptiveDirection):
        return False
    is_free = isinstance(test, amc.AlwaysAccept)
    if isinstance(move, UNCORRECTED) and not is_free:
        return False
    if isinstance(getattr(test, "test", test), THINNED) and type(target).__name__ in WITHOUT_DIFFERENCES:
        return False
    if any(isinstance(each, amc.SurrogateTransition) for each in move.members):
        return isinstance(target, SurrogateTarget)
    if is_free and any(member.target_acceptance is not None for member in move.members):
        return False
    if not isinstance(target, DifferentiableTarget) and any(isinstance(each, GRADIENTS) for each in move.members):
        return False
    if isinstance(test, amc.BernsteinTest) and test.range == "target":
        return type(target).__name__ not in UNBOUNDED
    return True


@pytest.mark.recompiles
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_pairing_runs_or_is_refused_by_a_sentence(sampler, target, monkeypatch):
    plant(monkeypatch, {})
    monkeypatch.setattr(barker_decision, "REPLICATIONS", 2)  # 64 are slow without the compiler
    posterior, legal = TARGETS[target](), []
    for example, parts in variants(sampler):
        pairing = build(example, parts, posterior)
        legal += [pairing] if pairing else []
        if isinstance(example, amc.MetropolisHastings):
            assert (pairing is not None) == must_run(parts, posterior), (parts, posterior)

    @settings(max_examples=2, phases=[Phase.generate])
    @given(seed=st.integers(0, 2**32), first=st.integers(0, 4), thin=st.integers(1, 2))
    def check(seed, first, thin):
        for built, program in legal:
            theta = np.asarray(posterior.initial_point(), dtype=float)
            whole = Run(program, theta, seed).advance(4, thin=thin)
            assert len(whole.draws) == 4, whole.chain.explain_failure()
            assert_books_are_kept(whole, built, getattr(posterior, "target", posterior).n_obs, thin)
            assert_same(whole, Run(program, theta, seed).advance(first, 4 - first, thin=thin))

    check()


def poisoned(theta, data, i):
    """Return `book.loglik`, but NaN for the first datum beyond an edge."""
    return math.nan if i == 0 and theta[0] > EDGE else term(theta, data, i)


@pytest.mark.recompiles
def test_a_datum_that_is_nan_ends_the_chain_at_the_last_whole_draw(monkeypatch):
    """Up to there the chain is the one without; the message says which datum, or that it was the gradient."""
    plant(monkeypatch, {})
    monkeypatch.setattr(barker_decision, "REPLICATIONS", 2)
    healthy, sick, failed = user_target(), user_target(poisoned), set()
    for example, parts in variants("MetropolisHastings"):
        pairings = [build(example, parts, target, audit_every=None) for target in (healthy, sick)]
        if None in pairings:
            continue
        whole, cut = (Run(program, np.zeros(2), 7).advance(15, thin=2) for _, program in pairings)
        assert_same(whole, cut, len(cut.draws))
        if len(cut.draws) < 15:
            failed.add(type(parts["test"]).__name__)
            assert "datum 0" in cut.chain.explain_failure(), parts
    assert failed == set(TESTS) - {"AlwaysAccept"}
