"""Replicated decisions at one place: what they count, against the law of the test over all orders of the data."""

import contextlib
import math
import types

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.acceptance.laws.probability import acceptance_probability, scales
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error
from approxmcmc.bounds import delta
from approxmcmc.contracts import Decision, Variables
from approxmcmc.contracts.records import TOUCHED
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.samplers.metropolis_hastings import replication as of_decisions
from approxmcmc.samplers.metropolis_hastings.distribution import _scales
from approxmcmc.samplers.metropolis_hastings.replication import ratio_and_scale
from approxmcmc.targets.all_rows import AllRows
from approxmcmc.targets.discrete.factor_graph import FactorGraph, FactorGroup
from tests.models import normal_mean

DIFFERENCES = np.array([0.9, -0.3, 0.4, -0.8, 0.5, 0.1])  # of the log terms of one site, from 0 to 1


def one_site(differences=DIFFERENCES):
    """Return a target whose only move is from its one site's 0 to 1, or back."""
    tables = np.stack([np.zeros(len(differences)), differences], axis=1)
    return FactorGraph([2], [FactorGroup(np.zeros((len(differences), 1), dtype=int), tables)], Variables({"x": (1,)}))


def law(test, differences, rest=0.0, **more):
    return float(acceptance_probability(test, np.array([differences]), np.array([rest]), **more)[0][0])


def within_noise(found, chance, n):
    """Return whether a share of n decisions is at most five standard errors away: one false alarm in two million."""
    return abs(found - chance) <= 5.0 * math.sqrt(chance * (1.0 - chance) / n)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "test",
    [amc.SequentialTTest(0.3, 2), amc.acceptance.MinibatchBarker(0.5, 2), amc.SequentialTTest(0.0, 3)],
    ids=["sequential", "barker", "all data"],
)
def test_decisions_at_a_pair_have_the_law_of_their_test(test):
    """From 0 and from 1, with all counts: of terms that a test read, and of those that the exact ratio takes."""
    states, n = np.array([[0.0], [1.0], [0.0]]), 400
    found = bounds.estimate_delta(
        one_site(), amc.MetropolisHastings(amc.proposals.SingleSite(), test), states=states, n_pairs=3, replications=n,
        random_seed=1, progressbar=False,
    )  # fmt: skip
    total, tau = DIFFERENCES.sum(), math.sqrt(6.0) * DIFFERENCES.std(ddof=1)
    np.testing.assert_allclose(found["log_ratio"], [total, -total, total], rtol=1e-12)
    np.testing.assert_allclose(found["tau"], tau, rtol=1e-12)
    ratio = np.exp([total, -total, total])
    exact = ratio / (1.0 + ratio) if isinstance(test, amc.acceptance.MinibatchBarker) else np.minimum(1.0, ratio)
    np.testing.assert_allclose(found["exact"], exact, rtol=1e-12)
    for k, sign in enumerate((1.0, -1.0, 1.0)):
        chance = law(test, sign * DIFFERENCES)
        assert within_noise(float(found["realised"][k]), chance, n)
        model = law(test, sign * DIFFERENCES, method="gaussian") - exact[k]
        assert float(found["error_model"][k]) == pytest.approx(model, abs=1e-9)
    assert found.attrs["likelihood_evaluations_exact"] == 2 * 6 * 3
    touched = found.attrs["datapoints_touched"]
    assert touched == 3 * n * 6 if test == amc.SequentialTTest(0.0, 3) else 3 * n * 2 <= touched < 3 * n * 6


