"""Every pairing of target, proposal, test and sampler: it runs and keeps its books, or a sentence refuses it.

Members are taken from the rooms, so that a new one without an example fails here, and one with an example is paired
with everything. Chains run as plain Python.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

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
    Target as TargetRole,
)
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.sampling.chain import WatchedChain
from tests.examples import IN_OTHER_LIBRARIES, PROPOSALS, SAMPLERS, TARGETS, TESTS, term, user_target
from tests.planting import plant

EDGE = 0.25


# Targets that know no range of their terms.
UNBOUNDED = (
    "BatchTarget",
    "BayesianNetwork",
    "BinaryMRF",
    "BoundedLikelihood",
    "CloglogRegression",
    "ExponentialRegression",
    "GLMTarget",
    "GammaRegression",
    "GaussianMixture",
    "GroupedTarget",
    "LinearRegression",
    "NegativeBinomialRegression",
    "NormalGroups",
    "OrderedRegression",
    "PoissonRegression",
    "PredictorTarget",
    "ProbitRegression",
    "WeibullRegression",
)
# Targets that know no bound of their single terms; a factor's is its range.
WITHOUT_DIFFERENCES = tuple(name for name in UNBOUNDED if name not in ("BayesianNetwork", "BinaryMRF"))
# Tests that need a bound of every single term.
THINNED = (amc.acceptance.FactorizedTest, amc.acceptance.PoissonTest, amc.acceptance.TunaTest)


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
    """A second example of a member has its name, a comma, and what is different."""
    assert members(role) - set(IN_OTHER_LIBRARIES) == {name.partition(",")[0] for name in examples}


def variants(name):
    """Yield (description, function that makes the sampler) for every setting of its parts."""
    for example in SAMPLERS[name]:
        roles = {field.name for field in dataclasses.fields(example)}
        tests = [test for each in TESTS.values() for test in each] if "test" in roles else [None]
        moves = [move for each in PROPOSALS.values() for move in each] if "proposal" in roles else [None]
        if not isinstance(getattr(example, "proposal", amc.RandomWalk()), Proposal):
            moves = [None]  # Slice replaces it
        for move in moves:
            for test in tests:
                parts = {"proposal": move, "test": test}
                yield example, {role: part for role, part in parts.items() if part is not None}


class Run:
    """One chain, and what it has recorded."""

    def __init__(self, program, theta, seed):
        self.chain = program.start(theta, streams(seed_sequences(seed, 1)[0][0]), 4)
        self.program, self.draws, self.begun = program, np.empty((0, theta.size)), 0
        self.counts, self.values = np.empty((0, len(COUNT_NAMES)), np.int64), np.empty((0, len(VALUE_NAMES)))

    def advance(self, *pieces, thin=1):
        """Make so many steps, piece by piece, until one fails; a piece may end within a draw."""
        for n in pieces:
            rows = (self.begun + n) // thin
            draws = np.empty((rows, self.draws.shape[1]))
            counts, values = np.empty((rows, len(COUNT_NAMES)), np.int64), np.empty((rows, len(VALUE_NAMES)))
            done = self.chain.advance(n, thin, draws, counts, values)
            rows = (self.begun + done) // thin
            self.begun = (self.begun + done) % thin
            self.draws = np.vstack([self.draws, draws[:rows]])
            self.counts = np.vstack([self.counts, counts[:rows]])
            self.values = np.vstack([self.values, values[:rows]])
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
    timeless = [k for k, name in enumerate(VALUE_NAMES) if name not in ("perf_counter_diff", "thread_time_diff")]
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
    is_free = isinstance(sampler.test, amc.acceptance.AlwaysAccept)
    by_surrogate = isinstance(sampler.proposal, amc.SurrogateTransition)
    undecided = (gradients > 0) | (is_free and by_surrogate)  # a walk of the surrogate reads the influential rows
    assert (touched <= n_obs * (decided + thin * undecided)).all()
    if not by_surrogate:  # which evaluates the influential rows many times
        assert (evaluated <= 2 * n_obs * (decided + checks_of_bounds(run, thin))).all()
    assert (evaluated + gradients >= touched).all()
    assert (decided == (0 if is_free else thin)).all()
    assert (run.count("decision_rounds") <= n_obs * decided).all()


def checks_of_bounds(run, thin):
    """Return for each draw whether bounds were checked on many rows: after 1, 2, 4, 8, ... steps of a watched chain."""
    steps = [int(n).bit_length() for n in thin * np.arange(len(run.draws) + 1)]
    return isinstance(run.chain, WatchedChain) & (np.diff(steps) > 0)


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
    amc.proposals.Hamiltonian,
    amc.Langevin,
    amc.proposals.StochasticGradientFisherScoring,
    amc.proposals.StochasticGradientHamiltonian,
    amc.proposals.StochasticGradientLangevin,
    amc.proposals.StochasticGradientNoseHoover,
    amc.proposals.StochasticGradientZigZag,
)
# Without a density ratio, unless they have a fixed information.
UNCORRECTED = (
    amc.proposals.StochasticGradientFisherScoring,
    amc.proposals.StochasticGradientNoseHoover,
    amc.proposals.StochasticGradientZigZag,
)


def arrays(component):
    """Return the means, metrics and covariances of a component, which are of one dimension."""
    values = [getattr(component, field.name) for field in dataclasses.fields(component)]
    return [value for value in values if isinstance(value, np.ndarray)]


def must_run(parts, target):
    """Return whether Metropolis-Hastings has no reason to refuse a pairing, as the documentation has them."""
    move, test = parts["proposal"], parts["test"]
    if isinstance(target, (DoublyIntractableTarget, EstimatedTarget)):
        return False
    if move.proposes_states != isinstance(target, DiscreteTarget) or isinstance(move, amc.proposals.AdaptiveDirection):
        return False
    if not all(array.shape[0] == target.initial_point().size for member in move.members for array in arrays(member)):
        return False
    is_free = isinstance(test, amc.acceptance.AlwaysAccept)
    if isinstance(move, UNCORRECTED) and getattr(move, "information", None) is None and not is_free:
        return False
    if any(getattr(member, "batch_size", 1) > target.n_obs for member in move.members):
        return False  # an outcome of a linear regression is one term
    if isinstance(getattr(test, "test", test), THINNED) and type(target).__name__ in WITHOUT_DIFFERENCES:
        return False
    if any(isinstance(each, amc.SurrogateTransition) for each in move.members):
        return isinstance(target, SurrogateTarget)
    if is_free and any(member.target_acceptance is not None for member in move.members):
        return False
    if not isinstance(target, DifferentiableTarget) and any(isinstance(each, GRADIENTS) for each in move.members):
        return False
    if isinstance(test, amc.acceptance.BernsteinTest) and test.range == "target":
        return type(target).__name__ not in UNBOUNDED
    return True


def meetings():
    """Yield each sampler with each target; the session `tests` has all proposals and tests on one target."""
    for sampler, target in itertools.product(SAMPLERS, TARGETS):
        is_long = sampler == "MetropolisHastings" and target != "FunctionTarget"
        yield pytest.param(sampler, target, marks=pytest.mark.thorough if is_long else ())


@pytest.mark.recompiles
@pytest.mark.parametrize(("sampler", "target"), list(meetings()))
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
            whole = Run(program, theta, seed).advance(4 * thin, thin=thin)
            assert len(whole.draws) == 4, whole.chain.explain_failure()
            assert_books_are_kept(whole, built, getattr(posterior, "target", posterior).n_obs, thin)
            assert_same(whole, Run(program, theta, seed).advance(first, 4 * thin - first, thin=thin))

    check()


def poisoned(theta, data, i):
    """Return `book.loglik`, but NaN for the first datum beyond an edge."""
    return math.nan if i == 0 and theta[0] > EDGE else term(theta, data, i)


@pytest.mark.thorough
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
        whole, cut = (Run(program, np.zeros(2), 7).advance(30, thin=2) for _, program in pairings)
        assert_same(whole, cut, len(cut.draws))
        if len(cut.draws) < 15:
            failed.add(type(parts["test"]).__name__)
            assert "datum 0" in cut.chain.explain_failure(), parts
    assert failed == set(TESTS) - {"AlwaysAccept"}
