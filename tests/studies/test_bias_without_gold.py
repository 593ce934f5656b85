"""The study of biases without a gold standard: its settings, its targets, and what its tables make of figures."""

import importlib.util
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from approxmcmc.samplers import MetropolisHastings
from approxmcmc.study.load import load_study
from studies.tools.bias_tables import agreement
from studies.tools.in_laplace_metric import unwrapped
from studies.tools.known_biases import LAWS, canonical, enumerable, normal_mean

STUDY = Path(__file__).parents[2] / "studies" / "bias_without_gold.py"


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("bias_without_gold", STUDY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_setting_is_another_one_and_can_be_unwrapped():
    study = load_study(STUDY).with_preset("smoke")
    assert load_study(STUDY).preset_names == ["smoke", "quick", "published", "paper"]
    settings = study.settings()
    assert len({json.dumps(each.sampler.to_dict(), sort_keys=True) for each in settings}) == len(settings) == 6
    target = study.target("bimodal")
    for setting in settings:
        form, sampler = unwrapped(target, setting.sampler)
        assert isinstance(sampler, MetropolisHastings)
        assert (form is target) == (setting.label != "control_variates")


def test_the_second_mode_of_the_mixture_is_as_far_as_it_should_be(module):
    """Exchanging the components, theta1' = theta1 + theta2 and theta2' = -theta2, leaves the likelihood alone."""
    compiled = module.bimodal().compile()
    theta = np.array([-0.1, 1.2])
    mirrored = np.array([theta[0] + theta[1], -theta[1]])
    out = np.empty((2, compiled.n_obs))
    for row, state in zip(out, (theta, mirrored), strict=True):
        compiled.log_terms(state, compiled.data, np.empty(0, dtype=np.int64), 0, compiled.n_obs, row)
    np.testing.assert_allclose(out[0], out[1])


def test_agreement_is_one_for_errors_of_the_size_that_they_say(rng):
    truth, errors = rng.normal(size=4000), (0.2, 0.1)
    columns = {}
    for name, error in zip(("bias", "gap"), errors, strict=True):
        value = truth + error * rng.normal(size=4000)
        columns |= {name: value, f"{name}_lower": value - 1.96 * error, f"{name}_upper": value + 1.96 * error}
    found = agreement(pd.DataFrame(columns))
    assert found["rms z"] == pytest.approx(1.0, abs=0.06)  # 5 standard errors of 4000
    assert found["correlation"] > 0.95 and found["error of a bias"] == pytest.approx(0.2)
    off = pd.DataFrame(columns | {"bias": -columns["bias"]})
    assert agreement(off)["rms z"] > 5.0  # planted: the sign


def test_coverage_knows_the_laws_that_it_draws_from():
    """Means of 20 000 draws less the exact ones are the truth that intervals should contain; false fail 7 x 6e-7."""
    for case in (*enumerable(), *map(canonical, LAWS)):
        draws = case.draw(np.random.default_rng(1), 20_000)[0]
        if case.variable == "mu":
            exact = normal_mean().observed_data["data_0"].sum() / 500.01
            square = 1.0 / 500.01 + (draws.mean() - exact) ** 2  # of the posterior about the mean of the draws
            seen = np.column_stack([draws - exact, (draws - draws.mean()) ** 2 - square])
        else:
            states = np.array(list(itertools.product((0, 1), repeat=3)), dtype=float)
            weights = np.exp(case.target.log_density(states))
            seen = draws - weights @ states / weights.sum()
        error = seen.std(axis=0) / math.sqrt(len(seen))
        assert (np.abs(seen.mean(axis=0) - case.truth) < 5.0 * error).all(), case.name
