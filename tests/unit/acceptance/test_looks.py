import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from approxmcmc.acceptance.laws.looks import critical_values, look_sizes
from approxmcmc.errors import InvalidInputError


def test_the_last_equal_look_reads_what_is_left():
    assert look_sizes(12_214, 500)[[0, 1, -2, -1]].tolist() == [500, 1000, 12_000, 12_214]


def test_no_look_is_empty_when_the_batch_divides_the_data():
    assert look_sizes(2000, 500).tolist() == [500, 1000, 1500, 2000]


def test_growth_multiplies_what_each_look_adds():
    # 10, 15, round(22.5) = 22 and round(33.75) = 34 are read; the last look takes the 19 that are left.
    assert look_sizes(100, 10, growth=1.5).tolist() == [10, 25, 47, 81, 100]


@pytest.mark.parametrize("batch_size", [7, 8, 1000])
def test_a_batch_of_all_data_leaves_one_look(batch_size):
    assert look_sizes(7, batch_size, growth=2.0).tolist() == [7]


@given(n_obs=st.integers(1, 5000), batch_size=st.integers(2, 600), growth=st.floats(1.0, 1e6))
def test_looks_increase_strictly_to_all_data(n_obs, batch_size, growth):
    looks = look_sizes(n_obs, batch_size, growth)
    assert looks.dtype == np.int64
    assert looks[-1] == n_obs
    assert np.all(np.diff(looks) > 0)
    added = np.diff(looks, prepend=0)
    assert added[:-1].tolist() == [round(batch_size * growth**j) for j in range(len(looks) - 1)]
    assert added[-1] <= round(batch_size * growth ** (len(looks) - 1))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 10), "n_obs"),
        ((100, 1), "batch_size"),
        ((100, 2.5), "batch_size"),
        ((100, True), "batch_size"),
        ((100, 10, 0.9), "growth"),
        ((100, 10, math.nan), "growth"),
        ((100, 10, math.inf), "growth"),
    ],
)
def test_looks_refuse_what_makes_no_schedule(arguments, name):
    with pytest.raises(InvalidInputError, match=name):
        look_sizes(*arguments)


@pytest.mark.parametrize("epsilon", [1e-12, 0.001, 0.05, 0.3, 0.499])
def test_critical_values_invert_the_student_law(epsilon):
    from scipy.stats import t

    looks = np.array([2, 3, 50, 500, 10_000, 10_001])
    values = critical_values(looks, epsilon)
    np.testing.assert_allclose(t.sf(values, looks[:-1] - 1), epsilon, rtol=1e-9)


def test_critical_values_have_a_closed_form_with_two_terms():
    # One degree of freedom is the Cauchy law: F^{-1}(p) = tan(pi (p - 1/2)).
    assert critical_values(np.array([2, 4]), 0.2)[0] == pytest.approx(math.tan(math.pi * 0.3), rel=1e-12)


def test_normal_thresholds_are_the_same_at_every_look():
    values = critical_values(np.array([2, 100, 1000]), 0.05, thresholds="normal")
    np.testing.assert_allclose(values, 1.6448536269514722, rtol=1e-12)


def test_the_ends_of_epsilon_are_exact():
    looks = look_sizes(10, 2)
    assert np.all(critical_values(looks, 0.0) == np.inf)
    assert np.all(critical_values(looks, 0.5) == 0.0)
    assert critical_values(np.array([10]), 0.01).shape == (0,)


@pytest.mark.parametrize("epsilon", [-0.01, 0.51, math.nan])
def test_epsilon_outside_its_range_is_refused(epsilon):
    with pytest.raises(InvalidInputError, match="epsilon"):
        critical_values(look_sizes(100, 10), epsilon)


def test_unknown_thresholds_are_refused():
    with pytest.raises(InvalidInputError, match="cauchy"):
        critical_values(look_sizes(100, 10), 0.1, thresholds="cauchy")


@pytest.mark.parametrize("shape", [-0.01, 0.51, math.nan])
def test_a_boundary_shape_outside_its_range_is_refused(shape):
    with pytest.raises(InvalidInputError, match="boundary_shape"):
        critical_values(look_sizes(100, 10), 0.1, shape=shape)


@pytest.mark.parametrize(("growth", "looks"), [(1.0, [500, 1000, 1500, 2000]), (2.0, [500, 1500, 2000])])
def test_growth_is_the_factor_between_looks(growth, looks):
    assert look_sizes(2000, 500, growth).tolist() == looks
