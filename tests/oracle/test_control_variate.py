"""Expansions leave the posterior as it is, and proposals built on them equal the textbook; each planted bug is seen."""

import numpy as np
import pytest
from scipy import stats

from approxmcmc.acceptance import ExactTest, SequentialTTest
from approxmcmc.api import sample
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.expansion import linear as linear_expansion, posterior
from approxmcmc.numerics import find_mode, laplace
from approxmcmc.proposals import Independence, Mixture, PreconditionedCrankNicolson, RandomWalk, crank_nicolson, mixture
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.surrogate import ControlVariate, surrogate
from approxmcmc.targets import FunctionTarget, GLMTarget
from tests import textbook
from tests.models import logistic
from tests.planting import plain, plant

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")

STEPS, SEED, DIM = 120, 20140621, 3
CENTER = np.array([-0.8, 0.1, 0.9])
COV = np.array([[0.05, 0.02, 0.0], [0.02, 0.04, -0.01], [0.0, -0.01, 0.06]])


def crank_nicolson_textbook(rho, center, cov):
    """Return the proposal with its ratio from the two normal densities themselves."""
    spread = np.linalg.cholesky(cov)

    def log_q(to, at):
        return stats.multivariate_normal.logpdf(to, center + rho * (at - center), (1.0 - rho**2) * cov)

    def propose(rng, theta):
        z = np.array([rng.standard_normal() for _ in theta])
        # The library adds z in whitened coordinates, which is this up to rounding.
        proposed = center + rho * (theta - center) + np.sqrt(1.0 - rho**2) * spread @ z
        return proposed, log_q(theta, proposed) - log_q(proposed, theta)

    return propose


def random_walk_textbook(scale, cov):
    spread = np.linalg.cholesky(cov)

    def propose(rng, theta):
        return theta + scale * spread @ np.array([rng.standard_normal() for _ in theta]), 0.0

    return propose


def mixture_textbook(first, second, share):
    return lambda rng, theta: first(rng, theta) if rng.random() < share else second(rng, theta)


WALK = RandomWalk(0.8, preconditioner=COV)
CASES = {
    "crank-nicolson": (PreconditionedCrankNicolson(0.6, CENTER, COV), crank_nicolson_textbook(0.6, CENTER, COV)),
    "independence": (Independence(CENTER, COV), crank_nicolson_textbook(0.0, CENTER, COV)),
    "walk": (WALK, random_walk_textbook(0.8, COV)),
    "mixture": (
        Mixture([PreconditionedCrankNicolson(0.6, CENTER, COV), WALK], [0.7, 0.3]),
        mixture_textbook(crank_nicolson_textbook(0.6, CENTER, COV), random_walk_textbook(0.8, COV), 0.7),
    ),
    "mixture of three": (
        Mixture([WALK, RandomWalk(0.1), Independence(CENTER, COV)], [2, 1, 1]),
        mixture_textbook(
            random_walk_textbook(0.8, COV),
            mixture_textbook(random_walk_textbook(0.1, np.eye(DIM)), crank_nicolson_textbook(0.0, CENTER, COV), 0.5),
            0.5,
        ),
    ),
}


def logistic_terms(target):
    return lambda theta: target.y * (target.X @ theta) - np.logaddexp(0.0, target.X @ theta)


def differs(case: str) -> bool:
    """Run the library and the textbook; return whether a draw differs."""
    target = logistic(60, DIM)
    proposal, propose = CASES[case]
    trace = sample(
        target, MetropolisHastings(proposal, ExactTest()), draws=STEPS, tune=0, chains=1, random_seed=SEED,
        initvals=CENTER + 0.2, progressbar=False,
    )  # fmt: skip
    draws, _ = textbook.chain(
        logistic_terms(target), lambda theta: -0.5 * theta @ theta, propose, CENTER + 0.2,
        n_obs=target.n_obs, steps=STEPS, seed=SEED, test=textbook.exact,
    )  # fmt: skip
    moved = len(np.unique(draws[:, 0]))
    assert 20 < moved < STEPS, "a case without rejections, or without moves, tests little"
    return not np.allclose(trace.posterior["beta"].values[0], draws, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.recompiles if case == "mixture" else ()) for case in CASES]
)
def test_chains_equal_the_textbook(case):
    assert not differs(case)


propose = plain(crank_nicolson.propose)


