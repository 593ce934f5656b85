"""The kernel Stein discrepancy against a closed form, against quadrature, and against planted bugs."""

import numpy as np
import pytest
import xarray as xr
from scipy.special import kve

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.reference import discrepancy
from approxmcmc.reference.discrepancy import pairwise, stein_kernel
from tests.models import logistic, normal_mean

SHIFT = 0.3
# For X, X' ~ N(a, 1) and the target N(0, 1) the scores differ by -a everywhere, so that S^2 = a^2 E (1 + R^2)^(-1/2),
# R ~ N(0, 2), and the integral of (1 + r^2)^(-1/2) exp(-r^2 / 4) is exp(1/8) K_0(1/8).
CLOSED_FORM = SHIFT**2 * kve(0, 0.125) / np.sqrt(4.0 * np.pi)


def by_quadrature(mean, sd, score, n=120):
    """Return E k_0(X, X') over independent normals in one dimension."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    x = (mean + sd * nodes)[:, None]
    weights = weights / weights.sum()
    return float(weights @ stein_kernel(x, score(x), x, score(x)) @ weights)


def slow_kernel(x, g_x, y, g_y, h=1e-4):
    """Return k_0 of two states by finite differences of k."""

    def k(a, b):
        return (1.0 + ((a - b) ** 2).sum()) ** -0.5

    e = np.eye(len(x)) * h
    d_x = np.array([(k(x + i, y) - k(x - i, y)) / (2 * h) for i in e])
    d_y = np.array([(k(x, y + i) - k(x, y - i)) / (2 * h) for i in e])
    both = [(k(x + i, y + i) - k(x + i, y - i) - k(x - i, y + i) + k(x - i, y - i)) / (4 * h * h) for i in e]
    return g_x @ g_y * k(x, y) + g_x @ d_y + g_y @ d_x + sum(both)


class TestKernel:
    def test_it_is_the_derivative_of_the_multiquadric(self, rng):
        x, g_x, y, g_y = rng.normal(size=(4, 5, 3))
        values = stein_kernel(x, g_x, y, g_y)
        slow = [[slow_kernel(x[i], g_x[i], y[j], g_y[j]) for j in range(5)] for i in range(5)]
        np.testing.assert_allclose(values, slow, atol=1e-6)

    def test_a_shifted_normal_has_its_closed_form(self):
        assert by_quadrature(SHIFT, 1.0, lambda x: -x) == pytest.approx(CLOSED_FORM, rel=1e-6)

    def test_it_is_0_for_the_law_itself_and_symmetric_in_the_sign_of_a_shift(self):
        assert by_quadrature(0.0, 1.0, lambda x: -x) == pytest.approx(0.0, abs=1e-6)  # what the quadrature reaches
        assert by_quadrature(-SHIFT, 1.0, lambda x: -x) == pytest.approx(CLOSED_FORM, rel=1e-6)

    @pytest.mark.parametrize(
        "planted", [lambda x: x, lambda x: -0.9 * x, lambda x: 0.0 * x], ids=["sign", "prior", "lost"]
    )
    def test_planted_bugs_in_the_score_are_seen(self, planted):
        """A sign error, a prior that is forgotten, a score that is lost."""
        assert by_quadrature(0.0, 1.0, planted) > 1e-3
        assert by_quadrature(SHIFT, 1.0, planted) != pytest.approx(CLOSED_FORM, rel=0.02)

    def test_pairs_are_those_of_the_whole_matrix(self, rng, monkeypatch):
        monkeypatch.setattr(discrepancy, "ROWS", 7)
        phi, g = rng.normal(size=(2, 40, 3))
        matrix = stein_kernel(phi, g, phi, g)
        found, off = pairwise(phi, g), ~np.eye(40, dtype=bool)
        assert found.estimate("U")["squared"] == pytest.approx(matrix[off].mean())
        assert found.estimate("V")["squared"] == pytest.approx(matrix.mean())
        assert found.square == pytest.approx((matrix[off] ** 2).mean())


class TestError:
    """The U-statistic in replicates: unbiased, and as wide as it says.

    Means are within 4.5 standard errors (7e-6 by chance). The spread of 200 replicates is known to 5 % where the law is
    off, and must be within a quarter of the error, five of these. Where the law is right it is known to 8 %, and the
    error, whose variance of the projection is cut off at 0, may only be larger.
    """

    @pytest.mark.thorough
    @pytest.mark.parametrize("shift", [0.0, SHIFT])
    def test_replicates(self, shift, rng):
        found = []
        for _ in range(200):
            x = shift + rng.normal(size=(150, 1))
            found.append(pairwise(x, -x).estimate("U"))
        squared, error = (np.array([one[name] for one in found]) for name in ("squared", "error"))
        truth = CLOSED_FORM if shift else 0.0
        assert abs(squared.mean() - truth) < 4.5 * squared.std() / np.sqrt(200)
        ratio = np.sqrt((error**2).mean()) / squared.std()
        assert (0.75 < ratio < 1.25) if shift else (0.9 < ratio < 1.8)

    def test_noise_of_independent_minibatches_leaves_it_unbiased(self, rng):
        x = SHIFT + rng.normal(size=(60, 150, 1))
        noisy = [pairwise(one, -one + 2.0 * rng.normal(size=one.shape)) for one in x]
        squared = np.array([pairs.estimate("U")["squared"] for pairs in noisy])
        assert abs(squared.mean() - CLOSED_FORM) < 4.5 * squared.std() / np.sqrt(60)
        # Planted: one minibatch for all draws is an error of the score that all pairs share.
        shared = [pairwise(one, -one + 2.0 * rng.normal()).estimate("U")["squared"] for one in x]
        assert np.mean(shared) > CLOSED_FORM + 1.0
        # The V-statistic counts the noise.
        assert np.mean([pairs.estimate("V")["squared"] for pairs in noisy]) > squared.mean() + 0.02


def trace_of(draws, name="beta"):
    return xr.DataTree.from_dict({"posterior": xr.Dataset({name: (("chain", "draw", "coef"), draws)})})


class TestTraces:
    @pytest.mark.thorough
    def test_it_ranks_a_posterior_before_laws_that_are_off(self, rng):
        target = logistic(400)
        fit = amc.laplace(target)
        draws = fit.mode + rng.normal(size=(2, 200, 3)) @ fit.cholesky.T
        runs = {
            "near": trace_of(draws),
            "shifted": trace_of(draws + 0.7 * fit.sd),
            "wide": trace_of(fit.mode + 1.8 * (draws - fit.mode)),
        }
        table = amc.stein_discrepancy(runs, target, metric=fit)
        assert list(table.index) == list(runs) and (table["draws"] == 400).all()
        assert table["squared"].idxmin() == "near" and table.loc["near", "lower"] < 0.01
        assert (table.loc[["shifted", "wide"], "lower"] > table.loc["near", "upper"]).all()
        assert (table["gradient_evaluations"] == 400 * 400).all()

    def test_a_minibatch_of_all_data_is_the_full_gradient(self, rng):
        target = logistic(60)
        fit = amc.laplace(target)
        trace = trace_of(fit.mode + rng.normal(size=(1, 40, 3)) @ fit.cholesky.T)
        full, all_rows = (amc.stein_discrepancy(trace, target, minibatch=m) for m in (None, 60))
        assert full.loc["", "squared"] == pytest.approx(all_rows.loc["", "squared"], rel=1e-9)
        part = amc.stein_discrepancy(trace, target, minibatch=20, draws=30)
        assert part.loc["", "error"] > full.loc["", "error"] and part.loc["", "gradient_evaluations"] == 600

    def test_refusals(self):
        target, trace = logistic(60), trace_of(np.zeros((1, 9, 3)))
        for error, message, options in (
            (InvalidInputError, "'U' or 'V'", {"statistic": "W"}),
            (InvalidInputError, "at most 60", {"minibatch": 61}),
            (InvalidInputError, "draws must be", {"draws": 2}),
        ):
            with pytest.raises(error, match=message):
                amc.stein_discrepancy(trace, target, **options)
        with pytest.raises(InvalidInputError, match="dict of name"):
            amc.stein_discrepancy([trace], target)
        with pytest.raises(IncompatibleError, match="gradient"):
            amc.stein_discrepancy(trace_of(np.zeros((1, 9, 1)), "theta"), normal_mean())
        weighted = trace.copy()
        weighted["sample_stats"] = xr.DataTree(xr.Dataset({"weight": (("chain", "draw"), np.ones((1, 9)))}))
        with pytest.raises(InvalidInputError, match="weights"):
            amc.stein_discrepancy(weighted, target)
        with pytest.raises(InvalidInputError, match="3 draws"):
            amc.stein_discrepancy(trace_of(np.zeros((1, 2, 3))), target)
