"""The theory of Noisy Monte Carlo compared with enumeration: constants, inequalities, and a planted error in each."""

import functools
import itertools
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds import noisy_exchange, noisy_langevin
from approxmcmc.bounds.finite import row_distances, stationary_distribution
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.auxiliary_variable.distribution import expected_minima, standard_deviation_of_ratio
from approxmcmc.samplers.counted_model import counted_model

LOW, HIGH = -0.4, 0.8


@functools.cache
def lattice(rows=4, **prior):
    """Return the fixture of 4 x 4 spins with s(y) = 12, or a smaller one."""
    spins = np.ones((rows, rows), dtype=int)
    spins[[0, 0, -1], [0, -1, 0]] = -1
    return amc.targets.Ising(spins, **(prior or {"prior_bounds": (LOW, HIGH)}))


def exchange(n_auxiliary, scale=0.2):
    return amc.Exchange(amc.RandomWalk(scale), n_auxiliary, auxiliary="exact")


@functools.cache
def errors(n_auxiliary, n_points):
    return bounds.noisy_exchange_errors(lattice(), exchange(n_auxiliary), np.linspace(LOW, HIGH, n_points))


# --- lemma 3.1, corollary 2.3, theorem 3.2 ---


@pytest.mark.thorough
def test_the_digits_of_the_fixture():
    found = errors(1, 241)
    largest = {name: float(found[name].max()) for name in ("delta", "mean_flip", "mean_error", "lemma_3_1")}
    assert largest["lemma_3_1"] == pytest.approx(14387.0, abs=0.5)
    assert found["lemma_3_1"].to_numpy().argmax() == 0  # theta = -0.4
    assert largest["mean_error"] == pytest.approx(142.3, abs=0.05)
    assert largest["mean_flip"] == pytest.approx(0.2041, abs=5e-5)
    assert largest["delta"] == pytest.approx(0.1248, abs=5e-5)


@pytest.mark.thorough
def test_lemma_3_1_at_a_hundred_draws():
    """0.0091 and 1439, on 31 points: the sums over the grid are integrals, and it matters little."""
    found = errors(100, 31)
    assert float(found["lemma_3_1"].max()) == pytest.approx(1439.0, abs=1.0)
    assert float(found["delta"].max()) == pytest.approx(0.0091, abs=2e-4)
    assert found["delta"].attrs["label"] == "one-sided" and found["lemma_3_1"].attrs["label"] == "rigorous"


@pytest.mark.thorough
@pytest.mark.parametrize("n_auxiliary", [1, 2, 5, 100])
def test_each_inequality_of_the_theory_holds_at_every_start(n_auxiliary):
    found = errors(n_auxiliary, 31)
    assert found["delta"].attrs["label"] == ("rigorous" if n_auxiliary <= 2 else "one-sided")
    chain = [found[name].to_numpy() for name in ("delta", "mean_flip", "mean_error", "lemma_3_1")]
    for smaller, larger in itertools.pairwise(chain):
        assert (smaller <= larger + 1e-14).all() and smaller.max() < larger.max()  # equal at one end of the grid
    grid = np.linspace(LOW, HIGH, 31)
    T, T_hat = (
        bounds.transition_matrix(lattice(), sampler, grid)
        for sampler in (amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest()), exchange(n_auxiliary))
    )
    np.testing.assert_allclose(chain[0], row_distances(T.to_numpy(), T_hat.to_numpy()), atol=1e-12)
    exact = bounds.exact(T, T_hat)
    assert float(found["corollary_2_3"]) >= float(exact["b5"]) >= float(exact["tv"])
    assert float(found["corollary_2_3"]) == pytest.approx(float(found["factor"] * chain[2].max()))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_expected_minima_against_all_draws(count):
    """Every tuple of values of the statistic on a 2 x 2 lattice, with its probability."""
    target, points = lattice(2), np.linspace(LOW, HIGH, 5)[:, None]
    model = counted_model(target, points)
    found = expected_minima(model, count, np.ones((5, 5), dtype=bool))
    law = model.law_of_statistics().probabilities
    for i, j in itertools.permutations(range(5), 2):
        step = float(points[j, 0] - points[i, 0])
        log_z = [target.log_normalizer(points[k, 0]) for k in (i, j)]
        a = math.exp(step * model.observed[0] + log_z[0] - log_z[1])
        wanted = np.zeros(3)
        for drawn in itertools.product(range(len(model.statistics)), repeat=count):
            weights = np.exp(-step * model.statistics[list(drawn), 0])
            estimate = math.exp(step * model.observed[0]) * weights.mean()
            wanted += law[j][list(drawn)].prod() * np.array(
                [min(1.0, estimate), min(1.0, a, estimate), min(a, estimate)]
            )
        assert math.exp(found.log_a[i, j]) == pytest.approx(a, rel=1e-12)
        means = [found.accepted[i, j], found.both_accept[i, j], found.below_a[i, j]]
        np.testing.assert_allclose(means, wanted, atol=1e-12 if count < 3 else 2e-6)


