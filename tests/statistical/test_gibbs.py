"""Gibbs against laws: exact marginals by replicates, and the conditional that the sequential test realises.

Each z-test fails beyond |z| = 5: false-fail rate 5.7e-7 (normal law; the replicates are means of many draws).
"""

import math

import numpy as np
import pytest
from scipy import stats as laws

import approxmcmc as amc
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error
from studies.tools.discrete import all_states

pytestmark = pytest.mark.statistical

REPLICATES, DRAWS = 40, 5_000
Z = 5.0
T = laws.t.isf(laws.norm.sf(Z), REPLICATES - 1)  # the same level with the standard error of 40 replicates
EXACT = {
    "fields": amc.Gibbs(),
    "random scan": amc.Gibbs(scan="random"),
    "terms": amc.Gibbs(conditional="terms"),
    "epsilon=0": amc.Gibbs(amc.SequentialTTest(0.0, 10)),
}
EPSILONS = (0.01, 0.05, 0.10, 0.15, 0.20, 0.25)
REALISED = (0.8945, 0.8683, 0.8335, 0.7988, 0.7660, 0.7363)
CONTEXTS, REPLICATIONS = 200, 400


def z_scores(estimates: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return deviations of the replicates' mean in units of its estimated standard error."""
    return (estimates.mean(axis=0) - exact) / (estimates.std(axis=0, ddof=1) / math.sqrt(len(estimates)))


def moments(x: np.ndarray) -> np.ndarray:
    """Return means of sites and of products of neighbours, per chain: 8 + 7 quantities."""
    return np.concatenate([x.mean(axis=1), (x[..., 1:] * x[..., :-1]).mean(axis=1)], axis=1)


def replicates(target, sampler, seed) -> np.ndarray:
    trace = amc.sample(
        target, sampler, draws=DRAWS, tune=100, chains=REPLICATES, random_seed=seed, audit_every=None, progressbar=False
    )
    return trace.posterior["x"].to_numpy()


@pytest.mark.parametrize("name", EXACT)
def test_exact_gibbs_has_the_exact_law(name, seed):
    """15 quantities, two-sided: false-fail rate 1e-5. See the next test for the power."""
    target = amc.targets.BinaryMRF.random_triples(8, 0.3, 0)
    weights = np.exp(target.log_joint - target.log_normalizer()).ravel()
    states = all_states(8)
    exact = weights @ np.concatenate([states, states[:, 1:] * states[:, :-1]], axis=1)
    assert np.abs(z_scores(moments(replicates(target, EXACT[name], seed)), exact)).max() < T


def test_a_biased_sampler_is_told_from_an_exact_one(seed):
    """The power: a sequential test at epsilon = 0.1, whose conditionals are off by up to 0.07, fails the test above."""
    target = amc.targets.BinaryMRF.random_triples(8, 0.3, 0)
    weights = np.exp(target.log_joint - target.log_normalizer()).ravel()
    states = all_states(8)
    exact = weights @ np.concatenate([states, states[:, 1:] * states[:, :-1]], axis=1)
    biased = amc.Gibbs(amc.SequentialTTest(0.1, 5))
    assert np.abs(z_scores(moments(replicates(target, biased, seed)), exact)).max() > 2 * T


@pytest.mark.parametrize(
    "sampler", [amc.Gibbs(), amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest())], ids=str
)
def test_alarm_network(sampler, seed):
    """P(B, E, A | J, M) within 5 standard errors of 40 chains: 3 quantities, false-fail rate 2e-6.

    A chain of 5000 draws estimates P(B | J, M) = 0.284 with a standard error near 0.03 (B and A move together), 40
    chains with 0.005: an error of 0.05, the size of a swapped table entry, is seen with probability over 1 - 1e-6.
    """
    network = amc.targets.alarm_network(J=1, M=1)
    trace = amc.sample(network, sampler, draws=DRAWS, tune=200, chains=REPLICATES, random_seed=seed, progressbar=False)
    means = np.stack([trace.posterior[name].mean("draw").to_numpy() for name in ("B", "E", "A")], axis=1)
    exact = np.array([network.probability({name: 1}) for name in ("B", "E", "A")])
    assert np.abs(z_scores(means, exact)).max() < T
    assert (means.std(axis=0, ddof=1) / math.sqrt(REPLICATES) < 0.01).all()  # enough draws for the power claimed


