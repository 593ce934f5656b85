"""Transition matrices, replicated decisions and couplings against the samplers themselves.

Transition counts: for each state x and next state y, the chain makes n_x steps from x, and the number that end in y is
binomial given the past up to terms that martingale theory bounds: z = (n_xy - n_x T_xy) / sqrt(n_x T_xy (1 - T_xy)) is
compared where n_x T_xy >= 25. False-fail rate: |z| beyond 5.5 for at most 256 pairs, 256 x 3.8e-8 = 1e-5, where the
normal law holds. Power: the exact matrix, which the test errs from by 0.02 to 0.2, must be rejected (n_x > 5000 gives z
of 2.8 for an error of 0.02 at probability 1/2, and far more for the largest).
"""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds.distance import cells_of_states
from approxmcmc.bounds.finite import stationary_distribution, total_variation
from approxmcmc.diagnostics.decisions import clopper_pearson

# Two terms to a look make the terms look heavy-tailed, which these tests are not about.
pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")]

Z = 5.5
DRAWS = 200_000
FIVE_SIGMA = 5.7e-7  # what a normal law has beyond 5 standard deviations
FIELD = amc.targets.BinaryMRF.random_triples(4, 0.6, 0)
PAIRINGS = {
    "metropolis": amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest()),
    "sequential": amc.MetropolisHastings(amc.proposals.SingleSite(), amc.SequentialTTest(0.2, 2)),
    "tolerance": amc.MetropolisHastings(amc.proposals.SingleSite(), amc.SequentialTTest(0.01, 2, tol=1.0)),
    "barker": amc.MetropolisHastings(
        amc.proposals.SingleSite(), amc.acceptance.MinibatchBarker(batch_size=2, target_variance=0.5)
    ),
    "gibbs": amc.Gibbs(amc.SequentialTTest(0.3, 2)),
    "random scan": amc.Gibbs(amc.SequentialTTest(0.3, 2), scan="random"),
}


def largest_z(sampler, matrix, seed):
    trace = amc.sample(FIELD, sampler, draws=DRAWS, tune=100, chains=1, random_seed=seed, progressbar=False)
    cells = cells_of_states(trace["posterior"]["x"].values.astype(float), FIELD.n_states)[0]
    counts = np.zeros((16, 16))
    np.add.at(counts, (cells[:-1], cells[1:]), 1.0)
    expected = counts.sum(axis=1, keepdims=True) * matrix
    spread = np.sqrt(expected * (1.0 - matrix))
    kept = (expected >= 25.0) & (spread > 0.0)
    if (counts[matrix == 0.0] > 0.0).any():
        return math.inf
    return float(np.abs((counts - expected)[kept] / spread[kept]).max())


@pytest.mark.parametrize("name", PAIRINGS)
def test_chains_make_the_transitions_of_their_matrices(name, seed):
    sampler = PAIRINGS[name]
    matrix = bounds.transition_matrix(FIELD, sampler)
    assert matrix.attrs["label"] == "rigorous"
    assert largest_z(sampler, matrix.values, seed) < Z


@pytest.mark.parametrize("name", ["sequential", "tolerance", "barker", "gibbs", "random scan"])
def test_the_exact_matrix_is_told_from_that_of_a_test(name, seed):
    """The power: the same counts reject the matrix of the exact rule."""
    sampler = PAIRINGS[name]
    exact = amc.ExactTest("barker") if name == "barker" else amc.ExactTest()
    rival = amc.Gibbs(exact, scan=sampler.scan) if isinstance(sampler, amc.Gibbs) else None
    rival = rival or amc.MetropolisHastings(sampler.proposal, exact)
    assert largest_z(sampler, bounds.transition_matrix(FIELD, rival).values, seed) > Z


@pytest.mark.parametrize("name", ["sequential", "barker", "gibbs"])
def test_replicated_decisions_have_the_enumerated_error(name, seed):
    """30 pairs, 4000 decisions each, two-sided beyond 5: false-fail rate 2e-5; an error off by 0.05 gives z over 6."""
    sampler = PAIRINGS[name]
    found = bounds.estimate_delta(
        FIELD, sampler, n_pairs=30, replications=4000, tune=100, random_seed=seed, progressbar=False
    )
    decision = bounds.transition_matrix(FIELD, sampler)["decision"].values
    law = np.unique(decision[np.isfinite(decision)])
    right = bounds.transition_matrix(
        FIELD,
        amc.Gibbs()
        if name == "gibbs"
        else amc.MetropolisHastings(sampler.proposal, amc.ExactTest("barker" if name == "barker" else "metropolis")),
    )["decision"].values
    rows, columns = np.nonzero(np.isfinite(right))
    z = []
    for exact, accepted in zip(found["exact"].values, found["accepted"].values, strict=True):
        same = np.abs(right[rows, columns] - exact) < 1e-9  # the decisions of this exact probability
        wanted = np.unique(decision[rows[same], columns[same]].round(9))
        spread = np.sqrt(np.maximum(wanted * (1.0 - wanted), 1e-12) * 4000)
        z.append(np.abs((accepted - 4000 * wanted) / spread).min())
    assert law.size > 10
    assert max(z) < 5.0
    assert (np.abs(found["error"]) <= found["error_bound"]).all()


@pytest.mark.parametrize("lag", [1, 5])
def test_couplings_bound_what_they_should(lag, seed):
    """Two states, start 0: the mean over 4000 couplings is the total variation itself; |z| beyond 5."""
    T = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = bounds.couplings(T, lag=lag, n_couplings=4000, initvals=0, random_seed=seed, progressbar=False)
    tau = found["meeting_time"].values
    for t in (0, 5, 10):
        each = np.maximum(0, np.ceil((tau - lag - t) / lag))
        truth = total_variation(np.linalg.matrix_power(T, t)[0], stationary_distribution(T))
        assert abs(each.mean() - truth) < 5.0 * each.std(ddof=1) / math.sqrt(len(each))


def test_couplings_of_sweeps_and_of_walks_are_above_the_truth(seed):
    """Upper bounds: the mean over 2000 couplings, plus 5 standard errors, is above the true distance at every time.

    A standard error of zeros is zero, while 0 of 2000 couplings left speak for a share up to .0075 at this level.
    """
    field = amc.targets.BinaryMRF.random_triples(5, 0.3, 0)
    T = bounds.transition_matrix(field, amc.Gibbs()).values
    law, now = stationary_distribution(T), np.eye(32)[0]
    found = bounds.couplings(
        field, amc.Gibbs(), lag=4, n_couplings=2000, initvals=np.zeros(5), random_seed=seed, progressbar=False
    )
    for t in range(8):
        each = np.maximum(0, np.ceil((found["meeting_time"].values - 4 - t) / 4))
        share = float(clopper_pearson((each > 0.0).sum(), 2000, 1.0 - FIVE_SIGMA)[1])
        assert max(each.mean() + 5.0 * each.std(ddof=1) / math.sqrt(2000), share) >= total_variation(now, law)
        assert each.mean() <= 4.0 * total_variation(now, law) + 0.5  # and not absurdly so
        now = now @ T
