"""Groups whose effect is integrated out by quadrature: terms, gradients and second derivatives against a fine grid."""

import copy
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import approxmcmc as amc
from approxmcmc.diagnostics.integrals import distance_to_model
from approxmcmc.engine.compiler.compile import batched
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import ALL_ROWS, full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.expansion.general import OwnExpansion
from approxmcmc.numerics import find_mode
from approxmcmc.targets import GroupedTarget
from approxmcmc.targets.groups import accuracy, link, louis, newton, quadrature
from approxmcmc.targets.groups.accuracy import points


def log_density(family, eta, y, size):
    """Return log p(y | eta) by SciPy, constants included."""
    if family in ("logit", "binomial"):
        return stats.binom.logpmf(y, size, 1.0 / (1.0 + np.exp(-eta)))
    if family == "probit":
        return stats.norm.logcdf((2.0 * y - 1.0) * eta)
    if family == "poisson":
        return stats.poisson.logpmf(y, np.exp(eta))
    return stats.nbinom.logpmf(y, 2.5, 2.5 / (2.5 + np.exp(eta)))


def draw(family, rng, eta):
    if family in ("logit", "probit"):
        mean = 1.0 / (1.0 + np.exp(-eta)) if family == "logit" else stats.norm.cdf(eta)
        return (rng.random(eta.size) < mean).astype(float)
    if family == "binomial":
        return rng.binomial(7, 1.0 / (1.0 + np.exp(-eta))).astype(float)
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    return rng.negative_binomial(2.5, 2.5 / (2.5 + np.exp(eta))).astype(float)


SETTINGS = {"binomial": {"trials": 7}, "negative binomial": {"shape": 2.5}}
CASES = {
    "logit": ("logit", 1.0, 0.3),
    "logit, small scale": ("logit", 0.05, 0.3),
    "logit, large scale": ("logit", 3.0, 2.0),
    "probit": ("probit", 1.0, 0.3),
    "binomial": ("binomial", 0.8, -0.5),
    "poisson": ("poisson", 0.7, 0.5),
    "poisson, large counts": ("poisson", 1.0, 6.0),
    "poisson, small scale": ("poisson", 0.05, 0.5),
    "negative binomial": ("negative binomial", 0.8, 1.0),
}
COMPILED = ("logit",)  # families; the others differ from it in a function of one row


def cases(names):
    """Return the cases, those of most families for runs without compilation."""
    return [pytest.param(case, marks=() if CASES[case][0] in COMPILED else pytest.mark.recompiles) for case in names]


SIZES = [1, 1, 1, 2, 3, 5, 8, 13, 40, 300]


class Data:
    """Simulated rows of one case."""

    def __init__(self, case, sizes=SIZES, *, seed=0):
        self.family, self.sigma, intercept = CASES[case]
        rng = np.random.default_rng(seed)
        self.groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        self.X = np.column_stack([np.ones(len(self.groups)), rng.normal(size=(len(self.groups), 2))])
        eta = self.X @ [intercept, 0.5, -0.3] + self.sigma * rng.normal(size=len(sizes))[self.groups]
        self.y = draw(self.family, rng, eta)
        self.center = np.array([intercept, 0.5, -0.3, self.sigma])

    def target(self, **settings):
        settings = {"at": self.center, "prior_scale": 10.0, **SETTINGS.get(self.family, {}), **settings}
        return GroupedTarget(self.X, self.y, self.groups, family=self.family, **settings)

    def by_grid(self, theta):
        """Return l_g by the trapezoidal rule around the largest value of the integrand, which converges fast."""
        found = []
        for g in np.unique(self.groups):
            rows = self.groups == g
            eta, y = self.X[rows] @ theta[:3], self.y[rows]

            def log_integrand(z, eta=eta, y=y):
                term = log_density(
                    self.family, eta[:, None] + theta[3] * z, y[:, None], 7 if self.family == "binomial" else 1
                )
                return term.sum(axis=0) + stats.norm.logpdf(z)

            coarse = np.linspace(-9.0, 9.0, 721)
            for _ in range(3):  # until the grid holds what matters and nothing else
                values = log_integrand(coarse)
                inside = np.flatnonzero(values > values.max() - 60.0)
                low, high = coarse[max(inside[0] - 1, 0)], coarse[min(inside[-1] + 1, coarse.size - 1)]
                coarse = np.linspace(low, high, 721)
            found.append(logsumexp(log_integrand(coarse)) + math.log(coarse[1] - coarse[0]))
        return np.array(found)


