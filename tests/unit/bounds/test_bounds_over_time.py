"""Bounds after each number of steps by their sums, the risk of a long run by hand, and the settings of a check."""

import dataclasses
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds import chains as settings
from approxmcmc.bounds.finite import contraction, row_distances
from approxmcmc.errors import IncompatibleError, InvalidInputError


def matrices(rng, n=4):
    T, other = rng.dirichlet(np.full(n, 0.6), size=(2, n))
    return 0.5 * np.eye(n) + 0.5 * T, 0.48 * np.eye(n) + 0.5 * T + 0.02 * other


@pytest.mark.parametrize("start", [None, 2, [0.1, 0.2, 0.3, 0.4]])
def test_every_bound_at_every_time_is_its_sum(start, rng):
    """delta sum eta_k; sum E delta eta_k from this start, or the worst; min(n, factor) delta."""
    T, T_hat = matrices(rng)
    found = bounds.over_time(T, T_hat, start=start, n_steps=6)
    starts = np.eye(4) if start is None else np.eye(4)[[start]] if start == 2 else np.array([start])
    law = np.linalg.matrix_power(T, 4096)[0]
    one_step = row_distances(T, T_hat)
    eta = [1.0, *(contraction(np.linalg.matrix_power(T, k)) for k in range(1, 7))]
    factor = float(bounds.exact(T, T_hat)["b5"]) / one_step.max()
    for n in range(7):
        now, now_hat = (starts @ np.linalg.matrix_power(matrix, n) for matrix in (T, T_hat))
        b3 = one_step.max() * sum(eta[:n])
        b4 = max(
            sum(eta[k] * (mu @ np.linalg.matrix_power(T_hat, n - 1 - k) @ one_step) for k in range(n)) for mu in starts
        )
        wanted = {
            "tv": row_distances(now_hat, now).max(),
            "b3": b3,
            "b4": b4,
            "b5": one_step.max() * min(n, factor),
            "to_posterior": row_distances(now_hat, law).max(),
            "to_posterior_bound": row_distances(now, law).max() + b3,
        }
        for name, value in wanted.items():
            assert float(found[name].sel(step=n)) == pytest.approx(value, rel=1e-9, abs=1e-15), (name, n)
    assert found.attrs == {
        "starts": len(starts), "delta": pytest.approx(one_step.max()), "factor_b5": pytest.approx(factor),
    }  # fmt: skip
    assert found["step"].values.tolist() == list(range(7))


def test_a_hundred_steps_unless_told_and_no_factor_of_a_chain_that_forgets_nothing():
    flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    found = bounds.over_time(flip, [[0.1, 0.9], [1.0, 0.0]])
    assert found.sizes["step"] == 101 and math.isnan(found.attrs["factor_b5"])
    np.testing.assert_allclose(found["b5"], 0.1 * np.arange(101), rtol=1e-12)
    np.testing.assert_allclose(found["b3"], 0.1 * np.arange(101), rtol=1e-12)


def test_what_over_time_refuses():
    T = np.array([[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(InvalidInputError, match="found 2 and 3"):
        bounds.over_time(T, np.full((3, 3), 1 / 3))
    with pytest.raises(InvalidInputError, match="n_steps"):
        bounds.over_time(T, T, n_steps=0)
    assert bounds.over_time(T, T, n_steps=1).sizes["step"] == 2
    for law in ([0.5, 0.5 + 2e-9], [0.5, 0.5 - 2e-9], [-1e-3, 1.001], [[0.5, 0.5]]):
        with pytest.raises(InvalidInputError, match="2 probabilities that sum to 1"):
            bounds.over_time(T, T, start=law)
    assert bounds.over_time(T, T, start=[0.5, 0.5 + 5e-10]).attrs["starts"] == 1
    for state in (0, 1):
        assert float(bounds.over_time(T, T, start=state)["to_posterior"][0]) == pytest.approx((1 / 3, 2 / 3)[state])


# --- the risk of a long run ---


def test_the_risk_of_two_states_by_hand():
    """f = 0, 1 on two states: P(1) = a / (a + b), and the variance of an average is p q (2 - a - b) / (a + b)."""

    def chain(a, b):
        return np.array([[1.0 - a, a], [b, 1.0 - b]])

    budgets = [2.0, 50.0, 1e6]
    found = bounds.long_run_risk(
        chain(0.2, 0.3), {3: chain(0.4, 0.5), 8: chain(0.02, 0.03)}, [0.0, 1.0], costs={8: 0.5, 3: 2.0}, budgets=budgets
    )
    bias, variance = [4 / 9 - 0.4, 0.0], [20 / 81 * 1.1 / 0.9, 0.24 * 1.95 / 0.05]
    np.testing.assert_allclose(found["bias"], bias, atol=1e-14)
    np.testing.assert_allclose(found["asymptotic_variance"], variance, rtol=1e-12)
    assert found["cost"].values.tolist() == [2.0, 0.5] and found["setting"].values.tolist() == [3, 8]
    risk = [[b**2 + c * v / budget for budget in budgets] for b, v, c in zip(bias, variance, (2.0, 0.5), strict=True)]
    np.testing.assert_allclose(found["risk"], risk, rtol=1e-10)
    assert found["best"].values.tolist() == [3, 3, 8] and found["budget"].values.tolist() == budgets


@pytest.mark.parametrize(
    ("keys", "costs", "budgets"),
    [([], {}, [1.0]), ([1], {}, [1.0]), ([1, 2], {1: 1.0}, [1.0]), ([1], {1: -0.5}, [1.0]), ([1], {1: 0.0}, [1.0])]
    + [([1], {1: 1.0}, [budget]) for budget in (-0.5, 0.0)],
)
def test_prices_and_budgets_that_are_none(keys, costs, budgets):
    T = np.full((2, 2), 0.5)
    with pytest.raises(InvalidInputError, match="one positive cost"):
        bounds.long_run_risk(T, dict.fromkeys(keys, T), [0.0, 1.0], costs=costs, budgets=budgets)


T_EXACT = [[0.9, 0.1], [0.1, 0.9]]
T_FAST = [[0.5, 0.5], [0.45, 0.55]]


@pytest.mark.parametrize("keys", [((1, 2), (1, 3)), (1, "two"), ("exact", "fast"), (0.5, 2), (True, None)])
def test_the_best_setting_is_a_key_of_the_settings(keys):
    exact, fast = keys
    settings = {exact: T_EXACT, fast: T_FAST}
    risks = bounds.long_run_risk(
        T_EXACT, settings, [0.0, 1.0], costs=dict.fromkeys(keys, 1.0), budgets=[10.0, 1e5], knob="key"
    )
    assert risks["best"].values.tolist() == [fast, exact] and risks["key"].values.tolist() == list(keys)
    assert all(best in settings for best in risks["best"].values.tolist())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"knob": "budget"}, "knob must differ from the names"),
        ({"knob": "risk"}, "knob must differ from the names"),
        ({"budgets": 10.0}, r"budgets must have shape \(m,\), found shape \(\)"),
        ({"values": [0.0, 1.0, 2.0]}, r"one number for each of the 2 states of T, found shape \(3,\)"),
        ({"settings": {1: np.full((3, 3), 1 / 3)}}, r"setting = 1 must have the shape \(2, 2\) of T, found \(3, 3\)"),
    ],
)
def test_sizes_that_do_not_fit_are_named(changed, message):
    arguments = {"settings": {1: T_FAST}, "values": [0.0, 1.0], "costs": {1: 1.0}, "budgets": [1.0]} | changed
    with pytest.raises(InvalidInputError, match=message):
        bounds.long_run_risk(T_EXACT, **arguments)


