"""The public `bias` and `debias`: layout, verdicts, seeds, and runs that it must refuse."""

import dataclasses
import functools
import types

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.audits import steps as audits
from approxmcmc.contracts import Finding
from approxmcmc.couplings import estimate
from approxmcmc.couplings.estimate import STREAM
from approxmcmc.couplings.forms import audit_form
from approxmcmc.couplings.measure import draws_of
from approxmcmc.couplings.meeting import forgetting_time
from approxmcmc.couplings.verdict import AuditSummary, failed_checks, optimal_share, verdict
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms import order
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.sampling.assembly import assemble
from tests.models import logistic

pytestmark = [pytest.mark.recompiles, pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")]
PER_ESTIMAND = {
    "bias", "bias_lower", "bias_upper", "bias_sd", "debiased", "debiased_lower", "debiased_upper", "mean",
    "posterior_sd", "variance_per_audit", "largest_share",
}  # fmt: skip
PER_AUDIT = {"delta", "alpha", "alpha_hat", "weight", "meeting_time", "met"}
SCALARS = {
    *(f"{name}{end}" for name in ("wrong_decision_rate", "mean_abs_delta", "tv_bound", "sign_score", "energy_drift")
      for end in ("", "_lower", "_upper")),
    "n_audits", "n_couplings", "unmet", "forgetting_time", "passes", "seconds", "optimal_audit_share", "verdict",
    "reasons",
}  # fmt: skip


@functools.cache
def target():
    return logistic(40, 2)


@functools.cache
def sampler():
    return amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target())), amc.SequentialTTest(0.3, 8))


@functools.cache
def trace():
    return amc.sample(
        target(), sampler(), draws=60, tune=5, chains=2, random_seed=1, progressbar=False, audit_every=None
    )


@functools.cache
def found(form="audit"):
    return amc.bias(trace(), target(), sampler(), form=form, n_audits=40, random_seed=3)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["audit", "drift"])
def test_layout(form):
    told = found(form)
    assert {name for name in told if told[name].dims == ("estimand",)} == PER_ESTIMAND
    assert {name for name in told if told[name].dims == ("audit",)} == PER_AUDIT
    assert {name for name in told if not told[name].dims} == SCALARS
    assert {name for name in told if told[name].dims == ("estimand", "step")} == {"drift", "drift_lower", "drift_upper"}
    assert told.estimand.values.tolist() == [
        "beta[x0]", "beta[x1]", "(beta[x0] - mean)^2", "(beta[x1] - mean)^2", "lp",
    ]  # fmt: skip
    np.testing.assert_allclose(told.drift.isel(step=-1), told.bias, atol=1e-12)  # all have met: the drift has ended
    np.testing.assert_array_equal(told.drift.isel(step=0), 0.0)
    np.testing.assert_allclose(told.debiased, told["mean"] - told.bias)
    assert told.attrs["form"] == form and int(told.n_audits) == 40


@pytest.mark.thorough
def test_audits_alone_know_the_test():
    assert np.isfinite(found("audit").delta).all() and float(found("audit").tv_bound) > 0.0
    assert np.isnan(found("drift").delta).all() and np.isnan(found("drift").tv_bound)
    weights, delta = found("audit").weight.values, found("audit").delta.values
    launched, c = weights != 0.0, found("audit").attrs["roulette"]
    np.testing.assert_allclose(weights[launched], np.sign(delta[launched]) * np.maximum(np.abs(delta[launched]), c))


@pytest.mark.thorough
def test_a_stored_trace_serves_as_well(tmp_path):
    amc.save(trace(), tmp_path / "trace.nc")
    again = amc.bias(amc.load(tmp_path / "trace.nc"), target(), sampler(), form="audit", n_audits=40, random_seed=3)
    np.testing.assert_array_equal(again.bias, found().bias)
    again.to_netcdf(tmp_path / "bias.nc")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [4, [7, 9]])
