"""The counted cost of NUTS: near what nutpie took for a row, and compared with the compilation of an integral."""

import numpy as np
import pymc as pm
import pytest

from approxmcmc.interop import plans
from approxmcmc.interop.nuts_seconds import OPERATION, seconds_to_compile
from approxmcmc.interop.plans import INTEGRATE_GROUPS, LINEAR_PREDICTORS, price
from approxmcmc.interop.read import ModelDescription, Request, work_as_written

N = 1000
rng = np.random.default_rng(3)
GROUP, X = rng.integers(40, size=N), rng.normal(size=N)


def _normal(eta):
    pm.Normal("y", eta, pm.HalfNormal("noise"), observed=X)


def _poisson(eta):
    pm.Poisson("y", pm.math.exp(eta), observed=np.arange(N) % 4)


def _logistic(eta):
    pm.Bernoulli("y", logit_p=eta, observed=np.arange(N) % 2)


def _ordered(eta):
    cuts = pm.Normal("cuts", np.array([-1.0, 1.0]), transform=pm.distributions.transforms.ordered, shape=2)
    pm.OrderedLogistic("y", eta=eta, cutpoints=cuts, observed=np.arange(N) % 3)


def _softmax(eta):
    logits = pm.math.stack([0.0 * eta, eta, pm.Normal("other") * eta], axis=1)
    pm.Categorical("y", logit_p=logits, observed=np.arange(N) % 3)


def _groups(law):
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mu"), pm.HalfNormal("tau"), shape=40)
        law(effect[GROUP] + pm.Normal("beta") * X)
    return model


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("law", "measured"),
    [
        (_normal, (1.9, 4.0)),
        (_poisson, (8.0, 10.8)),
        (_logistic, (50.0, 56.0)),
        (_ordered, (75.0,)),
        (_softmax, (40.0,)),
    ],
)
def test_the_counted_nanoseconds_of_a_row_are_near_the_measured_ones(law, measured):
    counted = 1e9 * OPERATION * work_as_written(_groups(law), [N], 43).operations / N
    assert 0.5 * min(measured) < counted < 2.0 * max(measured)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rows", "is_centred", "is_left"), [(1000, True, True), (400, True, True), (399, True, False), (60, False, True)]
)
def test_sample_leaves_effects_that_nuts_moves_while_an_integral_is_compiled(rows, is_centred, is_left, monkeypatch):
    with pm.Model() as small:
        tau = pm.HalfNormal("tau")
        effect = pm.Normal("effect", 0.0, tau, shape=40) if is_centred else tau * pm.Normal("effect", shape=40)
        pm.Poisson("y", pm.math.exp(effect[np.arange(rows) % 40]), observed=np.arange(rows) % 4)

    def costs_less(**settings):
        description = ModelDescription(small, Request(**settings))
        return price(INTEGRATE_GROUPS, description) < price(LINEAR_PREDICTORS, description)

    assert costs_less()
    assert costs_less(counts_compilation=True) != is_left
    monkeypatch.setattr(plans, "DRAWS", 100 * plans.DRAWS)
    assert costs_less(counts_compilation=True)


def test_a_model_that_multiplies_matrices_takes_longer_to_compile():
    work = work_as_written(_groups(_poisson), [N], 43)
    with pm.Model() as regression:
        beta = pm.Normal("beta", shape=3)
        pm.Poisson("y", pm.math.exp(rng.normal(size=(N, 3)) @ beta), observed=np.arange(N) % 4)
    product = work_as_written(regression, [N], 3)
    assert (work.multiplies, product.multiplies) == (False, True)
    assert seconds_to_compile(product) > seconds_to_compile(work)
