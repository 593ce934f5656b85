"""Every family keeps its contract: SciPy's and PyMC's density, the derivatives of this density, bounds that hold.

Derivatives are compared with contour integrals of the density in the complex plane (Cauchy's formula), which are right
to rounding; a complex step is the first of them.
"""

import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, loggamma

from approxmcmc import families
from approxmcmc.families.bernoulli import CLOGLOG
from approxmcmc.families.beta import BETA
from approxmcmc.families.family import Family
from approxmcmc.families.gamma import GAMMA
from approxmcmc.families.student_t import student_t, student_t_errors
from approxmcmc.families.weibull import WEIBULL
from approxmcmc.targets.predictors.family import ShapeLikelihood

ETA = np.linspace(-4.0, 4.0, 17)
REACHES = (0.0, 0.3, 2.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A family, responses with their sizes, a shape, and its log density for complex eta and by SciPy."""

    family: Family
    y: tuple[float, ...]
    density: Callable[..., Any]
    by_scipy: Callable[..., Any]
    refused: tuple[float, ...]
    size: float = 1.0
    shape: float = 1.0
    far: float = 12.0
    """Up to where the density's complex form is right to rounding."""

    def rows(self, eta=ETA):
        """Return eta and y of every pair of the two."""
        eta, y = (array.ravel() for array in np.meshgrid(eta, np.array(self.y)))
        return eta, y


def logit_density(eta, y, size, shape):
    """Return the log density of successes with log odds eta."""
    chosen = loggamma(size + 1.0) - loggamma(y + 1.0) - loggamma(size - y + 1.0)
    return chosen + y * eta - size * np.log(1.0 + np.exp(eta))


def negative_binomial_density(eta, y, size, shape):
    """Return the log density of overdispersed counts with mean exp(eta)."""
    mean = np.exp(eta)
    chosen = loggamma(y + shape) - loggamma(shape) - loggamma(y + 1.0)
    return chosen + shape * np.log(shape / (shape + mean)) + y * np.log(mean / (shape + mean))


def gamma_density(eta, y, size, shape):
    """Return the log density of positive responses with mean exp(eta)."""
    rate = shape * np.exp(-eta)
    return shape * np.log(rate) - loggamma(shape) + (shape - 1.0) * np.log(y) - rate * y


def beta_density(eta, y, size, shape):
    """Return the log density of responses between 0 and 1 with log odds eta of their mean."""
    a, b = shape * success(eta), shape * success(-eta)
    constant = loggamma(shape) - loggamma(a) - loggamma(b)
    return constant + (a - 1.0) * np.log(y) + (b - 1.0) * np.log(1.0 - y)


def normal_density(eta, y, size, shape):
    """Return the log density of a normal response."""
    return -0.5 * ((y - eta) / shape) ** 2 - np.log(shape) - 0.5 * np.log(2.0 * np.pi)


def student_density(eta, y, size, shape):
    """Return the log density of a response with errors t_4, of scale 0.7."""
    constant = loggamma(2.5) - loggamma(2.0) - 0.5 * np.log(4.0 * np.pi) - np.log(0.7)
    return constant - 2.5 * np.log(1.0 + ((y - eta) / 0.7) ** 2 / 4.0)


def success(eta):
    """Return the probability with log odds eta."""
    return 1.0 / (1.0 + np.exp(-eta))


CASES = {
    "logit": Case(
        families.LOGIT,
        (0.0, 1.0),
        logit_density,
        lambda eta, y, n, r: stats.bernoulli.logpmf(y, success(eta)),
        (0.5, 2.0),
    ),
    "probit": Case(
        families.PROBIT,
        (0.0, 1.0),
        lambda eta, y, n, r: log_ndtr((2.0 * y - 1.0) * eta),
        lambda eta, y, n, r: stats.bernoulli.logpmf(y, stats.norm.cdf(eta)),
        (0.5, 2.0),
        far=5.0,
    ),
    "cloglog": Case(
        CLOGLOG,
        (0.0, 1.0),
        lambda eta, y, n, r: np.where(y > 0.5, np.log(-np.expm1(-np.exp(eta))), -np.exp(eta)),
        lambda eta, y, n, r: np.where(y > 0.5, np.log(-np.expm1(-np.exp(eta))), stats.poisson.logpmf(0, np.exp(eta))),
        (0.5, 2.0),
    ),
    "binomial": Case(
        families.BINOMIAL,
        (0.0, 2.0, 5.0),
        logit_density,
        lambda eta, y, n, r: stats.binom.logpmf(y, n, success(eta)),
        (0.5, -1.0, 6.0),
        size=5.0,
    ),
    "poisson": Case(
        families.POISSON,
        (0.0, 1.0, 7.0),
        lambda eta, y, n, r: y * eta - np.exp(eta) - loggamma(y + 1.0),
        lambda eta, y, n, r: stats.poisson.logpmf(y, np.exp(eta)),
        (0.5, -1.0),
    ),
    "negative binomial": Case(
        families.NEGATIVE_BINOMIAL,
        (0.0, 1.0, 7.0),
        negative_binomial_density,
        lambda eta, y, n, r: stats.nbinom.logpmf(y, r, r / (r + np.exp(eta))),
        (0.5, -1.0),
        shape=2.5,
    ),
    "gamma": Case(
        GAMMA,
        (0.1, 1.0, 4.0),
        gamma_density,
        lambda eta, y, n, r: stats.gamma.logpdf(y, r, scale=np.exp(eta) / r),
        (0.0, -1.0, math.inf),
        shape=2.5,
    ),
    "weibull": Case(
        WEIBULL,
        (0.1, 1.0, 4.0),
        lambda eta, y, n, r: np.log(r / y) + r * (np.log(y) - eta) - np.exp(r * (np.log(y) - eta)),
        lambda eta, y, n, r: stats.weibull_min.logpdf(y, r, scale=np.exp(eta)),
        (0.0, -1.0, math.inf),
        shape=1.7,
    ),
    "beta": Case(
        BETA,
        (0.03, 0.5, 0.9),
        beta_density,
        lambda eta, y, n, r: stats.beta.logpdf(y, r * success(eta), r * success(-eta)),
        (0.0, 1.0, -1.0),
        shape=5.0,
    ),
    "normal": Case(
        families.NORMAL,
        (-1.0, 0.0, 2.5),
        normal_density,
        lambda eta, y, n, r: stats.norm.logpdf(y, eta, r),
        (math.nan, math.inf),
        shape=0.7,
    ),
    "student t": Case(
        student_t(4.0, 0.7),
        (-1.0, 0.0, 2.5),
        student_density,
        lambda eta, y, n, r: stats.t.logpdf((y - eta) / 0.7, 4.0) - np.log(0.7),
        (math.nan, math.inf),
    ),
    "student t of a scale": Case(
        student_t_errors(4.0),
        (-1.0, 0.0, 2.5),
        lambda eta, y, n, r: student_density(0.7 * eta / r, 0.7 * y / r, n, r) + np.log(0.7 / r),
        lambda eta, y, n, r: stats.t.logpdf((y - eta) / r, 4.0) - np.log(r),
        (math.nan, math.inf),
        shape=1.4,
    ),
}


def derivative(function, at, order, radius=0.4, points=64):
    """Return a derivative of an analytic function by Cauchy's formula, on a circle around each point."""
    directions = np.exp(2.0j * np.pi * np.arange(points) / points)
    values = function(np.asarray(at)[..., None] + radius * directions)
    return (math.factorial(order) * (values / directions**order).mean(axis=-1) / radius**order).real


def density_of(family, case, eta, y):
    """Return the log density by the family's functions: the term, the constants, and the share of the row."""
    whole = [
        family.term(e, v, case.size, case.shape) + family.of_row(v, case.size, case.shape)[0]
        for e, v in zip(eta.tolist(), y.tolist(), strict=True)
    ]
    return np.array(whole) + family.constants(y, np.full(y.shape, case.size))


def check_density(family, case):
    """The whole log density is SciPy's."""
    eta, y = case.rows()
    np.testing.assert_allclose(
        density_of(family, case, eta, y), case.by_scipy(eta, y, case.size, case.shape), rtol=1e-8, atol=1e-9
    )


def check_derivatives(family, case):
    """The two derivatives in eta, and that in the logarithm of a shape, are those of the density."""
    eta, y = case.rows()
    found = np.array(
        [family.derivatives(e, v, case.size, case.shape) for e, v in zip(eta.tolist(), y.tolist(), strict=True)]
    )
    for order in (1, 2):
        expected = derivative(lambda t: case.density(t, y[:, None], case.size, case.shape), eta, order)
        np.testing.assert_allclose(found[:, order - 1], expected, rtol=1e-8, atol=1e-8)
    if not family.has_shape:
        return
    in_log_shape = [
        family.in_shape(e, v, case.size, case.shape) + family.of_row(v, case.size, case.shape)[1]
        for e, v in zip(eta.tolist(), y.tolist(), strict=True)
    ]
    expected = derivative(
        lambda s: case.density(eta[:, None], y[:, None], case.size, np.exp(s)),
        np.full(eta.shape, math.log(case.shape)),
        1,
    )
    np.testing.assert_allclose(in_log_shape, expected, rtol=1e-8, atol=1e-8)
    if family.second_in_shape is None:
        return
    pairs = list(zip(eta.tolist(), y.tolist(), strict=True))
    cross, second = np.array([family.second_in_shape(e, v, case.size, case.shape) for e, v in pairs]).T
    near = [[family.in_shape(e + step, v, case.size, case.shape) for e, v in pairs] for step in (1e-4, -1e-4)]
    np.testing.assert_allclose(cross, (np.array(near[0]) - near[1]) / 2e-4, rtol=1e-6, atol=1e-6)
    expected = derivative(
        lambda s: case.density(eta[:, None], y[:, None], case.size, np.exp(s)),
        np.full(eta.shape, math.log(case.shape)),
        2,
    )
    np.testing.assert_allclose(second, expected, rtol=1e-7, atol=1e-7)


def size_of_derivative(case, order, eta, y, shape):
    """Return the absolute derivative of the log density in eta, of an order; `y` broadcasts against points near eta."""
    return np.abs(derivative(lambda t: case.density(t, y, case.size, shape), eta, order))


def check_bounds(family, case):
    """Bounds are at least the largest derivative found on a fine grid, and not twice as large where they are sharp."""
    wide = np.linspace(-case.far, case.far, 961)
    within = (family.slope_within, family.second_derivative_within, family.third_derivative_within)
    everywhere = (family.slope_bound, family.second_derivative_bound, family.third_derivative_bound)
    for order, (local, bound) in enumerate(zip(within, everywhere, strict=True), 1):
        eta, y = case.rows(wide)
        values = size_of_derivative(case, order, eta, y[:, None], 1.0)
        if bound is not None:
            of_size = bound * case.size
            assert values.max() <= of_size * (1.0 + 1e-9) and of_size <= 1.05 * values.max() + 1e-12
        if local is None:
            continue
        for reach in REACHES:
            eta, y = case.rows()
            steps = reach * np.linspace(-1.0, 1.0, 41)
            largest = size_of_derivative(case, order, eta[:, None] + steps, y[:, None, None], case.shape).max(axis=1)
            found = local(eta, y, np.full(y.shape, case.size), case.shape, np.full(y.shape, reach))
            assert (found >= largest * (1.0 - 1e-9) - 1e-9).all(), (order, reach)
        eta, y = case.rows(wide)
        values = size_of_derivative(case, order, eta, y[:, None], case.shape)
        with np.errstate(all="ignore"):
            found = local(np.zeros(len(y)), y, np.full(y.shape, case.size), case.shape, np.full(y.shape, np.inf))
        known = np.isfinite(found)  # an infinite bound, or NaN, says that no bound is known
        assert (found[known] >= values[known] * (1.0 - 1e-9) - 1e-9).all(), (order, "everywhere")


def mixed_derivative(case, orders, eta, y, log_shape, radius=0.1, points=16):
    """Return a partial derivative of the log density in eta and log(shape), by Cauchy's formula on two circles."""
    directions = np.exp(2.0j * np.pi * np.arange(points) / points)
    near_eta = np.asarray(eta)[..., None, None] + radius * directions[:, None]
    near_shape = np.asarray(log_shape)[..., None, None] + radius * directions
    values = case.density(near_eta, y[..., None, None], case.size, np.exp(near_shape))
    weights = directions[:, None] ** -orders[0] * directions ** -orders[1]
    factor = math.factorial(orders[0]) * math.factorial(orders[1]) / radius ** sum(orders)
    return (factor * (values * weights).mean(axis=(-2, -1))).real


def check_partials(family, case):
    """Bounds of partial derivatives in eta and log(shape) are at least the largest found on a grid of each box."""
    if family.partials_within is None:
        return
    eta, y = case.rows(np.linspace(-2.0, 2.0, 4))
    for log_shape in (-1.0, 0.7):
        for reach in (0.0, 0.3, 1.0):
            steps = np.linspace(-1.0, 1.0, 3 if reach else 1)
            box = np.stack(np.meshgrid(reach * steps, 0.5 * reach * steps), axis=-1).reshape(-1, 2)
            near_eta = eta[:, None] + box[:, 0]
            near_shape = np.full(near_eta.shape, log_shape) + box[:, 1]
            y_of_box = np.broadcast_to(y[:, None], near_eta.shape)
            at = np.full(eta.shape, log_shape)
            reaches = np.full(eta.shape, reach)
            for order in (2, 3):
                bounds = family.partials_within(order, eta, y, at, reaches, 0.5 * reaches)
                assert len(bounds) == order + 1
                for j, bound in enumerate(bounds):
                    found = np.abs(mixed_derivative(case, (order - j, j), near_eta, y_of_box, near_shape)).max(axis=1)
                    assert (bound >= found * (1.0 - 1e-5) - 1e-6).all(), (order, j, reach)


def check_minorants(family, case):
    """A bound is the term minus its gap, lies below the term, and touches it where it is tuned to."""
    eta, y = case.rows()
    eta_0 = np.resize([-2.0, 0.0, 0.7, 3.0], y.shape)
    for kind, make in family.minorants.items():
        minorant = make(y, np.full(y.shape, case.size), case.shape, eta_0)
        quadratic, linear, constant = minorant.coefficients
        terms = np.array(
            [family.term(e, v, case.size, case.shape) for e, v in zip(eta.tolist(), y.tolist(), strict=True)]
        )
        touch = np.stack(np.broadcast_arrays(*minorant.touch), axis=1).tolist()
        gaps = np.array([minorant.gap(e, *row) for e, row in zip(eta.tolist(), touch, strict=True)])
        np.testing.assert_allclose(gaps, terms - (quadratic * eta + linear) * eta - constant, atol=1e-9)
        assert gaps.min() >= -1e-12, kind
        slopes = [minorant.slope(e, *row) for e, row in zip(eta.tolist(), touch, strict=True)]
        near = [
            (minorant.gap(e + 1e-5, *row) - minorant.gap(e - 1e-5, *row)) / 2e-5
            for e, row in zip(eta.tolist(), touch, strict=True)
        ]
        np.testing.assert_allclose(slopes, near, atol=1e-8)
        if kind != "untuned":
            at_touch = [minorant.gap(e, *row) for e, row in zip(eta_0.tolist(), touch, strict=True)]
            np.testing.assert_allclose(at_touch, 0.0, atol=1e-12)


def check_simulation(family, case, rng):
    """Scores of simulated responses have mean 0, and their variance is the information: |z| < 5.

    False alarms: 6e-7 for each of 70 comparisons. With 20 000 responses a mean that is off by a twentieth of a standard
    deviation gives |z| = 7.
    """
    n = 20_000
    for eta in (-1.0, -0.2, 0.0, 0.5, 1.2):
        y = family.simulate(rng, np.full(n, eta), np.full(n, case.size), case.shape)
        assert np.all(family.fits(y, np.full(n, case.size)))
        some, counts = np.unique(y, return_counts=True)
        each = np.array([family.derivatives(eta, value, case.size, case.shape) for value in some.tolist()])
        slopes, bends = np.repeat(each, counts, axis=0).T
        for mean_zero in (slopes, slopes**2 + bends):
            assert abs(mean_zero.mean()) <= 5.0 * mean_zero.std() / math.sqrt(n) + 1e-12, eta


def check_mean(family, case, rng):
    """Simulated responses have the mean that the family says: |z| < 5, as in `check_simulation`.

    Heavy tails make the standard deviation of 20 000 responses unreliable, so those of Student-t rows are clipped.
    """
    n = 20_000
    for eta in (-1.0, 0.0, 1.2):
        y = family.simulate(rng, np.full(n, eta), np.full(n, case.size), case.shape)
        expected = family.mean(np.array([eta]), np.array([case.size]), case.shape)[0]
        centred = np.clip(y - expected, -30.0, 30.0)
        assert abs(centred.mean()) <= 5.0 * centred.std() / math.sqrt(n) + 1e-12, eta


def check_twin(family, case):
    """PyMC's log density of the twin is that of the family.

    PyTensor's stabilisation, a part of every mode in which PyMC samples, makes it right where a probability is near 1;
    it applies to predictors that are not constants.
    """
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.compile.mode import get_mode

    eta, y = case.rows()
    predictor = pt.dvector("eta")
    with pm.Model() as model:
        observed = family.twin.observe("y", predictor, y, np.full(y.shape, case.size), case.shape)
    assert type(observed.owner.op).__name__ == f"{family.twin.distribution}RV"
    mode = get_mode("FAST_COMPILE").including("stabilize")
    theirs = model.compile_fn(pm.logp(observed, y), inputs=[predictor], point_fn=False, mode=mode)(eta)
    np.testing.assert_allclose(density_of(family, case, eta, y), theirs, rtol=1e-8, atol=1e-8)


def model_of(name, *, knows_shape):
    """Return a PyMC model of the twin with a linear predictor of two coefficients."""
    import pymc as pm

    case = CASES[name]
    eta, y = case.rows(np.linspace(-1.0, 1.0, 5))
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=2)
        predictor = np.column_stack([np.ones(eta.size), eta]) @ beta
        shape = case.shape if knows_shape else pm.HalfNormal("shape")
        case.family.twin.observe("y", predictor, y, np.full(y.shape, case.size), shape)
    return model


