"""Parts of the theory of exchange samplers, number by number, where enumeration by hand is short."""

import itertools
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds import noisy_langevin
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.auxiliary_variable import distribution as exchange
from approxmcmc.samplers.auxiliary_variable.distribution import acceptance_of_exchange, expected_minima, lattice_error
from approxmcmc.samplers.counted_model import CountedModel, counted_model
from approxmcmc.targets.ising import exact as exact_lattice

SPINS = np.array([[1, -1, 1], [1, 1, 1]])


def ising(spins=SPINS, **prior):
    return amc.targets.Ising(spins, **(prior or {"prior_bounds": (-0.5, 0.7)}))


def statistic(spins):
    """Return the sum over pairs of neighbours of their products."""
    return float((spins[1:] * spins[:-1]).sum() + (spins[:, 1:] * spins[:, :-1]).sum())


# --- data sets by the value of their statistic ---


def test_all_data_sets_are_counted_by_their_statistic(monkeypatch):
    """The 64 configurations of 2 x 3 spins; the table holds exactly the values that occur."""
    every = [statistic(np.array(signs).reshape(2, 3)) for signs in itertools.product((-1, 1), repeat=6)]
    values, counts = np.unique(every, return_counts=True)
    found, log_counts = ising().statistic_counts()
    order = np.argsort(found[:, 0])
    np.testing.assert_array_equal(found[order, 0], values)
    np.testing.assert_allclose(np.exp(log_counts[order]), counts, rtol=1e-12)
    monkeypatch.setattr(exact_lattice, "WIDEST_COUNTS", 2)  # of the shorter side
    assert len(ising().statistic_counts()[0]) == len(values)
    for other in (ising(np.ones((3, 3), dtype=int)), amc.targets.alarm_network()):
        with pytest.raises(IncompatibleError, match="Ising lattices with a shorter side of at most 12"):
            counted_model(other, np.zeros((2, 1)))


def two_parameters():
    """Return a model with two statistics, six kinds of data sets and a prior, at four points; one is impossible."""
    rng = np.random.default_rng(5)
    log_prior = np.array([0.0, -0.4, -math.inf, 0.3])
    return CountedModel(
        rng.normal(size=(4, 2)), log_prior, np.array([1.0, -1.0]), rng.normal(size=(6, 2)), rng.normal(size=6)
    )


def law_by_hand(model):
    weights = np.array([[math.exp(p @ s + c) for s, c in zip(*model[3:], strict=True)] for p in model.points])
    return weights / weights.sum(axis=1, keepdims=True), np.log(weights.sum(axis=1))


def test_the_law_of_two_statistics_and_the_density():
    model = two_parameters()
    law, log_z = law_by_hand(model)
    found = model.law_of_statistics()
    np.testing.assert_allclose(found[0], law, rtol=1e-12)
    np.testing.assert_allclose(found[1], log_z, rtol=1e-12)
    density = [p @ model.observed + prior - z for p, prior, z in zip(model.points, model.log_prior, log_z, strict=True)]
    np.testing.assert_allclose(model.log_density(), density, rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, math.inf])