def test_the_standard_deviation_is_lemma_3_1_as_printed():
    """N^(-1/2) exp((theta' - theta)'s(y)) sqrt(Z(2 theta - theta') / Z(theta') - (Z(theta) / Z(theta'))^2)."""
    target, points = lattice(), np.array([[-0.3], [0.1], [0.5]])
    model = counted_model(target, points)
    log_a = expected_minima(model, 1, ~np.eye(3, dtype=bool)).log_a
    found = standard_deviation_of_ratio(model, log_a, 7, ~np.eye(3, dtype=bool))
    for i, j in itertools.permutations(range(3), 2):
        here, there = points[i, 0], points[j, 0]
        log_z = target.log_normalizer
        variance = math.exp(log_z(2 * here - there) - log_z(there)) - math.exp(2 * (log_z(here) - log_z(there)))
        assert found[i, j] == pytest.approx(math.exp((there - here) * 12.0) * math.sqrt(variance / 7), rel=1e-9)


@pytest.mark.parametrize("planted", ["law at theta", "a squared", "N for its root"])
def test_slips_in_lemma_3_1_are_seen(planted):
    """Draws at theta in place of theta', the ratio twice, 1 / N in place of its root: the fixture's digits see each."""
    target, points = lattice(), np.linspace(LOW, HIGH, 61)[:, None]
    model = counted_model(target, points)
    h = amc.RandomWalk(0.2).probabilities(target, points)
    log_a = expected_minima(model, 1, h > 0.0).log_a
    right = (h * standard_deviation_of_ratio(model, log_a, 4, h > 0.0)).sum(axis=1).max()
    assert right == pytest.approx(14387.0 / 2.0, rel=1e-3)
    if planted == "law at theta":
        turned = standard_deviation_of_ratio(model, log_a, 4, h > 0.0).T
    elif planted == "a squared":
        turned = np.exp(log_a) * standard_deviation_of_ratio(model, log_a, 4, h > 0.0)
    else:
        turned = standard_deviation_of_ratio(model, log_a, 16, h > 0.0)
    assert (h * turned).sum(axis=1).max() != pytest.approx(14387.0 / 2.0, rel=0.1)


