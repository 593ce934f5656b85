"""CSV files as CmdStan writes them: comments, warm-up, records, arrays, seconds; damaged and other files."""

import re

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.errors import ApproxMCMCWarning, InvalidInputError
from tests.fakes import fake_trace
from tests.studies.toys import ToyTarget

HEAD = """# stan_version_major = 2
# stan_version_minor = 36
# model = regression_model
# method = sample (Default)
#   sample
#     num_samples = 4
#     num_warmup = 2
#     save_warmup = true
#     thin = 1 (Default)
#     adapt
#       engaged = true (Default)
# id = 1
# output
#   file = chain_1.csv
"""
NAMES = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,mu,L.1.1,L.2.1,L.1.2,L.2.2,z.real"
WARMUP = "-9,0.1,2,1,1,1,9,99,99,99,99,99,99"
ADAPTED = """# Adaptation terminated
# Step size = 0.82
# Diagonal elements of inverse mass matrix:
# 1.1, 0.9, 1, 1, 1
"""
END = """# 
#  Elapsed Time: 0.5 seconds (Warm-up)
#                8 seconds (Sampling)
#                8.5 seconds (Total)
# 
"""  # noqa: W291 (CmdStan writes these spaces)
LEAPFROGS = [1, 3, 1, 3]


def rows(first=0.0):
    return [f"-{k},0.9,0.82,2,{n},{k % 2},{k},{first + k},11,21,12,22,nan" for k, n in enumerate(LEAPFROGS)]


def written(path, *, first=0.0, names=NAMES, draws=None, head=HEAD, end=END):
    path.write_text("\n".join([head.strip(), names, WARMUP, WARMUP, ADAPTED.strip(), *(draws or rows(first)), end]))
    return path


def test_draws_after_the_warmup_with_their_records_and_seconds(tmp_path):
    trace = amc.as_trace(written(tmp_path / "chain_1.csv"))
    posterior = trace["posterior"]
    stats = trace["sample_stats"]
    assert list(posterior.data_vars) == ["mu", "L", "z.real"]
    assert posterior["mu"].values.tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert posterior["L"].values[0, 0].tolist() == [[11.0, 12.0], [21.0, 22.0]]
    assert stats["lp"].values.tolist() == [[0.0, -1.0, -2.0, -3.0]]
    assert stats["diverging"].values.tolist() == [[False, True, False, True]]
    assert stats["perf_counter_diff"].values.tolist() == [[1.0, 3.0, 1.0, 3.0]]  # 8 s by leapfrog steps
    assert stats.attrs["tuning_perf_counter_diff"] == [0.5]


def test_files_are_chains_and_given_seconds_replace_those_of_the_files(tmp_path):
    files = [written(tmp_path / f"chain_{k}.csv", first=10.0 * k) for k in range(3)]
    trace = amc.as_trace(files, seconds=[4.0, 4.0, 16.0])
    assert trace["posterior"]["mu"].values[:, 0].tolist() == [0.0, 10.0, 20.0]
    assert trace["sample_stats"]["perf_counter_diff"].sum("draw").values.tolist() == [4.0, 4.0, 16.0]
    assert amc.as_trace(files)["sample_stats"].attrs["tuning_perf_counter_diff"] == [0.5, 0.5, 0.5]


def test_files_are_judged_like_other_traces(tmp_path):
    names = NAMES.replace("mu,L.1.1,L.2.1,L.1.2,L.2.2,z.real", "beta.1,beta.2")
    draws = [re.sub(r",11,.*", ",0.5", row) for row in rows()]
    files = [written(tmp_path / f"{k}.csv", names=names, draws=draws) for k in range(2)]
    reference = fake_trace(np.random.default_rng(0).normal(size=(4, 400, 2)), name="beta")
    curves = amc.risk([str(file) for file in files], reference, n_bootstrap=10, grid=[8.5])
    expected = (1.5 - reference["posterior"]["beta"].values[..., 0].mean()) ** 2
    assert int(curves["n_replicates"]) == 2
    assert curves["risk"].values[0, 0] == pytest.approx(expected, abs=0.01)
    assert amc.as_trace(files[0], ToyTarget())["posterior"]["beta"].shape == (1, 4, 2)


@pytest.mark.parametrize("cut", ["-3,0.9,0.82,2", ""])
def test_a_run_that_was_stopped_is_read_with_a_warning(tmp_path, cut):
    with pytest.warns(ApproxMCMCWarning, match="3 draws after the warm-up, of 4, were read"):
        trace = amc.as_trace(written(tmp_path / "1.csv", draws=[*rows()[:3], cut], end=""))
    assert trace["posterior"].sizes["draw"] == 3
    assert "perf_counter_diff" not in trace["sample_stats"]


def test_a_row_without_an_end_is_no_draw(tmp_path):
    """Its last number may be cut off, which nothing else shows."""
    path = written(tmp_path / "1.csv", end="")
    path.write_text(path.read_text()[:-2])
    with pytest.warns(ApproxMCMCWarning, match="3 draws after the warm-up, of 4, were read"):
        assert amc.as_trace(path)["posterior"].sizes["draw"] == 3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"head": HEAD.replace("sample (Default)", "optimize")}, "found the method 'optimize'"),
        ({"names": "mu,sigma", "head": ""}, r"found the method 'unknown' and the columns \['mu', 'sigma'\]"),
        ({"names": NAMES.replace("L.2.2", "mu.3")}, "one for each place; found"),
        ({"draws": [rows()[0], "1,2", rows()[1]]}, "needs 13 numbers, one for each name; found 2"),
        ({"draws": [rows()[0].replace("0.82", "x")]}, "1.csv' need numbers; could not convert string to float: 'x'"),
    ],
)
def test_what_is_no_file_of_draws_is_refused(tmp_path, changed, words):
    with pytest.raises(InvalidInputError, match=words):
        amc.as_trace(written(tmp_path / "1.csv", **changed))