@pytest.mark.parametrize("at_once", [512, 2])
def test_acceptance_against_all_draws(count, at_once, monkeypatch):
    """Every tuple of auxiliary data; pairs that are not requested, and impossible ones, stay 0."""
    monkeypatch.setattr(exchange, "PAIRS_AT_ONCE", at_once)
    model = two_parameters()
    law, _ = law_by_hand(model)
    density = model.log_density()
    wanted = np.ones((4, 4), dtype=bool)
    wanted[3, 0] = False
    exact = np.zeros((4, 4))
    for i, j in itertools.permutations((0, 1, 3), 2):
        if not wanted[i, j]:
            continue
        if math.isinf(count):
            exact[i, j] = min(1.0, math.exp(density[j] - density[i]))
            continue
        step = model.points[j] - model.points[i]
        fixed = math.exp(step @ model.observed + model.log_prior[j] - model.log_prior[i])
        for drawn in itertools.product(range(6), repeat=count):
            a_hat = fixed * np.mean([math.exp(-step @ model.statistics[k]) for k in drawn])
            exact[i, j] += math.prod(law[j, k] for k in drawn) * min(1.0, a_hat)
    found = acceptance_of_exchange(model, count, wanted)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12 if count != 3 else 1e-6)
    everything = acceptance_of_exchange(model, count)
    assert everything[3, 0] > 0.0 and not everything[2].any() and not everything[:, 2].any()
    np.testing.assert_array_equal(np.where(wanted, everything, 0.0), found)
    if not math.isinf(count):
        minima = expected_minima(model, count, wanted)
        np.testing.assert_allclose(minima.accepted, exact, rtol=1e-12, atol=1e-12 if count != 3 else 1e-6)
        inside = exact > 0.0
        ratio = [density[j] - density[i] for i, j in zip(*np.nonzero(inside), strict=True)]
        np.testing.assert_allclose(minima.log_a[inside], ratio, rtol=1e-12)
        assert not any(each[~inside].any() for each in minima)


def test_draws_on_the_lattice_have_the_law_of_their_capped_sum(monkeypatch):
    """Values at multiples of 1/8 are split between no neighbours: the law is that of all tuples."""
    monkeypatch.setattr(exchange, "LATTICE", 8)
    values = np.array([[0.0, 0.125, 0.5], [0.0, 0.375, 1.0]])
    law = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]])
    for count in (3, 4, 5, 6):
        points, found = exchange._law_of_capped_sum(values, law, count)
        exact = np.zeros((2, 9))
        for row, drawn in itertools.product(range(2), itertools.product(range(3), repeat=count)):
            place = round(8 * min(1.0, values[row, list(drawn)].sum()))
            exact[row, place] += math.prod(law[row, k] for k in drawn)
        np.testing.assert_array_equal(points, [np.arange(9) / 8])
        np.testing.assert_allclose(found, exact, atol=1e-14)
        assert (found >= 0.0).all()
        np.testing.assert_allclose(exchange._mean_of_capped_sum(values, law, count), exact @ np.arange(9) / 8)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("p", [0.5, 0.1])
def test_draws_that_are_all_or_nothing(count, p):
    """From 0 to 1/2 a draw says e^20 with chance p, else e^-20, and the ratio is p e^20: nothing else is lost."""
    log_counts = np.array([20.0 + math.log(p), -20.0 + math.log(1.0 - p)])
    model = CountedModel(np.array([[0.0], [0.5]]), np.zeros(2), np.zeros(1), np.array([[-40.0], [40.0]]), log_counts)
    chances = [math.comb(count, k) * p**k * (1.0 - p) ** (count - k) for k in range(count + 1)]
    found = expected_minima(model, count, np.ones((2, 2), dtype=bool))
    assert found.log_a[0, 1] == pytest.approx(20.0 + math.log(p), rel=1e-12)
    below = sum(chance * min(1.0, k / (p * count)) for k, chance in enumerate(chances))
    scaled = found.below_a[0, 1] / (p * math.exp(20.0))
    assert scaled == pytest.approx(below, abs=max(1e-12, lattice_error(count)))
    for accepted in (found.accepted, found.both_accept, acceptance_of_exchange(model, count)):
        assert accepted[0, 1] == pytest.approx(1.0 - chances[0], abs=1e-7)


def test_one_or_two_draws_need_no_lattice(monkeypatch):
    monkeypatch.setattr(exchange, "LATTICE", 4)
    values, law = np.array([[0.1, 0.55, 0.93]]), np.array([[0.3, 0.5, 0.2]])
    for count in (1, 2):
        points, found = exchange._law_of_capped_sum(values, law, count)
        for most in (1.0, 0.6):
            exact = sum(
                math.prod(law[0, k] for k in drawn) * min(most, sum(values[0, k] for k in drawn))
                for drawn in itertools.product(range(3), repeat=count)
            )
            assert (found * np.minimum(points, most)).sum() == pytest.approx(exact, rel=1e-12)


