"""The public `sample`: arguments, starting points, stops, failures and warnings."""

import json
import math
import time

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.compiler.identity import UnknownContentError
from approxmcmc.engine.limit_clock import processor_seconds
from approxmcmc.errors import (
    CompilationError,
    IncompatibleError,
    InvalidInputError,
    NotFiniteError,
    SamplingError,
    SamplingWarning,
)
from approxmcmc.output.reading import check_origin
from tests.interrupts import interrupt_once_drawing
from tests.models import logistic, normal_logprior, normal_mean

TARGET = logistic()
WALK = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest())
QUICK = {"draws": 20, "tune": 5, "chains": 2, "random_seed": 1, "progressbar": False}


def draw(target=TARGET, sampler=WALK, **settings):
    return amc.sample(target, sampler, **(QUICK | settings))


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"draws": -1}, "draws must be an integer >= 0, found -1"),
        ({"draws": 1.5}, "draws must be an integer"),
        ({"tune": -1}, "tune"),
        ({"chains": 0}, "chains must be an integer >= 1"),
        ({"thin": 0}, "thin"),
        ({"cores": 0}, "cores"),
        ({"time_limit": 0.0}, "time_limit must be positive"),
        ({"time_limit": math.nan}, "time_limit must be positive"),
        ({"audit_every": 0}, "audit_every"),
        ({"audit_every": "often"}, "audit_every"),
        ({"random_seed": -3}, "random_seed"),
    ],
)
def test_bad_arguments_are_refused(bad, match):
    with pytest.raises(InvalidInputError, match=match):
        draw(**bad)


def test_a_checkpoint_of_a_model_that_cannot_be_named_is_refused_before_the_run(monkeypatch, tmp_path):
    """Its functions call one without readable code, so the file could not say what was sampled."""
    target = normal_mean()

    def unreadable():
        raise UnknownContentError("a compiled function names an object that cannot be read")

    monkeypatch.setattr(target, "content_hash", unreadable)
    monkeypatch.setattr("approxmcmc.runs.run", lambda *arguments, **settings: pytest.fail("draws were made, and lost"))
    with pytest.raises(UnknownContentError, match="cannot be read"):
        draw(target, checkpoint=tmp_path / "run.nc")


def test_wrong_roles_are_refused():
    with pytest.raises(IncompatibleError, match="sample needs a target such as"):
        amc.sample(WALK, TARGET)
    with pytest.raises(IncompatibleError, match="sample needs a sampler such as"):
        amc.sample(TARGET, amc.ExactTest)


class TestInitvals:
    @pytest.mark.thorough
    def test_forms_agree(self):
        flat = np.array([0.1, 0.2, 0.3])
        forms = [flat, np.stack([flat, flat]), {"beta": flat}, [{"beta": flat}, {"beta": flat}]]
        one, *others = [draw(initvals=form).posterior["beta"].values for form in forms]
        for other in others:
            np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize(
        ("bad", "match"),
        [
            (np.zeros(2), r"shape \(3,\) or \(2, 3\).*found shape \(2,\)"),
            ({"gamma": np.zeros(3)}, r"need the variables \['beta'\]; \['gamma'\] are unknown"),
            ({}, r"need the variables \['beta'\]; \['beta'\] are missing"),
            ({"beta": np.zeros(2)}, r"initvals of beta need shape \(3,\), found \(2,\)"),
            (np.full(3, np.nan), "initvals of chain 0 have log density nan"),
        ],
    )
    def test_bad_ones_are_refused(self, bad, match):
        with pytest.raises(InvalidInputError, match=match):
            draw(initvals=bad)

    def test_default_starts_are_drawn_again_until_finite(self):
        """A support that starts at 0.5: three of four tries around the origin fall outside."""
        half_line = amc.FunctionTarget(
            lambda theta, data, i: 0.0,
            lambda theta: 0.0 if theta[0] > 0.5 else -math.inf,
            data=np.zeros(1),
            n_obs=1,
            dim=1,
        )
        trace = draw(half_line, chains=4)
        assert (trace.posterior["theta"] > 0.5).all()
        assert trace.posterior.attrs["setup_likelihood_evaluations"] > 4

    def test_no_start_is_an_error(self):
        nowhere = amc.FunctionTarget(
            lambda theta, data, i: 0.0, lambda theta: -math.inf + 0.0 * theta[0], data=np.zeros(1), n_obs=1, dim=1
        )
        with pytest.raises(NotFiniteError, match="no starting point: 100 random starts"):
            draw(nowhere)