def terms(target, theta):
    compiled = target.compile()
    return full_terms(compiled.log_terms, theta, compiled.data, target.n_obs) + target.omitted_constants


@pytest.mark.thorough
@pytest.mark.parametrize("case", cases(CASES))
def test_terms_are_the_integrals_to_the_stated_error(case):
    data = Data(case)
    target = data.target()
    thetas = data.center + 0.1 * np.random.default_rng(1).normal(size=(3, 4)) * [1, 1, 1, data.sigma]
    errors = np.array([(terms(target, theta) - data.by_grid(theta)).sum() for theta in thetas])
    assert np.ptp(errors) < max(target.accuracy.nats, 1e-7)
    assert target.accuracy.nats < 0.01
    assert np.abs(errors).max() < 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["logit", "poisson"])
def test_rows_that_share_an_effect_make_the_same_terms_with_few_exponentials(family):
    data = Data(family)
    target = data.target(n_nodes=8)
    one_by_one = copy.copy(target)
    one_by_one.share_effect = False
    # Usual; a product of 300 factors of exp(30), which overflows; predictors for which exp(x) overflows.
    for intercept, scale in ((0.3, 0.7), (30.0, 0.7), (30.0, 40.0), (-400.0, 0.7), (310.0, 0.7), (0.3, 500.0)):
        theta = np.array([intercept, 0.5, -0.3, scale])
        assert terms(target, theta) == pytest.approx(terms(one_by_one, theta), rel=1e-12, abs=1e-8)  # of sums up to 1e5


def differences(function, theta, h=1e-4):
    return np.array([(function(theta + h * e) - function(theta - h * e)) / (2.0 * h) for e in np.eye(len(theta))])


def test_second_derivatives_of_many_columns_are_mapped_without_a_large_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    bends, jacobian = rng.normal(size=(3, 5, 5)), rng.normal(size=(5, 4))
    bends[:, *np.tril_indices(5, -1)] = np.nan  # not written by the kernel
    at_once = louis.in_theta(bends, jacobian)
    monkeypatch.setattr(louis, "LARGEST_MAP", 0)
    np.testing.assert_allclose(louis.in_theta(bends, jacobian), at_once, rtol=1e-12, atol=1e-14)
    upper, (j, k) = np.triu(bends), np.triu_indices(4)
    whole = upper + upper.swapaxes(1, 2) - np.einsum("mab,ab->mab", upper, np.eye(5))
    np.testing.assert_allclose(at_once, (jacobian.T @ whole @ jacobian)[:, j, k], rtol=1e-12, atol=1e-14)


@pytest.mark.thorough
@pytest.mark.parametrize("case", cases(["logit", "probit", "binomial", "poisson", "negative binomial"]))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradients_and_second_derivatives_are_those_of_the_terms(case, sign):
    data = Data(case, [1, 2, 8, 20])
    target = data.target(n_nodes=31)
    theta = data.center * [1, 1, 1, sign] + 0.05

    gradient = differences(lambda at: terms(target, at).sum(), theta)
    assert full_gradient(target.compile_gradient(), theta) == pytest.approx(gradient, rel=1e-5, abs=1e-5)
    rows = expanded(target, theta)
    hessian = differences(lambda at: full_gradient(target.compile_gradient(), at), theta)
    upper = np.triu_indices(4)
    found = rows[:, 5:].sum(axis=0) * np.where(upper[0] == upper[1], 2.0, 1.0)
    assert found == pytest.approx(hessian[upper], rel=1e-4, abs=1e-4)
    assert rows[:, 1:5].sum(axis=0) == pytest.approx(gradient, rel=1e-5, abs=1e-5)
    assert rows[:, 0] + target.omitted_constants == pytest.approx(terms(target, theta), rel=1e-12)


def expanded(target, theta, expand=None):
    rows = np.empty((target.n_obs, 15))
    (expand or target.compile_expansion())(theta, target.data, ALL_ROWS, 0, target.n_obs, rows)
    return rows


WEIGHTED = ("logit", "binomial", "poisson", "negative binomial")


