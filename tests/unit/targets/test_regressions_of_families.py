"""Regressions of one family, such as Poisson, probit and gamma, on matrices and on tables."""

import numpy as np
import pandas as pd
import pytest
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.special import expit, gammaln

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.errors import IncompatibleError, InvalidInputError

N = 60
X = np.random.default_rng(3).normal(size=(N, 2))
TOWN = np.array(["Bern", "Oslo", "Rome"])[np.arange(N) % 3]
TABLE = pd.DataFrame({"x": X[:, 0], "town": TOWN, "z": X[:, 1]})
MATRIX = np.column_stack([np.ones(N), X, TOWN == "Oslo", TOWN == "Rome"])  # in the order of the table's theta
OFFSET = np.cos(np.arange(N))
COUNTS = (np.arange(N) % 5).astype(float)
TRIALS = 4 + np.arange(N) % 3
AMOUNTS = 0.2 + COUNTS
SHARES = (0.5 + COUNTS) / 5.0
STABLE = Mode(linker="py", optimizer="fast_compile").including("stabilize")


def log_normal(theta, scale):
    return stats.norm.logpdf(theta, 0.0, scale)


# A regression, and the log density of its responses, up to what depends on y alone, given predictors and log(alpha).
MODELS = {
    "poisson": (
        lambda X, **settings: amc.targets.PoissonRegression(X, COUNTS, **settings),
        lambda eta, s: COUNTS * eta - np.exp(eta),
    ),
    "probit": (
        lambda X, **settings: amc.targets.ProbitRegression(X, COUNTS > 1.0, **settings),
        lambda eta, s: stats.norm.logcdf(np.where(COUNTS > 1.0, eta, -eta)),
    ),
    "cloglog": (
        lambda X, **settings: amc.targets.CloglogRegression(X, COUNTS > 1.0, **settings),
        lambda eta, s: np.where(COUNTS > 1.0, np.log(-np.expm1(-np.exp(eta))), -np.exp(eta)),
    ),
    "binomial": (
        lambda X, **settings: amc.targets.BinomialRegression(X, COUNTS, TRIALS, **settings),
        lambda eta, s: COUNTS * eta - TRIALS * np.logaddexp(0.0, eta),
    ),
    "negative binomial, known": (
        lambda X, **settings: amc.targets.NegativeBinomialRegression(X, COUNTS, alpha=2.5, **settings),
        lambda eta, s: COUNTS * eta - (COUNTS + 2.5) * np.logaddexp(0.0, eta - np.log(2.5)),
    ),
    "negative binomial": (
        lambda X, **settings: amc.targets.NegativeBinomialRegression(X, COUNTS, **settings),
        lambda eta, s: (
            stats.nbinom.logpmf(COUNTS, np.exp(s), 1.0 / (1.0 + np.exp(eta - s)))
            - stats.poisson.logpmf(COUNTS, 1.0)
            - 1.0
        ),
    ),
    "gamma, known": (
        lambda X, **settings: amc.targets.GammaRegression(X, AMOUNTS, alpha=3.0, **settings),
        lambda eta, s: -3.0 * (eta + AMOUNTS * np.exp(-eta)),
    ),
    "gamma": (
        lambda X, **settings: amc.targets.GammaRegression(X, AMOUNTS, **settings),
        lambda eta, s: stats.gamma.logpdf(AMOUNTS, np.exp(s), scale=np.exp(eta - s)) + np.log(AMOUNTS),
    ),
    "beta, known": (
        lambda X, **settings: amc.targets.BetaRegression(X, SHARES, phi=6.0, **settings),
        lambda eta, s: (
            6.0 * expit(eta) * np.log(SHARES / (1.0 - SHARES)) - gammaln(6.0 * expit(eta)) - gammaln(6.0 * expit(-eta))
        ),
    ),
    "beta": (
        lambda X, **settings: amc.targets.BetaRegression(X, SHARES, **settings),
        lambda eta, s: (
            stats.beta.logpdf(SHARES, np.exp(s) * expit(eta), np.exp(s) * expit(-eta))
            + np.log(SHARES)
            + np.log(1.0 - SHARES)
        ),
    ),
    "exponential": (
        lambda X, **settings: amc.targets.ExponentialRegression(X, AMOUNTS, **settings),
        lambda eta, s: stats.expon.logpdf(AMOUNTS, scale=np.exp(eta)),
    ),
    "weibull, known": (
        lambda X, **settings: amc.targets.WeibullRegression(X, AMOUNTS, alpha=1.3, **settings),
        lambda eta, s: -1.3 * eta - (AMOUNTS * np.exp(-eta)) ** 1.3,
    ),
    "weibull": (
        lambda X, **settings: amc.targets.WeibullRegression(X, AMOUNTS, **settings),
        lambda eta, s: stats.weibull_min.logpdf(AMOUNTS, np.exp(s), scale=np.exp(eta)) + np.log(AMOUNTS),
    ),
}


