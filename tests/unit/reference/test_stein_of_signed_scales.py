"""Stein's identities in the coordinates of the chain: a trace drops signs of scales, and holds a noise, not its log."""

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.contracts import Variables
from approxmcmc.reference.scored_draws import scored_draws_of
from approxmcmc.reference.stein import stein_deviations

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler

N_GROUPS = 30
GROUP = np.repeat(np.arange(N_GROUPS), 4)


def of_class(y):
    return amc.targets.NormalGroups(np.ones((y.size, 1)), y, GROUP, effect_scale=1.0)


def of_pymc(y):
    with pm.Model(coords={"group": range(N_GROUPS)}) as model:
        mu, scale = pm.Normal("mu"), pm.HalfNormal("scale")
        noise = pm.HalfNormal("noise")
        pm.Normal("y", mu + scale * pm.Normal("z", dims="group")[GROUP], noise, observed=y)
    return amc.from_pymc(model, integrate=True, latents=None)


@pytest.mark.parametrize("make", [of_class, of_pymc])
def test_a_scale_near_0_is_confirmed_and_would_be_refused_without_its_sign(make, monkeypatch, tmp_path):
    target = make(np.random.default_rng(0).normal(size=GROUP.size))  # groups do not differ: the scale may be 0
    trace = amc.sample(target, draws=2000, chains=2, random_seed=1, progressbar=False)

    def largest(folder):
        scored = scored_draws_of(target, trace["posterior"].to_dataset(), 2000, tmp_path / folder)
        return np.abs(stein_deviations(scored["theta"].to_numpy(), scored["score"].to_numpy()).gradient).max()

    assert largest("signed") < 5.0
    monkeypatch.setattr(type(target.variables), "with_signs", Variables.with_signs)
    assert largest("unsigned") > 8.0


@pytest.mark.parametrize("make", [of_class, of_pymc])
def test_signs_change_no_reported_value(make):
    target, rng = make(np.random.default_rng(0).normal(size=GROUP.size)), np.random.default_rng(1)
    theta = rng.normal(size=(2, 5, 3))
    signed = target.variables.with_signs(theta, rng)
    assert (signed != theta).any() and np.abs(signed) == pytest.approx(np.abs(theta))
    for name, value in target.variables.unpack(theta).items():
        np.testing.assert_allclose(target.variables.unpack(signed)[name], value)
