"""Biases of a study's settings: made once, stored, made again when what they depend on changes, and shown."""

import numpy as np
import pytest
import xarray as xr

import approxmcmc.couplings
from approxmcmc.errors import IncompatibleError, StudyError
from approxmcmc.study import Bias
from approxmcmc.study.progress import Listener
from approxmcmc.study.report.biases import SettingBiases, bias_section, biases_of, gap_to_gold, sentence
from approxmcmc.study.report.content import write_report
from approxmcmc.study.report.pieces import Figure
from approxmcmc.study.results import StudyResults
from approxmcmc.study.run import run_study
from tests.fakes import fake_trace
from tests.studies.test_foreign_cells import ForeignWalk
from tests.studies.toys import ToySampler, ToyTarget, quiet_probe, toy_sample, toy_study

LABELS = ["beta[0]", "beta[1]", "(beta[0] - mean)^2", "constant"]


def fake_bias(verdict="biased", worst=0.3):
    """What `bias` returns, as far as a report reads it."""
    value, sd = np.array([worst, -0.01, 0.02, 0.0]), np.array([2.0, 1.0, 1.0, 0.0])
    by_estimand = {
        "bias": value * sd,
        "bias_lower": (value - 0.02) * sd,
        "bias_upper": (value + 0.02) * sd,
        "posterior_sd": sd,
    }
    scalars = dict.fromkeys(("mean_abs_delta", "tv_bound"), 0.1)
    limits = {f"{name}{end}": 0.1 + step for name in scalars for end, step in (("_lower", -0.05), ("_upper", 0.05))}
    counts = {"n_audits": 100, "n_couplings": 40, "unmet": 0, "passes": 450.0, "seconds": 2.0}
    words = {"verdict": verdict, "reasons": "1 of 3 biases is not 0 & above .05 sd"}
    data = {**{name: ("estimand", v) for name, v in by_estimand.items()}, **scalars, **limits, **counts, **words}
    return xr.Dataset(data, {"estimand": LABELS}, {"form": "audit"})


@pytest.fixture
def calls(monkeypatch):
    """Put the fake in place of `bias`; epsilon 0.2 has no audits. Return what it was asked."""
    asked = []

    def bias(run, target, sampler, estimands, **how):
        asked.append((sampler.epsilon, run.posterior.sizes["chain"], how))
        if sampler.epsilon == 0.2:
            raise IncompatibleError("no coupling is known for it")
        return fake_bias("biased" if sampler.epsilon else "small")

    monkeypatch.setattr(approxmcmc.couplings, "bias", bias)
    return asked


def test_draws_of_whole_chains_are_judged_as_draws_from_elsewhere(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        approxmcmc.couplings, "bias", lambda run, target, sampler, *_, **__: asked.append((run, sampler)) or fake_bias()
    )
    study = toy_study(samplers={"theirs": ForeignWalk()}, bias=Bias(), targets={"plain": ToyTarget})
    run_study(study, "paper", tmp_path, sample=toy_sample, probe=quiet_probe, listener=Told())
    [(run, sampler)] = asked
    assert sampler is None
    assert "inference_library_settings" not in run["posterior"].attrs


class Told(Listener):
    def __init__(self):
        self.lines = []

    def line(self, text):
        self.lines.append(text)


def run(folder, study, **options):
    told = Told()
    run_study(study, "paper", folder, sample=toy_sample, probe=quiet_probe, listener=told, **options)
    return [line for line in told.lines if line.startswith("bias ")]


def test_they_are_made_once_per_setting_and_stored(tmp_path, calls):
    study = toy_study(bias=Bias(n_audits=100))
    lines = run(tmp_path, study)
    assert [(epsilon, chains) for epsilon, chains, _ in calls] == [(0.0, 2), (0.05, 2), (0.2, 2)]
    assert {how["n_audits"] for *_, how in calls} == {100}
    assert len({how["random_seed"] for *_, how in calls}) == 3
    assert ": small in" in lines[0] and ": biased in" in lines[1] and lines[2].endswith("no coupling is known for it")
    assert run(tmp_path, study)[:2] == lines[:2] and len(calls) == 3
    found = StudyResults.open(study, "paper", tmp_path).bias("plain", study.settings()[1].label)
    xr.testing.assert_allclose(found, fake_bias())
    assert found.attrs == {"form": "audit"}
    asked_otherwise = StudyResults.open(toy_study(bias=Bias(n_audits=7)), "paper", tmp_path)
    assert asked_otherwise.bias("plain", study.settings()[1].label) is None, "not of these settings"


def test_they_wait_for_all_cells_of_a_setting(tmp_path, calls):
    study = toy_study(bias=Bias())
    run(tmp_path, study, only="replicate=0")
    assert not calls
    run(tmp_path, study, only="epsilon=0.05")
    assert [epsilon for epsilon, *_ in calls] == [0.05]


