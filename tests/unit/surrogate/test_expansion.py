"""Modes, Laplace approximations, control variates and the proposals built on them: ranges, messages, books, gates."""

import math
import re

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.acceptance import ExactTest, SequentialTTest
from approxmcmc.api import sample
from approxmcmc.contracts import Component, Proposal, Target
from approxmcmc.diagnostics.expansion_checks import expansion_checks, laplace_share
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError, SamplingWarning
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.quadratic import MANY, CenteredQuadratic, empty_rows, functions_of
from approxmcmc.numerics import Laplace, find_mode, laplace, newton
from approxmcmc.proposals import Independence, Mixture, PreconditionedCrankNicolson, RandomWalk, SingleSite
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.surrogate import ControlVariate
from approxmcmc.targets import BinaryMRF, GLMTarget, LogisticRegression
from tests.models import logistic, normal_mean

FIT = Laplace(np.zeros(2), np.array([[1.0, 0.5], [0.5, 2.0]]))
COMPONENTS = [
    FIT,
    PreconditionedCrankNicolson(0.8, FIT),
    PreconditionedCrankNicolson(0.0, np.zeros(2), np.eye(2)),
    Independence(FIT),
    Independence(np.zeros(2), [1.0, 2.0]),
    Mixture([Independence(FIT), RandomWalk(0.3, preconditioner=FIT)], [0.9, 0.1]),
    Mixture([RandomWalk(0.1), Mixture([RandomWalk(0.2), RandomWalk(0.3)])]),
    RandomWalk(0.5, preconditioner=[1.0, 2.0]),
]
SETTINGS = {"draws": 60, "tune": 0, "chains": 1, "random_seed": 1, "progressbar": False}


@pytest.mark.parametrize("component", COMPONENTS, ids=[f"{k}-{type(c).__name__}" for k, c in enumerate(COMPONENTS)])
def test_components_round_trip_and_compare(component):
    again = Component.from_dict(component.to_dict())
    assert again == component
    assert hash(again) == hash(component)
    assert repr(again) == repr(component)
    assert [component == other for other in COMPONENTS].count(True) == 1
    assert isinstance(component, (Laplace, Proposal))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: PreconditionedCrankNicolson(1.0, FIT), InvalidInputError, "between -1 and 1, found 1.0"),
        (lambda: PreconditionedCrankNicolson(math.nan, FIT), InvalidInputError, "found nan"),
        (lambda: PreconditionedCrankNicolson(0.5, np.zeros(2)), InvalidInputError, "give a covariance"),
        (lambda: PreconditionedCrankNicolson(0.5, FIT, np.eye(2)), InvalidInputError, "leave cov out"),
        (lambda: Independence(np.zeros(3), np.eye(2)), InvalidInputError, r"shapes \(3,\) and \(2, 2\)"),
        (lambda: Independence(np.zeros(2), [1.0, -1.0]), InvalidInputError, "positive standard deviations"),
        (lambda: Independence(np.zeros(2), [[1.0, 2.0], [2.0, 1.0]]), InvalidInputError, "least eigenvalue is -1"),
        (lambda: Mixture([RandomWalk()]), InvalidInputError, "two proposals or more, found 1"),
        (lambda: Mixture([RandomWalk(), ExactTest()]), IncompatibleError, "members must be proposals"),
        (lambda: Mixture([RandomWalk(), RandomWalk()], [1.0]), InvalidInputError, "as many positive weights"),
        (lambda: Mixture([RandomWalk(), RandomWalk()], [1.0, 0.0]), InvalidInputError, "positive weights"),
        (lambda: RandomWalk([1.0, 2.0], preconditioner=FIT), InvalidInputError, "scale is a number"),
        (lambda: RandomWalk(preconditioner=np.ones((2, 3))), InvalidInputError, "symmetric and finite"),
        (lambda: Laplace(np.zeros(2), -np.eye(2)), InvalidInputError, "positive definite"),
        (lambda: Laplace(np.zeros(3), np.eye(2)), InvalidInputError, "found"),
    ],
)
def test_settings_out_of_range_are_refused_when_made(make, error, match):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize(
    "proposal",
    [PreconditionedCrankNicolson(0.5, FIT), Independence(FIT), RandomWalk(preconditioner=FIT)],
    ids=lambda proposal: type(proposal).__name__,
)
def test_a_law_of_the_wrong_length_is_refused_before_sampling(proposal):
    with pytest.raises(IncompatibleError, match="the target has 3 parameters"):
        MetropolisHastings(proposal, ExactTest()).build(logistic(30), audit_every=None)