@pytest.mark.parametrize("knows_shape", [True, False])
@pytest.mark.parametrize("name", families.FAMILIES)
def test_the_twin_of_a_family_is_recognised_in_rows_of_groups(name, knows_shape):
    from approxmcmc.interop.law import law_of_rows

    model = model_of(name, knows_shape=knows_shape)
    assert law_of_rows(model, model["y"]).family is CASES[name].family


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_the_twin_of_a_family_is_recognised_in_single_rows(name):
    from approxmcmc.interop.linear_predictor import rows_of_family
    from approxmcmc.interop.model import ModelOfPyMC

    case = CASES[name]
    rows = rows_of_family(ModelOfPyMC(model_of(name, knows_shape=True), None))
    assert rows.family.name == case.family.name
    of_shape = rows.family.has_shape
    assert rows.shape == pytest.approx(case.shape if of_shape else 1.0)
    rows = rows_of_family(ModelOfPyMC(model_of(name, knows_shape=False), None))
    if name == "normal":  # which has a closed form of its own
        assert rows is None
    else:
        assert rows.family.name == case.family.name and (rows.shape is None) == case.family.has_shape


def test_the_cases_are_the_families_of_the_room():
    modules = [
        importlib.import_module(f"approxmcmc.families.{one.name}") for one in pkgutil.iter_modules(families.__path__)
    ]
    named = {value.name for module in modules for value in vars(module).values() if isinstance(value, Family)}
    assert named == set(families.FAMILIES) | {"beta"}  # which is not log-concave
    assert set(CASES) == named | {"student t", "student t of a scale"}


