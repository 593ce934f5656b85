"""Each bound on a stationary law against its formula over all numbers of steps, and what a bound is called at 1."""

import math

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds import statements
from approxmcmc.bounds.finite import LABELS, contraction, row_distances
from approxmcmc.bounds.statements import NAMES, _ratio
from approxmcmc.errors import InvalidInputError


@pytest.mark.parametrize(
    ("value", "heuristic", "label"),
    [
        (0.0, False, "rigorous"),
        (0.999, False, "rigorous"),
        (0.999, True, "heuristic"),
        (1.0, True, "vacuous"),
        (1.0, False, "vacuous"),
        (math.inf, False, "vacuous"),
        (math.nan, True, "not applicable"),
    ],
)
def test_what_a_bound_is_worth(value, heuristic, label):
    assert statements.label_of(value, heuristic=heuristic) == label
    if not heuristic:
        assert statements.label_of(value) == label


@pytest.mark.parametrize("C", [0.3, 0.99, 1.0, 1.5, 7.0, 300.0])
@pytest.mark.parametrize("rho", [1e-3, 0.3, 0.77])
def test_a_factor_is_one_step_each_until_c_rho_to_the_n_is_below_one(C, rho):
    steps = next(n for n in range(1, 100) if C * rho**n <= 1.0)
    assert bounds.mitrophanov_factor(C, rho) == pytest.approx(steps + C * rho**steps / (1.0 - rho), rel=1e-12)
    assert bounds.mitrophanov_factor(C, 0.0) == 1.0


@pytest.mark.parametrize(
    ("C", "rho", "distance"),
    [(0.0, 0.5, "norm"), (-1.0, 0.5, "tv"), (2.0, -0.1, "tv"), (2.0, 1.0, "norm"), (2.0, 0.5, "max"), (2.0, 1.5, "tv")],
)
def test_constants_out_of_range_are_named(C, rho, distance):
    with pytest.raises(InvalidInputError, match=f"found C={C}, rho={rho}, distance='{distance}'"):
        bounds.mitrophanov_factor(C, rho, distance=distance)


WALK = 0.5 * (np.eye(4, k=1) + np.eye(4, k=-1)) + np.diag([0.5, 0.0, 0.0, 0.5])  # from both ends nothing is shared
MEMORY = 0.5 * np.kron(np.ones((2, 1)), np.kron(np.eye(2), np.ones((1, 2))))  # two tosses of a coin: forgets in 2 steps


def factors_by_hand(T, law, n_steps):
    """Return the factor of each bound: the smallest over all numbers of steps K."""
    powers = [np.linalg.matrix_power(T, k) for k in range(n_steps + 1)]
    eta = [1.0, *(contraction(power) for power in powers[1:])]
    far = [1.0, *(row_distances(power, law).max() for power in powers[1:])]
    by_steps = {name: [] for name in ("b2", "b3", "b5")}
    for K in range(1, n_steps + 1):
        if eta[K] > 1.0 - 1e-12:
            continue
        by_steps["b2"].append(K / (1.0 - eta[K]))
        by_steps["b3"].append(sum(eta[:K]) / (1.0 - eta[K]))
        if eta[K] < 1e-15:
            by_steps["b5"].append(K)
        else:
            rho = eta[K] ** (1.0 / K)
            C = 2.0 * max(far[r] / rho**r for r in range(K))
            by_steps["b5"].append(bounds.mitrophanov_factor(C, rho))
    found = {name: min(values) for name, values in by_steps.items()}
    return found | {"b1": 1.0 / (1.0 - eta[1]) if eta[1] < 1.0 else math.nan, "b4": found["b3"]}


