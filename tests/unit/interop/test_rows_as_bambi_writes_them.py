"""Rows as Bambi writes them: clipped probabilities and weights, which are read as the distributions below them.

The oracle is the model's own log density of each row, at random values of its variables.
"""

import warnings
from types import SimpleNamespace

import bambi
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import InvalidInputError
from approxmcmc.families import BINOMIAL, LOGIT, POISSON
from approxmcmc.families.weighted import weighted_rows
from approxmcmc.interop.any_model import without_formula
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups import target as groups_target
from approxmcmc.interop.groups.candidates import ModelOfGroups
from approxmcmc.interop.groups.target import NormalGroupsOfPyMC, QuadratureGroupsOfPyMC, integrated
from approxmcmc.interop.linear_predictor import PredictorsOfPyMC
from approxmcmc.interop.walk import PYTHON

# pandas 3 warns of how Bambi's formulas select columns of text
pytestmark = pytest.mark.filterwarnings("ignore:For backward compatibility:DeprecationWarning")
N, GROUPS = 48, 6
_rng = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "yes": np.arange(N) % 3 % 2,
        "hits": np.arange(N) % 5,
        "n": 4,
        "count": _rng.poisson(2.0, N),
        "real": _rng.normal(size=N),
        "x": _rng.normal(size=N),
        "site": [f"site {k % GROUPS}" for k in range(N)],
        "w": 0.5 * (np.arange(N) % 4),
        "positive": _rng.gamma(2.0, size=N),
    }
)
FORMULAS = {
    "bernoulli": ("yes", "bernoulli", "logit"),
    "probit": ("yes", "bernoulli", "probit"),
    "binomial": ("p(hits, n)", "binomial", "logit"),
    "poisson": ("count", "poisson", "log"),
    "negative binomial": ("count", "negativebinomial", "log"),
    "weighted poisson": ("weighted(count, w)", "poisson", "log"),
    "weighted negative binomial": ("weighted(count, w)", "negativebinomial", "log"),
}


