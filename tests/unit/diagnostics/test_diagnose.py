"""Checks of finished runs: each fails on a trace with one planted fault, and passes without it."""

import json
import math
import re
import sys

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.acceptance import SequentialTTest
from approxmcmc.diagnostics import convergence, diagnose
from approxmcmc.diagnostics.convergence import Sample
from approxmcmc.diagnostics.diagnose import attributes, findings, report
from approxmcmc.diagnostics.gates import Gate
from approxmcmc.diagnostics.health import undefined
from approxmcmc.diagnostics.modes import places_of_chains
from approxmcmc.errors import InvalidInputError
from tests.fakes import autoregression, fake_trace

LABELS = ["x1", "x2", "x3"]


def chains(seed=0, draws=400, dim=3, n_chains=4, coefficient=0.0):
    rng = np.random.default_rng(seed)
    return np.stack([autoregression(rng, (n_chains, draws), coefficient) for _ in range(dim)], axis=2)


def stuck(values, chain):
    return np.where(np.arange(len(values))[:, None, None] == chain, values[:, :1], values)


def slow(values, chain, every=200):
    held = values.copy()
    held[chain] = np.repeat(values[chain, ::every], every, axis=0)[: values.shape[1]]
    return held


def apart(values, shift):
    return values + shift * np.array([0.0, 0.0, 0.0, 1.0])[:, None, None] * np.array([0.0, 1.0, 0.0])


def fired(trace):
    return [finding for finding in findings(trace) if finding.fires]


def trace_of(draws, **options):
    return fake_trace(draws, labels=LABELS[: draws.shape[2]], **options)


