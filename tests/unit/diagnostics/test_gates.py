"""Gates on audits that were made up: what fires, what does not, and what the errors are."""

import math
import re

import numpy as np
import pytest

from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.diagnose import findings
from approxmcmc.diagnostics.gates import Gate, accumulated_error, distance, gates, mean_of_audits
from tests.fakes import fake_trace

DRAWS, EVERY = 1000, 20  # 100 audits of two chains
ATTRS = {"audit_policy": "auto", "audits": 100, "audit_every": EVERY}


def problems(trace):
    """Return what a run is warned of, but for its mixing: these draws were made up."""
    mixing = ("R-hat", "bulk ESS", "tail ESS", "accumulated error")
    return [str(one) for one in findings(trace) if one.fires and one.check not in mixing]


def audits(seed=0, **columns):
    """Return a trace of a clean run with 100 audits; `columns` replaces records, given at the audits."""
    rng = np.random.default_rng(seed)
    log_ratio = rng.normal(size=100)
    usual = {
        "audited_acceptance": np.exp(-np.abs(log_ratio)),
        "audited_log_ratio": log_ratio,
        "audited_energy_change": log_ratio,
        "audited_tau": np.full(100, 3.0),
        "audited_kurtosis": np.full(100, 4.0),
        "audit_acceptance_error": 0.05 * rng.normal(size=100),
        "audit_acceptance_noise": np.full(100, 0.05),
    }
    stats = {"decisions_audited": np.zeros((2, DRAWS), np.int64)}
    stats["decisions_audited"][:, ::EVERY] = 1
    for name, values in (usual | columns).items():
        if values is not None:
            stats[name] = np.full((2, DRAWS), np.nan)
            stats[name][:, ::EVERY] = np.reshape(np.broadcast_to(values, 100), (2, -1))
    draws = rng.normal(size=(2, DRAWS))
    return fake_trace(draws, stats=stats, datapoints_per_draw=50, n_obs=10_000, attrs=ATTRS)


def found(**columns):
    return {gate.name: gate for gate in gates(audits(**columns)["sample_stats"].dataset)}


NAMES = ["acceptance_error", "acceptance_difference", "sign_score", "energy_drift", "heavy_terms", "audits"]


def test_a_clean_run_passes_all():
    clean = found()
    assert list(clean) == NAMES and not any(gate.fires for gate in clean.values())
    assert all(gate.lower <= gate.value <= gate.upper for gate in clean.values())
    assert not problems(audits())


SIGNS = np.where(np.arange(100) % 2, 1.0, -1.0)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("columns", "names", "says"),
    [
        ({"audit_acceptance_error": 0.3 * SIGNS}, {"acceptance_error"}, "off by 0.30 on average"),
        ({"audit_acceptance_error": 0.1}, {"acceptance_difference", "acceptance_error"}, "off by 0.10 on average"),
        ({"audit_acceptance_error": -0.1}, {"acceptance_difference", "acceptance_error"}, "off by 0.10 on average"),
        ({"audited_log_ratio": np.where(np.arange(100) % 3, 0.5, -0.5)}, {"sign_score"}, r"the sign score .* is \+0\."),
        ({"audited_energy_change": 40.0 + 9.0 * SIGNS}, {"energy_drift"}, r"the draws' log density by \+2[0-9] "),
        ({"audited_kurtosis": 400.0}, {"heavy_terms"}, "in 100% of 100 audits .* 50 of them"),
    ],
)
def test_each_fires_by_itself(columns, names, says):
    fired = {name for name, gate in found(**columns).items() if gate.fires}
    assert fired == names
    sentences = problems(audits(**columns))
    assert len(sentences) == len(names)
    assert re.search(says, sentences[0])


def test_small_things_do_not_fire():
    assert not found(audit_acceptance_error=0.04)["acceptance_difference"].fires
    assert not found(audited_energy_change=0.5 + 0.01 * SIGNS)["energy_drift"].fires
    few_flips = {"audited_kurtosis": 400.0, "audited_tau": 0.01}  # heavy, and too small to flip a decision
    assert not found(**few_flips)["heavy_terms"].fires
    assert not found(audited_kurtosis=np.where(np.arange(100) < 10, 400.0, 4.0))["heavy_terms"].fires


def test_outside_the_support_nothing_moves():
    outside = {"audited_acceptance": 0.0, "audited_log_ratio": -math.inf, "audited_energy_change": -math.inf}
    assert found(**outside)["energy_drift"].value == found(**outside)["sign_score"].value == 0.0


def test_without_a_test_the_draws_alone_are_judged():
    of_a_test = ("audit_acceptance_error", "audit_acceptance_noise", "audited_tau", "audited_kurtosis")
    assert list(found(**dict.fromkeys(of_a_test))) == ["sign_score", "energy_drift", "audits"]