def test_a_preconditioner_is_a_covariance():
    """theta' = theta + scale L z: the same part as scale^2 times the covariance."""
    ours = RandomWalk(0.3, preconditioner=FIT).build_proposal(logistic(20, 2))
    plain = RandomWalk(0.09 * FIT.cov).build_proposal(logistic(20, 2))
    np.testing.assert_allclose(ours.make_state().spread, plain.make_state().spread, rtol=1e-14)


def test_members_of_a_mixture_adapt_from_their_own_steps():
    mixed = Mixture([RandomWalk(5.0, target_acceptance=0.4), RandomWalk(1e-3, target_acceptance=0.4), RandomWalk(0.1)])
    trace = sample(logistic(50), MetropolisHastings(mixed, ExactTest()), **{**SETTINGS, "tune": 300})
    factors = [trace.posterior.attrs[f"adapted_scale_factor_{k}"] for k in range(2)]
    assert np.all(np.asarray(factors[0]) < 1.0)
    assert np.all(np.asarray(factors[1]) > 1.0)
    assert "adapted_scale_factor_2" not in trace.posterior.attrs


class TestMode:
    @pytest.mark.parametrize(
        ("target", "match"),
        [
            (lambda: LogisticRegression(np.arange(-5.0, 5.0)[:, None], np.arange(-5, 5) >= 0, math.inf), "separates"),
            (lambda: LogisticRegression(np.ones((20, 2)), np.arange(20) % 2, math.inf), "is flat"),
            (lambda: GLMTarget(lambda eta, y: eta, np.ones((5, 1)), np.zeros(5), prior_scale=math.inf), "no mode"),
        ],
        ids=["separable", "collinear", "unbounded"],
    )
    def test_a_posterior_without_a_mode_is_refused(self, target, match):
        with pytest.raises(InvalidInputError, match=match):
            find_mode(target())

    def test_a_flat_user_posterior_is_refused(self):
        target = amc.FunctionTarget(lambda theta, data, i: 0.0, lambda theta: 0.0, data=np.zeros(3), n_obs=3, dim=1)
        with pytest.raises(InvalidInputError, match="is flat or bends up"):
            find_mode(target)

    @pytest.mark.parametrize("stalled", [newton.STALLED, 8])
    def test_a_search_at_a_kink_ends_early(self, stalled, monkeypatch):
        """The density exp(-(theta - .5)^2 / 2 - .9 |theta|) has its mode at 0, where its slopes are 1.4 and -.4."""
        monkeypatch.setattr(newton, "STALLED", stalled)
        target = amc.FunctionTarget(
            lambda theta, data, i: -0.5 * (theta[0] - 0.5) ** 2,
            lambda theta: -0.9 * abs(theta[0]),
            data=np.zeros(1),
            n_obs=1,
            dim=1,
        )
        decrements = []
        with pytest.raises(InvalidInputError, match="kink"):
            find_mode(target, start=np.ones(1), progress=lambda passes, decrement: decrements.append(decrement))
        assert len(decrements) == stalled + 1

    def test_bad_starts_and_targets_are_refused(self):
        with pytest.raises(InvalidInputError, match=r"start must have shape \(3,\)"):
            find_mode(logistic(20), start=np.zeros(2))
        with pytest.raises(IncompatibleError, match="continuous parameters"):
            find_mode(BinaryMRF.random_triples(4, 0.1, 0))

        def inside(theta):
            return 0.0 if theta[0] > 5.0 else -math.inf

        with pytest.raises(NotFiniteError, match="give another start"):
            find_mode(amc.FunctionTarget(lambda theta, data, i: -theta[0], inside, data=np.zeros(3), n_obs=3, dim=1))

    def test_a_start_far_off_finds_the_same_mode(self):
        target = logistic(200)
        near, far = find_mode(target), find_mode(target, start=np.full(3, 20.0))
        np.testing.assert_allclose(near.theta, far.theta, atol=1e-4)
        assert near.passes < far.passes < 60

    def test_passes_seconds_and_progress_are_told(self):
        seen = []
        found = find_mode(logistic(100), progress=lambda passes, decrement: seen.append((passes, decrement)))
        assert [passes for passes, _ in seen] == list(range(1, found.passes + 1))
        assert seen[-1][1] == found.decrement
        assert found.seconds > 0.0
        np.testing.assert_array_equal(np.asarray(found), found.theta)

    def test_the_normal_mean_is_found_exactly(self):
        target = normal_mean()
        fit = laplace(target)
        assert fit.mode[0] == pytest.approx((4.0 + target.data[0].sum()) / 104.0, abs=1e-8)
        assert fit.cov[0, 0] == pytest.approx(1.0 / 104.0, rel=1e-6)
        np.testing.assert_allclose(fit.precision, [[104.0]], rtol=1e-6)


