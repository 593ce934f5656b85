"""Importance sampling: weights, diagnostics, the Chatterjee-Diaconis bound, and what is refused."""

import time
import types
import warnings

import numpy as np
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError, SamplingWarning
from tests.models import normal_mean


def shift(m: float, draws: int, seed: int = 1):
    """Return draws of N(0, 1) weighted to N(m, 1)."""
    return amc.importance_sampling(stats.norm(m, 1.0), stats.norm(0.0, 1.0), draws, random_seed=seed)


def test_weights_are_target_over_proposal():
    trace = shift(1.0, 200)
    x, log_weight = trace.posterior["x"].to_numpy(), trace.sample_stats["log_weight"].to_numpy()
    np.testing.assert_allclose(log_weight, x - 0.5, atol=1e-12)
    weight = trace.sample_stats["weight"].to_numpy()
    np.testing.assert_allclose(weight, np.exp(log_weight) / np.exp(log_weight).sum(), rtol=1e-12)
    assert x.shape == (1, 200) and (trace.sample_stats["likelihood_evaluations"] == 1).all()


def test_seconds_are_those_of_the_call():
    started = time.perf_counter()
    trace = shift(1.0, 200)
    seconds = trace.sample_stats["perf_counter_diff"].values.sum()
    assert 0.0 < seconds < time.perf_counter() - started
    assert trace.posterior.attrs["sampling_time"] == pytest.approx(seconds)
    assert (trace.posterior.attrs["tuning_steps"], trace.posterior.attrs["thin"]) == (0, 1)


def test_diagnostics_of_the_gaussian_shift():
    # Population values: ESS/n = exp(-1), KL = 1/2, log Z = 0. Standard errors by 400 replications of 20000 draws: 0.008
    # (ESS/n), 0.012 (KL), 0.0093 (log Z); five of them fail with probability below 1e-5 together.
    found = shift(1.0, 20_000).posterior.attrs
    assert found["ess"] / 20_000 == pytest.approx(0.367879, abs=0.04)
    assert found["kl"] == pytest.approx(0.5, abs=0.06)
    assert found["log_normalizer"] == pytest.approx(0.0, abs=0.047)
    assert found["pareto_k"] < 0.7


def test_estimates_cover_the_truth():
    estimates = amc.diagnostics.importance_estimates(shift(1.0, 20_000))["x"]
    assert abs(estimates.sel(moment="mean") - 1.0) < 5 * estimates.sel(moment="mcse")
    assert float(estimates.sel(moment="mcse")) == pytest.approx(np.sqrt(np.e * 2.0 / 20_000), rel=0.15)


def test_unweighted_means_are_those_of_the_proposal():
    assert abs(float(shift(1.0, 20_000).posterior["x"].mean())) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("m", "t", "n", "bound"), [(1, 4, 90.0, 0.669542), (1, 8, 4914.8, 0.146591), (2, 8, 22026.5, 0.436998)]
)
def test_bound_of_the_gaussian_shift(m, t, n, bound):
    kl = m**2 / 2
    found = amc.diagnostics.chatterjee_diaconis_bound(np.exp(kl + t), kl=kl, tail=stats.norm(kl, m).sf)
    assert float(found["n_draws"]) == pytest.approx(n, abs=0.05)
    assert float(found["error_bound"]) == pytest.approx(bound, abs=5e-7)
    assert float(found["t"]) == pytest.approx(t) and np.isnan(found["mass_bound"])
    assert found.attrs["needed"] == pytest.approx(np.exp(kl))


def test_bounds_are_reported_unclipped_and_on_both_sides():
    found = amc.diagnostics.chatterjee_diaconis_bound([1.0, 8.0, 1e4], kl=2.0, tail=stats.norm(2.0, 2.0).sf, delta=0.5)
    assert found["error_bound"].values[1] > 1.0  # just enough draws: the bound says nothing, and is shown
    assert np.isnan(found["error_bound"].values[0]) and np.isnan(found["mass_bound"].values[2])
    by_hand = np.exp(-1.0) + stats.norm(2.0, 2.0).cdf(1.0) / 0.5  # t = 2 short: n = e^(2 - 2)
    assert found["mass_bound"].values[0] == pytest.approx(by_hand)