class TestEachCheck:
    @pytest.mark.parametrize(
        ("trace", "checks", "verdict", "sentence", "where"),
        [
            (
                trace_of(chains(draws=30), attrs={"stopped": "failure", "failure": "The log prior is NaN"}),
                ["end of the run"], "failure", "stopped after 30 draws. The log prior is NaN. The draws", "",
            ),
            (
                trace_of(chains()[:, :0], attrs={"stopped": "time_limit"}),
                ["end of the run"], "failure", "was stopped (time_limit) before the first draw", "",
            ),
            (
                trace_of(chains(), attrs={"stopped": "interrupt"}),
                ["end of the run"], "warning", "was interrupted; 400 draws per chain are kept", "",
            ),
            (trace_of(stuck(chains(), 2)), ["movement"], "failure", "chain(s) [2] never moved in 400", "chain 2"),
            (
                trace_of(apart(chains(), 1.0)),
                ["R-hat", "bulk ESS", "tail ESS"], "failure",
                "R-hat is above 1.017 for 1 of 3 parameters: beta[x2] 1.", "beta[x2]",
            ),
            (
                trace_of(apart(chains(), 0.3)),
                ["R-hat"], "warning", "R-hat is above 1.01 for 1 of 3 parameters: beta[x2] 1.0", "beta[x2]",
            ),
        ],
    )  # fmt: skip
    def test_fires_on_its_fault(self, trace, checks, verdict, sentence, where):
        found = fired(trace)
        assert [finding.check for finding in found] == checks
        assert found[0].verdict == verdict
        assert sentence in found[0].finding
        assert found[0].where == where

    def test_a_chain_that_hardly_moves(self):
        found = fired(trace_of(slow(chains(), 1)))
        assert ("movement", "warning", "chain 1") in [(one.check, one.verdict, one.where) for one in found]

    @pytest.mark.parametrize(("adaptation", "non_centred"), [("diag", False), ("draw_diag", True)])
    def test_a_chain_of_nuts_that_does_not_move_has_no_scale_to_reduce(self, adaptation, non_centred):
        settings = {"target_accept": 0.9, "non_centred": non_centred}
        trace = trace_of(stuck(chains(), 2), attrs={"nuts": "nutpie", "adaptation": adaptation})
        trace["posterior"].attrs["inference_library_settings"] = json.dumps(settings)
        [found] = fired(trace)
        assert "the step size of its trajectories collapsed during tuning" in found.finding
        assert "target_acceptance" not in found.advice and "scale," not in found.advice
        assert "target_accept=0.95" in found.advice and "start elsewhere" in found.advice
        assert ('adaptation="draw_diag"' in found.advice) == (adaptation == "diag")
        assert ("non_centred=True" in found.advice) != non_centred

    def test_states_may_rest_where_their_posterior_does(self):
        draws = np.zeros((2, 400, 1))
        draws[0, 100], draws[1, 300] = 1.0, 1.0
        trace = fake_trace(draws)
        assert [finding.check for finding in fired(trace)] == ["movement"]
        trace["posterior"] = trace["posterior"].to_dataset().astype(np.int64)
        assert fired(trace) == []

    def test_short_effective_samples(self):
        """AR(1) with coefficient .95: 39 draws for an independent one, so 41 of 1600 where 400 are asked for."""
        draws = chains(coefficient=0.95)
        found = {finding.check: finding for finding in fired(trace_of(draws))}
        assert found.keys() == {"R-hat", "bulk ESS", "tail ESS"}
        bulk = az.ess(draws, method="bulk")
        worst = int(np.argmin(bulk))
        assert found["bulk ESS"].value == bulk[worst]
        assert found["bulk ESS"].limit == 400
        assert found["bulk ESS"].finding.startswith("bulk ESS is below 400 (100 per chain) for 3 of 3 parameters: ")
        assert found["bulk ESS"].where.startswith(f"beta[{LABELS[worst]}]")

    def test_the_worst_parameters_are_named_and_the_others_counted(self):
        draws = chains(dim=8)
        draws[0] += np.arange(8) / 4.0
        [first, *_] = fired(fake_trace(draws, labels=list("abcdefgh")))
        assert first.where.startswith("beta[h], beta[g], beta[f] and ")
        assert first.where.endswith(" more")

    def test_what_a_test_says_of_itself(self):
        trace = trace_of(chains(), stats={"max_term_ratio": 0.9})
        settings = json.dumps({"test": SequentialTTest(0.05, 50).to_dict()})
        trace["posterior"].attrs["inference_library_settings"] = settings
        assert [finding.check for finding in fired(trace)] == ["heavy terms"]
        trace["sample_stats"]["max_term_ratio"] = trace["sample_stats"]["max_term_ratio"] * 0.1
        assert fired(trace) == []

    @pytest.mark.parametrize(
        ("name", "fires", "verdict"),
        [("energy_drift", True, "failure"), ("energy_drift", False, "ok"), ("acceptance_error", True, "warning")],
    )
    def test_gates_of_the_audits(self, name, fires, verdict, monkeypatch):
        gate = Gate(name, 12.0, 10.0, 14.0, 1.0, fires, "it drifts by 12 nats", "tune longer")
        module = sys.modules["approxmcmc.diagnostics.diagnose"]  # the package has the function under this name
        monkeypatch.setattr(module, "gates", lambda stats: [gate])
        found = {finding.check: finding for finding in findings(trace_of(chains()))}[name.replace("_", " ")]
        assert found.verdict == verdict
        assert (found.value, found.limit, found.finding, found.advice) == (
            12.0, 1.0, gate.sentence, gate.advice * fires
        )  # fmt: skip

    @pytest.mark.parametrize(("draws", "verdict"), [(99, "not checked"), (400, "warning")])
    def test_too_few_audits(self, draws, verdict):
        trace = trace_of(
            chains(draws=draws), stats={"decisions_audited": np.arange(draws) < 10}, attrs={"audit_every": 9}
        )
        [found] = [finding for finding in findings(trace) if finding.check == "audits"]
        assert (found.verdict, found.value, found.limit) == (verdict, 40, 50)

    @pytest.mark.parametrize(("sd", "fires"), [(0.1, False), (5.0, True)])
    def test_weights(self, sd, fires):
        log_weight = sd * np.random.default_rng(1).standard_normal((1, 2000))
        found = findings(trace_of(chains(n_chains=1, draws=2000), stats={"log_weight": log_weight}))
        assert [(finding.check, finding.fires) for finding in found if finding.check != "end of the run"] == [
            ("Pareto k", fires)
        ]