def test_audits_read_the_partition_of_the_run(seed, monkeypatch):
    """In the run, and of its stored trace; copies that are shuffled anew have no partition of their own."""
    partitions = []
    monkeypatch.setattr(audits.TestedSteps, "audit_at", lambda self, *_: partitions.append(self.partition))
    test = amc.SequentialTTest(0.3, 8, order="blocks")
    blocks = amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target())), test)
    for enough in (1000, 2):
        monkeypatch.setattr(order, "ENOUGH_BLOCKS", enough)
        started = assemble(target(), blocks, seed=seed, chains=2, tune=5, audit_every="auto").chains
        copies = [chain.state.evidence.data[1] for chain in started]
        partitions.clear()
        run = amc.sample(target(), blocks, draws=60, tune=5, chains=2, random_seed=seed, progressbar=False)
        amc.audit(run, target(), blocks, n_audits=5, random_seed=3)
        with pytest.raises(NotFiniteError):  # as if no audit were possible
            amc.bias(run, target(), blocks, form="audit", n_audits=20, random_seed=3)
        assert len(partitions) > 10
        for found in partitions:
            assert (found is None) == (enough == 1000)
            assert found is None or all((target().data[1][found.rows] == copy).all() for copy in copies)


def test_draws_from_elsewhere_have_drift_alone():
    draws = xr.DataTree.from_dict({"posterior": xr.Dataset({"beta": trace()["posterior"]["beta"].drop_attrs()})})
    told = amc.bias(draws, target(), None, n_audits=20, random_seed=1)
    assert told.attrs["form"] == "drift" and np.isnan(told.optimal_audit_share)
    with pytest.raises(InvalidInputError, match="'beta' of shape"):
        amc.bias(draws, logistic(40, 3), None)


def test_a_trace_of_another_run_is_refused():
    """Its audits would be those of a sampler, or of a target, that never made these draws."""
    looser = amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target())), amc.SequentialTTest(0.4, 8))
    for of, by, message in ((target(), looser, "made by"), (logistic(41, 2), sampler(), "another target")):
        with pytest.raises(InvalidInputError, match=message):
            amc.bias(trace(), of, by)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 0, 2)), "0 draws"),
        (np.arange(38.0).reshape(1, 19, 2), "at least 20"),
        (np.full((1, 30, 2), 0.1), "never moved"),
        (
            np.where(np.arange(60).reshape(1, 30, 2) == 7, np.nan, 0.1),
            r"beta\[x1\] is not finite \(nan\) in chain 0, draw 3",
        ),
        (
            np.where(np.arange(60).reshape(1, 30, 2) == 7, np.inf, 0.1),
            r"beta\[x1\] is not finite \(inf\) in chain 0, draw 3",
        ),
    ],
)
def test_draws_that_tell_nothing_are_refused(values, message):
    draws = xr.DataTree.from_dict({"posterior": xr.Dataset({"beta": (("chain", "draw", "coef"), values)})})
    with pytest.raises(InvalidInputError, match=message):
        amc.bias(draws, target(), None)


def test_dims_in_another_order_are_the_same_draws():
    swapped = trace().copy()
    swapped["posterior"] = xr.DataTree(trace()["posterior"].to_dataset().transpose("coef", "draw", "chain"))
    assert draws_of(swapped, target()).theta.tobytes() == draws_of(trace(), target()).theta.tobytes()


@pytest.mark.thorough
def test_estimands_of_the_user():
    told = amc.bias(
        trace(), target(), sampler(), {"product": lambda posterior: posterior["beta"].prod("coef")}, form="audit",
        n_audits=40, random_seed=3,
    )  # fmt: skip
    assert told.estimand.values.tolist() == ["product"]
    same = amc.bias(
        trace(), target(), sampler(), {"beta": lambda posterior: posterior["beta"]}, form="audit", n_audits=40,
        random_seed=3,
    )  # fmt: skip
    np.testing.assert_allclose(same.bias.values, found().bias.values[:2], rtol=1e-12)


def test_unmet_chains_are_counted_and_forbid_an_estimate():
    walk = amc.MetropolisHastings(amc.RandomWalk(0.02), amc.ExactTest())
    told = amc.bias(trace(), target(), sampler(), kernel=walk, max_steps=4, n_audits=30, random_seed=1)
    unmet = int(told.unmet)
    assert unmet > 0 and unmet == int((~told.met).sum()) and int(told.n_couplings) >= unmet
    assert told.verdict.item() == "not applicable" and "drift of 4 exact steps" in told.reasons.item()
    weighed = told.weight.values[~told.met.values]
    assert (weighed == -1.0).all()  # they keep their weight in the mean