def test_the_constants_of_theorem_3_2():
    """On the fixture kappa = e^19.2; on a mild one every constant is checked against the exact chain."""
    settings = {"largest_theta": 0.8, "largest_statistic": 24.0, "volume": 1.2, "prior_constant": 1.2}
    density = math.exp(-0.5 * 36.0) / (0.2 * math.sqrt(2.0 * math.pi))  # of the walk, at the far end of the set
    found = bounds.uniform_exchange_bound(100, **settings, proposal_constant=1.0 / density)
    assert math.exp(0.8 * 24.0) == pytest.approx(2.18e8, rel=2e-3)
    by_hand = 2 * math.log(1.2) + 2 * -math.log(density) + 76.8 - math.log(10.0)
    assert found.log_one_step == pytest.approx(by_hand, rel=1e-12)
    assert found.log_gap == pytest.approx(math.log(1.2) - 2 * math.log(1.2) + 3 * math.log(density) - 76.8, rel=1e-12)
    assert found.log_bound / math.log(10.0) > 90.0  # a distance of at most 10^90
    mild = bounds.uniform_exchange_bound(
        1, largest_theta=0.3, largest_statistic=4.0, volume=0.6, prior_constant=1 / 0.6, proposal_constant=1 / 0.6
    )
    rho, one_step = -math.expm1(mild.log_gap), math.exp(mild.log_one_step)
    assert mild.log_bound == pytest.approx(math.log(bounds.mitrophanov_factor(2.0, rho) * one_step), rel=1e-12)
    grid = np.linspace(-0.3, 0.3, 41)  # an independent uniform proposal, density 1 / 0.6
    model = counted_model(lattice(2, prior_bounds=(-0.3, 0.3)), grid[:, None])
    mean = expected_minima(model, 1, np.ones((41, 41), dtype=bool))
    T = np.exp(np.minimum(mean.log_a, 0.0)) / 41
    T[np.diag_indices(41)] = 0.0
    T[np.diag_indices(41)] = 1.0 - T.sum(axis=1)
    law, power = stationary_distribution(T), np.eye(41)
    for n in range(1, 6):
        power = power @ T
        assert 2.0 * row_distances(power, law).max() <= 2.0 * rho**n
    assert (2.0 * (np.exp(mean.log_a) - mean.below_a) / 41).sum(axis=1).max() <= one_step
    assert rho < 0.9999  # so that a power of kappa forgotten in it, e^1.2, would show
    for gap in (-26.9, -27.1):  # the limit continues the formula
        limit = math.log(1.0 + math.log(2.0)) - gap
        assert noisy_exchange._log_factor(gap) == pytest.approx(limit, abs=1e-4)


def test_at_theta_zero_the_chain_of_theorem_3_2_forgets_at_once():
    """kappa = 1 and uniform laws on a set of volume 1: rho = 0, one term of the sum, and an error of 1 / sqrt(N)."""
    settings = {"largest_theta": 0.0, "largest_statistic": 9.0, "volume": 1.0}
    found = bounds.uniform_exchange_bound(100, **settings, prior_constant=1.0, proposal_constant=1.0)
    assert found.log_gap == 0.0 and found.log_one_step == pytest.approx(-math.log(10.0))
    assert found.log_bound == pytest.approx(math.log(bounds.mitrophanov_factor(2.0, 0.0) / 10.0))


def test_what_theorem_3_2_refuses():
    settings = {"largest_theta": 1.0, "largest_statistic": 1.0, "volume": 1.0, "prior_constant": 1.0}
    with pytest.raises(InvalidInputError, match="constants >= 1"):
        bounds.uniform_exchange_bound(10, **settings, proposal_constant=0.5)
    with pytest.raises(InvalidInputError, match="volume <= proposal_constant"):
        bounds.uniform_exchange_bound(10, **(settings | {"volume": 1e6}), proposal_constant=1.0)


# --- remark 2.2: the first difference ---