class TestQuiet:
    def test_a_clean_run_passes_every_check(self):
        table = diagnose(trace_of(chains(seed=3)))
        assert (table["verdict"] == "ok").all()
        checks = ["end of the run", "finite draws", "movement", "R-hat", "bulk ESS", "tail ESS"]
        assert list(table["check"]) == checks

    def test_a_time_limit_is_no_fault(self):
        assert fired(trace_of(chains(seed=3), attrs={"stopped": "time_limit"})) == []

    def test_a_parameter_that_never_changes_is_left_out(self):
        draws = chains(seed=3)
        draws[..., 1] = 2.0
        assert fired(trace_of(draws)) == []

    def test_rare_states_raise_no_alarm(self):
        """Independent draws that are 1 with probability .003, by chance in all chains or in some.

        false_fail: none of 200 seeds beyond this one had R-hat over 1.01 or an ESS below 400.
        """
        rare = (np.random.default_rng(4).random((4, 1000, 1)) < 0.003).astype(float)
        draws = np.concatenate([rare, chains(seed=3, draws=1000, dim=1)], axis=2)
        assert fired(trace_of(draws)) == []

    @pytest.mark.thorough
    def test_chance_alone_seldom_fires(self):
        """Converged chains with 440 effective draws, as a run to `target_ess=400` has them.

        false_fail: .002, 8 or more of 40 runs with a rate of .06; 32 of 40 are above 1.01.
        """
        rng = np.random.default_rng(5)
        largest = [np.max(az.rhat(rng.normal(size=(4, 110, 20)))) for _ in range(40)]
        limit = convergence.r_hat_limit(440.0, 4, 20)
        assert sum(one > limit for one in largest) <= 7
        assert sum(one > convergence.LARGEST_R_HAT for one in largest) > 20

    @pytest.mark.parametrize("ess", [0.0, 5.0, 399.0, float("inf")])
    def test_chance_is_that_of_400_effective_draws_at_most(self, ess):
        """Else chains that stand apart, and have no effective draws for that, would excuse themselves."""
        assert convergence.r_hat_limit(ess, 4, 20) == (1.01 if ess > 400 else convergence.r_hat_limit(400.0, 4, 20))

    def test_a_parameter_that_stands_elsewhere_in_each_chain_is_told(self):
        draws = chains(seed=3)
        draws[..., 1] = np.arange(4)[:, None]
        [first, *_] = fired(trace_of(draws))
        assert (first.check, first.verdict, first.where) == ("R-hat", "failure", "beta[x2]")

    @pytest.mark.parametrize(
        ("trace", "reason"),
        [
            (trace_of(chains(draws=99)), "100 draws per chain are needed, found 99"),
            (trace_of(stuck(chains(), 0)), "a chain never moved"),
            (trace_of(chains(), stats={"weight": 0.5}), "the draws carry weights"),
        ],
    )
    def test_what_cannot_be_judged_is_not(self, trace, reason):
        unchecked = [finding.finding for finding in findings(trace) if finding.verdict == "not checked"]
        assert unchecked == [f"R-hat and ESS were not checked: {reason}"]

    @pytest.mark.parametrize(
        ("n_chains", "known", "verdict", "sentence"),
        [
            (1, {}, "not checked", "one mode looked at: there is one chain"),
            (4, {}, "not checked", "the trace does not hold how far from each other"),
            (4, {"starts_apart": 1.1}, "not checked", "a standard deviation of at most 1.1 posterior sd"),
            (
                4,
                {"starts_apart": 7.0},
                "ok",
                "standard deviation of up to 7 posterior sd; no other",
            ),
            (4, {"proof": "it is concave"}, "ok", "the posterior has one mode: it is concave"),
        ],
    )
    def test_what_the_starts_say_about_modes(self, n_chains, known, verdict, sentence):
        attrs = {"modes": json.dumps(known), "starts_apart": known.get("starts_apart", math.nan)}
        [finding] = [one for one in findings(trace_of(chains(n_chains=n_chains), attrs=attrs)) if one.check == "modes"]
        assert finding.verdict == verdict and re.search(sentence, finding.finding)

    @pytest.mark.parametrize("attrs", [{}, {"modes": json.dumps({})}, {"modes": json.dumps({"searches": 12})}])
    def test_chains_that_stay_in_different_places_are_in_different_modes(self, attrs):
        """Whatever is known of the starts, and also if the trace comes from another library."""
        apart = np.array([-9.0, 9.0, -9.0, 9.0])[:, None, None]
        found = {one.check: one for one in findings(trace_of(chains() + apart, attrs=attrs))}
        assert found["modes"].verdict == "warning" and found["modes"].value == 2
        assert found["modes"].finding.startswith("chains 0, 2 and chains 1, 3 have no value of beta[")
        assert found["R-hat"].advice == found["modes"].advice and "would only hide modes" in found["R-hat"].advice

    @pytest.mark.thorough
    @pytest.mark.parametrize("coefficient", [0.9, 0.99, 0.999, 1.0])
    def test_chains_that_mix_slowly_are_seldom_said_to_be_in_different_modes(self, coefficient):
        """Of 300 runs of four chains, at most 2 % (6) may be: paths of a random walk from far starts are, in .6 %.

        The probability of more than 6 at a rate of .6 % is .003; the seed is fixed.
        """
        rng = np.random.default_rng(11)
        draws = rng.normal(size=(300, 4, 400)) * math.sqrt(max(1.0 - coefficient**2, 1e-4))
        draws[:, :, 0] = 10.0 * rng.normal(size=(300, 4))
        for t in range(1, 400):
            draws[:, :, t] += coefficient * draws[:, :, t - 1]
        said = sum(places_of_chains(Sample(run[:, :, None], ["beta"], "")) is not None for run in draws)
        assert said <= 6

    def test_one_chain_has_an_ess_and_no_r_hat(self):
        found = {one.check: one for one in findings(trace_of(chains(n_chains=1, coefficient=0.95)))}
        assert found["R-hat"].verdict == "not checked"
        assert found["bulk ESS"].verdict == "warning"
        assert found["bulk ESS"].limit == 100

    def test_a_run_that_a_time_limit_left_with_a_few_draws_is_told(self):
        trace = trace_of(chains()[:, :49], attrs={"stopped": "time_limit"})
        [said] = [one for one in findings(trace) if one.check == "convergence"]
        assert (said.verdict, said.advice) == ("warning", "give it more time")
        assert "100 draws per chain are needed, found 49" in said.finding

    def test_a_few_draws_are_judged_by_nothing(self):
        assert {one.verdict for one in findings(trace_of(chains(draws=1)))} == {"ok", "not checked"}