def test_a_value_between_two_points_of_the_lattice_keeps_its_mean(monkeypatch):
    monkeypatch.setattr(exchange, "LATTICE", 4)
    points, found = exchange._law_of_capped_sum(np.array([[0.05]]), np.array([[1.0]]), 3)
    np.testing.assert_allclose(found[0], [0.8**3, 3 * 0.8**2 * 0.2, 3 * 0.8 * 0.04, 0.2**3, 0.0], atol=1e-15)
    assert points[0] @ found[0] == pytest.approx(0.15)


def test_what_the_lattice_loses_and_how_a_matrix_is_made():
    points, walk = np.array([[-0.3], [0.0], [0.4]]), amc.RandomWalk(0.4)
    for count, method in ((1, "enumerate"), (2, "enumerate"), (3, "lattice"), (math.inf, "closed form")):
        loss = math.sqrt(count) / (4 * 2048) if method == "lattice" else 0.0
        assert lattice_error(count) == loss
        exact = amc.MetropolisHastings(walk, amc.ExactTest())
        matrix = (exact if math.isinf(count) else amc.Exchange(walk, count)).transition_matrix(ising(), points)
        assert matrix.method == method and matrix.error == loss
        found = np.nan_to_num(matrix.decision)
        density = [p * statistic(SPINS) - ising().log_normalizer(p) for p in points[:, 0]]
        if math.isinf(count):
            exact = np.exp(np.minimum(np.subtract.outer(density, density).T, 0.0)) * (1 - np.eye(3))
            np.testing.assert_allclose(found, exact, rtol=1e-10)
        else:
            assert (found.diagonal() == 0.0).all() and (found + np.eye(3) > 0.0).all()


def test_auxiliary_data_must_be_exact_draws():
    walk = amc.RandomWalk(0.3)
    for auxiliary in ("auto", "exact"):
        exchange.refuse_inexact_draws(amc.Exchange(walk, auxiliary=auxiliary))
    with pytest.raises(IncompatibleError, match="must be exact"):
        exchange.refuse_inexact_draws(amc.Exchange(walk, auxiliary=amc.targets.AuxiliaryChain(10, "observed")))


# --- noisy exchange ---

POINTS = np.linspace(-0.5, 0.7, 5)


