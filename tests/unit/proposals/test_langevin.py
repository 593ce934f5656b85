"""Langevin proposals: ranges and messages, costs as counted by an instrumented gradient, weights, what is refused."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, Component
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.proposals.minibatch_gradient import draw_minibatch, estimate_gradient, write_scores
from tests import langevin as book
from tests.models import logistic, normal_mean
from tests.planting import plain

COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])


def run(target, proposal, test, *, draws=12, **settings):
    sampler = amc.MetropolisHastings(proposal, test)
    return amc.sample(
        target, sampler, draws=draws, chains=1, random_seed=3, progressbar=False, **{"tune": 0, **settings}
    )  # fmt: skip


@pytest.mark.parametrize(
    "component",
    [
        amc.Langevin(0.1, cov=COVARIANCE, target_acceptance=0.574),
        amc.Langevin(0.1, preconditioner=[1.0, 2.0]),
        amc.proposals.StochasticGradientLangevin(amc.proposals.DecreasingStep(0.1, 10.0), 20, COVARIANCE, [0.0, 1.0]),
        amc.proposals.DecreasingStep(0.1, exponent=1.0),
        amc.proposals.StochasticGradientFisherScoring(2.0, 20, COVARIANCE),
    ],
)
def test_components_round_trip(component):
    assert Component.from_dict(component.to_dict()) == component


WRONG = [
    (lambda: amc.Langevin(0.0), "step_size is the variance of the noise"),
    (lambda: amc.Langevin([0.1, 0.2]), "go into preconditioner="),
    (lambda: amc.Langevin(0.1, cov=[1.0], preconditioner=[1.0]), "names of one matrix"),
    (lambda: amc.Langevin(0.1, cov=-np.eye(2)), "positive definite"),
    (lambda: amc.Langevin(0.1, target_acceptance=1.0), "strictly between 0 and 1"),
    (lambda: amc.proposals.StochasticGradientLangevin(0.1, 0), "batch_size must be a positive integer"),
    (lambda: amc.proposals.StochasticGradientLangevin(math.nan, 10), "step_size"),
    (
        lambda: amc.proposals.StochasticGradientLangevin(0.1, 10, control_variate=[[0.0]]),
        "control_variate must be a point",
    ),
    (lambda: amc.proposals.DecreasingStep(0.1, exponent=0.5), r"exponent must lie in \(0.5, 1\]"),
    (lambda: amc.proposals.DecreasingStep(0.1, offset=0.0), "offset must be at least 1"),
    (lambda: amc.proposals.DecreasingStep(0.1, offset=math.inf), "offset must be at least 1, found inf"),
    (lambda: amc.proposals.DecreasingStep(0.0), r"scale must be positive and finite, found 0\.0"),
    (lambda: amc.proposals.DecreasingStep(math.inf), "scale must be positive and finite, found inf"),
    (lambda: amc.proposals.DecreasingStep(0.1, exponent=1.01), "exponent must lie in .* found 1.01"),
    (lambda: amc.proposals.StochasticGradientFisherScoring(0.1, 1), "at least 2"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_ranges(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


REFUSED = [
    (amc.Langevin(0.1), normal_mean, "pass grad_loglik="),
    (amc.Langevin(0.1), amc.targets.alarm_network, "discrete states"),
    (amc.Langevin(0.1, cov=np.eye(2)), logistic, "the target has 3 parameters"),
    (amc.proposals.StochasticGradientLangevin(0.1, 301), logistic, "a minibatch of 301 cannot be drawn from 300 data"),
    (amc.proposals.StochasticGradientLangevin(0.1, 10, control_variate=[0.0]), logistic, "control_variate 1"),
    (amc.proposals.StochasticGradientFisherScoring(0.1, 10), logistic, r"pair it with AlwaysAccept\(\)"),
]


@pytest.mark.parametrize(("proposal", "make_target", "message"), REFUSED)
def test_impossible_pairs_are_refused_before_anything_runs(proposal, make_target, message):
    with pytest.raises(IncompatibleError, match=message):
        amc.MetropolisHastings(proposal, amc.ExactTest()).build(make_target(), audit_every=None)


def test_information_of_too_few_data_is_refused():
    with pytest.raises(IncompatibleError, match="cannot estimate the information of 3 parameters"):
        amc.proposals.StochasticGradientFisherScoring(0.1, 3).build_unadjusted(logistic())


@pytest.mark.recompiles
def test_information_that_minibatches_leave_singular_is_named():
    """A rare predictor is 0 in a minibatch of 10: the gradients are finite, and what fails is their covariance."""
    X = np.zeros((300, 2))
    X[:, 0], X[-1, 1] = np.linspace(-1.0, 1.0, 300), 1.0
    target = amc.targets.LogisticRegression(X, np.arange(300) % 2)
    with pytest.raises(NotFiniteError, match=r"information .* singular, of rank 1 for 2 parameters.*noise_matrix"):
        run(target, amc.proposals.StochasticGradientFisherScoring(1.0, 10), amc.acceptance.AlwaysAccept())
    run(target, amc.proposals.StochasticGradientFisherScoring(1.0, 10, np.ones(2)), amc.acceptance.AlwaysAccept())


class Counter:
    """A gradient kernel that counts the gradients it is asked for, and which data they are of."""

    def __init__(self, kernel):
        self.kernel, self.evaluations, self.touched = kernel, 0, set()

    def __call__(self, theta, data, order, lo, hi, out):
        self.evaluations += hi - lo
        self.touched |= set(order[lo:hi].tolist() or range(lo, hi))
        self.kernel(theta, data, order, lo, hi, out)


@pytest.mark.parametrize(
    ("proposal", "unadjusted"),
    [
        (amc.Langevin(0.03), False),
        (amc.Langevin(0.03), True),
        (amc.proposals.StochasticGradientLangevin(0.03, 7), False),
        (amc.proposals.StochasticGradientLangevin(0.03, 7), True),
        (amc.proposals.StochasticGradientLangevin(0.03, 7, control_variate=[0.3, 0.1]), False),
        (amc.proposals.StochasticGradientLangevin(0.03, 7, control_variate=[0.3, 0.1]), True),
        (amc.proposals.StochasticGradientFisherScoring(0.03, 7), True),
        (amc.proposals.StochasticGradientHamiltonian(0.03, 1.0, 7), True),
        (
            amc.proposals.StochasticGradientHamiltonian(0.03, 1.0, 7, control_variate=[0.3, 0.1], gradient_noise=None),
            True,
        ),
        (amc.proposals.StochasticGradientNoseHoover(0.03, 1.0, 7, control_variate=[0.3, 0.1]), True),
    ],
)
def test_costs_are_what_an_instrumented_gradient_counts(proposal, unadjusted, rng):
    target = book.normal_means(30, 2)
    part = (proposal.build_unadjusted if unadjusted else proposal.build_proposal)(target)
    propose, theta, out, state = plain(part.propose), np.zeros(2), np.empty(2), part.make_state()
    reader = "gradient" if isinstance(proposal, amc.Langevin) else "minibatch"
    counter = Counter(getattr(state, reader).add_gradient)
    state = state._replace(**{reader: getattr(state, reader)._replace(add_gradient=counter)})
    for step in range(5):
        counter.evaluations, counter.touched = 0, set()
        count = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        propose(rng, state, theta, out, count)
        assert count[COUNT_NAMES.index("gradient_evaluations")] == counter.evaluations > 0
        assert count[COUNT_NAMES.index("datapoints_touched")] == len(counter.touched)
        theta = out.copy() if step % 2 else theta


@pytest.mark.recompiles
@pytest.mark.parametrize("dim", [1, 2])
def test_a_control_variate_leaves_no_noise_where_all_terms_have_one_curvature(dim, rng):
    """The gradient of any minibatch is that of all data, and the scores are equal."""
    target, anchor, theta = book.normal_means(30, dim), np.full(dim, 0.1), np.full(dim, 0.4)
    part = amc.proposals.StochasticGradientLangevin(0.03, 7, control_variate=anchor).build_unadjusted(target)
    minibatch, count = part.make_state().minibatch, np.zeros(len(COUNT_NAMES), dtype=np.int64)
    found, covariance = np.empty(dim), np.empty((dim, dim))
    plain(draw_minibatch)(rng, minibatch, count)
    plain(estimate_gradient)(minibatch, theta, found, count)
    np.testing.assert_allclose(found, target.data[0].sum(axis=0) - 30.01 * theta, rtol=1e-12)
    plain(write_scores)(minibatch, theta, found, covariance, np.empty(dim))
    np.testing.assert_allclose(found, anchor - theta, rtol=1e-12)
    np.testing.assert_allclose(covariance, 0.0, atol=1e-15)


@pytest.mark.parametrize(
    "proposal",
    [
        amc.Langevin(0.03),
        amc.proposals.StochasticGradientLangevin(0.03, 7),
        amc.proposals.StochasticGradientHamiltonian(0.03, 1.0, 7, gradient_noise=None),
        amc.proposals.StochasticGradientNoseHoover(0.03, 1.0, 7),
    ],
)
def test_without_a_test_a_step_says_only_whether_it_is_finite(proposal, rng):
    part = proposal.build_unadjusted(book.normal_means(30, 2))
    for theta, said in ((0.1, 0.0), (1e308, math.nan)):
        with np.errstate(all="ignore"):
            rest = np.full(2, theta), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
            np.testing.assert_equal(plain(part.propose)(rng, part.make_state(), *rest), said)


@pytest.mark.recompiles
def test_a_step_costs_one_full_gradient_after_the_first():
    trace = run(logistic(50), amc.Langevin(0.01), amc.ExactTest())
    stats = trace.sample_stats
    assert stats["gradient_evaluations"].values[0].tolist() == [100] + 11 * [50]
    assert stats["datapoints_touched"].values[0].tolist() == 12 * [100]  # N by the proposal, N by the test


@pytest.mark.recompiles
def test_weights_are_the_step_sizes_of_all_steps():
    steps = amc.proposals.DecreasingStep(0.05, offset=2.0, exponent=0.6)
    proposal = amc.proposals.StochasticGradientLangevin(steps, 10)
    trace = run(logistic(50), proposal, amc.acceptance.AlwaysAccept(), draws=6, tune=5, thin=3)
    expected = [steps.at(5 + 3 * (k + 1) - 1) for k in range(6)]
    np.testing.assert_allclose(trace.sample_stats["weight"].values[0], expected, rtol=1e-14)


@pytest.mark.recompiles
def test_constant_steps_have_no_weights_and_set_up_is_booked_apart():
    proposal = amc.proposals.StochasticGradientLangevin(0.01, 10, control_variate=np.zeros(3))
    trace = run(logistic(50), proposal, amc.acceptance.AlwaysAccept())
    assert "weight" not in trace.sample_stats
    assert trace.sample_stats.attrs["setup_gradient_evaluations"] == 50
    assert trace.sample_stats["gradient_evaluations"].values[0].tolist() == 12 * [20]


@pytest.mark.recompiles
@pytest.mark.needs_jit
def test_the_step_is_tuned_to_the_wanted_acceptance():
    proposal = amc.Langevin(1e-4, target_acceptance=0.6)
    trace = run(logistic(50), proposal, amc.ExactTest(), draws=2000, tune=1000)
    assert abs(float(trace.sample_stats["acceptance_rate"].mean()) - 0.6) < 0.08
    assert trace.sample_stats.attrs["adapted_step_size"][0] > 1e-3


def half_line(theta):
    return -theta[0] if theta[0] > 0.0 else -math.inf


def on_half_line():
    x = np.random.default_rng(0).normal(0.1, 1.0, size=(20, 1))
    return amc.FunctionTarget(
        book.loglik, half_line, data=x, n_obs=20, dim=1, grad_loglik=book.grad_loglik, initial_point=[0.5]
    )  # fmt: skip


@pytest.mark.recompiles
def test_outside_the_support_a_test_rejects_and_sgld_stops():
    trace = run(on_half_line(), amc.Langevin(0.2), amc.ExactTest(), draws=60, initvals=np.array([0.2]))
    assert (trace.posterior["theta"].values > 0.0).all()
    assert not trace.sample_stats["accepted"].values.all()
    with pytest.raises(NotFiniteError, match="gradient of the proposal"):
        run(
            on_half_line(),
            amc.Langevin(0.2),
            amc.acceptance.AlwaysAccept(),
            draws=1,
            tune=200,
            initvals=np.array([0.01]),
        )