class TestControlVariate:
    def test_it_is_a_target_with_the_plain_ones_names(self):
        target = logistic(50)
        ours = ControlVariate(target)
        assert isinstance(ours, Target)
        assert ours.variables == target.variables
        assert ours.observed_data["y"] is target.observed_data["y"]
        assert {"X", "laplace_mode", "laplace_cov"} == set(ours.constant_data)
        assert repr(ours).startswith("ControlVariate(LogisticRegression(n_obs=50, dim=3), distance_to_mode=")
        assert ours.content_hash() != target.content_hash()
        assert ours.content_hash() == ControlVariate(target, at=laplace(target)).content_hash()
        assert ours.content_hash() != ControlVariate(target, at=np.zeros(3)).content_hash()

    @pytest.mark.parametrize(
        ("arguments", "error", "match"),
        [
            ({"at": "median"}, InvalidInputError, 'at must be "mode"'),
            ({"at": np.zeros(2)}, InvalidInputError, r"shape \(3,\), found \(2,\)"),
            ({"order": 3}, InvalidInputError, "order must be 0, 1 or 2"),
            ({"memory_limit": 100.0}, InvalidInputError, "2 numbers each"),
            ({"at": np.full(3, np.inf)}, NotFiniteError, "no finite value and derivatives"),
        ],
    )
    def test_bad_arguments_are_refused(self, arguments, error, match):
        with np.errstate(invalid="ignore"), pytest.raises(error, match=match):
            ControlVariate(logistic(50), **arguments)

    def test_targets_that_cannot_be_expanded_are_refused(self):
        with pytest.raises(IncompatibleError, match="is a ControlVariate already"):
            ControlVariate(ControlVariate(logistic(50)))
        with pytest.raises(IncompatibleError, match="continuous parameters"):
            ControlVariate(BinaryMRF.random_triples(4, 0.1, 0))

    def test_memory_is_refused_with_what_it_takes(self):
        with pytest.raises(InvalidInputError, match=r"1000 data need 1326 numbers each, 0.0106 GB.*take order=1"):
            empty_rows(1000, 1326, 1e6)

    def test_an_array_with_as_many_rows_as_data_is_not_shuffled(self):
        """Three data, three parameters: theta_hat has the length of the data, and must stay as it is."""
        target = amc.FunctionTarget(
            lambda theta, data, i: -0.5 * (data[0][i] - theta[i]) ** 4 - 0.5 * theta[i] ** 2,
            lambda theta: -0.5 * np.sum(theta**2), data=np.array([0.5, -1.0, 2.0]), n_obs=3, dim=3,
        )  # fmt: skip
        assert all(array.shape[0] != 3 for array in ControlVariate(target, at=np.ones(3)).compile().data[2:])

    @pytest.mark.thorough
    def test_set_up_is_booked_apart(self):
        target = ControlVariate(logistic(300))
        trace = sample(target, MetropolisHastings(Independence(target.laplace), SequentialTTest(0.05, 50)), **SETTINGS)
        attrs = trace.posterior.attrs
        assert attrs["setup_mode_passes"] == target.laplace.passes
        assert attrs["setup_expansion_passes"] == 1
        assert attrs["setup_mode_seconds"] > 0.0
        assert attrs["setup_expansion_seconds"] > 0.0
        assert attrs["setup_distance_to_mode"] < 1e-4
        assert 0.0 < attrs["setup_variance_ratio"] < 0.05
        touched = trace.sample_stats["datapoints_touched"].values
        np.testing.assert_array_equal(trace.sample_stats["likelihood_evaluations"].values, 2 * touched)

    @pytest.mark.thorough
    def test_chains_start_in_the_laplace_approximation(self):
        target = ControlVariate(logistic(300))
        still = MetropolisHastings(RandomWalk(1e-12), ExactTest())
        offered = MetropolisHastings(PreconditionedCrankNicolson(1.0 - 1e-13, target.laplace), ExactTest())
        for who, sampler, initvals in (
            (target, still, None), (target.target, still, target.laplace), (target.target, offered, None),
        ):  # fmt: skip
            settings = {**SETTINGS, "draws": 1, "chains": 8, "initvals": initvals}
            starts = sample(who, sampler, **settings).posterior["beta"].values[:, 0]
            white = np.linalg.solve(target.laplace.cholesky, (starts - target.laplace.mode).T)
            assert 8.0 < np.sum(white**2) < 60.0  # chi-squared with 24 degrees: 7.5 to 56 in 99.99 %

    @pytest.mark.parametrize("order", [1, 2])
    def test_gradients_of_its_terms_vanish_where_they_were_expanded(self, order):
        """Those of the plain target do not; minibatches of residuals have little noise near the mode."""
        target = logistic(50)
        residuals = ControlVariate(target, order=order)
        sizes = []
        for gradient in (residuals.compile_gradient(), target.compile_gradient()):
            slopes = np.zeros((50, 3))
            for row, slope in enumerate(slopes):
                gradient.add_gradient(residuals.center, gradient.data, np.empty(0, np.int64), row, row + 1, slope)
            sizes.append(np.abs(slopes).max())
        assert sizes[0] < 1e-12
        assert sizes[1] > 0.1
        with pytest.raises(IncompatibleError, match="grad_loglik"):
            ControlVariate(normal_mean()).compile_gradient()


