"""Rows that are always read: the posterior stays, every row that matters is one, and moves leave S invariant."""

import functools

import numpy as np
import pytest
from scipy import integrate, stats

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.expansion import influential_rows
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.quadratic import survey_of
from approxmcmc.surrogate import kernels as surrogate_transition, moves as surrogate_moves
from approxmcmc.surrogate.surrogate import Directions
from tests import langevin as book
from tests.models import logistic
from tests.planting import plain

N = 150
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))


def log_poisson(eta, y):
    """Return a log density whose derivatives are taken by differences."""
    return y * eta - np.exp(eta)


def categories(n=1000, rare=4, prior_scale=1.0):
    """Return two coefficients: an effect, and a category of a few rows whose responses are all 1: a wall."""
    rng = np.random.default_rng(0)
    column = (np.arange(n) < rare).astype(float)
    predictors = np.column_stack([rng.normal(size=n), column / column.std()])
    responses = (rng.random(n) < 1.0 / (1.0 + np.exp(-predictors[:, 0]))) | (column == 1.0)
    return amc.targets.LogisticRegression(predictors, responses, prior_scale=prior_scale)


TARGETS = {
    "logistic": lambda: logistic(N, 3),
    "poisson": lambda: amc.targets.GLMTarget(log_poisson, X, RNG.poisson(1.0, N).astype(float)),
    "robust": lambda: amc.targets.RobustRegression(X, X[:, 0] + RNG.standard_t(2, N), prior_scale=3.0),
    "softmax": lambda: amc.targets.SoftmaxRegression(X, np.arange(N) % 3, prior_scale=1.0),
    "user": lambda: amc.FunctionTarget(
        book.loglik,
        book.logprior,
        data=X,
        n_obs=N,
        dim=2,
        grad_loglik=book.grad_loglik,
        grad_logprior=book.grad_logprior,
    ),
    "user without gradients": lambda: amc.FunctionTarget(book.loglik, book.logprior, data=X, n_obs=N, dim=2),
}


# An expansion is compiled for one target; of the others it runs without compilation.
EACH = [pytest.param(name, marks=() if name == "logistic" else pytest.mark.recompiles) for name in TARGETS]


def log_posterior(compiled, theta):
    """Return log prior + all terms."""
    return compiled.log_prior(theta) + full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs).sum()


@pytest.mark.thorough
@pytest.mark.parametrize("order", [2, 0])
@pytest.mark.parametrize("name", EACH)
def test_prior_and_terms_add_up_to_the_same_posterior_whatever_rows_are_always_read(name, order):
    target = TARGETS[name]()
    split = amc.ControlVariate(
        target, always_read=[0, 7, 8, N - 1], at="mode" if name == "user" else "pilot", order=order
    )
    ours, plain_target = split.compile(), target.compile()
    gaps = [log_posterior(ours, theta) - log_posterior(plain_target, theta) for theta in split.pilot.draws]
    np.testing.assert_allclose(gaps, gaps[0], rtol=0.0, atol=1e-9)
    assert (ours.n_obs, ours.prior_rows) == (N - 4, 4)


@pytest.mark.thorough
@pytest.mark.parametrize("order", [2, 0])
@pytest.mark.parametrize("name", EACH[:-1])  # those with gradients
def test_gradients_add_up_likewise(name, order):
    target = TARGETS[name]()
    split = amc.ControlVariate(target, always_read=np.arange(N) < 5, at="mode", order=order)
    theta, totals = split.pilot.draws[0], []
    for gradient in (split.compile_gradient(), target.compile_gradient()):
        total = full_gradient(gradient, theta)
        gradient.add_prior_gradient(theta, total)
        totals.append(total)
    np.testing.assert_allclose(*totals, rtol=1e-7, atol=1e-7)
    surrogate, slope = split.surrogate, np.zeros_like(theta)
    surrogate.add_gradient(theta, slope)
    steps = 1e-5 * np.eye(theta.size)
    rises = [surrogate.log_density(theta + step) - surrogate.log_density(theta - step) for step in steps]
    np.testing.assert_allclose(slope, np.array(rises) / 2e-5, rtol=1e-6, atol=1e-5)


