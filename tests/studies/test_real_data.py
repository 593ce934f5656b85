"""The study of real tall data: its verdicts on fabricated runs, and the samplers that meet their target late."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.contracts import AcceptanceTest
from approxmcmc.study.biases import as_one_run
from approxmcmc.study.load import load_study
from studies.tools import verdict as verdicts
from studies.tools.in_laplace_metric import InLaplaceMetric, control_variate, influential_rows, laplace_of
from studies.tools.verdict import judge
from tests.models import logistic

STUDIES = Path(__file__).parents[2] / "studies"
DIM = 3


def fabricated(draws=20_000, shift=0.0, scale=1.0, seed=1, chains=2):
    """Independent normal draws of three coefficients; the last one is moved and spread."""
    values = np.random.default_rng(seed).normal(3.0, 2.0, size=(chains, draws, DIM))
    values[..., -1] = 3.0 + scale * (values[..., -1] - 3.0) + 2.0 * shift
    beta = xr.Dataset({"beta": (("chain", "draw", "coef"), values)}, coords={"coef": ["a", "b", "c"]})
    stats = xr.Dataset({"accepted": (("chain", "draw"), np.ones((chains, draws)))})
    return xr.DataTree.from_dict({"posterior": beta, "sample_stats": stats})


@pytest.fixture
def told(monkeypatch):
    """Make every run say that something is wrong with it."""
    monkeypatch.setattr(verdicts, "problems_of", lambda run: ("something",))


@pytest.fixture
def nothing_told(monkeypatch):
    """Make every run say that all is well."""
    monkeypatch.setattr(verdicts, "problems_of", lambda run: ())


# The standard error of a mean is 1/sqrt(40000) = .005 sd on either side, of a log sd .0035; intervals reach 2.6 of them
# to either side. So .05 sd is right, .2 sd and a ratio of 1.2 are wrong. 400 draws decide nothing at .1 sd, but with
# probability .004 they call it wrong.


def test_a_run_within_the_limits_is_right(nothing_told):
    found = judge(fabricated(shift=0.05, scale=1.03), fabricated(seed=2))
    assert found.word == found.short == verdicts.RIGHT
    assert found.shift_at == found.ratio_at == "beta[c]"
    assert found.shift.lower < 0.05 < found.shift.upper < 0.1
    assert found.ratio.lower < 1.03 < found.ratio.upper < 1.1


@pytest.mark.parametrize("defect", [{"shift": 0.2}, {"shift": -0.2}, {"scale": 1.2}, {"scale": 0.8}])
def test_a_run_that_is_off_is_wrong_and_silent(defect, nothing_told):
    found = judge(fabricated(**defect), fabricated(seed=2))
    assert found.word == verdicts.SILENT
    assert found.problems == ()


def test_a_run_that_says_so_is_wrong_and_told(told):
    found = judge(fabricated(shift=0.2), fabricated(seed=2))
    assert (found.word, found.problems) == (verdicts.WARNED, ("something",))
    assert judge(fabricated(), fabricated(seed=2)).word == verdicts.RIGHT  # a warning does not make it wrong


def test_few_draws_decide_nothing_whichever_has_them(told):
    for draws, reference_draws in ((200, 20_000), (20_000, 200)):
        found = judge(fabricated(draws, shift=0.1), fabricated(reference_draws, seed=2))
        assert found.short == "undecided, warned"
        assert found.shift.lower < 0.1 < found.shift.upper


def test_without_a_reference_nothing_is_validated():
    found = judge(fabricated(200), None)
    assert found.word == verdicts.UNKNOWN
    assert np.isnan(found.shift.value)
    assert found.ess > 200


def test_a_run_that_never_moved_is_told():
    still = fabricated(300)
    still["posterior"]["beta"][:] = 1.0
    found = judge(still, fabricated(seed=2))
    assert found.word in (verdicts.WARNED, verdicts.UNDECIDED)
    assert found.problems


def test_chains_become_one_run_cut_to_the_shortest():
    one = as_one_run([fabricated(300, chains=1), fabricated(200, seed=2, chains=1)])
    assert dict(one["posterior"].sizes) == {"chain": 2, "draw": 200, "coef": 3}
    assert np.array_equal(one["posterior"]["beta"][1], fabricated(200, seed=2, chains=1)["posterior"]["beta"][0])


@pytest.mark.thorough
@pytest.mark.recompiles
def test_a_sampler_in_the_metric_of_its_target_is_that_sampler():
    target = logistic(n=300, dim=2)

    def recipe(fit):
        return amc.MetropolisHastings(amc.RandomWalk(1.5, preconditioner=fit), amc.SequentialTTest(0.05, 50))

    how = {"draws": 50, "tune": 0, "chains": 1, "random_seed": 1, "progressbar": False}
    how["initvals"] = laplace_of(target).mode
    one = amc.sample(target, InLaplaceMetric(recipe), **how)
    other = amc.sample(target, recipe(laplace_of(target)), **how)
    assert np.array_equal(one.posterior["beta"], other.posterior["beta"])
    settings = json.loads(one.posterior.attrs["inference_library_settings"])
    assert AcceptanceTest.found_in(settings) == amc.SequentialTTest(0.05, 50)  # what the checks of a trace ask for
    residuals = InLaplaceMetric(recipe, control_variate)
    assert "setup_variance_ratio" in amc.sample(target, residuals, **how).posterior.attrs
    assert InLaplaceMetric(recipe) != residuals != InLaplaceMetric(recipe, influential_rows)


@pytest.mark.parametrize(("name", "count"), [("real_data", 12), ("exact_subsampling", 11)])
def test_every_sampler_of_a_study_is_another_one(name, count):
    study = load_study(STUDIES / f"{name}.py").with_preset("smoke")
    settings = {label: json.dumps(sampler.to_dict(), sort_keys=True) for label, sampler in study.samplers.items()}
    assert len(set(settings.values())) == len(settings) == count
    assert study.target("covertype").n_obs == 2000


def test_risk_of_exact_subsampling_counts_every_coefficient_in_its_own_sd():
    """Two chains of 100 000 independent draws, one coefficient of three .2 sd off: squared, .04 / 3."""
    study = load_study(STUDIES / "exact_subsampling.py")
    risk_of = study.analyses[2].__globals__["risk_of"]
    run, reference = fabricated(100_000, shift=0.2), fabricated(100_000, seed=2)
    run["sample_stats"]["perf_counter_diff"] = xr.DataArray(np.full((2, 100_000), 1e-3), dims=("chain", "draw"))
    curve = risk_of([run], reference, "time")["risk"].isel(estimand=0)
    assert float(curve[-1]) == pytest.approx(0.04 / 3, abs=3e-3)  # its standard error is .001