def model_of(response, family, link, predictors="x + (1|site)"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return without_formula(bambi.Model(f"{response} ~ {predictors}", FRAME, family=family, link=link))


def weigh(law, values, **parameters):
    """Return a model whose rows have the densities of a law of PyMC, times weights, as Bambi writes them."""
    names = list(parameters)

    def dist(*given):
        return law.dist(**dict(zip(names, given, strict=True)))

    with pm.Model() as model:
        effect = pm.HalfNormal("1|site_sigma") * pm.Normal("1|site_offset", shape=GROUPS)
        eta = pm.Normal("x") * FRAME["x"].to_numpy() + effect[np.arange(N) % GROUPS]
        made = [one(eta) if callable(one) else one for one in parameters.values()]
        pm.CustomDist(
            "y",
            *made,
            logp=lambda value, *given: FRAME["w"].to_numpy() * pm.logp(dist(*given), value),
            dist=lambda *given: law.dist(**dict(zip(names, given[:-1], strict=True)), size=given[-1]),
            observed=values,
        )
    return model


WEIGHTED = {
    "logit": lambda: weigh(pm.Bernoulli, FRAME["yes"], p=pm.math.invlogit),
    "probit": lambda: weigh(pm.Bernoulli, FRAME["yes"], p=pm.math.invprobit),
    # A Python number would be a float32 in the graph, in which PyMC computes log(n!) with an error of 3e-8.
    "binomial": lambda: weigh(pm.Binomial, FRAME["hits"], n=FRAME["n"].to_numpy(), p=pm.math.invlogit),
}


def densities(model, source, spread, rng):
    """Return the log densities of rows by the library's family and by the model, and the predictor, at a random point.

    `spread` multiplies the values of normal variables.
    """
    free, law, [observed] = model.free_RVs, source.law, model.observed_RVs
    expected = pm.logp(observed, model.rvs_to_values[observed], warn_rvs=False)
    shape = [] if law.shape is None else [law.shape]
    function = pytensor.function(free, [sum(law.predictors), expected, *shape], mode=PYTHON, on_unused_input="ignore")
    values = [
        rng.uniform(0.5, 1.5, one.type.shape) if one.name in ("1|site_sigma", "alpha")
        else spread * rng.normal(size=model.eval_rv_shapes()[one.name])
        for one in free
    ]  # fmt: skip
    eta, rows, *alpha = function(*values)
    size = np.ones(N) if law.trials is None else np.broadcast_to(source.values.of[law.trials], N).astype(float)
    family, y = law.family, source.y.astype(float)
    constants = np.broadcast_to(family.constants(y, size), N)
    if law.weight is not None:
        constants = law.weight * constants
        family, y, size = weighted_rows(family, y, size, law.weight)
    a = float(np.ravel(alpha[0])[0]) if alpha else 1.0
    mine = [family.term(*row, a) + family.of_row(row[1], row[2], a)[0] for row in zip(eta, y, size, strict=True)]
    return np.array(mine) + constants, rows, eta


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMULAS)
def test_rows_have_the_density_of_the_model(name, rng):
    model = model_of(*FORMULAS[name])
    source = ModelOfGroups(model)
    assert source.sets[0].name == "1|site_offset"
    assert (source.law.weight is None) != name.startswith("weighted")
    for _ in range(3):
        mine, expected, _ = densities(model, source, 1.0, rng)
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted_rows_have_the_density_of_the_model(name, rng):
    model = WEIGHTED[name]()
    source = ModelOfGroups(model)
    np.testing.assert_array_equal(source.law.weight, FRAME["w"])
    for _ in range(3):
        mine, expected, _ = densities(model, source, 1.0, rng)
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["bernoulli", "binomial"])
def test_the_clip_is_left_out_and_acts_only_on_rows_below_its_distance(name, rng):
    model = model_of(*FORMULAS[name])
    source = ModelOfGroups(model)
    assert source.law.is_clipped
    seen = 0
    for _ in range(5):
        mine, expected, eta = densities(model, source, 30.0, rng)
        acts = (eta > 36.7) | (eta < -745.0)
        # Under the switches PyMC computes log(1 - p) from a rounded p: its error is 1.1e-16 exp(eta) for each trial.
        allowed = 1e-9 * (1.0 + np.abs(mine)) + 4.0 * 2.3e-16 * np.exp(np.minimum(eta, 40.0))
        assert (np.abs(mine - expected) <= allowed)[~acts].all()
        differs = acts & ~np.isclose(mine, expected, rtol=1e-9, atol=1e-9)
        assert (mine[differs] < -36.0).all()
        assert (expected[differs] > mine[differs]).all()
        seen += differs.sum()
    assert seen > 0


def test_a_model_without_a_clip_is_not_said_to_have_one():
    assert not ModelOfGroups(model_of(*FORMULAS["poisson"])).law.is_clipped


def test_only_a_clip_at_the_rounding_error_is_one():
    """A model that replaces probabilities of 0 by 0.01 is not a logit model."""
    with pm.Model() as model:
        p = pm.math.invlogit(pm.HalfNormal("s") * pm.Normal("z", shape=GROUPS)[np.arange(N) % GROUPS])
        pm.Bernoulli("y", pm.math.switch(pm.math.eq(p, 0), 0.01, p), observed=FRAME["yes"])
    with pytest.raises(NotPossibleError, match="Bernoulli rows need p = sigmoid"):
        integrated(model)


def known_family(target):
    """Return the library's family of a regression with a dense predictor, None for any other."""
    assert type(target) is PredictorsOfPyMC
    return target.likelihood.single.family if target.is_dense else None


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "family"), [("bernoulli", LOGIT), ("poisson", POISSON), ("weighted poisson", POISSON)]
)
def test_without_effects_the_rows_are_linear_models_of_the_library(name, family):
    """Recognition compares the terms with the model's."""
    target = amc.from_pymc(model_of(*FORMULAS[name], predictors="x"))
    assert known_family(target) is family
    if name.startswith("weighted"):
        np.testing.assert_array_equal(target.weights, FRAME["w"])
    else:
        assert target.weights is None