@pytest.mark.recompiles
@pytest.mark.parametrize("case", WEIGHTED)
def test_a_row_of_weight_three_is_three_equal_rows(case):
    data = Data(case, [1, 2, 8])
    weights = 1.0 + np.arange(11) % 3
    weighted = data.target(n_nodes=8, weights=weights)
    twice = np.repeat(np.arange(11), weights.astype(int))
    data.X, data.y, data.groups = data.X[twice], data.y[twice], data.groups[twice]
    repeated = data.target(n_nodes=8)
    theta = data.center + 0.1
    assert terms(weighted, theta) == pytest.approx(terms(repeated, theta), rel=1e-10)
    slopes = [full_gradient(target.compile_gradient(), theta) for target in (weighted, repeated)]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-8, abs=1e-10)
    np.testing.assert_allclose(expanded(weighted, theta)[:, 1:], expanded(repeated, theta)[:, 1:], rtol=1e-7, atol=1e-9)


def test_weights_must_be_positive():
    data = Data("poisson", [1, 2, 8])
    with pytest.raises(InvalidInputError, match="GroupedTarget: weights must be positive, found 0 in row 0"):
        data.target(n_nodes=8, weights=np.arange(11))


@pytest.mark.thorough
@pytest.mark.recompiles
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_shape_may_be_a_parameter(sign):
    """Terms are those of the known shape, so the integrals of the grid; slopes are differences of terms."""
    data = Data("negative binomial", [1, 2, 8, 20])
    theta = np.append(data.center * [1, 1, 1, sign] + 0.05, math.log(2.5))
    target = data.target(at=theta, n_nodes=31, shape=None, shape_scale=4.0)
    assert terms(target, theta) == pytest.approx(terms(data.target(n_nodes=31), theta[:4]), rel=1e-8)
    assert terms(target, theta) == pytest.approx(data.by_grid(theta[:4]), abs=1e-4)
    gradient = differences(lambda at: terms(target, at).sum(), theta)
    assert full_gradient(target.compile_gradient(), theta) == pytest.approx(gradient, rel=1e-5, abs=1e-5)
    rows = np.empty((target.n_obs, 21))
    target.compile_expansion()(theta, target.data, ALL_ROWS, 0, target.n_obs, rows)
    hessian = differences(lambda at: full_gradient(target.compile_gradient(), at), theta)
    upper = np.triu_indices(5)
    bends = rows[:, 6:].sum(axis=0) * np.where(upper[0] == upper[1], 2.0, 1.0)
    assert bends == pytest.approx(hessian[upper], rel=1e-3, abs=1e-3)


@pytest.mark.recompiles
def test_the_trace_has_the_shape_and_its_prior_is_log_normal():
    data = Data("negative binomial", [1, 2, 8])
    target = data.target(at=[*data.center, 0.0], n_nodes=8, shape=None, shape_scale=4.0, effect_scale=2.0)
    assert target.variables.labels()[-2:] == ["sigma", "log_shape"]
    theta = np.array([0.1, 0.2, 0.3, -0.8, math.log(2.5)])
    values = target.variables.unpack(theta)
    assert (values["sigma"], values["shape"]) == (0.8, pytest.approx(2.5))
    np.testing.assert_allclose(target.variables.pack(values), np.abs(theta))
    log_prior = target.compile().log_prior
    of_shape = log_prior(theta) - log_prior(np.append(theta[:4], math.log(4.0)))
    assert of_shape == pytest.approx(-0.5 * (math.log(2.5 / 4.0) / 1.5) ** 2)
    assert target.draw_latents(np.random.default_rng(0), np.stack([theta] * 3), np.arange(2)).shape == (3, 2)


@pytest.mark.thorough
def test_the_scale_is_even_and_its_edge_is_none():
    data = Data("logit")
    target, flat = data.target(), data.center * [1, 1, 1, 0]
    assert (terms(target, data.center) == terms(target, data.center * [1, 1, 1, -1])).all()
    rows = log_density("logit", data.X @ data.center[:3], data.y, 1)
    assert terms(target, flat) == pytest.approx(np.bincount(data.groups, rows), rel=1e-12)
    assert full_gradient(target.compile_gradient(), flat)[3] == 0.0


@pytest.mark.needs_jit
def test_a_group_of_ten_thousand_rows_and_groups_of_equal_responses():
    data = Data("logit", [10_000, 4, 4])
    data.y[data.groups == 1], data.y[data.groups == 2] = 1.0, 0.0
    target = data.target()
    assert (terms(target, data.center) - data.by_grid(data.center)) == pytest.approx(np.zeros(3), abs=1e-5)


# --- planted bugs ---


