"""What `estimate_delta` makes of replicated decisions: limits of Clopper and Pearson, and what is labelled rigorous."""

import math

import numpy as np
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.bounds import delta, estimate_delta
from approxmcmc.errors import InvalidInputError

REPLICATIONS, CONFIDENCE, SHARE = 40, 0.9, 0.05
TABLE = {
    "log_ratio": [0.0, -1.0, -math.inf, -math.inf, 0.5],
    "tau": [1.0, 0.5, 0.0, math.inf, 0.0],  # the third lies outside the support, the fourth meets impossible data
    "exact": [1.0, math.exp(-1.0), 0.0, 0.0, 1.0],
    "accepted": [36, 20, 0, 0, 40],
    "error_model": [-0.12, 0.02, 0.0, math.nan, 0.0],
}
FIELD = amc.targets.BinaryMRF.random_triples(4, scale=0.3, random_seed=0)


def judged(independent=True, **columns):
    return delta._judged(TABLE | columns, REPLICATIONS, CONFIDENCE, SHARE, independent=independent)


def test_limits_are_those_of_clopper_and_pearson_at_a_shared_level():
    found, exact, k = judged(), np.array(TABLE["exact"]), np.array(TABLE["accepted"])
    tail = 0.5 * (1.0 - CONFIDENCE) / 5
    with np.errstate(invalid="ignore"):
        lower = np.where(k > 0, stats.beta.ppf(tail, k, REPLICATIONS - k + 1), 0.0) - exact
        upper = np.where(k < REPLICATIONS, stats.beta.ppf(1.0 - tail, k + 1, REPLICATIONS - k), 1.0) - exact
    lower[2] = upper[2] = 0.0  # no error is possible there
    np.testing.assert_allclose(found["error_lower"], lower, atol=1e-12)
    np.testing.assert_allclose(found["error_upper"], upper, atol=1e-12)
    np.testing.assert_allclose(found["error_bound"], np.maximum(np.abs(lower), np.abs(upper)), atol=1e-12)
    for name in ("delta_sampled", "delta_quantile", "delta_max"):
        assert found[name] == found["error_bound"].max() > 0.2
    np.testing.assert_allclose(found["realised"], k / REPLICATIONS)
    np.testing.assert_allclose(found["error"], k / REPLICATIONS - exact)


def test_the_mean_error_and_its_limits():
    found, size = judged(), np.abs(np.array(TABLE["accepted"]) / REPLICATIONS - TABLE["exact"])
    margin = 1.96 * size.std(ddof=1) / math.sqrt(5)
    assert found["mean_error"] == pytest.approx(size.mean())
    np.testing.assert_allclose(found["mean_error_interval"], [size.mean() - margin, size.mean() + margin])
    hoeffding = size.mean() + math.sqrt(math.log(10.0) / 10.0)
    assert found["mean_error_upper"] == pytest.approx(hoeffding) and hoeffding < 1.0
    assert found["quantile_confidence"] == pytest.approx(1.0 - (1.0 - SHARE) ** 5 - 0.1)
    assert found["delta_max_model"] == pytest.approx(0.12)


def test_a_mean_error_is_at_most_1():
    assert judged(accepted=[0, 40, 40, 40, 0])["mean_error_upper"] == 1.0


@pytest.mark.parametrize("n_pairs", [1, 2])
def test_one_pair_has_no_spread(n_pairs):
    interval = judged(**{name: values[:n_pairs] for name, values in TABLE.items()})["mean_error_interval"]
    assert np.isnan(interval).all() == (n_pairs == 1)


@pytest.mark.parametrize(("independent", "label"), [(True, "rigorous"), (False, "heuristic")])
def test_what_needs_independent_pairs_is_labelled_so(independent, label):
    found = judged(independent)
    labels = {name: str(found[f"label_{name}"].values) for name in ("delta_quantile", "mean_error_upper")}
    assert set(labels.values()) == {label}
    assert (
        str(found["label_delta_sampled"].values) == "rigorous" and str(found["label_delta_max"].values) == "heuristic"
    )


def test_a_regime_that_is_not_known_is_not_applied():
    found = judged(error_model=[math.nan] * 5)
    assert math.isnan(found["delta_max_model"]) and str(found["label_delta_max_model"].values) == "not applicable"


@pytest.mark.parametrize(("states", "label"), [(np.zeros((1, 4)), "rigorous"), (None, "heuristic")])
def test_states_that_are_given_are_independent_ones(states, label):
    test = amc.SequentialTTest(0.2, 3)
    settings = {"n_pairs": 1, "replications": 1, "tune": 2, "thin": 1, "random_seed": 1, "progressbar": False}
    found = estimate_delta(FIELD, amc.Gibbs(test), states=states, **settings)
    assert str(found["label_delta_quantile"].values) == label and 0.0 <= found.attrs["seconds"] < 60.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_pairs", 0), ("replications", 0), ("replications", 0.5), ("confidence", 1.0), ("share", 0.0)],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(InvalidInputError, match=name):
        estimate_delta(FIELD, amc.Gibbs(amc.SequentialTTest(0.2, 3)), **{name: value})
