"""The reasons why effects stay parameters: each is true and names the variable; and faults are visible."""

import re
import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.integrate import quad

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, SamplingWarning
from approxmcmc.families import BINOMIAL, POISSON, Stack
from approxmcmc.interop import plans, predictors, pymc_target, rows
from approxmcmc.interop.attempts import RAISE_VARIABLE, NotPossibleError
from approxmcmc.interop.groups.coordinates import Coordinates, may_be_signed
from approxmcmc.interop.groups.target import integrated
from approxmcmc.interop.variables import over_draws
from approxmcmc.interop.walk import PYTHON
from tests import pymc_zoo as zoo

N, G = 60, 6
_rng = np.random.default_rng(2)
GROUP = np.arange(N) % G
REAL, COUNTS, CLASSES = _rng.normal(size=N), _rng.poisson(2.0, N), _rng.integers(0, 3, N)


def effects():
    return pm.Normal("u", 0.0, pm.HalfNormal("s"), shape=G)[GROUP]


def categorical():
    e = effects()
    pm.Categorical("y", logit_p=pt.stack([0.0 * e, e, -e], axis=1), observed=CLASSES)


def beside_normal_rows():
    e = effects()
    pm.Normal("x", e, 1.0, observed=REAL)
    pm.Categorical("y", logit_p=pt.stack([0.0 * e, e, -e], axis=1), observed=CLASSES)


def custom():
    pm.CustomDist("y", effects(), logp=lambda value, mu: -pt.log1p((value - mu) ** 2), observed=REAL)


def trials_with_a_parameter():
    trials = pm.Deterministic("trials", 5.0 + pm.HalfNormal("t"))
    pm.Binomial("y", n=trials, logit_p=effects(), observed=COUNTS)


def ordered():
    cuts = pm.Normal("cuts", [-1.0, 0.0, 1.0], transform=pm.distributions.transforms.ordered, shape=3)
    pm.Normal("y", cuts[CLASSES], 1.0, observed=REAL)