def test_the_ratio_of_a_pair_has_that_of_its_proposal():
    """An independent proposal N(0.2, 0.3^2): tau says how far x' is, and one of two x' has the ratio."""
    target, here, n = normal_mean(30), 0.4, 12
    sampler = amc.MetropolisHastings(amc.proposals.Independence([0.2], cov=[[0.09]]), amc.SequentialTTest(0.2, 5))
    found = bounds.estimate_delta(
        target, sampler, states=np.full((n, 1), here), n_pairs=n, replications=4, random_seed=2, progressbar=False
    )
    x = target.data[0]

    def log_density(theta):
        return -2.0 * (theta - 1.0) ** 2 - 0.5 * ((x - theta) ** 2).sum() + 0.5 * ((theta - 0.2) / 0.3) ** 2

    far = found["tau"].values / (math.sqrt(30.0) * x.std(ddof=1))
    sides = np.array([[log_density(here + sign * d) - log_density(here) for d in far] for sign in (-1.0, 1.0)])
    assert np.abs(sides - found["log_ratio"].values).min(axis=0).max() < 1e-9
    assert len(set(found["tau"].values)) == n


def test_a_pair_at_which_a_datum_is_impossible():
    """At x': log ratio -inf, and data that a test may miss; at x: no chain comes there, and the datum is named."""

    def log_terms(theta, data, order, lo, hi, out):
        out[:] = 0.0
        out[3] = -math.inf if theta[0] < 0.0 else theta[0]

    model = types.SimpleNamespace(
        log_prior=lambda theta: 0.0 if theta[0] > -5.0 else -math.inf, log_terms=log_terms, data=(), n_obs=5
    )
    rows = AllRows(types.SimpleNamespace(compile=lambda: model))
    rows.parts = None
    inside, outside, impossible = (np.array([x]) for x in (0.5, -9.0, -1.0))
    assert ratio_and_scale(rows, inside, outside, 0.3, 1.0) == (-math.inf, 0.0)
    assert ratio_and_scale(rows, inside, impossible, 0.3, 1.0) == (-math.inf, math.inf)
    with pytest.raises(InvalidInputError, match=r"datum 3 has probability 0 .*theta = \[-1\.\]"):
        ratio_and_scale(rows, impossible, inside, 0.3, 1.0)


def test_what_the_gaussian_regime_does_not_know_is_nan():
    """Outside the support nothing errs; a datum of probability 0, or a stop by tolerance, is not described."""
    known, tolerant = amc.SequentialTTest(0.1, 5), amc.SequentialTTest(0.1, 5, tol=0.5)
    assert delta._probabilities(known, Decision(-math.inf, 0.0, 30, "metropolis", 0, 0)) == (0.0, 0, 0.0)
    exact, accepted, error = delta._probabilities(known, Decision(-math.inf, math.inf, 30, "metropolis", 2, 0))
    assert (exact, accepted) == (0.0, 2) and math.isnan(error)
    exact, accepted, error = delta._probabilities(tolerant, Decision(-1.0, 2.0, 30, "metropolis", 7, 0))
    assert exact == pytest.approx(math.exp(-1.0)) and accepted == 7 and math.isnan(error)


def stepping(made):
    """Return a chain that does not move and breaks off after so many steps."""
    chain = types.SimpleNamespace(left=made, explain_failure=lambda: "a term is NaN")

    def advance(n, thin, draws, counts, values):
        n = min(n, chain.left)
        chain.left -= n
        draws[:], counts[:] = 0.0, 1
        return n

    chain.advance = advance
    return chain


def test_a_chain_that_breaks_off_says_why(monkeypatch):
    monkeypatch.setattr(of_decisions, "MOST_STEPS", 3)
    monkeypatch.setattr(delta, "MOST_STEPS", 3)
    assert of_decisions._decide(stepping(10), np.zeros(1), 10) == (0, 10)
    with pytest.raises(InvalidInputError, match="a term is NaN"):
        of_decisions._decide(stepping(9), np.zeros(1), 10)
    settings = {"tune": 4, "n_draws": 5, "thin": 1, "dim": 2}
    assert delta.visited_states(stepping(9), **settings).shape == (5, 2)
    for made in (3, 8):
        with pytest.raises(NotFiniteError, match="the chain failed: a term is NaN"):
            delta.visited_states(stepping(made), **settings)
    assert delta.visited_states(stepping(5), **settings | {"tune": 0}).shape == (5, 2)


