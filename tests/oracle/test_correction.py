"""The correction distribution against the sup-errors of an independent computation."""

import math
import types

import numpy as np
import pytest
from scipy.special import expit, ndtr

from approxmcmc.acceptance.laws import correction
from approxmcmc.acceptance.laws.correction import CorrectionDistribution, correction_distribution
from approxmcmc.errors import InvalidInputError

LOGISTIC_VARIANCE = math.pi**2 / 3.0


def distance(law: CorrectionDistribution) -> float:
    """Return the sup-error, on other points than the library checks."""
    grid = np.linspace(-31.0, 31.0, 4003)
    return np.abs(ndtr((grid[:, None] - law.atoms) / law.sigma) @ law.weights - expit(grid)).max()


# Values of methods F.2, rounded up.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sigma", "error"), [(0.1, 1.1e-7), (0.5, 3.9e-8), (0.8, 1.9e-8), (0.9, 2e-9), (1.0, 5.5e-8), (1.1, 1.5e-6),
                         (1.2, 1.7e-5), (1.5, 1.7e-3)],
)  # fmt: skip
def test_sup_errors_of_the_linear_programme(sigma, error):
    law = correction_distribution(sigma)
    assert law.sup_error < error
    assert distance(law) == pytest.approx(law.sup_error, rel=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("sigma", [0.5, 0.9, 1.0, 1.1, 1.2])
@pytest.mark.parametrize("method", ["minimax", "nnls"])
def test_variances_add_up(sigma, method):
    """Var X_corr = pi^2 / 3 - sigma^2, mean 0, and it is a law."""
    law = correction_distribution(sigma, method)
    assert law.weights @ law.atoms**2 == pytest.approx(LOGISTIC_VARIANCE - sigma**2, abs=1e-3)
    assert law.weights @ law.atoms == pytest.approx(0.0, abs=1e-12)
    assert law.weights.sum() == pytest.approx(1.0, abs=1e-14) and law.weights.min() > 0.0


def test_least_squares_at_unit_variance():
    assert correction_distribution(1.0, "nnls").sup_error == pytest.approx(7.3e-8, rel=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize(("regularisation", "error"), [(1.0, 6.8e-4), (0.1, 6.9e-4), (0.01, 1.2e-3)])
def test_clipped_ridge_is_ten_thousand_times_worse(regularisation, error):
    """A quarter of the 2001 points of methods F.2: weights are 4 times as large, residuals a quarter as many."""
    law = correction_distribution(1.0, "ridge", regularisation=regularisation / 16.0, points=501)
    assert law.sup_error == pytest.approx(error, rel=0.02)
    assert law.sup_error > 1e4 * correction_distribution(1.0).sup_error


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "regularisation", "error"),
    [(0.8, 10.0, 1.2e-3), (0.9, 0.1, 8.4e-5), (1.0, 10.0, 2.4e-3), (1.0, 1.0, 6.8e-4), (1.1, 1.0, 2.8e-3)],
)
def test_clipped_ridge_of_the_paper(sigma, regularisation, error):
    assert correction_distribution(sigma, "ridge", regularisation=regularisation).sup_error == pytest.approx(
        error, rel=0.03
    )


@pytest.mark.slow
def test_the_table_that_ships_is_what_the_programme_finds():
    """Optimal weights are not unique: the error is compared, and the atoms as far as the solver repeats itself."""
    shipped, computed = correction_distribution(1.0), correction._computed(1.0, "minimax", 1.0, 2001)
    assert correction.sup_error(shipped.atoms, shipped.weights, 1.0) == pytest.approx(shipped.sup_error, rel=1e-6)
    assert shipped.sup_error == pytest.approx(computed.sup_error, rel=0.05)
    assert len(shipped.atoms) == 39
    assert shipped.weights.max() == pytest.approx(0.420537, abs=1e-6)
    assert shipped.weights @ shipped.atoms**2 == pytest.approx(computed.weights @ computed.atoms**2, abs=1e-5)


def test_a_narrower_normal_part_is_seen():
    """The check itself can fail: the law for sigma = 1 under a normal part of 0.99."""
    law = correction_distribution(1.0)
    assert correction.sup_error(law.atoms, law.weights, 0.99) > 1e-4


def test_a_solver_that_gives_up_is_asked_again_and_never_more_loosely_than_1e_8(monkeypatch):
    asked = []

    def gives_up(*arguments, options, **rest):
        asked.append(options["primal_feasibility_tolerance"])
        assert options["dual_feasibility_tolerance"] == asked[-1] and len(arguments[0]) > 100
        return types.SimpleNamespace(x=None, status=4, message="no")

    monkeypatch.setattr("scipy.optimize.linprog", gives_up)
    with pytest.raises(RuntimeError, match=r"no solution at sigma = 1\.0: no"):
        correction._minimax(1.0)
    assert asked == sorted(asked) and asked[0] == 1e-10 and asked[-1] == 1e-8


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"sigma": 0.05}, "found 0.05"),
        ({"sigma": 1.9}, "well below the variance 3.29"),
        ({"sigma": float("nan")}, "found nan"),
        ({"method": "lasso"}, "found 'lasso'"),
        ({"method": "ridge", "regularisation": 0.0}, "regularisation"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, match):
    with pytest.raises(InvalidInputError, match=match):
        correction_distribution(**arguments)