class TestStops:
    @pytest.mark.thorough
    def test_time_limit_returns_what_was_drawn(self):
        started = time.perf_counter()
        trace = draw(draws=10_000_000, time_limit=0.5)
        assert time.perf_counter() - started < 20.0
        assert trace.posterior.attrs["stopped"] == "time_limit"
        assert 0.5 <= trace.posterior.attrs["sampling_time"] < 2.0
        assert trace.posterior.sizes["draw"] > 10
        shorter = draw(draws=10)
        np.testing.assert_array_equal(trace.posterior["beta"][:, :10], shorter.posterior["beta"])

    def test_a_stop_in_tuning_gives_an_empty_posterior_and_a_warning(self):
        with pytest.warns(SamplingWarning, match="stopped .time_limit. before the first draw"):
            trace = draw(tune=10_000_000, time_limit=0.2)
        assert trace.posterior.sizes["draw"] == 0
        assert np.all(np.atleast_1d(trace.posterior.attrs["tuning_decisions_made"]) > 0)

    def test_interrupt_returns_what_was_drawn(self, monkeypatch):
        interrupt_once_drawing(monkeypatch, chains=2)
        with pytest.warns(SamplingWarning, match="interrupted; [0-9]+ draws per chain are kept"):
            trace = draw(draws=5_000_000, time_limit=60.0)  # the limit ends a run whose interrupt was lost
        assert trace.posterior.attrs["stopped"] == "interrupt"
        assert trace.posterior.sizes["draw"] > 0

    def test_zero_draws_are_allowed(self):
        assert draw(draws=0).posterior.sizes["draw"] == 0


def _nan_beyond_two(theta, data, i):
    (x,) = data
    return math.nan if i == 7 and theta[0] > 2.0 else 0.001 * theta[0] * x[i]


def _slope(theta, data, i):
    return 0.001 * theta[0]


def _slope_to_two(theta, data, i):
    if theta[0] > 2.0:
        raise ValueError("too far")
    return 0.001 * theta[0]


def _flat(theta):
    return 0.0


def _flat_to_two(theta):
    if theta[0] > 2.0:
        raise ValueError("too far")
    return 0.0