@pytest.mark.parametrize(("most", "thin", "calls"), [(1, 5, [1, 1, 1]), (6, 2, [3]), (4, 2, [2, 1])])
def test_a_call_makes_so_many_steps_and_at_least_one_draw(most, thin, calls, monkeypatch):
    monkeypatch.setattr(delta, "MOST_STEPS", most)
    chain, made = stepping(99), []
    advance = chain.advance
    chain.advance = lambda n, every, *rows: made.append((n, every)) or advance(n, every, *rows)
    delta.visited_states(chain, 0, 3, thin, 1)
    assert made == [(n * thin, thin) for n in calls]


def test_a_pinned_proposal_goes_and_comes_back():
    pair = of_decisions.PinnedPair(np.array([1.0, 2.0]), np.array([1.0, 5.0]), np.array([-0.7]))
    out, count = np.zeros(2), np.zeros(1, dtype=np.int64)
    propose = getattr(of_decisions.propose_pinned, "py_func", of_decisions.propose_pinned)
    assert propose(np.random.default_rng(0), pair, np.array([1.0, 2.0]), out, count) == -0.7
    assert out.tolist() == [1.0, 5.0]
    assert propose(np.random.default_rng(0), pair, np.array([1.0, 5.0]), out, count) == math.inf
    assert out.tolist() == [1.0, 2.0]


# --- Gibbs ---


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("test", "divisor"),
    [
        (amc.SequentialTTest(0.3, 2), 1.0),
        (amc.acceptance.MinibatchBarker(0.5, 2), 1.0),
        (amc.acceptance.MinibatchBarker(0.5, 2, temperature=2.0), 2.0),
    ],
    ids=["sequential", "barker", "warm"],
)
@pytest.mark.parametrize("probability", [None, 0.3])
def test_a_realised_conditional_has_the_law_of_its_test(test, divisor, probability):
    """Over all orders of six terms, at their own odds and shifted to one probability."""
    n, settings = 400, {"random_seed": 3, "probability": probability}
    found = amc.samplers.realised_conditional(one_site(), test, np.zeros((3, 1)), [0, 0, 0], replications=n, **settings)
    total = DIFFERENCES.sum() / divisor
    odds = total if probability is None else math.log(0.3 / 0.7)
    np.testing.assert_allclose(found["log_odds"], odds, rtol=1e-12)
    np.testing.assert_allclose(found["exact"], 1.0 / (1.0 + math.exp(-odds)), rtol=1e-12)
    np.testing.assert_allclose(found["tau"], math.sqrt(6.0) * DIFFERENCES.std(ddof=1) / divisor, rtol=1e-12)
    chance = law(test, DIFFERENCES, odds - total, conditional=True)
    realised = found["realised"].values
    assert all(within_noise(each, chance, n) for each in realised) and len(set(realised)) > 1
    np.testing.assert_allclose(found["realised_mcse"], np.sqrt(realised * (1.0 - realised) / n), rtol=1e-12)
    assert ((found["data_fraction"] > 2 / 6) & (found["data_fraction"] < 1.0)).all()


@pytest.mark.thorough
def test_a_conditional_is_realised_two_thousand_times_at_the_other_sites():
    """Two sites: the odds of the second depend on the first, whatever the context says of the site itself."""
    rng = np.random.default_rng(4)
    tables = rng.normal(0.0, 0.4, size=(4, 2, 2))
    target = FactorGraph([2, 2], [FactorGroup(np.tile([[0, 1]], (4, 1)), tables)], Variables({"x": (2,)}))
    given = target, amc.SequentialTTest(0.0, 2), [[1, 1], [0, 1]], [1, 0]
    found = amc.samplers.realised_conditional(*given, random_seed=1)
    odds = [(tables[:, 1, 1] - tables[:, 1, 0]).sum(), (tables[:, 1, 1] - tables[:, 0, 1]).sum()]
    np.testing.assert_allclose(found["log_odds"], odds, rtol=1e-12)
    shares = found["realised"].values * 2000
    np.testing.assert_allclose(shares, np.round(shares), atol=1e-9)
    assert (found["data_fraction"] == 1.0).all()
    one, other = (amc.samplers.realised_conditional(*given, replications=50, random_seed=seed) for seed in (1, 2))
    assert (one["realised"] != other["realised"]).any()