@pytest.mark.parametrize("count", [1, 2])
def test_every_loss_of_noisy_exchange_against_all_draws(count):
    """The distance of a step, how often decisions differ, E|a^ - a| and sd(a^), summed over the proposal."""
    target, sampler = ising(), amc.Exchange(amc.RandomWalk(0.4), count)
    found = bounds.noisy_exchange_errors(target, sampler, POINTS)
    model = counted_model(target, POINTS[:, None])
    law, _ = law_by_hand(model)
    density = model.log_density()
    h = np.exp(-0.5 * np.subtract.outer(POINTS, POINTS) ** 2 / 0.16)
    h /= h.sum(axis=1).max()
    wanted = {name: np.zeros(5) for name in ("delta", "mean_flip", "mean_error", "lemma_3_1")}
    for i, j in itertools.permutations(range(5), 2):
        a, step = math.exp(density[j] - density[i]), POINTS[j] - POINTS[i]
        losses = dict.fromkeys(wanted, 0.0)
        for drawn in itertools.product(range(len(model.statistics)), repeat=count):
            chance = math.prod(law[j, k] for k in drawn)
            a_hat = np.mean([math.exp(step * (model.observed[0] - model.statistics[k, 0])) for k in drawn])
            losses["delta"] += chance * (min(1.0, a_hat) - min(1.0, a))
            losses["mean_flip"] += chance * abs(min(1.0, a_hat) - min(1.0, a))
            losses["mean_error"] += chance * abs(a_hat - a)
            losses["lemma_3_1"] += chance * (a_hat - a) ** 2
        losses["lemma_3_1"] = math.sqrt(losses["lemma_3_1"])
        for name, loss in losses.items():
            wanted[name][i] += h[i, j] * abs(loss)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, err_msg=name)
        assert found[name].attrs["label"] == "rigorous"
    assert found.attrs == {"lattice_error": 0.0, "n_auxiliary": count}
    T = bounds.transition_matrix(target, amc.MetropolisHastings(amc.RandomWalk(0.4), amc.ExactTest()), POINTS)
    factor = float(bounds.exact(T, 0.5 * T.to_numpy() + 0.1)["b5"]) / float(
        bounds.exact(T, 0.5 * T.to_numpy() + 0.1)["delta"]
    )
    assert float(found["factor"]) == pytest.approx(factor, rel=1e-9)
    assert float(found["theorem_bound"]) == pytest.approx(factor * wanted["lemma_3_1"].max(), rel=1e-9)
    given = bounds.noisy_exchange_errors(target, sampler, POINTS, constants=(2.0, 0.8))
    assert float(given["factor"]) == bounds.mitrophanov_factor(2.0, 0.8)
    labels = [(each["corollary_2_3"].attrs["label"], each["theorem_bound"].attrs["label"]) for each in (found, given)]
    assert labels == [("rigorous", "rigorous"), ("heuristic", "heuristic")]


def test_from_three_draws_on_a_bound_is_one_sided_unless_it_needs_no_lattice():
    found = bounds.noisy_exchange_errors(ising(), amc.Exchange(amc.RandomWalk(0.4), 3), POINTS)
    labels = {name: values.attrs.get("label") for name, values in found.data_vars.items()}
    assert {name for name, label in labels.items() if label == "one-sided"} == {
        "delta", "mean_flip", "mean_error", "corollary_2_3",
    }  # fmt: skip
    assert labels["lemma_3_1"] == labels["theorem_bound"] == "rigorous"
    assert found.attrs["lattice_error"] == math.sqrt(3) / 8192


SMALL = {"largest_theta": 0.3, "largest_statistic": 4.0, "volume": 0.6, "prior_constant": 1.5, "proposal_constant": 2.0}


def test_the_constants_of_theorem_3_2_by_hand():
    found = bounds.uniform_exchange_bound(9, **SMALL)
    kappa = math.exp(1.2)
    gap, one_step = 0.6 / (1.5**2 * 2.0**3 * kappa**4), 1.5**2 * 2.0**2 * kappa**4 / 3.0
    assert found.log_gap == pytest.approx(math.log(gap), rel=1e-12)
    assert found.log_one_step == pytest.approx(math.log(one_step), rel=1e-12)
    factor = bounds.mitrophanov_factor(2.0, 1.0 - gap)
    assert found.log_bound == pytest.approx(math.log(factor * one_step), rel=1e-12)
    far = bounds.uniform_exchange_bound(1, **SMALL | {"largest_theta": 30.0})
    assert far.log_bound == pytest.approx(math.log(1.0 + math.log(2.0)) - far.log_gap + far.log_one_step, rel=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_auxiliary": 0},
        {"largest_theta": -0.1},
        {"volume": 0.0},
        {"volume": -1.0},
        {"prior_constant": 0.9},
        {"proposal_constant": 0.9},
    ],
)
def test_constants_of_theorem_3_2_that_are_none(wrong):
    least = {"n_auxiliary": 1} | SMALL | {"prior_constant": 1.0, "proposal_constant": 1.0}
    assert bounds.uniform_exchange_bound(**least).log_gap < 0.0
    with pytest.raises(InvalidInputError, match="constants >= 1; found"):
        bounds.uniform_exchange_bound(**least | wrong)


