"""A whole run under the umasks that systems give their users: what it writes, the next process reads and uses again."""

import functools
import hashlib
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.compiler.compilations import compiled_so_far
from approxmcmc.engine.files import mapped_files, paths
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import CacheWarning, InvalidInputError
from approxmcmc.sources import ZarrArray

REPOSITORY = Path(__file__).parents[2]
UMASKS = {"group": 0o002, "readers": 0o022, "private": 0o077, "all": 0o000}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the system has no umask")


def loglik(theta, data, i):
    return -0.5 * (data[0][i, 0] - theta[0]) ** 2


def logprior(theta):
    return -0.5 * theta[0] ** 2


def whole_path(folder):
    """Sample from rows of a source, with files for rows, checkpoint and trace; return a hash of the draws.

    This user's group has another member, so no file counts as written by a private group.
    """
    import zarr

    if not (folder / "x").exists():
        x = zarr.create_array(str(folder / "x"), shape=(200, 1), chunks=(50, 1), dtype="f8")
        x[:] = np.random.default_rng(0).normal(size=(200, 1))
    shared = SimpleNamespace(gr_name="staff", gr_mem=["colleague"])
    with mock.patch.object(paths.grp, "getgrgid", return_value=shared):
        mapped_files._checked.clear()
        rows = ZarrArray(folder / "x", ["a"])
        target = amc.FunctionTarget(loglik, logprior, data=(rows,), n_obs=200, dim=1)
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest())
        settings = {"draws": 50, "tune": 10, "chains": 1, "random_seed": 1, "progressbar": False}
        if (folder / "run.nc").exists():  # of the process before
            draws = amc.load(folder / "run.nc")["posterior"]["theta"].to_numpy()
            (folder / "run.nc").unlink()
            trace = amc.sample(target, sampler, checkpoint=folder / "run.nc", **settings)
            np.testing.assert_array_equal(trace["posterior"]["theta"], draws)
        trace = amc.sample(target, sampler, checkpoint=folder / "run.nc", **settings)
        amc.save(trace, folder / "trace.nc")
        loaded = amc.load(folder / "trace.nc")
    return hashlib.sha256(loaded["posterior"]["theta"].to_numpy().tobytes()).hexdigest()


def files_in(cache):
    """Return the files of a cache, with the time at which each was written."""
    return {path.relative_to(cache): path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}


@pytest.fixture
def umask(request):
    """Set the umask of this process."""
    before = os.umask(UMASKS[request.param])
    yield
    os.umask(before)


@pytest.mark.thorough
@pytest.mark.parametrize("umask", UMASKS, indirect=True)
def test_what_a_run_wrote_is_read_again(tmp_path, umask, monkeypatch):
    monkeypatch.setenv(paths.CACHE_VARIABLE, str(tmp_path / "cache"))
    draws = whole_path(tmp_path)
    written = files_in(tmp_path / "cache")
    assert "laid_out_rows" in {path.parts[0] for path in written}
    assert whole_path(tmp_path) == draws
    assert files_in(tmp_path / "cache") == written


@pytest.mark.parametrize("umask", ["group"], indirect=True)
def test_a_planted_file_that_follows_the_umask_is_refused(tmp_path, umask, monkeypatch):
    monkeypatch.setenv(paths.CACHE_VARIABLE, str(tmp_path / "cache"))

    def without_a_mode(*arguments, private, **options):
        return whole_file(*arguments, **options)

    monkeypatch.setattr(mapped_files, "whole_file", functools.wraps(whole_file)(without_a_mode))
    with pytest.raises(InvalidInputError, match=r"other users may write to .*laid_out_rows"):
        whole_path(tmp_path)


def of_a_new_process(folder, umask):
    """Return the number of kernels that a process with this umask compiled, and the hash of its draws."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), paths.CACHE_VARIABLE: str(folder / "cache")}
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, umask=umask)
    assert done.returncode == 0, done.stderr
    kernels, draws = done.stdout.split()
    return int(kernels), draws


@pytest.mark.needs_jit
@pytest.mark.recompiles
def test_the_kernels_of_a_run_are_kept(tmp_path):
    compiled, draws = of_a_new_process(tmp_path, UMASKS["group"])
    written = files_in(tmp_path / "cache")
    assert compiled > 0
    assert {path.parts[0] for path in written} >= {"kernels", "laid_out_rows"}
    assert of_a_new_process(tmp_path, UMASKS["group"]) == (0, draws)
    assert files_in(tmp_path / "cache") == written


if __name__ == "__main__":
    warnings.simplefilter("error", CacheWarning)
    hash_of_draws = whole_path(Path(sys.argv[1]))
    sys.stdout.write(f"{compiled_so_far().kernels} {hash_of_draws}")