@pytest.fixture(scope="module")
def field():
    return amc.targets.BinaryMRF.random_triples(100, 0.02, 0)


@pytest.mark.parametrize(("epsilon", "expected"), list(zip(EPSILONS, REALISED, strict=True)))
def test_realised_conditional_follows_the_reference_curve(field, epsilon, expected, seed):
    """P = .9 by shifted log odds at 200 random contexts, 400 decisions each.

    The standard error is sqrt(.1 * .9 / 80000) = 0.0011 or a little more, so an error of 0.011 (twice the smallest
    effect, .9 - .8945) is seen with probability over 1 - 1e-6. False-fail rate 5.7e-7 for each of two z-tests.
    The recursion is exact for normal terms of known scale; the batch estimates it, which moves the answer by less than
    0.001: half a standard error is allowed for that.
    """
    rng = np.random.default_rng(seed)
    contexts, sites = rng.integers(0, 2, (CONTEXTS, 100)), rng.integers(0, 100, CONTEXTS)
    test = amc.SequentialTTest(epsilon, 500)
    found = amc.samplers.realised_conditional(
        field, test, contexts, sites, replications=REPLICATIONS, probability=0.9, random_seed=seed
    )
    mcse = math.sqrt(expected * (1.0 - expected) / (CONTEXTS * REPLICATIONS))
    assert float(found["realised"].mean()) == pytest.approx(expected, abs=(Z + 0.5) * mcse)
    predicted = acceptance_probability_error(
        found["log_odds"].values, found["tau"].values, epsilon=epsilon, batch_size=500, n_obs=4851, rule="barker"
    )
    assert float(found["data_fraction"].mean()) == pytest.approx(float(predicted["data_fraction"].mean()), rel=0.02)
    assert float(found["tau"].mean()) == pytest.approx(1.970, abs=0.03)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_data_used_at_random_contexts(field, epsilon, seed):
    """Mean share of pairs at 200 random contexts and sites, against the recursion at their own (log odds, tau).

    Shares have a standard deviation below 0.35 per decision: 80000 decisions, standard error 0.0013; 0.01 allowed.
    """
    rng = np.random.default_rng(seed)
    contexts, sites = rng.integers(0, 2, (CONTEXTS, 100)), rng.integers(0, 100, CONTEXTS)
    test = amc.SequentialTTest(epsilon, 500)
    found = amc.samplers.realised_conditional(field, test, contexts, sites, replications=REPLICATIONS, random_seed=seed)
    settings = {"epsilon": epsilon, "batch_size": 500, "n_obs": 4851, "rule": "barker"}
    predicted = acceptance_probability_error(found["log_odds"].values, found["tau"].values, **settings)
    assert float(found["data_fraction"].mean()) == pytest.approx(float(predicted["data_fraction"].mean()), abs=0.01)
    expected = found["exact"].values + predicted["error"].values
    z = (found["realised"].values - expected) / np.sqrt(expected * (1.0 - expected) / REPLICATIONS)
    assert np.abs(z).max() < 6.0  # 200 contexts: false-fail rate 4e-7 by the normal law, below 1e-5 with its skewness


def test_wrong_decisions_agree_with_the_recursion(field, seed):
    """Audited wrong decisions of a chain: Clopper-Pearson at 1 - 1e-6, against the mean of the recursion at the audits.

    The recursion is evaluated at the last audited decision of each sweep; 1000 sweeps give it within 0.004.
    """
    sampler = amc.Gibbs(amc.SequentialTTest(0.1, 500))
    trace = amc.sample(
        field, sampler, draws=1000, tune=20, chains=1, random_seed=seed, audit_every=10, progressbar=False
    )
    from approxmcmc.diagnostics import wrong_decision_rate

    found = wrong_decision_rate(trace, confidence=1.0 - 1e-6)
    predicted = sampler.test.expected_wrong_rate(trace["sample_stats"].dataset)
    lower, upper = (float(np.ravel(found[name])[-1]) for name in ("wrong_decision_lower", "wrong_decision_upper"))
    assert lower - 0.004 < predicted < upper + 0.004