REASONS = {
    "categorical": (categorical, "u: the rows of y: Categorical rows have several predictors"),
    "beside normal rows": (beside_normal_rows, "u: the rows of y: Categorical rows have several predictors"),
    "matrix rows": (
        lambda: pm.MvNormal("y", effects()[:, None] * np.ones(2), np.eye(2), observed=np.zeros((N, 2))),
        "u: the rows of y: the distribution MvNormal is not supported",
    ),
    "mixture": (
        lambda: pm.ZeroInflatedPoisson("y", psi=0.5, mu=pm.math.exp(effects()), observed=COUNTS),
        "u: the rows of y: Mixture rows are not log-concave in the predictor, so the effects .* several modes",
    ),
    "heavy tails": (
        lambda: pm.StudentT("y", nu=4.0, mu=effects(), sigma=1.0, observed=REAL),
        "u: the rows of y: StudentT rows are not log-concave in the predictor, so the effects .* several modes",
    ),
    "one mode": (
        lambda: pm.Gumbel("y", effects(), 1.0, observed=REAL),
        r"u: the rows of y: the distribution Gumbel is not supported: [A-Z][A-Za-z, ]+ are$",
    ),
    "a user's density": (custom, "u: the rows of y: the distribution CustomDist_y is not supported"),
    "another link": (
        lambda: pm.Bernoulli("y", pm.math.exp(-pm.math.exp(-effects())), observed=CLASSES > 0),
        r"u: the rows of y: Bernoulli rows need p = sigmoid\(a linear predictor\), .*, or p = 1 - exp",
    ),
    "a mean without a logarithm": (
        lambda: pm.Poisson("y", pm.math.sqr(effects()), observed=COUNTS),
        r"u: the rows of y: Poisson rows need mu = exp\(a linear predictor\), times known positive numbers",
    ),
    "trials": (trials_with_a_parameter, "u: the rows of y: Binomial rows need known trials"),
    "an unknown operation": (
        lambda: pm.Normal("y", pt.sort(pm.Normal("u", 0.0, pm.HalfNormal("s"), shape=G))[GROUP], 1.0, observed=REAL),
        "u: rows depend on it through SortOp, and a row may then depend on several of its entries",
    ),
    "ordered": (ordered, "cuts: it has the transform Ordered, so its entries are not independent normal numbers"),
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_names_the_variable_and_is_true(name):
    build, reason = REASONS[name]
    with pm.Model() as model:
        build()
    with pytest.raises(NotPossibleError, match=reason):
        integrated(model)


def hierarchy(extra=lambda s: None, scale=lambda: pm.HalfNormal("s")):
    with pm.Model() as model:
        s = scale()
        u = pm.Normal("u", 0.0, s, shape=G)
        extra(s)
        pm.Normal("y", u[GROUP], pm.HalfNormal("sigma"), observed=REAL)
    return model


@pytest.mark.thorough
def test_a_fault_is_raised_in_tests_and_elsewhere_recorded(monkeypatch):
    """Planted: an IndexError while effects are searched, and one while linear predictors are."""

    def fail(*given, **settings):
        raise IndexError("planted")

    monkeypatch.setattr(plans, "integrated", fail)
    monkeypatch.setattr(plans, "structured_target", fail)
    model = hierarchy()
    with pytest.raises(IndexError, match="planted"):
        amc.explain(model)
    monkeypatch.delenv(RAISE_VARIABLE)
    with pytest.warns(SamplingWarning, match=r"slower plan: reading its graph failed \(IndexError.*planted"):
        target = amc.from_pymc(model)
    assert target.setup_attrs["reading_faults"].count("planted") == 2
    with pytest.warns(SamplingWarning):
        assert "which is a fault of approxmcmc" in amc.explain(model)


# A plan, and a model for which it is asked.
PLANTED_IN_PLANS = [
    (plans.SUM_OUT, zoo.discrete_parameter),
    (plans.INTEGRATE_GROUPS, zoo.normal_hierarchy),
    (plans.LINEAR_PREDICTORS, zoo.poisson),
    (plans.COMPILED_ROWS, zoo.mixture),
]
# A function that is called where exceptions of PyTensor are reasons, and a model that it reads.
PLANTED_IN_BLOCKS = [
    (predictors, "arrays_at", zoo.poisson),
    (rows, "apply_node", zoo.poisson),
    (pymc_target, "in_python", zoo.mixture),
]


def first_and_thorough(cases):
    first, *others = cases
    return [first, *(pytest.param(*case, marks=pytest.mark.thorough) for case in others)]


def is_recorded(model, text):
    """Return whether the trace's attributes, a warning and `explain` name a planted fault."""
    with pytest.warns(SamplingWarning, match=text):
        target = plans.target_of(model)
    with pytest.warns(SamplingWarning, match=text):
        assert re.search(text, amc.explain(model))
    return re.search(text, target.setup_attrs["reading_faults"]) is not None


@pytest.mark.parametrize(("plan", "model"), first_and_thorough(PLANTED_IN_PLANS))
def test_a_fault_of_each_plan_is_recorded(plan, model, monkeypatch):
    def fail(*given):
        raise TypeError("planted")

    monkeypatch.delenv(RAISE_VARIABLE)
    monkeypatch.setattr(type(plan), "read", fail)
    assert is_recorded(zoo.build(model), "TypeError.*planted")


@pytest.mark.parametrize(("module", "name", "model"), first_and_thorough(PLANTED_IN_BLOCKS))
def test_an_exception_of_our_own_is_a_fault_where_one_of_pytensor_is_a_reason(module, name, model, monkeypatch):
    """Planted: a function that takes no arguments, so a line of this library raises a TypeError when it calls it."""
    monkeypatch.delenv(RAISE_VARIABLE)
    monkeypatch.setattr(module, name, lambda: None)
    assert is_recorded(zoo.build(model), r"TypeError.*takes 0 positional arguments")


def test_a_model_without_observed_variable_is_not_a_fault(monkeypatch):
    monkeypatch.delenv(RAISE_VARIABLE)
    with pm.Model() as model:
        pm.Normal("m", shape=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the default run of the tests ignores warnings of this kind
        with pytest.raises(IncompatibleError, match="no observed variable"):
            amc.from_pymc(model)


@pytest.mark.needs_jit
def test_potentials_with_axes_and_constant_deterministics_do_not_stop_the_integration():
    def extra(s):
        pm.Potential("p", -s * np.arange(3.0))
        pm.Deterministic("d", pt.as_tensor_variable(np.ones((1, 3))))
        pm.Deterministic("e", pt.as_tensor_variable(np.arange(3.0)))

    target, plain = amc.from_pymc(hierarchy(extra), integrate=True), amc.from_pymc(hierarchy(), integrate=True)
    theta = target.initial_point()
    scale = theta[target.coordinates.places[target.coordinates.free[0]]]
    mine, without = (one.compile().log_prior(theta) for one in (target, plain))
    np.testing.assert_allclose(mine, without - 3.0 * abs(scale), rtol=1e-12)


def test_constants_of_a_model_get_an_axis_of_draws():
    theta = pt.vector("theta", shape=(2,))
    constant = pt.as_tensor_variable(np.ones((1, 3)))
    found = over_draws(theta, [theta * 2.0, constant, pt.as_tensor_variable(4.0)], ["a", "b", "c"])(np.ones((5, 2)))
    assert {name: value.shape for name, value in found.items()} == {"a": (5, 2), "b": (5, 1, 3), "c": (5,)}


BOUNDED = {
    "uniform": lambda: pm.Uniform("s", 0.0, 4.0),
    "truncated": lambda: pm.TruncatedNormal("s", 0.5, 1.0, lower=0.0, upper=2.0),
    "beta": lambda: pm.Beta("s", 1.0, 2.0),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", BOUNDED)
def test_a_scale_with_an_upper_bound_has_a_smooth_coordinate_of_either_sign(name):
    """Its density integrates to 1 at both signs together (here 2: the density of one sign is not halved)."""
    with pm.Model() as model:
        s = BOUNDED[name]()
    assert may_be_signed(model, s)
    coordinates = Coordinates(model, [], [s])
    density = pytensor.function([coordinates.theta], coordinates.log_prior, mode=PYTHON)
    total, _ = quad(lambda t: np.exp(density(np.array([t]))), -40.0, 40.0, points=[0.0])
    np.testing.assert_allclose(total, 2.0, rtol=1e-6)
    variables = coordinates.describe()
    for t in (-30.0, -1.3, 0.2, 2.5):
        value = variables.unpack(np.array([[t]]))["s"]
        assert 0.0 < value[0] <= coordinates.signed[s]
        if abs(t) < 10.0:
            np.testing.assert_allclose(variables.pack({"s": value[0]}), [abs(t)], rtol=1e-9)


def test_numpy_does_not_warn_of_a_prior_without_a_density_at_0_or_of_two_families():
    with pm.Model() as model:
        s = pm.InverseGamma("s", 3.0, 2.0)
    assert not may_be_signed(model, s)
    rows = np.array([[2.0, 3.0, 0.0], [5.0, 1.0, 1.0]])
    constants = Stack(BINOMIAL, POISSON).constants(rows)
    np.testing.assert_allclose(constants, [np.log(3.0), -np.log(120.0)])