PILOT = {"tuning_steps": 200, "tuning_decisions_made": [200, 200], "tuning_accepted": [150, 140]}
LAPLACE = {"proposal": PreconditionedCrankNicolson(0.0, FIT).to_dict()}
MIXED = {"proposal": Mixture([Independence(FIT), RandomWalk(1.0)], [0.9, 0.1]).to_dict()}
WALK = {"proposal": RandomWalk(1.0).to_dict()}
TESTED = {**WALK, "test": SequentialTTest(0.05, 64).to_dict()}
READS_MOST = {"setup_variance_ratio": 1e-4, "n_obs": 1000, "tuning_datapoints_touched": [100_000, 140_000]}


def fired(attrs, settings):
    return [finding for finding in expansion_checks(attrs, settings) if finding.fires]


class TestGates:
    @pytest.mark.parametrize(
        ("attrs", "settings", "match"),
        [
            ({"setup_distance_to_mode": 3.0}, WALK, r'3 posterior standard deviations.*at="mode"'),
            ({"setup_distance_to_mode": math.inf}, WALK, "inf posterior"),
            ({"setup_variance_ratio": 0.07}, WALK, "help little.*0.07"),
            ({"setup_variance_ratio": 0.9}, WALK, "hurt.*0.9"),
            (READS_MOST, TESTED, r"read 0.6 of the data.*limit: 0.5.*ExactTest"),
            ({"tuning_accepted": [150, 40]}, LAPLACE, r"chain 1 accepted 0.2 .*limit: 0.3.*rho=0.8"),
            ({"tuning_accepted": [0, 150]}, LAPLACE, "chain 0 accepted 0 .*hardly moves.*normal"),
            ({"tuning_accepted": [30, 150]}, MIXED, r"chain 0 accepted 0.15 .*limit: 0.27"),
            ({"tuning_accepted": [150, 1]}, WALK, "chain 1 accepted 0.005.*hardly moves"),
        ],
    )
    def test_each_gate_fires_alone(self, attrs, settings, match):
        [finding] = fired({**PILOT, **attrs}, settings)
        assert re.search(match, str(finding))

    def test_a_good_run_is_silent_and_so_is_one_without_tuning(self):
        good = {**PILOT, "setup_distance_to_mode": 1e-5, "setup_variance_ratio": 1e-4}
        assert fired(good, LAPLACE) == []
        bad = {"setup_distance_to_mode": 9.0, "setup_variance_ratio": 2.0, "tuning_steps": 0}
        assert expansion_checks(bad, LAPLACE) == []

    def test_kept_draws_count_where_the_tuning_was_short(self):
        short = {"tuning_steps": 108, "tuning_decisions_made": [108, 108], "tuning_accepted": [42, 19]}
        rates = {"acceptance_rate": (("chain", "draw"), np.tile([[0.46], [0.45]], 1000))}
        kept = xr.Dataset({**rates, "decisions_made": (("chain", "draw"), np.full((2, 1000), 4))})
        [tuned], [found] = expansion_checks(short, MIXED), expansion_checks(short, MIXED, kept)
        assert tuned.fires and not found.fires and found.value == pytest.approx((19 + 0.45 * 4000) / 4108)
        [stuck] = expansion_checks(short, MIXED, kept.assign(acceptance_rate=0.2 * kept["acceptance_rate"]))
        assert stuck.fires and stuck.where == "chain 1"

    def test_a_test_that_must_read_all_data_or_leaves_most_is_not_blamed(self):
        exact = [
            {**WALK, "test": test.to_dict()}
            for test in (SequentialTTest(0.0, 64), ExactTest(), amc.acceptance.PoissonTest())
        ]
        assert all(fired({**PILOT, **READS_MOST}, settings) == [] for settings in exact)
        assert fired({**PILOT, **READS_MOST, "why_not_invariant": ""}, TESTED) == []  # the run knows best
        fewer = {**READS_MOST, "tuning_datapoints_touched": [90_000, 100_000]}
        assert fired({**PILOT, **fewer}, TESTED) == []

    def test_shares_of_laplace_proposals(self):
        nested = Mixture([RandomWalk(1.0), Mixture([Independence(FIT), SingleSite()], [3, 1])], [0.2, 0.8])
        assert laplace_share(nested.to_dict()) == pytest.approx(0.6)
        assert laplace_share(WALK["proposal"]) == 0.0
        assert laplace_share(None) == 0.0

    @pytest.mark.thorough
    def test_a_bad_point_warns_in_a_run(self):
        target = ControlVariate(logistic(300), at=np.full(3, 2.0))
        sampler = MetropolisHastings(RandomWalk(0.1), ExactTest())
        with pytest.warns(SamplingWarning, match="expanded"):
            sample(target, sampler, **{**SETTINGS, "tune": 60})
        sample(target, sampler, **SETTINGS)  # tune=0: silent, and warnings are errors here