class TestStreams:
    """The seed of the trace serves for its audits: they read streams of their own."""

    def used_again(self, monkeypatch):
        """Audit with the seed of the trace; return the streams that a chain of the trace had read, or two share."""
        read, make_audits = [], estimate._audit

        def watched(form, streams, *rest):
            read[:] = [rng.bit_generator.seed_seq for rng in streams]
            return make_audits(form, streams, *rest)

        monkeypatch.setattr(estimate, "_audit", watched)
        amc.bias(trace(), target(), sampler(), form="audit", n_audits=20, random_seed=1)
        of_chains = {_first(rng.bit_generator.seed_seq) for k in seed_sequences(1, 4)[0] for rng in streams(k)}
        own = [_first(sequence) for sequence in read]
        return [first for first in own if first in of_chains or own.count(first) > 1]

    @pytest.mark.thorough
    def test_no_stream_of_a_chain_is_used_again(self, monkeypatch):
        assert not self.used_again(monkeypatch)

    @pytest.mark.thorough
    def test_a_chain_s_streams_planted_are_seen(self, monkeypatch):
        monkeypatch.setattr(estimate, "own_streams", lambda sequence: list(streams(seed_sequences(1, 1)[0][0]))[:4])
        assert len(self.used_again(monkeypatch)) == 3

    @pytest.mark.thorough
    def test_one_stream_planted_for_all_is_seen(self, monkeypatch):
        def one(sequence):
            return [np.random.default_rng(np.random.SeedSequence(1, spawn_key=(STREAM, 0))) for _ in range(4)]

        monkeypatch.setattr(estimate, "own_streams", one)
        assert self.used_again(monkeypatch)


def _first(sequence):
    return np.random.default_rng(sequence).random()


class TestOneAudit:
    """What an audit of one draw draws: fresh orders for each audit, and a u for each decision."""

    def looks(self, test, n=2):
        rng = np.random.default_rng(0)
        own = dataclasses.replace(sampler(), test=test)
        form = audit_form(target(), own, draws_of(trace(), target()), rng, 16, 100)
        theta = trace()["posterior"]["beta"].to_numpy()[0, -1]
        return [form.auditors[0].audit_at(theta, 1, 16) for _ in range(n)]

    def test_orders_are_fresh(self):
        table_of = {}
        for look in self.looks(amc.SequentialTTest(0.3, 8), 6):
            table_of[look.proposed.tobytes()] = len(set(look.log_ratios.tolist()))
        assert len(table_of) == 6 and max(table_of.values()) > 4  # of 16 orders

    def us_are_stratified(self):
        """Say whether no u is taken twice, in an audit or in two, and each audit has one in each stratum."""
        every = [np.exp(look.thresholds) for look in self.looks(amc.acceptance.BernsteinTest(0.5, 8, range=0.5), 2)]
        fresh = len({*every[0], *every[1]}) == 2 * every[0].size
        return fresh and all((np.floor(np.sort(u) * u.size) == np.arange(u.size)).all() for u in every)

    def test_no_u_is_taken_twice(self):
        assert self.us_are_stratified()

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda u, rule: np.log(np.repeat(u[::2], 2)),  # each u for two decisions
            lambda u, rule: np.log((np.arange(u.size) + 0.5) / u.size),  # the same in all audits
        ],
        ids=["for two decisions", "for all audits"],
    )
    def test_a_u_taken_twice_is_seen(self, monkeypatch, wrong):
        monkeypatch.setattr(audits, "threshold_at", wrong)
        assert not self.us_are_stratified()


