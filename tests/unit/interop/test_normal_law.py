"""Normal distributions in PyMC models: which are found, and the library's terms of their rows."""

import dataclasses
import math

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.interop.law import law_of_observed
from approxmcmc.interop.linear_predictor import normal_design
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.predictors import find_predictors
from approxmcmc.targets import LinearRegression, compressed
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.statistics.target import NormalStatistics

pytestmark = pytest.mark.needs_jit

N = 200
rng = np.random.default_rng(8)
X = rng.normal(size=(N, 2))
Y = X @ [1.0, -2.0] + 0.5 * rng.normal(size=N)
S = rng.uniform(0.5, 2.0, N)
GROUP = rng.integers(4, size=N)


def mean():
    return pm.Normal("a", 0.0, 10.0) + X @ pm.Normal("b", 0.0, 1.0, shape=2)


def sigma(**size):
    return pm.HalfNormal("sigma", 1.0, **size)


FOUND = {
    "a scale": lambda: pm.Normal("y", mean(), sigma(), observed=Y),
    "a known scale": lambda: pm.Normal("y", mean(), 0.5, observed=Y),
    "known scales": lambda: pm.Normal("y", mean(), S, observed=Y),
    "a scale of weighted rows": lambda: pm.Normal("y", mean(), sigma() * S, observed=Y),
    "a precision": lambda: pm.Normal("y", mean(), tau=pm.Gamma("tau", 1.0, 1.0), observed=Y),
    "an offset": lambda: pm.Normal("y", mean() + 3.0 * S, sigma(), observed=Y),
    "effects": lambda: pm.Normal("y", mean() + pm.Normal("e", 0.0, 1.0, shape=4)[GROUP], sigma(), observed=Y),
    "outcomes": lambda: pm.Normal(
        "y", X @ pm.Normal("B", shape=(2, 2)), sigma(shape=2), observed=np.column_stack([Y, Y])
    ),
}
NOT_FOUND = {
    "a scale of each group": lambda: pm.Normal("y", mean(), sigma(shape=4)[GROUP], observed=Y),
    "a scale that adds up": lambda: pm.Normal("y", mean(), sigma() + S, observed=Y),
    "a scale with an edge": lambda: pm.Normal("y", mean(), pm.math.clip(sigma(), 0.1, 10.0), observed=Y),
    "heavier tails": lambda: pm.StudentT("y", nu=4.0, mu=mean(), sigma=sigma(), observed=Y),
    "a mean that bends": lambda: pm.Normal("y", pm.math.exp(mean()), sigma(), observed=Y),
}


def target(write):
    with pm.Model() as model:
        write()
    return amc.from_pymc(model, integrate=False)


def total(one, theta):
    compiled = one.compile()
    return math.fsum(full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs))


@pytest.mark.parametrize("law", FOUND)
def test_statistics_stand_for_the_rows_of_a_normal_law(law):
    rows = target(FOUND[law])
    found = compressed(rows)
    assert isinstance(found, NormalStatistics) and found.plain is rows and found.n_rows == N
    start = found.initial_point()
    for theta in start + np.random.default_rng(0).normal(size=(3, start.size)):
        assert total(found, theta) == pytest.approx(total(rows, theta), rel=1e-10)


@pytest.mark.parametrize("law", NOT_FOUND)
def test_other_laws_are_no_such_law(law):
    with pm.Model() as model:
        NOT_FOUND[law]()
    source = ModelOfPyMC(model, None)
    written = law_of_observed(source)
    assert written is not None
    assert normal_design(source, find_predictors(source), written.operation, written.parameters) is None


def test_rows_of_several_scales_are_read():
    rows = LinearRegression(X, Y).plain
    [one, two] = rows.design.predictors
    rows.design = Design(
        3, X, GROUP[:, None].astype(np.int32) % 2, (-1,), [one, dataclasses.replace(two, codes=(0, 1))]
    )
    assert compressed(rows) is rows


def test_a_model_without_a_sampler_reads_no_rows():
    with pm.Model() as model:
        pm.Normal("y", mean(), sigma(), observed=Y)
    trace = amc.sample(model, random_seed=1, progressbar=False)
    assert trace.sample_stats.datapoints_touched.sum() == 0
    assert trace.observed_data.y.to_numpy() == pytest.approx(Y)
    assert "a step reads none" in amc.explain(model)
    least = np.linalg.lstsq(np.column_stack([np.ones(N), X]), Y)[0]
    assert trace.posterior.b.mean(("chain", "draw")).to_numpy() == pytest.approx(least[1:], abs=0.03)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.02), amc.SequentialTTest(0.05, 20))
    subsampled = amc.sample(model, sampler, draws=5, tune=5, chains=1, random_seed=1, progressbar=False)
    assert subsampled.sample_stats.datapoints_touched.mean() > 0 and subsampled.posterior.attrs["n_obs"] == N