def test_a_prior_undefined_beyond_its_support_is_told_without_a_warning():
    """There inf - inf is no news: a search for a mode comes by and goes back."""
    target = amc.FunctionTarget(
        lambda theta, data, i: -0.5 * theta[0] ** 2,
        lambda theta: 0.0 if theta[0] < 1.0 else -np.inf,
        data=np.zeros(1),
        n_obs=1,
        dim=1,
    )
    posterior = Posterior(target)
    assert np.isfinite(posterior.prior_at(np.zeros(1)).hessian).all()
    with pytest.raises(NotFiniteError, match="log prior is not finite around"):
        posterior.prior_at(np.full(1, 2.0))


@pytest.mark.parametrize("few", [64, 0], ids=["differences of the prior", "its own gradient"])
def test_the_prior_hessian_of_a_hierarchy_is_that_of_its_formula(few, monkeypatch):
    """Effects ~ N(0, exp(theta_0)): bends from 2 dim gradients, be they the user's or differences."""
    monkeypatch.setattr("approxmcmc.expansion.posterior.FEW_PARAMETERS", few)

    def logprior(theta):
        return -0.5 * np.sum(theta[1:] ** 2) * np.exp(-2.0 * theta[0]) - (theta.size - 1) * theta[0]

    def grad_logprior(theta, out):
        out[0] += np.sum(theta[1:] ** 2) * np.exp(-2.0 * theta[0]) - (theta.size - 1)
        out[1:] -= theta[1:] * np.exp(-2.0 * theta[0])

    target = amc.FunctionTarget(
        lambda theta, data, i: 0.0, logprior, data=np.zeros(1), n_obs=1, dim=4, grad_logprior=grad_logprior
    )
    theta = np.array([0.3, 0.5, -0.2, 0.1])
    precision = np.exp(-0.6)
    expected = np.diag(np.append(-2.0 * np.sum(theta[1:] ** 2), -np.ones(3)) * precision)
    expected[0, 1:] = expected[1:, 0] = 2.0 * theta[1:] * precision
    found = Posterior(target).prior_at(theta)
    np.testing.assert_allclose(found.hessian, expected, rtol=0, atol=1e-5)
    slope = np.zeros(4)
    grad_logprior(theta, slope)
    np.testing.assert_allclose(found.gradient, slope, atol=1e-8)


def test_a_quadratic_by_single_rows_is_that_of_all_rows_in_every_bit():
    rng = np.random.default_rng(6)
    half = rng.normal(size=(7, 7))
    quadratic = CenteredQuadratic(rng.normal(size=7), rng.normal(size=1), rng.normal(size=7), half + half.T)
    theta = rng.normal(size=7)

    def value_and_gradient(functions):
        gradient = np.ones(7)
        functions.add_gradient(theta, quadratic, gradient)
        return [functions.plus_value(0.5, theta, quadratic), *gradient]

    by_rows = value_and_gradient(functions_of(MANY - 1))
    assert value_and_gradient(functions_of(MANY)) == by_rows
    away = theta - quadratic.center
    bend = quadratic.hessian @ away
    assert by_rows[0] == pytest.approx(0.5 + quadratic.value[0] + away @ (quadratic.gradient + 0.5 * bend))
    assert by_rows[1:] == pytest.approx(1.0 + quadratic.gradient + bend)