def forget_the_whitened_point(rng, state, theta, out, count):
    """Take the whitened point of a move for the one before it."""
    moved = equal(theta, state.there)
    if moved:
        assign(state.here, theta)
    return propose(rng, state, theta, out, count)


def believe_that_nobody_else_moved(rng, state, theta, out, count):
    """Take the whitened point of the last step for that of theta, unless this proposal's own move was accepted."""
    if not np.isnan(state.here[0]) and not equal(theta, state.there):
        assign(state.here, theta)
    return propose(rng, state, theta, out, count)


def narrow(rng, state, theta, out, count):
    return propose(rng, state._replace(spread=1.0 - state.rho), theta, out, count)


def drop_the_seconds_ratio(first, second):
    """Do what `make_propose_either` does, but for a ratio."""

    def propose(rng, state, theta, out, count):
        if rng.random() < state.share:
            state.chosen[0] = mixture.FIRST
            return first(rng, state.first, theta, out, count)
        state.chosen[0] = mixture.SECOND
        return 0.0 * second(rng, state.second, theta, out, count)

    return propose


PROPOSAL_BUGS = {
    "ratio's sign flipped": (lambda *a: -propose(*a), "independence"),
    "ratio forgotten": (lambda *a: 0.0 * propose(*a), "crank-nicolson"),
    "whitened point of a move forgotten": (forget_the_whitened_point, "crank-nicolson"),
    "whitened point of another's move forgotten": (believe_that_nobody_else_moved, "mixture"),
    "spread is 1 - rho": (narrow, "crank-nicolson"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("bug", PROPOSAL_BUGS)
def test_planted_bugs_in_proposals_are_seen(bug, monkeypatch):
    wrong, case = PROPOSAL_BUGS[bug]
    plant(monkeypatch, {crank_nicolson.propose: wrong})
    assert differs(case)


@pytest.mark.recompiles
def test_a_forgotten_ratio_of_the_second_member_is_seen(monkeypatch):
    monkeypatch.setattr(mixture, "make_propose_either", drop_the_seconds_ratio)
    plant(monkeypatch, {})
    assert differs("mixture of three")


def test_swapped_weights_are_seen(monkeypatch):
    join = mixture._join
    monkeypatch.setattr(mixture, "_join", lambda members, weights: join(members, weights[::-1]))
    plant(monkeypatch, {})
    assert differs("mixture")


def poisson_loglik(eta, y):
    """Return log Poisson(y | exp(eta)) up to a constant."""
    return y * eta - np.exp(eta)


def scale_loglik(theta, data, i):
    """Return log N(x_i | theta_0, exp(theta_1)^2): no linear predictor, and not concave."""
    (x,) = data
    return -theta[1] - 0.5 * ((x[i] - theta[0]) * np.exp(-theta[1])) ** 2


def scale_gradient(theta, data, i, out):
    """Add the gradient of `scale_loglik`."""
    (x,) = data
    z = (x[i] - theta[0]) * np.exp(-theta[1])
    out[0] += z * np.exp(-theta[1])
    out[1] += z * z - 1.0


def off_centre_logprior(theta):
    """Return a prior that is strong, not normal, and off centre, so that forgetting a piece of it shows."""
    return -2.0 * (theta[0] - 1.0) ** 2 - np.exp(0.5 * theta[1]) - 0.3 * theta[0] * theta[1]


def scale_model(n: int = 80, *, gradient: bool) -> FunctionTarget:
    """Return a normal sample with unknown mean and log standard deviation."""
    x = np.random.default_rng(1).normal(0.5, 2.0, size=n)
    grad = scale_gradient if gradient else None
    return FunctionTarget(scale_loglik, off_centre_logprior, data=x, n_obs=n, dim=2, grad_loglik=grad)


def poisson() -> GLMTarget:
    """Return a Poisson regression whose derivatives are taken by differences."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(70, 2))
    return GLMTarget(poisson_loglik, X, rng.poisson(np.exp(0.3 * X[:, 0])).astype(float), prior_scale=0.5)


MODELS = {
    "logistic": lambda: logistic(60, DIM, prior_scale=0.5),
    "poisson": poisson,
    "gradient": lambda: scale_model(gradient=True),
    "differences": lambda: scale_model(gradient=False),
}


def log_density(target, theta):
    """Return prior and all terms, as the target that the samplers see has them."""
    compiled = target.compile()
    terms = full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)
    return compiled.log_prior(theta) + terms.sum()


def worst_difference(model: str, at, order: int = 2) -> float:
    """Return the largest difference of the two log densities over points near and far, relative to their size."""
    target = MODELS[model]()
    with_control = ControlVariate(target, at=at, order=order)
    rng = np.random.default_rng(3)
    points = [scale * rng.normal(size=target.variables.size) for scale in (0.1, 0.5, 1.0)]
    plain = np.array([log_density(target, theta) for theta in points])
    ours = np.array([log_density(with_control, theta) for theta in points])
    return float(np.max(np.abs(ours - plain) / np.abs(plain)))


def any_point(model: str) -> np.ndarray:
    """Return a point that is nothing to the model."""
    return np.array([0.7, -0.4, 1.1])[: MODELS[model]().variables.size]


@pytest.mark.recompiles
@pytest.mark.parametrize("order", [2, 1])
@pytest.mark.parametrize("model", MODELS)
def test_the_posterior_is_the_same_at_any_point_of_expansion(model, order):
    assert worst_difference(model, any_point(model), order) < 1e-12
    assert order == 1 or worst_difference(model, "mode", order) < 1e-12


def expansion_with(*, linear=1.0, quadratic=0.5, prior=1.0):
    """Return `make_log_density` for no row that is always read, with other factors than 1, 1/2 and 1."""

    def log_prior_and_quadratic(theta, parts):
        known = parts.quadratic
        delta = theta - known.center
        total = 0.0
        for j in range(theta.shape[0]):
            bend = 0.0
            for k in range(theta.shape[0]):
                bend += known.hessian[j, k] * delta[k]
            total += delta[j] * (linear * known.gradient[j] + quadratic * bend)
        return prior * parts.prior(theta) + (known.value[0] + total)

    return lambda plus_value, with_rows: log_prior_and_quadratic


def residuals_bent_the_other_way(predict, loglik_eta):
    """Do what `make_linear_residuals` does, but for the sign of the second order."""

    def linear_residuals(theta, data, order, lo, hi, out):
        X, y, expansion = data
        for i in range(hi - lo):
            datum = order[lo + i] if order.shape[0] > 0 else lo + i
            slope, bend = expansion[datum]
            eta = (X[datum] * theta).sum()
            out[i] = loglik_eta(eta, y[datum]) - eta * (slope - eta * bend)

    return linear_residuals


EXPANSION_BUGS = {
    "linear part dropped": (surrogate, "make_log_density", expansion_with(linear=0.0), "logistic"),
    "quadratic part not halved": (
        surrogate, "make_log_density", expansion_with(quadratic=1.0), "gradient",
    ),
    "sign of the second order": (
        linear_expansion, "make_linear_residuals", residuals_bent_the_other_way, "logistic",
    ),
    "prior counted twice": (surrogate, "make_log_density", expansion_with(prior=2.0), "poisson"),
}  # fmt: skip


def test_the_expansion_written_out_here_has_no_bug_of_its_own(monkeypatch):
    monkeypatch.setattr(surrogate, "make_log_density", expansion_with())
    assert worst_difference("logistic", any_point("logistic")) < 1e-12


@pytest.mark.recompiles
@pytest.mark.parametrize("bug", EXPANSION_BUGS)
def test_planted_bugs_in_the_expansion_are_seen(bug, monkeypatch):
    module, name, wrong, model = EXPANSION_BUGS[bug]
    monkeypatch.setattr(module, name, wrong)
    assert worst_difference(model, any_point(model)) > 1e-6


@pytest.mark.thorough
@pytest.mark.recompiles
@pytest.mark.parametrize("at", ["mode", CENTER + 0.5], ids=["mode", "anywhere"])
def test_an_exact_chain_is_the_plain_targets_chain(at):
    """Same streams, same decisions: draws are bit-equal, and lp agrees to rounding."""
    target = logistic(60, DIM)
    settings = {"draws": 150, "tune": 20, "chains": 2, "random_seed": SEED, "initvals": CENTER, "progressbar": False}
    sampler = MetropolisHastings(PreconditionedCrankNicolson(0.5, CENTER, COV), ExactTest())
    plain, ours = (sample(t, sampler, **settings) for t in (target, ControlVariate(target, at=at)))
    np.testing.assert_array_equal(plain.posterior["beta"].values, ours.posterior["beta"].values)
    np.testing.assert_allclose(plain.sample_stats["lp"].values, ours.sample_stats["lp"].values, rtol=1e-12)
    all_data = MetropolisHastings(sampler.proposal, SequentialTTest(0.0, 20))
    ours = sample(ControlVariate(target, at=at), all_data, **settings)
    np.testing.assert_array_equal(plain.posterior["beta"].values, ours.posterior["beta"].values)


def curvature_error(model: str) -> float:
    """Return the error of minus the Hessian at the mode, against differences of the log density as a whole."""
    target = MODELS[model]()
    found = find_mode(target)
    h, n = 1e-3, target.variables.size
    hessian = np.empty((n, n))
    for j in range(n):
        for k in range(n):
            corners = [
                a * b * log_density(target, found.theta + h * (a * np.eye(n)[j] + b * np.eye(n)[k]))
                for a in (1, -1)
                for b in (1, -1)
            ]
            hessian[j, k] = sum(corners) / (4.0 * h * h)
    return float(np.max(np.abs(found.precision + hessian)) / np.max(np.abs(hessian)))


@pytest.mark.parametrize("model", MODELS)
def test_the_mode_is_a_mode_and_its_curvature_is_the_posteriors(model):
    target = MODELS[model]()
    found, fit = find_mode(target), laplace(target)
    assert found.decrement < 1e-4
    assert curvature_error(model) < 1e-4
    np.testing.assert_allclose(fit.cov @ found.precision, np.eye(fit.mode.size), atol=1e-9)
    for direction in np.vstack([np.diag(fit.sd), -np.diag(fit.sd)]):
        assert log_density(target, fit.mode + 0.1 * direction) < found.log_density


@pytest.mark.recompiles
@pytest.mark.parametrize("model", ["logistic", "gradient"])
def test_a_forgotten_prior_hessian_is_seen(model, monkeypatch):
    original = posterior.Posterior.prior_at

    def without_hessian(self, theta):
        prior = original(self, theta)
        return prior._replace(hessian=0.0 * prior.hessian)

    monkeypatch.setattr(posterior.Posterior, "prior_at", without_hessian)
    assert curvature_error(model) > 1e-2


@pytest.mark.needs_jit
def test_residuals_of_many_data_are_right_to_rounding():
    """N = 10^5, against 80-bit arithmetic, at draws of the Laplace approximation; their sum to 1e-9."""
    if np.finfo(np.longdouble).eps > 2e-19:
        pytest.skip("no extended precision on this machine")
    target = logistic(100_000, 10)
    ours = ControlVariate(target)
    compiled, rng = ours.compile(), np.random.default_rng(4)
    X, y, hat = (np.asarray(a, dtype=np.longdouble) for a in (target.X, target.y, ours.center))

    def loglik(eta):
        return y * eta - np.maximum(eta, 0) - np.log1p(np.exp(-np.abs(eta)))

    eta_hat = X @ hat
    mean = 1 / (1 + np.exp(-eta_hat))
    for _ in range(3):
        theta = ours.draw_start(rng)
        delta = X @ (np.asarray(theta, dtype=np.longdouble) - hat)
        exact = loglik(eta_hat + delta) - loglik(eta_hat) - delta * (y - mean) + delta**2 * mean * (1 - mean) / 2
        there, here = (full_terms(compiled.log_terms, p, compiled.data, compiled.n_obs) for p in (theta, ours.center))
        found = there - here  # terms are what they should be up to a constant for each
        # Two evaluations of softplus, which is right to 1e-14, and roundings of numbers of the size of eta.
        assert np.all(np.abs(found - exact) < 2e-14 * np.abs(loglik(eta_hat)) + 1e-15 * (1 + np.abs(eta_hat)))
        assert abs(float(found.sum() - exact.sum())) < 1e-9
        assert np.abs(exact).max() > 1e-6  # far above the rounding


@pytest.mark.thorough
def test_data_per_decision_do_not_grow_with_n():
    """tau_r falls like 1 / N: var r / var l of one model at N and 10 N differ by about 100, the square."""
    few, many = (ControlVariate(logistic(n, DIM)) for n in (1000, 10_000))
    assert 30.0 < few.variance_ratio / many.variance_ratio < 300.0