@pytest.mark.thorough
@pytest.mark.parametrize("n_auxiliary", [1, 2])
def test_the_first_difference_against_the_joint_chain(n_auxiliary):
    """The law of tau from the joint kernel of both decisions, enumerated over draws and integrated over u."""
    target, grid = lattice(2), np.linspace(LOW, HIGH, 5)
    found = bounds.first_difference(target, exchange(n_auxiliary, 0.4), grid, n_steps=12)
    model = counted_model(target, grid[:, None])
    h = amc.RandomWalk(0.4).probabilities(target, grid[:, None])
    law = model.law_of_statistics().probabilities
    K, flip = np.zeros((5, 5)), np.zeros(5)
    for i, j in itertools.permutations(range(5), 2):
        step = float(grid[j] - grid[i])
        a = math.exp(model.log_density()[j] - model.log_density()[i])
        for drawn in itertools.product(range(len(model.statistics)), repeat=n_auxiliary):
            chance = h[i, j] * law[j][list(drawn)].prod()
            estimate = math.exp(step * model.observed[0]) * np.exp(-step * model.statistics[list(drawn), 0]).mean()
            both, one = min(1.0, a, estimate), max(min(1.0, a), min(1.0, estimate))
            K[i, j] += chance * both
            K[i, i] += chance * (1.0 - one)
            flip[i] += chance * (one - both)
        K[i, i] += 0.0
    K[np.diag_indices(5)] += 1.0 - h.sum(axis=1)
    np.testing.assert_allclose(found["flip"], flip, atol=1e-13)
    survival = [np.linalg.matrix_power(K, n) @ np.ones(5) for n in range(13)]
    np.testing.assert_allclose(found["survival"], np.array(survival).T, atol=1e-13)
    far = sum(np.linalg.matrix_power(K, n) @ np.ones(5) for n in range(4000))  # E tau = sum_n P(tau > n)
    np.testing.assert_allclose(found["mean"], far, rtol=1e-10)
    assert (found["survival"] >= found["lower_bound"] - 1e-14).all()
    assert (found["mean"] >= float(found["mean_lower_bound"])).all()
    assert float(found["mean_lower_bound"]) == pytest.approx(1.0 / flip.max())
    wrong = found["survival"].isel(step=1) - (1.0 - np.abs(errors_of(h, model, n_auxiliary)))
    assert (
        float(np.abs(wrong).max()) > 1e-3
    )  # |E min(1, a^) - min(1, a)|, the bias of a decision, is not how often it flips


def errors_of(h, model, n_auxiliary):
    mean = expected_minima(model, n_auxiliary, h > 0.0)
    return (h * (np.exp(np.minimum(mean.log_a, 0.0)) - mean.accepted)).sum(axis=1)


# --- noisy Langevin: lemmas 2.4 and 3.3, theorems 2.2 and 3.4 ---

THETAS = np.linspace(-0.4, 0.8, 7)


@pytest.mark.parametrize("n_auxiliary", [1, 3, 40])
@pytest.mark.parametrize("variance", [0.001, 0.02])
def test_each_bound_of_a_noisy_langevin_step_holds(variance, n_auxiliary):
    sampler = amc.samplers.NoisyLangevin(variance, n_auxiliary)
    found = bounds.noisy_langevin_errors(lattice(prior_scale=1.0), sampler, THETAS)
    assert (found["delta"] < found["pinsker"]).all()
    assert (found["pinsker"] < found["lemma_2_4"]).all()
    if not math.isnan(found["lemma_3_3"]):
        assert (found["lemma_2_4"] < float(found["lemma_3_3"])).all()


@pytest.mark.thorough
def test_a_noisy_langevin_step_against_normal_densities():
    """One draw on 2 x 2 spins: three values of s, and the distance by adaptive quadrature."""
    from scipy.integrate import quad
    from scipy.stats import norm

    target, theta, variance = lattice(2, prior_scale=1.0), 0.35, 0.3
    found = bounds.noisy_langevin_errors(target, amc.samplers.NoisyLangevin(variance, 1), np.array([theta, 0.0]))
    weights = {4.0: 2 * math.exp(4 * theta), 0.0: 12.0, -4.0: 2 * math.exp(-4 * theta)}
    total = sum(weights.values())
    law = {s: w / total for s, w in weights.items()}
    mean = sum(s * p for s, p in law.items())
    sd = math.sqrt(variance)
    centre = {s: theta + 0.5 * variance * (float(target.observed_statistics[0]) - s - theta) for s in (*law, mean)}

    def difference(x):
        return sum(p * norm.pdf(x, centre[s], sd) for s, p in law.items()) - norm.pdf(x, centre[mean], sd)

    truth = 0.5 * quad(lambda x: abs(difference(x)), -6.0, 6.0, limit=400, points=[-1.0, 0.0, 1.0])[0]
    assert float(found["delta"][0]) == pytest.approx(truth, abs=2e-6)
    pinsker = 0.25 * sd * sum(p * abs(s - mean) for s, p in law.items())
    assert float(found["pinsker"][0]) == pytest.approx(pinsker, abs=1e-12)
    delta = sum(p * math.expm1(0.25 * variance * (s - mean) ** 2) for s, p in law.items())
    assert float(found["lemma_2_4"][0]) == pytest.approx(math.sqrt(delta / 2), abs=1e-12)
    assert truth > 0.02  # far above the tolerance