# --- settings of a check ---

WALK, SEQUENTIAL = amc.RandomWalk(0.1), amc.SequentialTTest(0.1, 20)


@pytest.mark.parametrize(
    ("sampler", "limit"),
    [
        (amc.Exchange(WALK, 5), amc.MetropolisHastings(WALK, amc.ExactTest())),
        (amc.MetropolisHastings(WALK, SEQUENTIAL), amc.MetropolisHastings(WALK, amc.ExactTest())),
        (
            amc.MetropolisHastings(WALK, amc.acceptance.MinibatchBarker()),
            amc.MetropolisHastings(WALK, amc.ExactTest("barker")),
        ),
        (amc.Gibbs(SEQUENTIAL, scan="random"), amc.Gibbs(amc.ExactTest(), scan="random")),
    ],
)
def test_a_sampler_approximates_its_exact_limit(sampler, limit):
    assert sampler.exact_limit(None) == limit
    assert settings.common_limit({1: sampler}, None) == settings.common_limit({1: sampler, 2: limit}, None) == limit
    target = amc.targets.BinaryMRF.random_triples(40, scale=0.1, random_seed=0)  # of 9880 terms
    assert settings.reads_all(limit, target)
    assert not settings.reads_all(sampler, target)


def test_samplers_without_an_exact_limit_or_with_two():
    warm = amc.MetropolisHastings(WALK, amc.acceptance.MinibatchBarker(temperature=2.0))
    with pytest.raises(IncompatibleError, match="use temperature 1"):
        warm.exact_limit(None)
    with pytest.raises(IncompatibleError, match="no exact twin of NoisyLangevin"):
        amc.samplers.NoisyLangevin(0.1).exact_limit(None)
    one, other = (amc.MetropolisHastings(amc.RandomWalk(scale), SEQUENTIAL) for scale in (0.1, 0.2))
    with pytest.raises(IncompatibleError, match="must approximate the same exact chain"):
        settings.common_limit({1: one, 2: one, 3: other}, None)
    assert not settings.reads_all(amc.Exchange(WALK), None)


@pytest.mark.parametrize("sampler", [amc.MetropolisHastings(WALK, SEQUENTIAL), amc.Gibbs(SEQUENTIAL)])
def test_one_sampler_at_several_epsilons(sampler):
    found = settings.settings_of(sampler, [0.0, 0.3])
    assert list(found) == [0.0, 0.3]
    for epsilon, each in found.items():
        assert each == dataclasses.replace(sampler, test=amc.SequentialTTest(epsilon, 20))
    for none in (None, []):
        with pytest.raises(InvalidInputError, match="at least one epsilon"):
            settings.settings_of(sampler, none)


@pytest.mark.parametrize(
    "sampler",
    [amc.MetropolisHastings(WALK, amc.ExactTest()), amc.Gibbs(), amc.samplers.NoisyLangevin(0.1), amc.Exchange(WALK)],
)
def test_what_has_no_epsilon_says_how_another_knob_is_given(sampler):
    with pytest.raises(IncompatibleError, match="Another knob needs a dict"):
        settings.settings_of(sampler, [0.1])


def test_samplers_by_the_value_of_a_knob():
    samplers = {10: amc.Gibbs(), 2.5: amc.Gibbs()}
    assert settings.settings_of(samplers, None) == samplers
    for key in ("a", True, math.inf, math.nan):
        with pytest.raises(InvalidInputError, match=f"finite numbers; found {key!r}"):
            settings.settings_of({7: amc.Gibbs(), key: amc.Gibbs()}, None)
    with pytest.raises(InvalidInputError, match="leave `epsilons` out"):
        settings.settings_of(samplers, [])