def test_a_set_may_not_be_larger_than_its_densities_allow():
    densities = {"largest_theta": 0.0, "largest_statistic": 4.0, "prior_constant": 1.0, "proposal_constant": 1.0}
    assert bounds.uniform_exchange_bound(1, volume=1.0, **densities).log_gap == 0.0
    with pytest.raises(InvalidInputError, match=r"volume=1\.5 is impossible"):
        bounds.uniform_exchange_bound(1, volume=1.5, **densities)
    with pytest.raises(InvalidInputError, match=r"volume=1\.5 is impossible"):  # also where the bound would be defined
        bounds.uniform_exchange_bound(1, volume=1.5, **densities | {"prior_constant": 2.0})


def test_points_that_are_never_proposed_count_for_nothing():
    """From -99 to 99 is farther than a double can say, and so is the ratio."""
    far = ising(prior_bounds=(-100.0, 100.0))
    found = bounds.noisy_exchange_errors(
        far, amc.Exchange(amc.RandomWalk(0.5)), [-99.0, 0.0, 99.0], constants=(2.0, 0.5)
    )
    for name in ("delta", "mean_flip", "mean_error", "lemma_3_1"):
        assert (found[name] == 0.0).all()


# --- when two chains differ ---


def test_the_first_difference_is_followed_so_many_steps_and_has_a_posterior():
    found = bounds.first_difference(ising(), amc.Exchange(amc.RandomWalk(0.4), 2), POINTS)
    assert found.sizes["step"] == 201 and found["step"].values[[0, -1]].tolist() == [0, 200]
    density = np.array([p * statistic(SPINS) - ising().log_normalizer(p) for p in POINTS])
    np.testing.assert_allclose(found["law"], np.exp(density) / np.exp(density).sum(), rtol=1e-10)
    np.testing.assert_allclose(found["lower_bound"], (1.0 - float(found["flip"].max())) ** np.arange(201), rtol=1e-12)
    assert (found["survival"].isel(step=0) == 1.0).all()
    np.testing.assert_allclose(found["survival"].isel(step=1), 1.0 - found["flip"], rtol=1e-12)
    assert found.attrs == {"label": "rigorous", "acceptance_error": 0.0}
    lattice = bounds.first_difference(ising(), amc.Exchange(amc.RandomWalk(0.4), 3), POINTS, n_steps=1)
    assert lattice.attrs == {"label": "heuristic", "acceptance_error": math.sqrt(3) / 8192}
    assert lattice.sizes["step"] == 2
    with pytest.raises(InvalidInputError, match="n_steps"):
        bounds.first_difference(ising(), amc.Exchange(amc.RandomWalk(0.4), 3), POINTS, n_steps=0)


def test_a_posterior_far_out_in_its_prior_is_normalised():
    """Forty standard deviations away the density is e^-800."""
    grid = 0.4 + np.array([0.0, 0.001, 0.002])
    found = bounds.first_difference(ising(prior_scale=0.01), amc.Exchange(amc.RandomWalk(0.001)), grid, n_steps=1)
    density = np.array([p * statistic(SPINS) - ising().log_normalizer(p) - 0.5 * (p / 0.01) ** 2 for p in grid])
    law = np.exp(density - density[0])
    np.testing.assert_allclose(found["law"], law / law.sum(), rtol=1e-9)


# --- noisy Langevin ---


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_mean_of_draws_has_the_law_of_all_tuples(count):
    model = counted_model(ising(), np.array([[-0.2], [0.3]]))
    law, _ = law_by_hand(model)
    values, found = noisy_langevin.law_of_the_mean(model, count)
    exact = np.zeros(found.shape)
    for drawn in itertools.product(range(len(model.statistics)), repeat=count):
        place = np.argmin(np.abs(values - model.statistics[list(drawn), 0].mean()))
        assert values[place] == pytest.approx(model.statistics[list(drawn), 0].mean(), abs=1e-12)
        exact[:, place] += law[:, list(drawn)].prod(axis=1)
    np.testing.assert_allclose(found, exact, atol=1e-14)
    mean, one = noisy_langevin.law_of_the_mean(model, math.inf)
    np.testing.assert_allclose(mean[:, 0], law @ model.statistics[:, 0], rtol=1e-12)
    assert (one == 1.0).all() and one.shape == (2, 1)