@pytest.mark.parametrize(("sign", "realised"), [(-1.0, 0.0), (1.0, 1.0)])
def test_what_is_certain_is_realised_always(sign, realised):
    """Odds of e^90 for or against: decided after the first look, fifty times."""
    certain = one_site(sign * (30.0 + np.array([0.1, -0.1, 0.2])))
    found = amc.samplers.realised_conditional(
        certain, amc.SequentialTTest(0.1, 2), [[0]], [0], replications=50, random_seed=1
    )
    assert (float(found["realised"][0]), float(found["realised_mcse"][0])) == (realised, 0.0)


PAIR = FactorGraph(
    [2, 2], [FactorGroup(np.tile([[0, 1]], (4, 1)), np.full((4, 2, 2), 0.1))], Variables({"x": (2,)}, dtype="int64")
)


@pytest.mark.parametrize(
    ("contexts", "sites", "message"),
    [
        ([0, 1], [0], r"shape \(n, 2\)"),
        ([[0, 1]], [0, 1], "sites shape"),
        ([[0, 1, 1]], [0], r"found \(1, 3\) and \(1,\)"),
        ([[0, -1]], [0], "contexts must hold states"),
        ([[0, 2]], [0], "contexts must hold states"),
        ([[0, 0.5]], [0], "contexts must hold states"),
        ([[0, 1]], [-1], "indices from 0 to 1"),
        ([[0, 1]], [2], "indices from 0 to 1"),
    ],
)
def test_contexts_and_sites_that_are_none(contexts, sites, message):
    with pytest.raises(InvalidInputError, match=message):
        amc.samplers.realised_conditional(PAIR, amc.SequentialTTest(0.1, 2), contexts, sites, replications=2)


def test_a_probability_lies_strictly_between_0_and_1():
    for wrong in (0.0, 1.0, -0.5, 1.5):
        with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
            amc.samplers.realised_conditional(PAIR, amc.SequentialTTest(0.1, 2), [[0, 1]], [1], probability=wrong)
    with pytest.raises(IncompatibleError, match="an exact test has no error"):
        amc.samplers.realised_conditional(PAIR, amc.ExactTest(), [[0, 1]], [1], probability=0.5)


def test_a_term_that_is_nan_is_found_at_its_site():
    target = one_site(np.array([0.1, np.nan, 0.3, 0.2]))
    with pytest.raises(NotFiniteError, match=r"site 0 is NaN at x = \[1.0\]"):
        amc.samplers.realised_conditional(
            target, amc.SequentialTTest(0.0, 2), [[1]], [0], replications=3, random_seed=1
        )


@pytest.mark.parametrize("tol", [0.0, 0.5])
def test_replicated_sites_are_those_of_the_conditional(tol):
    """Three contexts of one site: its odds, the accepts as counts, and what the Gaussian regime says of the error."""
    test = amc.SequentialTTest(0.3, 2, tol=tol)
    found = bounds.estimate_delta(
        one_site(), amc.Gibbs(test), states=np.array([[0.0], [1.0], [0.0]]), n_pairs=3, replications=400,
        random_seed=5, progressbar=False,
    )  # fmt: skip
    odds = DIFFERENCES.sum()
    np.testing.assert_allclose(found["log_ratio"], odds, rtol=1e-12)
    np.testing.assert_allclose(found["tau"], math.sqrt(6.0) * DIFFERENCES.std(ddof=1), rtol=1e-12)
    exact = 1.0 / (1.0 + math.exp(-odds))
    np.testing.assert_allclose(found["exact"], exact, rtol=1e-12)
    chance = law(test, DIFFERENCES, conditional=True)
    assert all(within_noise(share, chance, 400) for share in found["realised"].values)
    assert found["accepted"].values.tolist() == [round(a) for a in found["accepted"].values.tolist()]
    assert len(set(found["accepted"].values.tolist())) > 1
    if tol == 0.0:
        model = law(test, DIFFERENCES, method="gaussian", conditional=True) - exact
        np.testing.assert_allclose(found["error_model"], model, atol=1e-9)
    else:
        assert found["error_model"].isnull().all()
    assert found.attrs["likelihood_evaluations_exact"] == 2 * 6 * 3
    assert 3 * 400 * 2 <= found.attrs["datapoints_touched"] < 3 * 400 * 6