class TestThinning:
    @pytest.mark.thorough
    @pytest.mark.parametrize("coefficient", [0.0, 0.9, 0.99, 0.998])
    def test_thinning_changes_no_verdict(self, coefficient, monkeypatch):
        """From 20 000 draws to 2500: R-hat, bulk and tail ESS fire as on all draws, with short ESS within a tenth.

        Deterministic for its seed. At .998 a chain holds 20 effective draws, at .99 100, where the limit is.
        """
        trace = trace_of(chains(seed=1, draws=20_000, dim=2, n_chains=2, coefficient=coefficient))
        thinned = fired(trace)
        monkeypatch.setattr(convergence, "MOST_DRAWS", 20_000)
        whole = fired(trace)
        assert [one.check for one in thinned] == [one.check for one in whole]
        for a, b in zip(thinned, whole, strict=True):
            assert a.value == pytest.approx(b.value, rel=0.1)

    def test_what_was_left_out_is_said(self):
        trace = trace_of(chains(seed=1, draws=6000, dim=1))
        [r_hat] = [finding for finding in findings(trace) if finding.check == "R-hat"]
        assert r_hat.finding.endswith("(judged on 1 draw in 3)")

    @pytest.mark.thorough
    def test_of_many_parameters_some_are_judged(self):
        sample = convergence.drawn(fake_trace(chains(draws=100, dim=1200))["posterior"].to_dataset())
        assert sample.draws.shape == (4, 100, 400)
        assert sample.labels[:2] == ["beta[0]", "beta[3]"]
        assert sample.note == " (judged on 400 of 1200 parameters)"


