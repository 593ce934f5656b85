"""What a function of a target returns is checked: one real number for an estimate or a term, or an error."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.errors import CompilationError, InvalidInputError, NotFiniteError, SamplingWarning
from approxmcmc.targets import BatchTarget, EstimatedLikelihood, EstimatedRatio, FunctionTarget


def log_prior(theta):
    return -0.5 * theta[0] ** 2


def estimate(rng, theta, data):
    return -0.5 * theta[0] ** 2 + 0.1 * rng.standard_normal()


ONE_NUMBER = {
    "a complex number": (1.0 + 1.0j, "found complex of shape"),
    "a complex number of NumPy": (np.complex128(1.0 + 1.0j), "found complex128 of shape"),
    "text": ("1.5", "found str of shape"),
    "None": (None, "found NoneType of shape"),
    "a vector": (np.ones(1), r"found ndarray of shape \(1,\)"),
    "an array without axes": (np.array(1.0), r"found ndarray of shape \(\)"),
    "a list": ([1.0], r"found list of shape \(1,\)"),
}


@pytest.mark.parametrize(("value", "match"), ONE_NUMBER.values(), ids=ONE_NUMBER)
class TestWhatIsNoNumber:
    def test_of_an_estimated_likelihood(self, value, match):
        with pytest.raises(CompilationError, match=f"EstimatedLikelihood: estimate must return one float, {match}"):
            EstimatedLikelihood(lambda rng, theta, data: value, log_prior, dim=1)

    def test_of_an_estimated_ratio(self, value, match):
        with pytest.raises(CompilationError, match=f"EstimatedRatio: estimate must return one float, {match}"):
            EstimatedRatio(lambda rng, theta, proposed, data: value, log_prior, dim=1)

    def test_of_a_prior(self, value, match):
        with pytest.raises(CompilationError, match=f"EstimatedLikelihood: logprior must return one float, {match}"):
            EstimatedLikelihood(estimate, lambda theta: value, dim=1)

    def test_of_terms(self, value, match):
        with pytest.raises(CompilationError, match=f"FunctionTarget: loglik must return one float, {match}"):
            FunctionTarget(lambda theta, data, i: value, log_prior, data=np.zeros(3), n_obs=3, dim=1)


@pytest.mark.parametrize("value", [1.0 + 1.0j, "1.5", None, np.ones(1), [1.0], True])
def test_an_exact_log_likelihood_that_is_no_number_raises_before_a_run(value):
    with pytest.raises(CompilationError, match=r"EstimatedLikelihood: log_likelihood\(theta\) must return one float"):
        EstimatedLikelihood(estimate, log_prior, dim=1, log_likelihood=lambda theta: value)


def test_an_exact_log_likelihood_that_fails_is_explained():
    with pytest.raises(InvalidInputError, match="log_likelihood must be a function or None, found 5"):
        EstimatedLikelihood(estimate, log_prior, dim=1, log_likelihood=5)
    with pytest.raises(CompilationError, match="log_likelihood fails at the initial point with ZeroDivisionError"):
        EstimatedLikelihood(estimate, log_prior, dim=1, log_likelihood=lambda theta: 1.0 / 0)


@pytest.mark.recompiles
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_exact_log_likelihood_that_is_not_finite_is_no_decision(bad):
    """A comparison with NaN is False, and would be counted as a rejection."""
    target = EstimatedLikelihood(
        estimate, log_prior, dim=1, log_likelihood=lambda theta: bad if abs(theta[0]) > 1.0 else -0.5 * theta[0] ** 2
    )
    settings = {"tune": 0, "chains": 1, "audit_every": 1, "progressbar": False}
    sampler = amc.samplers.PseudoMarginal(amc.RandomWalk(0.5))
    with pytest.warns(SamplingWarning, match=f"the exact log-likelihood, which audits need, is {bad} at theta"):
        trace = amc.sample(target, sampler, draws=1000, initvals=[0.0], random_seed=1, **settings)
    assert 0 < trace["posterior"].sizes["draw"] < 1000
    assert trace["posterior"].attrs["stopped"] == "failure"


@pytest.mark.recompiles
def test_an_estimate_that_is_nan_ends_the_run():
    def nan_at_times(rng, theta, data):
        return math.nan if rng.random() < 0.05 else -0.5 * theta[0] ** 2

    settings = {"tune": 0, "chains": 1, "random_seed": 1, "progressbar": False}
    sampler = amc.samplers.PseudoMarginal(amc.RandomWalk(0.5))
    with pytest.warns(SamplingWarning, match="the estimated log ratio is NaN"):
        trace = amc.sample(EstimatedLikelihood(nan_at_times, log_prior, dim=1), sampler, draws=500, **settings)
    assert 0 < trace["posterior"].sizes["draw"] < 500
    with pytest.raises(NotFiniteError, match="the estimated log ratio is NaN"):
        amc.sample(EstimatedLikelihood(lambda rng, theta, data: math.nan, log_prior, dim=1), sampler, **settings)


@pytest.mark.parametrize(
    ("terms", "match"),
    [
        (lambda theta, rows: (rows[0] - theta[0]) * 1j, r"shape \(3,\) and hold real numbers, .* type complex128"),
        (lambda theta, rows: ["1.5"] * len(rows[0]), r"shape \(3,\) and hold real numbers, .* type <U3"),
        (lambda theta, rows: 1.0, r"shape \(3,\) and hold real numbers, found \(\)"),
    ],
)
def test_terms_of_a_batch_are_real(terms, match):
    with pytest.raises(CompilationError, match=rf"terms\(theta, rows\) of 3 rows must have {match}"):
        BatchTarget(terms, np.zeros(3), dim=1)


@pytest.mark.needs_jit
@pytest.mark.parametrize("other", [1.0 + 1.0j, None])
def test_another_path_that_returns_no_number(other):
    """Plain Python is called at one point only; the compiler sees every path."""

    def on_some_paths(rng, theta, data):
        if theta[0] > 1.0:
            return other
        return -0.5 * theta[0] ** 2

    with pytest.raises(CompilationError, match="estimate must return one float on every path, found"):
        EstimatedLikelihood(on_some_paths, log_prior, dim=1)