def kernel(stand_ins, target):
    """Return the kernel of terms with a wrong part, not compiled but for the family."""
    newton, sums = target._newton(), target._sums()
    if "newton" in stand_ins:
        newton = batched(stand_ins["newton"](newton))
    of_rows = target.stack.read, target.stack.of_row
    right = quadrature.make_nodes(True, 1, False, sums.prepare, newton, sums.add_terms, *of_rows)
    core = quadrature.make_log_terms(1, stand_ins.get("nodes", lambda right: right)(right))
    return lambda theta, data, *where: core(theta, data[:6], *where)


def stale(right):
    def newton(*arguments):
        right(*arguments)
        arguments[-1].mode[:] = 0.0

    return newton


def fixed(right):
    def newton(*arguments):
        arguments[-1].mode[:], arguments[-1].C[:] = 0.0, 1.0

    return newton


def without_width(right):
    """Leave out the Jacobian of the change of variables."""

    def nodes(phi, data, g, space):
        return right(phi, data, g, space) + math.log(space.C[0, 0])

    return nodes


@pytest.mark.recompiles
@pytest.mark.parametrize(
    "stand_ins",
    [{}, {"newton": stale}, {"newton": fixed}, {"nodes": without_width}],
    ids=["right", "stale", "fixed", "s"],
)
def test_planted_bugs_of_the_nodes_are_seen(stand_ins):
    data = Data("poisson, large counts", [1, 3, 6])
    target = data.target()
    found = np.empty(3)
    kernel(stand_ins, target)(data.center, target.data, ALL_ROWS, 0, 3, found)
    error = np.abs(found + target.omitted_constants - data.by_grid(data.center)).max()
    assert (error < 1e-3) == (not stand_ins)


@pytest.mark.recompiles
def test_a_wrong_sign_of_the_covariance_would_be_seen():
    data = Data("logit", [4, 9])
    target = data.target()
    found = 2.0 * expanded(target, data.center)[:, -1].sum()
    hessian = differences(lambda at: full_gradient(target.compile_gradient(), at), data.center)
    covariance = found - complete_part(target, data.center)
    assert found == pytest.approx(hessian[3, 3], abs=1e-3)
    assert covariance > 0.1  # with the other sign found would be off by twice this


def complete_part(target, theta):
    """Return the mean of the complete data's second derivative in sigma, by the nodes."""
    family, total = target.family, 0.0
    data = target.data[:6]
    space = quadrature.work_space(10, target.n_nodes, 1)
    for g, (lo, hi) in enumerate(data[2]):
        value = target._nodes()(theta, data, g, space)
        eta, z = data[0][0, lo:hi, 1:] @ theta[:3], space.u[0].copy()
        for k, w in enumerate(np.exp(space.weight - value)):
            y = data[1][0, lo:hi]
            bends = [family.derivatives(e + theta[3] * z[k], *one, 1.0)[1] for e, one in zip(eta, y, strict=True)]
            total += w * sum(bends) * z[k] ** 2
    return total


# --- set-up ---


@pytest.mark.thorough
def test_the_mode_is_found_and_nodes_are_added_where_they_are_needed():
    data = Data("logit", [6] * 60, seed=3)
    target = data.target(at=None)
    assert (
        abs(full_gradient(target.compile_gradient(), target.center) - target.center / [100, 100, 100, 1]).max() < 0.05
    )
    assert target.accuracy.nats < 0.01
    assert target.setup_attrs["setup_quadrature_nats"] == target.accuracy.nats
    with pytest.warns(SamplingWarning, match="with 2 nodes the error of the log-likelihood changes by"):
        coarse = data.target(n_nodes=2)
    assert coarse.accuracy.nats > 0.05
    [enough] = distance_to_model(target.setup_attrs)
    [too_few] = distance_to_model(coarse.setup_attrs)
    assert (enough.verdict, too_few.verdict) == ("ok", "warning")
    assert too_few.value == coarse.accuracy.nats
    assert "with 2 nodes" in too_few.finding
    assert distance_to_model({}) == []


def test_points_are_the_centre_draws_and_ends_of_the_scale():
    law = amc.numerics.Laplace(np.zeros(2), np.diag([1.0, 4.0]), 0.0, 0, 0.0)
    found = points(law, [1])
    assert found.shape == (11, 2)
    assert found[0].tolist() == [0.0, 0.0]
    assert found[-2:].tolist() == [[0.0, 6.0], [0.0, -6.0]]