class TestNotFinite:
    TEST = amc.SequentialTTest(epsilon=0.0, batch_size=5)

    @pytest.mark.parametrize("test", [amc.ExactTest(), TEST], ids=repr)
    def test_nan_stops_names_datum_and_theta_and_keeps_the_draws(self, test):
        target = amc.FunctionTarget(_nan_beyond_two, lambda theta: 0.0, data=np.ones(20), n_obs=20, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.3), test)
        with pytest.warns(SamplingWarning, match=r"datum 7 is NaN or \+inf at theta = \[2\."):
            trace = draw(target, sampler, draws=5000, tune=0, initvals=np.zeros(1))
        assert trace.posterior.attrs["stopped"] == "failure"
        assert 0 < trace.posterior.sizes["draw"] < 5000
        assert (trace.posterior["theta"] <= 2.0).all()

    def test_nan_before_any_draw_is_an_error(self):
        target = amc.FunctionTarget(_nan_beyond_two, lambda theta: 0.0, data=np.ones(20), n_obs=20, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(1.0), amc.ExactTest())
        with pytest.raises(NotFiniteError, match=r"before any draw was kept.*datum 7"):
            draw(target, sampler, tune=100_000, initvals=np.full(1, 1.9))

    def test_nan_prior_is_named(self):
        target = amc.FunctionTarget(
            lambda theta, data, i: 0.0,
            lambda theta: math.nan if theta[0] > 2.0 else 0.0,
            data=np.ones(3),
            n_obs=3,
            dim=1,
        )
        with pytest.warns(SamplingWarning, match=r"log prior is NaN at theta = \[2\."):
            draw(target, draws=5000, initvals=np.zeros(1))

    @pytest.mark.thorough
    @pytest.mark.parametrize("raises", ["loglik", "logprior"])
    @pytest.mark.parametrize("test", [amc.ExactTest(), TEST], ids=repr)
    def test_an_exception_of_the_model_keeps_the_draws(self, test, raises):
        functions = {"loglik": (_slope_to_two, _flat), "logprior": (_slope, _flat_to_two)}[raises]
        target = amc.FunctionTarget(*functions, data=np.ones(20), n_obs=20, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.3), test)
        with pytest.warns(SamplingWarning, match=r"the model raised ValueError: too far at theta = \[2\."):
            trace = draw(target, sampler, draws=5000, tune=0, initvals=np.zeros(1))
        kept = trace.posterior.sizes["draw"]
        assert 0 < kept < 5000 and trace.posterior.attrs["stopped"] == "failure"
        assert (trace.posterior["theta"] <= 2.0).all()
        sound = amc.FunctionTarget(_slope, _flat, data=np.ones(20), n_obs=20, dim=1)
        undisturbed = draw(sound, sampler, draws=kept, tune=0, initvals=np.zeros(1))
        np.testing.assert_array_equal(trace.posterior["theta"], undisturbed.posterior["theta"])
        with pytest.raises(SamplingError, match=r"before any draw was kept.*too far"):
            draw(target, sampler, tune=100_000, initvals=np.full(1, 1.9))

    @pytest.mark.thorough
    @pytest.mark.parametrize("test", [amc.ExactTest(), TEST], ids=repr)
    def test_minus_infinity_is_a_reject(self, test):
        """A uniform law on [-1, 1] written as a likelihood of probability 0 outside."""

        def loglik(theta, data, i):
            return 0.0 if abs(theta[0]) < 1.0 else -math.inf

        target = amc.FunctionTarget(loglik, lambda theta: 0.0, data=np.ones(20), n_obs=20, dim=1)
        trace = draw(target, amc.MetropolisHastings(amc.RandomWalk(1.0), test), draws=300, initvals=np.zeros(1))
        assert trace.posterior.attrs["stopped"] == ""
        assert (abs(trace.posterior["theta"]) < 1.0).all()
        rejected = ~trace.sample_stats["accepted"]
        assert 0.1 < float(rejected.mean()) < 0.9
        assert (trace.sample_stats["acceptance_rate"].values[rejected] == 0.0).all()

    def test_outside_the_prior_no_datum_is_read(self):
        def prior(theta):
            return 0.0 if abs(theta[0]) < 1.0 else -math.inf

        target = amc.FunctionTarget(lambda theta, data, i: 0.0, prior, data=np.ones(20), n_obs=20, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(1.0), self.TEST)
        stats = draw(target, sampler, draws=200, initvals=np.zeros(1), audit_every=1).sample_stats
        outside = stats["acceptance_rate"].values == 0.0
        assert outside.any()
        assert (stats["datapoints_touched"].values[outside] == 0).all()
        assert (stats["decisions_made"] == 1).all()
        assert (stats["decisions_audited"] == 1).all()


class TestWarnings:
    def test_a_stuck_chain(self):
        sampler = amc.MetropolisHastings(amc.RandomWalk(100.0), amc.ExactTest())
        with pytest.warns(SamplingWarning, match=r"chain\(s\) \[0, 1\] never moved in 100 draws"):
            draw(sampler=sampler, draws=100, tune=0, initvals=np.zeros(3))

    @pytest.mark.needs_jit
    def test_too_many_wrong_decisions(self):
        """One datum in 2000 carries the whole answer: a look that misses it sees a clear mean of the wrong sign."""

        def loglik(theta, data, i):
            return theta[0] * data[0][i]

        x = np.full(2000, -1.0)
        x[17] = 2100.0
        target = amc.FunctionTarget(loglik, lambda theta: -50.0 * theta[0] ** 2, data=x, n_obs=2000, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(epsilon=0.01, batch_size=100))
        with pytest.warns(
            SamplingWarning, match=r"of 800 audited decisions were wrong \(a rate above 0\..*predict 0\.0"
        ):
            draw(target, sampler, draws=400, audit_every=1, initvals=np.zeros(1))

    @pytest.mark.needs_jit
    def test_heavy_tails(self):
        def loglik(theta, data, i):
            return theta[0] * data[0][i]

        x = np.exp(2.0 * np.random.default_rng(0).normal(size=2000))  # log-normal, log-sd 2
        target = amc.FunctionTarget(loglik, lambda theta: -50.0 * theta[0] ** 2, data=x - x.mean(), n_obs=2000, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), amc.SequentialTTest(epsilon=0.05, batch_size=100))
        with pytest.warns(SamplingWarning, match="heavy-tailed"):
            draw(target, sampler, draws=400, audit_every=None, initvals=np.zeros(1))

    @pytest.mark.needs_jit
    @pytest.mark.filterwarnings("error")
    def test_a_good_run_is_silent(self):
        target = logistic(n=4000)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.08), amc.SequentialTTest(epsilon=0.05, batch_size=500))
        draw(target, sampler, draws=5000, tune=500, audit_every=1)


