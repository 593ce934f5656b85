"""The trigamma function of PyMC models' second derivatives, without Python in compiled code."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.scalar.math import TriGamma
from scipy.special import polygamma

from approxmcmc.interop.graph_likelihood import GraphLikelihood
from approxmcmc.interop.kernels import with_compiled_trigamma
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.predictors import find_predictors


def asks_for_trigamma(graphs):
    operations = [variable.owner.op for variable in ancestors(graphs) if variable.owner is not None]
    return any(isinstance(getattr(operation, "scalar_op", None), TriGamma) for operation in operations)


def test_the_series_is_the_function_to_rounding():
    x, values = pt.vector("x"), np.geomspace(1e-6, 1e8, 400)
    [found] = with_compiled_trigamma([2.0 * pt.tri_gamma(x) + 1.0])
    assert not asks_for_trigamma([found])
    computed = pytensor.function([x], found, mode="FAST_COMPILE")(values)
    np.testing.assert_allclose(computed, 2.0 * polygamma(1, values) + 1.0, rtol=5e-15)


def test_no_second_derivative_of_a_negative_binomial_law_asks_for_the_operation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    with pm.Model() as model:
        beta, alpha = pm.Normal("beta", 0.0, 1.0, shape=2), pm.Exponential("alpha", 1.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(X @ beta), alpha=alpha, observed=rng.poisson(2.0, size=20))
    source = ModelOfPyMC(model, None)
    found = GraphLikelihood(find_predictors(source), source.rows.inputs, source.rows.data, source.hash)
    assert not asks_for_trigamma(found._expansion())