@pytest.mark.parametrize(("m", "t", "error", "risk"), [(1, 8, 1.2408, 0.7657), (1, 16, 0.31300, 0.27067)])
def test_theorem_1_2_is_about_the_self_normalised_average(m, t, error, risk):
    kl = m**2 / 2
    found = amc.diagnostics.chatterjee_diaconis_bound(np.exp(kl + t), kl=kl, tail=stats.norm(kl, m).sf)
    eps = np.sqrt(float(found["error_bound"]))
    assert float(found["self_normalised_error"]) == pytest.approx(2 * eps / (1 - eps), rel=1e-12)
    assert float(found["self_normalised_risk"]) == pytest.approx(2 * eps, rel=1e-12)
    assert float(found["self_normalised_error"]) == pytest.approx(error, abs=5e-5)
    assert float(found["self_normalised_risk"]) == pytest.approx(risk, abs=5e-5)


def law_of_average(mu, nu, f, n):
    """Return values and probabilities of the self-normalised average of n draws, over all counts of the states."""
    from scipy.special import gammaln

    counts = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)], dtype=float)
    log_p = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1) + counts @ np.log(mu)
    weights = counts * (nu / mu)
    return weights @ f / weights.sum(axis=1), np.exp(log_p)


@pytest.mark.parametrize("n", [8, 300])
def test_theorem_1_2_holds_by_enumeration(n):
    """Three states: every count of n draws. It is loose; a root forgotten in it is seen by the digits above."""
    mu, nu, f = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4]), np.array([0.0, 0.0, 1.0])
    log_rho = np.log(nu / mu)
    kl, norm = float(nu @ log_rho), np.sqrt(float(nu @ f**2))
    found = amc.diagnostics.chatterjee_diaconis_bound(float(n), kl=kl, tail=lambda s: float(nu[log_rho > s].sum()))
    J, chance = law_of_average(mu, nu, f, n)
    assert chance.sum() == pytest.approx(1.0, abs=1e-9)
    miss = np.abs(J - nu @ f)
    assert chance[miss >= norm * float(found["self_normalised_error"])].sum() <= float(found["self_normalised_risk"])
    assert (float(found["self_normalised_risk"]) < 1.0) == (n == 300)  # no empty statement
    assert chance[miss > 0.0].sum() > 0.9


def test_too_few_draws_see_a_set_of_small_probability():
    """The converse of theorem 1.2: nu = N(6, 1) from N(0, 1), e^(18 - 12) draws; f = 1 on log rho <= L - t/2."""
    m, t = 6.0, 12.0
    kl = m**2 / 2
    found = amc.diagnostics.chatterjee_diaconis_bound(np.exp(kl - t), kl=kl, tail=stats.norm(kl, m).sf)
    assert float(found["blind_mass"]) == pytest.approx(stats.norm.cdf(-1.0), abs=1e-12)
    assert float(found["blind_risk"]) == pytest.approx(np.exp(-6.0), rel=1e-12)
    # exactly: a draw x has log rho = m x - m^2 / 2, so that J_n = 1 unless some x > (L - t/2 + m^2 / 2) / m
    missed = -np.expm1(np.exp(kl - t) * stats.norm.logcdf((kl - t / 2 + m**2 / 2) / m))
    assert 0.0 < missed <= float(found["blind_risk"])
    assert np.isnan(found["self_normalised_error"]) and np.isnan(found["error_bound"])


def test_bound_estimated_from_weights():
    log_weights = shift(1.0, 20_000).sample_stats["log_weight"].to_numpy() + 3.0  # an unknown constant
    known = amc.diagnostics.chatterjee_diaconis_bound(100.0, kl=0.5, tail=stats.norm(0.5, 1.0).sf)
    found = amc.diagnostics.chatterjee_diaconis_bound(100.0, log_weights=log_weights)
    assert float(found["error_bound"]) == pytest.approx(float(known["error_bound"]), rel=0.1)
    assert found.attrs["estimated"] == 1


def test_diagnostics_without_spread():
    found = amc.diagnostics.importance_diagnostics(np.full(100, -7.0))
    assert found["ess"] == pytest.approx(100.0) and found["kl"] == pytest.approx(0.0, abs=1e-12)
    assert found["log_normalizer"] == pytest.approx(-7.0) and np.isnan(found["pareto_k"])
    two_values = np.where(np.arange(1000) < 500, 0.0, -3.0)
    assert np.isnan(amc.diagnostics.importance_diagnostics(two_values)["pareto_k"])  # no tail to fit