class TestTooFew:
    def test_are_told(self):
        few = {"audited_acceptance": np.where(np.arange(100) < 30, 0.5, np.nan)}
        trace = audits(**few)
        trace["sample_stats"]["decisions_audited"][:] = 0
        gate = gates(trace["sample_stats"].dataset)[-1]
        assert (gate.name, gate.value, gate.fires) == (
            "audits",
            30,
            True,
        ) and "30 steps were audited (limit 50): too few" in gate.sentence
        assert len(problems(trace)) == 1

    def test_nobody_asked(self):
        assert gates(fake_trace(np.zeros((2, 100)))["sample_stats"].dataset) == []

    def test_fewer_than_twenty_judge_nothing(self):
        gate = found(audit_acceptance_error=np.where(np.arange(100) < 10, 0.5, np.nan))["acceptance_error"]
        assert not gate.fires and gate.upper == math.inf


class TestDistance:
    def test_is_zero_on_average_where_there_is_none(self):
        noise = 0.1 * np.random.default_rng(1).normal(size=100_000)
        estimates = distance(noise, np.full(noise.size, 0.1))
        assert abs(estimates.mean()) < 5 * estimates.std() / math.sqrt(noise.size)
        assert abs(noise).mean() > 0.07  # what it would be without the correction

    @pytest.mark.parametrize("delta", [0.05, -0.1, 0.3])
    def test_never_errs_upwards_and_is_right_when_clear(self, delta):
        noisy = delta + 0.1 * np.random.default_rng(2).normal(size=100_000)
        mean = distance(noisy, np.full(noisy.size, 0.1)).mean()
        assert mean < abs(delta) + 0.002
        assert mean > (abs(delta) - 0.01 if abs(delta) >= 0.3 else 0.3 * abs(delta))

    def test_without_noise(self):
        assert distance(np.array([0.2, -0.3, 0.0]), np.zeros(3)).tolist() == [0.2, 0.3, 0.0]


class TestStandardError:
    def test_of_independent_audits(self):
        values = np.random.default_rng(3).normal(size=(4, 500))
        mean = mean_of_audits(values)
        assert mean.n == 2000 and mean.value == pytest.approx(values.mean())
        assert mean.error == pytest.approx(1.0 / math.sqrt(2000), rel=0.2)

    def test_of_correlated_audits(self):
        """Runs of 10 equal values hold a tenth of the information."""
        values = np.repeat(np.random.default_rng(4).normal(size=(4, 100)), 10, axis=1)
        assert mean_of_audits(values).error == pytest.approx(1.0 / 20.0, rel=0.3)

    def test_of_more_chains_than_audits(self):
        values = np.full((300, 1), np.nan)
        values[:200, 0] = np.random.default_rng(6).normal(size=200)
        mean = mean_of_audits(values)
        assert mean.n == 200 and mean.error == pytest.approx(values[:200].std(ddof=1) / math.sqrt(200))

    def test_gaps_between_audits_do_not_count(self):
        values = np.full((2, 900), np.nan)
        values[:, ::9] = np.random.default_rng(5).normal(size=(2, 100))
        dense = mean_of_audits(values[:, ::9])
        assert mean_of_audits(values) == dense


def error(value, lower):
    """Return the gate on E|alpha^ - alpha|."""
    return [Gate("acceptance_error", value, lower, 2.0 * value - lower, 0.05, False, "", "")]


def ess(value):
    """Return the finding on bulk ESS."""
    return [Finding("R-hat", "ok", "", value=1.0), Finding("bulk ESS", "ok", "", value=value)]


@pytest.mark.parametrize(
    ("gate", "effective", "verdict"),
    [
        (error(0.018, 0.010), 561.0, "warning"),  # a walk: 14 steps to forget, errors of .018 each
        (error(0.018, 0.010), 8000.0, "ok"),  # independent draws with the same errors
        (error(0.018, 0.001), 561.0, "ok"),  # two standard errors above 0: may be nothing
        (error(0.022, 0.0074), 400.0, "warning"),  # less than three standard errors above 0, and far beyond the limit
        (error(0.0007, 0.0005), 3700.0, "ok"),
    ],
)
def test_small_errors_matter_where_chains_remember(gate, effective, verdict):
    [found] = accumulated_error(gate, ess(effective), 8000)
    assert found.verdict == verdict
    assert found.value == pytest.approx(gate[0].value * 8000 / effective)
    assert f"{found.value:.2g}" in found.finding


@pytest.mark.parametrize(
    ("gates", "convergence"),
    [([], ess(500.0)), (error(0.02, 0.01), []), (error(0.02, 0.01), ess(math.nan)), (error(0.02, -math.inf), ess(9.0))],
)
def test_nothing_is_said_where_audits_or_draws_are_missing(gates, convergence):
    assert accumulated_error(gates, convergence, 8000) == []