def test_lemma_3_3_holds_for_the_worst_statistic_and_not_with_half_its_constant():
    """s = +-S with equal chance, and few draws: E exp(V^2 / 4) is close to the bound of a sub-Gaussian law."""
    S, variance, n = 1.0, 1.0, 2
    drawn = np.array([sum(signs) / n for signs in itertools.product((-S, S), repeat=n)])
    delta = np.expm1(0.25 * variance * drawn**2).mean()
    bound = bounds.hoeffding_langevin_bound(n, variance, S)
    assert math.sqrt(delta / 2) <= bound < 1.1 * math.sqrt(delta / 2)
    assert math.sqrt(delta / 2) > bounds.hoeffding_langevin_bound(n, 0.5 * variance, S)  # ||Sigma|| / 4 for / 2
    assert math.isnan(bounds.hoeffding_langevin_bound(1, 2.0, 1.0))
    for big in (1e4, 1e6):
        near = 24.0 * math.sqrt(0.02 / (8.0 * big))
        assert bounds.hoeffding_langevin_bound(int(big), 0.02, 24.0) == pytest.approx(near, rel=1e-3)
    two = bounds.hoeffding_langevin_bound(1000, 0.01, 3.0, dim=2)
    assert two == bounds.hoeffding_langevin_bound(500, 0.01, 3.0)


def test_the_distance_falls_like_one_over_n_and_its_bounds_like_its_root():
    """The mean of the mixture is right: its first order cancels, which no bound by E|V| can see."""
    found = {
        n: bounds.noisy_langevin_errors(lattice(prior_scale=1.0), amc.samplers.NoisyLangevin(0.02, n), THETAS)
        for n in (10, 90)
    }
    ratio = {name: float(found[10][name].max() / found[90][name].max()) for name in ("delta", "pinsker", "lemma_2_4")}
    assert ratio["delta"] == pytest.approx(9.0, rel=0.05)
    assert ratio["pinsker"] == pytest.approx(3.0, rel=0.05) and ratio["lemma_2_4"] == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize("variance", [0.02, 0.5, 3.0])
def test_the_drift_of_theorem_3_4_holds_at_every_n(variance):
    """P W <= r W + L at every theta, few draws and all, by E|N(m, Sigma)| in closed form; a smaller r fails."""
    from scipy.stats import norm

    target, thetas = lattice(prior_scale=1.0), np.linspace(-6000.0, 6000.0, 241)
    drift, model = bounds.langevin_drift(variance, 1.0, 24.0), counted_model(target, thetas[:, None])
    sd, W = math.sqrt(variance), 1.0 + np.abs(thetas)
    for count in (1, 4, math.inf):
        means, law = noisy_langevin.law_of_the_mean(model, count)
        centre = thetas[:, None] * (1.0 - 0.5 * variance) + 0.5 * variance * (12.0 - means)
        inside = centre * (1.0 - 2.0 * norm.cdf(-centre / sd))
        folded = sd * math.sqrt(2.0 / math.pi) * np.exp(-0.5 * (centre / sd) ** 2) + inside
        after = 1.0 + (law * folded).sum(axis=1)
        assert (after <= drift.rate * W + drift.constant + 1e-12).all()
        assert (after > 0.9 * drift.rate * W + drift.constant).any()
    with pytest.raises(InvalidInputError, match="factor of theta is 1"):
        bounds.langevin_drift(4.0, 1.0, 24.0)