@pytest.mark.thorough
def test_averaged_coefficients_are_means_over_the_normal_law_of_the_predictor():
    target = logistic(N, 3)
    split = amc.ControlVariate(target, always_read=[], at="mode")
    eta, leverage = target.X @ split.center, np.square(target.X @ split.pilot.cholesky).sum(axis=1)

    def mean(f, i):
        law = stats.norm(eta[i], np.sqrt(leverage[i]))
        return integrate.quad(lambda e: f(e) * law.pdf(e), eta[i] - 12.0, eta[i] + 12.0, limit=200)[0]

    def sigmoid(e):
        return 1.0 / (1.0 + np.exp(-e))

    here = split._expansion.around(split.center, split.pilot.cholesky, slice(None))
    predictors = here.eta
    leverages = np.square(here.directions).sum(axis=1)
    shifts = split._expansion.shifts(here, split._numbers)
    np.testing.assert_allclose((predictors, leverages), (eta, leverage), rtol=1e-12)
    averaged = np.flatnonzero(np.abs(shifts).sum(axis=1) > 1e-9)[:5]
    assert len(averaged) == 5
    for i in averaged:
        slope, bend = target.y[i] - mean(sigmoid, i), -mean(lambda e: sigmoid(e) * (1.0 - sigmoid(e)), i)
        np.testing.assert_allclose(split._numbers[i], [slope - bend * eta[i], 0.5 * bend], rtol=0.0, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("at", ["mode", "pilot"])
def test_averaged_control_variates_leave_the_posterior_and_less_variance(at):
    target = logistic(2000, 5)
    averaged, taylor = (amc.ControlVariate(target, at=at, averaged=each) for each in (True, False))
    rng = np.random.default_rng(0)
    for theta in (averaged.draw_start(rng) for _ in range(5)):
        there, here = (log_posterior(each.compile(), theta) for each in (averaged, target))
        np.testing.assert_allclose(there, here, rtol=1e-12)
    assert averaged.variance_ratio < 0.5 * taylor.variance_ratio
    assert averaged.content_hash() != taylor.content_hash()


def test_averages_need_a_linear_predictor_and_a_law():
    with pytest.raises(IncompatibleError, match="generalised linear model; found order=1"):
        amc.ControlVariate(logistic(N, 3), order=1, averaged=True)
    with pytest.raises(IncompatibleError, match="generalised linear model"):
        amc.ControlVariate(TARGETS["softmax"](), averaged=True)
    with pytest.raises(InvalidInputError, match="a point does not show"):
        amc.ControlVariate(logistic(N, 3), at=np.zeros(3), averaged=True)


def test_the_fewest_rows_are_taken_that_leave_a_small_spread():
    """By brute force: dropping the heaviest rows one by one."""
    residuals = np.random.default_rng(1).normal(size=(40, 16)) * np.geomspace(1.0, 1e-3, 40)[:, None]
    seen = survey_of(residuals, np.zeros(40, dtype=bool), None)
    seen = seen._replace(residuals_of=(residuals + np.arange(40.0)[:, None]).__getitem__)  # up to constants
    chosen = influential_rows.rows_that_vary(seen, 0.3)
    order = sorted(range(40), key=lambda i: -residuals[i].var())
    spreads = [residuals[order[k:]].sum(axis=0).std(ddof=1) for k in range(40)]
    fewest = max(k for k in range(40) if spreads[k] > 0.3) + 1
    assert sorted(np.flatnonzero(chosen)) == sorted(order[:fewest])
    assert 0 < fewest < 40


def test_rows_far_out_are_taken_and_rows_of_a_normal_law_are_not():
    terms = np.random.default_rng(2).normal(size=(5000, 16))
    assert not influential_rows.rows_far_out(terms).any()
    terms[[3, 4000]] *= 100.0
    assert np.flatnonzero(influential_rows.rows_far_out(terms)).tolist() == [3, 4000]


def log_bernoulli(eta, y):
    """Return the log probability of a response whose log odds are eta."""
    return y * eta - np.logaddexp(0.0, eta)


def moments(target, coordinate, log_term=log_bernoulli):
    """Return mean and standard deviation of one of two coefficients, by quadrature."""
    fit = amc.laplace(target)
    wide = max(12.0 * fit.sd.max(), 8.0 * target.prior.scale)
    axes = [np.linspace(m - w, m + w, 1601) for m, w in zip(fit.mode, (10.0 * fit.sd[0], wide), strict=True)]
    grid = np.zeros((len(axes[0]), len(axes[1])))
    rare = target.X[:, 1] != target.X[-1, 1]
    for rows, second in ((rare, axes[1]), (~rare, np.zeros(1))):  # the second column is 0 outside the category
        for x, y in zip(target.X[rows], target.y[rows], strict=True):
            eta = x[0] * axes[0][:, None] + x[1] * second[None, :]
            grid += log_term(eta, y)
    grid -= 0.5 * (axes[0][:, None] ** 2 + axes[1][None, :] ** 2) / target.prior.scale**2
    weights = np.exp(grid - grid.max()).sum(axis=1 - coordinate)
    weights /= weights.sum()
    mean = weights @ axes[coordinate]
    return mean, np.sqrt(weights @ (axes[coordinate] - mean) ** 2)


def without_walls(monkeypatch):
    """Let rows that are walls be light."""
    choose = amc.ControlVariate._influential
    monkeypatch.setattr(amc.ControlVariate, "_influential", lambda self, survey: choose(self, survey) & ~survey.walls)


@pytest.mark.parametrize(("n_wide", "walls"), [(4, 4), (20, 0)])
def test_a_few_wide_rows_are_walls_also_if_their_quadratic_misses_only_far_away(n_wide, walls):
    """Their predictor is 30 with a standard deviation of 1.5; the likelihood bends 20 of these away."""
    X = np.full((120, 2), [0.1, 0.0])
    X[:n_wide, 1] = 1.0
    y = (np.arange(120) % 2 == 1) | (np.arange(120) < n_wide)
    target = amc.targets.LogisticRegression(X, y, intercept=False)
    center, sd = np.array([0.0, 30.0]), np.array([0.01, 1.5])
    draws = center + sd * np.random.default_rng(1).normal(size=(8, 2))
    expansion = Posterior(target).expansion
    survey = expansion.survey(center, np.diag(sd), draws, np.empty((120, expansion.columns)), averaged=True)
    np.testing.assert_array_equal(np.flatnonzero(survey.walls), np.arange(walls))


@pytest.mark.recompiles  # a planted bug, in a chain of its own; that walls are always read is tested above
@pytest.mark.needs_jit
def test_without_the_rule_of_walls_a_rare_category_is_lost(monkeypatch):
    """Its rows have residual 0 at every draw, and no draw is beyond the wall, because it is one."""
    target = categories()
    mean, sd = moments(target, 1)
    sampler = amc.MetropolisHastings(
        amc.SurrogateTransition(), amc.SequentialTTest(0.01, batch_size=64, growth=2.0, tol=0.05)
    )
    shifts = []
    for rule in (lambda patch: None, without_walls):
        rule(monkeypatch)
        split = amc.ControlVariate(target, always_read="auto")
        trace = amc.sample(
            split, sampler, draws=4000, tune=0, chains=2, random_seed=5, audit_every=None, progressbar=False
        )
        shifts.append(float(trace.posterior["beta"][..., 1].mean() - mean) / sd)
        assert set(range(4)) <= set(split.always_read) or rule is without_walls
    # 8000 draws at an efficiency above 1/4 have a standard error below .025 sd.
    assert abs(shifts[0]) < 0.1
    assert abs(shifts[1]) > 0.3


@pytest.mark.needs_jit
@pytest.mark.statistical
def test_the_exact_test_makes_up_for_a_surrogate_without_walls(monkeypatch):
    """It costs speed, never correctness."""
    target = categories(300)
    without_walls(monkeypatch)
    mean, sd = moments(target, 1)
    sampler = amc.MetropolisHastings(amc.SurrogateTransition(), amc.ExactTest())
    trace = amc.sample(
        amc.ControlVariate(target, always_read="auto"),
        sampler,
        draws=8000,
        tune=0,
        chains=2,
        random_seed=5,
        progressbar=False,
    )
    draws = trace.posterior["beta"][..., 1]
    assert abs(float(draws.mean()) - mean) < 0.1 * sd
    assert abs(float(draws.std()) / sd - 1.0) < 0.1


DISPERSION = 2.0


def log_negative_binomial(eta, y):
    """Return the log probability of a count of mean exp(eta) and variance mean + mean^2 / 2, but for a constant."""
    return y * eta - (y + DISPERSION) * np.log(DISPERSION + np.exp(eta))


def negative_binomial_derivatives(eta, y):
    """Return its first two derivatives; m is the probability of a logit eta - log 2."""
    m = np.exp(eta) / (DISPERSION + np.exp(eta))
    return y - (y + DISPERSION) * m, -(y + DISPERSION) * m * (1.0 - m)


def overdispersed_counts():
    """Return a regression of counts with a category of four rows without an event."""
    like = categories()
    rng = np.random.default_rng(4)
    mean = np.exp(0.5 * like.X[:, 0]) * (like.X[:, 1] == like.X[-1, 1])
    return amc.targets.GLMTarget(
        log_negative_binomial,
        like.X,
        rng.poisson(mean * rng.gamma(DISPERSION, 1.0 / DISPERSION, size=len(mean))).astype(float),
        derivatives_eta=negative_binomial_derivatives,
        third_derivative_bound=lambda eta, y, reach: (y + DISPERSION) / (6.0 * np.sqrt(3.0)),
    )


@pytest.mark.thorough
@pytest.mark.recompiles
def test_a_category_of_zeros_is_a_wall_of_overdispersed_counts_and_the_posterior_stays(monkeypatch):
    """Negative binomial: four rows without an event make a wall, as four successes do."""
    target = overdispersed_counts()
    split = amc.ControlVariate(target, always_read="auto")
    assert set(range(4)) <= set(split.always_read)
    ours, theirs = split.compile(), target.compile()
    gaps = [log_posterior(ours, theta) - log_posterior(theirs, theta) for theta in split.pilot.draws]
    np.testing.assert_allclose(gaps, gaps[0], rtol=0.0, atol=1e-9)
    monkeypatch.setattr(amc.ControlVariate, "_influential", lambda self, survey: survey.walls)
    assert set(range(4)) <= set(
        amc.ControlVariate(target, always_read="auto").always_read
    )  # also without the rule of residuals


@pytest.mark.needs_jit
@pytest.mark.statistical
def test_overdispersed_counts_with_a_category_of_zeros_are_sampled_exactly():
    """By the kernel of a surrogate that has the wall."""
    target = overdispersed_counts()
    split = amc.ControlVariate(target, always_read="auto")
    sampler = amc.MetropolisHastings(amc.SurrogateTransition())
    trace = amc.sample(split, sampler, draws=4000, tune=0, chains=2, random_seed=5, audit_every=None, progressbar=False)
    for coordinate in range(2):
        center, sd = moments(target, coordinate, log_negative_binomial)
        draws = trace.posterior["beta"][..., coordinate]
        # 8000 draws at an efficiency above 1/4 have a standard error below .025 sd.
        assert abs(float(draws.mean()) - center) < 0.1 * sd
        assert abs(float(draws.std()) / sd - 1.0) < 0.1


def taken_in_any_case(rng, state, theta, count):
    """Accept every trajectory."""
    surrogate_moves.move_by_trajectory(rng, state, theta, count)
    theta[:] = state.position
    return 1.0


def without_the_way_back(rng, state, theta, count):
    """Judge a Langevin step by the densities of its ends alone."""
    surrogate_moves.move_by_trajectory(rng, state, theta.copy(), count)
    return np.exp(min(0.0, state.log_density(state.position) - state.log_density(theta)))


def any_step_of_the_walk(rng, state, theta, count):
    """Accept every step of a walk."""
    surrogate_moves.move_by_walk(rng, state, theta, count)
    theta[:] = state.position
    return 1.0


def without_the_prior(state, wall, theta, tilt, curvature, t):
    """Forget the prior along a wall."""
    quadratic = t * (tilt + 0.5 * curvature * t)
    return quadratic + state.on_line(state.eta, state.wall_slopes[wall], t, state.rows)


BUGS = {
    "none": {},
    "trajectories are not judged": {surrogate_moves.move_by_trajectory: taken_in_any_case},
    "no prior on the line": {surrogate_moves.log_density_on_line: without_the_prior},
    "the walk is not judged": {surrogate_moves.move_by_walk: any_step_of_the_walk},
}
OF_KERNELS = [
    ("hmc+walls", "none"),
    ("hmc+walls", "trajectories are not judged"),
    ("hmc+walls", "no prior on the line"),
    ("mala", "none"),  # its planted bug is below
    ("walk+walls", "none"),
    ("walk", "the walk is not judged"),
]
WALL, ELSEWHERE = np.array([[0.0, 1.5]]), np.array([[0.6, 0.3]])


def two_directions(surrogate, moves, log_step):
    """Return the state of a kernel on two coefficients, one of which has a wall."""
    directions = (WALL, ELSEWHERE) if moves.across_walls else (WALL[:0], np.vstack([WALL, ELSEWHERE]))
    return surrogate.new_state(Directions(*directions), moves.length, log_step)


@pytest.mark.thorough
@pytest.mark.parametrize(("kernel", "bug"), OF_KERNELS)
def test_one_transition_leaves_the_surrogate_invariant(kernel, bug):
    """Draws of S stay draws of S. Kolmogorov's test on 3000 of them rejects with p < 1e-6: a false fail in 10^6.

    Power: each planted bug is rejected; two of them, the first in the list, with p < 1e-9.
    """
    surrogate, axes, weights = surrogate_on_a_grid()
    rng = np.random.default_rng(11)
    starts = np.column_stack([axis[place] for axis, place in zip(axes, drawn_cells(rng, weights, 3000), strict=True)])
    starts += (rng.random(starts.shape) - 0.5) * [axis[1] - axis[0] for axis in axes]
    moves = surrogate_transition.kernel_named(kernel)
    state = two_directions(surrogate, moves, np.log(0.9))  # a step that loses some
    move = plain(moves.move, BUGS[bug])
    count, ends = np.zeros(40, dtype=np.int64), starts.copy()
    for theta in ends:
        state.value[0] = surrogate.log_density(theta)
        move(rng, state, theta, count)
        assert abs(state.value[0] - surrogate.log_density(theta)) < 1e-9 or bug != "none"
    assert (ends != starts).mean(axis=0).min() > 0.3
    p = min(stats.ks_2samp(ends[:, j], grid_draws(axes, weights, j)).pvalue for j in range(2))
    assert (p > 1e-6) == (bug == "none"), p


@pytest.mark.thorough
@pytest.mark.parametrize(("kernel", "forgets"), [("mala", False), ("mala", True), ("walk", False)])
def test_a_single_step_is_the_textbooks(kernel, forgets):
    """Where it goes, and by which ratio it is judged, with both densities of the proposal written out.

    A Langevin step that forgets the densities of the ways there and back goes to the same place, and is found out.
    """
    surrogate, _, _ = surrogate_on_a_grid()
    moves = surrogate_transition.kernel_named(kernel)
    state, count = two_directions(surrogate, moves, np.log(0.9)), np.zeros(40, dtype=np.int64)
    basis = np.vstack([WALL, ELSEWHERE])
    metric = basis.T @ basis

    def mean(theta):
        slope = np.zeros(2)
        surrogate.add_gradient(theta, slope)
        return theta + 0.5 * step**2 * metric @ slope * (kernel == "mala")

    move = plain(moves.move, {surrogate_moves.move_by_trajectory: without_the_way_back} if forgets else None)
    ratios, gaps = [], []
    for seed in range(20):
        theta, rng = np.random.default_rng(seed).normal(size=2), np.random.default_rng(seed)
        rng.random()  # for the order of one move
        z, step = rng.standard_normal(2), 0.9 * (0.9 + 0.2 * rng.random())
        there = mean(theta) + step * basis.T @ z
        ratio = surrogate.log_density(there) - surrogate.log_density(theta)
        ratio += stats.multivariate_normal(mean(there), step**2 * metric).logpdf(theta)
        ratio -= stats.multivariate_normal(mean(theta), step**2 * metric).logpdf(there)
        state.value[0] = surrogate.log_density(theta)
        found = move(np.random.default_rng(seed), state, theta.copy(), count)
        np.testing.assert_allclose(state.position, there, rtol=1e-12)
        ratios.append(ratio)
        gaps.append(abs(found - np.exp(min(0.0, ratio))))
    assert np.min(ratios) < -1.0 and np.max(ratios) > 0.0
    assert max(gaps) > 0.1 if forgets else max(gaps) < 1e-9


@pytest.mark.parametrize("kernel", ["hmc+walls", "walk"])
def test_a_proposal_knows_its_ratio_wherever_the_chain_is(kernel):
    """Accepted or not, or moved by another proposal of a mixture in between."""
    split = one_light_row()
    built = amc.SurrogateTransition(kernel, steps=2).build_proposal(split)
    state, rng, count = built.make_state(), np.random.default_rng(5), np.zeros(40, dtype=np.int64)
    theta, out, propose = np.zeros(2), np.empty(2), plain(built.propose)
    for step in range(40):
        ratio = propose(rng, state, theta, out, count)
        wanted = split.surrogate.log_density(theta) - split.surrogate.log_density(out)
        np.testing.assert_allclose(ratio, wanted, rtol=0.0, atol=1e-9)
        if step % 3:
            theta[:] = out
        if step % 10 == 9:
            theta[:] = rng.normal(size=2)


@functools.cache
def one_light_row():
    """Return a split of 60 rows with a wall, all of which but one are always read."""
    return amc.ControlVariate(categories(60, rare=3, prior_scale=2.0), always_read=np.arange(59), at="mode")


@functools.cache
def surrogate_on_a_grid():
    """Return its S, the axes of a grid, and the weights of its cells."""
    surrogate = one_light_row().surrogate
    axes = np.linspace(-2.0, 3.0, 121), np.linspace(-9.0, 9.0, 241)
    grid = np.array([[surrogate.log_density(np.array([a, b])) for b in axes[1]] for a in axes[0]])
    return surrogate, axes, np.exp(grid - grid.max())


def drawn_cells(rng, weights, n):
    """Return the numbers of independent cells."""
    return np.unravel_index(rng.choice(weights.size, size=n, p=weights.ravel() / weights.sum()), weights.shape)


def grid_draws(axes, weights, j, n=200_000):
    """Return many independent draws of one coordinate."""
    rng, cell = np.random.default_rng(12), axes[j][1] - axes[j][0]
    return axes[j][drawn_cells(rng, weights, n)[j]] + (rng.random(n) - 0.5) * cell


def test_the_range_of_light_terms_holds():
    """The bound is never below the range; three times as far out as draws go, too."""
    split = amc.ControlVariate(logistic(N, 3), always_read="auto", at="mode")
    known, compiled = split.compile_term_range(), split.compile()
    rng = np.random.default_rng(4)
    for size in (0.5, 1.0, 3.0):
        ends = split.center + size * rng.standard_normal((20, 2, 3)) @ split.pilot.cholesky.T
        for theta, proposed in ends:
            terms = [full_terms(compiled.log_terms, at, compiled.data, compiled.n_obs) for at in (theta, proposed)]
            assert np.ptp(terms[1] - terms[0]) <= known.term_range(theta, proposed, known.numbers)


@pytest.mark.thorough
def test_gaussian_rows_are_all_light():
    split = amc.ControlVariate(logistic(20_000, 5), always_read="auto")
    assert split.always_read.size == 0
    assert split.laplace is not split.pilot
    assert split.compile_surrogate("hmc+walls").normal_law is not None


@pytest.mark.thorough
def test_most_rows_influential_are_all_rows_and_a_warning():
    """A column for each row: every row has a parameter of its own."""
    target = amc.targets.LogisticRegression(np.eye(30) * 5.0, np.arange(30) % 2, prior_scale=3.0)
    with pytest.warns(SamplingWarning, match="30 of 30 rows are influential"):
        split = amc.ControlVariate(target, always_read="auto")
    assert (len(split.always_read), split.n_obs) == (29, 1)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"always_read": [0, N]}, r"from 0 to 149, found 0 \.\.\. 150"),
        ({"always_read": "all"}, "150 booleans"),
        ({"always_read": np.ones(N, dtype=bool)}, "at least one row must be light"),
        ({"at": "middle"}, '"mode", "pilot", an array'),
        ({"at": np.zeros(3)}, "a point does not show"),
        ({"at": amc.numerics.Laplace(np.zeros(2), np.eye(2))}, r"shape \(3,\), found \(2,\)"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(settings, match):
    with pytest.raises(InvalidInputError, match=match):
        amc.ControlVariate(logistic(N, 3), **{"always_read": "auto", "at": "mode", **settings})


@pytest.mark.parametrize("order", [2, 1])
@pytest.mark.parametrize("name", EACH[:-1])  # those with gradients
def test_gradients_of_residuals_and_expansion_add_up_to_those_of_the_target(name, order):
    target = TARGETS[name]()
    residuals = amc.ControlVariate(target, at=target.initial_point() + 0.1, order=order)
    theta, totals = target.initial_point() - 0.2, []
    for gradient in (residuals.compile_gradient(), target.compile_gradient()):
        total = full_gradient(gradient, theta)
        gradient.add_prior_gradient(theta, total)
        totals.append(total)
    np.testing.assert_allclose(*totals, rtol=1e-7, atol=1e-7)


@pytest.mark.recompiles
@pytest.mark.parametrize("name", TARGETS)
def test_no_row_named_is_no_row_read(name):
    """The same numbers and the same density, bit by bit, with an empty list and without."""
    target = TARGETS[name]()
    fit = amc.laplace(target)
    empty = amc.ControlVariate(target, always_read=[], at=fit, averaged=False)
    none = amc.ControlVariate(target, at=fit)
    np.testing.assert_array_equal(empty._numbers, none._numbers)
    np.testing.assert_array_equal(empty.laplace.cov, none.laplace.cov)
    assert empty.content_hash() == none.content_hash()
    theta = fit.mode + 0.3
    densities = [split.compile().log_prior(theta) for split in (empty, none)]
    terms = [full_terms(split.compile().log_terms, theta, split.compile().data, N) for split in (empty, none)]
    assert densities[0] == densities[1]
    np.testing.assert_array_equal(*terms)


@pytest.mark.recompiles
@pytest.mark.parametrize("averaged", [False, True])
def test_the_range_of_residuals_holds_and_is_smaller_than_by_two_remainders(averaged):
    """The bound of Bardenet, Doucet and Holmes (2017), section 7, adds up the remainders at both states."""
    target = logistic(N, 3)
    residuals = amc.ControlVariate(target, at="mode", averaged=averaged)
    compiled = residuals.compile()
    bound = residuals.compile_term_range()
    longest = np.linalg.norm(target.X, axis=1).max()
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(50):
        ends = [residuals.draw_start(rng) for _ in range(2)]
        terms = [full_terms(compiled.log_terms, theta, compiled.data, N) for theta in ends]
        largest = bound.term_range(*ends, bound.numbers)
        assert np.ptp(terms[1] - terms[0]) <= largest
        cubes = sum(np.linalg.norm(theta - residuals.center) ** 3 for theta in ends)
        shares.append(largest / (target.likelihood.third_derivative_bound * longest**3 / 3.0 * cubes))
    assert averaged or max(shares) < 1.0


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"order": 0}, InvalidInputError, "needs rows that are always read"),
        ({"order": 3}, InvalidInputError, "order must be 0, 1 or 2"),
        ({"order": 1, "always_read": "auto"}, IncompatibleError, "order=0 for stratified sampling"),
        (
            {"order": 0, "always_read": "auto", "averaged": True},
            IncompatibleError,
            "averaged coefficients take order=2",
        ),
        ({"always_read": "auto", "at": np.zeros(3)}, InvalidInputError, "the width of the posterior"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        amc.ControlVariate(logistic(N, 3), **settings)


@pytest.mark.recompiles
def test_without_a_maximum_nothing_is_proposed_from_the_expansion():
    target = amc.ControlVariate(TARGETS["robust"](), at=np.full(2, 50.0))  # far out a Student-t density is convex
    assert target.laplace is None
    with pytest.raises(IncompatibleError, match="has no maximum"):
        target.compile_surrogate("hmc")