@pytest.mark.parametrize("name", CASES)
class TestAFamily:
    def test_has_scipys_density(self, name):
        check_density(CASES[name].family, CASES[name])

    def test_has_the_derivatives_of_its_density(self, name):
        check_derivatives(CASES[name].family, CASES[name])

    def test_is_bounded_by_its_bounds(self, name):
        check_bounds(CASES[name].family, CASES[name])

    def test_is_bounded_in_two_predictors(self, name):
        check_partials(CASES[name].family, CASES[name])

    def test_is_above_its_minorants(self, name):
        check_minorants(CASES[name].family, CASES[name])

    def test_simulates_itself(self, name, rng):
        check_simulation(CASES[name].family, CASES[name], rng)
        check_mean(CASES[name].family, CASES[name], rng)

    def test_is_its_twin_in_pymc(self, name):
        check_twin(CASES[name].family, CASES[name])

    def test_tells_possible_responses(self, name):
        family, case = CASES[name].family, CASES[name]
        assert np.all(family.fits(np.array(case.y), np.full(len(case.y), case.size)))
        assert not np.any(family.fits(np.array(case.refused), np.full(len(case.refused), case.size)))

    def test_as_a_pair_is_the_same_function(self, name):
        family, case = CASES[name].family, CASES[name]
        for shape in (1.0, case.shape):
            term, derivatives = family.of_pair(shape)
            for eta, y in zip(*(array.tolist() for array in case.rows()), strict=True):
                assert term(eta, y) == pytest.approx(family.term(eta, y, 1.0, shape), rel=1e-14)
                assert derivatives(eta, y) == pytest.approx(family.derivatives(eta, y, 1.0, shape), rel=1e-14)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.family.second_in_shape is not None])