def test_stationary_laws_of_langevin_meet_as_theorem_3_4_says():
    target, grid = lattice(prior_scale=1.0), np.linspace(-1.5, 2.5, 81)
    T = bounds.langevin_matrix(target, amc.samplers.NoisyLangevin(0.05), grid, ideal=True)
    tv = [
        float(bounds.exact(T, bounds.langevin_matrix(target, amc.samplers.NoisyLangevin(0.05, n), grid))["tv"])
        for n in (1, 4, 16)
    ]
    assert tv[0] > 0.05
    assert tv[0] / tv[1] == pytest.approx(4.0, rel=0.2) and tv[1] / tv[2] == pytest.approx(4.0, rel=0.2)


def test_what_the_theory_of_langevin_refuses():
    with pytest.raises(IncompatibleError, match="about NoisyLangevin"):
        bounds.noisy_langevin_errors(lattice(), exchange(1), THETAS)
    with pytest.raises(IncompatibleError, match="gradient everywhere"):
        bounds.langevin_matrix(lattice(), amc.samplers.NoisyLangevin(0.1), THETAS)
    with pytest.raises(IncompatibleError, match="about Exchange"):
        bounds.noisy_exchange_errors(lattice(), amc.samplers.NoisyLangevin(0.1), THETAS)
    with pytest.raises(InvalidInputError, match="variance > 0"):
        bounds.hoeffding_langevin_bound(10, 0.0, 1.0)


# --- every number of steps and every start ---


@pytest.mark.thorough
def test_bounds_hold_at_every_time_and_start():
    rng = np.random.default_rng(0)
    for _ in range(40):
        n = int(rng.integers(2, 7))
        T, other = rng.dirichlet(np.full(n, 0.5), size=(2, n))
        T_hat = 0.8 * T + 0.2 * other
        for start in (None, int(rng.integers(n)), rng.dirichlet(np.ones(n))):
            found = bounds.over_time(T, T_hat, start=start, n_steps=15)
            law = stationary_distribution(T)
            starts = np.eye(n) if start is None else np.eye(n)[[start]] if np.ndim(start) == 0 else start[None, :]
            for step in (0, 1, 2, 7, 15):
                A, B = (starts @ np.linalg.matrix_power(M, step) for M in (T, T_hat))
                at = found.sel(step=step)
                assert float(at["tv"]) == pytest.approx(row_distances(A, B).max(), abs=1e-12)
                assert float(at["to_posterior"]) == pytest.approx(row_distances(B, law).max(), abs=1e-12)
            for name in ("b3", "b4", "b5"):
                assert (found["tv"] <= found[name] + 1e-12).all()
            assert (found["b4"] <= found["b3"] + 1e-12).all()
            assert (found["to_posterior"] <= found["to_posterior_bound"] + 1e-12).all()


def test_bounds_at_a_time_become_those_of_the_stationary_law():
    T, T_hat = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.88, 0.12], [0.2, 0.8]])
    found, exact = bounds.over_time(T, T_hat, start=0, n_steps=120), bounds.exact(T, T_hat)
    last = found.isel(step=-1)
    for name in ("tv", "b3", "b4"):
        assert float(last[name]) == pytest.approx(float(exact[name]), abs=1e-9)
    assert float(last["b5"]) == pytest.approx(float(exact["b5"]), abs=1e-12)
    assert found.attrs["factor_b5"] * 0.02 == pytest.approx(float(exact["b5"]), rel=1e-12)
    # eta_k = 0.7^k and delta = 0.02: b3 after n steps by hand, and with the sum begun at eta_1 too small to hold
    steps = found["step"].to_numpy()
    np.testing.assert_allclose(found["b3"], 0.02 * (1 - 0.7**steps) / 0.3, atol=1e-14)
    late = 0.02 * 0.7 * (1 - 0.7**steps) / 0.3
    assert (found["tv"].to_numpy()[1:] > late[1:]).any()