class TestKernel:
    def test_a_pair_of_the_same_posterior(self):
        pair = (
            amc.ControlVariate(target()),
            amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target())), amc.ExactTest()),
        )
        told = amc.bias(trace(), target(), sampler(), kernel=pair, n_audits=20, random_seed=1)
        assert told.attrs["form"] == "drift" and told.attrs["kernel"] == "Independence"

    def test_another_posterior_is_refused(self):
        walk = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest())
        with pytest.raises(IncompatibleError, match="more than a constant"):
            amc.bias(trace(), target(), sampler(), kernel=(logistic(40, 2, prior_scale=2.0), walk))

    def test_an_approximate_kernel_is_refused(self):
        with pytest.raises(
            IncompatibleError, match=r"must leave the posterior invariant, and SequentialTTest.*stops early"
        ):
            amc.bias(trace(), target(), sampler(), kernel=sampler())


def test_why_form_audit_cannot_be_had():
    walk = amc.RandomWalk(0.1)
    for own, why in (
        (amc.MetropolisHastings(walk, amc.acceptance.AlwaysAccept()), "no test"),
        (amc.MetropolisHastings(walk, amc.ExactTest()), "exact"),
        (amc.MetropolisHastings(amc.RandomWalk(0.1, target_acceptance=0.3), amc.SequentialTTest(0.1, 8)), "tuned"),
        (amc.samplers.SliceSampler(), "no audited steps"),
        (sampler(), ""),
    ):
        assert why in own.why_no_audits(target(), [{}])
    with pytest.raises(IncompatibleError, match=r"no form 'audit'.*from elsewhere"):
        amc.bias(trace(), target(), None, form="audit")


@pytest.mark.thorough
def test_a_tuned_proposal_is_audited_as_tuning_left_it():
    """Each chain by its own factor, which the trace keeps; to the same proposals from the same numbers."""
    walk = amc.RandomWalk(np.diag([0.04, 0.01]), target_acceptance=0.5)
    mixed = amc.proposals.Mixture([amc.Langevin(0.1, target_acceptance=0.5), walk])
    own = amc.MetropolisHastings(mixed, amc.SequentialTTest(0.3, 8))
    run = amc.sample(target(), own, draws=10, tune=30, chains=2, random_seed=1, progressbar=False, audit_every=None)
    draws = draws_of(run, target())
    assert own.why_no_audits(target(), draws.adapted) == ""
    form = audit_form(target(), own, draws, np.random.default_rng(0), 16, 100)
    for adapted, auditor, coupling in zip(draws.adapted, form.auditors, form.couplings, strict=True):
        chain = coupling.start(draws.flat[0].copy(), 0.0)
        for state in (auditor.state.proposal, chain.proposal):
            assert 0.1 * np.exp(state.first.log_factor[0]) == pytest.approx(adapted["step_size_0"], rel=1e-15)
            assert np.exp(state.second.log_factor[0]) == pytest.approx(adapted["scale_factor_1"], rel=1e-15)
    assert len(set(form.couplings)) == 2
    assert amc.bias(run, target(), own, form="audit", n_audits=20, random_seed=1).attrs["form"] == "audit"


@pytest.mark.parametrize(
    ("settings", "message"), [({"form": "other"}, "form"), ({"seconds": "1"}, "seconds"), ({"n_audits": 0}, "n_audits")]
)
def test_careless_arguments(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        amc.bias(trace(), target(), sampler(), **settings)


GOOD = AuditSummary(
    labels=["a", "b"],
    bias=np.zeros(2),
    error=np.full(2, 0.01),
    variance=np.ones(2),
    n_audits=200,
    n_couplings=50,
    unmet=0,
    max_steps=2000,
    tv_upper=0.3,
    largest_share=0.05,
    forgetting_time=3.0,
    confidence=0.95,
)


RHAT = Finding("R-hat", "failure", "R-hat is above 1.01 for 1 of 2 parameters: a 1.14", "take draws=2_000", 1.14, 1.01)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "small"),
        ({"failed": [RHAT], "unmet": 1, "bias": np.array([0.5, 0.0])}, "cannot be judged"),
        ({"unmet": 1, "tv_upper": 2.0}, "not applicable"),
        ({"tv_upper": 1.0, "largest_share": 0.5}, "not applicable"),
        ({"largest_share": 0.11, "bias": np.array([0.5, 0.0])}, "inconclusive"),
        ({"bias": np.array([0.0, -0.06])}, "biased"),
        ({"bias": np.array([0.0, 0.04])}, "small"),  # seen, and negligible
        ({"error": np.array([0.01, 0.06])}, "inconclusive"),
        ({"forgetting_time": 10.1}, "inconclusive"),  # 200 audits see what chains forget in 10 steps
        ({"forgetting_time": 10.1, "bias": np.array([0.5, 0.0])}, "biased"),  # it was seen
        ({"tv_upper": np.nan, "largest_share": np.nan}, "small"),  # nothing is known of a test
        ({"n_couplings": 0}, "small"),  # the test never erred
        ({"n_couplings": 0, "error": np.full(2, np.inf)}, "inconclusive"),
    ],
)
def test_verdicts_in_their_order(change, expected):
    told, reasons = verdict(GOOD._replace(**change))
    assert told == expected and reasons


