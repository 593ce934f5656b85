"""Crossed effects with many levels: one pass per Hessian, a pilot by curvature, and the cost of NUTS on a ridge."""

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.design import normal_by_pilot as pilots
from approxmcmc.design.lower_bounds import seconds_of_trajectories
from approxmcmc.design.target_profile import TargetProfile
from approxmcmc.design.work import PRODUCT, Counted
from approxmcmc.expansion import quadratic
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.interop.nuts_seconds import seconds_of_trajectory
from approxmcmc.targets.predictors.design import Design, Predictor

N, USERS, ITEMS = 3000, 20, 12
rng = np.random.default_rng(4)
USER, ITEM, X = rng.integers(USERS, size=N), rng.integers(ITEMS, size=N), rng.normal(size=N)
OF_USERS, OF_ITEMS = 0.8 * rng.normal(size=USERS), 0.6 * rng.normal(size=ITEMS)
ETA = 0.4 * X + OF_USERS[USER] + OF_ITEMS[ITEM]


def crossed():
    with pm.Model() as model:
        user, item = (pm.Normal(f"z_{name}", shape=size) for name, size in (("user", USERS), ("item", ITEMS)))
        eta = pm.Normal("a") + pm.Normal("b") * X
        eta = eta + pm.HalfNormal("s_user") * user[USER] + pm.HalfNormal("s_item") * item[ITEM]
        pm.Normal("y", eta, pm.HalfNormal("noise"), observed=ETA + np.random.default_rng(5).normal(size=N))
    return model


@pytest.fixture(scope="module")
def target():
    return amc.from_pymc(crossed(), integrate=False)


@pytest.mark.thorough
def test_hessians_of_many_categories_are_summed_in_few_blocks():
    """Of 700 categories a block of 356 rows would make a matrix of 490 000 numbers, 28 times."""
    levels, n = 700, 10_000
    codes = np.random.default_rng(1).integers(levels, size=(n, 1)).astype(np.int32)
    design = Design(levels + 1, X=np.linspace(-1.0, 1.0, n)[:, None], codes=codes, weight_columns=[-1], predictors=[
        Predictor(columns=(0, 1), places=[levels], codes=(0, 1))
    ])  # fmt: skip
    assert design.rows_at_a_time == 356 and n <= design.rows_per_summed_block
    curvatures = np.random.default_rng(2).random((1, 1, n))
    whole = np.hstack([np.eye(levels)[codes[:, 0]], design.X])
    np.testing.assert_allclose(
        design.hessian(curvatures, slice(None)), whole.T @ (curvatures[0, 0, :, None] * whole), rtol=1e-12
    )
    few = Design(5, X=design.X, codes=codes % 4, weight_columns=[-1], predictors=[
        Predictor(columns=(0, 1), places=[4], codes=(0, 1))
    ])  # fmt: skip
    assert few.rows_per_summed_block == few.rows_at_a_time


@pytest.mark.parametrize(("least", "expected"), [(2e-10, True), (0.5e-10, False), (-1.0, False), (np.nan, False)])
def test_a_matrix_is_positive_definite_if_its_least_eigenvalue_is_more_than_rounding(least, expected):
    """Eigenvalues are 2 - `least` and `least`, of a matrix with unit diagonal."""
    off = 1.0 - least
    assert quadratic.is_positive_definite(np.array([[1.0, off], [off, 1.0]])) is expected


@pytest.mark.needs_jit
def test_the_metric_of_many_parameters_is_the_inverse_hessian_where_that_is_positive_definite(target):
    states = target.initial_point()
    with pytest.MonkeyPatch.context() as patch:  # few states for a parameter, as with 600 parameters
        patch.setattr(pilots, "TOO_MANY", 0.1)
        assert pilots.is_by_curvature(target)
    assert not pilots.is_by_curvature(target)
    for name, value in (("z_user", OF_USERS), ("z_item", OF_ITEMS), ("b", 0.4)):
        states[[k for k, label in enumerate(target.variables.labels()) if label.startswith(name)]] = value
    found = pilots._by_curvature(target, states)
    np.testing.assert_allclose(found.cov @ -Posterior(target).at(states).hessian, np.eye(len(states)), atol=1e-8)
    assert pilots._by_curvature(target, -4.0 * states) is None  # far off, where the noise would rather be larger


@pytest.mark.needs_jit
def test_a_pilot_by_curvature_ends_after_two_rounds(target, monkeypatch):
    monkeypatch.setattr(pilots, "TOO_MANY", 0.1)
    made = []
    steps = pilots.make_steps
    monkeypatch.setattr(
        pilots, "make_steps", lambda chain, n, dim, message: made.append(n) or steps(chain, n, dim, message=message)
    )
    fit = pilots.normal_by_pilot(target, random_seed=1)
    assert made == [50, 100]
    at = {name: k for k, name in enumerate(target.variables.labels())}
    assert abs(fit.mode[at["b"]] - 0.4) < 5.0 * fit.sd[at["b"]] < 0.2
    monkeypatch.setattr(pilots, "TOO_MANY", 1e9)
    longer = pilots.normal_by_pilot(target, random_seed=1)  # measured by four rounds
    assert 0.5 < np.exp(np.mean(np.log(fit.sd / longer.sd))) < 1.5


@pytest.mark.thorough
def test_nuts_is_charged_for_the_ridge_between_intercept_and_effects(target):
    ratios = [one.ratio for one in target.effects]
    assert min(ratios) > 10.0
    work = target.written_work
    assert work.longer == pytest.approx(max(ratios) ** 0.5)
    assert seconds_of_trajectory(work) == pytest.approx(work.longer * seconds_of_trajectory(work._replace(longer=1.0)))


@pytest.mark.thorough
def test_trajectories_are_charged_for_the_numbers_of_a_sparse_metric(target, monkeypatch):
    dim = target.variables.size
    assert pilots.numbers_of_metric(target, None) == dim**2  # few parameters: a covariance, measured by the pilot
    monkeypatch.setattr(pilots, "TOO_MANY", 0.1)
    assert pilots.numbers_of_metric(target, None) == dim
    users = np.arange(200)  # each linked to one of 9 others
    precision = np.diag(np.full(209, 9.0))
    precision[users, 200 + users % 9] = precision[200 + users % 9, users] = 0.1
    law = pilots.normal_by_precision(np.zeros(209), precision)
    assert pilots.numbers_of_metric(target, law) == 2 * 200 + 9**2
    known = TargetProfile(target, _found={"pilot": law})
    one = Counted(1.0, 0.0, float(target.n_obs), 0.0, 0.0)
    dense = seconds_of_trajectories(TargetProfile(target, _found={"pilot": target}), one)
    assert dense - seconds_of_trajectories(known, one) == pytest.approx(3.0 * PRODUCT * (dim**2 - 481))