class TestTrace:
    def test_names_and_settings_travel_with_the_draws(self):
        trace = draw(random_seed=[5, 6], thin=2)
        attrs = trace.posterior.attrs
        assert trace.posterior["beta"].dims == ("chain", "draw", "coef")
        assert list(attrs["seed"]) == [5, 6]
        assert json.loads(attrs["inference_library_settings"]) == WALK.to_dict()
        assert attrs["target_content_hash"] == TARGET.content_hash()
        assert attrs["tuning_steps"] == 5
        assert attrs["thin"] == 2
        assert list(np.atleast_1d(attrs["tuning_datapoints_touched"])) == [5 * TARGET.n_obs] * 2

    def test_lp_is_the_log_density(self):
        trace = draw(normal_mean(), chains=1)
        (x,) = normal_mean().data
        mu = trace.posterior["mu"].values[0]
        expected = [-0.5 * ((x - m) ** 2).sum() + normal_logprior(np.array([m])) for m in mu]
        np.testing.assert_allclose(trace.sample_stats["lp"][0], expected, rtol=1e-10)

    @pytest.mark.thorough
    def test_only_exact_tests_write_lp(self):
        assert (
            "lp"
            not in draw(
                sampler=amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(batch_size=300))
            ).sample_stats
        )

    def test_progress_is_plain_where_there_is_no_terminal(self, capsys, monkeypatch):
        monkeypatch.setattr("approxmcmc.sampling.progress.SECONDS_BETWEEN_LINES", 0.0)
        draw(progressbar=True)
        lines = capsys.readouterr().err
        assert "sampling 2 chains: drawing, 50 of 50 steps" in lines
        assert "\x1b" not in lines


@pytest.mark.thorough
def test_a_limit_in_processor_seconds_does_not_count_the_time_of_other_programs(monkeypatch):
    """While others hold the core the clock of this process stands still, and a study's chain continues."""
    monkeypatch.setattr("approxmcmc.engine.limit_clock.time.process_time", lambda: 0.0)
    with processor_seconds():
        trace = draw(draws=300, time_limit=1e-6)
    assert trace["sample_stats"].attrs["stopped"] == ""
    assert draw(draws=300, time_limit=1e-6)["sample_stats"].attrs["stopped"] == "time_limit"


class TestUnknownContent:
    """Functions that refer to objects whose changes cannot be detected: only what is found by its hash needs one."""

    class Settings:
        def __init__(self):
            self.scale = 1.0

    @staticmethod
    def reads_an_instance():
        settings = TestUnknownContent.Settings()
        return lambda theta, rows: -0.5 * ((rows[0] - theta[0]) / settings.scale) ** 2

    @staticmethod
    def reads_by_name():
        return lambda theta, rows: -0.5 * ((rows[0] - theta[0]) / eval("1.0")) ** 2

    @pytest.fixture(params=["reads_an_instance", "reads_by_name"])
    def target(self, request):
        terms = getattr(self, request.param)()
        return amc.targets.BatchTarget(terms, np.arange(30.0) / 10.0, dim=1)

    def test_a_run_gives_the_draws_of_a_target_with_known_content(self, target, caplog):
        known = amc.targets.BatchTarget(lambda theta, rows: -0.5 * (rows[0] - theta[0]) ** 2, target.data, dim=1)
        with caplog.at_level("INFO", logger="approxmcmc"):
            trace = draw(target, progressbar=True)
        np.testing.assert_array_equal(trace.posterior["theta"], draw(known).posterior["theta"])
        assert trace.posterior.attrs["target_content_hash"] == ""
        assert "objects whose changes cannot be detected" in caplog.text

    def test_a_checkpoint_needs_the_hash(self, target, tmp_path):
        with pytest.raises(CompilationError, match="refers to"):
            draw(target, checkpoint=tmp_path / "run.nc")
        assert list(tmp_path.iterdir()) == []

    def test_a_trace_of_unknown_content_is_like_one_without_origin(self, target):
        trace = draw(target)
        check_origin(trace, target, WALK)

    def test_a_trace_of_another_target_is_refused(self, target):
        with pytest.raises(InvalidInputError, match="on another target"):
            check_origin(draw(), target, WALK)