def test_a_family_with_a_shape_as_a_parameter_is_the_same_function(name):
    """Compiled, too: then every function that these call must be compiled.

    The exponential of log(shape) differs from the shape by a rounding, and `trigamma` is right to 1e-11.
    """
    family, case = CASES[name].family, CASES[name]
    likelihood = ShapeLikelihood(family)
    log_shape = math.log(case.shape)
    of_response, of_shape = family.split_row
    for eta, y in zip(*(array.tolist() for array in case.rows(np.array([-1.0, 0.5]))), strict=True):
        row = eta, y, 1.0, case.shape
        share, slope = family.of_row(*row[1:])
        parts = of_response(*row[1:]), of_shape(case.shape)
        assert np.sum(parts, axis=0) == pytest.approx((share, slope), rel=1e-12)
        assert likelihood.loglik(eta, log_shape, y) == pytest.approx(family.term(*row) + share, rel=1e-11)
        first, second = family.derivatives(*row)
        expected = first, family.in_shape(*row) + slope, second, *family.second_in_shape(*row)
        assert likelihood.derivatives(eta, log_shape, y) == pytest.approx(expected, rel=1e-10)


def test_rows_of_several_shapes_are_evaluated_in_runs_of_one_shape():
    likelihood = ShapeLikelihood(GAMMA)
    eta, y = CASES["gamma"].rows(np.array([-1.0, 0.5]))
    n = len(y)
    predictors = np.array([eta, np.repeat([0.3, 0.7], [n - 2, 2])])
    terms, slopes = np.empty(n), np.empty((2, n))
    for name, out in (("terms", terms), ("slopes", slopes)):
        likelihood.compile(name, (y,))(predictors, (y,), np.empty(0, dtype=np.int64), 0, n, out)
    rows = np.column_stack([*predictors, y]).tolist()
    np.testing.assert_allclose(terms, [likelihood.loglik(*row) for row in rows], rtol=1e-12)
    np.testing.assert_allclose(slopes.T, [likelihood.derivatives(*row)[:2] for row in rows], rtol=1e-12)


