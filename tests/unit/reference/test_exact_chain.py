"""Long exact chains as gold standards: Stein's identities, gates with one planted defect each, kernels, the cache."""

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.errors import GoldStandardError, IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.reference import (
    ChainGates,
    GateReport,
    Kernel,
    attach_reference,
    exact_chain,
    exact_chain_reference,
    grid_reference,
)
from approxmcmc.reference.chain_gates import judge_chains
from approxmcmc.reference.stein import stein_deviations
from tests.models import logistic

CHAINS, DRAWS, DIM = 4, 1000, 3
MEAN = np.array([1.0, -2.0, 0.5])
ROOT = np.array([[2.0, 0.0, 0.0], [0.6, 1.0, 0.0], [-0.3, 0.2, 0.5]])  # of the covariance
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def normal_draws(seed=1, shift=0.0, scale=1.0):
    """Independent draws of N(MEAN, ROOT ROOT'), moved by `shift` standard deviations and spread by `scale`."""
    z = np.random.default_rng(seed).standard_normal((CHAINS, DRAWS, DIM))
    return MEAN + (scale * z + shift) @ ROOT.T


def gradients(theta):
    return -(theta - MEAN) @ PRECISION


def worst(deviations):
    return np.abs(deviations.gradient).max(), np.abs(deviations.identity).max()


def dataset(draws):
    return xr.Dataset({"beta": (("chain", "draw", "coef"), draws)}, coords={"coef": ["a", "b", "c"]})


def failed(report):
    return {result.gate: result for result in report.failures}


def judged(main=None, second=None, gates=None, **how):
    """Judge chains of which one part may be replaced; ESS of independent draws is near 4000."""
    main = normal_draws() if main is None else main
    second = normal_draws(2) if second is None else second
    deviations = stein_deviations(main, gradients(main))
    return judge_chains(dataset(main), dataset(second), deviations, gates or ChainGates(), **how)


# --- Stein's identities ---