def noise(chains, draws, memory=0.0):
    """Return stationary chains (chains, draws, 2) of unit variance with this autocorrelation between neighbours."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(chains, draws, 2))
    for t in range(1, draws):
        values[:, t] = memory * values[:, t - 1] + np.sqrt(1.0 - memory**2) * values[:, t]
    return values


STUCK = np.where(np.arange(2)[:, None, None] == 1, 0.3, noise(2, 400))


@pytest.mark.parametrize(
    ("values", "checks"),
    [
        (noise(2, 400), []),
        (noise(1, 400), []),  # of one chain there is no R-hat
        (noise(2, 60), []),  # nothing was checked
        (noise(4, 400, 0.6), []),  # 390 of 400 wanted effective draws: a warning about the run, enough for audits
        (noise(2, 1200) + np.arange(2)[:, None, None], ["R-hat"]),
        (noise(1, 400, 0.99), ["bulk ESS", "tail ESS"]),
        (STUCK, ["movement"]),
    ],
)
def test_which_checks_of_a_run_forbid_a_verdict(values, checks):
    posterior = xr.Dataset({"beta": (("chain", "draw", "coef"), values)})
    failed = failed_checks(posterior)
    assert {finding.check for finding in failed} >= set(checks) and bool(failed) == bool(checks)
    posterior.attrs |= {"stopped": "failure", "failure": "the log density was NaN at theta"}
    assert failed_checks(posterior)[0].check == "end of the run"


@pytest.mark.thorough
def test_a_run_that_failed_its_checks_gets_no_estimate():
    """Two chains of the posterior's shape a standard deviation apart: an estimate would call their mean biased."""
    sound = np.random.default_rng(2).normal(size=(2, 200, 2)) * amc.laplace(target()).sd + amc.laplace(target()).mode
    apart = sound + np.array([0.0, 2.0])[:, None, None] * amc.laplace(target()).sd
    told = {
        name: amc.bias(
            xr.DataTree.from_dict({"posterior": xr.Dataset({"beta": (("chain", "draw", "coef"), values)})}),
            target(),
            None,
            n_audits=100,
            random_seed=1,
        )
        for name, values in {"sound": sound, "apart": apart}.items()
    }
    assert told["sound"].verdict.item() != "cannot be judged" and told["sound"].attrs["problems"] == ""
    assert told["apart"].verdict.item() == told["apart"].attrs["verdict"] == "cannot be judged"
    assert "R-hat" in told["apart"].attrs["problems"] and "R-hat is above " in told["apart"].reasons.item()
    assert "next: " in told["apart"].reasons.item()
    seen, _ = verdict(GOOD._replace(bias=told["apart"].bias_sd.values[:2]))
    assert seen == "biased"  # what the rules would say of its figures alone


@pytest.mark.parametrize(("steps", "n_audits", "low", "high"), [(5000, 20_000, 4000, 6700), (50, 20_000, 40, 60)])
def test_the_time_of_forgetting_is_that_of_chains_which_meet_by_chance(steps, n_audits, low, high):
    """Also where the audits pay for four meetings of the twenty: what was spent, over 20, would be 1000 of 5000.

    The median of 400 searches counts 3 to 5 meetings where 4 are expected; the seed is fixed.
    """
    rng = np.random.default_rng(0)

    def meet(chains, a, b, lag, most, record):
        time = int(rng.geometric(1.0 / steps))
        return types.SimpleNamespace(time=min(time, most), met=time <= most, passes=1.0)

    coupling, draws = types.SimpleNamespace(meet=meet), rng.standard_normal((50, 2))
    found = [forgetting_time(coupling, draws, n_audits, rng, rng).steps for _ in range(400)]
    assert low < np.median(found) < high