def scaled(function, factor):
    """Return a function with values, or the first of them, times a factor."""

    def wrong(*arguments):
        value = function(*arguments)
        return (factor * value[0], *value[1:]) if isinstance(value, tuple) else factor * value

    return wrong


def raised(make):
    """Return a minorant that lies 1e-6 too high."""

    def wrong(*rows):
        minorant = make(*rows)
        quadratic, linear, constant = minorant.coefficients
        gap = minorant.gap
        return minorant._replace(
            gap=lambda eta, *touch: gap(eta, *touch) - 1e-6, coefficients=(quadratic, linear, constant + 1e-6)
        )

    return wrong


def curved(make, more):
    """Return a minorant that touches at eta_0, and has a quadratic coefficient that is larger by `more`."""

    def wrong(y, size, shape, eta_0):
        minorant = make(y, size, shape, eta_0)
        gap, slope = minorant.gap, minorant.slope
        quadratic, linear, constant = minorant.coefficients
        return minorant._replace(
            gap=lambda eta, sign, x_0, level: gap(eta, sign, x_0, level) - more * (eta - sign * x_0) ** 2,
            slope=lambda eta, sign, x_0, level: slope(eta, sign, x_0, level) - 2.0 * more * (eta - sign * x_0),
            coefficients=(quadratic + more, linear - 2.0 * more * eta_0, constant + more * eta_0**2),
        )

    return wrong