def test_values_that_are_threes_apart_are_convolved_on_their_own_lattice():
    """s = -2, 1, 7: spacing 3, and the values between them, which do not occur, have probability 0."""
    model = CountedModel(np.zeros((1, 1)), np.zeros(1), np.zeros(1), np.array([[1.0], [-2.0], [7.0]]), np.zeros(3))
    values, law = noisy_langevin.law_of_the_mean(model, 1)
    assert values.tolist() == [-2.0, 1.0, 4.0, 7.0]
    np.testing.assert_allclose(law, [[1 / 3, 1 / 3, 0.0, 1 / 3]])
    values, law = noisy_langevin.law_of_the_mean(model, 2)
    assert values.tolist() == [-2.0, -0.5, 1.0, 2.5, 4.0, 5.5, 7.0]
    np.testing.assert_allclose(law, [np.array([1, 2, 1, 2, 2, 0, 1]) / 9])


def phi(z):
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


@pytest.mark.parametrize("shift", [0.02, 0.7, 3.0, 25.0])
def test_two_normal_laws_are_as_far_apart_as_their_formula_says(shift):
    """d_v(N(m, 1), N(0, 1)) = 2 Phi(|m| / 2) - 1; a mean far away lies inside the integral too."""
    found = noisy_langevin._distance_of_mixtures(np.array([[shift], [-shift]]), np.ones((2, 1)))
    np.testing.assert_allclose(found, 2.0 * phi(shift / 2.0) - 1.0, rtol=2e-4)


def test_a_mixture_of_far_modes_is_their_mean_distance():
    """Three means 20 apart, one at 0: what is not there is missing; a weight of 1e-16 is left out."""
    shifts, law = np.array([[-20.0, 0.0, 20.0, 1e9]]), np.array([[0.2, 0.5, 0.3, 1e-16]])
    assert noisy_langevin._distance_of_mixtures(shifts, law)[0] == pytest.approx(0.5, rel=1e-6)


def normal_ising():
    return ising(prior_scale=2.0)


@pytest.mark.parametrize("sampler", [(0.3, None), (0.15, [[2.0]])])
def test_bounds_of_a_langevin_step_by_hand(sampler):
    """The variance of a step is its size times the covariance; two draws, moments over all pairs of values."""
    size, cov = sampler
    found = bounds.noisy_langevin_errors(normal_ising(), amc.samplers.NoisyLangevin(size, 2, cov=cov), POINTS)
    model = counted_model(normal_ising(), POINTS[:, None])
    law, _ = law_by_hand(model)
    s = model.statistics[:, 0]
    pairs = np.add.outer(s, s) / 2.0
    assert found.attrs == {"variance": pytest.approx(0.3), "largest_statistic": 7.0}
    for row, chance in enumerate(law):
        V = math.sqrt(0.3) * np.abs(pairs - chance @ s)
        weight = np.outer(chance, chance)
        assert float(found["pinsker"][row]) == pytest.approx(0.25 * (weight * V).sum(), rel=1e-10)
        chi = (weight * np.expm1(V**2 / 4.0)).sum()
        assert float(found["lemma_2_4"][row]) == pytest.approx(math.sqrt(chi / 2.0), rel=1e-10)
    assert math.isnan(found["lemma_3_3"])  # two draws are too few for it
    many = bounds.noisy_langevin_errors(normal_ising(), amc.samplers.NoisyLangevin(0.3, 40), POINTS)
    assert float(many["lemma_3_3"]) == bounds.hoeffding_langevin_bound(40, 0.3, 7.0)
    assert [many[name].attrs["label"] for name in ("delta", "pinsker", "lemma_2_4")] == ["rigorous"] * 3