@pytest.mark.thorough
def test_passes_count_the_audits_of_pilots_the_first_ten_included(monkeypatch):
    runs, searches = [], []
    audit, forget = estimate._audit, estimate.forgetting_time
    monkeypatch.setattr(estimate, "_audit", lambda *given: runs.append(audit(*given)) or runs[-1])
    monkeypatch.setattr(estimate, "forgetting_time", lambda *given: searches.append(forget(*given)) or searches[-1])
    found = amc.bias(trace(), target(), sampler(), n_audits=30, random_seed=3)
    audits_made = [record.passes for run in runs for record in run.records]
    assert len(runs) >= 3 and float(found["passes"]) == sum(audits_made) + searches[0].passes


def test_the_audits_that_are_needed_are_told():
    _, [told] = verdict(GOOD._replace(n_audits=10_695, forgetting_time=3565.0))
    assert "about 71,300 audits are needed" in told
    _, [told] = verdict(GOOD._replace(n_audits=200, forgetting_time=201.0))  # at most one of the pairs met
    assert "at least 4,020 audits are needed" in told


def test_a_kernel_that_stands_still_tells_nothing():
    far = amc.MetropolisHastings(amc.RandomWalk(1e6), amc.ExactTest())
    told = amc.bias(trace(), target(), None, kernel=far, n_audits=30, random_seed=3)
    assert (
        told.n_couplings == 0
        and told.verdict == "inconclusive"
        and "did not move from any of 30 draws" in str(told.reasons.item())
    )
    np.testing.assert_array_equal(told.bias, 0.0)
    np.testing.assert_array_equal(told.bias_upper, np.inf)
    np.testing.assert_array_equal(told.debiased_lower, -np.inf)


class TestDebias:
    @pytest.mark.thorough
    def test_means_are_left_alone_where_audits_cost_more(self):
        told = amc.debias(trace(), found().assign_attrs(cost_of_draws=1.0, cost_of_audits=2.0))
        assert not bool(told.applied) and "the means are unchanged" in told.attrs["sentence"]
        np.testing.assert_array_equal(told.estimate, found()["mean"])

    def test_the_bias_comes_off_where_they_cost_less(self):
        estimated = found().assign(verdict="small").assign_attrs(cost_of_draws=2.0, cost_of_audits=1.0)
        told = amc.debias(trace(), estimated)
        assert bool(told.applied)
        np.testing.assert_array_equal(told.estimate, found()["mean"] - found()["bias"])
        assert not bool(amc.debias(trace(), estimated.assign(verdict="not applicable")).applied)

    def test_when_it_pays(self):
        told = amc.debias(trace(), found().assign_attrs(cost_of_draws=2.4e-4, cost_of_audits=2.0e-4))
        worth = (2.0e-4 + 2.0 * (2.4e-4 * 2.0e-4) ** 0.5) / found().bias_sd.values ** 2
        np.testing.assert_allclose(told.pays_from, worth)
        assert optimal_share(1.0, 1.0) == 0.5

    def test_of_another_trace_is_refused(self):
        other = amc.sample(target(), sampler(), draws=20, tune=0, chains=1, random_seed=9, progressbar=False)
        with pytest.raises(IncompatibleError, match="debias needs the trace from which bias was computed"):
            amc.debias(other, found())

    def test_one_equal_mean_does_not_make_it_the_same_trace(self):
        other = trace().copy(deep=True)
        other["posterior"]["beta"][..., 1] += 1.0
        with pytest.raises(IncompatibleError, match="other draws of beta"):
            amc.debias(other, found())

    def test_variables_added_to_the_trace_change_nothing(self):
        other = trace().copy(deep=True)
        other["posterior"]["odds"] = np.exp(other["posterior"]["beta"])
        np.testing.assert_array_equal(amc.debias(other, found()).estimate, amc.debias(trace(), found()).estimate)