def test_an_error_that_is_not_a_number_is_infinite_and_an_impossible_group_has_none(monkeypatch):
    """NaN compares as false with every limit, so no node would be added."""
    target = Data("logit", [1, 2]).target(n_nodes=2)
    impossible = -np.inf
    sums = [np.array([[0.0, 0.0], [0.5, 0.0], [impossible, 0.25], [impossible, 0.0], [np.nan, 0.0]])]
    sums.append(np.array([[0.0, 0.0], [0.0, 0.0], [impossible, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    monkeypatch.setattr(accuracy, "terms_of", lambda *arguments: sums.pop(0))
    found = accuracy.changes_of_error(target, np.zeros((5, 4)), np.arange(2))
    assert found.tolist() == [0.0, 0.5, 0.25, np.inf, np.inf]


def half_cauchy(theta):
    return -0.5 * theta[0] * theta[0] - math.log(1.0 + 4.0 * theta[1] * theta[1])


def error_over_the_posterior(target):
    """Return the .9 quantile of the change of the error, and the shift of the mean of sigma in standard deviations.

    Both are those of the posterior on a grid, with 256 nodes and 30 Newton steps as the truth.
    """
    exact = copy.copy(target)
    exact.set_rule(n_nodes=256, n_steps=30)
    sigma = np.concatenate([np.linspace(0.02, 4.0, 50), np.geomspace(4.2, 60.0, 25)])
    thetas = np.array([(beta, one) for beta in np.linspace(-3.5, 3.5, 29) for one in sigma])
    found, expected = (
        np.array([terms(one, theta).sum() for theta in [target.center, *thetas]]) for one in (target, exact)
    )
    error = np.abs((found - expected)[1:] - (found - expected)[0])
    prior = np.array([half_cauchy(theta) for theta in thetas])
    width = np.tile(np.gradient(sigma), 29)

    def weights(log_likelihood):
        log_weight = prior + log_likelihood[1:]
        weight = width * np.exp(log_weight - log_weight.max())
        return weight / weight.sum()

    true, own = weights(expected), weights(found)
    order = np.argsort(error)
    mean = true @ thetas[:, 1]
    sd = math.sqrt(true @ thetas[:, 1] ** 2 - mean**2)
    return error[order][np.searchsorted(np.cumsum(true[order]), 0.9)], (own @ thetas[:, 1] - mean) / sd


@pytest.mark.thorough
@pytest.mark.parametrize("checks_tails", [True, False])
def test_nodes_suffice_for_a_scale_with_heavy_tails(checks_tails, monkeypatch):
    """All rows of a group are equal, and sigma may be 40: 8 nodes err by .07 nats there, and by 1e-6 near the mode."""
    groups = np.repeat(np.arange(5), [4, 1, 1, 1, 1])
    if not checks_tails:
        monkeypatch.setattr(accuracy, "points_of_tails", lambda target, law, groups: (np.empty((0, 2)), np.empty(0)))
    target = GroupedTarget(np.ones((len(groups), 1)), groups < 2, groups, prior=half_cauchy)
    error, shift = error_over_the_posterior(target)
    assert target.accuracy.nats < 0.01
    if checks_tails:
        assert error < 0.01 and abs(shift) < 0.02
    else:
        assert error > 0.05 and abs(shift) > 0.05


@pytest.mark.thorough
def test_too_few_nodes_for_a_heavy_tail_are_a_warning():
    groups = np.repeat(np.arange(5), [30, 1, 30, 30, 20])
    with pytest.warns(amc.errors.SamplingWarning, match="with 64 nodes the error of .* by 0.075 nats"):
        GroupedTarget(np.ones((len(groups), 1)), groups < 2, groups, prior=half_cauchy)


@pytest.mark.recompiles
def test_a_users_function_is_a_family():
    def loglik(eta, y):
        return y * eta - math.exp(eta)

    data = Data("poisson", [2, 5, 9])
    own = GroupedTarget(data.X, data.y, data.groups, family=loglik, at=data.center, prior_scale=10.0)
    known = data.target()
    assert terms(own, data.center) == pytest.approx(terms(known, data.center) - known.omitted_constants, rel=1e-9)


@pytest.mark.recompiles
@pytest.mark.parametrize("most_steps", [30, 2], ids=["as many steps as it takes", "planted: two steps"])
def test_nodes_are_around_the_mode_far_from_the_centre_too(most_steps, monkeypatch):
    """A posterior of six counts reaches there, where the start that is predicted at the centre is far from the mode."""
    monkeypatch.setattr(newton, "MOST_STEPS", most_steps)
    x = np.array([-1.0, 1.0, 0.0, 1.0, -1.0, 2.0])
    counts = [3.0, 0.0, 1.0, 7.0, 2.0, 0.0]
    X = np.column_stack([np.ones(6), x])
    settings = {"family": "poisson", "prior_scale": 3.0, "effect_scale": 3.0}
    target = GroupedTarget(X, counts, [0, 0, 1, 1, 2, 2], **settings)
    exact = copy.copy(target)
    exact.set_rule(n_nodes=256, n_steps=30)
    changes = []
    for distance in (2.0, 3.0, 4.0):
        theta = target.center + distance * np.array([1.0, -1.0, 0.5])
        changes.append(np.abs(terms(target, theta) - terms(exact, theta)).max())
    if most_steps == 2:
        assert min(changes) > 0.5
    else:
        assert max(changes) < 1e-3


def test_careless_input_is_refused_in_words():
    data = Data("logit", [2, 5])

    def two_modes(eta, y):
        return -math.log(1.0 + (eta - y) ** 2)

    with pytest.raises(IncompatibleError, match="must be log-concave in eta"):
        GroupedTarget(data.X, data.y, data.groups, family=two_modes)
    with pytest.raises(InvalidInputError, match="family must be one of 'logit'"):
        GroupedTarget(data.X, data.y, data.groups, family="beta")
    with pytest.raises(InvalidInputError, match="normal rows need no quadrature"):
        GroupedTarget(data.X, data.y, data.groups, family="normal", shape=1.0)
    with pytest.raises(InvalidInputError, match=r"responses of 'poisson' are integers from 0, found -1 in row 0"):
        GroupedTarget(data.X, -np.ones(7), data.groups, family="poisson")
    with pytest.raises(InvalidInputError, match="shape= must be positive"):
        GroupedTarget(data.X, data.y, data.groups, family="negative binomial", shape=-1.0)
    with pytest.raises(InvalidInputError, match="trials= goes with family='binomial'"):
        GroupedTarget(data.X, data.y, data.groups, family="binomial")


@pytest.mark.parametrize("scale", [0.7, -0.7])
def test_numpy_and_kernels_read_the_table_of_a_link_alike(scale):
    places = [(0, link.AS_IT_IS), (1, link.EXP), (2, link.ABS)]
    products = [(0, 2.0, [0]), (0, -1.0, [1, 2]), (1, 0.5, [1, 1]), (1, 3.0, [2]), (2, 1.5, [])]
    table = link.link(places, products, [False, True, False])
    theta, slopes = np.array([-0.4, 0.3, scale]), np.array([1.3, -0.8, 0.4])
    factors = link.factors_of(theta, table.places)
    phi = link.sums_of(factors, *table[1:])
    out = np.zeros(3)
    in_factors = link.slopes_in_factors(factors, phi, slopes, *table[1:])
    link.add_factor_slopes(theta, table.places, in_factors, out)

    target = groups_of(table)
    many = target.phis(np.array([theta, theta + 1.0]))
    found, first, second = target.derivatives_of_phi(theta)

    assert found == pytest.approx(phi) and many[0] == pytest.approx(phi) and many[1] != pytest.approx(phi)
    assert slopes @ first == pytest.approx(out)
    for j, axis in enumerate(np.eye(3)):
        moved = [target.derivatives_of_phi(theta + sign * 1e-4 * axis) for sign in (1, -1)]
        assert first[:, j] == pytest.approx((moved[0][0] - moved[1][0]) / 2e-4, abs=1e-6)
        assert second[:, :, j] == pytest.approx((moved[0][1] - moved[1][1]) / 2e-4, abs=1e-6)


def groups_of(table):
    """Return a target of groups that has the table of a link and nothing else."""
    target = object.__new__(GroupedTarget)
    target.data = tuple(table)
    return target


@pytest.mark.thorough
@pytest.mark.parametrize("start", [(6.0, -4.0, 3.0, 2.0), (-8.0, 5.0, 5.0, -2.0)])
def test_a_search_for_the_mode_expands_where_values_rise_and_takes_the_same_steps(start, monkeypatch):
    target = Data("logit, large scale", [2, 3, 5, 8, 13]).target()
    expanded = []
    expand = OwnExpansion._total
    monkeypatch.setattr(OwnExpansion, "_total", lambda self, theta: expanded.append(theta) or expand(self, theta))
    found, calls = [], []
    for cheap in (True, False):
        monkeypatch.setattr(OwnExpansion, "values_are_cheap", cheap)
        expanded.clear()
        found.append(find_mode(target, start=start))
        calls.append(len(expanded))
    np.testing.assert_array_equal(found[0].theta, found[1].theta)
    assert calls[0] < calls[1]
