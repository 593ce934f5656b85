"""Records that are stored once for several traces equal the recorded ones, bit by bit."""

import numpy as np
import pytest

from approxmcmc.checkpoints.tables import columns_of, with_the_trace, without_the_trace
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, SamplingResult, Variables
from approxmcmc.output import build_trace

N, M = 7, 5  # draws of a chain, and of its trace
SHAPES = {"b": (2, 2), "tau": ()}
COLUMNS = [("b", 4), ("tau", 1)]
TOUCHED, ACCEPTED = COUNT_NAMES.index("datapoints_touched"), COUNT_NAMES.index("accepted")
LP, EPSILON = VALUE_NAMES.index("lp"), VALUE_NAMES.index("epsilon")


def records(rng, dtype):
    """Return the tables of a chain: columns that the trace gets, that are one number, NaN among them, and others."""
    draws = rng.normal(size=(N, 5)) if dtype == "float64" else rng.integers(3, size=(N, 5)).astype(float)
    counts, values = np.zeros((N, len(COUNT_NAMES)), np.int64), np.full((N, len(VALUE_NAMES)), np.nan)
    counts[:, TOUCHED], counts[:, ACCEPTED + 1] = rng.integers(100, size=(2, N))
    values[:, LP], values[:, EPSILON] = rng.normal(size=(2, N))
    values[0, LP] = np.nan
    return {"draws": draws, "counts": counts, "values": values}


def trace_of(tables, dtype="float64", keep_warmup=False):
    """Return the trace of two chains, the second of which is looked at; its warm-up is that of its draws."""
    draws, counts, values = (np.stack([table[:M] + 1, table[:M]]) for table in tables.values())
    stats = {"datapoints_touched": counts[..., TOUCHED], "accepted": counts[..., ACCEPTED], "lp": values[..., LP]}
    result = SamplingResult(draws, stats, draws, stats, {}, {})
    variables = Variables(SHAPES, dtype=dtype)
    return build_trace(
        result,
        variables=variables,
        observed_data={},
        constant_data={},
        keep_warmup=keep_warmup,
        settings={"kind": "Fake"},
    )


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name].view(np.int64), other[name].view(np.int64), err_msg=name)
        assert one[name].dtype == other[name].dtype


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_what_a_trace_holds_is_not_written_and_comes_back(rng, dtype):
    tables = records(rng, dtype)
    arrays = tables | {"tuning_counts": np.arange(3)} | {f"warmup_{name}": table for name, table in tables.items()}
    trace = trace_of(tables, dtype, keep_warmup=True)
    left = without_the_trace(arrays, trace, 1, COLUMNS)
    assert [left[f"{name}_own"].shape for name in tables] == [(M, 0), (M, 1), (M, 1)]
    assert all(len(left[f"{phase}{name}_rest"]) == N - M for name in tables for phase in ("", "warmup_"))
    assert_same_bits(with_the_trace(left, trace, 1, COLUMNS), arrays)


def test_a_trace_that_differs_in_one_bit_is_not_believed(rng):
    tables = records(rng, "float64")
    trace = trace_of(tables)
    trace["posterior"]["tau"][1, 2] = np.nextafter(tables["draws"][2, 4], np.inf)
    trace["sample_stats"]["accepted"][1, 0] = 1
    left = without_the_trace(tables, trace, 1, COLUMNS)
    assert left["draws_own"].shape == (M, 1)
    assert_same_bits(with_the_trace(left, trace, 1, COLUMNS), tables)


def test_minus_zero_is_not_zero(rng):
    tables = records(rng, "float64")
    tables["draws"][1, 0], tables["draws"][:, 1] = -0.0, -0.0
    trace = trace_of({**tables, "draws": tables["draws"] + 0.0})
    left = without_the_trace(tables, trace, 1, COLUMNS)
    assert_same_bits(with_the_trace(left, trace, 1, COLUMNS), tables)


def test_variables_that_are_computed_dropped_or_transformed_are_not_taken_for_columns(rng):
    tables = records(rng, "float64")
    trace = trace_of(tables)
    assert columns_of(trace) == COLUMNS
    posterior = trace["posterior"].to_dataset()
    posterior["square"] = posterior["tau"] ** 2
    shared = posterior.rename(b="b_given").assign(simplex=posterior["b"])
    columns = [("b", 4), ("simplex", 4), ("tau", 1)]  # the last two lie beyond the table
    for changed, given in ((posterior, COLUMNS), (shared, COLUMNS), (shared, columns)):
        trace["posterior"] = changed
        left = without_the_trace(tables, trace, 1, given)
        assert_same_bits(with_the_trace(left, trace, 1, given), tables)


def test_no_draws_at_all():
    tables = {name: table[:0] for name, table in records(np.random.default_rng(0), "float64").items()}
    trace = trace_of(tables)
    assert_same_bits(with_the_trace(without_the_trace(tables, trace, 1, COLUMNS), trace, 1, COLUMNS), tables)