def test_steins_identities_of_a_linear_map_are_those_of_the_matrix():
    """For gradients A phi the average of phi g' is known: A of the whitened draws themselves, in any metric."""
    theta = normal_draws()
    flat = theta.reshape(-1, DIM)
    L = np.linalg.cholesky(np.cov(flat.T))
    phi = (theta - flat.mean(axis=0)) @ np.linalg.inv(L).T
    found = stein_deviations(theta, -phi @ np.linalg.inv(L))  # g = -phi
    blocks = phi.reshape(CHAINS * 20, DRAWS // 20, DIM)
    means = np.eye(DIM) - blocks.transpose(0, 2, 1) @ blocks / blocks.shape[1]
    expected = means.mean(axis=0) / (means.std(axis=0, ddof=1) / np.sqrt(len(means)))
    np.testing.assert_allclose(found.identity, expected, atol=1e-9)
    np.testing.assert_allclose(found.gradient, 0.0, atol=1e-9)  # the centre is the draws' own
    assert found.degrees == 79


def test_steins_identities_hold_for_draws_of_the_law_and_see_a_shift_and_a_spread():
    """False-fail: t with 79 degrees beyond 6 in 12 coordinates, 1e-6. A shift of .15 sd is 9 standard errors of 4000
    draws, a spread of 1.1 is 10 % in a variance whose standard error is 2.2 %, times 1.21: 7 to 8."""
    for theta, gradient_sees, identity_sees in (
        (normal_draws(), False, False),
        (normal_draws(shift=0.15), True, False),
        (normal_draws(scale=1.15), False, True),
        (normal_draws(scale=0.85), False, True),
    ):
        gradient, identity = worst(stein_deviations(theta, gradients(theta)))
        assert (gradient > 6.0) == gradient_sees
        assert (identity > 6.0) == identity_sees


def test_a_wrong_gradient_is_seen():
    theta = normal_draws()
    assert worst(stein_deviations(theta, gradients(theta)[..., ::-1]))[1] > 6.0


# --- the gates ---


def test_independent_draws_pass_every_gate():
    report, summaries = judged()
    assert report.passed, str(report)
    assert [result.gate for result in report.results] == [
        "r_hat", "bulk_ess", "second_r_hat", "second_bulk_ess", "second_kernel", "stein_gradient", "stein_identity",
    ]  # fmt: skip
    np.testing.assert_allclose(summaries["beta"].mean, normal_draws().mean(axis=(0, 1)))


@pytest.mark.thorough
def test_each_defect_fails_its_own_gate():
    assert failed(judged(second=normal_draws(2, shift=0.3))[0]).keys() == {"second_kernel"}
    spread = failed(judged(second=normal_draws(2, scale=1.3))[0])
    assert spread.keys() == {"second_kernel"}
    assert spread["second_kernel"].where.startswith("(beta - mean)^2[")
    stuck = normal_draws(2)
    stuck[2] = stuck[2, 0]
    assert "second_r_hat" in failed(judged(second=stuck)[0])
    shifted = normal_draws()
    shifted[1] += 1.0
    assert {"r_hat", "stein_gradient"} <= failed(judged(main=shifted)[0]).keys()
    assert failed(judged(gates=ChainGates(min_bulk_ess=8000))[0]).keys() == {"bulk_ess"}
    assert failed(judged(gates=ChainGates(min_second_ess=8000))[0]).keys() == {"second_bulk_ess"}


def test_both_wrong_alike_is_left_to_stein():
    """Two kernels with one error agree: the second comparison is there for this."""
    both = [normal_draws(seed, scale=1.2) for seed in (1, 2)]
    assert failed(judged(*both)[0]).keys() == {"stein_identity"}


@pytest.mark.thorough
def test_estimands_are_held_against_the_gates_too():
    report, summaries = judged(estimands={"cosine": lambda draws: np.cos(3.0 * draws["beta"])})
    assert report.passed
    assert set(summaries) == {"beta", "cosine"}
    # Even functions about the mean see a spread that means do not.
    wide = judged(second=normal_draws(2, scale=1.3), estimands={"far": lambda draws: abs(draws["beta"] - 0.5) > 2})[0]
    assert "second_kernel" in failed(wide)


@pytest.mark.parametrize("wrong", [{"max_r_hat": 0.9}, {"level": 2.0}, {"min_bulk_ess": float("nan")}])
def test_impossible_gates_are_refused(wrong):
    with pytest.raises(InvalidInputError, match=f"ChainGates: {next(iter(wrong))}"):
        ChainGates(**wrong)


# --- the reference ---


@pytest.fixture(scope="module")
def target():
    return logistic(n=200, dim=2)


SHORT = {"draws": 400, "tune": 100, "chains": 4, "cores": 1}
LENIENT = ChainGates(max_r_hat=1.1, min_bulk_ess=100, max_second_r_hat=1.1, min_second_ess=100)


@pytest.mark.needs_jit
def test_a_long_chain_is_labelled_described_and_cached(target, tmp_path, monkeypatch):
    first = exact_chain_reference(target, gates=LENIENT, cache_dir=tmp_path, **SHORT)
    attrs = first["reference_moments"].attrs
    assert attrs["method"] == "long exact chain"
    assert attrs["gates_passed"] == 1
    assert "Langevin" in first["posterior"].attrs["kernel"]
    assert "Mixture" in first["posterior"].attrs["second_kernel"]
    assert GateReport.from_json(attrs["gates"]).passed
    assert first["reference_moments"]["beta"].dims == ("moment", "coef")
    assert first["scores/score"].shape == (4, 400, 2)
    assert len(list(tmp_path.iterdir())) == 3  # draws of both kernels, and gradients

    monkeypatch.setattr(exact_chain, "run_kernel", None)  # another run would fail
    again = exact_chain_reference(target, gates=LENIENT, cache_dir=tmp_path, **SHORT)
    assert np.array_equal(first["posterior"]["beta"], again["posterior"]["beta"])
    assert again["posterior"].attrs["seconds_to_make"] == first["posterior"].attrs["seconds_to_make"] > 0.0
    trace = first.copy()
    assert attach_reference(trace, again)["reference_moments"].attrs["method"] == "long exact chain"


@pytest.mark.needs_jit
def test_gradients_that_fail_steins_identities_are_no_control_variates(target, tmp_path, monkeypatch):
    right = exact_chain.scored_draws_of

    def wrong(*args):
        scores = right(*args)
        return scores.assign(score=scores["score"] + 5.0)  # planted: their mean is 5, not 0

    monkeypatch.setattr(exact_chain, "scored_draws_of", wrong)
    with pytest.warns(SamplingWarning, match="stein_gradient"):
        tree = exact_chain_reference(target, gates=LENIENT, enforce=False, cache_dir=tmp_path, **SHORT)
    assert "scores" not in tree.children


@pytest.mark.thorough
@pytest.mark.recompiles
def test_another_form_of_the_posterior_gives_the_same_law(target, tmp_path):
    """Control variates with the exact test: another kernel by its sums, the same posterior."""
    fit = amc.laplace(target)
    walk = amc.MetropolisHastings(amc.RandomWalk(1.7, preconditioner=fit), amc.ExactTest())
    residuals = amc.ControlVariate(target, at=fit)
    tree = exact_chain_reference(
        target,
        Kernel(walk, residuals),
        Kernel(walk, thin=2),
        gates=LENIENT,
        cache_dir=tmp_path,
        **(SHORT | {"draws": 700}),
    )
    assert tree["posterior"].attrs["gates_passed"] == 1


@pytest.mark.needs_jit
def test_draws_that_fail_are_refused_or_come_back_with_their_report(target, tmp_path):
    how = SHORT | {"cache_dir": tmp_path, "gates": ChainGates(min_bulk_ess=1e6)}
    with pytest.raises(GoldStandardError, match=r"fails 1 of 7 gates: bulk_ess = \d+.*needs >= 1e\+06"):
        exact_chain_reference(target, **(how | {"gates": ChainGates(2.0, 1e6, 2.0, 0.0)}))
    with pytest.warns(SamplingWarning, match="bulk_ess"):
        tree = exact_chain_reference(target, enforce=False, **how)
    assert tree["posterior"].attrs["gates_passed"] == 0


def test_what_is_not_exact_is_refused_and_what_leaves_the_posterior_invariant_is_not(target, tmp_path, monkeypatch):
    monkeypatch.setattr(exact_chain, "_draw", lambda target, kernel, *args, **how: pytest.fail("it draws"))
    walk, how = amc.RandomWalk(0.1), SHORT | {"cache_dir": tmp_path}
    exact = Kernel(amc.MetropolisHastings(walk, amc.ExactTest()))
    for sampler, why in (
        (amc.MetropolisHastings(walk, amc.SequentialTTest(0.05, 50)), "SequentialTTest.* stops early"),
        (
            amc.MetropolisHastings(amc.proposals.StochasticGradientLangevin(1e-3), amc.acceptance.AlwaysAccept()),
            "biased, by order step_size",
        ),
    ):
        for kernels in ((Kernel(sampler), exact), (exact, Kernel(sampler))):
            with pytest.raises(InvalidInputError, match=f"leaves the posterior invariant: .*{why}"):
                exact_chain_reference(target, *kernels, **how)
    split = amc.ControlVariate(target, always_read="auto")
    for test in (
        amc.acceptance.PoissonTest(),
        amc.acceptance.TunaTest(),
        amc.acceptance.FactorizedTest(),
        amc.acceptance.DelayedAcceptance(amc.acceptance.PoissonTest()),
    ):
        for sampler in (amc.MetropolisHastings(walk, test), amc.Firefly(walk)):
            with pytest.raises(pytest.fail.Exception, match="it draws"):
                exact_chain_reference(target, exact, Kernel(sampler, split), **how)
    split.distance_to_model = None
    with pytest.raises(InvalidInputError, match="approximates its model"):
        exact_chain_reference(target, exact, Kernel(exact.sampler, split), **how)


def test_what_does_not_fit_is_refused(target, tmp_path):
    other = Kernel(amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), logistic(n=200, dim=3))
    with pytest.raises(InvalidInputError, match="needs the variables of"):
        exact_chain_reference(target, other, cache_dir=tmp_path, **SHORT)
    with pytest.raises(IncompatibleError, match="target with gradients"):
        exact_chain_reference(amc.targets.alarm_network(J=1))
    with pytest.raises(InvalidInputError, match="draws must be an integer >= 20"):
        exact_chain_reference(target, draws=5)


def test_other_gold_standards_carry_their_method_too():
    variables = amc.contracts.Variables({"x": ()})
    normal = grid_reference(lambda theta: -0.5 * float(theta @ theta), variables, [(-8, 8)])
    assert normal["reference_moments"].attrs["method"] == "grid"
