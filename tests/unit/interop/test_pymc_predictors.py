"""Linear predictors in the graphs of PyMC models: which there are, and what their designs are. Nothing is compiled."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar.math import TriGamma
from pytensor.tensor.basic import Split
from scipy.special import gammaln, polygamma

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graph_likelihood import GraphLikelihood
from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.kernels import compilable
from approxmcmc.interop.linear_predictor import rows_of_family, structured_target
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.predictors import AFFINE, CONSTANT, OTHER, Ratio, find_predictors, kinds
from approxmcmc.targets.predictors.family import FamilyLikelihood

N, GROUPS = 40, 5
rng = np.random.default_rng(11)
X, U, GROUP, OFFSET = rng.normal(size=(N, 3)), rng.normal(size=N), rng.integers(GROUPS, size=N), rng.normal(size=N)
Y, COUNTS, GRADES = rng.normal(size=N), rng.poisson(2.0, size=N), rng.integers(4, size=N)
THETA = pt.vector("theta", shape=(6,))


@pytest.mark.parametrize(
    ("graph", "kind"),
    [
        (lambda t: 2.0 * t[1:3] - t[0], AFFINE),
        (lambda t: pt.dot(pt.as_tensor(X), t[:3]) + OFFSET, AFFINE),
        (lambda t: pt.as_tensor(X) @ t[:3].astype("float64"), AFFINE),
        (lambda t: t[:5][GROUP] / 3.0, AFFINE),
        (lambda t: pt.stack([t[0], -t[1]]), AFFINE),
        (lambda t: pt.set_subtensor(pt.zeros(3)[1:], t[:2]), AFFINE),
        (lambda t: (t[:, None] * pt.ones((1, 2))).sum(axis=1), AFFINE),
        (lambda t: pt.as_tensor(X).shape[0] * 1.0, CONSTANT),
        (lambda t: t.shape[0] * 1.0, CONSTANT),
        (lambda t: t[:2] / pt.exp(t[2]), Ratio),
        (lambda t: pt.exp(t[2]) * (t[:2] / pt.exp(t[2]))[np.array([0, 1, 1])], AFFINE),
        (lambda t: pt.exp(t[3]) * (t[:2] / pt.exp(t[2])), OTHER),
        (lambda t: t[0] * t[1], OTHER),
        (lambda t: pt.dot(t[:3], t[3:]), OTHER),
        (lambda t: pt.clip(t, -30.0, 30.0), OTHER),
        (pt.abs, OTHER),
        (lambda t: pt.cumsum(pt.exp(t)), OTHER),
        (lambda t: pt.floor(t).astype("int64"), OTHER),
        (lambda t: t.astype("int64"), OTHER),
        (lambda t: t[pt.cast(t[0], "int64")], OTHER),
        (lambda t: 1.0 / t, OTHER),
        (lambda t: t.max(), OTHER),
    ],
    ids=map(str, range(22)),
)
def test_affine_is_what_is_computed_so(graph, kind):
    """Also far from where anybody would look: a clip at 30 is linear between."""
    graph = graph(THETA)
    found = kinds([graph], THETA).get(graph, CONSTANT)
    assert found == kind or (kind is Ratio and isinstance(found, Ratio))


def found_in(fill, **settings):
    with pm.Model() as model:
        fill()
    source = ModelOfPyMC(model, None, **settings)
    return source, find_predictors(source)


def logistic():
    a, b = pm.Normal("a"), pm.Normal("b", shape=3)
    pm.Bernoulli("y", logit_p=a + X @ b, observed=Y > 0)


def poisson():
    a, b = pm.Normal("a"), pm.Normal("b", shape=3)
    pm.Poisson("y", pt.exp(OFFSET + a + X @ b), observed=COUNTS)


def normal():
    b, sigma = pm.Normal("b", shape=3), pm.HalfNormal("sigma")
    pm.Normal("y", X @ b, sigma, observed=Y)


def student():
    b, sigma, nu = pm.Normal("b", shape=3), pm.HalfNormal("sigma"), pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=X @ b, sigma=sigma, observed=Y)


def negative_binomial():
    b, alpha = pm.Normal("b", shape=3), pm.Exponential("alpha", 1.0)
    pm.NegativeBinomial("y", mu=pt.exp(X @ b), alpha=alpha, observed=COUNTS)


def gamma():
    b, alpha = pm.Normal("b", shape=3), pm.Exponential("alpha", 1.0)
    pm.Gamma("y", alpha=alpha, beta=alpha / pt.exp(X @ b), observed=np.exp(Y))


def binomial():
    b = pm.Normal("b", shape=3)
    pm.Binomial("y", n=COUNTS + 2, logit_p=X @ b, observed=COUNTS)


def varying():
    mu, slope = pm.Normal("mu"), pm.Normal("slope", shape=GROUPS)
    effect = pm.Normal("effect", shape=GROUPS)
    pm.Poisson("y", pt.exp(mu + effect[GROUP] + U * slope[GROUP]), observed=COUNTS)


def not_centred():
    tau, z = pm.HalfNormal("tau"), pm.Normal("z", shape=GROUPS)
    pm.Poisson("y", pt.exp((tau * z)[GROUP]), observed=COUNTS)


def ordered():
    b = pm.Normal("b", shape=3)
    cut = pm.Normal("cut", shape=3, transform=pm.distributions.transforms.ordered, initval=[-1.0, 0.0, 1.0])
    pm.OrderedLogistic("y", eta=X @ b, cutpoints=cut, observed=GRADES)


def mixture():
    b, w = pm.Normal("b", shape=3), pm.Beta("w", 2.0, 2.0)
    shift, sigma = pm.HalfNormal("shift"), pm.HalfNormal("sigma", shape=2)
    mu = X @ b
    pm.NormalMixture("y", w=pt.stack([w, 1 - w]), mu=pt.stack([mu, mu + shift], axis=1), sigma=sigma, observed=Y)


def categorical():
    w = pm.Normal("w", shape=(3, 4))
    pm.Categorical("y", p=pm.math.softmax(pt.as_tensor(X) @ w, axis=-1), observed=GRADES)


def two_observed():
    b, sigma = pm.Normal("b", shape=3), pm.HalfNormal("sigma")
    mu = X @ b
    pm.Normal("y", mu, sigma, observed=Y)
    pm.Poisson("counts", pt.exp(0.5 * mu), observed=COUNTS)


def centred_inside():
    s = pm.Normal("s")
    pm.Normal("y", s * (pm.Data("u", U) - pm.Data("v", U).mean()), 1.0, observed=Y)


# Predictors with rows and without, dense columns that are kept, and columns of codes.
EXPECTED = {
    logistic: (1, 0, 3, 0),
    poisson: (1, 0, 4, 0),
    normal: (1, 1, 3, 0),
    student: (1, 2, 3, 0),
    negative_binomial: (1, 1, 3, 0),
    gamma: (1, 1, 3, 0),
    binomial: (1, 0, 3, 0),
    varying: (1, 0, 1, 2),
    not_centred: (1, 1, 0, 1),
    ordered: (1, 3, 3, 0),
    mixture: (1, 4, 3, 0),
    categorical: (4, 0, 3, 0),
    two_observed: (1, 1, 3, 0),
    centred_inside: (1, 0, 1, 0),
}


@pytest.mark.thorough
@pytest.mark.parametrize("fill", EXPECTED, ids=lambda fill: fill.__name__)
def test_the_fewest_predictors_are_found_with_their_design(fill):
    source, found = found_in(fill)
    rows, shared, dense, codes = EXPECTED[fill]
    sizes = [(one.row_axis is not None, one.size) for one in found.quantities]
    assert sum(size for has_rows, size in sizes if has_rows) == rows
    assert sum(size for has_rows, size in sizes if not has_rows) == shared
    assert found.design.X.shape == (N, dense) and found.design.codes.shape == (N, codes)
    variables = [one.variable for one in found.quantities]
    ask = pytensor.function(
        [source.theta, *source.rows.inputs], variables, mode="FAST_COMPILE", on_unused_input="ignore"
    )
    theta = rng.normal(size=source.theta.type.shape[0])
    eta, place = found.design.eta(theta, slice(None)), 0
    for one, value in zip(found.quantities, ask(theta, *source.rows.data), strict=True):
        values = value.reshape(-1, one.size).T
        np.testing.assert_allclose(eta[place : place + one.size], np.broadcast_to(values, (one.size, N)), rtol=1e-12)
        place += one.size


@pytest.mark.thorough
@pytest.mark.parametrize("fill", [student, negative_binomial], ids=lambda fill: fill.__name__)
def test_terms_are_those_of_the_model_and_derivatives_those_of_the_terms(fill):
    source, found = found_in(fill)
    likelihood = GraphLikelihood(found, source.rows.inputs, source.rows.data, source.hash)
    K = likelihood.n_predictors
    etas = [pt.vector(f"eta_{k}") for k in range(K)]
    columns = [np.asarray(column) for column in likelihood.columns]
    parts = rebuild([likelihood._graph, *likelihood._expansion()], likelihood._assembled(etas))
    ask = pytensor.function([*etas, *likelihood._inputs], parts, mode="FAST_COMPILE", on_unused_input="ignore")
    theta = source.initial_point() + 0.2 * rng.normal(size=source.theta.type.shape[0])
    eta = found.design.eta(theta, slice(None))
    value, again, *derivatives = ask(*eta, *columns)
    [whole] = source.over_flat([source.rows.all_terms()])
    expected = pytensor.function([source.theta], whole, mode="FAST_COMPILE")(theta)
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(again, value, rtol=1e-12)
    place = K
    for k in range(K):
        step = 1e-5 * (np.arange(K) == k)[:, None]
        above, below = ask(*(eta + step), *columns), ask(*(eta - step), *columns)
        np.testing.assert_allclose(derivatives[k], (above[0] - below[0]) / 2e-5, rtol=1e-6, atol=1e-6)
        for j in range(k, K):
            slopes = (above[2 + j] - below[2 + j]) / 2e-5
            np.testing.assert_allclose(derivatives[place], slopes, rtol=1e-5, atol=1e-5)
            place += 1


EXPOSURE = np.exp(OFFSET)


def poisson(mean):
    """Return what fills a model with counts; their mean is a function of a slope, and of levels and rates of groups."""

    def fill():
        b, level = pm.Normal("b"), pm.Normal("level", shape=GROUPS)
        rate = pm.Gamma("rate", 1.0, 1.0, shape=GROUPS)
        pm.Poisson("y", mean(b, level, rate), observed=COUNTS)

    return fill


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mean",
    [
        lambda b, level, rate: pt.exp(b * U + level[GROUP] + np.log(EXPOSURE)),
        lambda b, level, rate: EXPOSURE * pt.exp(b * U + level[GROUP]),
        lambda b, level, rate: pt.exp(level[GROUP]) * pt.exp(b * U) * EXPOSURE * 0.5 / 3.0,
        lambda b, level, rate: EXPOSURE * rate[GROUP] * pt.exp(b * U),
    ],
    ids=["offset", "exposure", "product", "rates"],
)
def test_exposures_and_rates_are_offsets_and_codes_of_one_predictor(mean):
    """Terms of a family have closed derivatives; those of the model's graph would be compiled for each model."""
    source, _ = found_in(poisson(mean))
    target = structured_target(source)
    assert isinstance(target.likelihood, FamilyLikelihood) and target.design.n_predictors == 1
    theta = source.initial_point() + 0.2 * rng.normal(size=source.theta.type.shape[0])
    [whole] = source.over_flat([source.rows.all_terms()])
    expected = pytensor.function([source.theta], whole, mode="FAST_COMPILE")(theta)
    found = target.likelihood.evaluate(target.design.eta(theta, slice(None)), target.responses, np.arange(N))
    np.testing.assert_allclose(found + target.omitted_constants, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("exposure", [np.where(COUNTS == 0, 0.0, EXPOSURE), -EXPOSURE], ids=["zero", "negative"])
def test_an_exposure_without_a_logarithm_is_no_offset(exposure):
    source, _ = found_in(poisson(lambda b, level, rate: exposure * pt.exp(b * U)))
    assert rows_of_family(source) is None


@pytest.mark.thorough
def test_what_depends_on_data_alone_is_computed_once():
    """The logarithm of y! is a column, whether counts are positive a constant; the normal law reads y alone."""
    source, found = found_in(normal)
    likelihood = GraphLikelihood(found, source.rows.inputs, source.rows.data, source.hash)
    assert len(likelihood.columns) == 1
    np.testing.assert_array_equal(likelihood.columns[0], Y)
    source, found = found_in(negative_binomial)
    likelihood = GraphLikelihood(found, source.rows.inputs, source.rows.data, source.hash)
    assert any(np.allclose(column, gammaln(COUNTS + 1.0)) for column in likelihood.columns)


@pytest.mark.thorough
def test_vectors_that_rows_share_are_left_to_the_graph():
    source, found = found_in(ordered)
    with pytest.raises(NotPossibleError, match="share a vector of parameters"):
        GraphLikelihood(found, source.rows.inputs, source.rows.data, source.hash)


@pytest.mark.thorough
def test_scaled_effects_are_codes_again():
    """z = a / tau where samplers move a: tau * z[group] is a[group], by what the graph computes."""
    group, y = np.arange(400) % 2, np.repeat([-3.0, 3.0], 200)[np.argsort(np.arange(400) % 2, kind="stable").argsort()]

    def fill():
        mu, tau, z = pm.Normal("mu"), pm.HalfNormal("tau"), pm.Normal("z", shape=2)
        pm.Normal("y", mu + tau * z[group], 1.0, observed=y)

    source, found = found_in(fill)
    assert source.effects[0].scale is not None
    assert found.design.n_predictors == 1 and found.design.codes.shape == (400, 1)


@pytest.mark.parametrize(
    ("fill", "reason"),
    [
        (lambda: pm.Normal("y", pm.Normal("s"), 1.0, observed=Y), "differs from row to row"),
        (
            lambda: pm.Normal("y", pt.sin(X[:, :1] * pm.Normal("s", shape=30)).sum(axis=1), 1.0, observed=Y),
            "through 30 linear predictors, which saves nothing",
        ),
    ],
    ids=["no rows", "too many"],
)
def test_why_there_are_none_is_said(fill, reason):
    with pytest.raises(NotPossibleError, match=reason):
        found_in(fill)


def asks_for_trigamma(graphs):
    operations = [variable.owner.op for variable in ancestors(graphs) if variable.owner is not None]
    return any(isinstance(getattr(operation, "scalar_op", None), TriGamma) for operation in operations)


def test_the_series_is_the_function_to_rounding():
    x, values = pt.vector("x"), np.geomspace(1e-6, 1e8, 400)
    [found] = compilable([2.0 * pt.tri_gamma(x) + 1.0])
    assert not asks_for_trigamma([found])
    computed = pytensor.function([x], found, mode="FAST_COMPILE")(values)
    np.testing.assert_allclose(computed, 2.0 * polygamma(1, values) + 1.0, rtol=5e-15)


@pytest.mark.thorough
def test_no_second_derivative_of_a_negative_binomial_law_asks_for_the_operation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    with pm.Model() as model:
        beta, alpha = pm.Normal("beta", 0.0, 1.0, shape=2), pm.Exponential("alpha", 1.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(X @ beta), alpha=alpha, observed=rng.poisson(2.0, size=20))
    source = ModelOfPyMC(model, None)
    found = GraphLikelihood(find_predictors(source), source.rows.inputs, source.rows.data, source.hash)
    assert not asks_for_trigamma(compilable(found._expansion()))


def test_slices_replace_the_splits_of_a_gradient():
    """The gradient of a stacked vector splits its slopes again; split after split, along either axis."""
    x = pt.matrix("x", shape=(3, 4))
    stacked = pt.concatenate([x, pt.concatenate([x[:1] ** 2, x[1:]], axis=0), x[:, :2]], axis=1)
    plain = pytensor.grad((stacked**3 * np.arange(30.0).reshape(3, 10)).sum(), x)
    [found] = compilable([plain])
    splits = [sum(isinstance(node.op, Split) for node in toposort([graph])) for graph in (plain, found)]
    assert splits == [2, 0]
    at = np.random.default_rng(0).normal(size=(3, 4))
    before, after = (pytensor.function([x], graph, mode="FAST_COMPILE")(at) for graph in (plain, found))
    np.testing.assert_array_equal(before, after)