# Each family of Bambi with its default link: the family of the library for y ~ x, and the plan for
# y ~ x + (1|site), or the start of the reason why its effects stay parameters.
PLANS = {
    "bernoulli": ("yes", LOGIT, QuadratureGroupsOfPyMC),
    "binomial": ("p(hits, n)", BINOMIAL, QuadratureGroupsOfPyMC),
    "poisson": ("count", POISSON, QuadratureGroupsOfPyMC),
    "negativebinomial": ("count", None, QuadratureGroupsOfPyMC),
    "gaussian": ("real", None, NormalGroupsOfPyMC),
    "t": (
        "real",
        None,
        "1|site_offset: the rows of real: StudentT rows are not log-concave in the predictor",
    ),
    "gamma": (
        "positive",
        None,
        "1|site_offset: the rows of positive: Gamma rows need a mean alpha / beta = exp(a linear predictor)",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("family", [name for name in PLANS if name != "gamma"])
def test_plan_without_effects(family):
    response, known, _ = PLANS[family]
    assert known_family(amc.from_pymc(model_of(response, family, None, "x"))) is known


@pytest.mark.thorough
@pytest.mark.parametrize("family", PLANS)
def test_plan_for_effects_of_groups(family, monkeypatch):
    """The plan follows from the graph; other tests compare the terms with the model, and place the nodes."""
    monkeypatch.setattr(groups_target, "compare_with_model", lambda target: None)
    exact = SimpleNamespace(nats=0.0)
    monkeypatch.setattr(QuadratureGroupsOfPyMC, "place", lambda self: setattr(self, "accuracy", exact))
    response, _, plan = PLANS[family]
    model = model_of(response, family, None)
    if isinstance(plan, str):
        with pytest.raises(NotPossibleError) as refusal:
            integrated(model)
        assert str(refusal.value).startswith(plan)
    else:
        assert type(integrated(model)) is plan


@pytest.mark.thorough
def test_the_inverse_link_of_gamma_rows_is_refused_at_the_initial_point():
    """The default link of Bambi: the mean is 1 / 0 at the initial point, so the error asks for an initval."""
    with pytest.raises(InvalidInputError, match=r"NaN at the initial point.*Give the variables an initval"):
        amc.from_pymc(model_of("positive", "gamma", None, "x"))


def test_negative_weights_are_refused():
    with pm.Model() as model:
        mu = pm.HalfNormal("s") * pm.Normal("z", shape=GROUPS)[np.arange(N) % GROUPS]
        weight = np.where(np.arange(N) == 3, -1.0, 1.0)
        pm.CustomDist(
            "y",
            mu,
            logp=lambda value, mu: weight * pm.logp(pm.Normal.dist(mu, 1.0), value),
            dist=lambda mu, size: pm.Normal.dist(mu, 1.0, size=size),
            observed=FRAME["real"],
        )
    with pytest.raises(NotPossibleError, match="the rows of y have weights that are negative"):
        integrated(model)


@pytest.mark.needs_jit
def test_weighted_normal_rows_keep_the_closed_form():
    """Effects of groups are integrated by the closed form, whose terms equal those of the model at random points."""
    model = model_of("weighted(real, w)", "gaussian", "identity")
    target = amc.from_pymc(model)
    assert isinstance(target, NormalGroupsOfPyMC)
    compiled = target.compile()
    terms = full_terms(compiled.log_terms, target.initial_point(), compiled.data, target.n_obs)
    assert np.isfinite(terms).all()


@pytest.mark.needs_jit
def test_a_lost_weight_is_noticed(monkeypatch):
    """Planted: the weights of half the rows are doubled after they were read."""
    read = ModelOfGroups.__init__

    def planted(self, model):
        read(self, model)
        doubled = self.observed.weight * np.where(np.arange(N) < N // 2, 2.0, 1.0)
        self.observed = self.observed._replace(weight=doubled)

    monkeypatch.setattr(ModelOfGroups, "__init__", planted)
    with pytest.raises(NotPossibleError, match="and that of the model"):
        integrated(model_of("weighted(real, w)", "gaussian", "identity"))