def test_few_different_weights_have_no_tail(rng):
    """As over discrete states: ArviZ fits -4.4 to these."""
    weights = np.where(rng.random(2000) < 0.05, -0.46, -7.6) - (rng.random(2000) < 0.001)
    assert np.isnan(amc.diagnostics.importance_diagnostics(weights)["pareto_k"])


def test_pareto_k_of_pareto_weights(rng):
    # w = U^-k has tail index k. 950 tail draws fit it with standard error 0.05; a turned sign would give about -1.
    found = amc.diagnostics.importance_diagnostics(0.5 * rng.standard_exponential(100_000))
    assert found["pareto_k"] == pytest.approx(0.5, abs=0.25)


def test_a_light_tailed_proposal_is_warned_about():
    with pytest.warns(SamplingWarning, match="Pareto k"):  # w = x^-19 / 20 has k = 0.95; 1340 tail draws, error 0.05
        amc.importance_sampling(stats.uniform(0.0, 1.0), stats.beta(20, 1), 200_000, random_seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        amc.importance_sampling(stats.norm(0, 1), stats.t(3), 2000, random_seed=1)


def test_targets_of_the_library():
    target = normal_mean(n=10)
    (x,) = target.data
    mean, sd = (4.0 + x.sum()) / 14.0, np.sqrt(1.0 / 14.0)
    trace = amc.importance_sampling(target, stats.norm(mean, 1.5 * sd), 5000, random_seed=2)
    estimates = amc.diagnostics.importance_estimates(trace)["mu"]
    assert abs(estimates.sel(moment="mean") - mean) < 5 * estimates.sel(moment="mcse")
    assert (trace.sample_stats["likelihood_evaluations"] == 10).all()
    values = amc.diagnostics.importance_estimates(trace, {"square": lambda posterior: posterior["mu"] ** 2})["square"]
    assert abs(values.sel(moment="mean") - mean**2 - sd**2) < 5 * values.sel(moment="mcse")


def test_vectors():
    law = stats.multivariate_normal([1.0, -1.0], np.eye(2))
    trace = amc.importance_sampling(law, stats.multivariate_normal([0.0, 0.0], 2.0 * np.eye(2)), 5000, random_seed=1)
    estimates = amc.diagnostics.importance_estimates(trace)["x"]
    error = np.abs(estimates.sel(moment="mean") - [1.0, -1.0])
    assert (error < 5 * estimates.sel(moment="mcse")).all()


def test_likelihood_weighting_of_a_network():
    network = amc.targets.alarm_network(J=1)
    trace = amc.importance_sampling(network, network.ancestral(), 50_000, random_seed=1)
    estimates = amc.diagnostics.importance_estimates(trace)
    for name in ("B", "E", "A", "M"):
        exact = network.probability({name: 1})
        assert abs(estimates[name].sel(moment="mean") - exact) < 5 * estimates[name].sel(moment="mcse") + 1e-4
    assert trace.posterior.attrs["log_normalizer"] == pytest.approx(network.log_evidence(), abs=0.1)
    weight = np.exp(trace.sample_stats["log_weight"].to_numpy())
    np.testing.assert_allclose(weight, np.where(trace.posterior["A"] == 1, 0.9, 0.05), rtol=1e-12)


def test_seeds_repeat():
    assert shift(1.0, 50, seed=3).posterior.equals(shift(1.0, 50, seed=3).posterior)
    assert not shift(1.0, 50, seed=3).posterior.equals(shift(1.0, 50, seed=4).posterior)


def test_refusals():
    norm = stats.norm(0.0, 1.0)
    with pytest.raises(IncompatibleError, match="rvs"):
        amc.importance_sampling(norm, object(), 10)
    with pytest.raises(IncompatibleError, match="coordinates"):
        amc.importance_sampling(normal_mean(n=10), stats.multivariate_normal([0.0, 0.0]), 10)
    with pytest.raises(IncompatibleError, match="frozen scipy distribution"):
        amc.importance_sampling(3.0, norm, 10)
    with pytest.raises(InvalidInputError, match="draws"):
        amc.importance_sampling(norm, norm, 0)
    with pytest.raises(InvalidInputError, match="positive density"):
        amc.importance_sampling(stats.uniform(100.0, 1.0), norm, 10, random_seed=1)
    with pytest.raises(InvalidInputError, match="kl"):
        amc.diagnostics.chatterjee_diaconis_bound(10.0)
    with pytest.raises(InvalidInputError, match="log_weights"):
        amc.diagnostics.importance_diagnostics([np.nan, 1.0])


def test_an_improper_weight_is_an_error():
    class Holed:
        def rvs(self, size, random_state):
            return np.zeros(size)

        def logpdf(self, x):
            return np.full(len(x), -np.inf)

    with pytest.raises(NotFiniteError, match="log weight"):
        amc.importance_sampling(stats.norm(0.0, 1.0), Holed(), 5, random_seed=1)


NORMAL = stats.norm(0.0, 1.0)


def proposal(log_proposal):
    """Return a proposal that draws 0, 1, 2, ... with these log densities."""
    return types.SimpleNamespace(
        rvs=lambda size, random_state: np.arange(float(size)), logpdf=lambda x: np.array(log_proposal)
    )


def test_laws_of_discrete_numbers_have_a_logpmf():
    """Poisson(3) from Poisson(2): log w = x log(3 / 2) - 1."""
    trace = amc.importance_sampling(stats.poisson(3.0), stats.poisson(2.0), 40, random_seed=1)
    x = trace.posterior["x"].to_numpy()
    assert len(np.unique(x)) > 3
    np.testing.assert_allclose(trace.sample_stats["log_weight"], x * np.log(1.5) - 1.0, atol=1e-12)
    assert (trace.posterior.attrs["n_obs"], trace.posterior.attrs["stopped"]) == (1, "")


def test_a_target_need_not_be_able_to_draw():
    """And a law of numbers sees numbers, not vectors of one."""
    target = types.SimpleNamespace(logpdf=lambda x: -x * x.ndim)
    trace = amc.importance_sampling(target, proposal([0.0, -0.5, 1.0]), 3)
    np.testing.assert_array_equal(trace.sample_stats["log_weight"], [[0.0, -0.5, -3.0]])


def test_a_law_of_vectors_sees_vectors():
    target = types.SimpleNamespace(logpdf=lambda x: -x.sum(axis=1))
    trace = amc.importance_sampling(target, stats.multivariate_normal(np.zeros(3), np.eye(3)), 7, random_seed=1)
    x = trace.posterior["x"].to_numpy()
    assert x.shape == (1, 7, 3)
    expected = -x.sum(axis=2) + 0.5 * (x**2).sum(axis=2) + 1.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(trace.sample_stats["log_weight"], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("log_proposal", "said"),
    [
        ([0.0, -np.inf, -np.inf], r"the log weight of draw 1 is inf at x = \[1.\]"),
        ([0.0, 0.0, np.nan], r"the log weight of draw 2 is nan at x = \[2.\]"),
    ],
)
def test_the_first_draw_without_a_weight_is_named(log_proposal, said):
    with pytest.raises(NotFiniteError, match=said):
        amc.importance_sampling(NORMAL, proposal(log_proposal), 3)


def test_some_draws_may_have_no_density_under_the_target():
    trace = amc.importance_sampling(stats.uniform(0.5, 1.0), proposal([0.0, 0.0, 0.0]), 3)
    assert trace.sample_stats["weight"].to_numpy().tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("target", "of", "said"),
    [
        (NORMAL, types.SimpleNamespace(logpdf=abs), "the proposal needs rvs"),
        (NORMAL, types.SimpleNamespace(rvs=abs), "proposal must be a frozen scipy distribution; found"),
        (3.0, NORMAL, "target must be a frozen scipy distribution, or a target of the library; found 3.0"),
    ],
)
def test_what_is_no_law_is_refused(target, of, said):
    with pytest.raises(IncompatibleError, match=said):
        amc.importance_sampling(target, of, 3)


def test_weights_are_finite_where_densities_are_not_normalised():
    target = types.SimpleNamespace(logpdf=lambda x: 800.0 - x)
    weight = amc.importance_sampling(target, proposal([0.0, 0.0, 0.0]), 3).sample_stats["weight"].to_numpy()[0]
    np.testing.assert_allclose(weight, np.exp([0.0, -1.0, -2.0]) / np.exp([0.0, -1.0, -2.0]).sum(), rtol=1e-12)


def test_the_lengths_that_do_not_fit_are_told():
    with pytest.raises(IncompatibleError, match=r"draws vectors of length 2, .* has 1 coordinates"):
        amc.importance_sampling(normal_mean(n=10), stats.multivariate_normal([0.0, 0.0]), 5)