def terms_and_gradient(target, theta):
    compiled, slopes = target.compile(), target.compile_gradient()
    terms, gradient = np.empty(target.n_obs), np.zeros(len(theta))
    compiled.log_terms(theta, compiled.data, ALL_ROWS, 0, target.n_obs, terms)
    slopes.add_gradient(theta, slopes.data, ALL_ROWS, 0, target.n_obs, gradient)
    return terms, gradient


@pytest.mark.thorough
@pytest.mark.parametrize("of", ["matrix", "table"])
@pytest.mark.parametrize("name", MODELS)
def test_terms_are_the_log_density_and_gradients_its_slopes(name, of, rng):
    make, density = MODELS[name]
    target = make(MATRIX, offset=OFFSET) if of == "matrix" else make(TABLE, intercept=True, offset=OFFSET)
    has_shape = target.shape_name is not None
    theta = 0.5 * rng.normal(size=5 + has_shape)

    def total(theta):
        return density(MATRIX @ theta[:5] + OFFSET, theta[-1])

    terms, gradient = terms_and_gradient(target, theta)
    np.testing.assert_allclose(terms, total(theta), rtol=1e-10, atol=1e-10)
    steps = 1e-5 * np.eye(len(theta))
    slopes = [(total(theta + step).sum() - total(theta - step).sum()) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_the_mode_is_where_the_gradient_of_the_posterior_is_zero(name):
    """Newton's steps need the second derivatives, too."""
    target = MODELS[name][0](TABLE, intercept=True, prior_scale=2.0)
    fit = amc.laplace(target)
    _, gradient = terms_and_gradient(target, fit.mode)
    mean, precision = target.normal_prior
    left = gradient - precision * (fit.mode - mean)
    np.testing.assert_allclose(np.linalg.solve(fit.precision, left), 0.0, atol=1e-5)
    sizes = 1e-4 * np.eye(len(fit.mode))
    bends = [
        (terms_and_gradient(target, fit.mode + h)[1] - terms_and_gradient(target, fit.mode - h)[1]) / 2e-4
        for h in sizes
    ]
    np.testing.assert_allclose(fit.precision, np.diag(precision) - np.array(bends), rtol=1e-5, atol=1e-4)


def test_a_shape_is_in_the_trace_and_its_logarithm_in_theta():
    target = amc.targets.NegativeBinomialRegression(TABLE, COUNTS, alpha_scale=3.0, prior_scale=2.0)
    assert target.variables.labels()[-1] == "log_alpha"
    assert target.variables.unpack(np.append(np.zeros(5), np.log(2.5)))["alpha"] == pytest.approx(2.5)
    theta = np.array([0.1, -0.2, 0.3, -0.4, 0.5, 0.7])
    log_prior = target.compile().log_prior
    expected = [
        log_normal(one[:-1], 2.0).sum() + stats.norm.logpdf(one[-1], np.log(3.0), 1.5) for one in (theta, np.zeros(6))
    ]
    assert log_prior(theta) - log_prior(np.zeros(6)) == pytest.approx(expected[0] - expected[1])


@pytest.mark.thorough
@pytest.mark.parametrize("of", ["matrix", "table"])
@pytest.mark.parametrize("name", MODELS)
def test_the_twin_of_pymc_has_the_same_density(name, of, rng):
    """Differences between two thetas: terms leave out what depends on y alone.

    PyTensor's stabilisation makes the logarithm of 1 - p right where p is near 1.
    """
    make, _ = MODELS[name]
    target = make(MATRIX, offset=OFFSET) if of == "matrix" else make(TABLE, intercept=True, offset=OFFSET)
    density = target.to_pymc().compile_logp(mode=STABLE, jacobian=True)
    compiled = target.compile()
    values = []
    for theta in 0.5 * rng.normal(size=(2, target.variables.size)):
        point = {name: value[0] for name, value in target.variables.unpack(theta[None]).items()}
        if target.shape_name is not None:
            point[f"{target.shape_name}_log__"] = np.log(point.pop(target.shape_name))
        ours = terms_and_gradient(target, theta)[0].sum() + compiled.log_prior(theta)
        values.append((ours, float(density(point))))
    assert values[0][0] - values[1][0] == pytest.approx(values[0][1] - values[1][1], rel=1e-9)


@pytest.mark.parametrize("kind", ["tuned", "untuned"])
@pytest.mark.parametrize("of", ["matrix", "table"])
@pytest.mark.parametrize("name", ["probit", "binomial", "negative binomial, known", "beta, known"])
def test_lower_bounds_and_gaps_add_up_to_terms(name, of, kind, rng):
    """So do their gradients; a tuned bound equals every term at the theta where it touches them."""
    make, _ = MODELS[name]
    target = make(MATRIX, offset=OFFSET) if of == "matrix" else make(TABLE, intercept=True, offset=OFFSET)
    theta, at = rng.normal(size=(2, 5))
    bound = target.likelihood_bound(kind, at)
    terms, gradient = terms_and_gradient(target, theta)
    gaps, slopes = np.empty(N), np.zeros(5)
    bound.gaps(theta, bound.data, ALL_ROWS, 0, N, gaps)
    assert gaps.min() > 0.0
    assert bound.log_bound(theta, bound.sums) == pytest.approx((terms - gaps).sum(), rel=1e-12)
    bound.add_gap_gradient(theta, bound.data, ALL_ROWS, 0, N, np.ones(N), slopes)
    bound.add_bound_gradient(theta, bound.sums, slopes)
    np.testing.assert_allclose(slopes, gradient, rtol=1e-10, atol=1e-10)
    if kind == "tuned":
        bound.gaps(at, bound.data, ALL_ROWS, 0, N, gaps)
        np.testing.assert_allclose(gaps, 0.0, atol=1e-12)


def test_binomial_rows_are_rows_of_single_trials(rng):
    """Terms, gradients and per-row bounds of a row are the sums of those of its trials, also where rows are merged."""
    successes = np.minimum(COUNTS, TRIALS).astype(int)
    whole = amc.targets.BinomialRegression(TABLE, successes, TRIALS, intercept=True)
    rows = np.repeat(np.arange(N), TRIALS)
    within = np.concatenate([np.arange(n) for n in TRIALS])
    single = amc.targets.LogisticRegression(
        TABLE.iloc[rows].reset_index(drop=True), within < successes[rows], intercept=True
    )
    theta = rng.normal(size=5)
    terms, gradient = terms_and_gradient(single, theta)
    ours, our_gradient = terms_and_gradient(whole, theta)
    np.testing.assert_allclose(ours, np.bincount(rows, terms), rtol=1e-12)
    np.testing.assert_allclose(our_gradient, gradient, rtol=1e-10, atol=1e-12)
    rates = np.bincount(rows, single.compile_difference_bound().rates)
    np.testing.assert_allclose(whole.compile_difference_bound().rates, rates, rtol=1e-12)
    twice = np.tile(np.arange(12), 4)
    copies = amc.targets.BinomialRegression(
        TABLE.iloc[twice].reset_index(drop=True), successes[twice], TRIALS[twice], intercept=True
    )
    merged = amc.targets.compressed(copies)
    assert merged.n_obs == 12
    np.testing.assert_allclose(terms_and_gradient(merged, theta)[0], 4.0 * terms_and_gradient(copies, theta)[0][:12])
    np.testing.assert_array_equal(whole.observed_data["y"], successes)
    np.testing.assert_array_equal(whole.constant_data["trials"], TRIALS)


def test_what_mathematics_forbids_is_refused_with_a_reason():
    poisson = amc.targets.PoissonRegression(TABLE, COUNTS)
    with pytest.raises(IncompatibleError, match="no bound holds for all theta, because the slopes of its terms grow"):
        poisson.compile_term_range()
    with pytest.raises(IncompatibleError, match="because its terms fall exponentially in the logarithm of a shape"):
        amc.targets.GammaRegression(MATRIX, AMOUNTS).compile_difference_bound()
    with pytest.raises(IncompatibleError, match="a quadratic in theta, and none lies below those of"):
        amc.Firefly(amc.RandomWalk(0.1)).build(poisson)
    with pytest.raises(IncompatibleError, match=r"leaves rows dark, and LinearRegression.* reads none"):
        amc.Firefly(amc.RandomWalk(0.1)).build(amc.LinearRegression(MATRIX, AMOUNTS))


def test_errors_of_an_inherited_constructor_name_the_public_class():
    with pytest.raises(InvalidInputError, match=r"^WeibullRegression: alpha_scale must be a number"):
        amc.targets.WeibullRegression(MATRIX, AMOUNTS, alpha_scale="wide")
    with pytest.raises(TypeError, match=r"^PoissonRegression: missing a required argument: 'y'"):
        amc.targets.PoissonRegression(MATRIX)
    with pytest.raises(TypeError, match=r"^ProbitRegression: got an unexpected keyword argument 'alpha'"):
        amc.targets.ProbitRegression(MATRIX, COUNTS > 1.0, alpha=1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: amc.targets.PoissonRegression(X, COUNTS + 0.5), "y must be integers from 0, found 0.5 in row 0"),
        (lambda: amc.targets.GammaRegression(X, COUNTS), "y must be positive numbers, found 0 in row 0"),
        (
            lambda: amc.targets.BetaRegression(X, COUNTS / 4.0),
            "y must be numbers above 0 and below 1, found 0 in",
        ),
        (lambda: amc.targets.ProbitRegression(X, COUNTS), "ProbitRegression: y must be coded 0/1"),
        (lambda: amc.targets.BinomialRegression(X, TRIALS + 1, TRIALS), "found 5 in row 0, with trials 4"),
        (lambda: amc.targets.BinomialRegression(X, COUNTS, TRIALS + 0.5), "trials must be integers from 1, found 4.5"),
        (lambda: amc.targets.BinomialRegression(X, COUNTS, TRIALS[1:]), "trials must hold 60 numbers"),
        (lambda: amc.targets.GammaRegression(X, AMOUNTS, alpha=-1.0), "alpha must be positive and finite, found -1"),
        (lambda: amc.targets.GammaRegression(TABLE.rename(columns={"town": "alpha"}), AMOUNTS), "rename the column"),
    ],
)
def test_responses_that_a_family_does_not_have_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