@pytest.mark.parametrize("which", ["random", "lazy", "walk", "memory"])
def test_every_bound_is_the_best_of_its_formula(which, rng):
    """Of a matrix that forgets at once, slowly, after three steps only, and wholly after two."""
    T = {"random": rng.dirichlet(np.ones(5), size=5), "walk": WALK, "memory": MEMORY}.get(which)
    if which == "lazy":
        T = 0.7 * np.eye(3) + 0.3 * rng.dirichlet(np.ones(3), size=3)
    n = len(T)
    other = rng.dirichlet(np.ones(n), size=n)
    T_hat = 0.97 * T + 0.03 * other
    found = bounds.exact(T, T_hat, n_steps=12, delta_max=0.04, n_decisions=3)
    law, law_hat = (np.linalg.matrix_power(matrix, 4096)[0] for matrix in (T, T_hat))
    one_step = [0.5 * np.abs(T_hat[x] - T[x]).sum() for x in range(n)]
    wanted = {"tv": 0.5 * np.abs(law - law_hat).sum(), "delta": max(one_step), "e_delta": law_hat @ one_step}
    factors = factors_by_hand(T, law, 12)
    wanted |= {name: factor * wanted["e_delta" if name == "b4" else "delta"] for name, factor in factors.items()}
    wanted |= {f"{name}_delta_max": factor * 3 * 0.04 for name, factor in factors.items() if name != "b4"}
    wanted |= {"sum_eta": factors["b3"], "delta_max": 0.04}
    for name, value in wanted.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-9, nan_ok=True), name
    for name, value in ((name, value) for name, value in wanted.items() if name.startswith("b")):
        worth = "not applicable" if math.isnan(value) else "vacuous" if value >= 1.0 else "rigorous"
        assert found[f"label_{name}"].item() == worth
        assert float(found[f"looseness_{name}"]) == pytest.approx(value / wanted["tv"], rel=1e-9, nan_ok=True)
    assert math.isnan(wanted["b1"]) == (which in ("walk", "memory"))
    np.testing.assert_allclose(found["stationary"], law, atol=1e-12)
    np.testing.assert_allclose(found["stationary_hat"], law_hat, atol=1e-12)
    assert found["k"].values.tolist() == list(range(1, 3 if which == "memory" else 13))
    assert found.attrs == {"n_decisions": 3, "label_matrices": "as given"}
    assert "b4_delta_max" not in found and found["b3"].attrs["units"] == "1"


def test_five_hundred_steps_are_computed_and_one_matrix_alone_has_one_decision():
    slow = np.array([[0.999, 0.001], [0.001, 0.999]])
    found = bounds.exact(slow, [[0.9, 0.1], [0.1, 0.9]])
    assert found.sizes["k"] == 500 and found.attrs["n_decisions"] == 1
    assert "delta_max" not in found and "b1_delta_max" not in found


def test_what_is_far_away_before_it_is_forgotten_has_a_larger_constant():
    """eta_3 = 0.1 after two steps that forget nothing: rho^3 = 0.1, and of 1, 0.75 / rho and 0.5 / rho^2 the last."""
    factors = statements.bound_factors(np.array([1.0, 1.0, 0.1]), np.array([0.75, 0.5, 0.05]))
    rho = 0.1 ** (1.0 / 3.0)
    assert factors["b5"] == pytest.approx(bounds.mitrophanov_factor(2.0 * 0.5 / rho**2, rho), rel=1e-12)
    assert factors["b3"] == pytest.approx(3.0 / 0.9) and factors["b2"] == pytest.approx(3.0 / 0.9)
    one = bounds.exact([[0.9, 0.1], [0.2, 0.8]], [[0.88, 0.12], [0.2, 0.8]], n_steps=1)
    assert float(one["sum_eta"]) == pytest.approx(1.0 / 0.3)


def test_constants_from_elsewhere_stand_where_nothing_is_forgotten():
    factors = statements.bound_factors(np.ones(3), np.ones(3), (2.0, 0.9))
    assert factors["b5"] == bounds.mitrophanov_factor(2.0, 0.9)
    assert all(math.isnan(factors[name]) for name in ("b1", "b2", "b3", "b4"))
    certain = np.array([statements.CERTAIN_FORGETTING])
    assert all(math.isnan(value) for value in statements.bound_factors(certain, certain).values())
    known = bounds.exact(WALK, 0.999 * WALK + 0.00025, constants=(2.0, 0.7), delta_max=0.01)
    labels = {name: known[f"label_{name}"].item() for name in ("b2_delta_max", "b3", "b5", "b5_delta_max")}
    assert labels == {"b2_delta_max": "rigorous", "b3": "rigorous", "b5": "heuristic", "b5_delta_max": "heuristic"}


@pytest.mark.parametrize(("moved", "equal"), [(4e-14, True), (4e-13, False)])
def test_matrices_that_differ_by_rounding_are_equal(moved, equal):
    T = np.array([[0.9, 0.1], [0.2, 0.8]])
    T_hat = T + moved * np.array([[1.0, -1.0], [0.0, 0.0]])
    found = bounds.exact(T, T_hat)
    assert (float(found["delta"]) == 0.0) == (float(found["e_delta"]) == 0.0) == equal
    assert (found["stationary"] == found["stationary_hat"]).all() == equal


def test_a_difference_as_large_as_rounding_is_rounding(monkeypatch):
    monkeypatch.setattr(statements, "ROUNDING", 0.25)
    found = bounds.exact([[0.5, 0.5], [0.5, 0.5]], [[0.75, 0.25], [0.5, 0.5]])
    assert float(found["delta"]) == float(found["tv"]) == 0.0
    assert float(bounds.exact(decided(0.5, 0.5), decided(0.25, 0.5))["delta_max"]) == 0.0