class TestReport:
    def test_most_serious_first_with_shared_advice(self):
        block = report(findings(trace_of(chains(coefficient=0.9), attrs={"stopped": "interrupt"})))
        head, *lines = block.split("\n")
        assert head == "4 problems with this run, see amc.diagnose(trace):"
        assert [line.strip().split(":")[0] for line in lines] == ["warning"] * 4 + ["Next"]
        assert "interrupted" in lines[0]

    def test_failures_come_before_warnings(self):
        found = findings(trace_of(apart(chains(coefficient=0.95), 3.0), attrs={"stopped": "interrupt"}))
        assert [finding.verdict for finding in found[:2]] == ["failure", "warning"]
        assert report(found).split("\n")[1].startswith("  failure: R-hat")

    @pytest.mark.parametrize(
        ("attrs", "advice", "unit"),
        [({}, r"take draws=([\d_]+), or", 400), ({"stopped": "time_limit"}, r"run it ([\d.]+) times as long, or", 1)],
    )
    def test_says_how_much_longer(self, attrs, advice, unit):
        """ESS grows with the draws: the smallest one has to reach 400."""
        draws = chains(coefficient=0.8)
        found = {one.check: one for one in findings(trace_of(draws, attrs=attrs))}
        wanted = unit * 400 / az.ess(draws, method="bulk").min()
        assert found["R-hat"].advice == found["bulk ESS"].advice
        assert float(re.match(advice, found["R-hat"].advice)[1]) == pytest.approx(wanted, rel=0.05)

    @pytest.mark.thorough
    def test_the_trace_keeps_what_fired(self, tmp_path):
        trace = trace_of(stuck(chains(), 0))
        trace["posterior"].attrs.update(attributes(findings(trace)))
        amc.save(trace, tmp_path / "trace.nc")
        kept = amc.load(tmp_path / "trace.nc")
        assert kept["posterior"].attrs["problems"] == "movement"
        [row] = json.loads(kept["posterior"].attrs["diagnosis"])
        assert row["where"] == "chain 0"
        pd.testing.assert_frame_equal(diagnose(kept), diagnose(trace))

    def test_a_trace_is_needed(self):
        with pytest.raises(InvalidInputError, match="trace is needed"):
            diagnose(3)


class TestInARun:
    """The one place where a run warns."""

    def run(self, scale, draws):
        target = amc.FunctionTarget(lambda t, data, i: 0.0, lambda t: -0.5 * t[0] ** 2, data=np.ones(2), n_obs=2, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(scale), amc.ExactTest())
        return amc.sample(
            target, sampler, draws=draws, tune=0, chains=2, random_seed=1, initvals=np.zeros(1), progressbar=False
        )

    def test_warns_once_of_all(self):
        with pytest.warns(amc.errors.SamplingWarning) as caught:
            trace = self.run(scale=0.05, draws=200)
        [warning] = caught
        assert warning.filename == __file__
        assert str(warning.message) == report(findings(trace))
        assert trace["posterior"].attrs["problems"] == "R-hat, bulk ESS, tail ESS"

    @pytest.mark.thorough
    @pytest.mark.filterwarnings("error")
    def test_is_quiet_when_all_is_well(self):
        assert self.run(scale=2.4, draws=3000)["posterior"].attrs["problems"] == ""


def test_proposals_out_of_reach_are_a_share_of_the_steps_where_nothing_is_decided():
    """As with AlwaysAccept, whose steps are no decisions."""
    counts = {"out_of_reach": [[0, 1, 0, 0]], "decisions_made": [[0, 0, 0, 0]]}
    [found] = undefined(xr.Dataset({name: (("chain", "draw"), np.array(of)) for name, of in counts.items()}))
    assert found.value == 0.25 and "at 1 of 4 proposals" in found.finding
