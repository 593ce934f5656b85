"""Audits of stored draws are those that `sample` makes: the same records, and the same findings."""

import types
import warnings

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.audits import policy as audits
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from tests.models import logistic

RUN = {"draws": 15, "tune": 20, "chains": 2, "random_seed": 7, "progressbar": False, "thin": 2}
WALK = amc.RandomWalk(0.2)
TTEST = amc.SequentialTTest(0.1, 50)
SAMPLERS = {
    "t-test": amc.MetropolisHastings(WALK, TTEST),
    "blocks": amc.MetropolisHastings(WALK, amc.SequentialTTest(0.1, 50, order="blocks")),
    "tuned": amc.MetropolisHastings(amc.RandomWalk(0.2, target_acceptance=0.4), TTEST),
    "mixture": amc.MetropolisHastings(
        amc.proposals.Mixture(
            (
                amc.RandomWalk(0.2, target_acceptance=0.4),
                amc.Langevin(0.01, target_acceptance=0.6),
                amc.RandomWalk(0.1, target_acceptance=0.3),
            )
        ),
        TTEST,
    ),
    "epochs": amc.MetropolisHastings(
        WALK, amc.acceptance.AnnealedEpsilon((0.1, 0.0), (40,), amc.SequentialTTest(batch_size=50))
    ),
    "Barker": amc.MetropolisHastings(WALK, amc.acceptance.MinibatchBarker(batch_size=50)),
    "SGLD": amc.MetropolisHastings(amc.proposals.StochasticGradientLangevin(1e-3, 20), amc.acceptance.AlwaysAccept()),
}
QUICK = ("t-test",)


@pytest.fixture
def ticks(monkeypatch):
    """A clock of audits on which each of them takes a millisecond: all 30 draws are audited, after a pilot of three."""
    count = iter(range(10**9))
    monkeypatch.setattr(audits, "SHARE_OF_PILOT", 0.0)
    monkeypatch.setattr(audits, "time", types.SimpleNamespace(perf_counter=lambda: 1e-3 * next(count)))


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        return function(*arguments, **options)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.recompiles) for n in SAMPLERS]
)
def test_they_are_those_of_sample(name, ticks, tmp_path):
    target, sampler = logistic(), SAMPLERS[name]
    own, plain = (quietly(amc.sample, target, sampler, audit_every=every, **RUN) for every in ("auto", None))
    stored = amc.load(amc.save(plain, tmp_path / "run.nc"))
    found = quietly(amc.audit, stored, target, sampler, seconds=0.2, random_seed=7)
    assert found.posterior.attrs["audits"] == own.posterior.attrs["audits"] == 30
    for record in own.sample_stats.data_vars:
        if record not in ("perf_counter_diff", "thread_time_diff"):
            np.testing.assert_array_equal(found.sample_stats[record], own.sample_stats[record], err_msg=str(record))
    for attribute in ("problems", "diagnosis"):
        assert found.posterior.attrs[attribute] == own.posterior.attrs[attribute]
    assert "audits" not in stored.posterior.attrs, "the trace that was given stays as it is"
    xr.testing.assert_identical(stored.sample_stats.to_dataset(), plain.sample_stats.to_dataset())


@pytest.mark.thorough
@pytest.mark.recompiles
def test_a_chain_selected_after_the_run_keeps_what_it_had_tuned():
    target, sampler = logistic(), SAMPLERS["t-test"]
    trace = quietly(amc.sample, target, sampler, audit_every=None, **RUN)
    tuned = amc.MetropolisHastings(amc.RandomWalk(0.2, target_acceptance=0.4), TTEST)
    trace.posterior.attrs |= {"adapted_scale_factor": [1.0, 1e-9]}
    del trace.posterior.attrs["inference_library_settings"]
    jumps = []
    for chain in (0, 1):
        found = quietly(amc.audit, trace.isel(chain=[chain]), target, tuned, n_audits=20, random_seed=1)
        jumps.append(np.nanmax(np.abs(found.sample_stats["audited_log_ratio"])))
    assert jumps[0] > 0.1 and jumps[1] < 1e-4


@pytest.fixture(scope="module")
def posterior_draws():
    """Draws of the Laplace approximation of 400 data: the posterior for what 100 audits can see."""
    target = logistic(400)
    fit, rng = amc.laplace(target), np.random.default_rng(3)
    return target, fit, np.stack([[fit.draw(rng) for _ in range(150)] for _ in range(2)])