@pytest.mark.parametrize("gibbs", [False, True])
def test_every_pair_is_reported_and_every_datum_that_was_read(gibbs, monkeypatch):
    """Three pairs, decided seven times each from all six terms."""
    seen = []

    @contextlib.contextmanager
    def progress(*_, **__):
        yield types.SimpleNamespace(update=seen.append)

    monkeypatch.setattr(delta, "progress", progress)
    test = amc.SequentialTTest(0.0, 3)
    found = bounds.estimate_delta(
        one_site(), amc.Gibbs(test) if gibbs else amc.MetropolisHastings(amc.proposals.SingleSite(), test),
        states=np.zeros((3, 1)), n_pairs=3, replications=7, random_seed=5,
    )  # fmt: skip
    assert seen == [1, 2, 3]
    assert found.attrs["datapoints_touched"] == 3 * 7 * 6


def test_outside_the_prior_no_datum_is_read():
    """From 0.5 nearly all proposals of N(9, 0.1^2) leave the half-line below 8, and no test is asked."""

    def loglik(theta, data, i):
        return -0.5 * (data[0][i] - theta[0]) ** 2

    def logprior(theta):
        return 0.0 if theta[0] < 8.0 else -math.inf

    target = amc.FunctionTarget(loglik, logprior, data=np.linspace(0.0, 1.0, 9), n_obs=9, dim=1, initial_point=[0.5])
    sampler = amc.MetropolisHastings(amc.proposals.Independence([9.0], cov=[[0.01]]), amc.SequentialTTest(0.3, 2))
    found = bounds.estimate_delta(
        target, sampler, states=np.full((3, 1), 0.5), n_pairs=3, replications=20, initvals=[0.5], random_seed=1,
        progressbar=False,
    )  # fmt: skip
    assert (found["log_ratio"] == -math.inf).all() and not found["accepted"].any()
    assert found.attrs["datapoints_touched"] == 0


field = amc.targets.BinaryMRF.random_triples


@pytest.mark.needs_jit  # the compiled decisions
def test_replicated_decisions_carry_labels_and_costs():
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(0.2, 20))
    settings = {"n_pairs": 6, "replications": 100, "random_seed": 3, "progressbar": False}
    found = bounds.estimate_delta(normal_mean(200), sampler, tune=50, **settings)
    assert found["label_delta_sampled"].item() == "rigorous"
    assert found["label_delta_quantile"].item() == found["label_delta_max"].item() == "heuristic"
    assert float(found["delta_sampled"]) == float(np.abs(found[["error_lower", "error_upper"]].to_array()).max())
    assert 6 * 100 * 20 <= found.attrs["datapoints_touched"] <= 6 * 100 * 200
    again = bounds.estimate_delta(normal_mean(200), sampler, tune=50, **settings)
    assert found["accepted"].equals(again["accepted"])
    independent = bounds.estimate_delta(normal_mean(200), sampler, states=np.zeros((6, 1)), **settings)
    assert independent["label_delta_quantile"].item() == "rigorous"
    assert independent["label_delta_max"].item() == "heuristic"