BUGS = {
    "a slope off by 1e-6": (
        check_derivatives,
        "probit",
        {"derivatives": scaled(families.PROBIT.derivatives, 1.000001)},
    ),
    "a slope in the shape": (
        check_derivatives,
        "negative binomial",
        {"in_shape": scaled(families.NEGATIVE_BINOMIAL.in_shape, 1.00001)},
    ),
    "a second derivative in the shape": (
        check_derivatives,
        "gamma",
        {"second_in_shape": scaled(GAMMA.second_in_shape, 1.0001)},
    ),
    "a forgotten constant": (check_density, "poisson", {"constants": families.LOGIT.constants}),
    "a bound too small": (check_bounds, "logit", {"third_derivative_bound": 0.096}),
    "a bound within reach too small": (
        check_bounds,
        "poisson",
        {"third_derivative_within": lambda eta, y, size, shape, reach: np.exp(eta)},
    ),
    "a second derivative of the other response": (
        check_derivatives,
        "cloglog",
        {"derivatives": lambda eta, y, size, shape: (CLOGLOG.derivatives(eta, y, size, shape)[0], -math.exp(eta))},
    ),
    "a second derivative that is always concave": (
        check_derivatives,
        "beta",
        {"derivatives": lambda *row: (BETA.derivatives(*row)[0], -abs(BETA.derivatives(*row)[1]))},
    ),
    "a bound of another shape": (
        check_bounds,
        "weibull",
        {"third_derivative_within": WEIBULL.second_derivative_within},
    ),
    "a minorant too high": (
        check_minorants,
        "logit",
        {"minorants": {"tuned": raised(families.LOGIT.minorants["tuned"])}},
    ),
    "a minorant that forgets the trials": (
        check_minorants,
        "binomial",
        {"minorants": {"tuned": lambda y, size, shape, eta_0: families.LOGIT.minorants["tuned"](y, 1.0, 1.0, eta_0)}},
    ),
    "a minorant with too small a curvature": (
        check_minorants,
        "probit",
        {"minorants": {"tuned": curved(families.PROBIT.minorants["tuned"], 0.1)}},
    ),
    "a twin with another link": (check_twin, "logit", {"twin": families.PROBIT.twin}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_rejected(bug):
    check, name, wrong = BUGS[bug]
    case = CASES[name]
    with pytest.raises(AssertionError):
        check(dataclasses.replace(case.family, **wrong), case)


def test_responses_of_another_family_are_rejected(rng):
    case = CASES["poisson"]
    with pytest.raises(AssertionError):
        check_simulation(dataclasses.replace(case.family, simulate=overdispersed), case, rng)


def overdispersed(rng, eta, size, shape):
    """Draw counts with the right mean and a tenth more variance."""
    return families.NEGATIVE_BINOMIAL.simulate(rng, eta, size, 10.0 * np.exp(eta))