def decided(*probabilities):
    """Return a matrix as `transition_matrix` does, whose two decisions have these probabilities."""
    a, b = probabilities
    return xr.DataArray(
        [[1.0 - a, a], [b, 1.0 - b]],
        dims=("state", "next_state"),
        coords={"decision": (("state", "next_state"), [[math.nan, a], [b, math.nan]])},
        attrs={"n_decisions": 2, "label": "rigorous"},
    )


def test_the_largest_error_of_a_decision_is_read_from_the_matrices():
    T, T_hat = decided(0.3, 0.4), decided(0.35, 0.2)
    found = bounds.exact(T, T_hat)
    assert float(found["delta_max"]) == pytest.approx(0.2) and found.attrs["n_decisions"] == 2
    assert float(found["b3_delta_max"]) == pytest.approx(2 * 0.2 * float(found["sum_eta"]))
    given = bounds.exact(T, T_hat, delta_max=0.3, n_decisions=1)
    assert float(given["b3_delta_max"]) == pytest.approx(0.3 * float(found["sum_eta"]))
    assert float(bounds.exact(T, decided(0.3 + 4e-14, 0.4))["delta_max"]) == 0.0
    assert float(bounds.exact(T, decided(0.3 + 4e-13, 0.4))["delta_max"]) > 0.0
    for pair in ((T, T_hat.to_numpy()), (T.to_numpy(), T_hat)):
        assert "delta_max" not in bounds.exact(*pair) and bounds.exact(*pair).attrs["n_decisions"] == 1
    nothing = T.copy()
    nothing["decision"] = nothing["decision"].where(False)
    assert float(bounds.exact(nothing, nothing)["delta_max"]) == 0.0


T = np.array([[0.9, 0.1], [0.2, 0.8]])


field = amc.targets.BinaryMRF.random_triples


def test_the_factor_of_mitrophanov_covers_the_contractions():
    """sum_k min(1, C rho^k) with eta_0 = 1, also where C < 1 holds from the first step on."""
    for C in (0.01, 0.3, 1.0, 2.0, 7.0):
        for rho in (0.0, 0.1, 0.5, 0.9):
            summed = 1.0 + sum(min(1.0, C * rho**k) for k in range(1, 1000))
            assert summed <= bounds.mitrophanov_factor(C, rho) * (1.0 + 1e-12)


def test_equal_matrices_have_bounds_of_zero():
    found = bounds.exact(T, T)
    assert float(found["tv"]) == float(found["b1"]) == 0.0
    assert math.isnan(float(found["looseness_b1"]))
    matrix = bounds.transition_matrix(field(4, 0.6, 0), amc.Gibbs())
    assert float(bounds.exact(matrix, matrix)["delta_max"]) == 0.0


def test_given_constants_make_one_bound_heuristic():
    found = bounds.exact(T, [[0.88, 0.12], [0.2, 0.8]], constants=(2.0, 0.7))
    assert [found[f"label_{name}"].item() for name in NAMES] == ["rigorous"] * 4 + ["heuristic"]
    assert float(found["b5"]) == pytest.approx(0.02 * bounds.mitrophanov_factor(2.0, 0.7))


def test_a_periodic_chain_has_no_bound():
    flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    found = bounds.exact(flip, T)
    assert {found[f"label_{name}"].item() for name in NAMES} == {"not applicable"}
    assert all(math.isnan(float(found[name])) for name in NAMES)


def test_every_bound_carries_a_label_and_a_looseness():
    found = bounds.exact(T, [[0.5, 0.5], [0.2, 0.8]], delta_max=0.5, n_decisions=3)
    named = [name for name in found.data_vars if str(name).startswith("b")]
    assert len(named) == 9
    for name in named:
        assert found[f"label_{name}"].item() in LABELS
        assert float(found[f"looseness_{name}"]) == pytest.approx(float(found[name] / found["tv"]))
        assert found[name].attrs["long_name"]
        assert (float(found[name]) >= 1.0) == (found[f"label_{name}"].item() == "vacuous")
    assert float(found["b1_delta_max"]) == pytest.approx(3 * 0.5 / 0.3)


@pytest.mark.parametrize(
    ("bound", "truth", "looseness"),
    [(0.3, 0.1, 3.0), (0.3, 0.0, math.inf), (0.0, 0.0, math.nan), (math.nan, 0.0, math.nan)],
)
def test_the_looseness_of_a_bound(bound, truth, looseness):
    assert _ratio(bound, truth) == pytest.approx(looseness, nan_ok=True)


def test_a_constant_of_total_variation_is_half_that_of_the_norm():
    factor = amc.bounds.mitrophanov_factor
    for C, rho in ((0.7, 0.9), (3.0, 0.4)):
        assert factor(C, rho, distance="tv") == factor(2.0 * C, rho) > factor(C, rho)