@pytest.mark.thorough
@pytest.mark.parametrize("law", ["replicated", "traces"])
def test_chains_start_where_the_proposal_says(law):
    """The posterior has no mass where the target would start: without the proposal's start no chain begins."""
    rng = np.random.default_rng(0)
    x = rng.normal(50.0, 1.0, size=50)

    def loglik(theta, data, i):
        return -0.5 * (data[0][i] - theta[0]) ** 2

    def logprior(theta):
        return 0.0 if theta[0] > 40.0 else -math.inf

    target = amc.FunctionTarget(loglik, logprior, data=x, n_obs=50, dim=1)
    sampler = amc.MetropolisHastings(amc.proposals.Independence([50.0], cov=[0.2]), amc.SequentialTTest(0.1, 20))
    settings = {"random_seed": 1, "progressbar": False}
    if law == "replicated":
        found = bounds.estimate_delta(target, sampler, n_pairs=2, replications=10, tune=2, **settings)
        assert np.isfinite(found["log_ratio"]).all()
    else:
        draws = xr.Dataset({"theta": (("chain", "draw", "d"), rng.normal(50.0, 0.2, (2, 10, 1)))})
        reference = xr.DataTree.from_dict({"posterior": draws})
        found = amc.check_bound(
            target, sampler, epsilons=[0.1], reference=reference, draws=20, tune=2, chains=1, n_pairs=0, **settings
        )
        assert float(found["posterior"]["theta"].min()) > 40.0


def on_the_unit_interval(x):
    """Return the mean of some data, which the prior leaves in (0, 1)."""

    def loglik(theta, data, i):
        return -0.5 * (data[0][i] - theta[0]) ** 2

    def logprior(theta):
        return 0.0 if 0.0 < theta[0] < 1.0 else -math.inf

    return amc.FunctionTarget(loglik, logprior, data=x, n_obs=len(x), dim=1, initial_point=[0.5])