def test_they_are_made_again_when_what_they_depend_on_changes(tmp_path, calls):
    run(tmp_path, toy_study(bias=Bias(n_audits=100)))
    run(tmp_path, toy_study(bias=Bias(n_audits=200)))
    assert len(calls) == 6
    run(tmp_path, toy_study(bias=Bias(n_audits=200), replicates=3))
    assert [chains for _, chains, _ in calls[6:]] == [3, 3, 3]


def test_a_failed_cell_leaves_the_others(tmp_path, calls):
    study = toy_study(bias=Bias(), samplers={"walk": ToySampler(), "bad": ToySampler(0.05, "raises")})
    run(tmp_path, study)
    assert [(epsilon, chains) for epsilon, chains, _ in calls] == [(0.0, 2)]


def test_samplers_are_unwrapped_and_the_kernel_is_made_for_the_target(tmp_path, calls):
    bias = Bias(of=lambda target, sampler: (target, ToySampler(0.125)), kernel=lambda target: f"exact on {target.size}")
    run(tmp_path, toy_study(bias=bias))
    assert {epsilon for epsilon, *_ in calls} == {0.125} and {how["kernel"] for *_, how in calls} == {"exact on 2"}


def test_without_them_nothing_is_asked(tmp_path, calls):
    run(tmp_path, toy_study())
    assert not calls and StudyResults.open(toy_study(), "paper", tmp_path).bias("plain", "walk[epsilon=0.0]") is None


def test_a_number_out_of_range_is_refused():
    with pytest.raises(StudyError, match="`n_audits` > 0"):
        Bias(n_audits=0)


def test_the_page_has_them_where_there_is_no_gold_standard(tmp_path, calls):
    study = toy_study(bias=Bias())
    run(tmp_path, study)
    results = StudyResults.open(study, "paper", tmp_path)
    page = write_report(results, tmp_path / "report").read_text(encoding="utf-8")
    assert "Verdicts on biases" in page and "1 of 3 biases is not 0 &amp; above .05 sd" in page
    assert (
        "Evidence for the verdicts" in page
        and "no coupling is known for it" in page
        and "Biases: plain" in page
        and "constant" not in page
    )
    told = biases_of(results)
    assert [one.verdict for one in told] == ["small", "biased", "failed"]
    said = sentence("plain", told)
    assert said in page.replace("&#39;", "'") and said.startswith("Biases on plain") and "failed: walk" in said


def test_the_gap_to_a_gold_standard_stands_beside_them(rng):
    """Means .5 and 0 apart, in sds 2 and 1 of the draws: the limits hold the truth and count both errors."""
    gold = fake_trace(rng.normal(size=(4, 1000, 2)), labels=[0, 1])
    mine = fake_trace(rng.normal(size=(2, 900, 2)) + np.array([0.5, 0.0]), labels=[0, 1])
    gap = gap_to_gold(fake_bias(), mine, gold)
    assert list(gap.index) == ["beta[0]", "beta[1]"]
    assert gap.loc["beta[0]", "gap"] == pytest.approx(
        float(mine.posterior.beta[..., 0].mean() - gold.posterior.beta[..., 0].mean()) / 2.0
    )
    for label, truth in (("beta[0]", 0.25), ("beta[1]", 0.0)):
        assert gap.loc[label, "gap_lower"] < truth + 0.03 and gap.loc[label, "gap_upper"] > truth - 0.03
        half = (gap.loc[label, "gap_upper"] - gap.loc[label, "gap_lower"]) / 2.0
        assert half == pytest.approx(
            1.96 * np.hypot(1800**-0.5, 4000**-0.5) * (0.5 if label == "beta[0]" else 1), rel=0.5
        )
    assert gap_to_gold(fake_bias(), mine, None) is None


def test_the_interval_of_the_largest_bias_allows_for_the_choice_of_the_largest(rng):
    """Of 200 runs without bias, each with 20 estimands, 93 % and more have 0 in the interval; alone about a third."""
    held = alone = 0
    for _ in range(200):
        noise = rng.normal(size=20)
        limits = {"bias": noise, "bias_lower": noise - 1.96, "bias_upper": noise + 1.96, "posterior_sd": np.ones(20)}
        found = fake_bias().drop_dims("estimand").assign({name: ("estimand", v) for name, v in limits.items()})
        found = found.assign_coords(estimand=[f"beta[{k}]" for k in range(20)])
        [section] = bias_section([SettingBiases("plain", "walk", found, "", None)])
        [row] = section.pieces[0].data.to_dict("records")
        held += row["largest bias (sd)_lower"] <= 0.0 <= row["largest bias (sd)_upper"]
        alone += np.abs(noise).max() <= 1.96
    assert alone < 100  # planted
    assert held >= 180  # a true 95 % misses 180 of 200 with probability 2e-3


@pytest.mark.parametrize(("verdict", "drawn"), [("biased", True), ("small", True), ("inconclusive", False)])
def test_biases_that_decide_nothing_have_no_picture(verdict, drawn):
    [section] = bias_section([SettingBiases("toy", "a setting", fake_bias(verdict), "", None)])
    assert any(isinstance(piece, Figure) for piece in section.pieces) == drawn
