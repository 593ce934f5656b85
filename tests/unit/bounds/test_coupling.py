"""The bound of couplings with a lag: when it exists, and what is refused."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds.coupling import coupling_bound, geometric_majorant
from approxmcmc.errors import IncompatibleError, InvalidInputError

T = np.array([[0.9, 0.1], [0.2, 0.8]])


def test_couplings_that_do_not_meet_give_no_constants():
    found = bounds.couplings(
        T * 0.001 + 0.999 * np.eye(2), lag=1, n_couplings=20, max_steps=3, initvals=None, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    assert found.attrs["unmet"] > 0
    assert found.attrs["label"] == found["label_constants"].item() == "not applicable"
    assert math.isnan(float(found["b5_factor"]))


@pytest.mark.parametrize(("times", "last"), [([4, 4], 1), ([3, 3], 1), ([4, 9], 6)])
def test_a_bound_by_couplings_is_followed_until_it_is_zero(times, last):
    found = coupling_bound(times, 3)
    assert found["time"].values[-1] == last and found["tv_bound"].values[-1] == 0.0
    assert found.attrs["label"] == "upper bound in expectation"


def test_couplings_that_have_all_met_give_constants():
    found = coupling_bound(np.arange(4, 40), 3)
    assert found["label_constants"].item() == "heuristic"
    assert float(found["b5_factor"]) == pytest.approx(
        amc.bounds.mitrophanov_factor(float(found["C"]), float(found["rho"]))
    )
    assert math.isnan(coupling_bound(np.arange(4, 40), 3, max_steps=38)["b5_factor"])


def test_only_a_bound_that_falls_has_a_geometric_majorant():
    times = np.arange(5)
    C, rho = geometric_majorant(times, 0.3 * 0.5**times)
    assert (C, rho) == pytest.approx((0.6, 0.5))  # of the norm, twice the distance
    for bound in (np.full(5, 0.3), 0.1 * 1.2**times, np.array([0.5, 0.1, 0.0, 0.0, 0.0])):
        assert np.isnan(geometric_majorant(times, bound)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lag": 0}, "lag"),
        ({"lag": 5, "max_steps": 5}, "max_steps must be an integer >= 6"),
        ({"lag": 1, "initvals": 2}, r"initvals must be a state 0 \.\.\. 1, found 2"),
    ],
)
def test_settings_that_no_coupling_has_are_refused(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        bounds.couplings(T, **settings)


def test_a_kernel_that_cannot_be_coupled_is_refused():
    target = amc.targets.LogisticRegression(np.ones((20, 1)), np.arange(20) % 2)
    guided = amc.MetropolisHastings(amc.proposals.StochasticGradientHamiltonian(0.1, batch_size=5), amc.ExactTest())
    with pytest.raises(IncompatibleError, match="coupl"):
        bounds.couplings(target, guided, lag=2)