def test_equal_terms_are_decided_about():
    """tau = 0, and no error: what raises the density is always accepted."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(0.1, 5))
    settings = {"n_pairs": 8, "replications": 10, "random_seed": 1, "progressbar": False}
    found = bounds.estimate_delta(
        on_the_unit_interval(np.full(16, 0.5)), sampler, states=np.full((8, 1), 0.3), **settings
    )
    up = found["log_ratio"].values > 0.0
    assert not found["tau"].values.any() and 2 < up.sum() < 8
    assert (found["accepted"].values[up] == 10).all()


def test_a_proposal_outside_the_support_is_never_decided_wrongly():
    target = on_the_unit_interval(np.linspace(0.0, 1.0, 20))
    sampler = amc.MetropolisHastings(amc.RandomWalk(1e9), amc.SequentialTTest(0.1, 5))
    settings = {"n_pairs": 4, "replications": 10, "random_seed": 1, "progressbar": False}
    found = bounds.estimate_delta(target, sampler, states=np.full((4, 1), 0.5), **settings)
    assert (found["log_ratio"] == -math.inf).all()
    for name in ("exact", "accepted", "error_lower", "error_upper", "delta_sampled"):
        assert not found[name].values.any()


@pytest.mark.thorough
def test_replicated_sites_are_random_and_decided_anew_in_every_run():
    """Forty times one state: all log odds of its four sites, and at one site other decisions with another seed."""
    target, state = field(4, 0.6, 0), np.array([0.0, 1.0, 1.0, 0.0])
    one, other = (
        bounds.estimate_delta(
            target, amc.Gibbs(amc.SequentialTTest(0.2, 2)), states=np.tile(state, (40, 1)), n_pairs=40,
            replications=30, random_seed=seed, progressbar=False,
        )
        for seed in (1, 2)
    )  # fmt: skip
    laws = [target.conditional(state[None], site)[0] for site in range(4)]
    odds = np.round(sorted(math.log(law[1] / law[0]) for law in laws), 9)
    assert len(set(odds)) == 4
    for found in (one, other):
        np.testing.assert_array_equal(np.unique(np.round(found["log_ratio"], 9)), odds)
        assert found.attrs["likelihood_evaluations_exact"] == 2 * 40 * 3  # each site is in three triples
    same = (one["log_ratio"] == other["log_ratio"]).values
    assert same.sum() > 3 and (one["accepted"] != other["accepted"]).values[same].any()


def test_the_scale_of_a_pair_is_that_of_its_terms():
    differences = np.array([[1.0, 2.0, 3.0, 6.0, 8.0], [0.0, 0.0, 0.0, 0.0, 5.0]])
    expected = [math.sqrt(5.0 * 34.0 / 4.0), math.sqrt(5.0 * 20.0 / 4.0)]
    np.testing.assert_allclose(scales(differences), expected, rtol=1e-14)


def test_the_ratio_of_a_pair_is_that_of_prior_terms_and_proposal():
    """Terms at a temperature of 2, under the prior N(1, 1/4)."""
    target, here, there = normal_mean(30), 0.3, -0.1
    terms = (0.5 * (target.data[0] - here) ** 2 - 0.5 * (target.data[0] - there) ** 2) / 2.0
    found = ratio_and_scale(AllRows(target), np.array([here]), np.array([there]), 0.7, 2.0)
    prior = 2.0 * (here - 1.0) ** 2 - 2.0 * (there - 1.0) ** 2
    assert found == pytest.approx((prior + 0.7 + terms.sum(), math.sqrt(30.0) * terms.std(ddof=1)), rel=1e-12)


def test_the_scales_of_all_pairs_are_those_of_each():
    terms = np.random.default_rng(1).normal(size=(5, 7)) + 3.0 * np.arange(5)[:, None]
    expected = [scales(terms - here) for here in terms]
    np.testing.assert_allclose(_scales(terms), expected, rtol=1e-12)


def test_visited_states_are_every_so_many_steps_apart(monkeypatch):
    """A chain whose state is the number of its steps, advanced by at most four at a time."""
    chain = types.SimpleNamespace(steps=0.0)

    def advance(n, thin, draws, counts, values):
        assert n <= 4
        draws[:, 0] = chain.steps + thin * np.arange(1, n // thin + 1)
        chain.steps = draws[-1, 0]
        return n

    chain.advance = advance
    monkeypatch.setattr(delta, "MOST_STEPS", 4)
    visited = delta.visited_states(chain, tune=7, n_draws=5, thin=2, dim=1)
    assert visited.tolist() == [[9.0], [11.0], [13.0], [15.0], [17.0]]


def test_decisions_are_those_that_begin_at_the_pair(monkeypatch):
    """Accepted, back again, rejected, accepted, in calls of two steps: three decisions, which read 1 + 3 + 4 data."""
    here, steps = np.zeros(1), iter([(1.0, 1), (0.0, 2), (0.0, 3), (1.0, 4)])

    def advance(n, thin, draws, counts, values):
        for k in range(n):
            draws[k, 0], counts[k, TOUCHED] = next(steps)
        return n

    monkeypatch.setattr(of_decisions, "MOST_STEPS", 2)
    assert of_decisions._decide(types.SimpleNamespace(advance=advance), here, 3) == (2, 8)


def test_always_accepting_errs_by_what_is_rejected_and_a_t_test_as_the_recursion_says():
    found = delta._probabilities(amc.acceptance.AlwaysAccept(), Decision(-1.0, 2.0, 30, "metropolis", 7, 0))
    assert found == pytest.approx((math.exp(-1.0), 7, 1.0 - math.exp(-1.0)))
    by_recursion = acceptance_probability_error(-1.0, 2.0, epsilon=0.1, batch_size=5, n_obs=30)["error"]
    found = delta._probabilities(amc.SequentialTTest(0.1, 5), Decision(-1.0, 2.0, 30, "metropolis", 7, 0))
    assert found == pytest.approx((math.exp(-1.0), 7, float(by_recursion)))