def test_starts_that_are_none_are_refused():
    T = np.array([[0.9, 0.1], [0.2, 0.8]])
    for wrong in (2, -1, [0.5, 0.6], [1.0], [1.1, -0.1]):
        with pytest.raises(InvalidInputError, match="start must"):
            bounds.over_time(T, T, start=wrong)
    with pytest.raises(InvalidInputError, match=r"a state 0 \.\.\. 1 or probabilities"):
        bounds.over_time(T, T, start=2)
    assert bounds.over_time(T, T, start=[0.0, 1.0]).identical(bounds.over_time(T, T, start=1))


# --- which N wins at a budget ---


def test_the_risk_of_an_average_against_its_own_variance():
    """n Var(mean) of 400 steps by the covariances of the chain itself; the bias and the winner by hand."""
    rng = np.random.default_rng(3)
    T, T_hat = rng.dirichlet(np.ones(4), size=(2, 4))
    f, n = np.array([0.0, 1.0, -2.0, 5.0]), 400
    found = bounds.long_run_risk(T, {7: T_hat}, f, costs={7: 3.0}, budgets=[10.0, 1e4], knob="n_auxiliary")
    law, right = stationary_distribution(T_hat), stationary_distribution(T)
    centred = f - law @ f
    lags = [float(law @ (centred * (np.linalg.matrix_power(T_hat, k) @ centred))) for k in range(n)]
    variance = lags[0] + 2 * sum((1 - k / n) * lags[k] for k in range(1, n))
    assert float(found["asymptotic_variance"][0]) == pytest.approx(variance, rel=0.01)
    bias = float(law @ f - right @ f)
    assert float(found["bias"][0]) == pytest.approx(bias, abs=1e-13)
    v = float(found["asymptotic_variance"][0])
    np.testing.assert_allclose(found["risk"][0], [bias**2 + 3 * v / 10, bias**2 + 3 * v / 1e4], rtol=1e-12)
    with pytest.raises(InvalidInputError, match="positive cost"):
        bounds.long_run_risk(T, {7: T_hat}, f, costs={8: 1.0}, budgets=[1.0])
    with pytest.raises(InvalidInputError, match="one positive cost"):
        bounds.long_run_risk(T, {7: T_hat}, f, costs={7: 0.0}, budgets=[1.0])
    with pytest.raises(InvalidInputError, match="positive budgets"):
        bounds.long_run_risk(T, {7: T_hat}, f, costs={7: 1.0}, budgets=[0.0, 1.0])


@pytest.mark.thorough
def test_fewer_draws_have_the_larger_variance_and_the_budget_chooses():
    """Exchange is exact: it wins at the largest budget. At small ones draws that are cheap to add win."""
    target, grid = lattice(), np.linspace(LOW, HIGH, 31)
    T = bounds.transition_matrix(target, amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest()), grid)
    matrices = {n: bounds.transition_matrix(target, exchange(n), grid) for n in (1, 2, 10, 100)}
    found = bounds.long_run_risk(
        T, matrices, grid, costs={n: 10.0 + n for n in matrices}, budgets=[1e3, 1e12], knob="n_auxiliary"
    )
    variance = found["asymptotic_variance"].to_numpy()
    assert (np.diff(variance) < 0.0).all()
    ideal = bounds.long_run_risk(T, {0: T}, grid, costs={0: 1.0}, budgets=[1.0])["asymptotic_variance"]
    assert variance[-1] > float(ideal[0])
    assert found["best"].values.tolist()[-1] == 1 and found["best"].values.tolist()[0] > 1
    assert abs(float(found["bias"].sel(n_auxiliary=1))) < 1e-9