@pytest.mark.parametrize(("n", "variance", "S", "dim"), [(10, 0.1, 3.0, 1), (10, 0.1, 3.0, 2), (1, 1.0, 1.0, 1)])
def test_lemma_3_3_by_its_formula(n, variance, S, dim):
    share = dim * variance * S**2 / (2.0 * n)
    wanted = math.sqrt(((1.0 - share) ** -0.5 - 1.0) / 2.0)
    assert bounds.hoeffding_langevin_bound(n, variance, S, dim=dim) == pytest.approx(wanted, rel=1e-10)
    if dim == 1:
        assert bounds.hoeffding_langevin_bound(n, variance, S) == pytest.approx(wanted, rel=1e-10)
    assert math.isnan(bounds.hoeffding_langevin_bound(n, variance / share, S, dim=dim))  # a share of 1


@pytest.mark.parametrize("wrong", [{"n": 0}, {"variance": 0.0}, {"S": 0.0}, {"S": -1.0}, {"dim": 0}])
def test_lemma_3_3_is_about_positive_numbers(wrong):
    given = {"n": 1, "variance": 0.1, "S": 1.0, "dim": 1} | wrong
    with pytest.raises(InvalidInputError, match="dim >= 1, variance > 0"):
        bounds.hoeffding_langevin_bound(given["n"], given["variance"], given["S"], dim=given["dim"])


@pytest.mark.parametrize(
    ("variance", "prior_scale", "rate"), [(0.5, 2.0, 0.9375), (8.0, 2.0, 0.0), (12.0, 2.0, 0.5), (0.25, 0.5, 0.5)]
)
def test_the_drift_of_theorem_3_4_by_hand(variance, prior_scale, rate):
    """r = |1 - Sigma / (2 v)| with v the variance of the prior, L = 1 - r + Sigma S + sqrt(2 Sigma / pi)."""
    found = bounds.langevin_drift(variance, prior_scale, 7.0)
    assert found.rate == pytest.approx(rate)
    assert found.constant == pytest.approx(1.0 - rate + 7.0 * variance + math.sqrt(2.0 * variance / math.pi))
    less = bounds.langevin_drift(variance, prior_scale, 0.0)
    assert less.constant == pytest.approx(found.constant - 7.0 * variance)


@pytest.mark.parametrize(
    "wrong", [(16.0, 2.0, 7.0), (0.0, 2.0, 7.0), (-1.0, 2.0, 7.0), (0.5, 2.0, -1.0), (0.5, 0.0, 7.0), (0.5, -2.0, 7.0)]
)
def test_a_drift_needs_short_steps_and_a_normal_prior(wrong):
    with pytest.raises(InvalidInputError, match="0 < variance < 4 prior_scale"):
        bounds.langevin_drift(*wrong)


@pytest.mark.parametrize("count", [2, math.inf])
def test_a_matrix_of_langevin_is_a_mixture_of_normal_laws(count):
    grid = np.linspace(-3.0, 3.0, 13)
    ideal = math.isinf(count)
    found = bounds.langevin_matrix(
        normal_ising(), amc.samplers.NoisyLangevin(0.4, 2), grid, **({"ideal": True} if ideal else {})
    )
    model = counted_model(normal_ising(), grid[:, None])
    law, _ = law_by_hand(model)
    s = model.statistics[:, 0]
    for row, theta in enumerate(grid):
        wanted = np.zeros(13)
        for (a, p), (b, q) in itertools.product(zip(s, law[row], strict=True), repeat=2):
            mean = law[row] @ s if ideal else 0.5 * (a + b)
            centre = theta + 0.2 * (statistic(SPINS) - mean - theta / 4.0)
            wanted += p * q * np.exp(-((grid - centre) ** 2) / 0.8)
        np.testing.assert_allclose(found[row], wanted / wanted.sum(), rtol=1e-9, atol=1e-15)