def from_elsewhere(draws):
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"beta": (("chain", "draw", "coef"), draws)})})


class TestDrawsFromElsewhere:
    def test_silence_for_the_posterior(self, posterior_draws):
        """False alarms: two averages at three standard errors, 0.6 %, on a fixed seed."""
        target, _, draws = posterior_draws
        found = amc.audit(from_elsewhere(draws), target, None, n_audits=150, random_seed=1)
        table = amc.diagnose(found).set_index("check")["verdict"]
        assert table["sign score"] == table["energy drift"] == table["audits"] == "ok"
        assert found.posterior.attrs["audits"] == 150

    @pytest.mark.thorough
    @pytest.mark.parametrize(("spread", "sign"), [(5.0, 1.0), (0.3, -1.0)])
    def test_wrong_spreads_are_seen_with_their_sign(self, posterior_draws, spread, sign):
        """Draws too wide move towards the mode: the density grows. Draws too narrow move away from it."""
        target, fit, draws = posterior_draws
        with pytest.warns(SamplingWarning, match="not those of the posterior"):
            found = amc.audit(
                from_elsewhere(fit.mode + spread * (draws - fit.mode)), target, None, n_audits=150, random_seed=1
            )
        row = amc.diagnose(found).set_index("check").loc["sign score"]
        assert row["verdict"] == "failure" and np.sign(row["value"]) == sign

    @pytest.mark.thorough
    def test_an_exact_sampler_is_judged_by_its_draws(self):
        target, sampler = logistic(), amc.MetropolisHastings(WALK, amc.ExactTest())
        trace = quietly(amc.sample, target, sampler, **RUN)
        found = quietly(amc.audit, trace, target, sampler, n_audits=20, random_seed=1)
        assert np.isfinite(found.sample_stats["audited_acceptance"]).sum() == 20
        assert "audit_acceptance_error" not in found.sample_stats


class TestRefusals:
    def refuse(self, message, trace, target, sampler=None, error=InvalidInputError, **options):
        with pytest.raises(error, match=message):
            amc.audit(trace, target, sampler, **options)

    def test_what_does_not_belong_together(self):
        target, sampler = logistic(), SAMPLERS["t-test"]
        trace = quietly(amc.sample, target, sampler, audit_every=None, **RUN)
        self.refuse("made by .*0.1.* and not by", trace, target, amc.MetropolisHastings(WALK, amc.SequentialTTest(0.2)))
        self.refuse("another target", trace, logistic(301), sampler)
        self.refuse(
            "does not record the tuned 'scale_factor'", from_elsewhere(np.zeros((1, 9, 3))), target, SAMPLERS["tuned"]
        )

    def test_traces_that_are_none_of_this_target(self):
        draws = np.zeros((1, 30, 3))
        self.refuse("a trace is needed", {"posterior": 1}, logistic())
        self.refuse("needs draws of \\['beta'\\]", from_elsewhere(draws).map_over_datasets(_renamed), logistic())
        self.refuse("of shape \\(3,\\)", from_elsewhere(draws[..., :2]), logistic())
        self.refuse("has no draws", from_elsewhere(draws[:, :0]), logistic())
        self.refuse("seconds must be positive", from_elsewhere(draws), logistic(), seconds=0)
        self.refuse("n_audits", from_elsewhere(draws), logistic(), n_audits=0)
        self.refuse("the sampler of the trace", from_elsewhere(draws), logistic(), WALK, IncompatibleError)

    def test_discrete_states(self):
        target = amc.targets.BinaryMRF(2, [[0, 1]], np.zeros((1, 2, 2)))
        states = {name: np.ones((1, 20, *shape)) for name, shape in target.variables.shapes.items()}
        dims = {name: ("chain", "draw", *(f"{name}_{k}" for k in range(v.ndim - 2))) for name, v in states.items()}
        trace = xr.DataTree.from_dict({"posterior": xr.Dataset({n: (dims[n], v) for n, v in states.items()})})
        self.refuse("are discrete", trace, target, error=IncompatibleError)


def _renamed(dataset):
    return dataset.rename(beta="theta") if "beta" in dataset else dataset
